"""Decoders: transformers that make one token after another and keep the keys and values of those before.

The weights are random, so the tokens mean nothing; sizes and operators are those of real ones. Nothing of this is
stored: a model is made where it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support.small_models import Maker


@dataclass(frozen=True)
class Sizes:
    """``room`` is how many tokens there are at most."""

    layers: int = 2
    width: int = 32
    heads: int = 4
    vocabulary: int = 61
    room: int = 12

    @property
    def head(self) -> int:
        return self.width // self.heads

    @property
    def shared(self) -> int:
        """Heads of keys and values, where two heads share them."""
        return max(self.heads // 2, 1)


BLOCK = 32
"""Weights that share a scale."""

SMALL = Sizes()
LARGE = Sizes(layers=12, width=448, heads=14, vocabulary=2048, room=512)
"""About 31 million parameters."""


def state(sizes: Sizes) -> dict[str, str]:
    """Which output is which input of the next run."""
    return {f"present.{i}.{kind}": f"past.{i}.{kind}" for i in range(sizes.layers) for kind in ("key", "value")}


def standard(sizes: Sizes, tokens: int | str = 1) -> onnx.ModelProto:
    """Of standard operators, as exporters write it: past keys and values are [1, heads, past, head], and new ones are
    joined to them."""
    m = _Decoder(sizes)
    ids = m.input("ids", [1, tokens], TensorProto.INT64)
    pasts = [[m.input(f"past.{i}.{kind}", [1, sizes.heads, "past", sizes.head]) for kind in ("key", "value")]
             for i in range(sizes.layers)]  # fmt: skip
    first = m.node("Gather", [m.node("Shape", [pasts[0][0]]), m.const(np.array(2))])
    x = m.embedded(ids, first)
    for i, past in enumerate(pasts):
        x = m.layer(i, x, past)
    m.scores(x)
    return m.finished(["logits", *state(sizes)])


def grouped(sizes: Sizes, bits: int = 0, level: int = 0) -> onnx.ModelProto:
    """Of onnxruntime's operators: GroupQueryAttention with rotary positions, in which two heads share keys and
    values, and weights of so many bits in blocks, each with a scale (MatMulNBits, of an accuracy ``level``); 0:
    floats."""
    m = _Decoder(sizes, bits, level)
    m.shared = sizes.shared
    ids = m.input("ids", [1, 1], TensorProto.INT64)
    pasts = [[m.input(f"past.{i}.{kind}", [1, m.shared, "past", sizes.head]) for kind in ("key", "value")]
             for i in range(sizes.layers)]  # fmt: skip
    before = m.node("Gather", [m.node("Shape", [pasts[0][0]]), m.const(np.array([2]))])
    ends = m.node("Cast", [before], to=TensorProto.INT32)
    after = m.node("Squeeze", [m.node("Add", [before, m.const(np.array([1]))])])
    total = m.node("Cast", [after], to=TensorProto.INT32)
    x = m.node("Gather", [m.weight((sizes.vocabulary, sizes.width)), ids])
    angles = np.arange(sizes.room)[:, None] / 10000.0 ** (np.arange(sizes.head // 2) / (sizes.head // 2))
    tables = [m.const(f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    for i, past in enumerate(pasts):
        x = m.grouped_layer(i, x, past, [ends, total, *tables])
    m.scores(x)
    return m.finished(["logits", *state(sizes)])


class _Decoder(Maker):
    shared = 0

    def __init__(self, sizes: Sizes, bits: int = 0, level: int = 0) -> None:
        super().__init__(opset=18)
        self.sizes, self.bits, self.level = sizes, bits, level

    def dense(self, x: str, rows: int, columns: int, output: str = "") -> str:
        if self.bits:
            return self.packed(x, rows, columns, output)
        weight = self.const(self.random.normal(0, rows**-0.5, (rows, columns)).astype(np.float32))
        return self.node("MatMul", [x, weight], output)

    def packed(self, x: str, rows: int, columns: int, output: str) -> str:
        """By weights [columns, blocks, bytes] with a scale for each block, which stand for whole numbers from the
        middle of their range on."""
        blocks, held = rows // BLOCK, BLOCK * self.bits // 8
        weights = self.const(self.random.integers(0, 256, (columns, blocks, held)).astype(np.uint8))
        step = rows**-0.5 / 2 ** (self.bits - 2)
        scales = self.const(self.random.uniform(0.5 * step, step, columns * blocks).astype(np.float32))
        return self.node("MatMulNBits", [x, weights, scales], output, domain="com.microsoft", K=rows, N=columns,
                         bits=self.bits, block_size=BLOCK, accuracy_level=self.level)  # fmt: skip

    def normal(self, x: str) -> str:
        return self.node("LayerNormalization", [x, *self.scales()], axis=-1)

    def scales(self) -> tuple[str, str]:
        width = self.sizes.width
        return (self.const(self.random.uniform(0.5, 1.5, width).astype(np.float32)),
                self.const(self.random.normal(0, 0.1, width).astype(np.float32)))  # fmt: skip

    def embedded(self, ids: str, first: str) -> str:
        """The tokens, and where they stand: from ``first`` on."""
        s = self.sizes
        count = self.node("Gather", [self.node("Shape", [ids]), self.const(np.array(1))])
        places = self.node("Range", [first, self.node("Add", [first, count]), self.const(np.array(1))])
        words = self.node("Gather", [self.weight((s.vocabulary, s.width)), ids])
        return self.node("Add", [words, self.node("Gather", [self.weight((s.room, s.width)), places])])

    def heads(self, x: str) -> str:
        s = self.sizes
        split = self.node("Reshape", [x, self.const(np.array([0, 0, s.heads, s.head]))])
        return self.node("Transpose", [split], perm=[0, 2, 1, 3])

    def layer(self, i: int, x: str, past: list[str]) -> str:
        s = self.sizes
        before = self.normal(x)
        q, k, v = (self.heads(self.dense(before, s.width, s.width)) for _ in range(3))
        keys = self.node("Concat", [past[0], k], f"present.{i}.key", axis=2)
        values = self.node("Concat", [past[1], v], f"present.{i}.value", axis=2)
        products = self.node("MatMul", [q, self.node("Transpose", [keys], perm=[0, 1, 3, 2])])
        scores = self.node("Mul", [products, self.const(np.float32(s.head**-0.5))])
        taken = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), values])
        joined = self.node("Reshape", [self.node("Transpose", [taken], perm=[0, 2, 1, 3]),
                                       self.const(np.array([0, 0, s.width]))])  # fmt: skip
        x = self.node("Add", [x, self.dense(joined, s.width, s.width)])
        hidden = self.node("Relu", [self.dense(self.normal(x), s.width, 4 * s.width)])
        return self.node("Add", [x, self.dense(hidden, 4 * s.width, s.width)])

    def grouped_layer(self, i: int, x: str, past: list[str], more: list[str]) -> str:
        s = self.sizes
        before, width = self.normal(x), self.shared * s.head
        q = self.dense(before, s.width, s.width)
        k, v = (self.dense(before, s.width, width) for _ in range(2))
        names = [f"taken.{i}", f"present.{i}.key", f"present.{i}.value"]
        self.nodes.append(helper.make_node(
            "GroupQueryAttention", [q, k, v, *past, *more], names, domain="com.microsoft", num_heads=s.heads,
            kv_num_heads=self.shared, do_rotary=1))  # fmt: skip
        x = self.node("Add", [x, self.dense(names[0], s.width, s.width)])
        hidden = self.node("Relu", [self.dense(self.normal(x), s.width, 4 * s.width)])
        return self.node("Add", [x, self.dense(hidden, 4 * s.width, s.width)])

    def scores(self, x: str) -> str:
        return self.dense(self.normal(x), self.sizes.width, self.sizes.vocabulary, "logits")

    def finished(self, outputs: list[str]) -> onnx.ModelProto:
        """The model; of outputs the element type is told, and the rank."""
        s = self.sizes
        shapes = {o: [1, None, s.vocabulary] if o == "logits" else [1, None, None, None] for o in outputs}
        infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, shape) for o, shape in shapes.items()]
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, infos, self.weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)
