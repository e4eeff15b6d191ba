"""NonMaxSuppression: of boxes that overlap, those of the highest scores. How many stay, a kernel counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import minimum
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I32, I64, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op


@dataclass(frozen=True)
class NonMaxSuppression(Op):
    """Results: i64[count, 3] of batch, class and box, in this order and by falling scores; and the count.

    Operands are boxes f32[batch, boxes, 4], scores f32[batch, classes, boxes], the most boxes for a class i64, the
    overlap (intersection over union) beyond which the lesser box goes, and the score that boxes must exceed: f32, the
    last three of one element, and optional. ``center``: boxes are x, y, width, height, not two corners.
    """

    name = "nms"

    count: int
    center: bool = False

    @property
    def decides(self) -> bool:
        return True

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        boxes, scores = types[:2]
        assert boxes is not None
        assert scores is not None
        fit = boxes.rank == scores.rank == 3 and boxes.shape == (scores.shape[0], scores.shape[2], 4)
        if not fit or boxes.dtype != F32 or scores.dtype != F32:
            raise TypeRuleError(f"boxes {boxes} and scores {scores} do not fit together")
        return (TensorType(I64, (self.count, 3)), TensorType(I32, ()))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        scores = types[1]
        assert scores is not None
        return (constant(0, max(map(int, scores.shape)), 1), constant(0, int(self.count), 1))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        boxes, scores = (np.asarray(a) for a in arrays[:2])
        most, overlap, least = (None if a is None else a.reshape(-1)[0] for a in arrays[2:])
        found = [
            (b, c, i)
            for b, c in np.ndindex(*scores.shape[:2])
            for i in _kept(self._corners(boxes[b]), scores[b, c], int(most or 0), float(overlap or 0), least)
        ]
        return np.array(found, np.int64).reshape(-1, 3), np.array(len(found), np.int32)

    def _corners(self, boxes: Array) -> Array:
        if self.center:
            middle, half = boxes[:, :2], boxes[:, 2:] / 2
            return np.concatenate([middle - half, middle + half], 1)
        pairs = boxes.reshape(-1, 2, 2)
        return np.concatenate([pairs.min(1), pairs.max(1)], 1)


def _kept(boxes: Array, scores: Array, most: int, overlap: float, least: float | None) -> list[int]:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if len(kept) >= most:
            break
        above = least is None or scores[i] > least
        if above and not any(_overlap(boxes[i], boxes[j]) > overlap for j in kept):
            kept.append(int(i))
    return kept


def _overlap(a: Array, b: Array) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common, one, other = sides.prod(), (a[2:] - a[:2]).prod(), (b[2:] - b[:2]).prod()
    if sides.min() <= 0 or one <= 0 or other <= 0:
        return 0.0
    return float(common / (one + other - common))


@onnx_op("NonMaxSuppression", tolerance={})
def import_nms(n: Import) -> None:
    boxes, scores = n.input(0), n.input(1)
    if len(scores.shape) != 3:
        raise n.error("scores need the axes batch, class and box")
    batch, classes, each = scores.shape
    most = n.ints(2, "max_output_boxes_per_class")[0] if n.optional(2) is not None and n.has_numbers(2) else None
    if n.optional(2) is None:
        most = 0
    each = each if most is None else minimum(each, max(most, 0))
    count = n.counted("count", int(batch * classes * each))
    operands = [boxes, scores, n.optional(2), n.optional(3), n.optional(4)]
    found, total = n.inners(NonMaxSuppression(count, n.flag("center_point_box")), operands, ["found", "count"])
    n.count(count, total)
    n.bind(0, found)
