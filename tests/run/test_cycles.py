"""The timings of a Cortex-M4, instruction by instruction, and sums over what was executed."""

from __future__ import annotations

import pytest

from mccompile.run.counter import Executed
from mccompile.run.cycles import REFILL, Instruction, cost, estimate, estimates, knows


@pytest.mark.parametrize(
    ("opcode", "operands", "cycles"),
    [
        ("adds", "r0, #1", 1), ("muls", "r0, r1", 1), ("mla", "r0, r1, r2, r3", 1), ("smlad", "r0, r1, r2, r0", 1),
        ("umull", "r0, r1, r2, r3", 1), ("ldr", "r3, [r0, #4]", 2), ("ldr.w", "r3, [r0], #4", 2),
        ("ldrsb.w", "r3, [r0, #1]!", 2), ("ldrheq", "r3, [r0]", 2), ("str", "r3, [r0]", 1), ("strb.w", "r3, [r0]", 1),
        ("ldrd", "r2, r3, [r0]", 3), ("strd", "r2, r3, [r0]", 3), ("push", "{r4, r5, r6, lr}", 5),
        ("ldmia.w", "sp!, {r4-r8, pc}", 7), ("stmia", "r0!, {r1, r2}", 3), ("pop", "{pc}", 2),
        ("vldr", "s0, [r0]", 2), ("vldr", "d0, [r0]", 3), ("vstr", "s0, [r0]", 2), ("vldmia", "r0!, {s0-s3}", 5),
        ("vpush", "{d8-d9}", 5), ("vadd.f32", "s0, s1, s2", 1), ("vmul.f32", "s0, s1, s2", 1),
        ("vfma.f32", "s0, s1, s2", 3), ("vmla.f32", "s0, s1, s2", 3), ("vdiv.f32", "s0, s1, s2", 14),
        ("vsqrt.f32", "s0, s1", 14), ("vmov.f32", "s0, #1.0", 1), ("vmov", "r0, r1, d0", 2), ("vmov", "s0, r1", 1),
        ("sdiv", "r0, r1, r2", 7), ("udiveq", "r0, r1, r2", 7), ("it", "eq", 1), ("bne.n", "100", 1),
        ("tbb", "[pc, r0]", 2),
    ],
)  # fmt: skip
def test_an_instruction_that_does_not_jump(opcode: str, operands: str, cycles: int) -> None:
    assert cost(Instruction(0, opcode, operands)) == cycles


@pytest.mark.parametrize("before", ["ldr", "ldrb.w", "str", "strh"])
def test_a_load_behind_a_load_or_store_is_pipelined(before: str) -> None:
    assert cost(Instruction(0, "ldr", "r3, [r0]"), before) == 1
    assert cost(Instruction(0, "ldrd", "r2, r3, [r0]"), before) == 3


@pytest.mark.parametrize("before", ["adds", "ldrd", "vldr", "ldmia", ""])
def test_and_behind_nothing_else(before: str) -> None:
    assert cost(Instruction(0, "ldr", "r3, [r0]"), before) == 2


LOOP = [Instruction(0, "movs", "r2, #9"), Instruction(2, "subs", "r2, #1"), Instruction(4, "bne.n", "2")]
COUNTS = {0: Executed(1, 0), 2: Executed(9, 0), 4: Executed(9, 8)}


def test_a_jump_fills_the_pipeline_anew() -> None:
    assert estimate(LOOP, COUNTS) == 1 + 9 + 9 + 8 * REFILL


def test_slots_are_summed_apart_and_may_share_instructions() -> None:
    assert estimates(LOOP, {1: COUNTS, 2: {2: Executed(5, 0)}, 3: {}}) == {1: 19 + 8 * REFILL, 2: 5, 3: 0}


def test_other_cores_are_not_guessed_at() -> None:
    assert knows("cortex-m4")
    assert not knows("cortex-m7")
