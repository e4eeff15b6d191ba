"""Convolutions and products of bytes, bit by bit: around tiles and words, at every zero point."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call
from mccompile.kernels.conv.integer_depthwise import JoinedRows
from mccompile.kernels.conv.integer_tiles import IntegerTile
from mccompile.kernels.matmul.integers import MatMulIntegers
from mccompile.kernels.variant import Offer
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.passes.manager import run_passes
from mccompile.targets.target import Target, resolve, runs_here, strict_warnings
from tests._skips import needs_tool
from tests.kernels.test_variants import Array, kernels_of
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import BYTES, NARROW, VNNI, WIDE, needs_target

TYPES = {"i8": np.int8, "u8": np.uint8}
ALIAS = {3: "nwc", 4: "nhwc"}
FLOATS = "u8((rne((f32((acc + x0)) * x1)) + 3.0))"
EVEN = "u8((rne((f32((acc + x0)) * x1)) + 4.0))"
LOW = "i8((rne((f32((acc + x0)) * x1)) + -6.0))"
ADDED = "i8((rne(((f32((acc + x0)) * x1) + (f32((i32(x2) - i32(-3))) * 0.25))) + -7.0))"


@dataclass(frozen=True)
class Product:
    """A product of bytes: its kernel, the C to force it, the types and zero points of its operands, its epilogue, how
    large constant weights are, and how many pairs of neighbours are larger."""

    kernel: str
    x: Sequence[int]
    w: Sequence[int]
    attributes: str = ""
    dtype: str = "i8"
    weights: str = "i8"
    zero: int = 0
    other: int = 0
    post: str = ""
    variable: bool = False
    planar: bool = False
    moved: bool = False
    reach: int = 128
    large: int = 0

    @property
    def text(self) -> str:
        return " ".join(map(str, vars(self).values()))


def drawn(shape: Sequence[int], dtype: str, text: str) -> Array:
    """All bytes, the ends of the range more often than others."""
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    info = np.iinfo(TYPES[dtype])
    whole = rng.integers(info.min, info.max, shape, endpoint=True)
    ends = rng.choice([info.min, info.min + 1, info.max], shape)
    return np.where(rng.random(shape) < 0.3, ends, whole).astype(TYPES[dtype])


def constant(name: str, array: Array, dtype: str) -> str:
    numbers = ", ".join(map(str, array.reshape(-1).tolist()))
    return f"%{name} = const [{numbers}] : {dtype}[{','.join(map(str, array.shape))}]"


def widened(dtype: str, zero: int) -> str:
    return f"(i32(acc) - i32({zero}))" if zero else "i32(acc)"


def graph_text(p: Product, result: Sequence[int]) -> str:
    """A network of one product; of a convolution everything lies channels-last."""
    rows = p.kernel.startswith("matmul")
    columns = result[-1] if rows else result[1]
    per = (columns,) if rows else (columns, *(1 for _ in result[2:]))
    shape = ",".join(map(str, result))
    layout = "" if rows else f":{ALIAS[len(result)]}"
    out = "i32" if not p.post else p.post[:2]
    inputs = [f"%x: {p.dtype}[{','.join(map(str, p.x))}]"]
    lines = []
    if p.variable:
        given = (*p.w[:-2], p.w[-1], p.w[-2]) if p.moved else p.w
        inputs.append(f"%{'wt' if p.moved else 'w'}: {p.weights}[{','.join(map(str, given))}]")
        if p.moved:
            perm = (*range(len(given) - 2), len(given) - 1, len(given) - 2)
            lines.append(f"%w = transpose(%wt) {{perm={perm}}} : {p.weights}[{','.join(map(str, p.w))}]")
    else:
        weights = drawn(p.w, p.weights, "w" + p.text)
        if p.reach < 128:
            weights = np.clip(weights, -p.reach, p.reach)
        rows_first = weights.reshape(p.w[:2]).T if rows else weights.reshape(*p.w[:2], -1)[..., 0]
        for i in range(p.large):
            rows_first[i * 5 % len(rows_first), 4 * i : 4 * i + 2] = (127, -128)[i % 2]
        lines.append(constant("w", weights, p.weights))
    extras = ""
    if p.post:
        lines.append(constant("b", np.arange(columns).reshape(per) * 37 - 500, "i32"))
        lines.append(constant("m", ((np.arange(columns) % 5 + 1) / 1024).reshape(per), "f32"))
        extras = " with(%b, %m)"
    if "x2" in p.post:
        inputs.append(f"%r: i8[{shape}]")
        lines.append(f"%rs = relayout(%r) : i8[{shape}]{layout}")
        extras = " with(%b, %m, %rs)"
    source = "%x"
    if not rows and not p.planar:
        lines.append(f"%xs = relayout(%x) : {p.dtype}[{','.join(map(str, p.x))}]{layout}")
        source = "%xs"
    post = f" post0{{ {p.post} }}" if p.post else ""
    op = "matmul" if rows else "conv"
    pre = f"pre0{{ {widened(p.dtype, p.zero)} }} pre1{{ {widened(p.weights, p.other)} }}"
    lines.append(f"%ys = {op}({source}, %w) {{{p.attributes}}}{extras} {pre}{post} : {out}[{shape}]{layout}")
    lines.append(f"%y = relayout(%ys) : {out}[{shape}]")
    return f"graph @net({', '.join(inputs)}) {{\n" + "\n".join(lines) + "\nreturn %y\n}"


def conv(
    x: Sequence[int],
    m: int,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    groups: int = 1,
    **more: object,
) -> tuple[Product, Sequence[int]]:
    n = len(kernel)
    strides, dilations, pads = strides or (1,) * n, dilations or (1,) * n, pads or (0,) * (2 * n)
    tuples = {"strides": strides, "pads": pads, "dilations": dilations}
    shown = ", ".join(f"{k}=({', '.join(map(str, v))}{',' if len(v) == 1 else ''})" for k, v in tuples.items())
    out = [
        (x[2 + i] + pads[i] + pads[n + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(n)
    ]
    depthwise = groups > 1
    p = Product(
        "conv.integer_depthwise" if depthwise else "conv.integer", x, (m, x[1] // groups, *kernel),
        f"{shown}, groups={groups}", **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return p, (x[0], m, *out)


def matmul(x: Sequence[int], columns: int, turned: bool = False, **more: object) -> tuple[Product, Sequence[int]]:
    w = (columns, x[-1]) if turned else (x[-1], columns)
    if more.get("variable"):
        w = (*x[:-2], *w)
    p = Product("matmul", x, w, f"trans_b={turned}", **more)  # type: ignore[arg-type]
    return p, (*x[:-1], columns)


CASES = [
    *(conv((1, c, 3, 5), m, (1, 1), dtype=t) for c in (4, 8, 20) for m in (1, 15, 16, 17, 33) for t in TYPES),
    *(conv((1, c, 4, 9), 9, (1, 1)) for c in range(1, 10)),
    *(conv((1, 8, 1, w), 40, (1, 1), post=FLOATS) for w in (1, 5, 6, 7, 13, 14, 15, 29)),
    *(conv((2, 8, 6, 7), 18, (1, 1), (2, 2), dtype=t, post=FLOATS) for t in TYPES),
    *(conv((1, c, 6, 7), 17, (3, 3), pads=(1, 1, 1, 1), dtype=t, zero=z)
      for c in (1, 3, 4, 6) for t, z in (("i8", -128), ("i8", 127), ("u8", 0), ("u8", 255), ("u8", 128))),
    *(conv((2, 4, 9, 8), 16, (3, 2), (2, 1), (1, 0, 0, 1), dtype=t, post=ADDED, zero=5) for t in TYPES),
    *(conv((1, c, 9, 10), 20, (3, 3), (1, 2), (2, 2, 2, 2), (2, 2), zero=-5) for c in (4, 5)),
    conv((1, 12, 17), 19, (5,), pads=(2, 2), zero=3, post=FLOATS),
    *(conv((1, 8, 55), 12, (1,), pads=(0, 1), dtype=t, zero=3) for t in TYPES),  # two lines of 28, if it had 56
    *(conv((1, 3, 8, 9), 21, (3, 3), (2, 2), (0, 0, 1, 1), planar=True, zero=-9, dtype=t) for t in ("i8",)),
    conv((1, 4, 5, 5), 17, (3, 3), weights="u8", other=128),
    conv((1, 4, 5, 5), 17, (3, 3), weights="i8", other=0, post=ADDED),
    conv((1, 256, 40, 40), 8, (3, 3), pads=(1, 1, 1, 1), zero=7),
    *(conv((1, c, 7, 9), c, (3, 3), pads=(1, 1, 1, 1), groups=c, dtype=t, zero=z, post=post)
      for c in (2, 15, 16, 17, 33) for t, z, post in (("i8", -128, ""), ("u8", 255, FLOATS), ("i8", 127, ADDED))),
    *(conv((1, 18, 9, 11), 18, (3, 3), (s, 2), (1, 1, 1, 0), groups=18, zero=3) for s in (1, 2, 6)),
    *(conv((1, 18, 8, 12), 18, (3, 3), (s, s), (0, 0, 1, 1), groups=18, zero=3) for s in (1, 2)),
    *(conv((2, 5, 8, 9), 5, k, pads=(2, 1, 2, 1), groups=5, zero=-4)
      for k in ((1, 3), (2, 2), (4, 3), (5, 5), (7, 2))),
    conv((1, 5, 9, 9), 5, (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2), groups=5, zero=-4),
    conv((1, 20, 31), 20, (3,), pads=(1, 1), groups=20, zero=9, post=FLOATS),
    *(conv((1, 40, 12, 7), 40, (k, 1), pads=(k // 2, 0, k // 2, 0), groups=40, zero=-6, post=FLOATS) for k in (3, 5)),
    conv((1, 96, 61, 61), 96, (3, 3), pads=(1, 1, 1, 1), groups=96, zero=9),
    *(conv((1, 8, 1, 61), m, (1, 1), dtype=t, zero=4) for m in (100, 200) for t in TYPES),
    *(matmul((m, k), n, dtype=t, zero=z)
      for m, k, n in ((1, 4, 1), (1, 33, 17), (5, 8, 16), (14, 12, 48), (31, 7, 33), (40, 8, 200), (1, 64, 300))
      for t, z in (("i8", -128), ("u8", 131))),
    *(matmul((2, 3, 8), 20, turned, post=FLOATS, zero=2) for turned in (False, True)),
    matmul((2, 7, 16), 36, post=ADDED, zero=2),
    *(conv((1, c, 3, 5), m, (1, 1), dtype=t, reach=r)
      for c in (4, 7, 24) for m, r in ((5, 64), (17, 64), (33, 65), (9, 127)) for t in TYPES),
    *(conv((1, c, 6, 7), 17, (3, 3), pads=(1, 1, 1, 1), dtype=t, zero=z, reach=r, post=FLOATS)
      for c in (3, 4) for t, z, r in (("i8", -128, 64), ("i8", 127, 127), ("u8", 255, 64), ("u8", 0, 127))),
    *(matmul((m, k), n, dtype=t, zero=4, reach=r)
      for m, k, n in ((15, 40, 33), (2, 9, 7)) for t in TYPES for r in (64, 127)),
    *(matmul((b, m, k), n, dtype=t, weights=u, zero=z, other=o, variable=True)
      for b, m, k, n in ((1, 1, 4, 1), (3, 5, 8, 16), (2, 15, 12, 33), (2, 30, 32, 40), (2, 31, 8, 100))
      for t, z, u, o in (("u8", 131, "u8", 124), ("i8", 0, "i8", 0), ("i8", -128, "u8", 255), ("u8", 0, "i8", -128))),
    # The last rows of what is packed when it runs are no whole words.
    *(matmul((b, m, k), n, dtype=t, weights=u, zero=z, other=o, variable=True)
      for b, m, k, n in ((1, 1, 1, 1), (3, 5, 3, 16), (2, 15, 13, 33), (2, 30, 50, 40), (2, 31, 7, 100))
      for t, z, u, o in (("u8", 131, "u8", 124), ("i8", 0, "i8", 0), ("i8", -128, "u8", 255), ("u8", 0, "i8", -128))),
    matmul((5, 65), 17, dtype="u8", weights="u8", zero=131, other=124, variable=True),
    matmul((3, 5, 9), 40, dtype="i8", weights="i8", zero=-3, other=7, variable=True, moved=True),
    *(matmul((b, m, k), n, True, dtype=t, weights=u, zero=z, other=o, variable=True)
      for b, m, k, n in ((1, 1, 4, 1), (3, 5, 7, 16), (2, 15, 13, 33), (2, 30, 32, 40))
      for t, z, u, o in (("u8", 131, "u8", 124), ("i8", 0, "i8", 0), ("i8", -128, "u8", 255), ("u8", 0, "i8", -128))),
    matmul((2, 3, 7, 17), 20, dtype="u8", weights="u8", zero=2, other=128, variable=True, post=FLOATS),
    # Words that PMADDUBSW reads twice.
    *(conv((1, c, 3, 7), m, (1, 1), dtype=t, reach=64, large=n, zero=z, post=FLOATS)
      for c, m, t, z, n in ((24, 17, "u8", 7, 1), (62, 40, "i8", -3, 3), (60, 96, "u8", 0, 3), (21, 9, "i8", 2, 1))),
    *(matmul((m, 42), n, dtype=t, zero=4, reach=64, large=2) for m, n, t in ((15, 33, "u8"), (2, 70, "i8"))),
    matmul((3, 5, 8), 40, dtype="u8", weights="u8", zero=131, other=124, variable=True, moved=True),
    # Woven columns and channels: blocks of four vectors and of two, and what is left.
    *(conv((1, c, 3, 7), m, (1, 1), dtype=t, post=FLOATS, zero=z)
      for c, m, t, z in ((16, 96, "u8", 7), (24, 48, "i8", -3), (60, 56, "u8", 0), (6, 32, "i8", 2))),
    *(conv((1, c, 2 * c + 3, 37), 32, (3, 3), (2, 2), (1, 1, 1, 1), dtype=t, post=p, planar=True)
      for c, t, p in ((3, "u8", EVEN), (3, "i8", FLOATS), (2, "i8", LOW), (4, "u8", LOW))),
    *(conv((1, c, 3, 7), m, (1, 1), dtype=t, post=p, zero=z)
      for c, m, t, z, p in ((16, 96, "u8", 7, EVEN), (24, 48, "i8", -3, LOW), (60, 64, "u8", 0, LOW))),
    *(conv((1, c, 6, 9), c, (3, 3), (s, s), (1, 1, 1, 1), groups=c, dtype=t, zero=z, post=p)
      for c, s, t, z, p in ((32, 1, "i8", -128, EVEN), (48, 2, "u8", 255, LOW), (64, 1, "u8", 0, EVEN))),
    matmul((13, 24), 48, post=LOW, zero=5),
    *(matmul((m, 24), n, post=FLOATS, zero=5, reach=r) for m, n, r in ((1, 64, 128), (13, 64, 64), (13, 112, 128))),
    *(conv((1, c, 6, 9), c, (3, 3), (s, s), (1, 1, 1, 1), groups=c, dtype=t, zero=z, post=FLOATS)
      for c, s, t, z in ((24, 1, "u8", 3), (32, 1, "i8", -128), (48, 2, "u8", 255), (56, 1, "i8", 127),
                         (64, 1, "u8", 0), (40, 2, "i8", 5))),
    *(conv((1, c, 5, 90), c, (3, 3), (1, 2), (1, 1, 1, 1), groups=c, zero=9, post=p)
      for c, p in ((64, FLOATS), (58, ""))),
    # Lines of which strides leave out the whole operand, and strips that lie in the padding.
    *(conv((1, c, 2, 1), c, (3, 3), (1, 9), (1, 7, 1, 1), groups=g, zero=9)
      for c, g in ((16, 1), (16, 16), (32, 32), (5, 1), (5, 5))),
    *(conv((1, c, 1, 4), c, (1, 1), (4, 7), (3, 5, 0, 0), groups=g, zero=9) for c, g in ((16, 1), (5, 5))),
    *(conv((1, 160, 3, w), 160, (3, 3), (2, 2), (2, pw, 2, 99 - pw), groups=160, zero=9)
      for w, pw in ((2, 99), (2, 40), (70, 0))),
    # One line of pixels, with padding behind it alone.
    *(conv((1, c, 1, 7), c, (1, 1), (1, 1), pads, groups=g, zero=9)
      for c, g in ((16, 1), (3, 1), (5, 5)) for pads in ((0, 0, 0, 2), (0, 0, 3, 0), (0, 2, 0, 0))),
    *(matmul((2, 3, 6, 8), 19, dtype="u8", weights="u8", zero=5, other=9, variable=True, post=p)
      for p in (FLOATS, ADDED)),
]  # fmt: skip


def built(
    p: Product, result: Sequence[int], number: int, target: str, kernel: str, threads: int = 1
) -> Built:
    graph = parse_graph(graph_text(p, result), lookup)
    graph.name = f"net{number}"
    op = "matmul" if p.kernel.startswith("matmul") else "conv"
    options = Options(target=target, passes=(), kernels={op: kernel}, threads=threads)
    c = Compilation(graph.name, "0" * 64, options, resolve(target), graph, [])
    return Built(number, Case([]), [], c, compile_program(c))


def arithmetics_in(b: Built) -> set[str]:
    assert b.compilation.program is not None
    calls = [s for s in b.compilation.program.body.linear() if isinstance(s, Call)]
    return {c.params.arithmetic for c in calls if isinstance(c.params, IntegerTile | JoinedRows)}


def best(p: Product, target: Target) -> str:
    """The arithmetic that a product is to be computed by."""
    single = p.kernel == "conv.integer_depthwise" or p.variable
    if target.can("VNNI"):
        return "vnni"
    if target.can("PAIRS") and (single or p.reach > 64):
        return "madd_narrow" if math.prod(p.x[:-1]) == 1 and p.kernel == "matmul" and not single else "madd"
    if target.can("PAIRS"):
        return "maddubs"
    if target.can("DOTPROD"):
        return "smmla" if target.can("I8MM") and not single else "sdot"
    return "smlal" if p.reach < 128 and not single else "mlal"

WIDEST = VNNI[-1] if runs_here(VNNI[-1]) else WIDE[-1]
OTHERS = [t for t in (*BYTES, *WIDE, *NARROW) if t != WIDEST]


@pytest.mark.parametrize(
    ("target", "compiler", "first", "every", "flags"),
    [
        (WIDEST, "gcc", 0, 6, []),
        (WIDEST, "gcc", 1, 6, ["-O1"]),
        (VNNI[0] if runs_here(VNNI[0]) else WIDEST, "clang", 3, 6, []),
        *((name, "gcc", i % 6, 6, ["-O1"]) for i, name in enumerate(OTHERS)),
        *(pytest.param(name, "gcc", 0, 1, [], marks=pytest.mark.slow) for name in (*BYTES, *WIDE, *NARROW)),
    ],
)
def test_every_product_is_exact(
    target: str, compiler: str, first: int, every: int, flags: list[str], tmp_path: Path
) -> None:
    """On an arena full of 0xFF, against the operators' own evaluation."""
    to = resolve(needs_target(target))
    cases = CASES[first::every]
    kernels = ["conv.integer" if p.kernel.startswith("matmul") else p.kernel for p, _ in cases]
    all_built = [built(p, r, i, target, k) for i, ((p, r), k) in enumerate(zip(cases, kernels, strict=True))]
    flags = [*to.c_flags, *strict_warnings(compiler), *flags]
    library = CaseLibrary(tmp_path, all_built, flags, compiler=(needs_tool(compiler),)).build()
    for (p, result), b, kernel in zip(cases, all_built, kernels, strict=True):
        assert kernel in kernels_of(b), p
        if p.reach < 128 or math.prod(p.w) > 1000:
            assert best(p, to) in arithmetics_in(b), p
        graph = b.compilation.graph
        values = {v.name: drawn(v.shape, v.dtype.name, v.name + p.text) for v in graph.inputs}
        want = graph.evaluate(values)["y"]
        (got,) = library.run(b, values)
        assert got.shape == tuple(result)
        assert np.array_equal(got, want), (p, np.abs(got.astype(int) - want.astype(int)).max())


def normal(shape: Sequence[int], seed: int) -> Array:
    """Weights as training leaves them, symmetric, with 127 for the largest of each filter."""
    drawn_ = np.random.default_rng(seed).normal(size=shape).reshape(shape[0], -1)
    return np.rint(drawn_ / np.abs(drawn_).max(1, keepdims=True) * 127).astype(np.int8).reshape(shape)


@pytest.mark.parametrize(("inner", "columns", "stride"), [(96, 24, 1), (64, 16, 2), (32, 40, 1)])
def test_channels_in_pairs_give_the_same_bits(inner: int, columns: int, stride: int, tmp_path: Path) -> None:
    """Channels made more, a depthwise convolution, channels made fewer: by PMADDUBSW, if few columns refuse."""
    to = resolve(needs_target("x86-64-v3"))
    one = "dilations=(1, 1)"
    chain = [("e", "x", (inner, 8, 1, 1), f"strides=(1, 1), pads=(0, 0, 0, 0), {one}", "6,8"),
             ("d", "e", (inner, 1, 3, 3), f"strides=({stride}, {stride}), pads=(1, 1, 1, 1), {one}, groups={inner}",
              f"{6 // stride},{8 // stride}"),
             ("y", "d", (columns, inner, 1, 1), f"strides=(1, 1), pads=(0, 0, 0, 0), {one}",
              f"{6 // stride},{8 // stride}")]  # fmt: skip
    lines = []
    for i, (name, source, shape, attributes, places) in enumerate(chain):
        per = (shape[0], 1, 1)
        lines += [
            constant(f"w{name}", normal(shape, 40 + i), "i8"),
            constant(f"b{name}", np.arange(shape[0]).reshape(per) * 37 % 901 - 300, "i32"),
            constant(f"m{name}", ((np.arange(shape[0]) % 7 + 1) / 2048).reshape(per), "f32"),
            f"%{name} = conv(%{source}, %w{name}) {{{attributes}}} with(%b{name}, %m{name}) pre0{{ "
            f"{widened('u8', 3)} }} pre1{{ i32(acc) }} post0{{ {FLOATS} }} : u8[1,{shape[0]},{places}]",
        ]
    text = "graph @net(%x: u8[1,8,6,8]) {\n" + "\n".join(lines) + "\nreturn %y\n}"
    values = {"x": drawn((1, 8, 6, 8), "u8", text[:40])}
    want = parse_graph(text, lookup).evaluate(values)["y"]
    graph = parse_graph(text, lookup)
    names = ("pair-channels", "choose-layouts")
    run_passes(graph, names, target=to)
    c = Compilation("net0", "0" * 64, Options(target=to.name, passes=()), to, graph, [])
    graph.name = "net0"
    b = Built(0, Case([]), [], c, compile_program(c))
    assert ("maddubs" in arithmetics_in(b)) == (inner > columns)
    library = CaseLibrary(tmp_path, [b], [*to.c_flags, *strict_warnings("gcc")], compiler=("gcc",)).build()
    (got,) = library.run(b, values)
    assert np.array_equal(got, want)


@pytest.mark.parametrize(("left", "right", "fits"), [(255, -128, True), (256, 0, False), (0, 128, False)])
def test_zero_points_of_matrices_of_the_run_are_bytes(left: int, right: int, fits: bool) -> None:
    """As ONNX has them; sums of bytes less other numbers are wider than what they are made in."""
    graph = parse_graph(
        f"""graph @g(%a: u8[2,5,9], %b: i8[2,9,20]) {{
          %y = matmul(%a, %b) pre0{{ (i32(acc) - i32({left})) }} pre1{{ (i32(acc) - i32({right})) }} : i32[2,5,20]
          return %y
        }}""",
        lookup,
    )
    offer = MatMulIntegers().offer(graph.nodes[0], resolve("x86-64-v3"), graph.constants)
    assert isinstance(offer, Offer) == fits, offer
