"""Fuses element-wise regions into one kernel, and into the convolution, product or reduction before them.

Worked example: a convolution, then x * sigmoid(x) of its result. Both maps lie on paths from the convolution that
meet again in %z, its post-dominator: all of it becomes the epilogue of the convolution, whose result is `acc`::

    %y = conv(%x, %w)
    %s = map(%y) {expr={sigmoid(x0)}}
    %z = map(%y, %s) {expr={(x0 * x1)}}

    %z = conv(%x, %w) post 0 {(acc * sigmoid(acc))}

If %y were an output too, or another kernel read %s, the post-dominator would be none of the maps, and they would be
fused with each other at most.

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%x: f32[1,1,4]) {
...   %w = const [2] : f32[1,1,1]
...   %y = conv(%x, %w) {strides=(1,), pads=(0, 0), dilations=(1,)} : f32[1,1,4]
...   %s = map(%y) {expr={sigmoid(x0)}} : f32[1,1,4]
...   %z = map(%y, %s) {expr={(x0 * x1)}} : f32[1,1,4]
...   return %z
... }''', lookup)
>>> run(graph, Remarks()), ex.text(graph.nodes[-1].post[0])
(1, '(acc * sigmoid(acc))')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind
from mccompile.ir.types import F16
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.bodies import (
    MAX_OPERANDS,
    MAX_SIZE,
    MAX_TREE,
    is_cast_to_f16,
    is_cheap,
    is_half,
    parts,
    reads_halves,
    size,
    tree_size,
)
from mccompile.passes.rewrite.dominators import PostDominators
from mccompile.passes.rewrite.rewriter import Rewriter

MAX_REPEATED = 3
"""Functions of an expression that may be computed once for each of several readers."""

ANCHORS = (Kind.COMPLEX, Kind.REDUCTION)


@dataclass(eq=False)
class _Group:
    """Nodes that become one: an ``anchor``, which takes an epilogue, or none, and maps of one shape.

    Nothing outside reads what they compute but the result of ``sink``.
    """

    anchor: Node | None
    sink: Node
    maps: dict[Node, None] = field(default_factory=dict)
    begun: _Group | None = None
    """A group whose maps are the first of these."""
    written: _Written | None = None
    """Its expressions, once they are written."""

    def repeat(self, others: Iterable[Node]) -> None:
        """Compute maps of another group here as well."""
        self.maps.update(dict.fromkeys(others))
        self.begun = self.written = None

    @property
    def first(self) -> Node:
        return self.anchor or next(iter(self.maps))


@dataclass
class _Written:
    """The expressions of so many ``maps`` of a group, and how large each is as a tree, over an anchor's result and
    ``operands``."""

    maps: int
    operands: list[Value]
    done: dict[Value, ex.Expr]
    trees: dict[Value, int]


@dataclass(frozen=True)
class _Body:
    """What a group computes: an expression over the anchor's result (``acc``) and ``operands``."""

    expr: ex.Expr
    operands: tuple[Value, ...]


def run(graph: Graph, remarks: Remarks) -> int:
    """Fuse each region of maps that ends in one result into one kernel, that of a product or reduction before it
    if there is one (Chen et al., OSDI 2018: every path to the post-dominator must be element-wise).

    Exact for f32 and integers; a result stored as f16 is rounded once instead of after each operator where the
    region becomes an epilogue, where another type is cast to f16 or f16 to another type, and before a step that
    depends on it. A little arithmetic read by several kernels is repeated if that moves fewer bytes.
    """
    fusion = _Fusion(graph, remarks)
    position = {n: i for i, n in enumerate(graph.nodes)}
    anchors = [n for n in graph.nodes if n.op.kind in ANCHORS and len(n.results) == 1]
    # Into a product rather than a reduction, and into the latest: then the others come before it anyway.
    anchors.sort(key=lambda n: (n.op.kind != Kind.COMPLEX, -position[n]))
    for node in [*anchors, *filter(_is_plain_map, graph.nodes)]:
        fusion.grow(node)
    for node in graph.nodes:
        fusion.repeat(node)
    return fusion.commit()


def _is_plain_map(node: Node) -> bool:
    return node.op.elementwise is not None and not node.pre and not node.post


class _Fusion:
    """The groups of a graph while they grow."""

    def __init__(self, graph: Graph, remarks: Remarks) -> None:
        self.r = Rewriter(graph)
        self.remarks = remarks
        self.dominators = PostDominators(graph)
        self.groups: dict[Node, _Group] = {}
        self.repeated: dict[Node, None] = {}
        self.changes = 0

    # -- groups ------------------------------------------------------------------------------------------
    def grow(self, node: Node) -> None:
        """Join the group of ``node`` with that of its post-dominator as long as nothing stands against it."""
        if node in self.groups:
            return
        group = _Group(None, node, {node: None}) if node.op.elementwise is not None else _Group(node, node)
        self.groups[node] = group
        while True:
            end = self.dominators.parent(group.sink)
            if end is None or not _is_plain_map(end):
                self._explain(group)
                return
            what = f"fused {end.where} into {group.first.where}"
            joined = self._joined(group, end)
            if isinstance(joined, str):
                self.remarks.miss(what, joined)
                return
            self.remarks.hit(what)
            self.changes += 1
            group = joined
            self.groups.update(dict.fromkeys(group.maps, group))
            if group.anchor is not None:
                self.groups[group.anchor] = group

    def _explain(self, group: _Group) -> None:
        """A remark on maps that read a result which several of them need."""
        users = [u for u in self.r.users(group.sink.result) if _is_plain_map(u)]
        for u in users if len(users) > 1 or self.r.is_output(group.sink.result) else ():
            self.remarks.miss(f"fused {u.where} into {group.first.where}", "its result is needed elsewhere")

    def _joined(self, group: _Group, end: Node) -> _Group | str:
        """The group with everything up to ``end`` and the groups of that, or the reason why it is none."""
        result = group.sink.result
        region = [end]
        for node in self.dominators.between(group.sink, end):
            if not _is_plain_map(node):
                return f"{node.where} lies between them"
            region.append(node)
            if len(region) > MAX_SIZE:
                return f"more than {MAX_SIZE} maps lie between them"
        members = list(dict.fromkeys([group, *(self.groups.get(n) or _Group(None, n, {n: None}) for n in region)]))
        anchors = [g.anchor for g in members if g.anchor is not None]
        if len(anchors) > 1:
            return f"it belongs to {anchors[1].where}"
        joined = _Group(
            anchors[0] if anchors else None,
            next(g.sink for g in members if end in g.maps),
            {n: None for g in members for n in g.maps},
            group,
        )
        if any(n.result.shape != result.shape or n.result.type.layout != result.type.layout for n in joined.maps):
            return "the map has another shape"
        return self._obstacle(joined) or joined

    def _obstacle(self, group: _Group) -> str:
        body = self._body(group)
        if body is None or parts(body.expr) > MAX_SIZE:
            return f"the expression would exceed {MAX_SIZE} functions"
        if len(body.operands) > MAX_OPERANDS:
            return f"it would read more than {MAX_OPERANDS} operands"
        anchor = group.anchor
        if anchor is None:
            return ""
        (own, *_) = anchor.own_types()
        have, want = own.dtype, group.sink.result.dtype
        if want == F16 and _widens_halves(anchor):
            have = F16
        if want != (have if have.compute == body.expr.dtype else body.expr.dtype):
            return f"the map turns {have} into {want}"
        read = {v for m in group.maps for v in m.inputs}
        if anchor.pre and any(v in read for v in anchor.extras):
            return "an operand of the prologue would be read under two shapes"
        return ""

    def _body(self, group: _Group) -> _Body | None:
        """What a group computes; None if the expression is too large to write down."""
        if group.written is None and not self._write(group):
            return None
        assert group.written is not None
        return _Body(group.written.done[group.sink.result], tuple(group.written.operands))

    def _write(self, group: _Group) -> bool:
        """Write a group's expressions down; False where one is too large."""
        anchor = group.anchor
        known = _begun(group)
        operands, done, trees = known.operands, known.done, known.trees

        def in_f16(e: ex.Expr) -> ex.Expr:
            half = is_half(e, lambda var: var.index != ex.ACC and operands[var.index].dtype.name == "f16")
            return e if half else ex.apply("round_f16", e)

        def value(v: Value, rounded: bool) -> ex.Expr:
            if v in done:
                return in_f16(done[v]) if rounded and v.dtype.name == "f16" else done[v]
            if v not in operands:
                operands.append(v)
            return ex.var(operands.index(v), v.dtype)

        for node in _ordered(group)[known.maps :]:
            body = node.op.elementwise
            assert body is not None
            given = [v for v in node.operands if v is not None]
            tree = tree_size(body, [trees.get(v, 0) for v in given])
            if tree > MAX_TREE:
                return False
            halves = set() if anchor is None else reads_halves(node)
            read = [value(v, i in halves) for i, v in enumerate(given)]
            expr = ex.substitute(body, lambda v, read=read: read[v.index])  # type: ignore[misc]
            if node is not group.sink and (is_cast_to_f16(node) if anchor else node.result.dtype.name == "f16"):
                expr, tree = in_f16(expr), tree + 1
            done[node.result], trees[node.result] = expr, tree
        group.written, group.begun = _Written(len(group.maps), operands, done, trees), None
        return True

    # -- repetition --------------------------------------------------------------------------------------
    def repeat(self, node: Node) -> None:
        """Compute a map in each kernel that reads it, if it is a little arithmetic and that moves fewer bytes."""
        group = self.groups.get(node)
        if group is None or group.anchor is not None or group.sink is not node or self.r.is_output(node.result):
            return
        users = self.r.users(node.result)
        readers = list(dict.fromkeys(g for u in users if (g := self.groups.get(u)) is not None))
        if len(readers) < 2:
            return
        what = f"repeated {node.where} in {len(readers)} kernels"
        reason = self._dear(group, users, readers)
        if reason:
            self.remarks.miss(what, reason)
            return
        self.remarks.hit(what)
        self.changes += 1
        for g in readers:
            g.repeat(group.maps)
        for n in group.maps:
            self.groups.pop(n, None)  # one that was repeated here has no group any more
            self.repeated[n] = None

    def _dear(self, group: _Group, users: list[Node], readers: list[_Group]) -> str:
        """Why a group had better be stored once; empty if its readers can compute it."""
        result = group.sink.result
        if not all(_is_plain_map(u) and u.result.shape == result.shape and u in self.groups for u in users):
            return "its result is needed elsewhere"
        body = self._body(group)
        if body is None or parts(body.expr) > MAX_REPEATED or not is_cheap(body.expr):
            return "it is more than a little arithmetic"
        before = _bytes(body.operands) + (1 + len(readers)) * _bytes([result])
        after = 0
        for g in readers:
            inputs = {v for m in g.maps for v in m.inputs}
            after += _bytes(v for v in body.operands if v not in inputs)
            grown = _Group(g.anchor, g.sink, {**group.maps, **g.maps})
            if reason := self._obstacle(grown):
                return reason
        return "" if after < before else f"{after} bytes would be read instead of {before} moved"

    # -- changes -----------------------------------------------------------------------------------------
    def commit(self) -> int:
        """Make one node of each group. Returns the number of changes."""
        gone: dict[Node, None] = dict(self.repeated)
        for group in dict.fromkeys(self.groups.values()):
            if len(group.maps) + (group.anchor is not None) > 1:
                self._commit(group)
                gone.update(dict.fromkeys(n for n in group.maps if n is not group.sink))
        for node in gone:
            self.r.erase(node)
        self.r.finish()
        return self.changes

    def _commit(self, group: _Group) -> None:
        body = self._body(group)
        assert body is not None
        origins = [o for n in _ordered(group) for o in n.origins]
        if group.anchor is None:
            op = group.sink.op
            assert op.elementwise is not None
            group.sink.op = op.with_elementwise(body.expr)
            self.r.rewire(group.sink, body.operands)
            group.sink.origins = tuple(dict.fromkeys(origins))
            return
        anchor = group.anchor
        anchor.post[0] = body.expr
        if group.sink.result.dtype == F16 and _widens_halves(anchor):
            anchor.pre.clear()
        self.r.rewire(anchor, extras=body.operands)
        anchor.origins = tuple(dict.fromkeys([*anchor.origins, *origins]))
        self.r.take_over(anchor, group.sink)


def _widens_halves(anchor: Node) -> bool:
    """Whether prologues do nothing but make floats of operands that are all halves: without them it computes the
    same, and an epilogue may store halves."""
    given = {i: v.dtype for i, v in enumerate(anchor.operands) if v is not None}
    plain = all(body == ex.acc(F16) for body in anchor.pre.values())
    return plain and given.keys() == anchor.pre.keys() and set(given.values()) == {F16}


def _begun(group: _Group) -> _Written:
    """What is known of a group's expressions before they are written: those of the group that it has grown from. They
    come first and read nothing of the others; but with another anchor, or rounded where they have gone on, they are
    others."""
    anchor, begun = group.anchor, group.begun
    if begun is not None and begun.written is not None and begun.anchor is anchor:
        known = begun.written
        if begun.sink.result.dtype.name != "f16" or (anchor is not None and not is_cast_to_f16(begun.sink)):
            return _Written(known.maps, list(known.operands), dict(known.done), dict(known.trees))
    if anchor is None:
        return _Written(0, [], {}, {})
    own = anchor.post.get(0, ex.acc(anchor.result.dtype))
    return _Written(0, list(anchor.extras), {anchor.result: own}, {anchor.result: size(own)})


def _ordered(group: _Group) -> list[Node]:
    """The maps of a group, each after those it reads."""
    made = {n.result: n for n in group.maps}
    order: dict[Node, None] = {}
    pending = list(reversed(group.maps))
    while pending:
        n = pending[-1]
        before = [made[v] for v in n.operands if v in made and made[v] not in order]
        if before:
            pending += before[::-1]
        else:
            order[pending.pop()] = None
    return list(order)


def _bytes(values: Iterable[Value]) -> int:
    return sum(v.type.nbytes for v in values)
