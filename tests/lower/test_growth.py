"""Where weights grow: cycles saved for a byte decide, and no more bytes are taken than are worth it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, compile, compile_program, import_graph
from mccompile.ir.kernel import Call
from mccompile.lower.growth import Budget, _Level, _spent
from tests.kernels.cases import Net

Levels = dict[str, list[tuple[int, float]]]

EXAMPLE: Levels = {"a": [(0, 900.0), (30, 780.0), (100, 400.0)], "b": [(0, 700.0), (40, 300.0)]}


def spent(levels: Levels, room: int, share: float = 1.0) -> dict[str, int]:
    """The bytes that each node adds; nodes are their names here."""
    known: dict[Any, list[_Level]] = {n: [_Level(*level) for level in reversed(found)] for n, found in levels.items()}
    return {str(n): added for n, added in _spent(known, Budget(room, share)).items()}


def cycles(levels: Levels, added: dict[str, int]) -> float:
    return sum(dict(found)[added.get(n, 0)] for n, found in levels.items())


@pytest.mark.parametrize(
    ("room", "share", "added"),
    [
        (120, 1.0, {"b": 40, "a": 30}),
        (120, 0.75, {"b": 40}),
        (140, 1.0, {"b": 40, "a": 100}),
        (39, 1.0, {"a": 30}),
        (29, 1.0, {}),
        (0, 1.0, {}),
    ],
)
def test_the_example(room: int, share: float, added: dict[str, int]) -> None:
    assert spent(EXAMPLE, room, share) == added


def drawn(seed: int) -> Levels:
    rng = np.random.default_rng(seed)
    levels: Levels = {}
    for name in "abcd"[: rng.integers(1, 5)]:
        bytes_ = np.sort(rng.choice(np.arange(1, 90), rng.integers(0, 4), replace=False))
        falling = 1000.0 - np.cumsum(rng.integers(1, 100, len(bytes_) + 1)).astype(float)
        levels[name] = [(int(b), float(c)) for b, c in zip([0, *bytes_], falling, strict=True)]
    return levels


@pytest.mark.parametrize("seed", range(40))
def test_it_fits_and_is_near_the_best_that_there_is(seed: int) -> None:
    levels = drawn(seed)
    total = sum(found[-1][0] for found in levels.values())
    for room in (0, total // 4, total // 2, total):
        added = spent(levels, room)
        assert sum(added.values()) <= room
        ways = [dict(zip(levels, (b for b, _ in way), strict=True)) for way in itertools.product(*levels.values())]
        plain = cycles(levels, {})
        best = plain - min(cycles(levels, way) for way in ways if sum(way.values()) <= room)
        most = max((a - b for found in levels.values() for (_, a), (_, b) in itertools.pairwise(found)), default=0.0)
        gained = plain - cycles(levels, added)
        assert best - 3 * most <= gained <= best  # a greedy choice misses at most what a step saves
        assert gained == best or room < total


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_a_share_of_the_gain_takes_the_worthiest_bytes(seed: int, share: float) -> None:
    levels = drawn(seed)
    total = sum(found[-1][0] for found in levels.values())
    plain, whole = cycles(levels, {}), spent(levels, total)
    part = spent(levels, total, share)
    gain, enough = plain - cycles(levels, whole), plain - cycles(levels, part)
    assert enough >= share * gain
    assert sum(part.values()) <= sum(whole.values())
    assert all(whole[n] >= b for n, b in part.items())


@pytest.mark.parametrize(
    ("rows", "growth", "sevenths"),
    [
        ((196, 196), 2.0, 2),  # one packing for both
        ((196, 60), 2.0, 0),  # each has its own, or leaves the matrix as it is to the other
    ],
)
def test_weights_that_several_nodes_read_grow_once(
    rows: Sequence[int], growth: float, sevenths: int, tmp_path: Path
) -> None:
    n = Net(1)
    w = n.weight(512, 512)
    model = n.model(*(n("MatMul", n.input(m, 512), w) for m in rows))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    c = import_graph(tmp_path / "net.onnx", Options(target="x86-64-v4", max_blob_growth=growth))
    compile_program(c)
    assert c.program is not None
    kernels = [s.kernel for s in c.program.body.linear() if isinstance(s, Call)]
    assert kernels.count("matmul.strassen") == sevenths
    assert sum(b.nbytes for b in c.program.blob()) <= growth * 512 * 512 * 4


@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64"])
def test_bytes_that_become_floats_are_there_once(target: str, tmp_path: Path) -> None:
    """Whole numbers, which each of the convolutions that read them makes floats of."""
    r, sizes = np.random.default_rng(3), []
    weights = r.integers(-100, 100, (32, 32, 3, 3)).astype(np.float32)
    for readers in (1, 3):
        nodes = [helper.make_node("Conv", [f"x{i}", "w"], [f"y{i}"], pads=[1] * 4) for i in range(readers)]
        x, y = (
            [helper.make_tensor_value_info(f"{p}{i}", TensorProto.FLOAT, [1, 32, 8, 8]) for i in range(readers)]
            for p in "xy"
        )
        graph = helper.make_graph(nodes, "g", x, y, [numpy_helper.from_array(weights, "w")])
        path = tmp_path / "m.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        compile(path, tmp_path / "out", Options(target=target, max_blob_growth=1.0))
        (blob,) = (tmp_path / "out").glob("*.mcb")
        sizes.append(blob.stat().st_size)
    assert sizes[0] == sizes[1]
