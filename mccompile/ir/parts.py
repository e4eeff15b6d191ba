"""The parts of a kernel call that threads do at the same time: the turns of one of its loops, cut into runs.

    call matmul.packed ... -> y[1,64] parts(n:0,32,64)

Part 0 does the tiles of the loop over ``n`` that begin in [0, 32), part 1 those in [32, 64).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parts:
    """``loop`` is the variable of the loop as the kernel's template calls it; part i does the turns that begin from
    ``cuts[i]`` to below ``cuts[i + 1]``. Scratch memory has a piece for each part, one behind the other."""

    loop: str
    cuts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.cuts) < 2 or self.cuts[0] != 0 or list(self.cuts) != sorted(set(self.cuts)):
            raise ValueError(f"parts of {self.loop} from {', '.join(map(str, self.cuts))}")

    @property
    def count(self) -> int:
        return len(self.cuts) - 1

    def __str__(self) -> str:
        return f"parts({self.loop}:{','.join(map(str, self.cuts))})"
