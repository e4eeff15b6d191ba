"""Vector code without a warning where it is easily forgotten: extents of the run, compilers that do not optimise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile import driver
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options
from mccompile.run.build import build_object
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import needs_tool
from tests.support.small_models import MODELS, Maker, write_model
from tests.support.targets import needs_cross_compiler, needs_target


def _build(
    nodes: list[onnx.NodeProto],
    shape: list[int | str],
    options: Options,
    flag: str,
    folder: Path,
    compiler: str = "gcc",
    dtype: int = TensorProto.FLOAT,
) -> str:
    """The C of a network of x, built to an object with warnings as errors."""
    ports = [helper.make_tensor_value_info("x", dtype, shape), onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "net.onnx")
    _, files = driver.compile_files(folder / "net.onnx", options)
    write_folder(folder / "out", files)
    target = resolve(options.target)
    flags = [*target.c_flags, *strict_warnings(compiler), flag]
    build_object([needs_tool(compiler)], folder / "out" / "net.c", flags, folder / "out")
    return files["net.c"].decode()


@pytest.mark.parametrize(("shape", "ragged"), [(["n", 17], "_1x4("), ([17, "n"], "_4x1(")])
def test_a_square_of_one_line_takes_no_distance(shape: list[Any], ragged: str, tmp_path: Path) -> None:
    """What is left of 17 behind squares of 4 is one line: how far the next one lies is asked for by nobody."""
    needs_target("x86-64-v2")
    turned = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])]
    text = _build(turned, shape, Options(target="x86-64-v2", dims={"n": "1..40"}), "-O1", tmp_path)
    assert ragged in text


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_intrinsics_that_are_macros_at_o0_give_no_warning(target: str, tmp_path: Path) -> None:
    """It is compiled, not run: by any gcc for x86-64."""
    needs_target("x86-64-v2")
    nodes = [
        helper.make_node("Round", ["x"], ["rounded"]),
        helper.make_node("Sin", ["rounded"], ["wave"]),
        helper.make_node("Exp", ["wave"], ["grown"]),
        helper.make_node("Cast", ["grown"], ["y"], to=TensorProto.FLOAT16),
    ]
    text = _build(nodes, [3, 35], Options(target=target), "-O0", tmp_path)
    assert "ps_ph" in text


@pytest.mark.parametrize("kind", [TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32])
def test_bits_the_other_way_round_may_be_compared(kind: int, tmp_path: Path) -> None:
    """gcc takes `(uint16_t)~x == 0` for a mistake, which it is without the cast."""
    nodes = [
        helper.make_node("Cast", ["x"], ["whole"], to=kind),
        helper.make_node("BitwiseNot", ["whole"], ["turned"]),
        helper.make_node("Cast", ["turned"], ["y"], to=TensorProto.BOOL),
    ]
    text = _build(nodes, [3, 5], Options(target="generic"), "-O1", tmp_path)
    assert "mcc_bitnot_u" in text


@pytest.mark.parametrize("weights", ["f32", "f16"])
@pytest.mark.parametrize("kernel", ["conv.direct", "conv.pointwise", "conv.channels"])
def test_no_helper_is_printed_that_nothing_calls(kernel: str, weights: str, tmp_path: Path) -> None:
    """Clang warns of them; templates ask for what they make, though they leave it out where sums are short."""
    values = np.linspace(-1, 1, 2 * 2 * 2 * 2, dtype=np.float32).reshape(2, 2, 2, 2)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(values, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    options = Options(target="x86-64-v4", kernels={"conv": kernel}, weights={"*": weights})
    _, files = driver.compile_files(tmp_path / "net.onnx", options)
    text = files["net.c"].decode()
    functions = re.findall(r"^static inline .*?(\w+)\(", text, re.MULTILINE)
    assert functions
    assert [f for f in functions if len(re.findall(rf"\b{f}\(", text)) == 1] == []


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_products_of_bytes_build_without_warnings_with_clang_for_arm(kind: str, tmp_path: Path) -> None:
    """Intrinsics of `arm_acle.h` take other types there than with gcc."""
    clang, target = needs_tool("clang"), resolve("cortex-m4")
    needs_cross_compiler(target)  # headers of the C library
    m, byte = Maker(), np.dtype(kind)
    x = m.input("x", [1, 8, 6, 6], helper.np_dtype_to_tensor_dtype(byte))
    scale, zero = m.const(np.float32(0.02)), m.const(byte.type(3))
    for i in range(2):
        w = m.const(np.arange(8 * 8 * 9).reshape(8, 8, 3, 3).astype(np.int8))
        x = m.node("QLinearConv", [x, scale, zero, w, scale, m.const(np.int8(0)), scale, zero], f"y{i}", pads=[1] * 4)
    onnx.save(m.model([x]), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target=target.name)
    command = [clang, "--target=arm-none-eabi", "-isystem", "/usr/include/newlib"]
    flags = [*target.required_flags, "-O2", *strict_warnings("clang")]
    build_object(command, tmp_path / "out" / "net.c", flags, tmp_path / "out")


@pytest.mark.parametrize(("k", "op"), [(3, "ReduceMax"), (90, "ReduceMin")])
def test_infinities_of_doubles_are_no_floats(k: int, op: str, tmp_path: Path) -> None:
    """Of a constant that is promoted clang warns, and gcc does not."""
    needs_target("x86-64-v2")
    nodes = [
        helper.make_node("Constant", [], ["k"], value_ints=[k]),
        helper.make_node("TopK", ["x", "k"], ["best", "places"]),
        helper.make_node(op, ["best"], ["y"]),
    ]
    options = Options(target="x86-64-v2", kernels={"topk": "topk.ranks", "reduce": "reduce.doubles"})
    text = _build(nodes, [4, 90], options, "-O1", tmp_path, "clang", TensorProto.DOUBLE)
    assert "(double)NAN" in text
    assert "(double)INFINITY" in text


EXCEPTIONS = (
    "declaration-after-statement",  # C99 has them
    "float-equal",  # ONNX's Equal, and numbers that are tested for 0 or an infinity
    "unsafe-buffer-usage",  # every element of an array
    "unknown-warning-option",  # of which not all are known to each release
)
"""What `-Weverything` of clang says of generated C, and is meant."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("compiler", "target"), [("clang", "generic"), ("clang", "x86-64-v2"), ("clang", "x86-64-v4"), ("gcc", "generic")]
)
def test_everything_that_compilers_know_but_what_is_meant(compiler: str, target: str, tmp_path: Path) -> None:
    """All warnings of clang; of gcc, what it finds along paths through the code (`-fanalyzer`, which takes the
    elements of vectors for numbers of two bits in gcc 12)."""
    if target != "generic":
        needs_target("x86-64-v2")
    kinds = ["-Weverything", *(f"-Wno-{name}" for name in EXCEPTIONS)] if compiler == "clang" else ["-fanalyzer"]
    flags = [*resolve(target).c_flags, "-O1", *kinds, "-Werror"]
    for name in MODELS:
        mccompile.compile(write_model(name, tmp_path), tmp_path / name, target=target)
        for source in ("mcc.c", f"{name}.c"):
            build_object([needs_tool(compiler)], tmp_path / name / source, flags, tmp_path / name)
