"""Enlarges the window of a convolution by zeros to that of another one of the same value, where joining them pays."""

from __future__ import annotations

import math

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ops.conv import Conv
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

MACS_PER_CYCLE = 8
"""What convolutions reach on cores with vectors; a scalar core is slower, which speaks against zeros all the more."""

BYTES_PER_CYCLE = 8

LAUNCH_CYCLES = 100
"""What the call of a kernel costs: its loops, and the last tile of each, begin and end once more."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Enlarge a convolution (1x1 into 3x3) for `fuse-siblings` to join it with a sibling, if the multiplications by
    zero cost less than reading their operand twice. Exact for finite operands.

    They rarely do: a 1x1 filter costs eight times as much, which only the call of a kernel for next to no work does.
    """
    r = Rewriter(graph)
    changes = 0
    # The largest window on each tensor, which stays what it is: no convolution of many readers looks at all others.
    widest: dict[Value, int] = {}
    for node in r.nodes():
        small = _plain(r, node)
        if small is None:
            continue
        x = node.inputs[0]
        if x not in widest:
            widest[x] = max(math.prod(p.window) for u in r.users(x) if (p := _plain(r, u)) is not None)
        if math.prod(small.window) == widest[x]:
            continue
        for other in r.users(x):
            big = _plain(r, other)
            if big is not None and math.prod(big.window) > math.prod(small.window):
                changes += _enlarge(r, small, big, remarks)
                break
    r.finish()
    return changes


@dataclass(frozen=True)
class _Plain:
    """A convolution with constant weights that nothing else reads."""

    node: Node
    op: Conv
    weights: Value

    @property
    def window(self) -> tuple[int, ...]:
        return self.weights.shape[2:]


def _plain(r: Rewriter, node: Node) -> _Plain | None:
    if not isinstance(node.op, Conv) or node.op.groups != 1 or node.pre:
        return None
    w = node.operands[1]
    known = w is not None and isinstance(r.graph.constants.get(w), np.ndarray) and r.users(w) == [node]
    plain = all(v.type.layout is None for v in (*node.inputs, *node.results))
    return _Plain(node, node.op, w) if w is not None and known and plain else None


def _enlarge(r: Rewriter, small: _Plain, big: _Plain, remarks: Remarks) -> int:
    what = f"enlarged {small.node.where} to the window of {big.node.where}"
    w, node = small.weights, small.node
    array, window = r.graph.array(w), big.window
    start = window_inside(big.op, window, small.op, small.window)
    times = math.prod(window) / math.prod(small.window)
    reason = start if isinstance(start, str) else _price(node, big.node, times)
    if reason or isinstance(start, str):
        remarks.miss(what, reason)
        return 0
    weights = added(np.zeros((*w.shape[:2], *window)), array, start).astype(array.dtype)
    node.op = big.op
    r.rewire(node, [node.operands[0], r.graph.constant(f"{w.name}.enlarged", weights)])
    remarks.hit(what)
    return 1


def window_inside(big: Conv, window: tuple[int, ...], small: Conv, inner: tuple[int, ...]) -> tuple[int, ...] | str:
    """Where in a window a smaller one of equal results lies, or why it does not."""
    if big.strides != small.strides or big.groups != small.groups:
        return "strides or groups differ"
    start = []
    for axis, (mine, own) in enumerate(zip(window, inner, strict=True)):
        at, rest = divmod(big.pads[axis] - small.pads[axis], big.dilations[axis])
        spread = own > 1 and big.dilations[axis] != small.dilations[axis]
        if rest or spread or at < 0 or at + own > mine:
            return "one window does not lie in the other"
        start.append(at)
    return tuple(start)


def _price(small: Node, big: Node, times: float) -> str:
    """Why the zeros cost more than they save; empty if they pay."""
    if small.result.shape[2:] != big.result.shape[2:]:
        return "one window does not lie in the other"
    x = small.inputs[0]
    read, apart = bound(x.type.nbytes), 2 * bound(small.result.type.nbytes + big.result.type.nbytes)
    saved = LAUNCH_CYCLES + (read - apart) / BYTES_PER_CYCLE
    macs = bound(small.op.macs(small.operand_types(), [small.result.type]))
    cost = macs * (times - 1) / MACS_PER_CYCLE
    if read <= apart:
        return "their results are larger than what they read: they stay apart"
    return "" if cost < saved else f"multiplying by zeros takes {cost:.0f} cycles, reading once saves {saved:.0f}"


@np.errstate(invalid="ignore")  # an infinity less an infinity is no number, as in C
def added(big: Array, small: Array, start: tuple[int, ...]) -> Array:
    """The sum of two windows, in float64."""
    total = big.astype(np.float64)
    place = [slice(None)] * 2 + [slice(s, s + e) for s, e in zip(start, small.shape[2:], strict=True)]
    total[tuple(place)] += small.astype(np.float64)
    return total
