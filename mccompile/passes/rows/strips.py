"""Cuts a region of operators that work row by row into strips: of what lies between them, only a few rows exist.

Worked example: y is a convolution of 3 lines of a, pad 1, and a one of x. For lines 0 and 1 of y three of a are
computed, 0 to 2. Lines 2 and 3 need line 1 of a again, and line 2: both are kept, and only line 3 is new::

    strip 0:  a 0 1 2      y 0 1
    strip 1:  a 1 2|3      y 2 3        before | what was there, behind it what is new

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%x: f32[1,1,4,1]) {
...   %w = const [1, 2, 1] : f32[1,1,3,1]
...   %a = conv(%x, %w) {strides=(1, 1), pads=(1, 0, 1, 0), dilations=(1, 1)} : f32[1,1,4,1]
...   %y = conv(%a, %w) {strides=(1, 1), pads=(1, 0, 1, 0), dilations=(1, 1)} : f32[1,1,4,1]
...   return %y
... }''', lookup)
>>> for strip in plan_strips(graph.nodes, height=2):
...     print([(n.result.name, strip.rows[n], strip.kept_rows[n]) for n in graph.nodes])
[('a', range(0, 3), range(0, 3)), ('y', range(0, 2), range(0, 2))]
[('a', range(3, 4), range(1, 4)), ('y', range(2, 4), range(2, 4))]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ops.concat import Concat
from mccompile.ops.slice import Slice
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.passes.rows.windows import AXIS, RowWindow, row_axis, row_windows


@dataclass(frozen=True)
class Strip:
    """What one strip computes: new ``rows`` of each node's result, and the ``kept_rows`` of those before."""

    rows: dict[Node, range]
    kept_rows: dict[Node, range]


def plan_strips(region: Sequence[Node], height: int) -> list[Strip] | str:
    """Strips of ``height`` rows of the result of the last node of a region, whose nodes stand in order.

    Rows that a later strip needs again are kept, none is computed twice. Returns the reason if that cannot be.
    """
    windows = {}
    for node in region:
        found = row_windows(node)
        if isinstance(found, str):
            return found
        windows[node] = found
    total = region[-1].result.shape[AXIS]
    made = {n.result: n for n in region}
    done = dict.fromkeys(region, 0)
    strips = []
    for start in range(0, total, height):
        stop = min(start + height, total)
        strip = _strip(region, windows, made, done, range(start, stop))
        if isinstance(strip, str):
            return strip
        strips.append(strip)
    return _held(strips)


def _strip(
    region: Sequence[Node], windows: dict[Node, tuple[RowWindow | None, ...]], made: dict[Value, Node],
    done: dict[Node, int], wanted: range,
) -> Strip | str:  # fmt: skip
    """The strip that ends with ``wanted`` rows of the last result; ``done`` are the rows of each node so far."""
    needed: dict[Node, range] = {region[-1]: wanted}
    rows: dict[Node, range] = {}
    for node in reversed(region):
        need = needed.get(node, range(0))
        new = range(max(done[node], need.start), need.stop)
        if not new:
            continue
        rows[node] = new
        done[node] = new.stop
        for v, window in zip([*node.operands, *node.extras], windows[node], strict=True):
            if v is None or window is None:
                continue
            inside = _inside(window.taken(new), v.shape[row_axis(v, node.result)])
            if not inside:
                return "a strip would lie in the padding"
            if v in made:
                needed[made[v]] = _hull(needed.get(made[v], inside), inside)
    return Strip(rows, needed)


def _inside(rows: range, extent: int) -> range:
    return range(max(rows.start, 0), min(rows.stop, extent))


def _hull(a: range, b: range) -> range:
    return range(min(a.start, b.start), max(a.stop, b.stop))


def _held(strips: list[Strip]) -> list[Strip]:
    """The strips, each holding also what a later one needs of what was computed before."""
    first: dict[Node, int] = {}
    out = []
    for strip in reversed(strips):
        kept_rows = {}
        for node, need in strip.kept_rows.items():
            first[node] = min(need.start, first.get(node, need.start))
            if node in strip.rows:
                kept_rows[node] = range(min(first[node], strip.rows[node].start), strip.rows[node].stop)
        out.append(Strip(strip.rows, kept_rows))
    return out[::-1]


class _Cutter:
    """Writes the nodes of strips behind the last node of a region."""

    def __init__(self, r: Rewriter, region: Sequence[Node]) -> None:
        self.r = r
        self.region = region
        self.made = {n.result: n for n in region}
        self.last = region[-1]
        self.window: dict[Node, tuple[Value, range]] = {}
        self.taken_over: list[Node] = []

    def emit(self, op: Op, operands: list[Value | None], like: Node, name: str, **rest: object) -> Value:
        node = Node(op, operands, [], origins=like.origins, **rest)  # type: ignore[arg-type]
        (inferred,) = node.infer()
        node.results = [self.r.graph.value(name, inferred)]
        self.r.insert_after(self.region[-1], node)
        self.last = node
        return node.result

    def sliced(self, v: Value, axis: int, first: int, rows: range, like: Node) -> Value:
        """``rows`` of a value whose first row has number ``first``."""
        if len(rows) == v.shape[axis]:
            return v
        starts = tuple(rows.start - first if a == axis else 0 for a in range(len(v.shape)))
        extents = tuple(len(rows) if a == axis else e for a, e in enumerate(v.shape))
        part = self.emit(Slice(starts, (1,) * len(extents), extents, view=True), [v], like, f"{v.name}.part")
        return stored_as(part, v)

    def read(self, v: Value, rows: range, node: Node) -> Value:
        axis = row_axis(v, node.result)
        if v in self.made:
            window, kept_rows = self.window[self.made[v]]
            return self.sliced(window, axis, kept_rows.start, rows, node)
        return self.sliced(v, axis, 0, rows, node)

    def strip(self, strip: Strip) -> Value:
        """The nodes of a strip; returns its rows of the last result."""
        for node in self.region:
            if node in strip.rows:
                self.node(node, strip.rows[node], strip.kept_rows[node])
        return self.window[self.region[-1]][0]

    def node(self, node: Node, rows: range, kept_rows: range) -> None:
        """``rows`` of the result of a node, and before them what is ``kept_rows`` of those that there were."""
        old = None
        if kept_rows.start < rows.start:  # moved first, while nothing else is in its new place
            window, before = self.window[node]
            old = self.sliced(window, AXIS, before.start, range(kept_rows.start, rows.start), node)
        op, inputs = self.taken(node, rows)
        count = len(node.operands)
        new = self.emit(op, inputs[:count], node, f"{node.result.name}.rows",
                        extras=inputs[count:], pre=dict(node.pre), post=dict(node.post))  # fmt: skip
        stored_as(new, node.result)
        if old is not None:
            new = self.emit(Concat(AXIS, view=True), [old, new], node, f"{node.result.name}.window")
            stored_as(new, node.result)
            self.taken_over.append(self.last)
        self.window[node] = (new, kept_rows)

    def taken(self, node: Node, rows: range) -> tuple[Op, list[Value | None]]:
        """What a node reads for some rows of its result, and the operator that makes them of it."""
        windows = row_windows(node)
        assert not isinstance(windows, str)
        op = node.op
        inputs: list[Value | None] = []
        for i, (v, window) in enumerate(zip([*node.operands, *node.extras], windows, strict=True)):
            if v is None or window is None:
                inputs.append(v)
                continue
            taken = window.taken(rows)
            inside = _inside(taken, v.shape[row_axis(v, node.result)])
            inputs.append(self.read(v, inside, node))
            if i == 0:
                padded = op.with_pads(0, inside.start - taken.start, taken.stop - inside.stop)
                assert padded is not None
                op = padded
        return op, inputs


def stored_as(value: Value, like: Value) -> Value:
    """``value`` with the layout of another."""
    value.type = replace(value.type, layout=like.type.layout)
    return value


@dataclass(frozen=True)
class Streamed:
    """A graph with a region in strips. ``taken_over`` are the nodes that put rows of the strip before, which have to
    be copied, in front of new ones."""

    graph: Graph
    taken_over: frozenset[Node]


def streamed(graph: Graph, region: Sequence[Node], height: int) -> Streamed | str:
    """The graph with a region in strips of ``height`` rows, or why it cannot be; the given graph stays as it is."""
    strips = plan_strips(region, height)
    if isinstance(strips, str):
        return strips
    other = graph.shallow_copy()
    r = Rewriter(other)
    try:
        taken_over = cut(r, region, strips)
    except (TypeRuleError, ValueError) as e:
        return f"an operator cannot be put on {height} rows: {e}"
    r.finish()
    return Streamed(other, frozenset(taken_over))


def cut(r: Rewriter, region: Sequence[Node], strips: Sequence[Strip]) -> list[Node]:
    """Replace a region, of whose results only the last is read outside, by its strips. Returns the nodes that take
    rows over from the strip before."""
    cutter = _Cutter(r, region)
    parts: list[Value | None] = [cutter.strip(strip) for strip in strips]
    last = region[-1]
    result = last.result
    for node in reversed(region):
        r.erase(node)
    joined = Node(Concat(AXIS, view=True), parts, [result], origins=last.origins)
    r.insert_after(last, joined)
    return cutter.taken_over
