"""Indents kernel templates by the depth of their C (``python tools/indent_templates.py`` rewrites them).

A line of C stands as deep as the braces and parentheses around it. A control line stands where the C that it
governs begins, and the line that ends it no deeper:

    //% for i in kept                                      //% for i in kept
    for (int32_t i0 = 0; i0 < 8; ++i0) {                   for (int32_t i0 = 0; i0 < 8; ++i0) {
    //% endfor                                             //% endfor
    top = 0;                             becomes               top = 0;
    //% for i in kept                                      //% for i in kept
    }                                                      }
    //% endfor                                             //% endfor

The branches of an `if` begin at one depth; what comes behind goes on from the depth that the last of them left. Of
what a macro prints nothing is known but that its braces are closed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEP = "    "
NOT_CODE = re.compile(r'/\*.*?(\*/|$)|"(?:[^"\\]|\\.)*"|\{\{.*?\}\}')
OPENERS = ("if", "for", "macro", "call")
MARGIN = ("//#", "#")
"""Comments of templates and directives of the preprocessor keep their place."""


@dataclass(frozen=True)
class Depth:
    """Open braces and parentheses."""

    braces: int = 0
    parentheses: int = 0

    def behind(self, line: str) -> Depth:
        code = NOT_CODE.sub("", line)
        braces = self.braces + code.count("{") - code.count("}")
        return Depth(max(braces, 0), self.parentheses + sum(map(code.count, "([")) - sum(map(code.count, ")]")))

    def of(self, line: str) -> int:
        """How deep a line stands that begins here."""
        code = NOT_CODE.sub("", line)
        closing = len(code) - len(code.lstrip("}"))
        return max(self.braces - closing, 0) + (self.parentheses > 0)


def _control(line: str) -> str:
    """The word of a control line, or nothing."""
    found = re.match(r"//%-?\s*(\w+)", line)
    return found[1] if found else ""


def _next_code(lines: Sequence[str], at: int) -> str:
    """The first line of C from ``at`` on."""
    return next((s for s in lines[at:] if s and not s.startswith(("//", *MARGIN))), "")


def indented(text: str) -> str:
    """The template, each line at its depth."""
    lines = [line.strip() for line in text.splitlines()]
    out: list[str] = []
    depth = Depth()
    opened: list[tuple[str, Depth, int]] = []  # the word, the depth in front of it, how deep its line stands
    in_comment = False
    for at, (raw, line) in enumerate(zip(text.splitlines(), lines, strict=True)):
        word = _control(line)
        if not line or in_comment or line.startswith(MARGIN):
            out.append(raw.rstrip())
            in_comment = in_comment and "*/" not in line
        elif not word:
            out.append(STEP * depth.of(line) + line)
            depth = depth.behind(line)
            in_comment = "/*" in line and "*/" not in line[line.rindex("/*") :]
        elif word in OPENERS:
            column = depth.of(_next_code(lines, at))
            opened.append((word, depth, column))
            out.append(STEP * column + line)
        elif word in ("else", "elif") and opened:
            depth = opened[-1][1]
            out.append(STEP * opened[-1][2] + line)
        elif word.startswith("end") and opened:
            begun, before, column = opened.pop()
            out.append(STEP * min(column, depth.braces) + line)
            depth = before if begun in ("macro", "call") else depth
        else:
            out.append(STEP * depth.of(_next_code(lines, at)) + line)
    return "\n".join(out) + "\n"


def templates() -> list[Path]:
    """The templates that hold C."""
    return sorted((ROOT / "kernels_templates").rglob("*.[ch].j2"))


def main() -> int:
    for path in templates():
        text = path.read_text(encoding="utf-8")
        if indented(text) != text:
            path.write_text(indented(text), encoding="utf-8")
            print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
