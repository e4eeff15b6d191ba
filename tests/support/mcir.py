"""Files of passes in IR text: parts with titles, and the CHECK lines (syntax of LLVM's FileCheck) of each.

A file begins with ``// passes: name, name``, then perhaps ``// target: name``, and what ``--weights`` or
``--precision`` says as ``// weights: i8``; its parts are separated by ``// -----`` and begin with a comment that
names them (`KINDS`), in front of which a part may have a target of its own.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

KINDS = ("hit", "miss", "trap")
"""How titles begin: what a pass does; what it leaves, with the reason; what looks like a hit or like a miss."""
REASON = r"// CHECK.*: remark: not .*: \S+ \S+ \S+"
"""The CHECK line of a miss."""


@dataclass(frozen=True)
class Part:
    path: Path
    title: str
    names: tuple[str, ...]
    target: str
    text: str
    weights: str = ""
    precision: str = ""

    @property
    def kind(self) -> str:
        return self.title.partition(": ")[0]


def read_parts(folder: Path) -> list[Part]:
    """The parts of every .mcir file in a folder."""
    found = []
    for path in sorted(folder.glob("*.mcir")):
        header, _, body = path.read_text().partition("\n")
        assert header.startswith("// passes: "), f"{path.name} does not begin with its passes"
        names = tuple(header.removeprefix("// passes: ").split(", "))
        said, body = _said(body)
        for part in body.split("// -----\n"):
            own, text = _said(part)
            title = re.search(r"// (.*)", text)
            assert title is not None, f"a part of {path.name} has no title"
            found.append(Part(path, title[1], names, text=text, **{"target": "generic"} | said | own))
    return found


def _said(text: str) -> tuple[dict[str, str], str]:
    """What the first lines say of the target and of options, and the rest."""
    said = {}
    while more := re.match(r"// (target|weights|precision): (\S+)\n", text):
        said[more[1]], text = more[2], text[more.end() :]
    return said, text


def misfit(checks: str, text: str) -> str:
    """What FileCheck says of a text that does not fit the CHECK lines; empty if it fits."""
    options = Options(match_filename="<checks>")
    lines = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
    matcher = Matcher(options, FInput("<passes>", text), lines)
    matcher.stderr = io.StringIO()
    return matcher.stderr.getvalue() or "it does not match" if matcher.run() else ""
