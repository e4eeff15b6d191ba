"""Rules for pools that kernels which have channels in vectors are slow for: those of few channels, and of long lines.

Worked example: the maximum of 9 x 9 pixels around each of a plane of 120 x 160. Kernels for pools have channels in
vectors, of which there is one here. But a window of 9 x 1 takes the maximum of 9 lines, whose 160 pixels are as good
as channels; then, of the plane on its side, one of 9 lines of 120: 18 comparisons for each pixel in place of 81.

    %y = pool(%x) {mode='max', kernel=(9, 9), ..} : f32[1,1,120,160]

    %a = transpose(reshape(%x)) : f32[1,160,120,1]               nothing moves: this is x with its lines as channels
    %b = pool(%a) {mode='max', kernel=(9, 1), ..} : f32[1,160,120,1]
    %c = transpose(%b) : f32[1,120,160,1]
    %d = pool(%c) {mode='max', kernel=(9, 1), ..} : f32[1,120,160,1]
    %y = reshape(%d)

Of a single line that overlaps with itself, windows of 25 are made of shorter ones, each of two half as long:

    %y = pool(%x) {mode='max', kernel=(25,), ..} : f32[1,1,16000]

    %p = pad(%x) : f32[1,1,16024]
    %2 = map(slice(%p), slice(%p)) {expr={max(x0, x1)}}           elements i and i + 1
    ..                                                            of %2 those i and i + 2, then i + 4
    %16 = map(slice(%8), slice(%8)) {expr={max(x0, x1)}}          elements i and i + 8
    %y = map(slice(%16), slice(%16)) {expr={max(x0, x1)}}         elements i and i + 9, of which some count twice

Maxima of 13 x 13 pixels of many channels are those of 1 x 13, and of these those of 13 x 1.

A sum of 25 has those of 16, 8 and 1 elements, one behind the other. Where windows of a line lie side by side, they
are rows of a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import replace

from mccompile.ir import expr as ex
from mccompile.ir.dims import varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.op import Op
from mccompile.ir.types import F32, Shape
from mccompile.ops.map import Map
from mccompile.ops.pad import Pad
from mccompile.ops.pool import Pool
from mccompile.ops.reduce import Reduce
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, not_floats_in_rows
from mccompile.passes.rewrite.rewriter import Rewriter

LEAST_LANES = 4
"""Lanes of a target below which channels are as good as lines."""
MOST_TAPS = 64
"""Taps that kernels of many channels write out."""
STORED_TAPS, MORE = 4, 1.5
"""How many taps it takes to store an element and read it again, and how many more one pool has to have than two."""
PLAIN_TAPS = 10
"""Taps of a mean, of one channel without padding, of which compilers make vectors of the plain loop (gcc 12)."""
PLAIN_PAIR = 2
"""Likewise of a maximum, along a line."""
_SWAP = (0, 2, 1, 3)


def rules(modes: Container[str], lanes: int, exact: Callable[[Node], bool] = lambda node: False) -> tuple[Rule, ...]:
    """Rules for pools of some modes, for a target of so many lanes. What has to be ``exact`` stays as it is."""

    def checked(own: Callable[[Match, int], Fail | None]) -> Callable[[Match], Fail | None]:
        def check(m: Match) -> Fail | None:
            if m.op(Pool).mode not in modes:
                return Fail("")
            refused = _obstacle(m) or own(m, lanes)
            return refused or (Fail("a step depends on how it is rounded") if exact(m.root) else None)

        return check

    pattern = Is(Pool, (Any("x"),), "pool", plain=False)
    return (
        Rule("separated pools", pattern, checked(_check_planes), _by_lines),
        Rule("separated windows", pattern, checked(_check_windows), _by_axes),
        Rule("made rows of windows", pattern, checked(_check_rows), _by_rows),
        Rule("doubled windows", pattern, checked(_check_doubling), _by_doubling),
    )


def _obstacle(m: Match) -> Fail | None:
    """Why a pool stays as it is, whatever its shape."""
    node, op, x = m.root, m.op(Pool), m.values["x"]
    if refused := not_floats_in_rows(node, x):
        return refused
    if _is_plain(op, x.shape, node.result.shape):
        return Fail("compilers make vectors of it as it is")
    if any(v.type.count > 1 and v.shape != node.result.shape for v in node.extras):
        return Fail("an operand of its epilogue is broadcast along some axes")
    return None


def _fills(x: Value, kernel: int, lanes: int) -> bool:
    """Whether a line has as many channels as fill vectors, in a window that a kernel has for these."""
    return 2 * x.shape[1] > lanes and kernel <= MOST_TAPS


def _end(m: Match, op: Op, operand: Value, shape: Shape, suffix: str) -> None:
    """Let the results be those of ``op``, which gives them in another shape, with the epilogue of the root."""
    r, node = m.r, m.root
    extras = [
        r.insert(node, Reshape(shape if v.type.count > 1 else (1,) * len(shape)), [v], f"{v.name}.lines")
        for v in node.extras
    ]
    last = Node(op, [operand], [], extras, {}, dict(node.post), origins=node.origins)
    (found,) = r.insert_node(node, last, [f"{node.result.name}.{suffix}"])
    node.op, node.post = Reshape(node.result.shape), {}
    r.rewire(node, [found], [])


# -- planes ------------------------------------------------------------------------------------------------------
def _works(op: Pool, axis: int) -> bool:
    """Whether a pool does anything along an axis."""
    return op.kernel[axis] > 1 or op.strides[axis] > 1 or op.pads[axis] + op.pads[2 + axis] > 0


def _is_plain(op: Pool, x: Shape, y: Shape) -> bool:
    """Whether small windows of one channel lie within the operand, each of them."""
    most = PLAIN_TAPS if op.mode != "max" else PLAIN_PAIR if len(op.kernel) == 1 else 0
    if varies(x) or x[1] != 1 or any(op.pads) or math.prod(op.kernel) > most:
        return False
    windows = zip(x[2:], y[2:], op.kernel, op.strides, op.dilations, strict=True)
    return all((n - 1) * stride + (taps - 1) * apart < extent for extent, n, taps, stride, apart in windows)


def _check_planes(m: Match, lanes: int) -> Fail | None:
    op, x = m.op(Pool), m.values["x"]
    if len(op.kernel) != 2 or max(op.kernel) == 1:
        return Fail("")
    short = [_works(op, 0) and x.shape[3] < 2 * lanes, _works(op, 1) and m.root.result.shape[2] < lanes]
    return Fail("its channels fill vectors, or its lines do not") if 2 * x.shape[1] > lanes or any(short) else None


def _by_lines(m: Match) -> None:
    r, node, op, x = m.r, m.root, m.op(Pool), m.values["x"]
    name, (n, channels, height, width) = node.result.name, x.shape
    planes, rows, columns = n * channels, *node.result.shape[2:]
    lines = r.insert(node, Reshape((planes, height, width, 1)), [x], f"{name}.lines")
    if not _works(op, 0):
        _end(m, op.down(1), lines, (planes, rows, columns, 1), "across")
        return
    turned = r.insert(node, Transpose(_SWAP), [lines], f"{name}.turned")
    first = r.insert(node, op.down(0), [turned], f"{name}.down")
    sideways = r.insert(node, Transpose(_SWAP), [first], f"{name}.sideways")
    _end(m, op.down(1), sideways, (planes, rows, columns, 1), "across")


# -- large windows of many channels --------------------------------------------------------------------------------
def _check_windows(m: Match, lanes: int) -> Fail | None:
    op, x, y = m.op(Pool), m.values["x"], m.root.result
    if op.mode != "max" or len(op.kernel) != 2 or min(op.kernel) == 1 or 2 * x.shape[1] <= lanes:
        return Fail("")
    height, width = op.kernel
    apart = width * x.shape[2] / max(y.shape[2], 1) + height
    return None if height * width > MORE * (apart + STORED_TAPS) else Fail("its windows are small")


def _by_axes(m: Match) -> None:
    """The maxima of rows, then of these those of columns."""
    op = m.op(Pool)
    rows = m.r.insert(m.root, op.alone(1), [m.values["x"]], f"{m.root.result.name}.rows")
    m.root.op = op.alone(0)
    m.r.rewire(m.root, [rows], m.root.extras)


# -- lines -------------------------------------------------------------------------------------------------------
def _check_rows(m: Match, lanes: int) -> Fail | None:
    op, x = m.op(Pool), m.values["x"]
    kernel = op.kernel[0]
    if len(op.kernel) > 1 or op.strides != (kernel,) or op.dilations != (1,) or any(op.pads) or kernel < lanes:
        return Fail("")
    if m.root.result.shape[2] * kernel > x.shape[2]:
        return Fail("its last window leaves the line")
    return Fail("its channels fill vectors") if _fills(x, kernel, lanes) else None


def _by_rows(m: Match) -> None:
    """Windows that lie side by side."""
    r, node, op, x = m.r, m.root, m.op(Pool), m.values["x"]
    shape, kernel, name = node.result.shape, op.kernel[0], node.result.name
    covered = shape[2] * kernel
    if covered < x.shape[2]:
        x = r.insert(node, Slice((0, 0, 0), (1, 1, 1), (*shape[:2], covered)), [x], f"{name}.covered")
    rows = r.insert(node, Reshape((*shape, kernel)), [x], f"{name}.windows")
    if op.mode == "average":
        mean = ex.apply("mul", ex.acc(F32), ex.num(1 / kernel))
        node.post = {0: ex.replaced(node.post.get(0, ex.acc(F32)), ex.acc(F32), mean)}
    _end(m, Reduce("max" if op.mode == "max" else "sum", (3,)), rows, (*shape, 1), "rows")


def _check_doubling(m: Match, lanes: int) -> Fail | None:
    op, x = m.op(Pool), m.values["x"]
    if len(op.kernel) > 1 or op.kernel[0] == 1 or op.strides[0] > op.kernel[0]:
        return Fail("")
    if _fills(x, op.kernel[0], lanes) or x.shape[2] < 2 * lanes:
        return Fail("its channels fill vectors, or its lines do not")
    return None


def _by_doubling(m: Match) -> None:
    """Windows that overlap."""
    r, node, op = m.r, m.root, m.op(Pool)
    name, shape, kernel, apart = node.result.name, node.result.shape, op.kernel[0], op.dilations[0]
    combine = "max" if op.mode == "max" else "add"
    x = _padded(m)
    length = x.shape[2]
    pieces: list[tuple[Value, int]] = []  # parts of a window, and where they begin
    begin = 0
    for width in (2**i for i in range(kernel.bit_length())):
        if kernel & width and op.mode != "max":
            pieces.append((x, begin))
            begin += width * apart
        if 2 * width > kernel:
            if op.mode == "max":  # an element that two parts have counts once
                pieces = [(x, 0)] + [(x, (kernel - width) * apart)] * (kernel > width)
            break
        length -= width * apart
        halves = [
            _slice(r, node, x, start, 1, length, f"{name}.{which}{width}")
            for which, start in (("first", 0), ("second", width * apart))
        ]
        x = r.insert(node, Map(ex.apply(combine, ex.var(0, F32), ex.var(1, F32))), halves, f"{name}.of{2 * width}")
    parts = [_slice(r, node, v, start, op.strides[0], shape[2], f"{name}.part{start}") for v, start in pieces]
    value: ex.Expr = ex.var(0, F32)
    for i in range(1, len(parts)):
        value = ex.apply(combine, value, ex.var(i, F32))
    if op.mode == "average":
        value, parts = _scaled(m, value, parts)

    def moved(v: ex.Var) -> ex.Expr:
        return value if v.index == ex.ACC else replace(v, index=v.index + len(parts))

    node.op, node.post = Map(ex.substitute(node.post.get(0, ex.acc(F32)), moved)), {}
    r.rewire(node, [*parts, *node.extras], [])


def _padded(m: Match) -> Value:
    """The operand, as long as all windows together."""
    op, x, name = m.op(Pool), m.values["x"], m.root.result.name
    reach = (m.root.result.shape[2] - 1) * op.strides[0] + (op.kernel[0] - 1) * op.dilations[0] + 1
    behind = max(reach - x.shape[2] - op.pads[0], 0)
    if not op.pads[0] and not behind:
        return x
    value = -math.inf if op.mode == "max" else 0
    return m.r.insert(m.root, Pad((0, 0, op.pads[0], 0, 0, behind), value=value), [x], f"{name}.padded")


def _slice(r: Rewriter, node: Node, x: Value, start: int, step: int, count: int, name: str) -> Value:
    """``count`` elements of a line, ``step`` apart."""
    shape = (*x.shape[:2], count)
    return x if shape == x.shape else r.insert(node, Slice((0, 0, start), (1, 1, step), shape), [x], name)


def _scaled(m: Match, total: ex.Expr, parts: list[Value]) -> tuple[ex.Expr, list[Value]]:
    """The mean, of a sum, and what it reads: windows at the ends may count fewer elements."""
    found = m.op(Pool).as_sum([m.values["x"].type])
    assert found is not None
    factors = found[1]
    if not factors.shape:
        return ex.apply("mul", total, ex.num(factors.item())), parts
    scale = m.r.graph.constant(f"{m.root.result.name}.scale", factors)
    return ex.apply("mul", total, ex.var(len(parts), F32)), [*parts, scale]
