"""Kernels whose work is in parts: the bits of one piece of work, whichever part comes first, and no two parts write
to the same byte."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mccompile.driver import Compilation, Options, compile_program, import_graph, place_program
from mccompile.ir.kernel import Call
from mccompile.ir.parts import Parts
from mccompile.kernels.model.parts import Turns
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.kernels.cases import Net, VariantCase
from tests.kernels.cases_recurrent import cell
from tests.kernels.test_integer import CASES as BYTES
from tests.kernels.test_integer import built, drawn
from tests.kernels.test_variants import CASES, imported, inputs_of, library, of_kernel
from tests.support.opcases import Built, Bytes, CaseLibrary, Pool
from tests.support.targets import WIDE, needs_target

Array = np.ndarray[Any, np.dtype[Any]]
THREADS = 3


@pytest.fixture(autouse=True)
def any_work_by_any_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least work is in parts, and of the loops that may be shared out, each has its turn."""
    turn = itertools.count()

    def by_turns(loops: Sequence[Turns], parts: int, even: float) -> Parts | None:
        several = [t for t in loops if len(t.starts) > 1]
        return several[next(turn) % len(several)].cut(parts) if several else None

    monkeypatch.setattr("mccompile.kernel_passes.split_calls.worth", lambda cycles, threads, target: threads)
    monkeypatch.setattr("mccompile.kernel_passes.split_calls.divided", by_turns)


def last_first(arena: Bytes, task: Callable[[int, int], None], parts: int) -> None:
    for i in reversed(range(parts)):
        task(i, i + 1)


def two_and_the_rest(arena: Bytes, task: Callable[[int, int], None], parts: int) -> None:
    task(min(2, parts - 1), parts)
    task(0, min(2, parts - 1))


class Apart:
    """A pool that does each part on the arena as it was before all of them, and puts together what they have written:
    it remembers whether two have written to one byte."""

    def __init__(self) -> None:
        self.steps = self.meetings = 0

    def __call__(self, arena: Bytes, task: Callable[[int, int], None], parts: int) -> None:
        before, after = arena.copy(), arena.copy()
        written = np.zeros(arena.size, bool)
        for i in range(parts):
            arena[:] = before
            task(i, i + 1)
            own = arena != before
            self.meetings += int((own & written).sum())
            written |= own
            after[own] = arena[own]
        arena[:] = after
        self.steps += 1


def in_parts(c: Compilation) -> set[str]:
    """The kernels of which a call is in parts."""
    assert c.program is not None
    calls = [s for s in c.program.body.linear() if isinstance(s, Call)]
    return {call.kernel for call in calls if call.parts is not None}


def divisible(kernel: str, target: str, folder: Path, most: int) -> list[VariantCase]:
    """The first cases of a kernel in which it is in parts; there is one."""
    found = []
    for i, case in enumerate(of_kernel(kernel)):
        c = imported(case, i, target, folder, case.force, THREADS)
        place_program(c)
        if kernel in in_parts(c):
            found.append(case)
        if len(found) == most:
            break
    assert found, f"{kernel} is in parts nowhere"
    return found


def agree(whole: CaseLibrary, parted: CaseLibrary, runs: Sequence[Mapping[str, Array]]) -> set[str]:
    """Compares all cases of two libraries; the kernels that were in parts."""
    seen: set[str] = set()
    for one, several, inputs in zip(whole.built, parted.built, runs, strict=True):
        seen |= in_parts(several.compilation)
        wanted = [a.tobytes() for a in whole.run(one, inputs)]
        apart = Apart()
        pools: list[Pool | None] = [None, last_first, two_and_the_rest, apart]
        for pool in pools:
            got = [a.tobytes() for a in parted.run(several, inputs, pool=pool)]
            assert got == wanted, f"{one.facts.name} by {pool}"
        assert apart.meetings == 0, f"{one.facts.name}: two parts write to one byte"
    return seen


@pytest.mark.parametrize(
    ("target", "most"), [(WIDE[-1], 1), *(pytest.param(t, 100, marks=pytest.mark.slow) for t in WIDE)]
)
def test_parts_have_the_bits_of_the_whole(target: str, most: int, tmp_path: Path) -> None:
    needs_target(target)
    kernels = dict.fromkeys(c.kernel for c in CASES)
    cases = [c for kernel in kernels for c in divisible(kernel, target, tmp_path, most)]
    whole = library(cases, target, tmp_path / "whole", flags=["-O1"])
    parted = library(cases, target, tmp_path / "parted", flags=["-O1"], threads=THREADS)
    agree(whole, parted, [inputs_of(c.model(), 1) for c in cases])


@pytest.mark.parametrize("kernel", ["lstm.vector", "gru.vector", "rnn.vector"])
def test_units_of_a_cell_go_in_rounds(kernel: str, tmp_path: Path) -> None:
    """A time step needs the state of all units: each is a round, in scratch memory that is one for all parts."""
    target, cases = needs_target(WIDE[-1]), []
    for i, case in enumerate(of_kernel(kernel)):
        c = imported(case, i, target, tmp_path, case.force, THREADS)
        place_program(c)
        assert c.program is not None
        calls = [s for s in c.program.body.linear() if isinstance(s, Call) and s.kernel == kernel]
        cases += [case for s in calls[:1] if s.parts is not None and s.parts.rounds > 1]
    assert cases
    whole = library(cases, target, tmp_path / "whole", flags=["-O1"])
    parted = library(cases, target, tmp_path / "parted", flags=["-O1"], threads=THREADS)
    assert kernel in agree(whole, parted, [inputs_of(c.model(), 1) for c in cases])


@pytest.mark.parametrize(
    ("op", "kernel", "options"),
    [
        ("GRU", "gru.scaled", {"target": "x86-64-v4"}),
        ("LSTM", "lstm.vector", {"target": "x86-64-v4-bf16", "precision": {"*": "bf16"}}),
        ("LSTM", "lstm.vector", {"target": "x86-64-v4-vnni", "weights": {"*": "i8"}}),
    ],
)
def test_units_that_another_phase_reads_stay_together(
    op: str, kernel: str, options: Mapping[str, Any], tmp_path: Path
) -> None:
    """Where all units have to be rounded, or scaled, in the middle of a step, that is one piece."""
    path = tmp_path / "cell.onnx"
    path.write_bytes(cell(op, 4, 1, 140, states=True).model().SerializeToString())
    c = import_graph(path, Options(name="cell", threads=THREADS, **options))
    place_program(c)
    assert c.program is not None
    calls = [s for s in c.program.body.linear() if isinstance(s, Call) and s.kernel == kernel]
    assert [s.parts for s in calls] == [None]


def turned(folder: Path) -> Path:
    """Each order of the axes of tensors that differ in extents alone, and mirrored ones."""
    net = Net(1)
    outputs = []
    for extents in ((2, 4, 3), (2, 7, 3), (5, 4, 3)):
        x = net.input(*extents)
        outputs += [net("Transpose", x, perm=perm) for perm in itertools.permutations(range(3))]
        last = net.ints(-(2**31))
        outputs += [net("Slice", x, net.ints(-1), last, net.ints(axis), net.ints(-1)) for axis in range(3)]
    path = folder / "turned.onnx"
    path.write_bytes(net.model(*outputs).SerializeToString())
    return path


@pytest.mark.parametrize("target", ["generic", WIDE[-1]])
def test_copies_that_share_code(target: str, tmp_path: Path) -> None:
    """At -Os, where calls of other numbers are calls of one function: it has the loops that were shared out."""
    needs_target(target)
    path, libraries = turned(tmp_path), []
    for threads in (1, THREADS):
        c = import_graph(path, Options(target=target, name="turned", opt_level="Os", threads=threads))
        built = Built(0, Case([]), [], c, compile_program(c))
        folder = tmp_path / str(threads)
        folder.mkdir()
        flags = [*resolve(target).c_flags, *STRICT_WARNINGS, "-O1"]
        libraries.append(CaseLibrary(folder, [built], flags).build())
    model = onnx.load(path)
    assert "copy.generic" in agree(*libraries, [inputs_of(model, 1)])


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_parts_of_products_of_bytes(every: int, tmp_path: Path) -> None:
    target = resolve(needs_target(WIDE[-1]))
    cases = BYTES[::every]
    kernels = ["conv.integer" if p.kernel.startswith("matmul") else p.kernel for p, _ in cases]
    libraries, runs = [], []
    for threads in (1, THREADS):
        numbered = enumerate(zip(cases, kernels, strict=True))
        made = [built(p, r, i, target.name, k, threads) for i, ((p, r), k) in numbered]
        folder = tmp_path / str(threads)
        folder.mkdir()
        libraries.append(CaseLibrary(folder, made, [*target.c_flags, *STRICT_WARNINGS, "-O1"]).build())
        runs = [{v.name: drawn(v.shape, v.dtype.name, v.name) for v in b.compilation.graph.inputs} for b in made]
    assert agree(*libraries, runs) >= set(kernels)
