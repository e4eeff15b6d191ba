"""Bytes at the borders of a quantised network: QuantizeLinear behind an input, DequantizeLinear before an output.

Worked example: an input that is quantised at once, and an output that is dequantised at last::

    graph @g(%x: f32[4]) {                                     graph @g(%x: u8[4]) {
      %q = map(%x) {expr={u8((rne((x0 / 0.5)) + 3.0))}}          ...
      ...                                                        %y = ...
      %y = map(%p) {expr={(f32(i32(x0)) * 0.25)}}                return %y
      return %y

What only moves elements between a border and the quantisation moves bytes instead. A quantisation is found by what it
computes: each element of the type, made a number, has to come back as it was, and so has what is next to it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.interface.tensors import Quantisation
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import DType, TensorType
from mccompile.ops.map import Map
from mccompile.passes.analysis.forms import quantising_form
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.quantised import quantised

_STORED = ("i8", "u8", "i16", "u16")


def find_quantised(graph: Graph) -> dict[str, Quantisation]:
    """The inputs and outputs of integers whose scale the network says: those that all readers dequantise alike, and
    those that are quantised."""
    found: dict[str, Quantisation] = {}
    for v in graph.inputs:
        border = _input_border(graph, v) if v.dtype.name in _STORED else None
        if border is not None:
            found[v.name] = border.quantisation
    for v in graph.outputs:
        known = _output_quantisation(graph, v) if v.dtype.name in _STORED else None
        if known is not None:
            found[v.name] = known
    return found


@dataclass
class Kept:
    """Float inputs and outputs that are bytes now: the ``types`` that they had, and what their elements stand for;
    with a note for each that stays as it was."""

    types: dict[str, TensorType] = field(default_factory=dict)
    quantised: dict[str, Quantisation] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def keep_quantised(graph: Graph, leave: Container[str]) -> Kept:
    """Let float inputs and outputs be the bytes that they are made, or made of, but for those in ``leave``."""
    kept = Kept()
    for role, values in (("input", list(graph.inputs)), ("output", list(graph.outputs))):
        for v in values:
            if not v.dtype.is_float or v.name in leave:
                continue
            name, type_ = v.name, v.type
            border = _input_border(graph, v) if role == "input" else _output_border(graph, v)
            if border is None:
                why = "its readers do not quantise it, alike" if role == "input" else "it is not dequantised at last"
                kept.notes.append(f"{role} {name!r} stays {type_.dtype}: {why}")
                continue
            kept.types[name], kept.quantised[name] = type_, border.quantisation
            if role == "input":
                _drop_input(graph, v, border)
            else:
                _drop_output(graph, v, border)
    graph.remove_dead()
    graph.verify()
    return kept


@dataclass(frozen=True)
class _Border:
    """What is between a border and its quantisation: ``moved`` nodes, and the ``ends`` that (de)quantise."""

    dtype: DType
    quantisation: Quantisation
    moved: tuple[Node, ...]
    ends: tuple[Node, ...]


def _is_movement(node: Node) -> bool:
    """Whether a node only moves the elements of its one operand."""
    plain = not node.pre and not node.post and not node.extras
    return plain and moves(node.op) and node.op.background is None and len(node.operands) == 1


def _input_border(graph: Graph, v: Value) -> _Border | None:
    """The quantisation behind an input of floats, or the dequantisation behind one of integers."""
    users = graph.users()
    moved: list[Node] = []
    ends: list[Node] = []
    waiting = [v]
    while waiting:
        value = waiting.pop()
        if value in graph.outputs:
            return None
        for node in users.get(value, ()):
            if _is_movement(node):
                moved.append(node)
                waiting += node.results
            else:
                ends.append(node)
    found = [(_quantises if v.dtype.is_float else _dequantises)(graph, node) for node in ends]
    first = found[0] if found else None
    if first is None or any(f is None or f[:3] != first[:3] for f in found):
        return None
    dtype, scale, zero, name = first
    tensor = name if v.dtype.is_float else v.name
    return _Border(dtype, Quantisation(scale, zero, tensor), tuple(moved), tuple(ends))


def _output_border(graph: Graph, v: Value) -> _Border | None:
    """The dequantisation before an output of floats."""
    producers, users = graph.producers(), graph.users()
    moved: list[Node] = []
    value = v
    while (node := producers.get(value)) is not None and _is_movement(node) and len(node.results) == 1:
        moved.append(node)
        operand = node.operands[0]
        assert operand is not None
        value = operand
    known = None if node is None else _dequantises(graph, node)
    readers = sum(len(users.get(n.result, ())) + (n.result in graph.outputs) for n in moved)
    if node is None or readers > len(moved):  # somebody else reads the moved floats
        return None
    if known is None:
        return None
    dtype, scale, zero, _ = known
    source = next(x for x in node.operands if x is not None and x.dtype == dtype)
    return _Border(dtype, Quantisation(scale, zero, source.name), tuple(moved), (node,))


def _output_quantisation(graph: Graph, v: Value) -> Quantisation | None:
    """What the elements of an output of integers stand for."""
    producers = graph.producers()
    value = v
    while (node := producers.get(value)) is not None and _is_movement(node):
        operand = node.operands[0]
        assert operand is not None
        value = operand
    known = None if node is None else _quantises(graph, node)
    return None if known is None else Quantisation(known[1], known[2], v.name)


def _quantises(graph: Graph, node: Node) -> tuple[DType, float, int, str] | None:
    """Type, scale, zero point and result of a map that quantises with one scale; None if a node is no such."""
    if node.op.elementwise is None or node.pre or node.post or node.result.dtype.name not in _STORED:
        return None
    varying = [i for i, v in enumerate(node.operands) if v not in graph.constants]
    known = [v for v in node.operands if v in graph.constants]
    body = node.op.elementwise
    if len(varying) != 1 or any(v is None or v.type.count != 1 for v in known) or not isinstance(body, ex.Convert):
        return None
    (at,) = varying
    source = node.operands[at]
    if source is None or source.shape != node.result.shape:
        return None
    read = [None if v not in graph.constants else graph.array(v).reshape(()) for v in node.operands if v is not None]
    form = quantising_form(body, at, lambda i: read[i])
    if isinstance(form, str) or len(form.terms) != 1:
        return None
    with np.errstate(all="ignore"):
        scale = np.float32(1 / next(iter(form.terms.values())))
    dtype = node.result.dtype
    info = np.iinfo(dtype.numpy.name)
    zero = np.rint(form.offset)
    if not (np.isfinite(scale) and info.min <= zero <= info.max):
        return None
    q = Quantisation(float(scale), int(zero), node.result.name)
    everything = np.arange(info.min, info.max + 1).astype(dtype.numpy)
    for off in (0.0, 0.25, -0.25):  # what cuts digits off is no rounding
        real = (q.real(everything) + np.float32(off) * scale).astype(source.dtype.compute.numpy)
        operands = [real if i == at else np.asarray(a) for i, a in enumerate(read)]
        if not np.array_equal(ex.evaluate(body, operands.__getitem__), everything):
            return None
    return dtype, q.scale, q.zero_point, q.tensor


def _dequantises(graph: Graph, node: Node) -> tuple[DType, float, int, str] | None:
    """Type, scale, zero point and result of a map that dequantises with one scale; None if a node is no such."""
    q = quantised(graph, node)
    if q is None or q.scale.size != 1 or q.zero.size != 1 or q.integers.dtype.name not in _STORED:
        return None
    scale, zero = float(q.scale.reshape(-1)[0]), int(q.zero.reshape(-1)[0])
    info = np.iinfo(q.integers.dtype.numpy.name)
    return (q.integers.dtype, scale, zero, node.result.name) if info.min <= zero <= info.max and scale > 0 else None


def _drop_input(graph: Graph, v: Value, border: _Border) -> None:
    """Let bytes come in: what moves floats moves them, and who read the quantised reads what is moved."""
    for value in (v, *(r for node in border.moved for r in node.results)):
        value.type = value.type.with_dtype(border.dtype)
    for node in border.ends:
        (source,) = (x for x in node.operands if x is not None and x not in graph.constants)
        _bypass(graph, node, source)


def _bypass(graph: Graph, node: Node, source: Value) -> None:
    """Let readers of a node read its operand; an output stays a value of its own."""
    (result,) = node.results
    if result in graph.outputs:
        node.op, node.operands = Map(ex.var(0, source.dtype)), [source]
        return
    graph.replace(result, source)


def _drop_output(graph: Graph, v: Value, border: _Border) -> None:
    """Let bytes go out, by the name of the output."""
    (end,) = border.ends
    (source,) = (x for x in end.operands if x is not None and x.dtype == border.dtype and x.shape == end.result.shape)
    name = v.name
    if border.moved:
        border.moved[-1].operands = [source]
        for node in border.moved:
            node.result.type = node.result.type.with_dtype(border.dtype)
        return
    shared = source in graph.inputs or source in graph.constants or source in graph.outputs
    if shared:
        (source,) = graph.emit(Map(ex.var(0, source.dtype)), [source], [f"{name}.bytes"], origins=end.origins)
    graph.outputs = [source if o is v else o for o in graph.outputs]
    graph.remove_dead()
    graph.rename(source, name)
