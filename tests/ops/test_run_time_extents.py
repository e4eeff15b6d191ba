"""Operators whose operands have an extent that is known at run time only, against onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mccompile
from mccompile.importer.varying import TAKES_EXTENTS
from mccompile.ir.errors import CompileError
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.run.network import Network
from mccompile.targets.target import STRICT_WARNINGS
from tests.support.children import in_children
from tests.support.extent_cases import Varying, varying
from tests.support.opcases import mismatch
from tests.support.targets import ONE_LANE, needs_target

SEEDS = int(os.environ.get("MCC_CASES", "6"))
QUICK = {
    ("", "Resize"): 8, ("", "Trilu"): 3, ("", "Pad"): 2, ("", "EyeLike"): 0, ("", "ConvTranspose"): 1,
    ("", "MaxPool"): 1, ("", "QLinearConv"): 0, ("com.microsoft", "Attention"): 0,
    ("com.microsoft", "EmbedLayerNormalization"): 1, ("ai.onnx.ml", "TreeEnsembleClassifier"): 0,
}  # fmt: skip
"""A seed of which onnxruntime and we take the case."""

UNDRAWN = ("Inverse",)
"""Repeated rows have no inverse, and onnxruntime crashes on matrices that are not square."""

TAKEN = [
    f for f in front_ends().values()
    if f.sample is not None and f.op_type in TAKES_EXTENTS and f.op_type not in UNDRAWN
]  # fmt: skip


def _fault(front_end: FrontEnd, case: Varying, folder: Path) -> str:
    """Empty if the network gives what onnxruntime gives for each extent."""
    path = folder / f"net{case.seed}.onnx"
    path.write_bytes(case.model.SerializeToString())
    out = folder / f"out{case.seed}"
    target, level = os.environ.get("MCC_TARGET", "generic"), os.environ.get("MCC_OPT", "O2")
    mccompile.compile(path, out, target=target, opt_level=level, dims={"n": f"{case.low}..{case.high}"})
    network = mccompile.load(out)
    for extent, (inputs, wanted) in case.runs.items():
        network.fill_arenas(0xFF)
        for got, want in zip(network.run(inputs).values(), wanted, strict=True):
            dtype = {"float32": "f32", "float16": "f16"}.get(want.dtype.name, "")
            tolerance = front_end.tolerance.get(dtype, 0.0) if case.case.tolerance is None else case.case.tolerance
            if fault := mismatch(got, want, tolerance):
                return f"{front_end.op_type} {case.label}, n = {extent}: {fault}"
    return ""


@pytest.mark.thorough
@pytest.mark.parametrize("name", QUICK, ids=lambda name: name[1])
def test_extents_of_the_run_give_what_onnxruntime_gives(name: tuple[str, str], tmp_path: Path) -> None:
    front_end = front_ends()[name]
    case = varying(front_end, QUICK[name])
    assert case is not None
    assert not _fault(front_end, case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("front_end", TAKEN, ids=lambda f: f"{f.domain}:{f.op_type}")
def test_every_operator_that_may_have_them(front_end: FrontEnd, tmp_path: Path) -> None:
    """What is refused is refused with an error; what is taken is right."""
    for seed in range(SEEDS):
        case = varying(front_end, seed)
        if case is not None:
            try:
                fault = _fault(front_end, case, tmp_path)
            except CompileError as error:
                fault = str(error) if "C compiler" in str(error) else ""
            assert not fault


@pytest.mark.parametrize("most", [7, 2000, 9000])
def test_rows_of_no_byte_come_to_an_end(most: int, tmp_path: Path) -> None:
    """What is doubled until it is large enough, the sum of a row's powers, is more than 0."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "fine", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "fine", "zero"], ["d"]),
        helper.make_node("Softmax", ["d"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "share", "low"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "share", "low"], ["y"]),
    ]
    numbers = {"fine": np.float32(0.01), "share": np.float32(1 / 256), "zero": np.int8(0), "low": np.int8(-128)}
    constants = [numpy_helper.from_array(np.array(a), name) for name, a in numbers.items()]
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph(nodes, "rows", given, [helper.make_empty_tensor_value_info("y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "rows.onnx")
    mccompile.compile(tmp_path / "rows.onnx", tmp_path / "out", target="generic", dims={"n": f"0..{most}"})
    assert "softmax_bytes.generic" in (tmp_path / "out" / "rows.c").read_text()
    network = mccompile.load(tmp_path / "out")

    def run() -> str:
        shapes = [network.run({"x": np.zeros(n, np.float32)})["y"].shape for n in (0, 3)]
        return str(shapes)

    assert in_children([run], 20) == [("[(0,), (3,)]", False)]


ONE_OR_NONE = """<ir_version: 8, opset_import: ["": 17]>
net (float[n, 3, 5, 7] x) => (float[m, 3, 5, 7] y, float[m, 3, 2, 7] z)
<int64[1] first = {2}, int64[1] last = {1}, int64[1] rows = {0}, int64[1] back = {-1},
 int64[1] from = {1}, int64[1] to = {3}, int64[1] lines = {2}, float[3,3,1,1] w = {1,2,3,4,5,6,7,8,9}>
{
  one = Slice(x, first, last, rows, back)
  y = Conv(one, w)
  z = Slice(one, from, to, lines)
}"""


@pytest.mark.parametrize("target", ["generic", "x86-64-v2"])
def test_at_most_one_row(target: str, tmp_path: Path) -> None:
    """Row 2 alone, counted backwards, if there is one: where there is none, its number lies before the first, and a
    tile function takes the number of a row that is always 0."""
    onnx.save(onnx.parser.parse_model(ONE_OR_NONE), tmp_path / "net.onnx")
    target = needs_target(target)
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target=target, dims={"n": "0..7"})
    network = Network(tmp_path / "out", flags=STRICT_WARNINGS)
    weights = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    for n in (0, 1, 2, 3, 7):
        x = np.random.default_rng(n).integers(-9, 9, (n, 3, 5, 7)).astype(np.float32)
        got = network.run({"x": x})
        np.testing.assert_array_equal(got["y"], np.einsum("mc,nchw->nmhw", weights, x[2:3]))
        np.testing.assert_array_equal(got["z"], x[2:3, :, 1:3])


ROW_OF_NOTHING = """<ir_version: 8, opset_import: ["": 17]>
net (float[2, 1, n] x) => (float[2, m, n] y)
<int64[1] two = {2}, int64[1] axis = {1}, int64[1] end = {9}>
{
  shape = Shape(x)
  n = Gather(shape, two)
  n2 = Mul(n, two)
  part = Slice(x, n2, end, axis)
  JOIN
}"""


@pytest.mark.parametrize(
    "join", ["y = Concat<axis=1>(part, x)", "both = SequenceConstruct(part, x) y = ConcatFromSequence<axis=1>(both)"]
)
def test_an_operand_that_has_no_element_in_any_run_has_an_extent(join: str, tmp_path: Path) -> None:
    """The row is there where its columns are not."""
    onnx.save(onnx.parser.parse_model(ROW_OF_NOTHING.replace("JOIN", join)), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", dims={"n": "0..3"})
    network = mccompile.load(tmp_path / "out")
    shapes = [network.run({"x": np.zeros((2, 1, n), np.float32)})["y"].shape for n in (0, 1, 3)]
    assert shapes == [(2, 2, 0), (2, 1, 1), (2, 1, 3)]


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("to", "FLOAT16 FLOAT DOUBLE BOOL INT8 UINT8 INT16 UINT16 UINT32 UINT64".split())
def test_extents_as_numbers_of_any_type(to: str, level: str, tmp_path: Path) -> None:
    """An extent, and one less 2, which small and unsigned types do not hold: whole numbers wrap."""
    dtype = getattr(onnx.TensorProto, to)
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Mod", ["shape", "nine"], ["rest"]),
        helper.make_node("Cast", ["rest"], ["r"], to=dtype),
        helper.make_node("Sub", ["shape", "two"], ["less"]),
        helper.make_node("Cast", ["shape"], ["y"], to=dtype),
        helper.make_node("Cast", ["less"], ["z"], to=dtype),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3])
    made = [helper.make_tensor_value_info(name, dtype, [2]) for name in "yzr"]
    constants = [numpy_helper.from_array(np.array([n, n]), name) for n, name in ((2, "two"), (9, "nine"))]
    graph = helper.make_graph(nodes, "g", [x], made, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic", opt_level=level, dims={"n": "1..700"})
    network = mccompile.load(tmp_path / "out")
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    for n in (1, 2, 300, 700):
        got = network.run({"x": np.zeros((n, 3), np.float32)})
        np.testing.assert_array_equal(got["y"], np.array([n, 3]).astype(kind))
        np.testing.assert_array_equal(got["z"], np.array([n - 2, 1]).astype(kind))
        np.testing.assert_array_equal(got["r"], np.array([n % 9, 3]).astype(kind))


HALVES = """<ir_version: 10, opset_import: ["": 27]>
net (KIND[n, 4] x) => (KIND[a] up, KIND[b] across, KIND[c] down, KIND[n, 4] sums, KIND[4, n] hot, KIND[n, 4] filled,
  KIND[n, n] eye, KIND[n, 4] lower, KIND[p, 4] padded, KIND[n, 4] chosen, KIND[n, 4] clipped, KIND[2] numbers)
<int64 zero = {0}, int64[1] first = {0}, int64[4] indices = {0, 1, -1, 2}>
{
  shape = Shape(x)
  whole = Gather(shape, zero)
  n = Cast<to = NUMBER>(whole)
  minus = Neg(n)
  up = Range(minus_three, n, unit)
  across = Range(minus, n, unit)
  down = Range(n, minus, minus_three)
  sums = CumSum(x, zero)
  ends = Concat<axis = 0>(low, high)
  hot = OneHot(indices, whole, ends)
  filled = ConstantOfShape<value = KIND[1] {BITS}>(shape)
  rows = Unsqueeze(whole, first)
  square = Concat<axis = 0>(rows, rows)
  blank = ConstantOfShape<value = KIND[1] {BITS}>(square)
  eye = EyeLike<dtype = NUMBER, k = -1>(blank)
  lower = Trilu<upper = 0>(x)
  pads = Concat<axis = 0>(rows, first, first, first)
  padded = Pad(x, pads, minus_three)
  test = Less(x, minus)
  chosen = Where(test, minus, n)
  clipped = Clip(x, minus, minus_three)
  numbers = Cast<to = NUMBER>(shape)
}"""


@pytest.mark.parametrize("target", ["generic", ONE_LANE, "native"])
@pytest.mark.parametrize("kind", ["FLOAT16", "BFLOAT16"])
def test_numbers_of_extents_in_16_bits(kind: str, target: str, tmp_path: Path) -> None:
    """Halves are stored as whole numbers without sign, and -3 is none of these."""
    number = getattr(onnx.TensorProto, kind)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    bits = np.array(-3, dtype).view(np.uint16)
    text = HALVES.replace("KIND", kind.lower()).replace("NUMBER", str(number)).replace("BITS", str(bits))
    model = onnx.parser.parse_model(text)
    for name, value in {"minus_three": -3, "unit": 1, "low": [-1], "high": [2.5]}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, dtype), name))
    onnx.save(model, tmp_path / "net.onnx")
    bounds = {"a": 12, "b": 18, "c": 6}
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target=target, dims={"n": "1..9"}, bounds=bounds)
    network, reference = mccompile.load(tmp_path / "out"), ReferenceEvaluator(model)
    for n in (1, 2, 7):
        x = np.random.default_rng(n).integers(-9, 9, (n, 4)).astype(dtype)
        got = network.run({"x": x if kind == "FLOAT16" else x.view(np.uint16)})
        for value, want in zip(model.graph.output, reference.run(None, {"x": x}), strict=True):
            found = got[value.name].view(dtype)
            np.testing.assert_array_equal(found.astype(np.float32), want.astype(np.float32), err_msg=value.name)
