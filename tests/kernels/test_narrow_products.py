"""Products of floats of 16 bits: the C of every target computes what float64 makes of operands that were rounded
beforehand, in the weights of the model and in what it is fed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile import driver
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options
from mccompile.ir.errors import UsageError
from mccompile.ir.small_floats import bf16_bits, bf16_values
from mccompile.passes.storage import narrow_products
from mccompile.run.build import build_object
from mccompile.run.network import Network
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import needs_tool
from tests.support.targets import needs_target, quick

CASES = [
    pytest.param(form, target, seed, marks=() if seed == 0 else pytest.mark.slow)
    for form, target in (
        ("bf16", "generic"), ("f16", "generic"), ("bf16", "aarch64-bf16"), ("f16", "aarch64-bf16"),
        ("f16", "aarch64-fp16"), ("bf16", "x86-64-v4-bf16"),
    )
    for seed in range(3)
]  # fmt: skip
KINDS = ("product", "rows", "window", "point", "line")


def rounded(form: str, array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16).astype(np.float32) if form == "f16" else bf16_values(bf16_bits(array))


def drawn(seed: int) -> onnx.ModelProto:
    """A network of products and convolutions side by side, each with a bias and some with a relu behind it."""
    r = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    nodes, inputs, outputs = [], [], []
    for kind in KINDS:
        few, many, n = int(r.integers(3, 30)), int(r.integers(5, 70)), int(r.integers(1, 20))

        def w(name: str, *shape: int, kind: str = kind) -> str:
            weights[f"{kind}.{name}"] = r.standard_normal(shape).astype(np.float32)
            return f"{kind}.{name}"

        y = [f"{kind}.sum"]
        if kind == "product":
            turned, left = r.integers(0, 2, 2).tolist()
            shape = [many, n] if left else [n, many]
            weight = w("w", few, many) if turned else w("w", many, few)
            node = helper.make_node("Gemm", [kind, weight, w("b", few)], y, transA=left, transB=turned, name=kind)
        elif kind == "rows":
            shape = [2, n, many]
            node = helper.make_node("MatMul", [kind, w("w", many, few)], y, name=kind)
        else:
            axes = 1 if kind == "line" else 2
            kernel = [1] * axes if kind == "point" else r.integers(1, 4, axes).tolist()
            more = {"strides": r.integers(1, 3, axes).tolist()}
            if kind != "point":
                more |= {"dilations": r.integers(1, 3, axes).tolist(), "pads": r.integers(0, 3, 2 * axes).tolist()}
            shape = [int(r.integers(1, 3)), few, *r.integers(9, 13, axes).tolist()]
            node = helper.make_node("Conv", [kind, w("w", many, few, *kernel), w("b", many)], y, name=kind, **more)
        nodes += [node, helper.make_node("Relu" if r.integers(2) else "Identity", y, [f"{kind}.y"])]
        inputs.append(helper.make_tensor_value_info(kind, TensorProto.FLOAT, shape))
        outputs.append(helper.make_tensor_value_info(f"{kind}.y", TensorProto.FLOAT, None))
    constants = [numpy_helper.from_array(a, name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "narrow", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def meant(form: str, model: onnx.ModelProto, given: dict[str, np.ndarray], path: Path) -> dict[str, np.ndarray]:
    """In float64, of the operands as numpy rounds them: nothing of what is tested has a part in it."""
    for constant in model.graph.initializer:
        if constant.name.endswith(".w"):
            constant.CopyFrom(numpy_helper.from_array(rounded(form, numpy_helper.to_array(constant)), constant.name))
    onnx.save(model, path)
    graph = driver.import_graph(path, Options(target="generic")).graph
    return graph.evaluate({name: rounded(form, array) for name, array in given.items()}, wide=True)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that are small are rounded even where f32 would be faster."""
    monkeypatch.setattr(narrow_products, "FASTER", 0.0)


def some_ties(array: np.ndarray) -> np.ndarray:
    """The same, every third element half way between two neighbours of bf16."""
    bits = array.view(np.uint32).copy()
    bits.reshape(-1)[::3] &= 0xFFFF0000
    bits.reshape(-1)[::3] |= 0x8000
    return bits.view(np.float32)


@pytest.mark.parametrize(("form", "target", "seed"), CASES)
@pytest.mark.usefixtures("always")
def test_products_are_those_of_rounded_operands(form: str, target: str, seed: int, tmp_path: Path) -> None:
    """Sums may differ by what sums of f32 do: 1e-5 of the largest element, with 270 products at the most."""
    needs_target(target)
    model = drawn(seed)
    onnx.save(model, tmp_path / "n.onnx")
    c, files = driver.compile_files(tmp_path / "n.onnx", Options(target=target, precision={"*": form}))
    write_folder(tmp_path / "c", files)
    network = Network(tmp_path / "c", tuple(quick(target)), emulate=True)
    r = np.random.default_rng(7)
    given = {v.name: some_ties(r.standard_normal(v.shape).astype(np.float32)) for v in c.graph.inputs}
    got = network.run(given)
    for name, want in meant(form, model, given, tmp_path / "rounded.onnx").items():
        np.testing.assert_allclose(got[name], want, rtol=0, atol=1e-5 * np.abs(want).max(), err_msg=name)
    kernels = set(network.report["kernels"]) - {"copy.generic"}
    if target == "generic":
        assert kernels == {"conv.generic", "matmul.generic"}
    else:  # a layer that is best with channels first has no other kernel: without `always` it stays f32
        assert "conv.narrow" in kernels
        assert kernels <= {"conv.narrow", "conv.generic"}


@pytest.mark.usefixtures("always")
def test_what_is_stored_in_16_bits_is_what_readers_would_round(tmp_path: Path) -> None:
    """Whole numbers, whose sums are exact however they are added up: the C has the bits of the graph of `generic`,
    which stores floats. Most sums that are rounded have more than 8 bits."""
    target = needs_target("x86-64-v4-bf16")
    r = np.random.default_rng(3)
    weights, nodes = [], []

    def conv(x: str, y: str, many: int, few: int, taps: int, **more: list[int]) -> None:
        array = r.integers(-9, 10, (many, few, taps, taps)).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"{y}.w"))
        nodes.append(helper.make_node("Conv", [x, f"{y}.w"], [y], name=y, **more))

    conv("x", "a", 32, 16, 3, pads=[1, 1, 1, 1])
    nodes.append(helper.make_node("Relu", ["a"], ["positive"]))
    conv("x", "b", 32, 16, 1)
    nodes.append(helper.make_node("Concat", ["positive", "b"], ["both"], axis=1))
    conv("both", "c", 24, 64, 1)
    conv("c", "y", 7, 24, 3)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 16, 9, 9]), ("y", None))]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "n.onnx")
    narrow = {"precision": {"*": "bf16"}}
    c, files = driver.compile_files(tmp_path / "n.onnx", Options(target=target, **narrow))
    assert sum(p.changes for p in c.passes if p.name == "store-halves") >= 3
    plain, _ = driver.compile_files(tmp_path / "n.onnx", Options(target="generic", **narrow))
    x = r.integers(-9, 10, (1, 16, 9, 9)).astype(np.float32)
    write_folder(tmp_path / "c", files)
    got = Network(tmp_path / "c", tuple(quick(target)), emulate=True).run({"x": x})
    np.testing.assert_array_equal(got["y"], plain.graph.evaluate({"x": x})["y"])
    assert np.abs(plain.graph.evaluate({"x": x})["y"]).max() < 2**24


@pytest.mark.usefixtures("always")
def test_vdpbf16ps_takes_small_numbers_for_zero(tmp_path: Path) -> None:
    """An operand below 2^-126, and what a step adds to a sum, as docs/precision.md says."""
    needs_target("x86-64-v4-bf16")
    weights = numpy_helper.from_array(np.full((32, 16), 2.0**100, np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, e]) for n, e in (("x", 32), ("y", 16))]
    graph = helper.make_graph([node], "small", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "n.onnx")
    options = Options(target="x86-64-v4-bf16", precision={"*": "bf16"})
    write_folder(tmp_path / "c", driver.compile_files(tmp_path / "n.onnx", options)[1])
    x = np.full((2, 32), 2.0**-127, np.float32)
    x[1] = 2.0**-126
    (got,) = Network(tmp_path / "c", tuple(quick("x86-64-v4-bf16")), emulate=True).run({"x": x}).values()
    np.testing.assert_array_equal(got, np.repeat(np.float32([[0], [2.0**-21]]), 16, axis=1))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_avx512_products_compile_without_warnings(compiler: str, tmp_path: Path) -> None:
    """By both compilers, on machines that do not run VDPBF16PS, too."""
    needs_tool(compiler)
    onnx.save(drawn(1), tmp_path / "n.onnx")
    options = Options(target="x86-64-v4-bf16", precision={"*": "bf16"})
    _, files = driver.compile_files(tmp_path / "n.onnx", options)
    assert b"_mm512_dpbf16_ps" in files["n.c"]
    write_folder(tmp_path / "c", files)
    target = resolve("x86-64-v4-bf16")
    flags = [*target.c_flags, *strict_warnings(compiler), "-Wno-unused-command-line-argument"]  # -lm
    build_object([compiler], tmp_path / "c" / "n.c", flags, tmp_path / "c")


def test_what_a_target_lacks_is_said(tmp_path: Path) -> None:
    onnx.save(drawn(0), tmp_path / "n.onnx")
    with pytest.raises(UsageError, match="x86-64-v3 has no products of bf16") as found:
        driver.compile_files(tmp_path / "n.onnx", Options(target="x86-64-v3", precision={"product": "bf16"}))
    assert "aarch64-bf16, x86-64-v4-bf16" in str(found.value.hint)
