"""Generated integer C against MISRA C:2012, by the addon of cppcheck: what docs/generated-code.md says, no more."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mccompile
from mccompile.targets.target import resolve
from tests._skips import REPOSITORY, needs_shared, needs_tool
from tests.support.quantised import Net
from tests.support.small_models import Maker

TARGETS = ("generic", "cortex-m4", "cortex-m0plus")
_ROW = re.compile(r"^\| (\d+\.\d+) \| (mandatory|required|advisory) \|", re.MULTILINE)
_FOUND = re.compile(r"misra-c2012-(\d+\.\d+)$", re.MULTILINE)


def documented() -> dict[str, str]:
    """The category of each rule that has a row in the document."""
    return dict(_ROW.findall((REPOSITORY / "docs" / "generated-code.md").read_text()))


def rules_broken(model: Path, folder: Path, target: str) -> set[str]:
    """The rules that cppcheck finds broken in the C of a network and in its runtime."""
    cppcheck = needs_tool("cppcheck")
    mccompile.compile(model, folder, target=target)
    command = [cppcheck, "--addon=misra", "--quiet", "--std=c99", "--platform=arm32-wchar_t4"]
    command += ["--template={file}:{line}: {id}"]
    command += ["-DMCC_MISRA", *_own_macros(target)]
    sources = [p.name for p in folder.glob("*.c") if p.name != "example_main.c"]
    done = subprocess.run([*command, *sources], cwd=folder, capture_output=True, text=True, check=True)
    strange = [line for line in done.stderr.splitlines() if line.strip() and not _FOUND.search(line)]
    assert not strange, strange
    return set(_FOUND.findall(done.stderr))


def _own_macros(target: str) -> list[str]:
    """What the compiler of a microcontroller says of the core: generated files ask for it."""
    described = resolve(target)
    if not described.triple:
        return []
    command = [needs_tool(f"{described.triple}-gcc"), *described.flags, "-dM", "-E", "-x", "c", "/dev/null"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^#define (__ARM_\w+) (\S+)$", said, re.MULTILINE)
    return [f"-D{name}={value}" for name, value in found]


def _classifier(path: Path) -> Path:
    """A network with convolutions of all kinds, an addition, a mean, a row of products, and a softmax."""
    net = Net(1, (1, 3, 9, 7))
    first = net.conv(8, 3, relu=True)
    net.conv(8, 3, groups=8, relu=True)
    net.conv(8, 1, add=first)
    net.conv(20, 3)
    net.unary("GlobalAveragePool", 0.031, 5)
    net.shape = (1, 20, 1, 1)
    net.conv(10, 1)
    net.unary("Softmax", 1 / 256, -128, axis=1)
    return net.model(path)


def _integers(path: Path) -> Path:
    """Operators on integers: quotients, remainders, shifts, choices, the best along an axis, what is not 0."""
    m = Maker()
    x, y = (m.input(name, [3, 5], TensorProto.INT32) for name in "xy")
    bits = m.input("bits", [3, 5], TensorProto.UINT32)
    best = m.node("TopK", [m.node("Mod", [m.node("Div", [x, y]), y]), m.const(np.array([2]))])
    m.nodes[-1].output.append("places")
    chosen = m.node("Where", [m.node("Equal", [x, y]), m.node("Mul", [x, y]), m.node("Max", [x, y])])
    shifted = m.node("BitShift", [bits, bits], direction="LEFT")
    total = m.node("ReduceSum", [chosen, m.const(np.array([1]))])
    made = [m.node("NonZero", [shifted]), m.node("ArgMax", [x]), total]
    onnx.save(m.model([best, "places", *made, m.node("Sign", [x]), m.node("Not", [m.node("Less", [x, y])])]), path)
    return path


def test_rules_broken_are_those_documented(tmp_path: Path) -> None:
    known = documented()
    assert "mandatory" not in known.values()
    model = _classifier(tmp_path / "classifier.onnx")
    found = set().union(*(rules_broken(model, tmp_path / target, target) for target in TARGETS))
    found |= rules_broken(_integers(tmp_path / "integers.onnx"), tmp_path / "integers", "generic")
    assert found == set(known)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_quantised_networks_break_no_other_rules(target: str, tmp_path: Path) -> None:
    tiny = sorted(needs_shared("mlperf_tiny").glob("*_int8.onnx"))
    for model in [*tiny, needs_shared("models/kws_micro_qdq/model.onnx")]:
        assert rules_broken(model, tmp_path / model.stem, target) <= set(documented()), model.name
