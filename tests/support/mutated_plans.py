"""Plans that are damaged, and a judge that does not ask `plan.check`: the program run on one memory.

A mutant moves a buffer, exchanges two, or moves, drops or repeats steps. It does harm if an output differs from that
of the sound plan, when every call reads and writes the bytes that its buffers have at their addresses. Example: of
``b = neg(a); c = exp(b); y = a + c`` with b moved onto a, y is another number: the check has to refuse it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.kernel import Block
from mccompile.ir.program import Program
from mccompile.ir.views import Buffer
from mccompile.lower import evaluate as evaluated
from mccompile.plan.check import check_program
from tests.support.compose.definite import Array, Refused
from tests.support.fuzz.profiles import family

PROFILES = ("extents", "quant", "all", "cells")
FILLING = 0x5A
"""What bytes of the arena hold that nobody has written."""


class _Placed(evaluated._Memory):
    """The memory of a program: buffers of the arena are parts of one array of bytes."""

    def __init__(self, program: Program) -> None:
        super().__init__(False)
        self.program, self.bytes = program, np.full(program.arena_bytes + 64, FILLING, np.uint8)

    def _of(self, b: Buffer) -> Array:
        if b.space != "arena":
            return super()._of(b)
        at = self.program.offsets[b]
        return self.bytes[at : at + b.nbytes].view(b.type.dtype.numpy)


def outputs(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What the program gives in its own memory."""
    with mock.patch.object(evaluated, "_Memory", return_value=_Placed(program)):
        return evaluated.evaluate(program.module, inputs)


def drawn(seed: int, folder: Path) -> tuple[Program, dict[str, Array]] | None:
    """A program with steps that can be evaluated, and its inputs; None where nothing came of the seed."""
    try:
        net = family(seed, PROFILES[seed % len(PROFILES)], ())
        path = folder / f"{seed}.onnx"
        path.write_bytes(net.model().SerializeToString())
        c = import_graph(path, Options(target="generic", opt_level=("O0", "O2", "Os")[seed % 3]))
        compile_program(c)
    except (Refused, CompileError):
        return None
    program = c.program
    assert program is not None
    module = program.module
    nested = any(isinstance(s, Block) for s in module.body.steps) or module.loops() or module.counts
    if nested or evaluated.unknown(module) or len(program.arena()) < 3:
        return None
    return program, dict(net.inputs)


def mutants(program: Program, r: random.Random) -> Iterator[tuple[str, Program]]:
    """Without end: what was done, and the damaged program."""
    inside, steps = program.arena(), list(program.module.body.steps)
    while True:
        way = r.choice(["moved", "moved", "exchanged", "later", "dropped", "repeated"])
        offsets, body = dict(program.offsets), list(steps)
        if way == "moved":
            b = r.choice(inside)
            room = max(program.arena_bytes - b.nbytes, 0) // b.align
            offsets[b] = r.choice([r.randint(0, room) * b.align, program.offsets[r.choice(inside)]])
        elif way == "exchanged":
            a, b = r.sample(inside, 2)
            offsets[a], offsets[b] = offsets[b], offsets[a]
        elif len(body) > 1:
            i, j = sorted(r.sample(range(len(body)), 2))
            if way == "later":
                body.insert(j, body.pop(i))
            elif way == "dropped":
                del body[i]
            else:
                body.insert(j, body[i])
        made = replace(program.module, body=Block(tuple(body)))
        yield way, replace(program, module=made, offsets=offsets)


def harmful(sound: Mapping[str, Array], program: Program, inputs: Mapping[str, Array]) -> bool:
    """Whether an output is another one; what ends in an exception is, too."""
    try:
        found = outputs(program, inputs)
    except (CompileError, ValueError, IndexError, TypeError):
        return True
    return any(not np.array_equal(found[n], a, equal_nan=a.dtype.kind == "f") for n, a in sound.items())


def attacked(seeds: Sequence[int], each: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """How many mutants do harm, how many of these are refused; and those that are not."""
    counts: Counter[str] = Counter()
    survivors = []
    for seed in seeds:
        made = drawn(seed, folder)
        if made is None:
            continue
        program, inputs = made
        sound, r = outputs(program, inputs), random.Random(seed)
        counts["programs"] += 1
        for i, (way, mutant) in zip(range(each), mutants(program, r), strict=False):
            refused = False
            try:
                check_program(mutant)
            except InternalError:
                refused = True
            harm = harmful(sound, mutant, inputs)
            counts["harmful" if harm else "harmless"] += 1
            counts["killed"] += harm and refused
            counts["harmless, refused"] += refused and not harm
            if harm and not refused:
                survivors.append(f"seed {seed} mutant {i}: {way}")
    return counts, survivors
