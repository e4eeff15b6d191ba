"""Vector forms of what a template loads and stores: consecutive coordinates of the last axis, one in each lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mccompile._dataclass import dataclass
from mccompile.codegen.arithmetic import total
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.bound_view import BoundView
from mccompile.codegen.bounds import LIMIT, magnitude, of_type, of_view
from mccompile.codegen.c_expr import instead, unread
from mccompile.codegen.code import Code, closed, code, wrapped
from mccompile.codegen.moves import Moves, joined, moves, weaving
from mccompile.codegen.packs import Final, Part, packed, packs, woven
from mccompile.codegen.vector_emitter import Primitives, VectorEmitter, Width, rounding
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, varies
from mccompile.ir.types import DTYPES, F32, I8, I32, U8, DType
from mccompile.ir.vector import V, is_direct, is_lane
from mccompile.ir.views import View
from mccompile.kernels.model.lanes import no_vectors, vector_cycles, vector_form
from mccompile.kernels.model.prefetch import asked_in_time, lines_asked, waits
from mccompile.kernels.model.tiles import Segment, descending, fits, narrow, segments
from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Same:
    """Vectors ``first`` to ``end`` - 1 of a turn, all of ``width`` lanes."""

    first: int
    end: int
    width: Width


@dataclass(frozen=True)
class Vectors:
    """The vector words of a template, for a target. Where no type is said, vectors are of floats."""

    context: KernelContext
    target: Target

    @property
    def machine(self) -> Machine:
        return self.target.machine

    @property
    def lanes(self) -> int:
        """Floats of a vector, and elements of other types that are computed beside them."""
        return self.machine.lanes(F32)

    def params(self, *coordinates: str) -> str:
        """The parameter list of a tile function: that of the kernel, then coordinates."""
        return ", ".join([self.context.params, *(f"int32_t {c}" for c in coordinates)])

    def arguments(self, *coordinates: str) -> str:
        """What the kernel gives to a tile function."""
        scratch = ["scratch"] if self.context.scratch is not None else []
        names = [name for name, _ in self.context.pointers()]
        return ", ".join([*names, *scratch, *self.context.call.args, *coordinates])

    def moves(self) -> Moves:
        """The way of a copy."""
        return moves(self.context, self.lanes)

    def strips(self, extent: int, unroll: int, lanes: int = 0) -> tuple[Segment, ...]:
        """An axis in runs of ``unroll`` vectors, then single vectors, then the rest. Vectors are of floats, if it is
        not said how many ``lanes`` they have."""
        lanes = lanes or self.lanes
        if varies([extent]):
            return descending(extent, dict.fromkeys((unroll * lanes, lanes)))
        whole = extent // (unroll * lanes) * unroll * lanes
        wide = [Segment(0, whole, unroll * lanes)] if whole else []
        rest = segments(extent - whole, lanes)
        return (*wide, *(Segment(whole + r.start, whole + r.stop, r.size) for r in rest))

    @staticmethod
    def even(extent: int, most: int) -> tuple[Segment, ...]:
        """An axis in runs of at most ``most`` elements, as long as as few of them allow."""
        return segments(extent, -(-extent // -(-extent // most)))

    @staticmethod
    def groups_of(extent: int, most: int) -> tuple[Segment, ...]:
        """An axis in groups of ``most``, and what is left."""
        return segments(extent, most)

    def groups(self, extent: int, most: int) -> tuple[Segment, ...]:
        """An axis in groups of at most ``most`` vectors."""
        return segments(extent, most * self.lanes, self.lanes)

    def unrolled(self, body: ex.Expr) -> int:
        """How many vectors of an expression one turn of a loop takes: few of what is long."""
        return 2 if vector_cycles([body], self.machine.vector_bytes) > 8 else 4

    def lines_asked(self, lines: int, tiles: int, nbytes: int) -> int:
        """Of ``lines`` of weights that a turn reads, how many it asks for where ``tiles`` of rows read the same one
        after the other, and what is ``nbytes`` further next; all, soon, if that is too far."""
        return lines_asked(lines, tiles if waits(nbytes, self.machine) else 1)

    def lines_shared(self, pitch: int, tiles: int, nbytes: int) -> int:
        """How many lines of weights a step asks for of those that are ``nbytes`` further, where ``tiles`` of rows
        read the same ``pitch`` floats in it one after the other, and share that out. 0 where each better asks for
        all that it reads soon, or steps go by lanes."""
        read = -(-4 * pitch // self.machine.line)
        lines = 0 if self.lane_products else lines_asked(read, tiles)
        return lines if 0 < lines < read and asked_in_time(nbytes, self.machine) else 0

    @property
    def long_epilogue(self) -> bool:
        """Whether what becomes of several vectors of sums takes more registers than there are, on targets whose
        multiply-adds overwrite what they add to: of each step of a polynomial they need a copy."""
        body = dict(self.context.call.post).get(0)
        overwrites = Capability.A64 in self.target.capabilities
        return overwrites and body is not None and vector_cycles([body], self.machine.vector_bytes) > 4

    def holds_twice(self, rows: int, vectors: int) -> bool:
        """Whether registers hold two sums for each element of a tile while its products are added up."""
        return fits(rows, vectors, self.target, spare=rows * vectors)

    def unfollowed(self, loads: int) -> bool:
        """Whether a turn of a loop has more ``loads`` than hardware follows, where turns are written out at all."""
        return self.lanes > 4 and 0 < self.machine.followed < loads

    @property
    def lane_products(self) -> int:
        """How many neighbours come by one load where a product may take one of them for all lanes of a vector; 0
        where none may. It is written out for each, which takes code."""
        return 4 if Capability.LANES in self.target.capabilities and not self.target.compact else 0

    def loaded_together(self, count: int) -> list[int]:
        """Of ``count`` vectors of weights, operand 1, one behind the other, how many each load has: up to four where
        one instruction loads so many and moves a pointer behind them; none where two pairs are as good."""
        most = self.machine.vectors_loaded
        if count < 3 or most == 1 or self.context.widened(1):
            return []
        return [min(most, count - first) for first in range(0, count, most)]

    @staticmethod
    def varying(views: Sequence[BoundView], *coordinates: str) -> list[str]:
        """Those coordinates of leading axes on which it depends which elements of the views are meant."""
        steps = [(v.view.shape, v.view.axis_strides()) for v in views]
        return [c for a, c in enumerate(coordinates) if any(shape[a] > 1 and step[a] for shape, step in steps)]

    def widths(self, count: int) -> list[Width]:
        """``count`` lanes as whole vectors and the rest; what is known at run time only is less than a vector."""
        if isinstance(count, Dim):
            return [code(count)]
        whole, rest = divmod(count, self.lanes)
        return [*[self.lanes] * whole, *([rest] if rest else [])]

    def turn(self, count: int) -> tuple[Same, ...]:
        """The vectors of one turn of a loop, ``count`` lanes: those of one width at once."""
        return tuple(self.alike(self.widths(count)))

    @staticmethod
    def alike(widths: Sequence[Width]) -> list[Same]:
        """Vectors of these widths: neighbours of one width at once."""
        found: list[Same] = []
        for i, width in enumerate(widths):
            first = found.pop().first if found and found[-1].width == width else i
            found.append(Same(first, i + 1, width))
        return found

    @staticmethod
    def named(name: str, count: int) -> list[str]:
        """What the vectors of a turn have one of each."""
        return [f"{name}[{j}]" for j in range(count)] if count > 1 else [name]

    def half(self, count: Width) -> bool:
        """Whether ``count`` lanes are held in a vector of half the width."""
        return isinstance(count, int) and count <= narrow(self.lanes) < self.lanes

    def whole(self, value: str, count: Width) -> str:
        """A value of ``count`` lanes, which may be in half a vector, in a whole one."""
        return self.context.uses.say("mcc_widen({0})", value) if self.half(count) else value

    @staticmethod
    def zeros(axes: int, dtype: DType = F32) -> str:
        """What an array of vectors with so many axes begins with."""
        return "{ " * (axes + 1) + ("0.0f" if dtype.is_float else "0") + " }" * (axes + 1)

    def of(self, dtype: DType) -> Primitives:
        """The vectors whose lanes are of the type that an element is computed in."""
        return Primitives(V(dtype.compute, self.lanes), self.context.uses)

    def read(self, pointer: str, count: Width, step: int = 1) -> Code:
        """A vector of ``count`` floats ``step`` apart; nothing else is touched."""
        return self.of(F32).load(pointer, count, step)

    def read_for(self, products: int, pointer: str, count: Width, step: int = 1) -> Code:
        """As `read`, for so many products. Where these take an operand from memory as well, gcc 12 leaves a whole
        vector there for two or three of them, and one that crosses a cache line is two loads each time."""
        from_memory = self.target.isa in ("avx2", "avx512")
        if from_memory and 1 < products < 4 and step == 1 and count == self.lanes:
            return self.context.uses.say("mcc_vload_once({0})", pointer)
        return self.read(pointer, count, step)

    def write(self, pointer: str, value: str, count: Width) -> str:
        """A statement that stores ``count`` floats as they are; nothing else is touched."""
        return self.of(F32).store(pointer, value, count)

    def taking_turns(self, sources: Sequence[str], k: int) -> Code:
        """Vector ``k`` of a run of floats in which the lanes of ``sources`` take turns."""
        return closed(joined(self.lanes, sources, weaving(self.lanes, len(sources), k)))

    def weights(self, pointer: str, count: Width | None = None) -> Code:
        """A vector of the weights, operand 1, that lie at a pointer; a half one where ``count`` lanes are held so.
        Weights that are stored in fewer bits become floats."""
        half = count is not None and self.half(count)
        form, say = self.context.widened(1), self.context.uses.say
        if not form:
            return say("mcc_hload({0})" if half else "mcc_vload({0})", pointer)
        if self.lanes == 1:
            return self._weight(f"*{wrapped(pointer)}", form)
        lanes = narrow(self.lanes) if half else self.lanes
        loaded = say(f"mcc_vload_{form}({{0}}, {lanes})", pointer)
        if form in ("i8", "u8"):
            loaded = self.of(DTYPES[form]).converted(loaded, F32)
        return say("mcc_low({0})", loaded) if half else loaded

    def weight(self, element: str) -> Code:
        """An element of the weights, operand 1, in every lane."""
        form = self.context.widened(1)
        if form == "f16" and self.lanes > 1:
            return self.context.uses.say("mcc_vset_f16({0})", element)
        return self.context.uses.say("mcc_vset({0})", self._weight(element, form) if form else element)

    def _weight(self, element: str, form: str) -> Code:
        """An element that is stored in fewer bits, as a float."""
        return self.context.uses.say("(float){0}" if form in ("i8", "u8") else f"mcc_{form}_to_f32({{0}})", element)

    def evaluate(self, name: str, body: ex.Expr, *values: str) -> str:
        """Statements that declare the vector ``name`` as ``body``, whose variable ``i`` stands for ``values[i]``."""
        return self._declared(name, body, values[0], 0, lambda i: wrapped(values[i]))

    @property
    def bias(self) -> BoundView | None:
        """What sums may begin with: an extra of one element for each place on the last axis, which the epilogue of
        result 0 adds before it does anything else."""
        found = self._begun()
        return None if found is None else self.context.e[found[0]]

    def _begun(self) -> tuple[int, ex.Expr] | None:
        """The number of `bias`, and the epilogue without it."""
        body = dict(self.context.call.post).get(0)
        if body is None:
            return None
        for part in ex.distinct(body):
            match part:
                case ex.Apply(fn="add", operands=(ex.Var(index=ex.ACC) as acc, ex.Var(index=k))) if k != ex.ACC:
                    rest = ex.replaced(body, part, ex.num(0, part.dtype))
                    view = self.context.e[k].view
                    steps = view.axis_strides() if view.linear else ()
                    along = bool(steps) and not any(steps[:-1]) and steps[-1] == 1
                    if along and ex.ACC not in ex.variables(rest) and self._stays(body):
                        return k, ex.replaced(body, part, acc)
        return None

    def store(
        self, r: int, value: str, count: Width, *coordinates: str, dtype: DType = F32, begun: bool = False
    ) -> str:
        """Statements that apply the epilogue of result ``r`` to ``count`` lanes of ``dtype`` and store them.

        The lanes lie at ``coordinates`` and behind on the last axis. What has no vector form (functions of
        libm, most integers, conversions) goes through the scalar epilogue, lane by lane. With ``begun`` the lanes
        are sums that began with `bias`.
        """
        final = self._final(r, value, count, coordinates, dtype, begun)
        if final is None:
            return self._store_lanes(r, value, dtype, count, coordinates)
        y = self.context.y[r]
        if final.zero is not None:
            at = f"&{y.name}[{y.index(*coordinates)}]"
            put = self.of(F32).saturated(at, final.value, final.zero, count, y.dtype)
        else:
            put = self.put(y, final.value, count, *coordinates)
        return "\n".join(["{", *final.lines, put, "}"]) if final.lines else put

    def together(self, r: int, vectors: int) -> int:
        """Rows of so many vectors whose results are stored together: as many as bytes of four vectors come from,
        where a target packs these at once."""
        return {1: 4, 2: 2}.get(vectors, 1) if self._packs(r) else 1

    def _packs(self, r: int) -> bool:
        """Whether vectors of result ``r`` are stored four at a time."""
        y = self.context.y[r]
        return packs(self.target, y.dtype) and _step(y.view) == 1

    def store_rows(
        self,
        r: int,
        rows: Sequence[tuple[Sequence[str], Sequence[str]]],
        widths: Sequence[Width],
        *,
        dtype: DType = F32,
        begun: bool = False,
        weaves: bool = False,
    ) -> str:
        """`store` of several rows: each is vectors of ``widths`` lanes, one behind the other, and the coordinates of
        the first. Bytes of four vectors are packed at once, where a target can. With ``weaves`` the lanes of a row
        are woven, as is what the epilogue reads (`kernels/model/woven`)."""
        numbers = [w for w in widths if isinstance(w, int)]
        if len(numbers) < len(widths):  # one vector, of which it is known at run time only how many lanes
            each = [(value, at) for values, at in rows for value in values]
            return "\n".join(self.store(r, value, widths[0], *at, dtype=dtype, begun=begun) for value, at in each)
        parts = [
            Part(value, count, (*at[:-1], total(at[-1], i * self.lanes)), row, i)
            for row, (values, at) in enumerate(rows)
            for i, (value, count) in enumerate(zip(values, numbers, strict=True))
        ]
        finals = [
            self._final(r, p.value, p.count, p.at, dtype, begun, f"t{i}_" if len(parts) > 1 else "t")
            for i, p in enumerate(parts)
        ]
        y, of, known = self.context.y[r], self.of(F32), _known(parts, finals)
        if weaves:
            self.context.require(self._packs(r) and None not in finals, "bytes that vectors are packed to")
            each_row = [known[i : i + len(widths)] for i in range(0, len(known), len(widths))]
            return "\n".join(woven(y, of, row) for row in each_row)
        if not self._packs(r) or len(parts) < 2 or None in finals:
            return "\n".join(self.store(r, p.value, p.count, *p.at, dtype=dtype, begun=begun) for p in parts)
        return "\n".join(packed(y, of, known[i : i + 4]) for i in range(0, len(known), 4))

    def _final(
        self,
        r: int,
        value: str,
        count: Width,
        coordinates: tuple[str, ...],
        dtype: DType,
        begun: bool,
        prefix: str = "t",
    ) -> Final | None:
        """What is stored of lanes behind the epilogue of result ``r``; None if that has no vector form."""
        y = self.context.y[r]
        body = dict(self.context.call.post).get(r)
        whole = self._begun() if begun else None
        if whole is not None:
            body = whole[1]
        final = dtype if body is None else body.dtype
        fits = is_lane(final) and final == y.dtype.compute
        if not fits or (body is not None and not self._vectorizable(body)):
            return None
        if body is None:
            return Final((), value)
        leaf, bound = self._leaf(value, count, coordinates), self._bound(dtype)
        emitter = VectorEmitter(self.lanes, leaf, self.context.uses, prefix, bound=bound, same=self._one_extra)
        last = self._last_rounding(y, vector_form(body), bound)
        result = emitter.emit(vector_form(body) if last is None else last[0])
        before = [] if ex.ACC in ex.variables(body) else [unread(value)]
        return Final((*before, *emitter.lines), result, None if last is None else last[1])

    def _stays(self, body: ex.Expr) -> bool:
        """Whether an epilogue of result 0 is computed in vectors."""
        known = is_lane(body.dtype) and body.dtype == self.context.y[0].dtype.compute
        return known and self._vectorizable(body)

    @staticmethod
    def _last_rounding(
        y: BoundView, body: ex.Expr, bound: Callable[[int], float]
    ) -> tuple[ex.Expr, int] | None:
        """The float, and the zero, if the last that is done is to round numbers to neighbours in memory."""
        found = rounding(body) if isinstance(body, ex.Convert) and _step(y.view) == 1 else None
        return found if found is not None and magnitude(found[0], bound) < LIMIT else None

    def put(self, y: BoundView, value: str, count: Width, *coordinates: str) -> str:
        """Statements that store lanes of their final value.

        Over an operand, rows that are about to be read begin behind a row's last lanes.
        """
        if _step(y.view) != 1:
            return self._scatter(y, value, count, coordinates)
        pieces = bool(self.context.plain) and Capability.MASKED_STORES in self.target.capabilities
        return self.of(y.dtype).store(f"&{y.element(*coordinates)}", value, count, y.dtype, pieces)

    def rows_of_lines(self, *coordinates: str) -> list[tuple[str, str]]:
        """The elements there of results, and of extras of the same row, whose rows are floats one behind the other,
        and how far apart these are; rows are what the last coordinate but one tells apart."""
        each = (*self.context.y, *self.context.e)
        rows = [v for v in each if v.dtype == F32 and _step(v.view) == 1 and v.varies(v.rank - 2)]
        return [(v.element(*coordinates), v.step(v.rank - 2)) for v in rows if v.is_stored_as_one(v.rank - 2)]

    def keep(self, value: str, count: Width, *coordinates: str) -> str:
        """The statement that stores lanes in result 0 without its epilogue."""
        return self.put(self.context.y[0], value, count, *coordinates)

    @staticmethod
    def reduction(mode: str) -> tuple[str, str, str]:
        """Of sum, prod, max or min: C over two vectors ``{} {}``, the function over all lanes, where it begins."""
        return {
            "sum": ("{} + {}", "mcc_vsum", "mcc_vset(0.0f)"),
            "prod": ("{} * {}", "mcc_vprod", "mcc_vset(1.0f)"),
            "max": ("mcc_vmax({}, {})", "mcc_vtop", "mcc_vset(-INFINITY)"),
            "min": ("mcc_vmin({}, {})", "mcc_vleast", "mcc_vset(INFINITY)"),
        }[mode]

    def load(self, i: int, count: Width, *coordinates: str) -> Code:
        """``count`` lanes of operand ``i`` with its prologue applied, as C that may stand next to any operator."""
        x = self.context.x[i]
        assert x is not None
        lanes = self.lanes_of(x, count, *coordinates)
        body = dict(self.context.call.pre).get(i)
        if body is None:
            return lanes
        emitter = VectorEmitter(self.lanes, self._leaf(lanes, count, coordinates), self.context.uses, locals_=False)
        read = emitter.emit(vector_form(body))
        return wrapped(read) if ex.ACC in ex.variables(body) else instead(lanes, read)

    def read_operand(self, i: int, pointer: str, count: Width) -> Code:
        """``count`` lanes of operand ``i`` from ``pointer`` on, with its prologue, which reads nothing else."""
        x, body = self.context.x[i], dict(self.context.call.pre).get(i)
        assert x is not None
        lanes = self.of(x.dtype).load(pointer, count, 1, x.dtype)
        if body is None:
            return lanes
        emitter = VectorEmitter(self.lanes, lambda _: wrapped(lanes), self.context.uses, locals_=False)
        return wrapped(emitter.emit(vector_form(body)))

    def define(self, name: str, i: int, count: Width, *coordinates: str) -> str:
        """Statements that declare ``name`` as `load`."""
        x = self.context.x[i]
        assert x is not None
        body = dict(self.context.call.pre).get(i)
        lanes = self.lanes_of(x, count, *coordinates)
        if body is None:
            return f"const {self.of(x.dtype).c} {name} = {lanes};"
        return self._declared(name, vector_form(body), lanes, ex.ACC, self._leaf(lanes, count, coordinates))

    def held(self, body: ex.Expr) -> list[int]:
        """The operands of a map's ``body`` that are one element for all lanes, where bytes are stored.

        A store of bytes may change anything, to a compiler that has forgotten `restrict`, as gcc 12 does where it
        inlines for Arm: it would read such an element again, and divide by it, for each vector.
        """
        if self.context.y[0].dtype.nbytes > 1:
            return []
        return [i for i in sorted(ex.variables(body)) if self._one_operand(i) and self._is_plain(i)]

    def _is_plain(self, i: int) -> bool:
        """Whether an operand's elements are what C computes with."""
        x = self.context.x[i]
        return x is not None and x.dtype in (F32, I32, I8, U8)

    def apply(self, body: ex.Expr, count: Width, *coordinates: str) -> str:
        """Statements of a block that store ``body`` over ``count`` lanes of the operands (the kernel of `map`); those
        that are `held` have names."""
        held = self.held(body)

        def leaf(i: int) -> str:
            x = self.context.x[i]
            return self.of(x.dtype).set(f"x{i}_0") if x and i in held else self.load(i, count, *coordinates)

        emitter = VectorEmitter(self.lanes, leaf, self.context.uses, "u", same=self._one_operand)
        form = vector_form(body)
        result = emitter.emit(form)
        if self.context.call.post:
            emitter.lines.append(f"const {emitter.ctype(form.dtype)} value = {result};")
            result = code("value")
        return "\n".join([*emitter.lines, self.store(0, result, count, *coordinates, dtype=form.dtype)])

    def define_over(self, name: str, body: ex.Expr, first: str, count: Width, *coordinates: str) -> str:
        """Statements that declare ``name`` as ``body``: x0 stands for ``first``, others for lanes of the operands."""

        def leaf(i: int) -> str:
            return wrapped(first) if i == 0 else self.load(i, count, *coordinates)

        return self._declared(name, vector_form(body), first, 0, leaf)

    def lanes_of(self, e: BoundView, count: Width, *coordinates: str) -> Code:
        """``count`` lanes of a view as they are stored."""
        step, vector = _step(e.view), self.of(e.dtype)
        assert step is not None
        if step == 0:
            return vector.set(e.load(*coordinates))
        return vector.load(f"&{e.element(*coordinates)}", count, step, e.dtype)

    def _declared(self, name: str, body: ex.Expr, value: str, variable: int, leaf: Callable[[int], str]) -> str:
        """Statements that declare ``name`` as ``body``, in which ``variable`` stands for ``value``."""
        emitter = VectorEmitter(self.lanes, leaf, self.context.uses, prefix=f"{name}_")
        result = emitter.emit(body)
        before = [] if variable in ex.variables(body) else [unread(value)]
        return "\n".join([*before, *emitter.lines, f"const {emitter.ctype(body.dtype)} {name} = {result};"])

    def _scatter(self, y: BoundView, value: str, count: Width, coordinates: tuple[str, ...]) -> str:
        """Statements that store lanes of their final value far apart."""
        place = y.element(*coordinates[:-1], total(coordinates[-1], "lane"))
        return self._one_by_one(y.dtype, value, count, f"{place} = lanes[lane];")

    def _store_lanes(self, r: int, value: str, dtype: DType, count: Width, coordinates: tuple[str, ...]) -> str:
        at = (*coordinates[:-1], total(coordinates[-1], "lane"))
        return self._one_by_one(dtype, value, count, self.context.store(r, closed("lanes[lane]"), *at))

    def _one_by_one(self, memory: DType, value: str, count: Width, statement: str) -> str:
        """Statements that store lanes in an array, and then do something with each of ``lanes[lane]``."""
        lines = [
            "{",
            f"{memory.c} lanes[{self.lanes}];",
            self.of(memory).store("lanes", value, self.lanes, memory),
            f"for (int32_t lane = 0; lane < {count}; ++lane) {{",
            statement,
            "}",
            "}",
        ]
        return "\n".join(lines)

    def _leaf(self, value: str, count: Width, coordinates: tuple[str, ...]) -> Callable[[int], str]:
        def read(i: int) -> str:
            return wrapped(value) if i == ex.ACC else self.lanes_of(self.context.e[i], count, *coordinates)

        return read

    def _one_extra(self, i: int) -> bool:
        """Whether an extra is the same in all lanes."""
        return i != ex.ACC and _step(self.context.e[i].view) == 0

    def _one_operand(self, i: int) -> bool:
        """Whether an operand is the same in all lanes, whatever its prologue reads."""
        x = self.context.x[i]
        return x is not None and _step(x.view) == 0 and i not in dict(self.context.call.pre)

    def _bound(self, dtype: DType) -> Callable[[int], float]:
        """How large what an epilogue reads may be, where it is applied to lanes of a type."""
        return lambda i: of_type(dtype) if i == ex.ACC else of_view(self.context.e[i].view)

    def _vectorizable(self, e: ex.Expr) -> bool:
        extras = [self.context.e[i].view for i in ex.variables(e) if i != ex.ACC]
        return not no_vectors(e) and all(self._readable(v) for v in extras)

    @staticmethod
    def _readable(view: View) -> bool:
        step = _step(view)
        return step is not None and is_lane(view.dtype.compute) and (is_direct(view.dtype) or step in (0, 1))


def _known(parts: Sequence[Part], finals: Sequence[Final | None]) -> list[tuple[Part, Final]]:
    return [(p, f) for p, f in zip(parts, finals, strict=True) if f is not None]


def _step(view: View) -> int | None:
    """How far apart neighbours on the last axis lie; None if that is divided."""
    steps = [s for f, s in zip(view.factors, view.strides, strict=True) if f.axis == view.rank - 1]
    if len(steps) != 1:
        return None
    return 1 if view.shape[-1] == 1 else steps[0]
