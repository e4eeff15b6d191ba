"""Convolutions and products of bytes: vectors over output channels, words of 32 bits of a pixel's channels.

Worked example: a window of 3 by 3 over 64 channels. The three taps of a line lie one behind the other in the operand,
192 bytes, which are 48 words of 4. A tile of 7 pixels by 2 vectors takes 3 * 48 steps; in each, two vectors of
weights and a word of each pixel become 14 vectors of sums.

Where bytes cannot be read as they lie (padding, channels far apart, runs that are no whole words, an arithmetic of
pairs) lines of the operand are staged: copied to scratch, a chunk of them at a time, with the zero point around them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TypedDict

from mccompile.ir.dims import varies
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import I32, DType, row_major
from mccompile.ir.views import Buffer, View
from mccompile.kernels.conv.integer_tiles import (
    Chosen,
    IntegerTile,
    Problem,
    best_integer_tile,
    one_run,
    words_twice,
)
from mccompile.kernels.integers import is_byte, lowest, no_integers, weights_of, zero_points
from mccompile.kernels.matmul.packed import batched, swapped
from mccompile.kernels.model.arithmetic import (
    MADDUBS,
    Arithmetic,
    PackedWords,
    arithmetics_of,
    holds,
    narrow_arithmetic,
)
from mccompile.kernels.model.parts import Turns, axes, by_weights
from mccompile.kernels.model.prefetch import results_early, weights_ahead
from mccompile.kernels.model.tiles import Tile, merge
from mccompile.kernels.model.woven import WovenRow, weaves
from mccompile.kernels.variant import (
    Builder,
    Offer,
    Variant,
    computed,
    lines_broken,
    neighbours,
    operand_pair,
    varies_in_batch,
)
from mccompile.kernels.views.channels import is_channels_last
from mccompile.kernels.views.planes import POINT, PlaneWindow, pair, plane_last, plane_window
from mccompile.ops.conv import Conv
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target

STAGED_BYTES = 16
"""Bytes of the operand that a cycle stages."""
REUSED = 28
"""Pixels from which on weights may come from the second cache each time."""
FARTHER = 1.05
"""Times as long a tile takes where what it reads and writes comes from the second cache (Zen 3, few channels)."""
MOST_TWICE = 0.2
"""Part of the words of a sum that may be read twice: PMADDUBSW takes 0.8 times as long as PMADDWD (Zen 3)."""
UNSTAGED_TWICE = 3.0
"""What may be more of these, by the number of columns, where the operand is not staged then."""


def supported(node: Node, own: Arithmetic, constants: Container[Value]) -> str:
    """Why an arithmetic is none for a product of bytes, whatever its weights are; empty if it is one."""
    if reason := computed(node, constants, 1) or no_integers(node):
        return reason
    if node.own_types()[0].dtype != I32:
        return "its sums are wider than 32 bits"
    x, _ = operand_pair(node)
    if not is_byte(zero_points(node)[0], x.dtype):
        return "its zero point is no byte"
    return "" if _admits(node, own) else "weights less their zero point do not fit"


def _admits(node: Node, own: Arithmetic) -> bool:
    """Whether an arithmetic takes all numbers that weights of a type, less their zero point, can be."""
    low = lowest(operand_pair(node)[1].dtype) - zero_points(node)[1]
    return own.weight_range[0] <= low <= low + 255 <= own.weight_range[1]


def general_arithmetic(target: Target) -> Arithmetic | None:
    """The arithmetic of a target that weights of any kind have: what products are priced by."""
    found = arithmetics_of(target)
    return found[-1] if found else None


def _chosen(node: Node, b: Builder) -> Chosen:
    """The best arithmetic of bytes for the weights of a node."""
    weights, transposed, dilations, window = weights_of(node, b), None, (1, 1), POINT[0]
    if isinstance(node.op, MatMul):
        transposed = node.op.trans_b
    if isinstance(node.op, Conv):
        dilations, window = pair(node.op.dilations), pair(weights.shape[2:])
    one = one_run(window, dilations)
    for own in arithmetics_of(b.target):
        if not _admits(node, own):
            continue
        words = PackedWords(own.name, 1, 1, 0, one_run=one, transposed=transposed)
        columns = words.columns(weights) if own.short else None
        if columns is None or holds(own, columns):
            narrow = narrow_arithmetic(own) if _reads_once(node) else None
            return Chosen(narrow if narrow is not None and _admits(node, narrow) else own)
        if own == MADDUBS and window == POINT[0] and not _reads_once(node):
            twice = words_twice(own, columns, b.target.lanes)
            spared = 0.0 if own.flips(operand_pair(node)[0].dtype) else UNSTAGED_TWICE / len(columns)
            if twice[0] <= (MOST_TWICE + spared) * columns.shape[1]:
                return Chosen(own, twice)
    raise InternalError(f"{node.where}: no arithmetic of {b.target.name} holds its sums")


def _reads_once(node: Node) -> bool:
    """Whether a product has one row: it waits for its weights, the fewer bytes the less."""
    result = node.results[0]
    columns = result.shape[-1 if isinstance(node.op, MatMul) else 1]
    return result.type.count == columns


class _Call(TypedDict):
    """What `Builder.call` is told of a kernel."""

    reads: list[View | None]
    results: list[View]
    params: IntegerTile
    extras: list[View]
    scratch: Buffer | None


FEW_CHUNKS = 4
"""Chunks for each part, from which on it does not matter if one has more."""


class ConvInteger(Variant):
    """Any window over bytes, in one group."""

    ops = ("conv",)
    kernel = "conv.integer"
    params = IntegerTile
    may_share = False

    def takes(self, node: Node) -> bool:
        return varies_in_batch(node)

    def priced(self, node: Node, target: Target, constants: Container[Value]) -> Arithmetic | str:
        """The arithmetic that a product is priced by, whatever its weights are; or why there is none for it."""
        own = general_arithmetic(target)
        if own is None:
            return "the target has no arithmetic of bytes"
        return supported(node, own, constants) or own

    def chosen(self, node: Node, b: Builder) -> Chosen:
        """The best arithmetic for the weights of a node that there is one for."""
        return _chosen(node, b)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op = node.op
        assert isinstance(op, Conv)
        own = self.priced(node, target, constants)
        if isinstance(own, str):
            return own
        x, w = operand_pair(node)
        if op.groups != 1:
            return "it has several groups"
        if len(x.shape) not in (3, 4):
            return "it has more than two spatial axes"
        if not is_channels_last(node.results[0]) or not x.type.linear:
            return "the result is not channels-last"
        staged = _staged(op, x.dtype, x.shape[1], is_channels_last(x), w.shape[2:], own)
        weave = weaves(node, 1, target, constants.__contains__)
        cycles, tile = best_integer_tile(_problem(node), own, own.flips(x.dtype) and not staged, target, weave)
        if staged:
            cycles += x.type.count * own.staged.nbytes / STAGED_BYTES * (1 if is_channels_last(x) else 8)
        return Offer(self.label, cycles, tile)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op = node.op
        x, w = operand_pair(node)
        assert isinstance(op, Conv)
        chosen = self.chosen(node, b)
        result = b.result(0)
        views = [plane_last(b.read(x)), plane_last(result)]
        weave = _weaves(node, 1, b, views[1])
        extras = [plane_last(v) for v in _extras(node, b, result, weave)]
        problem = _problem(node)
        window = plane_window(op, w.shape[2:])
        staged = _staged(op, x.dtype, x.shape[1], neighbours(views[0]), w.shape[2:], chosen.own)
        views = [*views, *extras]
        if problem.kernel == (1, 1) and not any(op.pads) and (not staged or _is_run(views)):
            views = merged(views, problem.strides)
            window = POINT
        b.call(self.kernel, **_parts(node, b, views, window, staged, chosen, weave))

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        """Chunks of lines of the result, or of pixels of its only line, and blocks of columns, whichever read more.
        What is packed when it runs, each part packs for itself."""
        p, y = call.params, call.results[0]
        assert isinstance(p, IntegerTile)
        lines = [Turns.tiles("first", p.chunks(y.shape[1]))]
        if p.tall == 1:
            lines.append(Turns.tiles("column", p.spans(y.shape[2])))
        columns = Turns.tiles("n", p.tiles_n(y.shape[3]))
        return [*axes(y, ["b"]), *([columns, *lines] if by_weights(call, target) else [*lines, columns])]

    def apart(self, call: Call, parts: int, target: Target) -> Call:
        """In chunks of fewer lines, or of fewer pixels where there is one line."""
        p, y = call.params, call.results[0]
        assert isinstance(p, IntegerTile)
        if by_weights(call, target):
            return call
        many = FEW_CHUNKS * parts
        if y.shape[1] > 1:
            lines = -(-max(y.shape[1] // many, 1) // p.tall) * p.tall
            return call if p.lines <= lines else replace(call, params=replace(p, lines=lines))
        pixels = -(-max(y.shape[2] // many, 1) // p.rows) * p.rows
        return call if p.span <= pixels else replace(call, params=replace(p, span=pixels))

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        for x, y in zip(before.reads, after.reads, strict=True):  # of any of its variants: who asks knows the kernel
            if x is None or y is None or x.axis_strides() != y.axis_strides():
                return f"{self.kernel} reads its operands as it was given them"
        if getattr(before.params, "weaves", False) and not neighbours(after.results[0]):
            return f"{self.kernel} stores bytes of neighbours together"
        return lines_broken(before, after, reads=False)


class MatMulInteger(ConvInteger):
    """Rows of bytes times a constant matrix: a convolution of 1x1 over pixels.

    Rows whose number is known at run time only are images of one pixel.
    """

    ops = ("matmul",)

    def takes(self, node: Node) -> bool:
        op, (a, w), y = node.op, operand_pair(node), node.results[0]
        assert isinstance(op, MatMul)
        if varies([*w.shape, y.shape[-1]]) or op.trans_a or any(len(v.shape) > len(y.shape) for v in node.extras):
            return varies_in_batch(node)
        # All axes of rows are one, then: what goes beside the result has all of them, or none.
        rows = [(1,) * (len(y.shape) - len(v.shape)) + v.shape[:-1] for v in (a, *node.extras)]
        return all(r == y.shape[:-1] or all(e == 1 for e in r) for r in rows)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op = node.op
        assert isinstance(op, MatMul)
        own = self.priced(node, target, constants)
        if isinstance(own, str):
            return own
        x, w = operand_pair(node)
        if len(node.results[0].shape) > 4:
            return "it has more than two leading axes"
        if math.prod(w.shape[:-2]) != 1:
            return "there are several second operands"
        staged = staged_rows(op, x, own)
        weave = weaves(node, -1, target, constants.__contains__)
        cycles, tile = best_integer_tile(_product(node), own, own.flips(x.dtype) and not staged, target, weave)
        if staged:
            cycles += x.type.count * own.staged.nbytes / STAGED_BYTES
        return Offer(self.label, cycles, tile)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, chosen = node.op, self.chosen(node, b)
        x, _ = operand_pair(node)
        assert isinstance(op, MatMul)
        result = b.result(0)
        left = batched(b.read(x), result)
        if op.trans_a:
            left = swapped(left)
        weave = _weaves(node, -1, b, result)
        views = [left, result, *_extras(node, b, result, weave)]
        views = _rows(views) if varies(result.shape[:-1]) else merged(views, (1, 1))
        staged = staged_rows(op, x, chosen.own)
        b.call(self.kernel, **_parts(node, b, views, POINT, staged, chosen, weave))


def _staged(
    op: Conv, dtype: DType, channels: int, dense: bool, kernel: tuple[int, ...], own: Arithmetic
) -> bool:
    """Whether a convolution has to copy its operand."""
    window = pair(kernel)
    run = window[1] * channels if one_run(window, pair(op.dilations)) else channels
    flips = own.flips(dtype) and window != (1, 1)
    return any(op.pads) or not dense or flips or not own.reads(dtype) or run % own.steps > 0


def staged_rows(op: MatMul, x: Value, own: Arithmetic) -> bool:
    return op.trans_a or not own.reads(x.dtype) or x.shape[-1] % own.steps > 0


def _problem(node: Node) -> Problem:
    op, (x, w) = node.op, operand_pair(node)
    assert isinstance(op, Conv)
    n, m, *spatial = node.results[0].shape
    lines, pixels = pair(spatial)
    kernel, strides = pair(w.shape[2:]), pair(op.strides)
    if kernel == (1, 1) and strides == (1, 1) and not any(op.pads):
        n, lines, pixels = 1, 1, n * lines * pixels
    return Problem(n, lines, pixels, m, x.shape[1], kernel, strides, pair(op.dilations))


def _product(node: Node) -> Problem:
    op, (a, _) = node.op, operand_pair(node)
    assert isinstance(op, MatMul)
    shape = node.results[0].shape
    steps = a.shape[-2 if op.trans_a else -1]
    return Problem(1, 1, math.prod(shape[:-1]), shape[-1], steps, (1, 1), (1, 1), (1, 1))


def _is_run(views: Sequence[View]) -> bool:
    """Whether the pixels of an image [N, H, W, C] lie one behind the other, in all views of it."""
    steps = [(v.shape[2], *v.axis_strides()[1:3]) for v in views]
    return all(down == width * across for width, down, across in steps) and views[0].shape[1:3] == views[1].shape[1:3]


def merged(views: list[View], strides: tuple[int, int]) -> list[View]:
    """Views [..., rows, columns] as [images, lines, pixels, columns], with as few axes of rows as there can be.

    The first view is an operand of which every ``strides``-th pixel is taken. How many images there are may be known
    at run time only: then these stay apart.
    """
    first, result, *extras = views
    if first.rank > 3:
        steps = (1, *strides, 1)
        moved = tuple(s * t for s, t in zip(first.axis_strides(), steps, strict=True)) if strides != (1, 1) else None
        shape = (*result.shape[:-1], first.shape[-1])
        first = View(first.buffer, shape, row_major(4), moved or first.axis_strides(), first.offset)
    apart = 1 if varies(result.shape[:1]) else 0
    views = [first, result, *extras]
    if result.rank == 2 and apart:
        views = [_spread(v, 1, 1) for v in views]
    found = merge(views, range(apart, views[1].rank - 1))
    assert not isinstance(found, str)
    return [_spread(v, apart, 4 - v.rank) for v in found]


def _rows(views: list[View]) -> list[View]:
    """Views [..., columns] as [rows, 1, 1, columns]: how many rows there are is known at run time only. Axes that do
    not lie in a row stay apart, those that vary before all others."""
    found = merge(views, range(views[0].rank - 1))
    assert not isinstance(found, str)
    shape = found[1].shape[:-1]
    order = sorted(range(len(shape)), key=lambda a: not varies((shape[a],)))
    return [_spread(v.along((*order, len(shape))), 1, 4 - v.rank) for v in found]


def _spread(view: View, axis: int, count: int) -> View:
    """A view with ``count`` axes of extent 1 more before an axis."""
    shape, steps = view.shape, view.axis_strides()
    shape = (*shape[:axis], *(1,) * count, *shape[axis:])
    steps = (*steps[:axis], *(0,) * count, *steps[axis:])
    return View(view.buffer, shape, row_major(len(shape)), steps, view.offset)


def _moved(views: Sequence[View]) -> int:
    """Bytes of a pixel that a result and what its epilogue reads take for each column."""
    return sum(v.dtype.nbytes for v in views if v.shape[2] == 1 or v.axis_strides()[2])


def _near(problem: Problem, own: Arithmetic, target: Target) -> bool:
    """Whether weights come from the second cache, as often as they are read."""
    return problem.channels * problem.columns * own.weight.nbytes <= target.machine.l2 // 2


def _room(problem: Problem, own: Arithmetic, moved: int, target: Target) -> int:
    """Pixels that are done for all columns before the next ones: where weights come from the second cache fast
    enough, what is read and written for these stays in the first one."""
    machine, read = target.machine, problem.channels * own.staged.nbytes
    if _near(problem, own, target):
        return machine.l1 // 2 // (read + problem.columns * moved)
    return machine.l2 // 4 // read


def _span(problem: Problem, tile: Tile, own: Arithmetic, moved: int, target: Target) -> int:
    """Pixels of a line that are done for all columns before the next ones."""
    tiles = max(_room(problem, own, moved, target) // tile.rows, -(-REUSED // tile.rows))
    return min(tiles * tile.rows, problem.pixels)


def _cut(views: Sequence[View], own: Arithmetic, target: Target, weave: bool) -> list[View]:
    """Views of one line of pixels as several lines, which are staged one at a time: of those that stay in reach of
    the second cache the ones of the fewest tiles, where `FARTHER` is what a tile takes longer outside of the first.

    196 pixels in tiles of 6 are 34 tiles as lines of 98, and 36 as lines of 49.
    """
    _, _, pixels, columns = views[1].shape
    if views[1].shape[:2] != (1, 1):
        return list(views)
    problem = Problem(1, 1, pixels, columns, views[0].shape[3], *POINT[:3])
    _, tile = best_integer_tile(problem, own, False, target, weave)
    room, most = _room(problem, own, _moved(views[1:]), target), target.machine.l2 // 2
    wide = [w for w in range(min(REUSED, pixels), pixels + 1) if pixels % w == 0]
    fitting = [w for w in wide if w * problem.channels * own.staged.nbytes <= most]
    again = 1 if _near(problem, own, target) else -1  # weights that are far are read once for each line

    def cost(w: int) -> tuple[float, int]:
        return pixels // w * -(-w // tile.rows) * (1.0 if w <= room else FARTHER), again * w

    width = min(fitting or wide[:1], key=cost)
    cut = []
    for v in views:
        _, _, across, channel = v.axis_strides()
        shape = (1, pixels // width, width, v.shape[3])
        cut.append(View(v.buffer, shape, row_major(4), (0, width * across, across, channel), v.offset))
    return cut


def _weaves(node: Node, axis: int, b: Builder, result: View) -> bool:
    return neighbours(result) and weaves(node, axis, b.target, b.is_constant)


def _extras(node: Node, b: Builder, result: View, weave: bool) -> list[View]:
    """What the epilogue reads; of what is to be woven only the shape."""
    as_is = WovenRow(1, b.target.lanes)
    views = [b.seen(v, as_is) if weave and b.is_constant(v) else b.read(v) for v in node.extras]
    return [v.broadcast(result.shape) for v in views]


def _woven(b: Builder, value: Value, view: View, tile: Tile) -> View:
    """A view of an extra operand, with its elements in the order of a tile's columns."""
    if not b.is_constant(value):
        return view
    return replace(view, buffer=b.packed(value, WovenRow(tile.width, tile.lanes)).buffer)


def _parts(
    node: Node,
    b: Builder,
    views: list[View],
    window: PlaneWindow,
    staged: bool,
    chosen: Chosen,
    weave: bool,
) -> _Call:
    """The parts of a call for views [N, H, W, C] of the operand and [N, OH, OW, M] of result and extras."""
    kernel, strides, dilations, pads = window
    weights, moved, own = node.operands[1], _moved(views[1:]), chosen.own
    assert weights is not None
    alike = views[0].shape[:3] == views[1].shape[:3]  # or padding lies behind the operand
    cut = window == POINT and alike and (staged or own.form)
    if cut:
        views = _cut(views, own, b.target, weave)
    source, result, *extras = views
    n, lines, pixels, m = result.shape
    channels = source.shape[-1]
    problem = Problem(n, lines, pixels, m, channels, kernel, strides, dilations)
    flips = own.flips(source.dtype)
    padding, zero = (0, 0) if own.form else zero_points(node)
    _, tile = best_integer_tile(problem, own, flips and not staged, b.target, weave, chosen.twice)
    twice = chosen.twice[tile.vectors - 1] if chosen.twice else 0
    line_bytes = source.shape[2] * channels * own.staged.nbytes
    room = max(b.target.machine.l2 // 4, 1)
    whole = staged or lines > 1
    chunk = min(max(room // (line_bytes * strides[0] + pixels * m * moved), 1), lines) if whole else lines
    if cut:
        chunk = min(max(_room(problem, own, moved, b.target), REUSED - 1 + pixels) // pixels, lines)
    span = pixels if whole else _span(problem, tile, own, moved, b.target)
    streamed = 8 * own.weight.nbytes if own.form and n * lines * pixels == 1 else 0
    ahead = weights_ahead(weights.type.nbytes // 4, b.target.machine, streamed)
    params = IntegerTile(
        tile.rows, tile.vectors, tile.lanes, own.name, kernel, strides, dilations, pads, padding, staged, chunk, span,
        tall=max(tile.rows // pixels, 1), ahead=ahead, weaves=weave, twice=twice,
    )  # fmt: skip
    # Results alone are stored without a wait: asking for their lines took 5 % of mobilenet_v1 (Zen 4).
    if own.form and tile.rows > 1 and any(any(v.axis_strides()[1:3]) for v in extras):
        early = results_early(own.steps * params.steps(channels), views, b.target.machine)
        params = replace(params, early_results=early)
    if weave:
        extras = [_woven(b, value, view, tile) for value, view in zip(node.extras, extras, strict=True)]
    packing = PackedWords(
        own.name, params.width, params.lanes, padding + own.offset(source.dtype), zero, params.one_run,
        node.op.trans_b if isinstance(node.op, MatMul) else None, weave, twice,
    )  # fmt: skip
    packed = b.packed(weights, packing)
    scratch = None
    if staged:
        count = params.staged_lines(chunk) * params.staged_width(pixels) * channels
        scratch = b.scratch(count + own.steps, own.staged)
    return {
        "reads": [source, packed], "results": [result], "params": params, "extras": extras, "scratch": scratch,
    }  # fmt: skip


VARIANTS = (ConvInteger(), MatMulInteger())
