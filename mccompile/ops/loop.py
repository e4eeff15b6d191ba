"""`loop`: a graph is computed again and again, each time on what it gave before (the ONNX operators Loop and Scan).

Worked example: three numbers, each the double of the one before; the first is x. The graph inside is given the number
of its turn, and here has no use for it:

    %last, %rows, %turns = loop(_, _, %x) {trips=3, turn="i", extent=3, carried=1, axes=(0,), backwards=(False,)}
      regions {
        graph @body(%i: i32[], %a: f32[]) {
          %b = map(%a) {expr={(x0 + x0)}} : f32[]
          %row = map(%a) {expr={x0}} : f32[]
          return %b, %row
        }
      } : f32[], f32[3], i32[]

With x = 1 the last is 8, the rows are 1, 2, 4, and the turns 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, counter
from mccompile.ir.errors import CompileError
from mccompile.ir.op import Inside, Op, Signature, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import BOOL, I32, I64, TensorType
from mccompile.ops.branch import require_condition


@dataclass(frozen=True)
class Loop(Op):
    """Operands: the number of turns (i64 of one element), the condition of the first (bool of one element), each
    perhaps absent; ``carried`` values; what else the graph reads. Results: the carried values after the last turn,
    the rows of all turns along ``axes`` (``backwards``: the first turn's last), and the number of turns made, i32[].

    The graph inside gets the number of the turn, i32[], for which its extents may say ``turn``, the carried values
    and what else it reads. It gives the condition of the next turn, if the node has a condition; the carried values
    for that; and a row for each of ``axes``.

    ``trips`` is the number of turns; or where the node is ``limited``, the most there may be of as many as the first
    operand says, or as the condition lets there be: a run that wants more ends with MCC_E_LIMIT. ``extent`` is how
    many rows there are.
    """

    name = "loop"

    trips: int
    turn: str
    extent: int = 0
    limited: bool = False
    carried: int = 0
    axes: tuple[int, ...] = ()
    backwards: tuple[bool, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.trips, self.extent)

    @property
    def this_turn(self) -> int:
        """The number of the turn, as an extent of what is inside."""
        return counter(self.turn, self.trips)

    def turns_inside(self) -> int:
        return bound(self.trips)

    def infer_around(
        self, types: Sequence[TensorType | None], inside: Sequence[Signature]
    ) -> tuple[TensorType, ...]:
        count, going, *others = types
        if count is not None and (count.dtype != I64 or count.count != 1):
            raise TypeRuleError(f"{count} is no number of turns")
        if going is not None:
            require_condition(going)
        ((given, made),) = inside
        if given != (TensorType(I32, ()), *others):
            raise TypeRuleError("the inputs of its graph are not the turn and the operands of the node")
        lead = 0 if going is None else 1
        if going is not None and (not made or made[0] != TensorType(BOOL, going.shape)):
            raise TypeRuleError("its graph gives no condition for the next turn")
        carried, rows = made[lead : lead + self.carried], made[lead + self.carried :]
        if carried != given[1 : 1 + self.carried] or len(rows) != len(self.axes) or len(rows) != len(self.backwards):
            raise TypeRuleError("its graph does not give what is carried to the next turn, and the rows")
        stacked = [
            TensorType(row.dtype, (*row.shape[:axis], self.extent, *row.shape[axis:]))
            for row, axis in zip(rows, self.axes, strict=True)
        ]
        return (*carried, *stacked, TensorType(I32, ()))

    def evaluate_around(self, arrays: Sequence[Array | None], inside: Sequence[Inside]) -> Sequence[Array]:
        count, going, *others = arrays
        carried, captured = others[: self.carried], others[self.carried :]
        wanted = bound(self.trips) + self.limited if count is None else int(np.asarray(count).reshape(-1)[0])
        rows: list[list[Array]] = [[] for _ in self.axes]
        turn = 0
        while turn < wanted and (going is None or bool(np.asarray(going).reshape(-1)[0])):
            if turn >= bound(self.trips):
                raise CompileError(f"a loop makes more than {bound(self.trips)} turns")
            given = [np.array(turn, np.int32), *carried, *captured]
            made: list[Array | None] = list(inside[0]([np.asarray(a) for a in given]))
            if going is not None:
                going = made.pop(0)
            carried = made[: self.carried]
            for column, row in zip(rows, made[self.carried :], strict=True):
                column.append(np.asarray(row))
            turn += 1
        given_back = inside[0].made[(going is not None) + self.carried :]
        orders = zip(rows, given_back, self.axes, self.backwards, strict=True)
        stacked = [
            np.stack(column[::-1] if back else column, axis) if turn else _no_rows(row, axis)
            for column, row, axis, back in orders
        ]
        return [*(np.asarray(a) for a in carried), *stacked, np.array(turn, np.int32)]


def _no_rows(row: TensorType, axis: int) -> Array:
    """What a loop without a turn gives: none of the rows that its graph would make."""
    if row.varies:
        raise CompileError("the rows of a loop without a turn are known when the program runs only")
    return np.zeros((*row.shape[:axis], 0, *row.shape[axis:]), row.dtype.numpy)


@dataclass(frozen=True)
class Turn(Op):
    """What a turn of a loop gives to the next one, or to the rows: a value as it is."""

    name = "turn"

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        return (x,)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return (np.asarray(arrays[0]),)
