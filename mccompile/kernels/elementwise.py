"""The family of `map`: one loop nest over broadcast views."""

from __future__ import annotations

from mccompile.ir.graph import Node
from mccompile.kernels.loops import collapse
from mccompile.kernels.variant import Builder, Variant


class MapGeneric(Variant):
    ops = ("map",)
    kernel = "map.generic"
    elementwise = True

    def lower(self, node: Node, b: Builder) -> None:
        result = b.result(0)
        reads = [b.read(v).broadcast(result.shape) for v in node.operands if v is not None]
        inplace = tuple(i for i, v in enumerate(reads) if v.same_elements(result))
        views = collapse([*reads, result])
        if not isinstance(views, str):
            *reads, result = views
        b.call(self.kernel, list(reads), [result], inplace=inplace)


VARIANTS = (MapGeneric(),)
