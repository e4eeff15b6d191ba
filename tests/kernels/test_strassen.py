"""Strassen's products: exact in whole numbers, rows that keep their digits, and weights that are left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mccompile
from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call
from mccompile.kernels.matmul.strassen import (
    PRODUCTS,
    MatMulStrassen,
    StrassenColumns,
    StrassenTile,
    Unscaled,
    best_tile,
    packed_floats,
    powers,
)
from mccompile.kernels.model.tiles import best_tile as best_packed
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.cases import Net
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import WIDE, needs_target

Array = np.ndarray[Any, np.dtype[Any]]
FORCED = {"matmul": "matmul.strassen"}


def _sevenfold(a: Array, b: Array, tile: StrassenTile) -> Array:
    """a @ b by what is packed, tile by tile, as the template does it."""
    half = a.shape[1] // 2
    packed = StrassenColumns(tile.width, tile.lanes, transposed=False).pack(b)
    undone = Unscaled(tile.width, tile.lanes, transposed=False).pack(b)
    result = np.zeros((a.shape[0], b.shape[1]))
    at = 0
    for s in tile.tiles_n(b.shape[1]):
        left = tile.left(s.size)
        for n in range(s.start, s.stop, s.size):
            parts = packed[at : at + PRODUCTS * half * left].reshape(PRODUCTS, half, left)
            at += parts.size
            for d in tile.tiles_m(a.shape[0]):
                for m in range(d.start, d.stop, d.size):
                    high = tile.upper(d.size)
                    made = _tile(a[m : m + high], a[m + d.size - high : m + d.size], parts)
                    made *= undone[n : n + 2 * left]
                    result[m : m + high, n : n + s.size] = made[0][:, : s.size]
                    result[m + d.size - high : m + d.size, n : n + s.size] = made[1][:, : s.size]
    assert at == packed.size == packed_floats(tile, b.shape[1], a.shape[1])
    return result


def _tile(upper: Array, lower: Array, parts: Array) -> Array:
    (a11, a12), (a21, a22) = np.split(upper, 2, axis=1), np.split(lower, 2, axis=1)
    s1 = a21 + a22
    s2 = s1 - a11
    p = a11 @ parts[0]
    q = p + s2 @ parts[2]
    more, u = q + (a11 - a21) @ parts[3], s1 @ parts[5]
    c12 = q + u + (a12 - s2) @ parts[6]
    return np.stack([np.hstack([p + a12 @ parts[1], c12]), np.hstack([more + a22 @ parts[4], more + u])])


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 21, 32, 45])
def test_seven_products_are_eight(columns: int) -> None:
    """In whole numbers, for rows and columns that end anywhere in a tile."""
    rng = np.random.default_rng(columns)
    tile = StrassenTile(rows=3, vectors=2, lanes=4, chunk=12)
    for rows in (2, 5, 6, 7, 12, 13):
        a, b = rng.integers(-9, 9, (rows, 10)), rng.integers(-9, 9, (10, columns))
        assert np.array_equal(_sevenfold(a.astype(float), b.astype(float), tile), a @ b)


def test_columns_are_scaled_exactly() -> None:
    b = np.random.default_rng(0).standard_normal((8, 12)) * np.float64(10) ** np.linspace(-37, 37, 12)
    b[:, 3] = 0
    by = powers(b)
    assert np.array_equal(b * by / by, b)
    size = np.abs(b * by).max(axis=0)
    assert ((size >= 0.5) & (size < 1) | (b == 0).all(axis=0)).all()


def test_a_transposed_matrix_is_packed_as_it_is() -> None:
    b = np.random.default_rng(0).standard_normal((6, 20)).astype(np.float32)
    for how in (StrassenColumns, Unscaled):
        assert np.array_equal(how(8, 4, transposed=True).pack(b.T), how(8, 4, transposed=False).pack(b))
        for same in (b.T[:, :, None, None], b.T[:, :, None], b.T[None], b.T[None, None]):
            assert np.array_equal(how(8, 4, transposed=True).pack(same), how(8, 4, False).pack(b))


def _dense(steps: int, columns: int) -> Array:
    return np.random.default_rng(3).uniform(-1, 1, (steps, columns)).astype(np.float32)


def _picked(steps: int, columns: int) -> Array:
    """Each column picks an element."""
    return np.eye(steps, columns, dtype=np.float32) + np.eye(steps, columns, -columns, dtype=np.float32)


def _uneven(steps: int, columns: int) -> Array:
    """Some of the elements are millions, and what they are multiplied by millionths."""
    b = _dense(steps, columns)
    b[::7] *= 1e-6
    return b


@pytest.mark.parametrize(
    ("weights", "options", "used"),
    [
        (_dense, {}, True),
        (_dense, {"opt_level": "O3"}, True),
        (_dense, {"opt_level": "O1"}, False),
        (_dense, {"opt_level": "Os"}, False),
        (_dense, {"exact": True}, False),
        (_dense, {"max_blob_growth": 1.0}, False),
        (_dense, {"target": "cortex-m7"}, False),
        (_dense, {"weights": {"*": "f16"}}, False),
        (_picked, {}, False),
        (_uneven, {}, False),
    ],
)
def test_options_and_weights_that_allow_it(weights: Any, options: dict[str, Any], used: bool, tmp_path: Path) -> None:
    n = Net(1)
    model = n.model(n("MatMul", n.input(128, 256), n.constant(weights(256, 256))))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    c = import_graph(tmp_path / "net.onnx", Options(**({"target": "x86-64-v4"} | options)))
    compile_program(c)
    assert c.program is not None
    kernels = {s.kernel for s in c.program.body.linear() if isinstance(s, Call)}
    assert ("matmul.strassen" in kernels) == used


@pytest.mark.parametrize(
    ("shape", "extra", "used"),
    [((98, 2, 512), (98, 2, 512), True), ((98, 2, 512), (98, 1, 512), False), ((2, 98, 512), (2, 1, 512), True)],
)
def test_rows_that_do_not_lie_one_behind_the_other_are_no_tile(
    shape: Any, extra: Any, used: bool, tmp_path: Path
) -> None:
    """Two rows of each batch, to which something is added that all of its rows share."""
    n = Net(1)
    model = n.model(n("Add", n("MatMul", n.input(*shape), n.weight(512, 512)), n.input(*extra)))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    c = import_graph(tmp_path / "net.onnx", Options(target="x86-64-v4"))
    compile_program(c)
    assert c.program is not None
    kernels = [s.kernel for s in c.program.body.linear() if isinstance(s, Call)]
    assert kernels == ["matmul.strassen" if used else "matmul.packed"]


def _forced(a: Array, b: Array, target: str, folder: Path, **options: Any) -> Array:
    """a @ b by the kernel."""
    n = Net(1)
    model = n.model(n("MatMul", n.input(*a.shape), n.constant(b)))
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    c = import_graph(folder / "net.onnx", Options(target=target, name="net", kernels=FORCED, passes=(), **options))
    built = Built(0, Case([]), [], c, compile_program(c))
    (folder / "c").mkdir(exist_ok=True)
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS]
    return CaseLibrary(folder / "c", [built], flags).build().run(built, {"x0": a})[0]


@pytest.mark.parametrize("target", WIDE)
def test_rows_of_any_size_keep_their_digits(target: str, tmp_path: Path) -> None:
    """Rows of a tile enter each other's results: each is as exact beside its own largest result as without others."""
    needs_target(target)
    rng = np.random.default_rng(5)
    a = rng.uniform(-1, 1, (61, 64)) * 10.0 ** rng.integers(-30, 31, (61, 1))
    a[7], a[20], a[44:47] = 0, 0, 0
    a = a.astype(np.float32)
    b = _dense(64, 80) * np.float32(10) ** rng.integers(-6, 6, 80).astype(np.float32)
    got = _forced(a, b, target, tmp_path)
    want = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).max(axis=1, keepdims=True).astype(np.float64) * np.abs(b).max(axis=0)
    assert (np.abs(got - want) <= 3e-5 * bound).all()


def test_columns_of_zeros_have_results_of_zero(tmp_path: Path) -> None:
    """Channels that are dead, with nothing of those that they meet in a tile."""
    needs_target(WIDE[-1])
    a, b = np.random.default_rng(5).uniform(-1, 1, (40, 64)).astype(np.float32), _dense(64, 80)
    b[:, 3:80:9] = 0
    got = _forced(a, b, WIDE[-1], tmp_path)
    assert not got[:, 3:80:9].any()
    assert np.abs(got - a @ b).max() < 1e-4


def test_what_is_finite_stays_so(tmp_path: Path) -> None:
    """Sums of elements near the largest float, by weights that make results of less."""
    needs_target(WIDE[-1])
    rng = np.random.default_rng(5)
    a = rng.uniform(-1, 1, (40, 64)).astype(np.float32)
    a[3], a[17:29] = np.sign(a[3]) * np.float32(3.4e38), a[17:29] * np.float32(3e38)
    b = _dense(64, 80) * np.float32(1e-4)
    got = _forced(a, b, WIDE[-1], tmp_path)
    want = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).max(axis=1, keepdims=True).astype(np.float64) * np.abs(b).max(axis=0)
    assert (np.abs(got - want) <= 3e-5 * bound).all()


@pytest.mark.parametrize("special", [np.nan, np.inf])
@pytest.mark.parametrize(("rows", "at", "others"), [(40, 11, 1), (7, 1, 1), (7, 3, 2)])
def test_what_is_not_finite_reaches_what_it_meets(
    special: float, rows: int, at: int, others: int, tmp_path: Path
) -> None:
    """One other row, or two from the middle of a tile of an odd number of rows."""
    needs_target(WIDE[-1])
    a = np.ones((rows, 32), dtype=np.float32)
    a[at, 5] = special
    finite = np.isfinite(_forced(a, _dense(32, 64), WIDE[-1], tmp_path)).all(axis=1)
    assert not finite[at]
    assert finite.sum() >= rows - 1 - others


def test_it_says_what_it_cannot_do() -> None:
    target = resolve("x86-64-v4")
    variant = MatMulStrassen()

    def reason(steps: int = 8, rows: int = 4, on: Any = target, attributes: str = "", extents: str = "") -> str:
        w = extents or f"{steps},32"
        graph = parse_graph(
            f"graph @net(%x: f32[{rows},{steps}], %w: f32[{w}]) "
            f"{{ %y = matmul(%x, %w) {attributes} : f32[{rows},32] return %y }}",
            lookup,
        )
        found = variant.offer(graph.nodes[0], on, set(graph.inputs))
        return found if isinstance(found, str) else ""

    assert not reason()
    assert "odd" in reason(steps=7)
    assert "single row" in reason(rows=1)
    assert "memory" in reason(on=replace(target, spare_memory=False))
    assert not reason(attributes="{trans_b=True}", extents="32,8")
    assert "rows" in reason(attributes="{trans_a=True}", rows=8)


def test_a_tile_is_cheaper_than_eight_products() -> None:
    """Of large products, and not of small ones."""
    target = resolve("x86-64-v4")
    assert best_tile(196, 512, 512, target)[0] < 0.95 * best_packed(196, 512, 512, target, packed=True)[0]
    assert best_tile(64, 32, 32, target)[0] > best_packed(64, 32, 32, target, packed=True)[0]


def test_parts_for_threads_give_the_same_bits(tmp_path: Path) -> None:
    n = Net(2)
    x = n.input(130, 96)
    model = n.model(n("Relu", n("MatMul", x, n.constant(_dense(96, 200)))))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    a = np.random.default_rng(1).standard_normal((130, 96)).astype(np.float32)
    results = []
    for threads in (1, 2, 3):
        folder = tmp_path / str(threads)
        mccompile.compile(tmp_path / "net.onnx", folder, kernels=FORCED, threads=threads, target="native")
        results.append(next(iter(mccompile.load(folder, threads=threads).run({"x0": a}).values())))
    assert all(np.array_equal(r, results[0]) for r in results)
