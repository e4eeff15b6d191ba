"""``--package``: what each build system finds is complete, says what it takes, and is built where that can be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from mccompile import driver, projects
from mccompile.codegen.packages import packages
from mccompile.driver import Options
from mccompile.targets.target import runs_here
from tests._skips import REPOSITORY, needs_tool
from tests.support.small_models import write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
CRATES = Path("/usr/share/cargo/registry")


def one(folder: Path, package: str, target: str = "generic") -> Path:
    driver.compile(DIGITS, folder, Options(target=target, package=package))
    return folder


def two(folder: Path, package: str) -> Path:
    """A project of two models in one arena."""
    models = [DIGITS, write_model("views", folder.parent)]
    options = Options(target="generic", package=package, project="both", share_arena=True)
    projects.compile_project(models, folder, options)
    return folder


def small(folder: Path, name: str = "small", y: str = "y", rows: int | str = 2, **more: Any) -> Path:
    """y of x and h, which is 2 * rows, and h_out, which may be the next h."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, 4]) for n in ("x", "h")]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (y, "h_out")]
    nodes = [helper.make_node("Concat", ["x", "h"], [y], axis=0), helper.make_node("Add", ["x", "h"], ["h_out"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs[1:] if "state" in more else outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    driver.compile(folder / f"{name}.onnx", folder / "out", Options(target="generic", **more))
    return folder / "out"


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, capture_output=True, text=True, env={**os.environ, **env}
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def test_a_folder_may_be_that_of_another_package_in_between(tmp_path: Path) -> None:
    """No report lists the files of the package before: each says itself whose it is."""
    for package in packages():
        one(tmp_path, package)
    driver.compile(DIGITS, tmp_path, Options(target="generic", threads=2))
    for path in tmp_path.rglob("*"):
        begin = path.read_bytes()[:1024] if path.is_file() else b"mccompile"
        assert b"mccompile" in begin or b"MCCB" in begin, path


@pytest.mark.parametrize("package", [p for p in packages() if packages()[p].example])
@pytest.mark.parametrize("make", [one, two])
def test_the_example_builds_of_the_package_alone(package: str, make: object, tmp_path: Path) -> None:
    folder = make(tmp_path / "net", package)  # type: ignore[operator]
    found = packages()[package]
    folders = {p: str(p.relative_to(folder)) for p in folder.rglob("*.c")}
    sources = [p for p, at in folders.items() if "example" not in at and "sample" not in at]
    name = "digits" if make is one else "both"
    main = folder / found.example.format(name=name)
    flags = ["-std=c99", "-ffp-contract=off", f"-I{folder / found.headers}"]
    if found.start == "app_main":
        flags.append("-Dapp_main=main")
        main.write_text(main.read_text().replace("void app_main(void)", "int app_main(void)"))
    run(needs_tool("gcc"), *flags, *sources, main, "-lm", "-o", "example", cwd=folder)
    said = run("./example", cwd=folder)
    assert "scores f32[1,10]: -2.44529 0.522505" in said


def test_the_example_says_which_file_it_cannot_read(tmp_path: Path) -> None:
    folder = one(tmp_path / "net", "cmake")
    run(needs_tool("gcc"), "-ffp-contract=off", *folder.glob("*.c"), "-lm", "-o", "example", cwd=folder)
    done = subprocess.run([folder / "example", "gone.mcb"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "cannot read gone.mcb\n")


@pytest.mark.parametrize("package", packages())
def test_files_that_metadata_names_are_there(package: str, tmp_path: Path) -> None:
    folder = two(tmp_path / "net", package)
    metadata = [folder / path.format(name="both") for path in packages()[package].files]
    for path in metadata:
        around = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
        for said in re.findall(r"[\w./-]+\.[ch]\b", path.read_text()):
            assert any(p.endswith(said.removeprefix("../")) for p in around), (path, said)
    if not packages()[package].embed:
        return
    assert not list(folder.rglob("*.mcb"))  # the weights are an array, and are not there twice


def test_platforms_choose_the_instruction_set(tmp_path: Path) -> None:
    """Flags such as -mcpu and -mfloat-abi come from the build system; a second word for them would not link."""
    for package, found in packages().items():
        folder = one(tmp_path / package, package, "cortex-m4")
        said = "".join((folder / path.format(name="digits")).read_text() for path in found.files)
        assert ("-mcpu=" in said) == (not found.platform), package


@pytest.mark.thorough
@pytest.mark.parametrize("more", [{}, {"threads": 2, "pthread_pool": True}], ids=str)
def test_cmake_installs_what_find_package_finds(more: dict[str, Any], tmp_path: Path) -> None:
    """Built with flags that are given as docs/targets.md says."""
    cmake, folder = needs_tool("cmake"), tmp_path / "net"
    driver.compile(DIGITS, folder, Options(target="generic", package="cmake", **more))
    flags = "-DDIGITS_C_FLAGS=-std=c99 -O1 -ffp-contract=off"
    run(cmake, "-S", folder, "-B", "build", flags, f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'there'}", cwd=tmp_path)
    run(cmake, "--build", "build", cwd=tmp_path)
    run(cmake, "--install", "build", cwd=tmp_path)
    app = tmp_path / "app"
    app.mkdir()
    (app / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nfind_package(digits REQUIRED)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app PRIVATE digits::digits)\n"
    )
    (app / "main.c").write_text((folder / "example_main.c").read_text())
    run(cmake, "-S", app, "-B", "b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'there'}", cwd=app)
    run(cmake, "--build", "b", cwd=app)
    assert "scores" in run("b/app", tmp_path / "there" / "share" / "digits" / "digits.mcb", cwd=app)


@pytest.mark.thorough
def test_cmake_links_libm_on_bare_metal(tmp_path: Path) -> None:
    cmake, gcc, folder = needs_tool("cmake"), needs_tool("arm-none-eabi-gcc"), tmp_path / "net"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Sigmoid", ["x"], ["y"])], "g", values[:1], values[1:])
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "s.onnx")
    driver.compile(tmp_path / "s.onnx", folder, Options(target="cortex-m4"))
    (tmp_path / "arm.cmake").write_text(
        f"set(CMAKE_SYSTEM_NAME Generic)\nset(CMAKE_C_COMPILER {gcc})\nset(CMAKE_EXE_LINKER_FLAGS "
        '"-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16 --specs=nosys.specs")\n'
        "set(CMAKE_C_FLAGS_INIT \"-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16\")\n"
    )
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={tmp_path / 'arm.cmake'}"
    run(cmake, "-S", folder, "-B", "b", toolchain, "-DS_EXAMPLE=ON", cwd=tmp_path)
    run(cmake, "--build", "b", cwd=tmp_path)


def configure(folder: Path, model: str, *cmake: str, before: str = "") -> None:
    """Configure an application whose build compiles a model, given as `mccompile_add_model` takes it, and which runs
    the network once, something else ``before`` it."""
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(app C)\nfind_package(mccompile REQUIRED)\n"
        f"mccompile_add_model(net {model})\nadd_executable(app main.c)\ntarget_link_libraries(app PRIVATE net)\n"
    )
    include = '#include "mcc_pool_pthread.h"\n' if before else ""
    (folder / "main.c").write_text(
        f'#include "net.h"\n{include}static net_arena arena;\nint main(void)\n{{\n    net_t net;\n\n    {before}\n'
        "    return (int)net_init(&net, &arena, net_blob, sizeof(net_blob)) + (int)net_run(&net);\n}\n"
    )
    program = Path(sys.executable).with_name("mccompile")
    there = run(program, "--cmake-dir", cwd=folder).strip()
    run(*cmake, ".", f"-Dmccompile_DIR={there}", f"-DMCCOMPILE_EXECUTABLE={program}", cwd=folder)


@pytest.mark.thorough
@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_a_build_compiles_the_model_and_only_what_changed(generator: str, tmp_path: Path) -> None:
    cmake = needs_tool("cmake")
    needs_tool({"Ninja": "ninja"}.get(generator, "make"))
    (tmp_path / "digits.onnx").write_bytes(DIGITS.read_bytes())
    configure(tmp_path, "digits.onnx TARGET generic EMBED OPTIONS -O s", cmake, "-G", generator)
    assert "Compiling the network net" in run(cmake, "--build", ".", cwd=tmp_path)
    run("./app", cwd=tmp_path)
    assert "Compiling the network" not in run(cmake, "--build", ".", cwd=tmp_path)
    before = (tmp_path / "libnet.a").stat().st_mtime_ns
    later = (tmp_path / "net" / "report.json").stat().st_mtime + 10
    os.utime(tmp_path / "digits.onnx", (later, later))
    assert "Compiling the network net" in run(cmake, "--build", ".", cwd=tmp_path)
    assert (tmp_path / "libnet.a").stat().st_mtime_ns == before


def test_a_model_without_a_node_for_a_custom_operator_has_one_c_file(tmp_path: Path) -> None:
    cmake = needs_tool("cmake")
    (tmp_path / "digits.onnx").write_bytes(DIGITS.read_bytes())
    header = REPOSITORY / "tests" / "plugins" / "low_pass.h"
    configure(tmp_path, f"digits.onnx TARGET generic EMBED OPTIONS --custom-op com.acme:LowPass={header}", cmake)
    assert "net/net.o" in run(cmake, "--build", ".", "--target", "help", cwd=tmp_path)


SEVERAL = (
    "EMBED TARGET generic OPTIONS --split-kernels",
    "EMBED TARGETS x86-64-v2 x86-64-v3",
    "TARGET generic OPTIONS --embed --threads 2 --pthread-pool",
)


@pytest.mark.thorough
@pytest.mark.parametrize("options", SEVERAL)
def test_a_build_of_several_c_files(options: str, tmp_path: Path) -> None:
    cmake = needs_tool("cmake")
    if not runs_here("x86-64-v2"):
        pytest.skip("no x86-64")
    pool = "mcc_pool_pthread_stop(mcc_pool_pthread_start(1u));" if "pool" in options else ""
    configure(tmp_path, f"{DIGITS} {options}", cmake, before=pool)
    run(cmake, "--build", ".", cwd=tmp_path)
    run("./app", cwd=tmp_path)


@pytest.mark.thorough
def test_a_build_has_the_name_and_the_target_itself(tmp_path: Path) -> None:
    cmake = needs_tool("cmake")
    with pytest.raises(AssertionError, match="--target is not for OPTIONS"):
        configure(tmp_path, f"{DIGITS} OPTIONS --target=generic", cmake)


@pytest.mark.thorough
@pytest.mark.parametrize("targets", [(), ("generic", "x86-64-v2")])
def test_the_crate_runs(targets: tuple[str, ...], tmp_path: Path) -> None:
    cargo = needs_tool("cargo")
    if not list(CRATES.glob("cc-1*")):
        pytest.skip("needs the crate cc (Debian, Ubuntu: apt install librust-cc-dev)")
    if not all(map(runs_here, targets)):
        pytest.skip("no x86-64")
    folder = tmp_path / "net"
    if targets:
        projects.compile_choice(DIGITS, folder, Options(targets=targets, package="cargo"))
    else:
        one(folder, "cargo")
    (folder / ".cargo").mkdir()
    (folder / ".cargo" / "config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "here"\n[source.here]\ndirectory = "{CRATES}"\n'
    )
    said = run(cargo, "run", "--offline", "--quiet", "--example", "zeros", cwd=folder)
    first = float(said.removeprefix("scores f32[1,10]: [").split(",")[0])
    assert first == pytest.approx(-2.445286, abs=1e-5)


FIELDS = {
    "threads": {"threads": 4},
    "growing": {"dims": {"n": "0..7"}, "state": {"present": "past"}, "threads": 4},
    "caller": {"dims": {"n": "1..8"}, "io": "caller"},
}


@pytest.mark.parametrize("case", FIELDS)
def test_the_crate_has_the_fields_of_the_struct_in_c(case: str, tmp_path: Path) -> None:
    rows: list[int | str] = [1, "n", 4]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, 4]) for n in ("x", "o")]
    values += [helper.make_tensor_value_info(n, TensorProto.FLOAT, r) for n, r in (("past", rows), ("r", rows))]
    values += [helper.make_tensor_value_info("present", TensorProto.FLOAT, [1, "m", 4])]
    nodes = [helper.make_node("Relu", ["past"], ["r"]), helper.make_node("Neg", ["x"], ["o"])]
    nodes += [helper.make_node("Concat", ["past", "x"], ["present"], axis=1)]
    graph = helper.make_graph(nodes, "g", [values[0], values[2]], [values[1], values[3], values[4]])
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "net.onnx")
    given: dict[str, Any] = {"dims": {"n": 2}, **FIELDS[case]}
    driver.compile(tmp_path / "net.onnx", tmp_path / "out", Options(target="generic", package="cargo", **given))
    in_c, in_rust = ((tmp_path / "out" / path).read_text() for path in ("csrc/net.h", "src/lib.rs"))
    (of_c,) = re.findall(r"typedef struct net_t \{(.*?)\n\}", in_c, re.DOTALL)
    (of_rust,) = re.findall(r"pub struct net_t \{(.*?)\n\}", in_rust, re.DOTALL)
    fields = [(name, bool(star)) for star, name in re.findall(r"^ +\w[\w ]* (\*?)(\w+);", of_c, re.M)]
    assert fields == [(name, kind.startswith("*")) for name, kind in re.findall(r"(\w+): (.*),", of_rust)]
    assert ("net_set_pool" in in_rust) == ("threads" in given)
    assert ("ran_n" in of_rust) == (case == "growing")


def test_the_example_of_the_crate_prints_any_name(tmp_path: Path) -> None:
    name = 'größe/µ quote"s \\ {} what??/ a\nb' + "x" * 100
    rustc, folder = needs_tool("rustc"), small(tmp_path, y=name, package="cargo")
    shown, _ = re.findall(r"println!\(.*?, (\".*\"), \"f32", (folder / "examples" / "zeros.rs").read_text())
    (tmp_path / "main.rs").write_text(f'fn main() {{\n    print!("{{}}", {shown});\n}}\n')
    run(rustc, "main.rs", cwd=tmp_path)
    assert run("./main", cwd=tmp_path) == name


@pytest.mark.parametrize(("package", "file"), [("platformio", "library.json"), ("arduino", "library.properties")])
def test_manifests_of_platformio_and_arduino(package: str, file: str, tmp_path: Path) -> None:
    pytest.importorskip("platformio")
    from platformio.package.manifest.parser import ManifestParserFactory
    from platformio.package.manifest.schema import ManifestSchema

    read = ManifestParserFactory.new_from_file(str(one(tmp_path / "net", package) / file)).as_dict()
    manifest = ManifestSchema().load_manifest(read)
    assert (manifest["name"], manifest["headers"]) == ("digits", ["digits.h"])


def test_the_component_of_esp_idf(tmp_path: Path) -> None:
    manager = pytest.importorskip("idf_component_tools.manager")
    folder = one(tmp_path / "net", "esp-idf")
    found = manager.ManifestManager(str(folder), name="digits").validate().load()
    assert str(found.dependencies) == "{'idf': '>=5.0'}"


@pytest.mark.parametrize("rows", [2, "n"])
def test_the_sample_of_zephyr_looks_for_the_first_output(rows: int | str, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    folder = small(tmp_path, rows=rows, dims={"n": "1..8"} if rows == "n" else {}, package="zephyr")
    main = (folder / "samples" / "small" / "src" / "main.c").read_text()
    (shown,) = re.findall(r'printf\("%s (.*?:)", "y"\)', main)
    sample = yaml.safe_load((folder / "samples" / "small" / "sample.yaml").read_text())
    (pattern,) = sample["tests"]["sample.small"]["harness_config"]["regex"]
    assert re.fullmatch(pattern, shown)


def test_the_sample_of_zephyr_without_outputs_is_only_built(tmp_path: Path) -> None:
    yaml, folder = pytest.importorskip("yaml"), small(tmp_path, state={"h_out": "h"}, package="zephyr")
    sample = yaml.safe_load((folder / "samples" / "small" / "sample.yaml").read_text())
    assert sample["tests"]["sample.small"] == {"tags": "small", "build_only": True}


def test_kconfig_and_module_of_zephyr(tmp_path: Path) -> None:
    kconfiglib, yaml = pytest.importorskip("kconfiglib"), pytest.importorskip("yaml")
    folder = one(tmp_path / "net", "zephyr")
    module = yaml.safe_load((folder / "zephyr" / "module.yml").read_text())
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    symbols = kconfiglib.Kconfig(str(folder / module["build"]["kconfig"])).syms
    assert symbols["MCCOMPILE_DIGITS"].nodes[0].prompt[0] == "digits"
    sample = yaml.safe_load((folder / "samples" / "digits" / "sample.yaml").read_text())
    (pattern,) = sample["tests"]["sample.digits"]["harness_config"]["regex"]
    assert re.search(pattern, "scores f32[1,10]: -2.4")


@pytest.mark.parametrize("name", ["a--b---", "a & b <c>"])
def test_the_description_of_a_cmsis_pack_with_the_name_of_a_file(name: str, tmp_path: Path) -> None:
    (path,) = small(tmp_path, name, package="cmsis-pack").glob("*.pdsc")
    ElementTree.parse(path)


def test_the_description_of_a_cmsis_pack(tmp_path: Path) -> None:
    folder = one(tmp_path / "net", "cmsis-pack")
    root = ElementTree.parse(folder / "mccompile.digits.pdsc").getroot()
    assert [e.tag for e in root][:5] == ["vendor", "name", "description", "url", "releases"]
    files = [f.attrib for f in root.iter("file")]
    assert {f["category"] for f in files} == {"include", "header", "sourceC"}
    assert all((folder / f["name"]).exists() for f in files)


def test_weights_that_objcopy_or_incbin_put_into_the_program(tmp_path: Path) -> None:
    """The two recipes of docs/packages.md."""
    text, folder = (REPOSITORY / "docs" / "packages.md").read_text(), one(tmp_path / "net", "cmake", "cortex-m4")
    (folder / "net.mcb").write_bytes((folder / "digits.mcb").read_bytes())
    needs_tool("arm-none-eabi-gcc")
    (recipe,) = re.findall(r"\$ (arm-none-eabi-objcopy[^`]*?)\n```", text)
    run(*recipe.replace("\\\n", " ").split(), cwd=folder)
    listed = run("arm-none-eabi-objdump", "-h", "-t", "net_mcb.o", cwd=folder)
    assert re.search(rf"\.rodata +0*{(folder / 'net.mcb').stat().st_size:x} .*2\*\*6", listed)
    assert "_binary_net_mcb_start" in listed
    (recipe,) = re.findall(r"^__asm__.*$", text, re.M)
    (folder / "embedded.c").write_text(recipe + "\n")
    run("arm-none-eabi-gcc", "-c", "embedded.c", cwd=folder)
    assert "net_mcb" in run("arm-none-eabi-objdump", "-t", "embedded.o", cwd=folder)


def test_networks_for_zephyr_have_one_runtime_together(tmp_path: Path) -> None:
    """Zephyr links all that is in its libraries: a second mcc.c would define the same functions."""
    text = (one(tmp_path / "net", "zephyr") / "zephyr" / "CMakeLists.txt").read_text()
    runtime, own = text.split("endif()\n", 1)
    assert re.search(r"if\(NOT TARGET mccompile_runtime\).*zephyr_library_sources\(\S*/mcc\.c\)", runtime, re.DOTALL)
    assert "mcc.c" not in own
