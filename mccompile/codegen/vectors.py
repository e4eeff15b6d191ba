"""Vector forms of what a template loads and stores: consecutive coordinates of the last axis, f32 lanes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mccompile.codegen.binding import BoundView, KernelContext
from mccompile.codegen.c_expr import Emitter, literal, wrapped
from mccompile.ir import expr as ex
from mccompile.ir.kernel import View
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ir.types import BOOL, F32, DType
from mccompile.kernels.tiles import HALF_LANES


class VectorEmitter(Emitter):
    """An expression over f32 vectors as C; comparisons and bools are masks of the lanes."""

    def ctype(self, dtype: DType) -> str:
        return "mcc_vi" if dtype == BOOL else "mcc_vf"

    def _text(self, e: ex.Expr) -> str:
        if isinstance(e, ex.Num):
            return f"mcc_vset({literal(e.value, e.dtype)})"
        return super()._text(e)

    def _apply(self, fn: str, operands: tuple[ex.Expr, ...]) -> str:
        template = FUNCTIONS[fn].vector[operands[-1].dtype.kind]
        args = [wrapped(self._walk(a)) for a in operands]
        text = template.format(*args)
        return text if re.match(r"\w+\(", template) else wrapped(text)


@dataclass(frozen=True)
class Vectors:
    """The vector words of a template, for vectors of ``lanes`` floats."""

    context: KernelContext
    lanes: int

    def params(self, *coordinates: str) -> str:
        """The parameter list of a tile function: that of the kernel, then coordinates."""
        return ", ".join([self.context.params, *(f"int32_t {c}" for c in coordinates)])

    def arguments(self, *coordinates: str) -> str:
        """What the kernel gives to a tile function."""
        scratch = ["scratch"] if self.context.scratch is not None else []
        names = [name for name, _ in self.context.pointers()]
        return ", ".join([*names, *scratch, *self.context.call.args, *coordinates])

    def widths(self, count: int) -> list[int]:
        """``count`` lanes as whole vectors and the rest."""
        whole, rest = divmod(count, self.lanes)
        return [self.lanes] * whole + ([rest] if rest else [])

    def half(self, count: int) -> bool:
        """Whether ``count`` lanes are held in a vector of half the width."""
        return self.lanes >= HALF_LANES and count <= self.lanes // 2

    def whole(self, value: str, count: int) -> str:
        """A value of ``count`` lanes, which may be in half a vector, in a whole one."""
        return f"mcc_widen({value})" if self.half(count) else value

    def read(self, pointer: str, count: int, step: int = 1) -> str:
        """A vector of ``count`` floats ``step`` apart; nothing else is touched."""
        whole = count == self.lanes
        if step == 1:
            return f"mcc_vload({pointer})" if whole else f"mcc_vload_n({pointer}, {count})"
        if step == 2:
            return f"mcc_vload2({pointer})" if whole else f"mcc_vload2_n({pointer}, {count})"
        return f"mcc_vload_step({pointer}, {step}, {count})"

    def store(self, r: int, value: str, count: int, *coordinates: str) -> str:
        """Statements that apply the epilogue of result ``r`` to ``count`` lanes and store them.

        The lanes lie at ``coordinates`` and behind on the last axis. What has no vector form (functions of
        libm, integers, conversions) goes through the scalar epilogue, lane by lane.
        """
        y = self.context.y[r]
        body = dict(self.context.call.post).get(r)
        if y.dtype != F32 or (body is not None and not self._vectorizable(body)):
            return self._store_lanes(r, value, count, coordinates)
        emitter = VectorEmitter(self._leaf(value, count, coordinates))
        result = value if body is None else emitter.emit(body)
        at = y.index(*coordinates)
        if _step(y.view) != 1:
            put = self._scatter(y, result, count, coordinates)
        elif count == self.lanes:
            put = f"mcc_vstore(&{y.name}[{at}], {result});"
        else:
            put = f"mcc_vstore_n(&{y.name}[{at}], {result}, {count});"
        return "\n".join(["{", *emitter.lines, put, "}"]) if emitter.lines else put

    def _scatter(self, y: BoundView, value: str, count: int, coordinates: tuple[str, ...]) -> str:
        """Statements that store lanes of their final value far apart."""
        at = y.index(*coordinates[:-1], f"{coordinates[-1]} + lane")
        lines = [
            "{",
            f"float lanes[{self.lanes}];",
            f"mcc_vstore(lanes, {value});",
            f"for (int32_t lane = 0; lane < {count}; ++lane) {{",
            f"{y.name}[{at}] = lanes[lane];",
            "}",
            "}",
        ]
        return "\n".join(lines)

    def _store_lanes(self, r: int, value: str, count: int, coordinates: tuple[str, ...]) -> str:
        at = (*coordinates[:-1], f"{coordinates[-1]} + lane")
        return "\n".join(
            [
                "{",
                f"float lanes[{self.lanes}];",
                f"mcc_vstore(lanes, {value});",
                f"for (int32_t lane = 0; lane < {count}; ++lane) {{",
                self.context.store(r, "lanes[lane]", *at),
                "}",
                "}",
            ]
        )

    def _leaf(self, value: str, count: int, coordinates: tuple[str, ...]) -> Callable[[int], str]:
        def read(i: int) -> str:
            return value if i == ex.ACC else self._extra(self.context.e[i], count, coordinates)

        return read

    def _extra(self, e: BoundView, count: int, coordinates: tuple[str, ...]) -> str:
        element = f"{e.name}[{e.index(*coordinates)}]"
        return f"mcc_vset({element})" if _step(e.view) == 0 else self.read(f"&{element}", count)

    def _vectorizable(self, e: ex.Expr) -> bool:
        match e:
            case ex.Var(index=index) if index != ex.ACC:
                view = self.context.e[index].view
                return view.dtype == F32 and _step(view) in (0, 1)
            case ex.Var() | ex.Num():
                return e.dtype == F32
            case ex.Apply(fn=fn, operands=operands):
                known = operands[-1].dtype.kind in FUNCTIONS[fn].vector
                return known and e.dtype in (F32, BOOL) and all(map(self._vectorizable, operands))
        return False


def _step(view: View) -> int | None:
    """How far apart neighbours on the last axis lie; None if the layout is blocked."""
    if not view.linear or not view.rank:
        return None
    return 1 if view.shape[-1] == 1 else view.axis_strides()[-1]
