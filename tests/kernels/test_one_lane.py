"""Kernels of wide vectors with vectors of one float, as microcontrollers have them: plain C, run on this machine.

The target is the Cortex-M4 without its flags.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import mccompile
from mccompile.driver import Options, compile_program, import_graph
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.test_variants import CASES, inputs_of, kernels_of, library, ort_run
from tests.support.opcases import Built, CaseLibrary, mismatch
from tests.support.targets import ONE_LANE

NO_LANES = {"map.vector", "conv.direct", "conv.winograd", "matmul.strassen", "matmul_quantised.words", "topk.radix",
            "topk.ranks", "softmax.hard", "arg_reduce.vector"}
"""Kernels that are not for it: loops that need no vectors, and what takes memory to be fast."""
KERNELS = sorted({c.kernel for c in CASES} - NO_LANES)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_of_one_lane_agree(kernel: str, tmp_path: Path) -> None:
    """With onnxruntime and with the generic kernel, on an arena full of 0xFF, twice with other inputs."""
    cases = [c for c in CASES if c.kernel == kernel and "_made" not in c.name][::3]  # nothing is packed then
    forced = library(cases, ONE_LANE, tmp_path / "forced")
    generic = library(cases, ONE_LANE, tmp_path / "generic", generic=True)
    ran = 0
    for case, built, plain in zip(cases, forced.built, generic.built, strict=True):
        ran += kernel in kernels_of(built)
        model = case.model()
        for seed in (1, 2):
            inputs = inputs_of(model, seed)
            want = ort_run(model, inputs)
            results = zip(forced.run(built, inputs), generic.run(plain, inputs), want, strict=True)
            for got, other, expected in results:
                fault = mismatch(got, expected, case.tolerance)
                assert not fault, f"{case.name}: {fault}"
                assert not mismatch(got, other, case.tolerance), f"{case.name}: not as the generic kernel"
    assert ran == len(cases)


def network(shape: tuple[int, ...], *convolutions: dict[str, Any], last: bool = False) -> onnx.ModelProto:
    """Convolutions in a row, each with a bias and a relu; with ``add`` the operand is added before that. With
    ``last`` the input has its channels last."""
    rng = np.random.default_rng(len(convolutions) + sum(shape))
    nodes, weights, x, channels = [], [], "x", shape[1]
    for i, attributes in enumerate(convolutions):
        made = dict(attributes)
        out, kernel, add = made.pop("out"), made.pop("kernel"), made.pop("add", False)
        own = channels // made.get("group", 1)
        w = rng.uniform(-1, 1, (out, own, *kernel)).astype(np.float32) / np.sqrt(own * np.prod(kernel))
        weights += [onnx.numpy_helper.from_array(w.astype(np.float32), f"w{i}"),
                    onnx.numpy_helper.from_array(rng.uniform(-1, 1, out).astype(np.float32), f"b{i}")]  # fmt: skip
        nodes.append(helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], **made))
        total = f"c{i}"
        if add:
            nodes.append(helper.make_node("Add", [total, x], [f"a{i}"]))
            total = f"a{i}"
        nodes.append(helper.make_node("Relu", [total], [f"y{i}"]))
        x, channels = f"y{i}", out
    value = helper.make_tensor_value_info
    if last:
        nodes.insert(0, helper.make_node("Transpose", ["x_last"], ["x"], perm=[0, 3, 1, 2]))
        shape = (shape[0], *shape[2:], shape[1])
    graph = helper.make_graph(nodes, "g", [value("x_last" if last else "x", 1, shape)], [value(x, 1, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


SAME: dict[str, Any] = {"kernel": (3, 3), "pads": [1, 1, 1, 1]}
POINT: dict[str, Any] = {"kernel": (1, 1)}
NETWORKS = {
    "residual": network((1, 3, 9, 7), {"out": 8, **SAME}, {"out": 8, **SAME, "add": True}, {"out": 8, **SAME}),
    "strides": network(
        (1, 4, 11, 8), {"out": 8, **SAME, "strides": [2, 1]}, {"out": 12, "kernel": (1, 1), "strides": [2, 2]},
        {"out": 4, "kernel": (2, 3), "pads": [0, 2, 1, 0], "dilations": [2, 1]},
    ),
    "in place": network(
        (1, 8, 6, 5), {"out": 16, **POINT}, {"out": 16, **SAME, "group": 16}, {"out": 16, **POINT},
        {"out": 16, **SAME, "group": 16}, {"out": 2, **POINT},
    ),
    "channels last": network((1, 3, 8, 8), {"out": 8, **SAME}, {"out": 16, **SAME}, {"out": 8, **SAME}, last=True),
    "planes": network((1, 16, 12, 5), {"out": 16, **POINT}, {"out": 16, **POINT}),
    "one axis": network(
        (2, 6, 21), {"out": 8, "kernel": (5,), "pads": [2, 1]}, {"out": 8, "kernel": (1,)},
        {"out": 8, "kernel": (4,), "group": 8}, {"out": 20, "kernel": (3,), "strides": [2]},
    ),
    "few": network((1, 5, 4, 4), {"out": 6, **SAME}, {"out": 4, **SAME}, {"out": 1, **POINT}),
}  # fmt: skip


@pytest.mark.parametrize("level", ["O2", "Os"])
def test_convolutions_over_their_operands(level: str, tmp_path: Path) -> None:
    """Networks whose buffers overlap as the planner likes, on an arena full of 0xFF."""
    built = []
    for i, model in enumerate(NETWORKS.values()):
        path = tmp_path / f"net{i}.onnx"
        path.write_bytes(model.SerializeToString())
        c = import_graph(path, Options(target=ONE_LANE, name=f"net{i}", opt_level=level))
        built.append(Built(i, Case([]), [], c, compile_program(c)))
    library = CaseLibrary(tmp_path, built, [*resolve(ONE_LANE).c_flags, *STRICT_WARNINGS]).build()
    used: set[str] = set()
    for b, (name, model) in zip(built, NETWORKS.items(), strict=True):
        used |= kernels_of(b)
        for seed in (1, 2):
            inputs = inputs_of(model, seed)
            for got, want in zip(library.run(b, inputs), ort_run(model, inputs), strict=True):
                fault = mismatch(got, want, 1e-5)
                assert not fault, f"{name}: {fault}"
    tiles = {"conv.channels", "matmul.packed", "conv.depthwise"}
    assert tiles & used == (tiles if level == "O2" else set()), used
    assert ("conv.blocks" in used) == (level == "Os")


def test_what_overlaps_takes_no_more_memory_than_scalar_kernels_do(tmp_path: Path) -> None:
    """Some bytes more are for tiles that hold several pixels."""
    for name, model in NETWORKS.items():
        path = tmp_path / "net.onnx"
        path.write_bytes(model.SerializeToString())
        peaks = {}
        for target in ("generic", ONE_LANE):
            for level in ("O2", "Os"):
                report = mccompile.compile(path, tmp_path / "out", target=target, opt_level=level).report
                peaks[target, level] = report["memory"]["peak_bytes"]
        for level in ("O2", "Os"):
            assert peaks[ONE_LANE, level] <= 1.02 * peaks["generic", level] + 64, (name, level, peaks)


@pytest.mark.parametrize("target", ["cortex-m4", "riscv32imac"])
def test_elements_of_eight_bytes_are_aligned_for_them(target: str, tmp_path: Path) -> None:
    """Where all else is aligned to four."""
    value = helper.make_tensor_value_info
    node = helper.make_node("Add", ["x", "x"], ["y"])
    for dtype, align in ((onnx.TensorProto.FLOAT, 4), (onnx.TensorProto.INT64, 8)):
        graph = helper.make_graph([node], "g", [value("x", dtype, [3])], [value("y", dtype, [3])])
        path = tmp_path / "net.onnx"
        path.write_bytes(helper.make_model(graph, ir_version=8).SerializeToString())
        assert mccompile.compile(path, tmp_path / "out", target=target).report["target"]["align"] == align
