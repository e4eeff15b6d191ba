"""Maps behind what repeats elements, or leaves few of a line: the same values, wherever and over whatever lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from mccompile.codegen.folder import write_folder
from mccompile.driver import Options, compile_files
from mccompile.run.network import Network
from mccompile.targets.target import STRICT_WARNINGS
from tests.kernels.cases import Array, Net
from tests.support.targets import needs_target

TARGETS = ["generic", "native", "x86-64-v3"]


def _repeated(n: Net, rng: np.random.Generator) -> tuple[str, list[int]]:
    """An image or a line, of which elements come several times, or a few of each line; and its extents."""
    rank = int(rng.integers(2, 5))
    shape = [int(e) for e in rng.choice([1, 2, 3, 5, 8, 17, 30], rank)]
    x = n.input(*shape)
    if rng.integers(2):
        x = n("Abs", x)
    times = [int(t) for t in rng.choice([1, 1, 2, 3], rank)]
    many = [e * t for e, t in zip(shape, times, strict=True)]
    kind = int(rng.integers(3))
    if kind == 0:
        scales = n.constant(np.array(times, np.float32))
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return n("Resize", x, "", scales, mode="nearest", **how), many
    if kind == 1:
        return n("Tile", x, n.ints(*times)), many
    start, end = sorted(int(e) for e in rng.choice(np.arange(shape[-1] + 1), 2, replace=False))
    return n("Slice", x, n.ints(start), n.ints(end), n.ints(rank - 1)), [*shape[:-1], end - start]


def _mapped(n: Net, rng: np.random.Generator, x: str, shape: list[int]) -> str:
    """One or two functions; what stands beside is a number, a constant or an input of some of the extents."""
    for _ in range(int(rng.integers(1, 3))):
        x = n(str(rng.choice(["Relu", "Sigmoid", "Tanh", "Neg"])), x)
        own = [e if rng.integers(2) else 1 for e in shape]
        beside = n.input(*own) if rng.integers(2) else n.constant(rng.standard_normal(own).astype(np.float32))
        if rng.integers(2):
            x = n(str(rng.choice(["Add", "Mul"])), x, beside)
    return x


@pytest.mark.parametrize(
    ("target", "seeds"),
    [
        *((t, range(8)) for t in TARGETS),
        *(pytest.param(t, range(8, 32), marks=pytest.mark.slow) for t in TARGETS),
        pytest.param("aarch64", range(8), marks=pytest.mark.slow),
    ],
)
def test_maps_of_what_is_repeated(target: str, seeds: range, tmp_path: Path) -> None:
    """Read through, copied first, or computed before: in front of a product, of a join, or as an output."""
    needs_target(target)
    for seed in seeds:
        rng, n = np.random.default_rng(seed), Net(seed)
        n.opset = 18
        x, shape = _repeated(n, rng)
        y = _mapped(n, rng, x, shape)
        end = int(rng.integers(4))
        if end == 0:
            y = n("MatMul", y, n.weight(shape[-1], 5))
        elif end == 1:
            y = n("Concat", y, x, axis=0)
        model = n.model(y)
        inputs = _inputs(model, rng)
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (want,) = session.run(None, inputs)
        path = tmp_path / f"net{seed}.onnx"
        onnx.save(model, path)
        c, files = compile_files(path, Options(target=target))
        write_folder(tmp_path / f"net{seed}", files)
        (got,) = Network(tmp_path / f"net{seed}", STRICT_WARNINGS, emulate=True).run(inputs).values()
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5, err_msg=f"seed {seed} {c.graph.name}")


def _inputs(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, Array]:
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("function", ["Add", "Tanh"])
def test_pixels_that_come_twice_are_no_lines_of_two(function: str, tmp_path: Path) -> None:
    """Images as they grow on their way back: what is added to them is added in whole vectors, what is computed of
    them alone is computed before."""
    n = Net(1)
    n.opset = 18
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    x = n("Resize", n.input(1, 8, 20, 20), "", n.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest", **how)
    y = n("Add", x, n.input(1, 8, 40, 40)) if function == "Add" else n(function, x)
    onnx.save(n.model(y), tmp_path / "net.onnx")
    c, _ = compile_files(tmp_path / "net.onnx", Options(target="x86-64-v4"))
    assert c.program is not None
    kernels = [(s.kernel, s.results[0].count) for s in c.program.body.linear() if hasattr(s, "kernel")]
    if function == "Add":
        assert kernels == [("copy.generic", 12800), ("map.vector", 12800)]
    else:
        assert kernels == [("map.vector", 3200), ("copy.generic", 12800)]
