"""Maps that write their results over what they read: the halves of rows that a gate multiplies, bytes of floats."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from mccompile.check.check import check
from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.kernel import Buffer, Call
from mccompile.ir.types import F32, U8, TensorType, row_major
from mccompile.ir.views import View
from mccompile.kernels.views.windows import ascends, element_gap
from tests._fast import first
from tests.kernels.cases import Net

SEEDS = [range(6), range(6, 12)]


@pytest.mark.parametrize("seed", range(60))
def test_the_gap_is_large_enough(seed: int) -> None:
    """Views of any stride, by a loop that remembers what was written."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 4, rank))
    dtypes = [[F32, U8][int(n)] for n in rng.integers(0, 2, 2)]
    strides = [tuple(int(n) for n in rng.integers(0, 9, rank)) for _ in range(2)]
    inner = [int(np.prod(shape[a + 1 :])) for a in range(rank)]
    if rng.integers(2):  # rows with gaps, or none, which most draws are not
        strides[1] = tuple(n * int(rng.integers(1, 3)) if a == 0 else n for a, n in enumerate(inner))
    views = []
    for name, dtype, steps in zip("xy", dtypes, strides, strict=True):
        offset = int(rng.integers(0, 4))
        buffer = Buffer(name, TensorType(dtype, (200,)), "arena", 4)
        views.append(View(buffer, shape, row_major(rank), steps, offset))
    x, y = views
    if not ascends(y):
        return
    reads, writes = ([_bytes(v, index) for index in np.ndindex(*shape)] for v in (x, y))
    needed = max([w.stop - r.start for j, r in enumerate(reads) for w in writes[:j]], default=0)
    gap = element_gap(x, y)
    assert gap is None or gap >= max(needed, 0)
    assert gap is not None or needed > 0
    if gap is not None and gap > 0:  # and no larger than by the bytes between two results
        apart = max((b.start - a.stop for a, b in pairwise(writes)), default=0)
        assert gap <= max(needed, writes[0].start - reads[0].start) + max(apart, 0)


def _bytes(view: View, index: tuple[int, ...]) -> range:
    size = view.dtype.nbytes
    at = (view.offset + sum(i * s for i, s in zip(index, view.axis_strides(), strict=True))) * size
    return range(at, at + size)


def gated(seed: int) -> Net:
    """What a convolution or product makes is cut into parts along an axis, and these are gates of each other."""
    n = Net(seed)
    rng = np.random.default_rng(seed)
    parts, channels = int(rng.integers(2, 4)), int(rng.integers(1, 20))
    sides = [int(s) for s in rng.integers(1, 9, 2)]
    if rng.integers(2):
        x = n.input(1, 3, *sides)
        whole, axis = n.conv(x, (parts * channels, 3, 3, 3), pads=[1, 1, 1, 1]), 1
    else:
        x = n.input(*sides, 6)
        whole, axis = n("Add", n("MatMul", x, n.weight(6, parts * channels)), n.weight(parts * channels)), 2
    if rng.integers(2):  # rows of what the axis is within
        whole = n("Transpose", whole, perm=[0, 2, 1] if axis == 2 else [0, 2, 3, 1])
        axis = 1 if axis == 2 else 3
    pieces = n.several("Split", [whole, n.ints(*[channels] * parts)], parts, axis=axis)
    kind = int(rng.integers(4))
    if kind == 0:
        y = n("Mul", pieces[0], n("Sigmoid", pieces[1]))
    elif kind == 1:
        y = n("Mul", n("Tanh", pieces[-1]), pieces[0])
    elif kind == 2:
        y = n("Where", n("Less", pieces[0], pieces[1]), n("Neg", pieces[-1]), pieces[0])
    else:
        y = n("Sub", n("Exp", pieces[1]), n("ReduceMean", whole, axes=[axis], keepdims=1))
    if parts > 2:
        y = n("Add", y, pieces[2])
    if rng.integers(3) == 0:
        y = n("Cast", n("Clip", y, n.constant(np.float32(-90)), n.constant(np.float32(90))), to=TensorProto.INT8)
        y = n("Cast", y, to=TensorProto.FLOAT)
    n("Relu", y)
    return n


def overlaps(path: Path, target: str) -> int:
    """How many maps write over what they read elsewhere."""
    compilation = import_graph(path, Options(target=target))
    compile_program(compilation)
    program = compilation.program
    assert program is not None
    maps = [s for s in program.body.linear() if isinstance(s, Call) and s.op.name == "map"]
    read = [(s, v.buffer) for s in maps for i, v in enumerate(s.inputs) if v is not None and i not in s.inplace]
    return sum(b.space == "arena" and program.overlap(b, s.results[0].buffer) for s, b in read)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "native"])
@pytest.mark.parametrize("seeds", first(SEEDS, 1))
def test_gates_compute_the_same(seeds: range, target: str, tmp_path: Path) -> None:
    over = 0
    for seed in seeds:
        n = gated(seed)
        path = tmp_path / f"net{seed}.onnx"
        path.write_bytes(n.model(f"t{len(n.nodes) - 1}").SerializeToString())
        over += overlaps(path, target) > 0
        found = check(path, Options(target=target))
        assert found.ok, (seed, found)
    assert over > len(seeds) // 3
