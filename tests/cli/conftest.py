"""Small models, and the commands called as a user calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from mccompile.cli.main import cli

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call a command in this process: ``run("ops", "--json")``."""
    monkeypatch.delenv("MCC_DEBUG", raising=False)

    def call(*args: object) -> Result:
        return CliRunner().invoke(cli, [str(a) for a in args])

    return call


def spawn(args: Sequence[object], **kwargs: object) -> subprocess.CompletedProcess[str]:
    """Run ``python -c 'mccompile ...'`` in a fresh process."""
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": str(root), **kwargs.pop("env", {})}  # type: ignore[dict-item]
    code = "import sys; sys.argv[0] = 'mccompile'; from mccompile.cli.main import main; main()"
    command = [sys.executable, "-c", code, *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
    return subprocess.run(command, text=True, env=env, check=False, **pipes)  # type: ignore[call-overload,no-any-return]


def save(path: Path, nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], **graph: object) -> Path:
    """A model with output ``y`` in a file."""
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_graph(list(nodes), "g", list(inputs), [y], **graph)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def floats(name: str, shape: Sequence[int | str | None]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x[n, 4] -> Relu(x @ w) + 1, where n is no batch: it stands on axis 1 of another input, too."""
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 64], [0.5] * 256)
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("Relu", ["m"], ["r"], name="act"),
        helper.make_node("Add", ["r", "one"], ["y"], name="plus"),
    ]
    return save(tmp_path / "small.onnx", nodes, [floats("x", [2, 4])], initializer=[w, one])
