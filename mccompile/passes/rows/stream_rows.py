"""Computes convolutions and what lies between them strip by strip, where that keeps large values in the cache.

Worked example: a of 4 MB is the result of a convolution and read by another, and the second cache has 1 MB. All
rows of a at once go to the third cache and come back, but for what the second one keeps. In strips each row is read
while it is still near. That costs a call of both kernels for each strip, and a copy of the rows of a that the strip
before has made and this one reads again (see `strips`). Strips are as high as fits, so that there is little of
either. Where a is alive when most bytes are, its 4 MB are memory that the network does not need any more: strips that
cost nothing are enough there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node
from mccompile.kernels.model.costs import cheapest
from mccompile.ops.conv import Conv
from mccompile.passes.manager import Remarks
from mccompile.passes.rows.alive import bytes_alive
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
"""Strips are faster where they take less than this part of the cycles that the region takes as it is."""
FREE = 1.0
"""Strips that take more are not made."""
SAVED_CYCLES = 0.01
"""What part of the network's cycles is worth the code of strips without which as little is alive at once."""
SAVED = 0.2
"""What part of what is alive at once is worth the code of strips that save fewer."""
SAVED_BY_STEP = 6 << 10
"""Bytes of it that each of their steps must save, half of it where strips are faster: a step is some 64 bytes of
machine code and 400 letters of C."""

LITTLE = "that would hardly be faster, and little less would be alive at once"


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute chains of convolutions strip by strip of rows where values between them exceed the second cache, it
    takes no longer, and less memory is needed or a part of the network's time is saved. Exact but for
    kernels that round by tiles (Winograd's)."""
    if not target.spare_memory or not target.lanes or not target.machine.l2:
        return 0
    costs = _Costs(target, graph)
    cover = _best_cover(graph, costs)
    found = {region: _strips(graph, region, costs) for region in cover if costs.least_part(region) <= WORTH}
    least = SAVED_CYCLES * costs.of(graph.nodes) if found else 0.0
    faster = [r for r, s in found.items() if not isinstance(s, str) and s.before - s.after >= least]
    chosen = {*faster, *_least_alive(graph, cover, found, costs)}
    changes = 0
    for region in cover:
        strips = found.get(region, LITTLE)
        if region in chosen:
            again = _strips(graph, region, costs)
            assert not isinstance(again, str)
            changes += _adopt(graph, region, again, remarks)
        elif isinstance(strips, str):
            remarks.miss(_title(region), strips)
        else:
            remarks.miss(_title(region), strips.text if strips.part > FREE else LITTLE)
    return changes


def _least_alive(
    graph: Graph, cover: list[Region], found: dict[Region, _Strips | str], costs: _Costs
) -> list[Region]:
    """The regions of a cover whose strips together save most of what is alive at once, beyond what their code costs;
    what is found out of others on the way goes into ``found``.

    Worked example: 6 MB are alive in the first region, 5 in the second, 4 in what is left, and strips leave 2 of
    each. The first in strips saves 1 MB, both 2 MB. Were there 6 MB in what is left, neither saved any.
    """
    alive = bytes_alive(graph)
    most = {region: max(alive[region.start : region.stop]) for region in cover}
    covered = {i for region in cover for i in range(region.start, region.stop)}
    left = max((size for i, size in enumerate(alive) if i not in covered), default=0)
    order = sorted(cover, key=lambda region: -most[region])
    peaks = [most[region] for region in order] + [0]
    before, price, count, gain = peaks[0], 0.0, 0, 0.0
    for i, region in enumerate(order):
        if before - left < SAVED * before or peaks[i] <= left:
            break
        strips = found.setdefault(region, _strips(graph, region, costs))
        if isinstance(strips, str) or strips.part > FREE:
            break
        price += SAVED_BY_STEP * strips.steps * (0.5 if strips.part <= WORTH else 1.0)
        left = max(left, strips.alive(region))
        saved = before - max(left, peaks[i + 1])
        if saved >= SAVED * before and saved - price > gain:
            count, gain = i + 1, saved - price
    return order[:count]


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
    """A graph with a region in strips of ``height`` rows, ``steps`` nodes more than without, and the cycles of the
    region before and after."""

    graph: Graph
    height: int
    steps: int
    before: float
    after: float

    @property
    def part(self) -> float:
        """Cycles of the strips, as a part of those of all rows at once."""
        return self.after / self.before

    def alive(self, region: Region) -> int:
        """The most bytes that are alive in the region when it is in strips; its result may lie over an operand that
        nobody else reads, for the rows of one follow those of the other."""
        first, nodes = region.nodes[0].operands[0], self.graph.nodes[region.stop + self.steps :]
        assert first is not None
        dies = first not in self.graph.outputs and not any(first in n.inputs for n in nodes)
        shared = min(first.type.nbytes, region.result.type.nbytes) if dies else 0
        return max(bytes_alive(self.graph)[region.start : region.stop + self.steps]) - shared

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
    return _Strips(other.graph, height, len(other.graph.nodes) - len(graph.nodes), before, after)


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
        if node.op.is_view:
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
