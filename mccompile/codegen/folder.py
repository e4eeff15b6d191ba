"""Files into a folder: all of them or none, whenever the process ends.

What is to be in the folder is made beside it, and takes its place in one system call:

    out/ has kws.c, kws.h and the user's notes.txt      .out.mccompile-k3x/ gets the new kws.c and kws.h,
                                                        and further names (hard links) of notes.txt and of what stays
    the two names are exchanged                         out/ is the new folder, .out.mccompile-k3x/ the old one
    .out.mccompile-k3x/ goes

Where the system has no such call, or lets nobody write beside the folder, files are replaced one by one. report.json
goes first then and comes last, so that a folder of two compilations has none, and nothing loads it.

A user's file is never replaced: report.json lists what is ours, and most of our files say so in their first lines.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from mccompile._files import parsed_json
from mccompile.codegen.pieces import Bytes, Files, pieces_of
from mccompile.ir.errors import CompileError, UsageError

LAST = "report.json"
"""Without it, `mccompile.load` and `bench` do not take a folder."""

WHILE_REPLACED = "report.json.replaced"
"""Its name while files are replaced one by one: what is ours is known after an end in between, too."""

_MARKS = (b"mccompile", b"MCCB")
"""Words in the beginnings of our files, and that of a blob."""

LEFT_ALONE = 3600.0
"""Seconds after which the folder that an ended process has left beside ours is nobody's."""

_AT_A_TIME = 1 << 20
"""Bytes of a file that are read at a time."""

_HERE = -100
_EXCHANGE = 2
"""AT_FDCWD and RENAME_EXCHANGE of renameat2(2)."""


def require_writable(out: Path) -> None:
    """What `write_folder` would raise for a folder that cannot be written to, or made."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder")
    there = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    try:
        Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=there)).rmdir()
    except OSError as e:
        raise CompileError(f"cannot write to {out}: {e.strerror}") from e


def write_folder(out: Path, files: Files) -> None:
    """Write files into a folder, all or none; other files that are there stay, and those that are equal are not
    touched. A link in the folder that has the name of a file, or of a folder of files, is replaced, never followed.

    Raises:
        UsageError: ``out`` is a file, or a file would replace a folder in it or a file that is not ours.
        CompileError: it cannot be written.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder")
    real = Path(os.path.realpath(out))  # of links that lead to themselves, `resolve` raises no OSError
    try:
        if not real.exists() and _made(real, files):
            return
        with _locked(real):
            changed = {name: data for name, data in files.items() if not _holds(real, name, data)}
            _require_ours(real, changed)
            if changed and not _exchanged(real, changed):
                with _stage(real, ".mccompile-") as stage:
                    _fill(stage, changed)
                    _one_by_one(stage, real, changed)
    except OSError as e:
        raise CompileError(f"cannot write to {out}: {e.strerror}") from e


def _made(out: Path, files: Files) -> bool:
    """Make the folder. False where another process has made it meanwhile."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with _beside(out) as stage:
        _fill(stage, files)
        stage.chmod(0o755)
        try:
            stage.rename(out)
        except OSError:
            if not out.is_dir():
                raise
            return False
    return True


def _holds(folder: Path, name: str, data: Bytes) -> bool:
    """Whether a file is there as it is to be, not by a link: what was built of it need not be built again."""
    path = folder / name
    if any(p.is_symlink() for p in _inside(folder, name)) or not path.is_file():
        return False
    try:
        return path.stat().st_size == len(data) and _reads(path, data)
    except FileNotFoundError:  # where there are no locks: another process has moved it meanwhile
        return False


def _reads(path: Path, data: Bytes) -> bool:
    """Whether a file's bytes are these. It is read bit by bit: weights may be most of what memory holds."""
    with path.open("rb") as file:
        for piece in pieces_of(data):
            for at in range(0, len(piece), _AT_A_TIME):
                part = piece[at : at + _AT_A_TIME]
                if file.read(len(part)) != part:
                    return False
    return True


def _require_ours(folder: Path, names: Collection[str]) -> None:
    """UsageError if one of the names is that of a folder or of a user's file: one that no report lists, and that does
    not say itself that it is ours."""
    listed = _listed(folder / LAST) | _listed(folder / WHILE_REPLACED)
    for name in names:
        path = folder / name
        if not path.exists() or path.is_symlink():
            continue
        if path.is_dir():
            raise UsageError(f"{path} is a folder, and a file of this name is to be written", hint=_ELSEWHERE)
        try:
            with path.open("rb") as file:
                begin = file.read(1024)
        except FileNotFoundError:  # as in `_holds`: none is there that would be replaced
            continue
        if name not in listed and not any(mark in begin for mark in _MARKS):
            raise UsageError(f"{path} is not of mccompile, and would be replaced", hint=_ELSEWHERE)


_ELSEWHERE = "choose another folder for the output, or move it away"


def _listed(report: Path) -> set[str]:
    """The files that a report names, its own among them; none if it is no report."""
    try:
        return {LAST, *parsed_json(report.read_bytes())["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def of_before(out: Path, files: Collection[str]) -> list[str]:
    """What an earlier compilation has left in a folder and these files do not replace: its report lists it."""
    return sorted(name for name in _listed(out / LAST) - {LAST, *files} if (out / name).is_file())


def _inside(folder: Path, name: str) -> Iterator[Path]:
    """The file of a name and the folders between it and ``folder``, outermost first."""
    for part in Path(name).parts:
        folder /= part
        yield folder


@contextmanager
def _stage(parent: Path, prefix: str) -> Iterator[Path]:
    """A folder of our own, which goes at the end; so do those that ended processes have left."""
    for left in parent.glob(f"{prefix}*"):
        with suppress(FileNotFoundError):  # its process has ended meanwhile
            if left.stat().st_mtime < time.time() - LEFT_ALONE:
                shutil.rmtree(left, ignore_errors=True)
    stage = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Another process that writes into the folder waits: what has changed is true until it is written."""
    if fcntl is None:
        yield
        return
    while True:
        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # of a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(handle), folder.stat()):  # else the lock is that of the folder before
                yield
                return
        finally:
            os.close(handle)


def _beside(out: Path) -> AbstractContextManager[Path]:
    return _stage(out.parent, f".{out.name}.mccompile-")


def _fill(stage: Path, files: Files) -> None:
    for name, data in files.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        with (stage / name).open("wb") as file:
            file.writelines(pieces_of(data))


def _exchanged(out: Path, changed: Files) -> bool:
    """Put a folder with changed files in the place of ``out`` at once. False, and nothing done, where that cannot be:
    for want of the call or of rights, because folders of others are mounted in it, or the process is in it."""
    try:
        if Path.cwd().is_relative_to(out) or out.stat().st_uid != os.geteuid():
            return False
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    try:
        with _beside(out) as stage:
            _fill(stage, changed)
            _link(out, stage)
            if exchange(_HERE, os.fsencode(stage), _HERE, os.fsencode(out), _EXCHANGE) != 0:
                return False
            _move(stage, out)
    except OSError:
        return False
    return True


def _link(old: Path, new: Path) -> None:
    """Whatever is in one folder and not in the other gets a second name there. OSError where it cannot."""
    shutil.copystat(old, new)
    for entry in os.scandir(old):
        other = new / entry.name
        if entry.is_dir(follow_symlinks=False):
            if os.path.ismount(entry.path):
                raise OSError(f"{entry.path} is mounted")
            other.mkdir(exist_ok=True)
            _link(Path(entry.path), other)
        elif not os.path.lexists(other):
            os.link(entry.path, other, follow_symlinks=False)


def _move(old: Path, new: Path) -> None:
    """What others have written into the old folder since it was looked at follows into the new one."""
    for entry in os.scandir(old):
        other = new / entry.name
        if not os.path.lexists(other):
            os.rename(entry.path, other)
        elif entry.is_dir(follow_symlinks=False) and other.is_dir():
            _move(Path(entry.path), other)


def _one_by_one(stage: Path, out: Path, changed: Files) -> None:
    """Move files into their places, the report last."""
    report, hidden = out / LAST, out / WHILE_REPLACED
    if report.exists():
        report.rename(hidden)
    for name in sorted(changed, key=lambda name: name == LAST):
        *folders, file = _inside(out, name)
        for folder in folders:
            if folder.is_symlink():
                folder.unlink()
            folder.mkdir(exist_ok=True)
        (stage / name).replace(file)
    if hidden.exists():
        hidden.unlink() if LAST in changed else hidden.rename(report)
