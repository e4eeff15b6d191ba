"""Products of bytes less zero points of any kind, drawn: equal to numpy's, and made by kernels of bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.targets.target import runs_here
from tests._fast import first
from tests.ops.test_exact_answers import Array, N, answers

TARGETS = ["generic", *(t for t in ("x86-64-v2", "x86-64-v3", "x86-64-v3-vnni", "x86-64-v4-vnni") if runs_here(t))]
EXTREMES = {"u": (0, 255), "i": (-128, 127)}


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Bytes with a sign or without one, among them the ends of their type."""
    dtype = np.dtype(rng.choice(["uint8", "int8"]))
    low, high = EXTREMES[dtype.kind]
    return np.where(
        rng.random(shape) < 0.3, rng.choice([low, high], shape), rng.integers(low, high + 1, shape)
    ).astype(dtype)


def zeros(rng: np.random.Generator, like: Array, channels: int) -> Array:
    """A zero point, or one for each channel: any, or (half of the time) about the middle of the type."""
    low, high = EXTREMES[like.dtype.kind]
    middle = (low + high + 1) // 2
    ends = (low, high + 1) if rng.random() < 0.5 else (middle - 2, middle + 3)
    return rng.integers(*ends, channels if rng.random() < 0.5 else ()).astype(like.dtype)


def kernels(folder: Path) -> set[str]:
    report = json.loads((folder / "out" / "report.json").read_text())
    return {step["kernel"] for step in report["steps"]}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(4))
def test_matrices(seed: int, target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows, terms, columns = (int(rng.integers(1, most)) for most in (9, 70, 40))
    a, w = drawn(rng, (rows, terms)), drawn(rng, (terms, columns))
    az, wz = zeros(rng, a, 1).reshape(-1)[0], zeros(rng, w, columns)
    constants = {"w": w, "wz": wz}
    feeds = {"a": a, "az": np.asarray(az)}
    if rng.random() < 0.5:
        constants["az"] = feeds.pop("az")
    got = answers(tmp_path, [N("MatMulInteger", ["a", "w", "az", "wz"], ["y"])], feeds, target, "O2", constants)["y"]
    np.testing.assert_array_equal(got, (a.astype(np.int64) - az) @ (w.astype(np.int64) - wz))
    if target not in ("x86-64-v2", "generic"):
        assert "matmul.generic" not in kernels(tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", first(range(7), 3))
def test_windows(seed: int, target: str, tmp_path: Path) -> None:
    """Strides, pads, dilations; one group, or a filter for each channel; zero points of the run."""
    rng = np.random.default_rng(100 + seed)
    each = seed % 3 == 2
    channels, size, taps = (int(rng.integers(low, high)) for low, high in ((1, 40), (5, 12), (1, 4)))
    filters = channels if each else int(rng.integers(1, 40))
    x, w = drawn(rng, (2, channels, size, size + 1)), drawn(rng, (filters, 1 if each else channels, taps, taps))
    xz, wz = zeros(rng, x, 1).reshape(-1)[0], zeros(rng, w, filters)
    attributes: dict[str, Any] = {
        "strides": rng.integers(1, 3, 2).tolist(), "pads": rng.integers(0, 3, 4).tolist(),
        "dilations": rng.integers(1, 3, 2).tolist(), "group": channels if each else 1,
    }  # fmt: skip
    constants, feeds = {"w": w, "wz": wz}, {"x": x, "xz": np.asarray(xz)}
    if rng.random() < 0.5:
        constants["xz"] = feeds.pop("xz")
    node = N("ConvInteger", ["x", "w", "xz", "wz"], ["y"], **attributes)
    got = answers(tmp_path, [node], feeds, target, "O2", constants)["y"]
    np.testing.assert_array_equal(got, convolved(x.astype(np.int64) - xz, less(w, wz), attributes))
    if target not in ("x86-64-v2", "generic") and not each:
        assert "conv.generic" not in kernels(tmp_path)


def less(w: Array, zero: Array) -> Array:
    return np.asarray(w.astype(np.int64) - zero.astype(np.int64).reshape(-1, *[1] * (w.ndim - 1)))


def convolved(x: Array, w: Array, a: dict[str, Any]) -> Array:
    top, left, bottom, right = a["pads"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (down, along), (far, wide) = a["strides"], a["dilations"]
    reach = (w.shape[2] - 1) * far + 1, (w.shape[3] - 1) * wide + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))[:, :, ::down, ::along, ::far, ::wide]
    if a["group"] > 1:
        return np.asarray(np.einsum("nchwij,cij->nchw", windows, w[:, 0]))
    return np.asarray(np.einsum("nchwij,mcij->nmhw", windows, w))
