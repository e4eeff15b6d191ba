"""Networks whose extents are given when they run: those under MCC_SHARED/models, with ranges for them.

Worked example of `with_extents`: minilm is written for [1, 128]. Made dynamic, its inputs are [batch, seq], the table
of positions [1, 128, 384] is cut to Shape(input_ids)[1], and [1, 128, 12, 32] of a Reshape is [0, 0, 12, 32]: what
exporters with dynamic axes write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests._skips import REPOSITORY

Given = int | str
MODELS = Path(os.environ.get("MCC_SHARED", REPOSITORY.parent / "shared")) / "models"
SPEECH: Mapping[str, Sequence[int | str]] = {"input": ("b", 512), "state": (2, "b", 128)}
ROWS, COLUMNS = "p2o.DynamicDimension.1", "p2o.DynamicDimension.2"


@dataclass(frozen=True)
class Dynamic:
    """A network of MCC_SHARED/models (``made``: of the benchmark set, see `with_extents`) and its extents: numbers,
    or ranges LOW..HIGH[:STEP]; shapes that name what the file does not, inputs that are constant."""

    model: str
    dims: Mapping[str, Given]
    made: bool = False
    shapes: Mapping[str, Sequence[Given]] = field(default_factory=dict)
    constants: Mapping[str, Given] = field(default_factory=dict)
    off: float = 0.0
    """How far onnxruntime is off float64 on drawn inputs, where that is more than the rule allows."""

    @property
    def label(self) -> str:
        """The network and what varies, by the shortest name."""
        return f"{self.model} {', '.join(f'{_short(n)}={g}' for n, g in self.dims.items())}"

    @property
    def path(self) -> Path:
        return MODELS / self.model / "model.onnx"

    def options(self, dims: Mapping[str, Given] | None = None) -> dict[str, Any]:
        """Arguments of `mccompile.compile`, for the ranges or for other ``dims``."""
        return {"dims": dict(dims or self.dims), "input_shapes": dict(self.shapes), "constants": dict(self.constants)}

    def range_of(self, name: str) -> range:
        """What a dim may be."""
        given = str(self.dims[name])
        ends, _, step = given.partition(":")
        low, _, high = ends.partition("..")
        every = int(step or 1)
        return range(-(-int(low) // every) * every, int(high or low) + 1, every)

    def bound(self) -> dict[str, int]:
        return {n: self.range_of(n)[-1] for n in self.dims}

    def half(self) -> dict[str, int]:
        """Half of the bound, where a dim varies; at least the least that it may be."""
        halves = {}
        for name, bound in self.bound().items():
            values = self.range_of(name)
            halves[name] = max(v for v in values if v <= max(bound // 2, values[0]))
        return halves

    def low(self) -> dict[str, int]:
        return {n: self.range_of(n)[0] for n in self.dims}


def _short(name: str) -> str:
    """A name, or the last part of one that a converter has made."""
    return name.rsplit("DynamicDimension.")[-1] if "DynamicDimension" in name else name


NETWORKS = (
    Dynamic("bert_toy", {"batch": "1..4", "max_seq_len_in_batch": "1..64"}),
    Dynamic("crepe_tiny", {"unk__102": "1..2"}),
    Dynamic("crepe_tiny_qop", {"unk__102": "1..2"}),
    Dynamic("gesture_history_lstm", {"batch": "1..8"}),
    Dynamic("go2_apg_policy", {"batch_size": "1..8"}),
    Dynamic("kws_micro_qdq", {"unk__68": "1..8"}),
    Dynamic("magika_v3", {"unk__214": "1..2"}, off=2.5e-3),  # ours: 1e-3
    Dynamic("minilm_128", {"batch": 1, "seq": "1..128"}, made=True),
    Dynamic("minilm_128", {"batch": "1..4", "seq": 32}, made=True),
    Dynamic("mobilenetv2_035_128", {"unk__608": "1..2"}),
    Dynamic("mobilenetv2_035_int8_qdq", {"unk__608": "1..2"}),
    Dynamic("nilm_conv1d", {"batch_size": 1, "time": "64..512"}),
    Dynamic("nilm_conv1d", {"batch_size": "1..8", "time": 128}),
    Dynamic("nnsplit_en", {"batch": 1, "length": "6..128:2"}),
    Dynamic("nnsplit_en", {"batch": "1..4", "length": 64}),
    Dynamic("plcmos_v2", {"batch_size": 1, "frames": "32..100"}),
    Dynamic("plcmos_v2", {"batch_size": "1..4", "frames": 50}),
    Dynamic("ppocr_cls", {"p2o.DynamicDimension.0": 1, ROWS: "48..96:16", COLUMNS: "64..192:16"}),
    Dynamic("ppocr_cls", {"p2o.DynamicDimension.0": "1..4", ROWS: 48, COLUMNS: 192}),
    Dynamic("ppocr_det_v3", {"p2o.DynamicDimension.0": 1, ROWS: "64..160:32", COLUMNS: "64..160:32"}),
    Dynamic("rf_iris", {"batch": "1..64"}),
    Dynamic("superres_x3", {"batch_size": "1..2"}),
    Dynamic("silero_vad", {"b": "1..4"}, shapes=SPEECH, constants={"sr": 16000}),
    Dynamic("voicevox_intonation", {"length": "8..64"}, constants={"length": "length"}),
    Dynamic("voicevox_spectrogram", {"length": "8..128"}),
    Dynamic("yamnet_256", {"unk__120": "1..2"}),
)


def with_extents(model: onnx.ModelProto, names: tuple[str, str] = ("batch", "seq")) -> onnx.ModelProto:
    """A network of inputs [1, n] with symbols in place of both numbers, in its Reshapes and in tables [1, n, ...]."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    first = graph.input[0]
    length = first.type.tensor_type.shape.dim[1].dim_value
    for port in graph.input:
        for axis, name in enumerate(names):
            port.type.tensor_type.shape.dim[axis].dim_param = name
    for port in graph.output:
        port.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    stored = {w.name: w for w in graph.initializer}
    for node in graph.node:
        if node.op_type == "Reshape":
            _keep_first_axes(stored[node.input[1]], (1, length))
    tables = [n for n, w in stored.items() if len(w.dims) == 3 and tuple(w.dims[:2]) == (1, length)]
    numbers = {"extent.start": [1], "extent.stop": [2], "extent.zero": [0]}
    graph.initializer.extend(numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items())
    before = [helper.make_node("Shape", [first.name], ["extent.all"]),
              helper.make_node("Slice", ["extent.all", "extent.start", "extent.stop"], ["extent.seq"])]  # fmt: skip
    for table in tables:
        before.append(
            helper.make_node("Slice", [table, "extent.zero", "extent.seq", "extent.start"], [f"{table}.cut"])
        )
        for node in graph.node:
            node.input[:] = [f"{i}.cut" if i == table else i for i in node.input]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*before, *rest])
    return made


def _keep_first_axes(shape: onnx.TensorProto, extents: tuple[int, int]) -> None:
    """0, which keeps an extent, for the first two numbers of a Reshape's shape where they are these."""
    numbers = numpy_helper.to_array(shape).copy()
    if tuple(numbers[:2]) == extents:
        numbers[:2] = 0
        shape.CopyFrom(numpy_helper.from_array(numbers, shape.name))
