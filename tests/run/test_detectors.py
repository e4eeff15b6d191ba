"""What stands behind detection networks: what it finds is onnxruntime's, where it finds nothing and all, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import mccompile
from tests.support import detectors
from tests.support.judge import plain_session

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("build", "target"),
    [
        (detectors.mask_rcnn, "native"),
        pytest.param(detectors.mask_rcnn, "generic", marks=SLOW),
        *(
            pytest.param(build, target, marks=SLOW)
            for build in (detectors.ssd, detectors.retina_net, detectors.yolo, detectors.padded)
            for target in ("generic", "native")
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else v.__name__,
)
def test_what_is_found_is_what_onnxruntime_finds(
    build: Callable[[], onnx.ModelProto], target: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(build(), path)
    session = plain_session(path.read_bytes())
    named = {e for x in session.get_inputs() for e in x.shape if isinstance(e, str)}
    ranges = {"b": "1..2", "n": "4..40"}
    mccompile.compile(path, tmp_path / "out", target=target, dims={n: ranges[n] for n in named})
    network, rng = mccompile.load(tmp_path / "out"), np.random.default_rng(1)
    for scale, shift in ((1, 0), (0, 0), (1, -4), (1, 4), (1, 0), (2, 0)):
        extents = {n: int(rng.integers(*map(int, ranges[n].split("..")), endpoint=True)) for n in named}
        inputs = {
            x.name: (scale * rng.normal(0, 1, [extents.get(e, e) for e in x.shape]) + shift).astype(np.float32)
            for x in session.get_inputs()
        }
        network.fill_arenas(0xFF)
        got = network.run(inputs)
        for output, wanted in zip(session.get_outputs(), session.run(None, inputs), strict=True):
            assert got[output.name].shape == wanted.shape, (output.name, scale, shift)
            np.testing.assert_allclose(got[output.name], wanted, atol=1e-5, err_msg=output.name)
