"""What the nodes of a model ask for, compared with the limits before it is built (`ir.limits`).

Worked example: an AveragePool of 2^30 x 2^30 elements on an image of 8 x 8, padded by as many, has 9 x 9 results; to
count what each of them averages would take a padded image of 2^60 elements. So that is what is limited.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mccompile.importer.extent_rules import MAX_ATOMS
from mccompile.ir.dims import Dim, bound
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Node, Value
from mccompile.ir.limits import elements, require
from mccompile.onnxio import OnnxNode


def require_value(value: Value, where: str) -> None:
    """CompileError for a tensor of too many axes or elements."""
    what = f"{value.name!r}" + (", its extents of 0 counted as 1," if 0 in value.shape else "")
    require("tensor-axes", value.type.rank, what, where)
    require("tensor-elements", elements(value.shape), what, where)
    if any(isinstance(e, Dim) and e.atoms > MAX_ATOMS for e in value.shape):
        raise CompileError(
            f"an extent of {what} is computed of others in more than {MAX_ATOMS} places", where=where,
            hint="give some of the extents one number: --dim NAME=N",
        )  # fmt: skip


def require_results(nodes: Iterable[Node], where: str) -> None:
    """CompileError for a result of too many axes or elements."""
    for node in nodes:
        for value in node.results:
            require_value(value, where)


def require_window(node: OnnxNode, inputs: Sequence[Value | None]) -> None:
    """CompileError for a window, or a padded operand of one, of too many elements."""
    where = f"node {node.index} {node.name!r} {node.op_type}"
    window = _numbers(node, "kernel_shape")
    require("tensor-elements", math.prod(window), "its window", where)
    pads, x = _numbers(node, "pads"), inputs[0] if inputs else None
    if x is None or len(pads) != 2 * (x.type.rank - 2):
        return
    space = x.shape[2:]
    padded = [e + pads[i] + pads[i + len(space)] for i, e in enumerate(space)]
    if min(map(bound, padded), default=0) > 0:
        require("tensor-elements", elements([*x.shape[:2], *padded]), "its operand, padded,", where)


def _numbers(node: OnnxNode, name: str) -> tuple[int, ...]:
    """An attribute of whole numbers; none where it is something else, which front ends refuse."""
    given = node.attrs.get(name)
    items = given if isinstance(given, tuple | list) else ()
    found = tuple(n for n in items if isinstance(n, int))
    return found if len(found) == len(items) else ()
