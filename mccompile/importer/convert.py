"""A prepared model as a graph: its inputs, its nodes, its outputs; and once more with what outputs tell of inputs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mccompile.importer.bounded import require_value
from mccompile.importer.bounds import require_known
from mccompile.importer.empty import without_empty_operands
from mccompile.importer.nodes import Converter
from mccompile.importer.outputs import bind_outputs, keep_names, ports
from mccompile.importer.ports import packed, port_type, unpacked
from mccompile.importer.prepare import Prepared, not_tensors
from mccompile.importer.refusals import joined
from mccompile.importer.solved import Unknown, equations, solve
from mccompile.ir.dims import symbols
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.limits import sketched
from mccompile.ir.names import Names
from mccompile.ir.types import DTYPES, TensorType
from mccompile.onnxio import OnnxValue
from mccompile.ops.held import HELD_IN
from mccompile.ops.stated import Stated
from mccompile.ops.text import TEXT_BYTES


def convert(
    prepared: Prepared, name: str, bounds: Mapping[str, int] | None = None, text_bytes: int = TEXT_BYTES,
    taken: set[str] | None = None,
) -> Graph:
    """The graph of a prepared model.

    ``bounds``: the most that extents which are found out at run time may be; ``text_bytes``: what each element of
    an input that is text may take; ``taken``: the names of extents which are found out at run time, to which this
    graph adds its own.

    Raises one CompileError that names every node it cannot convert.
    """
    bounds, taken = bounds or {}, set() if taken is None else taken
    try:
        return _converted(prepared, name, bounds, text_bytes, {}, taken)
    except CompileError as e:
        told = _told_by_outputs(prepared, name, bounds, text_bytes)
        if not told:
            raise
        try:
            return _converted(prepared, name, bounds, text_bytes, told, taken)
        except CompileError:
            raise e from None  # it speaks of the model as it is


def _converted(
    prepared: Prepared, name: str, bounds: Mapping[str, int], text_bytes: int, told: Mapping[str, Unknown],
    taken: set[str],
) -> Graph:  # fmt: skip
    """The graph, with the elements that inputs are ``told`` to have; its extents' names are added to ``taken``."""
    source = prepared.model.graph
    converter = _walked(prepared, name, bounds, text_bytes, told, taken)
    graph = converter.graph
    plain = [v for v in source.outputs if v.dtype not in ("sequence", "optional")]
    converter.errors += [CompileError(rule) for rule in not_tensors("output", plain)]
    if converter.errors:
        raise joined(converter.errors)
    keep_names(graph, source.nodes, converter.values)
    strange = [n for n in bounds if n not in converter.stated.asked]
    require_known(strange, prepared)
    prepared.notes.extend(f"nothing asks for the bound {n!r}" for n in strange)
    prepared.notes.extend(prepared.draws.notes)
    for output in source.outputs:
        known = converter.values[output.name]
        if isinstance(known, Value) and (kind := _port_kind(output, converter.narrow.get(known, ""))):
            converter.values[output.name] = packed(graph, known, kind, output.name)
    names = [v.name for v in source.outputs]
    _require_own_names(graph, names, [name for name, _ in ports(converter.values, names)])
    bind_outputs(graph, converter.values, names)
    graph.reserve(o for node in source.nodes for o in node.outputs if o)
    graph.remove_dead()
    without_empty_operands(graph)
    untold = {name for unknown in told.values() for name in unknown.names}
    if not untold.isdisjoint(s.name for node in graph.nodes for s in symbols(*node.numbers())):
        raise CompileError("shapes depend on inputs of which the outputs do not tell enough")
    graph.verify()
    taken.update(converter.stated.taken)
    return graph


def _require_own_names(graph: Graph, outputs: Sequence[str], tensors: Sequence[str]) -> None:
    """CompileError where a tensor of a sequence has the name of another output, or of an input.

    Of a sequence ``s`` the first tensor is ``s_0``, which nothing else may be called.
    """
    inputs = {v.name for v in graph.inputs}
    for name, count in Counter(tensors).items():
        if count > 1 or (name not in outputs and name in inputs):
            raise CompileError(
                f"{name!r} is the name of a sequence's tensor and of another {'output' if count > 1 else 'input'}",
                hint="give the sequence another name",
            )


def _walked(
    prepared: Prepared, name: str, bounds: Mapping[str, int], text_bytes: int, told: Mapping[str, Unknown],
    taken: Collection[str] = (),
) -> Converter:  # fmt: skip
    """The state behind the last node."""
    source, graph = prepared.model.graph, Graph(name)
    dtypes = {v.name: v.dtype for v in (*source.value_info.values(), *source.outputs)}
    words = prepared.words.values()
    stated = Stated(dict(prepared.declared), bounds, taken=set(taken), given=words, dtypes=dtypes)
    converter = Converter(graph, notes=prepared.notes, stated=stated, names=Names(prepared.names))
    converter.draws = prepared.draws
    converter.draws.begin(graph)
    for given in prepared.inputs:
        value = graph.value(given.name, _tensor_type(given, text_bytes))
        require_value(value, "input")
        graph.inputs.append(value)
        converter.values[given.name] = held_value = _readable(graph, value, given)
        if given.dtype in HELD_IN:
            converter.narrow[held_value] = given.dtype
        if given.name in told:
            converter.values[given.name] = elements = told[given.name].required(graph, value)
            if told[given.name].names:
                converter.varying[elements] = told[given.name].elements
    converter.define_constants(source)
    converter.run(source.nodes)
    return converter


def _told_by_outputs(
    prepared: Prepared, name: str, bounds: Mapping[str, int], text_bytes: int
) -> dict[str, Unknown]:
    """What the elements of inputs are by the shapes that the model states of its outputs."""
    unknown = {v.name: u for v in prepared.inputs if (u := Unknown.of(v)) is not None}
    if not unknown:
        return {}
    with sketched():
        trial = _walked(dataclasses.replace(prepared, notes=[]), name, bounds, text_bytes, unknown)
    outputs = {v.name: trial.values.get(v.name) for v in prepared.model.graph.outputs}
    stated = prepared.declared
    solved = solve(
        equations((v.shape, stated[n]) for n, v in outputs.items() if isinstance(v, Value) and n in stated)
    )
    return {n: u.with_known(solved) for n, u in unknown.items() if not u.names.isdisjoint(solved)}


def _port_kind(output: OnnxValue, found: str) -> str:
    """The type that an output has in files alone, as the model states it, else as it was ``found``."""
    if output.dtype == "string" != found:
        raise CompileError(f"output {output.name!r} is of type string, but made of numbers")
    return output.dtype if output.dtype in HELD_IN else found


def _readable(graph: Graph, port: Value, given: OnnxValue) -> Value:
    """What nodes read of an input. What has no elements is known, so that whatever reads it folds."""
    shape = _shape(given)
    if 0 in shape and not port.type.varies:
        dtype = np.dtype(HELD_IN[given.dtype]) if given.dtype in HELD_IN else port.dtype.numpy
        held_shape = port.shape if given.dtype == "string" else shape
        return graph.constant(f"{given.name}.empty", np.zeros(held_shape, dtype))
    return unpacked(graph, port, given.dtype, shape) if given.dtype in HELD_IN else port


def _tensor_type(value: OnnxValue, text_bytes: int) -> TensorType:
    if value.dtype in HELD_IN:
        return port_type(value.dtype, _shape(value), text_bytes)
    if value.dtype not in DTYPES:
        raise CompileError(f"input {value.name!r} of element type {value.dtype} is not supported")
    return TensorType(DTYPES[value.dtype], _shape(value))


def _shape(value: OnnxValue) -> tuple[int, ...]:
    return tuple(e for e in value.shape or () if isinstance(e, int))
