"""Real networks: read, prepared and written back they compute what they did."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest

from mccompile.importer.prepare import Prepared, prepare
from mccompile.onnxio import newest_opset, read_model, write_model

SHARED = Path(os.environ.get("MCC_SHARED", Path(__file__).parents[2] / ".." / "shared"))
MODELS = sorted(SHARED.glob("models/*/model.onnx"))
TINY = sorted(SHARED.glob("mlperf_tiny/*.onnx"))
# Old Softmax and Clip, Pad by attributes, an unsorted file, LSTM, fp16.
COMPARED = ("squeezenet_fp16", "bert_toy", "ultraface_rfb320", "nnsplit_en", "superres_x3", "dtln_stage2")

pytestmark = pytest.mark.skipif(not MODELS, reason="no real networks: set MCC_SHARED")


def prepared(path: Path) -> Prepared:
    stated = path.parent / "io.json"
    shapes = (
        {i["name"]: i["shape"] for i in json.loads(stated.read_text())["inputs"]} if stated.exists() else {}
    )
    return prepare(read_model(path), {}, shapes)


@pytest.mark.parametrize(
    "path", [*MODELS, *TINY], ids=lambda p: p.parent.name if p.stem == "model" else p.stem
)
def test_every_network_is_prepared(path: Path) -> None:
    done = prepared(path)
    graph = done.model.graph
    assert done.model.opsets[""] == newest_opset()
    assert all(value.shape is not None for value in done.inputs)
    assert all(isinstance(dim, int) for value in done.inputs for dim in value.shape or ())
    defined = {value.name for value in graph.inputs} | set(graph.initializers)
    for node in graph.nodes:
        assert {name for name in node.inputs if name} <= defined
        defined.update(node.outputs)
    assert not any(node.op_type in ("Constant", "Dropout", "Upsample", "CastLike") for node in graph.nodes)
    typed = sum(name in graph.value_info for node in graph.nodes for name in node.outputs)
    assert typed >= 0.8 * len(graph.nodes) - 1  # of operators of ai.onnx.ml ONNX infers little


@pytest.mark.parametrize("name", COMPARED)
def test_outputs_stay(name: str, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    folder = SHARED / "models" / name
    if not folder.exists():
        pytest.skip(f"no {name}")
    model = prepared(folder / "model.onnx").model
    stamped = dataclasses.replace(model, opsets={**model.opsets, "": 21})  # what onnxruntime has kernels for
    write_model(stamped, tmp_path / "model.onnx")
    stated = json.loads((folder / "io.json").read_text())
    feeds = {v["name"]: np.load(folder / f"input_{i}.npy") for i, v in enumerate(stated["inputs"])}
    session = ort.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    for i, got in enumerate(session.run(None, feeds)):
        want = np.load(folder / f"output_{i}.npy").astype(np.float64)
        scale = 50 if got.dtype == np.float16 else 1
        np.testing.assert_allclose(got, want, rtol=0, atol=scale * (1e-4 * np.abs(want).max() + 1e-5))
