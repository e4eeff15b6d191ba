"""Strips of tiles over a line: what each tile reads and counts, against every window on its own."""

from __future__ import annotations

import random

from mccompile.kernels.conv.channel_windows import ChannelWindow, Strip
from mccompile.kernels.conv.transpose import axis_phases
from mccompile.kernels.pool import PoolWindow


def _windows(count: int) -> list[tuple[PoolWindow, int, int]]:
    """Random windows over one axis, with how many of them there are, over how many elements."""
    r = random.Random(7)
    found: list[tuple[PoolWindow, int, int]] = []
    while len(found) < count:
        kernel, stride, dilation, extent = r.randint(1, 5), r.randint(1, 4), r.randint(1, 4), r.randint(1, 40)
        begin, end = r.randint(0, 6), r.randint(0, 6)
        free = extent + begin + end - ((kernel - 1) * dilation + 1)
        if free >= 0:
            counted = ((0, 0), (begin, r.randint(0, end)))
            window = PoolWindow(
                r.randint(1, 9), 1, kernel, (1, kernel), (1, stride), (1, dilation), (0, begin), counted
            )
            found.append((window, free // stride + 1, extent))
    return found


def _tiles(strips: list[Strip]) -> list[tuple[int, Strip]]:
    return [(start, s) for s in strips for start in range(s.start, s.stop, s.size)]


def test_strips_are_the_windows_inside() -> None:
    for window, out, extent in _windows(400):
        plain = ChannelWindow(
            window.pixels, 1, window.taps, window.kernel, window.strides, window.dilations, window.pads
        )
        for strips in (plain.strips(out, extent), window.strips(out, extent)):
            read = {}
            for start, strip in _tiles(strips):
                left = start * window.strides[1] - window.pads[1]
                for column, uses in strip.columns:
                    read.update({(start + pixel, tap): left + column for pixel, tap in uses})
            places = {
                (i, t): i * window.strides[1] - window.pads[1] + t * window.dilations[1]
                for i in range(out)
                for t in range(window.kernel[1])
            }
            assert read == {at: place for at, place in places.items() if 0 <= place < extent}, (window, out, extent)
            assert sum(s.size for _, s in _tiles(strips)) == out


def test_averages_count_what_they_should() -> None:
    for window, out, extent in _windows(400):
        before, behind = window.counted[1]
        for start, strip in _tiles(window.strips(out, extent)):
            for pixel, count in enumerate(window.counts(strip, extent)):
                left = (start + pixel) * window.strides[1] - window.pads[1]
                places = [left + t * window.dilations[1] for t in range(window.kernel[1])]
                assert count == sum(-before <= p < extent + behind for p in places)


def test_windows_in_the_padding_are_found() -> None:
    seen = set()
    for window, out, extent in _windows(400):
        starts = [i * window.strides[1] - window.pads[1] for i in range(out)]
        taps = range(window.kernel[1])
        misses = any(not any(0 <= s + t * window.dilations[1] < extent for t in taps) for s in starts)
        assert window.empty((1, out), (1, extent)) == misses, (window, out, extent)
        seen.add(misses)
    assert seen == {False, True}


def test_phases_meet_every_tap_once() -> None:
    """Element i and tap k of a transposed convolution add to result i * stride + k * dilation - pad."""
    for kernel, stride, dilation, pad, out in ((4, 2, 1, 1, 9), (3, 2, 3, 0, 11), (5, 3, 2, 3, 8), (2, 2, 1, 5, 4)):
        found = set()
        for p in axis_phases(out, kernel, stride, dilation, pad):
            for q in range(p.count):
                found |= {(p.start + q * stride, q + p.first + u * p.dilation, k) for u, k in enumerate(p.taps)}
        wanted = {
            (o, (o + pad - k * dilation) // stride, k)
            for o in range(out)
            for k in range(kernel)
            if (o + pad - k * dilation) % stride == 0
        }
        assert found == wanted
