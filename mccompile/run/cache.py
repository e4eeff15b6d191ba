"""The cache of what was built: files named by their content, written whole, for all users who may read the folder.

It is bounded: where there is more than `MOST_BYTES`, what was not used for longest goes until half of that is left.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 1_000_000_000

ONE_IN = 16
"""New files after which the size is looked at."""


def cache_dir() -> Path:
    """Where built libraries are kept: $MCC_CACHE, or the user's cache folder."""
    if os.environ.get("MCC_CACHE"):
        return Path(os.environ["MCC_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mccompile"


def find(result: Path) -> bool:
    """Whether a file is there; it counts as used now."""
    try:
        os.utime(result)
    except FileNotFoundError:
        return False
    except OSError:  # somebody else's
        return result.exists()
    return True


@contextmanager
def adding(result: Path) -> Iterator[Path]:
    """A name to write a new file to, which becomes ``result`` where nothing fails, with the modes that the user's
    umask gives. OSError if the folder cannot be written."""
    result.parent.mkdir(parents=True, exist_ok=True)
    staged = result.with_name(f".{os.getpid()}-{secrets.token_hex(4)}-{result.name}")
    staged.touch()
    staged.unlink()
    try:
        yield staged
        os.replace(staged, result)
    finally:
        staged.unlink(missing_ok=True)
    if secrets.randbelow(ONE_IN) == 0:
        prune(result.parent, MOST_BYTES)


def prune(folder: Path, most: int) -> None:
    """Where there is more, the files that were not used for longest go until half of it is left."""
    files = sorted(_files(folder), key=lambda f: f[0].st_mtime)
    total = sum(found.st_size for found, _ in files)
    if total <= most:
        return
    for found, path in files:
        path.unlink(missing_ok=True)
        total -= found.st_size
        if total <= most // 2:
            break


def _files(folder: Path) -> Iterator[tuple[os.stat_result, Path]]:
    for path in folder.glob("*"):
        try:
            found = path.stat()
        except FileNotFoundError:  # another process prunes
            continue
        if stat.S_ISREG(found.st_mode):
            yield found, path
