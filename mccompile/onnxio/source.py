"""Models that are in no file of the user's: bytes, or a `onnx.ModelProto`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import onnx

from mccompile.ir.errors import UsageError

if TYPE_CHECKING:
    ModelLike: TypeAlias = str | PathLike[str] | bytes | onnx.ModelProto

UNNAMED = "network"
"""The name of a model that has none."""
MOST_OF_NAME = 100
"""So many characters of a name are the file's."""


@contextmanager
def as_file(model: ModelLike, name: str = "") -> Iterator[Path]:
    """The path of a model: its own, or that of a temporary file, which lasts as long as the context.

    Args:
        model: a path, the bytes of an .onnx file, or a ModelProto; external data needs a path.
        name: what a temporary file is called; by default as the model's graph is.

    Raises:
        UsageError: it is neither, or a ModelProto of more bytes than protobuf can write.
    """
    if isinstance(model, str | PathLike):
        yield Path(model)
        return
    if isinstance(model, onnx.ModelProto):
        name = name or model.graph.name
        data = _serialised(model)
    elif isinstance(model, bytes | bytearray | memoryview):
        data = bytes(model)
    else:
        raise UsageError(
            f"a model is a path, bytes or a ModelProto, not {type(model).__name__}",
            hint="of a network of PyTorch one is made by torch.onnx.export",
        )
    with tempfile.TemporaryDirectory(prefix="mccompile-model-") as folder:
        stem = _stem(name)
        path = Path(folder) / stem / f"{stem}.onnx"  # a model.onnx is called as its folder is
        path.parent.mkdir()
        path.write_bytes(data)
        yield path


def _stem(name: str) -> str:
    """What a file may be called on any system, of a name that may have any characters and any length."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:MOST_OF_NAME] or UNNAMED


def _serialised(model: onnx.ModelProto) -> bytes:
    try:
        return bytes(model.SerializeToString())
    except ValueError as e:
        hint = "give the path of a file with external data: onnx.save_model"
        raise UsageError(f"the model cannot be written: {e}", hint=hint) from e
