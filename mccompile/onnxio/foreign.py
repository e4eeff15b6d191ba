"""What a file is that is no ONNX model, told by its first bytes, and how an ONNX model is made of it.

    1c 00 00 00 "TFL3" ...     "a TensorFlow Lite model", "python -m tf2onnx.convert --tflite ..."
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable

from mccompile._dataclass import dataclass

PYTORCH = "export it where it was made: torch.onnx.export(model, (example,), 'net.onnx')"
KERAS = "export it where it was made: model.export('net.onnx', format='onnx'), or python -m tf2onnx.convert --keras"
TENSORFLOW = "python -m tf2onnx.convert --saved-model FOLDER --output net.onnx (a frozen graph: --graphdef FILE)"
ANY_MAKER = "export it where it was made: torch.onnx.export, skl2onnx.to_onnx, or what its framework offers"


@dataclass(frozen=True)
class Foreign:
    """What a file is, and what to do with it."""

    what: str
    hint: str


def foreign(data: bytes, suffix: str) -> Foreign | None:
    """What the bytes of a file are, if they are of a kind that is taken for a model; None where nobody knows.

    ``suffix`` is that of the file's name: some kinds begin with nothing of their own.
    """
    for begins, found in _KINDS:
        if begins(data):
            return found(data) if callable(found) else found
    return _SUFFIXES.get(suffix.lower())


def _at(place: int, *marks: bytes) -> Callable[[bytes], bool]:
    return lambda data: any(data[place : place + len(mark)] == mark for mark in marks)


def _text(pattern: bytes) -> Callable[[bytes], bool]:
    return lambda data: re.match(pattern, data[:200].lstrip(b"\xef\xbb\xbf \t\r\n"), re.I) is not None


def _zip(data: bytes) -> Foreign:
    """An archive, by the names of what is in it."""
    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except zipfile.BadZipFile:
        return Foreign("a damaged zip archive", "get the file again")
    if any(name.endswith(".onnx") for name in names):
        return Foreign("a zip archive that holds a model", "unpack it, and name the .onnx file in it")
    if any(name.endswith((".pkl", ".pt2", "/version")) for name in names):
        return Foreign("a PyTorch model or its weights", PYTORCH)
    if any(name.endswith(".weights.h5") for name in names):
        return Foreign("a Keras model", KERAS)
    if any(name.endswith(".npy") for name in names):
        return Foreign("arrays of NumPy (.npz)", "name the .onnx file; arrays are given with --inputs")
    return Foreign("a zip archive", "unpack it, and name the .onnx file")


_KINDS: tuple[tuple[Callable[[bytes], bool], Foreign | Callable[[bytes], Foreign]], ...] = (
    (_text(rb"version https://git-lfs"), Foreign(
        "a pointer of git-lfs: the model itself was not fetched", "git lfs pull")),
    (_text(rb"<!doctype html|<html"), Foreign(
        "a web page, not the file that it shows", "download the file itself ('raw', 'resolve' instead of 'blob')")),
    (_at(4, b"TFL3"), Foreign(
        "a TensorFlow Lite model", "python -m tf2onnx.convert --tflite net.tflite --output net.onnx")),
    (_at(4, b"ORTM"), Foreign(
        "a model in the ORT format of onnxruntime", "name the .onnx file that it was made of")),
    (_at(0, b"\x89HDF\r\n\x1a\n"), Foreign("an HDF5 file, as Keras writes models (.h5)", KERAS)),
    (_at(0, b"PK\x03\x04"), _zip),
    (_at(0, b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), Foreign(
        "a pickle of Python objects, as PyTorch and scikit-learn write models", ANY_MAKER)),
    (_at(0, b"GGUF"), Foreign("a GGUF file: weights without a network", ANY_MAKER)),
    (_at(8, b'{"'), Foreign("a safetensors file: weights without a network", ANY_MAKER)),
    (_at(0, b"\x1f\x8b"), Foreign("compressed by gzip", "unpack it: gunzip")),
    (_at(0, b"\x93NUMPY"), Foreign(
        "an array of NumPy (.npy)", "name the .onnx file; arrays are given with --inputs")),
    (_text(rb"<\?xml"), Foreign("XML, as OpenVINO writes networks", "name the .onnx file that it was made of")),
)  # fmt: skip
"""How files begin, in the order in which they are looked at."""

_SUFFIXES = {
    ".pb": Foreign("a TensorFlow model, as far as its name tells", TENSORFLOW),
    ".pt": Foreign("a PyTorch model, as far as its name tells", PYTORCH),
    ".pth": Foreign("a PyTorch model, as far as its name tells", PYTORCH),
    ".tflite": Foreign("a damaged TensorFlow Lite model, as far as its name tells", "get the file again"),
    ".h5": Foreign("a damaged Keras model, as far as its name tells", "get the file again"),
}
"""By the names of files that begin like anything."""
