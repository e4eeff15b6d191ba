"""Recognises scaled dot-product attention: a product, the softmax of its scores, another product."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node
from mccompile.ops.attention import FIRST_MASK, Attention
from mccompile.ops.matmul import MatMul
from mccompile.ops.softmax import Softmax
from mccompile.passes.manager import Remarks
from mccompile.passes.patterns import Any, Fail, Is, Match, Rule, apply_rules

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
    assert isinstance(softmax.op, Softmax)
    if softmax.op.mode != "soft" or softmax.op.axis != softmax.result.type.rank - 1:
        return Fail("it is no softmax along the rows")
    if any(v.type.layout is not None for n in (product, softmax, m.root) for v in (*n.inputs, *n.results)):
        return Fail("a layout is not row-major")
    if softmax.pre or softmax.post or product.pre or m.root.pre:
        return Fail("something is computed between the products that no score can express")
    if any(v.dtype.name == "f16" for v in m.values.values()) or product.result.dtype != m.values["q"].dtype:
        return Fail("products are rounded to f16")
    if isinstance(m.root.op, MatMul) and m.root.op.trans_a:
        return Fail("its columns are weighted")
    if not {product, softmax} <= m.dying():
        return Fail("the scores or their softmax are needed elsewhere")
    return None


def _rewrite(m: Match) -> None:
    product, softmax, root = m.nodes["product"], m.nodes["softmax"], m.root
    assert isinstance(product.op, MatMul)
    assert isinstance(root.op, MatMul)
    root.op = Attention(_score(product), product.op.trans_a, product.op.trans_b, root.op.trans_b)
    root.origins = tuple(dict.fromkeys(product.origins + softmax.origins + root.origins))
    m.r.rewire(root, [*product.operands, m.values["v"], *product.extras])


def _score(product: Node) -> ex.Expr:
    """The epilogue of the product over the operands of attention: it is x0, extra operands are masks."""
    dtype = product.result.dtype
    body = product.post.get(0, ex.acc(dtype))
    return ex.substitute(body, lambda v: ex.var(0 if v.index == ex.ACC else FIRST_MASK + v.index, v.dtype))


RULES = (Rule("recognised attention", _ATTENTION, _check, _rewrite),)
