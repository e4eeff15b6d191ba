"""Integers, booleans and masks that floats decide: where these are not surer than what decides, either is right.

Worked example: onnxruntime has the scores 2.25, 2.24995 and 1.0 of three classes, in f32, and takes class 0. The
model has them in f16, where both are 2.25 or the second is more: class 1 is as right, class 2 is not. So the noise of
that integer is 1, as far as the classes that may win are from the one that did, and of an integer whose scores lie
further apart it is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import numpy as np

from mccompile.check.compare import limits
from mccompile.onnxio import OnnxGraph, OnnxNode, dtype_name, subgraphs

Array = np.ndarray[Any, np.dtype[Any]]

_LARGEST = {"ArgMax": 1.0, "ArgMin": -1.0}
_COMPARING = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_ROUNDING = {"Cast": np.trunc, "Ceil": np.ceil, "Floor": np.floor, "Round": np.rint}
_KEEPING = frozenset({"Cast", "Clip", "Flatten", "Identity", "Relu", "Reshape", "Squeeze", "Unsqueeze"})
"""What may lie between a decision and such a value: elements stay in order, each as it was, or cut off."""
_PICKING = frozenset({"ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "TopK"})
_MOVING = _KEEPING | {
    "Add", "Concat", "Div", "Expand", "Gather", "GatherElements", "GatherND", "Mod", "Mul", "ScatterElements",
    "ScatterND", "Slice", "Split", "Sub", "Tile", "Transpose", "Where",
}  # fmt: skip
"""What may lie between a pick and what is told of it."""


def deciding(graph: OnnxGraph, wanted: Iterable[str]) -> dict[str, OnnxNode]:
    """By value, for those that have one, the node of the main graph whose operands, if they are floats, decide it."""
    makers = {o: n for n in graph.nodes for o in n.outputs if n.domain == ""}
    found = {}
    for name in wanted:
        made, cast = name, None
        while (node := makers.get(made)) is not None and node.op_type in _KEEPING:
            cast = node if node.op_type == "Cast" and _is_whole(node) else cast
            made = node.inputs[0]
        decides = node is not None and node.op_type in _LARGEST.keys() | _COMPARING | _ROUNDING.keys()
        places = node is not None and node.op_type == "TopK" and made == node.outputs[1]
        last = node if decides or places else cast
        if last is not None:
            found[name] = last
    return found


def picked(graph: OnnxGraph, wanted: Iterable[str]) -> frozenset[str]:
    """Those of ``wanted`` that are elements which scores have picked, or are made of their places: the labels of the
    boxes that NonMaxSuppression keeps, which are those of other boxes where two scores are near each other."""
    found: set[str] = set()
    for node in graph.nodes:
        if _picks(node) or (node.op_type in _MOVING and not found.isdisjoint(node.inputs)):
            found.update(node.outputs)
    return frozenset(found.intersection(wanted))


def _picks(node: OnnxNode) -> bool:
    """Whether scores decide which elements a node tells, itself or in a branch."""
    return node.op_type in _PICKING or any(_picks(inner) for graph in subgraphs(node) for inner in graph.nodes)


def _is_whole(cast: OnnxNode) -> bool:
    to = cast.attrs["to"]
    assert isinstance(to, int)
    return dtype_name(to)[0] in "iu"


def noise_of(
    node: OnnxNode, values: Mapping[str, Array], noise: Mapping[str, Array], factor: float = 1.0,
    exact: Container[str] = (),
) -> Array | None:  # fmt: skip
    """How far each element that a node decides may be off, in the shape of its result; None where no floats decide.

    ``values`` are its operands by name, ``noise`` that of those of which it is known, ``factor`` as `limits` has it.
    Those that are ``exact`` are inputs and constants of the network.
    """
    given = node.inputs[:1] if node.op_type == "TopK" else node.inputs
    if any(name not in values for name in node.inputs) or any(values[name].dtype.kind != "f" for name in given):
        return None
    operands = [values[name] for name in given]
    own = [
        np.zeros(a.shape) if name in exact else limits(a, noise.get(name), factor)
        for name, a in zip(given, operands, strict=True)
    ]
    wide = [a.astype(np.float64) for a in operands]
    with np.errstate(invalid="ignore"):
        if node.op_type in _LARGEST:
            return _of_place(_LARGEST[node.op_type] * wide[0], own[0], node)
        if node.op_type == "TopK":
            return _of_ranks(wide[0], own[0], node, int(values[node.inputs[1]].flat[0]))
        if node.op_type in _COMPARING:
            return _of_sides(wide[0] - wide[1], own[0] + own[1])
        moved = np.broadcast_to(noise.get(node.inputs[0], 0.0), wide[0].shape) > 0
        return _of_rounded(wide[0], own[0], moved, _ROUNDING[node.op_type])


def _of_sides(apart: Array, own: Array) -> Array:
    """1 where two numbers may be the other way round. What is exact is not."""
    return np.asarray((np.abs(apart) <= own) & (own > 0), np.float64)


def _of_rounded(x: Array, own: Array, moved: Array, rounded: Callable[[Array], Array]) -> Array:
    """How far a number may be rounded from where it is rounded to. A whole one is sure if no order of sums has moved
    it, or all are whole, as sums of whole ones are: then weights that are one unit off have."""
    apart = np.maximum(*(np.abs(rounded(x + sign * own) - rounded(x)) for sign in (1, -1)))
    whole = x == np.rint(x)
    sure = whole if whole.all() else whole & ~moved
    return np.nan_to_num(np.where(sure, 0.0, apart), posinf=0.0)


def _of_place(scores: Array, own: Array, node: OnnxNode) -> Array:
    """How far the places of what may be the largest score along an axis are from that of the largest, at most."""
    axis = node.attrs.get("axis", 0)
    assert isinstance(axis, int)
    best = np.argmax(scores, axis=axis, keepdims=True)
    least = np.take_along_axis(scores - own, best, axis)
    places = np.arange(scores.shape[axis]).reshape([-1 if i == axis % scores.ndim else 1 for i in range(scores.ndim)])
    unsure = (own > 0) | (np.take_along_axis(own, best, axis) > 0)
    rivals = (scores + own >= least) & unsure
    return np.asarray(np.where(rivals, np.abs(places - best), 0.0).max(axis=axis, keepdims=True))


def _of_ranks(scores: Array, own: Array, node: OnnxNode, count: int) -> Array:
    """How far the places of what may be at each of the first ranks are from the place of what is, at most: a score
    may be at a rank if it is no further from the one there than both may be off.

    2.25, 1.0 and 2.24999, of which two are asked for: places 0 and 2, and each may be the other; so 2 and 2.
    """
    axis = node.attrs.get("axis", -1)
    assert isinstance(axis, int)
    rows = np.moveaxis(scores if node.attrs.get("largest", 1) else -scores, axis, -1)
    most = np.moveaxis(own, axis, -1).max(-1, initial=0.0)
    found = np.zeros((*rows.shape[:-1], count))
    for at in np.argwhere(most > 0):
        row = tuple(at)
        order = np.argsort(-rows[row], kind="stable")
        falling = -rows[row][order]
        begins = np.searchsorted(falling, falling[:count] - 2 * most[row], "left")
        ends = np.searchsorted(falling, falling[:count] + 2 * most[row], "right")
        for rank, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            found[row][rank] = np.abs(order[begin:end] - order[rank]).max(initial=0)
    return np.moveaxis(found, -1, axis)
