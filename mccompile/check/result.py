"""What a check found, as text and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.check.compare import Comparison
from mccompile.check.precision import Precision
from mccompile.check.ties import Ties
from mccompile.check.trace import Trace
from mccompile.ir.names import first_of
from mccompile.run.code import Code
from mccompile.run.measure import Measured
from mccompile.run.noise import decibels, json_number
from mccompile.run.stack import Stack

MAX_SHOWN = 6
"""Outputs of one run that are listed; the rest is counted."""

MAX_RUNS = 4
"""Runs that are listed; of more only those that fail."""

MAX_NOTES = 3


@dataclass(frozen=True)
class Run:
    """One run: what its inputs were, and each output against what was expected; ``moved`` rows of equal scores stand
    in another order than those of the reference."""

    label: str
    comparisons: tuple[Comparison, ...]
    moved: int = 0

    @property
    def ok(self) -> bool:
        return all(c.ok for c in self.comparisons)

    def lines(self, explained: bool = False) -> list[str]:
        """The comparisons; ``explained`` where they differ as they may."""
        verdict, word, others = ("differs", "diff", "differ") if explained else ("FAILED", "FAIL", "wrong")
        bad = [c for c in self.comparisons if not c.ok]
        good = [c for c in self.comparisons if c.ok]
        shown = [*bad, *good][:MAX_SHOWN]
        lines = [f"{self.label}: {'ok' if self.ok else verdict}"]
        lines += [f"  {'ok  ' if c.ok else word} {c.name} {c.type}: {c.text()}" for c in shown]
        if self.moved:
            lines.append(f"  {self.moved} rows stand in another order: their scores are equal but for noise")
        if any(c.nans for c in good) and any(c.got != c.got for c in bad):
            lines.append("  the reference makes NaN of these inputs too, and numbers of that: give others (--inputs)")
        left = len(self.comparisons) - len(shown)
        return lines + ([f"  and {left} more, {max(len(bad) - len(shown), 0)} of them {others}"] if left else [])

    def rounded(self) -> str:
        """The run in a line, where weights or products are in fewer bits: `Precision` tells their error."""
        names = [c.name for c in self.comparisons if not c.ok]
        return f"{self.label}: {first_of(names, MAX_SHOWN)} in fewer bits, as asked for: judged by the error below"


@dataclass(frozen=True)
class Accuracy:
    """One output over all samples.

    Attributes:
        name: the output.
        samples: how many there were, of the shape of the reference.
        relative: the power of the error by that of the reference.
        largest: error.
        agreement: the part of the samples of which the reference and the C say the same class; of what has no signal
            the same at all; None of what is no vector of scores.
        right, reference_right: the part of the samples of which the C, and the reference, say the class that the
            labels say; None without labels.
        has_signal: it is of numbers by which an error may be measured: numbers of classes and text are none.
    """

    name: str
    samples: int
    relative: float
    largest: float
    agreement: float | None = None
    right: float | None = None
    reference_right: float | None = None
    has_signal: bool = True

    def line(self) -> str:
        noise = decibels(self.relative)
        parts = ["no signal" if noise is None else f"SNR {noise:.1f} dB"] if self.has_signal else []
        parts = [] if not self.samples else parts if self.relative else ["equal"]
        parts += [f"largest error {self.largest:.3g}"] if self.largest and self.has_signal else []
        same = "same class as" if self.has_signal else "the same as"
        parts += [f"{same} the reference {self.agreement:.2%}"] if self.agreement is not None else []
        if self.right is not None:
            parts.append(f"right {self.right:.2%} (the reference {self.reference_right:.2%})")
        return f"  {self.name}: {', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``snr_db`` is None where there is no error, or no signal."""
        return {
            "name": self.name,
            "samples": self.samples,
            "snr_db": decibels(self.relative) if self.has_signal else None,
            "largest_error": json_number(self.largest),
            "agreement": self.agreement,
            "right": self.right,
            "reference_right": self.reference_right,
        }


@dataclass(frozen=True, repr=False)
class CheckResult:
    """What `check` found.

    Attributes:
        model, target, judge: what was checked, for what, against what.
        runs: the runs with their comparisons.
        faults: what else is wrong: warnings of the C compiler, results that depend on what memory held before.
        stack: what a run takes of it, where the compiler tells.
        trace: the layers, if they were asked for.
        ties: of a quantised network whose outputs are not those of the reference: whether that is right.
        precision: what weights in fewer bits cost, where they were asked for.
        notes: what was decided for the user.
        measured: what the last run took, where it was on an emulated board.
        accuracy: of each output over all samples, where there were several.
        report: of the compilation.
        code: how large the code is, if it was asked for; ``code_note`` says why that is not known.
        expected: the judge is what the user expects, which nothing but fewer bits explains a difference from.
    """

    model: str
    target: str
    judge: str
    runs: tuple[Run, ...]
    faults: tuple[str, ...] = ()
    stack: Stack | None = None
    trace: Trace | None = None
    ties: Ties | None = None
    precision: Precision | None = None
    notes: tuple[str, ...] = ()
    measured: Measured | None = None
    accuracy: tuple[Accuracy, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    code: Code | None = None
    code_note: str = ""
    expected: bool = False

    @property
    def ok(self) -> bool:
        if self.faults or not all(r.ok or self.explains(r) for r in self.runs):
            return False
        if self.precision is not None or self.ties is not None:
            return self.explained
        return self.trace is None or self.trace.ok

    @property
    def explained(self) -> bool:
        """Whether layers that differ from those of the reference do so as they may."""
        if self.precision is not None:  # the C has been compared with its graph, whose weights are rounded
            return self.precision.ok
        return self.ties is not None and self.ties.ok  # behind one tie, all layers may differ

    def explains(self, run: Run) -> bool:
        """Whether outputs of a run that differ from what is expected do so as they may."""
        if not self.expected:
            return self.explained
        judged = {o.name for o in self.precision.outputs} if self.precision is not None else set()
        return self.explained and all(c.name in judged and not c.problem for c in run.comparisons if not c.ok)

    def __repr__(self) -> str:
        bad = sum(not r.ok for r in self.runs)
        found = "ok" if self.ok else f"FAILED, {bad} of {len(self.runs)} runs wrong, {len(self.faults)} faults"
        return f"<CheckResult of {self.model} for {self.target}: {found}>"

    def lines(self, profile: bool = False) -> list[str]:
        """What to show a user, at most about 25 lines, and one for each step with ``profile``."""
        lines = [f"{self.model} for {self.target}, against {self.judge}"]
        lines += [f"note: {note}" for note in self.notes[:MAX_NOTES]]
        lines += self._run_lines()
        if self.ties is not None:
            lines.append(f"quantised: {self.ties.text()}")
        if self.precision is not None:
            lines += self.precision.lines(self.judge)
        lines += [self.stack.line()] if self.stack else []
        lines += [line for fault in self.faults for line in f"FAIL {fault}".splitlines()[:4]]
        if self.trace is not None:
            lines += _trace_lines(self.trace, self.explained)
        if self.measured is not None:
            lines += [*self.measured.lines(), *(self.measured.table() if profile else [])]
        return [*lines, "ok" if self.ok else "FAILED"]

    def _run_lines(self) -> list[str]:
        shown: Sequence[Run] = self.runs
        lines = []
        if len(self.runs) > MAX_RUNS:
            wrong = [r for r in self.runs if not r.ok]
            lines.append(f"{len(self.runs)} samples: {f'{len(wrong)} differ' if wrong else 'all ok'}")
            shown = wrong[:MAX_RUNS]
        for run in shown:
            explained = not run.ok and self.explains(run)
            lines += [run.rounded()] if explained and self.precision is not None else run.lines(explained)
        return lines + [a.line() for a in self.accuracy]

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        return {
            "model": self.model,
            "target": self.target,
            "judge": self.judge,
            "ok": self.ok,
            "runs": [
                {"label": r.label, "ok": r.ok, "moved": r.moved, "outputs": [c.to_json() for c in r.comparisons]}
                for r in self.runs
            ],
            "faults": list(self.faults),
            "stack": self.stack.to_json() if self.stack else None,
            "trace": self.trace.to_json() if self.trace else None,
            "ties": self.ties.to_json() if self.ties else None,
            "precision": self.precision.to_json() if self.precision else None,
            "notes": list(self.notes),
            "measured": self.measured.to_json() if self.measured else None,
            "accuracy": [a.to_json() for a in self.accuracy],
        }


def _trace_lines(found: Trace, explained: bool) -> list[str]:
    wrong = [layer for layer in found.layers if not layer.comparison.ok]
    word = "differ as they may" if explained and wrong else "diverge"
    head = f"layers: {len(found.layers)} compared, {len(wrong)} {word}"
    head += f", {len(found.unsure)} made of what floats decide differ" if found.unsure else ""
    lines = [head + (f", {len(found.skipped)} without a counterpart" if found.skipped else "")]
    if found.first is not None:
        lines += [f"  first: {found.first.text()}", f"    {found.first.comparison.text()}"]
    if found.worst is not None:
        lines += [f"  worst: {found.worst.text()}", f"    {found.worst.comparison.text()}"]
    return lines
