"""Gathers the documents for the site (``make site``): those of docs/ and beside it, with links as they lie there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
"""Documents outside of docs/, and their names on the site."""
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def moved(text: str, folder: Path) -> str:
    """A document of ``folder`` with its links as they are on the site; what is not on it becomes plain text.

    ``[x](docs/ir.md#y)`` becomes ``[x](ir.md#y)``.
    """

    def link(found: re.Match[str]) -> str:
        path = (folder / found[2]).resolve()
        if path.is_relative_to(ROOT / "docs"):
            return f"[{found[1]}]({path.relative_to(ROOT / 'docs').as_posix()}{found[3] or ''})"
        if path.parent == ROOT and path.name in BESIDE:
            return f"[{found[1]}]({BESIDE[path.name]}{found[3] or ''})"
        return f"{found[1]} (`{path.relative_to(ROOT)}`)"

    return LINK.sub(link, text)


def main() -> None:
    out = ROOT / "build" / "docs"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for path in sorted((ROOT / "docs").iterdir()):
        if path.suffix == ".md":
            (out / path.name).write_text(moved(path.read_text(encoding="utf-8"), path.parent), encoding="utf-8")
        elif path.is_dir():
            shutil.copytree(path, out / path.name)
        else:
            shutil.copy(path, out)
    for name, page in BESIDE.items():
        (out / page).write_text(moved((ROOT / name).read_text(encoding="utf-8"), ROOT), encoding="utf-8")


if __name__ == "__main__":
    main()
