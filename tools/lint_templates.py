"""Check the kernel templates and the C runtime for the rules that no C compiler checks (``make check``)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import jinja2
from indent_templates import indented

from mccompile.codegen.templates import blocks_of_lines

ROOT = Path(__file__).resolve().parent.parent
LINE_LENGTH = 120
LICENCE = "SPDX-License-Identifier: 0BSD"
LIBRARY = "_lib"
FILES = "_model"
PACKAGES = "_packages"
HOST_PROGRAMS = {
    "emulated_main.c.j2", "example_main.c.j2", "mcc_pool_pthread.c", "print_outputs.c.j2", "test_model.c.j2",
}  # fmt: skip
"""What runs on a host, and prints or starts threads: the rules of firmware do not hold for it."""

FORBIDDEN = {
    r"\b(malloc|calloc|realloc|free|alloca)\s*\(": "allocates memory",
    r"\b(printf|fprintf|sprintf|snprintf|puts|fopen|exit|abort)\s*\(": "uses the hosted library",
    r"#\s*include\s*<(stdio|stdlib|setjmp|signal|time|locale)\.h>": "includes a header that firmware lacks",
    r"\b(setjmp|longjmp|goto)\b": "jumps",
    r"^\s*static\s+(?!.*\bconst\b)[^()]*[=;]": "has a writable static",
}
# In a template, `//` opens a comment unless it is the prefix of a control line, which is cut away as well.
COMMENT = re.compile(r"/\*.*?\*/|\{#.*?#\}|//[^\n]*", re.DOTALL)
TEMPLATE_NAME = re.compile(r"[a-z][a-z0-9_]*\.c\.j2")


def without_comments(text: str) -> str:
    """The text with its comments blanked, so that line numbers stay."""
    return COMMENT.sub(lambda found: "\n" * found.group().count("\n"), text)


def lint_text(text: str, firmware: bool = True, tabs: bool = False) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) by the rules that templates and the runtime share."""
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line and not tabs:
            yield number, "contains a tab"
        if line != line.rstrip():
            yield number, "ends in blanks"
        if len(line.strip()) > LINE_LENGTH:
            yield number, f"is longer than {LINE_LENGTH} characters behind its indentation"
    for number, line in enumerate(without_comments(text).splitlines() if firmware else (), 1):
        for pattern, what in FORBIDDEN.items():
            if re.search(pattern, line):
                yield number, what


def lint_template(text: str, firmware: bool = True, tabs: bool = False) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) for one template."""
    try:
        jinja2.Environment(autoescape=False, extensions=["jinja2.ext.do"]).parse(blocks_of_lines(text))
    except jinja2.TemplateSyntaxError as error:
        yield error.lineno, f"is not a template: {error.message}"
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("{%"):
            yield number, "writes a control line as {% %}: use //%"
    yield from lint_text(text, firmware, tabs)


def lint_indentation(text: str) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) for lines of a template that stand elsewhere than their C is deep."""
    for number, (line, wanted) in enumerate(zip(text.splitlines(), indented(text).splitlines(), strict=True), 1):
        if line != wanted:
            yield number, "is not indented by the depth of its C: run tools/indent_templates.py"


def lint_runtime(text: str, firmware: bool = True) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) for one file of the C runtime."""
    if LICENCE not in text.partition("\n")[0]:
        yield 1, f"does not say {LICENCE}"
    yield from lint_text(text, firmware)


def lint_tree(root: Path) -> Iterator[str]:
    """Everything that is wrong under ``root``, one line each."""
    templates = root / "kernels_templates"
    for folder in sorted(p for p in templates.iterdir() if p.is_dir()):
        where = folder.relative_to(root)
        kernels = folder.name not in (LIBRARY, FILES, PACKAGES)
        if kernels and not (folder / "generic.c.j2").exists():
            yield f"{where}: has no generic.c.j2, which exists before any fast variant"
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if kernels and not TEMPLATE_NAME.fullmatch(path.name):
                yield f"{path.relative_to(root)}: is not called <variant>.c.j2"
            text = path.read_text(encoding="utf-8")
            others = folder.name == PACKAGES  # files of build systems, with rules of their own
            problems = [*lint_template(text, not others and path.name not in HOST_PROGRAMS, tabs=others)]
            if path.name.endswith((".c.j2", ".h.j2")):
                problems += lint_indentation(text)
            for number, what in problems:
                yield f"{path.relative_to(root)}:{number}: {what}"
    for path in sorted((root / "runtime_c").glob("*.[ch]")):
        for number, what in lint_runtime(path.read_text(encoding="utf-8"), path.name not in HOST_PROGRAMS):
            yield f"{path.relative_to(root)}:{number}: {what}"


def main() -> int:
    problems = list(lint_tree(ROOT))
    print("\n".join(problems) or "templates and runtime: no problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
