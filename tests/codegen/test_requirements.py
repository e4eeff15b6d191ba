"""Templates say what they take for granted: a call that is not so ends in an error, not in wrong C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mccompile.codegen.binding import KernelContext
from mccompile.codegen.printed import kernel_text
from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32
from mccompile.ops.registry import lookup
from mccompile.targets.target import resolve
from tests._skips import REPOSITORY
from tests.golden.golden import FOLDER, parts
from tests.support.graphs import fill_constants

TEMPLATES = REPOSITORY / "kernels_templates"


def template_of(path: Path) -> str:
    family, variant = path.stem.split(".")
    return (TEMPLATES / family / f"{variant}.c.j2").read_text()


REQUIREMENTS = ("k.raw(0", "k.weighted")
RAW = [p for p in sorted(FOLDER.glob("*.mcir")) if any(asked in template_of(p) for asked in REQUIREMENTS)]
"""Golden graphs of kernels whose templates read what is stored."""


def call_of(path_index: int) -> tuple[Call, Options]:
    part = parts(RAW[path_index])[0]
    graph = parse_graph(part.text, lookup)
    fill_constants(graph, seed=1)
    options = Options(target=part.target, passes=(), kernels=part.force)
    c = Compilation(graph.name, "0" * 64, options, resolve(part.target), graph, [])
    compile_program(c)
    assert c.program is not None
    steps = [s for s in c.program.body.linear() if isinstance(s, Call) and s.kernel == part.kernel]
    return steps[0], options


def test_templates_that_read_what_is_stored_are_known() -> None:
    assert len(RAW) >= 10


@pytest.mark.parametrize("number", range(len(RAW)), ids=[p.stem for p in RAW])
def test_a_prologue_is_no_operand_as_it_is_stored(number: int) -> None:
    call, options = call_of(number)
    target = resolve(options.target)
    assert kernel_text(KernelContext(call), target)
    asked = replace(call, pre=((0, ex.apply("neg", ex.acc(F32))),))
    with pytest.raises(InternalError, match=f"the template of {call.kernel} handles floats without prologues"):
        kernel_text(KernelContext(asked), target)
    shared = replace(call, args=("y0_e0",))
    with pytest.raises(InternalError, match=f"the template of {call.kernel} handles"):
        kernel_text(KernelContext(shared), target)
