"""The bytes that are generated depend on model and options alone."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import mccompile
from tests._skips import REPOSITORY
from tests.support.real_models import real_models
from tests.support.small_models import MODELS, Maker, write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
COMPILE = """\
import sys
import mccompile
for level in sys.argv[3].split():
    for name in sys.argv[1].split():
        out = "out_" + level + "_" + name.split("/")[-1]
        mccompile.compile(name, out, target=sys.argv[2], opt_level=level, embed=True)
"""
ENVIRONMENTS = (
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"},
    {"PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "TZ": "Pacific/Chatham", "COLUMNS": "40"},
)


def _older_processor() -> dict[str, str]:
    """What makes numpy and its BLAS run as on a processor of x86-64 that has no AVX."""
    umath = np._core._multiarray_umath if hasattr(np, "_core") else np.core._multiarray_umath  # type: ignore[attr-defined]
    chosen = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(chosen), "OPENBLAS_CORETYPE": "Nehalem"}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _compile_elsewhere(
    models: list[Path], target: str, levels: str, folder: Path, environment: dict[str, str]
) -> None:
    folder.mkdir(parents=True)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON", "TZ"))}
    command = [sys.executable, "-c", COMPILE, " ".join(map(str, models)), target, levels]
    path = {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, cwd=folder, env=clean | path | environment, check=True)


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "levels"), [("generic", "O0 Os"), ("native", "O2")])
def test_same_bytes_in_other_folders_and_environments(target: str, levels: str, tmp_path: Path) -> None:
    models = [DIGITS, *(write_model(name, tmp_path) for name in MODELS)]
    real = [m.path for m in real_models() if m.name in ("kws_dscnn_fp32", "sww_dscnn1d_fp32")]
    folders = [tmp_path / "one", tmp_path / "two" / "further" / "down"]
    for folder, environment in zip(folders, ENVIRONMENTS, strict=True):
        _compile_elsewhere(models + real, target, levels, folder, environment)
    first, second = map(_files, folders)
    assert len(first) >= len(levels.split()) * 9 * len(models)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    for name, data in first.items():
        assert str(tmp_path).encode() not in data, f"{name} tells where it was made"


FUNCTIONS = ("Exp", "Sin", "Cos", "Tan", "Tanh", "Sigmoid", "Softplus", "Elu", "Softmax", "LogSoftmax", "Erf")


def _folded() -> onnx.ModelProto:
    """Functions and products of constants, products that become one, and Winograd's weights."""
    m = Maker()
    x, c = m.input("x", [1, 32, 28, 28]), m.weight((37, 533))
    size = m.node("Abs", [c])
    made = [*(m.node(op, [c]) for op in FUNCTIONS), m.node("Pow", [size, c]), m.node("Log", [size])]
    v = m.node("MatMul", [m.weight((3, 300)), m.weight((300, 533))])
    y = m.node("Relu", [m.node("Conv", [x, m.weight((32, 32, 3, 3))], pads=[1] * 4)])
    first, second = m.node("MatMul", [m.input("rows", [37, 800]), m.weight((800, 40))]), m.weight((40, 533))
    rows = m.node("MatMul", [first, second])
    return m.model([y, *(m.node("Add", [rows, a]) for a in made), m.node("Mul", [m.input("z", [3, 533]), v])])


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="numpy is asked for processors of x86-64")
def test_same_bytes_whatever_processor_compiles(tmp_path: Path) -> None:
    onnx.save(_folded(), tmp_path / "net.onnx")
    for name, environment in (("here", {}), ("older", _older_processor())):
        _compile_elsewhere([tmp_path / "net.onnx"], "x86-64-v4", "O2", tmp_path / name, environment)
    first, second = _files(tmp_path / "here"), _files(tmp_path / "older")
    assert [name for name in first if first[name] != second[name]] == []
    assert b"winograd" in first["out_O2_net.onnx/net.c"]


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "native"])
def test_a_compilation_leaves_no_trace_in_the_process(target: str, tmp_path: Path) -> None:
    """A, B, A, and B on its own in another process."""
    a, b = write_model("residual", tmp_path), write_model("conv_padding", tmp_path)
    results = []
    for i, model in enumerate((a, b, a, b)):
        out = tmp_path / f"out{i}"
        mccompile.compile(model, out, target=target, embed=True)
        results.append(_files(out))
    assert results[0] == results[2]
    assert results[1] == results[3]
    _compile_elsewhere([b], target, "O2", tmp_path / "alone", ENVIRONMENTS[0])
    assert _files(tmp_path / "alone" / f"out_O2_{b.name}") == results[1]


def test_other_options_give_other_bytes(tmp_path: Path) -> None:
    """The comparisons above would not notice a compiler that ignores what it is given."""
    model = write_model("residual", tmp_path)
    seen = set()
    for i, (target, level) in enumerate([("generic", "O0"), ("generic", "O2"), ("x86-64-v3", "O2")]):
        mccompile.compile(model, tmp_path / f"out{i}", target=target, opt_level=level)
        seen.add((tmp_path / f"out{i}" / "residual.c").read_bytes())
    assert len(seen) == 3
