"""Stores values channels-last where that makes the kernels around them cheaper, by their cost model.

Layouts spread greedily from the operators that want them, as in OneFlow's auto-NHWC: over operators whose operands
and results are best stored alike, and over reshapes and transposes that keep the stored order. Shapes and attributes
never change. Graph inputs and outputs stay row-major.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Digest, Graph, Node, Value
from mccompile.ir.op import Layouts
from mccompile.ir.types import Factor, Layout, TensorType, channels_last, row_major
from mccompile.ir.views import Buffer, stored_alike, whole
from mccompile.kernels.model.costs import cheapest
from mccompile.kernels.views.lines import far
from mccompile.ops.relayout import Relayout
from mccompile.ops.reshape import Reshape
from mccompile.ops.transpose import Transpose
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

RELAYOUT_CYCLES = 0.5
"""Of an element that is copied into another order."""
FAR_CYCLES = 1.0
"""Of an element that is read into a vector beside those of the result, and not next to the one before."""
SWEEPS = 4
"""Times that every group may change; few change after the first."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Store the values around convolutions channels-last where the target's kernels gain by it. Exact."""
    if not target.lanes:
        remarks.miss("stored values channels-last", f"target {target.name} has no vectors")
        return 0
    if target.compact and target.hosted:
        remarks.miss("stored values channels-last", f"code for {target.name} is to be small")
        return 0
    moved = _moved_bytes(graph)
    staged = _staged(graph, target)
    plan = _Plan(Rewriter(graph), target, staged)
    plan.search()
    for group in plan.groups:
        what = f"{len(group.layouts)} values around %{group.seed.name} channels-last"
        if group.stored:
            remarks.hit(f"stored {what}")
        else:
            remarks.miss(f"stored {what}", "the kernels are no cheaper")
    count = sum(len(g.layouts) for g in plan.groups if g.stored)
    if count:
        plan.commit()
    _unstage(graph, staged)
    if count:
        after = _moved_bytes(graph)
        remarks.hit(
            f"stored {count} values channels-last; transposes and relayouts: "
            f"{moved[0]} moving {moved[1]} bytes before, {after[0]} moving {after[1]} after"
        )
    return count


def _staged(graph: Graph, target: Target) -> list[Node]:
    """Copies of what a caller holds, for operators that want their operand stored as their result, or that would read
    a vector of channels or more each from far away: a layout may be chosen for them."""
    r = Rewriter(graph)
    copies: dict[Value, Value] = {}
    for node in r.nodes():
        x = node.operands[0] if node.op.wants_channels_last else None
        if x not in graph.inputs or len(x.shape) < 3:
            continue
        far = target.spare_memory and bound(x.shape[1]) >= target.lanes
        if node.op.binds(node.operand_types()) or far:
            if x not in copies:
                copies[x] = r.insert(node, Relayout(), [x], f"{x.name}.stored")
            r.rewire(node, [copies[x] if v is x else v for v in node.operands])
    r.finish()
    return [n for n in graph.nodes if n.results[0] in copies.values()]


def _unstage(graph: Graph, staged: Sequence[Node]) -> None:
    """Drop the copies that are stored as what they copy."""
    r = Rewriter(graph)
    for node in staged:
        if _is_row_major(node.result.type):
            node.result.type = replace(node.result.type, layout=None)
            r.bypass(node, node.inputs[0])
    r.finish()


@dataclass(eq=False)
class _Group:
    """Values that are best stored alike, and how; ``stored``: whether they are stored so."""

    seed: Value
    layouts: dict[Value, Layout]
    stored: bool = False

    def store(self, stored: bool) -> None:
        self.stored = stored
        for v, layout in self.layouts.items():
            v.type = replace(v.type, layout=layout if stored else None)


class _Plan:
    """Groups of values, each stored channels-last or not, under a search for the least cost."""

    def __init__(self, rewriter: Rewriter, target: Target, staged: Sequence[Node]) -> None:
        self.rewriter = rewriter
        self.target = target
        self._staged = frozenset(staged)
        self.groups: list[_Group] = []
        self._grouped: set[Value] = set()
        self._costs: dict[tuple[object, ...], float] = {}
        self._made: dict[tuple[Value, Layout | None], Value] = {}
        for node in rewriter.nodes():
            for seed in (node.operands[0], node.results[0]) if node.op.wants_channels_last else ():
                if seed is not None and self._free(seed) and len(seed.shape) > 2:
                    self.groups.append(_Group(seed, self._grown(seed)))
                    self._grouped.update(self.groups[-1].layouts)

    def search(self) -> None:
        """From all groups channels-last, take back those that cost more than they gain; no group at all if none
        is better still."""
        nodes = list(self.rewriter.nodes())
        plain = sum(self._cost(n) for n in nodes)
        for group in self.groups:
            group.store(True)
        for _ in range(SWEEPS):
            if not sum(self._flipped(group) for group in reversed(self.groups)):
                break
        if sum(self._cost(n) for n in nodes) >= plain:
            for group in self.groups:
                group.store(False)

    def _flipped(self, group: _Group) -> bool:
        """Change one group if that is cheaper, all others as they are."""
        nodes = list(dict.fromkeys(n for v in group.layouts for n in self._around(v)))
        before = sum(self._cost(n) for n in nodes)
        group.store(not group.stored)
        if sum(self._cost(n) for n in nodes) < before:
            return True
        group.store(not group.stored)
        return False

    def _grown(self, seed: Value) -> dict[Value, Layout]:
        group = {seed: channels_last(len(seed.shape))}
        queue = [seed]
        while queue:
            v = queue.pop()
            for node in self._around(v):
                for neighbour, layout in self._spread(node, v, group[v]):
                    if self._free(neighbour) and neighbour not in group:
                        group[neighbour] = layout
                        queue.append(neighbour)
        return group

    def _free(self, v: Value) -> bool:
        """Whether a layout may still be chosen: what neither a caller nor the blob holds."""
        return v not in self._grouped and self.rewriter.producer(v) is not None

    def _around(self, v: Value) -> Iterator[Node]:
        producer = self.rewriter.producer(v)
        if producer is not None:
            yield producer
        yield from self.rewriter.users(v)

    def _spread(self, node: Node, v: Value, layout: Layout) -> Iterator[tuple[Value, Layout]]:
        """The neighbours of ``v`` at a node that are best stored in a certain way when it is in ``layout``."""
        if isinstance(node.op, Reshape | Transpose) and not node.pre and not node.post:
            operand, result = node.inputs[0], node.result
            if v is operand:
                carried = _carried(node, replace(v.type, layout=layout))
                if carried is not None and (node.op.keeps_order or self._only_reshaped(result)):
                    yield result, carried
            elif node.op.keeps_order:
                carried = _seen(replace(v.type, layout=layout), operand.type)
                if carried is not None:
                    yield operand, carried
            return
        for alike in _bound(node):
            if v in alike:
                yield from ((w, layout) for w in alike if len(w.shape) == len(v.shape))

    def _only_reshaped(self, v: Value) -> bool:
        users = self.rewriter.users(v)
        return not self.rewriter.is_output(v) and all(n.op.keeps_order for n in users)

    def _cost(self, node: Node) -> float:
        """Estimated cycles of a node as its values are stored, with the relayouts that follow from that."""
        key = (node, *(v.type for v in (*node.inputs, *node.results)))
        if key not in self._costs:
            self._costs[key] = self._node_cost(node) + RELAYOUT_CYCLES * sum(
                v.type.count for v in node.results if self.rewriter.is_output(v) and not _is_row_major(v.type)
            )
        return self._costs[key]

    def _node_cost(self, node: Node) -> float:
        if isinstance(node.op, Reshape | Relayout):
            same = stored_alike(node.inputs[0].type, node.result.type)
            return 0.0 if same else RELAYOUT_CYCLES * node.result.type.count
        if isinstance(node.op, Transpose) and _carried(node, node.inputs[0].type) == node.result.type.factors:
            return 0.0
        if node.op.layouts is Layouts.FIXED:
            stored = [v for v in (*node.inputs, *node.results) if not _is_row_major(v.type)]
            return RELAYOUT_CYCLES * sum(v.type.count for v in dict.fromkeys(stored))
        return min(self._with_copies(node, copies) for copies in self._copies(node))

    def _with_copies(self, node: Node, layouts: Mapping[Value, Layout | None]) -> float:
        """The cost of a node that reads copies of some values, or gives one, with that of making them."""
        stored = {v: v.type for v in layouts}
        for v, layout in layouts.items():
            v.type = replace(v.type, layout=layout)
        cost = cheapest(node, self.target, self.rewriter.graph.constants)
        if self.target.lanes > 1:
            cost += FAR_CYCLES * node.results[0].type.count * len(_far(node))
        for v, t in stored.items():
            v.type = t
        constants = self.rewriter.graph.constants
        return cost + RELAYOUT_CYCLES * sum(t.count for v, t in stored.items() if v not in constants)

    def _copies(self, node: Node) -> Iterator[dict[Value, Layout | None]]:
        """What a node may read copies of, and how these are stored: nothing; the operand of a convolution in rows,
        where its result is; what is read beside each element of the result as that is. Or a map makes a result that
        is copied, stored as all that it reads."""
        x, y = node.operands[0], node.results[0]
        rows: dict[Value, Layout | None] = {}
        if node.op.wants_channels_last and x is not None and x.type.layout is not None and y.type.layout is None:
            rows[x] = None
        beside: dict[Value, Layout | None] = {}
        for v in _far(node):
            known = not isinstance(self.rewriter.graph.constants.get(v), Digest)
            if known and (self.target.spare_memory or self._only_read_by(node, v)):
                beside[v] = _inner(y.type.layout, len(y.shape) - len(v.shape))
        yield {}
        yield from (copies for copies in (rows, beside) if copies)
        if rows and beside:
            yield rows | beside
        read = {v.type.layout for v in node.inputs if v.shape == y.shape}
        if beside and node.op.elementwise is not None and len(read) == 1 and self.target.spare_memory:
            yield dict.fromkeys([y], read.pop())

    def _only_read_by(self, node: Node, v: Value) -> bool:
        """Whether a value is a constant that may be stored as a node wants it without being stored twice."""
        return v in self.rewriter.graph.constants and all(user is node for user in self.rewriter.users(v))

    # -- relayouts where a layout ends ---------------------------------------------------------------------
    def commit(self) -> None:
        """Put a relayout wherever a value is stored otherwise than an operator or a caller wants it."""
        r = self.rewriter
        for group in self.groups:
            for v in group.layouts if group.stored else ():
                if r.is_output(v):
                    self._keep_output(v)
        for node in list(r.nodes()):
            if node in self._staged and self.target.spare_memory:
                self._made[node.inputs[0], node.result.type.layout] = node.result
            if node.op.layouts is Layouts.FIXED:
                self._fixed(node)
            else:
                cheap = min(self._copies(node), key=lambda layouts: self._with_copies(node, layouts))
                self._read_copies(node, cheap)
        r.finish()

    def _keep_output(self, v: Value) -> None:
        producer = self.rewriter.producer(v)
        assert producer is not None
        inner = self.rewriter.graph.value(f"{v.name}.stored", v.type)
        v.type = replace(v.type, layout=None)
        self.rewriter.replace(v, inner)
        self.rewriter.set_results(producer, [inner if w is v else w for w in producer.results])
        self.rewriter.insert_after(producer, Node(Relayout(), [inner], [v], origins=producer.origins))

    def _fixed(self, node: Node) -> None:
        """Rows for its operands and results. Of one channel, channels-last is row-major: then nothing is moved, but
        kernels of such operators want to see no layout."""
        self._read_copies(node, {v: None for v in node.inputs if v.type.layout is not None})
        for v in node.results:
            if v.type.layout is not None:
                self._copied_result(node, v, None)

    def _copied_result(self, node: Node, v: Value, layout: Layout | None) -> None:
        """Let a node make a result in another layout, of which it becomes a copy."""
        r = self.rewriter
        made = r.graph.value(_copy_name(v, layout), replace(v.type, layout=layout))
        r.set_results(node, [made if w is v else w for w in node.results])
        r.insert_after(node, Node(Relayout(), [made], [v], origins=node.origins))

    def _read_copies(self, node: Node, layouts: Mapping[Value, Layout | None]) -> None:
        """Let ``node`` read copies of values that are stored in other layouts, or give a copy."""
        r = self.rewriter
        copies = {}
        for v, layout in layouts.items():
            if v in node.results:
                self._copied_result(node, v, layout)
                continue
            if (v, layout) in self._made:
                copies[v] = self._made[v, layout]
                continue
            if v in r.graph.constants and layout is not None:
                copies[v] = self._rearranged(node, v, layout)
            else:
                copies[v] = r.insert(node, Relayout(), [v], _copy_name(v, layout))
            copies[v].type = replace(v.type, layout=layout)
            if self.target.spare_memory:
                self._made[v, layout] = copies[v]
        if copies:
            operands = [copies.get(v, v) if v is not None else None for v in node.operands]
            r.rewire(node, operands, [copies.get(v, v) for v in node.extras])

    def _rearranged(self, node: Node, v: Value, layout: Layout) -> Value:
        """A constant as one whose axes are in the order in which a layout stores them, seen through a transpose."""
        order = [f.axis for f in layout]
        elements = self.rewriter.graph.array(v).transpose(order)
        stored = self.rewriter.graph.constant(f"{v.name}.stored", elements)
        perm = tuple(order.index(a) for a in range(len(order)))
        return self.rewriter.insert(node, Transpose(perm), [stored], v.name)


def _bound(node: Node) -> Iterator[list[Value]]:
    """The values of a node that are best stored alike, in the node's order: whoever asks for a value first has it."""
    if node.op.layouts is Layouts.FIXED:
        return
    if node.op.binds(node.operand_types()):
        yield [*node.inputs, *node.results]
        return
    for exprs, values in ((node.pre, node.operands), (node.post, node.results)):
        for i, body in exprs.items():
            v = values[i]
            if v is not None:
                yield [v, *(node.extras[k] for k in sorted(ex.variables(body) - {ex.ACC}))]


def _far(node: Node) -> list[Value]:
    """What a node reads beside each element of its result while neighbours of it lie apart."""
    y = node.results[0]
    beside = next((alike for alike in _bound(node) if y in alike), [])
    return [v for v in dict.fromkeys(beside) if v is not y and v.type.linear and far(v, y)]


def _copy_name(v: Value, layout: Layout | None) -> str:
    return f"{v.name}.{'rows' if layout is None else 'stored'}"


def _inner(layout: Layout | None, skipped: int) -> Layout | None:
    """The order of the axes behind the first ones, as a layout for those alone."""
    if layout is None:
        return None
    return tuple(Factor(f.axis - skipped) for f in layout if f.axis >= skipped)


def _carried(node: Node, operand: TensorType) -> Layout | None:
    """The layout in which the result of a reshape or transpose lies as its operand does; None if there is none."""
    if isinstance(node.op, Transpose):
        if not operand.linear:
            return None
        return tuple(Factor(node.op.perm.index(f.axis)) for f in operand.factors)
    return _seen(operand, node.result.type)


def _seen(stored: TensorType, other: TensorType) -> Layout | None:
    """The layout under which a reshape of a stored tensor needs no copy; None if there is none or it is row-major."""
    if not stored.linear:
        return None
    view = whole(Buffer("", stored, "arena", 1)).reshape(other.shape)
    if isinstance(view, str):
        return None
    strides = view.axis_strides()
    order = sorted(range(view.rank), key=lambda a: (view.shape[a] != 1, -bound(strides[a]), a))
    found = tuple(Factor(a) for a in order)
    alike = stored_alike(stored, replace(other, layout=found))
    return found if alike and found != row_major(view.rank) else None


def _is_row_major(t: TensorType) -> bool:
    return t.layout is None or stored_alike(t, replace(t, layout=None))


def _moved_bytes(graph: Graph) -> tuple[int, int]:
    """Nodes that only change the order in which elements are stored, and the bytes they write."""
    count = nbytes = 0
    for node in graph.nodes:
        moves = isinstance(node.op, Relayout) or (
            isinstance(node.op, Transpose)
            and _carried(node, node.inputs[0].type) != node.result.type.factors
        )  # fmt: skip
        if moves or (node.op.keeps_order and not stored_alike(node.inputs[0].type, node.result.type)):
            count += 1
            nbytes += node.result.type.nbytes
    return count, nbytes
