"""What this machine is and what one of its cores can do: multiply-adds, cycles, bytes per second.

Worked example: a core of 3.2 GHz that begins 1.6 PMADDWD with their PADDD in a cycle, each of 16 products of 16 bits
(AVX2), does 82 products of bytes in a nanosecond, where those are made so. A network of 300 million that takes 4.5 ms
does 67 in one: 81 % of it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.bench.timing import Rounds
from mccompile.ir.errors import CompileError
from mccompile.ir.types import DTYPES
from mccompile.run.build import build_library, c_compiler, compiler_version
from mccompile.run.memory import Array, aligned_bytes
from mccompile.targets.machine import Capability
from mccompile.targets.target import Target

_HERE = Path(__file__).parent
SCALAR_LANES = 4
"""Lanes of the multiply-add loop for a target without vectors: what a C compiler may make of scalar code."""
DEFAULT_L2 = 1 << 20
FAR = 16
"""How many L2 caches the memory has that is far away."""
MULTIPLY_ADDS, CYCLES = 24, 64
"""Vectors of multiply-adds, of floats or of pairs, and cycles, of a round in probes.c."""
PAIRED = {Capability.PAIRS, Capability.VNNI}
"""What targets have whose cores have PMADDWD."""
PROBE_ROUNDS = 10000


def cpu_name() -> str:
    """The processor's name, as the system has it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines() if cpuinfo.is_file() else []
    wanted = ("model name", "cpu family", "model", "CPU part", "uarch")
    found: dict[str, str] = {}
    for line in lines:
        key, _, value = (part.strip() for part in line.partition(":"))
        if key in wanted:
            found.setdefault(key, value)
    name = found.pop("model name", platform.processor() or platform.machine())
    return " ".join([name, *(f"({key} {value})" for key, value in found.items())])


def compiler_name() -> str:
    """The first line of what the C compiler says of itself."""
    return (compiler_version(c_compiler()).splitlines() or ["?"])[0]


@dataclass(frozen=True)
class Peak:
    """What one core does: FLOP/s (a multiply-add is two), cycles/s, and bytes read and written per second where half
    the L2 cache is enough, and where it is not; ``pairs`` multiply-adds per second by PMADDWD and PADDD, 0 elsewhere.
    """

    flops: float
    hertz: float
    near: float
    far: float
    l2: int
    pairs: float = 0.0

    def to_json(self) -> dict[str, float]:
        pairs = {"pairs_per_ns": round(self.pairs / 1e9, 2)} if self.pairs else {}
        return {
            "gflops": round(self.flops / 1e9, 2),
            "ghz": round(self.hertz / 1e9, 3),
            "near_gb_per_s": round(self.near / 1e9, 1),
            "far_gb_per_s": round(self.far / 1e9, 1),
        } | pairs

    def bandwidth(self, nbytes: int) -> float:
        """Bytes per second for something that touches so many."""
        return self.near if nbytes <= self.l2 else self.far


class Probes:
    """The loops of probes.c for a target, as things to be measured beside others."""

    def __init__(self, target: Target) -> None:
        import cffi

        self._lanes = target.lanes or SCALAR_LANES
        self._l2 = target.machine.l2 or DEFAULT_L2
        flags = [*target.c_flags, f"-DMCC_LANES={self._lanes}"]
        library = build_library([_HERE / "probes.c"], flags, _HERE)
        ffi = cffi.FFI()
        ffi.cdef(
            """void mcc_probe_multiply_add(float *, size_t);
            void mcc_probe_pairs(int32_t *, size_t);
            void mcc_probe_cycles(uint64_t *, size_t);
            void mcc_probe_copy(float *, const float *, size_t, size_t);"""
        )
        try:
            self._lib: Any = ffi.dlopen(str(library))
        except OSError as e:
            raise CompileError(f"the probes cannot be loaded: {e}") from e
        self._floats = ffi.new("float[]", self._lanes)
        self._counter = ffi.new("uint64_t *")
        self._sums = ffi.new("int32_t[]", self._lanes)
        self._pairs = bool(PAIRED & target.capabilities)
        self._vectors = {name: size // (8 * self._lanes) for name, size in self._sizes().items()}
        self._arrays = {name: self._pair(n, ffi) for name, n in self._vectors.items()}

    def _sizes(self) -> dict[str, int]:
        """Bytes that are read and written at each distance, together."""
        return {"near": self._l2 // 2, "far": FAR * self._l2}

    def _pair(self, vectors: int, ffi: Any) -> tuple[Array, Any, Any]:
        """Two stretches of so many vectors, and the addresses; the array keeps them alive."""
        count = vectors * 4 * self._lanes
        both = aligned_bytes(2 * count, 64)
        both.view(DTYPES["f32"].numpy)[:] = 1
        return both, ffi.cast("float *", both[:count].ctypes.data), ffi.cast("float *", both[count:].ctypes.data)

    def things(self) -> Mapping[str, Callable[[], object]]:
        """What to measure, by name."""

        def copy(name: str) -> Callable[[], object]:
            _, x, y = self._arrays[name]
            return lambda: self._lib.mcc_probe_copy(y, x, self._vectors[name], 1)

        pairs = {"pairs": lambda: self._lib.mcc_probe_pairs(self._sums, PROBE_ROUNDS)} if self._pairs else {}
        return pairs | {
            "flops": lambda: self._lib.mcc_probe_multiply_add(self._floats, PROBE_ROUNDS),
            "hertz": lambda: self._lib.mcc_probe_cycles(self._counter, PROBE_ROUNDS),
            "near": copy("near"),
            "far": copy("far"),
        }

    def hertz(self, rounds: Rounds) -> float:
        """Cycles per second, of the times of `things`."""
        return CYCLES * PROBE_ROUNDS / rounds.spread("hertz").median

    def peak(self, rounds: Rounds) -> Peak:
        """What the times of `things` say."""
        flops = 2 * MULTIPLY_ADDS * self._lanes * PROBE_ROUNDS
        moved = {name: 8 * self._lanes * n for name, n in self._vectors.items()}
        return Peak(
            flops / rounds.spread("flops").median,
            self.hertz(rounds),
            moved["near"] / rounds.spread("near").median,
            moved["far"] / rounds.spread("far").median,
            self._l2,
            2 * MULTIPLY_ADDS * self._lanes * PROBE_ROUNDS / rounds.spread("pairs").median if self._pairs else 0.0,
        )
