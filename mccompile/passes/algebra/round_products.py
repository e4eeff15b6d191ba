"""Products that stand under a step and a sum are rounded, as the network has them.

    floor((x0 * 0.1) - 1)  ->  floor(rounded(x0 * 0.1) - 1)

10 times the nearest float of 0.1 is 1.0000000149, which becomes 1 where it is stored, and 0 where 1 is taken from it.
One instruction for both (`Target.fuses`) has 1.49e-8 to take the floor, or the ceiling, of. Likewise a normalisation
of x0 * 0.1 takes one of these products away from the others: of a row of equal ones nothing is to be left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.analysis.steps import stepped
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.bodies import with_bodies
from mccompile.targets.target import Target


def run(graph: Graph, remarks: Remarks, target: Target, whole: Graph, analyses: Analyses) -> int:
    """Round products before they are added to something, where a step such as Floor or Equal depends on the sum, and
    where an operator takes them away from each other.

    For targets whose compilers may make one instruction of both. Exact.
    """
    if not target.fuses:
        remarks.miss("rounded products", f"target {target.name} rounds them whatever is added to them")
        return 0
    steps = analyses.of_whole(whole, stepped)
    changes = 0
    for node in graph.nodes:
        rewrite = partial(_rounded, scaled=node.op.makes_products)
        if with_bodies(node, steps, rewrite) + _round_subtracted(node):
            remarks.hit(f"rounded products in {node.where}")
            changes += 1
    return changes


def _round_subtracted(node: Node) -> bool:
    body = node.pre.get(0) if node.op.subtracts else None
    if body is None or (rounded := _term(body)) == body:
        return False
    node.pre[0] = rounded
    return True


def _rounded(body: ex.Expr, exact: set[ex.Expr], scaled: bool) -> ex.Expr:
    """The body with products rounded that are operands of its ``exact`` sums; with ``scaled``, what a kernel computes
    is one."""
    term = partial(_term, scaled=scaled)

    def step(e: ex.Expr, of: Callable[[ex.Expr], ex.Expr]) -> ex.Expr:
        inner = ex.with_operands(e, of)
        is_sum = isinstance(e, ex.Apply) and e.fn in ("add", "sub") and e.dtype.is_float and e in exact
        return ex.with_operands(inner, term) if is_sum else inner

    return ex.OfParts(step)(body)


def _term(e: ex.Expr, scaled: bool = False) -> ex.Expr:
    match e:
        case ex.Apply(fn="mul"):
            return ex.apply("rounded", e)
        case ex.Var(index=ex.ACC) if scaled:
            return ex.apply("rounded", e)
        case ex.Apply(fn="neg", operands=(operand,)):
            return ex.apply("neg", _term(operand, scaled))
    return e
