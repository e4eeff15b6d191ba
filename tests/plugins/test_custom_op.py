"""``--custom-op``: nodes that are calls of a function of C from outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver, plugins
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, UsageError
from tests._skips import needs_tool
from tests.cli.conftest import spawn

HERE = Path(__file__).parent
LOW_PASS = f"com.acme:LowPass={HERE / 'low_pass.h'}"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """No function is left."""
    yield
    plugins._functions.clear()
    for clear in plugins._registries:
        clear()


def model(folder: Path, stated: tuple[int, ...] = (), **attributes: object) -> Path:
    """Conv, Reshape, LowPass, Reshape, Conv: the convolutions want halos around what the filter reads and writes."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 16, 1]) for name in "xy")
    weights = np.random.default_rng(1).normal(size=(3, 3, 3, 1)).astype(np.float32) / 3
    constants = {"w": weights, "rows": np.array([3, 16]), "image": np.array([1, 3, 16, 1])}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 0, 1, 0]),
        helper.make_node("Reshape", ["a", "rows"], ["b"]),
        helper.make_node("LowPass", ["b"], ["c"], domain="com.acme", **{"share": 0.25, **attributes}),
        helper.make_node("Reshape", ["c", "image"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["y"], pads=[1, 0, 1, 0]),
    ]
    info = [helper.make_tensor_value_info("c", TensorProto.FLOAT, stated)] if stated else []
    held = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], held, value_info=info)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "net.onnx")
    return folder / "net.onnx"


@pytest.mark.parametrize("target", ["generic", "native"])
def test_results_are_those_of_the_twin(target: str, tmp_path: Path) -> None:
    plugins.add_function(LOW_PASS)
    found = mccompile.check(model(tmp_path, (3, 16)), target=target)
    assert found.ok
    assert "onnx.reference" in found.judge


def test_a_twin_may_hold_what_reads_annotations(tmp_path: Path) -> None:
    twin = """
from dataclasses import dataclass

@dataclass
class Filter:
    share: float = 0.5

def low_pass(x0, share):
    return x0 * Filter(share).share
"""
    (tmp_path / "low_pass.h").write_text("")
    for head in ("", "from __future__ import annotations\n"):
        (tmp_path / "low_pass.py").write_text(head + twin)
        found = plugins.add_function(f"com.acme:LowPass={tmp_path / 'low_pass.h'}")
        assert found.evaluate([2.0], {"share": 0.25}) == [0.5]


def varying(folder: Path, extents: list[int | str], stated: list[int | str]) -> Path:
    """Relu, LowPass, Slice without the first row, LowPass."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, e) for name, e in (("x", extents), ("y", None)))
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("LowPass", ["a"], ["b"], domain="com.acme", share=0.25),
        helper.make_node("Slice", ["b", "from", "to"], ["c"]),
        helper.make_node("LowPass", ["c"], ["y"], domain="com.acme", share=0.5),
    ]
    held = [onnx.numpy_helper.from_array(np.array([n]), name) for name, n in (("from", 1), ("to", 2**31 - 1))]
    info = [helper.make_tensor_value_info("b", TensorProto.FLOAT, stated)] if stated else []
    graph = helper.make_graph(nodes, "g", [x], [y], held, value_info=info)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "net.onnx")
    return folder / "net.onnx"


@pytest.mark.parametrize("stated", [[], ["n", 8]])
def test_leading_extents_may_be_those_of_the_run(stated: list[int | str], tmp_path: Path) -> None:
    plugins.add_function(LOW_PASS)
    path = varying(tmp_path, ["n", 8], stated)
    for numbers in ("2..9", "3,5"):
        assert mccompile.check(path, target="generic", dims={"n": numbers}).ok
    with pytest.raises(CompileError, match="known at run time only, and not the first"):
        mccompile.compile(varying(tmp_path, [3, "n"], []), tmp_path / "out", dims={"n": "1..9"})


@pytest.mark.parametrize(("name", "element"), [("INT64", "int64_t"), ("FLOAT16", "uint16_t")])
def test_what_it_reads_and_writes_keeps_its_type(name: str, element: str, tmp_path: Path) -> None:
    """The places of ArgMax would be i32 elsewhere, and halves f32."""
    (tmp_path / "same.h").write_text(
        f"#include <stdint.h>\nstatic inline void same(const {element} *x0, const int32_t *x0_dims, {element} *y0, "
        "const int32_t *y0_dims)\n{\n(void)y0_dims;\nfor (int32_t i = 0; i < x0_dims[0]; ++i) y0[i] = x0[i];\n}\n"
    )
    plugins.add_function(f"com.acme:Same={tmp_path / 'same.h'}")
    dtype = getattr(TensorProto, name)
    x, y = (helper.make_tensor_value_info(n, dtype if n == "y" else TensorProto.FLOAT, e) for n, e in (
        ("x", [3, 4]), ("y", [3]),
    ))  # fmt: skip
    nodes = [
        helper.make_node("ArgMax", ["x"], ["places"], axis=1, keepdims=0),
        helper.make_node("Cast", ["places"], ["a"], to=dtype),
        helper.make_node("Same", ["a"], ["b"], domain="com.acme"),
        helper.make_node("Add", ["b", "a"], ["y"]),
    ]
    info = [helper.make_tensor_value_info("b", dtype, [3])]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y], value_info=info)
    mccompile.compile(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "out", target="native")
    found = mccompile.load(tmp_path / "out")(np.eye(3, 4, dtype=np.float32))
    assert found.tolist() == [0, 2, 4]


def test_graphs_inside_of_a_node_give_it_rows(tmp_path: Path) -> None:
    """The convolutions want halos around what the function in a branch reads and writes."""
    (tmp_path / "ramp.h").write_text(
        "#include <stdint.h>\nstatic inline void ramp(const float *x0, const int32_t *x0_dims, float *y0, "
        "const int32_t *y0_dims)\n{\n(void)y0_dims;\n"
        "for (int32_t i = 0; i < x0_dims[1] * x0_dims[2]; ++i) y0[i] = x0[i] + (float)i;\n}\n"
    )
    (tmp_path / "ramp.py").write_text(
        "import numpy as np\n\ndef ramp(x):\n    return x + np.arange(x.size, dtype=x.dtype).reshape(x.shape)\n"
    )
    plugins.add_function(f"com.acme:Ramp={tmp_path / 'ramp.h'}")
    made = helper.make_tensor_value_info("made", TensorProto.FLOAT, [1, 4, 16])
    then = helper.make_graph([helper.make_node("Ramp", ["a"], ["made"], domain="com.acme")], "then", [], [made])
    other = helper.make_graph([helper.make_node("Exp", ["a"], ["made"])], "other", [], [made])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 16])
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("a.y", "b.y", "d.y")]
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other),
        helper.make_node("Not", ["c"], ["not"]),
        helper.make_node("If", ["not"], ["d"], then_branch=then, else_branch=other),
        *(helper.make_node("Conv", [name, "w"], [f"{name}.y"], pads=[1, 1]) for name in "abd"),
    ]
    weights = onnx.numpy_helper.from_array(np.ones((2, 4, 3), np.float32), "w")
    graph = helper.make_graph(nodes, "g", [x, c], results, [weights])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    assert mccompile.check(model, target="native", opt_level="O0").ok


def test_the_command_line_takes_it_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = spawn([model(tmp_path), "-o", out, "--custom-op", LOW_PASS, "--target", "generic", "--split-kernels"])
    assert done.returncode == 0, done.stderr
    assert {"low_pass.c", "low_pass.h"} <= set(os.listdir(out))
    assert "low_pass.c" in (out / "CMakeLists.txt").read_text()
    subprocess.run([needs_tool("gcc"), "-std=c99", "-c", *out.glob("*.c")], cwd=tmp_path, check=True)


@pytest.mark.parametrize("declared", [
    "void other(const float *x0, const int32_t *x0_dims, double *y0, const int32_t *y0_dims, float share);",
    "int other(const float *x0);",
])  # fmt: skip
def test_another_signature_does_not_compile(declared: str, tmp_path: Path) -> None:
    (tmp_path / "other.h").write_text(f"#include <stdint.h>\n{declared}\n")
    plugins.add_function(f"com.acme:LowPass={tmp_path / 'other.h'}")
    driver.compile(model(tmp_path), tmp_path / "out", Options(target="generic"))
    done = subprocess.run([needs_tool("gcc"), "-std=c99", "-c", "net.c"], cwd=tmp_path / "out", capture_output=True)
    assert b"conflicting types" in done.stderr


def test_attributes_are_parameters_by_name(tmp_path: Path) -> None:
    (tmp_path / "f.h").write_text("")
    plugins.add_function(f"com.acme:LowPass={tmp_path / 'f.h'}")
    path = model(tmp_path, mode="fast", taps=[1, 2], gains=[0.5])
    driver.compile(path, tmp_path / "out", Options(target="generic"))
    code = " ".join((tmp_path / "out" / "net.c").read_text().split())
    assert (
        "const float *gains, int32_t gains_count, const char *mode, float share, const int32_t *taps, "
        "int32_t taps_count);" in code
    )
    assert 'f(x0, x0_dims, y0, y0_dims, gains, 1, "fast", 0.25f, taps, 2);' in code


def test_calls_that_differ_in_extents_or_text_stay_apart(tmp_path: Path) -> None:
    """Where kernels that differ in numbers alone are one."""
    (tmp_path / "times.h").write_text(
        "#include <stdint.h>\nstatic inline void times(const float *x0, const int32_t *x0_dims, float *y0, "
        "const int32_t *y0_dims, const char *how)\n{\n(void)y0_dims;\n"
        "for (int32_t i = 0; i < x0_dims[0]; ++i) y0[i] = (float)(how[0] - '0') * x0[i];\n}\n"
    )
    plugins.add_function(f"com.acme:Times={tmp_path / 'times.h'}")
    kinds = [("a", 8, "2 times"), ("b", 8, "3 times"), ("c", 12, "3 times")]
    nodes = [helper.make_node("Times", [n], [f"{n}.y"], domain="com.acme", how=how) for n, _, how in kinds]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [extent]) for n, extent, _ in kinds]
    outputs = [helper.make_tensor_value_info(f"{n}.y", TensorProto.FLOAT, [extent]) for n, extent, _ in kinds]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
    made = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=9)
    mccompile.compile(made, tmp_path / "out", target="generic", opt_level="Os")
    given = {n: np.arange(extent, dtype=np.float32) for n, extent, _ in kinds}
    found = mccompile.load(tmp_path / "out").run(given)
    for n, _, how in kinds:
        assert found[f"{n}.y"].tolist() == (int(how[0]) * given[n]).tolist()


def test_attributes_may_be_infinite(tmp_path: Path) -> None:
    (tmp_path / "f.h").write_text("")
    plugins.add_function(f"com.acme:LowPass={tmp_path / 'f.h'}")
    path = model(tmp_path, share=float("inf"), gains=[0.5, float("-inf")])
    driver.compile(path, tmp_path / "out", Options(target="generic"))
    subprocess.run([needs_tool("gcc"), "-std=c99", "-Werror", "-c", "net.c"], cwd=tmp_path / "out", check=True)
    code = (tmp_path / "out" / "net.c").read_text()
    assert "gains[2] = { 0.5f, (float)-1e39 };" in code
    assert "INFINITY, " in code or "INFINITY)" in code


DOUBLE = (
    "#include <stdint.h>\nstatic inline void twice(const float *x0, const int32_t *x0_dims, float *y0, "
    "const int32_t *y0_dims)\n{\n(void)y0_dims;\nfor (int32_t i = 0; i < x0_dims[0]; ++i) y0[i] = 2 * x0[i];\n}\n"
)


def _twice(x: str, y: str) -> onnx.NodeProto:
    return helper.make_node("Twice", [x], [y], domain="com.acme")


def _of_constants() -> list[onnx.NodeProto]:
    return [_twice("eight", "a"), helper.make_node("Neg", ["a"], ["b"]), _twice("b", "made")]


def _in_a_loop() -> list[onnx.NodeProto]:
    """Of constants alone, in a loop that stays one: 2^20 * eight."""
    going, kept = (helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("going", "kept"))
    before, behind = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in ("before", "behind"))
    turn = helper.make_tensor_value_info("turn", TensorProto.INT64, [])
    nodes = [_twice("before", "behind"), helper.make_node("Identity", ["going"], ["kept"])]
    body = helper.make_graph(nodes, "body", [turn, going, before], [kept, behind])
    return [helper.make_node("Loop", ["turns", "", "eight"], ["made"], body=body)]


def _of_extents() -> list[onnx.NodeProto]:
    value = onnx.numpy_helper.from_array(np.float32([8]))
    return [
        helper.make_node("Shape", ["x"], ["extents"]),
        helper.make_node("ConstantOfShape", ["extents"], ["eights"], value=value),
        _twice("eights", "made"),
    ]


@pytest.mark.parametrize("has_twin", [False, True])
@pytest.mark.parametrize(("nodes", "factor"), [(_of_constants, -4.0), (_in_a_loop, 2.0**20), (_of_extents, 2.0)])
def test_nodes_of_constants_need_no_twin(
    nodes: Callable[[], list[onnx.NodeProto]], factor: float, has_twin: bool, tmp_path: Path
) -> None:
    """They are computed by it where there is one, otherwise by the C."""
    (tmp_path / "twice.h").write_text(DOUBLE)
    if has_twin:
        (tmp_path / "twice.py").write_text("def twice(x):\n    return 2 * x\n")
    plugins.add_function(f"com.acme:Twice={tmp_path / 'twice.h'}")
    dims = {"n": "8..9"} if nodes is _of_extents else {}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n" if dims else 8]) for name in "xy")
    held = [onnx.numpy_helper.from_array(np.full(8, 8, np.float32), "eight")]
    held += [onnx.numpy_helper.from_array(np.array(20), "turns")]
    graph = helper.make_graph([*nodes(), helper.make_node("Add", ["x", "made"], ["y"])], "g", [x], [y], held)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    report = mccompile.compile(made, tmp_path / "out", target="generic", dims=dims).report
    assert ("custom.generic" in report["kernels"]) is not has_twin
    assert mccompile.load(tmp_path / "out")(np.ones(8, np.float32)).tolist() == [1 + 8 * factor] * 8


def test_a_twin_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "twice.h").write_text(DOUBLE)
    made = plugins.add_function(f"com.acme:Twice={tmp_path / 'twice.h'}")
    for factor in (2, 3):
        (tmp_path / "twice.py").write_text(f"def twice(x):\n    return {factor} * x\n")
        assert made.evaluate([1], {}) == [factor]


@pytest.mark.parametrize("text", ["def once(x): ...", "def twice(): ...", "def twice(x): return x.none", "def"])
def test_a_twin_that_fails_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "twice.h").write_text(DOUBLE)
    (tmp_path / "twice.py").write_text(f"{text}\n")
    with pytest.raises(CompileError, match=r"twice\.py cannot be used"):
        plugins.add_function(f"com.acme:Twice={tmp_path / 'twice.h'}").evaluate([1], {})


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    for text, rule in (("LowPass=low_pass.h", "has to be like"), ("a:B=gone.h", "there is no file")):
        with pytest.raises(UsageError, match=rule):
            plugins.add_function(text)
    (tmp_path / "alone.h").write_text(
        "#include <stdint.h>\nstatic inline void alone(const float *x0, const int32_t *x0_dims, float *y0, "
        "const int32_t *y0_dims, float share)\n{\n(void)x0_dims; (void)y0_dims; y0[0] = share * x0[0];\n}\n"
    )
    plugins.add_function(f"com.acme:LowPass={tmp_path / 'alone.h'}")
    with pytest.raises(CompileError, match="alone has no twin"):
        mccompile.check(model(tmp_path), target="generic")
    with pytest.raises(CompileError, match="cannot be given to a function of C"):
        driver.compile(model(tmp_path, share=2**40), tmp_path / "out", Options(target="generic"))


@pytest.mark.parametrize(
    "attributes",
    [{"int": 3}, {"NULL": 1}, {"x0": 1}, {"y0_dims": 1}, {"share": [0.5], "share_count": 1}, {"low_pass": 1}],
)
def test_parameters_that_c_cannot_have_are_refused(attributes: dict[str, object], tmp_path: Path) -> None:
    plugins.add_function(LOW_PASS)
    with pytest.raises(CompileError, match="no parameter of low_pass can be called as the attribute"):
        driver.compile(model(tmp_path, **attributes), tmp_path / "out", Options(target="generic"))


@pytest.mark.parametrize("name", ["int", "stdint", "mcc", "mcc_low"])
def test_headers_that_would_hide_others_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.h").write_text("")
    with pytest.raises(UsageError, match="named after no function"):
        plugins.add_function(f"com.acme:LowPass={tmp_path / name}.h")
