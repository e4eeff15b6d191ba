"""Compilations that were made before: their files, kept by all that they are made of.

    mccompile net.onnx -o a/      compiles, and keeps the files of a/ under the digest of what they were made of
    mccompile net.onnx -o b/      finds them: b/ is the same, and nothing that reads or compiles models was imported
    touch net.onnx                it still is: contents count, not times
    echo >> weights.bin           of which net.onnx has its weights: compiled anew, as after any change of an option,
                                  of this package, of a plugin, of the packages that constants are computed with

What a kept file says is believed as `cache.py` believes it. Compilations of more than `LARGEST` bytes are not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from mccompile._data import data_dir
from mccompile._dataclass import dataclass
from mccompile._version import version_text
from mccompile.codegen.pieces import Files, pieces_of
from mccompile.plugins import made_with
from mccompile.run.cache import MOST_BYTES, cached, digest_of, found, stored
from mccompile.targets.target import resolve

LARGEST = MOST_BYTES // 4

_OWN = ("kernels_templates", "runtime_c")
"""What generated files are made of beside this package."""

_PACKAGES = ("jinja2", "numpy", "onnx", "protobuf")
"""Packages that have a say in them."""

_BLOCK = 1 << 20

_EXTERNAL = b"location"
"""The key of external data: a model without this word has none."""


@dataclass(frozen=True)
class Kept:
    """The files of one compilation, in the cache or not."""

    name: str

    def files(self) -> dict[str, bytes] | None:
        """What was kept, by name. CacheError for a folder that cannot be used."""
        path = found(self.name)
        if path is None:
            return None
        with path.open("rb") as file:
            return {name: file.read(size) for name, size in json.loads(file.readline()).items()}

    def keep(self, files: Files) -> None:
        """From now on these. CacheError for a folder that cannot be used."""
        if sum(map(len, files.values())) > LARGEST:
            return
        head = json.dumps({name: len(data) for name, data in files.items()}).encode() + b"\n"

        def write(path: Path) -> None:
            with path.open("wb") as file:
                file.write(head)
                for data in files.values():
                    file.writelines(pieces_of(data))

        stored(self.name, write)


def kept(models: Sequence[Path], target: str, asked: Mapping[str, object]) -> Kept | None:
    """What compiling these models was, or will be; None where that is not to be told without compiling them.

    Args:
        models: .onnx files, in the order of the command.
        target: the name of a target, ``native`` too.
        asked: all options by name.

    Raises:
        CacheError: a folder that cannot be used.
        CompileError, UsageError: a file that holds no model, an unknown target.
    """
    if not all(model.is_file() for model in models):  # a pipe gives what it has once
        return None
    key = hashlib.sha256()
    try:
        for part in (*_compiler(), repr(resolve(target)), _plain(asked)):
            key.update(f"{len(part)} {part}\n".encode())
        for model in models:
            name = [model.name, model.resolve().parent.name]  # what C is called by
            key.update(f"{name} {[digest_of(path) for path in (model, *_beside(model))]}\n".encode())
    except (OSError, RuntimeError, ValueError):  # the compiler says what is wrong with the file
        return None
    return Kept(f"{key.hexdigest()[:32]}.compiled")


def _compiler() -> Iterator[str]:
    """What makes C of models: the sources of this package, plugins, versions of others."""
    yield version_text()
    yield sys.version
    for package in _PACKAGES:
        yield metadata.distribution(package).read_text("METADATA") or package  # `version` parses it for 5 ms
    for made in made_with():
        yield made.key
    for root in (Path(__file__).resolve().parent.parent, *(data_dir() / own for own in _OWN)):
        yield _digest_of_all(root)


def _digest_of_all(folder: Path) -> str:
    """The digest of all files in a folder and those within it, but of what Python keeps there."""
    total = hashlib.sha256()
    for where, inside, names in os.walk(folder):
        inside[:] = sorted(name for name in inside if name != "__pycache__")
        total.update(f"{where.removeprefix(str(folder))}\n".encode())
        for name in sorted(names):
            with open(f"{where}/{name}", "rb", buffering=0) as file:
                data = file.read()
            total.update(f"{name} {len(data)}\n".encode() + data)
    return total.hexdigest()


def _beside(model: Path) -> list[Path]:
    """The files of external data beside a model. ValueError for one that no model may have, OSError for none."""
    if not _holds(model, _EXTERNAL):
        return []

    def look(path: Path) -> None:
        from mccompile.onnxio import model_files

        path.write_text(json.dumps([os.path.relpath(file, model.parent) for file in model_files(model)[1:]]))

    inside = model.parent.resolve()
    named = json.loads(cached(f"{digest_of(model)[:32]}.external", look).read_text())
    files = [(inside / name).resolve() for name in named]
    if not all(file.is_relative_to(inside) and file.is_file() for file in files):
        raise ValueError(named)
    return files


def _holds(path: Path, word: bytes) -> bool:
    """Whether a file holds a word, looked for block by block: the file may be most of what memory holds."""
    end = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if word in end + block:
                return True
            end = block[1 - len(word) :]
    return False


def _plain(value: object) -> str:
    """An option's value as text. ValueError for one that text does not tell apart.

    >>> _plain({"dims": {"n": 1}, "ram": None})
    "{'dims': {'n': 1,}, 'ram': None,}"
    """
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + " ".join(f"{_plain(k)}: {_plain(v)}," for k, v in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "(" + " ".join(f"{_plain(v)}," for v in value) + ")"
    array = getattr(value, "tobytes", None)
    if array is None:
        raise ValueError(value)
    return f"{value.dtype} {value.shape} {hashlib.sha256(array()).hexdigest()}"  # type: ignore[attr-defined]
