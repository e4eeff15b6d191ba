"""What passes that fuse ask of scalar expressions: how large, how dear, how often a variable is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Node
from mccompile.ir.jumps import jumps
from mccompile.ir.scalar import FUNCTIONS
from mccompile.passes.analysis import quotients
from mccompile.passes.analysis.steps import Steps, asks_for_digits, digits_read, divided, means, under_steps

MAX_SIZE = 64
"""Functions in one expression, shared parts counted once."""

MAX_TREE = 256
"""Functions in one expression counted as a tree: shared parts are printed as C once but walked often."""

MAX_OPERANDS = 9
"""Different operands that one expression reads."""


def size(e: ex.Expr) -> int:
    """The number of functions in an expression, counted as a tree."""
    return (not isinstance(e, ex.Var | ex.Num)) + sum(size(a) for a in e.args)


def tree_size(e: ex.Expr, operands: Sequence[int]) -> int:
    """The size of an expression whose variables stand for expressions of the given sizes."""
    if isinstance(e, ex.Var):
        return operands[e.index]
    return (not isinstance(e, ex.Num)) + sum(tree_size(a, operands) for a in e.args)


def with_bodies(node: Node, steps: Steps, rewrite: Callable[[ex.Expr, set[ex.Expr]], ex.Expr]) -> int:
    """Let the bodies of a node be what ``rewrite`` makes of each and of those of its parts that are to be exact:
    means, factors of what is summed before a step, what is divided by its size, and all on whose last digit a step
    depends. How many have become others."""

    def made(body: ex.Expr, asked: bool, is_summed: bool, traits: Mapping[ex.Expr, int]) -> ex.Expr:
        exact = set(ex.distinct(body)) if asked else under_steps(body, traits) | divided(body, traits)
        return rewrite(body, exact | means(body, traits) | quotients.factors(body, is_summed))

    changes = 0
    asked, terms = digits_read(node, steps), set(quotients.operands(node, steps.summed))
    behind = [steps.traits.behind(node, i) for i in range(len(node.results))]  # before the prologues are others
    own, traits, summed = node.op.elementwise, steps.traits.own(node), quotients.is_summed(node, steps.summed)
    for i, body in node.pre.items():
        node.pre[i] = made(body, i in asked, i in terms, steps.traits.before(node, i))
        changes += node.pre[i] != body
    for i, body in node.post.items():
        v = node.results[i]
        node.post[i] = made(body, v in steps.values, v in steps.summed, behind[i])
        changes += node.post[i] != body
    if own is not None and (body := made(own, asks_for_digits(node, steps), summed, traits)) != own:
        node.op = node.op.with_elementwise(body)
        changes += 1
    return changes


def reads_halves(node: Node) -> set[int]:
    """The operands that a node has to read as numbers of f16: those of f16 that it jumps with, and all of a map that
    makes wider floats of them, of which later nodes may take away the same number, or ask for the next whole one."""
    halves = {i for i, v in enumerate(node.operands) if v is not None and v.dtype.name == "f16"}
    widens = any(v.dtype.is_float and v.dtype.name != "f16" for v in node.results)
    return halves if widens and node.op.elementwise is not None else halves & jumps(node)


KEEPING = {"max", "min", "neg", "abs", "relu", "select"}
"""Functions whose result is a number that they read, or its opposite."""


def is_half(e: ex.Expr, known: Callable[[ex.Var], bool]) -> bool:
    """Whether the values of an expression are numbers of f16: rounded, or chosen among such. ``known`` says whether
    those of a variable are.

    >>> from mccompile.ir.types import F32
    >>> x = ex.var(0, F32)
    >>> [is_half(e, lambda v: False) for e in (x, ex.apply("relu", ex.apply("round_f16", x)), ex.num(0.1))]
    [False, True, False]
    """
    match e:
        case ex.Var():
            return known(e)
        case ex.Num():
            with np.errstate(over="ignore"):
                return float(np.float16(e.value)) == e.value
        case ex.Apply(fn=fn) if fn in KEEPING:
            return all(is_half(a, known) for a in e.args[fn == "select" :])
        case _:
            return isinstance(e, ex.Apply) and e.fn == "round_f16"


def is_cast_to_f16(node: Node) -> bool:
    """Whether a map rounds another type to f16: a cast, not the storage of a computation in f16."""
    return node.result.dtype.name == "f16" and all(v is None or v.dtype.name != "f16" for v in node.operands)


def parts(e: ex.Expr) -> int:
    """The number of different functions in an expression: those that generated code computes."""
    return sum(not isinstance(part, ex.Var | ex.Num) for part in ex.distinct(e))


def reads(e: ex.Expr, index: int) -> int:
    """How often an expression, as a tree, reads a variable."""
    return (isinstance(e, ex.Var) and e.index == index) + sum(reads(a, index) for a in e.args)


_DEAR = ("div", "mod", "fmod", "sqrt", "round_f16", "round_bf16")


def calls_library(node: Node) -> bool:
    """Whether an expression of a node has a function of the C library."""
    return any(FUNCTIONS[name].ulp for body in node.expressions for name in ex.functions(body))


def is_cheap(e: ex.Expr) -> bool:
    """True for arithmetic of a few instructions; library functions and divisions are not cheap."""
    if isinstance(e, ex.Apply) and (FUNCTIONS[e.fn].ulp or e.fn in _DEAR):
        return False
    return all(is_cheap(a) for a in e.args)
