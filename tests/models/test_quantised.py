"""Real networks of 8-bit integers: equal to what onnxruntime stored, or a tie; their memory; no floats on an M4."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile import driver
from mccompile.check.check import check, check_folder
from mccompile.check.reference import open_judge
from mccompile.check.ties import judge_layers, rounded_names
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options
from mccompile.onnxio import tensor_names
from mccompile.run.network import Network
from mccompile.targets.target import resolve
from tests._skips import needs_tool
from tests.support.real_models import SHARED
from tests.support.targets import needs_target

Array = np.ndarray[Any, np.dtype[Any]]
TINY = {
    "ic_resnet8_int8": 33_808,
    "kws_dscnn_int8": 9_002,
    "vww_mobilenetv1_int8": 38_272,
    "ad_autoencoder_int8": 1_024,
    "sww_dscnn1d_int8": 4_736,
}
"""MLPerf Tiny, and the most bytes that their arenas may take on a Cortex-M4."""
EQUAL = ("kws_dscnn_int8", "vww_mobilenetv1_int8", "sww_dscnn1d_int8")
"""No tie reaches their outputs on the stored samples."""
CYCLES = {
    "ic_resnet8_int8": 18.5,
    "kws_dscnn_int8": 4.2,
    "vww_mobilenetv1_int8": 7.8,
    "ad_autoencoder_int8": 0.40,
    "sww_dscnn1d_int8": 1.3,
}
"""Millions that they may take on a Cortex-M4, with assembler or without."""
INSTRUCTIONS = {
    "ic_resnet8_int8": (11.8, 15.0),
    "kws_dscnn_int8": (2.85, 3.40),
    "vww_mobilenetv1_int8": (5.35, 6.40),
    "ad_autoencoder_int8": (0.31, 0.31),
    "sww_dscnn1d_int8": (0.83, 1.05),
}
"""Millions that they may take with assembler, and without."""
OTHERS = ("kws_micro_qdq", "mobilenetv2_035_int8_qdq", "shufflenetv2_int8", "crepe_tiny_qop")
MOST_DIFFERING = 1e-5
"""The part of the elements of all layers that may fall to the other side of a tie than onnxruntime's."""

pytestmark = pytest.mark.skipif(
    not (SHARED / "mlperf_tiny").exists() or not (SHARED / "models").exists(),
    reason="needs mlperf_tiny and models under MCC_SHARED",
)


def _path(name: str) -> Path:
    return SHARED / "mlperf_tiny" / f"{name}.onnx" if name in TINY else SHARED / "models" / name / "model.onnx"


def _samples(name: str) -> tuple[Array, Array]:
    return tuple(np.load(_path(name).with_suffix(f".{kind}.npy")) for kind in ("input", "output"))  # type: ignore[return-value]


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("name", TINY)
def test_stored_outputs_are_met_but_for_ties(name: str, target: str, tmp_path: Path) -> None:
    """8 samples: the C computes its graph, each layer of which rounds right; where no tie is in the way, outputs are
    the stored ones."""
    path, options = _path(name), Options(target=target)
    compilation, files = driver.compile_files(path, options)
    write_folder(tmp_path / "out", files)
    network = Network(tmp_path / "out")
    graph = compilation.graph
    (given,), (result,) = (v.name for v in graph.inputs), (v.name for v in graph.outputs)
    imported = driver.import_graph(path, options).graph
    known = set(tensor_names(path))
    judge = open_judge(path, [result], [n for n in rounded_names(imported) if n in known])
    elements = differing = 0
    for x, want in zip(*_samples(name), strict=True):
        inputs = {given: x[None]}
        got = network.run(inputs)[result]
        assert np.array_equal(got, graph.evaluate(inputs)[result])
        ties = judge_layers(imported, graph, judge, inputs)
        assert ties.ok, ties.text()
        assert ties.layers >= 8
        elements, differing = elements + ties.elements, differing + ties.differing
        same = np.array_equal(got.reshape(want.shape), want)
        apart = int((got.reshape(want.shape) != want).sum())
        assert same or (name not in EQUAL and ties.differing), f"{apart} differ"
    assert differing <= max(MOST_DIFFERING * elements, 1), f"{differing} of {elements}"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, "native") for name in OTHERS if name != "shufflenetv2_int8"),
        pytest.param("shufflenetv2_int8", "native", marks=pytest.mark.slow),
        *(pytest.param(name, "generic", marks=pytest.mark.slow) for name in OTHERS),
    ],
)
def test_other_quantised_networks_pass_the_check(name: str, target: str) -> None:
    result = check(_path(name), Options(target=target))
    assert result.ok, "\n".join(result.lines())


FLOATS = re.compile(r"\t(v[a-z0-9.]+)\s|\b(?:__aeabi_[fd]|__float|__fix)\w*")
"""Instructions of the floating-point unit, and calls of what computes floats without one."""


@pytest.mark.parametrize("name", TINY)
def test_integer_networks_touch_no_float_and_stay_small(name: str, tmp_path: Path) -> None:
    """On a Cortex-M4, whose floating-point registers an interrupt would have to save."""
    gcc, objdump = needs_tool("arm-none-eabi-gcc"), needs_tool("arm-none-eabi-objdump")
    compilation, files = driver.compile_files(_path(name), Options(target="cortex-m4"))
    assert compilation.program is not None
    assert compilation.program.facts.peak <= TINY[name]
    write_folder(tmp_path / "out", files)
    source = tmp_path / "out" / f"{compilation.graph.name}.c"
    flags = [*resolve("cortex-m4").c_flags, "-O2", "-c", source.name, "-o", "net.o"]
    subprocess.run([gcc, *flags], cwd=source.parent, check=True)
    listing = subprocess.run(
        [objdump, "-dr", "net.o"], cwd=source.parent, check=True, capture_output=True, text=True
    ).stdout
    assert len(listing.splitlines()) > 500
    found = [line for line in listing.splitlines() if FLOATS.search(line)]
    assert not found, "\n".join(found[:9])


@pytest.mark.parametrize("assembler", [True, False])
@pytest.mark.parametrize("name", TINY)
def test_counts_of_integer_networks(name: str, assembler: bool, tmp_path: Path) -> None:
    """With -DMCC_NO_ASM there is C with the intrinsics of ACLE alone, written so that it comes out as fast."""
    needs_target("cortex-m4")
    compilation, files = driver.compile_files(_path(name), Options(target="cortex-m4"))
    out = tmp_path / compilation.graph.name
    write_folder(out, files)
    source = out / f"{compilation.graph.name}.c"
    assert "__asm__" in source.read_text()
    if not assembler:
        source.write_text("#define MCC_NO_ASM\n" + source.read_text())
    result = check_folder(_path(name), compilation, out)
    assert result.ok, "\n".join(result.lines())
    assert result.measured is not None
    assert result.measured.cycles is not None
    assert result.measured.instructions is not None
    assert 0.5 < result.measured.cycles / 1e6 / CYCLES[name] <= 1
    assert 0.9 < result.measured.instructions / 1e6 / INSTRUCTIONS[name][not assembler] <= 1


@pytest.mark.slow
def test_counts_with_the_rounding_of_tflite() -> None:
    """What docs/quantization.md says that `--requant tflite` costs."""
    needs_target("cortex-m4")
    result = check(_path("kws_dscnn_int8"), Options(target="cortex-m4", requant="tflite"))
    assert result.ok, "\n".join(result.lines())
    assert result.measured is not None
    found = result.measured.instructions, result.measured.cycles
    assert found == pytest.approx((3.89e6, 5.55e6), rel=0.02)


def test_floats_on_an_m4_would_be_seen(tmp_path: Path) -> None:
    gcc, objdump = needs_tool("arm-none-eabi-gcc"), needs_tool("arm-none-eabi-objdump")
    text = "float f(float a, float b) { return a * b; } double g(double a, double b) { return a * b; }\n"
    (tmp_path / "f.c").write_text(text)
    flags = [*resolve("cortex-m4").c_flags, "-O2"]
    subprocess.run([gcc, *flags, "-c", "f.c", "-o", "f.o"], cwd=tmp_path, check=True)
    command = [objdump, "-dr", "f.o"]
    listing = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    found = [line for line in listing.splitlines() if FLOATS.search(line)]
    assert any("vmul" in line for line in found)
    assert any("__aeabi_dmul" in line for line in found)
