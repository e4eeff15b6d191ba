"""The wheel and the editable installation, each in an empty environment: data files and command are found."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from mccompile._data import data_dir
from mccompile._version import __version__

ROOT = Path(__file__).resolve().parents[2]

WHERE = "import mccompile, mccompile._data as d; print(mccompile.__file__); print(d.data_dir())"


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def new_environment(folder: Path) -> Path:
    """An environment that sees this one's dependencies, so that no network is needed -> its python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    purelib = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    # A .pth file in a folder that a .pth file names is not read: an editable mccompile stays out of sight.
    paths = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (Path(purelib) / "dependencies.pth").write_text("\n".join(paths) + "\n")
    return python


def install(python: Path, *what: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install"]
    offline = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    run(*pip, *offline, *what, cwd=python.parent)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", dist, ROOT, cwd=dist)
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = new_environment(tmp_path_factory.mktemp("wheel"))
    install(python, wheel)
    return python


def data_files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for part in ("kernels_templates", "runtime_c")
        for path in (folder / part).rglob("*")
        if path.is_file()
    }


def test_data_dir_of_the_checkout() -> None:
    assert data_dir() == ROOT
    assert {"runtime_c/mcc.h", "runtime_c/mcc.c"} <= data_files(ROOT)


def test_wheel_holds_every_package_and_data_file_and_nothing_else(wheel: Path) -> None:
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    sources = (".py", ".c", ".h", ".S", ".ld", ".cmake", ".css", ".j2", ".js", ".json")
    modules = {str(p.relative_to(ROOT)) for p in (ROOT / "mccompile").rglob("*") if p.suffix in sources}
    data = {f"mccompile/_bundled/{name}" for name in data_files(ROOT)}
    assert names == modules | data | {"mccompile/py.typed"}
    assert wheel.name == f"mccompile-{__version__}-py3-none-any.whl"


def test_wheel_in_an_empty_environment(wheel_python: Path, tmp_path: Path) -> None:
    module, data = run(wheel_python, "-c", WHERE, cwd=tmp_path).splitlines()
    assert Path(module).is_relative_to(wheel_python.parents[1])
    assert Path(data) == Path(module).resolve().parent / "_bundled"
    assert data_files(Path(data)) == data_files(ROOT)


def test_command_of_the_wheel_answers(wheel_python: Path, tmp_path: Path) -> None:
    help_text = run(wheel_python.with_name("mccompile"), "--help", cwd=tmp_path)
    assert "Usage: mccompile" in help_text


def test_wheel_compiles_the_example(wheel_python: Path, tmp_path: Path) -> None:
    run(wheel_python.with_name("mccompile"), ROOT / "examples/digits/digits.onnx", "-o", "out", cwd=tmp_path)
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"digits.c", "digits.h", "digits.mcb", "mcc.c", "mcc.h"} <= written


def test_editable_installation_uses_the_checkout(tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv")
    install(python, "-e", ROOT)
    module, data = run(python, "-c", WHERE, cwd=tmp_path).splitlines()
    assert Path(module) == ROOT / "mccompile" / "__init__.py"
    assert Path(data) == ROOT
