"""Memory forwarding: which copies vanish, which stay and why, and that the C still computes the same."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call, Fill
from mccompile.ir.types import F32, TensorType, row_major
from mccompile.ir.views import Buffer, View, whole
from mccompile.kernel_passes.rewrite.steps import is_copy
from mccompile.kernel_passes.rewrite.views import seen_through
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, at_level, resolve
from tests.support.graphs import difference, random_inputs
from tests.support.opcases import Built, CaseLibrary


@dataclass(frozen=True)
class Example:
    """A graph, the copies before and after, a part of the reason why one stays, and the target."""

    title: str
    text: str
    copies: tuple[int, int]
    reason: str = ""
    target: str = "generic"


EXAMPLES = (
    Example(
        "trap: the vectors of a large result are not stored lane by lane into its rows, those of a small one are",
        """graph @g(%x: f32[1,64,32,32], %u: f32[1,64,4,4]) {
          %a = relayout(%x) : f32[1,64,32,32]:nhwc
          %b = relayout(%u) : f32[1,64,4,4]:nhwc
          %p = pool(%a) {mode='max', kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1),
                         dilations=(1, 1)} : f32[1,64,32,32]:nhwc
          %q = pool(%b) {mode='max', kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1),
                         dilations=(1, 1)} : f32[1,64,4,4]:nhwc
          %y = relayout(%p) : f32[1,64,32,32]
          %z = relayout(%q) : f32[1,64,4,4]
          return %y, %z
        }""",
        (4, 3),
        "store its vectors lane by lane",
        "x86-64-v3",
    ),
    Example(
        "trap: each phase of a large result is small, but meets half a line for each element",
        f"""graph @g(%x: f32[1,1,16,16]) {{
          %w = const {np.arange(48.0).tolist()} : f32[1,12,2,2]
          %p = conv_transpose(%x, %w) {{strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1),
                                       output_padding=(0, 0)}} : f32[1,12,32,32]:nhwc
          %y = relayout(%p) : f32[1,12,32,32]
          return %y
        }}""",
        (1, 1),
        "store its vectors lane by lane",
        "x86-64-v3",
    ),
    Example(
        "hit: of a large result each element has a line of its own, whoever stores it",
        """graph @g(%x: f32[1,3000,1], %u: f32[1,3000,84]) {
          %a = map(%x) {expr={sigmoid(x0)}} : f32[1,3000,1]
          %y = concat(%a, %u) {axis=2} : f32[1,3000,85]
          return %y
        }""",
        (2, 1),
        "",
        "x86-64-v3",
    ),
    Example(
        "hit: maps read a split by its strides",
        """graph @g(%x: f32[2,6,3]) {
          %a, %b = split(%x) {axis=1, sizes=(2, 4)} : f32[2,2,3], f32[2,4,3]
          %y = map(%a) {expr={neg(x0)}} : f32[2,2,3]
          %z = map(%b) {expr={(x0 + 1.0)}} : f32[2,4,3]
          return %y, %z
        }""",
        (2, 0),
    ),
    Example(
        "hit: a transpose, a reversed slice and a broadcast meet in one map",
        """graph @g(%x: f32[4,5], %u: f32[5,1]) {
          %t = transpose(%x) {perm=(1, 0)} : f32[5,4]
          %s = slice(%t) {starts=(4, 3), steps=(-1, -2), extents=(5, 2)} : f32[5,2]
          %e = expand(%u) {shape=(5, 2)} : f32[5,2]
          %y = map(%s, %e) {expr={(x0 * x1)}} : f32[5,2]
          return %y
        }""",
        (3, 0),
    ),
    Example(
        "hit: a reshaped transpose is read through more axes than its reader had",
        """graph @g(%x: f32[2,3,4]) {
          %t = transpose(%x) {perm=(0, 2, 1)} : f32[2,4,3]
          %r = reshape(%t) {shape=(24,)} : f32[24]
          %y = map(%r) {expr={(x0 + 0.5)}} : f32[24]
          return %y
        }""",
        (1, 0),
    ),
    Example(
        "hit: producers write into a concat, which is an output",
        """graph @g(%x: f32[1,2,3,3], %u: f32[1,1,3,3]) {
          %w = const [0.5, -1.0, 2.0, 1.5] : f32[2,2,1,1]
          %a = conv(%x, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,2,3,3]
          %b = map(%u) {expr={relu(x0)}} : f32[1,1,3,3]
          %y = concat(%a, %b) {axis=1} : f32[1,3,3,3]
          return %y
        }""",
        (2, 0),
    ),
    Example(
        "hit: concat of a concat, and a value that is read before all of it is there",
        """graph @g(%x: f32[3,4]) {
          %a = map(%x) {expr={relu(x0)}} : f32[3,4]
          %b = map(%a) {expr={exp(x0)}} : f32[3,4]
          %c = concat(%a, %b) {axis=1} : f32[3,8]
          %d = map(%b) {expr={neg(x0)}} : f32[3,4]
          %y = concat(%c, %d) {axis=1} : f32[3,12]
          return %y
        }""",
        (4, 0),
    ),
    Example(
        "hit: the background of a pad is filled before its producer writes",
        """graph @g(%x: f32[2,3]) {
          %a = map(%x) {expr={neg(x0)}} : f32[2,3]
          %y = pad(%a) {pads=(1, 0, 0, 2), value=7.0} : f32[3,5]
          return %y
        }""",
        (1, 0),
    ),
    Example(
        "hit: slices that a concat puts in order become one copy",
        """graph @g(%x: f32[4,6]) {
          %a = slice(%x) {starts=(0, 0), steps=(1, 3), extents=(4, 2)} : f32[4,2]
          %b = slice(%x) {starts=(0, 1), steps=(1, 3), extents=(4, 2)} : f32[4,2]
          %c = slice(%x) {starts=(0, 2), steps=(1, 3), extents=(4, 2)} : f32[4,2]
          %y = concat(%a, %b, %c) {axis=0} : f32[12,2]
          return %y
        }""",
        (6, 1),
    ),
    Example(
        "hit: a convolution of a scalar target reads pixels first",
        """graph @g(%x: f32[1,3,4,2]) {
          %w = const [0.5, -1.0, 2.0, 1.5] : f32[2,2,1,1]
          %t = transpose(%x) {perm=(0, 3, 1, 2)} : f32[1,2,3,4]
          %y = conv(%t, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,2,3,4]
          return %y
        }""",
        (1, 0),
    ),
    Example(
        "miss: vectors along the pixels want pixels beside each other",
        """graph @g(%x: f32[1,3,4,2]) {
          %w = const [0.5, -1.0, 2.0, 1.5] : f32[2,2,1,1]
          %t = transpose(%x) {perm=(0, 3, 1, 2)} : f32[1,2,3,4]
          %y = conv(%t, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,2,3,4]
          return %y
        }""",
        (1, 1),
        "neighbours",
        "x86-64-v3",
    ),
    Example(
        "hit: but they may be stored apart",
        """graph @g(%x: f32[1,2,3,4]) {
          %w = const [0.5, -1.0, 2.0, 1.5] : f32[2,2,1,1]
          %a = conv(%x, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,2,3,4]
          %t = transpose(%a) {perm=(0, 2, 3, 1)} : f32[1,3,4,2]
          %b = map(%a) {expr={neg(x0)}} : f32[1,2,3,4]
          return %t, %b
        }""",
        (1, 0),
        "",
        "x86-64-v3",
    ),
    Example(
        "miss: an input goes to an output",
        """graph @g(%x: f32[2,3], %u: f32[2,1]) {
          %y = concat(%x, %u) {axis=1} : f32[2,4]
          return %y
        }""",
        (2, 2),
        "an input",
    ),
    Example(
        "miss: a reader of two parts of a concat of an input and an input",
        """graph @g(%x: f32[3], %u: f32[2]) {
          %c = concat(%x, %u) {axis=0} : f32[5]
          %y = map(%c) {expr={neg(x0)}} : f32[5]
          return %y
        }""",
        (2, 2),
        "an input",
    ),
    Example(
        "hit: readers of one part each do not need the whole",
        """graph @g(%x: f32[3], %u: f32[2]) {
          %c = concat(%x, %u) {axis=0} : f32[5]
          %a = slice(%c) {starts=(1,), steps=(1,), extents=(2,)} : f32[2]
          %b = slice(%c) {starts=(3,), steps=(1,), extents=(2,)} : f32[2]
          %y = map(%a, %b) {expr={(x0 * x1)}} : f32[2]
          return %y
        }""",
        (4, 0),
    ),
    Example(
        "trap: a value that is an output and a part of another one stays in both",
        """graph @g(%x: f32[2,3]) {
          %a = map(%x) {expr={exp(x0)}} : f32[2,3]
          %b = map(%x) {expr={neg(x0)}} : f32[2,3]
          %y = concat(%a, %b) {axis=1} : f32[2,6]
          return %a, %y
        }""",
        (2, 1),
        "an output",
    ),
    Example(
        "trap: the same value twice in a concat has one place, and one copy",
        """graph @g(%x: f32[2,3]) {
          %a = map(%x) {expr={exp(x0)}} : f32[2,3]
          %y = concat(%a, %a) {axis=1} : f32[2,6]
          return %y
        }""",
        (2, 1),
    ),
    Example(
        "trap: what is repeated has no one place to be written to",
        """graph @g(%x: f32[1,3]) {
          %a = map(%x) {expr={exp(x0)}} : f32[1,3]
          %y = expand(%a) {shape=(4, 3)} : f32[4,3]
          return %y
        }""",
        (1, 1),
        "nested strides",
    ),
    Example(
        "trap: the peak would grow, as a part is needed long before the rest",
        """graph @g(%x: f32[1,4], %u: f32[64,4]) {
          %f = map(%x) {expr={exp(x0)}} : f32[1,4]
          %b = map(%u, %f) {expr={(x0 * x1)}} : f32[64,4]
          %c = reduce(%b) {mode='sum', axes=(0,)} : f32[1,4]
          %d = map(%f, %c) {expr={(x0 * x1)}} : f32[1,4]
          %e = expand(%d) {shape=(56, 4)} : f32[56,4]
          %h = concat(%f, %e) {axis=0} : f32[57,4]
          %y = reduce(%h) {mode='max', axes=(0,)} : f32[1,4]
          return %y
        }""",
        (3, 2),
        "the peak would grow",
    ),
)


def _compiled(example: Example, name: str, level: str = "O1") -> Built:
    graph = parse_graph(example.text, lookup)
    graph.name = name
    options = Options(target=example.target, opt_level=level, passes=())
    c = Compilation(name, "0" * 64, options, at_level(resolve(example.target), level), graph, [])
    return Built(0, Case([]), [], c, compile_program(c))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.title)
def test_copies_are_removed_or_say_why_not(example: Example) -> None:
    built = {level: _compiled(example, "g", level).compilation for level in ("O0", "O1")}
    improved = built["O1"].improved
    assert improved is not None
    assert improved.copies == example.copies
    left = [s for s in built["O1"].program.body.linear() if is_copy(s)]  # type: ignore[union-attr]
    assert len(left) == example.copies[1]
    assert any(example.reason in why for _, why in improved.kept) or not example.reason
    peaks = [built[level].program.facts.peak for level in ("O0", "O1")]  # type: ignore[union-attr]
    assert peaks[1] <= peaks[0] == improved.peak[0]


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_the_generated_code_computes_the_same(target: str, tmp_path: Path) -> None:
    """All examples in one library, each run twice on an arena full of 0xFF."""
    chosen = [e for e in EXAMPLES if e.target == target]
    built = [_compiled(e, f"g{i}", level) for i, e in enumerate(chosen) for level in ["O1"]]
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS]
    library = CaseLibrary(tmp_path, built, flags).build()
    for example, b in zip(chosen, built, strict=True):
        for seed in (1, 2):
            graph = parse_graph(example.text, lookup)
            inputs = random_inputs(graph, seed)
            want = {k: v.astype(np.float32) for k, v in graph.evaluate(inputs, wide=True).items()}
            got = dict(zip(want, library.run(b, inputs), strict=True))
            assert difference(want, got) < 1e-5, example.title


def test_small_code_decides_its_arguments_after_forwarding() -> None:
    """At -Os two maps that differ in strides only since they read views share one kernel."""
    example = next(e for e in EXAMPLES if "a split by its strides" in e.title)
    text = example.text.replace("(x0 + 1.0)", "neg(x0)")
    c = _compiled(Example("", text, (2, 0)), "g", "Os").compilation
    calls = [s for s in c.program.body.linear() if isinstance(s, Call)]  # type: ignore[union-attr]
    assert len(calls) == 2
    assert all("x0_e1" in call.args for call in calls)
    assert sum(k.kernel == "map.generic" for k in c.facts.kernels) == 1  # type: ignore[union-attr]


# -- views through copies, against an enumeration of all elements -------------------------------------------------
def _positions(view: View) -> list[int]:
    strides = view.axis_strides()
    grid = itertools.product(*(range(e) for e in view.shape))
    return [view.offset + sum(i * s for i, s in zip(at, strides, strict=True)) for at in grid]


def _random_box(buffer: Buffer, r: random.Random) -> View:
    """A transposed, stepped, reversed part of a tensor."""
    view = whole(buffer)
    strides, offset, shape = list(view.strides), 0, []
    for a, extent in enumerate(view.shape):
        step = r.choice([1, 1, 2])
        count = r.randint(1, -(-extent // step))
        first = r.randint(0, extent - 1 - (count - 1) * step)
        offset += first * strides[a]
        strides[a] *= step
        shape.append(count)
    order = r.sample(range(len(shape)), len(shape)) if r.random() < 0.5 else range(len(shape))
    return View(buffer, tuple(shape[a] for a in order), view.factors, tuple(strides[a] for a in order), offset)


def test_views_through_copies_address_the_same_elements() -> None:
    r = random.Random(3)
    found = refused = 0
    for _ in range(3000):
        extents = tuple(r.randint(1, 4) for _ in range(3))
        near_buffer, far_buffer, wide = (
            Buffer(n, TensorType(F32, tuple(e + more for e in extents)), "arena", 4)
            for n, more in (("near", 0), ("far", 2), ("wide", 1))
        )
        near = whole(near_buffer) if r.random() < 0.5 else _random_box(near_buffer, r)
        far = View(far_buffer, near.shape, near.factors, tuple(r.sample((1, 6, 36), 3)), r.randint(0, 5))
        view = _random_box(near_buffer, r)
        if near == whole(near_buffer) and r.random() < 0.5:
            count = near.count
            view = View(near_buffer, (count,), row_major(1), (r.choice([1, -1]),), 0)
            view = view if view.strides == (1,) else View(near_buffer, (count,), row_major(1), (-1,), count - 1)
        place = dict(zip(_positions(near), _positions(far), strict=True))
        want = [place.get(p) for p in _positions(view)]
        result = seen_through(view, near, far)
        if isinstance(result, str):
            refused += 1
            continue
        found += 1
        strides = [s for parts in result.parts for _, s in parts]
        shape = tuple(e for parts in result.parts for e, _ in parts)
        assert _positions(View(wide, shape, row_major(len(shape)), tuple(strides), result.offset)) == want
        if result.whole is not None:
            assert _positions(result.whole) == want
            assert result.whole.shape == view.shape
    assert found > 500
    assert refused > 500


def test_a_fill_stays_in_front_of_what_is_written_on_it() -> None:
    example = next(e for e in EXAMPLES if "background" in e.title)
    c = _compiled(example, "g").compilation
    steps = list(c.program.body.linear())  # type: ignore[union-attr]
    assert [type(s) for s in steps] == [Fill, Call]
