"""Which passes run on kernel IR at each optimisation level, in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.kernel import KernelModule
from mccompile.kernel_passes.rewrite.judge import Judge
from mccompile.kernel_passes.rewrite.steps import copies
from mccompile.passes.manager import Pass, PassRecord, passes_in, run_listed
from mccompile.plugins import registry
from mccompile.targets.target import Target

SHARE_CODE = "share-code"
SPLIT_CALLS = "split-calls"
_MEMORY = (
    "forward-copies", "join-copies", "store-planes", "buffer-pixels", "narrow-tiles", "read-forwards",
    "offer-overlaps", "keep-state",
)  # fmt: skip

KERNEL_PIPELINES: dict[str, tuple[str, ...]] = {
    "O0": ("read-forwards", "keep-state"),
    "O1": _MEMORY,
    "O2": _MEMORY,
    "O3": _MEMORY,
    "Os": (*_MEMORY, SHARE_CODE),
}
"""Pass names by level. `share-code` comes last: the numbers of final views decide."""


def pipeline(level: str, threads: int) -> tuple[str, ...]:
    """The names of a level's passes; for several threads, `split-calls` is one, before numbers are compared."""
    names = KERNEL_PIPELINES[level]
    if threads == 1:
        return names
    last = [n for n in names if n == SHARE_CODE]
    return (*(n for n in names if n not in last), SPLIT_CALLS, *last)


@dataclass(frozen=True)
class Improved:
    """What the passes on kernel IR did: a record of each; copies, the bytes they write and the planned peak (0: never
    planned), each before and after."""

    records: tuple[PassRecord, ...]
    copies: tuple[int, int]
    copied_bytes: tuple[int, int]
    peak: tuple[int, int]

    @property
    def kept(self) -> tuple[tuple[str, str], ...]:
        """The copies that could not be forwarded: (what, why)."""
        misses = [m for r in self.records if r.name == "forward-copies" for m in r.misses]
        return tuple(dict.fromkeys((m.subject, m.reason) for m in misses))


@registry
def kernel_passes() -> Mapping[str, Pass]:
    """Every pass on kernel IR by name."""
    return passes_in("kernel_passes")


def improve(
    module: KernelModule,
    names: Sequence[str],
    target: Target,
    keep_inputs: bool = False,
    after: Callable[[str, KernelModule], None] = lambda name, module: None,
    threads: int = 1,
) -> Improved:
    """Run passes on kernel IR by name, which changes it; ``after`` sees it after each. See `run_listed`.

    ``keep_inputs`` is as for the plan that will be made of it, ``threads`` are as many as may work at a call.
    """
    judge = Judge.of(module, keep_inputs)
    before = copies(list(module.body.linear()))
    given = {"target": target, "judge": judge, "offers": judge.offers, "threads": threads}
    records = run_listed(kernel_passes(), module, names, given, after)
    left = copies(list(module.body.linear()))
    pairs = zip(before, left, strict=True)
    count, written = pairs
    return Improved(tuple(records), count, written, (judge.first, judge.now))
