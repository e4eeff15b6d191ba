"""Normalisations and softmax beyond the drawn samples: special values, long sums, float64, rare outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.op import Op
from mccompile.ir.types import DTYPES
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.ops.normalize import Normalize
from mccompile.ops.registry import front_ends
from mccompile.ops.resize import Resize
from mccompile.ops.sampling import Case
from mccompile.ops.softmax import Softmax
from tests.support.opcases import Built, CaseLibrary, case_inputs, case_model, mismatch, ort_outputs

Array = np.ndarray[Any, np.dtype[Any]]


def run(op_type: str, case: Case, folder: Path, target: str = "generic") -> tuple[list[Array], list[Array]]:
    """Outputs of generated C and of onnxruntime, which has GlobalLpPool up to opset 21 only."""
    model = case_model(front_ends()["", op_type], case, opset=21)
    return run_c(op_type, case, folder, target), ort_outputs(model, case)


def run_c(op_type: str, case: Case, folder: Path, target: str = "generic") -> list[Array]:
    model = case_model(front_ends()["", op_type], case, opset=21)
    path = folder / "case.onnx"
    path.write_bytes(model.SerializeToString())
    c = import_graph(path, Options(target=target, name="case0"))
    built = Built(0, case, [], c, compile_program(c))
    library = CaseLibrary(folder, [built], c.target.c_flags).build()
    return library.run(built, case_inputs(case))


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_nan_spoils_its_row_only(op_type: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).uniform(-3, 3, (3, 70)).astype(np.float32)
    x[1, 4] = np.nan
    x[2, 5] = -np.inf
    (got,), (want,) = run(op_type, Case([x]), tmp_path)
    assert np.isnan(got[1]).all()
    assert not mismatch(got, want, 1e-6)


def test_softmax_of_large_values_does_not_overflow(tmp_path: Path) -> None:
    x = np.array([[1e4, 1e4 - 1, -1e4], [3e38, -3e38, 3e38]], dtype=np.float32)
    (got,), (want,) = run("Softmax", Case([x]), tmp_path)
    assert np.isfinite(got).all()
    assert not mismatch(got, want, 1e-6)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(p: int, tmp_path: Path) -> None:
    x = np.random.default_rng(p).uniform(-2, 2, (2, 3, 7, 5)).astype(np.float32)
    (got,), (want,) = run("GlobalLpPool", Case([x], {"p": p}), tmp_path)
    assert not mismatch(got, want, 4e-6)


def test_layer_normalization_gives_its_statistics(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x, scale = rng.uniform(-2, 6, (4, 3, 33)).astype(np.float32), rng.uniform(-1, 1, 33).astype(np.float32)
    got, want = run("LayerNormalization", Case([x, scale], {"axis": -1}, outputs=3), tmp_path)
    assert [not mismatch(g, w, 4e-6) for g, w in zip(got, want, strict=True)] == [True] * 3


def test_statistics_of_float64_are_of_the_type_that_is_asked_for(tmp_path: Path) -> None:
    x = np.random.default_rng(3).uniform(-2, 2, (4, 9))
    got, want = run("LayerNormalization", Case([x, x[0], x[1]], {"axis": -1}, frozenset({1, 2}), 3), tmp_path)
    assert [a.dtype for a in got] == [np.float64, np.float32, np.float32]
    assert not any(mismatch(g, w, 1e-6) for g, w in zip(got, want, strict=True))


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize("shape", [(1, 1, 400, 400), (1, 2, 65, 1), (1, 1, 64, 64)])
def test_long_sums_keep_their_precision(shape: tuple[int, ...], target: str, tmp_path: Path) -> None:
    """A mean far from 0: onnxruntime itself is off by 1e-5 to 2e-5 of the deviation here."""
    x = np.random.default_rng(5).uniform(99, 101, shape).astype(np.float32)
    one, zero = np.ones(shape[1], dtype=np.float32), np.zeros(shape[1], dtype=np.float32)
    (got,), _ = run("InstanceNormalization", Case([x, one, zero]), tmp_path, target=target)
    wide = x.astype(np.float64)
    centred = wide - wide.mean((2, 3), keepdims=True)
    exact = centred / np.sqrt(np.square(centred).mean((2, 3), keepdims=True) + 1e-5)
    assert np.abs(got - exact).max() < 1e-5


def test_batch_normalization_in_training_mode_takes_its_own_statistics(tmp_path: Path) -> None:
    """As PyTorch exports standardised weights; a running mean and variance that nothing reads are not made."""
    rng = np.random.default_rng(6)
    x = rng.uniform(-1, 3, (2, 3, 4, 5)).astype(np.float32)
    scale, shift, mean, var = (rng.uniform(0.5, 2, 3).astype(np.float32) for _ in range(4))
    case = Case([x, scale, shift, mean, var], {"training_mode": 1, "epsilon": 1e-3})
    (got,) = run_c("BatchNormalization", case, tmp_path)
    centred = x - x.mean((0, 2, 3), keepdims=True)
    normal = centred / np.sqrt(np.square(centred).mean((0, 2, 3), keepdims=True) + 1e-3)
    assert np.abs(got - (normal * scale[:, None, None] + shift[:, None, None])).max() < 1e-5


CASES: list[tuple[Op, tuple[Array, ...]]] = [
    (Softmax(1), (np.array([[1.0, 2.0, 3.0]]),)),
    (Softmax(1, "log"), (np.array([[1.0, 2.0, 3.0]]),)),
    (Normalize((1,), 1e-5), (np.array([[1.0, 2.0, 4.0]]),)),
    (Normalize((1,), 1e-5, center=False), (np.array([[1.0, 2.0, 4.0]]),)),
    (Normalize((1,), 1e-5, center=False, of_sum=True), (np.array([[1.0, 2.0, 4.0]]),)),
    (
        ConvTranspose((2,), (0, 0), (1,), (0,)),
        (np.arange(1.0, 5).reshape(1, 1, 4) / 3, np.arange(1.0, 4).reshape(1, 1, 3) / 7),
    ),
    (
        Resize((1,), weighted=True),
        (np.array([[1.0, 2.0]]) / 3, np.array([[0, 1]], dtype=np.int32), np.array([[0.25, 0.75]], dtype=np.float32)),
    ),
]


@pytest.mark.parametrize(("op", "operands"), CASES, ids=lambda c: c.name if isinstance(c, Op) else "")
def test_float64_is_computed_in_float64(op: Op, operands: tuple[Array, ...]) -> None:
    """Against the same operator in numpy's long double: an f32 on the way would show at 1e-8."""
    (double,) = op.evaluate(*operands)
    (longer,) = op.evaluate(*(a.astype(np.longdouble) if a.dtype == np.float64 else a for a in operands))
    assert double.dtype == np.float64
    assert np.abs(double - longer).max() < 1e-14


def test_nothing_is_normalised_without_a_warning() -> None:
    (y,) = Normalize(axes=(0,), epsilon=1e-5).evaluate(np.zeros((0, 3), np.float32))  # a warning fails
    assert y.shape == (0, 3)


@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize(
    "types", ["f16 f16 f16", "f32 f16 f16", "f16 f32 f32", "f32 f16 f64", "f64 f32 f32", "f32 f64 f64"]
)
def test_batch_normalization_of_any_types(types: str, training: int, tmp_path: Path) -> None:
    """From opset 15 on, x, scale and bias, and the statistics have types of their own, which onnxruntime has not."""
    own, factors, statistics = (DTYPES[name].numpy for name in types.split())
    rng = np.random.default_rng(6)
    x = (8 + 0.1 * rng.standard_normal((2, 3, 4))).astype(own)
    scale, shift = ((middle + 0.1 * rng.standard_normal(3)).astype(factors) for middle in (1, 0))
    mean, var = np.full(3, 8).astype(statistics), np.full(3, 0.01).astype(statistics)
    case = Case([x, scale, shift, mean, var], {"training_mode": training}, outputs=1 + 2 * training)
    model = case_model(front_ends()["", "BatchNormalization"], case, opset=15)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    graph = import_graph(tmp_path / "m.onnx", Options(target="generic")).graph
    wide, running = x.astype(np.float64), (mean, var)
    found = (wide.mean((0, 2)), wide.var((0, 2)))
    used = [column(a) for a in (found if training else running)]
    y = (wide - used[0]) / np.sqrt(used[1] + 1e-5) * column(scale) + column(shift)
    moved = [0.9 * old + 0.1 * new for old, new in zip(running, found, strict=True)]
    given = graph.evaluate(case_inputs(case)).values()
    for a, exact, dtype in zip(given, [y, *moved], [own, statistics, statistics], strict=False):
        assert a.dtype == dtype
        few = max(np.finfo(dtype).eps, 1e-5 if dtype == np.float32 else 1e-7)
        np.testing.assert_allclose(a, exact, rtol=few, atol=few * np.abs(exact).max())


def column(a: Array) -> Array:
    """Numbers of the channels, beside elements of [N, C, pixels]."""
    return a.astype(np.float64).reshape(-1, 1)
