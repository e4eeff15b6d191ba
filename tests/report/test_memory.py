"""What the report says of the memory that is taken at each step."""

from __future__ import annotations

import random

from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.ir.program import Program
from mccompile.ir.types import F32, TensorType
from mccompile.ir.views import Buffer, whole
from mccompile.ops.registry import lookup
from mccompile.plan.plan import plan
from mccompile.report.memory import memory, occupied


def program_of(rng: random.Random, count: int) -> Program:
    """Copies of a few values at a time, one over the other where the planner takes the offer."""
    known = [Buffer("x", TensorType(F32, (rng.randint(1, 9),)), "arena", 4, role="input")]
    steps = []
    for k in range(count):
        x = rng.choice(known[-4:])
        y = Buffer(f"t{k}", TensorType(F32, x.type.shape), "arena", 4, role="output" if k == count - 1 else "")
        steps.append(Call("copy.generic", lookup("reshape")(x.type.shape), None, (whole(x),), (whole(y),),
                          inplace=(0,) if rng.random() < 0.5 else ()))  # fmt: skip
        known.append(y)
    return plan(KernelModule("g", "generic", known, Block(tuple(steps))))


def test_bytes_that_lie_over_one_another_count_once() -> None:
    rng = random.Random(2)
    less = 0
    for _ in range(20):
        program = program_of(rng, 12)
        lives = program.lives()
        used = occupied(program)
        for step, taken in enumerate(used):
            alive = [b for b, (first, last) in lives.items() if first <= step <= last]
            spans = [range(program.offsets[b], program.offsets[b] + b.nbytes) for b in alive]
            assert taken == len(set().union(*spans))
            less += taken < sum(map(len, spans))
        found = memory(program)
        assert found["used_at_peak_bytes"] == max(used) == used[found["peak_step"]]
    assert less, "some must lie over one another"
