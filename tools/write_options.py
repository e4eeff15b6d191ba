"""Write what is said of options where users read it: docs/options.md, and the docstring of `mccompile.compile`."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from mccompile.search.options import Declared, declared

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "options.md"
MODULE = ROOT / "mccompile" / "__init__.py"
GIVEN = re.compile(r"(        out_dir: [^\n]*\n)(.*?)(?=\n    Raises:)", re.S)
"""The arguments in the docstring, behind the two that are no options."""
WIDTH = 118
GROUPS = {
    "model": ("The model", "What its inputs are."),
    "build": ("Compiling", "What the C is for, and how fast, small and exact it is."),
    "limit": ("The device", "What it has."),
    "output": ("Output", "What is written, and how it is called."),
    "tune": ("Tuning", "Kernels chosen by measurements: see [tuning](tuning.md)."),
}
COLUMNS = "| command line | Python | default | since | |\n|---|---|---|---|---|\n"
HEAD = """# Options

Written by `make docs` from `mccompile/search/options.py`. In Python they are parameters of `mccompile.compile`,
whose docstring says more.
"""


def page() -> str:
    """docs/options.md."""
    parts = [HEAD]
    for group, (title, what) in GROUPS.items():
        parts.append(f"\n## {title}\n\n{what}\n\n{COLUMNS}")
        parts += [_row(*option) for option in declared() if option[1].group == group]
    return "".join(parts)


def _row(name: str, told: Declared, default: object) -> str:
    flags = ", ".join(f"`{flag}`" for flag in told.flags) + (f" `{told.metavar}`" if told.metavar else "")
    shown = f"`{default}`" if default or (default == 0 and not isinstance(default, bool)) else ""
    text = told.help.partition("  [default")[0].replace("|", "\\|")
    python = f"`{name}`" if told.in_python else ""
    return f"| {flags} | {python} | {shown} | {told.since} | {text} |\n"


def arguments() -> str:
    """The lines of the docstring that say what each parameter is."""
    lines: list[str] = []
    for name, told, _ in declared():
        if told.in_python:
            lines += textwrap.wrap(f"{name}: {told.text}", WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return "\n".join(lines) + "\n"


def refreshed(source: str) -> str:
    """The source of `mccompile` with the arguments as they are declared."""
    return GIVEN.sub(lambda m: m[1] + arguments(), source, count=1)


def main() -> None:
    PAGE.write_text(page())
    MODULE.write_text(refreshed(MODULE.read_text()))


if __name__ == "__main__":
    main()
