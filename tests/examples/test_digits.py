"""The shipped example: its accuracy is what its README says, and the generated C agrees with onnxruntime."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import mccompile
from tests._skips import needs_tool

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "digits"
WARNINGS = (
    "all extra pedantic conversion sign-conversion double-promotion shadow vla undef cast-qual cast-align "
    "strict-prototypes missing-prototypes error"
)
STRICT = ["-std=c99", "-O2", "-ffp-contract=off", *(f"-W{name}" for name in WARNINGS.split())]


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.load(EXAMPLE / "test_images.npy").astype(np.float32)


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    return np.load(EXAMPLE / "test_labels.npy").astype(np.int64)


@pytest.fixture(scope="module")
def expected(images: np.ndarray) -> np.ndarray:
    """onnxruntime's scores[449,10]."""
    session = onnxruntime.InferenceSession(EXAMPLE / "digits.onnx", providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"image": images})[0]


def test_accuracy_is_what_the_readme_says(expected: np.ndarray, labels: np.ndarray) -> None:
    readme = (EXAMPLE / "README.md").read_text()
    found = re.search(r"Accuracy on the (\d+) test pictures: ([\d.]+)\*\* \((\d+) right\)", readme)
    assert found is not None
    hits = int((expected.argmax(1) == labels).sum())
    assert (len(labels), hits) == (int(found[1]), int(found[3]))
    assert f"{hits / len(labels):.4f}" == found[2]
    assert hits / len(labels) >= 0.98


def test_example_is_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLE.iterdir() if path.is_file()) < 100_000


@pytest.mark.parametrize("target", ["native", "generic"])
def test_generated_c_agrees_with_onnxruntime_on_every_picture(
    target: str, images: np.ndarray, expected: np.ndarray, tmp_path: Path
) -> None:
    mccompile.compile(EXAMPLE / "digits.onnx", tmp_path / "out", target=target)
    network = mccompile.load(tmp_path / "out")
    scores = np.concatenate([network.run({"image": image[None]})["scores"].copy() for image in images])
    assert scores.shape == expected.shape
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_array_equal(scores.argmax(1), expected.argmax(1))


@pytest.mark.parametrize("compiler", ["cc", "gcc", "clang"])
def test_classify_program_prints_the_classes_of_onnxruntime(
    compiler: str, images: np.ndarray, expected: np.ndarray, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    mccompile.compile(EXAMPLE / "digits.onnx", out, target="generic")
    sources = [EXAMPLE / "classify.c", out / "digits.c", out / "mcc.c"]
    program = tmp_path / "classify"
    subprocess.run([needs_tool(compiler), *STRICT, f"-I{out}", *sources, "-o", program, "-lm"], check=True)
    images.tofile(tmp_path / "images.f32")
    command = [program, out / "digits.mcb", tmp_path / "images.f32"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert [int(c) for c in printed] == expected.argmax(1).tolist()

    truncated = tmp_path / "truncated.mcb"
    truncated.write_bytes((out / "digits.mcb").read_bytes()[:-1])
    assert subprocess.run([program, truncated, tmp_path / "images.f32"], capture_output=True).returncode == 1


@pytest.mark.slow
def test_training_script_reproduces_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("digits_train", EXAMPLE / "train.py")
    assert spec is not None
    assert spec.loader is not None
    train = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "digits_train", train)  # dataclasses look their module up there
    spec.loader.exec_module(train)
    monkeypatch.setattr(train, "HERE", tmp_path)
    train.main()
    images = np.load(tmp_path / "test_images.npy")
    np.testing.assert_array_equal(images, np.load(EXAMPLE / "test_images.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "test_labels.npy"), np.load(EXAMPLE / "test_labels.npy"))
    session = onnxruntime.InferenceSession(tmp_path / "digits.onnx", providers=["CPUExecutionProvider"])
    scores = session.run(None, {"image": images.astype(np.float32)})[0]
    # Another BLAS rounds differently, which eighty epochs can amplify: the accuracy is what must come back.
    assert (scores.argmax(1) == np.load(tmp_path / "test_labels.npy")).mean() >= 0.98
