"""Products of two matrices of the run whose zero points are found then, too: the numbers of onnxruntime, and no
kernel that multiplies bytes one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mccompile
from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.run.network import Network
from tests._fast import first
from tests.kernels.cases import Net
from tests.support.judge import plain_session

BYTES = {TensorProto.UINT8: np.uint8, TensorProto.INT8: np.int8}


def _drawn(rng: np.random.Generator) -> tuple[Net, str, int]:
    """A product of bytes by bytes, one for each image or one for all, of each of which the zero point is an input, a
    number, or left out; and how many of the zero points are inputs."""
    n = Net(1)
    batch = rng.integers(1, 4, int(rng.integers(0, 3))).tolist()
    rows, terms, columns = (int(e) for e in rng.integers(1, 70, 3))
    alone = int(rng.integers(4))
    of_run, operands, zeros = 0, list[str](), list[str]()
    for i, (down, across) in enumerate(((rows, terms), (terms, columns))):
        kind, images = int(rng.choice(list(BYTES))), [] if i == alone else batch
        if rng.integers(2):
            order = [*range(len(images)), len(images) + 1, len(images)]
            operands.append(n("Transpose", n.input(*images, across, down, dtype=kind), perm=order))
        else:
            operands.append(n.input(*images, down, across, dtype=kind))
        way = int(rng.integers(3)) if of_run or not zeros else 0
        if way == 0:
            zeros.append(n.input(dtype=kind))
            of_run += 1
        else:
            zeros.append(n.constant(BYTES[kind](rng.integers(0, 100))) if way == 1 else "")
    y = n("MatMulInteger", *operands, *zeros)
    if rng.integers(2):
        scaled = n("Mul", n("Cast", y, to=TensorProto.FLOAT), n("Abs", n.input()))
        bias = [(columns,), (rows, 1), (*batch, rows, columns)][int(rng.integers(3))]
        y = n("Relu", n("Add", scaled, n.input(*bias)))
    return n, y, of_run


def _inputs(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = {}
    for v in model.graph.input:
        shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
        kind = BYTES.get(v.type.tensor_type.elem_type)
        if kind is None:
            found[v.name] = rng.normal(size=shape).astype(np.float32)
        else:
            info = np.iinfo(kind)
            found[v.name] = rng.integers(info.min, info.max + 1, shape).astype(kind)
    return found


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "native", "generic"])
@pytest.mark.parametrize("seed", first(range(12), 3))
def test_products_are_those_of_onnxruntime(seed: int, target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    net, y, of_run = _drawn(rng)
    model = net.model(y)
    onnx.save(model, tmp_path / "net.onnx")
    report = mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target=target, keep_inputs=True).report
    assert of_run
    assert ("matmul.generic" in {s["kernel"] for s in report["steps"]}) == (target == "generic")
    network = Network(tmp_path / "out")
    for _ in range(2):
        inputs = _inputs(model, rng)
        (wanted,) = plain_session(model.SerializeToString()).run(None, inputs)
        network.set_inputs(inputs)
        network.invoke()
        (found,) = network.outputs.values()
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=0 if wanted.dtype.kind == "i" else 1e-6, atol=0)


@pytest.mark.parametrize("batch", [2, "n"])
def test_attention_as_tools_quantise_it(batch: int | str, tmp_path: Path) -> None:
    """Both products by operands that are quantised when it runs, of a number of sentences that is known then."""
    n = Net(2)

    def dynamic(a: str, b: str) -> str:
        (aq, a_scale, a_zero), (bq, b_scale, b_zero) = (n.several("DynamicQuantizeLinear", [v], 3) for v in (a, b))
        sums = n("Cast", n("MatMulInteger", aq, bq, a_zero, b_zero), to=TensorProto.FLOAT)
        return n("Mul", sums, n("Mul", a_scale, b_scale))

    q, k, v = (n.input(2, 3, 20, 16) for _ in range(3))
    scores = n("Softmax", n("Mul", dynamic(q, n("Transpose", k, perm=[0, 1, 3, 2])), n.constant(np.float32(0.25))))
    model = n.model(dynamic(scores, v))
    for info in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        if batch == "n" and info.type.tensor_type.shape.dim:
            info.type.tensor_type.shape.dim[0].dim_param = "n"
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "net.onnx")
    found = check(tmp_path / "net.onnx", Options(target="native", dims={"n": "1..3"} if batch == "n" else {}))
    assert found.ok, found
    assert "matmul.generic" not in {s["kernel"] for s in found.report["steps"]}
