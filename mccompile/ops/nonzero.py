"""NonZero: where a tensor has other elements than 0. How many there are, a kernel counts.

    NonZero(ConstantOfShape([t], value=1))      is      the numbers 0 to t - 1, and there is nothing to count

Before Range there was no other way to write torch.arange(t).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, bound
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Node, Value
from mccompile.ir.op import Op
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import BOOL, I32, I64, TensorType
from mccompile.ops.concat import Concat
from mccompile.ops.expand import Expand
from mccompile.ops.filled import repeated
from mccompile.ops.frontend import Import
from mccompile.ops.iota import Iota
from mccompile.ops.map import Map
from mccompile.ops.registry import onnx_op
from mccompile.ops.reshape import Reshape


@dataclass(frozen=True)
class NonZero(Op):
    """Results: coordinates of the elements that are not 0, i64[rank, count], in row-major order; and the count. Of a
    ``count`` that is known, the program ends with MCC_E_DIM where there are others."""

    name = "nonzero"

    count: int

    @property
    def decides(self) -> bool:
        return True

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        return (TensorType(I64, (x.rank, self.count)), TensorType(I32, ()))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,) = types
        assert x is not None
        return (constant(0, max(map(int, x.shape), default=1), 1), constant(0, int(x.count), 1))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        found = np.array(np.nonzero(np.asarray(arrays[0])), np.int64)
        if not isinstance(self.count, Dim) and found.shape[1] != self.count:
            raise CompileError(f"MCC_E_DIM: {found.shape[1]} elements are not 0, not {self.count}")
        return found, np.array(found.shape[1], np.int32)


def places(n: Import, x: Value) -> Value:
    """Coordinates of the elements of ``x`` that are not 0, i64[rank, count]. What was found of a tensor already is
    found once: x[mask] and y[mask] of equal masks have as many elements then."""
    number = repeated(n.graph, x)
    if number is not None:
        return _all_places(n, x.shape) if number else n.constant("found", np.zeros((len(x.shape), 0), np.int64))
    same = (node.results[0] for node in n.graph.nodes if isinstance(node.op, NonZero) and node.inputs[0] is x)
    before = next(same, None)
    if before is not None:
        return before
    count = n.counted("count", bound(x.type.count))
    found, total = n.inners(NonZero(count), [x], ["found", "count"])
    n.count(count, total)
    return found


def learn_count(n: Import, numbers: Value) -> None:
    """Let output 0, the sum of all ``numbers``, be the extent that NonZero has counted, where these are bools that it
    was given before: torch.onnx writes x[mask] = 0 so, and repeats the 0 as often."""
    if numbers.dtype not in (I32, I64) or not any(isinstance(node.op, NonZero) for node in n.graph.nodes):
        return
    made = n.graph.producers()
    cast = made.get(_unshaped(numbers, made))
    if cast is None or not isinstance(cast.op, Map) or [v.dtype for v in cast.operands if v is not None] != [BOOL]:
        return
    if cast.op.evaluate(np.array([False, True]))[0].tolist() != [0, 1]:
        return
    found = _unshaped(cast.inputs[0], made)
    for node in n.graph.nodes:
        if isinstance(node.op, NonZero) and _unshaped(node.inputs[0], made) is found and n.outputs[0] is not None:
            n.learn(n.outputs[0], node.op.count)


def _unshaped(value: Value, made: Mapping[Value, Node]) -> Value:
    """What a value is before Reshape."""
    while (node := made.get(value)) is not None and isinstance(node.op, Reshape) and not (node.pre or node.post):
        value = node.inputs[0]
    return value


def _all_places(n: Import, shape: tuple[int, ...]) -> Value:
    """The coordinates of each element of a tensor."""
    count, rows = math.prod(shape), []
    for a, extent in enumerate(shape):
        steps = n.inner(Iota(0, 1, extent), [], f"steps{a}")
        column = n.reshape(steps, (1,) * a + (extent,) + (1,) * (len(shape) - a - 1), f"axis{a}")
        every = column if column.shape == shape else n.inner(Expand(shape), [column], f"all{a}")
        rows.append(n.reshape(every, (1, count), f"row{a}"))
    return rows[0] if len(rows) == 1 else n.inner(Concat(0), rows, "found")


@onnx_op("NonZero", tolerance={})
def import_nonzero(n: Import) -> None:
    x = n.input(0)
    if not x.shape:
        x = n.reshape(x, (1,), "vector")
    n.bind(0, places(n, x))
