"""The ways of copies: each one is taken where it fits, at all extents around vectors, and moves every element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.kernels.movement import Way, movement
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve, strict_warnings
from tests._skips import needs_tool
from tests.kernels.cases import Net
from tests.kernels.test_variants import ort_run
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import ALL_VECTORS, WIDE, needs_target, quick

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
Build = Callable[[Net], str]


def transposed(shape: Sequence[int], perm: Sequence[int]) -> Build:
    return lambda n: n("Transpose", n.input(*shape), perm=list(perm))


def sliced(shape: Sequence[int], axis: int, start: int, step: int) -> Build:
    end = shape[axis]
    return lambda n: n("Slice", n.input(*shape), n.ints(start), n.ints(end), n.ints(axis), n.ints(step))


def joined(first: Sequence[int], second: Sequence[int], axis: int) -> Build:
    return lambda n: n("Concat", n.input(*first), n.input(*second), axis=axis)


def interleaved(rows: int, columns: int) -> Build:
    """Elements of which every second one is another tensor's, so that no axis of the result is contiguous."""

    def build(n: Net) -> str:
        turned = n("Transpose", n.input(rows, columns), perm=[1, 0])
        pairs = [n("Reshape", x, n.ints(columns, rows, 1)) for x in (turned, n.input(columns, rows))]
        return n("Concat", *pairs, axis=2)

    return build


def shuffled(pixels: int, groups: int, channels: int) -> Build:
    """Channels of groups take turns, as in a channel shuffle of what is stored channels-last."""

    def build(n: Net) -> str:
        split = n("Reshape", n.input(pixels, groups * channels), n.ints(pixels, groups, channels))
        turned = n("Transpose", split, perm=[0, 2, 1])
        return n("Reshape", turned, n.ints(pixels, groups * channels))

    return build


def halves_turned(pixels: int, channels: int) -> Build:
    """Every second channel of what is stored channels-last, channels first."""

    def build(n: Net) -> str:
        pairs = n("Reshape", n.input(pixels, channels * 2), n.ints(pixels, channels, 2))
        return n("Transpose", pairs, perm=[2, 1, 0])

    return build


def tiled(shape: Sequence[int], repeats: Sequence[int]) -> Build:
    return lambda n: n("Tile", n.input(*shape), n.ints(*repeats))


NETS: list[Build] = [
    *(transposed((a, b), (1, 0)) for a in EXTENTS for b in (4, 17)),
    *(transposed((a, b), (1, 0)) for a in (2, 8, 16, 33) for b in (3, 5, 7, 8, 16, 31)),
    *(shuffled(3, g, c) for g in (2, 3, 4, 5) for c in (2, 8, 15, 16, 17, 40)),
    *(transposed((20, e), (1, 0)) for e in (64, 76, 140)),  # squares four by four
    transposed((2, 5, 6, 7), (0, 2, 3, 1)),
    transposed((2, 19, 3, 17), (3, 1, 0, 2)),
    transposed((2, 9, 4, 32), (0, 2, 1, 3)),
    *(sliced((5, 37), 1, start, step) for start in (0, 1, 3) for step in (1, 2, 3, 5)),
    sliced((5, 6, 21), 1, 1, 2),
    *(joined((6, e), (6, 20), 1) for e in EXTENTS),
    joined((2, 3, 40), (2, 5, 40), 1),
    *(interleaved(16, c) for c in (5, 16, 33)),
    tiled((3, 5), (2, 3)),
    *(halves_turned(p, c) for p in (3, 5, 16, 33) for c in (7, 16, 25)),
]
OTHERS = (TensorProto.UINT8, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64)
"""Elements of each size that are moved as bits."""
OTHER_NETS: list[Build] = [
    *(transposed((a, b), (1, 0)) for a in (2, 3, 7, 16, 33, 79) for b in (3, 8, 17, 64)),
    *(transposed((2, a, b), (0, 2, 1)) for a, b in ((56, 56), (20, 72), (31, 47))),  # last squares overlap
    *(shuffled(3, g, c) for g in (2, 3, 4, 5) for c in (3, 16, 37)),
    transposed((2, 19, 3, 17), (3, 1, 0, 2)),
    transposed((2, 40, 4, 9), (0, 3, 2, 1)),
    halves_turned(33, 25),
    sliced((5, 6, 21), 1, 1, 2),
    joined((6, 9), (6, 20), 1),
    tiled((3, 5), (2, 3)),
]


class TypedNet(Net):
    """A network whose inputs are of one type."""

    def __init__(self, seed: int, dtype: int) -> None:
        super().__init__(seed)
        self.dtype = dtype

    def input(self, *shape: int, dtype: int = TensorProto.UNDEFINED) -> str:
        return super().input(*shape, dtype=dtype or self.dtype)


def drawn(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Inputs of any bits, but of halves that are numbers."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for v in model.graph.input:
        shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type)
        bits = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
        found[v.name] = rng.uniform(-2, 2, shape).astype(dtype) if dtype.kind == "f" else bits
    return found


def compiled(nets: Sequence[Build], target: str, folder: Path, dtype: int) -> list[Built]:
    built = []
    for i, build in enumerate(nets):
        net = TypedNet(i, dtype)
        (folder / f"net{i}.onnx").write_bytes(net.model(build(net)).SerializeToString())
        c = import_graph(folder / f"net{i}.onnx", Options(target=target, name=f"net{i}"))
        built.append(Built(i, Case([]), [], c, compile_program(c)))
    return built


def run_all(
    target: str, folder: Path, flags: list[str], compiler: Sequence[str] = ("gcc",), dtype: int = TensorProto.FLOAT
) -> set[Way]:
    """Runs nets against onnxruntime: all on one wide target, every second on others. Returns the ways taken."""
    every = NETS if dtype == TensorProto.FLOAT else OTHER_NETS
    nets = every if target == WIDE[-1] else every[::2]
    built = compiled(nets, target, folder, dtype)
    library = CaseLibrary(folder, built, [*resolve(target).c_flags, *flags], compiler).build()
    ways = set()
    for i, (build, b) in enumerate(zip(nets, built, strict=True)):
        net = TypedNet(i, dtype)
        model = net.model(build(net))
        inputs = drawn(model, i)
        (got,), (want,) = library.run(b, inputs), ort_run(model, inputs)
        assert np.array_equal(got, want), model.graph.node
        assert b.compilation.program is not None
        for step in b.compilation.program.body.linear():
            if isinstance(step, Call) and step.kernel == "copy.generic":
                (source,), (result,) = step.reads, step.results
                assert source is not None
                ways.add(movement(source, result, resolve(target).lanes).way)
    return ways


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_every_way_moves_every_element(target: str, tmp_path: Path) -> None:
    needs_target(target)
    assert run_all(target, tmp_path, [*STRICT_WARNINGS, *quick(target)]) == set(Way)


@pytest.mark.parametrize("dtype", OTHERS)
@pytest.mark.parametrize("target", ALL_VECTORS)
def test_bits_of_any_size_are_moved_by_every_way(target: str, dtype: int, tmp_path: Path) -> None:
    needs_target(target)
    ways = run_all(target, tmp_path, [*STRICT_WARNINGS, *quick(target)], dtype=dtype)
    two = dtype == TensorProto.INT64  # of which a vector has two: all extents but 1 are enough for a square
    assert ways == set(Way) - ({Way.PLAIN} if two else set())


def test_clang_accepts_the_ways(tmp_path: Path) -> None:
    needs_target("x86-64-v3")
    assert run_all("x86-64-v3", tmp_path, strict_warnings("clang"), (needs_tool("clang"),)) == set(Way)


def test_clang_accepts_the_ways_of_bytes(tmp_path: Path) -> None:
    needs_target("x86-64-v3")
    flags = strict_warnings("clang")
    assert run_all("x86-64-v3", tmp_path, flags, (needs_tool("clang"),), TensorProto.UINT8) == set(Way)


def test_without_vectors_nothing_is_turned(tmp_path: Path) -> None:
    assert run_all("generic", tmp_path, list(STRICT_WARNINGS)) == {Way.PLAIN, Way.ROWS}
