"""Arenas in several memories: hot tensors in the fastest, every part within its limit, misfits explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from mccompile import driver
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, InternalError, UsageError
from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.ir.kernel_parse import parse_program
from mccompile.ir.kernel_text import print_program
from mccompile.ir.program import Program, Region
from mccompile.ir.views import Buffer
from mccompile.ops.registry import lookup
from mccompile.plan.check import check_program
from mccompile.plan.plan import lifetimes, memory_problem, plan
from mccompile.plan.regions import access_bytes, place_regions
from tests.kernels.cases import Net
from tests.support.small_models import MODELS, write_model

TEXT = """\
program @p target=generic arena=160 blob=0 regions(fast=64/64, slow=96/100) {
  buffer x : f32[8] arena.fast @0 align=16 role=input
  buffer a : f32[8] arena.fast @32 align=16
  buffer b : f32[8] arena.fast @32 align=16
  buffer c : f32[8] arena.slow @0 align=16
  buffer d : f32[8] arena.slow @32 align=16
  buffer y : f32[8] arena.slow @64 align=16 role=output
  call map.generic map {expr={neg(x0)}} (x) -> a
  call map.generic map {expr={relu(x0)}} (a) -> b inplace(0)
  call map.generic map {expr={neg(x0)}} (b) -> c
  call map.generic map {expr={neg(x0)}} (c) -> d
  call map.generic map {expr={add(x0, x1)}} (d, x) -> y
}
"""


def _program(text: str = TEXT) -> Program:
    return parse_program(text, lookup, lambda kernel: None)


def _buffer(program: Program, name: str) -> Buffer:
    return next(b for b in program.module.buffers if b.name == name)


# -- text ----------------------------------------------------------------------------------------------------------


def test_regions_round_trip() -> None:
    program = _program()
    assert program.regions == (Region("fast", 64, 64), Region("slow", 96, 100))
    assert [b.region for b in program.module.buffers] == ["fast"] * 3 + ["slow"] * 3
    text = print_program(program)
    assert "regions(fast=64/64, slow=96/100)" in text
    assert print_program(_program(text)) == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("arena.slow @64", "arena.flash @64", "no region of the program"),
        ("arena.slow @64", "arena @64", "no region of the program"),
        (" regions(fast=64/64, slow=96/100)", "", "no region of the program"),
        ("slow=96/100", "fast=96/100", "given twice"),
        ("slow=96/100", "slow=96", "'/'"),
        ("@64 align=16 role=output", "@80 align=16 role=output", "outside of the slow of 96 bytes"),
    ],
)
def test_malformed_regions_are_refused(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(CompileError) as caught:
        _program(TEXT.replace(old, new))
    assert message in str(caught.value)


def test_kernel_ir_knows_no_regions(tmp_path: Path) -> None:
    """They are the planner's: a module that was planned once is planned anew without a trace."""
    c = _placed("residual", tmp_path, memory=(("fast", 600), ("slow", 100_000)))
    assert c.lowered is not None
    again = plan(c.lowered.module)
    assert not again.regions
    assert all(b.region == "" for b in again.module.buffers)


# -- the checker ---------------------------------------------------------------------------------------------------


def _move(name: str, region: str, offset: int) -> Callable[[Program], None]:
    def fault(program: Program) -> None:
        _buffer(program, name).region = region
        program.offsets[_buffer(program, name)] = offset

    return fault


def _regions(*regions: Region) -> Callable[[Program], None]:
    def fault(program: Program) -> None:
        program.regions = regions

    return fault


FAULTS: dict[str, tuple[Callable[[Program], None], str]] = {
    "into a live buffer of another region": (_move("c", "fast", 32), "b at fast|c at fast"),
    "onto an input that is still needed": (_move("d", "fast", 0), "overlap"),
    "behind the region's end": (_move("d", "fast", 64), "leaves the arena of 64 bytes"),
    "before the region": (_move("d", "slow", -16), "misaligned or leaves"),
    "misaligned": (_move("d", "slow", 24), "misaligned"),
    "in a region that is not there": (_move("d", "flash", 0), "does not have"),
    "in no region": (_move("d", "", 0), "does not have"),
    "onto a live neighbour": (_move("d", "slow", 0), "overlap"),
    "more than there is": (_regions(Region("fast", 64, 48), Region("slow", 96, 100)), "takes 64 bytes of 48"),
    "another sum": (_regions(Region("fast", 64, 64), Region("slow", 112, 200)), "do not add up"),
    "a name twice": (_regions(Region("fast", 64, 64), Region("fast", 96, 96)), "share a name"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_caught(fault: str) -> None:
    program = _program()
    check_program(program)
    plant, message = FAULTS[fault]
    plant(program)
    with pytest.raises(InternalError) as caught:
        check_program(program)
    assert any(m in str(caught.value) for m in message.split("|")), str(caught.value)


def test_equal_offsets_in_different_regions_do_not_overlap() -> None:
    program = _program()
    check_program(program)
    x, c = _buffer(program, "x"), _buffer(program, "c")
    assert program.offsets[x] == program.offsets[c]
    assert not program.overlap(x, c)
    assert program.overlap(_buffer(program, "a"), _buffer(program, "b"))


def test_in_place_across_regions_is_no_overlap() -> None:
    """A result that is offered an operand's bytes may still lie elsewhere."""
    program = _program()
    _move("b", "slow", 32)(program)
    check_program(program)
    call = next(s for s in program.body.linear() if isinstance(s, Call) and s.inplace)
    assert program.shared_inputs(call) == frozenset()


# -- the choice ----------------------------------------------------------------------------------------------------


def _placed(name: str, folder: Path, **options: object) -> driver.Compilation:
    c = driver.open_model(write_model(name, folder), Options(target="generic", **options))  # type: ignore[arg-type]
    driver.place_program(c)
    return c


def _program_of(c: driver.Compilation) -> Program:
    assert c.program is not None
    return c.program


@pytest.mark.parametrize("name", MODELS)
def test_parts_fit_and_add_up(name: str, tmp_path: Path) -> None:
    whole = _program_of(_placed(name, tmp_path)).arena_bytes
    for share in (0.25, 0.5, 0.75):
        limit = int(whole * share)
        program = _program_of(_placed(name, tmp_path, memory=(("fast", limit), ("slow", 2 * whole))))
        assert all(r.nbytes <= r.limit for r in program.regions)
        assert sum(r.nbytes for r in program.regions) == program.arena_bytes
        assert {b.region for b in program.arena()} == {r.name for r in program.regions}
        check_program(program)


@pytest.mark.parametrize("name", MODELS)
def test_one_memory_that_has_room_is_the_plan_without_memories(name: str, tmp_path: Path) -> None:
    whole = _program_of(_placed(name, tmp_path)).arena_bytes
    program = _program_of(_placed(name, tmp_path, memory=(("fast", 100 * whole), ("slow", whole))))
    assert [r.name for r in program.regions] == ["fast"]
    assert program.arena_bytes == whole


def test_an_exactly_large_enough_memory_is_enough(tmp_path: Path) -> None:
    for name in ("residual", "concat"):
        whole = _program_of(_placed(name, tmp_path)).arena_bytes
        assert _program_of(_placed(name, tmp_path, memory=(("only", whole),))).arena_bytes == whole
        with pytest.raises(CompileError):
            _placed(name, tmp_path, memory=(("only", whole - 1),))


def _module(text: str) -> KernelModule:
    module = _program(text).module
    module.body = Block(tuple(module.body.linear()))
    for b in module.buffers:
        b.region = ""
    return module


CHAIN = """\
program @p target=generic arena=1000 blob=0 {
  buffer x : f32[8] arena @0 align=16 role=input
  buffer cold : f32[8] arena @0 align=16
  buffer hot : f32[8] arena @0 align=16
  buffer y : f32[8] arena @0 align=16 role=output
  call map.generic map {expr={neg(x0)}} (x) -> cold
  call map.generic map {expr={neg(x0)}} (x) -> hot
  call map.generic map {expr={mul(x0, x1)}} (hot, hot) -> y
  call map.generic map {expr={mul(x0, x1)}} (hot, hot) -> y
  call map.generic map {expr={mul(x0, x1)}} (hot, cold) -> y
}
"""


def test_the_hottest_goes_to_the_fastest() -> None:
    module = _module(CHAIN)
    problem, index = memory_problem(module, lifetimes(module))
    accesses = {b.name: n for b, n in access_bytes(module, {}).items()}
    assert accesses == {"x": 64, "cold": 64, "hot": 32 * 6, "y": 96}
    placed = place_regions(module, problem, index, (("fast", 32), ("slow", 1000)))
    fast = {b.name for b, region in placed.region_of.items() if region == "fast"}
    assert "hot" in fast
    assert "cold" not in fast


def test_repeated_reads_of_a_kernel_count(tmp_path: Path) -> None:
    """A convolution reads its input once per multiply-add: it is hotter than what is only copied."""
    c = _placed("concat", tmp_path)
    module = _program_of(c).module
    calls = [s for s in module.body.linear() if isinstance(s, Call) and s.op.name == "conv"]
    (last,) = [s for s in calls if s.results[0].shape == (1, 6, 5, 5)]
    assert last.reads[0] is not None
    operand = last.reads[0].buffer
    macs = 6 * 25 * 9
    plain, weighted = access_bytes(module, {}), access_bytes(module, {last.origins: macs})
    assert weighted[operand] - plain[operand] == 4 * (macs - last.reads[0].count)


# -- what does not fit ---------------------------------------------------------------------------------------------


def test_a_misfit_says_by_how_much_and_why(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        _placed("concat", tmp_path, memory=(("fast", 256), ("slow", 1024)))
    said = str(caught.value)
    assert "fast 256, slow 1,024; 1,280 bytes" in said
    assert "more than it has" in said
    assert "peak: step" in said
    assert "alive:" in said
    assert "alone takes 1,500 bytes, more than any of them" in said


def test_what_needs_least_says_by_how_much(tmp_path: Path) -> None:
    """In strips of rows less is needed, wherever they are among what is tried."""
    net = Net(3)
    a = net("Relu", net.conv(net.input(1, 8, 40, 40), (32, 8, 3, 3), pads=[1] * 4))
    b = net("Relu", net.conv(a, (32, 32, 3, 3), pads=[1] * 4))
    onnx.save(net.model(net.conv(b, (48, 32, 3, 3), pads=[1] * 4, strides=[2, 2])), tmp_path / "m.onnx")
    said, memory = [], (("a", 40960), ("b", 51200))
    for strips in ("auto", "always"):
        with pytest.raises(CompileError, match="more than it has") as caught:
            driver.compile_files(tmp_path / "m.onnx", Options(target="x86-64-v3", memory=memory, stream_rows=strips))
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_memories_that_only_fit_together(tmp_path: Path) -> None:
    """Neither holds it alone, and the hottest are not the ones that have to move."""
    whole = _program_of(_placed("residual", tmp_path)).arena_bytes
    program = _program_of(_placed("residual", tmp_path, memory=(("a", whole - 64), ("b", 512))))
    assert {r.name for r in program.regions} == {"a", "b"}


@pytest.mark.parametrize("memory", [(("Fast", 99),), (("a", 9), ("a", 9)), (("a", 0),), (("", 9),), (("a-b", 9),)])
def test_odd_memories_are_refused(memory: tuple[tuple[str, int], ...], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        _placed("residual", tmp_path, memory=memory)


# -- --ram ---------------------------------------------------------------------------------------------------------


def test_ram_brings_kernels_without_halos(tmp_path: Path) -> None:
    """A vector kernel wants a halo around its operand, which takes memory that there is not."""
    model = write_model("residual", tmp_path)

    def placed(**options: object) -> driver.Compilation:
        c = driver.open_model(model, Options(target="x86-64-v3", **options))  # type: ignore[arg-type]
        driver.place_program(c)
        return c

    fast = placed()
    needs = _program_of(fast).arena_bytes
    assert any(b.halo for b in _program_of(fast).arena())
    same = placed(ram=needs)
    assert print_program(_program_of(same)) == print_program(_program_of(fast))
    assert same.notes == fast.notes
    lean = placed(ram=needs - 1)
    assert _program_of(lean).arena_bytes < needs
    assert not any(b.halo for b in _program_of(lean).arena())
    assert any("kernels without halos" in n for n in lean.notes)
    assert _program_of(placed(ram=1)).arena_bytes == _program_of(lean).arena_bytes
    memory = (("only", needs - 1),)
    regions = placed(memory=memory)
    assert any("kernels without halos" in n for n in regions.notes)
