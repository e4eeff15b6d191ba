"""Several models in one folder: kernels shared and not twice in a binary, arenas shared, results as alone."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import model_options, projects
from mccompile.check.golden import reference_golden
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, UsageError
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import needs_tool
from tests.cli.conftest import spawn
from tests.support.small_models import Maker, draw_inputs, write_model

NAMES = ("residual", "conv_padding", "integers")


def _models(folder: Path, names: Sequence[str] = NAMES) -> list[Path]:
    """The small models, and one more of the same network as the first: all its kernels are there already."""
    models = [write_model(name, folder) for name in names]
    twin = folder / "twin.onnx"
    twin.write_bytes(models[0].read_bytes())
    return [*models, twin]


def _project(folder: Path, **options: object) -> projects.ProjectArtifacts:
    values = {"target": "generic", "project": "both", **options}
    return projects.compile_project(_models(folder), folder / "out", Options(**values))  # type: ignore[arg-type]


def _run(command: Sequence[str | Path], cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def test_headers_have_one_name_for_two_things_no_more(tmp_path: Path) -> None:
    """kws_input_t() gives the input t of kws, and kws_input_t is the network kws_input."""
    paths = []
    for name, x in (("kws", "t"), ("kws_input", "x")):
        ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in (x, "y")]
        graph = helper.make_graph([helper.make_node("Neg", [x], ["y"])], "g", ports[:1], ports[1:])
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), paths[-1])
    with pytest.raises(UsageError, match="kws and kws_input would both have kws_input_t"):
        projects.compile_project(paths, tmp_path / "out", Options(target="generic", project="both"))
    assert not (tmp_path / "out").exists()
    paths[1] = paths[1].rename(tmp_path / "kws_inputs.onnx")
    projects.compile_project(paths, tmp_path / "out", Options(target="generic", project="both"))


@pytest.mark.parametrize(
    ("target", "level", "split"), [("generic", "O2", False), ("generic", "Os", True), ("native", "O2", False)]
)
def test_results_are_those_of_single_builds(target: str, level: str, split: bool, tmp_path: Path) -> None:
    _project(tmp_path, target=target, opt_level=level, split_kernels=split)
    for model in _models(tmp_path):
        mccompile.compile(model, tmp_path / "alone" / model.stem, target=target, opt_level=level)
        alone = mccompile.load(tmp_path / "alone" / model.stem)
        together = mccompile.load(tmp_path / "out", model=model.stem)
        together.fill_arenas(0xFF)
        for seed in (1, 2):
            inputs = draw_inputs(model, seed)
            want, got = alone.run(inputs), together.run(inputs)
            assert all(want[n].tobytes() == got[n].tobytes() for n in want)


MAIN = """\
#include <stdio.h>
#include <string.h>
#include "both.h"
#include "blobs.h"

%(arenas)s

int main(void)
{
    residual_t a;
    twin_t b;
    float first[RESIDUAL_OUTPUT_Y_COUNT];
    int i;

    if (residual_init(&a, %(first)s, residual_blob, RESIDUAL_BLOB) != MCC_OK
        || twin_init(&b, %(second)s, twin_blob, TWIN_BLOB) != MCC_OK) {
        return 1;
    }
    (void)memset(&%(poison)s, 0xFF, sizeof(%(poison)s));
    for (i = 0; i < RESIDUAL_INPUT_X_COUNT; ++i) {
        residual_input_x(&a)[i] = 0.01f * (float)i;
    }
    if (residual_run(&a) != MCC_OK) {
        return 2;
    }
    (void)memcpy(first, residual_output_y(&a), sizeof(first));
    for (i = 0; i < TWIN_INPUT_X_COUNT; ++i) {
        twin_input_x(&b)[i] = 0.01f * (float)i;
    }
    if (twin_run(&b) != MCC_OK) {
        return 3;
    }
    return (memcmp(first, twin_output_y(&b), sizeof(first)) == 0 && first[0] == first[0]) ? 0 : 4;
}
"""


@pytest.mark.parametrize(
    ("compiler", "share", "split"),
    [("gcc", False, False), ("gcc", True, True), ("clang", True, False), ("clang", False, True)],
)
def test_one_binary_without_warnings_or_double_kernels(
    compiler: str, share: bool, split: bool, tmp_path: Path
) -> None:
    needs_tool(compiler), needs_tool("nm")
    _project(tmp_path, embed=True, share_arena=share, split_kernels=split)
    out = tmp_path / "out"
    place = (
        {"arenas": "static both_arena arena;", "first": "&arena.residual", "second": "&arena.twin", "poison": "arena"}
        if share
        else {"arenas": "static residual_arena one;\nstatic twin_arena two;", "first": "&one", "second": "&two",
              "poison": "one"}
    )  # fmt: skip
    (out / "app.c").write_text(MAIN % place)
    sizes = "\n".join(
        f"#define {n.upper()}_BLOB {(out / f'{n}.mcb').stat().st_size}u" for n in ("residual", "twin")
    )
    (out / "blobs.h").write_text(sizes + "\n")
    sources = re.findall(r"[\w.]+\.c\b", _library_line(out))
    assert set(sources) >= {"residual.c", "twin.c", "mcc.c", "residual_blob.c"}
    flags = [*resolve("generic").c_flags, *strict_warnings(compiler)]
    _run([compiler, *flags, *sources, "app.c", "-lm", "-o", "app"], out)
    _run(["./app"], out)
    _run([compiler, *flags, *sources, "example_main.c", "-lm", "-o", "example"], out)
    printed = _run(["./example"], out)
    assert printed.count("y ") >= len(NAMES)
    symbols = [line.split()[-1] for line in _run(["nm", "example"], out).splitlines() if " T " in line]
    kernels = [s for s in symbols if re.search(r"_k\d+_", s)]
    assert kernels
    assert all(s.startswith("both_k") for s in kernels)
    assert len(set(kernels)) == len(kernels) == len(set(re.findall(r"\bboth_k\d+_\w+(?=\()", _header(out))))


def _library_line(out: Path) -> str:
    return next(line for line in (out / "CMakeLists.txt").read_text().splitlines() if line.startswith("add_library"))


def _header(out: Path) -> str:
    return (out / "both_kernels.h").read_text()


def test_equal_kernels_are_there_once(tmp_path: Path) -> None:
    """The twin adds none; the bodies of all kernels differ in more than their names."""
    artifacts = _project(tmp_path)
    facts = artifacts.report["project"]
    options = Options(target="generic", project="both")
    alone = projects.compile_project(_models(tmp_path)[:-1], tmp_path / "three", options)
    assert facts["kernels"] == alone.report["project"]["kernels"] < facts["kernels_unshared"]
    text = (tmp_path / "out" / "both_kernels.c").read_text()
    bodies = re.split(r"^(?=(?:void|mcc_status) both_k\d+_\w+\()", text, flags=re.MULTILINE)[1:]
    assert len(bodies) == facts["kernels"]
    stripped = [re.sub(r"both_k\d+_\w+|/\*.*?\*/", "", b, flags=re.DOTALL).strip() for b in bodies]
    assert len(set(stripped)) == len(stripped)
    for name in (*NAMES, "twin"):
        source = (tmp_path / "out" / f"{name}.c").read_text()
        assert "both_kernels.h" in source
        assert not re.search(r"^static .*_k\d+_", source, re.MULTILINE)


def test_size_level_shares_across_models(tmp_path: Path) -> None:
    """At -Os kernels of different models become one where they differ in numbers only; with the same results."""
    models = []
    for name, width in (("narrow", 9), ("wide", 12)):
        m = Maker()
        m.node("Softmax", [m.node("MatMul", [m.input("x", (5, 2 * width)), m.weight((2 * width, width))])], "y")
        models.append(tmp_path / f"{name}.onnx")
        onnx.save(m.model(["y"]), models[-1])
    counts = {}
    for level in ("O2", "Os"):
        options = Options(target="generic", opt_level=level, project="both", keep_inputs=True)
        counts[level] = projects.compile_project(models, tmp_path / level, options).report["project"]["kernels"]
    assert counts == {"O2": 4, "Os": 2}
    for model in models:
        inputs = draw_inputs(model, 1)
        big, small = (mccompile.load(tmp_path / level, model=model.stem).run(inputs)["y"] for level in counts)
        assert np.allclose(big, small, rtol=1e-6)


def test_a_shared_arena_is_as_large_as_the_largest(tmp_path: Path) -> None:
    needs_tool("gcc")
    artifacts = _project(tmp_path, share_arena=True)
    arenas = [r["memory"]["arena_bytes"] for r in artifacts.report["models"].values()]
    assert artifacts.report["project"]["arena_bytes"] == max(arenas) < sum(arenas)
    header = (tmp_path / "out" / "both.h").read_text()
    assert "must not be interleaved" in header
    probe = f'#include "both.h"\nMCC_STATIC_ASSERT(size, sizeof(both_arena) == {max(arenas)}u);\n'
    (tmp_path / "out" / "probe.c").write_text(probe)
    _run(["gcc", "-std=c99", "-Wall", "-Werror", "-c", "probe.c"], tmp_path / "out")


def test_memories_of_a_shared_arena(tmp_path: Path) -> None:
    needs_tool("gcc")
    _project(tmp_path, share_arena=True, memory=(("dtcm", 700), ("sram", 100_000)))
    out = tmp_path / "out"
    header = (out / "both.h").read_text()
    assert "typedef union both_arena_dtcm {" in header
    assert "typedef union both_arena_sram {" in header
    sources = re.findall(r"[\w.]+\.c\b", _library_line(out))
    _run(["gcc", "-std=c99", *strict_warnings("gcc"), *sources, "example_main.c", "-lm", "-o", "example"], out)
    _run(["./example"], out)


def test_golden_tests_of_a_project(tmp_path: Path) -> None:
    needs_tool("gcc")
    models = _models(tmp_path)
    options = Options(target="generic", project="both")
    projects.compile_project(models, tmp_path / "out", options, extra=lambda path, c: reference_golden(path)(c))
    for model in models:
        sources = [f"{model.stem}.c", f"test_{model.stem}.c", "both_kernels.c", "mcc.c"]
        _run(["gcc", "-std=c99", *sources, "-lm", "-o", "test"], tmp_path / "out")
        assert _run(["./test"], tmp_path / "out") == f"PASS {model.stem}\n"


def test_the_header_compiles_as_cpp(tmp_path: Path) -> None:
    needs_tool("g++")
    _project(tmp_path, share_arena=True)
    (tmp_path / "out" / "app.cpp").write_text('#include "both.h"\n#include "both_kernels.h"\nboth_arena arena;\n')
    _run(["g++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "app.cpp"], tmp_path / "out")


def test_a_single_model_with_split_kernels(tmp_path: Path) -> None:
    needs_tool("gcc")
    model = write_model("residual", tmp_path)
    artifacts = mccompile.compile(model, tmp_path / "split", target="generic", split_kernels=True)
    mccompile.compile(model, tmp_path / "one", target="generic")
    sources = [n for n in artifacts.report["files"] if re.fullmatch(r"residual_k\d+_\w+\.c", n)]
    assert len(sources) == sum(artifacts.report["kernels"].values()) > 1
    assert sorted(artifacts.report["sources"]) == sorted(["residual.c", *sources, "mcc.c"])
    flags = ["-std=c99", *strict_warnings("gcc")]
    _run(["gcc", *flags, *artifacts.report["sources"], "example_main.c", "-lm", "-o", "example"], tmp_path / "split")
    inputs = draw_inputs(model, 1)
    got, want = mccompile.load(tmp_path / "split").run(inputs), mccompile.load(tmp_path / "one").run(inputs)
    assert all(np.array_equal(got[n], want[n]) for n in want)


def test_same_bytes_in_other_folders(tmp_path: Path) -> None:
    results = []
    for folder, seed in ((tmp_path / "a", "1"), (tmp_path / "b" / "deep", "2")):
        folder.mkdir(parents=True)
        models = _models(folder)
        command = [*models, "-o", folder / "out", "--project", "both", "--share-arena", "--target", "generic", "-Os"]
        done = spawn(command, env={"PYTHONHASHSEED": seed})
        assert done.returncode == 0, done.stderr
        assert "both: 4 models for generic, -Os" in done.stdout
        assert len(done.stdout.splitlines()) <= 25
        results.append({p.name: p.read_bytes() for p in (folder / "out").iterdir()})
    assert results[0] == results[1]
    assert not any(str(tmp_path).encode() in data for data in results[0].values())


def test_which_model_is_meant(tmp_path: Path) -> None:
    _project(tmp_path)
    with pytest.raises(UsageError, match="which one"):
        mccompile.load(tmp_path / "out")
    with pytest.raises(UsageError, match="no model 'other'"):
        mccompile.load(tmp_path / "out", model="other")
    mccompile.compile(write_model("residual", tmp_path), tmp_path / "one", target="generic")
    with pytest.raises(UsageError, match="no model 'other'"):
        mccompile.load(tmp_path / "one", model="other")
    assert mccompile.load(tmp_path / "one", model="residual").name == "residual"


def test_names_that_clash_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    models = _models(tmp_path)
    (tmp_path / "sub").mkdir()
    again = tmp_path / "sub" / "twin.onnx"
    again.write_bytes(models[0].read_bytes())
    kernels = tmp_path / "both_kernels.onnx"
    kernels.write_bytes(models[0].read_bytes())
    cases: list[tuple[list[Path], dict[str, str]]] = [
        ([*models, again], {"project": "both"}),
        (models, {"project": "twin"}),
        ([models[0], kernels], {"project": "both"}),
        (models, {}),
        (models, {"project": "both", "name": "x"}),
    ]
    for paths, options in cases:
        with pytest.raises(UsageError):
            projects.compile_project(paths, tmp_path / "out", Options(target="generic", **options))  # type: ignore[arg-type]
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(CompileError):
        projects.compile_project([*models, broken], tmp_path / "out", Options(target="generic", project="both"))
    assert not (tmp_path / "out").exists()
    assert [p for p in os.listdir(tmp_path) if p.startswith(".")] == []


def test_limits_are_those_of_the_project(tmp_path: Path) -> None:
    models = _models(tmp_path)
    arenas = [r["memory"]["arena_bytes"] for r in _project(tmp_path).report["models"].values()]
    command = [*models, "-o", tmp_path / "new", "--project", "both", "--target", "generic", "--ram", max(arenas)]
    done = spawn(command)
    assert done.returncode == 1
    assert f"take {sum(arenas):,} bytes" in done.stderr
    assert "--share-arena" in done.stderr
    assert not (tmp_path / "new").exists()
    assert spawn([*command, "--share-arena"]).returncode == 0


def test_dims_go_to_the_models_that_have_them(tmp_path: Path) -> None:
    models = _models(tmp_path)
    with pytest.raises(UsageError, match="no model has a dim 'n'"):
        projects.compile_project(models, tmp_path / "out", Options(target="generic", project="both", dims={"n": 1}))
    shapes = {"i": [3, 5]}
    projects.compile_project(models, tmp_path / "out", Options(target="generic", project="both", input_shapes=shapes))


def test_batches_that_nobody_named_go_to_all_models(tmp_path: Path) -> None:
    models = []
    for file, first in (("a", None), ("b", "unk__7"), ("c", 2)):
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [first, 3]) for n in "xy")
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
        models.append(tmp_path / f"{file}.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), models[-1])
    given = Options(target="generic", project="three", dims={"batch": 4})
    assert [o.dims for o in model_options.options_of(models, given)] == [{"batch": 4}, {"batch": 4}, {}]
    projects.compile_project(models, tmp_path / "out", given)


@pytest.mark.parametrize("option", ["weights", "precision"])
def test_forms_go_to_the_models_that_have_the_nodes(option: str, tmp_path: Path) -> None:
    models = []
    for file, node in (("a", "head"), ("b", "tail")):
        w = helper.make_tensor("w", TensorProto.FLOAT, [8, 8], [0.25] * 64)
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 8]) for n in "xy")
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name=node)], "g", [x], [y], [w])
        opset = helper.make_opsetid("", 20)
        models.append(tmp_path / f"{file}.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), models[-1])
    given = Options(target="generic", project="both", **{option: {"*": "f32", "head": "f16", "tai?": "bf16"}})
    own = [getattr(o, option) for o in model_options.options_of(models, given)]
    assert own == [{"*": "f32", "head": "f16"}, {"*": "f32", "tai?": "bf16"}]
    projects.compile_project(models, tmp_path / "out", given)
    with pytest.raises(UsageError, match="no node is named 'hea'"):
        list(model_options.options_of(models, Options(**{option: {"hea": "f16"}})))


def test_a_model_that_cannot_be_compiled_may_have_the_nodes(tmp_path: Path) -> None:
    """`check` says of each model what is wrong with it."""
    models = [write_model("residual", tmp_path), tmp_path / "unknown.onnx"]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [8]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Gone", ["x"], ["y"], name="head", domain="acme")], "g", [x], [y])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), models[1])
    given = Options(weights={"head": "f16"})
    assert [o.weights for o in model_options.options_of(models, given)] == [{}, {"head": "f16"}]


def test_bounds_go_to_the_models_that_have_what_they_are_said_of(tmp_path: Path) -> None:
    maker = Maker()
    counted = maker.node("NonZero", [maker.input("mask", [1, 8])], "places")
    maker.node("Cast", [counted], "y", to=TensorProto.FLOAT)
    onnx.save(maker.model(["y"]), tmp_path / "counted.onnx")
    models = [tmp_path / "counted.onnx", *_models(tmp_path)]
    given = Options(target="generic", project="both", bounds={"places_1": 4})
    assert [o.bounds for o in model_options.options_of(models, given)][:2] == [{"places_1": 4}, {}]
    with pytest.raises(UsageError, match="no model has a loop or an extent 'rows'"):
        list(model_options.options_of(models, Options(bounds={"rows": 4})))


def test_names_that_shapes_give_to_axes_are_dims_of_a_project(tmp_path: Path) -> None:
    maker = Maker()
    maker.node("Relu", [maker.input("open", [None, 3])], "y")
    onnx.save(maker.model(["y"]), tmp_path / "open.onnx")
    models = [tmp_path / "open.onnx", *_models(tmp_path)]
    given = Options(target="generic", project="open_ones", input_shapes={"open": ["rows", 3]}, dims={"rows": "1..5"})
    made = projects.compile_project(models, tmp_path / "out", given)
    assert [d["name"] for d in made.report["models"]["open"]["dims"]] == ["rows"]
