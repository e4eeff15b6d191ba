"""What running on a board tells beside the results: instructions and cycles by step, stack, sizes of sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.codegen.names import label
from mccompile.ir.errors import CompileError, InternalError
from mccompile.run import cycles
from mccompile.run.boards import RUN_STACK, Board
from mccompile.run.counter import BETWEEN, FIRST_STEP, Counter, Executed, slots_of_marks
from mccompile.run.elf import sections
from mccompile.run.firmware import PARTS
from mccompile.targets.target import Target

BY_INSTRUCTIONS = ("-icount", "shift=0")
"""Makes the time of an emulated board advance by a nanosecond with each instruction."""


@dataclass(frozen=True)
class StepCost:
    """A step of a run; ``cycles`` only where they can be estimated."""

    step: int
    onnx: tuple[str, ...]
    kernel: str
    macs: int
    instructions: int
    cycles: int | None

    @property
    def name(self) -> str:
        """The ONNX nodes that it does, the first by name; a fill of memory belongs to none."""
        if not self.onnx:
            return "(fill)"
        return label(self.onnx[0]) + (f" +{len(self.onnx) - 1}" if len(self.onnx) > 1 else "")


@dataclass(frozen=True)
class Measured:
    """One run on a board.

    Attributes:
        board, core: the emulated machine, and what the code was compiled for.
        stack_bytes: that the network's ``run`` has used, what it called included.
        sections: bytes of each of `PARTS`, library functions that the network needs included.
        instructions: of the whole run; None where they could not be counted. ``note`` says why, or what is wanting.
        cycles: estimated, for cores of which it is known how.
        steps: in their order; they leave out what is between them, some instructions each.
    """

    board: str
    core: str
    stack_bytes: int
    sections: Mapping[str, int]
    instructions: int | None = None
    cycles: int | None = None
    steps: tuple[StepCost, ...] = ()
    note: str = ""

    @property
    def faults(self) -> list[str]:
        if self.stack_bytes > RUN_STACK:
            return [f"a run takes {self.stack_bytes:,} bytes of stack or more, and has {RUN_STACK:,} on the board"]
        return []

    def lines(self) -> list[str]:
        """The totals."""
        counted = self.note
        if self.instructions is not None:
            counted = f"{'about ' if self.note else ''}{self.instructions:,} instructions"
            counted += f" ({self.note})" if self.note else ""
            counted += f", about {self.cycles:,} cycles" if self.cycles is not None else ""
        sizes = " ".join(f"{name} {size:,}" for name, size in self.sections.items())
        return [
            f"on board {self.board} ({self.core}): {counted}",
            f"  stack {self.stack_bytes:,} bytes; {sizes}",
        ]

    def table(self) -> list[str]:
        """A line for each step; none where they are not told apart."""
        if not self.steps:
            return []
        kernels = max((len(s.kernel) for s in self.steps), default=6)
        head = f"{'step':>5} {'kernel':{kernels}} {'instructions':>13} {'share':>6} {'cycles':>13} {'per MAC':>8}"
        rows = [f"{head}  ONNX nodes"]
        for s in self.steps:
            share = s.instructions / self.instructions if self.instructions else 0.0
            cycles = "-" if s.cycles is None else f"{s.cycles:,}"
            per_mac = f"{s.instructions / s.macs:.2f}" if s.macs else "-"
            numbers = f"{s.instructions:>13,} {share:>6.1%} {cycles:>13} {per_mac:>8}"
            rows.append(f"{s.step:>5} {s.kernel:{kernels}} {numbers}  {s.name}")
        return rows

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Meter:
    """Measures the runs of an image."""

    def __init__(self, image: Path, target: Target, board: Board, report: Mapping[str, Any]) -> None:
        self._image, self._target, self._board, self._report = image, target, board, report
        self._counter: Counter | None = None
        self._note = ""
        try:
            self._counter = Counter(slots_of_marks(image), board.emulator[0])
        except CompileError as e:
            self._note = e.rule

    @property
    def counts(self) -> bool:
        """Whether instructions are counted; else they are told by a clock that goes by them."""
        return self._counter is not None

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the emulator's command needs for it."""
        return self._counter.arguments if self._counter else BY_INSTRUCTIONS

    def measured(self, stack_bytes: int, clocked: float = 0.0) -> Measured:
        """The last run; ``clocked`` are its instructions by the clock, where they are not counted."""
        found = sections(self._image)
        sizes = {name: found[name].size if name in found else 0 for name in PARTS}
        core = self._target.name
        if self._counter is None:
            if not clocked:
                note = f"instructions are not counted: {self._note}, and the run is longer than the clock tells"
                return Measured(self._board.name, core, stack_bytes, sizes, note=note)
            note = f"by the board's clock, and not by step: {self._note}"
            return Measured(self._board.name, core, stack_bytes, sizes, round(clocked), note=note)
        slots = self._counter.last_run()
        if max(slots, default=0) >= FIRST_STEP + len(self._report["steps"]):
            raise InternalError("the instruction counter knows more steps than the report")
        spent = self._cycles(slots)
        steps = tuple(
            StepCost(
                i, tuple(s["onnx"]), s["kernel"], s["macs"],
                _instructions(slots.get(FIRST_STEP + i, {})),
                None if spent is None else spent.get(FIRST_STEP + i, 0),
            )
            for i, s in enumerate(self._report["steps"])
        )  # fmt: skip
        between = _instructions(slots.get(BETWEEN, {}))
        total = between + sum(s.instructions for s in steps)
        return Measured(
            self._board.name, core, stack_bytes, sizes, total, None if spent is None else sum(spent.values()), steps
        )

    def _cycles(self, slots: Mapping[int, Mapping[int, Executed]]) -> dict[int, int] | None:
        """Estimated, by slot."""
        core = next((f.removeprefix("-mcpu=") for f in self._target.flags if f.startswith("-mcpu=")), "")
        if not cycles.knows(core):
            return None
        program = cycles.disassembled(self._image, f"{self._target.triple}-objdump")
        return cycles.estimates(program, slots)


def _instructions(counts: Mapping[int, Executed]) -> int:
    return sum(ran.times for ran in counts.values())
