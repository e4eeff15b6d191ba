"""Write what is said of options where users read it: docs/options.md, and the types of Python's arguments."""

from __future__ import annotations

import textwrap
from pathlib import Path

from mccompile.api.functions import BUILD, COMPILE, INSPECT
from mccompile.api.options import options_in, type_of
from mccompile.search.options import SECTIONS, Declared, declared

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "options.md"
TYPES = ROOT / "mccompile" / "api" / "arguments.py"
WIDTH = 118
CLASSES = {"BuildOptions": ("", BUILD), "InspectOptions": ("", INSPECT), "CompileOptions": ("BuildOptions", COMPILE)}
"""Class -> the one that it extends, and the groups of options that it has then."""

COLUMNS = "| command line | Python | default | since | |\n|---|---|---|---|---|\n"
HEAD = """# Options

Written by `make docs` from `mccompile/search/options.py`. Functions of Python take them as arguments by name: see
[python.md](python.md). `-` in the place of a model is an `.onnx` file on stdin:
`make_net | mccompile - -o out/ --name net`.

Shells complete commands and options where they are told to, in `~/.bashrc`, `~/.zshrc` or a file of
`~/.config/fish/completions`:

```console
$ eval "$(_MCCOMPILE_COMPLETE=bash_source mccompile)"     # bash
$ eval "$(_MCCOMPILE_COMPLETE=zsh_source mccompile)"      # zsh
$ _MCCOMPILE_COMPLETE=fish_source mccompile | source      # fish
```
"""
TYPES_HEAD = '''"""The types of options that functions of `mccompile` take by name.

Written by `make docs` from `mccompile/search/options.py`: do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict
'''


def page() -> str:
    """docs/options.md."""
    parts = [HEAD]
    for section in SECTIONS:
        rows = [_row(*option) for option in declared() if option[1].section == section]
        parts += [f"\n## {section}\n\n{COLUMNS}", *rows] if rows else []
    return "".join(parts)


def _row(name: str, told: Declared, default: object) -> str:
    flags = ", ".join(f"`{flag}`" for flag in told.flags) + (f" `{told.metavar}`" if told.metavar else "")
    shown = f"`{default}`" if default or (default == 0 and not isinstance(default, bool)) else ""
    text = told.help.partition("  [default")[0].replace("|", "\\|")
    python = f"`{name}`" if told.in_python else ""
    return f"| {flags} | {python} | {shown} | {told.since} | {text} |\n"


def types() -> str:
    """mccompile/api/arguments.py."""
    parts = [TYPES_HEAD]
    for name, (base, groups) in CLASSES.items():
        known = {option[0] for option in options_in(*CLASSES[base][1])} if base else set()
        parts.append(f"\n\nclass {name}({base or 'TypedDict'}, total=False):\n")
        parts += [_field(o[0], o[1]) for o in options_in(*groups) if o[0] not in known]
    return "".join(parts)


def _field(name: str, told: Declared) -> str:
    text = told.text.replace("\\", "\\\\")
    said = f'"""{text[0].upper()}{text[1:]}"""'
    lines = textwrap.wrap(said, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"    {name}: {type_of(name, told)}\n" + "\n".join(lines) + "\n"


def main() -> None:
    PAGE.write_text(page())
    TYPES.write_text(types())


if __name__ == "__main__":
    main()
