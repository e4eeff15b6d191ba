"""Decision trees as ONNX has them, brought into the table of `tree_ensemble`.

Every comparison becomes "not above the split": of x < v the split is the float below v; of x >= v and x > v the
children change places. x == v, and x in a set, become a key that is 1 or 0, and the split 0. A feature that is
missing (NaN) is above all splits, or below them: the nodes that want that read its other key.

    node 0: x0 <= 1.5 ? 1 : 2        [key(1.5), distance 1, slot 0]
    node 1: leaf 10.0                [bits(10.0), distance 0, slot of leaves]
    node 2: leaf 20.0                [bits(20.0), distance 0, slot of leaves]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.limits import require
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, DType
from mccompile.ops.tree_ensemble import WORDS, highest, lowest, sortable

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
"""Comparisons, as ONNX numbers them."""
COMPARISONS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

Weights = tuple[tuple[int, float], ...]
"""What a leaf gives: targets and numbers."""


@dataclass(frozen=True)
class Split:
    """A node that compares ``feature`` with ``values``, of which all but MEMBER have one; ``below`` and ``above`` are
    the children where that holds and where not. ``missing_holds``: it holds for NaN."""

    feature: int
    mode: int
    values: tuple[float, ...]
    holds: int
    fails: int
    missing_holds: bool


@dataclass(frozen=True)
class Forest:
    """``nodes`` are splits, or leaves; ``roots`` are numbers of these."""

    nodes: Sequence[Split | Weights]
    roots: Sequence[int]


@dataclass
class Packed:
    """The tables of `tree_ensemble`; ``rows`` are the weights where leaves hold more than one number."""

    bits: int
    slots: int
    missing_low: bool
    nodes: Array
    trees: Array
    groups: Array
    rows: Array | None
    tests: Array | None


class ForestError(Exception):
    """Nodes that are no trees, or more than the table takes."""


@dataclass
class _Packer:
    """Numbers the keys of a forest, of which ``kind`` is the type; ``low``: both keys of features are needed."""

    forest: Forest
    kind: DType
    features: int
    low: bool = False
    sets: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)

    def survey(self) -> None:
        """Number the keys that comparisons ask for."""
        for node in self.forest.nodes:
            if isinstance(node, Split):
                if not 0 <= node.feature < self.features:
                    raise ForestError(f"feature {node.feature} is outside of rows of {self.features}")
                if node.mode in (EQ, NEQ, MEMBER):
                    self.sets.setdefault(self._set(node), len(self.sets))
                elif self._compared(node)[2]:
                    self.low = True

    def _set(self, node: Split) -> tuple[int, tuple[int, ...]]:
        """A feature and the keys that count; that of NaN if it counts, too."""
        beyond = highest(WORDS[self.kind])
        keys = [k for k in self._keys(node.values) if k != beyond]
        missing = [beyond] if node.missing_holds and node.mode != NEQ else []  # NaN is not equal to anything
        return node.feature, tuple(sorted({*keys, *missing}))

    def _keys(self, values: Sequence[float]) -> list[int]:
        return [int(k) for k in sortable(np.array(values, self.kind.numpy))]

    def _compared(self, node: Split) -> tuple[int, bool, bool]:
        """The split; whether the children change places; whether NaN goes where what is not above the split goes."""
        (key,) = self._keys(node.values[:1])
        if key == highest(WORDS[self.kind]):  # nothing compares with NaN
            return lowest(WORDS[self.kind]), False, node.missing_holds
        swapped = node.mode in (GTE, GT)
        strict = node.mode in (LT, GTE)
        return key - strict, swapped, node.missing_holds != swapped

    @property
    def plain(self) -> int:
        """Keys of features alone."""
        return self.features * (1 + self.low)

    @property
    def slots(self) -> int:
        return self.plain + len(self.sets) + 1

    def words(self, node: Split) -> tuple[int, int, tuple[int, int]]:
        """Split, slot, and the children not above and above it."""
        if node.mode in (EQ, NEQ, MEMBER):
            slot = self.plain + self.sets[self._set(node)]
            children = (node.fails, node.holds) if node.mode != NEQ else (node.holds, node.fails)
            return 0, slot, children
        split, swapped, low = self._compared(node)
        children = (node.fails, node.holds) if swapped else (node.holds, node.fails)
        return split, node.feature + self.features * low, children

    def tests(self) -> Array | None:
        rows = [(self.plain + i, feature, key) for (feature, keys), i in self.sets.items() for key in keys]
        return np.array(rows, WORDS[self.kind].numpy) if rows else None

    def weight(self, given: float) -> int:
        """The bits of a number."""
        return int(np.array(given, self.kind.numpy).view(WORDS[self.kind].numpy))


def _together(weights: list[float], none: float) -> float:
    """What a leaf gives to a target several times, where ``none`` stands for nothing: 0 of a sum, infinity of the
    least, -infinity of the largest."""
    return min(weights) if none > 0 else max(weights) if none < 0 else sum(weights)


def pack(forest: Forest, kind: DType, features: int, targets: int, none: float = 0.0) -> Packed:
    """The tables for rows of ``features`` of a type. ``none`` is what a target gets from a leaf without it.

    Raises ForestError for nodes that are no trees.
    """
    packer = _Packer(forest, kind, features)
    packer.survey()
    orders = [_by_breadth(forest, packer, root) for root in forest.roots]
    owners = _owners(forest, orders, none)
    numbered = sorted(range(len(orders)), key=lambda t: (owners[t] if owners else 0, orders[t][1], t))
    rows: dict[Weights, int] = {}
    words: list[tuple[int, int]] = []
    trees: list[tuple[int, int]] = []
    for t in numbered:
        order, depth = orders[t]
        trees.append((len(words), depth))
        words += _tree(forest, packer, order, None if owners else (rows, targets))
    require("folded-bytes", kind.nbytes * max(len(rows), 2) * targets, "the table of what leaves give to targets")
    counts = np.bincount(owners if owners else [], minlength=targets)
    table = np.full((len(rows), targets), none, kind.numpy)
    for leaf, row in rows.items():
        for target in {target for target, _ in leaf}:
            table[row, target] = _together([weight for t, weight in leaf if t == target], none)
    nodes = np.array(words, np.int64)
    if WORDS[kind] == I32:
        nodes = nodes.astype(np.uint32).view(np.int32)
    return Packed(
        _bits(packer), packer.slots, packer.low, nodes, np.array(trees, np.int32),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), None if owners else table.reshape(-1),
        packer.tests(),
    )  # fmt: skip


def _bits(packer: _Packer) -> int:
    """Bits that number the keys."""
    return max((packer.slots - 1).bit_length(), 1)


_MOST = 16
"""How often as many nodes a forest may have where trees share parts, as tests of categories one behind the other do:
each way to a part gets its own."""


def _by_breadth(forest: Forest, packer: _Packer, root: int) -> tuple[list[tuple[int, int]], int]:
    """The nodes of a tree, children side by side, each with the place of its first child; and the depth."""
    order, places, depth = deque([(root, 0)]), list[tuple[int, int]](), 0
    count, nodes = 1, len(forest.nodes)
    while order:
        number, level = order.popleft()
        node = forest.nodes[number]
        depth = max(depth, level)
        if not isinstance(node, Split):
            places.append((number, 0))
            continue
        places.append((number, count))
        for child in packer.words(node)[2]:
            if not 0 <= child < nodes or level >= nodes or count > _MOST * nodes:
                raise ForestError(f"node {child} is reached from itself or too often, or is none")
            order.append((child, level + 1))
        count += 2
    return places, depth


def _owners(forest: Forest, orders: Sequence[tuple[list[tuple[int, int]], int]], none: float) -> list[int] | None:
    """The target of each tree, if each has one alone, to which each of its leaves gives something."""
    owners = []
    for order, _ in orders:
        leaves = [forest.nodes[number] for number, _ in order if not isinstance(forest.nodes[number], Split)]
        found = {target for leaf in leaves if isinstance(leaf, tuple) for target, _ in leaf}
        if len(found) > 1 or any(isinstance(leaf, tuple) and len(leaf) > 1 for leaf in leaves):
            return None
        if none and any(not leaf for leaf in leaves):
            return None
        owners.append(found.pop() if found else 0)
    return owners


def _tree(
    forest: Forest, packer: _Packer, order: Sequence[tuple[int, int]], dense: tuple[dict[Weights, int], int] | None
) -> list[tuple[int, int]]:
    """The words of a tree's nodes. ``dense`` are the rows of leaves so far, and how long these are."""
    bits, words = _bits(packer), []
    for place, (number, child) in enumerate(order):
        node = forest.nodes[number]
        if isinstance(node, Split):
            split, slot, _ = packer.words(node)
            if child - place >= 2 ** (32 - bits):
                raise ForestError(f"a tree of {len(order)} nodes on {packer.slots} features is too large")
            words.append((split, ((child - place) << bits) | slot))
        elif dense is None:
            words.append((packer.weight(node[0][1] if node else 0.0), packer.slots - 1))
        else:
            rows, width = dense
            words.append((rows.setdefault(node, len(rows)) * width, packer.slots - 1))
    return words
