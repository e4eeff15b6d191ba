"""The memory map: a rectangle for each tensor, from its first to its last step, from its first to its last byte.

Worked example: of an arena of 192 bytes, x of 64 bytes at 0 in step 0 and t of 128 at 64 in steps 0 and 1 are

    192  +-------+-------+      Box(x=0, y=0, width=2, height=128)     t: y counts from the top
         |       t       |      Box(x=0, y=128, width=1, height=64)    x
     64  +-------+-------+
         |   x   |              steps and bytes are the units of the picture: the page stretches them to its size,
      0  +-------+-------+      and zooms by showing fewer of them
           0       1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.report.page.text import byte_marks, ends, nbytes, steps_between, tip

WIDTH, HEIGHT = 980, 320
"""Of the field that is drawn in, in pixels, before the page stretches it."""
LEAST_HEIGHT = 150
MOST = 2500
"""Rectangles of a map; of more tensors, those that take most for longest."""
LETTER, LINE, SHORTEST = 5.8, 13, 4
"""Width of a letter of a name, about, and height of a line, in pixels; letters of the shortest name."""
THIN = 3
"""A rectangle that is less high, in pixels, is seen by its line."""

KINDS = {
    "input": "inputs", "output": "outputs", "state": "state", "scratch": "scratch", "count": "counted extents",
    "": "temporaries",
}  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A tensor: its place in steps and bytes."""

    kind: str
    x: int
    y: int
    width: int
    height: int
    name: str
    tip: str


@dataclass(frozen=True)
class Label:
    """A name, where it begins, in pixels."""

    x: float
    y: float
    text: str

    def over(self, other: Label) -> bool:
        ends = self.x + len(self.text) * LETTER, other.x + len(other.text) * LETTER
        return abs(self.y - other.y) < LINE - 2 and self.x < ends[1] and other.x < ends[0]


@dataclass(frozen=True)
class Mark:
    """A line of an axis: where, as a part of the field's size, and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class MemoryMap:
    """One memory. ``bound`` is where the lower bound is, from the top as a part of the height; None: not known."""

    name: str
    total: int
    limit: int | None
    steps: int
    width: int
    height: int
    boxes: tuple[Box, ...]
    labels: tuple[Label, ...]
    left_out: int
    rows: tuple[Mark, ...]
    columns: tuple[Mark, ...]
    bound: Mark | None
    peak: int
    kinds: tuple[tuple[str, str], ...]

    def is_thin(self, box: Box) -> bool:
        return box.height / self.total * self.height < THIN


def memory_maps(report: Mapping[str, Any]) -> list[MemoryMap]:
    """One for each memory of the arena."""
    memory = report["memory"]
    steps = max(len(report["steps"]), 1)
    regions = memory.get("regions") or [{"name": "", "arena_bytes": memory["arena_bytes"], "limit_bytes": None}]
    total = max(memory["arena_bytes"], 1)
    found = []
    for r in regions:
        own = [t for t in memory["tensors"] if t.get("region", "") == r["name"]]
        height = max(LEAST_HEIGHT, round(HEIGHT * r["arena_bytes"] / total)) if len(regions) > 1 else HEIGHT
        if r["arena_bytes"]:
            found.append(_map(r, own, steps, memory, height, alone=len(regions) == 1))
    return found


def _map(
    region: Mapping[str, Any], tensors: Sequence[Mapping[str, Any]], steps: int, memory: Mapping[str, Any],
    height: int, alone: bool,
) -> MemoryMap:  # fmt: skip
    total = region["arena_bytes"]
    largest = sorted(tensors, key=lambda t: -t["bytes"] * (t["last_step"] - t["first_step"] + 1))[:MOST]
    boxes = [_box(t, total) for t in largest]
    boxes.sort(key=lambda b: (b.x, -b.width * b.height))
    low = memory["lower_bound_bytes"]
    mark = Mark(1 - low / total, f"lower bound {nbytes(low)}") if alone and 0 < low <= total else None
    present = {b.kind for b in boxes}
    kinds = tuple((kind or "temporary", name) for kind, name in KINDS.items() if (kind or "temporary") in present)
    rows = tuple(Mark(1 - n / total, nbytes(n) if n else "0") for n in byte_marks(total))
    return MemoryMap(
        region["name"], total, region["limit_bytes"], steps, WIDTH, height, tuple(boxes),
        tuple(labels(boxes, steps, total, height)), len(tensors) - len(boxes), rows, step_marks(steps), mark,
        memory["peak_step"], kinds,
    )  # fmt: skip


def step_marks(steps: int, most: int = 16) -> tuple[Mark, ...]:
    """Numbers below the middle of steps, at most so many.

    >>> [(round(m.at, 3), m.text) for m in step_marks(4, 2)]
    [(0.125, '0'), (0.625, '2')]
    """
    every = max(int(steps_between(steps, most)), 1)
    return tuple(Mark((i + 0.5) / steps, str(i)) for i in range(0, steps, every))


def _box(t: Mapping[str, Any], total: int) -> Box:
    """The rectangle of a tensor, without its name."""
    first, last, size = t["first_step"], t["last_step"], t["bytes"]
    when = f"step {first}" if first == last else f"steps {first} to {last}"
    onnx = "" if t["onnx"] else "made by mccompile"
    role = f", {t['role']}" if t["role"] else ""
    lines = [
        t["name"], onnx, f"{t['dtype']}[{', '.join(map(str, t['shape']))}]{role}",
        f"{size:,} bytes at {t['offset']:,} to {t['offset'] + size:,}", when,
    ]  # fmt: skip
    text = "\n".join(tip(line) for line in lines if line)
    return Box(t["role"] or "temporary", first, total - t["offset"] - size, last - first + 1, size, t["name"], text)


def labels(boxes: Sequence[Box], steps: int, total: int, height: int) -> Iterator[Label]:
    """The names that there is room for, in the upper left corners; one that would lie over another is left out."""
    placed: list[Label] = []
    for b in boxes:
        wide, high = b.width / steps * WIDTH, b.height / total * height
        room = int((wide - 8) / LETTER)
        if high < LINE or room < SHORTEST:
            continue
        own = Label(b.x / steps * WIDTH + 4, b.y / total * height + LINE - 2, ends(b.name, room))
        if not any(own.over(other) for other in placed):
            placed.append(own)
            yield own
