"""Program IR as the facts the file templates print: members, steps, ports, sizes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat

import numpy as np

from mccompile._dataclass import dataclass
from mccompile._version import __version__
from mccompile.codegen.blob import BlobTensor, blob_id, write_blob
from mccompile.codegen.code import wrapped
from mccompile.codegen.comments import type_text
from mccompile.codegen.extents import c_number, given_extents
from mccompile.codegen.facts import (
    Arena,
    KernelText,
    Member,
    ModelFacts,
    Needs,
    Repeat,
    Series,
    Shared,
    Step,
    Trusted,
    Written,
)
from mccompile.codegen.helpers import preamble
from mccompile.codegen.kernels import Invocation, KernelPool, render_kernels
from mccompile.codegen.long_sums import LongSums
from mccompile.codegen.names import OF_LONG, USUAL, comment, label, unique_identifiers
from mccompile.codegen.ports import Port, ports
from mccompile.codegen.series import Place, PlainCall, number_given, size_given, with_series
from mccompile.codegen.sharing import LETTERS_OF_STEP, MOST_LETTERS
from mccompile.interface.tensors import MODELS_OWN, Interface
from mccompile.ir.dims import Dim, maximum, may_be_none, minimum
from mccompile.ir.kernel import Call, Condition, Fill
from mccompile.ir.kernel_text import print_program
from mccompile.ir.parts import Parts
from mccompile.ir.program import Program
from mccompile.ir.turns import Numbered, Turns, nested
from mccompile.ir.views import Buffer, View
from mccompile.plugins import Function, functions, made_with
from mccompile.targets.target import Target

ABI_VERSION = 3
MAX_ORIGINS = 4
"""So many ONNX nodes of a step are named."""
WEIGHTS_MULTIPLE = 8
"""The payload's size is a multiple of this: sizeof of the weights struct on every ABI."""


def _origins(names: tuple[str, ...], room: int) -> str:
    """The ONNX nodes of a step: a few of them by their labels, of the others how many there are."""
    shown = " + ".join(label(name, room) for name in names[:MAX_ORIGINS])
    return shown + (f" and {len(names) - MAX_ORIGINS} more" if len(names) > MAX_ORIGINS else "")


def _arenas(program: Program, ids: dict[str, str]) -> list[Arena]:
    """One arena, or one for each memory the program uses."""
    name, upper = program.name, program.name.upper()
    if not program.regions:
        members = _arena_members(program, ids, program.arena())
        macro, check = f"{upper}_ARENA_BYTES", f"{name}_arena_size"
        return [Arena(f"{name}_arena", "arena", "a", macro, check, program.arena_bytes, "", members)]
    arenas = []
    for r in program.regions:
        members = _arena_members(program, ids, [b for b in program.arena() if b.region == r.name])
        macro, check = f"{upper}_ARENA_{r.name.upper()}_BYTES", f"{name}_size_of_arena_{r.name}"
        kind, local = f"{name}_arena_{r.name}", f"a_{r.name}"
        memory = f"{r.name}, of {r.limit} bytes"
        arenas.append(Arena(kind, f"arena_{r.name}", local, macro, check, r.nbytes, memory, members, r.name))
    return arenas


def _arena_members(program: Program, ids: dict[str, str], buffers: list[Buffer]) -> list[Member]:
    lives = program.lives()
    members = []
    for b in buffers:
        if b in program.module.state:
            continue  # it is the member of the input that it is next
        at, (first, last) = program.offsets[b], lives[b]
        role = "state" if b in program.module.held else b.role
        about = label(b.name) + (f", {role}" if role else "")
        about += ", with halo" if b.halo else ""
        about += f" {type_text(b.type)}"
        members.append(Member(ids[b.name], b.type.dtype.c, b.elements, at, at + b.nbytes, about, first, last))
    return members


def _weight_members(program: Program, ids: dict[str, str]) -> tuple[list[Member], int]:
    members, at = [], 0
    for b in program.blob():
        offset = program.offsets[b]
        about = f"{label(b.name)} {b.type}"
        members.append(
            Member(ids[b.name], b.type.dtype.c, b.elements, offset, offset + b.nbytes, about, pad=offset - at)
        )
        at = offset + b.nbytes
    total = max(-(-at // WEIGHTS_MULTIPLE) * WEIGHTS_MULTIPLE, WEIGHTS_MULTIPLE)
    return members, total


def _places(program: Program, ids: dict[str, str], ports: Iterable[Port]) -> dict[Buffer, str]:
    """Every buffer as ``run`` names it: an array, or the address of the caller's."""
    lent = {p.name: p.address for p in ports if p.of_caller}
    return {b: lent[b.name] if b.space == "caller" else _member(b, ids) for b in program.module.buffers}


def _member(b: Buffer, ids: dict[str, str]) -> str:
    """The array of a buffer, as ``run`` names it."""
    if b.space == "blob":
        return f"w->{ids[b.name]}"
    return f"a{'_' if b.region else ''}{b.region}->{ids[b.name]}.v"


def _apart(b: Buffer, ids: dict[str, str]) -> str:
    """The number in a buffer of one, as functions beside ``run`` name it."""
    return f"net->arena{'_' if b.region else ''}{b.region}->{ids[b.name]}.v[0]"


def _written(b: Buffer, places: dict[Buffer, str]) -> Written:
    return Written(places[b], b.nbytes if b.space == "caller" else 0)


def _place(view: View) -> int:
    """Where a view begins in its buffer. One that has no element in some run begins within it all the same: of x[n]
    read backwards to y[n - 3], y begins at n - 4, and where n is 3 that is no address of C."""
    if not may_be_none(view.shape):
        return view.offset
    return minimum(maximum(view.offset, 0), view.buffer.elements)


Number = Callable[[int], str]
"""An extent, or what is computed of extents, as C."""


def _pointer(view: View, places: dict[Buffer, str], number: Number) -> str:
    at = number(_place(view))
    return places[view.buffer] + (f" + {wrapped(at)}" if at != "0" else "")  # whole: no part of it is an address


def _step(
    number: int, name: str, call: Invocation, places: dict[Buffer, str], held: Mapping[str, str],
    sums: LongSums | None, room: int,
) -> Step:  # fmt: skip
    """``sums`` are those that ``run`` keeps, for a step whose extents are known where it begins; names of nodes have
    so much ``room``."""
    step = call.step
    if isinstance(step, Call):
        about = _origins(step.origins, room) or step.op.name
    else:
        about = f"fill {label(step.view.buffer.name)}"
    traced = tuple(dict.fromkeys(_written(v.buffer, places) for v in _results(step)))
    text = _call_text(call, places, partial(c_number, places=held) if sums is None else sums.number)
    if parts := _parts(call):
        text, about = f"mcc_pool_run(net->pool, {name}_step{number}, net, {parts.count}u)", f"{about}, in parts"
        text = f"{name}_step{number}_rounds(net)" if parts.rounds > 1 else text
    checked = call.kernel is not None and call.kernel.head.answers_status
    about += "" if call.kernel else ": lies there already"
    return Step(number, text, about, checked, traced, _tests(step.when, places), () if sums is None else sums.taken())


def _keeping(calls: Sequence[Invocation], sums: LongSums) -> Iterator[LongSums | None]:
    """Of each step, the sums if it may keep some: every run makes it once, behind all that counts its extents."""
    last = {b: t for t, call in enumerate(calls) for b in call.step.written()}
    for t, call in enumerate(calls):
        always = not call.step.loops and not call.step.when and _parts(call) is None
        yield sums if always and all(last.get(b, t) < t for b in call.step.counts) else None


def _parts(call: Invocation) -> Parts | None:
    return call.step.parts if call.kernel is not None and isinstance(call.step, Call) else None


def _call_text(call: Invocation, places: dict[Buffer, str], number: Number) -> str:
    """The call of a kernel; of one in parts, in a function that knows which: each has a piece of scratch memory. What
    lies there already is named, so that the arena is: where hooks are empty, nothing else may name it."""
    if call.kernel is None:
        return f"(void){places[_results(call.step)[0].buffer]}"
    pointers = [_pointer(v, places, number) for v in call.pointers]
    parts = _parts(call)
    if parts is not None and parts.rounds == 1 and isinstance(call.step, Call) and call.step.scratch is not None:
        pointers[-1] += f" + first * {call.step.scratch.type.shape[1]}u"
    numbers = [n if isinstance(n, str) else number(n) for n in call.numbers]
    return f"{call.kernel.name}({', '.join([*pointers, *numbers])})"


def _plain(
    call: Invocation, step: Step, places: dict[Buffer, str], held: Mapping[str, str], counts: Mapping[str, Buffer]
) -> PlainCall | None:
    """The call of a step as a loop could make it, which looks up what it is given; None for one that is more than a
    call. ``counts`` are the buffers of numbers, by what they are in C."""
    if call.kernel is None or call.step.loops or step.when or step.before or _parts(call):
        return None
    if any(isinstance(_place(v), Dim) for v in call.pointers):
        return None
    arguments = [_looked_up(v.buffer, _place(v), places) for v in call.pointers]
    for n in call.numbers:
        if not isinstance(n, str | Dim):
            arguments.append(number_given(n))
            continue
        c = n if isinstance(n, str) else c_number(n, held)
        arguments.append(_looked_up(counts[c], 0, places, read=True) if c in counts else Place(c))
    written = dict.fromkeys(v.buffer for v in _results(call.step))
    traced = tuple((_looked_up(b, 0, places), size_given(b.nbytes)) for b in written)
    return PlainCall(call.kernel.name, tuple(arguments), traced, step.checked)


def _looked_up(b: Buffer, at: int, places: dict[Buffer, str], read: bool = False) -> Place:
    """Element ``at`` of a buffer, or what is ``read`` there."""
    c = f"{places[b]}[{at}]" if read else places[b] + (f" + {at}" if at else "")
    local, _, member = places[b].partition("->")
    if local not in ("a", "w"):
        return Place(c)
    return Place(c, local, member, at * b.type.dtype.nbytes, b.type.dtype.c if read else "")


def _shared(
    number: int, call: Invocation, about: str, places: dict[Buffer, str], held: Mapping[str, str], arenas: list[Arena]
) -> Shared | None:
    """The function of a step in parts."""
    parts = _parts(call)
    if parts is None:
        return None
    used = {(v.buffer.space, v.buffer.region) for v in call.pointers}
    needs = Needs([a for a in arenas if ("arena", a.region) in used], any(space == "blob" for space, _ in used))
    return Shared(number, _call_text(call, places, partial(c_number, places=held)), about, parts, needs)


def _results(step: Call | Fill) -> tuple[View, ...]:
    return step.results if isinstance(step, Call) else (step.view,)


@dataclass(frozen=True)
class _Tree:
    """The steps of a program on their way to the tree of its loops."""

    steps: list[Step]
    calls: list[Invocation]
    places: dict[Buffer, str]
    held: Mapping[str, str]
    arenas: list[Arena]

    def items(self, of: Iterable[Numbered | Turns]) -> list[Step | Repeat]:
        return [self._repeat(item) if isinstance(item, Turns) else self.steps[item[0]] for item in of]

    def needs(self, of: Iterable[Numbered | Turns]) -> Needs:
        """What kernels and conditions are given; loops inside only if they are in the same function."""
        used: list[Buffer] = []
        for item in of:
            if isinstance(item, Turns):
                used += [item.loop.turn, *item.loop.asked, *(b for t, s in item.steps() for b in self._named(t, s))]
            else:
                used += self._named(*item)
        regions = {b.region for b in used if b.space == "arena"}
        return Needs([a for a in self.arenas if a.region in regions], any(b.space == "blob" for b in used))

    def _named(self, t: int, step: Call | Fill) -> list[Buffer]:
        """The buffers that the statement of a step names."""
        loops = [b for loop in step.loops for b in (loop.turn, *loop.asked)]
        views = self.calls[t].pointers if _parts(self.calls[t]) is None else _results(step)
        return [*(v.buffer for v in views), *(b for b, _ in step.when), *step.counts, *loops]

    def _repeat(self, turns: Turns) -> Repeat:
        loop = turns.loop
        first, *_ = numbers = [t for t, _ in turns.steps()]
        turn, trips = f"{self.places[loop.turn]}[0]", c_number(loop.trips, self.held)
        most = trips if loop.count is None else f"{self.places[loop.count]}[0]"
        tests = [] if loop.endless else [f"{turn} < {most}"]
        tests += [] if loop.going is None else [f"{self.places[loop.going]}[0] != 0u"]
        when = _tests(loop.when, self.places)
        return Repeat(
            first, len(numbers), label(loop.turn.name), turn, tuple(tests), trips if loop.limited else "", when,
            self.items(turns.inside), self.needs(turns.inside),
        )  # fmt: skip


def _tests(when: Iterable[Condition], places: Mapping[Buffer, str]) -> tuple[str, ...]:
    return tuple(f"{places[b]}[0] {'!=' if wanted else '=='} 0u" for b, wanted in when)


def _payload(program: Program, total: int) -> list[memoryview]:
    """The blob's payload in pieces, one behind the other: they are the buffers' own bytes, and zeros between them."""
    pieces, at = [], 0
    for b in program.blob():
        assert b.data is not None
        raw = np.ascontiguousarray(b.data, b.data.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
        pieces += [_zeros(program.offsets[b] - at), raw.data]
        at = program.offsets[b] + raw.size
    return [*pieces, _zeros(total - at)]


def _zeros(nbytes: int) -> memoryview:
    return memoryview(bytes(nbytes))


def _trusted(program: Program, payload: Iterable[memoryview]) -> Trusted | None:
    """The part of the payload, at its beginning, that says where kernels read and write."""
    nbytes = max((program.offsets[b] + b.nbytes for b in program.module.trusted()), default=0)
    if nbytes == 0:
        return None
    crc, left = 0, nbytes
    for piece in payload:
        crc = zlib.crc32(piece[:left], crc)
        left -= len(piece[:left])
    return Trusted(nbytes, crc)


def _functions(program: Program) -> tuple[Function, ...]:
    """The functions of users that a program calls."""
    called = {getattr(s.op, "function", "") for s in program.body.linear() if isinstance(s, Call) if s.op.wants_rows}
    return tuple(f for f in functions().values() if f.name in called)


def recommended_level(target: Target, opt_level: str) -> str:
    """The flag of optimisation that the header recommends: for size where that was asked for."""
    return "-Os" if opt_level == "Os" else target.optimisation


def model_facts(
    program: Program,
    target: Target,
    source: str,
    sha256: str,
    keep_inputs: bool,
    pool: KernelPool | None = None,
    opt_level: str = "",
    stepwise: bool = False,
    interface: Interface = MODELS_OWN,
    threads: int = 1,
) -> ModelFacts:
    """The facts of a placed program.

    Args:
        source: the model's file name, for the headers.
        pool: where its kernels are kept; if they are external, the model's file does not hold them.
        opt_level: the level it was compiled at, as what is recommended to the C compiler follows from it.
        stepwise: steps can be run one by one.
        interface: what inputs and outputs are to those of the model.
        threads: the most parts of a step; with several, the network may be given a pool of threads.
    """
    pool = pool or KernelPool(program.name)
    kernels, calls = render_kernels(program, target, pool)
    long = sum(len(k.text) for k in kernels) + LETTERS_OF_STEP * len(calls) > MOST_LETTERS
    names = (b.name for b in program.module.buffers)
    lengths = OF_LONG if long else USUAL
    ids = unique_identifiers(names, taken=("end_",), short=True, members=True, most=lengths.identifier)
    ids |= {kept.name: ids[given.name] for kept, given in program.module.state.items()}
    weights, total = _weight_members(program, ids)
    tensors = tuple(
        BlobTensor(b.name, b.type.dtype.name, b.type.shape, program.offsets[b], b.nbytes) for b in program.blob()
    )
    align = max(target.align, program.module.align)
    payload = _payload(program, total)
    trusted = _trusted(program, payload)
    made_by = "".join(f"// plugin {p.name} {p.digest}\n" for p in made_with())
    made_by += f"// trusted {trusted.crc:08x}\n" if trusted else ""
    program_id = blob_id(made_by + print_program(program, digests=False), tensors, total, align)
    blob = write_blob(payload, tensors, program_id, align)
    counts = program.module.counts
    counted = {name: f"{_member(b, ids)}[0]" for name, b in counts.items()}
    given = given_extents(program.module, counted)
    held = counted | {g.name: f"net->{g.field}" for g in given}
    apart = held | {name: _apart(b, ids) for name, b in counts.items()}
    inputs, states = (ports(program, r, ids, interface, apart) for r in ("input", "state"))
    outputs = ports(program, "output", ids, interface, apart | {g.name: f"net->{g.ran}" for g in given if g.told})
    places = _places(program, ids, (*inputs, *outputs))
    keeping = repeat(None) if stepwise else _keeping(calls, LongSums(held))
    steps = [
        _step(i, program.name, c, places, held, sums, lengths.label)
        for i, (c, sums) in enumerate(zip(calls, keeping, strict=False))
    ]
    arenas = _arenas(program, ids)
    functions = (_shared(s.number, c, s.comment, places, held, arenas) for s, c in zip(steps, calls, strict=True))
    tree, nest = _Tree(steps, calls, places, held, arenas), nested(list(program.body.linear()))
    items = tree.items(nest)
    body: list[Step | Repeat | Series] = [*items]
    if long and target.hosted and not stepwise:  # on boards an address tells a step: run/counter.py
        kept = {counted[name]: b for name, b in counts.items()}
        plain = {s.number: _plain(c, s, places, held, kept) for s, c in zip(steps, calls, strict=True)}
        body = with_series(program.name, items, plain)
    uses = frozenset() if pool.external else frozenset().union(*(k.uses for k in kernels))
    tables = () if pool.external else tuple(table for k in kernels for table in k.tables)
    before = preamble(uses, target, tables)
    return ModelFacts(
        name=program.name,
        version=__version__,
        source=comment(source),
        sha256=sha256,
        target=target.name,
        c_flags=" ".join(target.required_flags),
        optimisation=recommended_level(target, opt_level),
        requires=target.requires,
        align=align,
        abi=ABI_VERSION,
        keep_inputs=keep_inputs or bool(inputs and all(p.of_caller for p in inputs)),
        arena_bytes=program.arena_bytes,
        weights_bytes=total,
        weights_pad=total - (weights[-1].end if weights else 0),
        inputs=inputs,
        outputs=outputs,
        states=states,
        arenas=arenas,
        weights=weights,
        steps=steps,
        body=body,
        needs=tree.needs(item for item in nest if not isinstance(item, Turns)),
        kernels=[KernelText(k.kernel, pool.comment(k, lengths), k.text.rstrip()) for k in kernels],
        kernels_header=f"{pool.prefix}_kernels.h" if pool.external else "",
        uses=uses,
        tables=tables,
        helpers=before.helpers,
        headers=before.headers,
        indent=lengths.indent,
        checked=bool(program.module.loops()) or any(s.checked for s in steps),
        stepwise=stepwise,
        io="caller" if any(p.of_caller for p in (*inputs, *outputs)) else "arena",
        id_bytes=", ".join(f"0x{b:02x}" for b in program_id),
        blob=blob,
        trusted=trusted,
        given=given,
        functions=_functions(program),
        threads=threads,
        shared=tuple(f for f in functions if f is not None),
    )
