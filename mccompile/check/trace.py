"""Layer by layer: what each step of the generated code leaves behind, against the ONNX values of the same name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.compare import Comparison
from mccompile.check.factors import Factors
from mccompile.check.reference import Expected
from mccompile.ir.names import own_names
from mccompile.ir.types import DTYPES
from mccompile.run.library import Hooks
from mccompile.run.memory import Array
from mccompile.run.network import Network
from mccompile.run.noise import json_number

MAX_NAMES = 100
"""Characters of the names of a step's nodes, in a line."""

_HERE = Path(__file__).parent

TRACE_HOOKS = Hooks(
    header=_HERE / "trace_hooks.h",
    sources=(_HERE / "trace_hooks.c",),
    cdef="""typedef struct {
        const void *data; void *copy; size_t bytes; unsigned step; unsigned hits;
    } mcc_trace_slot;
    void mcc_trace_into(mcc_trace_slot *, size_t);""",
)
"""Networks that `capture` runs are built with these."""


@dataclass(frozen=True)
class Layer:
    """One value of the ONNX model that the generated code computes, too: after ``step`` it is complete.

    ``nodes`` are the ONNX nodes that the step does, several if they were fused.
    """

    step: int
    kernel: str
    nodes: tuple[str, ...]
    comparison: Comparison

    @property
    def name(self) -> str:
        """The value's ONNX name."""
        return self.comparison.name

    def text(self) -> str:
        return f"{self.name} (@{self.step} {self.kernel}: {own_names(self.nodes, MAX_NAMES)})"

    def to_json(self) -> dict[str, Any]:
        place = {"step": self.step, "kernel": self.kernel, "nodes": list(self.nodes)}
        return place | self.comparison.to_json()


@dataclass(frozen=True)
class Trace:
    """The layers in the order in which they are complete; ``skipped`` names those that have no counterpart of the
    same kind and number of elements in the reference, or that no step made in this run, ``unsure`` those that differ,
    and are made of an integer or a mask that floats have decided otherwise, as they may: a row that it picks is
    another one."""

    layers: tuple[Layer, ...]
    skipped: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return all(layer.comparison.ok for layer in self.layers)

    @property
    def first(self) -> Layer | None:
        """The first diverging layer: what diverges later may only follow from it."""
        return next((layer for layer in self.layers if not layer.comparison.ok), None)

    @property
    def worst(self) -> Layer | None:
        """The layer furthest out of tolerance, or nearest to its limit if none is out."""
        return max(self.layers, key=lambda layer: layer.comparison.ratio, default=None)

    def to_json(self) -> dict[str, Any]:
        first, worst = self.first, self.worst
        return {
            "ok": self.ok,
            "first": first.name if first else None,
            "worst": worst.name if worst else None,
            "worst_ratio": json_number(worst.comparison.ratio) if worst else 0.0,
            "layers": [layer.to_json() for layer in self.layers],
            "skipped": list(self.skipped),
            "unsure": list(self.unsure),
        }


def writers(report: Mapping[str, Any]) -> dict[str, list[int]]:
    """The steps that write each tensor, in the order of the last of these.

    >>> writers({"steps": [{"writes": ["y"]}, {"writes": ["t"]}, {"writes": ["y"]}]})
    {'t': [1], 'y': [0, 2]}
    """
    found: dict[str, list[int]] = {}
    for step, done in enumerate(report["steps"]):
        for name in done["writes"]:
            found[name] = [*found.pop(name, ()), step]
    return found


def _needed(report: Mapping[str, Any]) -> set[str]:
    """What the caller gets, or another step reads. Rows that a loop stacks for nobody have memory for its last turn
    only."""
    read = {name for done in report["steps"] for name in done["reads"]}
    return read | {port["name"] for port in (*report["outputs"], *report.get("state", ()))}


def _with_holes(report: Mapping[str, Any]) -> set[str]:
    """Tensors of which steps write a part only: who reads the rest of a join reads what would have been copied there.

    >>> steps = [{"writes": ["y"], "written_bytes": 16}, {"writes": ["z"], "written_bytes": 16}]
    >>> view = {"dtype": "f32", "shape": [2, 3]}
    >>> sorted(_with_holes({"steps": steps, "tensors": {"y": view, "z": view | {"shape": [4]}}}))
    ['y']
    """
    found: set[str] = set()
    for name, made in writers(report).items():
        view = report["tensors"].get(name)
        if view is not None:
            whole = math.prod(view["shape"]) * DTYPES[view["dtype"]].nbytes
            steps = [report["steps"][i] for i in made]
            if sum(step["written_bytes"] * step.get("turns", 1) for step in steps) < whole:
                found.add(name)
    return found


def _tensors(report: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """What steps may write: the arena's tensors, and the outputs that are the caller's."""
    yield from report["memory"]["tensors"]
    for port in report["outputs"]:
        if port.get("space") == "caller":
            size = math.prod(port["shape"]) * DTYPES[port["dtype"]].nbytes
            yield {**port, "bytes": size}


@dataclass(frozen=True)
class Kept:
    """A tensor as it was when it was complete: after ``step``, the last of those that write it to be made."""

    step: int
    array: Array


def capture(network: Network, inputs: Mapping[str, Array], names: Iterable[str]) -> dict[str, Kept]:
    """Run once and keep each named tensor as it is when it is complete, in its logical shape.

    What the two branches of an If write is complete after a step of either: each step that writes a tensor has a slot
    of its own, and all of them share the copy. What only conditional steps write is left out where none was made, and
    what has another shape in any run than the report says (`logical`).

    Args:
        network: built with `TRACE_HOOKS`.
        inputs: by ONNX name.
        names: tensors of the report that steps write; later steps may reuse their memory.

    Raises:
        CompileError: as `Network.run`.
        RuntimeError: a step did not report what report.json says it writes.
    """
    every, steps = writers(network.report), network.report["steps"]
    sizes = {t["name"]: t for t in _tensors(network.report)}
    wanted = list(names)
    copies = {name: np.zeros(sizes[name]["bytes"], np.uint8) for name in wanted}
    pairs = [(name, step) for name in wanted for step in every[name]]
    slots = network.ffi.new("mcc_trace_slot[]", max(len(pairs), 1))
    for slot, (name, step) in zip(slots, pairs, strict=False):
        slot.data = network.pointer(network.tensor_bytes(sizes[name]))
        slot.copy = network.pointer(copies[name])
        slot.bytes = sizes[name]["bytes"]
        slot.step = step
    network.set_inputs(inputs)
    network.lib.mcc_trace_into(slots, len(pairs))
    try:
        network.invoke()
    finally:
        network.lib.mcc_trace_into(network.ffi.NULL, 0)
    last: dict[str, int] = {}
    missed: list[str] = []
    for slot, (name, step) in zip(slots, pairs, strict=False):
        if slot.hits:
            last[name] = step
        elif not steps[step].get("conditional"):
            missed.append(name)
    if missed:
        raise RuntimeError(f"steps of {network.name}.c did not report {', '.join(dict.fromkeys(missed))}")
    found: dict[str, Kept] = {}
    for name, step in last.items():
        array = logical(copies[name], network.report["tensors"][name])
        if array is not None:
            found[name] = Kept(step, array)
    return found


def logical(raw: Array, view: Mapping[str, Any]) -> Array | None:
    """The elements of a view in the report (strides, factors, offset) from its buffer's bytes, in logical shape.

    A halo is left out, as is the tail of a blocked axis. None where the extents of the run, which the report has the
    largest of, are never so large together: a buffer of [n, 4 - n] has 16 bytes, and [4, 3] elements do not fit.
    """
    elements = raw.view(DTYPES[view["dtype"]].numpy)
    shape = view["shape"]
    index = np.full([1] * len(shape), view["offset"], np.int64)
    for (axis, div, mod), stride in zip(view["factors"], view["strides"], strict=True):
        position = np.arange(shape[axis]) // div
        steps = (position % mod if mod else position) * stride
        index = index + steps.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    if index.size and index.max() >= elements.size:
        return None
    return np.asarray(elements[index]).reshape(shape)


PLAIN = Factors()


def trace(
    network: Network, inputs: Mapping[str, Array], expected: Expected, factors: Callable[[str], float] = PLAIN
) -> Trace:
    """Run once and compare every tensor whose name the reference knows.

    Args:
        network: built with `TRACE_HOOKS`.
        expected: outputs and as many inner values as there are.
        factors: of the tolerance rule, by name.
    """
    needed = _needed(network.report)
    if not network.extents:  # of which the report has the largest alone
        needed -= _with_holes(network.report)
    names = [name for name in writers(network.report) if name in expected.values and name in needed]
    found = capture(network, inputs, names)
    layers: list[Layer] = []
    skipped: list[str] = []
    for name in names:
        want = expected.values[name]
        kept = found.get(name)
        got = None if kept is None else _as_reference(kept.array, want)
        if kept is None or got is None:
            skipped.append(name)
            continue
        step = network.report["steps"][kept.step]
        comparison = expected.compared(name, got, factors(name))
        layers.append(Layer(kept.step, step["kernel"], tuple(step["onnx"]), comparison))
    moved = {layer.name for layer in layers if layer.comparison.near}  # and what has no counterpart may be so, too
    behind = _made_of(network.report, moved.union(filter(expected.may_differ, skipped)))
    unsure = [layer for layer in layers if not layer.comparison.ok and layer.name in behind]
    told = sorted((layer for layer in layers if layer not in unsure), key=lambda layer: layer.step)
    return Trace(tuple(told), tuple(skipped), tuple(layer.name for layer in unsure))


def _made_of(report: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """All that steps make of these tensors, in the order of the steps.

    >>> _made_of({"steps": [{"reads": ["i"], "writes": ["f"]}, {"reads": ["x"], "writes": ["y"]}]}, ["i"])
    {'f'}
    """
    moved, found = set(names), set[str]()
    for done in report["steps"]:
        if not moved.isdisjoint(done["reads"]):
            found.update(done["writes"])
            moved.update(done["writes"])
    return found


def _as_reference(got: Array, want: Array) -> Array | None:
    """``got`` in the shape and element type of ``want``, or None where that is another kind of thing.

    A buffer has the name of the first of the values that are reshapes of each other, but the shape of any; and
    inside the graph integers may be narrower, floats wider than in the model.
    """
    kinds = {"i": "int", "u": "int", "f": "float", "b": "bool"}
    if got.size != want.size or kinds.get(got.dtype.kind) != kinds.get(want.dtype.kind, "other"):
        return None
    with np.errstate(over="ignore"):  # beyond what f16 holds
        return got.reshape(want.shape).astype(want.dtype)
