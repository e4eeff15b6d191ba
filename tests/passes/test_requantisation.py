"""Rounding by integers is right for every sum: its proofs are held against brute force, and find planted errors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import F32, I8, I32
from mccompile.ops.registry import lookup
from mccompile.passes.analysis import fixed_point
from mccompile.passes.analysis.fixed_point import EVERY, TIE, Channels, Fixed, Steps, _compared, _Met, fit
from mccompile.passes.analysis.forms import form_of
from mccompile.passes.analysis.quantised import linear
from mccompile.passes.analysis.sums import sum_range
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve, rounding_as

Array = np.ndarray[Any, np.dtype[Any]]
CHANNELS = 320
"""Drawn for the proof; 16 more have ranges of 2^20."""


@dataclass(frozen=True)
class Channel:
    """rne(f32(sum) * scale + rest) + zero, cut off; sums from ``low`` to ``high``."""

    scale: float
    rest: float
    zero: int
    ends: tuple[int, int]
    low: int
    high: int

    @property
    def offset(self) -> float:
        return self.rest + self.zero

    def value(self, a: Array, of: Channels = EVERY) -> Array:
        """As a network computes it, in f32."""
        product = a.astype(np.float32) * np.float32(self.scale) + np.float32(self.rest)
        return np.asarray(np.clip(np.rint(product) + np.float32(self.zero), *self.ends)).astype(np.int64)

    def steps(self) -> Steps:
        return Steps(self.value, np.array([self.low]), np.array([self.high]))

    def fitted(self) -> tuple[Fixed, int] | str:
        return fit(np.array([self.scale]), np.array([self.offset]), self.steps())

    def met(self) -> _Met:
        return _Met.of(np.array([self.scale]), np.array([self.offset]), self.steps())

    def sums(self) -> Array:
        return np.arange(self.low, self.high + 1)[:, None]

    def wrong(self, got: Array) -> int:
        """How many sums of all are rounded to what is no nearest number and no side of a tie."""
        real = np.clip(self.scale * self.sums().astype(np.float64) + self.offset, *self.ends)
        return int((np.abs(got - real) > TIE).sum())


def drawn(seed: int, reach: float = 0) -> Channel:
    """Scales from 1e-6 to 8, zero points at both ends and between, half of them with relu; ranges to 2^20."""
    rng = np.random.default_rng(seed)
    signed = bool(rng.integers(2))
    least, most = (-128, 127) if signed else (0, 255)
    zero = int(rng.choice([least, most, rng.integers(least, most + 1)]))
    low_end, high_end = (zero, most) if rng.integers(2) else (least, most)
    if rng.integers(3) == 0:  # relu6 and its like
        high_end = int(rng.integers(low_end, most + 1))
    span = 2.0 ** (reach or rng.uniform(3, 20))
    below = int(span * rng.uniform(0, 1))
    scale = float(np.float32(np.exp(rng.uniform(np.log(1e-6), np.log(8)))))
    rest = 0.0 if rng.integers(3) == 0 else float(np.float32(rng.uniform(-40, 40)))
    return Channel(scale, rest, zero, (low_end, high_end), -below, int(span) - 1 - below)


def channels() -> Iterator[Channel]:
    yield from (drawn(seed) for seed in range(CHANNELS))
    yield from (drawn(seed, 20) for seed in range(1000, 1016))


def test_an_accepted_multiplication_is_right_for_every_sum() -> None:
    accepted = 0
    for channel in channels():
        found = channel.fitted()
        if isinstance(found, str):
            continue
        accepted += 1
        fixed, differing = found
        sums = channel.sums()
        got = fixed.evaluate(sums)
        assert not channel.wrong(got), channel
        assert differing == int((got != channel.value(sums)).sum()), channel
    assert accepted >= 0.97 * (CHANNELS + 16), f"only {accepted} were accepted"


def test_no_number_leaves_32_bits() -> None:
    """What the C computes with: sums that are raised, multipliers, and what is added to a high half."""
    for channel in channels():
        found = channel.fitted()
        if isinstance(found, str):
            continue
        g = found[0]
        ends = np.array([channel.low, channel.high])
        raised = (ends + g.start) << g.up
        total = ((raised * g.m) >> 32) + g.c
        for a in (ends + g.start, raised, g.m, g.c, total):
            assert (a >= -(2**31)).all(), channel
            assert (a < 2**31).all(), channel
        assert 0 <= g.s < 32


def planted(g: Fixed) -> Iterator[tuple[str, Fixed]]:
    for by in (-1, 1, -64, 64, -(2**16), 2**16):
        yield f"m {by:+}", replace(g, m=np.clip(g.m + by, 1, 2**31 - 1))
    for by in (-1, 1, -(2 ** max(g.s - 2, 0)), 2 ** max(g.s - 2, 0)):
        yield f"c {by:+}", replace(g, c=g.c + by)
    for s in (g.s - 1, g.s + 1):
        if 0 <= s < 32:
            yield f"s {s - g.s:+}", replace(g, s=s)
    for by in (-3, 3):
        yield f"start {by:+}", replace(g, start=g.start + by)


def test_planted_errors_are_found_where_they_matter() -> None:
    """The proof by steps says of every spoilt multiplication what brute force says of all its sums."""
    found: dict[str, list[bool]] = {}
    for channel in (drawn(seed, 14) for seed in range(100)):
        right = channel.fitted()
        if isinstance(right, str):
            continue
        met = channel.met()
        for kind, g in planted(right[0]):
            verdict = _compared(g, met, channel.steps())
            if isinstance(verdict, str) and "32 bits" in verdict:
                continue
            wrong = channel.wrong(g.evaluate(channel.sums())) > 0
            assert isinstance(verdict, str) == wrong, f"{kind} of {channel}: {verdict}"
            found.setdefault(kind.split()[0], []).append(wrong)
    assert set(found) == {"m", "c", "s", "start"}
    for kind, verdicts in found.items():
        assert any(verdicts), f"no error in {kind} mattered"
        assert not all(verdicts) or kind == "s", f"every error in {kind} mattered: nothing tells it from a guess"


def test_a_multiplication_for_a_smaller_range_is_refused_for_a_larger() -> None:
    """With the fewest bits that a small range needs, as a fit whose range was too small would have it."""
    refused = 0
    for seed in range(60):
        channel = drawn(seed, 18)
        small = replace(channel, low=channel.low // 64, high=channel.high // 64)
        right = small.fitted()
        if isinstance(right, str):
            continue
        g = right[0]
        coarse = replace(g, m=(g.m >> 16 << 16) + 1)
        verdict = _compared(coarse, channel.met(), channel.steps())
        wrong = channel.wrong(coarse.evaluate(channel.sums())) > 0
        if not (isinstance(verdict, str) and "32 bits" in verdict):
            assert isinstance(verdict, str) == wrong, channel
        fits_small = not small.wrong(coarse.evaluate(small.sums()))
        refused += isinstance(verdict, str) and fits_small
    assert refused >= 3


def test_channels_of_a_layer_share_a_shift() -> None:
    """Scales that lie a factor of 4,000 apart: one s, and every channel right for all its sums."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        count = 9
        scale = np.exp(rng.uniform(np.log(2e-5), np.log(0.08), count)).astype(np.float32).astype(np.float64)
        start = rng.integers(-900, 900, count)
        offset = start * scale - 7
        high = rng.integers(100, 60000, count)
        low = -rng.integers(100, 60000, count)

        def value(a: Array, of: Channels, scale: Array = scale, start: Array = start) -> Array:
            product = (a + start[of]).astype(np.float32) * scale[of].astype(np.float32)
            return np.asarray(np.clip(np.rint(product) - 7, -128, 127)).astype(np.int64)

        found = fit(scale, offset, Steps(value, low, high))
        assert not isinstance(found, str), found
        for k in range(count):
            sums = np.arange(low[k], high[k] + 1)
            got = found[0].evaluate(np.broadcast_to(sums[:, None], (sums.size, count)))[:, k]
            real = np.clip(sums * scale[k] + offset[k], -128, 127)
            assert (np.abs(got - real) <= TIE).all()


def test_a_channel_that_is_constant_stops_no_other() -> None:
    """One with a bias far beyond the ends of the type, in front of three that vary; and alone."""
    scale, start = np.array([0.5, 0.004, 0.02, 1e-6]), np.array([-1e6, 3.0, 9.0, 2.0])
    low, high = np.full(4, -20000), np.full(4, 20000)
    for picked in ([0, 1, 2, 3], [0, 2], [0]):
        s, b = scale[picked], start[picked]

        def value(a: Array, of: Channels, s: Array = s, b: Array = b) -> Array:
            return np.asarray(np.clip(np.rint(a * s[of] + b[of]), -128, 127)).astype(np.int64)

        found = fit(s, b, Steps(value, low[picked], high[picked]))
        assert not isinstance(found, str), found
        sums = np.broadcast_to(np.arange(-20000, 20001)[:, None], (40001, len(picked)))
        real = np.clip(sums * s + b, -128, 127)
        assert (np.abs(found[0].evaluate(sums) - real) <= TIE).all()


def test_an_offset_far_beyond_the_ends_leaves_one_result() -> None:
    channel = replace(drawn(0), scale=0.01, rest=1e22, zero=0, ends=(-128, 127), low=-9000, high=9000)
    found = fit(np.array([0.01]), np.array([1e22]), channel.steps())
    assert not isinstance(found, str), found
    assert found[0].evaluate(np.array([[-9000], [0], [9000]])).tolist() == [[127]] * 3


@pytest.mark.parametrize("scale", [1e-320, 1e-122, 1e-83, 1e-45, 1e-20, 1e-3, 3e3, 2.0**31, 1e38, 1e122, 1e300])
def test_any_scale_and_offset_is_met_or_refused(scale: float) -> None:
    for offset in (0.0, -128.0, 1e9, -1e20, 1e83, -1e308):
        for low, high in ((-1, 1), (0, 0), (-500, 70000), (-(2**31), 2**31 - 1)):

            def value(a: Array, of: Channels, offset: float = offset) -> Array:
                with np.errstate(over="ignore"):
                    return np.clip(np.rint(a.astype(np.float64) * scale + offset), -128, 127).astype(np.int64)

            with warnings.catch_warnings(action="error"):
                found = fit(np.array([scale]), np.array([offset]), Steps(value, np.array([low]), np.array([high])))
            if isinstance(found, str):
                continue
            a = np.unique(np.clip([*range(-200, 200), *np.linspace(low, high, 200).astype(int)], low, high))[:, None]
            assert np.abs(found[0].evaluate(a) - value(a, EVERY)).max() <= 1


def test_what_is_no_step_function_of_the_real_result_is_refused() -> None:
    channel = replace(drawn(0), scale=0.01, rest=0.0, zero=0, ends=(-128, 127), low=-9000, high=9000)
    one = np.array([1.0])
    assert isinstance(fit(one * 0.0101, one * 0, channel.steps()), str)
    assert isinstance(fit(one * 0.01, one * 0.6, channel.steps()), str)
    assert isinstance(fit(one * -0.01, one * 0, channel.steps()), str)
    assert isinstance(fit(one * np.inf, one * 0, channel.steps()), str)
    assert not isinstance(fit(one * float(np.float32(0.01)), one * 0, channel.steps()), str)


# -- what an expression is ---------------------------------------------------------------------------------
def _number(rng: np.random.Generator) -> ex.Expr:
    return ex.num(np.float32(rng.choice([-1, 1]) * rng.uniform(0.1, 3)), F32)


def _sum_of_products(rng: np.random.Generator, depth: int) -> ex.Expr:
    """A float expression of x0: i8, x1: i32 and constants that has a form."""
    if depth == 0:
        which = int(rng.integers(3))
        if which == 0:
            return ex.convert(ex.apply("sub", ex.convert(ex.var(0, I8), I32), ex.num(int(rng.integers(9)), I32)), F32)
        return ex.convert(ex.var(1, I32), F32) if which == 1 else ex.var(2, F32)
    match rng.integers(5):
        case 0:
            return ex.apply("add", _sum_of_products(rng, depth - 1), _sum_of_products(rng, depth - 1))
        case 1:
            return ex.apply("sub", _sum_of_products(rng, depth - 1), _sum_of_products(rng, depth - 1))
        case 2:
            return ex.apply("mul", _number(rng), _sum_of_products(rng, depth - 1))
        case 3:
            return ex.apply("div", _sum_of_products(rng, depth - 1), _number(rng))
    return ex.apply("neg", _sum_of_products(rng, depth - 1))


@pytest.mark.parametrize("seed", range(40))
def test_a_form_is_what_its_expression_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    body = _sum_of_products(rng, int(rng.integers(1, 6)))
    known = rng.uniform(-2, 2, 50).astype(np.float32)
    arrays = [rng.integers(-128, 128, 50).astype(np.int8), rng.integers(-9999, 9999, 50).astype(np.int32), known]
    form = form_of(body, lambda i: known if i == 2 else None)
    assert not isinstance(form, str), form
    got = form.offset + sum(
        scale * ex.evaluate(core, lambda i: arrays[i]).astype(np.float64) for core, scale in form.terms.items()
    )
    want = ex.evaluate(body, lambda i: arrays[i], wide=True)
    assert np.allclose(got, want, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rne((rne((f32(x0) * 0.5)) * 0.25))", "rounded twice"),
        ("(f32(x0) * f32(x3))", ""),
        ("(f32(x0) + x1)", "computed at run time"),
        ("sigmoid(f32(x0))", "sigmoid is no sum of products"),
        ("(1.0 / f32(x0))", "div is no sum of products"),
        ("max(f32(x0), f32(x3))", "max is no sum of products"),
        ("((f32(x0) * 1e38) * 1e308)", "not finite"),
    ],
)
def test_what_has_no_form_says_why(text: str, reason: str) -> None:
    types = {0: I8, 1: F32, 3: I8}
    body = ex.parse(text, lambda i: types[i])
    form = form_of(body, lambda _: None)
    if reason:
        assert isinstance(form, str)
        assert reason in form
    else:
        assert not isinstance(form, str)


@pytest.mark.parametrize("seed", range(30))
def test_a_line_has_its_scale_and_its_zero(seed: int) -> None:
    """Of (x - z) * s and what is multiplied, divided and added after it, in any order."""
    rng = np.random.default_rng(seed)
    zero = int(rng.integers(-128, 128))
    e = ex.convert(ex.apply("sub", ex.convert(ex.var(0, I8), I32), ex.num(zero, I32)), F32)
    for _ in range(int(rng.integers(1, 5))):
        fn = str(rng.choice(["mul", "div", "add", "sub"]))
        pair = (e, _number(rng))
        e = ex.apply(fn, *(pair[::-1] if fn in ("mul", "add") and rng.integers(2) else pair))
    found = linear(e, 0, lambda _: np.zeros(()))
    assert found is not None
    x = np.arange(-128, 128).astype(np.int8)
    want = ex.evaluate(e, lambda _: x, wide=True)
    assert np.allclose((x - found.zero) * found.scale, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("text", ["(f32(x0) * f32(x0))", "sigmoid(f32(x0))", "(1.0 / f32(x0))", "(1.0 - f32(x0))"])
def test_what_is_no_line_is_none(text: str) -> None:
    assert linear(ex.parse(text, lambda _: I8), 0, lambda _: np.zeros(())) is None


# -- ranges of sums ----------------------------------------------------------------------------------------
def _layer(rng: np.random.Generator, kind: str, dtype: str, zero: int, wzero: int) -> tuple[Graph, Array]:
    """A product of integers, and its weights with their zero point as rows of the channels."""
    pre = f"pre0{{ (i32(acc) - i32({zero})) }} pre1{{ (i32(acc) - i32({wzero})) }}"
    if kind == "matmul":
        w = rng.integers(-128, 128, (6, 4))
        product = f"matmul(%q, %w) {pre} : i32[3,4]"
        shape, rows = "3,6", (w - wzero).T
    elif kind == "depthwise":
        w = rng.integers(-128, 128, (4, 1, 3))
        product = f"conv(%q, %w) {{strides=(1,), pads=(1, 1), dilations=(1,), groups=4}} {pre} : i32[1,4,5]"
        shape, rows = "1,4,5", (w - wzero).reshape(4, -1)
    else:
        w = rng.integers(-128, 128, (4, 2, 3))
        product = f"conv(%q, %w) {{strides=(1,), pads=(1, 1), dilations=(1,)}} {pre} : i32[1,4,5]"
        shape, rows = "1,2,5", (w - wzero).reshape(4, -1)
    numbers = ", ".join(map(str, w.reshape(-1)))
    extents = ",".join(map(str, w.shape))
    text = (
        f"graph @g(%q: {dtype}[{shape}]) {{\n  %w = const [{numbers}] : i8[{extents}]\n"
        f"  %y = {product}\n  return %y\n}}"
    )
    return parse_graph(text, lookup), rows


@pytest.mark.parametrize("kind", ["matmul", "conv", "depthwise"])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_a_range_of_sums_holds_the_extremes(kind: str, dtype: str) -> None:
    """Each channel's greatest and least sums lie in its range, and are its ends; so do sums of drawn operands."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        info = np.iinfo(np.int8 if dtype == "i8" else np.uint8)
        zero = int(rng.choice([info.min, info.max, rng.integers(info.min, info.max + 1)]))
        graph, rows = _layer(rng, kind, dtype, zero, int(rng.choice([0, 0, 3, -128])))
        (node,) = graph.nodes
        reach, axis = sum_range(graph, node)
        assert axis is not None
        ends = np.stack([rows * (info.min - zero), rows * (info.max - zero)])
        assert np.array_equal(reach.low, ends.min(0).sum(1))
        assert np.array_equal(reach.high, ends.max(0).sum(1))
        (value,) = graph.inputs
        for _ in range(20):
            x = rng.choice([info.min, info.max, zero], value.shape).astype(info.dtype)
            got = np.moveaxis(graph.evaluate({"q": x})["y"], axis, -1).reshape(-1, reach.low.size)
            assert (got >= reach.low).all()
            assert (got <= reach.high).all()


PARTS = (
    "relu({x} + {y})", "relu({x}) + {y}", "min({x}, 0.5) + {y}", "relu({x}) * {y}", "max({x}, {y})",
    "relu({x} - 1.0) + relu({y})",
)  # fmt: skip


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize("part", PARTS)
def test_what_is_cut_off_in_part_stays_cut_off(part: str, target: str) -> None:
    """Of two bytes, and of one sum twice: integers give the expression's results, but for the side of a tie."""
    two = part.format(x="(f32(x0) * 0.03)", y="(f32(x1) * 0.05)")
    one = part.format(x="(f32(acc) * 0.003)", y="(f32(acc) * 0.002)")
    a, b = (v.astype(np.int8).reshape(1, -1) for v in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    rounded = "i8((rne((({}) / 0.06)) + -20.0))"
    maps = f"%y = map(%a, %b) {{expr={{{rounded.format(two)}}}}} : i8[1,65536]"
    sums = np.random.default_rng(0).integers(-128, 128, (300, 8)).astype(np.int8)
    product = (
        f"%y = matmul(%a, %w) pre0{{ i32(acc) }} pre1{{ i32(acc) }} post0{{ {rounded.format(one)} }}"
    )
    weights = "%w = const [" + ", ".join(["90, -70"] * 8) + "] : i8[8,2]"
    for head, body, given in (
        ("%a: i8[1,65536], %b: i8[1,65536]", maps, {"a": a, "b": b}),
        ("%a: i8[300,8]", f"{weights}\n  {product} : i8[300,2]", {"a": sums}),
    ):
        graph = parse_graph(f"graph @g({head}) {{\n  {body}\n  return %y\n}}", lookup)
        wanted = graph.evaluate(given)["y"].astype(int)
        run_passes(graph, ("requantise",), target=resolve(target))
        off = np.abs(graph.evaluate(given)["y"].astype(int) - wanted)
        assert off.max() <= 1, (graph, off.max())
        assert (off > 0).mean() < 0.1


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize("steps", ["1e-38", "1e-36"])
def test_numbers_beyond_f32_stay_as_they_are(steps: str, target: str) -> None:
    """0.9 and 3 * 0.03 by a scale of 1e-38 are no floats once they are merged."""
    text = (
        "graph @g(%a: u8[1,65536], %b: u8[1,65536]) {\n  %y = map(%a, %b) {expr={i8((rne((((f32(x0) * 0.9) + "
        f"(f32((i32(x1) - i32(255))) * 0.03)) / {steps})) + -35.0))}}}} : i8[1,65536]\n  return %y\n}}"
    )
    a, b = (v.astype(np.uint8).reshape(1, -1) for v in np.meshgrid(np.arange(256), np.arange(256)))
    graph = parse_graph(text, lookup)
    with np.errstate(over="ignore"):
        wanted = graph.evaluate({"a": a, "b": b})["y"]
        with warnings.catch_warnings(action="error"):
            run_passes(graph, ("requantise",), target=resolve(target))
        assert np.array_equal(graph.evaluate({"a": a, "b": b})["y"], wanted)


@pytest.mark.parametrize("requant", ["exact", "tflite"])
def test_sums_that_wrap_reach_all_numbers(requant: str) -> None:
    """68 * 255 * 127,000 is 2^31 and more: what is 127 for all sums from 0 on is less for the number it becomes."""
    text = (
        f"graph @g(%q: u8[1,68]) {{\n  %w = const {[127] * 68} : i8[68,1]\n"
        "  %y = matmul(%q, %w) pre0{ i32(acc) } pre1{ (i32(acc) * i32(1000)) } "
        "post0{ i8((rne(((f32(acc) * 1e-08) / 1.0)) + 127.0)) } : i8[1,1]\n  return %y\n}"
    )
    graph = parse_graph(text, lookup)
    given = {"q": np.full((1, 68), 255, np.uint8)}
    wanted = graph.evaluate(given)["y"]
    assert wanted[0, 0] == 106
    run_passes(graph, ("requantise",), target=rounding_as(resolve("generic"), requant))
    assert graph.evaluate(given)["y"][0, 0] == wanted[0, 0]


def test_scales_of_rows_meet_the_sums_of_every_column() -> None:
    """Also where there are as many of both, and the sums of one column are always 0."""
    weights = [0 if i % 4 == 0 else 100 - i for i in range(16)]
    text = (
        f"graph @g(%q: i8[4,4]) {{\n  %w = const {weights} : i8[4,4]\n"
        "  %s = const [0.16, 0.0001, 0.0002, 0.0003] : f32[4,1]\n"
        "  %y = matmul(%q, %w) with(%s) pre0{ i32(acc) } pre1{ i32(acc) } "
        "post0{ i8(rne((f32(acc) * x0))) } : i8[4,4]\n"
        "  return %y\n}"
    )
    graph = parse_graph(text, lookup)
    given = {"q": np.array([[1, 0, 0, 0]] * 4, np.int8)}
    wanted = graph.evaluate(given)["y"]
    run_passes(graph, ("requantise",), target=resolve("generic"))
    assert "mulhi" in str(graph.nodes[0].post)
    assert np.array_equal(graph.evaluate(given)["y"], wanted)


def test_a_byte_of_few_channels_is_on_the_right_side_of_ties() -> None:
    """An image of bytes less a mean of each channel, such as 127.5: all of it is on ties."""
    text = (
        "graph @g(%a: u8[1,3,1,256]) {\n  %m = const [127.5, 126.5, 3.0] : f32[3,1,1]\n"
        "  %y = map(%a, %m) {expr={i8((rne((f32(x0) - x1)) + 1.0))}} : i8[1,3,1,256]\n  return %y\n}"
    )
    given = {"a": np.tile(np.arange(256, dtype=np.uint8), 3).reshape(1, 3, 1, 256)}
    graph = parse_graph(text, lookup)
    wanted = graph.evaluate(given)["y"]
    run_passes(graph, ("requantise",), target=resolve("generic"))
    assert "select" in str(graph.nodes[0].op)
    assert np.array_equal(graph.evaluate(given)["y"], wanted)


def test_a_channel_far_beyond_the_type_leaves_the_others_their_bits() -> None:
    """The middle of two offsets would be 200,000: floats next to it are a 64th apart."""
    scale, added = np.float32(0.0017), np.array([2.4, 4e5], np.float32)
    text = (
        f"graph @g(%q: i8[4096,8]) {{\n  %w = const {bytes_drawn(1, 8, 2).reshape(-1).tolist()} : i8[8,2]\n"
        f"  %b = const {added.tolist()} : f32[2]\n"
        "  %y = matmul(%q, %w) with(%b) pre0{ i32(acc) } pre1{ i32(acc) } "
        "post0{ u8((rne(((f32(acc) * 0.0017) + x0)) + 120.0)) } : u8[4096,2]\n"
        "  return %y\n}"
    )
    graph, q = parse_graph(text, lookup), bytes_drawn(2, 4096, 8)
    run_passes(graph, ("requantise",), target=resolve("x86-64-v3"))
    sums = q.astype(np.int64) @ bytes_drawn(1, 8, 2).astype(np.int64)
    real = np.clip(sums * float(scale) + added + 120, 0, 255)
    assert (np.abs(graph.evaluate({"q": q})["y"] - real) <= TIE).all()


def test_channels_are_tried_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any parts of them have one shift, and find the same multiplication on the other side of as many ties."""
    rng = np.random.default_rng(8)
    scale, start = rng.uniform(0.001, 0.4, 11), rng.uniform(-90, 90, 11)
    start[4] = 1e6  # constant

    def value(a: Array, of: Channels) -> Array:
        product = a.astype(np.float32) * scale[of].astype(np.float32)
        return np.asarray(np.clip(np.rint(product + start[of].astype(np.float32)), -128, 127)).astype(np.int64)

    found = []
    for together in (11, 4, 1):
        monkeypatch.setattr(fixed_point, "_TOGETHER", together)
        one = fit(scale, start, Steps(value, np.full(11, -3000), np.full(11, 3000)))
        assert not isinstance(one, str), one
        fixed, differing = one
        found.append((fixed.start.tolist(), fixed.m.tolist(), fixed.c.tolist(), fixed.s, fixed.up, differing))
    assert found[1:] == found[:1] * 2


def bytes_drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
