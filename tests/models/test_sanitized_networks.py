"""Some networks with the sanitizers of gcc and clang: nothing outside of memory, nothing undefined or unwritten.

The others were run once (docs/testing.md).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mccompile
from tests._skips import needs_sanitizers
from tests.support.real_models import RealModel, real_models
from tests.support.sanitized import MEMORY_SANITIZER, SANITIZERS, UNWRITTEN, sanitized_network

SAMPLE = ("gesture_history_lstm", "kws_dscnn_fp32", "nilm_conv1d", "silero_vad", "squeezenet_fp16", "ultraface_nms")
KINDS = {"gcc": ("gcc", SANITIZERS), "clang": ("clang", SANITIZERS), "memory": ("clang", MEMORY_SANITIZER)}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not real_models(), reason="needs models/manifest.json under MCC_SHARED"),
]


@pytest.mark.parametrize("model", [m for m in real_models() if m.name in SAMPLE], ids=lambda m: m.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["generic", "native"])
def test_a_network_keeps_to_its_memory_and_the_language(
    model: RealModel, kind: str, target: str, tmp_path: Path
) -> None:
    compiler, flags = KINDS[kind]
    needs_sanitizers(compiler)
    mccompile.compile(model.path, tmp_path / "out", target=target, input_shapes=model.shapes)
    network = sanitized_network(tmp_path / "out", flags, compiler)
    for _ in range(2):
        for name, array in network.run(model.inputs()).items():
            unwritten = np.full(array.dtype.itemsize, UNWRITTEN, np.uint8).view(array.dtype)
            assert not (array == unwritten).all(), name
