"""Compilations that were made before: the same files again, without compiling; anything else is compiled."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from mccompile import plugins
from mccompile.cli import compile as compile_command
from mccompile.cli.main import cli
from mccompile.run import kept
from mccompile.run.cache import CacheError
from mccompile.search.options import Declared, declared
from mccompile.targets.target import targets


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x[2] * w, where w is in a file of its own."""
    weights = numpy_helper.from_array(np.arange(512, dtype=np.float32), "w")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [512]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path = tmp_path / "net.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def compiled(*words: object) -> Result:
    done = CliRunner().invoke(cli, [*map(str, words), "--target", "generic"])
    assert done.exit_code == 0, done.output
    return done


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


HEAVY = ("numpy", "jinja2", "onnx", "mccompile.driver")

COMMAND = f"""
import sys
from mccompile.cli.main import cli
try:
    cli.main(sys.argv[1:])
except SystemExit as end:
    print(end.code, [m for m in {HEAVY} if m in sys.modules], file=sys.stderr)
"""


def test_the_same_again_is_copied_and_nothing_heavy_is_imported(model: Path, cache: Path, tmp_path: Path) -> None:
    first = compiled(model, "-o", tmp_path / "a")
    words = [sys.executable, "-c", COMMAND, model, "-o", tmp_path / "b", "--target", "generic"]
    again = subprocess.run([*map(str, words)], capture_output=True, text=True, check=True)
    assert again.stderr == "0 []\n"
    assert again.stdout == first.stdout.replace(str(tmp_path / "a"), str(tmp_path / "b"))
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_what_differs_is_compiled(model: Path, cache: Path, tmp_path: Path) -> None:
    def kept_after(*words: object) -> int:
        compiled(*words, "-o", tmp_path / "out", "-q")
        return len(list(cache.glob("*.compiled")))

    assert kept_after(model) == kept_after(model) == 1
    assert kept_after(model, "--embed") == 2
    assert kept_after(model, "--ram", "1M") == 3
    assert kept_after(model, "--constant", f"x={_saved(tmp_path / 'x.npy', 1)}") == 4
    assert kept_after(model, "--constant", f"x={_saved(tmp_path / 'x.npy', 2)}") == 5
    named = shutil.copy(model, tmp_path / "other.onnx")
    assert kept_after(named) == 6
    weights = tmp_path / "w.bin"
    weights.write_bytes(weights.read_bytes()[::-1])
    before = files(tmp_path / "out")
    assert kept_after(named) == 7
    assert files(tmp_path / "out") != before


def _saved(path: Path, value: float) -> Path:
    np.save(path, np.full(512, value, np.float32))
    return path


def test_a_changed_compiler_finds_nothing(model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kept.kept([model], "generic", {})
    monkeypatch.setattr(kept, "_digest_of_all", lambda folder: "another")
    assert before != kept.kept([model], "generic", {})


OF_KIND = {
    "text": ("cortex-m3", "cortex-m4"),
    "flag": (None,),
    "count": ("2", "3"),
    "level": ("1", "s"),
    "size": ("64K", "65K"),
    "path": ("one.npz", "two.npz"),
    "memory": ("fast:1K,slow:2K", "fast:2K,slow:1K"),
    "targets": ("x86-64-v2,x86-64-v3", "x86-64-v3,x86-64-v4"),
    "effort": ("0", "3"),
    "factor": ("0.5", "0.25"),
    "io": ("caller", "quantized"),
    "random": ("input",),
    "requant": ("tflite",),
    "formats": ("x=u8", "x=i8"),
    "streaming": ("never", "always"),
    "dims": ("n=1", "n=2"),
    "bounds": ("n=1", "n=2"),
    "limits": ("tensor-elements=100", "tensor-elements=200"),
    "shapes": ("x=1,2", "x=12"),
    "constants": ("x=1", "x=1.0"),
    "states": ("y=x", "x=y"),
    "weights": ("i8", "y=i8"),
    "precision": ("f16", "y=f16"),
    "kernels": ("conv=conv.generic", "map=map.generic"),
}
"""Values of an option of each kind that are none's default."""

BESIDE = {"inputs": ["--golden", "tests"], "share_arena": ["--project", "several"]}
"""What options are of use with."""

OF_NO_FILE = {
    "models", "out", "depfile", "print_after", "print_after_all", "dump_dir", "remarks", "no_cache", "reports",
    "verbose", "quiet", "as_json",
}  # fmt: skip
"""Parameters of the command that what is kept does not depend on: models are asked by their content, others say what
is done besides, or that nothing is kept."""


@pytest.fixture
def key(model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """What the compilation of a command would be kept as; "" where nothing is kept."""
    asked: list[str] = []
    made = dict(targets())

    def compiled(*args: object) -> dict[str, object]:
        asked.append(args[-1].name if isinstance(args[-1], kept.Kept) else "")
        return {}

    def forget() -> None:
        plugins._functions.clear()
        plugins._added.clear()
        for clear in plugins._registries:
            clear()

    def of(*words: object) -> str:
        forget()
        told = [*map(str, words)]
        target = [] if "--target" in told or "--targets" in told else ["--target", "generic"]
        with monkeypatch.context() as patched:
            patched.chdir(tmp_path)
            patched.setattr(compile_command, "_compiled", compiled)
            done = CliRunner().invoke(cli, [str(model), "-o", "out", "-q", *target, *told])
        assert done.exit_code == 0, done.output
        return asked.pop()

    yield of
    forget()
    targets().update(made)


@pytest.mark.parametrize(("name", "told"), [(name, told) for name, told, _ in declared() if told.flags])
def test_values_of_options_are_told_apart(name: str, told: Declared, key: Callable[..., str]) -> None:
    """Each value has a key of its own, or nothing is kept where it is given."""
    beside = BESIDE.get(name, [])
    values = [[told.flags[-1], *([] if value is None else [value])] for value in OF_KIND[told.kind]]
    keys = [key(*beside, *words) for words in ([], *values)]
    kept_apart = [one for one in keys if one]
    assert len(set(kept_apart)) == len(kept_apart)
    assert keys[0] or "--golden" in beside


def test_every_parameter_of_the_command_is_asked_for_here() -> None:
    own = {param.name for param in compile_command.compile_.params}
    assert own - {name for name, _, _ in declared()} == OF_NO_FILE | {"custom_op", "plugin"}


def test_functions_of_c_are_told_apart(key: Callable[..., str], tmp_path: Path) -> None:
    """By what they compute, their header, their C, and their twin."""
    keys = [key()]
    for name, text in (("f.h", "int a;"), ("f.h", "int b;"), ("f.c", "int c;"), ("f.py", "d"), ("f.py", "e")):
        (tmp_path / name).write_text(text)
        keys += [key("--custom-op", f"com.acme:{op}=f.h") for op in ("One", "Two")]
    keys.append(key("--custom-op", "com.acme:One=f.h", "--custom-op", "com.acme:Two=f.h"))
    assert all(keys)
    assert len(set(keys)) == len(keys)
    assert key("--custom-op", "com.acme:Two=f.h") == keys[-2]


def test_plugins_are_told_apart(key: Callable[..., str], tmp_path: Path) -> None:
    """By all that their modules may import or read; what lies beside that, and caches of Python, are none of it."""
    (tmp_path / "acme" / "ops" / "__pycache__").mkdir(parents=True)
    keys = [key(), key("--plugin", "acme")]
    for name in ("ops/a.py", "ops/b.py", "ops/table.json", "ops/inner/c.py", "kernels_templates/d.c.j2", "common.py"):
        path = tmp_path / "acme" / name
        path.parent.mkdir(exist_ok=True)
        for text in ("", "# more"):
            path.write_text(text)
            keys.append(key("--plugin", "acme"))
    assert all(keys)
    assert len(set(keys)) == len(keys)
    for name in ("ops/__pycache__/a.pyc", "README.md"):
        (tmp_path / "acme" / name).write_text("")
    assert key("--plugin", "acme") == keys[-1]


def test_weights_outside_of_the_folder_are_not_looked_at(model: Path, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "w.bin").unlink()
    (tmp_path / "w.bin").symlink_to("/dev/zero")
    assert kept.kept([model], "generic", {}) is None


@pytest.mark.parametrize("words", [("--no-cache",), ("--golden", "tests")])
def test_what_is_not_kept(words: Sequence[str], model: Path, cache: Path, tmp_path: Path) -> None:
    compiled(model, "-o", tmp_path / "out", *(tmp_path / w if w == "tests" else w for w in words))
    assert not list(cache.glob("*.compiled"))


def test_the_largest_are_not_kept(model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LARGEST", 10_000)
    compiled(model, "-o", tmp_path / "out")
    assert not list(cache.glob("*.compiled"))


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("folder", ["/proc/nothing", "others", "file"])
def test_a_cache_that_cannot_be_used_is_done_without(
    folder: str, external: bool, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others").chmod(0o777)
    (tmp_path / "file").touch()
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / folder))
    if not external:
        onnx.save_model(onnx.load(model), model)
    done = compiled(model, "-o", tmp_path / "out")
    assert "nothing is kept for the next time" in done.stderr
    assert (tmp_path / "out" / "net.c").exists()
    assert not compiled(model, "-o", tmp_path / "out", "-q").stderr


def test_what_cannot_be_kept_is_compiled(
    model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(name: str, make: object) -> Path:
        raise CacheError("the disk is full")

    monkeypatch.setattr(kept, "stored", full)
    done = compiled(model, "-o", tmp_path / "out")
    assert "note: the disk is full: nothing is kept for the next time" in done.stderr
    assert (tmp_path / "out" / "net.c").exists()


@pytest.mark.parametrize("before", range(4))
def test_a_word_is_found_wherever_blocks_of_the_file_end(
    before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_BLOCK", 8)
    (tmp_path / "with").write_bytes(b"a" * (8 * 3 - before) + b"word" + b"a" * 3)
    (tmp_path / "without").write_bytes(b"a" * (8 * 3 - before) + b"wor" + b"a" * 3)
    assert kept._holds(tmp_path / "with", b"word")
    assert not kept._holds(tmp_path / "without", b"word")
