"""Vectors of one lane: what a template loads and stores is one element, and what is computed with it is scalar C.

A kernel of wide vectors prints the same loops for floating-point units that have none: sums in many registers.
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.bound_view import BoundView
from mccompile.codegen.c_expr import Emitter, unread
from mccompile.codegen.code import Code, bare, wrapped
from mccompile.codegen.moves import Moves, moves
from mccompile.codegen.vector_emitter import Width
from mccompile.codegen.vectors import Vectors
from mccompile.ir import expr as ex
from mccompile.ir.types import F32, DType
from mccompile.targets.target import Target


@dataclass(frozen=True)
class OneLane(Vectors):
    """The words of `Vectors`, of which every one is of a single element."""

    def moves(self) -> Moves:
        return moves(self.context, 0)

    @staticmethod
    def zeros(axes: int, dtype: DType = F32) -> str:
        return "{ " * axes + ("0.0f" if dtype.is_float else "0") + " }" * axes

    def read(self, pointer: str, count: Width, step: int = 1) -> Code:
        return self.context.uses.say("mcc_vload({0})", pointer)

    def write(self, pointer: str, value: str, count: Width) -> str:
        return self.context.uses.say("mcc_vstore({0}, {1});", pointer, value)

    def evaluate(self, name: str, body: ex.Expr, *values: str) -> str:
        return self.context.define(name, body, *values)

    def store(
        self, r: int, value: str, count: Width, *coordinates: str, dtype: DType = F32, begun: bool = False
    ) -> str:
        return _grouped(self.context.store(r, value, *coordinates))

    def put(self, y: BoundView, value: str, count: Width, *coordinates: str) -> str:
        return y.put(value, *coordinates)

    def load(self, i: int, count: Width, *coordinates: str) -> Code:
        return self.context.load(i, *coordinates)

    def define(self, name: str, i: int, count: Width, *coordinates: str) -> str:
        return f"const {self.context.loaded(i).c} {name} = {bare(self.load(i, count, *coordinates))};"

    def apply(self, body: ex.Expr, count: Width, *coordinates: str) -> str:
        return _grouped(self.context.apply(body, *coordinates))

    def define_over(self, name: str, body: ex.Expr, first: str, count: Width, *coordinates: str) -> str:
        def leaf(i: int) -> str:
            return wrapped(first) if i == 0 else self.load(i, count, *coordinates)

        emitter = Emitter(leaf, self.context.uses, prefix=f"{name}_")
        result = emitter.emit(body)
        before = [] if 0 in ex.variables(body) else [unread(first)]
        return "\n".join([*before, *emitter.lines, f"const {body.dtype.c} {name} = {result};"])

    def lanes_of(self, e: BoundView, count: Width, *coordinates: str) -> Code:
        return e.load(*coordinates)


def vectors_for(context: KernelContext, target: Target) -> Vectors:
    """The vector words of a kernel's template."""
    return OneLane(context, target) if target.lanes == 1 else Vectors(context, target)


def _grouped(statements: str) -> str:
    """Statements as one, so that the names which they declare are theirs."""
    return f"{{\n{statements}\n}}" if "\n" in statements else statements
