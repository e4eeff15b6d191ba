"""A graph under change: who makes and who reads each value, kept up to date so that a pass stays linear."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from mccompile._cached import cached
from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op


class Rewriter:
    """Producers and users of the values of a graph while a pass changes it.

    A pass walks `nodes`, changes them through the methods below, and calls `finish` at the end. In between
    ``graph.nodes`` may hold erased nodes, and nodes may stand before what they read.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._outputs = set(graph.outputs)
        self._erased: set[Node] = set()
        self._before: dict[Node, list[Node]] = {}
        self._after: dict[Node, list[Node]] = {}
        self._same = True

    @cached
    def _producer(self) -> dict[Value, Node]:
        """Who makes each value. As `_users`, made when first asked for: most passes find nothing to ask about."""
        return self.graph.producers()

    @cached
    def _users(self) -> dict[Value, dict[Node, None]]:
        return self.graph.user_sets()

    def nodes(self) -> Iterator[Node]:
        """The nodes in their order at the start, without those erased meanwhile."""
        return (n for n in self.graph.nodes if n not in self._erased)

    # -- questions ---------------------------------------------------------------------------------------
    def is_erased(self, node: Node) -> bool:
        return node in self._erased

    def producer(self, value: Value | None) -> Node | None:
        """The node that makes ``value``; None for inputs, constants and absent operands."""
        return None if value is None else self._producer.get(value)

    def users(self, value: Value) -> list[Node]:
        """The nodes that read ``value``, each once."""
        return list(self._users.get(value, ()))

    def is_output(self, value: Value) -> bool:
        return value in self._outputs

    def is_private(self, value: Value) -> bool:
        """True if exactly one node reads ``value``, at one place or at several, and it is no output."""
        return value not in self._outputs and len(self._users.get(value, ())) == 1

    def is_read_once(self, value: Value) -> bool:
        """True if one place of one node reads ``value``, and it is no output: nothing else sees what it holds."""
        return self.is_private(value) and self.users(value)[0].inputs.count(value) == 1

    # -- changes -----------------------------------------------------------------------------------------
    def rewire(
        self, node: Node, operands: Sequence[Value | None] | None = None, extras: Sequence[Value] | None = None
    ) -> None:
        """Let ``node`` read other operands, other extra operands, or both."""
        self._same = False
        users = self._users  # as they are before the change
        before = set(node.inputs)
        if operands is not None:
            node.operands = list(operands)
        if extras is not None:
            node.extras = list(extras)
        after = dict.fromkeys(node.inputs)
        for v in before.difference(after):
            del users[v][node]
        for v in after:
            users.setdefault(v, {})[node] = None

    def give_extras(self, node: Node, extras: Sequence[Value]) -> None:
        """Give bodies the ``extras`` by whose places they are numbered, without those that none of them reads."""
        read = sorted({i for body in (*node.pre.values(), *node.post.values()) for i in ex.variables(body) if i >= 0})
        place = {old: new for new, old in enumerate(read)}

        def renumbered(body: ex.Expr) -> ex.Expr:
            return ex.substitute(body, lambda v: v if v.index < 0 else ex.var(place[v.index], v.dtype))

        node.pre = {i: renumbered(body) for i, body in node.pre.items()}
        node.post = {i: renumbered(body) for i, body in node.post.items()}
        self.rewire(node, extras=[extras[i] for i in read])

    def set_results(self, node: Node, results: Sequence[Value]) -> None:
        """Let ``node`` make other values; who made them before must be erased or given others too."""
        self._same = False
        for v in node.results:
            if self._producer.get(v) is node:
                del self._producer[v]
        node.results = list(results)
        for v in node.results:
            self._producer[v] = node

    def replace(self, old: Value, new: Value) -> None:
        """Let every node that reads ``old``, which is no output, read ``new``; and what extents it holds."""
        for name, v in self.graph.counts.items():
            if v is old:
                self.graph.counts[name] = new
        for node in self.users(old):
            self.rewire(
                node,
                [new if v is old else v for v in node.operands],
                [new if v is old else v for v in node.extras],
            )

    def insert(self, before: Node, op: Op, operands: Sequence[Value | None], name: str) -> Value:
        """The result of a new node that stands before another one, with its origins; `nodes` does not show it."""
        node = Node(op, list(operands), [], origins=before.origins)
        return self.insert_node(before, node, [name])[0]

    def insert_node(self, before: Node, node: Node, names: Sequence[str]) -> list[Value]:
        """`insert` for a node with all its parts; its results get their types by its rule."""
        node.results = [self.graph.value(name, t) for name, t in zip(names, node.infer(), strict=True)]
        self._before.setdefault(before, []).append(node)
        self._enter(node)
        return node.results

    def insert_after(self, after: Node, node: Node) -> None:
        """Add a node behind another one; nothing else makes its results (any more)."""
        self._after.setdefault(after, []).append(node)
        self._enter(node)

    def _enter(self, node: Node) -> None:
        self._same = False
        self._producer.update(dict.fromkeys(node.results, node))
        for v in dict.fromkeys(node.inputs):
            self._users.setdefault(v, {})[node] = None

    def erase(self, node: Node) -> None:
        """Drop a node whose results nothing reads, or another node makes now."""
        self._same = False
        self._erased.add(node)
        for v in dict.fromkeys(node.inputs):
            del self._users[v][node]
        for v in node.results:
            if self._producer.get(v) is node:
                del self._producer[v]

    def take_over(self, node: Node, last: Node) -> None:
        """Let ``node``, which now also does what ``last`` did, make its results; ``last`` goes."""
        results = last.results
        self.erase(last)
        self.set_results(node, results)
        node.origins = tuple(dict.fromkeys(node.origins + last.origins))

    def bypass(self, node: Node, source: Value) -> bool:
        """Drop a node whose only result equals ``source``. False if its result must stay a value of its own:
        an output that is an input, a constant, or another output."""
        (result,) = node.results
        if not self.is_output(result):
            self.replace(result, source)
            self.erase(node)
            return True
        producer = self.producer(source)
        if producer is None or self.is_output(source):
            return False
        self.erase(node)
        self.set_results(producer, [result if r is source else r for r in producer.results])
        self.replace(source, result)
        return True

    def finish(self) -> None:
        """Put the nodes in an order in which each comes after what it reads; else the order stays. InternalError if
        there is none."""
        if self._same:
            return
        around = ((*self._before.get(n, ()), n, *self._after.get(n, ())) for n in self.graph.nodes)
        nodes = [n for group in around for n in group if n not in self._erased]
        position = {n: i for i, n in enumerate(nodes)}
        waits: list[int] = []
        for n in nodes:
            before = {self._producer[v] for v in n.inputs if v in self._producer}
            waits.append(len(before))
        ready = [i for i, count in enumerate(waits) if count == 0]
        order: list[Node] = []
        while ready:
            node = nodes[heapq.heappop(ready)]
            order.append(node)
            for follower in {u for r in node.results for u in self._users.get(r, ())}:
                i = position[follower]
                waits[i] -= 1
                if waits[i] == 0:
                    heapq.heappush(ready, i)
        if len(order) < len(nodes):
            stuck = next(n for n, count in zip(nodes, waits, strict=True) if count)
            raise InternalError(f"{stuck.where} reads what is made of its own result")
        self.graph.nodes = order
