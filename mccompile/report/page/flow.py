"""The network before and after: its ONNX nodes in one column, the steps of the program beside them, edges in lanes.

Worked example: the nodes Conv, Relu, Add, of which Add reads Conv's input x as well, became two steps:

    lanes   before              after                  lanes
    o       Conv   conv1    \\   0 conv.channels        o
    o       Relu   relu1    /                          |
    o       Add    sum      -   1 map.vector           o

A value takes the first free lane when it is made, and gives it up at its last reader, as branches in the drawing of a
history do. Nodes stand with the step that does them, in the order of the file; those that no step does (known
when the network was compiled, or only how others address memory) stand where they are read first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.report.page.rows import Cost, Row
from mccompile.report.page.text import names, short, tip

ROW = 20
"""Height of a row, in pixels."""
TOP = 8
"""Above the first row."""
LANE, LANES = 12, 132
"""Width of a lane, and of all lanes at most."""
MOST = 2000
"""Steps that are drawn."""
WRITERS = 12
"""Steps that write parts of one buffer and have edges to its reader: the last ones."""
OP, NAME = 22, 46
"""Letters of an operator and of a name."""


@dataclass(frozen=True)
class Edge:
    """From one row to a later one along ``lane``, which is that of the first row; it ends at ``into``."""

    first: int
    last: int
    lane: int
    into: int


@dataclass(frozen=True)
class Lanes:
    """The lane of each row, the edges, and how many lanes there are."""

    of: tuple[int, ...]
    edges: tuple[Edge, ...]
    count: int


def lanes(reads: Sequence[Sequence[int]]) -> Lanes:
    """Lanes for rows that read others; what reads a row behind itself has no edge.

    >>> lanes([[], [0], [1, 0]])
    Lanes(of=(0, 1, 0), edges=(Edge(first=0, last=1, lane=0, into=1), Edge(first=1, last=2, lane=1, into=0), \
Edge(first=0, last=2, lane=0, into=0)), count=2)
    """
    last: dict[int, int] = {}
    for i, read in enumerate(reads):
        last.update({p: i for p in read if p < i})
    taken: dict[int, int] = {}
    of: list[int] = []
    edges: list[Edge] = []
    most = 0
    for i, read in enumerate(reads):
        behind = [p for p in dict.fromkeys(read) if p < i]
        for p in [p for p in behind if last[p] == i]:
            del taken[of[p]]
        lane = next(n for n in range(i + 1) if n not in taken)
        of.append(lane)
        edges += [Edge(p, i, of[p], lane) for p in behind]
        if i in last:
            taken[lane] = i
        most = max(most, lane + 1)
    return Lanes(tuple(of), tuple(edges), most)


@dataclass(frozen=True)
class Node:
    """An ONNX node in a row; ``step`` is -1 where none does it."""

    row: int
    op: str
    name: str
    step: int
    lane: int
    tip: str


@dataclass(frozen=True)
class StepBox:
    """A step beside the ``rows`` of its ``nodes``, from ``row`` on; ``note`` says whose it is where it has none.
    ``band`` has the rows of nodes without a step, too."""

    row: int
    rows: int
    band: tuple[int, int]
    nodes: int
    step: int
    kernel: str
    note: str
    share: float
    lane: int
    tip: str


@dataclass(frozen=True)
class Flow:
    """The whole picture; rows count from the top. ``left_out`` steps are not drawn."""

    nodes: tuple[Node, ...]
    steps: tuple[StepBox, ...]
    before: Lanes
    after: Lanes
    rows: int
    left_out: int
    gone: int
    fused: int

    @property
    def height(self) -> int:
        return self.rows * ROW

    @property
    def most_share(self) -> float:
        return max((s.share for s in self.steps), default=0.0) or 1.0

    def node_height(self, i: int) -> float:
        """The middle of a node, in pixels."""
        return TOP + (self.nodes[i].row + 0.5) * ROW

    def step_height(self, i: int) -> float:
        """The middle of a step, in pixels."""
        return TOP + (self.steps[i].row + self.steps[i].rows / 2) * ROW


def flow(report: Mapping[str, Any], rows: Sequence[Row], cost: Cost) -> Flow:
    """The picture of a report."""
    shown = list(rows[:MOST])
    done = _done(report, rows)
    order: list[int] = []
    where: dict[int, int] = {}
    bands: list[tuple[int, int]] = []
    at = 0
    for step, own in enumerate(_placed(report, done)[: len(shown) + (len(shown) == len(rows))]):
        where |= {node: at + i for i, node in enumerate(own)}
        order += own
        bands.append((at, max(len(own), 1 if step < len(shown) else 0)))
        at += bands[-1][1]
    number = {node: i for i, node in enumerate(order)}
    nodes = report["onnx"]
    before = lanes([[number[p] for p in nodes[n]["reads"] if p in number] for n in order])
    after = lanes(_step_reads(report, len(shown)))
    doer = {n: step for step, own in enumerate(done) for n in own}
    drawn = [_node(nodes[n], where[n], doer.get(n, -1), before.of[i]) for i, n in enumerate(order)]
    boxes = []
    for r in shown:
        own = [where[n] for n in done[r.step]]
        first, last = (min(own), max(own)) if own else (sum(bands[r.step]) - 1, sum(bands[r.step]) - 1)
        note = "" if own else names(r.onnx, NAME)
        boxes.append(
            StepBox(first, last - first + 1, bands[r.step], len(own), r.step, r.kernel, note, cost.share(r.step),
                    after.of[r.step], _step_tip(r, cost))
        )  # fmt: skip
    gone = sum(n.step < 0 for n in drawn)
    fused = sum(len(own) > 1 for own in done[: len(shown)])
    return Flow(tuple(drawn), tuple(boxes), before, after, at, len(rows) - len(shown), gone, fused)


_WITHOUT = "without a step: known when it was compiled, or how others address memory"


def _node(node: Mapping[str, Any], row: int, step: int, lane: int) -> Node:
    where = f"done by step {step}" if step >= 0 else _WITHOUT
    text = "\n".join([tip(f"{node['op']} {node['name']}"), where])
    return Node(row, short(node["op"], OP), short(node["name"], NAME), step, lane, text)


def _done(report: Mapping[str, Any], rows: Sequence[Row]) -> list[list[int]]:
    """The nodes of each step, in the order of the file. One that several steps do belongs to that with the most
    multiply-adds, and of equal ones to the last."""
    number = {n["name"]: i for i, n in enumerate(report["onnx"])}
    best: dict[int, Row] = {}
    for r in rows:
        for name in r.onnx:
            n = number.get(name, -1)
            if n >= 0 and (n not in best or r.macs >= best[n].macs):
                best[n] = r
    found: list[list[int]] = [[] for _ in rows]
    for n in sorted(best):
        found[best[n].step].append(n)
    return found


def _placed(report: Mapping[str, Any], done: Sequence[Sequence[int]]) -> list[list[int]]:
    """The nodes of each step, with those that no step does where the first node stands that reads them; those that
    nobody reads at the end."""
    found = [list(own) for own in done] + [[]]
    place = {n: step for step, own in enumerate(done) for n in own}
    nodes = report["onnx"]
    first = [len(done)] * len(nodes)
    for n in range(len(nodes) - 1, -1, -1):
        if n not in place:
            place[n] = first[n]
            found[first[n]].append(n)
        for read in nodes[n]["reads"]:
            first[read] = min(first[read], place[n])
    return [sorted(own) for own in found]


def _step_reads(report: Mapping[str, Any], shown: int) -> list[list[int]]:
    """For each step the steps that wrote what it reads; a buffer written in parts has several."""
    wrote: dict[str, list[int]] = {}
    found: list[list[int]] = []
    for i, step in enumerate(report["steps"][:shown]):
        found.append(sorted({w for name in step["reads"] for w in wrote.get(name, [])}))
        for name in step["writes"]:
            whole = name in step["reads"]  # in place: what was there is read, and new behind it
            wrote[name] = [i] if whole else [*wrote.get(name, []), i][-WRITERS:]
    return found


def _step_tip(r: Row, cost: Cost) -> str:
    lines = [f"step {r.step}: {r.kernel}", names(r.onnx, 120) or "fills memory"]
    if cost.total:
        lines.append(f"{cost.text(cost.values[r.step])} {cost.label}, {cost.share(r.step):.1%}")
    return "\n".join(lines)
