"""Regions of a graph that could be computed in strips of rows, and what memory they would take then.

Worked example: x is an image of 8 lines, a a convolution of 3 x 3 of it, y the maximum of each 2 x 2. In strips of
one line of y two lines of a are new each time, and are all that exist: of a's 8 lines of 32 bytes there are 64
bytes at once instead of 256.

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%x: f32[1,1,8,8]) {
...   %w = const [0, 0, 0, 0, 1, 0, 0, 0, 0] : f32[1,1,3,3]
...   %a = conv(%x, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,1,8,8]
...   %y = pool(%a) {mode='max', kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,1,4,4]
...   return %y
... }''', lookup)
>>> (region,) = regions(graph)
>>> region.heights(), [working_bytes(region, h) for h in region.heights()]
([2, 1], [128, 64])
>>> list(held_rows(region, height=1).values())
[KeptRows(new=2, kept_rows=2), KeptRows(new=1, kept_rows=1)]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.passes.rows.windows import AXIS, RowWindow, row_axis, row_windows

MOST_NODES = 32
"""Nodes of a region."""
MOST_STEPS = 384
"""Nodes that a region may become."""
ENOUGH = 1.02
"""By what factor memory may exceed the least that strips of a region need, so that there are fewer."""


@dataclass(frozen=True)
class Region:
    """Nodes ``start`` to ``stop`` of a graph, which work row by row; only the result of the last is read outside."""

    start: int
    stop: int
    nodes: tuple[Node, ...]

    @property
    def result(self) -> Value:
        return self.nodes[-1].result

    @property
    def rows(self) -> int:
        return self.result.shape[AXIS]

    @property
    def what(self) -> str:
        """The region in a few words."""
        return f"{self.nodes[0].where} to {self.nodes[-1].where}"

    def inner(self) -> list[Value]:
        """The values of which only strips would exist."""
        return [n.result for n in self.nodes[:-1]]

    def heights(self) -> list[int]:
        """Rows that a strip of the result may have, the most first; strips are as equal as can be."""
        most = min(MOST_STEPS // len(self.nodes), self.rows)
        return list(dict.fromkeys(-(-self.rows // count) for count in range(2, most + 1)))


def regions(graph: Graph, most: int = MOST_NODES) -> Iterator[Region]:
    """Every region of two to ``most`` nodes. What is in strips already is left out."""
    last: dict[Value, int] = dict.fromkeys(graph.outputs, len(graph.nodes))
    for i, node in enumerate(graph.nodes):
        for v in node.inputs:
            last[v] = max(last.get(v, i), i)
    strips = in_strips(graph)
    by_row = [None if n in strips else _windows(n) for n in graph.nodes]
    for start, first in enumerate(by_row):
        if first is None:
            continue
        ends = start
        for stop in range(start + 1, min(start + most, len(graph.nodes)) + 1):
            windows, node = by_row[stop - 1], graph.nodes[stop - 1]
            if windows is None or node.result not in last:  # nobody asks for any of its rows
                break
            made = {n.result for n in graph.nodes[start : stop - 1]}
            read = [(v, w) for v, w in zip([*node.operands, *node.extras], windows, strict=True) if v in made]
            if any(w is None or len(v.shape) != len(node.result.shape) for v, w in read if v is not None):
                break  # of what is broadcast to more axes, rows are along another axis where it is made
            if stop - start > 1 and ends <= stop:
                yield Region(start, stop, tuple(graph.nodes[start:stop]))
            ends = max(ends, last[node.result] + 1)
            if ends > start + most:
                break


def in_strips(graph: Graph) -> set[Node]:
    """The nodes of regions that have been cut: what follows from parts of a value, up to where strips are joined.

        %a = slice(%x) {view=True}  %b = conv(%a)            in strips
        %c = slice(%x) {view=True}  %d = conv(%c)            in strips
        %y = concat(%b, %d) {view=True}                      the join: what follows it is whole again

    Only `strips` makes slices and concats that are views by themselves.
    """
    readers = Counter(v for n in graph.nodes for v in n.inputs)
    found: set[Node] = set()
    parts: set[Value] = set()
    cuts: set[Value] = set()
    for node in graph.nodes:
        cut = node.op.is_view and not node.op.joins
        if cut or any(v in parts for v in node.inputs):
            found.add(node)
            # Rows that a strip takes over are cut from the one before, or are read there too; joined ones are not.
            joined = node.op.is_view and node.op.joins
            if not joined or any(v in cuts or readers[v] > 1 for v in node.inputs):
                parts.update(node.results)
            if cut:
                cuts.update(node.results)
    return found


def _windows(node: Node) -> tuple[RowWindow | None, ...] | None:
    found = row_windows(node)
    return None if isinstance(found, str) else found


@dataclass(frozen=True)
class KeptRows:
    """Rows of a value that a strip computes, and those that exist at once."""

    new: int
    kept_rows: int


def held_rows(region: Region, height: int) -> dict[Node, KeptRows]:
    """What strips of ``height`` rows hold of each node's result once they are in full swing."""
    made = {n.result: n for n in region.nodes}
    new = {region.nodes[-1]: height}
    kept_rows = dict(new)
    for node in reversed(region.nodes):
        windows = row_windows(node)
        assert not isinstance(windows, str)
        for v, window in zip([*node.operands, *node.extras], windows, strict=True):
            if v in made and window is not None:
                source, total = made[v], v.shape[row_axis(v, node.result)]
                new[source] = min(max(new.get(source, 0), new[node] * window.stride), total)
                taken = (new[node] - 1) * window.stride + window.reach
                kept_rows[source] = min(max(kept_rows.get(source, 0), new[source], taken), total)
    return {n: KeptRows(new[n], kept_rows[n]) for n in region.nodes}


def working_bytes(region: Region, height: int) -> int:
    """Bytes of what exists inside of a region at the worst moment: windows all the time, other strips as they go."""
    found = held_rows(region, height)
    always, passing = 0, {}
    for node in region.nodes[:-1]:
        row = node.result.type.nbytes // node.result.shape[AXIS]
        if found[node].kept_rows > found[node].new:
            always += row * found[node].kept_rows
        else:
            passing[node.result] = row * found[node].new
    return always + max((sum(passing.get(v, 0) for v in {*n.inputs, n.result}) for n in region.nodes), default=0)


class Lives:
    """Bytes alive at each node of a graph, roughly: what may lie over what it is computed from counts once."""

    def __init__(self, graph: Graph, overlaps: bool) -> None:
        self.graph = graph
        self.root: dict[Value, Value] = {}
        for node in graph.nodes:
            if node.op.keeps_order:
                source = node.inputs[0]
                self.root[node.result] = self.root.get(source, source)
        self.born: dict[Value, int] = dict.fromkeys(graph.inputs, -1)
        self.dies: dict[Value, int] = dict.fromkeys(graph.inputs, -1)
        for i, node in enumerate(graph.nodes):
            for v in node.results:
                self.born.setdefault(self.root.get(v, v), i)
            for v in (*node.inputs, *node.results):
                self.dies[self.root.get(v, v)] = i
        for v in graph.outputs:
            self.dies[self.root.get(v, v)] = len(graph.nodes)
        self.at = [self._at(i, overlaps) for i in range(len(graph.nodes))]

    def across(self, start: int, stop: int) -> int:
        """Bytes of the values from outside of the nodes ``start`` to ``stop`` that are alive there."""
        return sum(v.type.nbytes for v, born in self.born.items() if born < start <= self.dies[v])

    def _at(self, i: int, overlaps: bool) -> int:
        node = self.graph.nodes[i]
        if node.op.keeps_order:
            return 0
        before = self.across(i, i + 1)
        dying = [v.type.nbytes for v in map(self._rooted, node.inputs) if self.dies.get(v) == i]
        own = sum(r.type.nbytes for r in node.results)
        return before + own - (min(max(dying, default=0), own) if overlaps else 0)

    def _rooted(self, v: Value) -> Value:
        return self.root.get(v, v)


def smallest(graph: Graph, count: int, overlaps: bool) -> Sequence[tuple[Region, int]]:
    """The ``count`` ways to compute one region in strips that should need least memory, the best first."""
    lives = Lives(graph, overlaps)
    peak = max(lives.at, default=0)
    before, after = [0], [0]
    for n in lives.at:
        before.append(max(before[-1], n))
    for n in reversed(lives.at):
        after.append(max(after[-1], n))
    found = []
    for region in regions(graph):
        outside = max(before[region.start], after[len(lives.at) - region.stop])
        fixed = lives.across(region.start, region.stop) + region.result.type.nbytes
        if max(outside, fixed) < peak and (heights := region.heights()):
            needs = [(max(outside, fixed + working_bytes(region, h)), h) for h in heights]
            enough = ENOUGH * min(needs)[0]
            need, height = next(n for n in needs if n[0] <= enough)
            found.append((need, len(region.nodes), region.start, region, height))
    found.sort(key=lambda f: f[:3])
    best: list[tuple[Region, int]] = []
    for need, _, _, region, height in found:
        if need < peak and len(best) < count and all(region.nodes[-1] is not r.nodes[-1] for r, _ in best):
            best.append((region, height))
    return best
