"""Floats that are extents over numbers: what is told of them is, in each run, what the floats are rounded to."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from mccompile.importer.extent_rules import Numbers
from mccompile.importer.ratios import Ratios, ratios
from mccompile.ir.dims import symbol, value
from mccompile.ir.types import DTYPES
from mccompile.onnxio import OnnxNode, dtype_number

NUMBERS = (1, 2, 3, 0.5, 0.75, -1, 7, 49, 1.5, 10, 0.25, 0.1, 6, -3, 100, 2.0**-12)
ROUNDED = ("Floor", "Ceil", "Cast")
STEPS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
LAST = 200


def _chain(seed: str) -> str:
    """What became of one chain of steps: "followed" where all runs agree."""
    r = random.Random(seed)
    dtype = DTYPES[r.choice(["f16", "f32", "f64"])]
    last = 60 if dtype.name == "f16" else LAST
    count = r.choice([1, 2])
    floats = np.repeat(np.arange(1, last + 1)[:, None], count, axis=1).astype(dtype.numpy)
    found: Numbers | Ratios | None = np.array([symbol("n", 1, last)] * count, object)
    shown = []
    for _ in range(r.randint(1, 4)):
        op = r.choice([*STEPS, *STEPS, "Cast", "Neg"])
        number = np.array(r.choices(NUMBERS, k=r.choice([1, count])), dtype.numpy)
        shown.append(f"{op} {number}")
        if op == "Cast":
            dtype, before = DTYPES[r.choice(["f16", "f32", "f64"])], dtype
            node, operands = OnnxNode(op, ("x",), ("y",), attrs={"to": dtype_number(dtype.name)}), [found]
            floats = floats.astype(dtype.numpy)
            found = ratios(node, operands, before)
        elif op == "Neg":
            node, floats = OnnxNode(op, ("x",), ("y",)), -floats
            found = ratios(node, [found], dtype)
        else:
            left = r.random() < 0.7
            floats = STEPS[op](*((floats, number) if left else (number, floats)), dtype=dtype.numpy)
            found = ratios(OnnxNode(op, ("x", "c"), ("y",)), [found, number] if left else [number, found], dtype)
        if found is None:
            return "not followed"
    op = r.choice(ROUNDED)
    attrs = {"to": dtype_number("i64")} if op == "Cast" else {}
    assert isinstance(found, Ratios)
    told = found.to_whole(OnnxNode(op, ("x",), ("y",), attrs=attrs))
    if told is None:
        return "not rounded"
    wanted = {"Floor": np.floor, "Ceil": np.ceil, "Cast": np.trunc}[op](floats)
    assert [[value(t, {"n": n}) for t in told] for n in range(1, last + 1)] == wanted.tolist(), (shown, op)
    return "followed"


@pytest.mark.parametrize("part", range(4))
def test_ratios_are_what_floats_are_rounded_to(part: int) -> None:
    with np.errstate(all="ignore"):
        ended = Counter(_chain(f"{part} {seed}") for seed in range(250))
    assert ended["followed"] >= 60, ended


def test_products_that_floats_change_are_not_followed() -> None:
    """1 / 49 * 49 is less than 1."""
    n, number = np.array([symbol("n", 1, 99)], object), np.array([49.0])
    found = ratios(OnnxNode("Div", ("x", "c"), ("y",)), [n, number], DTYPES["f64"])
    assert found is not None
    assert ratios(OnnxNode("Mul", ("x", "c"), ("y",)), [found, number], DTYPES["f64"]) is None
    assert np.floor(1 / 49 * 49) == 0
