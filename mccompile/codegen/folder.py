"""Files into a folder: all of them or none."""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mccompile.ir.errors import CompileError, UsageError


def require_writable(out: Path) -> None:
    """What `write_folder` would raise for a folder that cannot be written to, or made."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder")
    there = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    try:
        Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=there)).rmdir()
    except OSError as e:
        raise CompileError(f"cannot write to {out}: {e.strerror}") from e


def write_folder(out: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, all or none; other files that are there stay, and those that are equal are not
    touched. UsageError if it is a file.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # Inside of a folder that is there: the one around it may belong to somebody else.
        stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out if out.exists() else out.parent))
    except OSError as e:
        raise CompileError(f"cannot write to {out}: {e.strerror}") from e
    try:
        for name, data in files.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).write_bytes(data)
        if out.exists():
            for name in files:
                _renew(stage / name, out / name)
        else:
            stage.chmod(0o755)
            stage.rename(out)
    except OSError as e:
        raise CompileError(f"cannot write to {out}: {e.strerror}") from e
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _renew(new: Path, old: Path) -> None:
    """Put a file where another is, unless they are equal: then what was built of it need not be built again."""
    old.parent.mkdir(parents=True, exist_ok=True)
    if old.is_symlink() or not old.is_file() or not filecmp.cmp(new, old, shallow=False):
        new.replace(old)
