"""Which files a model is read from: for build systems, which compile it anew when one of them changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import Message

from mccompile.onnxio.proto import require_text
from mccompile.onnxio.read import parse, read_bytes


def model_files(path: Path) -> list[Path]:
    """The model's file and those of its external data.

    Raises UsageError and CompileError as `read_model` does where it is no model.
    """
    places = list(_external(parse(read_bytes(path), path)))
    require_text(*places)
    found = {path.parent / where: None for where in places}
    return [path, *found]


def _external(message: Message) -> Iterator[str]:
    """The locations of external data in a message and those it holds."""
    if isinstance(message, onnx.TensorProto):
        yield from (entry.value for entry in message.external_data if entry.key == "location")
        return
    for kind, value in message.ListFields():
        if kind.message_type is not None:
            for inner in [value] if isinstance(value, Message) else value:
                yield from _external(inner)
