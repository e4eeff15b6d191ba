"""What the tools of a compiler tell of an object file: its functions, its sections, what it asks of others, stack.

Of a file with one function that calls expf, `arm-none-eabi-gcc -Os -fstack-usage` and its nm and size tell

    usage      f.c:3:7:f  24  static        functions  {"f": 58}
    undefined  ["expf"]                     sections   {".text": 58, ".rodata": 16}
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.run.build import compiler_version, run_compiler
from mccompile.run.cache import cached

_CODE = "tTwW"
"""The letters of nm for functions."""


@dataclass(frozen=True)
class ObjectFacts:
    """An object file.

    Attributes:
        usage: the text of its .su file: the stack of each function; None where the compiler does not tell.
        undefined: the symbols that it asks of others.
        functions: bytes of code by name; parts that a compiler splits off have names of their own (``f.part.0``).
        sections: bytes by name.
    """

    usage: str | None
    undefined: Sequence[str]
    functions: Mapping[str, int]
    sections: Mapping[str, int]


def object_facts(
    compiler: Sequence[str], flags: Sequence[str], source: Path, include: Sequence[Path]
) -> ObjectFacts:
    """Compile a C file with headers in some folders, and ask; what is told is kept in the cache by content.

    Raises:
        CompileError: the compiler complains, or its nm or size cannot be run.
    """
    key = hashlib.sha256(shlex.join([*compiler, *flags, source.name]).encode() + compiler_version(compiler).encode())
    headers = [path for folder in include for path in sorted(folder.glob("*.h"))]
    for path in (source, *headers):
        key.update(hashlib.sha256(path.read_bytes()).digest())

    def make(result: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="mccompile-object-") as folder:
            made = Path(folder, "made.o")
            places = [part for folder in include for part in ("-I", str(folder.absolute()))]
            asked = [*flags, *places, "-fstack-usage", "-c", str(source.absolute()), "-o", str(made)]
            run_compiler([*compiler, *asked], source.parent)
            told = made.with_suffix(".su")
            stack = told.read_text(errors="replace") if told.exists() else None
            facts = ObjectFacts(stack, *_symbols(compiler, made), _sections(compiler, made))
        result.write_text(json.dumps(asdict(facts)))

    kept = cached(f"{key.hexdigest()[:32]}.object", make)
    return ObjectFacts(**json.loads(kept.read_text()))


def _symbols(compiler: Sequence[str], made: Path) -> tuple[list[str], dict[str, int]]:
    """What an object asks of others, and the bytes of its functions."""
    undefined: list[str] = []
    functions: dict[str, int] = {}
    for line in _asked(compiler, "nm", "-P", str(made)).splitlines():
        name, kind, *where = line.split()
        if kind == "U":
            undefined.append(name)
        elif kind in _CODE and len(where) == 2:
            functions[name] = int(where[1], 16)
    return undefined, functions


def _sections(compiler: Sequence[str], made: Path) -> dict[str, int]:
    """The sections of an object that have bytes."""
    found: dict[str, int] = {}
    for line in _asked(compiler, "size", "-A", "-d", str(made)).splitlines():
        words = line.split()
        if len(words) == 3 and words[0].startswith(".") and int(words[1]):
            found[words[0]] = int(words[1])
    return found


def _asked(compiler: Sequence[str], tool: str, *arguments: str) -> str:
    """What a tool that belongs to a compiler prints."""
    try:
        named = subprocess.run([*compiler, f"-print-prog-name={tool}"], capture_output=True, text=True, check=True)
        command = [named.stdout.strip() or tool, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except OSError as e:
        raise CompileError(f"the {tool} of {compiler[0]} cannot be run: {e}", hint="install binutils") from e
    except subprocess.CalledProcessError as e:
        raise CompileError(f"the {tool} of {compiler[0]} does not read what that makes") from e
