"""What a core does in a cycle, how far away its memory is, and what instructions it has beside the common ones."""

from __future__ import annotations

import math
from enum import Enum

from mccompile._dataclass import dataclass
from mccompile.ir.types import F32, DType


class Capability(Enum):
    """What only some instruction sets have, and kernels ask for."""

    FMA = "fma"
    """Vectors multiply and add in one instruction."""
    F16_CONVERSION = "f16 conversion"
    """One instruction makes a vector of f32 of as many f16, and one the other way."""
    MASKED_STORES = "masked stores"
    """A store leaves lanes out; what is loaded soon from where these are waits for it (Zen 4: some 20 cycles)."""
    PAIRS = "pairs"
    """One instruction multiplies pairs of i16 and adds up each pair in 32 bits."""
    VNNI = "vnni"
    """One instruction multiplies four u8 by four i8, and adds all to a lane of 32 bits."""
    DOTPROD = "dotprod"
    """One instruction multiplies four i8 by four i8, and adds all to a lane of 32 bits."""
    I8MM = "i8mm"
    """One instruction multiplies two rows of eight i8 by two columns, and adds to four lanes of 32 bits."""
    BF16 = "bf16"
    """One instruction multiplies pairs of bfloat16, of NEON two rows of four by two columns, and adds to f32."""
    FHM = "fhm"
    """One instruction multiplies a vector of f16 by a lane of f16, and adds to lanes of f32."""
    LANES = "lanes"
    """One instruction multiplies a vector by one of four neighbours that came by one load, and adds to f32."""
    A64 = "a64"
    """NEON as 64-bit Arm has it: with square roots, and registers that are named otherwise."""


@dataclass(frozen=True)
class Machine:
    """The core that costs are estimated for, and that kernels are laid out for. Bytes of C depend on nothing else of
    a machine: not on the one that compiles.

    What is not said is as measured on Zen 4: one multiply-add of 512 bits, or two of 256, per cycle. A core with two
    units of 512 bits takes half the cycles of all that is in reach of its caches, products and transforms alike, so
    that the same kernels come first. Zen 5: the networks chosen for Zen 4 take 0.99 to 1.02 of the time of those that
    `--tune` finds, on 14 networks. Sapphire Rapids: 0.96 to 1.04 of the time of those chosen for ``multiply_adds`` of
    32, 0.98 to 1.00 on most of eight networks; with ``load_bytes`` of 64 its tiles were worse, as weights come from
    the second cache. Hence there is one target of AVX-512.

    Attributes:
        vector_bytes: width of a vector register; 0: there are none. 4: a register holds one float, and "vectors" of
            one lane are plain C: what they share with wide ones is that sums are kept in many registers.
        registers: vector registers.
        integers: registers of integers that every instruction takes, beside those that point to stack and code.
        multiply_adds: of f32, per cycle, by all units together.
        slow_fma: a product and a sum in one instruction take longer than in two; those are two, then.
        latency: cycles from one multiply-add to the next on the same accumulator.
        loads: of vectors, per cycle, of at most ``load_bytes`` each.
        vectors_loaded: vectors one behind the other that one instruction loads.
        followed: loads of one loop that hardware follows, and fetches ahead of; 0: any number.
        line: bytes of a cache line.
        way: bytes between lines that meet in one set of the first cache.
        l1, l2: bytes of the data caches; 0: there is none.
        l2_rate, l3_rate, memory_rate: bytes per cycle that come from the second cache, from the third one, and from
            memory.
        peer_rate: bytes per cycle that come from the cache of another core, which has written them (7.6 on a Zen 4).
        call: cycles of a call with its loop set-up.
        handoff: cycles until another core has a piece of work, and its end is seen, beside the work itself. (Zen 4,
            two cores of a virtual machine: 490 where they share a cache, 1800 where they do not.)
    """

    vector_bytes: int = 0
    registers: int = 16
    integers: int = 13
    multiply_adds: float = 16
    slow_fma: bool = False
    latency: int = 4
    loads: float = 2
    load_bytes: int = 32
    vectors_loaded: int = 1
    followed: int = 0
    line: int = 64
    way: int = 4096
    l1: int = 0
    l2: int = 0
    l2_rate: float = 32
    l3_rate: float = 27
    memory_rate: float = 6
    peer_rate: float = 8
    call: float = 20
    handoff: float = 1000

    def lanes(self, dtype: DType = F32) -> int:
        """Elements in a vector register; 0 where there are none."""
        return self.vector_bytes // dtype.nbytes

    def keeps(self, count: int, pitch: int) -> bool:
        """Whether half of the first cache holds ``count`` lines that begin ``pitch`` bytes apart, in the sets that
        they meet in: of 32 KiB with lines that meet 4096 bytes apart, 4 of those that do, 256 of lines side by side.
        """
        sets = max(min(self.way // math.gcd(self.way, pitch), self.way // self.line), 1)
        return count <= sets * (self.l1 // self.way // 2)


SCALAR = Machine(multiply_adds=1)
"""A core without vectors and caches, about which nothing is known."""
