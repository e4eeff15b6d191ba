"""Kernels on views of any strides: what a variant does not refuse, it computes; beside a page without access.

A call is lowered on tensors as they lie, then its operands are drawn anew: repeated (stride 0), backwards, in steps,
in another order of axes, behind an offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Block, Call
from mccompile.ir.types import DType, TensorType
from mccompile.ir.views import Buffer, View
from mccompile.kernels.model.lanes import converts_halves
from mccompile.kernels.registry import variant
from mccompile.lower.lower import lower
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.run.memory import guarded_bytes
from mccompile.targets.target import STRICT_WARNINGS, at_level, resolve
from tests.support.compiled import compiled_graph
from tests.support.draw import SeededDraw
from tests.support.opcases import Built, CaseLibrary, mismatch
from tests.support.targets import ALL_VECTORS, BYTE_VECTORS, IMITATED, ONE_LANE, needs_target, quick

Array = np.ndarray[Any, np.dtype[Any]]
WINDOW = "strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)"
THREES = "strides=(1, 3), pads=(0, 0, 0, 0), dilations=(1, 1)"
FLAT = "strides=(1,), pads=(0, 0), dilations=(1,)"
POINTS = "strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)"
BYTES = "pre0{ i32(acc) } pre1{ i32(acc) }"
ADDED = "post0{ (acc + x0) }"
CUT = "post0{ sat_i8(asr(acc, i32(7))) }"
NODES = [
    # kernel, operands, node, type of the result; %a and %b are read, %e and %f extras
    ("reduce.generic", "a: f32[5,7,3]", "reduce(%a) {mode='sum', axes=(1, 2)}", "f32[5,1,1]"),
    (
        "reduce.generic",
        "a: f32[6,4], e: f32[6,4]",
        "reduce(%a) {mode='sum', axes=(1,)} with(%e) pre0{ acc * x0 }",
        "f32[6,1]",
    ),
    *[
        (
            "reduce.generic",
            f"a: f32[2,32,{n}], e: f32[2,1,{n}]",
            "reduce(%a) {mode='sum', axes=(1, 2)} with(%e) pre0{ acc * x0 }",
            "f32[2,1,1]",
        )
        for n in (3, 4)
    ],
    *[
        (
            "normalize.generic",
            f"a: f32[2,{n},8], e: f32[1,{n},1]",
            "normalize(%a) {axes=(1, 2), epsilon=0.01} with(%e) pre0{ acc * x0 }",
            f"f32[2,{n},8]",
        )
        for n in (3, 4)
    ],
    ("reduce.vector", "a: f32[5,9,37]", "reduce(%a) {mode='sum', axes=(1,)}", "f32[5,1,37]"),
    (
        "reduce.vector",
        "a: f32[5,37], e: f32[5,37]",
        "reduce(%a) {mode='max', axes=(1,)} with(%e) pre0{ acc * x0 }",
        "f32[5,1]",
    ),
    (
        "softmax.generic",
        "a: f32[5,4], e: bool[5,4]",
        "softmax(%a) {axis=1} with(%e) pre0{ select(x0, acc, -9.0) }",
        "f32[5,4]",
    ),
    ("softmax.generic", "a: f32[5,7]", "softmax(%a) {axis=1, mode='hard'}", "f32[5,7]"),
    (
        "softmax.vector",
        "a: f32[9,4], e: bool[9,4]",
        "softmax(%a) {axis=1} with(%e) pre0{ select(x0, acc, -9.0) }",
        "f32[9,4]",
    ),
    ("softmax.vector", "a: f32[9,4], e: f32[9,4]", "softmax(%a) {axis=1} with(%e) post0{ acc * x0 }", "f32[9,4]"),
    (
        "softmax.vector",
        "a: f32[3,40], e: bool[3,40]",
        "softmax(%a) {axis=1} with(%e) pre0{ select(x0, acc, -9.0) }",
        "f32[3,40]",
    ),
    ("softmax.vector", "a: f32[3,5,21]", "softmax(%a) {axis=1, mode='log'}", "f32[3,5,21]"),
    ("normalize.generic", "a: f32[8,3]", "normalize(%a) {axes=(1,), epsilon=0.01, center=False}", "f32[8,3]"),
    (
        "normalize.generic",
        "a: f32[2,5,4], e: f32[2,5,4]",
        "normalize(%a) {axes=(1, 2), epsilon=0.01} with(%e) post0{ acc * x0 }",
        "f32[2,5,4]",
    ),
    (
        "normalize.vector",
        "a: f32[3,37], e: f32[3,37]",
        "normalize(%a) {axes=(1,), epsilon=0.01} with(%e) post0{ acc + x0 }",
        "f32[3,37]",
    ),
    ("matmul.generic", "a: f32[3,4,9], b: f32[3,9,5]", "matmul(%a, %b)", "f32[3,4,5]"),
    ("matmul.generic", "a: f32[1,3], b: f32[3,5]", "matmul(%a, %b)", "f32[1,5]"),
    ("matmul.dot", "a: f32[2,37], b: f32[9,37]", "matmul(%a, %b) {trans_b=True}", "f32[2,9]"),
    ("matmul.dot", "a: f32[9,37], b: f32[37,1]", "matmul(%a, %b)", "f32[9,1]"),
    (
        "matmul.variable",
        "a: f32[3,7,9], b: f32[3,9,32], e: f32[3,7,32]",
        "matmul(%a, %b) with(%e) post0{ acc + x0 }",
        "f32[3,7,32]",
    ),
    ("matmul.variable", "a: f32[7,9], b: f32[21,9]", "matmul(%a, %b) {trans_b=True}", "f32[7,21]"),
    ("matmul.packed", "a: f32[7,9]", "matmul(%a, %w) {trans_b=True}", "f32[7,20]"),
    (
        "attention.generic",
        "a: f32[2,5,8], b: f32[2,8,9], e: f32[2,9,16]",
        "attention(%a, %b, %e) {score={x0 * 0.5}}",
        "f32[2,5,16]",
    ),
    (
        "attention.vector",
        "a: f32[2,5,8], b: f32[2,8,9], e: f32[2,9,32]",
        "attention(%a, %b, %e) {score={x0 * 0.5}}",
        "f32[2,5,32]",
    ),
    (
        "attention.vector",
        "a: f32[2,5,8], b: f32[2,8,9], e: f32[2,9,7], f: bool[2,5,9]",
        "attention(%a, %b, %e, %f) {score={select(x3, x0, -9.0)}}",
        "f32[2,5,7]",
    ),
    ("conv.generic", "a: f32[2,3,6,7], b: f32[4,3,3,3]", f"conv(%a, %b) {{{WINDOW}}}", "f32[2,4,6,7]"),
    ("conv.generic", "a: f32[2,4,6], b: f32[3,4,1]", f"conv(%a, %b) {{{FLAT}}}", "f32[2,3,6]"),
    (
        "conv_transpose.generic",
        "a: f32[2,1,9], b: f32[1,3,3]",
        f"conv_transpose(%a, %b) {{{FLAT}, output_padding=(0,)}}",
        "f32[2,3,11]",
    ),
    ("pool.generic", "a: f32[1,2,5,9]", "pool(%a) {mode='average', kernel=(1, 3), " + THREES + "}", "f32[1,2,5,3]"),
    (
        "pool.channels",
        "a: f32[1,19,5,9]:nhwc",
        "pool(%a) {mode='average', kernel=(3, 3), " + WINDOW + "}",
        "f32[1,19,5,9]:nhwc",
    ),
    ("conv.channels", "a: f32[1,5,6,7]:nhwc", f"conv(%a, %c) {{{WINDOW}}}", "f32[1,20,6,7]:nhwc"),
    ("conv.depthwise", "a: f32[1,20,6,7]:nhwc", f"conv(%a, %d) {{{WINDOW}, groups=20}}", "f32[1,20,6,7]:nhwc"),
    ("conv.winograd", "a: f32[1,20,6,7]:nhwc", f"conv(%a, %g) {{{WINDOW}}}", "f32[1,16,6,7]:nhwc"),
    (
        "map.vector",
        "a: f32[5,37], b: f32[5,37], e: bool[5,37]",
        "map(%a, %b, %e) {expr={select(x2, x0, x1)}}",
        "f32[5,37]",
    ),
    ("map.vector", "a: f32[5,37], b: f32[5,37]", "map(%a, %b) {expr={x0 * x1}}", "f32[5,37]"),
    ("map.vector", "a: i32[5,37], b: i32[5,37]", "map(%a, %b) {expr={max(x0 * x1, x0)}}", "i32[5,37]"),
    *[
        (
            f"col2im.{way}",
            "a: f32[1,2,3,3,4,9], e: f32[1,2,9,18]",
            "col2im(%a) {image=(9, 18), strides=(2, 2), pads=(0, 1, 0, 0), dilations=(1, 1)} with(%e)"
            " post0{ (acc + x0) }",
            "f32[1,2,9,18]",
        )
        for way in ("generic", "lines")
    ],
    ("cum_sum.generic", "a: f32[5,7]", "cum_sum(%a) {axis=1}", "f32[5,7]"),
    ("cum_sum.generic", "a: f32[2,3,5,7]", "cum_sum(%a) {axis=1, exclusive=True}", "f32[2,3,5,7]"),
    ("cum_sum.generic", "a: f32[4,20,30]", "cum_sum(%a) {axis=0, reverse=True}", "f32[4,20,30]"),
    ("arg_reduce.generic", "a: f32[5,7]", "arg_reduce(%a) {mode='max', axis=1}", "i64[5,1]"),
    ("extremes.generic", "a: f32[5,7,3]", "extremes(%a) {axes=(1, 2)}", "f32[5,1,1], f32[5,1,1]"),
    ("extremes.vector", "a: f32[5,37]", "extremes(%a) {axes=(1,)}", "f32[5,1], f32[5,1]"),
    ("arg_reduce.vector", "a: f32[5,37]", "arg_reduce(%a) {mode='max', axis=1}", "i64[5,1]"),
    ("softmax.hard", "a: f32[5,37]", "softmax(%a) {axis=1, mode='hard'}", "f32[5,37]"),
    ("softmax.hard", "a: f32[3,9,21]", "softmax(%a) {axis=1, mode='hard'}", "f32[3,9,21]"),
    ("reduce.doubles", "a: f64[5,37]", "reduce(%a) {mode='sum', axes=(1,)}", "f64[5,1]"),
    ("reduce.doubles", "a: f64[5,9,21]", "reduce(%a) {mode='max', axes=(1,)}", "f64[5,1,21]"),
    ("matmul.doubles", "a: f64[7,9], b: f64[9,20]", "matmul(%a, %b)", "f64[7,20]"),
    ("matmul.doubles", "a: f64[9,7], b: f64[20,9]", "matmul(%a, %b) {trans_a=True, trans_b=True}", "f64[7,20]"),
    ("conv.integer", "a: i8[2,8,5,6]:nhwc", f"conv(%a, %k) {{{POINTS}}} {BYTES}", "i32[2,12,5,6]:nhwc"),
    ("conv.integer", "a: u8[2,8,5,6]:nhwc", f"conv(%a, %k) {{{POINTS}}} {BYTES}", "i32[2,12,5,6]:nhwc"),
    ("conv.integer", "a: u8[2,3,8]", f"matmul(%a, %r) {BYTES}", "i32[2,3,20]"),
    ("conv.integer", "a: i8[1,8,5,6]:nhwc", f"conv(%a, %l) {{{WINDOW}}} {BYTES}", "i32[1,12,5,6]:nhwc"),
    ("conv.integer", "a: i8[2,5,9], e: i32[2,5,20]", f"matmul(%a, %m) with(%e) {BYTES} {ADDED}", "i32[2,5,20]"),
    (
        "conv.integer_depthwise", "a: i8[1,20,6,7]:nhwc", f"conv(%a, %n) {{{WINDOW}, groups=20}} {BYTES}",
        "i32[1,20,6,7]:nhwc",
    ),
]
OF_CORES = [
    ("conv.staged", "a: i8[2,8,5,6]:nhwc", f"conv(%a, %k) {{{POINTS}}} {BYTES}", "i32[2,12,5,6]:nhwc"),
    ("conv.staged", "a: i8[1,8,5,6]", f"conv(%a, %l) {{{WINDOW}}} {BYTES}", "i32[1,12,5,6]"),
    ("conv.planes", "a: i8[1,20,6,7]", f"conv(%a, %n) {{{WINDOW}, groups=20}} {BYTES}", "i32[1,20,6,7]"),
    *[
        ("conv.lines", f"a: i8[1,{n},6,7]:nhwc", f"conv(%a, %{w}) {{{WINDOW}, groups={n}}} {BYTES} {CUT}",
         f"i8[1,{n},6,7]:nhwc")
        for n, w in ((20, "n"), (8, "o"))
    ],
    ("matmul.row", "a: i8[2,16]", f"matmul(%a, %p) {BYTES}", "i32[2,6]"),
    ("matmul.row", "a: i8[2,9]", f"matmul(%a, %m) {BYTES}", "i32[2,20]"),
    ("conv.blocks", "a: f32[2,5,6,7]", f"conv(%a, %c) {{{WINDOW}}}", "f32[2,20,6,7]"),
    ("conv.blocks", "a: f32[2,5,6,7]:nhwc", f"conv(%a, %c) {{{WINDOW}}}", "f32[2,20,6,7]:nhwc"),
]  # fmt: skip
"""Kernels of microcontrollers."""
WIDTHS = [
    ("a: f32[5,37], b: f16[5,37], e: bool[5,37]", "map(%a, %b, %e) {expr={select(x2, x0, x1)}}", "f32"),
    (
        "a: f32[5,37], e: bool[5,37], f: f16[5,37]",
        "map(%a) {expr={x0}} with(%e, %f) post0{ select(x0, acc, x1) }",
        "f32",
    ),
    ("a: f32[5,37], b: f32[5,37]", "map(%a, %b) {expr={lt(x0, x1)}}", "bool"),
    ("a: f32[5,37], b: f32[5,37], e: bool[5,37]", "map(%a, %b, %e) {expr={select(x2, x0, x1)}}", "f32"),
    ("a: f32[5,37], b: f16[5,37]", "map(%a, %b) {expr={x0 + x1}, storage='f16'}", "f16"),
    ("a: i32[5,37], b: i32[5,37], e: bool[5,37]", "map(%a, %b, %e) {expr={select(x2, x0, x0 * x1)}}", "i32"),
    ("a: i32[5,37], b: f32[5,37]", "map(%a, %b) {expr={f32(x0) * x1}}", "f32"),
    ("a: i32[5,37], b: i32[5,37]", "map(%a, %b) {expr={lt(x0, x1)}}", "bool"),
    (
        "a: i32[5,37], e: i32[5,37], f: bool[5,37]",
        "map(%a) {expr={x0}} with(%e, %f) post0{ acc + x0 - i32(x1) }",
        "i32",
    ),
]
CONSTANTS = {"w": (20, 9), "c": (20, 5, 3, 3), "d": (20, 1, 3, 3), "g": (16, 20, 3, 3)}
OF_BYTES = {
    "k": (12, 8, 1, 1), "l": (12, 8, 3, 3), "m": (9, 20), "n": (20, 1, 3, 3), "o": (8, 1, 3, 3), "p": (16, 6),
    "r": (8, 20),
}  # fmt: skip
DRAWS = 4
"""Views of each node, of which the variant may refuse some."""


def network(operands: str, node: str, result: str) -> Graph:
    """The node over inputs, and constants where it reads them."""
    every = {n: ("f32", shape) for n, shape in CONSTANTS.items()} | {n: ("i8", s) for n, s in OF_BYTES.items()}
    used = {n: of for n, of in every.items() if f"%{n}" in node}
    weights = [f"{n}: {dtype}[{','.join(map(str, shape))}]" for n, (dtype, shape) in used.items()]
    inputs = ", ".join(f"%{o}" for o in [*operands.split(", "), *weights])
    made = ", ".join(f"%{name}" for name in "yz"[: result.count("[")])
    graph = parse_graph(f"graph @net({inputs}) {{ {made} = {node} : {result} return {made} }}", lookup)
    rng = np.random.default_rng(1)
    for v in [v for v in graph.inputs if v.name in used]:
        graph.inputs.remove(v)
        graph.constants[v] = values(v.dtype, v.type.count, rng).reshape(v.shape)
    return graph


def places(view: View) -> Array:
    """Where the elements of a view lie in its buffer."""
    found = np.full(view.shape, view.offset)
    for f, stride in zip(view.factors, view.strides, strict=True):
        along = [-1 if a == f.axis else 1 for a in range(view.rank)]
        found = found + stride * np.arange(view.shape[f.axis]).reshape(along)
    return found


def drawn(view: View, d: SeededDraw, written: bool = False) -> View:
    """Other places for the elements of a view, in a buffer that ends with the last of them; if ``written``, all."""
    order = list(range(view.rank))
    if d.int(0, 3) == 0:
        order.sort(key=lambda a: d.int(0, 9))
    strides, offset, reach = [0] * view.rank, 0 if written else d.choice([0, 0, 1, 3]), 1
    for i in reversed(order):
        extent = view.shape[view.factors[i].axis]
        kind = d.choice(["plain", "plain", "plain", "back", "back", *([] if written else ["apart", "repeated"])])
        if kind == "repeated" or view.strides[i] == 0:
            continue
        strides[i] = reach * (2 if kind == "apart" else 1)
        reach = strides[i] * extent
        if kind == "back":
            offset += strides[i] * (extent - 1)
            strides[i] = -strides[i]
    other = View(view.buffer, view.shape, view.factors, tuple(strides), offset)
    count = int(places(other).max()) + 1
    old = view.buffer
    buffer = Buffer(old.name, TensorType(view.dtype, (count,)), "arena", old.align, role=old.role)
    return replace(other, buffer=buffer)


def values(dtype: DType, count: int, rng: np.random.Generator) -> Array:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype.numpy)  # type: ignore[type-var]
        return rng.integers(limits.min, limits.max, count, dtype=dtype.numpy, endpoint=True)
    drawn = rng.standard_normal(count)
    return drawn > 0 if dtype.name == "bool" else drawn.astype(dtype.numpy)


@dataclass(frozen=True)
class Drawn:
    """A call as it was lowered, and on other views."""

    graph: Graph
    before: Call
    after: Call
    built: Built

    def inputs(self, rng: np.random.Generator) -> tuple[dict[str, Array], dict[str, Array]]:
        """The same values for both: tensors of the graph, and what lies in the buffers, NaN beside it."""
        dense: dict[str, Array] = {}
        given: dict[str, Array] = {}
        for own, other in zip(self.before.inputs, self.after.inputs, strict=True):
            if own is None or other is None or own.buffer.role != "input":
                continue
            value = next(v for v in self.graph.inputs if v.name == own.buffer.name)
            memory = values(own.dtype, other.buffer.elements, rng)
            used = np.zeros(memory.shape, dtype=bool)
            used[places(other)] = True
            flat = np.zeros(value.type.count, dtype=memory.dtype)
            flat[places(own)] = memory[places(other)]
            stored = [f.axis for f in value.type.factors]
            dense[value.name] = flat.reshape([value.shape[a] for a in stored]).transpose(np.argsort(stored))
            given[value.name] = np.where(used, memory, memory.dtype.type("nan")) if own.dtype.is_float else memory
        return dense, given

    def wanted(self, dense: dict[str, Array]) -> list[Array]:
        """The elements of each result in the order of the views."""
        found, made = self.graph.evaluate(dense), []
        for y, view in zip(self.graph.outputs, self.before.results, strict=True):
            stored = found[y.name].transpose([f.axis for f in y.type.factors])
            made.append(np.ascontiguousarray(stored).reshape(-1)[places(view)])
        return made


def on_other_views(call: Call, d: SeededDraw) -> Call:
    reads, extras = (
        tuple(drawn(v, d) if v is not None and v.buffer.role == "input" else v for v in views)
        for views in (call.reads, call.extras)
    )
    results = tuple(drawn(v, d, written=True) if d.int(0, 3) == 0 else v for v in call.results)
    return replace(call, reads=reads, results=results, extras=extras, inplace=())


def draw(
    kernel: str, texts: tuple[str, str, str], target: str, name: str, seed: int, ask: bool = True
) -> Drawn | str:
    """A node whose call has drawn views, compiled; or why the variant refuses them. Seed 0: as they lie."""
    graph, to = network(*texts), at_level(resolve(target), "Os" if target in IMITATED else "O2")
    graph.name = name
    force = {graph.nodes[0].op.name: kernel}
    lowered = lower(graph, to, force)
    (before,) = lowered.module.body.linear()
    assert isinstance(before, Call)
    assert before.kernel == kernel, before.kernel
    own = variant(kernel)
    after = own.forwards(on_other_views(before, SeededDraw(seed))) if seed else before
    if ask and (reason := own.refuses(before, after, to)):
        return reason
    old = {v.buffer: None for v in (*before.inputs, *before.results) if v is not None}
    new = {v.buffer.name: v.buffer for v in (*after.inputs, *after.results) if v is not None}
    lowered.module.buffers = [new.get(b.name, b) if b in old else b for b in lowered.module.buffers]
    lowered.module.body = Block((after,))
    c = Compilation(name, "0" * 64, Options(target=target, opt_level="O0"), to, graph, [], lowered=lowered)
    return Drawn(graph, before, after, Built(seed, Case([]), [], c, compile_program(c)))


def agree(found: Sequence[Drawn], target: str, folder: Path, optimised: Sequence[str] = ("-O3",)) -> None:
    flags = [*resolve(target).c_flags, *STRICT_WARNINGS, *optimised]
    library = CaseLibrary(folder, [f.built for f in found], flags).build()
    rng = np.random.default_rng(5)
    for f in found:
        dense, given = f.inputs(rng)
        results = library.run(f.built, given, allocate=guarded_bytes)
        for got, view, wanted in zip(results, f.after.results, f.wanted(dense), strict=True):
            fault = mismatch(got.reshape(-1)[places(view)], wanted, 1e-5)
            assert not fault, f"{f.after.kernel} on {f.after.inputs}: {fault}"


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_any_step_of_any_width(target: str, tmp_path: Path) -> None:
    """Vectors of every type from any places and to any, whether or not a variant would take them."""
    needs_target(target)
    found = [
        draw("map.vector", (operands, node, f"{result}[5,37]"), target, f"net{i}_{seed}", 1 + seed, ask=False)
        for i, (operands, node, result) in enumerate(WIDTHS)
        for seed in range(8)
        if converts_halves(resolve(target)) or "f16" not in operands + result
    ]
    agree([f for f in found if isinstance(f, Drawn)], target, tmp_path, quick(target))


@pytest.mark.parametrize(
    ("target", "nodes"),
    [
        ("generic", [n for n in NODES if n[0].endswith(".generic")]), ("native", NODES),
        (ONE_LANE, [n for n in OF_CORES if n[0] != "conv.lines"]),
        (BYTE_VECTORS, [n for n in OF_CORES if n[0] != "conv.blocks"]),
    ],
    ids=["generic", "native", ONE_LANE, BYTE_VECTORS],
)  # fmt: skip
def test_drawn_views(target: str, nodes: Sequence[tuple[str, str, str, str]], tmp_path: Path) -> None:
    """At -O3: gcc 12 miscompiles sums over what is read backwards."""
    found: list[Drawn] = []
    taken: Counter[str] = Counter()
    for i, (kernel, *texts) in enumerate(nodes):
        for seed in range(DRAWS):
            number = 100 * i + seed if seed else 0
            one = draw(kernel, (texts[0], texts[1], texts[2]), target, f"net{i}_{seed}", number)
            if not isinstance(one, str):
                found.append(one)
                taken[kernel] += 1
    agree(found, target, tmp_path)
    unused = {kernel for kernel, *_ in nodes} - set(taken)
    assert not unused, f"every draw was refused by {unused}"


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("body", ["x0", "(x0 + x0)"])
def test_groups_that_lie_backwards_are_not_read_past_the_end(target: str, body: str, tmp_path: Path) -> None:
    """gcc 12 -O3 reads all of the last group of four where two of it are wanted, and the arena may end behind them:
    what goes element by element reads forwards."""
    needs_target(target)
    text = f"""graph @g(%x: i32[9,4]) {{
      %a = slice(%x) {{starts=(8, 2), steps=(-1, 1), extents=(9, 2)}} : i32[9,2]
      %y = map(%a) {{expr={{{body}}}}} : i32[9,2]
      return %y
    }}"""
    levels = ("O1", "O2")
    built = [compiled_graph(parse_graph(text, lookup), o, f"g_{o.lower()}", target=target) for o in levels]
    library = CaseLibrary(tmp_path, built, [*resolve(target).c_flags, *STRICT_WARNINGS, "-O3"]).build()
    x = np.arange(36, dtype=np.int32).reshape(9, 4)
    want = x[::-1, 2:] * (1 if body == "x0" else 2)
    for b in built:
        (got,) = library.run(b, {"x": x}, allocate=guarded_bytes)
        assert np.array_equal(got, want)
        assert b.compilation.lowered is not None
        calls = [s for s in b.compilation.lowered.module.body.linear() if isinstance(s, Call)]
        strides = [s for call in calls for v in call.reads if v is not None for s in v.axis_strides()]
        assert strides
        assert min(strides) >= 0
