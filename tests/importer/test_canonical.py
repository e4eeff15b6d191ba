"""Every old operator form: its history is accounted for, and its rewrite computes what onnxruntime does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.numpy_helper
import pytest
from onnx import helper

import mccompile
from mccompile.importer.canonical import canonicalize, rewrites
from mccompile.importer.convert import convert
from mccompile.importer.prepare import prepare
from mccompile.importer.reviewed import REVIEWED
from mccompile.ir.errors import CompileError
from mccompile.onnxio import (
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    OnnxValue,
    dtype_of_array,
    expand_function,
    newest_opset,
    op_names,
    read_model,
    since_version,
    subgraphs,
    versions,
    write_model,
)
from tests.support.judge import plain_session

ORT_OPSET = 26  # the newest that onnxruntime 1.31 loads; the newer forms in question are the same


def _all_ops() -> list[str]:
    return sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""})


def _living_versions(op: str) -> list[int]:
    """The versions of an operator that opset 7 or a newer one can mean."""
    found = versions(op)
    return [v for i, v in enumerate(found) if i + 1 == len(found) or found[i + 1] > 7]


@pytest.mark.parametrize("op", _all_ops())
def test_history_is_reviewed(op: str) -> None:
    assert op in REVIEWED, f"{op} is new in this onnx: look at it and add it to importer/reviewed.py"
    assert REVIEWED[op] == versions(op)[-1], (
        f"{op} has a new version: look at its form, raise importer/reviewed.py"
    )


@pytest.mark.parametrize("op", _all_ops())
def test_unrewritten_versions_have_the_newest_form(op: str) -> None:
    newest = onnx.defs.get_schema(op, newest_opset(), "")
    row = rewrites().get(op)
    for version in _living_versions(op):
        if row is not None and version < row.below:
            continue
        old = onnx.defs.get_schema(op, version, "")
        assert _attributes(old).items() <= _attributes(newest).items(), f"{op}-{version}: attributes"
        assert all(not a.required for n, a in newest.attributes.items() if n not in old.attributes)
        for before, now in ((old.inputs, newest.inputs), (old.outputs, newest.outputs)):
            assert len(before) <= len(now), f"{op}-{version}: inputs or outputs went away"
            assert all(
                n.option != onnx.defs.OpSchema.FormalParameterOption.Single for n in now[len(before) :]
            )


def _attributes(schema: onnx.defs.OpSchema) -> dict[str, tuple[object, bytes]]:
    return {
        name: (a.type, a.default_value.SerializeToString(deterministic=True))
        for name, a in schema.attributes.items()
    }


def test_rewrites_are_found_by_listing() -> None:
    assert {"Squeeze", "Softmax", "Resize", "Upsample"} <= set(rewrites())
    assert set(rewrites()) <= set(_all_ops())


# --- single nodes against onnxruntime


def one_node(
    op: str,
    opset: int,
    feeds: Mapping[str, np.ndarray],
    consts: Mapping[str, np.ndarray] | None = None,
    outputs: tuple[str, ...] = ("y",),
    inputs: tuple[str, ...] | None = None,
    **attrs: Any,
) -> OnnxModel:
    """A model of one node; inputs are the feeds, then the constants, unless named."""
    consts = consts or {}
    node = OnnxNode(op, inputs or (*feeds, *consts), outputs, "", "node", dict(attrs), 0)
    graph = OnnxGraph(
        name="one",
        inputs=[OnnxValue(name, dtype_of_array(array), array.shape) for name, array in feeds.items()],
        outputs=[OnnxValue(name, "unknown") for name in outputs if name],
        nodes=[node],
        initializers=dict(consts),
    )
    return OnnxModel(graph, {"": opset})


def run(
    model: OnnxModel, feeds: Mapping[str, np.ndarray], folder: Path, newest: int = ORT_OPSET
) -> list[np.ndarray]:
    ort = pytest.importorskip("onnxruntime")
    model = dataclasses.replace(model, opsets={**model.opsets, "": min(model.opsets[""], newest)})
    write_model(model, folder / "model.onnx")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(
        (folder / "model.onnx").read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feeds)))


def untyped(model: OnnxModel) -> OnnxModel:
    """The model with an Identity in front of every input, so that no rewrite sees a type or a rank."""
    graph = model.graph
    hidden = {v.name: f"{v.name}_hidden" for v in graph.inputs}
    inputs = [dataclasses.replace(v, name=hidden[v.name]) for v in graph.inputs]
    fronts = [OnnxNode("Identity", (hidden[v.name],), (v.name,), "", f"front_{v.name}") for v in graph.inputs]
    return dataclasses.replace(
        model, graph=dataclasses.replace(graph, inputs=inputs, nodes=[*fronts, *graph.nodes])
    )


def check(
    model: OnnxModel, feeds: Mapping[str, np.ndarray], folder: Path, newest: int = ORT_OPSET
) -> OnnxGraph:
    """Compare a model before and after, with and without types known; returns the canonical graph."""
    want = run(model, feeds, folder)
    done = canonicalize(model)
    assert done.opsets[""] == newest_opset()
    hidden = canonicalize(untyped(model))
    for new, inputs in ((done, feeds), (hidden, {f"{name}_hidden": array for name, array in feeds.items()})):
        for a, b in zip(want, run(new, inputs, folder, newest), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(
                np.asarray(b, np.float64), np.asarray(a, np.float64), rtol=1e-5, atol=1e-6
            )
    again = canonicalize(done)
    assert [n.op_type for n in again.graph.nodes] == [n.op_type for n in done.graph.nodes]
    return done.graph


def ops(graph: OnnxGraph) -> list[str]:
    return [node.op_type for node in graph.nodes]


RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(
    ("op", "opset", "shape", "attrs"),
    [
        ("Squeeze", 7, (1, 3, 1, 2), {"axes": (0, 2)}),
        ("Squeeze", 11, (1, 3, 1, 2), {"axes": (-2,)}),
        ("Squeeze", 12, (1, 3, 1, 2), {}),
        ("Unsqueeze", 7, (3, 2), {"axes": (0, 3)}),
        ("Unsqueeze", 11, (3, 2), {"axes": (-1,)}),
        ("Unsqueeze", 11, (3, 2), {"axes": ()}),
        ("Clip", 7, (2, 3), {"min": -0.5, "max": 0.25}),
        ("Clip", 10, (2, 3), {"max": 0.25}),
        ("Clip", 7, (2, 3), {}),
        ("Pad", 7, (2, 3), {"pads": (0, 1, 2, 0), "value": 1.5}),
        ("Pad", 10, (2, 3), {"pads": (0, 1, 1, 1), "mode": "reflect"}),
        ("Slice", 7, (4, 5), {"starts": (1, 0), "ends": (100, -1)}),
        ("Slice", 9, (4, 5), {"starts": (-3,), "ends": (-1,), "axes": (1,)}),
        ("TopK", 7, (2, 5), {"k": 3}),
        ("TopK", 9, (5, 2), {"k": 2, "axis": 0}),
        ("Dropout", 7, (2, 3), {"ratio": 0.5}),
        ("Dropout", 10, (2, 3), {}),
        ("Dropout", 13, (2, 3), {}),
        *(
            (op, opset, (2, 3, 4), attrs)
            for op in ("Softmax", "LogSoftmax", "Hardmax")
            for opset, attrs in (
                (7, {}),
                (11, {"axis": -2}),
                (12, {"axis": 0}),
                (8, {"axis": 2}),
                (13, {"axis": 1}),
            )
        ),
        *((op, 11, shape, {"axis": axis}) for op in ("Softmax", "LogSoftmax", "Hardmax")
          for shape, axis in (((2, 3, 0), 1), ((2, 0, 3, 4), 2), ((0, 3, 2), 0))),
        ("Softmax", 11, (2, 6, 1, 1), {}),
        ("Softmax", 11, (2, 6, 1, 1), {"axis": -3}),
        ("Upsample", 7, (1, 2, 3, 4), {"scales": (1.0, 1.0, 2.0, 3.0), "mode": "nearest"}),
        ("Upsample", 7, (1, 2, 3, 4), {"scales": (1.0, 1.0, 2.0, 2.0), "mode": "linear"}),
        ("Upsample", 8, (1, 2, 3, 4), {"scales": (1.0, 1.0, 1.6, 2.5), "mode": "nearest"}),
    ],
)
def test_one_input(
    op: str, opset: int, shape: tuple[int, ...], attrs: dict[str, Any], tmp_path: Path
) -> None:
    outputs = ("y", "i") if op == "TopK" else ("y",)
    feeds = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    check(one_node(op, opset, feeds, outputs=outputs, **attrs), feeds, tmp_path)


@pytest.mark.parametrize(
    "op",
    [
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    ],
)
@pytest.mark.parametrize(
    "attrs", [{"axes": (1, 3)}, {"axes": (-1,), "keepdims": 0}, {}, {"keepdims": 0}, {"axes": ()}]
)
def test_reductions(op: str, attrs: dict[str, Any], tmp_path: Path) -> None:
    feeds = {"x": np.abs(X) + np.float32(0.1)}
    for opset in (11, 13) if op != "ReduceSum" or not attrs.get("axes") else (7 + 4, 12):
        if op == "ReduceSum" and opset == 13 and "axes" in attrs:
            continue
        graph = check(one_node(op, opset, feeds, **attrs), feeds, tmp_path)
        assert "axes" not in graph.nodes[0].attrs


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_split(opset: int, tmp_path: Path) -> None:
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 12)}
    parts = ("a", "b", "c")
    if opset < 13:
        check(one_node("Split", opset, feeds, outputs=parts, axis=1, split=(2, 4, 6)), feeds, tmp_path)
    else:
        lengths = {"s": np.array([2, 4, 6])}
        check(one_node("Split", opset, feeds, lengths, outputs=parts, axis=1), feeds, tmp_path)
    if opset < 18:
        graph = check(one_node("Split", opset, feeds, outputs=parts, axis=1), feeds, tmp_path)
        assert graph.nodes[0].attrs["num_outputs"] == 3


def test_clip_and_pad_of_half_and_double(tmp_path: Path) -> None:
    for dtype in (np.float16, np.float64):
        feeds = {"x": X[0].astype(dtype)}
        if dtype is np.float64:
            graph = check(one_node("Pad", 10, feeds, pads=(0, 1, 0, 0, 0, 0), value=0.1), feeds, tmp_path)
            assert ops(graph) == ["Pad"]
        model = canonicalize(one_node("Clip", 10, feeds, min=-0.1, max=0.1))
        assert {a.dtype for a in model.graph.initializers.values()} == {np.dtype(dtype)}
        np.testing.assert_allclose(run(model, feeds, tmp_path)[0], np.clip(feeds["x"], -0.1, 0.1), rtol=1e-3)


def test_unknown_type_is_taken_from_the_data() -> None:
    graph = canonicalize(untyped(one_node("Clip", 9, {"x": X}, min=0.0))).graph
    assert ops(graph) == ["Identity", "CastLike", "Clip"]


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(opset: int, tmp_path: Path) -> None:
    consts = {n: np.abs(RNG.standard_normal(3)).astype(np.float32) for n in ("s", "b", "m", "v")}
    attrs = {"spatial": 1} if opset == 7 else {}
    graph = check(
        one_node("BatchNormalization", opset, {"x": X}, consts, epsilon=1e-3, **attrs), {"x": X}, tmp_path
    )
    assert set(graph.nodes[0].attrs) == {"epsilon"}


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_of_no_axis_is_an_error_that_says_so(op: str) -> None:
    for attrs in ({}, {"axis": 1}, {"axis": -1}):
        model = one_node(op, 11, {"x": np.array(2, np.float32)}, **attrs)
        with pytest.raises(CompileError, match="axis"):
            convert(prepare(model), "net")


@pytest.mark.parametrize("opset", [7, 9, 13])
def test_batch_normalization_whose_other_outputs_nothing_reads_trains_below_14(opset: int, tmp_path: Path) -> None:
    """So PyTorch exported standardised weights: their names alone say that it takes the statistics of its input."""
    consts = {n: np.ones(3, np.float32) for n in ("s", "b", "m", "v")}
    unused = one_node("BatchNormalization", opset, {"x": X}, consts, outputs=("y", "m1", "v1", "m2", "v2"))
    unused.graph.outputs[1:] = []
    (node,) = canonicalize(unused).graph.nodes
    assert (node.outputs, node.attrs) == (("y",), {"training_mode": 1})
    (want,) = run(unused, {"x": X}, tmp_path)
    mccompile.compile(tmp_path / "model.onnx", tmp_path / "out")
    np.testing.assert_allclose(mccompile.load(tmp_path / "out").run({"x": X})["y"], want, rtol=1e-4, atol=1e-5)
    absent = one_node("BatchNormalization", opset, {"x": X}, consts, outputs=("y", "", "", "", ""))
    assert not canonicalize(absent).graph.nodes[0].attrs


def test_batch_normalization_per_activation_of_channels_alone(tmp_path: Path) -> None:
    consts = {n: np.abs(RNG.standard_normal(3)).astype(np.float32) for n in ("s", "b", "m", "v")}
    rows = {"x": RNG.standard_normal((4, 3)).astype(np.float32)}
    model = one_node("BatchNormalization", 7, rows, consts, spatial=0)
    done = canonicalize(model)
    assert not done.graph.nodes[0].attrs
    (want,), (got,) = run(model, rows, tmp_path), run(done, rows, tmp_path)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    of_all = {n: np.ones(X.shape[1:], np.float32) for n in consts}
    for values, feeds in ((of_all, {"x": X}), (consts, {"x": X[:, :, :1]})):
        with pytest.raises(CompileError, match="spatial"):
            canonicalize(one_node("BatchNormalization", 7, feeds, values, spatial=0))


def test_batch_normalization_training() -> None:
    consts = {n: np.ones(3, np.float32) for n in ("s", "b", "m", "v")}
    for model in (
        one_node("BatchNormalization", 9, {"x": X}, consts, outputs=("y", "m1", "v1", "m2", "v2")),
        one_node("BatchNormalization", 7, {"x": X}, consts, spatial=0),
    ):
        with pytest.raises(CompileError, match=r"training|spatial"):
            canonicalize(model)
    running = one_node("BatchNormalization", 15, {"x": X}, consts, outputs=("y", "m1", "v1"), training_mode=1)
    assert canonicalize(running).graph.nodes[0].outputs == ("y", "m1", "v1")


def test_dropout_mask_and_training(tmp_path: Path) -> None:
    for opset in (7, 10, 12):
        check(one_node("Dropout", opset, {"x": X}, outputs=("y", "mask")), {"x": X}, tmp_path)
    flags = {"r": np.float32(0.5), "t": np.array(True)}
    with pytest.raises(CompileError, match="training"):
        canonicalize(one_node("Dropout", 13, {"x": X}, flags))
    off = canonicalize(one_node("Dropout", 13, {"x": X}, {**flags, "t": np.array(False)}))
    assert ops(off.graph) == ["Identity"]
    nothing = {"r": np.float32(0), "t": np.array(True)}  # training that drops nothing
    check(one_node("Dropout", 13, {"x": X}, nothing, outputs=("y", "mask")), {"x": X}, tmp_path)


@pytest.mark.parametrize(
    ("opset", "scales", "mode"),
    [
        (9, (1, 1, 2, 3), "nearest"),
        (9, (1, 1, 2, 2), "linear"),
        (10, (1, 1, 2, 1.7), "nearest"),
        (10, (1, 1, 0.6, 0.4), "nearest"),
        (10, (1, 1, 2.4, 0.6), "nearest"),
        (10, (1, 1, 2.4, 1.5), "linear"),
        (10, (1, 1, 0.6, 0.7), "linear"),
    ],
)
def test_resize_with_scales(opset: int, scales: tuple[float, ...], mode: str, tmp_path: Path) -> None:
    op = "Upsample" if opset == 9 else "Resize"
    feeds = {"x": RNG.standard_normal((1, 2, 7, 9)).astype(np.float32)}
    check(one_node(op, opset, feeds, {"s": f32(*scales)}, mode=mode), feeds, tmp_path)
    both = {**feeds, "s": f32(*scales)}
    model = one_node(op, opset, both, mode=mode)
    got = run(canonicalize(model), both, tmp_path)[0]
    np.testing.assert_allclose(got, run(model, both, tmp_path)[0], rtol=1e-5, atol=1e-6)


def test_resize_11_to_13(tmp_path: Path) -> None:
    feeds = {"x": RNG.standard_normal((1, 2, 5, 6)).astype(np.float32)}
    empty, scales = f32(), f32(1, 1, 2, 0.5)
    sizes = np.array([1, 2, 9, 4])
    for attrs in (
        {"mode": "linear"},
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "tf_half_pixel_for_nn",
            "nearest_mode": "floor",
        },
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"},
    ):
        graph = check(one_node("Resize", 11, feeds, {"r": empty, "s": scales}, **attrs), feeds, tmp_path)
        assert graph.nodes[0].inputs == ("x", "", "s")
        all_four = {"r": empty, "s": empty, "z": sizes}
        graph = check(one_node("Resize", 11, feeds, all_four, **attrs), feeds, tmp_path)
        assert graph.nodes[0].inputs == ("x", "", "", "z")
    bad = one_node(
        "Resize", 11, feeds, {"r": empty, "s": scales}, coordinate_transformation_mode="tf_half_pixel_for_nn"
    )
    with pytest.raises(CompileError, match="tf_half_pixel_for_nn"):
        canonicalize(bad)


def test_crop_and_resize_keeps_its_roi(tmp_path: Path) -> None:
    roi = f32(0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7)
    consts = {"r": roi, "s": f32(1, 1, 2, 2)}
    model = one_node(
        "Resize", 11, {"x": X}, consts, mode="linear", coordinate_transformation_mode="tf_crop_and_resize"
    )
    assert check(model, {"x": X}, tmp_path).nodes[0].inputs == ("x", "r", "s")


def test_group_normalization_18(tmp_path: Path) -> None:
    x = RNG.standard_normal((2, 6, 3, 4)).astype(np.float32)
    consts = {"s": f32(1.5, -2.0, 0.5), "b": f32(0.1, 0.2, 0.3)}
    model = canonicalize(one_node("GroupNormalization", 18, {"x": x}, consts, num_groups=3, epsilon=1e-3))
    got = run(model, {"x": x}, tmp_path)[0]
    grouped = x.reshape(2, 3, -1).astype(np.float64)
    centred = grouped - grouped.mean(-1, keepdims=True)
    normal = centred / np.sqrt(grouped.var(-1, keepdims=True) + 1e-3)
    want = (normal * consts["s"][None, :, None] + consts["b"][None, :, None]).reshape(x.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("op", "gates", "states"), [("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1)])
def test_recurrent_layout(op: str, gates: int, states: int, tmp_path: Path) -> None:
    steps, batch, size, hidden, directions = 4, 2, 3, 5, 2
    rng = np.random.default_rng(3)
    x = rng.standard_normal((steps, batch, size)).astype(np.float32)
    weights = {
        "w": rng.standard_normal((directions, gates * hidden, size)).astype(np.float32),
        "r": rng.standard_normal((directions, gates * hidden, hidden)).astype(np.float32),
        "b": rng.standard_normal((directions, 2 * gates * hidden)).astype(np.float32),
    }
    first = {
        n: rng.standard_normal((directions, batch, hidden)).astype(np.float32) for n in ("h", "c")[:states]
    }
    names = ("x", "w", "r", "b", "", *first)
    outputs = ("y", "y_h", "y_c")[: states + 1]
    attrs = {"hidden_size": hidden, "direction": "bidirectional"}
    feeds = {"x": x, **first}
    old = one_node(op, 7, feeds, weights, outputs, names, **attrs)
    want = run(old, feeds, tmp_path)
    assert ops(canonicalize(old).graph) == [op]
    swapped = {name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in feeds.items()}
    model = canonicalize(one_node(op, 14, swapped, weights, outputs, names, layout=1, **attrs))
    got = run(model, swapped, tmp_path)
    np.testing.assert_allclose(got[0], want[0].transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    for a, b in zip(got[1:], want[1:], strict=True):
        np.testing.assert_allclose(a, b.swapaxes(0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", None])
def test_grid_sample_16(mode: str | None, tmp_path: Path) -> None:
    feeds = {"x": X, "g": RNG.uniform(-1, 1, (2, 3, 4, 2)).astype(np.float32)}
    check(one_node("GridSample", 16, feeds, **({"mode": mode} if mode else {})), feeds, tmp_path)


def test_roi_align_10(tmp_path: Path) -> None:
    feeds = {"x": X, "rois": f32(0, 0, 3, 3, 1, 1, 4, 4).reshape(2, 4), "b": np.array([0, 1])}
    model = one_node("RoiAlign", 10, feeds, output_height=2, output_width=2, sampling_ratio=2)
    check(model, feeds, tmp_path, newest=21)  # onnxruntime has no RoiAlign-22, which differs in types only


def test_scatter(tmp_path: Path) -> None:
    feeds = {"x": X[0, 0], "i": np.array([[1, 0, 2]]), "u": f32(1, 2, 3).reshape(1, 3)}
    graph = check(one_node("Scatter", 9, feeds, axis=1), feeds, tmp_path)
    assert ops(graph) == ["ScatterElements"]


def test_dft_17(tmp_path: Path) -> None:
    feeds = {"x": RNG.standard_normal((2, 8, 6, 1)).astype(np.float32)}
    for attrs in ({}, {"axis": 2}, {"axis": 1, "onesided": 1}):
        check(one_node("DFT", 17, feeds, **attrs), feeds, tmp_path)


def test_scan_8_of_sequences_of_different_lengths_is_refused() -> None:
    body = OnnxGraph("body", [], [], [])
    with pytest.raises(CompileError, match="Scan of opset 8"):
        canonicalize(one_node("Scan", 8, {"lengths": np.array([2, 3]), "x": X}, body=body, num_scan_inputs=1))


@pytest.mark.parametrize("wanted", [("y", ""), ("", "z"), ("y", "z")])
def test_scan_8_without_some_of_its_results(wanted: tuple[str, str], tmp_path: Path) -> None:
    """onnxruntime refuses such a node."""
    kinds = [OnnxValue(name, "f32", (3,)) for name in ("s", "i", "t", "r")]
    steps = [OnnxNode("Add", ("s", "i"), ("t",)), OnnxNode("Neg", ("t",), ("r",))]
    body = OnnxGraph("body", kinds[:2], kinds[2:], steps)
    x = RNG.standard_normal((2, 4, 3)).astype(np.float32)
    feeds = {"s0": x[:, 0], "xs": x}
    model = one_node("Scan", 8, feeds, None, wanted, ("", "s0", "xs"), body=body, num_scan_inputs=1)
    write_model(model, tmp_path / "scan.onnx")
    mccompile.compile(tmp_path / "scan.onnx", tmp_path / "out")
    got = mccompile.load(tmp_path / "out").run(feeds)
    sums = np.cumsum(x, 1) + x[:, :1]
    for name, want in {"y": sums[:, -1], "z": -sums}.items():
        assert (name in got) == (name in wanted)
        if name in wanted:
            np.testing.assert_allclose(got[name], want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "opset", "feeds", "attrs"),
    [
        ("OneHot", 9, {"i": np.array([0, 2, -1]), "d": np.array([3]), "v": f32(0.0, 1.0)}, {}),
        ("AveragePool", 7, {"x": X}, {"kernel_shape": (2, 2), "pads": (1, 1, 0, 0)}),
        ("AveragePool", 10, {"x": X}, {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1}),
        ("MaxPool", 7, {"x": X}, {"kernel_shape": (3, 3), "strides": (2, 2)}),
        ("LpPool", 11, {"x": X}, {"kernel_shape": (2, 2)}),
        ("ArgMax", 11, {"x": X}, {"axis": 1}),
        ("Gemm", 7, {"a": X[0, 0], "b": X[0, 1].T.copy(), "c": f32(1, 2, 3, 4)}, {}),
        ("PRelu", 7, {"x": X, "s": X[0, :, :1, :1].copy()}, {}),
        ("Cast", 9, {"x": X}, {"to": 7}),
        ("DepthToSpace", 7, {"x": np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)}, {"blocksize": 2}),
        ("Flatten", 7, {"x": X}, {"axis": 2}),
        ("GatherND", 11, {"x": X, "i": np.array([[0, 1], [1, 2]])}, {}),
        ("Shape", 7, {"x": X}, {}),
        ("Mean", 7, {"a": X, "b": X}, {}),
    ],
)
def test_same_form_means_the_same(
    op: str, opset: int, feeds: dict[str, np.ndarray], attrs: dict[str, Any], tmp_path: Path
) -> None:
    graph = check(one_node(op, opset, feeds, **attrs), feeds, tmp_path)
    assert ops(graph) == [op]
    assert graph.nodes[0].attrs == attrs


def test_nested_graphs_are_rewritten(tmp_path: Path) -> None:
    axes: dict[str, Any] = {"axes": (0,)}
    then = OnnxGraph("then", [], [OnnxValue("t", "f32")], [OnnxNode("Unsqueeze", ("x",), ("t",), attrs=axes)])
    other = OnnxGraph("else", [], [OnnxValue("e", "f32")], [OnnxNode("ReduceMax", ("x",), ("e",), attrs={})])
    feeds = {"c": np.array(True), "x": X[0]}
    model = one_node("If", 11, feeds, inputs=("c",), then_branch=then, else_branch=other)
    done = canonicalize(model)
    assert [len(g.nodes[0].inputs) for g in subgraphs(done.graph.nodes[0])] == [2, 1]
    for flag in (True, False):
        feeds["c"] = np.array(flag)
        np.testing.assert_array_equal(run(done, feeds, tmp_path)[0], run(model, feeds, tmp_path)[0])


def test_functions_keep_the_meaning_of_their_opset(tmp_path: Path) -> None:
    """Where ONNX's own inliner converts them, Resize shifts coordinates, Hardmax of a negative axis goes along it,
    and no axes are none instead of all."""
    scales = onnx.numpy_helper.from_array(f32(1, 1, 0.5, 2.3))
    x = RNG.standard_normal((1, 3, 4, 6)).astype(np.float32)
    bodies: dict[int, list[list[onnx.NodeProto]]] = {
        10: [[helper.make_node("Constant", [], ["s"], value=scales), helper.make_node("Resize", ["x", "s"], ["y"])],
             [helper.make_node("Pad", ["x"], ["y"], mode="reflect", pads=[0, 0, 1, 0, 0, 0, 0, 2], value=2.0)]],
        11: [[helper.make_node("Hardmax", ["x"], ["y"], axis=-2)], [helper.make_node("Softmax", ["x"], ["y"])]],
        12: [[helper.make_node("Squeeze", ["x"], ["y"])], [helper.make_node("ReduceSum", ["x"], ["y"], axes=[1])]],
    }  # fmt: skip
    bodies[12][0][0].attribute.add(name="axes", type=onnx.AttributeProto.INTS)  # an empty list
    some = [helper.make_tensor_value_info("x", 1, x.shape)], [onnx.ValueInfoProto(name="y")]
    for opset, nodes in ((opset, nodes) for opset, each in bodies.items() for nodes in each):
        older = [helper.make_opsetid("", opset)]
        plain = helper.make_model(helper.make_graph(nodes, "g", *some), opset_imports=older, ir_version=8)
        want = plain_session(plain.SerializeToString()).run(None, {"x": x})[0]
        for newer in (13, 21):
            imports = [helper.make_opsetid("", newer), helper.make_opsetid("my", 1)]
            inside = helper.make_function("my", "F", ["x"], ["y"], nodes, older)
            graph = helper.make_graph([helper.make_node("F", ["x"], ["y"], domain="my")], "g", *some)
            model = helper.make_model(graph, opset_imports=imports, functions=[inside], ir_version=10)
            onnx.save(model, tmp_path / "functions.onnx")
            done = prepare(read_model(tmp_path / "functions.onnx")).model
            assert set(done.opsets) == {"", "my"}
            assert not any(n.domain for n in done.graph.nodes)
            got = run(done, {"x": x}, tmp_path)[0]
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=f"{nodes[-1].op_type} in {newer}")


def test_foreign_and_unknown_nodes_stay() -> None:
    model = one_node("Softmax", 9, {"x": X})
    foreign = dataclasses.replace(model.graph.nodes[0], domain="com.example")
    unknown = OnnxNode("NoSuchOperator", ("y",), ("z",))
    model.graph.nodes[:] = [foreign, unknown]
    assert canonicalize(model).graph.nodes == [foreign, unknown]


def test_function_bodies_are_canonical() -> None:
    """What `expand_function` returns needs no rewriting, for every function of the newest opset."""
    checked = 0
    for op in op_names():
        schema: Any = onnx.defs.get_schema(op, newest_opset(), "")
        if not schema.has_function:
            continue
        found = max(v for v in schema.function_opset_versions if v <= newest_opset())
        body = onnx.FunctionProto()
        body.ParseFromString(schema.get_function_with_opset_version(found))
        opset = {entry.domain: entry.version for entry in body.opset_import}[""]
        for proto in body.node:
            row = rewrites().get(proto.op_type)
            version = since_version(proto.op_type, opset)
            if row is not None and version is not None and version < row.below:
                assert row.below > newest_opset() or not _has_old_attribute(proto), (
                    f"{op} uses {proto.op_type}-{version}"
                )
            checked += 1
    assert checked > 100


def _has_old_attribute(proto: onnx.NodeProto) -> bool:
    known = onnx.defs.get_schema(proto.op_type, newest_opset(), "").attributes
    return any(attribute.name not in known for attribute in proto.attribute)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("Softmax", [(2, 3)], {"axis": 1}),
        ("LogSoftmax", [(2, 3)], {}),
        ("Clip", [(2, 3), (), ()], {}),
        ("LayerNormalization", [(2, 3), (3,), (3,)], {}),
        ("GroupNormalization", [(2, 4, 3), (4,), (4,)], {"num_groups": 2}),
        ("Gelu", [(2, 3)], {"approximate": "tanh"}),
        ("RMSNormalization", [(2, 3), (3,)], {}),
        ("CenterCropPad", [(4, 5), (2,)], {}),
        ("NegativeLogLikelihoodLoss", [(3, 5), (3,)], {}),
        ("SoftmaxCrossEntropyLoss", [(3, 5), (3,)], {}),
        ("Attention", [(1, 2, 4, 8), (1, 2, 6, 8), (1, 2, 6, 8)], {}),
        ("RotaryEmbedding", [(1, 2, 4, 8), (4, 4), (4, 4)], {}),
        ("SpaceToDepth", [(1, 2, 4, 4)], {"blocksize": 2}),
    ],
)
def test_context_functions_are_canonical(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]
) -> None:
    names = tuple(f"in{i}" for i in range(len(shapes)))
    integer = op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "CenterCropPad")
    types = [
        OnnxValue(n, "i64" if integer and i else "f32", s)
        for i, (n, s) in enumerate(zip(names, shapes, strict=True))
    ]
    node = OnnxNode(op, names, ("out",), "", "fn", dict(attrs))
    nodes = expand_function(node, newest_opset(), list(types))
    assert nodes
    for inner in nodes:
        schema = onnx.defs.get_schema(inner.op_type, newest_opset(), "")
        assert set(inner.attrs) <= set(schema.attributes), f"{op} uses an old form of {inner.op_type}"
    graph = OnnxGraph("g", list(types), [OnnxValue("out", "unknown")], nodes)
    before = prepare(OnnxModel(graph, {"": newest_opset()})).model.graph
    after = canonicalize(OnnxModel(before, {"": newest_opset()})).graph
    assert ops(after) == ops(before)
