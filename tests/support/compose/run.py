"""Compiles compositions, many in one C file, runs them in a child process, and says what is wrong with which."""

from __future__ import annotations

import random
import shutil
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ops.sampling import Case
from mccompile.run.boards import board_of
from mccompile.run.memory import guarded_bytes
from mccompile.targets.target import resolve, runs_here, strict_warnings
from tests.support.children import in_children
from tests.support.compose.drawn import composition
from tests.support.compose.judge import Expected, expectations, judged
from tests.support.compose.network import Composition
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import BYTE_VECTORS, ONE_LANE

SECONDS = 20
"""What one composition may run."""


@dataclass(frozen=True)
class Setting:
    """A target, and how its C is compiled: ``flags`` stand behind those of the target."""

    target: str
    compiler: str = "gcc"
    flags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return " ".join((self.target, self.compiler, *self.flags))

    @property
    def here(self) -> bool:
        """True if this machine has what it takes."""
        target = resolve(self.target)
        if runs_here(self.target):
            return shutil.which(self.compiler) is not None
        board = board_of(target)
        emulator = target.emulator if board is None else board.emulator
        return bool(emulator) and all(shutil.which(t) for t in (f"{target.triple}-gcc", emulator[0]))


SETTINGS = (
    Setting("generic", "gcc", ("-O1",)), Setting("native"), Setting("generic", "gcc", ("-O3",)),
    Setting("native", "clang"), Setting("generic", "gcc", ("-O2",)), Setting("x86-64-v3"),
    Setting("generic", "clang", ("-O2",)), Setting("native", "gcc", ("-O1",)), Setting("x86-64-v2", "gcc", ("-O2",)),
    Setting("generic", "gcc", ("-O3",)), Setting("native", "gcc", ("-O2",)), Setting(ONE_LANE),
    Setting(ONE_LANE, "clang", ("-O1",)), Setting(BYTE_VECTORS),
)  # fmt: skip
EMULATED = (Setting("aarch64"), Setting("armv7-neon"), Setting("cortex-m4"), Setting("riscv32imac"))
LEVELS = ("O2", "O0", "O2", "Os", "O3", "O2", "O1", "O3", "Os", "O2")


def setting_of(seed: int) -> Setting:
    """Where a seed is compiled for; the level is `level_of`'s."""
    return SETTINGS[seed % len(SETTINGS)]


def level_of(seed: int) -> str:
    return random.Random(f"level {seed}").choice(LEVELS)


@dataclass(frozen=True)
class Subject:
    """A composition to be compiled, and what its outputs should be."""

    seed: int
    level: str
    net: Composition
    expected: Sequence[Expected]

    @property
    def name(self) -> str:
        return f"c{self.seed}_{self.level.lower()}"


def subject(seed: int, level: str = "") -> Subject:
    net = composition(seed)
    return Subject(seed, level or level_of(seed), net, expectations(net, seed))


@dataclass(frozen=True)
class Finding:
    """What is wrong with a composition. ``kind``: wrong, crash, internal, kernel, build; refused is no fault."""

    subject: Subject
    setting: Setting
    kind: str
    what: str

    def text(self) -> str:
        s = self.subject
        return f"seed {s.seed} {self.setting.label} -{s.level}: {self.kind}: {self.what}"


def examine(subjects: Sequence[Subject], setting: Setting) -> list[Finding]:
    """What is wrong: with each compiled, all built by one call of the C compiler, each run."""
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="mccompile-compose-") as name:
        folder, built = Path(name), []
        for s in subjects:
            if s.net.has_denormals and not resolve(setting.target).denormals:
                continue
            try:
                built.append((s, _compiled(s, setting, folder)))
            except InternalError as e:
                findings.append(Finding(s, setting, "internal", str(e)))
            except CompileError as e:
                kind = "kernel" if "no kernel supports" in str(e) else "refused"
                findings.append(Finding(s, setting, kind, str(e).splitlines()[0]))
            except Exception:
                findings.append(Finding(s, setting, "internal", traceback.format_exc(limit=-4)))
        return findings + _built_and_run(built, setting, folder)


def _compiled(s: Subject, setting: Setting, folder: Path) -> Built:
    path = folder / f"{s.name}.onnx"
    path.write_bytes(s.net.model().SerializeToString())
    options = Options(target=setting.target, opt_level=s.level)
    c = import_graph(path, replace(options, name=s.name))
    return Built(s.seed, Case([]), [], c, compile_program(c))


def _built_and_run(built: list[tuple[Subject, Built]], setting: Setting, folder: Path) -> list[Finding]:
    if not built:
        return []
    flags = [*resolve(setting.target).c_flags, *setting.flags, *strict_warnings(setting.compiler)]
    compiler = (setting.compiler,)
    folder = Path(tempfile.mkdtemp(dir=folder))  # a path of its own: a loaded library is known by its path
    library = CaseLibrary(folder, [b for _, b in built], flags, compiler, allocate=guarded_bytes)
    try:
        library.build()
    except CompileError as e:
        if len(built) == 1:
            return [Finding(built[0][0], setting, "build", _complaint(str(e)))]
        half = len(built) // 2
        return [f for part in (built[:half], built[half:]) for f in _built_and_run(part, setting, folder)]
    if not runs_here(setting.target):
        return _in_emulator(library, built, setting)
    return _in_children(library, built, setting)


def _complaint(message: str) -> str:
    """What a compiler says, from its first error on."""
    lines = message.splitlines()
    first = next((i for i, line in enumerate(lines) if "error:" in line), 0)
    return "\n".join(lines[first : first + 3])


def _fault(library: CaseLibrary, s: Subject, b: Built) -> str:
    answers = library.run_each(b, [e.inputs for e in s.expected])
    return judged(s.expected, answers, [p.name for p in b.facts.outputs])


def _in_emulator(library: CaseLibrary, built: Sequence[tuple[Subject, Built]], setting: Setting) -> list[Finding]:
    findings = []
    for s, b in built:
        try:
            fault = _fault(library, s, b)
        except Exception as e:
            return [*findings, Finding(s, setting, "crash", str(e))]
        if fault:
            findings.append(Finding(s, setting, "wrong", fault))
    library.close()
    return findings


def _in_children(library: CaseLibrary, built: Sequence[tuple[Subject, Built]], setting: Setting) -> list[Finding]:
    """In a child process, and in another one behind each case that ends it."""
    answers = in_children([partial(_fault, library, s, b) for s, b in built], SECONDS)
    findings = []
    for (s, _), (what, ended) in zip(built, answers, strict=True):
        if what:
            findings.append(Finding(s, setting, "crash" if ended else "wrong", what))
    return findings
