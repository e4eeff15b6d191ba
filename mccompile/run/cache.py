"""The cache of what was built: files named by what they were made of, with the digest of what they hold.

What is found is run, so it is believed only if nobody else can have put it there: the file is the user's own or
root's, nobody else may write it, and it has the digest that lies beside it. Anything else is made anew.

    ~/.cache/mccompile            drwxr-xr-x me      taken
    /srv/cache                    drwxrwxrwt root    its folder user-1000, which is mine, is taken
    /srv/cache                    drwxrwxrwx root    refused: others can put folders in the place of mine

Others may read what is there: a build by root serves all users. The cache is bounded: where there is more than
`MOST_BYTES`, what was not used for longest goes until half of that is left.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mccompile.ir.errors import CompileError
from mccompile.ir.whole import written_whole

MOST_BYTES = 1_000_000_000

ONE_IN = 16
"""New files after which the size is looked at."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_HAS_OWNERS = hasattr(os, "geteuid")
"""Not on Windows, where a user's cache folder is the user's."""


class CacheError(CompileError):
    """The folder cannot be written, or others can replace what is in it."""


def cache_dir() -> Path:
    """Where built libraries are kept: $MCC_CACHE, or the user's cache folder."""
    if os.environ.get("MCC_CACHE"):
        return Path(os.environ["MCC_CACHE"]).absolute()  # the C compiler runs in another folder
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mccompile"


def cached(name: str, make: Callable[[Path], object]) -> Path:
    """The file of a name, which says all that it is made of; where there is none to be believed, ``make`` writes it.

    Raises:
        CacheError: the folder cannot be written, or others can replace what is in it; and what ``make`` raises.
    """
    return found(name) or stored(name, make)


def found(name: str) -> Path | None:
    """The file of a name, if there is one to be believed. CacheError as for `cached`."""
    with _usable():
        path = _folder() / name
        return path if _believed(path) else None


def stored(name: str, make: Callable[[Path], object]) -> Path:
    """The file of a name, as ``make`` writes it now. CacheError as for `cached`."""
    with _usable():
        folder = _folder()
        result = folder / name
        with written_whole(result) as staged:
            make(staged)
            staged.chmod(staged.stat().st_mode & ~_OTHERS_WRITE)
            digest = digest_of(staged)
        with written_whole(_seal(result)) as staged:
            staged.write_text(digest)
        if secrets.randbelow(ONE_IN) == 0:
            prune(folder, MOST_BYTES)
    return result


@contextmanager
def _usable() -> Iterator[None]:
    """CacheError where the system refuses what is done with the folder."""
    try:
        yield
    except OSError as e:
        raise CacheError(
            f"the cache folder {cache_dir()} cannot be written: {e.strerror}", hint="set MCC_CACHE to one that can"
        ) from e


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; it is read piece by piece: weights may be most of what memory holds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def prune(folder: Path, most: int) -> None:
    """Where there is more, the files that were not used for longest go until half of it is left."""
    files = sorted(_files(folder), key=lambda f: f[0].st_mtime)
    total = sum(found.st_size for found, _ in files)
    if total <= most:
        return
    for found, path in files:
        if _used_since(path, found):  # by another process, while this one was looking
            continue
        path.unlink(missing_ok=True)
        total -= found.st_size
        if total <= most // 2:
            break


def _used_since(path: Path, found: os.stat_result) -> bool:
    try:
        return path.stat().st_mtime_ns != found.st_mtime_ns
    except FileNotFoundError:  # another process prunes
        return False


def _folder() -> Path:
    """The cache's folder, made if it is not there: one in which nobody else can put a file under a name of ours."""
    folder = cache_dir()
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    found = folder.stat()
    if not _HAS_OWNERS or not found.st_mode & _OTHERS_WRITE:
        return folder
    if found.st_mode & stat.S_ISVTX:
        own = folder / f"user-{os.geteuid()}"
        own.mkdir(mode=0o755, exist_ok=True)
        found = own.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE:
            return own
        folder = own
    raise CacheError(
        f"others can change what is in the cache folder {folder}, which is run",
        hint=f"chmod go-w {folder}, or set MCC_CACHE to a folder of your own", code="unsafe-cache",
    )


def _believed(result: Path) -> bool:
    """Whether a file is there that can only be ours or root's, whole; it counts as used now."""
    try:
        found = result.lstat()
        if not stat.S_ISREG(found.st_mode) or not _safe(found) or not _safe(_seal(result).lstat()):
            return False
        if _seal(result).read_text() != digest_of(result):
            return False
    except (FileNotFoundError, UnicodeDecodeError):
        return False
    for path in (result, _seal(result)):
        with suppress(OSError):  # root's
            os.utime(path)
    return True


def _safe(found: os.stat_result) -> bool:
    return not _HAS_OWNERS or (found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE)


def _seal(result: Path) -> Path:
    """The file of a file's digest."""
    return result.with_name(f"{result.name}.sha256")


def _files(folder: Path) -> Iterator[tuple[os.stat_result, Path]]:
    for path in folder.glob("*"):
        try:
            found = path.stat()
        except FileNotFoundError:  # another process prunes
            continue
        if stat.S_ISREG(found.st_mode):
            yield found, path
