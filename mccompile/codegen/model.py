"""Program IR as the facts the file templates print: members, steps, ports, sizes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile._version import __version__
from mccompile.codegen.blob import BlobTensor, blob_id, write_blob
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
from mccompile.codegen.run_calls import Given, Naming, RunCall, results
from mccompile.codegen.series import with_series
from mccompile.codegen.sharing import LETTERS_OF_STEP, MOST_LETTERS
from mccompile.interface.tensors import MODELS_OWN, Interface
from mccompile.ir.kernel import Call, Condition, Fill
from mccompile.ir.kernel_text import print_program
from mccompile.ir.names import first_of
from mccompile.ir.parts import Parts
from mccompile.ir.program import Program
from mccompile.ir.turns import Numbered, Turns, nested
from mccompile.ir.views import Buffer
from mccompile.plugins import Function, functions, made_with
from mccompile.targets.target import Target

ABI_VERSION = 3
MAX_ORIGINS = 4
"""So many ONNX nodes of a step are named."""
MANY_SUMS = 16
"""Sums that a program keeps in an array."""
WEIGHTS_MULTIPLE = 8
"""The payload's size is a multiple of this: sizeof of the weights struct on every ABI."""


def _origins(names: tuple[str, ...], room: int) -> str:
    """The ONNX nodes of a step: a few of them by their labels, of the others how many there are."""
    return first_of([label(name, room) for name in names], MAX_ORIGINS, " + ")


def _arenas(program: Program, ids: dict[str, str], room: int) -> list[Arena]:
    """One arena, or one for each memory the program uses; names of nodes have so much ``room``."""
    name, upper = program.name, program.name.upper()
    if not program.regions:
        members = _arena_members(program, ids, program.arena(), room)
        macro, check = f"{upper}_ARENA_BYTES", f"{name}_arena_size"
        return [Arena(f"{name}_arena", "arena", "a", macro, check, program.arena_bytes, "", members)]
    arenas = []
    for r in program.regions:
        members = _arena_members(program, ids, [b for b in program.arena() if b.region == r.name], room)
        macro, check = f"{upper}_ARENA_{r.name.upper()}_BYTES", f"{name}_size_of_arena_{r.name}"
        kind, local = f"{name}_arena_{r.name}", f"a_{r.name}"
        memory = f"{r.name}, of {r.limit} bytes"
        arenas.append(Arena(kind, f"arena_{r.name}", local, macro, check, r.nbytes, memory, members, r.name))
    return arenas


def _arena_members(program: Program, ids: dict[str, str], buffers: list[Buffer], room: int) -> list[Member]:
    lives = program.lives()
    members = []
    for b in buffers:
        if b in program.module.state:
            continue  # it is the member of the input that it is next
        at, (first, last) = program.offsets[b], lives[b]
        role = "state" if b in program.module.held else b.role
        about = label(b.name, room) + (f", {role}" if role else "")
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


def _written(b: Buffer, places: Mapping[Buffer, str]) -> Written:
    return Written(places[b], b.nbytes if b.space == "caller" else 0)


def _step(number: int, name: str, call: Invocation, made: RunCall | None, naming: Naming, room: int) -> Step:
    """The step of a call that is ``made``, if there is one; names of nodes have so much ``room``."""
    step = call.step
    if isinstance(step, Call):
        about = _origins(step.origins, room) or step.op.name
    else:
        about = f"fill {label(step.view.buffer.name)}"
    traced = tuple(dict.fromkeys(_written(v.buffer, naming.arrays) for v in results(step)))
    # What lies there already is named, so that the arena is: where hooks are empty, nothing else may name it.
    text = f"(void){naming.arrays[results(step)[0].buffer]}" if made is None else made.c
    if parts := _parts(call):
        text, about = f"mcc_pool_run(net->pool, {name}_step{number}, net, {parts.count}u)", f"{about}, in parts"
        text = f"{name}_step{number}_rounds(net)" if parts.rounds > 1 else text
    about += "" if made else ": lies there already"
    before = () if made is None else tuple(g.c for g in made.before)
    checked, when = made is not None and made.checked, _tests(step.when, naming.arrays)
    return Step(number, text, about, checked, traced, when, before)


def _made(calls: Sequence[Invocation], naming: Naming) -> list[RunCall | None]:
    """The calls that steps make; None for one that has nothing to do. Sums that are named are kept by those steps
    that every run makes once, behind all that counts their extents."""
    last = {b: t for t, call in enumerate(calls) for b in call.step.written()}
    own = replace(naming, sums=None)
    made: list[RunCall | None] = []
    for t, call in enumerate(calls):
        always = not call.step.loops and not call.step.when and _parts(call) is None
        keeps = always and all(last.get(b, t) < t for b in call.step.counts)
        made.append((naming if keeps else own).call(call))
    return made


def _with_sums(calls: Sequence[Invocation], naming: Naming, long: bool) -> tuple[Naming, list[RunCall | None]]:
    """The calls that steps make, with long sums of extents kept; many sums of a ``long`` program in an array, so that
    steps that add a count each are turns of a loop, and short sums as well."""
    kept = LongSums(naming.held)
    naming = replace(naming, sums=kept)
    made = _made(calls, naming)
    if not long or len(kept.kept) < MANY_SUMS:
        return naming, made
    naming = replace(naming, sums=LongSums(naming.held, most=1), in_array=True)
    return naming, _made(calls, naming)


def _parts(call: Invocation) -> Parts | None:
    return call.step.parts if call.kernel is not None and isinstance(call.step, Call) else None


def _in_loop(call: Invocation, made: RunCall | None, naming: Naming) -> RunCall | None:
    """The call of a step as a loop could make it; None for one that is more than a call, or declares a sum."""
    if made is None or call.step.loops or call.step.when or _parts(call) or (made.before and not naming.in_array):
        return None
    return made


def _shared(number: int, call: Invocation, made: RunCall | None, about: str, arenas: list[Arena]) -> Shared | None:
    """The function of a step in parts, which knows which of them it does: each has a piece of scratch memory."""
    parts = _parts(call)
    if parts is None or made is None:
        return None
    if parts.rounds == 1 and isinstance(call.step, Call) and call.step.scratch is not None:
        scratch = made.arguments[len(call.pointers) - 1]
        piece = Given(f"{scratch.pattern} + first * {call.step.scratch.type.shape[1]}u", scratch.places)
        made = replace(made, arguments=tuple(piece if a is scratch else a for a in made.arguments))
    used = {(v.buffer.space, v.buffer.region) for v in call.pointers}
    needs = Needs([a for a in arenas if ("arena", a.region) in used], any(space == "blob" for space, _ in used))
    return Shared(number, made.c, about, parts, needs)


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
        views = self.calls[t].pointers if _parts(self.calls[t]) is None else results(step)
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
    ids = unique_identifiers(names, taken=("end_",), short=True, members=True, lengths=lengths)
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
    loops = long and target.hosted and not stepwise  # on boards an address tells a step: run/counter.py
    naming = Naming(places, held, counts)
    naming, made = (naming, _made(calls, naming)) if stepwise else _with_sums(calls, naming, loops)
    numbered = list(enumerate(zip(calls, made, strict=True)))
    steps = [_step(i, program.name, call, m, naming, lengths.label) for i, (call, m) in numbered]
    arenas = _arenas(program, ids, lengths.label)
    functions = (_shared(i, call, m, steps[i].comment, arenas) for i, (call, m) in numbered)
    tree, nest = _Tree(steps, calls, places, held, arenas), nested(list(program.body.linear()))
    items = tree.items(nest)
    body: list[Step | Repeat | Series] = [*items]
    if loops:
        body = with_series(program.name, items, {i: _in_loop(call, m, naming) for i, (call, m) in numbered})
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
        sums=len(naming.sums.kept) if naming.in_array and naming.sums else 0,
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
