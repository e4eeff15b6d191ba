"""Recognises scaled dot-product attention: a product, the softmax of its scores, another product."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node
from mccompile.ir.types import F32
from mccompile.ops.attention import FIRST_MASK, Attention
from mccompile.ops.matmul import MatMul
from mccompile.ops.softmax import Softmax
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules

ROUNDS = True


def run(graph: Graph, remarks: Remarks) -> int:
    """Make one attention of a product, the softmax along its rows, and the product with the values.

    May change rounding. Scales and masks, in whatever form, must have become the epilogue of the first product.
    """
    return apply_rules(graph, remarks, RULES) if any(isinstance(n.op, Softmax) for n in graph.nodes) else 0


_PRODUCT = Is(MatMul, (Any("q"), Any("k")), "product", plain=False)
_WEIGHTS = Is(Softmax, (_PRODUCT,), "softmax", plain=False)
_ATTENTION = Is(MatMul, (_WEIGHTS, Any("v")), "sum", plain=False)


def _check(m: Match) -> Fail | None:
    product, softmax = m.nodes["product"], m.nodes["softmax"]
    if m.op(Softmax, "softmax").mode != "soft" or m.op(Softmax, "softmax").axis != softmax.result.type.rank - 1:
        return Fail("it is no softmax along the rows")
    if any(v.type.layout is not None for n in (product, softmax, m.root) for v in (*n.inputs, *n.results)):
        return Fail("a layout is not row-major")
    if softmax.pre or product.pre or m.root.pre:
        return Fail("an operand has a prologue")
    if len({v.dtype for v in (product.result, softmax.result, *m.values.values())} | {F32}) > 1:
        return Fail("it is not f32 throughout")
    if m.op(MatMul).trans_a:
        return Fail("its columns are weighted")
    if not {product, softmax} <= m.dying():
        return Fail("the scores or their softmax are needed elsewhere")
    return None


def _rewrite(m: Match) -> None:
    product, softmax, root = m.nodes["product"], m.nodes["softmax"], m.root
    first, last = m.op(MatMul, "product"), m.op(MatMul)
    score = _over_masks(product, FIRST_MASK)
    weight = _over_masks(softmax, FIRST_MASK + len(product.extras)) if softmax.post else None
    root.op = Attention(score, first.trans_a, first.trans_b, last.trans_b, weight)
    root.origins = tuple(dict.fromkeys(product.origins + softmax.origins + root.origins))
    m.r.rewire(root, [*product.operands, m.values["v"], *product.extras, *softmax.extras])


def _over_masks(node: Node, first: int) -> ex.Expr:
    """The epilogue of a node over the operands of attention: what it is applied to is x0, its extra operands are
    masks from operand ``first`` on."""
    body = node.post.get(0, ex.acc(node.result.dtype))
    return ex.substitute(body, lambda v: ex.var(0 if v.index == ex.ACC else first + v.index, v.dtype))


RULES = (Rule("recognised attention", _ATTENTION, _check, _rewrite),)
