"""The plugin of examples/plugin: operator, template, pass and target, found by option, by call and by entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import plugins
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ops.registry import lookup
from mccompile.targets.target import targets
from tests._skips import REPOSITORY

FOLDER = REPOSITORY / "examples" / "plugin"
PROGRAM = Path(sys.executable).with_name("mccompile")


def model(folder: Path, share: float) -> Path:
    """Mul, LowPass, Relu on f32[3,16]."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 16]) for name in "xy")
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["a"]),
        helper.make_node("LowPass", ["a"], ["b"], domain="com.acme", share=share),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "net.onnx")
    return folder / "net.onnx"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """No plugin is left, and targets that other tests have made are there again."""
    made = dict(targets())
    yield
    forget()
    targets().update(made)


@pytest.fixture
def acme() -> plugins.Plugin:
    return plugins.add(FOLDER / "acme")


def forget() -> None:
    plugins._added.clear()
    for clear in plugins._registries:
        clear()


def test_folders_that_are_linked_to_are_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "plugin").mkdir()
    (tmp_path / "own" / "a.py").write_text("")
    (tmp_path / "own" / "back").symlink_to(tmp_path / "plugin")
    (tmp_path / "plugin" / "ops").symlink_to(tmp_path / "own")
    (tmp_path / "plugin" / "also").symlink_to("ops")
    made = plugins.Plugin("linked", tmp_path / "plugin", "linked")
    assert made.paths == [tmp_path / "plugin" / folder / "a.py" for folder in ("also", "ops")]


@pytest.mark.parametrize("target", ["generic", "native"])
def test_the_c_computes_what_the_operator_says(target: str, acme: plugins.Plugin, tmp_path: Path) -> None:
    path = model(tmp_path, 0.25)
    made = mccompile.compile(path, tmp_path / "out", target=target)
    assert made.report["plugins"] == [{"name": "acme", "sha256": acme.digest}]
    x = np.random.default_rng(1).normal(0, 1, (3, 16)).astype(np.float32)
    (y,) = mccompile.load(tmp_path / "out").run({"x": x}).values()
    (filtered,) = lookup("low_pass")(0.25).evaluate(2 * x)
    np.testing.assert_allclose(y, np.maximum(filtered, 0), rtol=0, atol=1e-6)


def test_its_pass_runs_where_it_says(acme: plugins.Plugin, tmp_path: Path) -> None:
    report = mccompile.compile(model(tmp_path, 1.0), tmp_path / "out", target="generic").report
    names = [p["name"] for p in report["passes"]]
    assert names[names.index("canonicalize") + 1] == "remove-open-filters"
    assert [p["changes"] for p in report["passes"] if p["name"] == "remove-open-filters"] == [1]
    assert report["kernels"] == {"map.generic": 1}


def test_the_command_line_takes_operator_and_target(tmp_path: Path) -> None:
    path = model(tmp_path, 0.5)
    done = subprocess.run([PROGRAM, path, "-o", tmp_path / "out"], capture_output=True, text=True)
    assert "operator com.acme:LowPass" in done.stderr
    command = [PROGRAM, path, "-o", tmp_path / "out", "--plugin", FOLDER / "acme", "--target", "acme-soc"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["target"]["c_flags"][-1] == "-mslow-flash-data"
    assert "low_pass.generic" in report["kernels"]


def test_an_installed_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    info = tmp_path / "acme-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[mccompile.plugins]\nacme = acme\n")
    (tmp_path / "acme").symlink_to(FOLDER / "acme")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([PROGRAM, "targets"], capture_output=True, text=True, env=env)
    assert "acme-soc" in done.stdout, done.stderr


def test_a_blob_fits_the_program_of_the_same_plugin_alone(tmp_path: Path) -> None:
    """Another template makes another program, though the IR is the same."""
    ids = []
    for text in ("", "//# another version\n"):
        folder = tmp_path / str(len(text)) / "acme"
        for path in (p for p in (FOLDER / "acme").rglob("*") if p.suffix in (".py", ".j2")):
            copy = folder / path.relative_to(FOLDER / "acme")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text((text if path.suffix == ".j2" else "") + path.read_text())
        plugins.add(folder)
        mccompile.compile(model(tmp_path, 0.25), tmp_path / "out", target="generic")
        ids.append((tmp_path / "out" / "net.mcb").read_bytes()[40:56])
        forget()
    assert ids[0] != ids[1]


def test_folders_of_like_names_are_two_plugins(tmp_path: Path) -> None:
    for name in ("a-b", "a_b"):
        (tmp_path / name / "ops").mkdir(parents=True)
    first, second = (plugins.add(tmp_path / name) for name in ("a-b", "a_b"))
    assert first.package != second.package
    assert first == plugins.add(tmp_path / "a-b")


def test_an_installed_plugin_whose_package_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("gone", "nothing_of_this_name.plugin", plugins.GROUP)
    monkeypatch.setattr(plugins, "_entry_points", lambda: [entry])
    forget()
    with pytest.raises(CompileError, match=r"the plugin gone names nothing_of_this_name\.plugin, which is not there"):
        plugins.plugins()


def test_an_installed_plugin_whose_package_raises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "raises_at_once").mkdir()
    (tmp_path / "raises_at_once" / "__init__.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_entry_points", lambda: [EntryPoint("bad", "raises_at_once.plugin", plugins.GROUP)])
    forget()
    with pytest.raises(CompileError, match="ZeroDivisionError"):
        plugins.plugins()


def test_what_is_no_plugin_is_refused(acme: plugins.Plugin, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no plugin"):
        plugins.add(tmp_path)
    (tmp_path / "acme" / "ops").mkdir(parents=True)
    with pytest.raises(UsageError, match="two plugins called acme"):
        plugins.add(tmp_path / "acme")
    (tmp_path / "broken" / "targets").mkdir(parents=True)
    (tmp_path / "broken" / "targets" / "bad.py").write_text("import nothing_of_this_name\n")
    plugins.add(tmp_path / "broken")
    with pytest.raises(CompileError, match="the plugin broken cannot be read: ModuleNotFoundError"):
        mccompile.compile(model(tmp_path, 0.25), tmp_path / "out")
