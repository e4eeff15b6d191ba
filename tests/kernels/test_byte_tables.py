"""Functions of one byte as tables: every byte, at every place in a vector and behind the last one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir import expr as ex
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import DTYPES
from mccompile.ops.map import Map
from mccompile.ops.registry import lookup
from mccompile.run.network import Network
from tests.kernels.cases import Net
from tests.support.judge import plain_session
from tests.support.targets import ALL_VECTORS, needs_target
from tests.support.vector_maps import check_exact

SHAPES = ("1", "3", "63", "64", "65", "131", "5,7", "2,3,64", "300")


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_every_byte_finds_its_element(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    graphs, given = [], []
    for i, shape in enumerate(SHAPES):
        x, y = (("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i8", "i8"))[i % 4]
        text = f"graph @net(%a: {x}[{shape}]) {{ %y = map(%a) {{expr={{{y}(x0)}}}} : {y}[{shape}] return %y }}"
        if x == y:
            text = text.replace(f"{y}(x0)", "max(x0, x0)")
        graph = parse_graph(text, lookup)
        table = rng.integers(0, 256, 256).astype(np.uint8).view(DTYPES[y].numpy)
        graph.nodes[0].op = Map(ex.lookup(ex.var(0, DTYPES[x]), table))
        graphs.append(graph)
        count = [int(e) for e in shape.split(",")]
        order = np.resize(rng.permutation(256), count).astype(np.uint8)
        given.append({"a": order.view(DTYPES[x].numpy)})
    check_exact(graphs, given, target, tmp_path, "map.bytes")


@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantised_functions_are_tables(op: str, dtype: type[np.generic], tmp_path: Path) -> None:
    """All bytes, several times; onnxruntime rounds some of them up where they lie between two."""
    n = Net(0)
    zero = n.constant(np.array(7, dtype))
    scale, other = n.constant(np.float32(0.04)), n.constant(np.float32(0.004))
    x = n.input(3, 256, dtype=2 if dtype is np.uint8 else 3)
    model = n.model(n(op, x, scale, zero, other, zero, domain="com.microsoft"))
    every = np.arange(256, dtype=np.uint8).view(dtype)
    rows = np.stack([every, every[::-1], np.roll(every, 77)])
    compiled = mccompile.compile(model, tmp_path / "net", target="x86-64-v3")
    assert [s["kernel"] for s in compiled.report["steps"]] == ["map.bytes"]
    (want,) = plain_session(model.SerializeToString()).run(None, {"x0": rows})
    network = mccompile.load(tmp_path / "net")
    (got,) = network.run({"x0": rows}).values()
    apart = np.abs(got.astype(np.int32) - want)
    assert apart.max() <= 1
    assert (apart == 0).mean() > 0.9


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_bytes_of_every_second_place_are_no_line(target: str, tmp_path: Path) -> None:
    """A table's results are joined with others element by element, and read so: they do not lie side by side."""
    needs_target(target)
    n = Net(0)
    zero, scale = n.constant(np.array(7, np.uint8)), n.constant(np.float32(0.04))

    def sigmoid(x: str) -> str:
        return n("QLinearSigmoid", x, scale, zero, scale, zero, domain="com.microsoft")

    x, other = n.input(200, 1, dtype=2), n.input(200, 1, dtype=2)
    pairs = n("Concat", sigmoid(x), other, axis=1)
    columns = n.several("Split", [n("Concat", other, x, axis=1)], 2, axis=1)
    model = n.model(pairs, sigmoid(columns[1]))
    rng = np.random.default_rng(1)
    given = {name: rng.integers(0, 256, (200, 1)).astype(np.uint8) for name in ("x0", "x1")}
    found = []
    for i, chosen in enumerate((target, "generic")):
        mccompile.compile(model, tmp_path / f"net{i}", target=chosen)
        found.append(Network(tmp_path / f"net{i}", emulate=True).run(given))
    assert all((found[0][name] == array).all() for name, array in found[1].items())


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4-vnni"])
def test_a_single_byte_behind_a_slice_is_looked_up(target: str, tmp_path: Path) -> None:
    """The view that the slice is read through has no axis."""
    needs_target(target)
    nodes = [
        helper.make_node("Slice", ["x", "from", "to"], ["one"]),
        helper.make_node("QuantizeLinear", ["one", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Cast", ["d"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Neg", ["wide"], ["less"]),
        helper.make_node("Cast", ["less"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("QuantizeLinear", ["real", "t", "zero"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "t", "zero"], ["e"]),
        helper.make_node("Div", ["d", "e"], ["ratio"]),
        helper.make_node("QuantizeLinear", ["ratio", "u", "most"], ["y"]),
    ]
    constants = {
        "from": np.array([-3]), "to": np.array([1]), "s": np.float32(0.0125), "z": np.uint8(255),
        "t": np.float32(0.0625), "zero": np.int8(0), "u": np.float32(1 / 64), "most": np.int8(127),
    }  # fmt: skip
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.INT8, [1])
    graph = helper.make_graph(nodes, "one", [x], [y], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    mccompile.compile(model, tmp_path / "out", target=target, opt_level="O3")
    given = np.array([-1.25, 0.5, 1], np.float32)
    (want,) = plain_session(model.SerializeToString()).run(None, {"x": given})
    np.testing.assert_array_equal(mccompile.load(tmp_path / "out").run(given)["y"], want)
