"""Attention as exporters write it, each form: one operator after the passes, and what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from mccompile.driver import Options, import_graph, optimize
from tests.kernels.cases import Array, Net

BATCH, HEADS, QUERIES, KEYS, LENGTH = 2, 3, 5, 6, 4


def _number(n: Net, value: float) -> str:
    return n.constant(np.array(value, dtype=np.float32))


def _heads(n: Net, rows: int, heads: int = HEADS) -> str:
    """What a projection leaves, [batch, rows, heads * length], as [batch, heads, rows, length]."""
    x = n("Reshape", n.input(BATCH, rows, heads * LENGTH), n.ints(BATCH, rows, heads, LENGTH))
    return n("Transpose", x, perm=[0, 2, 1, 3])


def _operands(n: Net) -> tuple[str, str, str]:
    return _heads(n, QUERIES), _heads(n, KEYS), _heads(n, KEYS)


def _turned(n: Net, x: str) -> str:
    return n("Transpose", x, perm=[0, 1, 3, 2])


def torch_scaled_dot_product(n: Net) -> str:
    """torch.onnx: a root of the scale on either side, NaN of rows that are masked altogether replaced."""
    q, k, v = _operands(n)
    root = _number(n, LENGTH**-0.25)
    scores = n("MatMul", n("Mul", q, root), n("Mul", _turned(n, k), root))
    weights = n("Softmax", n("Add", scores, n.input(BATCH, 1, QUERIES, KEYS)), axis=-1)
    return n("MatMul", n("Where", n("IsNaN", weights), _number(n, 0), weights), v)


def gpt2(n: Net) -> str:
    """A slice of a triangular buffer selects, and a mask of the input is added."""
    q, k, v = _operands(n)
    scores = n("Div", n("MatMul", q, _turned(n, k)), _number(n, LENGTH**0.5))
    buffer = n.constant(np.tril(np.ones((1, 1, 16, 16), dtype=bool)))
    rows = n("Slice", buffer, n.ints(0), n.ints(QUERIES), n.ints(2))
    seen = n("Slice", rows, n.ints(0), n.ints(KEYS), n.ints(3))
    masked = n("Where", seen, scores, _number(n, -np.inf))
    return n("MatMul", n("Softmax", n("Add", masked, n.input(BATCH, 1, 1, KEYS)), axis=-1), v)


def merged_heads(n: Net) -> str:
    """BART and T5: batch and heads are one axis for the products, and two for the mask."""
    q, k, v = _operands(n)
    many = BATCH * HEADS
    q = n("Reshape", n("Mul", q, _number(n, LENGTH**-0.5)), n.ints(many, QUERIES, LENGTH))
    k, v = (n("Reshape", x, n.ints(many, KEYS, LENGTH)) for x in (k, v))
    scores = n("Reshape", n("MatMul", q, n("Transpose", k, perm=[0, 2, 1])), n.ints(BATCH, HEADS, QUERIES, KEYS))
    masked = n("Reshape", n("Add", scores, n.input(BATCH, 1, QUERIES, KEYS)), n.ints(many, QUERIES, KEYS))
    return n("Reshape", n("MatMul", n("Softmax", masked, axis=-1), v), n.ints(BATCH, HEADS, QUERIES, LENGTH))


def grouped_queries(n: Net) -> str:
    """Each key and value serves two heads of queries."""
    q = _heads(n, QUERIES, 2 * HEADS)
    wide, shape = n.ints(BATCH, HEADS, 2, KEYS, LENGTH), n.ints(BATCH, 2 * HEADS, KEYS, LENGTH)
    k, v = (n("Reshape", n("Expand", n("Unsqueeze", _heads(n, KEYS), n.ints(2)), wide), shape) for _ in range(2))
    scores = n("Mul", n("MatMul", q, _turned(n, k)), _number(n, LENGTH**-0.5))
    return n("MatMul", n("Softmax", scores, axis=-1), v)


def one_projection(n: Net) -> str:
    """Queries, keys and values are gathered from one product."""
    x = n("MatMul", n.input(BATCH, QUERIES, 8), n.weight(8, 3 * HEADS * LENGTH))
    x = n("Transpose", n("Reshape", x, n.ints(BATCH, QUERIES, 3, HEADS, LENGTH)), perm=[2, 0, 3, 1, 4])
    q, k, v = (n("Gather", x, n.constant(np.array(i, dtype=np.int64)), axis=0) for i in range(3))
    return n("MatMul", n("Softmax", n("MatMul", q, _turned(n, k)), axis=-1), v)


def onnx_operator(n: Net) -> str:
    q, k, v = (n.input(BATCH, HEADS, rows, LENGTH) for rows in (QUERIES, KEYS, KEYS))
    return n("Attention", q, k, v, n.input(QUERIES, KEYS), softcap=2.0)


def onnx_operator_without_mask(n: Net) -> str:
    """Its definition has a mask of zeros nevertheless, of which constants of many elements are not made."""
    return n("Attention", *(n.input(1, 1, 600, LENGTH) for _ in range(3)))


FORMS: list[tuple[Callable[[Net], str], int]] = [
    (torch_scaled_dot_product, 17), (gpt2, 17), (merged_heads, 17), (grouped_queries, 17), (one_projection, 17),
    (onnx_operator, 23), (onnx_operator_without_mask, 23),
]  # fmt: skip


@pytest.mark.parametrize(("form", "opset"), FORMS, ids=lambda f: getattr(f, "__name__", ""))
def test_a_form_becomes_one_attention(form: Callable[[Net], str], opset: int, tmp_path: Path) -> None:
    net = Net(3)
    model = net.model(form(net))
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", opset))
    model.ir_version = 10
    path = tmp_path / "form.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    c = import_graph(path, Options(target="generic", name="form"))
    optimize(c)
    names = [node.op.name for node in c.graph.nodes]
    assert names.count("attention") == 1
    assert "softmax" not in names
    rng = np.random.default_rng(1)
    inputs: dict[str, Array] = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in c.graph.inputs}
    (want,) = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)
    (result,) = c.graph.evaluate(inputs, wide=True).values()
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)


def test_attention_without_a_mask_is_attention_alone(tmp_path: Path) -> None:
    """No row is masked altogether where there is no mask: nothing is reduced, and nothing added to scores."""
    net = Net(3)
    model = net.model(onnx_operator_without_mask(net))
    model.opset_import[0].version = 23
    path = tmp_path / "alone.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    c = import_graph(path, Options(target="x86-64-v3", name="alone"))
    optimize(c)
    assert [node.op.name for node in c.graph.nodes if node.op.name != "transpose"] == ["attention"]
    (attention,) = (node for node in c.graph.nodes if node.op.name == "attention")
    assert len(attention.operands) == 3
