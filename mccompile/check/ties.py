"""Whether a quantised network is right where its outputs differ: each layer alone, fed with the reference's tensors.

A layer computes real numbers and rounds them to 8 or 16 bits. Engines compute the real number in floats or integers
of their own, and where it is a tie (3.5 between 3 and 4) they may fall to either side; what follows magnifies that, a
softmax from 1 step to 20. So outputs tell little. A layer is right if, of the reference's own operands, each of its
results is at most 1/2 + 2^-13 from the real one, which is computed in float64 and cut off at the ends of the type::

    real 3.49999, result 3 or 4: right        real 3.4, result 4: wrong

The real one is that of the network as it was read: where the reference's own is far from it, it was misread (`FAR`).
What floats make of the reference's last tensors is its output (`heads`), and the C is right if it computes what the
graph of these layers does. Where floats magnify rounding before a layer, as a hundred steps of an LSTM may do, the
real number is as sure as float32 makes it (`_unsure`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mccompile import driver
from mccompile._dataclass import dataclass
from mccompile.check.branches import computed
from mccompile.check.compare import OF_NOISE
from mccompile.check.heads import Sure, rounds, wrong_outputs
from mccompile.check.inner import Inner
from mccompile.check.parts import part_of
from mccompile.check.reals import narrow, real_results
from mccompile.check.reference import Expected, judge_of
from mccompile.check.rounding import TIE, of_floats, of_whole_numbers, zeros_of
from mccompile.check.standing import back, carried, standing_for
from mccompile.driver import Compilation
from mccompile.interface.tensors import MODELS_OWN, Interface
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op, op_at
from mccompile.ir.types import I32, I64
from mccompile.onnxio import rounded_inputs, tensor_names
from mccompile.ops.normalize import Normalize
from mccompile.ops.reduce import Reduce
from mccompile.ops.softmax import Softmax

Array = np.ndarray[Any, np.dtype[Any]]

FAR = 1.0
"""How far the reference's own result may be from the real one, in steps, where a layer gives another: more says that
the network was read as another one. onnxruntime is no further than a tie, but for functions that it approximates, and
no further at all where no fractions are made (`of_whole_numbers`)."""

_OF_REQUANT = {"exact": TIE, "tflite": 0.75}
"""That by how sums are rounded. TensorFlow Lite rounds twice: to 2^-e steps at first, e at least 1."""

MOST_AXES = 5
"""Of tensors that are looked for with their axes in another order."""

@dataclass(frozen=True)
class Ties:
    """What layers do with the reference's operands.

    Attributes:
        layers: how many were compared, of ``elements`` together.
        differing: elements that are not the reference's: on the other side of a tie, unless ``wrong``.
        wrong: what is no tie, one line for each layer.
        no_numbers: elements that are NaN before they are rounded, as 0 / 0 is: no integer is right.
    """

    layers: int
    elements: int
    differing: int
    wrong: tuple[str, ...]
    no_numbers: int = 0

    @property
    def ok(self) -> bool:
        return not self.wrong

    def text(self) -> str:
        """One line."""
        if self.wrong:
            return f"{len(self.wrong)} of {self.layers} layers and outputs are wrong; first: {self.wrong[0]}"
        no_numbers = f"; {self.no_numbers} are NaN before that, and any is right" if self.no_numbers else ""
        return (
            f"{self.layers} layers, fed with the reference's tensors, round right; {self.differing} of "
            f"{self.elements} elements fall to the other side of a tie{no_numbers}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        return {
            "ok": self.ok, "layers": self.layers, "elements": self.elements, "differing": self.differing,
            "wrong": list(self.wrong), "no_numbers": self.no_numbers,
        }  # fmt: skip


def imported_graph(model: Path, c: Compilation) -> Graph:
    """The graph that a compilation was made of, with inputs and outputs as the model has them."""
    return driver.import_graph(model, replace(c.options, io=c.options.place, input_formats={})).graph


def is_quantised(graph: Graph) -> bool:
    """Whether any node of a graph rounds to 8 or 16 bits."""
    return any(rounds(v) for n, _ in graph.everywhere() for v in n.results)


def rounds_anywhere(graph: Graph) -> bool:
    """As `is_quantised`, of an optimised graph, whose nodes may make floats at once of what they have rounded."""
    return is_quantised(graph) or any(_rounds_inside(n) for n, _ in graph.everywhere())


def _rounds_inside(node: Node) -> bool:
    parts = (part for body in node.expressions for part in ex.distinct(body))
    return any(isinstance(p, ex.Convert) and p.dtype.kind in "iu" and p.dtype.nbytes <= 2 for p in parts)


def rounded_names(graph: Graph) -> list[str]:
    """The names of the values of an imported graph that are rounded to 8 or 16 bits, those of branches too."""
    return list(dict.fromkeys(v.name for n, _ in graph.everywhere() for v in n.results if rounds(v)))


def explained(
    model: Path, c: Compilation, inputs: Sequence[Mapping[str, Array]], imported: Graph | None = None
) -> Ties | None:
    """The layers of a quantised network on operands of the reference, in runs on ``inputs``; None where there is none
    to be compared. ``imported``: `imported_graph`, where it is there already."""
    imported = imported_graph(model, c) if imported is None else imported
    if not is_quantised(imported):
        return None
    known = {*tensor_names(model), *rounded_inputs(model)}
    judge = judge_of(model, c, [name for name in rounded_names(imported) if name in known])
    tie = _OF_REQUANT[c.options.requant]
    found = [judge_layers(imported, c.graph, judge, one, c.interface, tie) for one in inputs]
    layers = sum(t.layers for t in found)
    if not layers:
        return None
    return Ties(
        layers, sum(t.elements for t in found), sum(t.differing for t in found),
        tuple(w for t in found for w in t.wrong), sum(t.no_numbers for t in found),
    )  # fmt: skip


class Computes(Protocol):
    """What has, of inputs, all tensors that are rounded."""

    def run(self, inputs: Mapping[str, Array]) -> Expected: ...


def judge_layers(
    imported: Graph, optimised: Graph, judge: Computes, inputs: Mapping[str, Array],
    interface: Interface = MODELS_OWN, tie: float = TIE, far: float = FAR, few: float = 0.0,
    whose: str = " of the reference",
) -> Ties:  # fmt: skip
    """Each layer of ``optimised`` on the operands that ``judge`` computes, against the real results of ``imported``.

    ``judge`` must know the `rounded_names` of ``imported``, as far as the model has them. ``interface`` says how
    ``inputs`` of ``optimised`` stand for those of ``imported``, ``tie`` how far a result may be from the real one,
    ``few`` which share of a layer's elements may be further off, ``whose`` what a fault calls those of ``judge``.
    """
    expected, rounded = judge.run(inputs), set(rounded_names(imported))
    theirs = {name: a for name, a in expected.values.items() if a.dtype != object}  # text is not rounded
    bits = expected.halves | {n for n, a in theirs.items() if n in rounded and a.dtype.kind not in "iu"}
    theirs = {name: a for name, a in theirs.items() if name not in bits}  # nor is bfloat16 a number of steps
    given = interface.model_inputs(inputs)
    real_run = real_results(imported, theirs, given)
    reals, nodes, outputs = real_run.numbers, [step.node for step in real_run.steps], real_run.outputs
    whole = of_whole_numbers(real_run.steps, theirs.keys())
    del real_run  # its values are memory
    no_numbers = sum(int(np.isnan(a).sum()) for a in reals.values())
    zeros = zeros_of(imported, nodes)
    in_floats = functools.cache(lambda: _in_floats(imported, theirs, given, reals))
    inner = functools.cache(lambda: Inner(imported, theirs, given, tie, in_floats()[0]))
    values: dict[Value, Array] = {}
    values |= {v: narrow(inputs[v.name], v) for v in optimised.inputs}
    extents = optimised.extents_of(inputs)
    names = {v.name for n, _ in optimised.everywhere() for v in n.results}
    hidden: dict[Value, Array] = {}
    judged: set[str] = set()
    sure = Sure(optimised, nodes)
    layers = elements = differing = 0
    wrong: dict[str, tuple[float, str]] = {}
    for step in computed(optimised, values, Graph.array):
        node, known = step.node, step.graph.known_at(step.node, values, extents)
        if step.taken is None:
            results, near_before = node.evaluate(values, extents=known), _moved(node, hidden, values, known)
        else:
            results = [values[v] for v in step.taken]
            near_before = [hidden.get(v, np.array(False)) for v in step.taken]
        sure.follow(step)
        for v, got, moved in zip(node.results, results, near_before, strict=True):
            values[v] = got
            name, turn = interface.tensors.get(v.name), None
            if name not in reals or name in judged:  # or what has been, and is moved here
                name, turn = _counterpart(node, v, got, nodes, theirs, reals, tie, extents)
                if name in names and name != v.name:  # which a node behind this one is asked for
                    name, turn = None, None
            if step.taken is not None and name in judged:
                continue  # in its branch
            floats: Array | None = None
            if name is None and (stands := standing_for(v, got, imported, theirs, reals.keys() - judged, extents)):
                name, got, floats, places = stands
                moved = back(moved, places, got.shape) if moved.ndim else moved
            if name is None:
                hidden[v] = moved | _near_ties(node, nodes, reals, got, tie, extents)
                continue
            judged.add(name)
            got = _with_sign(got, theirs[name].dtype)
            near = _near_ties(node, nodes, reals, reals[name], tie, extents, name)
            want, real = theirs[name], reals[name]
            if turn is not None:
                want, real, near = (_shaped(a, got, turn) for a in (want, real, near))
                near |= _near_ties(node, nodes, reals, want, tie, extents, name)
            part = part_of(got, want, v.name not in theirs, real)
            if part is None:
                continue
            want, real, near = want[part], real[part], moved | near[part]
            differs = got != want
            layers, elements, differing = layers + 1, elements + got.size, differing + int(differs.sum())
            more = of_floats(real, zeros.get(name), want.dtype)
            theirs_far = min(far, tie) if name in whole else far
            asked = differs if far > tie else differs & ~near
            of, allowed = (asked, differs & ~near), (theirs_far + more, tie + more)
            fault = _first_fault(want, got, real, allowed, of, few, whose)
            if fault is not None:  # unless it is of what the layer rounds before
                behind = inner().moves(name, node.origins)
                behind = (behind if turn is None else _shaped(behind, got, turn))[part] if behind.ndim else behind
                allowed = (theirs_far + more + behind, tie + more + behind)
                fault = _first_fault(want, got, real, allowed, of, few, whose)
            if fault is not None:
                wrong[name] = fault[0], f"{v.name}: {fault[1]}"
            values[v] = floats if floats is not None else _with_sign(want, v.dtype.numpy)
            sure.values.add(v)
    if not wrong and not wrong_outputs(optimised, sure, values, theirs, outputs, outputs):
        return Ties(layers, elements, differing, (), no_numbers)
    unsure, near_outputs = in_floats()
    left = [line for name, (beyond, line) in wrong.items() if beyond > OF_NOISE * unsure[name]]
    left += wrong_outputs(optimised, sure, values, theirs, outputs, near_outputs).values()
    return Ties(layers, elements, differing, tuple(left), no_numbers)


def _first_fault(
    want: Array, got: Array, real: Array, allowed: tuple[Array, Array], asked: tuple[Array, Array], few: float,
    whose: str,
) -> tuple[float, str] | None:  # fmt: skip
    """As `_fault`, of the judge's own tensor and of what the layer makes, in this order."""
    fault = _fault(want, real, allowed[0], asked[0], few, whose)
    return _fault(got, real, allowed[1], asked[1], few) if fault is None else fault


def _fault(
    array: Array, real: Array, allowed: Array, asked: Array, few: float, whose: str = ""
) -> tuple[float, str] | None:
    """By how much more than ``allowed`` the results ``asked`` about are from the real ones at most, and the first of
    these; None if by none, or by no more than ``few`` of all."""
    info = np.iinfo(array.dtype)
    apart = np.abs(array.astype(np.float64) - np.clip(real, info.min, info.max)) - allowed
    bad = (apart > 0) & asked
    if np.count_nonzero(bad) <= few * bad.size:
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    first = f"{array[at]}{whose} where {real[at]:.5f} is real, at {list(at)}"
    return float(apart[bad].max()), f"{first}; {int(bad.sum())} such"


def _in_floats(
    imported: Graph, theirs: Mapping[str, Array], inputs: Mapping[str, Array], reals: Mapping[str, Array]
) -> tuple[dict[str, float], dict[str, Array]]:
    """`_unsure`, and the outputs, of a run in floats of the model's own types."""
    run = real_results(imported, theirs, inputs, wide=False)
    return _unsure(theirs, run.numbers, reals), run.outputs


def _unsure(theirs: Mapping[str, Array], near: Mapping[str, Array], reals: Mapping[str, Array]) -> dict[str, float]:
    """How far float32 moves what is rounded, in steps, within the ends of its type: 1e-4 at most, but where floats
    before it magnify what they were rounded by. ``near`` are the real numbers in float32."""
    found = {}
    for name, array in near.items():
        info = np.iinfo(theirs[name].dtype)
        apart = np.abs(np.clip(array, info.min, info.max) - np.clip(reals[name], info.min, info.max))
        found[name] = float(np.nan_to_num(apart, nan=0.0).max(initial=0.0))
    return found


def _shaped(array: Array, got: Array, turn: Sequence[int] | None = None) -> Array:
    """A tensor of as many elements with the axes that a node has: passes move what turns axes, or makes axes of
    others."""
    turned = array if turn is None else array.transpose(turn)
    return turned.reshape(got.shape) if array.size == got.size else array


def _turns(shape: Sequence[int], wanted: Sequence[int]) -> list[tuple[int, ...]]:
    """The orders that axes may be in: as they are, or any that makes the ``wanted`` shape; of many axes, none."""
    plain = tuple(range(len(shape)))
    others = itertools.permutations(plain) if len(shape) <= MOST_AXES else ()
    return [plain, *(p for p in others if p != plain and [shape[a] for a in p] == list(wanted))]


def _may_be_of(theirs: Array, got: Array) -> bool:
    """Whether a tensor may be all of another one, or the channels that are left of it."""
    return theirs.size == got.size or theirs.ndim == got.ndim


def _counterpart(
    node: Node, v: Value, got: Array, imported: Sequence[Node], theirs: Mapping[str, Array],
    known: Mapping[str, Array], tie: float, extents: Mapping[str, int],
) -> tuple[str | None, tuple[int, ...] | None]:  # fmt: skip
    """The name in the reference of what a node rounds, among the ``known`` real results, and the order of its axes
    there, where it has another name; None if there is none.

    Bytes that are stored instead of floats have a name of their own (``y.bytes``), and so have bytes with another
    sign, and channels in another order: then it is the closest of the tensors that the network rounds in the nodes
    that were fused into this one. One that is not the same, but for ties, which the mean of two bytes is half of the
    time, is another tensor, and so is one of which most elements differ, though ties do so by chance; should it be a
    wrong one, who reads it is judged with it, and found.
    """
    if not rounds(v):
        return None, None
    if v.name in known:
        return v.name, None
    if not node.post and node.op.elementwise is None:  # moved, not rounded here
        return None, None
    fused = [n for n in imported if n.origins and set(n.origins) <= set(node.origins)]
    rounded = [w for n in fused for w in n.results if w.name in known and _may_be_of(theirs[w.name], got)]
    tie = max(tie, 0.5 + 2.0 ** (8 * v.dtype.nbytes - 21))  # f32 has 2^-7 between numbers of 16 bits
    differing = {}
    for w in reversed(rounded):  # of several that it may be, what is rounded last
        if not rounds(w) or w.dtype.nbytes != v.dtype.nbytes:
            continue
        own = _with_sign(got, w.dtype.numpy)
        near = _near_ties(node, imported, known, theirs[w.name], tie, extents, w.name, itself=True)
        for turn in _turns(theirs[w.name].shape, got.shape):
            other = _shaped(theirs[w.name], got, turn)
            if (part := part_of(own, other, True, _shaped(known[w.name], got, turn))) is None:
                continue
            apart = other[part] != own
            sure = apart & ~_shaped(near, got, turn)[part]
            differing[w.name, turn] = int(sure.sum()), int(apart.sum())
    closest = min(differing, key=lambda found: differing[found], default=None)
    if closest is None:
        return None, None
    surely, anyhow = differing[closest]
    return closest if surely * 100 <= got.size and anyhow * 4 <= 3 * got.size else (None, None)


def _with_sign(array: Array, dtype: np.dtype[Any]) -> Array:
    """Bytes as those of a type with a sign, or without one: 128 less, or more; other numbers as they are."""
    if array.dtype == dtype or array.dtype.itemsize > 1 or array.dtype.kind not in "iu":
        return array.astype(dtype)
    flipped: Array = (np.ascontiguousarray(array).view(np.uint8) ^ 128).view(dtype)
    return flipped


def _near_ties(
    node: Node, imported: Sequence[Node], reals: Mapping[str, Array], got: Array, tie: float,
    extents: Mapping[str, int], name: str = "", itself: bool = False,
) -> Array:  # fmt: skip
    """Where a tensor that was fused into a node, beside the one of that name, is a tie itself: the node may have gone
    on with the other side. It has as many elements as ``got``, or is a part of the tensor of that name."""
    near = np.zeros(got.shape, bool)
    for other in imported:
        if not set(other.origins) & set(node.origins):
            continue
        for v in other.results:
            real = reals.get(v.name)
            if real is None or (v.name == name and not itself):
                continue
            found = _is_tie(real, tie)
            if real.size == got.size:
                near |= _shaped(found, got)
            elif name and (part := carried(found, v, name, imported, extents)) is not None:
                near |= part
    return near


def _is_tie(real: Array, tie: float) -> Array:
    """Where real numbers may be rounded to either side, or are none."""
    with np.errstate(invalid="ignore"):  # infinities
        found: Array = (np.abs(np.abs(real - np.floor(real)) - 0.5) <= tie - 0.5) | np.isnan(real)
    return found


def _reached(
    op: Op, operands: Sequence[Value | None], hidden: Mapping[Value, Array], values: Mapping[Value, Array]
) -> Array:
    """Which sums of products of two operands have a factor that is hidden, and a tie."""
    found = np.array(False)
    for asked in operands:
        if asked in hidden:
            ones = [hidden[v] if v is asked else np.ones(values[v].shape) for v in operands if v is not None]
            found = found | (op.evaluate(*(a.astype(np.float64) for a in ones))[0] > 0)
    return found


def _moved(
    node: Node, hidden: Mapping[Value, Array], values: Mapping[Value, Array], known: Mapping[str, int]
) -> list[Array]:
    """Where the results of a node that only moves elements, such as a join or a split, computes each of its own, or
    of its row, or sums of products, have some of which a tensor before them, which is not compared, was a tie; False
    of others."""
    if node.op.elementwise is not None:
        shape = np.broadcast_shapes(*(values[v].shape for v in node.inputs))
        masks = [np.broadcast_to(hidden[v], shape) for v in node.inputs if v in hidden]
        return [np.logical_or.reduce(masks) if masks else np.array(False)]
    op: Op = node.op
    if op.multilinear[:2] == (0, 1):
        beside = [hidden[v] for v in node.extras if v in hidden]  # what an epilogue adds
        reached = _reached(op_at(op, known), node.operands[:2], hidden, values)
        found = functools.reduce(np.logical_or, beside, reached)
        return [np.broadcast_to(found, node.results[0].type.at(known).shape) if found.ndim else found]
    if isinstance(op, Normalize | Softmax):  # one element that is unsure moves all of its row
        (x,) = node.operands[:1]
        if x is not None and x in hidden:
            shape, axes = values[x].shape, op.axes if isinstance(op, Normalize) else (op.axis,)
            rows = np.broadcast_to(hidden[x], shape).any(axis=axes, keepdims=True)
            return [np.broadcast_to(rows, shape)]
    if isinstance(op, Reduce) and op.mode == "sum":  # one term that is unsure makes the sum so
        op = replace(op, mode="max")
    moves = (op is not node.op or op.hands_on) and not node.pre
    own = [v for i, v in enumerate(node.operands) if v is not None and (i == 0 or v.dtype not in (I32, I64))]
    if not moves or not any(v in hidden for v in own):
        return [np.array(False)] * len(node.results)
    given = {v: values[v] for v in node.operands if v is not None}  # of indices, what they are
    given |= {v: hidden[v].astype(values[v].dtype) if v in hidden else np.zeros_like(values[v]) for v in own}
    bare = copy(node)
    bare.op, bare.post = op, {}  # an epilogue is of each element alone
    return [np.asarray(found, bool) for found in bare.evaluate(given, extents=known)]
