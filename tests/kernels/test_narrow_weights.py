"""Weights that are stored in fewer bits: the C computes what numpy computes with the rounded weights, they are the
nearest of their form, and they lie in the blob so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile import driver
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options
from mccompile.run.network import Network
from tests.support.targets import needs_target, quick

FORMS = ("f16", "bf16", "i8", "i4")
FAST = (("i8", "generic"), ("f16", "x86-64-v3"), ("i8", "x86-64-v3"))
BYTES = {"f16": 2.0, "bf16": 2.0, "i8": 1.0, "i4": 0.5}
ERROR = {"f16": 2.0**-11, "bf16": 2.0**-8, "i8": 0.5 / 127, "i4": 1 / 8}
"""The most that a weight may be off, relative to itself or, of integers, to the largest that shares its scale. Of 4
bits, the largest of the other sign may be a whole step off."""
KINDS = ("product", "window", "depthwise", "transposed", "lstm", "gru", "rnn", "table")
CASES = [
    pytest.param(form, target, marks=() if (form, target) in FAST else pytest.mark.slow)
    for target in ("generic", "x86-64-v3", "x86-64-v2", "aarch64", "armv7-neon", "cortex-m4") for form in FORMS
]  # fmt: skip


def _node(kind: str, r: np.random.Generator, weights: dict[str, np.ndarray]) -> tuple[onnx.NodeProto, list[int]]:
    """An operator on an input named after its kind, and the shape of that; its weights are added."""

    def w(name: str, *shape: int) -> str:
        weights[f"{kind}.{name}"] = (r.standard_normal(shape) * r.uniform(0.1, 1.0)).astype(np.float32)
        return f"{kind}.{name}"

    few, many, n = int(r.integers(3, 20)), int(r.integers(5, 40)), int(r.integers(1, 12))
    to, said = [f"{kind}.y"], {"name": kind}
    if kind == "product":
        turned = int(r.integers(2))
        shape = (few, many) if turned else (many, few)
        return helper.make_node("Gemm", [kind, w("w", *shape), w("b", few)], to, transB=turned, **said), [n, many]
    if kind == "table":
        return helper.make_node("Gather", [w("w", many, few), kind], to, axis=int(r.integers(2)), **said), [n]
    if kind in ("lstm", "gru", "rnn"):
        gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind] * few
        given = [kind, w("w", 1, gates, many), w("r", 1, gates, few), w("b", 1, 2 * gates)]
        more = {"linear_before_reset": int(r.integers(2))} if kind == "gru" else {}
        return helper.make_node(kind.upper(), given, to, hidden_size=few, **more, **said), [n, 1, many]
    groups = few if kind == "depthwise" else int(r.choice([1, 1, 2]))
    c, m = (few, few) if kind == "depthwise" else (groups * few, groups * int(r.integers(1, 20)))
    kernel, stride = r.integers(1, 4, 2).tolist(), int(r.integers(1, 3))
    shape = (c, m // groups, *kernel) if kind == "transposed" else (m, c // groups, *kernel)
    more = {"group": groups, "strides": [stride] * 2, "pads": r.integers(0, 2, 4).tolist()}
    op = "ConvTranspose" if kind == "transposed" else "Conv"
    return helper.make_node(op, [kind, w("w", *shape), w("b", m)], to, **more, **said), [1, c, 7, 9]


def _drawn(seed: int) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A network of one operator of each kind, side by side, and how many weights each has."""
    r = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    nodes, inputs, outputs = [], [], []
    for kind in KINDS:
        node, shape = _node(kind, r, weights)
        nodes.append(node)
        dtype = TensorProto.INT64 if kind == "table" else TensorProto.FLOAT
        inputs.append(helper.make_tensor_value_info(kind, dtype, shape))
        outputs.append(helper.make_tensor_value_info(f"{kind}.y", TensorProto.FLOAT, None))
    constants = [numpy_helper.from_array(a, name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "narrow", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    count = {k: sum(a.size for n, a in weights.items() if n.startswith(k) and n[-1] != "b") for k in KINDS}
    return model, count


@pytest.mark.parametrize(("form", "target"), CASES)
def test_kernels_compute_with_the_rounded_weights(form: str, target: str, tmp_path: Path) -> None:
    needs_target(target)
    model, count = _drawn(FORMS.index(form))
    onnx.save(model, tmp_path / "n.onnx")
    c, files = driver.compile_files(tmp_path / "n.onnx", Options(target=target, weights={"*": form}))
    write_folder(tmp_path / "c", files)
    network = Network(tmp_path / "c", tuple(quick(target)), emulate=True)
    r = np.random.default_rng(7)
    given = {
        v.name: r.standard_normal(v.shape).astype(np.float32) if v.dtype.is_float else r.integers(-3, 3, v.shape)
        for v in c.graph.inputs
    }
    meant = c.graph.evaluate(given, wide=True)
    for name, got in network.run(given).items():
        np.testing.assert_allclose(got, meant[name], rtol=1e-4, atol=1e-4 * np.abs(meant[name]).max(), err_msg=name)
    assert c.program is not None
    blob = sum(b.type.nbytes for b in c.program.module.buffers if b.space == "blob")
    if target == "generic":  # which pads nothing
        each = {k: BYTES["i8" if form == "i4" and k != "product" else form] * n for k, n in count.items()}
        assert blob <= sum(each.values()) + 4 * 700, each  # scales and biases


@pytest.mark.parametrize("form", FORMS)
def test_weights_are_the_nearest_of_their_form(form: str, tmp_path: Path) -> None:
    """A product with the identity matrix shows them."""
    weights = np.random.default_rng(3).standard_normal((64, 9)).astype(np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (64, 64))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "n.onnx")
    c = driver.import_graph(tmp_path / "n.onnx", Options(target="generic", weights={"*": form}))
    driver.optimize(c)
    (stored,) = c.graph.evaluate({"x": np.eye(64, dtype=np.float32)}, wide=True).values()
    by = {"i8": np.abs(weights).max(0), "i4": np.abs(weights.reshape(2, 32, 9)).max(1).repeat(32, 0)}
    size = by.get(form, np.abs(weights))
    assert (np.abs(stored - weights) <= ERROR[form] * size * 1.0001).all()
    assert not np.array_equal(stored, weights)


@pytest.mark.parametrize(("op", "at", "said"), [
    ("GatherElements", [6, 3], {"axis": 0}), ("GatherElements", [5, 2], {"axis": 1}),
    ("GatherND", [5, 2, 1], {"batch_dims": 1}), ("GatherND", [2, 2], {}), ("Gather", [2, 2], {"axis": 1}),
])  # fmt: skip
@pytest.mark.parametrize("form", ["f16", "i8"])
def test_tables_are_bytes_where_whole_slices_are_looked_up(
    op: str, at: list[int], said: dict[str, int], form: str, tmp_path: Path
) -> None:
    """Where each place of a slice has an index of its own, its scale had none: an internal error."""
    r = np.random.default_rng(0)
    table = r.standard_normal((5, 7) if op != "GatherND" else (5, 4, 3)).astype(np.float32)
    ports = helper.make_tensor_value_info("i", TensorProto.INT64, at), helper.make_tensor_value_info("y", 1, None)
    node = helper.make_node(op, ["t", "i"], ["y"], **said)
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], [numpy_helper.from_array(table, "t")])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    compilation = driver.import_graph(path, Options(target="generic", weights={"*": form}))
    plain = compilation.graph.evaluate({"i": (i := r.integers(-2, 2, at))})["y"]
    driver.optimize(compilation)
    whole = op == "Gather" or form == "f16"
    assert any(v.dtype.name == form for v in compilation.graph.constants) == whole
    assert np.abs(compilation.graph.evaluate({"i": i})["y"] - plain).max() < 0.02
