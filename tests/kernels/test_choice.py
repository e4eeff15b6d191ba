"""Which variant is chosen by cost, and how storage answers the demands of several readers."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.kernel import Call, Fill
from mccompile.ir.types import F32, TensorType
from mccompile.ir.views import Buffer, View
from mccompile.kernels.conv.planar import PackedChannels
from mccompile.kernels.matmul.packed import PackedColumns
from mccompile.kernels.model.tiles import Segment, segments
from mccompile.kernels.registry import candidates
from mccompile.kernels.variant import Builder, Demand, Offer, Variant
from mccompile.kernels.views.windows import Order
from mccompile.lower.storage import assign_storage
from mccompile.ops.conv import Conv
from mccompile.ops.map import Map
from mccompile.ops.pool import Pool
from mccompile.passes.pipeline import PIPELINES
from mccompile.targets.target import Target
from tests.kernels.cases import Net, VariantCase, direct, matmul, pointwise
from tests.kernels.cases_strassen import product
from tests.kernels.cases_winograd import winograd
from tests.kernels.halos import HALOS
from tests.kernels.test_variants import inputs_of, library, needs_target, ort_run
from tests.support.opcases import mismatch

ROWS = tuple(p for p in PIPELINES["O2"] if p != "choose-layouts")
"""Passes that leave every value row-major."""


def _steps(
    case: VariantCase,
    folder: Path,
    target: str,
    kernels: dict[str, str] | None = None,
    passes: tuple[str, ...] | None = None,
) -> list[Call | Fill]:
    (folder / "net.onnx").write_bytes(case.model().SerializeToString())
    c = import_graph(folder / "net.onnx", Options(target=target, kernels=kernels or {}, passes=passes))
    compile_program(c)
    assert c.program is not None
    return list(c.program.body.linear())


def _kernels(steps: list[Call | Fill]) -> set[str]:
    return {s.kernel for s in steps if isinstance(s, Call)}


@pytest.mark.parametrize(
    "case",
    [
        matmul((128, 48), 64), product((128, 384), 512), matmul((1, 640), 640), pointwise((1, 64, 28, 28), 64),
        winograd((1, 16, 28, 28), 16, (3, 3), pads=[1] * 4),
        replace(direct((1, 32, 28, 28), 32, (3, 3), pads=[1] * 4, group=32), kernel="conv.depthwise"),
    ],
    ids=lambda c: c.name,
)  # fmt: skip
def test_vectors_where_they_win(case: VariantCase, tmp_path: Path) -> None:
    assert case.kernel in _kernels(_steps(case, tmp_path, "x86-64-v3"))
    assert case.kernel not in _kernels(_steps(case, tmp_path, "generic"))


@pytest.mark.parametrize("case", [matmul((1, 1), 1), pointwise((1, 1, 1, 1), 2)], ids=lambda c: c.name)
def test_scalars_where_there_is_nothing_to_gain(case: VariantCase, tmp_path: Path) -> None:
    assert case.kernel not in _kernels(_steps(case, tmp_path, "x86-64-v3"))


@pytest.mark.parametrize(("taps", "written_out"), [(200, True), (300, False)])
def test_taps_of_long_lines_are_not_written_out(taps: int, written_out: bool, tmp_path: Path) -> None:
    """They are a loop of another vector kernel: gcc took a quarter of a minute for lines of 400."""

    def build(n: Net) -> list[str]:
        x = n("Relu", n.conv(n.input(1, 64, 600), (64, 64, 1)))
        return [n.conv(n("Relu", n.conv(x, (64, 1, taps), group=64)), (64, 64, 1))]

    kernels = _kernels(_steps(VariantCase("long", "conv.depthwise", build), tmp_path, "x86-64-v3"))
    assert ("conv.depthwise" in kernels) == written_out
    assert "conv.generic" not in kernels


def test_variable_weights_are_not_packed(tmp_path: Path) -> None:
    def build(n: Net) -> list[str]:
        return [n("MatMul", n.input(64, 64), n.input(64, 64))]

    case = VariantCase("variable", "matmul.packed", build)
    assert case.kernel not in _kernels(_steps(case, tmp_path, "x86-64-v3", case.force))


def _halo_graph() -> tuple[Graph, list[Demand]]:
    g = Graph("g")
    x = g.value("x", TensorType(F32, (1, 1, 4, 4)))
    g.inputs.append(x)
    (r,) = g.emit(Map(ex.apply("neg", ex.var(0, F32))), [x], ["r"])
    w = g.constant("w", np.ones((1, 1, 3, 3), dtype=np.float32))
    for i in range(3):
        g.outputs += g.emit(Conv((1, 1), (1, 1, 1, 1), (1, 1)), [r, w], [f"y{i}"])
    halo = ((0, 0), (0, 0), (1, 1), (1, 1))
    wide = ((0, 0), (0, 0), (0, 2), (2, 0))
    return g, [Demand(0, halo, 0.0), Demand(0, ((0, 0), (0, 0), (5, 5), (5, 5)), -np.inf), Demand(0, wide, 0.0)]


def test_halos_of_one_fill_are_joined_and_others_refused() -> None:
    """Zeros around a convolution's operand are no padding for a maximum: its reader has to copy."""
    g, demands = _halo_graph()
    readers = g.nodes[1:]
    storage = assign_storage(g, {n: (d,) for n, d in zip(readers, demands, strict=True)})
    (granted,) = storage.halo.values()
    assert granted.fill == 0.0
    assert granted.halo == ((0, 0), (0, 0), (1, 2), (2, 1))


class PoolInHalo(Variant):
    """A maximum that reads its padding: the generic kernel on a view that includes the halo."""

    ops = ("pool",)
    kernel = "pool.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer:
        assert isinstance(node.op, Pool)
        n = len(node.op.kernel)
        pads = zip(node.op.pads[:n], node.op.pads[n:], strict=True)
        return Offer(self.label, 1.0, demands=(Demand(0, ((0, 0), (0, 0), *pads), -np.inf),))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        assert isinstance(node.op, Pool)
        (demand,) = offer.demands
        x = b.read_halo(demand)
        shape = tuple(e + lo + hi for e, (lo, hi) in zip(x.shape, demand.halo, strict=True))
        start = x.offset - sum(lo * s for (lo, _), s in zip(demand.halo, x.axis_strides(), strict=True))
        around = View(x.buffer, shape, x.factors, x.strides, start)
        op = replace(node.op, pads=(0,) * len(node.op.pads))
        b.call(self.kernel, [around], [b.result(0)], op=op, params=Order())


def test_a_maximum_and_a_convolution_never_share_their_padding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All values are negative: a zero in the maximum's padding, or infinity in a convolution's, would be seen."""

    def with_pool(op: str) -> tuple[Variant, ...]:
        return (PoolInHalo(),) if op == "pool" else candidates(op)

    monkeypatch.setattr("mccompile.lower.select.candidates", with_pool)
    needs_target("x86-64-v3")
    case = next(c for c in HALOS if c.name == "halo _pools_and_convolutions")
    lib = library([case], "x86-64-v3", tmp_path / "net")
    steps = list(lib.built[0].facts.steps)
    assert len([s for s in steps if s.comment.startswith("fill")]) >= 8
    model = case.model()
    inputs = inputs_of(model, 1)
    for got, want in zip(lib.run(lib.built[0], inputs), ort_run(model, inputs), strict=True):
        assert not mismatch(got, want, case.tolerance)


def test_inputs_outputs_and_constants_get_no_halo() -> None:
    g, demands = _halo_graph()
    first = g.nodes[0]
    storage = assign_storage(g, {first: (demands[0],)})
    assert not storage.halo
    g.outputs.append(first.result)
    assert not assign_storage(g, {g.nodes[1]: (demands[0],)}).halo


def test_copies_into_halos_are_made_where_needed_only(tmp_path: Path) -> None:
    def copies(name: str) -> int:
        case = next(c for c in HALOS if c.name == f"halo {name}")
        steps = _steps(case, tmp_path, "x86-64-v3", case.force, ROWS)
        made = [s for s in steps if isinstance(s, Call) and s.kernel == "copy.generic"]
        return sum(bool(s.results[0].buffer.halo) for s in made)

    assert copies("_two_halos") == copies("_lopsided") == copies("_pools_and_convolutions") == 0
    assert copies("_chain") == 1  # of the network's input
    assert copies("_fixed") == 3
    assert copies("_reshaped") == 0  # what is reshaped is written into the halo


def test_every_halo_is_filled_before_it_is_read(tmp_path: Path) -> None:
    """Fills cover exactly what lies around the tensor, each element once."""
    for case in HALOS:
        written: dict[Buffer, np.ndarray] = {}
        for step in _steps(case, tmp_path, "x86-64-v3", case.force):
            if isinstance(step, Fill):
                counts = written.setdefault(step.view.buffer, np.zeros(step.view.buffer.elements, dtype=int))
                for at in np.ndindex(*step.view.shape):
                    counts[step.view.offset + int(np.dot(at, step.view.axis_strides()))] += 1
        for buffer, counts in written.items():
            inner = np.zeros(buffer.extents, dtype=int)
            inner[tuple(slice(lo, e - hi) for (lo, hi), e in zip(buffer.halo, buffer.extents, strict=True))] = 1
            assert np.array_equal(counts, 1 - inner.reshape(-1)), f"{case.name}: {buffer.name}"


def test_packings() -> None:
    assert segments(29, 14) == (Segment(0, 28, 14), Segment(28, 29, 1))
    assert segments(28, 14) == (Segment(0, 28, 14),)
    assert segments(3, 14) == (Segment(0, 3, 3),)
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    packed = np.array([0, 1, 3, 4, 2, 0, 5, 0])
    assert np.array_equal(PackedColumns(2, False, 2).pack(matrix), packed)
    assert np.array_equal(PackedColumns(2, True, 2).pack(matrix.T), packed)
    wide = np.arange(50, dtype=np.float32).reshape(2, 25)
    blocks = PackedColumns(16, False, 16).pack(wide)
    assert blocks.size == 2 * 16 + 2 * 16
    assert np.array_equal(blocks[32:], [*range(16, 25), *(0,) * 7, *range(41, 50), *(0,) * 7])
    assert PackedColumns(16, False, 16).pack(wide[:, :24]).size == 2 * 16 + 2 * 8  # half a vector is enough
    weights = np.arange(6, dtype=np.float32).reshape(6, 1, 1)
    grouped = PackedChannels(2, 2).pack(weights)
    assert grouped.shape == (2, 2, 1, 1, 2)
    assert grouped.reshape(-1).tolist() == [0, 1, 2, 0, 3, 4, 5, 0]
