"""The time of each step of a network's run, and what it is the time of: arithmetic, memory, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.bench.machine import Peak
from mccompile.run.library import Hooks
from mccompile.run.memory import Array
from mccompile.run.network import Network

_HERE = Path(__file__).parent

PROFILE_HOOKS = Hooks(
    header=_HERE / "profile_hooks.h",
    sources=(_HERE / "profile_hooks.c",),
    cdef="""void mcc_profile_into(uint64_t *ns, size_t steps);
    void mcc_profile_nothing(uint64_t *ns, size_t times);""",
)
"""Networks that `Profiler` runs are built with these."""

BATCHES, CALIBRATION = 20, 500
"""Batches of so many steps of nothing are timed to know what the clock costs."""

EXPLAINED = 1 / 3
"""Part of a step's time that the larger of its two bounds must explain, or something else takes it."""


class Profiler:
    """Runs a network built with `PROFILE_HOOKS` and keeps the nanoseconds of each step of each run.

    ``extents``: of state that grows, before each run.
    """

    def __init__(self, network: Network, extents: Mapping[str, int] | None = None) -> None:
        self.network = network
        self._invoke = network.repeated(extents or {})
        self._steps = max(len(network.report["steps"]), 1)
        self._row = np.zeros(self._steps, np.uint64)
        self._table = network.ffi.cast("uint64_t *", self._row.ctypes.data)
        self._rows: list[Array] = []
        nothing = np.zeros(BATCHES, np.uint64)
        for i in range(BATCHES):  # the shortest: another process may have had its turn in the others
            network.lib.mcc_profile_nothing(network.ffi.cast("uint64_t *", nothing[i:].ctypes.data), CALIBRATION)
        self.clock_ns = float(nothing.min()) / CALIBRATION

    def run(self) -> None:
        """One run, whose times are kept."""
        self._row[:] = 0
        self.network.lib.mcc_profile_into(self._table, self._steps)
        try:
            self._invoke()
        finally:
            self.network.lib.mcc_profile_into(self.network.ffi.NULL, 0)
        self._rows.append(self._row.copy())

    def forget(self) -> None:
        """Drop the runs so far."""
        self._rows.clear()

    def seconds(self) -> list[float]:
        """The median time of each step over the runs, without that of the clock."""
        count = len(self.network.report["steps"])
        if not self._rows:
            return [0.0] * count
        medians = np.median(np.stack(self._rows).astype(np.float64), axis=0) - self.clock_ns
        return [float(max(ns, 0.0)) * 1e-9 for ns in medians[:count]]


@dataclass(frozen=True)
class Layer:
    """A step: where it comes from, its seconds, and its work: that of the largest extents, which says nothing of the
    time where not ``counted``, for a run has smaller ones."""

    step: int
    onnx: tuple[str, ...]
    kernel: str
    seconds: float
    macs: int
    nbytes: int
    counted: bool = True

    @property
    def name(self) -> str:
        """The ONNX nodes that it does; a fill of memory belongs to none."""
        return "+".join(self.onnx) or "(fill)"

    @property
    def flops(self) -> float:
        """Per second."""
        return 2 * self.macs / self.seconds if self.seconds else 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes read and written per second."""
        return self.nbytes / self.seconds if self.seconds else 0.0

    def bound(self, peak: Peak) -> str:
        """The roof that the step is under: ``compute`` or ``bandwidth``, whichever alone would take longer; or
        ``overhead`` where that explains less than `EXPLAINED` of its time: loops, latencies, other arithmetic."""
        if not self.counted:
            return "unknown"
        compute = 2 * self.macs / peak.flops
        memory = self.nbytes / peak.bandwidth(self.nbytes)
        if max(compute, memory) < EXPLAINED * self.seconds:
            return "overhead"
        return "compute" if compute >= memory else "bandwidth"

    def to_json(self, peak: Peak, total: float) -> dict[str, Any]:
        return {
            "step": self.step,
            "onnx": list(self.onnx),
            "kernel": self.kernel,
            "us": round(self.seconds * 1e6, 4),
            "share": round(self.seconds / total, 5) if total else 0.0,
            "macs": self.macs,
            "gflops": round(self.flops / 1e9, 3) if self.counted else None,
            "of_peak": round(self.flops / peak.flops, 4) if self.counted else None,
            "bytes": self.nbytes,
            "gb_per_s": round(self.bandwidth / 1e9, 3) if self.counted else None,
            "bound": self.bound(peak),
        }


def layers(
    steps: Sequence[Mapping[str, Any]], seconds: Sequence[float], counted: bool = True
) -> tuple[Layer, ...]:
    """The steps of a report with the time that each took."""
    return tuple(
        Layer(i, tuple(s["onnx"]), s["kernel"], t, s["macs"], s["read_bytes"] + s["written_bytes"], counted)
        for i, (s, t) in enumerate(zip(steps, seconds, strict=True))
    )


NAME_WIDTH = 34


def _short(name: str, width: int) -> str:
    """A name cut in the middle: ONNX names begin alike and end alike."""
    half = (width - 2) // 2
    return name if len(name) <= width else f"{name[: width - 2 - half]}..{name[-half:]}"


def layer_lines(found: Sequence[Layer], peak: Peak) -> list[str]:
    """The table of steps in order, and below it that of kernels, the slowest first."""
    total = sum(layer.seconds for layer in found)
    kernels = max((len(layer.kernel) for layer in found), default=6)
    head = f"{'step':>5} {'ONNX nodes':{NAME_WIDTH}} {'kernel':{kernels}} {'us':>9} {'share':>6} {'MMACs':>8}"
    head += f" {'GFLOP/s':>8} {'roof':>5} {'KiB':>8} {'GB/s':>6}  bound"
    lines = [head]
    for layer in found:
        lines.append(
            f"{layer.step:5} {_short(layer.name, NAME_WIDTH):{NAME_WIDTH}} {layer.kernel:{kernels}}"
            f" {_numbers(layer, peak, total)}  {layer.bound(peak)}"
        )
    return [*lines, "", *_kernel_lines(found, peak, total, kernels)]


def _numbers(layer: Layer, peak: Peak, total: float) -> str:
    share = layer.seconds / total if total else 0.0
    if layer.macs and layer.counted:
        rate = f"{layer.flops / 1e9:8.1f} {layer.flops / peak.flops:5.0%}"
    else:
        rate = f"{'-':>8} {'-':>5}"
    return (
        f"{layer.seconds * 1e6:9.2f} {share:6.1%} {layer.macs / 1e6:8.3f} {rate}"
        f" {layer.nbytes / 1024:8.1f} {f'{layer.bandwidth / 1e9:.1f}' if layer.counted else '-':>6}"
    )


def _kernel_lines(found: Sequence[Layer], peak: Peak, total: float, width: int) -> list[str]:
    groups: dict[str, list[Layer]] = {}
    for layer in found:
        groups.setdefault(layer.kernel, []).append(layer)
    rows = [
        Layer(
            len(g), (), kernel, sum(x.seconds for x in g), sum(x.macs for x in g), sum(x.nbytes for x in g),
            all(x.counted for x in g),
        )
        for kernel, g in groups.items()
    ]  # fmt: skip
    rows.sort(key=lambda r: -r.seconds)
    return [f"{row.step:4}x {'':{NAME_WIDTH}} {row.kernel:{width}} {_numbers(row, peak, total)}" for row in rows]
