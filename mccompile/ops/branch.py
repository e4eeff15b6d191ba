"""`if`: one of two graphs is computed, as a condition says when the program runs (the ONNX operator If)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.ir.op import Inside, Op, Signature, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import BOOL, DTYPES, TensorType


@dataclass(frozen=True)
class If(Op):
    """Operands: the condition, bool of one element, and what both graphs read, which are `Node.regions`. Results are
    those of the first graph where the condition is true, of the second where it is not."""

    name = "if"

    def infer_around(
        self, types: Sequence[TensorType | None], inside: Sequence[Signature]
    ) -> tuple[TensorType, ...]:
        require_condition(types[0])
        results = self.infer_results(inside)
        if len(inside) != 2 or not all(are_cases(g, types[1:]) and are_cases(made, results) for g, made in inside):
            raise TypeRuleError("inputs or outputs of its two graphs are not those of the node")
        return results

    def infer_results(self, inside: Sequence[Signature]) -> tuple[TensorType, ...]:
        """The types of its results: those of both graphs."""
        return inside[0][1]

    def evaluate_around(self, arrays: Sequence[Array | None], inside: Sequence[Inside]) -> Sequence[Array]:
        condition, *given = (np.asarray(a) for a in arrays)
        return inside[0 if condition.reshape(-1)[0] else 1](given)


def are_cases(inside: Sequence[TensorType], outside: Sequence[TensorType | None]) -> bool:
    """Whether the inputs or outputs of a graph inside are what those of its node may be."""
    pairs = zip(inside, outside, strict=False)
    return len(inside) == len(outside) and all(o is not None and i.is_case_of(o) for i, o in pairs)


def require_condition(type_: TensorType | None) -> None:
    """TypeRuleError for what is no bool of one element."""
    if type_ is None or type_.dtype != BOOL or type_.count != 1:
        raise TypeRuleError(f"its condition is {type_}, but it may only be one bool")


@dataclass(frozen=True)
class Choose(If):
    """As `If` of graphs whose inputs and results have one of the extents that those of the node may have.

    ``extents`` are those of all results in a row, ``ranks`` how many each of them has.
    """

    name = "choose"

    dtypes: tuple[str, ...]
    ranks: tuple[int, ...]
    extents: tuple[int, ...]

    def infer_results(self, inside: Sequence[Signature]) -> tuple[TensorType, ...]:
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
    ends_run = True

    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        return tuple(TensorType(DTYPES[d], s) for d, s in zip(self.dtypes, self.shapes, strict=True))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        raise CompileError("a branch that cannot be computed is to be taken")
