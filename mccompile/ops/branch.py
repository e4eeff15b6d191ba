"""`if`: one of two graphs is computed, as a condition says when the program runs (the ONNX operator If)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from mccompile.ir.errors import CompileError
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import BOOL, DTYPES, TensorType


@dataclass(frozen=True)
class If(Op):
    """Operands: the condition, bool of one element, and what both graphs read, which are `Node.regions`. Results are
    those of the first graph where the condition is true, of the second where it is not."""

    name = "if"

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        condition = types[0]
        if condition is None or condition.dtype != BOOL or condition.count != 1:
            raise TypeRuleError(f"{condition} is no condition")
        return ()


@dataclass(frozen=True)
class Choose(If):
    """As `If` of graphs whose inputs and results have one of the extents that those of the node may have.

    ``extents`` are those of all results in a row, ``ranks`` how many each of them has.
    """

    name = "choose"

    dtypes: tuple[str, ...]
    ranks: tuple[int, ...]
    extents: tuple[int, ...]

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        super().infer(*types)
        if not len(self.dtypes) == len(self.ranks) or sum(self.ranks) != len(self.extents):
            raise TypeRuleError(f"{len(self.extents)} extents are not those of tensors of ranks {list(self.ranks)}")
        left = iter(self.extents)
        return tuple(
            TensorType(DTYPES[d], tuple(islice(left, rank))) for d, rank in zip(self.dtypes, self.ranks, strict=True)
        )


@dataclass(frozen=True)
class Refuse(Op):
    """Results that are never made, for the program ends with MCC_E_DIM: a branch that cannot be computed."""

    name = "refuse"

    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        return tuple(TensorType(DTYPES[d], s) for d, s in zip(self.dtypes, self.shapes, strict=True))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        raise CompileError("a branch that cannot be computed is to be taken")
