"""Samples of f32 in f16: the results have the element types that ONNX gives them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.driver import Options, import_graph
from mccompile.ops.elementwise import MAX_TERMS
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case
from tests.support.draw import SeededDraw
from tests.support.opcases import case_inputs, case_model, ort_outputs

SEEDS = range(3)
PARAMETERS = {"Resize": {1, 2}}
"""Operands that are f32 whatever the others are."""

FRONT_ENDS = [f for f in front_ends().values() if f.sample is not None]


def _halved(front_end: FrontEnd, case: Case) -> Case:
    kept = PARAMETERS.get(front_end.op_type, ())
    inputs = [
        a.astype(np.float16) if i not in kept and isinstance(a, np.ndarray) and a.dtype == np.float32 else a
        for i, a in enumerate(case.inputs)
    ]
    return replace(case, inputs=inputs)


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_results_of_f16_have_the_types_of_onnx(front_end: FrontEnd, tmp_path: Path) -> None:
    assert front_end.sample is not None
    for seed in SEEDS:
        case = _halved(front_end, front_end.sample(SeededDraw(seed)))
        model = case_model(front_end, case)
        try:
            want = [a.dtype for a in ort_outputs(model, case)]
        except Exception:
            continue  # the operator does not take f16, or onnxruntime has no kernel for it
        path = tmp_path / f"{seed}.onnx"
        path.write_bytes(model.SerializeToString())
        graph = import_graph(path, Options(target="generic")).graph
        assert [v.dtype.numpy for v in graph.outputs] == want, f"seed {seed}"


@pytest.mark.parametrize("op", ["Max", "Min", "Mean", "Sum"])
def test_results_of_many_operands_have_their_type(op: str, tmp_path: Path) -> None:
    """What has more than one expression holds is made of several."""
    inputs = [np.full(3, i, np.float16) for i in range(2 * MAX_TERMS + 9)]
    case = Case(inputs)
    model = case_model(front_ends()["", op], case)
    (want,) = ort_outputs(model, case)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    graph = import_graph(tmp_path / "m.onnx", Options(target="generic")).graph
    (got,) = graph.evaluate(case_inputs(case)).values()
    assert graph.outputs[0].dtype.name == "f16"
    np.testing.assert_array_equal(got.astype(np.float16), want)


def _near(rng: np.random.Generator, middle: float, *shape: int) -> np.ndarray:
    """Numbers that are apart by much less than they are from zero."""
    return (middle + 0.1 * rng.standard_normal(shape)).astype(np.float16)


def _products(rng: np.random.Generator) -> dict[str, tuple[str, Case]]:
    """Sums beyond halves, or much larger than what is left of them behind an addition."""
    x, w = _near(rng, 100, 1, 3, 16), _near(rng, 90, 16, 4)
    image, kernel, bias = _near(rng, 100, 1, 3, 4, 4), _near(rng, 10, 2, 3, 1, 1), _near(rng, -2900, 2)
    residual, filters = _near(rng, -3000, 1, 2, 4, 4), frozenset({1, 2})
    few, clip = {"alpha": 1e-3}, {"activation": "Clip", "activation_params": [-70000.0, 70000.0]}
    sums = {"activation": "LeakyRelu", "activation_alpha": 1e-3, "beta": -1.0}
    gelu = [_near(rng, 8, 3, 16), _near(rng, 8, 16, 4), _near(rng, -1024, 4)]
    scales, form = _near(rng, 1, 8), {"K": 64, "N": 4, "bits": 4, "block_size": 32}
    nibbles = [_near(rng, 8, 3, 64), rng.integers(0, 256, (4, 2, 16), np.uint8), scales, None, None, 32 * scales[:4]]
    return {
        "scaled product": ("FusedMatMul", Case([x, w], few)),
        "scaled constants": ("FusedMatMul", Case([x, w], few, frozenset({0, 1}))),
        "turned product": ("FusedMatMul", Case([x, w.T.copy()], {**few, "transB": 1}, frozenset({1}))),
        "scaled vectors": ("FusedMatMul", Case([x[0, 0], w[:, 0].copy()], few)),
        "active sums": ("FusedGemm", Case([-x[0], w, w[:3, :4].copy()], sums, frozenset({1}))),
        "gelu of a product": ("GemmFastGelu", Case(gelu, {}, filters)),
        "weights of 4 bits": ("MatMulNBits", Case(nibbles, form, frozenset({1, 2}))),
        "convolution": ("FusedConv", Case([image, kernel, None, residual], {"activation": "Relu"})),
        "biased convolution": ("FusedConv", Case([image, kernel, bias], {"activation": "Relu"}, filters)),
        "clipped convolution": ("FusedConv", Case([image, kernel, bias, residual + 2900], clip, filters)),
    }


def _cells(rng: np.random.Generator) -> dict[str, Case]:
    """What a cell makes of its input is about 96, of its state about -96."""
    cells = {}
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        rows = gates * 3
        given = [_near(rng, 4, 1, 2, 6), _near(rng, 4, 1, rows, 6), np.full((1, rows, 3), -1, np.float16), None, None]
        attrs = {"hidden_size": 3, "linear_before_reset": 1} if op == "GRU" else {"hidden_size": 3}
        cells[op] = Case([*given, _near(rng, 32, 1, 2, 3)], attrs, outputs=2)
    return cells


def _attentions(rng: np.random.Generator) -> dict[str, tuple[str, Case]]:
    """Products of queries and keys have more digits than halves, or are beyond them, before they are scaled."""
    q, k, v = (_near(rng, middle, 1, 3, 128) for middle in (35, 35, 1))
    old = [_near(rng, middle, 1, 2, 4, 64) for middle in (35, 1)]
    bias = np.concatenate([_near(rng, middle, 128) for middle in (-22, -22, 1)])
    scores = _near(rng, 0, 1, 2, 3, 3)
    projected = [_near(rng, 4, 1, 3, 16), _near(rng, 2, 16, 24), _near(rng, -128, 24)]
    both = _near(rng, 0, 2, 1, 2, 2, 4)
    fixed, shared = frozenset({5, 6}), {"num_heads": 2, "kv_num_heads": 1}
    tables, places = [_near(rng, 0.7, 8, 32) for _ in range(2)], np.arange(3)[None]
    several = {"num_heads": 2, "kv_num_heads": 2}

    def ends(total: int) -> list[np.ndarray]:
        return [np.array([total - 1], np.int32), np.array(total, np.int32)]

    def of_heads(*inputs: np.ndarray | None, **attrs: int) -> tuple[str, Case]:
        return "MultiHeadAttention", Case(list(inputs), {"num_heads": 2, **attrs}, outputs=3)

    def of_groups(attrs: dict[str, int], *inputs: np.ndarray | None) -> tuple[str, Case]:
        return "GroupQueryAttention", Case(list(inputs), dict(attrs), fixed, outputs=3)

    return {
        "attention": ("Attention", Case(projected, {"num_heads": 2}, frozenset({1, 2}))),
        "attention, before": ("Attention", Case([*projected, None, both], {"num_heads": 2}, outputs=2)),
        "heads": of_heads(q, k, v),
        "heads, masked": of_heads(q, k, v, bias, None, scores, unidirectional=1),
        "heads, before": of_heads(q, k, v, None, None, None, *old),
        "heads, biased, before": of_heads(q, k, v, bias, None, None, *old),
        "turned": ("RotaryEmbedding", Case([3 * q, places, *tables], {"num_heads": 2})),
        "groups": of_groups(shared, q, k[..., :64], v[..., :64], None, None, *ends(3)),
        "groups, before": of_groups(several, q, k, v, *old, *ends(7)),
        "groups, turned": of_groups(
            {**shared, "do_rotary": 1}, 3 * q, 3 * k[..., :64], v[..., :64], None, None, *ends(3), *tables
        ),
        "groups, one query": of_groups(several, q[:, :1], k[:, :1], v[:, :1], *old, *ends(5)),
    }


def _in_steps(rng: np.random.Generator) -> dict[str, tuple[tuple[str, str], Case]]:
    """Operators of several steps, the first of which make numbers that halves tell badly apart, or have not."""
    x, row = _near(rng, 8, 2, 3, 5), _near(rng, 1, 5)
    statistics = [*(_near(rng, middle, 3) for middle in (1, 0, 8)), np.full(3, 0.01, np.float16)]
    words, tables = np.array([[0, 1, 2]], np.int32), [_near(rng, middle, 4, 5) for middle in (100, -40, -60)]
    big, few = np.array([200, 400], np.float16), np.array([0.005, 0.01], np.float16)
    wave = (1000 + 9 * np.cos(np.arange(15))).reshape(1, 15).astype(np.float16)
    theta = np.array([[[50, 50, 0], [0.5, 0, 1]]], np.float16)
    known, contrib = frozenset({1, 2, 3, 4}), "com.microsoft"
    many = [np.full(1, 2000 if i < 2 * MAX_TERMS else -2000, np.float16) for i in range(3 * MAX_TERMS)]
    return {
        "constant statistics": (("", "BatchNormalization"), Case([x, *statistics], {}, known)),
        "statistics": (("", "BatchNormalization"), Case([x, *statistics])),
        "old form": (("", "BatchNormalization"), Case([x, *statistics], {}, known, opset=9)),
        "skip": ((contrib, "SkipLayerNormalization"), Case([x, x[::-1], row, row])),
        "skip and bias": ((contrib, "SkipSimplifiedLayerNormalization"), Case([x, x[::-1], row, -16 * row])),
        "embedding": ((contrib, "EmbedLayerNormalization"), Case([words, words, *tables, row, row], outputs=2)),
        "softmax": ((contrib, "BiasSoftmax"), Case([9 * x, 9 * x[:1]], {"axis": 2, "is_inner_broadcast": 0})),
        "residual": ((contrib, "BiasDropout"), Case([x, row, -x[::-1]])),
        "gelu": ((contrib, "BiasGelu"), Case([x - 12, row / 64])),
        "scaler": (("", "ImageScaler"), Case([x[None]], {"bias": [-0.8, -0.81], "scale": 0.1}, opset=9)),
        "product and bias": (("", "Gemm"), Case([big[None], big[:, None] / 2, np.full((1, 1), -60000, np.float16)])),
        "outer product": (("", "Einsum"), Case([big, big, few], {"equation": "i,j,k->ijk"})),
        "summed factor": (("", "Einsum"), Case([150 * np.stack([big, big]), few], {"equation": "ij,i->i"})),
        **{kind: ((contrib, op), case) for kind, (op, case) in (_products(rng) | _attentions(rng)).items()},
        **{op: (("", op), case) for op, case in _cells(rng).items()},
        "sum": (("", "Sum"), Case(many)),
        "transform": (("", "DFT"), Case([wave[..., None], None, np.array(1)], {}, frozenset({2}))),
        "frames": (("", "STFT"), Case([wave, np.array(4), wave[0, 8:] / 999, None], {}, frozenset({1}))),
        "places": (("", "AffineGrid"), Case([theta, np.array([1, 1, 3, 70])], {"align_corners": 1}, frozenset({1}))),
    }


IN_STEPS = _in_steps(np.random.default_rng(5))
OURS = ("BiasSoftmax", "BiasDropout", "DFT", "GemmFastGelu", "STFT")
"""Operators that onnxruntime has not on processors, or computes less exactly than we do."""


@pytest.mark.parametrize("name", IN_STEPS)
def test_what_is_made_on_the_way_to_a_result_of_f16_is_not_rounded(name: str, tmp_path: Path) -> None:
    """onnxruntime casts f16 to f32 around its kernels."""
    operator, case = IN_STEPS[name]
    inputs = [a.astype(np.float32) if a is not None and a.dtype == np.float16 else a for a in case.inputs]
    wide = replace(case, inputs=inputs)
    want = (_evaluated if operator[1] in OURS else _by_ort)(operator, wide, tmp_path)
    for value, exact in zip(_evaluated(operator, case, tmp_path), want, strict=True):
        np.testing.assert_allclose(value.astype(np.float64), exact, rtol=2**-10, atol=1e-7 * np.abs(exact).max())


def _by_ort(operator: tuple[str, str], case: Case, _: Path) -> list[np.ndarray]:
    return ort_outputs(case_model(front_ends()[operator], case), case)


def _evaluated(operator: tuple[str, str], case: Case, folder: Path) -> list[np.ndarray]:
    """What the graph of a case gives, as it is imported."""
    (folder / "m.onnx").write_bytes(case_model(front_ends()[operator], case).SerializeToString())
    graph = import_graph(folder / "m.onnx", Options(target="generic")).graph
    return list(graph.evaluate(case_inputs(case)).values())


@pytest.mark.parametrize("constant", [frozenset(), frozenset({1, 2, 3})], ids=["given", "constant"])
def test_biases_of_recurrent_cells_are_added_up_as_floats(constant: frozenset[int], tmp_path: Path) -> None:
    """96.1 + 0.02 - 96.1, the last made of the input."""
    rng = np.random.default_rng(5)
    weights = [_near(rng, -16, 1, 12, 6), _near(rng, 0, 1, 12, 3)]
    biases = np.concatenate([_near(rng, 96, 1, 12), _near(rng, 0, 1, 12)], 1)
    case = Case([np.ones((1, 3, 6), np.float16), *weights, biases], {"hidden_size": 3}, constant)
    model = case_model(front_ends()["", "LSTM"], case)
    onnx.save(model, tmp_path / "m.onnx")
    mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic")
    (got,) = mccompile.load(tmp_path / "out").run(case_inputs(case)).values()
    np.testing.assert_allclose(got.astype(np.float32), ort_outputs(model, case)[0], atol=2**-11)
