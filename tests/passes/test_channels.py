"""Channel removal: random networks with dead channels, ranges that hold what they promise, and a real network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mccompile.driver import Options, import_graph
from mccompile.ir import expr as ex
from mccompile.ir import ranges
from mccompile.ir.graph import Graph, Value
from mccompile.ir.graph_text import parse_graph, print_graph
from mccompile.ir.ranges import Range
from mccompile.ir.types import F32, TensorType
from mccompile.ops.concat import Concat
from mccompile.ops.conv import Conv
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.ops.map import Map
from mccompile.ops.matmul import MatMul
from mccompile.ops.pad import Pad
from mccompile.ops.pool import Pool
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import lookup
from mccompile.ops.reshape import Reshape
from mccompile.ops.resize import Repeat
from mccompile.ops.slice import Slice
from mccompile.ops.split import Split
from mccompile.ops.transpose import Transpose
from mccompile.passes.channels import rules as channel_rules
from mccompile.passes.channels.flow import Analysis, Channels
from mccompile.passes.manager import exact_only, run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.targets.target import resolve
from tests._skips import needs_shared
from tests.support.graphs import random_inputs
from tests.support.simulated import float_model

SEEDS = range(120)
X = ex.var(0, F32)
RELU = ex.apply("relu", X)
CLIP = ex.apply("min", ex.apply("max", X, ex.num(0.0)), ex.num(6.0))


class _Net:
    """A random network of small whole numbers: its sums are exact in f32, in any order. ``wide`` multiplies how many
    channels it has."""

    def __init__(self, seed: int, wide: int = 1) -> None:
        self.random = np.random.default_rng(seed)
        self.wide = wide
        self.graph = Graph("net")
        x = self.graph.value("x", TensorType(F32, (1, int(self.random.integers(1, 4)), 5, 4)))
        self.graph.inputs.append(x)
        self.values = [x]

    def pick(self) -> Value:
        return self.values[int(self.random.integers(max(0, len(self.values) - 3), len(self.values)))]

    def ints(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.random.integers(-2, 3, shape).astype(np.float32)

    def emit(self, op: object, *operands: Value, **bodies: object) -> None:
        names = [f"v{len(self.values)}"] * (len(op.sizes) if isinstance(op, Split) else 1)
        self.values += self.graph.emit(op, operands, names, **bodies)  # type: ignore[arg-type]

    def weights(self, shape: tuple[int, ...], axis: int = 0) -> Value:
        """Weights of which some filters are zero, and some inputs are ignored."""
        w = self.ints(shape)
        for a, share in ((axis, 0.35), (1 - axis, 0.2)):
            w[(slice(None),) * a + (self.random.random(shape[a]) < share,)] = 0
        return self.graph.constant("w", w)

    def conv(self) -> None:
        x = self.pick()
        c, kind = x.shape[1], int(self.random.integers(0, 3))
        groups, m = ((1, int(self.random.integers(2, 6)) * self.wide), (c, c), (c, 2 * c))[kind]
        k, pad = ((1, 0), (3, 1), (3, 0))[int(self.random.integers(0, 3))]
        if k == 3 and min(x.shape[2:]) < 3:
            k, pad = 1, 0
        post = ex.apply("add", ex.acc(F32), X)
        if self.random.random() < 0.5:
            post = ex.apply("relu", post)
        bias = self.graph.constant("b", self.random.integers(-3, 2, (m, 1, 1)).astype(np.float32))
        op = Conv((1, 1), (pad,) * 4, (1, 1), groups)
        self.emit(op, x, self.weights((m, c // groups, k, k)), extras=[bias], post={0: post})

    def deconv(self) -> None:
        x = self.pick()
        c = x.shape[1]
        groups = c if self.random.random() < 0.5 else 1
        op = ConvTranspose((1, 1), (0,) * 4, (1, 1), (0, 0), groups)
        self.emit(op, x, self.weights((c, 1 if groups > 1 else 3 * self.wide, 2, 2), 1))

    def map(self) -> None:
        x, kind = self.pick(), int(self.random.integers(0, 4))
        if kind < 2:
            self.emit(Map((RELU, CLIP)[kind]), x)
            return
        same = [v for v in self.values if v.shape == x.shape or v.shape == (1, x.shape[1], 1, 1)]
        y = same[int(self.random.integers(0, len(same)))]
        if kind == 2 or y is x:
            y = self.graph.constant("c", self.ints((x.shape[1], 1, 1)))
        self.emit(Map(ex.apply(("add", "mul", "max")[int(self.random.integers(0, 3))], X, ex.var(1, F32))), x, y)

    def move(self) -> None:
        x, kind = self.pick(), int(self.random.integers(0, 7))
        c = x.shape[1]
        if kind == 0:
            self.emit(Pad((0, int(self.random.integers(0, 3)), 1, 0, 0, 1, 0, 1), "constant", 0.0), x)
        elif kind == 1 and c > 1:
            self.emit(Slice((0, 1, 0, 0), (1,) * 4, (1, c - 1, *x.shape[2:])), x)
        elif kind == 2 and c > 1:
            self.emit(Split(1, (1, c - 1)), x)
        elif kind == 3:
            self.emit(Transpose((0, 2, 3, 1)), x)
            self.emit(Map(CLIP), self.values[-1])
            self.emit(Transpose((0, 3, 1, 2)), self.values[-1])
        elif kind == 4:
            self.emit(Repeat((1, 1, 2, 1)), x)
        else:
            fitting = [v for v in self.values if v.shape[2:] == x.shape[2:]]
            self.emit(Concat(1), x, fitting[int(self.random.integers(0, len(fitting)))])

    def reduce(self) -> None:
        x = self.pick()
        if min(x.shape[2:]) >= 2 and self.random.random() < 0.7:
            mode = ("max", "sum")[int(self.random.integers(0, 2))]
            self.emit(Pool(mode, (2, 2), (1, 1), (0, 1, 1, 0), (1, 1)), x)
        else:
            self.emit(Reduce("sum", (2, 3)), x)

    def finish(self) -> Graph:
        """A product or a convolution at the end, so that not all is an output."""
        x = self.values[-1]
        if self.random.random() < 0.5:
            count = x.type.count
            self.emit(Reshape((1, count)), x)
            self.emit(MatMul(), self.values[-1], self.weights((count, 3)))
        else:
            self.emit(Conv((1, 1), (0,) * 4, (1, 1)), x, self.weights((2, x.shape[1], 1, 1)))
        self.graph.outputs.append(self.values[-1])
        if self.random.random() < 0.3 and len(self.values) > 4:
            self.graph.outputs.append(self.values[-4])
        self.graph.outputs = [v for v in dict.fromkeys(self.graph.outputs) if v not in self.graph.inputs]
        self.graph.remove_dead()
        self.graph.verify()
        return self.graph


def _network(seed: int, wide: int = 1) -> tuple[Graph, dict[str, np.ndarray]]:
    net = _Net(seed, wide)
    for _ in range(9):
        steps = (net.conv, net.conv, net.conv, net.map, net.map, net.move, net.move, net.reduce, net.deconv)
        steps[int(net.random.integers(0, len(steps)))]()
    (x,) = net.graph.inputs
    return net.finish(), {"x": net.ints(x.shape)}


def _macs(graph: Graph, op: type = object) -> int:
    nodes = [n for n in graph.nodes if isinstance(n.op, op)]
    return sum(n.op.macs(n.operand_types(), [r.type for r in n.results]) for n in nodes)


@pytest.mark.parametrize("name", ["remove-dead-channels", "fold-constant-channels"])
def test_random_networks_keep_every_bit(name: str) -> None:
    before, after, fewer, late = 0, 0, 0, 0
    for seed in SEEDS:
        graph, inputs = _network(seed)
        text, want, macs = print_graph(graph), graph.evaluate(inputs), _macs(graph)
        (record,) = run_passes(graph, [name])
        got = graph.evaluate(inputs)
        for key, value in want.items():
            if np.abs(value).max() < 2**22:  # beyond that sums of whole numbers round
                np.testing.assert_array_equal(got[key], value, err_msg=f"seed {seed}\n{text}\n{print_graph(graph)}")
        before, after, fewer = before + macs, after + _macs(graph), fewer + (record.changes > 0)
        late += run_passes(graph, [name])[0].changes > 0
    assert fewer > len(SEEDS) // 3
    assert after < 0.85 * before
    assert late <= len(SEEDS) // 20, "nearly all goes at once; the last group of a convolution is a plain one"


def test_vectors_stay_full() -> None:
    """What a value loses is a multiple of a vector, or else what is left of it; and every bit is kept."""
    target = resolve("x86-64-v2")
    shrunk = 0
    for seed in SEEDS[:60]:
        graph, inputs = _network(seed, wide=5)
        want, sizes = graph.evaluate(inputs), {v: v.shape for n in graph.nodes for v in n.results}
        run_passes(graph, ["fold-constant-channels"], target=target)
        got = graph.evaluate(inputs)
        for key, value in want.items():
            if np.abs(value).max() < 2**22:
                np.testing.assert_array_equal(got[key], value, err_msg=f"seed {seed}\n{print_graph(graph)}")
        for v in (v for n in graph.nodes for v in n.results if v.shape != sizes[v]):
            (count,) = (a for a, b in zip(v.shape, sizes[v], strict=True) if a != b)
            assert count % target.lanes == 0, f"seed {seed}: {v.name}"
            shrunk += 1
    assert shrunk > 20


@pytest.mark.parametrize("block", [1, 40, 1 << 18])
def test_sums_are_bounded_as_a_plain_sum_is(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """The ranges of a convolution's results, against sums of all weights with all ends, one row after another."""
    monkeypatch.setattr(channel_rules, "_BLOCK", block)
    for seed in range(40):
        random = np.random.default_rng(seed)
        g, m, c = (int(e) for e in random.integers(1, 4, 3))
        w = (random.integers(-2, 3, (g * m, c, 3)) * (random.random((g * m, c, 1)) < 0.6)).astype(np.float32)
        w[random.random((g * m, c)) < 0.2] = 1
        w[random.random(w.shape) < 0.02] = np.inf
        kinds = random.integers(0, 4, (g * c, 1))
        ends = np.select([kinds == 0, kinds == 1, kinds == 2], [[[0, np.inf]], [[2, 2]], [[-1, 6]]], [[0, 0]])
        graph = parse_graph(
            f"graph @g(%x: f32[1,{g * c},9]) {{\n  %w = const : f32[{g * m},{c},3] ; sha256=0\n  %y = conv(%x, %w) "
            f"{{strides=(1,), pads=(0, 0), dilations=(1,), groups={g}}} : f32[1,{g * m},7]\n  return %y\n}}",
            lookup,
        )
        node = graph.nodes[0]
        graph.constants[node.operands[1]] = w
        x = Channels(1, np.arange(g * c), Range(*ends.T.astype(np.float64)))
        a = Analysis(graph, readers=dict.fromkeys(node.inputs, 1), count=g * c)
        (found,) = channel_rules.follow(a, node, node.op, [x, a.of(node.operands[1])])
        for row in range(g * m):
            of = slice(row // m * c, row // m * c + c)
            used = (w[row] != 0).any(1)
            low, high = found.range.low[row], found.range.high[row]
            if not np.isfinite(w[row]).all() or not np.isfinite(ends[of][used]).all():
                assert (low, high) == (-np.inf, np.inf)
                continue
            sums = [np.where(used, np.nan_to_num(ends[of]).T, 0)[e] for e in (0, 1)]
            total = w[row].astype(np.float64)
            least = (np.maximum(total, 0).sum(1) @ sums[0]) + (np.minimum(total, 0).sum(1) @ sums[1])
            greatest = (np.maximum(total, 0).sum(1) @ sums[1]) + (np.minimum(total, 0).sum(1) @ sums[0])
            assert low <= least <= greatest <= high
            assert max(least - low, high - greatest) < 1e-2
            if (sums[0] == sums[1]).all():
                assert low == high == least


@pytest.mark.parametrize(("pads", "ends"), [("1, 0, 0, 0", (-3, 2)), ("0, 0, 1, 0", (-3, 2)), ("0, 0, 0, 0", (1, 2))])
def test_padding_beside_channels_is_in_their_range(pads: str, ends: tuple[float, float]) -> None:
    text = f"  %p = pad(%x) {{pads=({pads}), value=-3.0}} : f32[{5 if '1' in pads else 4},3]\n"
    graph = parse_graph(f"graph @g(%x: f32[4,3]) {{\n{text}  return %p\n}}", lookup)
    node = graph.nodes[0]
    x = Channels(1, np.arange(3), Range(np.full(3, 1.0), np.full(3, 2.0)))
    (found,) = channel_rules.follow(Analysis(graph), node, node.op, [x])
    assert (found.range.low.tolist(), found.range.high.tolist()) == ([ends[0]] * 3, [ends[1]] * 3)


def test_constants_fold_more_than_zeros() -> None:
    def total(name: str) -> int:
        graphs = [_network(seed)[0] for seed in SEEDS]
        for graph in graphs:
            run_passes(graph, [name])
        return sum(map(_macs, graphs))

    assert total("fold-constant-channels") < total("remove-dead-channels")


def test_every_level_removes_and_exact_does_not_fold() -> None:
    for level in ("O2", "O3", "Os"):
        assert {"remove-dead-channels", "fold-constant-channels"} <= set(PIPELINES[level])
        exact = exact_only(PIPELINES[level])
        assert "remove-dead-channels" in exact
        assert "fold-constant-channels" not in exact


EXPRESSIONS = [
    "x0 + x1", "x0 - x1", "x0 * x1", "x0 / x1", "max(x0, x1)", "min(x0, x1)", "relu(x0 - x1)", "abs(x0)", "neg(x0)",
    "rne(x0 * 3.0)", "floor(x0) + ceil(x1)", "sigmoid(x0) - tanh(x1)", "select(lt(x0, x1), x0, x1 * 2.0)",
    "f32(i8(x0 * 100.0))", "i32(x0) * i32(x1)", "i8(i32(x0 * 200.0))", "f32(bool(x0))", "sign(x0) * exp(x1)",
    "min(max(x0, 0.0), 6.0) * 0.1", "u8(min(max(rne(x0 / 0.05) + 3.0, 0.0), 255.0))", "f32(u8(x0)) - 128.0",
]  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_range_holds_every_value(text: str) -> None:
    random = np.random.default_rng(3)
    body = ex.parse(text, [F32, F32])
    for _ in range(200):
        scale = 10.0 ** random.integers(-3, 3)
        ends = np.sort(np.round(random.normal(0, scale, (2, 2)), random.integers(0, 4)), axis=0)
        if random.random() < 0.3:
            ends[1] = ends[0]
        ends = ends.astype(np.float32).astype(np.float64) + 0.0
        given = [Range(ends[0, i : i + 1], ends[1, i : i + 1]) for i in range(2)]
        found = ranges.of_expression(body, lambda i, given=given: given[i])
        points = random.uniform(ends[0], ends[1], (40, 2)).astype(np.float32)
        points = np.concatenate([points, ends.astype(np.float32), ends[::-1].astype(np.float32)])
        # One value is known as f32 has it; a range holds for any rounding.
        for wide in (False,) if found.known[0] else (False, True):
            values = ex.evaluate(body, lambda i, points=points: points[:, i], wide).astype(np.float64)
            values = values[~np.isnan(values)]
            assert (values >= found.low).all(), (text, ends, found)
            assert (values <= found.high).all(), (text, ends, found)


def test_a_range_of_nothing_known_has_no_end() -> None:
    free = ranges.anything(F32)
    for text in EXPRESSIONS[:4]:
        found = ranges.of_expression(ex.parse(text, [F32, F32]), lambda i: free)
        assert found.low[0] == -np.inf
        assert found.high[0] == np.inf
    found = ranges.of_expression(ex.parse("i32(x0) + i32(x1)", [F32, F32]), lambda i: free)
    assert (found.low[0], found.high[0]) == (-(2.0**31), 2.0**31 - 1), "integers wrap"


# -- MLPerf Tiny's visual wake words -----------------------------------------------------------------------
VWW_MACS = 7_489_152
VWW_GOAL = 3_869_460


def _wake_words(folder: Path) -> tuple[Graph, dict[str, np.ndarray]]:
    path = needs_shared("mlperf_tiny/vww_mobilenetv1_int8.onnx")
    onnx.save(float_model(path), folder / "vww.onnx")
    graph = import_graph(folder / "vww.onnx", Options(target="generic")).graph
    stored = np.load(needs_shared("mlperf_tiny/vww_mobilenetv1_int8.input.npy"))
    (x,) = graph.inputs
    return graph, {x.name: stored[:1].astype(x.dtype.numpy)}


def test_half_of_the_int8_wake_word_network_is_dead(tmp_path: Path) -> None:
    graph, stored = _wake_words(tmp_path)
    assert _macs(graph, Conv) == VWW_MACS
    drawn = random_inputs(graph, seed=2)
    want = [graph.evaluate(i, wide=True) for i in (stored, drawn)]
    run_passes(graph, PIPELINES["O1"])
    run_passes(graph, ["inline-scalars", "remove-dead-channels"])
    assert _macs(graph, Conv) <= VWW_GOAL
    got = [graph.evaluate(i, wide=True) for i in (stored, drawn)]
    for a, b in zip(want, got, strict=True):
        for name, value in a.items():
            np.testing.assert_array_equal(b[name], value)
