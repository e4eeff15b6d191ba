"""Calls of functions of C that users have written: what the function has to be like, and the call.

    low_pass of x0: f32[3,16] to y0: f32[3,16], share = 0.25

    void low_pass(const float *x0, const int32_t *x0_dims, float *y0, const int32_t *y0_dims, float share);
    static const int32_t x0_dims[2] = { 3, 16 };
    low_pass(x0, x0_dims, y0, y0_dims, 0.25f);
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from mccompile._dataclass import dataclass
from mccompile.codegen.c_expr import literal
from mccompile.codegen.names import string_literal
from mccompile.codegen.uses import Uses
from mccompile.ir.dims import varies
from mccompile.ir.types import F32, I32

if TYPE_CHECKING:
    from mccompile.codegen.bound_view import BoundView


@dataclass
class ForeignCall:
    """The C of a call, gathered argument by argument."""

    function: str
    parameters: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    @property
    def prototype(self) -> str:
        return f"void {self.function}({', '.join(self.parameters)});"

    @property
    def call(self) -> str:
        return f"{self.function}({', '.join(self.arguments)});"

    def add(self, parameter: str, argument: str) -> None:
        self.parameters.append(parameter)
        self.arguments.append(argument)

    def add_table(self, kind: str, name: str, items: Sequence[str], varies: bool = False) -> None:
        """An array of constants, or of what the run knows; C has no empty ones."""
        lives = "" if varies else "static "
        self.tables.append(f"{lives}const {kind} {name}[{max(len(items), 1)}] = {{ {', '.join(items) or '0'} }};")
        self.add(f"const {kind} *{name}", name)


def foreign_call(op: Any, operands: Sequence[BoundView], results: Sequence[BoundView], uses: Uses) -> ForeignCall:
    """The call of a `Custom` operator on its operands and results. ``uses`` are told the names in its numbers."""
    made = ForeignCall(op.function)
    for view in (*operands, *results):
        made.add(f"{'const ' if view in operands else ''}{view.ctype} *{view.name}", view.name)
        made.add_table("int32_t", f"{view.name}_dims", view.extents(), varies(view.view.shape))
    for name, value in op.attributes:
        if isinstance(value, str):
            made.add(f"const char *{name}", f'"{string_literal(value)}"')
        elif isinstance(value, tuple):
            of_floats = any(isinstance(item, float) for item in value)
            made.add_table("float" if of_floats else "int32_t", name, [_element(item, uses) for item in value])
            made.add(f"int32_t {name}_count", str(len(value)))
        else:
            made.add(f"{'float' if isinstance(value, float) else 'int32_t'} {name}", _number(value, uses))
    return made


def _element(value: float, uses: Uses) -> str:
    return _number(value, uses) if math.isfinite(value) else uses.element(value, F32)


def _number(value: float, uses: Uses) -> str:
    return str(uses.say(literal(value, F32 if isinstance(value, float) else I32)))
