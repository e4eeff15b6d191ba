"""The version of the compiler, the one place where it is written; and the commit, where it runs from a checkout."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"


def commit() -> str:
    """The commit of the checkout that this runs from, as it was last checked out; empty for an installed package."""
    git = Path(__file__).resolve().parent.parent / ".git"
    try:
        if git.is_file():  # a further worktree
            git = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        ref = head.removeprefix("ref:").strip()
        common = git / "commondir"
        shared = (git / common.read_text().strip()).resolve() if common.is_file() else git
        loose = shared / ref
        if loose.is_file():
            return loose.read_text().strip()
        packed = (line.split() for line in (shared / "packed-refs").read_text().splitlines())
        return next((words[0] for words in packed if words[1:] == [ref]), "")
    except OSError:
        return ""


def version_text() -> str:
    """The version, with the commit where it runs from a checkout: ``0.1.0+g32f3b8e4``."""
    found = commit()
    return f"{__version__}+g{found[:8]}" if found else __version__
