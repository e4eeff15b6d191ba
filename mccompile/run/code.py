"""How much code a network is, function by function, by the compiler of its target: what `size` and `nm` tell.

Worked example: digits_run of 180 bytes calls digits_k0_conv of 420, which has a table of 16; mcc.c has 980 bytes:

    text_bytes 600        constants_bytes 16        runtime_bytes 980        in flash beside the weights: 1,596

Of a file of kernels that several networks share, these are the functions that the network calls, but all tables.
What the C library adds (expf, memcpy) is known to the linker alone and not counted; `Stack.outside` names it.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.run.build import compiler_version
from mccompile.run.emulate import compiler_for
from mccompile.run.objects import ObjectFacts, object_facts
from mccompile.run.stack import (
    RUNTIME,
    Stack,
    called_from,
    counted_flags,
    headers_of,
    place_of,
    sources_of,
    stack_of,
)
from mccompile.targets.target import resolve

_CONSTANTS = (".rodata", ".data.rel.ro")
"""Tables; those of addresses are written once, where programs are loaded to any place."""
_DATA = (".data", ".bss")


@dataclass(frozen=True)
class Code:
    """The code of a network.

    Attributes:
        functions: bytes of each function by name, parts that the compiler split off included; the largest first.
        text_bytes, constants_bytes, data_bytes: of all functions; of tables; of writable data, which is none.
        runtime_bytes: of mcc.c, which several networks share.
        stack: what a run takes, where the compiler tells; else ``note`` says why not.
        compiler, version: the command that the numbers are for.
    """

    functions: Mapping[str, int]
    text_bytes: int
    constants_bytes: int
    data_bytes: int
    runtime_bytes: int
    stack: Stack | None
    compiler: str
    version: str
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        stacks = dict(self.stack.functions) if self.stack else {}
        return {
            "compiler": self.compiler,
            "version": self.version,
            "text_bytes": self.text_bytes,
            "constants_bytes": self.constants_bytes,
            "data_bytes": self.data_bytes,
            "runtime_bytes": self.runtime_bytes,
            "functions": [
                {"name": name, "bytes": size, "stack_bytes": stacks.get(name)}
                for name, size in self.functions.items()
            ],
            "stack": self.stack.to_json() if self.stack else None,
            "note": self.note,
        }


def code_of(out: Path, report: Mapping[str, Any]) -> Code:
    """The code of a network in a folder made by mccompile, with the compiler and the flags of its target.

    Raises:
        CompileError: there is no such compiler, or it cannot compile it.
    """
    compiler = list(compiler_for(resolve(report["target"]["name"])))
    flags = counted_flags(report)
    include = headers_of(out, report)
    sources = sources_of(out, report)
    made = [object_facts(compiler, flags, source, include) for source in sources]
    called = called_from(sources)
    runtime = object_facts(compiler, flags, place_of(out, report, RUNTIME), include)
    note = ""
    stack: Stack | None = None
    try:
        stack = stack_of(out, report)
    except CompileError as e:
        note = f"the stack of a run is not known: {e.rule}"
    return Code(
        functions=_functions(made, called),
        text_bytes=sum(_text(facts, called) for facts in made),
        constants_bytes=sum(_in_sections(facts, _CONSTANTS) for facts in made),
        data_bytes=sum(_in_sections(facts, _DATA, but=_CONSTANTS) for facts in made),
        runtime_bytes=_in_sections(runtime, (".text", *_CONSTANTS)),
        stack=stack,
        compiler=shlex.join([*compiler, *report["target"]["c_flags"]]),
        version=(compiler_version(compiler).splitlines() or ["?"])[0],
        note=note,
    )


def code_or_note(out: Path, report: Mapping[str, Any]) -> tuple[Code | None, str]:
    """As `code_of`; where it is not known, why."""
    try:
        return code_of(out, report), ""
    except CompileError as e:
        return None, e.rule


def _functions(made: Sequence[ObjectFacts], called: Container[str]) -> dict[str, int]:
    """Bytes by function that is ``called``, the largest first; ``f.part.0`` and such count for ``f``."""
    found: dict[str, int] = {}
    for facts in made:
        for name, size in facts.functions.items():
            own = name.partition(".")[0]
            if own in called:
                found[own] = found.get(own, 0) + size
    return dict(sorted(found.items(), key=lambda f: (-f[1], f[0])))


def _text(facts: ObjectFacts, called: Container[str]) -> int:
    """Bytes of the functions that are ``called``: if all are, with what is between them."""
    own = _functions([facts], called)
    whole = sum(own.values()) == sum(facts.functions.values())
    return _in_sections(facts, (".text",)) if whole else sum(own.values())


def _in_sections(facts: ObjectFacts, kinds: Sequence[str], but: Sequence[str] = ()) -> int:
    """Bytes of the sections of some kinds: ``.text`` and ``.text.unlikely`` are one."""

    def is_one(name: str, of: Sequence[str]) -> bool:
        return any(name == kind or name.startswith(f"{kind}.") for kind in of)

    return sum(size for name, size in facts.sections.items() if is_one(name, kinds) and not is_one(name, but))
