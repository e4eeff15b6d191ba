"""Parses kernel and program IR (grammar in `kernel` and `program`); the inverse of `kernel_text`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from mccompile.ir import expr as ex
from mccompile.ir.dims import symbols, varies
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.graph_text import OpLookup, content_name, digest, parse_fields, parse_type
from mccompile.ir.kernel import Block, Call, Condition, Fill, KernelModule, Logical, verify_step
from mccompile.ir.limits import exceeds
from mccompile.ir.op import Op
from mccompile.ir.parts import Parts
from mccompile.ir.program import PlanFacts, Program, Region
from mccompile.ir.scalar import Array
from mccompile.ir.scan import MALFORMED, Scanner, literal, reason
from mccompile.ir.turns import Loop
from mccompile.ir.types import DTYPES, DType, parse_layout, row_major
from mccompile.ir.views import MAX_ALIGN, Buffer, Halo, View, verify_view, whole

ParamsLookup = Callable[[str], type | None]
"""The dataclass of a kernel's parameters by the kernel's name; None if it has none. KeyError: no such kernel."""

T = TypeVar("T")

_NUMBER = r"-?(?:inf|nan|\d+(?:\.\d*)?(?:e[+-]?\d+)?)(?![\w.])"
_SPACES = ("arena", "blob", "caller")
_ROLES = ("", "input", "output", "scratch", "count")


class _Parser:
    def __init__(
        self, source: str, ops: OpLookup, params: ParamsLookup, data: Mapping[str, Array], path: str
    ) -> None:
        self.s = Scanner(source, path)
        self.ops = ops
        self.params = params
        self.data = data
        self.module = KernelModule("", "")
        self.buffers: dict[str, Buffer] = {}
        self.offsets: dict[Buffer, int] = {}
        self.lines: dict[Buffer, int] = {}
        self.written: set[Buffer] = set()
        self.regions: tuple[Region, ...] = ()
        self.loops: dict[Buffer, Loop] = {}

    def located(self, parse: Callable[[], T]) -> T:
        """What ``parse`` gives; what it raises becomes an error on the line where it began."""
        self.s.skip()
        start = self.s.at
        try:
            return parse()
        except MALFORMED as e:
            raise self.error_at(start, reason(e)) from e

    def error_at(self, position: int, rule: str) -> CompileError:
        self.s.at = position
        return self.s.error(rule)

    # -- heads -------------------------------------------------------------------------------------------
    def head(self, keyword: str) -> None:
        self.s.expect(keyword)
        self.s.expect("@")
        self.module.name = self.s.name()
        self.s.declared_extents()
        self.s.expect("target=")
        self.module.target = self.s.pattern(r"[\w.-]+", "a target")

    def number(self, key: str) -> int:
        self.s.expect(f"{key}=")
        return int(self.s.pattern(r"\d+", "a number of bytes"))

    def memories(self) -> tuple[Region, ...]:
        """The regions of an arena that has several memories."""
        found: dict[str, Region] = {}
        if self.s.accept("regions"):
            self.s.expect("(")
            while not self.s.accept(")"):
                if found:
                    self.s.expect(",")
                name = self.s.pattern(r"[a-z]\w*", "a region")
                self.s.expect("=")
                used = int(self.s.pattern(r"\d+", "a number of bytes"))
                self.s.expect("/")
                limit = int(self.s.pattern(r"\d+", "a number of bytes"))
                if name in found:
                    raise self.s.error(f"region {name} is given twice")
                found[name] = Region(name, used, limit)
        return tuple(found.values())

    def facts(self, arena_bytes: int) -> PlanFacts:
        if not self.peek("peak="):
            return PlanFacts(arena_bytes, arena_bytes, arena_bytes, "given")
        peak, bound, naive = (self.number(key) for key in ("peak", "bound", "naive"))
        self.s.expect("algorithm=")
        algorithm = self.s.name()
        pairs: list[tuple[str, str]] = []
        if self.s.accept("inplace"):
            self.s.expect("(")
            while not self.s.accept(")"):
                if pairs:
                    self.s.expect(",")
                result = self.s.name()
                self.s.expect("over")
                pairs.append((result, self.s.name()))
        return PlanFacts(peak, bound, naive, algorithm, tuple(pairs))

    def body(self, placed: bool) -> None:
        self.s.expect("{")
        while self.s.accept("buffer"):
            self.located(lambda: self.buffer(placed))
        self.written = {b for b in self.module.buffers if b.space == "blob" or b.role == "input"}
        while self.s.accept("loop"):
            self.located(self.loop)
        self.module.body = self.block()
        end = self.s.at
        self.s.skip()
        if self.s.at < len(self.s.source):
            raise self.s.error("text after the closing brace")
        try:
            self.module.verify()
        except InternalError as e:
            raise self.error_at(end, str(e)) from e

    # -- buffers -----------------------------------------------------------------------------------------
    def buffer(self, placed: bool) -> None:
        line = self.s.at
        name = self.s.name()
        if name in self.buffers:
            raise ValueError(f"buffer {name} is declared twice")
        self.s.expect(":")
        type_ = parse_type(self.s)
        space = self.one_of("a space", _SPACES)
        region = self.region() if placed and space == "arena" else ""
        offset = 0
        if placed:
            self.s.expect("@")
            offset = self.s.integer()
        self.s.expect("align=")
        align = self.s.integer()
        if align < 1 or align & (align - 1) or align > MAX_ALIGN:
            raise ValueError(f"an alignment of {align}, which is no power of two up to {MAX_ALIGN}")
        buffer = Buffer(name, type_, space, align, region=region)
        if self.s.accept("room="):
            buffer.room = self.s.numbers(self.s.balanced("("))
            if len(buffer.room) != type_.rank or type_.layout is not None or varies(buffer.room):
                raise ValueError(f"{name} has no such room")
        if self.s.accept("halo="):
            buffer.halo = self.halo(len(type_.factors))
            self.s.expect("fill=")
            buffer.fill = literal(self.s.pattern(_NUMBER, "a number"))
        if exceeds("tensor-elements", buffer.elements):
            raise ValueError(f"{name} would have {buffer.elements:,} elements")
        if self.s.accept("role="):
            buffer.role = self.one_of("a role", _ROLES)
        if self.s.accept("counts="):
            self.counted(buffer)
            while self.adjacent(",") and self.s.accept(","):
                self.counted(buffer)
        if self.s.accept("state="):
            given = self.s.name()
            if given not in self.buffers:
                raise ValueError(f"{given} is not declared")
            self.module.state[buffer] = self.buffers[given]
        if self.s.accept("sha256="):
            buffer.data = self.elements(buffer, self.s.pattern(r"[0-9a-f]+", "a digest"))
        if (buffer.role or buffer.halo) and space == "blob":
            raise ValueError(f"buffer {name} of the blob has a role or a halo")
        if space == "caller" and (buffer.role not in ("input", "output") or buffer.halo):
            raise ValueError(f"buffer {name} of the caller is no input and no output, or has a halo")
        self.buffers[name] = buffer
        self.offsets[buffer] = offset
        self.lines[buffer] = line
        self.module.buffers.append(buffer)

    def counted(self, buffer: Buffer) -> None:
        name = self.s.name()
        if name not in self.s.extents or name in self.module.counts:
            raise ValueError(f"{name} is not declared as an extent, or is counted twice")
        self.module.counts[name] = buffer

    def loop(self) -> None:
        """A loop, by the buffer that holds its turn."""
        turn = self.named()
        self.s.expect("trips=")
        trips = self.s.number(self.s.pattern(r"[^\s{}]+", "a number of turns"))
        limited = self.s.accept("limited")
        count, going = (self.named() if self.s.accept(f"{key}=") else None for key in ("count", "going"))
        if turn in self.loops:
            raise ValueError(f"{turn.name} is the turn of two loops")
        counts = tuple(self.module.counts[s.name] for s in symbols(trips) if s.name in self.module.counts)
        self.loops[turn] = Loop(turn, trips, count, going, limited, counts, self.conditions())
        self.written.add(turn)

    def region(self) -> str:
        """The region behind a space; there is one exactly if the program has several."""
        known = [r.name for r in self.regions]
        name = self.s.pattern(r"\w+", "a region") if self.adjacent(".") and self.s.accept(".") else ""
        if name not in (known or [""]):
            raise ValueError(f"{name!r} is no region of the program: {', '.join(known) or 'it has but one arena'}")
        return name

    def one_of(self, what: str, words: tuple[str, ...]) -> str:
        word = self.s.pattern(r"\w+", what)
        if word not in words:
            raise ValueError(f"{word!r} is not {what}: {', '.join(w for w in words if w)}")
        return word

    def halo(self, axes: int) -> Halo:
        pairs = [p.split(":") for p in self.s.balanced("(").split(",")]
        halo = tuple((int(lo), int(hi)) for lo, hi in pairs)
        if len(halo) != axes or any(n < 0 for pair in halo for n in pair):
            raise ValueError(f"a halo of {len(halo)} pairs for {axes} stored axes")
        return halo

    def elements(self, buffer: Buffer, sha: str) -> Array | None:
        known = self.data.get(buffer.name)
        if known is None:
            return None
        if digest(known) != sha:
            raise ValueError(f"the array given for {buffer.name} has digest {digest(known)}, not {sha}")
        if known.dtype != buffer.type.dtype.numpy or known.shape != buffer.type.shape:
            raise ValueError(f"the array given for {buffer.name} is {known.dtype}{list(known.shape)}")
        return known

    # -- steps -------------------------------------------------------------------------------------------
    def block(self) -> Block:
        steps: list[Call | Fill | Block] = []
        while not self.s.accept("}"):
            if self.s.accept("{"):
                steps.append(self.block())
            else:
                steps.append(self.located(self.step))
        return Block(tuple(steps))

    def step(self) -> Call | Fill:
        step: Call | Fill
        if self.s.accept("fill"):
            view = self.view()
            value = literal(self.s.pattern(_NUMBER, "a number"))
            step = Fill(view, value, self.conditions(), self.around()).with_counts(self.module.counts)
        else:
            self.s.expect("call")
            step = self.call()
        verify_step(step, self.written)
        return step

    def call(self) -> Call:
        kernel = self.s.pattern(r"\w+\.\w+", "a kernel")
        op_name = self.s.name()
        attributes = self.braces()
        params = self.s.balanced("{") if self.s.accept("params") else None
        reads = tuple(self.operands())
        extras = tuple(self.required(v) for v in self.operands()) if self.s.accept("with") else ()
        pre = self.bodies("pre", extras, lambda i: self.required(reads[i]).dtype if i < len(reads) else None)
        types = dict(pre)
        post = self.bodies("post", extras, None)
        self.s.expect("->")
        results = [self.view()]
        while self.s.accept(","):
            results.append(self.view())
        scratch = self.named() if self.s.accept("scratch") else None
        inplace = tuple(int(i) for i in self.items("inplace"))
        near = self.near(len(reads) + len(extras))
        args = tuple(self.items("args"))
        parts = self.parts()
        logical = self.logical() if self.s.accept("means") else None
        when, loops = self.conditions(), self.around()
        if any(not 0 <= i < len(reads) + len(extras) for i in inplace):
            raise ValueError(f"inplace{inplace} of {len(reads) + len(extras)} inputs")

        shapes = [() if v is None else v.shape for v in reads]

        def variable(index: int) -> DType:
            i = self.ops(op_name).operand_of(index, shapes)
            if i >= len(reads):
                raise ValueError(f"x{i} is read, but there are {len(reads)} operands")
            return types[i].dtype if i in types else self.required(reads[i]).dtype

        return Call(
            kernel, self.op(op_name, attributes, variable), self.parameters(kernel, params), reads, tuple(results),
            extras, pre, post, scratch, inplace, args, self.s.origins(), near, logical,
            when=when, loops=loops, parts=parts,
        ).with_counts(self.module.counts)  # fmt: skip

    def conditions(self) -> tuple[Condition, ...]:
        found: list[Condition] = []
        if self.s.accept("when"):
            self.s.expect("(")
            while not self.s.accept(")"):
                if found:
                    self.s.expect(",")
                wanted = not self.s.accept("!")
                found.append((self.named(), wanted))
        return tuple(found)

    def around(self) -> tuple[Loop, ...]:
        """The loops that a step is in."""
        found: list[Loop] = []
        if self.s.accept("in("):
            while not self.s.accept(")"):
                if found:
                    self.s.expect(",")
                turn = self.named()
                if turn not in self.loops:
                    raise ValueError(f"{turn.name} is the turn of no loop")
                found.append(self.loops[turn])
        return tuple(found)

    def logical(self) -> Logical:
        """What the views of a call are to its operator; they must fit their buffers as those of the call."""
        if self.peek('"'):
            return Logical(missing=self.s.name())
        op = None
        if not self.peek("("):
            name = self.s.name()
            op = self.op(name, self.braces(), _no_variable)
        reads = tuple(self.operands())
        extras = tuple(self.required(v) for v in self.operands()) if self.s.accept("with") else ()
        self.s.expect("->")
        results = [self.view()]
        while self.s.accept(","):
            results.append(self.view())
        for v in (*reads, *extras, *results):
            if v is not None:
                verify_view(v)
        return Logical(reads, tuple(results), extras, op)

    def record(self) -> Buffer:
        """A constant that only a meaning names, by its digest."""
        self.s.expect("#")
        type_ = parse_type(self.s)
        sha = self.s.pattern(r"[0-9a-f]+", "a digest")
        known = Buffer(content_name(type_, sha), type_, "record", 1)
        return replace(known, name=sha, data=self.elements(known, sha))

    def near(self, inputs: int) -> tuple[tuple[int, int], ...]:
        if not self.s.accept("near"):
            return ()
        offers = []
        for text in self.s.balanced("(").split(","):
            i, distance = (int(n) for n in text.split(":"))
            if not 0 <= i < inputs or distance < 0:
                raise ValueError(f"near({i}:{distance}) of {inputs} inputs")
            offers.append((i, distance))
        return tuple(offers)

    def parts(self) -> Parts | None:
        if not self.s.accept("parts"):
            return None
        loop, _, cuts = self.s.balanced("(").partition(":")
        cuts, _, rounds = cuts.partition(" rounds ")
        return Parts(loop, tuple(int(n) for n in cuts.split(",")), int(rounds or 1))

    def op(self, name: str, attributes: str, variable: Callable[[int], DType]) -> Op:
        cls = self.ops(name)
        return cls(**parse_fields(cls, name, attributes, variable, self.s.extents))

    def parameters(self, kernel: str, source: str | None) -> Any:
        cls = self.params(kernel)
        if source is None:
            return None
        if cls is None:
            raise ValueError(f"kernel {kernel} has no parameters")
        return cls(**parse_fields(cls, kernel, source, _no_variable, self.s.extents))

    def bodies(
        self, keyword: str, extras: tuple[View, ...], own: Callable[[int], DType | None] | None
    ) -> tuple[tuple[int, ex.Expr], ...]:
        """Prologues (``own`` types ``acc``) or epilogues (the text does), by operand or result."""
        found: list[tuple[int, ex.Expr]] = []
        while self.s.accept(keyword):
            i = self.s.integer()
            acc: DType | None = None
            if own is not None:
                acc = own(i)
            elif self.s.accept(":"):
                acc = DTYPES[self.s.pattern(r"\w+", "an element type")]
            found.append((i, self.body_of(acc, extras)))
        return tuple(found)

    def body_of(self, acc: DType | None, extras: tuple[View, ...]) -> ex.Expr:
        def variable(i: int) -> DType:
            if i == ex.ACC:
                if acc is None:
                    raise ValueError("the type of acc is not given")
                return acc
            if i >= len(extras):
                raise ValueError(f"x{i} is read, but there are {len(extras)} extra operands")
            return extras[i].dtype

        return ex.parse(self.s.balanced("{"), variable)

    # -- views and lists ---------------------------------------------------------------------------------
    def named(self) -> Buffer:
        name = self.s.name()
        if name not in self.buffers:
            raise ValueError(f"buffer {name} is not declared")
        return self.buffers[name]

    def view(self) -> View:
        buffer = self.record() if self.peek("#") else self.named()
        offset = self.offset() if self.adjacent("+") else 0
        if not self.adjacent("["):
            if offset:
                raise ValueError(f"a view of {buffer.name} with an offset but no extents")
            return whole(buffer)
        shape = self.s.numbers(self.s.balanced("["))
        strides = self.s.numbers(self.s.balanced("{"))
        factors = row_major(len(shape))
        if self.adjacent(":"):
            self.s.expect(":")
            factors = parse_layout(self.s.pattern(r"\([^)\n]*\)|\w+", "a layout"))
        return View(buffer, shape, factors, strides, offset)

    def offset(self) -> int:
        """What follows the name of a buffer: ``+3``, or ``+(2*n)``."""
        if not self.adjacent("+("):
            return int(self.s.pattern(r"\+\d+", "an offset"))
        self.s.expect("+")
        return self.s.number(self.s.balanced("("))

    def operands(self) -> list[View | None]:
        views: list[View | None] = []
        self.s.expect("(")
        while not self.s.accept(")"):
            if views:
                self.s.expect(",")
            views.append(self.operand())
        return views

    def operand(self) -> View | None:
        self.s.skip()
        at = self.s.at
        absent = self.s.source.startswith("_", at) and self.s.source[at + 1 : at + 2] in (",", ")", " ")
        if absent:
            self.s.at += 1
            return None
        return self.view()

    @staticmethod
    def required(view: View | None) -> View:
        if view is None:
            raise ValueError("an absent operand is read")
        return view

    def items(self, keyword: str) -> list[str]:
        if not self.s.accept(keyword):
            return []
        return [i.strip() for i in self.s.balanced("(").split(",") if i.strip()]

    def braces(self) -> str:
        return self.s.balanced("{") if self.peek("{") else ""

    def peek(self, text: str) -> bool:
        self.s.skip()
        return self.adjacent(text)

    def adjacent(self, text: str) -> bool:
        return self.s.source.startswith(text, self.s.at)


def _no_variable(index: int) -> DType:
    raise ValueError("the parameters of a kernel have no operands")


def parse_module(
    source: str,
    ops: OpLookup,
    params: ParamsLookup,
    data: Mapping[str, Array] | None = None,
    path: str = "<text>",
) -> KernelModule:
    """Parse kernel IR. ``data`` holds the elements of the blob's buffers (None where they are not needed).

    Raises CompileError with the line where the text or the module is wrong.
    """
    parser = _Parser(source, ops, params, data or {}, path)
    parser.head("kernels")
    parser.body(placed=False)
    return parser.module


def parse_program(
    source: str,
    ops: OpLookup,
    params: ParamsLookup,
    data: Mapping[str, Array] | None = None,
    path: str = "<text>",
) -> Program:
    """Parse program IR; see `parse_module`. That live buffers do not overlap is for `plan.check` to prove."""
    parser = _Parser(source, ops, params, data or {}, path)
    parser.head("program")
    arena, blob = parser.number("arena"), parser.number("blob")
    parser.regions = parser.memories()
    facts = parser.facts(arena)
    parser.body(placed=True)
    program = Program(parser.module, parser.offsets, arena, blob, facts, parser.regions)
    for b in parser.module.buffers:
        try:
            program.verify_place(b)
        except InternalError as e:
            raise parser.error_at(parser.lines[b], str(e)) from e
    return program
