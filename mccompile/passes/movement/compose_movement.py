"""Makes one copy of a chain of copies: slices, transposes, windows and repeats of one tensor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.structure import Nest
from mccompile.ir.types import Shape
from mccompile.ops.concat import Concat
from mccompile.ops.reshape import Reshape
from mccompile.ops.take import Take
from mccompile.passes.analysis.movement import reorders
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter

Factors = tuple[tuple[int, int], ...]
"""(extent, stride) of the loops that run through one axis, outermost first; none for an axis of extent 1."""


@dataclass(frozen=True)
class Strided:
    """Elements of ``base``, seen flat from ``offset`` on, with loops for each axis. ``copies``: nodes that move."""

    base: Value
    axes: tuple[Factors, ...]
    offset: int = 0
    copies: int = 0

    @property
    def loops(self) -> Factors:
        """The loops of all axes, those joined that run on in one stride."""
        joined: list[tuple[int, int]] = []
        for extent, stride in itertools.chain(*self.axes):
            if joined and joined[-1][1] == stride * extent:
                joined[-1] = (joined[-1][0] * extent, stride)
            else:
                joined.append((extent, stride))
        return tuple(joined)

    @property
    def is_whole(self) -> bool:
        """True for all elements of the base in their order."""
        count = self.base.type.count
        return self.loops == (((count, 1),) if count > 1 else ())

    def walked(self, move: Nest) -> Strided | None:
        """What a nest with the loops as its destination reads; None if it cuts an axis of several loops."""
        axes: list[Factors] = [()] * len(move.loops)
        offset, steps = self.offset, [0] * len(move.loops)
        for m, factors in zip(move.reads[0] or (), self.axes, strict=True):
            if m is None:
                return None
            used = [k for k, c in enumerate(m.coefs) if c and move.loops[k] > 1]
            if len(factors) == 1:
                offset += m.const * factors[0][1]
                for k in used:
                    steps[k] += m.coefs[k] * factors[0][1]
            elif len(factors) > 1:
                extent = math.prod(e for e, _ in factors)
                if len(used) != 1 or m.const or m.coefs[used[0]] != 1 or move.loops[used[0]] != extent:
                    return None
                if axes[used[0]]:  # of a diagonal, which has the loops of two axes
                    return None
                axes[used[0]] = factors
        for k, (extent, step) in enumerate(zip(move.loops, steps, strict=True)):
            if axes[k] and step:
                return None
            if extent > 1 and not axes[k]:
                axes[k] = ((extent, step),)
        return Strided(self.base, tuple(axes), offset, self.copies + 1)

    def reshaped(self, shape: Shape) -> Strided | None:
        """The same elements in row-major order under another shape; None if no loops give that."""
        rest = list(self.loops)
        axes: list[Factors] = []
        for wanted in reversed(shape):
            factors: list[tuple[int, int]] = []
            while wanted > 1:
                extent, stride = rest.pop()
                part = math.gcd(extent, wanted)
                if part not in (extent, wanted):
                    return None
                factors.insert(0, (part, stride))
                wanted //= part
                if extent > part:
                    rest.append((extent // part, stride * part))
            axes.insert(0, tuple(factors))
        return Strided(self.base, tuple(axes), self.offset, self.copies)


def whole(value: Value) -> Strided:
    """A value as itself."""
    strides = [math.prod(value.shape[a + 1 :]) for a in range(len(value.shape))]
    axes = (((e, s),) if e > 1 else () for e, s in zip(value.shape, strides, strict=True))
    return Strided(value, tuple(axes))


def run(graph: Graph, remarks: Remarks) -> int:
    """Compose chains of slices, transposes, windows and reshapes into one copy, or none. Exact.

    A chain is composed where nothing else needs what lies between, so that no element is copied twice.
    """
    composer = _Composer(Rewriter(graph), remarks)
    changes = 0
    for node in composer.r.nodes():
        if len(node.results) == 1 and is_plain(node) and node.result.type.count != 0:
            op = node.op
            changes += composer.concat(node, op.axis) if isinstance(op, Concat) else composer.movement(node)
    composer.r.finish()
    return changes


def _move(node: Node, value: Value) -> Nest | None:
    """The only nest that makes a result, if it reads one operand and fills the result loop by loop."""
    if not reorders(node.op) or not node.op.selects or len(node.operands) != 1:
        return None
    (operand,) = node.operands
    if operand is None or not is_plain(node):
        return None
    own = [m for m in node.op.structure((operand.type,)) if m.result == node.results.index(value)]
    straight = len(own) == 1 and own[0].loops == value.shape and all(
        m.const == 0 and all(c == (k == a) for k, c in enumerate(m.coefs)) for a, m in enumerate(own[0].writes)
    )  # fmt: skip
    return own[0] if straight else None


def _regular(offsets: Sequence[int]) -> Factors | None:
    """One or two nested loops that run through the offsets; None if there are no such."""
    steps = [b - a for a, b in itertools.pairwise(offsets)]
    inner = next((i for i, s in enumerate(steps) if s != steps[0]), len(steps)) + 1
    if inner == len(offsets):
        return ((inner, steps[0]),)
    if len(offsets) % inner:
        return None
    heads = offsets[::inner]
    outer = heads[1] - heads[0]
    wanted = [i * outer + j * steps[0] + offsets[0] for i in range(len(heads)) for j in range(inner)]
    return ((len(heads), outer), (inner, steps[0])) if wanted == list(offsets) else None


class _Composer:
    """The pass over one graph; it remembers which values need not be stored."""

    def __init__(self, r: Rewriter, remarks: Remarks) -> None:
        self.r = r
        self.remarks = remarks
        self._dissolved: dict[Value, bool] = {}
        self._plain: dict[Node, bool] = {}

    def strided(self, value: Value) -> Strided:
        """A value as elements of what it was copied from, as far back as loops tell and nothing between is needed."""
        node = self.r.producer(value)
        operand = None if node is None or not node.operands else node.operands[0]
        if node is None or operand is None:
            return whole(value)
        if node.op.keeps_order and is_plain(node):
            return self.source(operand).reshaped(value.shape) or whole(value)
        move = _move(node, value)
        return whole(value) if move is None else self.source(operand).walked(move) or whole(value)

    def source(self, value: Value) -> Strided:
        """What a reader of ``value`` may read instead."""
        return self.strided(value) if self._dissolves(value) else whole(value)

    def _dissolves(self, value: Value) -> bool:
        """True if every reader of a value can read what the value was copied from."""
        if value not in self._dissolved:
            users = self.r.users(value)
            self._dissolved[value] = not self.r.is_output(value) and all(map(self._reads_anything, users))
        return self._dissolved[value]

    def _reads_anything(self, user: Node) -> bool:
        # Asked once: a thousand parts have one concat as their reader, which has a thousand operands to look at.
        if user not in self._plain:
            self._plain[user] = is_plain(user)
        if not self._plain[user]:
            return False
        if user.op.keeps_order:
            return self._dissolves(user.result)
        return isinstance(user.op, Concat) or all(_move(user, v) is not None for v in user.results)

    def movement(self, node: Node) -> int:
        """A movement that reads movement, or that turns out to keep the order of all elements."""
        if _move(node, node.result) is None:
            return 0
        view = self.strided(node.result)
        if view.base is node.result or (view.copies < 2 and not view.is_whole):
            return 0
        what = f"composed {view.copies} copies: {node.where}"
        self._take(node, view)
        self.remarks.hit(what)
        return 1

    def _take(self, node: Node, view: Strided) -> None:
        """Let ``node`` make its result of the elements of a view."""
        source = view.base
        if view.is_whole:
            node.op = Reshape(node.result.shape)
            self.r.rewire(node, [source])
            return
        if len(source.shape) != 1:
            source = self.r.insert(node, Reshape((source.type.count,)), [source], f"{source.name}.flat")
        single = all(len(factors) <= 1 for factors in view.axes)
        loops = [f[0] if f else (1, 0) for f in view.axes] if single else list(itertools.chain(*view.axes))
        op = Take(tuple(e for e, _ in loops), ((view.offset, *(s for _, s in loops)),))
        if single:
            node.op = op
            self.r.rewire(node, [source])
            return
        taken = self.r.insert(node, op, [source], f"{node.result.name}.taken")
        node.op = Reshape(node.result.shape)
        self.r.rewire(node, [taken])

    def concat(self, node: Node, axis: int) -> int:
        """Parts of one tensor at regular distances, one after the other: one copy with loops over the parts."""
        parts = [self.source(v) for v in node.operands if v is not None]
        first = parts[0]
        if len(parts) < 2 or any(p.base is not first.base or p.copies == 0 for p in parts):
            return 0
        what = f"composed {sum(p.copies for p in parts)} copies: {node.where}"
        loops = _regular([p.offset for p in parts])
        if any(p.axes != first.axes for p in parts) or loops is None:
            self.remarks.miss(what, "its parts are not at regular distances")
            return 0
        axes = (*first.axes[:axis], (*loops, *first.axes[axis]), *first.axes[axis + 1 :])
        self._take(node, replace(first, axes=axes))
        self.remarks.hit(what)
        return 1
