"""Inputs and outputs that are not the model's: bytes at the borders of a quantised network, and other formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.check.check import check
from mccompile.driver import Options, import_graph
from mccompile.interface.interface import make_interface
from mccompile.interface.tensors import Format
from mccompile.ir.errors import UsageError
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import DTYPES, TensorType
from mccompile.ops.registry import lookup
from mccompile.report.summary import summary

Array = np.ndarray[Any, np.dtype[Any]]

QUANTISE = "{expr={u8((rne((x0 / 0.5)) + 3.0))}}"
DEQUANTISE = "{expr={(f32((i32(x0) - i32(3))) * 0.5)}}"


def bytes_of(graph: Graph, seed: int) -> dict[str, Array]:
    """Any integers, and normal floats, for each input."""
    rng = np.random.default_rng(seed)
    drawn: dict[str, Array] = {}
    for v in graph.inputs:
        if v.dtype.is_float:
            drawn[v.name] = rng.standard_normal(v.shape).astype(v.dtype.numpy)
        else:
            info = np.iinfo(v.dtype.numpy.name)
            drawn[v.name] = rng.integers(info.min, info.max + 1, v.shape).astype(v.dtype.numpy)
    return drawn


# -- quantised borders ----------------------------------------------------------------------------------------------
KEPT = {
    "at once and at last": f"""graph @g(%x: f32[2,3]) {{
      %q = map(%x) {QUANTISE} : u8[2,3]
      %d = map(%q) {DEQUANTISE} : f32[2,3]
      %s = map(%d) {{expr={{sigmoid(x0)}}}} : f32[2,3]
      %r = map(%s) {{expr={{i8((rne((x0 / 0.25)) + -7.0))}}}} : i8[2,3]
      %y = map(%r) {{expr={{(f32((i32(x0) - i32(-7))) * 0.25)}}}} : f32[2,3]
      return %y
    }}""",
    "behind movement, by several readers": f"""graph @g(%x: f32[2,3]) {{
      %t = transpose(%x) {{perm=(1, 0)}} : f32[3,2]
      %q = map(%t) {QUANTISE} : u8[3,2]
      %p = map(%x) {QUANTISE} : u8[2,3]
      %d = map(%q) {DEQUANTISE} : f32[3,2]
      %y = reshape(%d) {{shape=(6,)}} : f32[6]
      %z = map(%p) {DEQUANTISE} : f32[2,3]
      return %y, %z
    }}""",
    "dequantised numbers that are read elsewhere, too": f"""graph @g(%x: f32[2,3]) {{
      %q = map(%x) {QUANTISE} : u8[2,3]
      %m = map(%q) {{expr={{max(x0, u8(9))}}}} : u8[2,3]
      %y = map(%m) {DEQUANTISE} : f32[2,3]
      %s = map(%y) {{expr={{exp(x0)}}}} : f32[2,3]
      %r = map(%s) {QUANTISE} : u8[2,3]
      %z = map(%r) {DEQUANTISE} : f32[2,3]
      return %y, %z
    }}""",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_bytes_come_in_and_go_out(text: str) -> None:
    before, after = parse_graph(text, lookup), parse_graph(text, lookup)
    notes: list[str] = []
    interface = make_interface(after, {}, True, notes)
    assert not notes
    assert all(v.dtype.name in ("u8", "i8") for v in (*after.inputs, *after.outputs))
    assert [v.name for v in after.outputs] == [v.name for v in before.outputs]
    assert set(interface.kept) == set(interface.quantised) == {v.name for v in (*after.inputs, *after.outputs)}
    inputs = bytes_of(after, 1)
    real, got = before.evaluate(interface.model_inputs(inputs)), after.evaluate(inputs)
    for name, array in got.items():
        np.testing.assert_array_equal(interface.quantised[name].real(array), real[name])
    wanted = interface.outputs(real, {v.name: v.type for v in after.outputs})
    assert all(np.array_equal(wanted[n], got[n]) and wanted[n].dtype == got[n].dtype for n in got)


LEFT = {
    "two scales": f"""graph @g(%x: f32[4]) {{
      %q = map(%x) {QUANTISE} : u8[4]
      %p = map(%x) {{expr={{u8((rne((x0 / 0.25)) + 3.0))}}}} : u8[4]
      %y = map(%q, %p) {{expr={{max(x0, x1)}}}} : u8[4]
      return %y
    }}""",
    "a reader of floats": f"""graph @g(%x: f32[4]) {{
      %q = map(%x) {QUANTISE} : u8[4]
      %y = map(%x, %q) {{expr={{(x0 * f32(x1))}}}} : f32[4]
      return %y
    }}""",
    "what is cut off before": """graph @g(%x: f32[4]) {
      %y = map(%x) {expr={u8((rne((relu(x0) / 0.5)) + 3.0))}} : u8[4]
      return %y
    }""",
    "digits that are cut off": """graph @g(%x: f32[4]) {
      %y = map(%x) {expr={i8(x0)}} : i8[4]
      return %y
    }""",
    "a scale of which multiples are infinite": """graph @g(%x: f32[4]) {
      %y = map(%x) {expr={u8((rne((x0 / 2.2e+38)) + 3.0))}} : u8[4]
      return %y
    }""",
    "an offset that is no byte": """graph @g(%x: f32[4]) {
      %y = map(%x) {expr={u8((rne((x0 / 0.5)) + 1e+10))}} : u8[4]
      return %y
    }""",
    "floats at last": f"""graph @g(%q: u8[4]) {{
      %d = map(%q) {DEQUANTISE} : f32[4]
      %y = map(%d) {{expr={{exp(x0)}}}} : f32[4]
      return %y
    }}""",
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_what_is_no_border_stays_with_a_note(text: str) -> None:
    graph = parse_graph(text, lookup)
    types = [str(v) for v in (*graph.inputs, *graph.outputs)]
    notes: list[str] = []
    interface = make_interface(graph, {}, True, notes)
    assert not interface.changed
    assert [str(v) for v in (*graph.inputs, *graph.outputs)] == types
    assert len(notes) == sum("f32" in t for t in types)
    assert all("stays f32" in note for note in notes)


# -- formats --------------------------------------------------------------------------------------------------------
def by_hand(f: Format, x: Array, model: TensorType) -> Array:
    """(element - mean) * scale, one by one."""
    y = np.zeros(model.shape, model.dtype.numpy)
    for at in np.ndindex(*model.shape):
        c = at[f.axis]
        from_ = (*(a for k, a in enumerate(at) if k != f.axis), c) if f.last else at
        mean, scale = (np.float32(n[c % len(n)]) for n in (f.mean, f.scale))
        real = (np.float32(x[from_]) - mean) * scale
        y[at] = real if model.dtype.is_float else np.clip(np.rint(real), -128, 127)
    return y


@pytest.mark.parametrize("model", ["f32[2,3,4,5]", "i8[2,3,4,5]", "f16[2,3,4,5]", "f32[2,3]"])
@pytest.mark.parametrize("given", [
    "u8", "i16,mean=3.5", "u8,nhwc,mean=1:2.25:-3,scale=0.5", "u16,nhwc,scale=0.01:0.02:0.03", "i8,axis=-1,scale=-2",
])  # fmt: skip
def test_formats(given: str, model: str) -> None:
    dtype, count = model.partition("[")[0], 6 if model == "f32[2,3]" else 120
    flat = f"{{shape=({count},)}} : {dtype}[{count}]"
    graph = parse_graph(f"graph @g(%x: {model}) {{\n %y = reshape(%x) {flat}\n return %y\n}}", lookup)
    if "nhwc" in given and model == "f32[2,3]":
        with pytest.raises(UsageError, match="images"):
            make_interface(graph, {"x": given}, False, [])
        return
    interface = make_interface(graph, {"x": given}, False, [])
    ((f, own),) = interface.formats.values()
    inputs = bytes_of(graph, 2)
    assert graph.inputs[0].name == "x"
    assert inputs["x"].shape == ((2, 4, 5, 3) if f.last else own.shape)
    wanted = by_hand(f, inputs["x"], own)
    np.testing.assert_array_equal(interface.model_inputs(inputs)["x"], wanted)
    np.testing.assert_array_equal(graph.evaluate(inputs)["y"], wanted.reshape(-1))


def test_a_number_without_axes_has_a_format_too() -> None:
    graph = parse_graph("graph @g(%x: f32[]) {\n %y = map(%x) {expr={(x0 + 1.0)}} : f32[]\n return %y\n}", lookup)
    interface = make_interface(graph, {"x": "u8,mean=3,scale=0.5"}, False, [])
    inputs = {"x": np.array(7, np.uint8)}
    got = interface.model_inputs(inputs)["x"]
    assert (got.shape, float(got)) == ((), 2.0)
    assert graph.evaluate(inputs)["y"].shape == ()


@pytest.mark.parametrize(("given", "why"), [
    ({"z": "u8"}, "no graph input named 'z'"), ({"x": "f32"}, "begins with 'f32'"), ({"x": "u8,oops"}, "'oops'"),
    ({"x": "u8,mean=1:2"}, "3 channels"), ({"x": "u8,scale=0"}, "makes 0"), ({"x": "u8,mean=nan"}, "a number"),
    ({"x": "u8,axis=4"}, "axis 4"), ({"b": "u8"}, "for numbers"),
])  # fmt: skip
def test_formats_that_do_not_fit(given: dict[str, str], why: str) -> None:
    graph = parse_graph(
        "graph @g(%x: f32[1,3,4,4], %b: bool[2]) {\n %y = map(%x) {expr={exp(x0)}} : f32[1,3,4,4]\n"
        " %z = map(%b) {expr={not(x0)}} : bool[2]\n return %y, %z\n}", lookup)  # fmt: skip
    with pytest.raises(UsageError, match=re.escape(why)):
        make_interface(graph, given, False, [])


def test_bits_have_no_format() -> None:
    """The bits of a bfloat16 input were taken for numbers: 3 was 4e-45."""
    x = helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    made = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], "g", [x], [y])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UsageError, match="the model has bf16 there"):
        mccompile.inspect(model, input_formats={"x": "u8"})


# -- from end to end ------------------------------------------------------------------------------------------------
@pytest.fixture
def quantised_model(tmp_path: Path) -> Path:
    """image f32[1,3,8,8] -> Q -> DQ -> convolution -> Q -> DQ -> scores."""
    rng = np.random.default_rng(5)
    arrays = {
        "xs": np.float32(0.02), "xz": np.int8(-3), "ws": np.float32(0.01), "wz": np.int8(0), "ys": np.float32(0.05),
        "yz": np.int8(11), "w": rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["image", "xs", "xz"], ["q"]), node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["weights"]), node("Conv", ["d", "weights"], ["c"]),
        node("QuantizeLinear", ["c", "ys", "yz"], ["p"]), node("DequantizeLinear", ["p", "ys", "yz"], ["scores"]),
    ]  # fmt: skip
    made = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 4, 6, 6])],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )  # fmt: skip
    path = tmp_path / "conv.onnx"
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "native"])
def test_a_network_of_bytes(quantised_model: Path, target: str) -> None:
    options = Options(target=target, io="caller,quantized", input_formats={})
    found = check(quantised_model, options, per_layer=True, golden=True)
    assert found.ok, found.lines()
    assert [c.type for c in found.runs[0].comparisons] == ["int8[1,4,6,6]"]
    pixels = Options(target=target, io="quantized", input_formats={"image": "u8,nhwc,mean=100:110:120,scale=0.02"})
    found = check(quantised_model, pixels, golden=True)
    assert found.ok, found.lines()


@pytest.mark.thorough
def test_bytes_that_become_floats_at_once_make_no_quantised_network(tmp_path: Path) -> None:
    """As pixels, and text."""
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), helper.make_node("Transpose", ["f"], ["t"]),
        helper.make_node("MatMul", ["t", "f"], ["y"]),
    ]  # fmt: skip
    ports = [("x", TensorProto.UINT8, [4, 3])], [("y", TensorProto.FLOAT, [3, 3])]
    inputs, outputs = ([helper.make_tensor_value_info(*port) for port in side] for side in ports)
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), ir_version=8)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", 17))
    onnx.save(model, tmp_path / "m.onnx")
    assert mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic").report["quantised"] is None


def test_what_is_told_of_bytes(quantised_model: Path, tmp_path: Path) -> None:
    report = mccompile.compile(quantised_model, tmp_path / "q", target="generic", io="quantized").report
    assert report["quantised"]["floats"] == []
    (given,), (made,) = report["inputs"], report["outputs"]
    assert (given["dtype"], given["scale"], given["zero_point"]) == ("i8", float(np.float32(0.02)), -3)
    assert (made["dtype"], made["zero_point"]) == ("i8", 11)
    header = (tmp_path / "q" / "conv.h").read_text()
    assert "#define CONV_INPUT_IMAGE_SCALE 0.02f\n#define CONV_INPUT_IMAGE_ZERO_POINT (-3)\n" in header
    assert "#define CONV_OUTPUT_SCORES_SCALE 0.05f\n#define CONV_OUTPUT_SCORES_ZERO_POINT 11\n" in header
    network = mccompile.load(tmp_path / "q")
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    scores = network.run({"image": network.quantised["image"].elements(x, DTYPES["i8"])})["scores"]
    plain = import_graph(quantised_model, Options(target="generic")).graph.evaluate({"image": x})["scores"]
    assert np.abs(network.quantised["scores"].real(scores) - plain).max() <= np.float32(0.05) * 1.01


def test_sums_that_are_scaled_in_registers_of_floats_are_no_floats(quantised_model: Path, tmp_path: Path) -> None:
    """Vectors scale so; the summary says it, and names no roof of floats that bytes would be above."""
    report = mccompile.compile(quantised_model, tmp_path / "q", target="x86-64-v3", io="quantized").report
    assert (report["quantised"]["floats"], report["quantised"]["scaled"]) == ([], 1)
    assert "integers from end to end; sums of 1 are scaled" in (text := summary(report, "q"))
    assert "MACs in each" in text
    assert "roof" not in text


@pytest.mark.thorough
def test_pixels_need_no_floats(quantised_model: Path, tmp_path: Path) -> None:
    """A table where all channels have one mean and scale, else a multiplication for each channel."""
    for numbers in ("mean=128,scale=0.02", "mean=100:110:120,scale=0.02"):
        formats = {"image": f"u8,nhwc,{numbers}"}
        out = tmp_path / numbers[:8]
        made = mccompile.compile(quantised_model, out, target="generic", io="quantized", input_formats=formats)
        report = made.report
        assert report["quantised"]["floats"] == []
        assert report["inputs"][0]["format"] == formats["image"]
        assert (report["inputs"][0]["dtype"], report["inputs"][0]["shape"]) == ("u8", [1, 8, 8, 3])
        assert "float" not in re.sub(r"/\*.*?\*/", "", (out / "conv.c").read_text(), flags=re.S)
