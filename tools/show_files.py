"""Refresh the file blocks of CONTRIBUTING.md: each "`path`:" followed by a code block shows that file."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^`([\w./]+)`:\n\n```(\w*)\n.*?^```", re.S | re.M)


def refresh(text: str) -> str:
    """``text`` with every block replaced by the file it names."""
    return BLOCK.sub(lambda m: f"`{m[1]}`:\n\n```{m[2]}\n{(ROOT / m[1]).read_text()}```", text)


def main() -> None:
    path = ROOT / "CONTRIBUTING.md"
    path.write_text(refresh(path.read_text()))


if __name__ == "__main__":
    main()
