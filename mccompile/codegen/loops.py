"""Loops and conditions of templates: none that runs once, none that cannot fail.

An axis of extent 1 has the coordinate "0", for which nothing is looped over; where its extent is a parameter of the
C function, the loop stays. A 1x1 window without pads tests nothing:

    y.coordinate(2, "o"), w.coordinate(2, "t")     are "o" and "0"
    k.tap("i", "o", "0", (1, 1, 0), ...)           is at "o", and never outside
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from mccompile._dataclass import dataclass
from mccompile.codegen.arithmetic import scaled, total
from mccompile.codegen.code import Bond, bare, wrapped
from mccompile.ir.dims import Dim, varies
from mccompile.ir.parts import Parts
from mccompile.kernels.model.tiles import Segment

Caller = Callable[[], str]


PART = ("part_begin", "part_end")
"""The C parameters that say which turns of a loop a kernel makes, where its work is shared out."""
ROUND = "part_round"
"""The C parameter that says which round of these it is, where there are several."""


def part_numbers(parts: Parts) -> tuple[str, ...]:
    """The C parameters of a kernel whose work is in parts."""
    return (*PART, ROUND) if parts.rounds > 1 else PART


@dataclass(frozen=True)
class Shared:
    """The loop whose turns are shared out: a kernel makes those that begin from `PART`'s first number to below its
    second. ``extent`` is where the loop ends."""

    name: str
    extent: int

    def begin(self, start: str) -> str:
        """Where turns from ``start`` on begin."""
        return PART[0] if start == "0" else f"(({PART[0]} > {start}) ? {PART[0]} : {start})"

    def end(self, stop: str) -> str:
        """Where turns below ``stop`` end."""
        return PART[1] if stop == str(self.extent) else f"(({PART[1]} < {stop}) ? {PART[1]} : {stop})"

    def makes(self, start: str) -> str:
        """The condition that the turn at ``start`` is made."""
        return f"({PART[0]} <= {start}) && ({start} < {PART[1]})"


def loop(name: str, extent: str | int, caller: Caller, shared: Shared | None = None) -> str:
    """What is called, for each ``name`` below ``extent``; once if the name is "0"."""
    return nest([name], [extent], caller, shared)


def nest(names: Sequence[str], extents: Sequence[str | int], caller: Caller, shared: Shared | None = None) -> str:
    """What is called, for each of ``names`` below its extent; those that are "0" have no loop."""
    looped = [(n, e) for n, e in zip(names, extents, strict=True) if n != "0"]
    begins = [_each(n, "0", bare(e), shared) for n, e in looped]
    return "\n".join([*begins, caller().strip(), *("}" for _ in looped)]) + "\n"


def span(name: str, first: str, stop: str, caller: Caller, shared: Shared | None = None) -> str:
    """What is called, for each ``name`` from ``first`` to below ``stop``; once if the name is "0"."""
    if name == "0":
        return caller().strip() + "\n"
    return "\n".join([_each(name, bare(first), bare(stop), shared), caller().strip(), "}"]) + "\n"


def _each(name: str, first: str, stop: str, shared: Shared | None) -> str:
    if shared is not None and shared.name == name:
        first, stop = shared.begin(wrapped(first)), shared.end(wrapped(stop))
    return f"for (int32_t {name} = {first}; {name} < {stop}; ++{name}) {{"


def tiles(
    name: str, segment: Segment, caller: Caller, shift: str | int = 0, shared: Shared | None = None,
    down: bool = False,
) -> str:  # fmt: skip
    """What is called, for each tile of a segment, which begins at ``name``; ``shift`` is where the axis begins. The
    last tile is the first one with ``down``. (Parts begin where a tile does, so that tiles end where they do.)"""
    places = (segment.start, segment.stop)
    start, stop = (total(shift + n if isinstance(shift, int) else total(shift, n)) for n in places)
    body = caller().strip()
    if name == "0":
        return body + "\n"
    mine = shared if shared is not None and shared.name == name else None
    if isinstance(segment.size, Dim):
        return f"if ({start} < {stop}) {{\n{_declared(name, start, body)}{body}\n}}\n"
    if not varies([segment.start, segment.stop]) and segment.start + segment.size >= segment.stop:
        when = f"if ({mine.makes(wrapped(start))}) " if mine else ""
        return f"{when}{{\n{_declared(name, start, body)}{body}\n}}\n"
    first, last = (mine.begin(wrapped(start)), mine.end(wrapped(stop))) if mine else (start, stop)
    turns = f"{name} = {first}; {name} < {last}; {name} += {segment.size}"
    if down:
        turns = f"{name} = {total(last, -segment.size)}; {name} >= {first}; {name} -= {segment.size}"
    return f"for (int32_t {turns}) {{\n{body}\n}}\n"


@dataclass(frozen=True)
class Chunk:
    """Chunks of an axis as a loop whose turns are ``first`` to below ``stop``, or one chunk alone."""

    opens: str
    start: str | int
    stop: str
    sizes: tuple[int, ...]
    """The extent of each; of a loop whose last turn may have fewer, that of others and its own."""

    @property
    def first(self) -> str:
        return total(self.start)

    def within(self, name: str) -> str:
        """Where a coordinate of the axis is in its chunk."""
        return name if self.first == "0" else f"{name} - {wrapped(self.first)}"


def chunked(found: Sequence[Segment], apart: bool) -> list[Chunk]:
    """The chunks of an axis, and what is left, as one loop; with ``apart`` what is left is by itself.

    >>> (chunk,) = chunked((Segment(0, 96, 48), Segment(96, 100, 4)), apart=False)
    >>> print(chunk.opens)
    for (int32_t first = 0; first < 100; first += 48) {
    const int32_t stop = (100 - first < 48) ? 100 : first + 48;
    """
    if len(found) == 2 and not apart:
        whole, rest = found
        turns, end = _looped(Segment(whole.start, rest.stop, whole.size)), total(rest.stop)
        stop = f"const int32_t stop = ({end} - first < {whole.size}) ? {end} : {turns.stop};"
        return [Chunk(f"{turns.opens}\n{stop}", "first", "stop", (whole.size, rest.size))]
    return [_lone(s) if s.lone else _looped(s) for s in found]


def _lone(s: Segment) -> Chunk:
    return Chunk("", s.start, total(s.start + s.size), (s.size,))


def _looped(s: Segment) -> Chunk:
    begin = f"for (int32_t first = {total(s.start)}; first < {total(s.stop)}; first += {s.size}) {{"
    return Chunk(begin, "first", f"first + {s.size}", (s.size,))


def in_chunk(chunk: Chunk, caller: Caller) -> str:
    """What is called, for each chunk of a loop, or for one alone."""
    body = f"{caller().strip()}\n"
    return f"{chunk.opens}\n{body}}}\n" if chunk.opens else body


def chunk_tiles(
    name: str, chunk: Chunk, tiles_of: Callable[[int], Sequence[Segment]], caller: Callable[[int], str],
    alone: bool = False, shared: Shared | None = None,
) -> str:  # fmt: skip
    """What is called with its extent, for each tile of a chunk, which begins at ``name``; ``alone`` where nothing
    else in the block around it has a variable of that name.

    Tiles of the last turn that are no others' are a loop of no turns in all but this: for 100 in chunks of 48 and
    tiles of 6, those of 6 and of 4.
    """
    if len(chunk.sizes) == 1:
        segments = tiles_of(chunk.sizes[0])
        return "".join(tiles(name, s, partial(caller, s.size), chunk.start, shared) for s in segments)
    heights = sorted({s.size for size in chunk.sizes for s in tiles_of(size)}, reverse=True)
    each = [f"{name} + {h} <= {chunk.stop}; {name} += {h}) {{\n{caller(h).strip()}\n}}\n" for h in heights]
    if len(each) == 1:
        return f"for (int32_t {name} = {chunk.first}; {each[0]}"
    lines = "".join([f"int32_t {name} = {chunk.first};\n", *(f"for (; {e}" for e in each)])
    return lines if alone else f"{{\n{lines}}}\n"


def _declared(name: str, start: str, body: str) -> str:
    """A coordinate, unless the body reads what is the same everywhere along its axis."""
    return f"const int32_t {name} = {start};\n" if re.search(rf"\b{name}\b", body) else ""


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
