"""Operators of the newest opsets and of other domains, beside those that all networks have: what exporters write of
late, and what onnxruntime's tools make of it."""

from __future__ import annotations

import numpy as np

from mccompile.ops.registry import FrontEnd, front_ends
from tests.support.compose import operands as on
from tests.support.compose.stages import operator
from tests.support.fuzz.family import MAIN, FamilyComposer


def _table(*domains: str) -> list[FrontEnd]:
    """What of these domains can be drawn, in the order of its names."""
    found = sorted(front_ends().items())
    return [f for (domain, _), f in found if domain in domains and f.sample is not None]


def any_operator(c: FamilyComposer) -> list[str]:
    """Each as often as any other."""
    return operator(c, c.d.choice(_table("", "ai.onnx.ml", "com.microsoft")))


def contributed(c: FamilyComposer) -> list[str]:
    """One of other domains, which stands for several nodes; mapped or not."""
    made = operator(c, c.d.choice(_table("com.microsoft")))
    return [on.mapped(c, v) if c.chance(30) and c.array(v).dtype.kind == "f" else v for v in made]


def _rows(c: FamilyComposer, shape: tuple[int, ...]) -> str:
    """Of the pool where it has floats of that shape, else an input; mapped or not."""
    fits = [n for n in c.pool if c.array(n).shape == shape and c.array(n).dtype == np.float32]
    v = c.d.choice(fits) if fits and c.d.bool() else c.fresh(np.asarray(c.d.array(shape, "f32", -1, 1)))
    return on.mapped(c, v) if c.chance(30) else v


def asked(c: FamilyComposer) -> list[str]:
    """Attention: heads apart or side by side, several heads to one of keys, masks, rows of runs before."""
    batch, groups, heads, size = c.d.int(1, 2), c.d.int(1, 2), c.d.int(1, 2), c.d.choice([2, 4, 8])
    asking, given = c.d.choice([1, 3, MAIN]), c.d.choice([2, 5, MAIN])
    of_values = c.d.choice([size, size, 3])
    flat = c.d.bool()
    wanted = [(groups * heads, asking, size), (heads, given, size), (heads, given, of_values)]
    q, k, v = (_rows(c, (batch, n, h * e) if flat else (batch, h, n, e)) for h, n, e in wanted)
    attrs: dict[str, object] = {"q_num_heads": groups * heads, "kv_num_heads": heads} if flat else {}
    if c.chance(30):
        attrs["scale"] = c.d.choice([0.25, 1.0])
    if c.chance(20):
        attrs["softcap"] = 2.0
    before, past = 0, []
    if c.chance(30):
        before = c.d.choice([1, 3, MAIN])
        past = [_rows(c, (batch, heads, before, e)) for e in (size, of_values)]
    if c.chance(35) and not (
        past and asking == 1 != given
    ):  # onnxruntime lets one query ask all keys (conformance.md)
        attrs["is_causal"] = 1
    mask, way = "", c.d.int(0, 3)
    keys = before + given
    if way == 1:
        shown = c.d.numpy.random((asking, keys)) < 0.7
        shown[:, 0] = True
        mask = c.constant(shown) if MAIN not in (asking, keys, given, before) else c.input(shown)
    elif way == 2:
        mask = c.input(np.asarray(c.d.array(c.d.broadcastable((batch, groups * heads, asking, keys)), "f32", -2, 2)))
    given_names = [q, k, v, mask, *past]
    while not given_names[-1]:
        given_names.pop()
    outputs = 3 if past else 1
    newer = 24 if c.chance(40) else 0
    return c.apply("Attention", given_names, outputs=outputs, since=newer, **attrs)


def turned(c: FamilyComposer) -> list[str]:
    """RotaryEmbedding: heads apart or side by side, pairs side by side or halves, all of a head or its first part."""
    batch, heads, rows, size = c.d.int(1, 2), c.d.int(1, 3), c.d.choice([1, 4, MAIN]), c.d.choice([4, 8])
    part = c.d.choice([0, 0, size // 2])
    flat = c.d.bool() and not part
    x = _rows(c, (batch, rows, heads * size) if flat else (batch, heads, rows, size))
    angles = c.d.array((MAIN + 2, (part or size) // 2), "f32", -3, 3)
    attrs: dict[str, object] = {"num_heads": heads} if flat or c.d.bool() else {}
    if part:
        attrs |= {"rotary_embedding_dim": part, "num_heads": heads}
    if c.d.bool():
        attrs["interleaved"] = 1
    if c.chance(70):
        tables = [c.constant(f(np.asarray(angles))) for f in (np.cos, np.sin)]
        places = c.input(np.asarray(c.d.array((batch, rows), "i64", 0, MAIN + 1)))
        return c.apply("RotaryEmbedding", [x, *tables, places], **attrs)
    along = np.asarray(c.d.array((batch, rows, (part or size) // 2), "f32", -3, 3))
    return c.apply("RotaryEmbedding", [x, c.input(np.cos(along)), c.input(np.sin(along))], **attrs)


def gated(c: FamilyComposer) -> list[str]:
    """Swish by another factor than 1, RMSNormalization over several axes, sums that are multiplied."""
    v, way = c.some(rank=2), c.d.int(0, 2)
    a = c.array(v)
    if way == 0:
        attrs = {"alpha": c.d.choice([0.5, 1.702, -1.0])} if c.chance(70) else {}
        return c.apply("Swish", [v], since=24, **attrs)
    if way == 1:
        axis = c.d.int(1, a.ndim - 1)
        scale = np.asarray(c.d.array(a.shape[axis:], "f32", 0.5, 1.5)).astype(a.dtype)
        if MAIN in scale.shape:
            on.reject("a scale of an extent of the run")
        axis = axis - a.ndim if c.d.bool() else axis
        return c.apply("RMSNormalization", [v, on.constant_like(c, scale)], axis=axis)
    sums = {"exclusive": c.d.int(0, 1), "reverse": c.d.int(0, 1)}
    return c.apply("CumProd", [on.clipped(c, v, -1.1, 1.1), c.scalar(c.axis(v), np.int64)], since=26, **sums)
