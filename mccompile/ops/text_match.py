"""RegexFullMatch: whether a text is one of an expression, by an automaton that is made when the network is compiled.

    "b." on ["be", "bee"]      is      [true, false]
"""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import BOOL, I32, U8, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.regex import Automaton, RegexError, automaton
from mccompile.ops.registry import onnx_op
from mccompile.ops.text import TEXT, strings_of


@dataclass(frozen=True)
class TextMatch(Op):
    """Operands text u8[..., bytes], and of an `Automaton` classes u8[256], steps i32[states, classes] and which
    states accept, u8[states]; the result bool[...]."""

    name = "text_match"

    @property
    def trusted(self) -> tuple[int, ...]:
        return (1, 2)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, classes, steps, accepts = types
        assert x is not None
        assert steps is not None
        if x.dtype != U8 or not x.shape or classes != TensorType(U8, (256,)) or steps.dtype != I32:
            raise TypeRuleError(f"{x} is no text, or {classes} and {steps} are no automaton")
        if accepts != TensorType(U8, steps.shape[:1]):
            raise TypeRuleError(f"{accepts} does not say which of {steps.shape[0]} states accept")
        return (TensorType(BOOL, x.shape[:-1]),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, classes, steps, accepts = (np.asarray(a) for a in arrays)
        machine = Automaton(classes, steps, accepts)
        found = [machine.matches(text) for text in strings_of(x)]
        return (np.array(found, bool).reshape(x.shape[:-1]),)


@onnx_op("RegexFullMatch", domain=TEXT, tolerance={})
def import_regex(n: Import) -> None:
    pattern = n.required("pattern", str)
    try:
        machine = automaton(pattern)
    except RegexError as e:
        raise n.error(f"the expression {pattern!r} cannot be compiled: {e}") from e
    tables = {"classes": machine.classes, "steps": machine.steps, "accepts": machine.accepts.astype(np.uint8)}
    n.emit(TextMatch(), [n.input(0), *(n.constant(name, table) for name, table in tables.items())])
