"""The family of `softmax` and `normalize`: an outer nest over kept axes, inner nests over what belongs together."""

from __future__ import annotations

from dataclasses import dataclass

from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node
from mccompile.ir.kernel import View
from mccompile.kernels.loops import collapse
from mccompile.kernels.reduction import axes_of, join_axes
from mccompile.kernels.variant import Builder, Variant
from mccompile.ops.normalize import Normalize
from mccompile.ops.softmax import Softmax
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Params:
    """``kept``: how many leading axes of the views are kept; the elements along the others belong together."""

    kept: int


class _Rows(Variant):
    params = Params

    def supports(self, node: Node, target: Target) -> str:
        if any(not v.type.linear for v in (*node.inputs, *node.results)):
            return "normalisation needs layouts without blocks"
        return ""

    def lower(self, node: Node, b: Builder) -> None:
        (operand,) = node.operands
        assert operand is not None
        x, y = b.read(operand), b.result(0)
        together = list(normalised_axes(node))
        kept = [a for a in range(x.rank) if a not in together]
        views = [x, y, *(b.read(v).broadcast(y.shape) for v in node.extras)]
        outer, inner = (collapse([axes_of(v, axes) for v in views]) for axes in (kept, together))
        if isinstance(outer, str) or isinstance(inner, str):
            raise InternalError("normalisation of a blocked layout")
        x, y, *extras = (join_axes(o, i) for o, i in zip(outer, inner, strict=True))
        b.call(self.kernel, [x], [y], params=Params(outer[0].rank), extras=extras,
               inplace=overwritable(node, x, y, extras))  # fmt: skip


def normalised_axes(node: Node) -> tuple[int, ...]:
    op = node.op
    assert isinstance(op, Normalize | Softmax)
    return (op.axis,) if isinstance(op, Softmax) else op.axes


def overwritable(node: Node, x: View, y: View, extras: list[View]) -> tuple[int, ...]:
    """The inputs the result may overwrite: the kernels read a whole row before they write its first element."""
    late = set().union(*map(ex.variables, node.post.values())) - set().union(*map(ex.variables, node.pre.values()))
    found = [0] if x.same_elements(y) else []
    return tuple(found + [1 + i for i, v in enumerate(extras) if i in late and v.same_elements(y)])


class SoftmaxGeneric(_Rows):
    ops = ("softmax",)
    kernel = "softmax.generic"


class NormalizeGeneric(_Rows):
    ops = ("normalize",)
    kernel = "normalize.generic"


VARIANTS = (SoftmaxGeneric(), NormalizeGeneric())
