"""Other names for dims than a file has: those that are given, and the batch of what nobody named.

>>> [made_up(name) for name in ("unk__17", "DynamicDimension.0", "seq", "s0")]
[True, True, False, False]
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

from mccompile.ir.dims import identifier
from mccompile.ir.errors import UsageError
from mccompile.onnxio import OnnxGraph, OnnxValue

BATCH = "batch"
"""What the first axis of all inputs may be called where the file has no name for it, or one that is made up."""


def made_up(name: str) -> bool:
    """Whether an exporter numbered the axis, for nobody had named it: tf2onnx and paddle2onnx, who number equal ones
    anew. Of torch's, s0 and s1, those are the same that are equal."""
    return name[-1:].isdigit() and re.fullmatch(r"s\d+", name) is None


def is_name(extent: object) -> bool:
    """Whether an element of a shape is a name, not what is computed of some."""
    return isinstance(extent, str) and re.fullmatch(r"[^\W\d]\w*", extent) is not None


def names_of(inputs: Sequence[OnnxValue]) -> list[str]:
    """The names of dims, sorted."""
    return sorted({dim for value in inputs for dim in value.shape or () if isinstance(dim, str)})


def rename_dims(graph: OnnxGraph, dims: Collection[str], shapes: Mapping[str, Sequence[int | str]]) -> OnnxGraph:
    """The graph with the names that ``shapes`` give to dims of the inputs which have other ones, and with ``batch``
    for first axes without a name or with one that is made up, if ``dims`` has that. UsageError for two names."""
    known = {word for name in names_of(graph.inputs) for word in (name, identifier(name))}
    new: dict[str, str] = {}
    for value in graph.inputs:
        for axis, (dim, given) in enumerate(zip(value.shape or (), shapes.get(value.name, ()), strict=False)):
            name = str(given)
            if isinstance(dim, int | None) or not is_name(given) or name in known:
                continue
            if new.setdefault(dim, name) != name:
                raise UsageError(f"axis {axis} of input '{value.name}' is '{dim}', which is called '{new[dim]}' "
                                 f"and '{name}'", hint="give it one name")  # fmt: skip
    firsts = first_axes(graph.inputs)
    batch = BATCH in dims and BATCH not in {*known, *new.values()} and not firsts & {*dims, *new}
    if batch:
        new |= {name: BATCH for name in firsts if name}
    if not new and not batch:
        return graph

    def named(value: OnnxValue) -> OnnxValue:
        shape = value.shape and tuple(new.get(d, d) if isinstance(d, str) else d for d in value.shape)
        return dataclasses.replace(value, shape=shape)

    inputs = list(map(named, graph.inputs))
    if batch and None in firsts:
        inputs = [dataclasses.replace(v, shape=(v.shape[0] or BATCH, *v.shape[1:])) for v in inputs if v.shape]
    return dataclasses.replace(
        graph,
        inputs=inputs,
        outputs=list(map(named, graph.outputs)),
        value_info={name: named(value) for name, value in graph.value_info.items()},
    )


def first_axes(inputs: Sequence[OnnxValue]) -> set[str | None]:
    """What the first axes of all inputs are called, if that is nothing, or names that are made up and that no other
    axis has: they may be the batch. No names otherwise."""
    if not all(value.shape for value in inputs):
        return set()
    firsts = {value.shape[0] for value in inputs if value.shape}
    others = {dim for value in inputs for dim in (value.shape or ())[1:] if dim is not None}
    found = {dim for dim in firsts if dim is None or (isinstance(dim, str) and made_up(dim))}
    return found if found == firsts and not found & others else set()
