"""The parts of a kernel call that threads do at the same time: the turns of one of its loops, cut into runs.

    call matmul.packed ... -> y[1,64] parts(n:0,32,64)

Part 0 does the tiles of the loop over ``n`` that begin in [0, 32), part 1 those in [32, 64). What goes by steps of
which each needs all of the one before is done in rounds: all parts of round 0, then all of round 1:

    call lstm.vector ... -> y[100,1,128] parts(j:0,64,128 rounds 101)
"""

from __future__ import annotations

from mccompile._dataclass import dataclass


@dataclass(frozen=True)
class Parts:
    """``loop`` is the variable of the loop as the kernel's template calls it; part i does the turns that begin from
    ``cuts[i]`` to below ``cuts[i + 1]``. Scratch memory has a piece for each part, one behind the other; where there
    are several ``rounds`` it is one, by which parts know what others did in the rounds before."""

    loop: str
    cuts: tuple[int, ...]
    rounds: int = 1

    def __post_init__(self) -> None:
        if len(self.cuts) < 2 or self.cuts[0] != 0 or list(self.cuts) != sorted(set(self.cuts)) or self.rounds < 1:
            raise ValueError(f"parts of {self.loop} from {', '.join(map(str, self.cuts))}")

    @property
    def count(self) -> int:
        return len(self.cuts) - 1

    def __str__(self) -> str:
        rounds = f" rounds {self.rounds}" if self.rounds > 1 else ""
        return f"parts({self.loop}:{','.join(map(str, self.cuts))}{rounds})"
