"""The family of `col2im`: element by element, or vectors along lines of blocks.

Worked example: blocks of 3, two apart, with one element of padding, over 7 results. Element l of tap k goes to result
2l + k - 1. Results 0 2 4 6 are one phase, which tap 1 alone meets: result 2i is its element i. Results 1 3 5 are the
other one: 2i + 1 is element i of tap 2 and element i + 1 of tap 0:

>>> for phase in line_phases(7, 4, kernel=3, stride=2, dilation=1, pad=1): print(phase)
Phases(start=0, count=1, runs=(Run(start=0, count=4, taps=(LineTap(tap=1, first=0),)),))
Phases(start=1, count=1, runs=(Run(start=0, count=3, taps=(LineTap(tap=-1, first=1), LineTap(tap=1, first=0))),))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container
from dataclasses import replace

from mccompile._cached import cached
from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.movement import WOVEN
from mccompile.kernels.variant import Builder, Offer, Variant, lines_broken, not_plain_f32, vectors_apart
from mccompile.ops.col2im import Col2Im
from mccompile.ops.window import meets_all
from mccompile.targets.target import Target

TAP_CYCLES = 12.0
"""Cycles of an element of a tap where each is looked for."""
LINE_CYCLES = 10.0
"""Cycles of a line of a tap beside its vectors."""
WEAVE_CYCLES = 1.5
"""Cycles of an element that is stored apart from its neighbour."""
MOST_TAPS = 48
"""Taps of runs of a line, which are written out one by one."""


class Col2ImGeneric(Variant):
    ops = ("col2im",)
    kernel = "col2im.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x = node.inputs[0]
        return Offer(self.label, TAP_CYCLES * x.type.count + node.result.type.count)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return axes(call.results[0], ["n", "c"])


@dataclass(frozen=True)
class LineTap:
    """A tap, less the number of the phase, and its element that the first result of a run reads."""

    tap: int
    first: int


@dataclass(frozen=True)
class Run:
    """Results ``start`` .. of a phase that the same taps meet, ``count`` of them."""

    start: int
    count: int
    taps: tuple[LineTap, ...]


@dataclass(frozen=True)
class Phases:
    """Phases ``start`` .. that are alike, ``count`` of them: a phase is the results that are a stride apart."""

    start: int
    count: int
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class ImageLines:
    """Lines of ``out`` results of lines of ``blocks`` elements, by a ``kernel``. With ``gaps``, some lines of the
    image have no block. Lines are woven ``in_vectors``, or else in scratch."""

    out: int
    blocks: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    gaps: bool
    in_vectors: bool

    @property
    def apart(self) -> int:
        """The most results that a phase has."""
        return -(-self.out // self.stride)

    @cached
    def phases(self) -> tuple[Phases, ...]:
        return line_phases(
            self.out, self.blocks, kernel=self.kernel, stride=self.stride, dilation=self.dilation, pad=self.pad
        )

    @property
    def meets(self) -> bool:
        """Whether any block has something for the image."""
        return any(run.taps for p in self.phases for run in p.runs)

    @property
    def written_out(self) -> int:
        """How many taps of runs there are in the code."""
        return sum(1 + len(run.taps) for p in self.phases for run in p.runs)


def line_phases(out: int, blocks: int, *, kernel: int, stride: int, dilation: int, pad: int) -> tuple[Phases, ...]:
    """The phases of a line of ``out`` results, of lines of ``blocks`` elements."""
    found: list[Phases] = []
    for phase in range(min(stride, out)):
        # Result phase + i * stride is element i + ahead of a tap.
        meeting = [(t, (phase + pad - t * dilation) // stride) for t in range(kernel)
                   if (phase + pad - t * dilation) % stride == 0]  # fmt: skip
        runs = _runs(phase, -(-(out - phase) // stride), blocks, meeting)
        if found and found[-1].runs == runs:
            found[-1] = replace(found[-1], count=found[-1].count + 1)
        else:
            found.append(Phases(phase, 1, runs))
    return tuple(found)


def _runs(phase: int, count: int, blocks: int, meeting: list[tuple[int, int]]) -> tuple[Run, ...]:
    """The ``count`` results of a phase in runs that the same taps of ``meeting`` (tap, ahead) have elements for."""
    ends = {0, count}
    for _, ahead in meeting:
        ends |= {min(max(e - ahead, 0), count) for e in (0, blocks)}
    cuts = sorted(ends)
    found = []
    for start, stop in itertools.pairwise(cuts):
        taps = tuple(LineTap(t - phase, start + ahead) for t, ahead in meeting if 0 <= start + ahead < blocks)
        found.append(Run(start, stop - start, taps))
    return tuple(found)


class Col2ImLines(Variant):
    """Lines of the image wait in scratch until all blocks are added, results of one phase side by side."""

    ops = ("col2im",)
    kernel = "col2im.lines"
    params = ImageLines
    may_share = False

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, x, y = node.op, node.inputs[0], node.result
        assert isinstance(op, Col2Im)
        if reason := not_plain_f32(node, target):
            return reason
        last = len(op.image) - 1
        kernel, stride = x.shape[2 + last], op.strides[last]
        in_vectors = stride <= WOVEN and target.lanes > 1
        gaps = not meets_all(x.shape[2 : 2 + last], op.strides[:last], op.dilations[:last])
        lines = ImageLines(
            op.image[last], x.shape[-1], kernel, stride, op.dilations[last], op.pads[last], gaps, in_vectors
        )
        phases = lines.phases
        if lines.written_out > MOST_TAPS:
            return f"more than {MOST_TAPS} taps would be written out"
        met = math.prod(x.shape[: 2 + last]) * math.prod(x.shape[3 + last : -1])
        vectors = sum(p.count * len(run.taps) * -(-run.count // target.lanes) for p in phases for run in p.runs)
        runs = sum(p.count for p in phases for _ in p.runs)
        stored = y.type.count * (2 / target.lanes if stride == 1 or in_vectors else WEAVE_CYCLES)
        return Offer(self.label, met * (vectors + LINE_CYCLES * runs) + stored, lines)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, lines = node.op, offer.params
        assert isinstance(op, Col2Im)
        assert isinstance(lines, ImageLines)
        stride = op.strides[-1]
        scratch = b.scratch((1 if lines.in_vectors else 2) * lines.apart * stride, F32) if stride > 1 else None
        b.call(self.kernel, [b.read(node.inputs[0])], [b.result(0)], params=lines, scratch=scratch)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        return axes(call.results[0], ["b", "c"])

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        return vectors_apart(after, 0) or lines_broken(before, after, reads=False)


VARIANTS = (Col2ImGeneric(), Col2ImLines())
