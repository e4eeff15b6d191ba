"""Reshapes that cannot share memory: both ends are inputs or outputs, or kernels want them laid out apart.

Elements are copied between two views of one shape. A dense end can be seen in the shape of the other one. Two ends
with axes in another order, as channels-last ones, are seen in the shape that cuts each where either is cut:

    [4, 2, 21] as [2, 4, 21]     168, 42, 21 and 168, 84, 21 elements lie behind cuts: [2, 2, 2, 21] has them all

Where there is none, as of [2, 3] as [3, 2], elements are copied twice, and are dense between.
"""

from __future__ import annotations

from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node
from mccompile.ir.structure import refined
from mccompile.ir.types import Shape
from mccompile.ir.views import View, whole
from mccompile.kernels.variant import Builder


def copy_reshape(node: Node, b: Builder) -> None:
    """Copy the elements of a node's operand to its result, which has another shape."""
    (operand,) = node.inputs
    source, result = b.read(operand), b.result(0)
    for shape in (source.shape, result.shape, refined(source.shape, result.shape)):
        if shape is not None and _copied(source, result, shape, b):
            return
    between = whole(b.scratch(operand.type.count, operand.dtype))
    if not (_copied(source, between, source.shape, b) and _copied(between, result, result.shape, b)):
        raise InternalError(f"{node.where}: its ends are laid out in blocks")


def _copied(source: View, result: View, shape: Shape, b: Builder) -> bool:
    """Copy where both can be seen in a shape; false where not."""
    read, written = (end if end.shape == shape else end.reshape(shape) for end in (source, result))
    if isinstance(read, str) or isinstance(written, str):
        return False
    b.call("copy.generic", [read], [written])
    return True
