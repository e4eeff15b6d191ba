"""How channels-last convolutions are cut: strips of tiles, what they leave out, chunks, packed weights, choices."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import Options, import_graph, place_program
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32, TensorType
from mccompile.ir.views import Buffer, whole
from mccompile.kernels.conv.channels import PackedTaps
from mccompile.kernels.conv.pixel_tiles import PixelTile, best_pixel_tile
from mccompile.kernels.matmul.packed import in_chunks, in_depth
from mccompile.kernels.model.tiles import Tile, best_tile
from mccompile.ops.conv import Conv
from mccompile.targets.target import resolve
from tests.kernels.cases import Net

V3, V4 = resolve("x86-64-v3"), resolve("x86-64-v4")
WINDOWS = [
    PixelTile(rows, 1, 8, 1, (3, kernel), (2, stride), (1, dilation), (1, pad))
    for rows, kernel, stride, dilation, pad in itertools.product((1, 4, 7), (1, 3, 11), (1, 2), (1, 3), (0, 2))
]


@pytest.mark.parametrize("extent", [3, 14, 23])
@pytest.mark.parametrize("tile", WINDOWS)
def test_strips_serve_each_pixel_by_the_taps_inside(tile: PixelTile, extent: int) -> None:
    reach = (tile.kernel[1] - 1) * tile.dilations[1]
    out = (extent + 2 * tile.pads[1] - reach - 1) // tile.strides[1] + 1
    want = {
        (pixel, tap)
        for pixel in range(max(out, 0))
        for tap in range(tile.kernel[1])
        if 0 <= pixel * tile.strides[1] + tap * tile.dilations[1] - tile.pads[1] < extent
    }
    served = set()
    for strip in tile.strips(out, extent) if out > 0 else ():
        for start in range(strip.start, strip.stop, strip.size):
            mine = {(start + i, tap) for tap, pixels in enumerate(strip.taps) for i in pixels}
            served |= mine & want if strip.ragged else mine  # ragged ones test their taps when they run
    assert served == want


def test_strips_inside_are_one_run() -> None:
    """Only the ends of a line have code of their own."""
    tile = PixelTile(14, 2, 16, 1, (3, 3), (1, 1), (1, 1), (1, 1))
    assert [(s.start, s.stop, s.inside) for s in tile.strips(56, 56)] == [
        (0, 14, False),
        (14, 42, True),
        (42, 56, False),
    ]
    assert tile.lines(56, 56) == 3 * 56 - 2


def test_ends_of_wide_windows() -> None:
    """Two tiles that few runs of taps serve have code of their own (11 taps at stride 4, pad 2), others do not (9
    taps, pad 4), nor does any where there are more (15 and 31 taps); they are of a size of which there are few
    kinds."""

    def strips(columns: int, stride: int, pad: int, out: int, extent: int) -> list[tuple[int, int, int, bool]]:
        tile = PixelTile(6, 2, 8, 1, (1, columns), (1, stride), (1, 1), (0, pad))
        return [(s.start, s.stop, s.size, s.ragged) for s in tile.strips(out, extent)]

    assert strips(11, 4, 2, 55, 224) == [(0, 6, 6, False), (6, 54, 6, False), (54, 55, 1, False)]
    assert strips(9, 1, 4, 20, 20) == [(0, 4, 4, True), (4, 16, 6, False), (16, 20, 4, True)]
    assert strips(15, 1, 7, 34, 34) == [(0, 8, 4, True), (8, 26, 6, False), (26, 34, 4, True)]
    assert strips(31, 1, 15, 50, 50) == [(0, 16, 4, True), (16, 34, 6, False), (34, 50, 4, True)]
    assert strips(31, 1, 15, 53, 53) == [(0, 15, 5, True), (15, 33, 6, False), (33, 53, 5, True)]


@pytest.mark.parametrize(("extent", "copied"), [(32, True), (33, False)])
def test_channels_that_meet_in_a_set_are_copied(extent: int, copied: bool, tmp_path: Path) -> None:
    """Of an input in rows, 64 channels of 32 x 32 pixels lie 4096 bytes apart: a convolution reads a copy of them
    that is channels-last, and no pass forwards what it copies. Those of 33 x 33 pixels are read where they are."""
    net = Net(0)
    x = net.input(1, 64, extent, extent)
    y = net("Relu", net.conv(x, (64, 64, 3, 3), strides=[2, 2], dilations=[2, 2]))
    path = tmp_path / "net.onnx"
    path.write_bytes(net.model(net.conv(y, (64, 64, 3, 3), strides=[2, 2])).SerializeToString())
    c = import_graph(path, Options(target="x86-64-v3"))
    place_program(c)
    assert c.program is not None
    calls = [s for s in c.program.body.linear() if isinstance(s, Call)]
    assert (calls[0].kernel == "copy.generic") is copied


def test_packed_taps() -> None:
    """[tap][channel][output channel], blocks one after the other, the last one of half a vector."""
    weights = np.arange(24 * 2 * 3, dtype=np.float32).reshape(24, 2, 1, 3)
    packed = PackedTaps(16, 16).pack(weights)
    assert packed.shape == (6 * 24,)
    assert np.array_equal(packed[:96].reshape(3, 2, 16), weights[:16, :, 0].transpose(2, 1, 0))
    assert np.array_equal(packed[96:].reshape(3, 2, 8), weights[16:, :, 0].transpose(2, 1, 0))
    assert np.array_equal(PackedTaps(16, 16, turned=True).pack(weights.swapaxes(2, 3)), packed)
    grouped = PackedTaps(4, 4, groups=3).pack(weights)
    assert np.array_equal(grouped[:48], PackedTaps(4, 4).pack(weights[:8]))


def test_tiles_of_known_layers() -> None:
    """No tile wastes lanes or spills where one is known that does neither."""
    for target, n in ((V4, 24), (V4, 64), (V3, 64), (V3, 24)):
        cycles, tile = best_tile(3136, n, 144, target, packed=True)
        assert cycles < 1.25 * 3136 * n * 144 / 16, (target.name, n)
        assert (tile.rows + 1) * tile.vectors + 1 <= target.machine.registers


def test_halves_halve_the_waste() -> None:
    """24 channels are a vector and a half."""
    assert best_tile(3136, 24, 144, V4, packed=True)[0] < 0.85 * best_tile(3136, 24, 144, V4)[0]


def test_padding_costs_nothing() -> None:
    """At 7x7 two of 21 lines of taps, and as many columns, lie in the padding."""
    inside = Conv((1, 1), (0, 0, 0, 0), (1, 1))
    border = replace(inside, pads=(1, 1, 1, 1))
    full, _ = best_pixel_tile(inside, (1, 512, 9, 9), (512, 512, 3, 3), (1, 512, 7, 7), V4)
    skipped, _ = best_pixel_tile(border, (1, 512, 7, 7), (512, 512, 3, 3), (1, 512, 7, 7), V4)
    assert skipped < 0.88 * full


@pytest.mark.parametrize("shape", [(49, 960), (49, 2048), (196, 1024), (12544, 16), (28, 28, 256), (2, 3, 4)])
def test_chunks_of_rows_fit_the_cache(shape: tuple[int, ...]) -> None:
    view = whole(Buffer("x", TensorType(F32, shape), "arena", 64))
    tile = in_chunks(Tile(14, 2, 16), view, V4)
    inner = int(np.prod(shape[tile.axis + 1 :]))
    assert tile.chunk * inner * 4 <= V4.machine.l2 // 2
    if view.count * 4 <= V4.machine.l2 // 2:
        assert (tile.axis, tile.chunk) == (0, shape[0])  # weights are read once


@pytest.mark.parametrize(
    ("rows", "steps", "columns", "deep"), [(197, 3072, 768, True), (64, 768, 3072, False), (40, 1024, 256, False)]
)
def test_long_reductions_go_in_blocks_where_that_reads_less(rows: int, steps: int, columns: int, deep: bool) -> None:
    view = whole(Buffer("x", TensorType(F32, (rows, steps)), "arena", 64))
    tile = in_depth(in_chunks(Tile(9, 3, 16), view, V4), view, columns, V4)
    assert (tile.depth > 0) == deep
    if deep:
        assert 4 * tile.depth * (tile.chunk + tile.width) < V4.machine.l2
        assert steps % tile.depth != 0 or steps // tile.depth > 1
