"""Execution order: the steps of a module in the order of least peak."""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir.kernel import Block, KernelModule
from mccompile.plan.orders import best_order, order_problem


def schedule(
    module: KernelModule, keep_inputs: bool = False, effort: int = 1, part: int = 1
) -> KernelModule:
    """The module with its steps in the order of least peak of those tried; file order wins ties. See `best_order`."""
    steps = list(module.body.linear())
    problem = order_problem(module, steps, keep_inputs)
    order = best_order(problem, effort, part)
    if order == tuple(range(len(order))):
        return module
    in_order = tuple(steps[t] for unit in order for t in problem.steps[unit])
    return replace(module, body=Block(in_order))
