"""Rows of other types than f32: what prologues make floats of, and what epilogues read and give beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mccompile.kernels.model.lanes import converts_halves
from mccompile.targets.target import resolve
from tests.kernels.test_views import Drawn, agree, draw
from tests.support.draw import SeededDraw
from tests.support.targets import ALL_VECTORS, WIDE, needs_target, quick

ROWS = {
    "reduce.vector": ["reduce(%a) {{mode='{mode}', axes=({axis},)}}"],
    "softmax.vector": ["softmax(%a) {{axis={axis}}}", "softmax(%a) {{axis={axis}, mode='log'}}"],
    "normalize.vector": [
        "normalize(%a) {{axes=({axis},), epsilon=0.01}}",
        "normalize(%a) {{axes=({axis},), epsilon=0.01, center=False}}",
    ],
}
SMALL = "0.000000007450580596923828"  # powers of two, so that a multiply-add rounds no less
READ = {
    "f16": ["acc", "neg(acc)", "acc * x1"], "i32": [f"f32(acc) * {SMALL}"], "u8": ["f32(acc) * 0.0078125"],
    "i16": ["f32(acc) * 0.0001220703125"], "f32": ["acc", f"acc * f32(x2) * {SMALL}", "acc * x1"],
}  # fmt: skip
"""Prologues of operands by their types; x1 is of f16 or f32, x2 of i32."""
GIVEN = {
    "f32": ["acc", "acc * x0", "select(x3, acc, 0.5)"], "f64": ["f64(acc) + x4"], "i64": ["i64(acc * 9.37) + x5"],
    "bool": ["le(acc, 0.1)"], "i32": ["i32(acc * 9.37)"], "u8": ["u8(acc * 9.37 + 20.0)"],
}  # fmt: skip
"""Epilogues by the types of results."""
EXTRAS = ("f32", "f16", "i32", "bool", "f64", "i64")
"""Of the variables x0, x1, .."""
DRAWS = {True: 60, False: 15}
"""Of the last of the wide targets, and of the others."""


def _node(kernel: str, d: SeededDraw, halves: bool) -> tuple[str, str, str]:
    """Operands, a node and the type of its result, drawn."""
    shape = [d.int(2, 5), d.choice([2, 3, 9]), d.choice([2, 5, 16, 21, 70, 150])]
    axis = d.int(1, 2)
    read = d.choice([t for t in READ if halves or t != "f16"])
    given = d.choice([*GIVEN])
    pre, post = d.choice(READ[read]), d.choice(GIVEN[given])
    node = d.choice(ROWS[kernel]).format(axis=axis, mode=d.choice(["sum", "max", "min"]))
    reduced = [1 if kernel == "reduce.vector" and a == axis else e for a, e in enumerate(shape)]
    operands, names, bodies = [f"a: {read}[{_dims(shape)}]"], [], [pre, post]
    for i, dtype in enumerate(EXTRAS):
        if f"x{i}" in pre + post:
            like = shape if f"x{i}" in pre else reduced
            dims = [1 if d.int(0, 2) == 0 else e for e in like]
            bodies = [body.replace(f"x{i}", f"x{len(names)}") for body in bodies]
            names.append(f"e{i}")
            kind = dtype if halves or dtype != "f16" else "f32"
            operands.append(f"e{i}: {kind}[{_dims(dims)}]")
    extras = f" with({', '.join('%' + n for n in names)})" if names else ""
    text = f"{node}{extras} pre0{{ {bodies[0]} }} post0{{ {bodies[1]} }}"
    return ", ".join(operands), text, f"{given}[{_dims(reduced)}]"


def _dims(shape: list[int]) -> str:
    return ",".join(map(str, shape))


@pytest.mark.parametrize("kernel", ROWS)
@pytest.mark.parametrize("target", ALL_VECTORS)
def test_rows_of_any_type_are_taken_and_given(target: str, kernel: str, tmp_path: Path) -> None:
    """As they lie, and on views of any strides that the variant does not refuse."""
    needs_target(target)
    found, taken = [], set()
    for seed in range(DRAWS[target == WIDE[-1]]):
        texts = _node(kernel, SeededDraw(seed), converts_halves(resolve(target)))
        for views in (0, 1000 + seed):
            one = draw(kernel, texts, target, f"net{seed}_{views}", views)
            if isinstance(one, Drawn):
                found.append(one)
                taken |= {v.dtype.name for v in one.after.inputs if v is not None} | {one.after.results[0].dtype.name}
    assert target != WIDE[-1] or taken >= {*READ, *GIVEN, *EXTRAS}
    agree(found, target, tmp_path, quick(target))
