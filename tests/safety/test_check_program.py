"""The overlap checker of whole programs: sound programs pass, and every planted fault is caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Block, Call, Fill
from mccompile.ir.kernel_parse import parse_program
from mccompile.ir.program import Program
from mccompile.ir.views import Buffer
from mccompile.ops.registry import lookup
from mccompile.plan.check import check_program
from mccompile.plan.plan import plan
from tests.support.small_models import MODELS, write_model

TEXT = """\
program @p target=generic arena=176 blob=56 peak=176 bound=176 naive=176 algorithm="none" {
  buffer x : f32[1,2,3] arena @0 align=16 role=input
  buffer h : f32[1,2,3] arena @32 align=16 halo=(0:0,0:0,1:1) fill=0
  buffer w : f32[2,2,3] blob @0 align=16
  buffer b : f32[2] blob @48 align=8
  buffer a : f32[1,2,3] arena @80 align=16
  buffer c : f32[1,2,3] arena @80 align=16
  buffer s : f32[4] arena @160 align=16 role=scratch
  buffer y : f32[1,4,3] arena @112 align=16 role=output
  fill h[1,2,1]{10,5,1} 0
  fill h+4[1,2,1]{10,5,1} 0
  call map.generic map {expr={neg(x0)}} (x) -> h
  call conv.generic conv {strides=(1,), pads=(1, 1), dilations=(1,)} (h, w, b) -> a scratch s
  call map.generic map {expr={relu(x0)}} (a) -> c inplace(0)
  call map.generic map {expr={neg(x0)}} (c) -> y[1,2,3]{12,3,1}
  call map.generic map {expr={exp(x0)}} (c) -> y+6[1,2,3]{12,3,1}
}
"""


def _program(text: str = TEXT) -> Program:
    return parse_program(text, lookup, lambda kernel: None)


def _buffer(program: Program, name: str) -> Buffer:
    return next(b for b in program.module.buffers if b.name == name)


def _steps(program: Program) -> list[Call | Fill]:
    return list(program.body.linear())


def _set(program: Program, steps: list[Call | Fill]) -> None:
    program.module.body = Block(tuple(steps))


def _call(program: Program, index: int) -> Call:
    step = _steps(program)[index]
    assert isinstance(step, Call)
    return step


def _replace(program: Program, index: int, step: Call | Fill) -> None:
    steps = _steps(program)
    steps[index] = step
    _set(program, steps)


# -- faults: each changes a sound program -------------------------------------------------------------------------


def _move(name: str, offset: int) -> Callable[[Program], None]:
    def fault(program: Program) -> None:
        program.offsets[_buffer(program, name)] = offset

    return fault


def _swap(i: int, j: int) -> Callable[[Program], None]:
    def fault(program: Program) -> None:
        steps = _steps(program)
        steps[i], steps[j] = steps[j], steps[i]
        _set(program, steps)

    return fault


def _drop(index: int) -> Callable[[Program], None]:
    def fault(program: Program) -> None:
        steps = _steps(program)
        del steps[index]
        _set(program, steps)

    return fault


def _in_place_without_an_offer(program: Program) -> None:
    _replace(program, 4, replace(_call(program, 4), inplace=()))


def _in_place_at_other_elements(program: Program) -> None:
    call = _call(program, 4)
    (view,) = call.results
    backwards = replace(view, strides=(6, 3, -1), offset=2)
    _replace(program, 4, replace(call, results=(backwards,)))


def _in_place_on_an_operand_still_needed(program: Program) -> None:
    last = _call(program, 6)
    (a,) = _call(program, 4).reads
    _replace(program, 6, replace(last, reads=(a,)))


def _in_place_with_a_second_reader_in_the_call(program: Program) -> None:
    call = _call(program, 4)
    (a,) = call.reads
    assert a is not None
    shifted = replace(a, shape=(1, 2, 2), offset=1)
    _replace(program, 4, replace(call, reads=(a, shifted)))


def _in_place_by_a_convolution(program: Program) -> None:
    program.offsets[_buffer(program, "a")] = program.offsets[_buffer(program, "h")]
    program.offsets[_buffer(program, "c")] = program.offsets[_buffer(program, "h")]


def _view_out_of_its_buffer(program: Program) -> None:
    call = _call(program, 6)
    _replace(program, 6, replace(call, results=(replace(call.results[0], offset=7),)))


def _second_half_of_the_output_written_to_the_first(program: Program) -> None:
    call = _call(program, 6)
    _replace(program, 6, replace(call, results=(replace(call.results[0], offset=0),)))


def _no_address(program: Program) -> None:
    del program.offsets[_buffer(program, "c")]


FAULTS: dict[str, tuple[Callable[[Program], None], str]] = {
    "overlap of two live buffers": (_move("y", 80), "overlap"),
    "overlap of an operand and a result": (_move("a", 48), "overlap"),
    "a buffer on the input before that is read": (_move("h", 0), "overlap"),
    "scratch on an operand": (_move("s", 32), "overlap"),
    "scratch on a result": (_move("s", 80), "overlap"),
    "an offset shifted by one element": (_move("c", 84), "misaligned"),
    "an offset shifted by its alignment": (_move("c", 96), "overlap"),
    "an offset behind the arena": (_move("y", 144), "leaves the arena"),
    "a negative offset": (_move("x", -16), "leaves the arena"),
    "a missing address": (_no_address, "no address"),
    "overlapping blob entries": (_move("b", 40), "overlap in the blob"),
    "a blob entry behind the blob": (_move("b", 64), "leaves the blob"),
    "a reader before its writer": (_swap(3, 4), "overlap"),
    "a writer behind the end": (_swap(2, 3), "reads h, where nobody"),
    "a fill behind its reader": (_swap(0, 3), "reads h, where nobody"),
    "a lost fill on the left": (_drop(0), "reads h, where nobody has written 8"),
    "a lost fill on the right": (_drop(1), "reads h, where nobody has written 8"),
    "a lost call": (_drop(4), "reads c, where"),
    "half of an output": (_drop(6), "output y after the last step, where nobody has written 24"),
    "half of an output twice": (_second_half_of_the_output_written_to_the_first, "output y after the last step"),
    "in place without an offer": (_in_place_without_an_offer, "overlap"),
    "in place at other elements": (_in_place_at_other_elements, "writes c over a"),
    "in place on an operand that is still needed": (_in_place_on_an_operand_still_needed, "overlap"),
    "in place, read a second time elsewhere": (_in_place_with_a_second_reader_in_the_call, "writes c over a"),
    "in place by a convolution": (_in_place_by_a_convolution, "overlap"),
    "a view that leaves its buffer": (_view_out_of_its_buffer, "leaves y"),
}


def test_the_sound_program_passes() -> None:
    check_program(_program())


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_caught(name: str) -> None:
    fault, message = FAULTS[name]
    program = _program()
    fault(program)
    with pytest.raises(InternalError, match=message):
        check_program(program)


def test_kept_inputs_hold_to_the_end() -> None:
    program = _program()
    check_program(program, keep_inputs=True)
    program.offsets[_buffer(program, "s")] = 0
    check_program(program)
    with pytest.raises(InternalError, match="overlap"):
        check_program(program, keep_inputs=True)


@pytest.mark.parametrize("keep_inputs", [False, True])
@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("name", MODELS)
def test_a_plan_with_everything_at_one_address_is_refused(
    name: str, level: str, keep_inputs: bool, tmp_path: Path
) -> None:
    """Plans pass (they are checked as they are made); the same programs with no plan at all do not."""
    c = import_graph(write_model(name, tmp_path), Options(target="generic", opt_level=level, keep_inputs=keep_inputs))
    compile_program(c)
    program = c.program
    assert program is not None
    check_program(program, keep_inputs)
    for b in program.arena():
        program.offsets[b] = 0
    with pytest.raises(InternalError):
        check_program(program, keep_inputs)


@pytest.mark.parametrize("name", MODELS)
def test_every_lost_step_is_caught(name: str, tmp_path: Path) -> None:
    c = import_graph(write_model(name, tmp_path), Options(target="generic"))
    compile_program(c)
    program = c.program
    assert program is not None
    steps = _steps(program)
    filled = {s.view.buffer for s in steps if isinstance(s, Fill)}
    for i, step in enumerate(steps):
        if isinstance(step, Fill) or step.results[0].buffer in filled:
            continue  # of a pad's background and what is copied on it, one may cover the other
        program.module.body = Block(tuple(s for k, s in enumerate(steps) if k != i))
        with pytest.raises(InternalError):
            check_program(program)


def test_the_last_step_does_not_overwrite_an_output_or_a_kept_input() -> None:
    """Two outputs, the second computed from the first: their lives both reach past the last step."""
    text = """\
    program @p target=generic arena=64 blob=0 peak=64 bound=64 naive=64 algorithm="none" {
      buffer x : f32[4] arena @0 align=16 role=input
      buffer y : f32[4] arena @16 align=16 role=output
      buffer z : f32[4] arena @32 align=16 role=output
      call map.generic map {expr={neg(x0)}} (x) -> y inplace(0)
      call map.generic map {expr={exp(x0)}} (y) -> z inplace(0)
    }
    """
    program = _program(text)
    check_program(program, keep_inputs=True)
    program.offsets[_buffer(program, "z")] = 16
    with pytest.raises(InternalError, match="overlap"):
        check_program(program)
    assert plan(_program(text).module).arena_bytes == 32
    assert plan(_program(text).module, keep_inputs=True).arena_bytes == 48


CHOICES = """\
program @p target=generic arena=64 blob=0 peak=64 bound=64 naive=64 algorithm="none" {
  buffer x : f32[2] arena @0 align=16 role=input
  buffer few : bool[1] arena @16 align=16 role=input
  buffer y : f32[4] arena @32 align=16 role=output
  fill y+2[2]{1} 0 when(few)
  call map.generic map {expr={neg(x0)}} (x) -> y[2]{1} when(few)
  fill y[2]{1} 0 when(!few)
  call map.generic map {expr={exp(x0)}} (x) -> y+2[2]{1} when(!few)
}
"""


def test_the_background_of_another_choice_comes_behind_what_this_one_wrote() -> None:
    """Both write into the output, in runs of their own. Without conditions the second fill spoils the first."""
    check_program(_program(CHOICES), keep_inputs=True)
    for plain in (CHOICES.replace(" when(few)", "").replace(" when(!few)", ""), CHOICES.replace("!few", "few")):
        with pytest.raises(InternalError, match="fills what a call has written to y"):
            check_program(_program(plain), keep_inputs=True)
