"""How much stack a network takes: what the compiler says of each function, along the worst path of calls.

    digits_run 48 bytes         calls k0, k1                   at most 48 + 384 + 16 = 448 bytes
      digits_k0_conv 96           calls nothing
      digits_k1_conv 384          calls mcc_sigmoid_f32
        mcc_sigmoid_f32 16          calls expf, of the C library: named, as nobody knows what that takes

Generated C recurses nowhere and calls through no pointer, so that its text is its call graph: what it gives to a pool
of threads, the pool calls in its stead, and takes some stack of its own for that. A function that was put into its
callers takes nothing of its own; parts and copies that a compiler makes of one are added up. What a compiler calls by
itself (sums of floats, where the core has none) is among the undefined symbols of the object. Of functions that
consist of assembler compilers know no stack: it is what they push.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.ir.c_words import COMMENT
from mccompile.ir.errors import CompileError
from mccompile.ir.names import first_of
from mccompile.run.boards import board_of
from mccompile.run.build import compiler_version
from mccompile.run.cycles import words_of
from mccompile.run.emulate import compiler_for
from mccompile.run.objects import object_facts
from mccompile.targets.target import Target, resolve, runs_here

_FUNCTION = re.compile(r"^\w[^\n;={}]*?\b(\w+)\([^;={}]*\)\s*\{$(.*?)^\}", re.MULTILINE | re.DOTALL)
"""A function's definition at file scope: its name, its body."""
MOST_NAMED = 4
"""So many functions of others are named in a line."""
RETURN_ADDRESS = 8
"""Bytes that a call pushes on x86-64, which gcc counts and clang does not."""
COUNT_ALL = ("-mno-red-zone",)
"""Else functions on x86-64 that call nothing keep up to 128 bytes below the stack, which nobody counts."""
NO_FUNCTIONS = ("_GLOBAL_OFFSET_TABLE_",)
"""Undefined symbols that nobody calls."""
RUNTIME = "mcc.c"
_PUSH = re.compile(r'"push (\{[^}]*\})')
WORD = 4
"""Bytes of a register of an Arm core."""
_CALL = re.compile(r"\b([A-Za-z_]\w*)\(")
POOL = "mcc_pool_run"
"""It lets the pool of an application call the function that is its second argument."""
_POOLED = re.compile(rf"\b{POOL}\([^;,]*,\s*(\w+)\s*,")
_USAGE = re.compile(r"^.*:([\w.$]+)\t(\d+)\t(\S+)$")
"""A line of a .su file: function, bytes, whether they depend on its data."""


@dataclass(frozen=True)
class Stack:
    """What a run takes of the stack, at most.

    Attributes:
        path: the functions of the worst path and the bytes of each, from ``<model>_run`` on.
        functions: the bytes of every function that was not put into its callers.
        outside: functions of the C library and of the compiler's own that are called; their stack comes on top.
        compiler: the command that the numbers are for.
    """

    path: tuple[tuple[str, int], ...]
    functions: Mapping[str, int]
    outside: tuple[str, ...] = ()
    compiler: str = ""

    @property
    def nbytes(self) -> int:
        return sum(own for _, own in self.path)

    def to_json(self) -> dict[str, Any]:
        return {
            "bytes": self.nbytes,
            "path": [{"function": name, "bytes": own} for name, own in self.path],
            "functions": dict(self.functions),
            "outside": list(self.outside),
            "compiler": self.compiler,
        }

    def line(self) -> str:
        """One line for users."""
        path = " + ".join(f"{name} {own:,}" for name, own in self.path if own)
        verb = "takes" if len(self.outside) == 1 else "take"
        beside = f", and what {first_of(self.outside, MOST_NAMED)} {verb}" if self.outside else ""
        return f"stack: at most {self.nbytes:,} bytes ({path}){beside}"


def stack_of(out: Path, report: Mapping[str, Any]) -> Stack:
    """The stack of a network in a folder made by mccompile, with the compiler and the flags of its target.

    Raises:
        CompileError: no compiler, one that does not tell, or a function whose stack depends on data or that recurses.
    """
    name = report["model"]["name"]
    target = resolve(report["target"]["name"])
    compiler = list(compiler_for(target))
    board_of(target)
    x86 = _on_x86(target)
    flags = counted_flags(report)
    uncounted = RETURN_ADDRESS if x86 and "clang" in compiler_version(compiler) else 0
    usage: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    undefined: set[str] = set()
    for source in sources_of(out, report):
        facts = object_facts(compiler, flags, source, headers_of(out, report))
        if facts.usage is None:
            what = f"{compiler[0]} does not tell what stack functions take"
            raise CompileError(what, hint="set CC to gcc or to a newer clang")
        _add_usage(usage, facts.usage, uncounted)
        undefined |= set(facts.undefined)
        text = source.read_text(encoding="utf-8")
        for function, called in _calls(text).items():
            calls.setdefault(function, set()).update(called)
        pushed = pushes(text)
        usage |= {f: pushed[f] for f, own in usage.items() if own == 0 and f in pushed}
    found = worst(f"{name}_run", usage, calls)
    outside = {s for s in undefined if s not in calls and not s.startswith("mcc_") and s not in NO_FUNCTIONS}
    outside |= {POOL} & calls.keys()
    command = shlex.join([*compiler, *report["target"]["c_flags"]])
    return replace(found, outside=tuple(sorted(outside)), compiler=command)


def counted_flags(report: Mapping[str, Any]) -> list[str]:
    """The flags of a target, and what makes its compiler count all of the stack."""
    flags = list(report["target"]["c_flags"])
    return [*flags, *COUNT_ALL] if _on_x86(resolve(report["target"]["name"])) else flags


def sources_of(out: Path, report: Mapping[str, Any]) -> list[Path]:
    """The C files of a network, without that of the runtime."""
    names = report.get("sources", [f"{report['model']['name']}.c", RUNTIME])
    return [place_of(out, report, name) for name in names if name != RUNTIME]


def place_of(out: Path, report: Mapping[str, Any], name: str) -> Path:
    """Where a file lies: packages have folders for sources and headers.

    >>> str(place_of(Path("out"), {"files": {"src/digits.c": 900, "include/digits.h": 90}}, "digits.c"))
    'out/src/digits.c'
    """
    return next((out / path for path in sorted(report["files"]) if Path(path).name == name), out / name)


def headers_of(out: Path, report: Mapping[str, Any]) -> list[Path]:
    """The folders of headers."""
    return sorted({(out / path).parent for path in report["files"] if path.endswith(".h")} or {out})


def _on_x86(target: Target) -> bool:
    return platform.machine() in ("x86_64", "AMD64") and runs_here(target.name)


def worst(entry: str, usage: Mapping[str, int], calls: Mapping[str, Iterable[str]]) -> Stack:
    """The worst path from a function on.

    >>> worst("run", {"run": 48, "k0": 96, "k1": 384}, {"run": {"k0", "k1"}, "k1": {"expf"}}).line()
    'stack: at most 432 bytes (run 48 + k1 384)'

    Raises CompileError if a function calls itself.
    """
    known: dict[str, tuple[tuple[str, int], ...]] = {}
    above = [entry]
    while above:
        name = above[-1]
        callees = [c for c in sorted(calls.get(name, ())) if c in calls or c in usage]
        if missing := next((c for c in callees if c not in known), None):
            if missing in above:
                raise CompileError(f"{missing} calls itself: its stack has no bound", where=entry)
            above.append(missing)
            continue
        below = max([(), *(known[c] for c in callees)], key=lambda path: sum(own for _, own in path))
        known[above.pop()] = ((name, usage.get(name, 0)), *below)
    reached = {name: usage[name] for name in sorted(known) if name in usage}
    return Stack(known[entry], reached)


def called_from(sources: Sequence[Path]) -> set[str]:
    """The functions of the first of some C files, and those of all that they call, and these in turn."""
    files = [_calls(path.read_text(encoding="utf-8")) for path in sources]
    calls = {name: called for file in files for name, called in file.items()}
    found, pending = set[str](), list(files[0])
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += calls.get(name, ())
    return found


def _calls(text: str) -> dict[str, set[str]]:
    """What each function of a C file calls, and what a pool of threads calls for it."""
    plain = COMMENT.sub("", text)
    found = {m[1]: set(_CALL.findall(m[2])) for m in _FUNCTION.finditer(plain)}
    pooled = set(_POOLED.findall(plain))
    return {**found, POOL: pooled} if pooled else found


def pushes(text: str) -> dict[str, int]:
    """Bytes that functions of a C file push in assembler of their own.

    >>> pushes('static void f(void)\\n{\\n    __asm__ volatile("push {r4-r7, lr}" "pop {r4-r7, pc}");\\n}\\n')
    {'f': 20}
    """
    found: dict[str, int] = {}
    for m in _FUNCTION.finditer(COMMENT.sub("", text)):
        pushed = sum(WORD * words_of(registers) for registers in _PUSH.findall(m[2]))
        if pushed:
            found[m[1]] = pushed
    return found


def _add_usage(usage: dict[str, int], text: str, uncounted: int) -> None:
    """Add the bytes of each function of a .su file, and those not counted; ``f.part.0`` and such count for ``f``."""
    for line in text.splitlines():
        m = _USAGE.match(line)
        if m is None:
            raise CompileError(f"the compiler says of the stack what cannot be read: {line!r}")
        if m[3] == "dynamic":
            raise CompileError(f"the stack of {m[1]} depends on its data")
        own = m[1].split(".")[0]
        usage[own] = usage.get(own, 0) + int(m[2]) + uncounted
