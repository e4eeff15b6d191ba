"""onnxruntime's quantised parts of transformers (com.microsoft), as the nodes that they were made of.

    QAttention(x, w, bias, sx, sw)   is  q, k, v = Split(Cast(MatMulInteger(x, w)) * (sx * sw) + bias), in heads;
                                         Softmax(q k' / sqrt(length of a head) + mask) v
"""

from __future__ import annotations

import math

import numpy as np

from mccompile.onnxio import OnnxNode
from mccompile.onnxio.model import AttrValue
from mccompile.ops.contrib_attention import Heads
from mccompile.ops.contrib_normalization import bind_mask_index
from mccompile.ops.expansion import CONTRIB
from mccompile.ops.frontend import Import
from mccompile.ops.quantize import draw_scale
from mccompile.ops.quantized_contrib import Contrib
from mccompile.ops.registry import FrontEnd
from mccompile.ops.sampling import Case, Draw


def _attention(n: Import) -> None:
    """QAttention: x [B, S, D], weights [D, 3 H], bias, their scales, a mask, their zero points."""
    if n.optional(8) is not None or n.attr("past_present_share_buffer", 0) or n.attr("do_rotary", 0):
        raise n.error("past keys and rotary positions are not supported", "export without past and do_rotary")
    x, w, heads = n.input(0), n.input(1), n.required("num_heads", int)
    if x.type.rank != 3 or w.type.rank != 2 or heads < 1 or w.shape[1] % (3 * heads):
        raise n.error(f"{x.type} by {w.type} are no queries, keys and values of {heads} heads")
    batch, steps, _ = x.shape
    length = w.shape[1] // (3 * heads)
    e = Contrib(n)
    joined = _projected(e)
    parts = tuple(e.fresh(part) for part in ("queries", "keys", "values"))
    split: dict[str, AttrValue] = {"axis": -1, "num_outputs": 3}
    e.nodes.append(OnnxNode("Split", (joined,), parts, "", f"{e.base}.split", split, n.node.index))
    apart = e.ints([batch, steps, heads, length], "apart")
    q, k, v = (e.add("Reshape", [part, apart], f"{i}.apart") for i, part in enumerate(parts))
    q, v = (e.add("Transpose", [part], f"{s}.heads", perm=(0, 2, 1, 3)) for s, part in (("q", q), ("v", v)))
    k = e.add("Transpose", [k], "k.heads", perm=(0, 2, 3, 1))
    factor = e.constant(np.array(n.attr("scale", 0.0) or 1 / math.sqrt(length), np.float32), "scale")
    scores = e.add("Mul", [e.add("MatMul", [q, k], "products"), factor], "scores")
    for mask in _masks(e, batch, steps):
        scores = e.add("Add", [scores, mask], f"masked{len(e.nodes)}")
    mixed = e.add("MatMul", [e.add("Softmax", [scores], "shares", axis=-1), v], "mixed")
    together = e.add("Transpose", [mixed], "together", perm=(0, 2, 1, 3))
    e.bind_stored(0, e.reshaped(together, [batch, steps, heads * length], "joined"), 3)
    e.finish()


def _projected(e: Contrib) -> str:
    sums = e.add("MatMulInteger", [e.name(0), e.name(1), e.name(6), e.name(7)], "sums")
    factor = e.add("Mul", [e.wide(3), e.wide(4)], "factor")
    return e.add("Add", [e.add("Mul", [e.cast(sums, "f32", "real"), factor], "scaled"), e.wide(2)], "projected")


def _masks(e: Contrib, batch: int, steps: int) -> list[str]:
    """What is added to scores [B, heads, S, S]: of keys behind a query, and of those that mask_index leaves out."""
    heads = Heads(e, batch, steps, steps, np.dtype(np.float32))
    if e.n.flag("unidirectional"):
        heads.mask_future()
    heads.mask_padding(5)
    return heads.masks


def _embed(n: Import) -> None:
    """QEmbedLayerNormalization: ids, segment ids, three tables, gamma, beta, a mask; their scales and zero points."""
    e = Contrib(n)
    steps = n.input(0).shape[-1]

    def real(i: int, name: str) -> str:
        return e.add("DequantizeLinear", [name, e.name(6 + i), e.name(11 + i)], f"real{i}")

    words = real(2, e.add("Gather", [e.name(2), e.name(0)], "words", axis=0))
    ends = [e.ints([at], suffix) for at, suffix in ((0, "first"), (steps, "steps"))]
    total = e.add("Add", [words, real(3, e.add("Slice", [e.name(3), *ends], "places"))], "placed")
    if n.optional(1) is not None and n.optional(4) is not None:
        kinds = real(4, e.add("Gather", [e.name(4), e.name(1)], "segments", axis=0))
        total = e.add("Add", [total, kinds], "total")
    parts = [total, real(5, e.name(5)), real(6, e.name(6))]
    e.last("LayerNormalization", parts, n.node.outputs[0], axis=-1, epsilon=n.attr("epsilon", 1e-12))
    bind_mask_index(e, n.input(0).shape[0])
    e.finish()


def _sample_attention(d: Draw) -> Case:
    batch, steps, heads, length, width = d.int(1, 2), d.int(1, 4), d.int(1, 2), d.int(1, 4), d.int(1, 6)
    columns = 3 * heads * length
    # Weights that are small: sums of two products saturate in onnxruntime on processors without VNNI.
    w, x = d.array((width, columns), "u8", 100, 156), d.array((batch, steps, width), "u8", 0, 255)
    mask = d.choice([None, np.full(batch, steps, np.int32), np.ones((batch, steps), np.int32)])
    if mask is not None and mask.ndim == 2:
        mask[:, -1] = int(steps == 1)
    zeros = [np.uint8(d.int(100, 150)), np.uint8(128)]
    scales = [draw_scale(d, (), 0.05), draw_scale(d, (), 0.05)]
    attrs = {"num_heads": heads, "unidirectional": d.int(0, 1)}
    inputs = [x, w, d.array((columns,)), *scales, mask, *map(np.asarray, zeros)]
    return Case(inputs, attrs, frozenset({1, 2, 3, 4, 6, 7}))


def _sample_embed(d: Draw) -> Case:
    batch, steps, hidden = d.int(1, 3), d.int(1, 5), 4 * d.int(1, 4)
    ids, kinds = d.array((batch, steps), "i32", 0, 6), d.array((batch, steps), "i32", 0, 1)
    tables = [d.array((rows, hidden), "u8", 0, 255) for rows in (7, 6, 2)]
    affine = [d.array((hidden,), "u8", 0, 255) for _ in range(2)]
    mask = d.array((batch, steps), "i32", 0, 1) if d.bool() else None
    scales = [draw_scale(d, (), 0.1) for _ in range(5)]
    zeros: list[np.ndarray | None] = [np.asarray(np.uint8(d.int(0, 255))) for _ in range(5)]
    inputs = [ids, kinds, *tables, *affine, mask, *scales, *zeros]
    return Case(inputs, {}, frozenset({*range(2, 7), *range(8, 18)}), outputs=2)


FRONT_ENDS: tuple[FrontEnd, ...] = (
    FrontEnd("QAttention", _attention, _sample_attention, {"f32": 5e-6}, CONTRIB),
    FrontEnd("QEmbedLayerNormalization", _embed, _sample_embed, {"f32": 5e-5}, CONTRIB),
)
