"""Generated C in memory where no stray access goes unseen: split and poisoned arenas, guard pages, alignment."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile.targets.target import resolve
from tests._skips import REPOSITORY, needs_tool
from tests.support.harness import SANITIZERS, SPLIT, Array, Harness, build
from tests.support.opcases import mismatch
from tests.support.small_models import MODELS, draw_inputs, ort_run, write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
PLACES = ("low", "high", "odd")
NAMES = [*MODELS, "digits"]
TARGETS = ["generic", "native"]


def _model(name: str, folder: Path) -> Path:
    return DIGITS if name == "digits" else write_model(name, folder)


def _compiled(name: str, folder: Path, **options: object) -> Path:
    out = folder / f"out_{name}"
    mccompile.compile(_model(name, folder), out, **options)  # type: ignore[arg-type]
    return out


def _assert_close(got: dict[str, Array], want: dict[str, Array]) -> None:
    assert list(got) == list(want)
    for name, value in want.items():
        tolerance = 4e-3 if value.dtype == np.float16 else 1e-5
        assert not mismatch(got[name], value, tolerance), f"{name}: {mismatch(got[name], value, tolerance)}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_no_access_outside_of_the_tensors(name: str, target: str, tmp_path: Path) -> None:
    """One arena with overlaps between guard pages, and one with a poisoned guard around each tensor."""
    compiler = needs_tool("gcc")
    model = _model(name, tmp_path)
    out = _compiled(name, tmp_path, target=target)
    runs = [draw_inputs(model, seed) for seed in (1, 2)]
    want = [ort_run(model, inputs) for inputs in runs]
    plain, split = build(out, (), compiler), build(out, [*SANITIZERS, SPLIT, "-O0"], compiler)
    reference = plain.run("low", runs)
    for got, expected in zip(reference, want, strict=True):
        _assert_close(got, expected)
    alone = [plain.run("low", [inputs])[0] for inputs in runs]
    for place in PLACES:
        for harness in (plain, split):
            for i, got in enumerate(harness.run(place, runs)):
                _assert_close(got, want[i])
                if harness is plain or target == "generic":
                    for port, value in alone[i].items():
                        np.testing.assert_array_equal(got[port], value, err_msg=f"{port}, run {i}, {place}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["conv_padding", "half", "many_outputs"])
def test_init_refuses_what_it_cannot_use(name: str, target: str, tmp_path: Path) -> None:
    out = _compiled(name, tmp_path, target=target)
    other = _compiled("concat", tmp_path, target=target)
    build(out, SANITIZERS, needs_tool("gcc")).call("refuse", out / f"{name}.mcb", other / "concat.mcb")


# -- planted faults: each must be seen by the test above that is there for it --------------------------------------


def _edited(out: Path, pattern: str, replacement: str, function: str = "") -> Path:
    """<name>.c with the first match of ``pattern`` (inside of the kernel ``function``) replaced, as a new file."""
    source = next(p for p in out.glob("*.c") if p.name not in ("mcc.c", "example_main.c"))
    text = source.read_text()
    start = re.search(rf"^static .*{function}\(.*\)$", text, re.MULTILINE) if function else re.search("", text)
    assert start is not None
    tail, count = re.subn(pattern, replacement, text[start.start() :], count=1)
    assert count == 1, f"nothing like {pattern}"
    edited = out / f"edited_{source.stem}.inc.c"
    edited.write_text(text[: start.start()] + tail)
    return edited


def _dies(harness: Harness, inputs: list[dict[str, Array]], place: str = "low") -> str:
    try:
        harness.run(place, inputs)
    except subprocess.CalledProcessError as e:
        return str(e.stderr)
    return ""


def test_a_write_behind_a_tensor_is_seen_by_the_split_arena_alone(tmp_path: Path) -> None:
    out = _compiled("concat", tmp_path, target="generic", opt_level="O0")  # later it writes into a part
    inputs = [draw_inputs(write_model("concat", tmp_path), 1)]
    edited = _edited(out, r"(for \(int32_t m = 0; m )< (\d+);", r"\1<= \2;", r"_k0_conv")
    assert "use-after-poison" in _dies(build(out, [*SANITIZERS, SPLIT], source=edited), inputs)
    assert not _dies(build(out, SANITIZERS, source=edited), inputs), "the plain arena need not have been split"


def test_a_read_before_a_tensor_is_seen_by_the_split_arena(tmp_path: Path) -> None:
    out = _compiled("conv_padding", tmp_path, target="generic")
    inputs = [draw_inputs(write_model("conv_padding", tmp_path), 1)]
    edited = _edited(out, r"\(\w+ < 0\) \|\| ", "", r"_k\d+_conv")
    assert "use-after-poison" in _dies(build(out, [*SANITIZERS, SPLIT], source=edited), inputs)


def test_a_read_behind_the_blob_is_seen_by_the_guard_page(tmp_path: Path) -> None:
    out = _compiled("conv_padding", tmp_path, target="generic")
    inputs = [draw_inputs(write_model("conv_padding", tmp_path), 1)]
    assert (out / "conv_padding.mcb").stat().st_size < 4096
    far = _edited(out, r"x1\[", "x1[1024 + ", r"_k\d+_conv")
    harness = build(out, source=far)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        harness.run("high", inputs)
    assert caught.value.returncode == -11


def test_more_alignment_than_declared_is_seen(tmp_path: Path) -> None:
    out = _compiled("conv_padding", tmp_path, target="generic")
    inputs = [draw_inputs(write_model("conv_padding", tmp_path), 1)]
    wish = r"if ((uintptr_t)(const void *)x0 % (2 * CONV_PADDING_ALIGN) != 0u) { return MCC_E_ALIGN; }"
    edited = _edited(out, r"(_arena \*const a = net->arena;)", rf"\1 const float *x0 = a->x.v; {wish}")
    harness = build(out, source=edited)
    harness.run("low", inputs)
    with pytest.raises(subprocess.CalledProcessError):
        harness.run("odd", inputs)


def test_a_lost_fill_is_seen_by_the_poisoned_arena(tmp_path: Path) -> None:
    model = write_model("pad_modes", tmp_path)
    out = _compiled("pad_modes", tmp_path, target="generic")
    inputs = [draw_inputs(model, 1)]
    harness = build(out, source=_edited(out, r"\n    MCC_STEP\(\d+, pad_modes_k\d+_fill\(.*\);", ""))
    (got,) = harness.run("low", inputs)
    assert mismatch(got["y"], ort_run(model, inputs[0])["y"], 1e-5)


def test_each_lost_halo_fill_is_seen_by_the_poisoned_arena(tmp_path: Path) -> None:
    model = write_model("concat", tmp_path)
    if not resolve("native").lanes:
        pytest.skip("without vectors there are no kernels that want a halo")
    out = _compiled("concat", tmp_path, target="native")
    inputs = [draw_inputs(model, 1)]
    want = ort_run(model, inputs[0])["y"]
    call = r"\n    MCC_STEP\(\d+, concat_k\d+_fill\(.*\);"
    fills = len(re.findall(call, (out / "concat.c").read_text()))
    assert fills
    for i in range(fills):
        before = rf"((?:{call}[\s\S]*?){{{i}}}){call}"
        (got,) = build(out, source=_edited(out, before, r"\1")).run("low", inputs)
        assert mismatch(got["y"], want, 1e-5), f"fill {i}"


def test_state_from_the_run_before_is_seen(tmp_path: Path) -> None:
    model = write_model("residual", tmp_path)
    out = _compiled("residual", tmp_path, target="generic")
    runs = [draw_inputs(model, seed) for seed in (1, 2)]
    first = r"(\n    )(MCC_STEP\(\d+, residual_k0_\w+\(.*\);)"
    edited = _edited(out, first, r"\1static int ran; if (ran++ == 0) { \2 }")
    together = build(out, source=edited).run("low", runs)
    alone = build(out, source=edited).run("low", runs[1:])
    assert not np.array_equal(together[1]["y"], alone[0]["y"])
