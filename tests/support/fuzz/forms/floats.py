"""Floats of other widths: f16 and f64 beside f32, and values rounded to floats of 16, 8 and 4 bits on their way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support.compose import operands as on
from tests.support.compose.network import dtype_number
from tests.support.fuzz.family import FamilyComposer

EIGHT = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")


def widened(c: FamilyComposer) -> list[str]:
    """A float of another width, mapped there."""
    v = c.some()
    there = [n for n in ("float16", "float64", "float32") if n != c.array(v).dtype.name]
    v = c.one("Cast", v, to=dtype_number(c.d.choice(there)))
    for _ in range(c.d.int(0, 3)):
        v = on.mapped(c, v)
    return [v]


def through(c: FamilyComposer) -> list[str]:
    """What a product or a sum gives, cast to half the width and back, beside itself as it was."""
    v = c.some(rank=2)
    v = v if c.array(v).dtype == np.float32 else c.one("Cast", v, to=dtype_number("float32"))
    columns = c.array(v).shape[-1]
    way = c.d.int(0, 2)
    if way == 0:
        weights = np.asarray(c.d.array((columns, c.d.choice([columns, 3, 8])), "f32", -0.5, 0.5))
        v = c.one("MatMul", v, c.constant(weights))
    elif way == 1:
        v = c.one(c.d.choice(["ReduceMean", "ReduceMax", "ReduceL2"]), v, c.ints(-1), keepdims=1)
    v = on.mapped(c, v) if c.d.bool() else v
    half = c.one("Cast", v, to=dtype_number("float16"))
    half = on.mapped(c, half) if c.chance(40) else half
    back = c.one("Cast", half, to=dtype_number("float32"))
    return [c.one(c.d.choice(["Add", "Sub", "Mul", "Max"]), *((back, v) if c.d.bool() else (v, back)))]


def given(kind: str) -> Callable[[FamilyComposer], list[str]]:
    """An input of a width, mapped or not."""

    def form(c: FamilyComposer) -> list[str]:
        v = c.fresh(np.asarray(c.d.array(c.d.shape(c.d.int(1, 4)), "f32", -2, 2)).astype(kind))
        return [on.mapped(c, v)] if c.d.bool() else []

    return form


def narrow(c: FamilyComposer) -> list[str]:
    """Rounded to bf16 or 8 bits and back: by Cast, or by QuantizeLinear. The narrow value itself is seen by nobody:
    numpy and onnxruntime have no common form of it. Both nodes are one step, an If that is always taken."""
    v, k = c.some(), c.count
    v = v if c.array(v).dtype == np.float32 else c.one("Cast", v, to=dtype_number("float32"))
    inner = [f"a{k}", f"r{k}"]
    captured = [v]
    if c.chance(60):
        kind = getattr(TensorProto, c.d.choice(("BFLOAT16", *EIGHT)))
        more = {"saturate": c.d.int(0, 1)} if kind != TensorProto.BFLOAT16 and c.d.bool() else {}
        nodes = [helper.make_node("Cast", [v], [inner[0]], to=kind, **more)]
        back = c.d.choice(["float32", "float32", "float16"])
        nodes.append(helper.make_node("Cast", [inner[0]], [inner[1]], to=dtype_number(back)))
    else:
        kind = getattr(TensorProto, c.d.choice((*EIGHT, "INT4", "UINT4")))
        scale = c.scalar(c.d.choice([0.5, 0.03, 1 / 3]), np.float32)
        zero = helper.make_tensor(f"z{k}", kind, [], [0])
        constant = helper.make_node("Constant", [], [f"z{k}"], value=zero)
        captured.append(scale)
        nodes = [
            constant,
            helper.make_node("QuantizeLinear", [v, scale, f"z{k}"], [inner[0]]),
            helper.make_node("DequantizeLinear", [inner[0], scale, f"z{k}"], [inner[1]]),
        ]
    sides = []
    for suffix in "te":
        side = helper.make_graph([], f"narrow{suffix}", [], [onnx.ValueInfoProto(name=f"{inner[1]}{suffix}")])
        for node in nodes:
            copy = side.node.add()
            copy.CopyFrom(node)
            for names in (copy.input, copy.output):
                for i, name in enumerate(names):
                    names[i] = f"{name}{suffix}" if name in (*inner, f"z{k}") else name
        sides.append(side)
    condition = c.constant(np.array(True))
    return c.apply("If", [condition], captured=captured, then_branch=sides[0], else_branch=sides[1])
