"""Calls of one form are printed once, and what is printed is what each of them would be by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mccompile.codegen import printed as printing
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.call_form import call_form
from mccompile.codegen.printed import kernel_text
from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir import expr as ex
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32, I8
from mccompile.ops.registry import lookup
from mccompile.targets.target import Target, resolve
from tests.support.graphs import fill_constants

CONV = "{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}"
TEXT = f"""graph @g(%x: f32[1,4,6,6]) {{
  %u = const : f32[4,4,3,3] ; sha256=0
  %v = const : f32[4,4,3,3] ; sha256=0
  %w = const : f32[4,4,3,3] ; sha256=0
  %b = const : f32[4,1,1] ; sha256=0
  %c = const : f32[4,1,1] ; sha256=0
  %p = conv(%x, %u) {CONV} with(%b) post0{{ relu((acc + x0)) }} : f32[1,4,6,6]
  %q = conv(%p, %v) {CONV} with(%c) post0{{ relu((acc + x0)) }} : f32[1,4,6,6]
  %r = conv(%q, %w) {CONV} with(%c) post0{{ (acc + x0) }} : f32[1,4,6,6]
  %s = pad(%r) {{pads=(0, 0, 0, 0, 0, 0, 1, 0), mode='constant', value=0.0}} : f32[1,4,7,6]
  return %s
}}
"""


def compiled(target: str) -> Compilation:
    graph = parse_graph(TEXT, lookup)
    fill_constants(graph, seed=3)
    c = Compilation("g", "0" * 64, Options(target=target), resolve(target), graph, [])
    compile_program(c)
    return c


def calls(c: Compilation) -> list[Call]:
    assert c.program is not None
    return [s for s in c.program.body.linear() if isinstance(s, Call)]


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "cortex-m4"])
def test_calls_of_one_form_are_printed_once(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []

    def counted(context: KernelContext, of: Target) -> str:
        printed.append(context.call.kernel)
        return kernel_text(context, of)

    monkeypatch.setattr(printing, "kernel_text", counted)
    once, count = compiled(target).facts, len(printed)
    monkeypatch.setattr(printing, "call_form", lambda call: None)
    apart = compiled(target).facts
    assert once is not None
    assert apart is not None
    assert [k.text for k in once.kernels] == [k.text for k in apart.kernels]
    assert count < len(printed) - count


def test_what_a_kernel_does_not_see_is_no_part_of_a_form() -> None:
    first, second, third = (c for c in calls(compiled("generic")) if c.op.name == "conv")
    assert first.reads[1] is not second.reads[1]
    assert call_form(replace(first, origins=("a",))) == call_form(first)
    assert call_form(second) != call_form(third)


def test_where_a_view_begins_is_no_part_of_a_form() -> None:
    call = next(c for c in calls(compiled("generic")) if c.op.name == "conv")
    (result,) = call.results
    whole, *places = (replace(result, offset=at) for at in (0, 36, 72))
    forms = [call_form(replace(call, results=(v,))) for v in (whole, *places)]
    assert forms[1] == forms[2]
    assert forms[0] != forms[1], "what is a whole buffer may be counted through as one"
    beside = [call_form(replace(call, reads=(v, call.reads[1]), results=(places[0],))) for v in places]
    assert beside[0] != beside[1], "elements may be read where they are written"


def test_numbers_that_are_equal_may_be_printed_differently() -> None:
    call = calls(compiled("generic"))[0]
    forms = {call_form(replace(call, params=value)) for value in (0.0, -0.0, 0, 1, 1.0, True)}
    assert len(forms) == 6


def test_a_form_says_how_large_what_is_rounded_may_be() -> None:
    call = next(c for c in calls(compiled("generic")) if c.extras)
    (extra,) = call.extras
    assert extra.buffer.data is not None
    larger = replace(extra, buffer=replace(extra.buffer, data=np.full_like(extra.buffer.data, 1e12)))
    rounding = ex.convert(ex.apply("rne", ex.apply("add", ex.acc(F32), ex.var(0, F32))), I8)
    for post, alike in ((call.post, True), (((0, rounding),), False)):
        small, large = (replace(call, post=post, extras=(e,)) for e in (extra, larger))
        assert (call_form(small) == call_form(large)) is alike
