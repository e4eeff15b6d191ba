"""What stands behind detection networks, as exporters write it: rows that the run counts, picked, aligned, merged."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support.small_models import Maker


def _at(m: Maker, *numbers: int) -> str:
    return m.const(np.array(numbers, np.int64))


def _number(m: Maker, value: float) -> str:
    return m.const(np.float32(value))


def _column(m: Maker, x: str, column: int) -> str:
    return m.node("Gather", [x, m.const(np.array(column, np.int64))], axis=1)


def _where(m: Maker, condition: str) -> str:
    """torch.where(condition)[0]"""
    return m.node("Squeeze", [m.node("Transpose", [m.node("NonZero", [condition])], perm=[1, 0]), _at(m, 1)])


def _corners(m: Maker, boxes: str) -> str:
    """[..., centre and half of the size] as corners."""
    centre = m.node("Slice", [boxes, _at(m, 0), _at(m, 2), _at(m, -1)])
    half = m.node("Abs", [m.node("Slice", [boxes, _at(m, 2), _at(m, 4), _at(m, -1)])])
    return m.node("Concat", [m.node("Sub", [centre, half]), m.node("Add", [centre, half])], axis=-1)


def _batched_nms(m: Maker, boxes: str, scores: str, labels: str, most: int) -> str:
    """torchvision.ops.batched_nms: boxes of different labels are moved apart; the first ``most`` that stay."""
    apart = m.node("Add", [m.node("ReduceMax", [boxes], keepdims=0), _number(m, 1)])
    offsets = m.node("Mul", [m.node("Cast", [labels], to=TensorProto.FLOAT), apart])
    moved = m.node("Add", [boxes, m.node("Unsqueeze", [offsets, _at(m, 1)])])
    given = [m.node("Unsqueeze", [moved, _at(m, 0)]), m.node("Unsqueeze", [scores, _at(m, 0, 1)])]
    chosen = m.node("NonMaxSuppression", [*given, _at(m, 2**40), m.const(np.float32([0.5]))])
    kept = m.node("Squeeze", [m.node("Gather", [chosen, _at(m, 2)], axis=1), _at(m, 1)])
    return m.node("Slice", [kept, _at(m, 0), _at(m, most), _at(m, 0)])


def mask_rcnn(proposals: int = 16) -> onnx.ModelProto:
    """torchvision: boxes that are large enough, of which those stay that no better one covers, are aligned on the
    level of their size, and merged; heads of labels and masks."""
    m = Maker(opset=17)
    features = [m.input("fine", (1, 3, 16, 16)), m.input("coarse", (1, 3, 8, 8))]
    boxes = _corners(m, m.node("Mul", [m.input("proposals", (proposals, 4)), _number(m, 20)]))
    boxes = m.node("Clip", [boxes, _number(m, 0), _number(m, 64)])
    scores = m.input("objectness", (proposals,))
    sizes = [m.node("Sub", [_column(m, boxes, i + 2), _column(m, boxes, i)]) for i in (0, 1)]
    large = _where(m, m.node("And", [m.node("GreaterOrEqual", [s, _number(m, 1)]) for s in sizes]))
    boxes, scores = (m.node("Gather", [v, large], axis=0) for v in (boxes, scores))
    zeros = m.node("ConstantOfShape", [m.node("Shape", [scores])], value=_int(0))
    rois = m.node("Gather", [boxes, _batched_nms(m, boxes, scores, zeros, 9)], "rois", axis=0)

    sizes = [m.node("Sub", [_column(m, rois, i + 2), _column(m, rois, i)]) for i in (0, 1)]
    side = m.node("Div", [m.node("Sqrt", [m.node("Mul", sizes)]), _number(m, 24)])
    octave = m.node("Add", [m.node("Div", [m.node("Log", [side]), _number(m, np.log(2))]), _number(m, 1 + 1e-6)])
    level = m.node("Clip", [m.node("Floor", [octave]), _number(m, 0), _number(m, 1)])
    level = m.node("Cast", [level], to=TensorProto.INT64)
    count = m.node("Slice", [m.node("Shape", [rois]), _at(m, 0), _at(m, 1)])
    images = m.node("ConstantOfShape", [count], value=_int(0))
    merged = m.node("ConstantOfShape", [m.node("Concat", [count, _at(m, 3, 4, 4)], axis=0)])
    for i, feature in enumerate(features):
        rows = _where(m, m.node("Equal", [level, m.const(np.array(i))]))
        own, image = (m.node("Gather", [v, rows], axis=0) for v in (rois, images))
        how = {"output_height": 4, "output_width": 4, "sampling_ratio": 2, "spatial_scale": 0.25 / (i + 1)}
        aligned = m.node("RoiAlign", [feature, own, image], **how)
        places = m.node("Expand", [m.node("Reshape", [rows, _at(m, -1, 1, 1, 1)]), m.node("Shape", [aligned])])
        merged = m.node("ScatterElements", [merged, places, aligned], axis=0)
    hidden = m.node("Relu", [m.node("Gemm", [m.node("Flatten", [merged]), m.weight((48, 10)), m.weight((10,))])])
    m.node("Softmax", [m.node("Gemm", [hidden, m.weight((10, 3)), m.weight((3,))])], "labels", axis=-1)
    masks = m.node("ConvTranspose", [merged, m.weight((3, 2, 2, 2))], strides=[2, 2])
    scales = m.const(np.float32([1, 1, 2, 2]))
    m.node("Resize", [m.node("Sigmoid", [masks]), "", scales], "masks", mode="linear")
    return m.model(["rois", "labels", "masks"])


def ssd() -> onnx.ModelProto:
    """torchvision: of each class the best few above a threshold, no more than there are; all of them suppressed."""
    m = Maker(opset=17)
    boxes, logits = _corners(m, m.input("boxes", (30, 4))), m.input("logits", (30, 4))
    shares = m.node("Softmax", [logits], axis=-1)
    parts: list[tuple[str, str, str]] = []
    for label in range(1, 4):
        scores = _column(m, shares, label)
        rows = _where(m, m.node("Greater", [scores, _number(m, 0.3)]))
        scores = m.node("GatherND", [scores, m.node("Unsqueeze", [rows, _at(m, 1)])])
        own = m.node("Gather", [boxes, rows], axis=0)
        best, places = _best(m, scores, 8, f"of{label}")
        labels = m.node("ConstantOfShape", [m.node("Shape", [best])], value=_int(label))
        parts.append((m.node("Gather", [own, places], axis=0), best, labels))
    joined = [m.node("Concat", list(column), axis=0) for column in zip(*parts, strict=True)]
    kept = _batched_nms(m, *joined, 7)
    names = ["kept.boxes", "kept.scores", "kept.labels"]
    return m.model([m.node("Gather", [v, kept], name, axis=0) for v, name in zip(joined, names, strict=True)])


def retina_net() -> onnx.ModelProto:
    """torchvision: scores of all classes in one row; the place in it tells box and label."""
    m = Maker(opset=17)
    parts: list[tuple[str, str, str]] = []
    for level, count in enumerate((30, 12)):
        scores = m.node("Reshape", [m.node("Sigmoid", [m.input(f"logits{level}", (1, count, 3))]), _at(m, -1)])
        boxes = _corners(m, m.node("Squeeze", [m.input(f"boxes{level}", (1, count, 4)), _at(m, 0)]))
        rows = _where(m, m.node("Greater", [scores, _number(m, 0.55)]))
        best, places = _best(m, m.node("Gather", [scores, rows], axis=0), 10, f"of{level}")
        rows = m.node("Gather", [rows, places], axis=0)
        three = m.const(np.array(3, np.int64))
        own = m.node("Gather", [boxes, m.node("Div", [rows, three])], axis=0)
        parts.append((own, best, m.node("Mod", [rows, three])))
    joined = [m.node("Concat", list(column), axis=0) for column in zip(*parts, strict=True)]
    kept = _batched_nms(m, *joined, 7)
    names = ["kept.boxes", "kept.scores", "kept.labels"]
    return m.model([m.node("Gather", [v, kept], name, axis=0) for v, name in zip(joined, names, strict=True)])


def yolo() -> onnx.ModelProto:
    """With its suppression inside: boxes and scores of several images are picked by what was chosen."""
    m = Maker(opset=17)
    x = m.node("Transpose", [m.input("x", ("b", 8, "n"))], perm=[0, 2, 1])  # type: ignore[arg-type]
    boxes = _corners(m, m.node("Slice", [x, _at(m, 0), _at(m, 4), _at(m, 2)]))
    scores = m.node("Sigmoid", [m.node("Slice", [x, _at(m, 4), _at(m, 8), _at(m, 2)])])
    best = m.node("ReduceMax", [scores], axes=[2], keepdims=1)
    given = [boxes, m.node("Transpose", [best], perm=[0, 2, 1]), _at(m, 20), m.const(np.float32([0.45]))]
    chosen = m.node("NonMaxSuppression", [*given, m.const(np.float32([0.7]))])
    rows = m.node("Gather", [chosen, _at(m, 0, 2)], axis=1)
    label = m.node("GatherND", [m.node("ArgMax", [scores], axis=2, keepdims=0), rows])
    image = m.node("Slice", [chosen, _at(m, 0), _at(m, 1), _at(m, 1)])
    whole = [m.node("Cast", [v], to=TensorProto.FLOAT) for v in (image, m.node("Unsqueeze", [label, _at(m, 1)]))]
    parts = [whole[0], m.node("GatherND", [boxes, rows]), whole[1], m.node("GatherND", [best, rows])]
    return m.model([m.node("Concat", parts, "found", axis=1)])


def padded() -> onnx.ModelProto:
    """TensorFlow's object detection: each class by itself, the best of all, padded to as many as there may be."""
    m = Maker(opset=17)
    boxes, scores = _corners(m, m.input("boxes", (20, 4))), m.node("Sigmoid", [m.input("logits", (20, 3))])
    parts: list[tuple[str, str, str]] = []
    for label in range(3):
        own = _column(m, scores, label)
        given = [m.node("Unsqueeze", [boxes, _at(m, 0)]), m.node("Unsqueeze", [own, _at(m, 0, 1)]), _at(m, 6)]
        chosen = m.node("NonMaxSuppression", [*given, m.const(np.float32([0.5])), m.const(np.float32([0.4]))])
        rows = m.node("Squeeze", [m.node("Slice", [chosen, _at(m, 2), _at(m, 3), _at(m, 1)]), _at(m, 1)])
        labels = m.node("Expand", [m.const(np.float32([label])), m.node("Shape", [rows])])
        parts.append((m.node("Gather", [boxes, rows], axis=0), m.node("Gather", [own, rows], axis=0), labels))
    joined = [m.node("Concat", list(column), axis=0) for column in zip(*parts, strict=True)]
    best, places = _best(m, joined[1], 10, "best")
    missing = m.node("Sub", [_at(m, 10), m.node("Shape", [best])])
    zero = _at(m, 0)
    line = m.node("Concat", [zero, missing], axis=0)
    m.node("Pad", [best, line], "scores")
    m.node("Pad", [m.node("Gather", [joined[2], places], axis=0), line], "labels")
    plane = m.node("Concat", [zero, zero, missing, zero], axis=0)
    m.node("Pad", [m.node("Gather", [joined[0], places], axis=0), plane], "kept")
    m.node("Cast", [m.node("Shape", [best])], "count", to=TensorProto.FLOAT)
    return m.model(["scores", "labels", "kept", "count"])


def _best(m: Maker, scores: str, most: int, name: str) -> tuple[str, str]:
    """The best scores and where they are: ``most``, or all that there are."""
    k = m.node("ReduceMin", [m.node("Concat", [m.node("Shape", [scores]), _at(m, most)], axis=0)], keepdims=1)
    m.nodes.append(helper.make_node("TopK", [scores, k], [f"{name}.values", f"{name}.places"], axis=0))
    return f"{name}.values", f"{name}.places"


def _int(value: int) -> onnx.TensorProto:
    return helper.make_tensor("value", TensorProto.INT64, [1], [value])
