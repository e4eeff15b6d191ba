"""``--requant tflite``: drawn layers give the bits of TensorFlow Lite's reference kernels, by an oracle of what
these are defined to compute (`tflite/kernels/internal/common.cc`, `reference/`)."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import I32
from mccompile.ops.registry import lookup
from mccompile.passes.analysis.forms import Form
from mccompile.passes.analysis.tflite import Multiplier, Output, Reach, _factor_between, of_sum
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.targets.target import resolve, rounding_as

Array = np.ndarray[Any, np.dtype[Any]]


# -- the oracle: integers of Python ---------------------------------------------------------------------------------
def quantize_multiplier(real: float) -> tuple[int, int]:
    fraction, shift = math.frexp(real)
    m = math.floor(fraction * 2**31 + 0.5)
    if m == 2**31:
        m, shift = m // 2, shift + 1
    return (0, 0) if shift < -31 else (m, shift)


def doubling_high_mul(a: int, b: int) -> int:
    nudged = a * b + (2**30 if a * b >= 0 else 1 - 2**30)
    return nudged // 2**31 if nudged >= 0 else -(-nudged // 2**31)  # division truncates in C


def divide_by_pot(x: int, exponent: int) -> int:
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def multiply(x: int, m: int, shift: int) -> int:
    return divide_by_pot(doubling_high_mul(x << max(shift, 0), m), max(-shift, 0))


def away(real: float) -> int:
    """C's round."""
    return int(math.copysign(math.floor(abs(real) + 0.5), real))


def clamped(values: list[int], shape: tuple[int, ...], low: int = -128) -> Array:
    return np.clip(np.array(values, np.int64), low, 127).astype(np.int8).reshape(shape)


# -- drawn layers ---------------------------------------------------------------------------------------------------
def scale(rng: np.random.Generator, low: float = 1e-3, high: float = 0.2) -> float:
    return float(np.float32(np.exp(rng.uniform(np.log(low), np.log(high)))))


def zero(rng: np.random.Generator) -> int:
    return int(rng.choice([-128, 127, 0, rng.integers(-128, 128)]))


def text_of(value: float) -> str:
    return str(np.float32(value))


def literal(array: Array) -> str:
    return "[" + ", ".join(map(str, array.reshape(-1))) + "]"


def lowered(text: str) -> tuple[Graph, list[str]]:
    """The graph after all passes for generic, and why anything was not rounded as TensorFlow Lite does."""
    graph = parse_graph(text, lookup)
    records = run_passes(graph, PIPELINES["O2"], target=rounding_as(resolve("generic"), "tflite"))
    return graph, [m.reason for r in records for m in r.misses if "TensorFlow" in m.what]


def dequantised(x: str, s: float, z: int) -> str:
    return f"{{expr={{(f32((i32({x}) - i32({z}))) * {text_of(s)})}}}}"


def quantised(s: float, z: int) -> str:
    return f"{{expr={{i8((rne((x0 / {text_of(s)})) + {float(z)}))}}}}"


def bytes_of(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["conv", "depthwise", "connected"])
def test_products(kind: str, seed: int) -> None:
    """With a bias and relu or without; a scale for each channel, some of which are constant."""
    rng = np.random.default_rng([seed, len(kind)])
    channels, k, relu = 6, 9, seed % 2
    sx, zx, zy = scale(rng), zero(rng), zero(rng)
    sw = np.array([scale(rng, 1e-4, 0.05) for _ in range(channels)], np.float32)
    sy = float(np.float32(np.median(sx * sw) * 40 * rng.uniform(0.2, 3)))
    w, b = rng.integers(-127, 128, (channels, k)), rng.integers(-3000, 3000, channels)
    b[0], w[1], b[1] = 2**29, 0, 2**30
    reads = {"conv": (1, k, 4), "depthwise": (1, channels, k + 3), "connected": (4, k)}[kind]
    shape = {"conv": (channels, k, 1), "depthwise": (channels, 1, k), "connected": (k, channels)}[kind]
    along = (1, channels, 1) if kind != "connected" else (channels,)
    of_weights = (channels, 1, 1) if kind != "connected" else (channels,)
    groups = channels if kind == "depthwise" else 1
    convolution = f"conv(%x, %w) {{strides=(1,), pads=(0, 0), dilations=(1,), groups={groups}}}"
    op = "matmul(%x, %w)" if kind == "connected" else convolution
    y = (4, channels) if kind == "connected" else (1, channels, 4)

    def typed(dtype: str, extents: tuple[int, ...]) -> str:
        return f"{dtype}[{','.join(map(str, extents))}]"

    text = f"""graph @g(%q: {typed("i8", reads)}) {{
      %wq = const {literal(w.T if kind == "connected" else w)} : {typed("i8", shape)}
      %ws = const {literal(sw)} : {typed("f32", of_weights)}
      %bq = const {literal(b)} : {typed("i32", along)}
      %bs = const {literal(np.float32(sx) * sw)} : {typed("f32", along)}
      %x = map(%q) {dequantised("x0", sx, zx)} : {typed("f32", reads)}
      %w = map(%wq, %ws) {{expr={{(f32(x0) * x1)}}}} : {typed("f32", shape)}
      %b = map(%bq, %bs) {{expr={{(f32(x0) * x1)}}}} : {typed("f32", along)}
      %p = {op} : {typed("f32", y)}
      %a = map(%p, %b) {{expr={{{"relu((x0 + x1))" if relu else "(x0 + x1)"}}}}} : {typed("f32", y)}
      %y = map(%a) {quantised(sy, zy)} : {typed("i8", y)}
      return %y
    }}"""
    graph, misses = lowered(text)
    assert not misses
    q = bytes_of(rng, reads)
    x = q.astype(np.int64) - zx
    wanted: list[int] = []
    for at in np.ndindex(*y):
        c = at[-1] if kind == "connected" else at[1]
        row = x[at[0]] if kind == "connected" else x[0, :, at[2]] if kind == "conv" else x[0, c, at[2] : at[2] + k]
        total = int(row @ w[c]) + int(b[c])
        real = float(np.float32(sx)) * float(sw[c]) / sy
        rounded = away(total * real) if kind == "connected" else multiply(total, *quantize_multiplier(real))
        wanted.append(zy + rounded)
    got = graph.evaluate({"q": q})["y"]
    np.testing.assert_array_equal(got, clamped(wanted, y, zy if relu else -128))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["+", "-", "*"])
@pytest.mark.parametrize("known", [False, True])
def test_pairs(known: bool, kind: str, seed: int) -> None:
    """All pairs of bytes; one of which may be a constant, of channels."""
    rng = np.random.default_rng([seed, ord(kind)])
    s, t, za, zb, zy = scale(rng), scale(rng), zero(rng), zero(rng), zero(rng)
    out = float(np.float32((s * t * 90 if kind == "*" else max(s, t)) * rng.uniform(0.6, 3)))
    numbers = np.arange(-128, 128).astype(np.int8)
    constant = f"%q = const {literal(numbers)} : i8[256]"
    text = f"""graph @g(%p: i8[256,256]{"" if known else ", %q: i8[256,256]"}) {{
      {constant if known else ""}
      %a = map(%p) {dequantised("x0", s, za)} : f32[256,256]
      %b = map(%q) {dequantised("x0", t, zb)} : f32[{"256" if known else "256,256"}]
      %c = map(%a, %b) {{expr={{(x0 {kind} x1)}}}} : f32[256,256]
      %y = map(%c) {quantised(out, zy)} : i8[256,256]
      return %y
    }}"""
    graph, misses = lowered(text)
    assert not misses
    unit = 2 * max(s, t)
    f, g, h = (quantize_multiplier(r) for r in (s / unit, t / unit, unit / (2**20 * out)))
    product = quantize_multiplier(float(np.float32(np.float32(s) * np.float32(t)) / np.float32(out)))
    wanted = []
    for i in range(-128, 128):
        for j in range(-128, 128):
            a, b = i - za, j - zb
            if kind == "*":
                wanted.append(zy + multiply(a * b, *product))
                continue
            left, right = multiply(a << 20, *f), multiply(b << 20, *g)
            wanted.append(zy + multiply(left + right if kind == "+" else left - right, *h))
    p, q = np.meshgrid(numbers, numbers, indexing="ij")
    got = graph.evaluate({"p": p} if known else {"p": p, "q": q})["y"]
    np.testing.assert_array_equal(got, clamped(wanted, (256, 256)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["mean", "pool"])
def test_means(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, len(kind)])
    count = int(rng.choice([4, 6, 25, 49]))
    s, z = scale(rng), zero(rng)
    t, y = (s, z) if kind == "pool" else (scale(rng, s * 0.4, s * 2), zero(rng))
    pool = f"pool(%x) {{mode='average', kernel=({count},), strides=(1,), pads=(0, 0), dilations=(1,)}}"
    step = pool if kind == "pool" else "reduce(%x) {mode='sum', axes=(2,)}"
    divided = "x0" if kind == "pool" else f"(x0 * {text_of(1 / count)})"
    text = f"""graph @g(%q: i8[1,64,{count}]) {{
      %x = map(%q) {dequantised("x0", s, z)} : f32[1,64,{count}]
      %m = {step} : f32[1,64,1]
      %d = map(%m) {{expr={{{divided}}}}} : f32[1,64,1]
      %y = map(%d) {quantised(t, y)} : i8[1,64,1]
      return %y
    }}"""
    graph, misses = lowered(text)
    assert not misses
    q = bytes_of(rng, (1, 64, count))
    m, shift = quantize_multiplier(s / t)
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    wanted = []
    for row in q[0].astype(np.int64):
        total = int(row.sum())
        if kind == "pool":
            half = count // 2 if total > 0 else -(count // 2)
            wanted.append(int((total + half) / count))
        else:
            wanted.append(y + multiply(total - z * count, (m << bits) // count, shift - bits))
    np.testing.assert_array_equal(graph.evaluate({"q": q})["y"], clamped(wanted, (1, 64, 1)))


def test_a_softmax_is_no_mean() -> None:
    text = f"""graph @g(%q: i8[1,12]) {{
      %x = map(%q) {dequantised("x0", 0.1, 3)} : f32[1,12]
      %s = softmax(%x) {{axis=1}} : f32[1,12]
      %y = map(%s) {quantised(1 / 256, -128)} : i8[1,12]
      return %y
    }}"""
    graph, misses = lowered(text)
    assert misses == ["it is no product, sum or mean that is quantised"]
    exact = parse_graph(text, lookup)
    run_passes(exact, PIPELINES["O2"], target=resolve("generic"))
    q = bytes_of(np.random.default_rng(1), (1, 12))
    np.testing.assert_array_equal(graph.evaluate({"q": q})["y"], exact.evaluate({"q": q})["y"])


def test_a_factor_is_found_where_the_nearest_is_wrong() -> None:
    """x / 2 with ties away from zero: 2^30 * x + 2^30 >> 31 takes -1/2 to 0, a larger factor to -1."""
    found = _factor_between([(-1, -2), (0, 0), (1, 1), (2, 3)], -4, 4, 31, 2**30)
    assert found is not None
    assert found > 2**30
    assert [(x * found + 2**30) >> 31 for x in (-3, -2, -1, 0, 1, 2, 3)] == [-2, -1, -1, 0, 1, 1, 2]


def test_multipliers_are_the_oracles() -> None:
    reals = np.exp(np.random.default_rng(1).uniform(np.log(1e-11), np.log(3), 300))
    f = Multiplier.of(reals)
    assert [quantize_multiplier(r) for r in reals.tolist()] == list(zip(f.m.tolist(), f.shift.tolist(), strict=True))
    x = np.random.default_rng(2).integers(-(2**20), 2**20, 300)
    each = zip(x.tolist(), f.m.tolist(), f.shift.tolist(), strict=True)
    assert f.scaled(x).tolist() == [multiply(*given) for given in each]


def test_what_leaves_32_bits_stays_at_their_end() -> None:
    """Of a channel whose scale is far above those of the others, a bias alone may be so many steps of the result."""
    factors, x = np.array([1e6, 1e9, 1e12, 1e25, 1e25, 1e25]), np.array([1_000_003, 99_999, -3, 5, -5, 0])
    assert np.clip(Multiplier.of(factors).scaled(x), -255, 255).tolist() == [255, 255, -255, 255, -255, 0]


def test_a_number_times_what_is_made_of_it_is_left() -> None:
    """The form sees one product of two integers, x and what is rounded of it: no sum that the expression has."""
    graph = parse_graph(
        """graph @net(%x: i8[40]) {
          %a = map(%x) {expr={(f32(x0) * 0.02)}} : f32[40]
          %b = map(%a) {expr={i16(rne((max(x0, -1.5) / 0.0001)))}} : i16[40]
          %y = map(%a, %b) {expr={u8(rne(((x0 * (f32(x1) * 0.0001)) / 0.03)))}} : u8[40]
          return %y }""",
        lookup,
    )
    x = np.linspace(-128, 127, 40).astype(np.int8)
    expected = graph.evaluate({"x": x})["y"]
    run_passes(graph, PIPELINES["O2"], target=rounding_as(resolve("generic"), "tflite"))
    assert np.abs(graph.evaluate({"x": x})["y"].astype(int) - expected.astype(int)).max() <= 1


def test_two_bytes_and_their_product_are_left() -> None:
    text = f"""graph @g(%p: i8[1,16], %q: i8[1,16]) {{
      %a = map(%p) {dequantised("x0", 0.02, 3)} : f32[1,16]
      %b = map(%q) {dequantised("x0", 0.01, -5)} : f32[1,16]
      %s = map(%a, %b) {{expr={{((x0 + x1) + (x0 * x1))}}}} : f32[1,16]
      %y = map(%s) {quantised(0.05, -7)} : i8[1,16]
      return %y
    }}"""
    graph, misses = lowered(text)
    assert misses == ["it is a sum of 3 products"]
    rng = np.random.default_rng(1)
    given = {"p": bytes_of(rng, (1, 16)), "q": bytes_of(rng, (1, 16))}
    expected = parse_graph(text, lookup).evaluate(given)["y"]
    assert np.abs(graph.evaluate(given)["y"].astype(int) - expected.astype(int)).max() <= 1


def reals(kind: str, x: list[int], own: float, out: float, count: int) -> list[int]:
    """Integers as a kernel scales them."""
    if kind == "connected":
        return [away(n * (own / out)) for n in x]
    m, shift = quantize_multiplier(float(np.float32(own * count)) / out if count else own / out)
    bits = min(count.bit_length() - 1, 32, 31 + shift) if count else 0
    return [multiply(n, (m << bits) // count if count else m, shift - bits) for n in x]


def drawn_ends(rng: np.random.Generator, channels: int) -> tuple[Array, Array]:
    """Of sums, to the ends of 32 bits; a channel may have no sum but 0."""
    bits = int(rng.integers(1, 33))
    low, high = -rng.integers(0, 2 ** (bits - 1) + 1, channels), rng.integers(0, 2 ** (bits - 1), channels)
    if rng.integers(4) == 0:
        low[0] = high[0] = 0
    return low, high


@pytest.mark.parametrize("kind", ["connected", "conv", "mean"])
def test_factors_from_nothing_to_far_beyond_32_bits_are_met_or_refused(kind: str) -> None:
    """Of sums that reach to the ends of 32 bits, too."""
    rng = np.random.default_rng(len(kind))
    acc, met, refused = ex.acc(I32), 0, 0
    node: Any = SimpleNamespace(op=SimpleNamespace(wants_channels_last=kind == "conv"))
    for _ in range(250):
        channels, z = int(rng.choice([1, 3])), zero(rng)
        own = np.exp(rng.uniform(*rng.choice([(-150, 150), (-25, 25)]), channels))
        out = float(np.float32(np.exp(rng.uniform(-103, 88)))) if rng.integers(2) else 1.0
        low, high = drawn_ends(rng, channels)
        count = int(rng.choice([4, 49, 1000])) if kind == "mean" else 0
        given: list[Array] = []

        def constant(array: Array, name: str, given: list[Array] = given, channels: int = channels) -> ex.Expr:
            assert np.abs(array).max() < 2**31, name
            given.append(np.broadcast_to(array, channels).astype(np.int32))
            return ex.var(len(given) - 1, I32)

        form, output = Form({acc: own if channels > 1 else own[0]}, np.zeros(())), Output(acc, out, z)
        with warnings.catch_warnings(action="error"):
            found = of_sum(node, acc, output, form, Reach(low, high), (-128, 127), count, True, constant)
        met, refused = met + (not isinstance(found, str)), refused + isinstance(found, str)
        if isinstance(found, str):
            continue
        for c in range(channels):
            tried = [low[c], high[c], *range(-3, 4), *rng.integers(low[c], high[c] + 1, 8)]
            x = np.unique(np.clip(tried, low[c], high[c]))
            read = {ex.ACC: x.astype(np.int32), **{i: a[c] for i, a in enumerate(given)}}
            got = np.broadcast_to(ex.evaluate(found, lambda i, read=read: read[i]), x.shape)
            wanted = np.array([z + n for n in reals(kind, x.tolist(), own[c], out, count)], object)
            np.testing.assert_array_equal(np.clip(got, -128, 127), np.clip(wanted, -128, 127).astype(np.int64))
    assert met > 30
    assert refused > 30


@pytest.mark.parametrize("kind", ["-", "*"])
def test_denormal_scales_are_those_of_f32(kind: str) -> None:
    """1e-45 as f32 is 1.4e-45. No kernel has the product of two scales that f32 has not: rounded, it is a third
    less."""
    s, t, out = (1e-45, 3e-45, 1e-45) if kind == "-" else (1.5e-20, 1.4e-25, 1e-45)
    numbers = np.arange(-5, 6).astype(np.int8)
    text = f"""graph @g(%p: i8[11,11], %q: i8[11,11]) {{
      %a = map(%p) {dequantised("x0", s, 1)} : f32[11,11]
      %b = map(%q) {dequantised("x0", t, -2)} : f32[11,11]
      %c = map(%a, %b) {{expr={{(x0 {kind} x1)}}}} : f32[11,11]
      %y = map(%c) {quantised(out, 3)} : i8[11,11]
      return %y
    }}"""
    graph, misses = lowered(text)
    p, q = np.meshgrid(numbers, numbers, indexing="ij")
    a, b = p.astype(int) - 1, q.astype(int) + 2
    s, t, out = (float(np.float32(n)) for n in (s, t, out))
    real = a * s / out - b * t / out if kind == "-" else a * b * (s * t / out)
    got = graph.evaluate({"p": p, "q": q})["y"].astype(int) - 3
    assert np.abs(got - real).max() <= 1
    assert misses == ([] if kind == "-" else ["its scales leave the numbers of 32 bits"])


def test_a_sum_scaled_by_the_first_of_two_scales_stays_finite() -> None:
    """127 * 1e34 is a number of f32, as is each product by 127 * 1e-36: 16 * 127 * 127 * 1e34 is none."""
    text = f"""graph @g(%q: i8[1,16]) {{
      %b = const {literal(np.full(32, 127))} : i8[16,2]
      %s = const [1e-36, 2e-36] : f32[2]
      %x = map(%q) {dequantised("x0", 1e34, 0)} : f32[1,16]
      %w = map(%b, %s) {{expr={{(f32(x0) * x1)}}}} : f32[16,2]
      %y = matmul(%x, %w) : f32[1,2]
      return %y
    }}"""
    graph, _ = lowered(text)
    got = graph.evaluate({"q": np.full((1, 16), 127, np.int8)})["y"]
    np.testing.assert_allclose(got[0], 16 * 127 * 127 * np.array([0.01, 0.02]), rtol=1e-5)
