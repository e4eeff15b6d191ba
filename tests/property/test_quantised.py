"""Drawn networks between QuantizeLinear and DequantizeLinear round right at every level, and the C computes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.check.check import check
from mccompile.driver import Options
from tests.support.quantised import Net

LEVELS = ("O0", "O1", "O2", "Os")
TARGETS = ("generic", "native")
SEEDS = range(24)
NOW = range(6)
"""Those that are not slow."""
KINDS = (
    "conv", "depthwise", "relu", "clip", "sigmoid", "add", "concat", "max", "mean", "transpose", "reshape", "hard",
    "constant",
)  # fmt: skip


def drawn(path: Path, seed: int) -> tuple[Path, list[str]]:
    """A chain of 3 to 8 operators on a small picture, and their names."""
    net = Net(seed, (1, 3, 8, 6))
    rng = np.random.default_rng(seed)
    net.conv(int(rng.integers(3, 10)), 3, relu=bool(rng.integers(2)), dead=int(rng.integers(2)))
    names = ["conv"]
    before, shape = "", net.shape
    for _ in range(int(rng.integers(2, 8))):
        kind = str(rng.choice(KINDS))
        same = bool(before) and shape == net.shape
        last = (net.last, net.shape)
        scale, zero = float(rng.uniform(0.01, 0.08)), int(rng.integers(-128, 128))
        match kind:
            case "conv":
                net.conv(int(rng.integers(1, 12)), int(rng.choice([1, 3])), relu=bool(rng.integers(2)))
            case "depthwise":
                net.conv(net.shape[1], 3, groups=net.shape[1], relu=bool(rng.integers(2)))
            case "relu":
                net.unary("Relu", scale, -128)
            case "clip":
                net.clip(float(rng.uniform(-1, 0)), float(rng.uniform(0.5, 3)), scale, zero)
            case "sigmoid":
                net.unary("Sigmoid", 1 / 256, -128)
            case "hard":
                net.unary("HardSwish", scale, zero // 2)
            case "constant":
                extents = tuple(e if rng.integers(4) else 1 for e in net.shape[int(rng.integers(2)) :])
                net.constant("Mul" if rng.integers(3) == 0 else "Add", extents, scale, zero // 2)
            case "add" | "concat" if same:
                net.binary("Add" if kind == "add" else "Concat", before, scale, zero // 2)
            case "max":
                net.unary("MaxPool", scale, zero // 2, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            case "mean":
                net.unary("AveragePool", scale, zero // 2, kernel_shape=[2, 2])
                net.shape = (*net.shape[:2], *(n - 1 for n in net.shape[2:]))
                if min(net.shape) < 2:
                    names.append(kind)
                    break
            case "transpose":
                net.unary("Transpose", scale, zero // 2, perm=[0, 1, 3, 2])
                net.shape = (*net.shape[:2], net.shape[3], net.shape[2])
            case "reshape":
                net.reshape((1, net.shape[1] * net.shape[2], net.shape[3], 1), scale, zero // 2)
                net.reshape(last[1], scale, zero // 2)
            case _:
                continue
        before, shape = last
        names.append(kind)
    return net.model(path), names


def test_every_operator_is_drawn(tmp_path: Path) -> None:
    names = [n for seed in SEEDS for n in drawn(tmp_path / "m.onnx", seed)[1]]
    asked = ("conv", "relu", "clip", "sigmoid", "add", "concat", "max", "transpose", "constant")
    assert min(names.count(n) for n in asked) >= 2


@pytest.mark.parametrize("seed", [s if s in NOW else pytest.param(s, marks=pytest.mark.slow) for s in SEEDS])
def test_drawn_networks_round_right(seed: int, tmp_path: Path) -> None:
    """Each seed at one level for both targets; judged layer by layer even where the outputs are equal."""
    path, names = drawn(tmp_path / "m.onnx", seed)
    for target in TARGETS:
        options = Options(target=target, opt_level=LEVELS[seed % len(LEVELS)])
        result = check(path, options, per_layer=True, seed=seed)
        assert result.ok, "\n".join([str(names), *result.lines()])
        assert result.ties is not None
        assert result.ties.layers
