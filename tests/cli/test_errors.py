"""Bad input: one clear message each, exit code 1 or 2, no traceback, nothing half-written."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from mccompile._files import is_same_place
from tests.cli.conftest import Run, floats, save, spawn

RELU = helper.make_node("Relu", ["x"], ["y"], name="act")


def truncated(folder: Path) -> Path:
    whole = save(folder / "m.onnx", [RELU], [floats("x", [1, 4])])
    whole.write_bytes(whole.read_bytes()[:-7])
    return whole


def no_protobuf(folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_text("this is no model\n" * 20)
    return path


def empty(folder: Path) -> Path:
    path = folder / "m.onnx"
    path.touch()
    return path


def unknown_operator(folder: Path) -> Path:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["f"], name="first"),
        helper.make_node("Twiddle", ["f"], ["y"], name="second"),
    ]
    return save(folder / "m.onnx", nodes, [floats("x", [1, 4])])


def missing_dim(folder: Path) -> Path:
    return save(folder / "m.onnx", [RELU], [floats("x", [1, "width"])])


def string_input(folder: Path) -> Path:
    node = helper.make_node("Unique", ["x"], ["y"])
    return save(folder / "m.onnx", [node], [helper.make_tensor_value_info("x", TensorProto.STRING, [1])])


def cyclic(folder: Path) -> Path:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="one"),
        helper.make_node("Relu", ["a"], ["b"], name="two"),
        helper.make_node("Relu", ["b"], ["y"], name="three"),
    ]
    return save(folder / "m.onnx", nodes, [floats("x", [1, 4])])


def undefined(folder: Path) -> Path:
    return save(folder / "m.onnx", [helper.make_node("Add", ["x", "z"], ["y"])], [floats("x", [1, 4])])


def wrong_rank(folder: Path) -> Path:
    nodes = [helper.make_node("Conv", ["x", "x"], ["y"], name="conv")]
    return save(folder / "m.onnx", nodes, [floats("x", [1, 4])])


MODELS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "truncated": (truncated, "not a readable ONNX"),
    "no protobuf": (no_protobuf, "ONNX"),
    "empty": (empty, "empty"),
    "unknown operator": (unknown_operator, "Frobnicate"),
    "missing dim": (missing_dim, "--dim width=N; N is a number, or a range (1..64)"),
    "string input": (string_input, "Unique of string"),
    "cycle": (cyclic, "cycle"),
    "undefined value": (undefined, "'z'"),
    "wrong rank": (wrong_rank, "node 0 'conv' Conv(f32[1,4], f32[1,4])"),
}


@pytest.mark.parametrize("case", MODELS)
def test_bad_models(run: Run, tmp_path: Path, case: str) -> None:
    make, expected = MODELS[case]
    path = make(tmp_path)
    result = run(path, "-o", tmp_path / "out")
    assert result.exit_code == 1
    clear(result.stderr, expected)
    assert result.stdout == ""
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def clear(stderr: str, expected: str) -> None:
    """One message that says what is expected, and no sign of Python."""
    assert expected in stderr
    assert stderr.startswith("error: ")
    assert stderr.count("error: ") == 1
    for sign in ("Traceback", "internal error", 'File "'):
        assert sign not in stderr


def test_all_unsupported_nodes_are_named(run: Run, tmp_path: Path) -> None:
    result = run(unknown_operator(tmp_path), "-o", tmp_path / "out")
    assert "Frobnicate" in result.stderr
    assert "Twiddle" in result.stderr


def test_nodes_of_one_operator_are_one_line(run: Run, tmp_path: Path) -> None:
    nodes = [helper.make_node("Rleu", [f"x{i}"], [f"x{i + 1}"], name=f"act{i}") for i in range(5)]
    nodes[0].input[0], nodes[-1].output[0] = "x", "y"
    path = save(tmp_path / "m.onnx", nodes, [floats("x", [1, 4])])
    result = run(path, "-o", tmp_path / "out")
    shown = "operator Rleu is not supported: 5 nodes, first node 0 'act0', node 1 'act1', node 2 'act2'"
    clear(result.stderr, shown)
    assert "act3" not in result.stderr
    assert "was Relu meant?" in result.stderr


def test_an_operator_of_another_domain_may_be_the_users_own_c(run: Run, tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx", [helper.make_node("LowPass", ["x"], ["y"], domain="com.acme")], [floats("x", [4])]
    )
    result = run(path, "-o", tmp_path / "out")
    clear(result.stderr, "operator com.acme:LowPass is not supported")
    assert "--custom-op com.acme:LowPass=lowpass.h" in result.stderr


def test_definitions_blame_the_node_of_the_file(run: Run, tmp_path: Path) -> None:
    """Clip of a bool has no definition that fits: the error is about the node, not about what it is made of."""
    node = helper.make_node("SequenceMap", ["s"], ["y"], name="each", body=helper.make_graph(
        [helper.make_node("Frobnicate", ["e"], ["f"], name="inside")], "body",
        [floats("e", [2])], [floats("f", [2])],
    ))  # fmt: skip
    made = helper.make_node("SequenceConstruct", ["x"], ["s"], name="one")
    path = save(tmp_path / "m.onnx", [made, node], [floats("x", [2])])
    error = json.loads(run(path, "-o", tmp_path / "out", "--json").stdout)["error"]
    assert "Frobnicate" in error["operators"]


def test_failures_are_data_for_programs(run: Run, tmp_path: Path) -> None:
    done = run(unknown_operator(tmp_path), "-o", tmp_path / "out", "--json")
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["exit_code"], done.exit_code) == ("unsupported-operator", 1, 1)
    assert error["operators"] == {"Frobnicate": 1, "Twiddle": 1}
    assert error["nodes"][0] == {"index": 0, "name": "first", "operator": "Frobnicate"}
    assert done.stderr.startswith("error: ")


CODES: dict[str, tuple[list[str], str]] = {
    "no file": (["nothing.onnx", "-o", "out"], "no-file"),
    "option": (["small.onnx", "-o", "out", "--fast"], "usage"),
    "value": (["small.onnx", "-o", "out", "--target", "z80"], "usage"),
    "memory": (["small.onnx", "-o", "out", "--ram", "16"], "does-not-fit"),
    "text": (["conftest.onnx", "-o", "out"], "no-onnx"),
}


@pytest.mark.parametrize("case", CODES)
def test_codes(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(model.parent)
    Path("conftest.onnx").write_text("no model")
    args, code = CODES[case]
    done = run(*args, "--json")
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["exit_code"]) == (code, done.exit_code)


def archive(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name in names:
            file.writestr(name, b"x")
    return data.getvalue()


FOREIGN = {
    "net.pt": (archive("net/data.pkl", "net/version"), "torch.onnx.export"),
    "net.keras": (archive("config.json", "model.weights.h5"), "model.export"),
    "net.npz": (archive("x.npy"), "--inputs"),
    "net.zip": (archive("net.onnx"), "unpack it"),
    "net.tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "tf2onnx.convert --tflite"),
    "net.h5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "model.export"),
    "saved.pb": (b"\x08\x01\x12\x02ab", "--saved-model"),
    "net.onnx": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "page.onnx": (b"\n<!DOCTYPE html><html></html>", "download the file itself"),
    "old.pkl": (b"\x80\x04\x95" + bytes(20), "torch.onnx.export"),
    "net.ort": (b"\x20\0\0\0ORTM" + bytes(20), ".onnx file that it was made of"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_that_are_no_onnx_are_called_what_they_are(run: Run, tmp_path: Path, name: str) -> None:
    data, hint = FOREIGN[name]
    (tmp_path / name).write_bytes(data)
    done = run(tmp_path / name, "-o", tmp_path / "out")
    assert done.exit_code == 1
    clear(done.stderr, hint)


USAGE: dict[str, tuple[list[str], str]] = {
    "no file": (["nothing.onnx", "-o", "out"], "there is no file"),
    "folder": ([".", "-o", "out"], "folder"),
    "target": (["small.onnx", "-o", "out", "--target", "z80"], "known targets"),
    "level": (["small.onnx", "-o", "out", "-O7"], "the levels are"),
    "pass": (["small.onnx", "-o", "out", "--print-after", "dream"], "unknown pass"),
    "opt pass": (["opt", "small.onnx", "-p", "dream"], "known passes"),
    "opt out": (["opt", "small.onnx", "-o", "x.txt"], ".mcir"),
    "rank": (["small.onnx", "-o", "out", "--input-shape", "x=2,4,1"], "2 axes"),
    "extent": (["small.onnx", "-o", "out", "--input-shape", "x=3,4"], "axis 0"),
    "input name": (["small.onnx", "-o", "out", "--input-shape", "z=3,4"], "no graph input named 'z'"),
    "input word": (["small.onnx", "-o", "out", "--input-shape", "x=3,four"], "whole number"),
    "input form": (["small.onnx", "-o", "out", "--input-shape", "x"], "has to be like"),
    "dim name": (["small.onnx", "-o", "out", "--dim", "n=3"], "no graph input has a dim"),
    "dim twice": (["small.onnx", "-o", "out", "--dim", "n=3", "--dim", "n=4"], "given twice"),
    "out is a file": (["small.onnx", "-o", "small.onnx"], "is a file"),
    "ram": (["small.onnx", "-o", "out", "--ram", "lots"], "is no size"),
    "operator": (["small.onnx", "-o", "out", "--kernel", "fold=x"], "unknown operator"),
    "kernel": (["small.onnx", "-o", "out", "--kernel", "matmul=x"], "matmul.generic"),
    "growth": (["small.onnx", "-o", "out", "--max-blob-growth", "nan"], "not a number"),
    "option": (["small.onnx", "-o", "out", "--fast"], "--fast"),
    "no out": (["small.onnx"], "-o"),
    "command": (["inspct", "small.onnx"], "did you mean 'inspect'"),
    "two models": (["small.onnx", "small.onnx", "-o", "out"], "--project"),
    "inputs": (["small.onnx", "-o", "out", "--inputs", "x.npz"], "--golden"),
    "dump": (["small.onnx", "-o", "out", "--dump-dir", "small.onnx"], "cannot be made"),
    "check inputs": (["check", "small.onnx", "--inputs", "x.npz"], "there is no file"),
    "digit first": (["small.onnx", "-o", "out", "--name", "3bad"], "--name t3bad would do"),
    "word of C": (["small.onnx", "-o", "out", "--name", "int"], "--name net_int would do"),
    "upper case": (["small.onnx", "-o", "out", "--name", "Small"], "--name small would do"),
    "web": (["https://example.com/m.onnx", "-o", "out"], "nothing is downloaded"),
    "no operator": (["ops", "Covn"], "was Conv"),
    "labels": (["check", "small.onnx", "--labels", "x.npy"], "there is no file"),
    "tolerance": (["check", "small.onnx", "--rtol", "-1"], "rtol is -1"),
    "seed": (["check", "small.onnx", "--seed", "-1"], "seed is -1"),
    "large extent": (["small.onnx", "-o", "out", "--dim", f"n={9**30}"], "no extent is above"),
    "large range": (["small.onnx", "-o", "out", "--dim", f"n=1..{9**30}"], "no extent is above"),
    "large choice": (["small.onnx", "-o", "out", "--dim", f"n=1,{9**30}"], "no extent is above"),
    "large ram": (["small.onnx", "-o", "out", "--ram", "9" * 400], "is no size"),
    "two checks": (["check", "small.onnx", "small.onnx", "--inputs", "x.npz"], "are of one model"),
}


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(model.parent)
    args, expected = USAGE[case]
    result = run(*args)
    assert result.exit_code == 2
    clear(result.stderr, expected)
    assert [p.name for p in model.parent.iterdir()] == ["small.onnx"]


def _headed(count: int) -> bytes:
    """An array of f32 as its header says, of which hardly anything is there."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count},), }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)


DAMAGED = {
    "empty": b"",
    "more than can be": _headed(2**70),
    "more than there is": _headed(2**40),
    "header": b"\x93NUMPY\x01\x00\x10\x00{garbage 12345678",
    "archive": b"PK\x03\x04garbage",
}


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_arrays(run: Run, model: Path, case: str, suffix: str) -> None:
    path = model.with_name(f"x.{suffix}")
    path.write_bytes(DAMAGED[case])
    done = run("check", model, "--inputs", path)
    assert done.exit_code == 1
    clear(done.stderr, "cannot be read")
    if suffix == "npy":
        done = run(model, "-o", model.with_name("out"), "--constant", f"x={path}")
        assert done.exit_code == 2
        clear(done.stderr, "cannot be read")


def test_an_archive_whose_data_is_damaged_and_an_array_of_another_suffix(run: Run, model: Path) -> None:
    path = model.with_name("x.npz")
    np.savez_compressed(path, x=np.arange(4096, dtype=np.float32))
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(60)
    path.write_bytes(data)
    for _ in range(2):
        done = run("check", model, "--inputs", path)
        assert done.exit_code == 1
        clear(done.stderr, "the arrays cannot be read")
        np.save(path.with_suffix(".npy"), np.ones(4))
        path.with_suffix(".npy").rename(path)


def test_an_open_range_is_refused_clearly(run: Run, tmp_path: Path) -> None:
    result = run(missing_dim(tmp_path), "-o", tmp_path / "out", "--dim", "width=1..")
    assert result.exit_code == 2
    clear(result.stderr, "--dim width=1..1024")


def test_files_of_another_compilation_that_stay_are_named(run: Run, model: Path) -> None:
    out = model.parent / "out"
    assert "earlier" not in run(model, "-o", out, "--embed").stderr
    assert "earlier" not in run(model, "-o", out, "--embed").stderr
    again = run(model, "-o", out, "--name", "other")
    assert "note: of an earlier compilation" in again.stderr
    for name in ("small.c", "small.h", "small.mcb"):
        assert name in again.stderr
        assert (out / name).exists()
    assert "CMakeLists.txt" not in again.stderr


def test_unwritable_folder(run: Run, model: Path) -> None:
    before = model.read_bytes()
    result = run(model, "-o", model / "out")  # a file is no place for a folder, even for root
    assert result.exit_code == 1
    clear(result.stderr, "cannot write to")
    assert model.read_bytes() == before


def test_unwritable_golden_folder_leaves_nothing(run: Run, model: Path) -> None:
    result = run(model, "-o", model.parent / "out", "--golden", model / "golden")
    assert result.exit_code == 1
    clear(result.stderr, "cannot write to")
    assert [p.name for p in model.parent.iterdir()] == ["small.onnx"]


def test_weights_may_grow_without_end(run: Run, model: Path) -> None:
    assert run(model, "-o", model.parent / "out", "--max-blob-growth", "inf", "-q").exit_code == 0


def test_folder_that_is_there_is_all_that_is_written_to(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one around it may belong to somebody else, as that of a mounted volume."""
    out = model.parent / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    real = tempfile.mkdtemp

    def guarded(*args: str, **rest: str) -> str:
        if Path(rest["dir"]) == model.parent:
            raise PermissionError(13, "Permission denied")
        return real(*args, **rest)

    monkeypatch.setattr(tempfile, "mkdtemp", guarded)
    assert run(model, "-o", out, "-q").exit_code == 0
    assert (out / "small.c").exists()
    assert (out / "notes.txt").read_text() == "mine"
    assert not [p for p in out.iterdir() if p.name.startswith(".")]


LONG = "a" * 300
NAMES_TOO_LONG: list[list[object]] = [
    [f"{LONG}.onnx", "-o", "o"], ["inspect", f"{LONG}.onnx"], ["diff", LONG, LONG], ["opt", f"{LONG}.mcir"],
    ["check", "MODEL", "--inputs", f"{LONG}.npy"], ["MODEL", "-o", LONG], ["MODEL", "-o", "o", "--golden", LONG],
]  # fmt: skip


@pytest.mark.parametrize("args", NAMES_TOO_LONG, ids=lambda a: str(a)[:20])
def test_names_that_the_system_refuses_are_no_bugs(
    args: list[object], run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    done = run(*(model if a == "MODEL" else a for a in args))
    assert done.exit_code in (1, 2)
    clear(done.stderr, "File name too long")


def test_a_folder_that_is_a_link_to_itself(run: Run, model: Path) -> None:
    link = model.with_name("out")
    link.symlink_to("out")
    for out in (link, link / "below"):
        done = run(model, "-o", out)
        assert done.exit_code == 1
        clear(done.stderr, f"cannot write to {out}")
    assert not is_same_place(link, model)


@pytest.mark.thorough
@pytest.mark.parametrize(("closed", "args"), [(1, []), (2, []), (1, ["check"]), (2, ["check"])])
def test_streams_that_are_closed(closed: int, args: list[str], model: Path) -> None:
    """As services and some build tools call programs."""
    rest = [] if args else ["-o", model.parent / "out"]
    done = spawn([*args, model, *rest, "--target", "generic"], preexec_fn=lambda: os.close(closed))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_input_is_no_model() -> None:
    done = spawn(["-", "-o", "out"], preexec_fn=lambda: os.close(0))
    assert done.returncode == 2
    clear(done.stderr[done.stderr.find("error: ") :], "stdin is closed")


@pytest.mark.parametrize("args", [["diff", "REPORT", "REPORT"], ["MODEL", "-o", "out", "--tuning", "REPORT"]])
def test_json_of_many_levels_is_refused(args: list[str], run: Run, model: Path) -> None:
    report = model.with_name("report.json")
    report.write_text("[" * 200_000)
    named = {"REPORT": report, "MODEL": model, "out": model.with_name("out")}
    done = run(*(named.get(a, a) for a in args))
    assert done.exit_code == 2
    clear(done.stderr, "report.json")


def test_failed_write_leaves_nothing(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    def full(self: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        if self.suffix == ".mcb" and mode == "wb":
            raise OSError(28, "No space left on device")
        return real(self, mode, *more, **named)

    monkeypatch.setattr(Path, "open", full)
    result = run(model, "-o", model.parent / "out")
    assert result.exit_code == 1
    clear(result.stderr, "No space left on device")
    assert [p.name for p in model.parent.iterdir()] == ["small.onnx"]


def test_a_failure_keeps_what_was_there(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(model, "-o", out).exit_code == 0
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    assert run(model, "-o", out, "--ram", "16").exit_code == 1
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_internal_errors_are_called_bugs(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("mccompile.driver.fit", broken)
    result = run(model, "-o", model.parent / "out")
    assert result.exit_code == 70
    assert "internal error: ZeroDivisionError: planted" in result.stderr
    assert "please report" in result.stderr
    assert "Traceback" not in result.stderr
    monkeypatch.setenv("MCC_DEBUG", "1")
    result = run(model, "-o", model.parent / "out")
    assert "Traceback" in result.stderr
    assert result.exit_code == 70
    assert [p.name for p in model.parent.iterdir()] == ["small.onnx"]


def test_interrupt(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mccompile.driver.fit", interrupted)
    result = run(model, "-o", model.parent / "out")
    assert result.exit_code == 130
    assert "Traceback" not in result.output
    assert [p.name for p in model.parent.iterdir()] == ["small.onnx"]


@pytest.mark.thorough
def test_closed_pipe(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = spawn(["ops", "--json"], stdout=writer, cwd=tmp_path)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141
