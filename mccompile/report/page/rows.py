"""A row for each step: what the compiler says of it, and what was measured, if anything was.

Worked example: step 6 is `conv.channels` for the ONNX nodes conv2 and conv2/relu. It reads 4,096 bytes and weights
of 18,560, writes 2,048, and does 73,728 multiply-adds; the cost model gives it 5,326 of 7,359 cycles; `bench` adds
1.4 us and "compute", `check` that its error is 0.02 of what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.report.page.text import count, seconds

Report = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """Why a step has its kernel: what that takes, what the next best would, and by number what was refused and why
    (-1: nothing)."""

    cycles: int
    source: str
    other: str
    ratio: float
    refused: int


@dataclass(frozen=True)
class Row:
    """A step. ``activations`` are bytes that it reads and writes beside weights; None where nothing is known."""

    step: int
    kernel: str
    onnx: tuple[str, ...]
    ops: tuple[str, ...]
    macs: int
    weights: int
    activations: int
    alive: int
    us: float | None
    share: float | None
    gflops: float | None
    of_peak: float | None
    bound: str
    instructions: int | None
    cycles: int | None
    choice: Choice | None
    code: int | None
    stack: int | None
    error: Error | None
    turns: int


@dataclass(frozen=True)
class Error:
    """How far the values of a step are from the reference: as a part of what is allowed, the worst of them."""

    ratio: float
    ok: bool
    text: str


@dataclass(frozen=True)
class Cost:
    """What steps are compared by: measured time, instructions, estimated cycles, multiply-adds or bytes."""

    label: str
    values: tuple[float, ...]
    text: Callable[[float], str]

    @cached_property
    def total(self) -> float:
        return sum(self.values)

    @cached_property
    def most(self) -> float:
        return max(self.values, default=0.0)

    def share(self, step: int) -> float:
        return self.values[step] / self.total if self.total else 0.0


@dataclass(frozen=True)
class Refusals:
    """What kernels were refused for some steps, with the reasons; ``steps`` have them in common."""

    reasons: tuple[tuple[str, str], ...]
    steps: list[int] = field(default_factory=list)


def rows(report: Report) -> tuple[list[Row], list[Refusals]]:
    """A row for each step, and the refusals that they refer to by number."""
    layers = {x["step"]: x for x in (report.get("bench") or {}).get("layers", ())}
    measured = {x["step"]: x for x in ((report.get("check") or {}).get("measured") or {}).get("steps", ())}
    errors = _errors(report)
    ops = {n["name"]: n["op"] for n in report["onnx"]}
    chosen, refusals = _choices(report)
    found = []
    for i, step in enumerate(report["steps"]):
        layer, ran = layers.get(i, {}), measured.get(i, {})
        code, stack = _code(report, step["function"])
        found.append(
            Row(
                i, step["kernel"], tuple(step["onnx"]), tuple(ops.get(name, "") for name in step["onnx"]),
                step["macs"], step["weights_bytes"],
                max(step["read_bytes"] - step.get("turns", 1) * step["weights_bytes"], 0) + step["written_bytes"],
                step["arena_bytes"],
                layer.get("us"), layer.get("share"), layer.get("gflops"), layer.get("of_peak"),
                layer.get("bound", ""), ran.get("instructions"), ran.get("cycles"), chosen.get(i), code, stack,
                errors.get(i), step.get("turns", 1),
            )
        )  # fmt: skip
    return found, refusals


def cost_of(found: Sequence[Row]) -> Cost:
    """The best measure that there is for all steps."""
    if found and all(r.us is not None for r in found):
        return Cost("time, measured", tuple(float(r.us or 0) for r in found), seconds)
    if any(r.instructions for r in found):
        return Cost("instructions, counted", tuple(float(r.instructions or 0) for r in found), count)
    if any(r.choice for r in found) and any(r.choice.cycles > 0 for r in found if r.choice):
        return Cost("cycles, estimated", tuple(float(r.choice.cycles if r.choice else 0) for r in found), count)
    if any(r.macs for r in found):
        return Cost("multiply-adds", tuple(float(r.macs) for r in found), count)
    return Cost("bytes read and written", tuple(float(r.activations + r.weights) for r in found), count)


def _choices(report: Report) -> tuple[dict[int, Choice], list[Refusals]]:
    """The choice for each node at the step that does it: the last one for its ONNX nodes whose kernel it names, else
    the last one at all. Equal lists of refusals are one."""
    lists: dict[tuple[tuple[str, str], ...], int] = {}
    refusals: list[Refusals] = []
    found: dict[int, Choice] = {}
    places: dict[tuple[str, ...], list[int]] = {}
    for i, step in enumerate(report["steps"]):
        places.setdefault(tuple(step["onnx"]), []).append(i)
    for choice in report["choices"].values():
        own = places.get(tuple(choice["onnx"]), [])
        named = [i for i in own if choice["kernel"].startswith(report["steps"][i]["kernel"]) and i not in found]
        at = named[0] if named else own[-1] if own else None
        if at is None or not choice["onnx"]:
            continue
        reasons = tuple((kernel, reason) for kernel, reason in choice["rejected"])
        number = lists.setdefault(reasons, len(lists)) if reasons else -1
        if number == len(refusals):
            refusals.append(Refusals(reasons))
        if number >= 0:
            refusals[number].steps.append(at)
        other = min(choice["others"], key=lambda o: o["cycles"], default=None)
        ratio = other["cycles"] / max(choice["cycles"], 1) if other else 0.0
        cycles = choice["cycles"] * choice.get("turns", 1)
        found[at] = Choice(cycles, choice["from"], other["kernel"] if other else "", ratio, number)
    return found, refusals


def _code(report: Report, function: str) -> tuple[int | None, int | None]:
    """Bytes of code and of stack of a kernel, with the parts that it is written in; None where they are not known,
    or where a compiler put it into its caller."""
    code = report.get("code")
    if not code or not function:
        return None, None
    own = [f for f in code["functions"] if f["name"] == function or f["name"].startswith(f"{function}_")]
    stacks = [f["stack_bytes"] for f in own if f["stack_bytes"] is not None]
    return sum(f["bytes"] for f in own) or None, max(stacks, default=None)


def _errors(report: Report) -> dict[int, Error]:
    """The worst error of each step that `check --per-layer` has compared."""
    trace = (report.get("check") or {}).get("trace") or {}
    found: dict[int, Error] = {}
    for layer in trace.get("layers", ()):
        ratio = ratio_of(layer)
        text = layer["problem"] or f"error {layer['error']}, allowed {layer['allowed']}"
        if layer["step"] not in found or ratio > found[layer["step"]].ratio:
            found[layer["step"]] = Error(ratio, layer["ok"], text)
    return found


def ratio_of(layer: Mapping[str, Any]) -> float:
    """The error of a layer as a part of what is allowed; infinite where nothing is allowed."""
    error, allowed = float(layer["error"]), float(layer["allowed"])
    if layer["problem"]:
        return float("inf")
    if allowed > 0:
        return error / allowed
    return float("inf") if error > 0 else 0.0
