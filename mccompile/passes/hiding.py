"""Nodes whose extents are known at run time only stay out of sight of the passes that were not read for them.

Such a pass sees an operator of which nothing is known but its types, and leaves it and its operands as they are; the
rest of the graph is optimised as ever. A pass joins `TAKES_EXTENTS` when it was read for extents that vary: it takes
no bound for the extent, decides nothing by comparing what cannot be decided, and makes no table of a shape. What
makes tables of other axes than the first joins `TAKES_BATCHES`: it sees nodes of which no other extent varies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mccompile._dataclass import dataclass
from mccompile.ir.dims import varies
from mccompile.ir.graph import Graph, Node
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.types import TensorType

TAKES_EXTENTS = frozenset({
    "canonicalize", "choose-layouts", "compose-products", "eliminate-common-subexpressions",
    "eliminate-dead-code", "fold-affine", "fold-affine-before", "fold-constants", "fold-pads", "fuse-groups",
    "fuse-prologues", "fuse-siblings", "hoist-weight-zero-points", "hoist-zero-points", "inline-scalars",
    "join-extremes", "keep-quantised-weights", "move-maps-over-movement", "move-maps-over-reshapes",
    "recognize-activations", "recognize-attention", "recognize-normalization", "recognize-recurrent",
    "recognize-softmax", "round-products", "simplify-movement", "tabulate-extents", "widen-f16",
})  # fmt: skip
"""The passes that see every node."""

TAKES_BATCHES = frozenset({
    "enlarge-windows", "fold-dequantised", "hoist-matrix-zero-points", "integer-products", "integer-softmax",
    "integer-sums", "merge-summed-convolutions", "narrow-integers", "raise-quantise", "requantise", "sink-dequantise",
    "split-groups", "start-sums", "store-integers",
})  # fmt: skip
"""The passes that see nodes of which only extents of first axes vary."""


@dataclass(frozen=True)
class Hidden(Op):
    """An operator that a pass is not to look into."""

    name = ""

    op: Op

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.op.numbers

    @property
    def reads_bits(self) -> bool:  # type: ignore[override]
        return self.op.reads_bits or self.op.elementwise is not None

    @property
    def decides(self) -> bool:
        return self.op.decides

    @property
    def smooth(self) -> tuple[int, ...]:
        return self.op.smooth

    @property
    def divides_by_size(self) -> bool:
        return self.op.divides_by_size

    @property
    def hands_on(self) -> bool:
        return self.op.hands_on

    @property
    def evaluates(self) -> bool:
        return self.op.evaluates

    def turns_inside(self) -> int:
        return self.op.turns_inside()

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        return self.op.infer(*types)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return self.op.evaluate(*arrays)


@contextmanager
def hiding(graph: Graph, name: str) -> Iterator[None]:
    """The graph as a pass of that name is to see it."""
    hidden: dict[int, Hidden] = {}
    for node in graph.nodes if name not in TAKES_EXTENTS else ():
        if node.varies and not (name in TAKES_BATCHES and varies_in_batch(node)):
            node.op = own = Hidden(node.op)
            hidden[id(own)] = own
    try:
        yield
    finally:
        for node in graph.nodes if hidden else ():
            if id(node.op) in hidden:
                node.op = hidden[id(node.op)].op


@contextmanager
def revealed(graph: Graph) -> Iterator[None]:
    """The graph, and those inside of its nodes, as it is: for an analysis that was read for extents that vary."""
    hidden = [(node, node.op) for node, _ in graph.everywhere() if isinstance(node.op, Hidden)]
    for node, own in hidden:
        node.op = own.op
    try:
        yield
    finally:
        for node, own in hidden:
            node.op = own


def varies_in_batch(node: Node) -> bool:
    """Whether no extent of a node but those of first axes, and no number of its operator, depends on the run."""
    tensors = [*node.inputs, *node.results]
    first = {v.shape[0] for v in tensors if v.shape}
    return first.issuperset(node.op.varying) and not varies(e for v in tensors for e in v.shape[1:])
