"""Computes convolutions and what lies between them strip by strip, where that keeps large values in the cache.

Worked example: a of 4 MB is the result of a convolution and read by another, and the second cache has 1 MB. All
rows of a at once go to the third cache and come back, but for what the second one keeps. In strips each row is read
while it is still near. That costs a call of both kernels for each strip, and a copy of the rows of a that the strip
before has made and this one reads again (see `strips`). Strips are as high as fits, so that there is little of
either. Where a is alive when most bytes are, its 4 MB are memory that the network does not need any more: strips that
cost nothing are enough there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.kernels.model.costs import cheapest
from mccompile.ops.concat import Concat
from mccompile.ops.conv import Conv
from mccompile.ops.slice import Slice
from mccompile.passes.manager import Remarks
from mccompile.passes.rows.regions import Region, regions, working_bytes
from mccompile.passes.rows.strips import Streamed, streamed
from mccompile.targets.target import Target

RETURN_BYTES = 24
"""Bytes per cycle of what is written, leaves the second cache, and is read again, beside what its kernels take with
all at hand (Zen 4, with an L3 that holds it; measured on blocks of mobilenets, which gain 2 to 5 percent)."""
MOST_NODES = 4
"""Nodes of a region: with more of them strips are low, and most that is saved lies around the widest value."""
CALL_CYCLES = 100
"""What a step takes that the costs of kernels do not tell: the call, and first reads of weights."""
ROOM = 0.75
"""What part of the second cache the rows between the operators of a region may take, with those around it."""
WORTH = 0.975
"""Strips must take less than this part of the cycles that the region takes as it is: each is more code."""
FREE = 1.0
"""The same of regions without which there is less alive at once, by `SAVED` at the least."""
SAVED = 0.2
"""What part of what is alive at once is worth the code of strips that save no time."""
SAVED_BY_STEP = 12 << 10
"""Bytes of it that each of their steps must save: a step is some 64 bytes of machine code."""

LITTLE = "that would hardly be faster, and little less would be alive at once"


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute chains of convolutions strip by strip of rows where values between them exceed the second cache and
    the costs of kernels, copies and traffic say that it is faster, or as fast and less memory is needed. Exact."""
    if not target.spare_memory or not target.lanes or not target.machine.l2:
        return 0
    costs = _Costs(target, graph)
    cover = _best_cover(graph, costs)
    alive = _alive(graph)
    most = {region: max(alive[region.start : region.stop]) for region in cover}
    covered = {i for region in cover for i in range(region.start, region.stop)}
    left = max((size for i, size in enumerate(alive) if i not in covered), default=0)
    free: dict[Region, int] = {}
    changes = 0
    for region in cover:
        found: _Strips | str = LITTLE
        if costs.least_part(region) <= WORTH or most[region] - left >= SAVED * most[region]:
            found = _strips(graph, region, costs)
        if not isinstance(found, str) and found.part <= WORTH:
            changes += _adopt(graph, region, found, remarks)
        elif not isinstance(found, str) and found.part <= FREE:
            free[region] = len(found.graph.nodes) - len(graph.nodes)
        else:
            remarks.miss(_title(region), found if isinstance(found, str) else found.text)
            left = max(left, most[region])
    for region in sorted(free, key=lambda region: -most[region]):
        found = LITTLE
        if most[region] - left >= max(SAVED * most[region], SAVED_BY_STEP * free[region]):
            found = _strips(graph, region, costs)
        if isinstance(found, str):
            remarks.miss(_title(region), found)
        else:
            changes += _adopt(graph, region, found, remarks)
    return changes


def _alive(graph: Graph) -> list[int]:
    """Bytes of what is alive at each node; another shape of a value is not another value."""
    whole: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op.keeps_order and node.operands[0] is not None:
            whole[node.result] = whole.get(node.operands[0], node.operands[0])
    spans: dict[Value, tuple[int, int]] = {}
    for i, node in enumerate(graph.nodes):
        for v in (*node.inputs, *node.results):
            v = whole.get(v, v)
            spans[v] = (spans.get(v, (i, i))[0], i)
    change = [0] * (len(graph.nodes) + 1)
    for v, (first, last) in spans.items():
        if v not in graph.constants:
            change[0 if v in graph.inputs else first] += bound(v.type.nbytes)
            change[len(graph.nodes) if v in graph.outputs else last + 1] -= bound(v.type.nbytes)
    return list(itertools.accumulate(change))[:-1]


def _best_cover(graph: Graph, costs: _Costs) -> list[Region]:
    """Regions without common nodes, in which most bytes lie that would have to be fetched again.

    They begin with a convolution: anything lighter is as fast in place, on all rows at once.
    """
    ends: dict[int, list[Region]] = {}
    for region in regions(graph, MOST_NODES):
        if isinstance(region.nodes[0].op, Conv) and costs.returns(region):
            ends.setdefault(region.stop, []).append(region)
    best: list[tuple[float, list[Region]]] = [(0.0, [])]
    for stop in range(1, len(graph.nodes) + 1):
        best.append(best[-1])
        for region in ends.get(stop, ()):
            saved = best[region.start][0] + costs.returns(region)
            if saved > best[-1][0]:
                best[-1] = (saved, [*best[region.start][1], region])
    return best[-1][1]


@dataclass(frozen=True)
class _Strips:
    """A graph with a region in strips of ``height`` rows, and the cycles of the region before and after."""

    graph: Graph
    height: int
    before: float
    after: float

    @property
    def part(self) -> float:
        """Cycles of the strips, as a part of those of all rows at once."""
        return self.after / self.before

    @property
    def text(self) -> str:
        return f"{self.height} rows at a time take {self.after:.0f} cycles, all of them {self.before:.0f}"


def _title(region: Region) -> str:
    return f"computed {region.what} in strips of rows"


def _strips(graph: Graph, region: Region, costs: _Costs) -> _Strips | str:
    """The graph with a region in strips, or why there is none."""
    height = _height(region, costs.target)
    if height == 0:
        return "one row is too much for the second cache"
    other = streamed(graph, region.nodes, height)
    if isinstance(other, str):
        return other
    before = costs.of(region.nodes) + costs.returns(region)
    old = set(graph.nodes)
    after = sum(costs.in_strips(n, other) for n in other.graph.nodes if n not in old)
    return _Strips(other.graph, height, before, after)


def _adopt(graph: Graph, region: Region, strips: _Strips, remarks: Remarks) -> int:
    """Put a region in strips: one change."""
    graph.adopt(strips.graph)
    saved = sum(v.type.nbytes for v in region.inner()) - working_bytes(region, strips.height)
    remarks.hit(f"{_title(region)}: {strips.height} of {region.rows} at a time, {saved} bytes less between them")
    return 1


def _height(region: Region, target: Target) -> int:
    """The most rows of a strip with which all that it touches stays in the second cache; such that all strips are
    equal, if there are not many more of these. 0 if there are none."""
    fitting = [h for h in region.heights() if _touched(region, h) <= ROOM * target.machine.l2]
    equal = [h for h in fitting if region.rows % h == 0 and 2 * h > fitting[0]]
    return (equal or fitting or [0])[0]


def _touched(region: Region, height: int) -> int:
    """Bytes of the rows inside of a region, and of those of its operand and result that go with them."""
    first = region.nodes[0].operands[0]
    assert first is not None
    ends = region.result.type.nbytes + first.type.nbytes
    return working_bytes(region, height) + ends * height // region.rows


@dataclass
class _Costs:
    """Estimated cycles of nodes; equal ones are asked for once."""

    target: Target
    graph: Graph
    known: dict[tuple[object, ...], float] = field(default_factory=dict)

    def of(self, nodes: Sequence[Node]) -> float:
        return sum(map(self.node, nodes))

    def in_strips(self, node: Node, strips: Streamed) -> float:
        """The cycles of a node of strips: what they take over from the one before is copied."""
        if node not in strips.taken_over:
            return self.node(node)
        first = node.operands[0]
        assert first is not None
        return CALL_CYCLES + 2 * first.type.nbytes / self.target.machine.l2_rate

    def node(self, node: Node) -> float:
        """The cycles of a node; views are free."""
        if isinstance(node.op, Slice | Concat) and node.op.view:
            return 0.0
        key = (node.op, *(v and v.type for v in node.operands), *(v.type for v in (*node.extras, *node.results)),
               *node.pre.values(), *node.post.values())  # fmt: skip
        if key not in self.known:
            self.known[key] = CALL_CYCLES + cheapest(node, self.target, self.graph.constants)
        return self.known[key]

    def least_part(self, region: Region) -> float:
        """What part of its cycles a region takes at the least in strips: what it fetches again is saved, but neither
        calls nor copies take any (of 40 regions in five networks none took less)."""
        own = self.of(region.nodes)
        return own / (own + self.returns(region))

    def returns(self, region: Region) -> float:
        """Cycles in which values of a region go to the next cache and come back: what the second one cannot hold."""
        most = ROOM * self.target.machine.l2
        return sum(max(v.type.nbytes - most, 0) for v in region.inner()) / RETURN_BYTES
