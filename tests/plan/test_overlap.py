"""Results written over what has been read: distances against a simulation, plans, and the generated code."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.errors import InternalError
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Block, Call
from mccompile.ir.kernel_text import print_program
from mccompile.ir.types import F32, TensorType, channels_last
from mccompile.ir.views import Buffer, View, whole
from mccompile.kernels.views.windows import Order, distance
from mccompile.ops.pool import Pool
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.ops.window import Window
from mccompile.plan.check import check_program
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.graphs import difference, random_inputs
from tests.support.opcases import Built, CaseLibrary

# -- distances ---------------------------------------------------------------------------------------------------


def _place(view: View, at: tuple[int, ...]) -> int:
    return view.offset + sum(i * s for i, s in zip(at, view.axis_strides(), strict=True))


def _reads(x: View, window: Window, channels: range, at: tuple[int, ...]) -> list[int]:
    """Places that the result element at (n, c, y...) takes."""
    taps = []
    for a, o in enumerate(at[2:]):
        found = [o * window.strides[a] - window.pads[a] + k * window.dilations[a] for k in range(window.kernel[a])]
        taps.append([i for i in found if 0 <= i < x.shape[2 + a]])
    return [_place(x, (at[0], c, *t)) for c in channels for t in itertools.product(*taps)]


def _broken(x: View, y: View, window: Window, groups: int, last: bool, gap: int) -> bool:
    """Whether an element is overwritten before it is read if x's buffer lies ``gap`` elements behind y's."""
    own, per = y.shape[1] // groups, x.shape[1] // groups
    order = [(0, 2, 3, 1), (0, 1, 2, 3)][not last]
    gone: set[int] = set()
    for index in itertools.product(*(range(y.shape[a]) for a in order)):
        at = tuple(index[order.index(a)] for a in range(4))
        group = at[1] // own
        if any(r + gap in gone for r in _reads(x, window, range(group * per, (group + 1) * per), at)):
            return True
        gone.add(_place(y, at))
    return False


def test_distances_are_safe_and_hardly_larger_than_need_be() -> None:
    r = random.Random(5)
    tight = 0
    for _ in range(60):
        groups, per, own = r.choice([(1, 2, 3), (3, 1, 1), (2, 1, 2), (2, 2, 1), (1, 1, 1)])
        kernel, strides, dilations = ([r.randint(1, 3) for _ in range(2)] for _ in range(3))
        pads = [r.randint(0, 2) for _ in range(4)]
        size = [r.randint(5, 7) for _ in range(2)]
        out = [
            (size[a] + pads[a] + pads[2 + a] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1 for a in range(2)
        ]
        layout = channels_last(4) if r.random() < 0.5 else None
        x, y = (
            whole(Buffer(n, TensorType(F32, (1, c, *s), layout), "arena", 4))
            for n, c, s in (("x", groups * per, size), ("y", groups * own, out))
        )
        if min(out) < 1:
            continue
        window = Window(tuple(kernel), tuple(strides), tuple(dilations), tuple(pads))
        last = layout is not None
        op = Pool("max", (1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
        call = Call("pool.generic", op, Order(last), (x,), (y,))
        channels = np.arange(groups * own) // own * per
        gap = distance(call, window, channels, last)
        if gap is None:
            continue
        assert gap % 4 == 0
        assert not _broken(x, y, window, groups, last, gap // 4), (window, groups, layout)
        tight += gap > 0 and _broken(x, y, window, groups, last, gap // 4 - 1)
    assert tight > 15


def test_text_with_another_batch_than_its_result_takes_no_memory() -> None:
    x, y = (whole(Buffer(n, TensorType(F32, (batch, 1, 4, 4)), "arena", 4)) for n, batch in (("x", 10**9), ("y", 1)))
    window = Window((1, 1), (1, 1), (1, 1), (0, 0, 0, 0))
    call = Call("pool.generic", Pool("max", (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)), Order(False), (x,), (y,))
    assert distance(call, window, np.zeros(1, np.int64), False) is None


# -- plans and code ----------------------------------------------------------------------------------------------
DEPTHWISE = """graph @g(%x: f32[1,2,6,5]) {
  %w = const [1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 0.25, 2.0, -0.5, 0.75, 1.0, -1.5,
              2.0, 0.5, 1.0, -3.0, 1.0, 0.5] : f32[2,1,3,3]
  %a = map(%x) {expr={relu(x0)}} : f32[1,2,6,5]
  %b = conv(%a, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=2} : f32[1,2,6,5]
  %c = pool(%b) {mode='average', kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,2,6,5]
  %d = conv(%c, %w) {strides=(2, 1), pads=(2, 1, 1, 0), dilations=(1, 1), groups=2} : f32[1,2,4,4]
  %y = map(%d) {expr={neg(x0)}} : f32[1,2,4,4]
  return %y
}"""

POINTWISE = """graph @g(%x: f32[1,4,5,6]) {
  %w = const [1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 0.25, 2.0, -0.5, 0.75, 1.0, -1.5, 2.0, 0.5, 1.0, -3.0] : f32[4,4,1,1]
  %s = const [1.0, -2.0, 0.5, 3.0] : f32[1,4,1,1]
  %a = map(%x) {expr={relu(x0)}} : f32[1,4,5,6]
  %b = conv(%a, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
       with(%s) post0{ relu((acc + x0)) } : f32[1,4,5,6]
  %c = conv(%b, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,4,5,6]
  %y = map(%c) {expr={neg(x0)}} : f32[1,4,5,6]
  return %y
}"""

WIDENING = """graph @g(%x: f32[1,24,16,1]) {
  %w = const [1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 0.25, 2.0, -0.5, 0.75, 1.0, -1.5, 2.0, 0.5, 1.0, -3.0] : f32[8,1,2,1]
  %v = const [1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 0.25, 2.0, -0.5, 0.75, 1.0, -1.5,
              2.0, 0.5, 1.0, -3.0, 0.5, 1.5, -1.0, 2.0, 0.75, -0.25, 1.0, 1.25] : f32[3,8,1,1]
  %t = reshape(%x) {shape=(1, 1, 24, 16)} : f32[1,1,24,16]
  %a = map(%t) {expr={relu(x0)}} : f32[1,1,24,16]
  %b = conv(%a, %w) {strides=(1, 2), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,8,23,8]
  %c = conv(%b, %v) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,3,23,8]
  %y = reduce(%c) {mode='sum', axes=(2, 3)} : f32[1,3,1,1]
  return %y
}"""


def _compiled(text: str, name: str) -> Built:
    graph = parse_graph(text, lookup)
    graph.name = name
    c = Compilation(name, "0" * 64, Options(target="generic", passes=()), resolve("generic"), graph, [])
    return Built(0, Case([]), [], c, compile_program(c))


def _calls(b: Built) -> list[Call]:
    return [s for s in b.compilation.program.body.linear() if isinstance(s, Call)]  # type: ignore[union-attr]


def _overlapping(b: Built) -> list[Call]:
    """Calls that write over their first operand's buffer without being in place."""
    program = b.compilation.program
    assert program is not None
    pairs = ((c, c.reads[0], c.results[0]) for c in _calls(b) if c.near)
    return [c for c, x, y in pairs if x is not None and program.overlap(x.buffer, y.buffer)]


def test_depthwise_and_pools_slide_over_their_operands() -> None:
    b = _compiled(DEPTHWISE, "g")
    assert [c.kernel for c in _overlapping(b)] == ["conv.generic", "pool.generic", "conv.generic"]
    plane = 2 * 6 * 5 * 4
    assert b.compilation.program.facts.peak <= plane + 3 * 64  # type: ignore[union-attr]


def test_pointwise_convolutions_take_the_place_of_their_operands() -> None:
    b = _compiled(POINTWISE, "g")
    orders = [c.params for c in _calls(b) if isinstance(c.params, Order)]
    assert any(o.pixel_buffer for o in orders) or all(o.channels_last for o in orders)
    plane = 4 * 5 * 6 * 4
    assert b.compilation.program.facts.peak <= plane + 64  # type: ignore[union-attr]


def test_planes_are_stored_pixel_by_pixel_where_that_saves_memory() -> None:
    b = _compiled(WIDENING, "g")
    orders = [c.params for c in _calls(b) if isinstance(c.params, Order)]
    assert all(o.channels_last for o in orders)
    assert b.compilation.program.facts.peak < 23 * 8 * (8 + 3) * 4  # type: ignore[union-attr]


def test_vector_targets_keep_their_layout() -> None:
    graph = parse_graph(WIDENING, lookup)
    c = Compilation("g", "0" * 64, Options(target="x86-64-v3", passes=()), resolve("x86-64-v3"), graph, [])
    compile_program(c)
    assert all(b.type.layout is None for b in c.program.arena())  # type: ignore[union-attr]


def test_the_generated_code_computes_the_same(tmp_path: Path) -> None:
    texts = [DEPTHWISE, POINTWISE, WIDENING]
    built = [_compiled(t, f"g{i}") for i, t in enumerate(texts)]
    library = CaseLibrary(tmp_path, built, [*resolve("generic").c_flags, *STRICT_WARNINGS]).build()
    for text, b in zip(texts, built, strict=True):
        for seed in (1, 2):
            graph = parse_graph(text, lookup)
            inputs = random_inputs(graph, seed)
            want = {k: v.astype(np.float32) for k, v in graph.evaluate(inputs, wide=True).items()}
            got = dict(zip(want, library.run(b, inputs), strict=True))
            assert difference(want, got) < 1e-5


def test_the_offer_is_in_the_text() -> None:
    b = _compiled(DEPTHWISE, "g")
    assert " near(0:" in print_program(b.compilation.program)  # type: ignore[arg-type]


# -- planted faults ----------------------------------------------------------------------------------------------
def test_an_operand_that_lies_too_near_is_refused() -> None:
    b = _compiled(DEPTHWISE, "g")
    program = b.compilation.program
    assert program is not None
    check_program(program)
    call = _overlapping(b)[0]
    x, y = call.reads[0], call.results[0]
    assert x is not None
    between = program.offsets[x.buffer] - program.offsets[y.buffer]
    ((_, distance),) = call.near
    assert between >= distance
    steps = list(program.body.linear())
    for near in ((), ((0, between + 4),)):
        wrong = [replace(call, near=near) if s is call else s for s in steps]
        program.module.body = Block(tuple(wrong))
        with pytest.raises(InternalError, match="overlap"):
            check_program(program)
    program.module.body = Block(tuple(steps))
    check_program(program)


def test_an_operand_that_is_read_later_is_not_overwritten() -> None:
    text = DEPTHWISE.replace("return %y", "%z = map(%a, %b) {expr={(x0 + x1)}} : f32[1,2,6,5]\n  return %y, %z")
    b = _compiled(text, "g")
    first = next(c for c in _calls(b) if c.kernel == "conv.generic")
    assert first not in _overlapping(b)
