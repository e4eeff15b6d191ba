"""Winograd convolution of bytes: its matrices at the ends of their range, its kernel bit by bit, what it refuses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.conv.integer_winograd import (
    AT,
    BT,
    INVERSE,
    MOST,
    VARIANTS,
    ConvIntegerWinograd,
    G,
    IntegerWinogradTile,
    PackedTaps,
    largest_sum,
)
from mccompile.kernels.model.costs import answers
from mccompile.kernels.registry import candidates
from mccompile.kernels.variant import Offer
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.targets.target import Target, resolve, runs_here, strict_warnings
from tests._skips import needs_tool
from tests.kernels.test_integer import (
    ADDED,
    EVEN,
    FLOATS,
    LOW,
    Array,
    Product,
    built,
    constant,
    conv,
    drawn,
    graph_text,
)
from tests.kernels.test_parts import THREADS, agree
from tests.kernels.test_variants import kernels_of
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import VNNI, needs_target

(VARIANT,) = VARIANTS
KERNEL = VARIANT.kernel
SHIFTS = np.array([8, 4, 2, 2])


@given(st.integers(0, 2**32 - 1), st.integers(-128, 255), st.sampled_from([1, 2, 128, 255]))
def test_sums_are_exact(seed: int, zero: int, reach: int) -> None:
    """Of random numbers and of the ends of their range, with all that is between within 16 bits, or wrapped to 32."""
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(1, 40))
    low = min(zero, 0) if zero < 0 else 0
    d = rng.choice([rng.integers(low, low + 256, (channels, 6, 6)), rng.choice([low, low + 255], (channels, 6, 6))])
    g = rng.choice([rng.integers(-reach, reach + 1, (channels, 3, 3)), rng.choice([-reach, reach], (channels, 3, 3))])
    points, weights = BT @ d @ BT.T, G @ g @ G.T
    points[:, 2, 2] -= 36 * zero
    for numbers in (points, weights):
        assert np.array_equal(numbers, numbers.astype(np.int16))
    sums = AT @ (points * weights).sum(0) @ AT.T
    wrapped = (sums % 2**32 * INVERSE % 2**32).astype(np.uint32).view(np.int32) // np.outer(SHIFTS, SHIFTS)
    want = [[((d[:, i : i + 3, j : j + 3] - zero) * g).sum() for j in range(4)] for i in range(4)]
    assert np.abs(want).max() < MOST
    assert np.array_equal(wrapped, want)


def test_no_number_leaves_16_bits() -> None:
    """Pixels less their zero point are at most 255, weights less theirs 128; rows of both matrices bound the rest."""
    assert 255 * np.abs(BT).sum(1).max() ** 2 < 2**15
    assert 128 * np.abs(G).sum(1).max() ** 2 < 2**15
    assert [int(row.sum()) for row in BT] == [0, 0, -6, 0, 0, 0]  # a zero point is in one point only


def layer(
    x: Sequence[int], m: int, pads: int = 1, dilation: int = 1, **more: object
) -> tuple[Product, Sequence[int]]:
    p, result = conv(x, m, (3, 3), pads=(pads,) * 4, dilations=(dilation,) * 2, **more)
    return replace(p, kernel=KERNEL), result


CASES = [
    *(layer((1, c, 6, 7), m, dtype=t, zero=z, post=post)
      for c, m, t, z, post in ((1, 1, "u8", 0, ""), (3, 17, "i8", -128, FLOATS), (16, 16, "u8", 255, ADDED),
                               (31, 33, "i8", 127, LOW), (32, 64, "u8", 128, EVEN), (33, 40, "i8", 5, ADDED),
                               (64, 96, "u8", 0, FLOATS), (66, 70, "u8", 3, ADDED))),
    *(layer((n, 20, h, w), 24, pads=p, dtype="u8", zero=9, post=FLOATS)
      for n, h, w, p in ((1, 3, 3, 0), (1, 1, 1, 1), (2, 8, 8, 1), (3, 5, 4, 1), (1, 4, 13, 2), (2, 14, 14, 1))),
    *(layer((1, 20, 13, 15), 24, pads=d, dilation=d, dtype="i8", zero=-7, post=ADDED) for d in (2, 3)),
    layer((1, 12, 9, 9), 20, dtype="u8", weights="u8", other=128, zero=100, post=ADDED),
    layer((1, 64, 9, 9), 32, dtype="u8", reach=127),
    layer((1, 40, 60, 60), 72, dtype="u8", zero=2, post=LOW),
    layer((2, 130, 14, 14), 130, dtype="i8", zero=-128, reach=60, post=ADDED),
    layer((1, 64, 57, 57), 64, dtype="u8", post=FLOATS),
]  # fmt: skip
X86 = ["x86-64-v2", "x86-64-v3", *VNNI, "x86-64-v4"]
VNNI_X86 = [t for t in VNNI if resolve(t).can("PAIRS")]
OURS = [t for t in dict.fromkeys(X86) if resolve(t).can("PAIRS")]
WIDEST = VNNI_X86[-1] if runs_here(VNNI_X86[-1]) else "x86-64-v3"
OTHERS = [t for t in OURS if t != WIDEST]


@pytest.mark.parametrize(
    ("target", "compiler", "first", "every", "flags"),
    [
        (WIDEST, "gcc", 0, 2, []),
        (WIDEST, "gcc", 1, 3, ["-O1", "-DMCC_NO_ASM"]),
        (WIDEST, "clang", 2, 4, []),
        *((name, "gcc", i % 4, 4, ["-O1"]) for i, name in enumerate(OTHERS)),
        *(pytest.param(name, "gcc", 0, 1, [], marks=pytest.mark.slow) for name in OURS),
    ],
)
def test_every_layer_is_exact(
    target: str, compiler: str, first: int, every: int, flags: list[str], tmp_path: Path
) -> None:
    """On an arena full of 0xFF, against the operator's own evaluation."""
    to, cases = resolve(needs_target(target)), CASES[first::every]
    made = [built(p, r, i, target, KERNEL) for i, (p, r) in enumerate(cases)]
    flags = [*to.c_flags, *strict_warnings(compiler), *flags]
    library = CaseLibrary(tmp_path, made, flags, compiler=(needs_tool(compiler),)).build()
    for (p, _), b in zip(cases, made, strict=True):
        assert KERNEL in kernels_of(b), p
        graph = b.compilation.graph
        values = {v.name: drawn(v.shape, v.dtype.name, v.name + p.text) for v in graph.inputs}
        (got,) = library.run(b, values)
        assert np.array_equal(got, graph.evaluate(values)["y"]), p


def test_blocks_and_weights_of_all_kinds() -> None:
    """The cases have weights that are kept and that are not, and blocks of some and of all tiles."""
    seen = set()
    for p, r in CASES:
        for step in built(p, r, 0, WIDEST, KERNEL).compilation.program.body.linear():
            tile = getattr(step, "params", None)
            if isinstance(tile, IntegerWinogradTile):
                y = step.results[0]
                blocks = -(-y.shape[0] * int(np.prod(tile.tiles(y.shape[1:3]))) // tile.block)
                seen.add((tile.kept, blocks > 1, y.shape[3] > tile.width))
    assert {(False, False, True), (True, True, False)} <= seen


def test_parts_have_the_bits_of_the_whole(tmp_path: Path) -> None:
    target, libraries, runs = resolve(needs_target(WIDEST)), [], []
    for threads in (1, THREADS):
        made = [built(p, r, i, target.name, KERNEL, threads) for i, (p, r) in enumerate(CASES[4::3])]
        folder = tmp_path / str(threads)
        folder.mkdir()
        libraries.append(CaseLibrary(folder, made, [*target.c_flags, "-O1"]).build())
        runs = [{v.name: drawn(v.shape, v.dtype.name, v.name) for v in b.compilation.graph.inputs} for b in made]
    assert KERNEL in agree(*libraries, runs)


def test_layers_that_share_a_function_have_zero_points_of_their_own(tmp_path: Path) -> None:
    """What they differ in is a parameter of that function, an i32, which 16 bits take nevertheless."""
    target, bodies = resolve(needs_target("x86-64-v3")), []
    for zero in (2, 200):
        p, result = layer((1, 40, 12, 12), 72, dtype="u8", zero=zero, post=FLOATS)
        head, body = graph_text(p, result).split("{\n", 1)
        bodies.append(re.sub(r"%(?!x\b)(\w+)", rf"%\1_{zero}", body.rsplit("return", 1)[0]))
    graph = parse_graph(f"{head}{{\n{''.join(bodies)}return %y_2, %y_200\n}}", lookup)
    options = Options(target=target.name, passes=(), kernels={"conv": KERNEL})
    c = Compilation("net0", "0" * 64, options, target, graph, [])
    made = Built(0, Case([]), [], c, compile_program(c))
    for compiler in ("gcc", "clang"):
        folder = tmp_path / compiler
        folder.mkdir()
        flags = [*target.c_flags, *strict_warnings(compiler), "-O1"]
        library = CaseLibrary(folder, [made], flags, compiler=(needs_tool(compiler),)).build()
        text = "".join(path.read_text() for path in folder.glob("*.c"))
        assert re.search(r"- \(uint16_t\)n\d", text), "the zero point is no parameter"
        x = drawn((1, 40, 12, 12), "u8", "x")
        for got, name in zip(library.run(made, {"x": x}), ("y_2", "y_200"), strict=True):
            assert np.array_equal(got, graph.evaluate({"x": x})[name])


def test_packed_taps() -> None:
    """Every weight where the kernel reads it, zeros beside them."""
    weights = np.arange(5 * 3 * 9).reshape(5, 3, 3, 3).astype(np.uint8)
    packed = PackedTaps(4, 7).pack(weights)
    assert packed.shape == (2, 2, 9, 4, 2)
    assert packed.dtype == np.int8
    for m in range(8):
        for c in range(4):
            want = weights[m, c].reshape(9).astype(int) - 7 if m < 5 and c < 3 else np.zeros(9)
            assert np.array_equal(packed[m // 4, c // 2, :, m % 4, c % 2], want)


def refusal(graph: Graph, target: Target, known: bool = True) -> str:
    node = next(n for n in graph.nodes if n.op.name == "conv")
    offer = VARIANT.offer(node, target, graph.constants if known else set(graph.constants))
    return "" if isinstance(offer, Offer) else offer


def test_sums_are_bounded_by_their_weights() -> None:
    """Of all operands the one at the ends of its range makes the largest sum."""
    for dtype, zero, low in (("u8", 0, 0), ("u8", 200, -200), ("i8", -128, 0), ("i8", 3, -131)):
        p, r = layer((1, 5, 3, 3), 4, pads=0, dtype=dtype, zero=zero)
        graph = parse_graph(graph_text(p, r), lookup)
        node = next(n for n in graph.nodes if n.op.name == "conv")
        weights = drawn(p.w, "i8", "w" + p.text).reshape(4, -1).astype(int)
        ends = [np.where(weights > 0, low + a, low + 255 - a) for a in (0, 255)]
        assert largest_sum(node, graph.constants) == max(abs((e * weights).sum(1)).max() for e in ends)
        assert largest_sum(node, graph.constants) <= largest_sum(node, set(graph.constants))


def with_weights(weights: Array) -> Graph:
    m, c = weights.shape[:2]
    layout = "nhwc"
    text = f"""graph @net(%x: u8[1,{c},8,8]:{layout}) {{
      {constant("w", weights, "i8")}
      %y = conv(%x, %w) {{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}}
        pre0{{ i32(acc) }} pre1{{ i32(acc) }} : i32[1,{m},8,8]:{layout}
      return %y }}"""
    return parse_graph(text, lookup)


def test_sums_that_a_shift_would_break_are_refused() -> None:
    """255 * 127 * 9 * 115 is just below 2^25, with a channel more it is not; nor where weights are not known."""
    target = resolve("x86-64-v4")
    fits, broken = (np.full((16, c, 3, 3), 127, np.int8) for c in (115, 116))
    assert 255 * 127 * 9 * 115 < MOST <= 255 * 127 * 9 * 116
    assert not refusal(with_weights(fits), target)
    assert "too large" in refusal(with_weights(broken), target)
    assert "too large" in refusal(with_weights(-broken), target)
    broken[:, ::2] = -127
    assert not refusal(with_weights(broken), target)
    assert "too large" in refusal(with_weights(broken), target, known=False)


def test_layers_alike_have_answers_of_their_own() -> None:
    target = resolve("x86-64-v4")
    for order in ((1, 127), (127, 1)):
        found = []
        for w in order:
            graph = with_weights(np.full((16, 116, 3, 3), w, np.int8))
            (node,) = (n for n in graph.nodes if n.op.name == "conv")
            answered = answers(candidates("conv"), node, target, graph.constants)
            found += [isinstance(offer, str) for v, offer in answered if isinstance(v, ConvIntegerWinograd)]
        assert found == [w == 127 for w in order]


def test_largest_sums_are_exact(tmp_path: Path) -> None:
    """All pixels 255, all weights at one end: the most that is not refused."""
    target = resolve(needs_target(WIDEST))
    graphs = [with_weights(np.full((16, 115, 3, 3), w, np.int8)) for w in (127, -127)]
    made = []
    for i, g in enumerate(graphs):
        g.name = f"net{i}"
        options = Options(target=target.name, passes=(), kernels={"conv": KERNEL})
        c = Compilation(g.name, "0" * 64, options, target, g, [])
        made.append(Built(i, Case([]), [], c, compile_program(c)))
    library = CaseLibrary(tmp_path, made, [*target.c_flags, *strict_warnings("gcc")]).build()
    for b in made:
        assert KERNEL in kernels_of(b)
        x = np.full((1, 115, 8, 8), 255, np.uint8)
        want = b.compilation.graph.evaluate({"x": x})["y"]
        (got,) = library.run(b, {"x": x.transpose(0, 2, 3, 1).copy()})
        assert np.array_equal(got.reshape(1, 8, 8, 16), want.transpose(0, 2, 3, 1))


def test_what_it_does_not_support() -> None:
    target = resolve("x86-64-v4")

    def of(found: tuple[Product, Sequence[int]], on: Target = target) -> str:
        return refusal(parse_graph(graph_text(*found), lookup), on)

    assert not of(layer((1, 8, 9, 9), 8))
    assert "memory" in of(layer((1, 8, 9, 9), 8), replace(target, spare_memory=False))
    assert "small" in of(layer((1, 8, 9, 9), 8), replace(target, compact=True))
    assert "16 bits" in of(layer((1, 8, 9, 9), 8), resolve("aarch64"))
    assert "3x3" in of(conv((1, 8, 9, 9), 8, (3, 3), (2, 2)))
    assert "3x3" in of(conv((1, 8, 9, 9), 8, (3, 1)))
    assert "3x3" in of(conv((1, 8, 9, 9), 8, (3, 3), groups=8))
    assert "channels-last" in of(conv((1, 8, 9, 9), 8, (3, 3), planar=True))
    assert "do not fit" in of(layer((1, 8, 9, 9), 8, weights="u8", other=3))
