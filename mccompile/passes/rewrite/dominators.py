r"""Post-dominators of a graph: the node through which everything computed from a node must go.

Worked example, the diamond of a residual block:

    conv -> relu -> add        relu's parent is add, and so is conv's: conv reaches the outputs by relu and directly
      \------------/           by the shortcut, and both ways meet first in add. Whatever lies between a node and
                              its parent may become one group, for nothing leaves it on the way.
"""

from __future__ import annotations

from collections.abc import Iterator

from mccompile.ir.graph import Graph, Node


class PostDominators:
    """The post-dominator tree of a graph's nodes; its root, None, stands for the graph's outputs.

    Built in one sweep from the last node to the first, as each node's parent is the lowest common ancestor of
    its readers (Cooper, Harvey, Kennedy 2001; TVM's fuse_ops does the same).
    """

    def __init__(self, graph: Graph) -> None:
        self._position = {n: i for i, n in enumerate(graph.nodes)}
        self._readers: dict[Node, list[Node | None]] = {n: [] for n in graph.nodes}
        self._parent: dict[Node, Node | None] = {}
        self._depth: dict[Node | None, int] = {None: 0}
        outputs = set(graph.outputs)
        users = graph.users()
        for node in reversed(graph.nodes):
            readers: list[Node | None] = []
            for r in node.results:
                readers += users.get(r, [])
                readers += [None] if r in outputs else []
            self._readers[node] = list(dict.fromkeys(readers))
            self._parent[node] = self._meet(self._readers[node])
            self._depth[node] = self._depth[self._parent[node]] + 1

    def _meet(self, nodes: list[Node | None]) -> Node | None:
        """The lowest common ancestor; None for no nodes."""
        if not nodes:
            return None
        a = nodes[0]
        for b in nodes[1:]:
            while a is not b:
                if self._depth[a] >= self._depth[b]:
                    assert a is not None
                    a = self._parent[a]
                else:
                    assert b is not None
                    b = self._parent[b]
        return a

    def parent(self, node: Node) -> Node | None:
        """The immediate post-dominator; None if some path leads to an output or ends without meeting another."""
        return self._parent[node]

    def between(self, node: Node, end: Node) -> Iterator[Node]:
        """The nodes on the paths from ``node`` to ``end``, which post-dominates it, without both, each once."""
        seen: set[Node] = set()
        stack = list(self._readers[node])
        while stack:
            at = stack.pop()
            if at is not None and at is not end and at not in seen:
                seen.add(at)
                yield at
                stack += self._readers[at]
