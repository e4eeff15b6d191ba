"""Every operator's generated C under AddressSanitizer and UndefinedBehaviorSanitizer, and under MemorySanitizer.

The cases of a part are one program of their own, which is given arena and blob through a pipe and has them on its
heap: an access outside of them, or undefined behaviour, ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mccompile.codegen.blob import payload_offset
from mccompile.driver import Options
from mccompile.ir.errors import CompileError
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case, Draw
from mccompile.run.emulate import CrossTools
from mccompile.run.memory import aligned_bytes
from mccompile.targets.target import resolve
from tests._skips import needs_sanitizers
from tests.support.opcases import Built, CaseLibrary, agreement, case_inputs, compile_case
from tests.support.sanitized import MEMORY_SANITIZER, SANITIZERS, UNWRITTEN
from tests.support.targets import needs_target

FLAGS = ("-O0", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
"""Not optimised: every access is looked at, and gcc takes a twentieth of the time it needs at -O1."""
FRONT_ENDS = [f for f in front_ends().values() if f.sample is not None and not f.composed]
CASES = {"generic": 3, "native": 1}
PARTS = 4
"""Programs for each target."""


def program(
    built: Sequence[Built],
    target: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiler: str = "gcc",
    flags: Sequence[str] = FLAGS,
) -> CaseLibrary:
    """Cases as a running program with sanitizers."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    tools = CrossTools((needs_sanitizers(compiler),), ())
    return CaseLibrary(folder, built, [*resolve(target).c_flags, *flags], tools=tools).build()


def _faults(
    part: int, target: str, folder: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, flags: Sequence[str]
) -> list[str]:
    """What is wrong of a part of the operators; the arena is full of what no network may read."""
    drawn: list[tuple[FrontEnd, Built]] = []
    for i, front_end in enumerate(FRONT_ENDS[part::PARTS]):
        for seed in range(CASES[target]):
            options = Options(target=target)
            drawn.append((front_end, compile_case(front_end, seed, folder, options, f"net{i}_{seed}")))
    library = program([b for _, b in drawn], target, folder, monkeypatch, compiler, flags)
    answers = [agreement(f, b, library.run(b, case_inputs(b.case), UNWRITTEN)) for f, b in drawn]
    return [a for a in answers if a]


@pytest.mark.parametrize("target", ["generic", pytest.param("native", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("part", range(PARTS))
def test_no_operator_leaves_its_memory_or_the_language(
    part: int, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = _faults(part, target, tmp_path, monkeypatch, "gcc", FLAGS)
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "flags"),
    [(target, flags) for flags in (SANITIZERS, MEMORY_SANITIZER) for target in ("generic", "native")],
    ids=["generic", "native", "generic-memory", "native-memory"],
)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_operator_does_so_as_clang_has_it(
    part: int, target: str, flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = _faults(part, target, tmp_path, monkeypatch, "clang", flags)
    assert not faults, "\n".join(faults)


HOSTILE = (1_000_000, 2**31 - 1, 2**32 - 1, 2**31, 0x7FC00000, 3)
"""Words that a payload may be full of: places far away and before the first, NaN, and one that is hardly beside."""

WRAPS = "-fno-sanitize=signed-integer-overflow"


def _lifted(front_end: FrontEnd, seed: int) -> FrontEnd:
    """An operator whose cases have all operands but one as constants, where there are several."""

    def sample(d: Draw) -> Case:
        assert front_end.sample is not None
        case = front_end.sample(d)
        free = [i for i, a in enumerate(case.inputs) if a is not None and i not in case.constant]
        kept = free[seed % len(free)] if free else -1
        return replace(case, constant=case.constant | {i for i in free if i != kept})

    return replace(front_end, sample=sample)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize("part", range(PARTS))
def test_no_operator_leaves_its_memory_whatever_stands_in_a_payload_that_was_not_verified(
    part: int, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What init does not check can at worst give wrong numbers; sums of other biases than the model's may wrap."""
    needs_target(target)
    built = []
    for i, front_end in enumerate(FRONT_ENDS[part::PARTS]):
        for seed in range(2):
            cases = (front_end, _lifted(front_end, seed))[seed]
            try:
                built.append(compile_case(cases, seed, tmp_path, Options(target=target), f"net{i}_{seed}"))
            except CompileError:
                assert seed, "the case as it was drawn"
    built = [b for b in built if _unchecked(b)]
    library = program(built, target, tmp_path, monkeypatch, flags=(*FLAGS, "-w", WRAPS))
    faults = []
    for b in built:
        for word in HOSTILE:
            arena, blob = aligned_bytes(b.facts.arena_bytes, b.facts.align), aligned_bytes(len(b.facts.blob), 64)
            blob[:] = np.frombuffer(bytes(b.facts.blob), np.uint8)
            blob[-_unchecked(b) :] = np.resize(np.frombuffer(np.uint32(word).tobytes(), np.uint8), _unchecked(b))
            arena[:] = 0
            try:
                library.call(b, arena, blob)
            except CompileError as e:
                faults.append(f"{b.label}, {word}: {e}")
                library.again()
    assert not faults, "\n".join(faults)


def _unchecked(b: Built) -> int:
    """The bytes at the end of a blob that init does not look at."""
    trusted = b.facts.trusted.nbytes if b.facts.trusted else 0
    return len(b.facts.blob) - payload_offset(bytes(b.facts.blob)) - trusted if len(b.facts.blob) else 0


def test_an_access_behind_the_arena_ends_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = compile_case(front_ends()["", "Conv"], 0, tmp_path, Options(target="generic"), "net")
    library, f = program([built], "generic", tmp_path, monkeypatch), built.facts
    blob = aligned_bytes(len(f.blob), f.align)
    blob[:] = np.frombuffer(bytes(f.blob), np.uint8)
    assert library.call(built, aligned_bytes(f.arena_bytes, f.align), blob) == 0
    with pytest.raises(CompileError, match="AddressSanitizer: heap-buffer-overflow"):
        library.call(built, aligned_bytes(f.arena_bytes - f.align, f.align), blob)
