"""1x1 convolutions of channels-last values in seven eighths of the multiplications; see `kernels/matmul/strassen`."""

from __future__ import annotations

import math

from mccompile.ir.graph import Node
from mccompile.ir.views import View
from mccompile.kernels.matmul.strassen import StrassenRows
from mccompile.kernels.variant import operand_pair
from mccompile.kernels.views.channels import is_channels_last, last
from mccompile.ops.conv import Conv


class ConvStrassen(StrassenRows):
    """1x1 at stride 1: pixels are rows of channels."""

    ops = ("conv",)

    def extents(self, node: Node) -> tuple[int, int, int]:
        n, channels, *spatial = node.results[0].shape
        return n * math.prod(spatial), channels, operand_pair(node)[1].shape[1]

    def transposed(self, node: Node) -> bool:
        return True

    def refusal(self, node: Node) -> str:
        op = node.op
        assert isinstance(op, Conv)
        x, w = operand_pair(node)
        if op.groups != 1 or any(k != 1 for k in w.shape[2:]) or any(s != 1 for s in op.strides) or any(op.pads):
            return "it is not 1x1 in one group, at stride 1 and without padding"
        return "" if is_channels_last(x) and is_channels_last(node.results[0]) else "a layout is not channels-last"

    def source(self, node: Node, view: View, result: View) -> View:
        return last(view)

    def rows_of(self, view: View) -> View:
        return last(view)


VARIANTS = (ConvStrassen(),)
