"""ReverseSequence: the first elements of each sequence of a batch in reverse order."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.affine import Move, box
from mccompile.ir.dims import require_same
from mccompile.ir.graph import Value
from mccompile.ir.op import TypeRuleError
from mccompile.ir.types import I64, TensorType
from mccompile.ops.elements import Elements, all_of
from mccompile.ops.expand import Expand
from mccompile.ops.frontend import Import
from mccompile.ops.gather_nd import GatherND
from mccompile.ops.movement import Movement
from mccompile.ops.number import MAX_ELEMENTS
from mccompile.ops.registry import onnx_op
from mccompile.ops.run_time import RunTime
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose


@dataclass(frozen=True)
class ReverseSequence(Movement):
    """Sequence i of ``batch_axis`` has its first ``lengths[i]`` elements of ``time_axis`` reversed."""

    name = "reverse_sequence"

    lengths: tuple[int, ...]
    batch_axis: int
    time_axis: int

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if self.batch_axis == self.time_axis or len(self.lengths) != x.shape[self.batch_axis]:
            raise TypeRuleError(f"{len(self.lengths)} lengths on axis {self.batch_axis} do not fit {x}")
        if not all(0 <= e <= x.shape[self.time_axis] for e in self.lengths):
            raise TypeRuleError(f"lengths {list(self.lengths)} are outside of axis {self.time_axis} of {x}")
        return (x,)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        moves = []
        whole, start = types[0].shape[self.time_axis], 0
        for length, run in groupby(e if e > 1 else 0 for e in self.lengths):
            count = len(list(run))
            if length:
                moves.append(self._move(types[0], (start, count), (length - 1, -1), (0, length)))
            if length < whole:
                moves.append(self._move(types[0], (start, count), (length, 1), (length, whole - length)))
            start += count
        return tuple(moves)

    def _move(
        self, x: TensorType, batch: tuple[int, int], source: tuple[int, int], target: tuple[int, int]
    ) -> Move:
        """Sequences ``batch`` (first, count): times ``target`` (first, count) from ``source`` (first, step)."""
        extents, src, dst = list(x.shape), [(0, 1)] * x.rank, [(0, 1)] * x.rank
        extents[self.batch_axis], extents[self.time_axis] = batch[1], target[1]
        src[self.batch_axis] = dst[self.batch_axis] = (batch[0], 1)
        src[self.time_axis], dst[self.time_axis] = source, (target[0], 1)
        return box(tuple(extents), tuple(src), tuple(dst))


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(2, 4), 1, 5)
    time = d.int(0, 1)
    lengths = np.array([d.int(1, shape[time]) for _ in range(shape[1 - time])], dtype=np.int64)
    attrs = {"time_axis": time, "batch_axis": 1 - time}
    return Case([d.array(shape, d.choice(["f32", "i64", "f16"])), lengths], attrs, frozenset({1}))


@onnx_op("ReverseSequence", sample=_sample, tolerance={})
def import_reverse_sequence(n: Import) -> None:
    x = n.input(0)
    rank = len(x.shape)
    batch, time = n.axis(n.attr("batch_axis", 1), rank), n.axis(n.attr("time_axis", 0), rank)
    n.emit(ReverseSequence(n.ints(1, "sequence_lens"), batch, time), [x])


def _import_places(n: Import) -> None:
    """Lengths that are computed at run time: the element of step t is that of step length - 1 - t, as long as the
    sequence lasts. A length beyond the axis ends the program."""
    x, lengths = n.input(0), n.input(1)
    rank = len(x.shape)
    batch, time = n.axis(n.attr("batch_axis", 1), rank), n.axis(n.attr("time_axis", 0), rank)
    if _same_everywhere(n, lengths) == x.shape[time]:  # as tf2onnx writes a reversed axis
        starts = tuple(e - 1 if a == time else 0 for a, e in enumerate(x.shape))
        n.emit(Slice(starts, tuple(-1 if a == time else 1 for a in range(rank)), x.shape), [x])
        return
    if batch == time or not require_same(lengths.shape, (x.shape[batch],)):
        raise n.error(f"lengths {lengths.type} on axis {batch} do not fit {x.type}")
    if lengths.type.count <= MAX_ELEMENTS and not lengths.type.varies:
        e = Elements(n)
        e.require(all_of((length.below(0) | e.extent(x.shape[time]).below(length)).negated()
                         for length in e.of(1, "sequence_lens")))  # fmt: skip
    perm = (batch, time, *(a for a in range(rank) if a not in (batch, time)))
    length = n.reshape(lengths, (x.shape[batch], 1, 1), "lengths")
    step = n.reshape(n.steps(x.shape[time], I64, "steps"), (1, x.shape[time], 1), "step")
    own, at = ex.var(0, I64), ex.var(1, I64)
    mirrored = ex.apply("sub", ex.apply("sub", own, ex.num(1, I64)), at)
    places = n.map(ex.apply("select", ex.apply("lt", at, own), mirrored, at), [length, step], "places")
    turned = n.inner(GatherND(1), [n.inner(Transpose(perm), [x], "batches"), places], "turned")
    n.emit(Transpose(tuple(perm.index(a) for a in range(rank))), [turned])


def _same_everywhere(n: Import, lengths: Value) -> int | None:
    """The one number that all elements of a vector of the run's extent are: it is repeated from one."""
    maker = next((node for node in n.graph.nodes if lengths in node.results), None)
    if maker is None or not isinstance(maker.op, Expand):
        return None
    numbers = n.numbers(maker.inputs[0])
    return numbers[0] if len(numbers) == 1 else None


RUN_TIME = {"ReverseSequence": RunTime(_import_places)}
