"""What the commands do and print when all goes well."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mccompile._version import __version__
from mccompile.kernel_passes.pipeline import KERNEL_PIPELINES, kernel_passes
from mccompile.onnxio import op_names
from mccompile.report.summary import MAX_LINES, summary
from tests.cli.conftest import Run, floats, save, spawn
from tests.support.targets import needs_target


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from mccompile.cli.main import cli\n"
        "try: cli.main([sys.argv[1]])\n"
        "finally: print(sorted({m.split('.')[0] for m in sys.modules} & {'onnx', 'numpy', 'jinja2', 'cffi'}))"
    )
    root = Path(__file__).resolve().parents[2]
    for option, expected in (("--help", "MODEL.onnx -o OUT"), ("--version", __version__)):
        seconds = []
        for _ in range(3):
            before = os.times()
            done = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, cwd=root)
            after = os.times()
            seconds.append(sum(after[2:4]) - sum(before[2:4]))  # of children; on the clock, others have their share
            assert done.returncode == 0
            assert expected in done.stdout
            assert done.stdout.rstrip().endswith("[]")
        assert min(seconds) < 0.8  # 0.06 s on an idle machine; numpy alone would add 0.1 s


def test_default_command(run: Run, model: Path, tmp_path: Path) -> None:
    for number, words in enumerate((["compile", model], [model], ["-q", model])):
        result = run(*words, "-o", tmp_path / f"out{number}")
        assert result.exit_code == 0, result.output
    names = [{p.name: p.read_bytes() for p in (tmp_path / f"out{n}").iterdir()} for n in range(3)]
    assert names[0] == names[1] == names[2]
    assert {"small.c", "small.h", "small.mcb", "mcc.c", "mcc.h", "report.json"} <= names[0].keys()


def test_levels(run: Run, model: Path, tmp_path: Path) -> None:
    for word, level in (("-O0", "O0"), ("-Os", "Os"), ("-OO3", "O3")):
        assert run(model, "-o", tmp_path / "out", word, "-q").exit_code == 0
        assert json.loads((tmp_path / "out" / "report.json").read_text())["options"]["opt_level"] == level


def test_plan_effort(run: Run, model: Path, tmp_path: Path) -> None:
    assert run(model, "-o", tmp_path / "out", "--plan-effort", "3", "-q").exit_code == 0
    assert json.loads((tmp_path / "out" / "report.json").read_text())["options"]["plan_effort"] == 3
    result = run(model, "-o", tmp_path / "out", "--plan-effort", "4")
    assert result.exit_code == 2
    assert "0<=x<=3" in result.stderr


def test_summary(run: Run, model: Path, tmp_path: Path) -> None:
    result = run(model, "-o", tmp_path / "out")
    assert result.stderr == ""
    lines = result.stdout.rstrip().split("\n")
    assert len(lines) <= MAX_LINES
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    for word in ("MACs", f"{2 * 4 * 64:,}", "weights (flash)", "arena (RAM)", "peak", "kernels", "small.c"):
        assert word in result.stdout
    assert f"{report['memory']['arena_bytes']:,}" in result.stdout
    assert run(model, "-o", tmp_path / "out", "-q").output == ""


def test_summary_is_short_whatever_is_in_the_report(run: Run, model: Path, tmp_path: Path) -> None:
    run(model, "-o", tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    report["notes"] = [f"note number {i} " + "word " * 60 for i in range(40)]
    report["outputs"] = [{**report["outputs"][0], "name": f"output{i}"} for i in range(300)]
    report["kernels"] = {f"family.variant{i}": i + 1 for i in range(200)}
    report["memory"]["scratch_bytes"] = 4096
    report["memory"]["gap_percent"] = 3.5
    report["memory"]["alive_at_peak"] = [{"name": "t" * 90 + str(i), "bytes": i} for i in range(50)]
    report["files"] = {f"file_with_a_long_name_{i}.c": 1 for i in range(90)}
    lines = summary(report, "out").split("\n")
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= 120
    assert "3.5 % above the lower bound" in "\n".join(lines)
    assert "more notes" in lines[-1]


def test_json_is_all_there_is_on_stdout(run: Run, model: Path, tmp_path: Path) -> None:
    result = run(model, "-o", tmp_path / "out", "--json", "-v", "--remarks")
    assert json.loads(result.stdout) == json.loads((tmp_path / "out" / "report.json").read_text())


def test_limits(run: Run, model: Path, tmp_path: Path) -> None:
    assert run(model, "-o", tmp_path / "fits", "--ram", "64K", "--flash", "1M").exit_code == 0
    report = json.loads((tmp_path / "fits" / "report.json").read_text())
    arena, blob = report["memory"]["arena_bytes"], report["blob_bytes"]
    assert run(model, "-o", tmp_path / "out", "--ram", arena, "--flash", blob).exit_code == 0
    result = run(model, "-o", tmp_path / "out2", "--ram", arena - 1, "--flash", blob - 100)
    assert result.exit_code == 1
    assert "RAM" in result.stderr
    assert "1 more than" in result.stderr
    assert "peak: step" in result.stderr
    assert "alive: " in result.stderr
    assert "flash" in result.stderr
    assert "100 more than" in result.stderr
    assert "largest: w" in result.stderr
    assert "--weights f16, i8 or i4" in result.stderr
    assert "(--dim, --input-shape)" in result.stderr
    narrow = run(model, "-o", tmp_path / "out2", "--flash", "64", "--weights", "f16")
    assert "--weights" not in narrow.stderr.partition("hint:")[2]
    assert not (tmp_path / "out2").exists()


def test_forced_kernel(run: Run, model: Path, tmp_path: Path) -> None:
    result = run(model, "-o", tmp_path / "out", "--kernel", "matmul=matmul.generic", "--json")
    assert "matmul.generic" in json.loads(result.stdout)["kernels"]


def test_print_after(run: Run, model: Path, tmp_path: Path) -> None:
    wanted = ("--print-after", "fold-constants", "--print-after", "plan")
    result = run(model, "-o", tmp_path / "out", *wanted, "-q", "-O2")
    assert result.stdout == ""
    assert "// after fold-constants\ngraph @small" in result.stderr
    assert "// after plan\nprogram @small" in result.stderr
    assert "after import" not in result.stderr
    every = run(model, "-o", tmp_path / "out", "--print-after-all", "-q", "-O0").stderr
    assert [line for line in every.split("\n") if line.startswith("// after")] == [
        "// after import",
        "// after lower",
        "// after read-forwards",
        "// after keep-state",
        "// after plan",
    ]
    note = run(model, "-o", tmp_path / "out", "--print-after", "fuse-groups", "-O0", "-q")
    assert "not run at this level: fuse-groups" in note.stderr


def test_dump_and_resume(run: Run, model: Path, tmp_path: Path) -> None:
    """Every stage's file prints again as it is, and compilation goes on from it to the same weights and C."""
    out, dump = tmp_path / "out", tmp_path / "dump"
    assert run(model, "-o", out, "--dump-dir", dump, "-q", "--target", "generic").exit_code == 0
    files = sorted(dump.glob("*.mcir"))
    assert [int(f.name[:3]) for f in files] == list(range(len(files)))
    assert files[0].name == "000-import.mcir"
    assert files[1].name == "001-fold-constants.mcir"
    stages = ["lower", *KERNEL_PIPELINES["O2"], "plan"]
    assert [f.name[4:] for f in files[-len(stages) :]] == [f"{stage}.mcir" for stage in stages]
    for file in files:
        assert run("opt", file).stdout == file.read_text()
        again = tmp_path / f"again-{file.stem}"
        result = run(file, "-o", again, "-q", "--target", "generic", "--name", "small")
        assert result.exit_code == 0, result.stderr
        assert (again / "small.mcb").read_bytes() == (out / "small.mcb").read_bytes()
        assert _code(again / "small.c") == _code(out / "small.c")


def _code(path: Path) -> list[str]:
    """The C without what the model's file name and digest appear in."""
    return [line for line in path.read_text().splitlines() if ".onnx" not in line and ".mcir" not in line]


def test_resume_needs_the_arrays(run: Run, model: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    assert run(model, "-o", tmp_path / "out", "--dump-dir", dump, "-q").exit_code == 0
    for stage in ("import", "lower", "plan"):
        (file,) = dump.glob(f"*-{stage}.mcir")
        file.with_suffix(".npz").unlink()
        result = run(file, "-o", tmp_path / "again")
        assert result.exit_code == 1
        assert ".npz" in result.stderr
        assert run("opt", file).exit_code == 0
    (plan,) = dump.glob("*-plan.mcir")
    plan.with_suffix(".npz").write_bytes(b"no archive")
    result = run("opt", plan)
    assert result.exit_code == 1
    assert "arrays cannot be read" in result.stderr


def test_resumed_program_is_proved_again(run: Run, model: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    assert run(model, "-o", tmp_path / "out", "--dump-dir", dump, "-q", "--target", "generic", "-O0").exit_code == 0
    (plan,) = dump.glob("*-plan.mcir")
    text = plan.read_text()
    lines = [line for line in text.splitlines() if " arena @" in line]
    assert len(lines) > 1
    for line in lines:
        head, _, rest = line.partition(" arena @")
        text = text.replace(line, f"{head} arena @0 {rest.partition(' ')[2]}")
    plan.write_text(text)
    result = run(plan, "-o", tmp_path / "again")
    assert result.exit_code == 1
    assert "this text was changed" in result.stderr
    assert run("opt", plan, "-o", plan).exit_code == 0
    result = run(plan, "-o", tmp_path / "again")
    assert result.exit_code == 1
    assert "the kernels in this text do not fit together" in result.stderr
    assert not (tmp_path / "again").exists()
    assert run(dump / "000-import.mcir", "-o", tmp_path / "again", "--dim", "n=1").exit_code == 2
    (lower,) = dump.glob("*-lower.mcir")
    assert run(lower, "-o", tmp_path / "again", "--target", "x86-64-v3").exit_code == 2


TRUSTING = """graph @m(%x: f32[4]) {
  %i = const [1, 3] : i32[2]
  %y = gather(%x, %i) {axis=0, inside=True} : f32[2]
  return %y
}
"""


def test_text_that_trusts_indices_is_compiled_as_it_was_printed(run: Run, tmp_path: Path) -> None:
    """Without a seal, or with one of other text, 3 may as well be 300: a read beside the operand."""
    path = tmp_path / "m.mcir"
    path.write_text(TRUSTING)
    assert "this text was changed" in run(path, "-o", tmp_path / "out").stderr
    assert run("opt", path, "-o", path).exit_code == 0
    assert run(path, "-o", tmp_path / "out", "-q").exit_code == 0
    path.write_text(path.read_text().replace("[1, 3]", "[1, 300]"))
    assert run(path, "-o", tmp_path / "other").exit_code == 1
    path.write_text(TRUSTING.replace("inside=True", "inside=False").replace("[1, 3]", "[1, 300]"))
    assert run(path, "-o", tmp_path / "other", "-q").exit_code == 0  # the kernel checks these itself


def test_text_that_trusts_places_is_compiled_as_it_was_printed(run: Run, tmp_path: Path) -> None:
    """The tables of a resampling: they hold what was computed from its scales."""
    path = tmp_path / "m.mcir"
    table = "%i = const [[1], [300]] : i32[2,1]"
    path.write_text(f"graph @m(%x: f32[4]) {{ {table} %y = resize(%x, %i) {{axes=(0,)}} : f32[2] return %y }}")
    assert "this text was changed" in run(path, "-o", tmp_path / "out").stderr


@pytest.mark.parametrize("given", ["x", "i"])
def test_text_whose_output_nobody_writes(given: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "m.mcir"
    path.write_text(TRUSTING.replace("return %y", f"return %{given}").replace("inside=True", "inside=False"))
    assert f"output %{given} is never written" in run(path, "-o", tmp_path / "out").stderr


UNFIT = """kernels @m target=generic {
  buffer x : f32[1,3,5,4,5] arena align=16 role=input
  buffer y : f32[1,3,12,3] arena align=16 role=output
  call pool.generic pool {mode='max', kernel=(3, 3, 1), strides=(3, 3, 2), pads=(0, 0, 0, 0, 0, 0),
    dilations=(1, 1, 1)} (x) -> y
}
"""


def test_kernels_that_do_not_fit_are_an_error_of_the_text(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "m.mcir"
    path.write_text(UNFIT)
    assert run("opt", path, "-o", path).exit_code == 0
    for arguments in (["opt", path, "-p", ",".join(kernel_passes())], [path, "-o", tmp_path / "out"]):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "do not fit together" in result.stderr


def test_opt(run: Run, model: Path, tmp_path: Path) -> None:
    before = run("opt", model)
    after = run("opt", model, "-p", "fold-constants,fuse-groups", "--time", "--remarks")
    assert before.stdout.count(" = map(") == 2
    assert after.stdout.count(" = map(") == 0
    assert "post0{" in after.stdout
    assert "fuse-groups: " in after.stderr
    assert " ms  " in after.stderr
    saved = run("opt", model, "-o", tmp_path / "m.mcir")
    assert saved.stdout == ""
    assert (tmp_path / "m.mcir").read_text() == before.stdout
    with np.load(tmp_path / "m.npz") as arrays:
        assert arrays.files == ["w"]
    again = run("opt", tmp_path / "m.mcir", "-p", "fold-constants,fuse-groups")
    assert again.stdout == after.stdout


def test_opt_runs_passes_for_a_target(run: Run, model: Path) -> None:
    """Some passes do nothing without vectors, and say so."""
    plain = run("opt", model, "-p", "choose-layouts", "--remarks")
    assert "target generic has no vectors" in plain.stderr
    vectors = run("opt", model, "-p", "choose-layouts", "--remarks", "--target", "x86-64-v4")
    assert vectors.exit_code == 0
    assert "no vectors" not in vectors.stderr
    late = run("opt", model, "-p", "fold-constants,dream", "--time")
    assert late.exit_code == 2
    assert " ms" not in late.stderr
    assert run("opt", model, "--target", "dream").exit_code == 2


def test_opt_list(run: Run) -> None:
    lines = run("opt", "--list").stdout.splitlines()
    assert any(line.startswith("fold-constants ") and "-O1" in line for line in lines)
    assert all(len(line.split()) > 2 for line in lines)


def test_inspect(run: Run, model: Path) -> None:
    text = run("inspect", model).stdout
    for word in ("opset ai.onnx 18", "x  f32[2,4]", "MatMul", "257 parameters", "512 MACs", "arena (RAM)"):
        assert word in text
    facts = json.loads(run("inspect", model, "--json").stdout)
    assert facts["parameters"] == 257
    assert [row["op"] for row in facts["operators"]] == ["Add", "MatMul", "Relu"]
    assert {row["status"] for row in facts["operators"]} == {"supported"}
    assert run("inspect", model, "--ram", "64K").exit_code == 0
    small = run("inspect", model, "--ram", "64")
    assert small.exit_code == 1
    assert "does not fit in RAM" in small.stdout


def test_inspect_of_what_cannot_be_compiled(run: Run, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["f"], name="first"),
        helper.make_node("Relu", ["f"], ["r"], name="second"),
        helper.make_node("Twiddle", ["r"], ["y"], name="third"),
    ]
    path = save(tmp_path / "m.onnx", nodes, [floats("x", [1, "width"])])
    open_dim = run("inspect", path)
    assert open_dim.exit_code == 1
    for word in ("Frobnicate", "NOT SUPPORTED", "node 0 'first'", "node 2 'third'", "--dim width=N", "f32[1,width]"):
        assert word in open_dim.stdout
    bound = run("inspect", path, "--dim", "width=3")
    assert bound.exit_code == 1
    assert bound.stdout.count("node 0 'first'") == 1
    facts = json.loads(run("inspect", path, "--dim", "width=3", "--json").stdout)
    assert [node["operator"] for node in facts["unsupported"]] == ["Frobnicate", "Twiddle"]
    assert facts["error"]["code"] == "unsupported-operator"
    facts = json.loads(run("inspect", path, "--json").stdout)
    assert (facts["error"]["code"], len(facts["unsupported"])) == ("open-extents", 2)


@pytest.mark.thorough
def test_ops(run: Run) -> None:
    rows = {row["op"]: row for row in json.loads(run("ops", "--json").stdout)}
    assert set(op_names()) <= set(rows)
    assert rows["Conv"]["status"] == "supported"
    assert "conv.generic" in rows["Conv"]["how"]
    assert rows["Relu"]["how"] == "map"
    assert rows["Transpose"]["how"].startswith("movement")
    assert rows["Reshape"]["how"] == "view"
    assert {"f32", "i32"} <= set(rows["Add"]["dtypes"])
    assert rows["Shape"]["status"] == "folded"
    assert rows["CenterCropPad"]["status"] == "expanded"
    assert (rows["SequenceAt"]["status"], rows["Loop"]["status"]) == ("folded", "supported")
    assert rows["NonZero"]["how"] == "nonzero.generic"
    markdown = run("ops", "--markdown").stdout
    table = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert len(table) == len(rows) + 1
    assert markdown == run("ops", "--markdown").stdout
    assert len(run("ops").stdout.splitlines()) == len(rows) + 1


def test_targets(run: Run) -> None:
    text = run("targets").stdout
    assert "generic" in text
    assert "-ffp-contract=off" in text
    rows = json.loads(run("targets", "--json").stdout)
    assert [row["name"] for row in rows if row["native"]]


def test_check_on_a_board(run: Run, model: Path) -> None:
    needs_target("cortex-m4")
    done = run("check", model, "--target", "cortex-m4", "--profile", "--golden")
    assert done.exit_code == 0, done.output
    assert re.search(r"on board mps2-an386 \(cortex-m4\): [\d,]+ instructions, about [\d,]+ cycles", done.output)
    assert "ONNX nodes" in done.output
    data = json.loads(run("check", model, "--target", "cortex-m4", "--json").stdout)
    assert data["measured"]["steps"]
    assert data["measured"]["board"] == "mps2-an386"


def test_a_profile_needs_a_board(run: Run, model: Path) -> None:
    done = run("check", model, "--profile", "--target", "generic")
    assert done.exit_code == 2
    assert "generic has none" in done.output
    assert "bench --per-layer" in done.output


def test_check(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / "cache"))
    assert run("check", model).exit_code == 0
    np.savez(tmp_path / "x.npz", x=np.ones((2, 4), np.float32))
    np.savez(tmp_path / "y.npz", y=np.full((2, 64), 3.0, np.float32))
    np.savez(tmp_path / "wrong.npz", y=np.full((2, 64), 3.5, np.float32))
    assert run("check", model, "--inputs", tmp_path / "x.npz", "--expect", tmp_path / "y.npz").exit_code == 0
    bad = run("check", model, "--inputs", tmp_path / "x.npz", "--expect", tmp_path / "wrong.npz", "--json")
    assert bad.exit_code == 3
    assert json.loads(bad.stdout)["ok"] is False


def test_golden(run: Run, model: Path, tmp_path: Path) -> None:
    result = run(model, "-o", tmp_path / "out", "--golden", tmp_path / "tests")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "tests" / "test_small.c").exists()
    assert not (tmp_path / "out" / "test_small.c").exists()
    assert run(model, "-o", tmp_path / "out", "--golden", tmp_path / "out", "-q").exit_code == 0
    assert (tmp_path / "out" / "test_small.c").exists()


def test_names_that_numpy_takes_as_keywords(run: Run, tmp_path: Path) -> None:
    weights = [helper.make_tensor(n, TensorProto.FLOAT, [8, 8], [0.1] * 64) for n in ("file", "allow_pickle", "a/b")]
    nodes = [
        helper.make_node("MatMul", ["x", "file"], ["p"]),
        helper.make_node("MatMul", ["p", "allow_pickle"], ["q"]),
        helper.make_node("MatMul", ["q", "a/b"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [floats("x", [1, 8])], initializer=weights)
    assert run("opt", path, "-o", tmp_path / "m.mcir").exit_code == 0
    assert run(tmp_path / "m.mcir", "-o", tmp_path / "out", "-q").exit_code == 0


@pytest.mark.thorough
def test_names_that_cannot_be_printed(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["größe\n"], ["y"], name="名前")
    model = save(tmp_path / "m.onnx", [node], [floats("größe\n", [1, 8])])
    assert isinstance(onnx.load(model), onnx.ModelProto)
    done = spawn([model, "-o", tmp_path / "out", "--print-after-all"], env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr


def test_memories_on_the_command_line(run: Run, model: Path, tmp_path: Path) -> None:
    done = run(model, "-o", tmp_path / "out", "--target", "generic", "--memory", "dtcm:512,sram:1K")
    assert done.exit_code == 0, done.output
    assert re.search(r"^    (dtcm|sram) +\d+ bytes of (512|1,024), \d+ tensors?$", done.output, re.MULTILINE)
    for wrong in ("dtcm", "dtcm:", ":64K", "dtcm:64Q", "dtcm:1K,dtcm:2K", "Dtcm:1K", "dtcm:0"):
        assert run(model, "-o", tmp_path / "new", "--memory", wrong).exit_code == 2, wrong
    small = run(model, "-o", tmp_path / "new", "--target", "generic", "--memory", "dtcm:64,sram:96")
    assert small.exit_code == 1
    assert "peak: step" in small.output
    assert not (tmp_path / "new").exists()


def test_options_of_projects_on_the_command_line(run: Run, model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(model.read_bytes())
    for wrong in ([model, other], [model, "--share-arena"], [model, other, "--project", "p", "--name", "x"]):
        done = run(*wrong, "-o", tmp_path / "out")
        assert done.exit_code == 2, done.output
        assert not (tmp_path / "out").exists()
    done = run(model, other, "-o", tmp_path / "out", "--project", "p", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert list(report["models"]) == ["small", "other"]
    assert report["project"]["kernels"] < report["project"]["kernels_unshared"]
    assert run(model, "-o", tmp_path / "one", "--project", "p").exit_code == 0


def test_a_model_on_stdin(model: Path, tmp_path: Path) -> None:
    given = subprocess.run(
        [Path(sys.executable).with_name("mccompile"), "-", "-o", "out", "--target", "generic", "--name", "net"],
        input=model.read_bytes(), cwd=tmp_path, capture_output=True,
    )  # fmt: skip
    assert given.returncode == 0, given.stderr
    assert (tmp_path / "out" / "net.c").is_file()
