"""What a kernel template sees of its call: its views (`bound_view`), its bodies, and the parameter list."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.codegen import loops
from mccompile.codegen.arithmetic import is_number, scaled, total
from mccompile.codegen.bound_view import BoundView
from mccompile.codegen.c_expr import Emitter, instead, literal, unread
from mccompile.codegen.code import Code, code, opened, wrapped
from mccompile.codegen.uses import Uses
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, may_reach, varies
from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Call
from mccompile.ir.op import Op
from mccompile.ir.types import F32, I32, I64, DType
from mccompile.ir.views import Buffer, View
from mccompile.kernels.integers import begun_with
from mccompile.kernels.model.tiles import Segment
from mccompile.kernels.model.widening import scaled as scaled_by
from mccompile.kernels.model.widening import unscaled, widening


@dataclass(frozen=True)
class Head:
    """What a function is declared as; ``external`` ones can be called from other files, those ``apart`` are
    never part of their caller."""

    name: str
    params: str
    answers_status: bool = False
    external: bool = False
    apart: bool = False

    @property
    def definition(self) -> str:
        """The first lines of its definition: where the linker puts it, what it is declared as."""
        return f"MCC_PLACE_CODE\n{self.text}"

    @property
    def text(self) -> str:
        """What it is declared as."""
        linkage = "" if self.external else "static MCC_APART " if self.apart else "static "
        return f"{linkage}{'mcc_status' if self.answers_status else 'void'} {self.name}({self.params})"


KERNEL_NAME = "KERNEL_NAME"
"""Stands for the name of a kernel: equal texts become one kernel."""


@dataclass
class KernelContext:
    """The variables of a template: ``x`` operands, ``y`` results, ``e`` extras, ``op``, ``p``, and bodies."""

    call: Call
    plain: frozenset[int] = frozenset()  # inputs that share memory with a result: no MCC_RESTRICT
    external: bool = False
    declared: Head | None = field(default=None, init=False)
    uses: Uses = field(default_factory=Uses, init=False)
    x: list[BoundView | None] = field(init=False)
    y: list[BoundView] = field(init=False)
    e: list[BoundView] = field(init=False)

    def __post_init__(self) -> None:
        self.x = [None if v is None else self._bound(f"x{i}", v) for i, v in enumerate(self.call.reads)]
        self.y = [self._bound(f"y{i}", v) for i, v in enumerate(self.call.results)]
        self.e = [self._bound(f"e{i}", v) for i, v in enumerate(self.call.extras)]

    def _bound(self, name: str, view: View) -> BoundView:
        by_extents = self.call.args and getattr(self.call.params, "by_extents", False)
        like_result = name.startswith("e") and view.shape == self.call.results[0].shape
        extents_of = ("y0" if like_result else name) if by_extents else ""
        return BoundView(name, view, frozenset(self.call.args), extents_of, self.uses)

    @property
    def op(self) -> Op:
        return self.call.op

    @property
    def p(self) -> object | None:
        return self.call.params

    @property
    def scratch(self) -> Buffer | None:
        return self.call.scratch

    def pointers(self) -> list[tuple[str, View]]:
        """Parameter names and the views they are given, inputs first; the order of the C parameters."""
        bound = [v for v in (*self.x, *self.e, *self.y) if v is not None]
        return [(v.name, v.view) for v in bound]

    @property
    def params(self) -> str:
        """The C parameter list. What shares memory with something else is not ``restrict``."""
        return self.some_params(*(v for v in (*self.x, *self.e, *self.y) if v is not None))

    def head(self, answers_status: bool = False, apart: bool = False) -> str:
        """The first lines of the kernel, which ends with MCC_OK if it ``answers_status``. One that stands ``apart``
        from its caller has all registers for its sums."""
        self.declared = Head(KERNEL_NAME, self.params, answers_status, self.external, apart)
        return self.uses.say(self.declared.definition)

    def some_params(self, *views: BoundView) -> str:
        """The parameters of a function that sees some of the views, the scratch and the numbers."""

        def pointer(v: BoundView) -> str:
            inputs = [*self.x, *self.e]
            shared = inputs.index(v) in self.plain if v in inputs else bool(self.plain)
            return f"{'const ' if v in inputs else ''}{v.ctype} *{'' if shared else 'MCC_RESTRICT '}{v.name}"

        out = list(map(pointer, views))
        if self.scratch is not None:
            out.append(f"{self.scratch.type.dtype.c} *MCC_RESTRICT scratch")
        return ", ".join(out + [f"int32_t {name}" for name in self.call.args])

    def some_arguments(self, *views: BoundView) -> str:
        """What the kernel gives to a function of `some_params`."""
        scratch = ["scratch"] if self.scratch is not None else []
        return ", ".join([*(v.name for v in views), *scratch, *self.call.args])

    def number(self, i: int, dtype: DType = I32) -> Code:
        """Number ``i`` of the operator (`Op.numbers`), as printed."""
        name, value = f"n{i}", self.op.numbers[i]
        if isinstance(value, Dim) and name not in self.call.args:
            return wrapped(value) if dtype in (I32, I64) else opened(f"({dtype.compute.c}){wrapped(value)}")
        if name not in self.call.args:
            return self.literal(value, dtype)
        return code(self.uses.number(name))

    def load(self, i: int, *coordinates: str | int) -> Code:
        """Operand ``i`` at coordinates with its prologue applied, as C that may stand next to any operator.

        Where it stands alone, ``| bare`` leaves its parentheses away.
        """
        x = self.x[i]
        if x is None:
            raise InternalError(f"{self.call.kernel} reads absent operand {i}")
        element = x.load(*coordinates)
        body = dict(self.call.pre).get(i)
        if body is None:
            return element
        emitter = Emitter(self._leaf(element, coordinates), self.uses, locals_=False)
        read = emitter.emit(body)
        return wrapped(read) if ex.ACC in ex.variables(body) else instead(element, read)

    def loaded(self, i: int) -> DType:
        """The type of what `load` gives."""
        x = self.x[i]
        body = dict(self.call.pre).get(i)
        if body is not None:
            return body.dtype
        assert x is not None
        return x.dtype.compute

    def accumulator(self, i: int = 0) -> Accumulator:
        """The arithmetic of sums of products of operand ``i``."""
        return Accumulator(self.loaded(i))

    def store(self, r: int, value: str, *coordinates: str | int, begun: int = -1) -> str:
        """Statements that apply the epilogue of result ``r`` to ``value`` and store it at coordinates. Where the sum
        has ``begun`` with an extra operand that the epilogue adds first, it is not added again."""
        body = dict(self.call.post).get(r)
        if body is not None and begun >= 0:
            body = begun_with(body, begun)
        if body is None:
            return self.y[r].put(value, *coordinates)
        emitter = Emitter(self._leaf(value, coordinates), self.uses)
        result = emitter.emit(body)
        before = [] if ex.ACC in ex.variables(body) else [unread(value)]
        return "\n".join([*before, *emitter.lines, self.y[r].put(result, *coordinates)])

    def apply(self, body: ex.Expr, *coordinates: str | int) -> str:
        """Statements that store ``body`` over the operands at coordinates (the kernel of `map`)."""
        emitter = Emitter(lambda i: self.load(i, *coordinates), self.uses)
        result = emitter.emit(body)
        if len(self.call.post):
            emitter.lines.append(f"const {body.dtype.c} value = {result};")
            result = code("value")
        return "\n".join([*emitter.lines, self.store(0, result, *coordinates)])

    def define(self, name: str, body: ex.Expr, *values: str) -> str:
        """Statements that declare ``name`` as ``body``, whose variable ``i`` stands for the C text ``values[i]``."""
        emitter = Emitter(lambda i: wrapped(values[i]), self.uses, prefix=f"{name}_")
        result = emitter.emit(body)
        before = [] if 0 in ex.variables(body) else [unread(values[0])]
        return "\n".join([*before, *emitter.lines, f"const {body.dtype.c} {name} = {result};"])

    def beside(self, r: int) -> list[BoundView]:
        """The extras that the epilogue of result ``r`` reads."""
        body = dict(self.call.post).get(r)
        return [] if body is None else [self.e[i] for i in sorted(ex.variables(body)) if i != ex.ACC]

    def _leaf(self, value: str, coordinates: Sequence[str | int]) -> Callable[[int], str]:
        return lambda i: wrapped(value) if i == ex.ACC else self.e[i].load(*coordinates)

    def require(self, holds: bool, what: str) -> None:
        """What a template takes for granted of its call; a variant that promises more than that is at fault."""
        if not holds:
            raise InternalError(f"the template of {self.call.kernel} handles {what}: {self.call.op}")

    @property
    def fixed(self) -> bool:
        """Whether all extents and strides are numbers, none a C parameter."""
        return not self.call.args

    @property
    def unchanged(self) -> bool:
        """Whether there are neither prologues nor epilogues."""
        return not self.call.pre and not self.call.post

    def raw(self, *operands: int) -> bool:
        """Whether operands are floats that no prologue changes: they may be read as they are stored."""
        changed = {i for i, _ in self.call.pre}
        stored = [None if i in changed else self.x[i] for i in operands]
        return all(v is not None and v.dtype == F32 for v in stored)

    def widened(self, operand: int) -> str:
        """The form of `mccompile.kernels.model.widening` that an operand is stored in; empty if it has none."""
        x = self.x[operand]
        return "" if x is None else widening(unscaled(dict(self.call.pre).get(operand), x.dtype), x.dtype)

    def scale(self, operand: int) -> BoundView | None:
        """What the elements of an operand in such a form are multiplied by: kernels may scale sums instead."""
        x = self.x[operand]
        found = None if x is None else scaled_by(dict(self.call.pre).get(operand), x.dtype)
        return None if found is None else self.e[found]

    @property
    def weighted(self) -> bool:
        """Whether operand 0 is floats as they are stored, and operand 1 what `Vectors.weights` loads."""
        return self.raw(0) and (self.raw(1) or bool(self.widened(1)))

    # -- words of the templates --------------------------------------------------------------------------
    @staticmethod
    def coordinates(rank: int, prefix: str = "i") -> list[str]:
        """Names of loop variables: ``i0 i1 ...``."""
        return [f"{prefix}{d}" for d in range(rank)]

    @staticmethod
    def position(out: str, stride: int, tap: str, dilation: int, pad: int) -> Code:
        """The input coordinate of a window's tap: ``out * stride + tap * dilation - pad``."""
        return total(scaled(out, stride), scaled(tap, dilation), -pad)

    @staticmethod
    def offset(*terms: tuple[str | int, str | int]) -> Code:
        """An index: the sum of coordinates times strides.

        A coordinate of which a view repeats its elements stays, times 0: it may be a parameter of a tile function,
        and one that is not used is a warning.
        """
        repeated = [opened(f"{wrapped(c)} * 0") for c, stride in terms if str(stride) == "0" and not is_number(c)]
        return total(*(scaled(c, stride) for c, stride in terms), *repeated)

    @property
    def _shared(self) -> loops.Shared | None:
        """The loop of the kernel, below its head, whose turns are shared out."""
        parts = self.call.parts
        return None if parts is None or self.declared is None else loops.Shared(parts.loop, parts.cuts[-1])

    def shares(self, name: str) -> bool:
        """Whether the turns of the loop over ``name`` are shared out: then `tiles` says which of them are made."""
        return self._shared is not None and self._shared.name == name

    @property
    def in_rounds(self) -> bool:
        """Whether all turns of the loop that is shared out are made in rounds: ``part_round`` is which of them."""
        return self.call.parts is not None and self.call.parts.rounds > 1

    def loop(self, name: str, extent: str | int, caller: loops.Caller) -> str:
        return loops.loop(name, extent, caller, self._shared)

    def nest(self, names: Sequence[str], extents: Sequence[str | int], caller: loops.Caller) -> str:
        return loops.nest(names, extents, caller, self._shared)

    def span(self, name: str, first: str, stop: str, caller: loops.Caller) -> str:
        return loops.span(name, first, stop, caller, self._shared)

    def tiles(
        self, name: str, segment: Segment, caller: loops.Caller, shift: str | int = 0, down: bool = False
    ) -> str:
        return loops.tiles(name, segment, caller, shift, self._shared, down)

    def chunked(
        self, found: Sequence[Segment], tiles_of: Callable[[int], Sequence[Segment]] | None = None,
        apart: bool = False,
    ) -> list[loops.Chunk]:  # fmt: skip
        """Chunks as loops: one, unless work is shared out or the extent of a tile is known at run time only."""
        sizes = [s.size for chunk in found for s in tiles_of(chunk.size)] if tiles_of else []
        return loops.chunked(found, apart or varies(sizes) or self._shared is not None)

    @staticmethod
    def in_chunk(chunk: loops.Chunk, caller: loops.Caller) -> str:
        """What is called, for each chunk of a loop from `chunked`."""
        return loops.in_chunk(chunk, caller)

    def chunk_tiles(
        self, name: str, chunk: loops.Chunk, tiles_of: Callable[[int], Sequence[Segment]],
        caller: Callable[[int], str], alone: bool = False,
    ) -> str:  # fmt: skip
        """What is called with its extent, for each tile of a chunk, which begins at ``name``; ``alone`` where nothing
        else in the block around it has a variable of that name."""
        return loops.chunk_tiles(name, chunk, tiles_of, caller, alone, self._shared)

    @staticmethod
    def any_of(tests: Sequence[str]) -> str:
        """The condition that one of the conditions holds."""
        return loops.any_of(tests)

    @staticmethod
    def all_of(tests: Sequence[str]) -> str:
        """The condition that all conditions hold."""
        return loops.all_of(tests)

    @staticmethod
    def product(factors: Sequence[str]) -> str:
        """The product of numbers, those that are 1 left out."""
        return " * ".join(f for f in factors if f != "1") or "1"

    @staticmethod
    def times(count: int, extent: str) -> Code:
        """So many times an extent, for readers: 2 * 16 and not 32."""
        return scaled(extent, count) if "1" in (str(count), extent) else opened(f"{count} * {extent}")

    @staticmethod
    def segment(start: int, stop: int, size: int) -> Segment:
        return Segment(start, stop, size)

    @staticmethod
    def beyond(last: int, extent: int) -> bool:
        """Whether a coordinate lies behind an axis, or may."""
        return may_reach(last, extent)

    @staticmethod
    def named(*coordinates: str) -> list[str]:
        """Those coordinates that are variables: the others are known to be 0."""
        return [c for c in coordinates if c != "0"]

    @staticmethod
    def zero(dtype: DType) -> Code:
        """What a sum begins with."""
        return literal(0, dtype)

    @staticmethod
    def group(channel: str, count: str, groups: int, width: str) -> Code:
        """The first of the ``width`` operand channels of a result channel's group, of which each has as many of
        ``count`` result channels."""
        each = KernelContext.share(count, groups)
        return scaled(channel if each == "1" else opened(f"{channel} / {wrapped(each)}"), width)

    @staticmethod
    def share(count: str, groups: int) -> Code:
        """How many of ``count`` channels a group has."""
        if groups == 1:
            return code(count)
        return code(str(int(count) // groups)) if is_number(count) else opened(f"{count} / {groups}")

    def tap(
        self, name: str, out: str, tap: str, step: tuple[int, int, int], y: tuple[BoundView, int], w: int | str,
        x: tuple[BoundView, int],
    ) -> loops.Tap:
        """The coordinate of a window's tap: `loops.tap` for axes of result, window and operand."""
        numbers = [y[0].e(y[1]), str(w), x[0].e(x[1])]
        known = all(is_number(n) for n in numbers)
        last = (int(numbers[0]) - 1, int(numbers[1]) - 1) if known else None
        found = loops.tap(name, out, tap, step, last, numbers[2])
        if found.low or found.high or x[0].varies(x[1]):
            return found
        return replace(found, at=found.declared or found.at, declared="")  # a name might be left unused

    def literal(self, value: float, dtype: DType) -> Code:
        if isinstance(value, Dim):
            return opened(f"({dtype.compute.c}){wrapped(value)}")
        return self.uses.say(literal(value, dtype))

    wide: ClassVar[DType] = I32
    """What bytes are computed in."""

    def table(self, elements: np.ndarray[Any, np.dtype[Any]]) -> str:
        """The name of a constant array of the file."""
        return self.uses.table(elements)

    def reduction_start(self, mode: str, dtype: DType) -> Code:
        """The neutral element of sum, prod, max or min."""
        if mode in ("sum", "prod"):
            return literal(mode == "prod", dtype)
        if dtype.is_float:
            return self.literal(-math.inf if mode == "max" else math.inf, dtype)
        info = np.iinfo(dtype.numpy.name)
        return literal(int(info.min if mode == "max" else info.max), dtype)

    def reduction_step(self, mode: str, left: str, right: str, dtype: DType) -> Code:
        """``left`` and ``right`` combined, to stand alone."""
        fn = {"sum": "add", "prod": "mul"}.get(mode, mode)
        body = ex.apply(fn, ex.var(0, dtype), ex.var(1, dtype))
        return Emitter(lambda i: wrapped((left, right)[i]), self.uses, locals_=False).emit(body)


@dataclass(frozen=True)
class Accumulator:
    """The arithmetic of a sum of products: floats in the compute type, integers wrapping through unsigned."""

    dtype: DType

    @property
    def c(self) -> str:
        return self.dtype.c if self.dtype.is_float else ("uint64_t" if self.dtype.nbytes == 8 else "uint32_t")

    @property
    def zero(self) -> str:
        """What the sum begins with."""
        return literal(0, self.dtype) if self.dtype.is_float else "0u"

    def term(self, text: str) -> Code:
        """A factor of a product."""
        return wrapped(text) if self.dtype.is_float else opened(f"({self.c}){wrapped(text)}")

    def value(self, text: str) -> Code:
        """The sum in the compute type."""
        return code(text) if self.dtype.is_float else opened(f"({self.dtype.c}){wrapped(text)}")
