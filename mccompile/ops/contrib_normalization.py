"""Normalisations that onnxruntime's optimiser writes (mostly com.microsoft), as the operators that they were made of.

    SkipLayerNormalization(x, skip, gamma, beta, bias)  is  LayerNormalization(Add(Add(x, skip), bias), gamma, beta)
"""

from __future__ import annotations

import numpy as np

from mccompile.ir.types import broadcast_shapes
from mccompile.onnxio import dtype_number
from mccompile.ops.expansion import CONTRIB, Expansion, channels_first, channels_last
from mccompile.ops.frontend import Import
from mccompile.ops.registry import FrontEnd, compositions
from mccompile.ops.sampling import Case, Draw


def _refuse_statistics(n: Import, outputs: tuple[int, ...]) -> None:
    """Means and deviations are results for training."""
    asked = [i for i in outputs if i < len(n.node.outputs) and n.node.outputs[i]]
    if asked:
        raise n.error(f"output {asked[0]}, a statistic for training, is not supported", "export it for inference")


def _normalised(e: Expansion, x: str, gamma: str, beta: str, simple: bool) -> str:
    """``x`` normalised along its last axis, by its root mean square alone if that is ``simple``."""
    attrs = {"axis": -1, "epsilon": e.n.attr("epsilon", 1e-12)}
    if simple:
        return e.add("RMSNormalization", [x, gamma], "normal", **attrs)
    return e.add("LayerNormalization", [x, gamma, *([beta] if beta else [])], "normal", **attrs)


def _skip(n: Import) -> None:
    """Skip(Simplified)LayerNormalization: x + skip + bias, and that normalised."""
    e, simple = Expansion(n), n.op_type == "SkipSimplifiedLayerNormalization"
    _refuse_statistics(n, (1, 2))
    x, skip = n.input(0), n.input(1)
    if broadcast_shapes(x.shape, skip.shape) != x.shape:
        raise n.error(f"skip {skip.type} does not broadcast to the {x.type} of input 0")
    bias, beta = 3 if simple else 4, "" if simple else e.wide(3)
    total = e.add("Add", [e.wide(0), e.wide(1)], "total")
    if n.optional(bias) is not None:
        total = e.add("Add", [total, e.wide(bias)], "biased")
    e.bind_stored(0, _normalised(e, total, e.wide(2), beta, simple))
    e.bind_stored(3, total)
    e.finish()


def _simplified(n: Import) -> None:
    """SimplifiedLayerNormalization, which onnxruntime has in ONNX's own domain: RMSNormalization. A scale of another
    type than x has is that of the result, which is computed in the wider one of the two."""
    e = Expansion(n)
    _refuse_statistics(n, (1,))
    n.attr("stash_type", 1)
    attrs = {"axis": n.attr("axis", -1), "epsilon": n.attr("epsilon", 1e-5)}
    kinds = [n.input(i).dtype.name for i in (0, 1)]
    if kinds[0] == kinds[1]:
        e.last("RMSNormalization", [e.name(0), e.name(1)], n.node.outputs[0], "", **attrs)
    else:
        wide = "f64" if "f64" in kinds else "f32"
        given = [e.cast(e.name(i), wide, f"wide{i}") for i in (0, 1)]
        normal = e.add("RMSNormalization", given, "normal", **attrs)
        e.last("Cast", [normal], n.node.outputs[0], "", to=dtype_number(kinds[1]))
    e.finish()


def _embed(n: Import) -> None:
    """EmbedLayerNormalization: rows of tables for words, positions and segments, summed and normalised.

    Result 1 is how many words the mask lets through; result 2 is the sum.
    """
    e, ids = Expansion(n), n.input(0)
    n.attr("mask_index_type", 0)
    if len(ids.shape) != 2:
        raise n.error(f"words {ids.type} are not [batch, sequence]")
    batch, length = ids.shape
    total = e.computed(e.add("Gather", [e.name(2), e.name(0)], "words", axis=0), "words", 2)
    places = e.name(8) or e.counted(0, length, "places")
    positions = e.add("Gather", [e.name(3), places], "positions", axis=0)
    total = e.add("Add", [total, e.computed(positions, "positions", 3)], "placed")
    if n.optional(4) is not None:
        # Without numbers of segments, all words are of the first one.
        rows = (
            e.sliced(e.name(4), 0, 0, 1, "segment") if n.optional(1) is None
            else e.add("Gather", [e.name(4), e.name(1)], "segments", axis=0)
        )  # fmt: skip
        total = e.add("Add", [total, e.computed(rows, "segments", 4)], "total")
    elif n.optional(1) is not None:
        raise n.error("numbers of segments have no table of segments")
    e.bind_stored(0, _normalised(e, total, e.wide(5), e.wide(6), False), 2)
    bind_mask_index(e, batch)
    e.bind_stored(2, total, 2)
    e.finish()


def bind_mask_index(e: Expansion, batch: int) -> None:
    """Let output 1 of EmbedLayerNormalization be how many elements of each row of the mask, input 7, are 1:
    onnxruntime counts no others. 0 where there is no mask."""
    if e.n.optional(7) is None:
        e.bind(1, e.filled(np.zeros((), np.int32), [batch], "no_mask"))
        return
    ones = e.add("Equal", [e.name(7), e.constant(np.array(1, np.int32), "mask.one")], "mask.ones")
    axis = e.ints([1], "mask.axis")
    e.bind(1, e.add("ReduceSum", [e.cast(ones, "i32", "mask"), axis], "counted", keepdims=0))


def _group_norm(n: Import) -> None:
    """GroupNorm and SkipGroupNorm, channels last or not, with an activation x * sigmoid(x) or none."""
    e = Expansion(n)
    x, rank, last = e.wide(0), len(n.input(0).shape), n.flag("channels_last", True)
    if n.op_type == "SkipGroupNorm":
        x = e.add("Add", [x, _everywhere(e, 3, last)], "skipped")
        if n.optional(4) is not None:
            bias = e.wide(4) if last else e.reshaped(e.wide(4), [-1, *(1,) * (rank - 2)], "bias")
            x = e.add("Add", [x, bias], "biased")
        e.bind_stored(1, x)
    if last:
        x = e.add("Transpose", [x], "channels_first", perm=channels_first(rank))
    attrs = {"num_groups": n.required("groups", int), "epsilon": n.attr("epsilon", 1e-5)}
    y = e.add("GroupNormalization", [x, e.wide(1), e.wide(2)], "normal", **attrs)
    kind = n.required("activation", int)
    if kind not in (0, 1):
        raise n.error(f"activation {kind} is not known")
    if kind:
        y = e.add("Mul", [y, e.add("Sigmoid", [y], "gate")], "active")
    e.bind_stored(0, e.add("Transpose", [y], "channels_last", perm=channels_last(rank)) if last else y)
    e.finish()


def _everywhere(e: Expansion, i: int, last: bool) -> str:
    """Input ``i``, [N, H, W, C] or [N, C], as it is computed in: the latter for all pixels."""
    shape, rank = e.n.input(i).shape, len(e.n.input(0).shape)
    if len(shape) == rank:
        return e.wide(i)
    ones = (1,) * (rank - 2)
    return e.reshaped(e.wide(i), [shape[0], *ones, shape[1]] if last else [*shape[:2], *ones], "skip")


# -- samples ---------------------------------------------------------------------------------------------------------
def _sample_skip(d: Draw) -> Case:
    shape = (*d.shape(2, 1, 3), d.int(2, 19))
    bias = d.array(shape[-1:]) if d.bool() else None
    case = [d.array(shape), d.array(shape), d.array(shape[-1:]), d.array(shape[-1:]), bias]
    return Case(case, {"epsilon": d.choice([1e-12, 1e-5])}, frozenset({2, 3, 4}))


def _sample_skip_simple(d: Draw) -> Case:
    case = _sample_skip(d)
    return Case([*case.inputs[:3], case.inputs[4]], {"epsilon": 1e-5}, frozenset({2, 3}))


def _sample_simple(d: Draw) -> Case:
    shape = (*d.shape(d.int(1, 2), 1, 3), d.int(2, 19))
    return Case([d.array(shape), d.array(shape[-1:])], {"epsilon": 1e-5, "axis": -1}, frozenset({1}))


def _sample_embed(d: Draw) -> Case:
    batch, length, width = d.int(1, 2), d.int(1, 5), d.int(2, 9)
    words, segments = (d.array((batch, length), "i32", 0, high) for high in (9, 1))
    tables = [d.array((rows, width)) for rows in (10, 8, 2)]
    mask = d.array((batch, length), "i32", 0, 1) if d.bool() else None
    norm = [d.array((width,)), d.array((width,))]
    with_segments = d.bool()
    given = [words, segments if with_segments else None, *tables[:2], tables[2] if with_segments else None]
    return Case([*given, *norm, mask], {"epsilon": 1e-5}, frozenset(range(2, 7)), outputs=2)


_ROUNDED = {"f32": 1e-5, "f16": 8e-3}
FRONT_ENDS = compositions(
    FrontEnd("SkipLayerNormalization", _skip, _sample_skip, _ROUNDED, CONTRIB),
    FrontEnd("SkipSimplifiedLayerNormalization", _skip, _sample_skip_simple, _ROUNDED, CONTRIB),
    FrontEnd("SimplifiedLayerNormalization", _simplified, _sample_simple, _ROUNDED),
    FrontEnd("EmbedLayerNormalization", _embed, _sample_embed, _ROUNDED, CONTRIB),
    FrontEnd("GroupNorm", _group_norm, None, _ROUNDED, CONTRIB),
    FrontEnd("SkipGroupNorm", _group_norm, None, _ROUNDED, CONTRIB),
)
