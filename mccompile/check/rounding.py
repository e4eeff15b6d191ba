"""Real numbers before they are rounded, and how far floats may have moved these.

    q = u16(rne(c / 0.002) + 99), c = 64 of at most 65    -> 32,099 is real, and 4 more or less are right
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mccompile.check.branches import Computed
from mccompile.check.compare import limits
from mccompile.check.heads import rounds
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Kind
from mccompile.ops.text_concat import TextConcat
from mccompile.ops.text_normalize import TextKeep
from mccompile.ops.text_split import TextSplit

Array = np.ndarray[Any, np.dtype[Any]]

TIE = 0.5 + 2.0**-13
"""How far a result may be from the real one, in steps."""

OF_TRANSFORMS = 2e-5
"""How far transforms of convolutions may move a result, as a share of the largest: Winograd's of 6 by 6."""


def before_rounding(
    node: Node, values: Mapping[Value, Array], rounded: Array, known: Mapping[str, int] | None = None
) -> Array:
    """The real numbers that a node rounds, as a map or in its epilogue; what it moves or picks is what it is.
    ``known`` are extents, as `Node.evaluate` has them."""
    inner = _unrounded(node.post.get(0, node.op.elementwise))
    if inner is None:
        return rounded.astype(np.float64)
    if not node.post:
        given = [values[v] for v in node.operands if v is not None]
        real = ex.evaluate(inner, lambda i: given[i], wide=True)
        return np.broadcast_to(real.astype(np.float64), rounded.shape)
    result, *others = node.results
    result = Value(result.name, result.type.with_dtype(inner.dtype))
    plain = replace(node, post={**node.post, 0: inner}, results=[result, *others])
    return plain.evaluate(values, True, known)[0].astype(np.float64)


def _unrounded(body: ex.Expr | None) -> ex.Expr | None:
    """The floats that an expression rounds last; None if it does not."""
    if not isinstance(body, ex.Convert) or not body.operand.dtype.is_float:
        return None
    return _without_last(body.operand)


def _without_last(part: ex.Expr) -> ex.Expr:
    if isinstance(part, ex.Apply) and part.fn == "rne":
        return part.operands[0]
    earlier = isinstance(part, ex.Convert) and not part.dtype.is_float  # what it rounded on its way
    return part if earlier else ex.with_operands(part, _without_last)


def of_whole_numbers(steps: Iterable[Computed], known: Container[str]) -> set[str]:
    """The names of what is computed of the whole numbers that are ``known`` (text is bytes), and of inputs and
    constants, by no fractions: joined texts, and what is picked, added or compared."""
    found = set[Value]()
    names = set[str]()
    for step in steps:
        node = step.node
        if step.taken is None:
            given = [v for v in node.inputs if v not in step.graph.inputs and v not in step.graph.constants]
            sure = all(v in found or v.name in known for v in given) and _makes_whole_numbers(node)
            found.update(node.results if sure else ())
        else:
            found.update(v for v, own in zip(node.results, step.taken, strict=True) if own in found)
        names.update(v.name for v in node.results if v in found)
    return names


def _makes_whole_numbers(node: Node) -> bool:
    """Whether a node makes whole numbers of such without a fraction in between, as a mean would."""
    op = node.op
    picks = op.selects or op.kind is Kind.INJECTIVE or isinstance(op, TextConcat | TextKeep | TextSplit)
    dtypes = [v.dtype for v in (*node.inputs, *node.results)]
    dtypes += [part.dtype for body in node.expressions for part in ex.distinct(body)]
    return picks and not node.regions and not any(d.is_float for d in dtypes)


def zeros_of(imported: Graph, nodes: Sequence[Node]) -> dict[str, float]:
    """Of what floats are rounded to 16 bits, by name, the number of zero, if it is one for all channels."""
    found = {}
    for node in nodes:
        others = [o for o in node.operands if o is not None and o in imported.constants]
        if node.op.elementwise is None or len(others) + 1 != len(node.operands):
            continue
        if not rounds(node.result) or node.result.dtype.nbytes != 2:
            continue
        values = {o: imported.array(o).astype(np.float64) for o in others}
        values |= {o: np.zeros(1) for o in node.operands if o is not None and o not in values}
        zero = before_rounding(node, values, np.zeros(np.broadcast_shapes(*(a.shape for a in values.values()))))
        if np.ptp(zero) == 0:
            found[node.result.name] = float(zero.flat[0])
    return found


def of_floats(real: Array, zero: float | None, dtype: np.dtype[Any]) -> Array:
    """How far floats may be off that are rounded to 16 bits, those of ``dtype``, in steps: 32,000 may be 3 more or
    less, as the rule for floats allows (`limits`), and any of them one, which the transforms of convolutions need."""
    if zero is None:
        return np.zeros(())
    ends = np.iinfo(dtype)
    largest = np.abs(real - zero).max(initial=0.0)
    return np.asarray(limits(np.clip(real, ends.min, ends.max) - zero) + OF_TRANSFORMS * largest)
