"""Loops and conditions of templates: none that runs once, none that cannot fail.

An axis of extent 1 has the coordinate "0", for which nothing is looped over; where its extent is a parameter of the
C function, the loop stays. A 1x1 window without pads tests nothing:

    y.coordinate(2, "o"), w.coordinate(2, "t")     are "o" and "0"
    k.tap("i", "o", "0", (1, 1, 0), ...)           is at "o", and never outside
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mccompile.codegen.arithmetic import scaled, total
from mccompile.codegen.code import Bond, bare
from mccompile.ir.dims import Dim
from mccompile.kernels.model.tiles import Segment

Caller = Callable[[], str]


def loop(name: str, extent: str | int, caller: Caller) -> str:
    """What is called, for each ``name`` below ``extent``; once if the name is "0"."""
    return nest([name], [extent], caller)


def nest(names: Sequence[str], extents: Sequence[str | int], caller: Caller) -> str:
    """What is called, for each of ``names`` below its extent; those that are "0" have no loop."""
    looped = [(n, e) for n, e in zip(names, extents, strict=True) if n != "0"]
    begins = [f"for (int32_t {n} = 0; {n} < {bare(e)}; ++{n}) {{" for n, e in looped]
    return "\n".join([*begins, caller().strip(), *("}" for _ in looped)]) + "\n"


def tiles(name: str, segment: Segment, caller: Caller, shift: str = "0") -> str:
    """What is called, for each tile of a segment, which begins at ``name``; ``shift`` is where the axis begins."""
    start, stop = total(shift, segment.start), total(shift, segment.stop)
    body = caller().strip()
    if name == "0":
        return body + "\n"
    if isinstance(segment.size, Dim):
        return f"if ({start} < {stop}) {{\nconst int32_t {name} = {start};\n{body}\n}}\n"
    if not isinstance(segment.stop, Dim) and segment.start + segment.size >= segment.stop:
        return f"{{\nconst int32_t {name} = {start};\n{body}\n}}\n"
    return f"for (int32_t {name} = {start}; {name} < {stop}; {name} += {segment.size}) {{\n{body}\n}}\n"


@dataclass(frozen=True)
class Tap:
    """A coordinate of an operand that a window meets: ``at`` is its name or value, ``declared`` what the name is."""

    at: str
    declared: str
    low: str
    high: str

    @property
    def outside(self) -> tuple[str, ...]:
        """The conditions of which one holds where it lies in the padding."""
        return _tests((self.at, "<", self.low), (self.at, ">=", self.high))

    @property
    def inside(self) -> tuple[str, ...]:
        """The conditions that all hold where it does not lie in the padding."""
        return _tests((self.at, ">=", self.low), (self.at, "<", self.high))


def _tests(*tests: tuple[str, str, str]) -> tuple[str, ...]:
    return tuple(f"{left} {order} {right}" for left, order, right in tests if right)


def any_of(tests: Sequence[str]) -> str:
    """The condition that one of the conditions holds: one alone needs no parentheses."""
    return tests[0] if len(tests) == 1 else " || ".join(f"({t})" for t in tests)


def all_of(tests: Sequence[str]) -> str:
    """The condition that all conditions hold."""
    return tests[0] if len(tests) == 1 else " && ".join(f"({t})" for t in tests)


def tap(
    name: str, out: str, tap: str, step: tuple[int, int, int], last: tuple[int, int] | None, extent: str | int
) -> Tap:
    """The coordinate ``out * stride + tap * dilation - pad`` of an axis of ``extent``.

    Args:
        step: stride, dilation and pad.
        last: the largest ``out`` and ``tap``; None if a C parameter says these.
    """
    stride, dilation, pad = step
    place = total(scaled(out, stride), scaled(tap, dilation), -pad)
    plain = place.bond is Bond.WORD
    beyond = last is None or last[0] * stride + last[1] * dilation - pad >= int(extent)
    return Tap(
        place if plain else name, "" if plain else place, "0" if pad > 0 else "", str(extent) if beyond else ""
    )
