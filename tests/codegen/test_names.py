"""ONNX names of any kind become C that compiles, and stay what they are in tables and reports."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile import driver, projects
from mccompile.codegen.names import (
    MAX_IDENTIFIER,
    OF_LONG,
    comment,
    given_name,
    identifier,
    model_name,
    own_parts,
    string_literal,
    unique_identifiers,
)
from mccompile.codegen.wrapping import COLUMNS
from mccompile.driver import Options
from mccompile.ir.errors import UsageError
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import needs_tool

HOSTILE = (
    "*/ int injected = 1; /*",
    "*\\",
    "/\\*",
    "what??/",
    "???/ ???/",
    "a\nb",
    "\n\n/",
    "\r\\\n#error",
    'quote"s \\" %s %d %n',
    "end\\",
    "größe/µ",
    "名前",
    "\u202egnp",
    "{ } {{ x }} {% endfor %}",
    "//% for",
    "x" * 5000,
    "x" * 5000 + "y",
)
WORDS = (
    *("int", "class", "NULL", "NAN", "INT32_MAX", "errno", "bytes", "main", "linux", "I", "and", "concept"),
    *("a", "A", "a.b", "a_b", "a-b", "a__b", "_a_b_", "a_b_2", "0", "1.5", "...", "__", "end_", "at_", "guard_", "v"),
    *("dims0", "dims1", "dims1_", "DIM0", "uint8_t", "uint32_t", "float_t", "INPUT", "OUTPUT", "B101", "A0", "PI"),
    *("net", "st", "w", "y0", "x0", "expect", "payload", "arena", "weights", "mcc_status", "MCC_OK", "pad0_"),
)


def _model(names: Sequence[str]) -> onnx.ModelProto:
    """x + 1 for each name as the input; outputs, weights and nodes are named alike."""
    inputs, outputs, nodes, weights = [], [], [], []
    for i, name in enumerate(names):
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [i % 3 + 1]))
        outputs.append(helper.make_tensor_value_info(f"{name} ", TensorProto.FLOAT, [i % 3 + 1]))
        weights.append(numpy_helper.from_array(np.arange(i % 3 + 1, dtype=np.float32), f" {name}"))
        nodes.append(helper.make_node("Add", [name, f" {name}"], [f"{name} "], name=name))
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _runs(path: Path, names: Sequence[str], out: Path, compiler: str) -> None:
    mccompile.compile(path, out, target="generic", opt_level="O0", embed=True)
    name = next(out.glob("*.mcb")).stem
    flags = [*resolve("generic").c_flags, *strict_warnings(compiler)]
    sources = [f"{name}.c", f"{name}_blob.c", "mcc.c", "example_main.c"]
    subprocess.run([compiler, *flags, "-I.", *sources, "-lm", "-o", "example"], cwd=out, check=True)
    subprocess.run(["./example"], cwd=out, check=True, capture_output=True)
    network = mccompile.load(out)
    assert list(network.inputs) == list(names)
    assert list(network.outputs) == [f"{n} " for n in names]
    given = {n: np.full(a.shape, i, np.float32) for i, (n, a) in enumerate(network.inputs.items())}
    for i, value in enumerate(network.run(given).values()):
        np.testing.assert_array_equal(value, np.arange(i % 3 + 1) + np.float32(i))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("names", [HOSTILE, WORDS, HOSTILE + WORDS], ids=["hostile", "words", "together"])
def test_tensor_and_node_names(names: tuple[str, ...], compiler: str, tmp_path: Path) -> None:
    path = tmp_path / "names.onnx"
    onnx.save(_model(names), path)
    _runs(path, names, tmp_path / "out", needs_tool(compiler))
    text = (tmp_path / "out" / "names.c").read_text() + (tmp_path / "out" / "names.h").read_text()
    code = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', "", text, flags=re.DOTALL)
    assert not re.search(r"\bint injected", code)
    long = [
        line for f in (tmp_path / "out").glob("*.[ch]") for line in f.read_text().splitlines() if len(line) > COLUMNS
    ]
    assert not long


def test_tensor_table_holds_the_onnx_names(tmp_path: Path) -> None:
    names = (*HOSTILE[:-2], *WORDS)
    path = tmp_path / "names.onnx"
    onnx.save(_model(names), path)
    mccompile.compile(path, tmp_path / "out", target="generic")
    (tmp_path / "out" / "print.c").write_text(
        '#include <stdio.h>\n#include "names.h"\nint main(void)\n{\n'
        "    for (int i = 0; i < NAMES_INPUTS; ++i) {\n        fputs(names_inputs[i].name, stdout);\n"
        "        putchar(0);\n    }\n    return 0;\n}\n"
    )
    command = [needs_tool("gcc"), "-std=c99", "print.c", "names.c", "mcc.c", "-lm", "-o", "print"]
    subprocess.run(command, cwd=tmp_path / "out", check=True)
    printed = subprocess.run(["./print"], cwd=tmp_path / "out", check=True, capture_output=True).stdout
    assert printed.decode().split("\0")[:-1] == list(names)


def test_paths_become_their_own_parts() -> None:
    names = ["/model/layer1/conv/Conv_output_0", "/model/layer2/conv/Conv_output_0", "/model/pool/MaxPool_output_0"]
    names += ["x", "plain.name", "bert.encoder.layer.0.attention.self.query.weight", "a/Relu;b/c/d"]
    names += ["bert.encoder.layer.1.attention.self.query.weight", "/m/3/Add", "/n/act/Selu;/n/b", "/n/act/Selu;/n/c"]
    assert list(own_parts(names).values()) == [
        *("layer1/conv/Conv_output_0", "layer2/conv/Conv_output_0", "MaxPool_output_0", "x", "plain.name"),
        *("layer/0/attention/self/query/weight", "Relu", "layer/1/attention/self/query/weight", "Add"),
        *("Selu", "Selu"),
    ]
    ids = unique_identifiers([*names, "q/plain.name", "/MODEL/LAYER1/CONV/CONV_OUTPUT_0"], short=True)
    assert len({i.lower() for i in ids.values()}) == len(ids)


def test_equal_paths_are_numbered() -> None:
    assert list(unique_identifiers(["/a/b", "a/b", "A/B", "c/3/4"], short=True).values()) == [
        "b",
        "b_2",
        "B_3",
        "c_3_4",
    ]


def test_identifiers_of_long_programs_leave_out_what_most_have() -> None:
    names = ["/Concat_1_output_0", "/Concat_1_output_1", "Concat_1", "/Concat_1_output_0.count"]
    names += ["output_0", "_output_0"]
    assert list(unique_identifiers(names, lengths=OF_LONG).values()) == [
        *("Concat_1", "Concat_1_output_1", "Concat_1_2", "Concat_1_count", "output_0", "t"),
    ]
    assert next(iter(unique_identifiers(names).values())) == "Concat_1_output_0"


MODEL_NAMES = (
    *("math", "stdio", "string", "mcc", "mcc_blob", "MCC", "int32", "size", "float", "time", "main", "example_main"),
    *("9lives", "größe", "a b-c.d", "___", "Int", "x" * 200, "NULL", "class", "assert", "errno", "test", "uint8_t"),
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_model_names(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    onnx.save(_model(["x"]), path)
    _runs(path, ["x"], tmp_path / "out", needs_tool("gcc"))
    report = mccompile.load(tmp_path / "out").report
    assert re.fullmatch(r"[a-z][a-z0-9_]*", report["model"]["name"])
    header = tmp_path / "out" / f"{report['model']['name']}.h"
    as_cpp = [needs_tool("g++"), "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"]
    subprocess.run([*as_cpp, str(header), "-Wno-pragma-once-outside-header"], check=True)


@pytest.mark.parametrize("name", ["dims0", "dims1", "dims_of_input0", "labels", "x_dims0"])
def test_tensors_that_tables_might_be_called_as(name: str, tmp_path: Path) -> None:
    """Of one target, and of several whose choice has the tables."""
    path = tmp_path / "net.onnx"
    onnx.save(_model([name, "x"]), path)
    for targets, out in ((), "one"), (("generic", "x86-64-v2"), "several"):
        if targets:
            projects.compile_choice(path, tmp_path / out, Options(targets=targets))
        else:
            driver.compile(path, tmp_path / out, Options(target="generic"))
        command = [needs_tool("gcc"), "-std=c99", "-fsyntax-only", "net.c"]
        subprocess.run(command, cwd=tmp_path / out, check=True)


TYPES_AND_MACROS = (
    *("uint8_t", "int32_t", "size_t", "uint_fast8_t", "INPUT", "OUTPUT", "HIGH", "DEFAULT", "PI", "A0", "B101"),
)


def test_the_header_compiles_behind_that_of_arduino(tmp_path: Path) -> None:
    """As C++, where no member is called as a type before it; macros of Arduino.h replace words that stand alone."""
    path = tmp_path / "net.onnx"
    onnx.save(_model(TYPES_AND_MACROS), path)
    for io in ("arena", "caller"):
        mccompile.compile(path, tmp_path / io, target="generic", io=io)
        macros = "".join(f"#define {n} 0x1\n" for n in TYPES_AND_MACROS if n.isupper())
        get = "const float *get(const net_t *net)\n{\n    return net_input_OUTPUT(net);\n}\n"
        (tmp_path / io / "main.cpp").write_text(f'{macros}#include "net.h"\n{get}')
        command = [needs_tool("g++"), "-std=c++11", "-Wall", "-Werror", "-fsyntax-only", "main.cpp"]
        subprocess.run(command, cwd=tmp_path / io, check=True)


def test_models_are_not_called_as_what_build_systems_have() -> None:
    """Targets of CMake, words of target_link_libraries, libraries that are linked by name, variables of CMake."""
    targets = "all help install clean package depend edit_cache rebuild_cache test".split()
    for name in (*targets, "debug", "optimized", "m", "c", "cmake"):
        assert model_name(name) == f"net_{name}"
        with pytest.raises(UsageError, match=f"'{name}' cannot be the prefix"):
            given_name(name)
    assert [model_name(n) for n in ("mnist", "cleaner", "alls")] == ["mnist", "cleaner", "alls"]


def test_models_are_not_called_as_what_systems_have() -> None:
    """<model>_t is a type, and <model>.h a header, of C, of POSIX, of C++ or of vectors."""
    types = "float32 bfloat16 int_least8 char16 timer sigset quad size".split()
    headers = "sched stdio immintrin xmmintrin avx2intrin x86gprintrin arm_neon wasm_simd128".split()
    for name in (*types, *headers):
        assert model_name(name) == f"net_{name}"


def test_identifiers_are_unique_beyond_case_and_short() -> None:
    names = [*HOSTILE, *WORDS, "X" * 5000, "Int", "INT"]
    table = unique_identifiers(names, taken=("end_",))
    assert list(table) == names
    assert len({i.lower() for i in table.values()}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", i) and len(i) <= MAX_IDENTIFIER + 6 for i in table.values())
    assert identifier("conv1/Conv+relu") == "conv1_Conv_relu"
    assert model_name("KWS-small") == "kws_small"


@pytest.mark.parametrize("name", HOSTILE)
def test_comments_stay_comments(name: str) -> None:
    text = comment(name)
    assert not re.search(r"\*/|/\*|\?\?|\\|[\x00-\x1f\x7f]|\u202e", text)
    assert len(text) <= 300


@pytest.mark.parametrize("name", [*HOSTILE, "tab\t", "é" * 1500])
def test_string_literals_are_what_they_say(name: str) -> None:
    text = string_literal(name).replace('" "', "")
    assert re.fullmatch(r"(?:[ !#-\[\]-~]|\\[0-7]{3})*", text)
    assert "?" not in text
    value = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), text.encode())
    assert name.encode().startswith(value)
    assert len(value) == len(name.encode()) or 1990 < len(value) <= 2000
    value.decode()
