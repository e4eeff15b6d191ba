"""A network at extents of the run, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import mccompile
from tests.support.judge import plain_session

Array = np.ndarray[Any, np.dtype[Any]]


def compare(
    model: onnx.ModelProto, folder: Path, feeds: Sequence[Mapping[str, Array]], rtol: float, atol: float,
    **options: Any,
) -> None:
    """Compile with these options and run on arenas full of 0xFF, one input after the other: shapes and values."""
    path = folder / "net.onnx"
    onnx.save(model, path)
    mccompile.compile(path, folder / "out", **options)
    network = mccompile.load(folder / "out")
    session = plain_session(model.SerializeToString())
    for feed in feeds:
        network.fill_arenas(0xFF)
        got = network.run(dict(feed))
        for name, want in zip((o.name for o in model.graph.output), session.run(None, dict(feed)), strict=True):
            np.testing.assert_allclose(got[name], want, rtol=rtol, atol=atol, err_msg=name)
            assert got[name].shape == want.shape
