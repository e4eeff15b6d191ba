"""Files that are written whole or not at all.

Worked example: ``with written_whole(Path("net.onnx")) as staged: staged.write_bytes(data)`` writes a file
``.4711-1f0c9a2b-net.onnx`` and gives it the name net.onnx at the end. Where the block fails, net.onnx is what it was.
What is no file, such as /dev/null or a pipe, keeps its place: it is written to.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(result: Path) -> Iterator[Path]:
    """A name to write a new file to, which becomes ``result`` where nothing fails, with the modes that the user's
    umask gives. OSError if it cannot be written."""
    if not result.name:  # '' is the folder '.', and no file
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(result))
    if result.exists() and not (result.is_file() or result.is_dir()):
        with tempfile.TemporaryDirectory() as folder:
            staged = Path(folder, result.name)
            yield staged
            with staged.open("rb") as made, result.open("wb") as device:
                shutil.copyfileobj(made, device)
        return
    staged = result.with_name(f".{os.getpid()}-{secrets.token_hex(4)}-{result.name}")
    staged.touch()
    staged.unlink()
    try:
        yield staged
        os.replace(staged, result)
    finally:
        staged.unlink(missing_ok=True)
