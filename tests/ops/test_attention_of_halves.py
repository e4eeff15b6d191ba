"""Attention of bfloat16, and its like, is that of the same numbers in f32, rounded once: what its definition casts is
not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

import mccompile
from mccompile.ir.errors import CompileError
from mccompile.ir.small_floats import bf16_bits, bf16_values

Array = np.ndarray[Any, Any]
n = helper.make_node
HEADS, ROWS, KEYS, SIZE = 2, 5, 6, 8
PAST = (1, HEADS, 3, SIZE)


def _results(
    folder: Path, nodes: Sequence[NodeProto], given: Mapping[str, Array], made: Sequence[str],
    *, halves: bool, level: str,
) -> dict[str, Array]:  # fmt: skip
    """What a network makes of numbers that bfloat16 has, as floats; its inputs and outputs are f32 or ``halves``."""
    dtype = TensorProto.BFLOAT16 if halves else TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info(name, dtype, a.shape) for name, a in given.items()]
    outputs = [helper.make_tensor_value_info(name, dtype, None) for name in made]
    opsets = [helper.make_opsetid("", 27), helper.make_opsetid("ai.onnx.preview", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=13)
    path = folder / f"halves_{halves}.onnx"
    onnx.save(model, path)
    mccompile.compile(path, folder / path.stem, target="generic", opt_level=level)
    fed = {name: bf16_bits(a) if halves else a for name, a in given.items()}
    found = mccompile.load(folder / path.stem).run(fed)
    return {name: bf16_values(a) if halves else a for name, a in found.items()}


def _drawn(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return bf16_values(bf16_bits((2 * rng.standard_normal(shape)).astype(np.float32)))


Q, K = _drawn(1, HEADS, ROWS, SIZE), _drawn(1, HEADS, KEYS, SIZE)
FORMS: dict[str, tuple[list[NodeProto], dict[str, Array], list[str]]] = {
    "plain": ([n("Attention", ["q", "k", "v"], ["y"])], {"q": Q, "k": K, "v": K[..., ::-1]}, ["y"]),
    "causal": ([n("Attention", ["q", "k", "k"], ["y"], is_causal=1, softcap=3.0)], {"q": Q, "k": K}, ["y"]),
    "mask": ([n("Attention", ["q", "k", "k", "m"], ["y"])], {"q": Q, "k": K, "m": _drawn(ROWS, KEYS)}, ["y"]),
    "past": (
        [n("Attention", ["q", "k", "v", "", "p", "o"], ["y", "key", "value"])],
        {"q": Q, "k": K, "v": K[..., ::-1], "p": _drawn(*PAST), "o": -_drawn(*PAST)},
        ["y", "key", "value"],
    ),
    "between": (
        [n("Exp", ["x"], ["q"]), n("Attention", ["q", "k", "k"], ["a"]), n("Tanh", ["a"], ["y"])],
        {"x": Q, "k": K},
        ["y"],
    ),
    "flex": ([n("FlexAttention", ["q", "k", "k"], ["y"], domain="ai.onnx.preview")], {"q": Q, "k": K}, ["y"]),
    "windows": (
        [n("CausalConvWithState", ["x", "w", "b", "p"], ["y", "state"], activation="silu")],
        {"x": _drawn(1, 4, 9), "w": _drawn(4, 1, 3), "b": _drawn(4), "p": _drawn(1, 4, 2)},
        ["y", "state"],
    ),
    "linear": (
        [n("LinearAttention", ["q", "k", "k"], ["y", ""], q_num_heads=2, kv_num_heads=2, update_rule="linear")],
        {"q": _drawn(1, ROWS, 2 * SIZE), "k": _drawn(1, ROWS, 2 * SIZE)},
        ["y"],
    ),
}


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("form", FORMS)
def test_it_is_rounded_once(form: str, level: str, tmp_path: Path) -> None:
    nodes, given, made = FORMS[form]
    want = _results(tmp_path, nodes, given, made, halves=False, level=level)
    got = _results(tmp_path, nodes, given, made, halves=True, level=level)
    for name in made:
        place = np.abs(want[name]) * 2.0**-8
        assert (np.abs(got[name] - want[name]) <= place * 1.001 + 1e-6).all(), name


def test_a_constant_operand_is_not_rounded_on_the_way_either(tmp_path: Path) -> None:
    constant = helper.make_tensor("c", TensorProto.BFLOAT16, Q.shape, Q.reshape(-1).tolist())
    single = helper.make_tensor("c", TensorProto.FLOAT, Q.shape, Q.reshape(-1).tolist())
    results = []
    for halves, tensor in ((False, single), (True, constant)):
        nodes = [n("Constant", [], ["q"], value=tensor), n("Attention", ["q", "q", "v"], ["y"])]
        results.append(_results(tmp_path, nodes, {"v": Q[..., ::-1].copy()}, ["y"], halves=halves, level="O2")["y"])
    want, got = results
    assert (np.abs(got - want) <= np.abs(want) * 2.0**-8 * 1.001 + 1e-6).all()


def test_a_constant_result_is_rounded(tmp_path: Path) -> None:
    """What is cast of it is what the output of bfloat16 is."""
    tensors = {c: helper.make_tensor(c, TensorProto.BFLOAT16, Q.shape, Q.reshape(-1).tolist()) for c in ("q", "k")}
    constants = [n("Constant", [], [c], value=tensor) for c, tensor in tensors.items()]
    attention = n("Attention", ["q", "k", "v"], ["y", "", "", "scores"])
    nodes = [*constants, attention, n("Cast", ["scores"], ["wide"], to=TensorProto.FLOAT), n("Exp", ["wide"], ["z"])]
    inputs = [helper.make_tensor_value_info("v", TensorProto.BFLOAT16, Q.shape)]
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    outputs += [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, None) for name in ("y", "scores")]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    onnx.save(model, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic")
    found = mccompile.load(tmp_path / "out").run({"v": bf16_bits(Q)})
    np.testing.assert_allclose(found["z"], np.exp(bf16_values(found["scores"])), rtol=1e-6)


def test_what_a_graph_of_flex_attention_captures_is_an_error(tmp_path: Path) -> None:
    scores, changed = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("s", "t"))
    change = helper.make_graph([n("Add", ["s", "bias"], ["t"])], "change", [scores], [changed])
    node = n("FlexAttention", ["q", "k", "k"], ["y"], domain="ai.onnx.preview", score_mod=change)
    given = {"q": Q, "k": K, "bias": _drawn(ROWS, KEYS)}
    with pytest.raises(CompileError, match="reads 'bias' of the graph around it"):
        _results(tmp_path, [node], given, ["y"], halves=False, level="O2")
