"""Reading: what is decoded, and one clear error for each way in which a file can be bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.limits import limited
from mccompile.onnxio import OnnxValue, as_meant, limits, model_to_bytes, newest_opset, read_model, subgraphs
from mccompile.onnxio.files import model_files

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def proto(nodes: list[onnx.NodeProto], opset: int = 18, **graph: object) -> onnx.ModelProto:
    inner = helper.make_graph(nodes, "g", [X], [Y], **graph)
    return helper.make_model(inner, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def add(initializer: onnx.TensorProto) -> onnx.ModelProto:
    return proto([helper.make_node("Add", ["x", "w"], ["y"])], initializer=[initializer])


def save(model: onnx.ModelProto, folder: Path, name: str = "m.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


RELU = [helper.make_node("Relu", ["x"], ["y"])]


def test_plain_data(tmp_path: Path) -> None:
    weights = np.arange(3, dtype=np.float32)
    model = add(numpy_helper.from_array(weights, "w"))
    model.graph.node[0].name = "sum"
    model.producer_name = "me"
    helper.set_model_props(model, {"k": "v"})
    read = read_model(save(model, tmp_path))
    assert read.graph.inputs == [OnnxValue("x", "f32", ("n", 3))]
    assert read.graph.outputs == [OnnxValue("y", "f32", None)]
    node = read.graph.nodes[0]
    assert (node.op_type, node.domain, node.name, node.inputs, node.index) == (
        "Add",
        "",
        "sum",
        ("x", "w"),
        0,
    )
    np.testing.assert_array_equal(read.graph.initializers["w"], weights)
    assert read.opsets == {"": 18}
    assert (read.producer, read.metadata, len(read.sha256)) == ("me", {"k": "v"}, 64)


@pytest.mark.parametrize("unknown", ["", "?", "None", "-1"])
def test_extents_that_exporters_do_not_know_have_no_name(unknown: str, tmp_path: Path) -> None:
    """Old paddle2onnx calls height and width of an image both '?', which makes it no square."""
    model = proto(RELU)
    del model.graph.input[:]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, unknown, unknown])
    model.graph.input.append(image)
    assert read_model(save(model, tmp_path)).graph.inputs == [OnnxValue("x", "f32", ("n", 3, None, None))]


def test_attributes_of_every_kind(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["z"])], "b", [], [helper.make_empty_tensor_value_info("z")]
    )
    attrs = {
        "i": 3,
        "f": 0.5,
        "s": "txt",
        "is": [1, 2],
        "fs": [0.5],
        "ss": ["a", "b"],
        "g": branch,
        "gs": [branch],
    }
    node = helper.make_node("Op", ["x"], ["y"], domain="d", t=numpy_helper.from_array(np.eye(2)), **attrs)
    found = read_model(save(proto([node]), tmp_path)).graph.nodes[0]
    assert {k: found.attrs[k] for k in ("i", "f", "s", "is", "fs", "ss")} == {
        "i": 3, "f": 0.5, "s": "txt", "is": (1, 2), "fs": (0.5,), "ss": ("a", "b"),
    }  # fmt: skip
    np.testing.assert_array_equal(found.attrs["t"], np.eye(2))
    assert [g.nodes[0].op_type for g in subgraphs(found)] == ["Neg", "Neg"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\x00\x01garbage, certainly not a network", "not a readable ONNX protobuf"),
        (b"\x08\x08", "no ONNX graph"),
    ],
)
def test_files_that_are_no_models(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(CompileError, match=message):
        read_model(path)


def test_truncation_at_every_length(tmp_path: Path) -> None:
    data = add(numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")).SerializeToString()
    path = tmp_path / "m.onnx"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CompileError):
            read_model(path)


@pytest.mark.parametrize("opset", [18, 6])
def test_damage_is_an_error_or_harmless(opset: int, tmp_path: Path) -> None:
    model = add(numpy_helper.from_array(np.arange(3, dtype=np.float32), "w"))
    model.opset_import[0].version = opset
    model.graph.node[0].name = "sum"
    data = model.SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data.replace(b"sum", b"s\xffm"))
    with pytest.raises(CompileError, match="not UTF-8"):
        read_model(path)
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(400):
        damaged = np.frombuffer(data, np.uint8).copy()
        damaged[rng.integers(len(data), size=2)] = rng.integers(256, size=2)
        path.write_bytes(damaged.tobytes())
        try:
            read_model(path)
        except CompileError:
            refused += 1
    assert 100 < refused < 400


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        read_model(tmp_path / "absent.onnx")
    with pytest.raises(UsageError, match="is a folder"):
        read_model(tmp_path)


def test_opsets(tmp_path: Path) -> None:
    for opset, message in ((0, "no opset 0"), (newest_opset() + 1, "newer than")):
        with pytest.raises(CompileError, match=message):
            read_model(save(proto(RELU, opset), tmp_path))
    model = proto(RELU)
    model.opset_import[0].domain = "com.example"
    with pytest.raises(CompileError, match=r"no ai\.onnx opset"):
        read_model(save(model, tmp_path))
    model.opset_import[0].domain = "ai.onnx"
    assert read_model(save(model, tmp_path)).opsets == {"": 18}
    with pytest.raises(CompileError, match="no nodes"):
        read_model(save(proto([]), tmp_path))


def test_models_below_opset_7_are_converted_to_it(tmp_path: Path) -> None:
    weights = [numpy_helper.from_array(np.arange(3, dtype=np.float32), name) for name in ("w", "s")]
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"], broadcast=1, axis=1, name="add"),
        helper.make_node("PRelu", ["a", "s"], ["y"], name="prelu"),
    ]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, (2, 3, 4, 5)) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    read = read_model(save(model, tmp_path))
    assert read.opsets == {"": 7}
    given = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    channel = np.arange(3, dtype=np.float32)[:, None, None]
    want = given + channel
    want = np.where(want < 0, want * channel, want)
    (got,) = ReferenceEvaluator(onnx.ModelProto.FromString(model_to_bytes(read))).run(None, {"x": given})
    np.testing.assert_array_equal(got, want)


def test_defaults_that_a_later_opset_changes(tmp_path: Path) -> None:
    """Selu has 1.6732 and 1.0507 below opset 6, more digits of both from then on."""
    newer = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
    for opset, stated, want in (
        (1, {}, {"alpha": 1.6732, "gamma": 1.0507}),
        (5, {"alpha": 2.0}, {"alpha": 2.0, "gamma": 1.0507}),
        (6, {}, {}),
    ):
        model = proto([helper.make_node("Selu", ["x"], ["y"], **stated)], opset)
        (node,) = read_model(save(model, tmp_path)).graph.nodes
        assert {k: node.attrs.get(k, newer[k]) for k in newer} == pytest.approx({**newer, **want}, rel=1e-7)


def test_functions_are_inlined(tmp_path: Path) -> None:
    for opset in (18, 13):
        mean = {"axes": [1]} if opset == 13 else {}
        body = [
            helper.make_node("ReduceMean", ["a"], ["m"], **mean),
            helper.make_node("Sub", ["a", "m"], ["b"]),
        ]
        function = helper.make_function("my", "Centre", ["a"], ["b"], body, [helper.make_opsetid("", opset)])
        model = proto([helper.make_node("Centre", ["x"], ["y"], domain="my")])
        model.functions.append(function)
        model.opset_import.append(helper.make_opsetid("my", 1))
        nodes = read_model(save(model, tmp_path)).graph.nodes
        assert [n.op_type for n in nodes][-2:] == ["ReduceMean", "Sub"]
        assert nodes[-1].outputs == ("y",)
        assert as_meant(nodes[-2], 18)[1] == opset  # which rewrite it needs


def test_defaults_of_functions(tmp_path: Path) -> None:
    """They are where a call states no attribute: of the model, of another function, in a branch."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]

    def body(node: onnx.NodeProto, attribute: str, of: str) -> list[onnx.NodeProto]:
        node.attribute.add(name=attribute, ref_attr_name=of, type=onnx.AttributeProto.FLOAT)
        return [node]

    def function(name: str, nodes: list[onnx.NodeProto], default: float) -> onnx.FunctionProto:
        known = [helper.make_attribute("slope", default)]
        return helper.make_function("my", name, ["a"], ["b"], nodes, imports, attribute_protos=known)

    def call(name: str, source: str, target: str, **stated: float) -> onnx.NodeProto:
        return helper.make_node(name, [source], [target], domain="my", **stated)

    branch = helper.make_graph([call("Leaky", "x", "z")], "b", [], [helper.make_tensor_value_info("z", 1, None)])
    model = proto([
        call("Leaky", "x", "p"), call("Leaky", "p", "q", slope=0.75), call("Outer", "q", "r"), call("Free", "r", "s"),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ], initializer=[numpy_helper.from_array(np.array(True), "c")])  # fmt: skip
    model.opset_import.append(imports[1])
    model.functions.extend([
        function("Leaky", body(helper.make_node("LeakyRelu", ["a"], ["b"]), "alpha", "slope"), 0.25),
        function("Outer", body(call("Leaky", "a", "b"), "slope", "slope"), 0.5),
        function("Free", [call("Leaky", "a", "b")], 0.0),
    ])  # fmt: skip
    *plain, node = read_model(save(model, tmp_path)).graph.nodes
    assert [n.attrs["alpha"] for n in plain] == [0.25, 0.75, 0.5, 0.25]
    assert [[n.attrs["alpha"] for n in inner.nodes] for inner in subgraphs(node)] == [[0.25], [0.25]]


def test_defaults_of_functions_that_others_call_without_what_they_have_not(tmp_path: Path) -> None:
    """What a function passes on is absent where its own call leaves it out: the inner function's default is meant."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]

    def passing(op: str, domain: str, attribute: str, of: str) -> onnx.NodeProto:
        made = helper.make_node(op, ["a"], ["b"], domain=domain)
        made.attribute.add(name=attribute, ref_attr_name=of, type=onnx.AttributeProto.FLOAT)
        return made

    def function(name: str, nodes: list[onnx.NodeProto], **defaults: float) -> onnx.FunctionProto:
        known = [helper.make_attribute(k, v) for k, v in defaults.items()]
        open_names = [] if defaults else ["slope"]
        return helper.make_function("my", name, ["a"], ["b"], nodes, imports, open_names, attribute_protos=known)

    stated = [("x", "p", {}), ("p", "q", {"slope": 0.75}), ("q", "y", {})]
    model = proto([helper.make_node("Outermost", [a], [b], domain="my", **at) for a, b, at in stated])
    model.opset_import.append(imports[1])
    model.functions.extend([
        function("Leaky", [passing("LeakyRelu", "", "alpha", "slope")], slope=0.25),
        function("Outer", [passing("Leaky", "my", "slope", "slope")]),
        function("Outermost", [passing("Outer", "my", "slope", "slope")]),
    ])  # fmt: skip
    nodes = read_model(save(model, tmp_path)).graph.nodes
    assert [n.attrs["alpha"] for n in nodes] == [0.25, 0.75, 0.25]


def test_functions_of_another_opset_read_weights_and_each_other(tmp_path: Path) -> None:
    """The inliner asks for the types of what they read, which no value_info states."""
    body = [helper.make_node("ReduceMean", ["a", "axis"], ["m"]), helper.make_node("Sub", ["a", "m"], ["b"])]
    older = helper.make_function("my", "Centre", ["a", "axis"], ["b"], body, [helper.make_opsetid("", 18)])
    weight = numpy_helper.from_array(np.array([1]), "w")
    calls = [helper.make_node("Centre", [a, "w"], [b], domain="my") for a, b in (("x", "t"), ("u", "y"))]
    model = proto([calls[0], helper.make_node("Relu", ["t"], ["u"]), calls[1]], opset=20, initializer=[weight])
    model.functions.append(older)
    model.opset_import.append(helper.make_opsetid("my", 1))
    nodes = read_model(save(model, tmp_path)).graph.nodes
    assert [n.op_type for n in nodes] == ["ReduceMean", "Sub", "Relu", "ReduceMean", "Sub"]


def test_functions_that_another_opset_leaves_as_they_are(tmp_path: Path) -> None:
    """They need no conversion, and no types: nobody knows those of what a call inside a branch gives."""
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1)]
    some = helper.make_tensor_value_info("t", 1, None)
    inside = helper.make_graph([helper.make_node("Older", ["a"], ["t"], domain="my")], "b", [], [some])
    body = [
        helper.make_node("If", ["c"], ["d"], then_branch=inside, else_branch=inside),
        helper.make_node("Older", ["d"], ["b"], domain="my"),
    ]
    older = helper.make_node("Constant", [], ["s"], value_ints=[-1]), helper.make_node("Reshape", ["a", "s"], ["b"])
    nodes = [helper.make_node("Outer", ["c", "x"], ["y"], domain="my")]
    model = proto(nodes, opset=20, initializer=[numpy_helper.from_array(np.array(True), "c")])
    model.opset_import.append(imports[1])
    model.functions.append(helper.make_function("my", "Older", ["a"], ["b"], older, [helper.make_opsetid("", 16)]))
    model.functions.append(helper.make_function("my", "Outer", ["c", "a"], ["b"], body, imports))
    kinds = [n.op_type for n in read_model(save(model, tmp_path)).graph.nodes]
    assert kinds == ["If", "Constant", "Reshape"]


def test_functions_that_explode_or_recurse(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]

    def call(name: str, source: str, target: str) -> onnx.NodeProto:
        return helper.make_node(name, [source], [target], domain="my")

    model = proto([call("f0", "x", "y")])
    model.opset_import.append(imports[1])
    for level in range(30):
        body = [call(f"f{level + 1}", "a", "t"), call(f"f{level + 1}", "t", "b")]
        model.functions.append(helper.make_function("my", f"f{level}", ["a"], ["b"], body, imports))
    last = helper.make_function("my", "f30", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], imports)
    model.functions.append(last)
    with pytest.raises(CompileError, match="the limit is 1,000,000"):
        read_model(save(model, tmp_path))
    model.functions[-1].node[0].CopyFrom(call("f0", "a", "b"))
    with pytest.raises(CompileError, match="calls itself"):
        read_model(save(model, tmp_path))


def test_node_and_depth_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with limited({"nodes": 3}), pytest.raises(CompileError, match="the model has 4 nodes, the limit is 3"):
        read_model(save(proto(RELU * 4), tmp_path))
    monkeypatch.setattr(limits, "MAX_DEPTH", 2)
    node = RELU[0]
    for _ in range(3):
        branch = helper.make_graph([node], "b", [], [Y])
        node = helper.make_node("Wrap", ["x"], ["y"], domain="d", body=branch)
    with pytest.raises(CompileError, match="nested deeper than 2"):
        read_model(save(proto([node]), tmp_path))


def test_very_deep_nesting_is_an_error_not_a_crash(tmp_path: Path) -> None:
    node = RELU[0].SerializeToString()
    for _ in range(300):

        def field(number: int, data: bytes) -> bytes:
            size, length = len(data), b""
            while size > 127:
                length += bytes([size & 127 | 128])
                size >>= 7
            return bytes([number << 3 | 2]) + length + bytes([size]) + data

        node = field(5, field(6, field(1, node)))  # attribute { g { node } }
    model = proto(RELU)
    data = model.SerializeToString()
    path = tmp_path / "deep.onnx"
    path.write_bytes(data + field(7, field(1, node)))
    with pytest.raises(CompileError, match=r"protobuf|nested"):
        read_model(path)


@pytest.mark.parametrize(
    ("kind", "values", "name"),
    [
        (TensorProto.BFLOAT16, [1.5, -2.0, 0.0], "bfloat16"),
        (TensorProto.FLOAT16, [1.5, -2.0, 0.0], "float16"),
        (TensorProto.INT4, [-8, 7, 1], "int4"),
        (TensorProto.UINT4, [0, 15, 1], "uint4"),
        (TensorProto.INT8, [-128, 127, 0], "int8"),
        (TensorProto.BOOL, [1, 0, 1], "bool"),
    ],
)
def test_tensor_types(kind: int, values: list[float], name: str, tmp_path: Path) -> None:
    found = read_model(save(add(helper.make_tensor("w", kind, [3], values)), tmp_path)).graph.initializers[
        "w"
    ]
    assert found.dtype.name == name
    np.testing.assert_array_equal(found.astype(np.float32), np.array(values, np.float32))


def test_sparse_initializers(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.array([5.0, 7.0], np.float32), "w")
    for indices in (np.array([1, 5]), np.array([[0, 1], [1, 2]])):
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices), [2, 3])
        model = proto([helper.make_node("Add", ["x", "w"], ["y"])])
        model.graph.sparse_initializer.append(sparse)
        found = read_model(save(model, tmp_path)).graph.initializers["w"]
        np.testing.assert_array_equal(found, np.array([[0, 5, 0], [0, 0, 7]], np.float32))
    bad = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1, 6])), [2, 3])
    model.graph.sparse_initializer[0].CopyFrom(bad)
    with pytest.raises(CompileError, match="outside"):
        read_model(save(model, tmp_path))
    model.graph.sparse_initializer[0].dims[:] = [1 << 40, 3]
    with pytest.raises(CompileError, match="limit"):
        read_model(save(model, tmp_path))


def test_tensors_that_lie(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    for dims, message in (([4], "needs 16"), ([-3], "negative"), ([1 << 50], "limit")):
        tensor.dims[:] = dims
        with pytest.raises(CompileError, match=message):
            read_model(save(add(tensor), tmp_path))
    short = helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3])
    short.dims[:] = [5]
    with pytest.raises(CompileError, match="'w'"):
        read_model(save(add(short), tmp_path))
    tensor.dims[:] = [3]
    tensor.data_type = 99
    with pytest.raises(CompileError, match="element type 99"):
        read_model(save(add(tensor), tmp_path))


def external(location: str, **entries: int) -> onnx.TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_external_data(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    data = np.arange(4, dtype=np.float32)
    (folder / "sub" / "w.bin").write_bytes(data.tobytes())
    (tmp_path / "outside.bin").write_bytes(data.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    (folder / "loop.bin").symlink_to("loop.bin")
    found = read_model(save(add(external("sub/w.bin", offset=4, length=12)), folder))
    np.testing.assert_array_equal(found.graph.initializers["w"], data[1:])
    for tensor, message in (
        (external("../outside.bin"), "not a path inside"),
        (external("sub/../../outside.bin"), "not a path inside"),
        (external(str(tmp_path / "outside.bin")), "not a path inside"),
        (external(""), "not a path inside"),
        (external("link.bin"), "leads out"),
        (external("absent.bin"), "missing"),
        (external("sub"), "missing"),
        (external("sub/w.bin", length=8), "its shape needs 12"),
        (external("sub/w.bin", offset=8), "ends early"),
        (external("sub/w.bin", offset=-4), "its shape needs 12"),
        (external("sub/w.bin", offset=10**20), "there is nothing at"),
        (external("a" * 300), "is no path"),
        (external("loop.bin"), "is no path|leads out|is missing"),
    ):
        with pytest.raises(CompileError, match=message):
            read_model(save(add(tensor), folder))


def test_places_of_external_data_that_are_no_text(tmp_path: Path) -> None:
    path = save(add(external("MARK")), tmp_path)
    path.write_bytes(path.read_bytes().replace(b"MARK", b"\xff\xfeK\x80"))
    with pytest.raises(CompileError, match="not UTF-8"):
        read_model(path)
    with pytest.raises(CompileError, match=r"not UTF-8|no text"):
        model_files(path)


def test_values_that_are_no_tensors(tmp_path: Path) -> None:
    model = proto(RELU)
    model.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None))
    assert read_model(save(model, tmp_path)).graph.outputs[0].dtype == "sequence"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert read_model(save(model, tmp_path)).graph.inputs[0].shape == (None, 3)


def test_models_of_other_domains_alone_need_not_state_ai_onnx(tmp_path: Path) -> None:
    model = proto([helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.5)], 3)
    model.opset_import[0].domain = "ai.onnx.ml"
    assert read_model(save(model, tmp_path)).opsets == {"ai.onnx.ml": 3, "": newest_opset()}
    path = save(model, tmp_path)
    graph = import_graph(path, Options(target="generic", dims={"n": 2})).graph
    (got,) = graph.evaluate({"x": np.array([[0.25, 0.5, 0.75]] * 2, np.float32)}).values()
    np.testing.assert_array_equal(got, [[0, 0, 1]] * 2)


@pytest.mark.parametrize(
    ("op", "opset", "attrs", "said"),
    [
        ("Pad", 1, {"paddings": [0, 0, 1, 1]}, "converter does not convert Pad"),
        ("LpPool", 1, {"kernel_shape": [2]}, "converter does not convert LpPool"),
        ("Reshape", 4, {}, "attribute 'shape' is missing"),
    ],
)
def test_what_the_converter_lacks_names_the_node(
    tmp_path: Path, op: str, opset: int, attrs: dict[str, list[int]], said: str
) -> None:
    """ONNX's converter asserts in its C++ ("BaseConverter.h:66: ..."), and tells no node."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node(op, ["r"], ["y"], name="old", **attrs)]
    with pytest.raises(CompileError, match=said) as caught:
        read_model(save(proto(nodes, opset), tmp_path))
    assert f"m.onnx: node 1 'old' ({op})" in str(caught.value)
    assert "ssert" not in str(caught.value)


@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Equal", "Greater", "Less"])
@pytest.mark.parametrize(("attrs", "extents"), [({}, (2, 3, 4)), ({"broadcast": 1}, (3, 4)),
                                                ({"broadcast": 1, "axis": 1}, (3,))])  # fmt: skip
def test_comparisons_below_opset_7(
    tmp_path: Path, op: str, attrs: dict[str, int], extents: tuple[int, ...]
) -> None:
    """ONNX's converter has nothing for them, with or without axes that `axis` aligns."""
    dtype = np.dtype(bool if op in ("And", "Or", "Xor") else np.int32 if op == "Equal" else np.float32)
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 2, (2, 3, 4)).astype(dtype), rng.integers(0, 2, extents).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    inputs = [helper.make_tensor_value_info(n, kind, v.shape) for n, v in (("a", a), ("b", b))]
    output = helper.make_tensor_value_info("y", TensorProto.BOOL, [2, 3, 4])
    graph = helper.make_graph([helper.make_node(op, ["a", "b"], ["y"], **attrs)], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=4)
    second = b[:, None] if "axis" in attrs else b
    rule = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal,
            "Greater": np.greater, "Less": np.less}[op]  # fmt: skip
    made = import_graph(save(model, tmp_path), Options(target="generic")).graph.evaluate({"a": a, "b": b})
    np.testing.assert_array_equal(made["y"], rule(a, second))


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_recurrent_cells_below_opset_7(tmp_path: Path, op: str) -> None:
    """They have `output_sequence`, which says whether the first result is there, as its name does."""
    rng, gates = np.random.default_rng(6), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (1, gates * 2, 3)), ("r", (1, gates * 2, 2)))
    ]
    x, found = rng.standard_normal((4, 2, 3)).astype(np.float32), []
    for opset, more in ((6, {"output_sequence": 1}), (7, {})):
        node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=2, **more)
        model = proto([node], opset, initializer=weights)
        del model.graph.input[:]
        model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape))
        graph = import_graph(save(model, tmp_path), Options(target="generic")).graph
        found.append(graph.evaluate({"x": x})["y"])
    np.testing.assert_array_equal(*found)


def test_private_attributes_are_not_read(tmp_path: Path) -> None:
    """Names with two underscores in front are an exporter's own: none of ours, whatever they say."""
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.append(helper.make_attribute("__multiplied", 1))
    assert not read_model(save(proto([node]), tmp_path)).graph.nodes[0].attrs
