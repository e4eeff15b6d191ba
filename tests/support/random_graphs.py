"""Random small graphs built through the operators' ONNX front ends: shared values, broadcasts, several outputs.

Values stay below `LIMIT`, so that errors of f32 stay small next to them; what would grow beyond is squashed.
Floats never become integers or bools: a last bit would decide.
"""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import DTYPES, TensorType, broadcast_shapes
from mccompile.onnxio import OnnxNode
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.registry import front_ends
from tests.support.draw import SeededDraw
from tests.support.idioms import IDIOMS

LIMIT = 16.0
MAX_COUNT = 600
"""Elements of the largest tensor of a graph."""

_ONNX_NUMBER = {"f32": 1, "i32": 6, "i64": 7, "f16": 10}
_UNARY = (
    "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "HardSigmoid", "HardSwish", "LeakyRelu", "Softplus", "Elu", "Gelu",
    "Erf", "Softsign", "Identity",
)  # fmt: skip
_BINARY = ("Add", "Add", "Add", "Sub", "Mul", "Mul", "Max", "Min")


class RandomGraph:
    """Draws a graph; ``pool`` are the values a node may read, ``arrays`` what they are for the drawn inputs."""

    def __init__(self, seed: int, nodes: int = 12) -> None:
        self.d = SeededDraw(seed)
        self.graph = Graph(f"random{seed}")
        self.arrays: dict[Value, np.ndarray[Any, Any]] = {}
        self.pool: list[Value] = []
        self.weights: list[Value] = []
        self.count = 0
        self.dtype = self.d.choice(["f32", "f32", "f32", "f32", "f16", "i32", "i64"])
        for i in range(self.d.int(1, 3)):
            self._input(f"in{i}")
        while len(self.graph.nodes) < nodes:
            self._node()
        self._outputs()
        if self.d.bool():
            self.graph.remove_dead()
        self.graph.verify()

    @property
    def inputs(self) -> dict[str, np.ndarray[Any, Any]]:
        return {v.name: self.arrays[v] for v in self.graph.inputs}

    # -- parts -------------------------------------------------------------------------------------------
    def _input(self, name: str) -> None:
        shape = self.d.choice([(1, 4, 5, 6), (2, 3, 7), (4, 6), (5,), (2, 3, 4)])
        value = self.graph.value(name, TensorType(DTYPES[self.dtype], shape))
        self.graph.inputs.append(value)
        self.pool.append(value)
        self.arrays[value] = self.d.array(shape, self.dtype)

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        self.count += 1
        value = self.graph.constant(f"c{self.count}", array)
        self.arrays[value] = array
        return value

    def make_weights(self, shape: tuple[int, ...], dtype: str, fan: int) -> Value:
        """Weights of a shape; one time in three those another node has already."""
        same = [w for w in self.weights if w.shape == shape and w.dtype.name == dtype]
        if same and self.d.int(0, 2) == 0:
            return self.d.choice(same)
        bound = 2 / math.sqrt(fan) if DTYPES[dtype].is_float else 2
        self.weights.append(self.constant(self.d.array(shape, dtype, -bound, bound)))
        return self.weights[-1]

    def ints(self, *values: int) -> Value:
        return self.constant(np.array(values, dtype=np.int64))

    def pick(self, suits: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value of the pool; late ones more often."""
        found = [v for v in self.pool if suits(v)]
        return None if not found else self.d.choice(found[-4:] if self.d.bool() else found)

    def apply(self, op: str, inputs: Sequence[Value | None], outputs: int = 1, **attrs: Any) -> list[Value]:
        """The results of an ONNX operator; evaluated at once, squashed where they grow too large."""
        self.count += 1
        names = tuple(f"v{self.count}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs))
        given = ["" if v is None else v.name for v in inputs]
        node = OnnxNode(op, tuple(given), names, name=f"{op}{self.count}", attrs=attrs, index=self.count)
        first = len(self.graph.nodes)
        view = Import(self.graph, node, inputs)
        front_ends()[("", op)].convert(view)
        for v, a in self.graph.constants.items():
            if v not in self.arrays:
                self.arrays[v] = np.asarray(a)
        for made in self.graph.nodes[first:]:
            self.arrays.update(zip(made.results, made.evaluate(self.arrays), strict=True))
        return [self._bounded(v) for v in view.outputs if v is not None]

    def _bounded(self, value: Value) -> Value:
        array = self.arrays[value]
        if not value.dtype.is_float or (np.isfinite(array).all() and np.abs(array).max(initial=0) < LIMIT):
            return value
        return self.apply("Tanh" if np.isfinite(array).all() else "Softsign", [value])[0]

    def _outputs(self) -> None:
        """One to four distinct outputs; the last value is one of them. An input or a constant is copied."""
        chosen = [self.pool[-1], *(self.d.choice(self.pool) for _ in range(self.d.int(0, 3)))]
        produced = {r for n in self.graph.nodes for r in n.results}
        for value in dict.fromkeys(chosen):
            if value not in produced:
                storage = "f16" if value.dtype.name == "f16" else ""
                (value,) = self.graph.emit(Map(ex.var(0, value.dtype), storage), [value], [f"copy{value.name}"])
            self.graph.outputs.append(value)

    def _node(self) -> None:
        kind = self.d.choice(_KINDS)
        made = kind(self)
        self.pool += [v for v in made if v not in self.pool and v.type.count <= MAX_COUNT and v.dtype.name != "bool"]

    # -- kinds of nodes: each gives the values it made, none where nothing fits ---------------------------
    def unary(self) -> list[Value]:
        v = self.pick()
        assert v is not None
        if v.dtype.is_float:
            return self.apply(self.d.choice(_UNARY), [v])
        return self.apply(self.d.choice(["Abs", "Neg", "Relu"]), [v])

    def clip(self) -> list[Value]:
        v = self.pick()
        assert v is not None
        bounds = [self.d.array((), v.dtype.name, low, low + 1) for low in (-2, 1)]
        return self.apply("Clip", [v, *map(self.constant, bounds)])

    def binary(self) -> list[Value]:
        """With another value that broadcasts, a constant of lower rank, or the value itself."""
        v = self.pick()
        assert v is not None
        way = self.d.int(0, 5)
        other: Value | None = v
        if way < 3:
            other = self.pick(lambda w: w.dtype == v.dtype and _fits(w.shape, v.shape))
        elif way < 5:
            shape = self.d.broadcastable(v.shape)
            whole = self.d.array(shape, v.dtype.name)
            other = self.constant(whole if self.d.bool() else np.full_like(whole, self.d.choice([0, -0.0, 1, 2])))
        assert other is not None
        pair = [v, other] if self.d.bool() else [other, v]
        return self.apply(self.d.choice(_BINARY), pair)

    def on_constants(self) -> list[Value]:
        """A value and what is computed of constants."""
        v = self.pick()
        assert v is not None
        low = [self.constant(self.d.array(self.d.broadcastable(v.shape), v.dtype.name)) for _ in range(2)]
        (made,) = self.apply(self.d.choice(["Abs", "Neg", "Relu"]), low[:1])
        if _fits(made.shape, low[1].shape):
            (made,) = self.apply(self.d.choice(_BINARY), [made, low[1]])
        return self.apply(self.d.choice(_BINARY), [v, made]) if _fits(v.shape, made.shape) else []

    def again(self) -> list[Value]:
        """What a node computes, a second time; some of its operands may be equal constants of their own."""
        if not self.graph.nodes:
            return []
        node = self.d.choice(self.graph.nodes)
        self.count += 1
        names = [f"v{self.count}_{i}" for i in range(len(node.results))]
        known = self.graph.constants
        twins = [self.constant(self.arrays[v]) if v in known and self.d.bool() else v for v in node.operands]
        made = self.graph.emit(node.op, twins, names, extras=node.extras, pre=node.pre, post=node.post)
        self.arrays.update(zip(made, self.graph.nodes[-1].evaluate(self.arrays), strict=True))
        return made

    def convolution_block(self) -> list[Value]:
        """Convolution, BatchNormalization, activation, residual: each or not."""
        made = self.conv()
        if made and self.d.bool():
            made = self._norm(made[0])
        if made and self.d.bool():
            made = self.apply(self.d.choice(_UNARY), made)
        other = self.pick(lambda w: bool(made) and w.dtype == made[0].dtype and w.shape == made[0].shape)
        return self.apply("Add", [*made, other]) if other is not None and self.d.bool() else made

    def batch_norm(self) -> list[Value]:
        v = self.pick(lambda w: w.dtype.is_float and len(w.shape) >= 2)
        return [] if v is None else self._norm(v)

    def _norm(self, v: Value) -> list[Value]:
        c = (v.shape[1],)
        stats = [self.d.array(c, v.dtype.name, low, 1) for low in (0.2, -1, -1, 0.3)]
        return self.apply("BatchNormalization", [v, *map(self.constant, stats)])

    def scale_and_shift(self) -> list[Value]:
        """Per channel, as several operators."""
        v = self.pick(lambda w: w.dtype.is_float and len(w.shape) >= 3)
        if v is None:
            return []
        c = (v.shape[1],) + (1,) * (len(v.shape) - 2)
        made = self.apply("Mul", [v, self.constant(self.d.array(c, v.dtype.name, 0.3, 1.5))])
        return self.apply(self.d.choice(["Add", "Sub"]), [*made, self.constant(self.d.array(c, v.dtype.name))])

    def conv(self) -> list[Value]:
        v = self.pick(lambda w: w.dtype.is_float and len(w.shape) in (3, 4))
        if v is None:
            return []
        rank, c = len(v.shape) - 2, v.shape[1]
        groups = self.d.choice([g for g in (1, 1, 2, c) if c % g == 0])
        cout = groups * self.d.int(1, 4 // groups + 1)
        kernel = self.d.shape(rank, 1, 3)
        pads = tuple(k // 2 for k in kernel) * 2
        if self.d.int(0, 3) == 0:
            around = (0, 0, *pads[:rank]) * 2
            (v,) = self.apply("Pad", [v, self.ints(*around)])
            pads = (0,) * (2 * rank)
        w = self.make_weights((cout, c // groups, *kernel), v.dtype.name, c // groups * math.prod(kernel))
        bias = self.constant(self.d.array((cout,), v.dtype.name)) if self.d.bool() else None
        strides = self.d.shape(rank, 1, 2)
        return self.apply("Conv", [v, w, bias], group=groups, pads=pads, strides=strides)

    def conv_transpose(self) -> list[Value]:
        v = self.pick(lambda w: w.dtype.is_float and len(w.shape) in (3, 4) and w.type.count < 100)
        if v is None:
            return []
        rank, c = len(v.shape) - 2, v.shape[1]
        groups = 2 if c % 2 == 0 and self.d.bool() else 1
        w = self.make_weights((c, self.d.int(1, 3), *(2,) * rank), v.dtype.name, c * 2**rank)
        return self.apply("ConvTranspose", [v, w], group=groups, strides=(2,) * rank)

    def matmul(self) -> list[Value]:
        v = self.pick(lambda w: len(w.shape) >= 2)
        if v is None:
            return []
        if self.d.int(0, 3) == 0:
            perm = (*range(len(v.shape) - 2), len(v.shape) - 1, len(v.shape) - 2)
            (other,) = self.apply("Transpose", [v], perm=perm)
            return self.apply("MatMul", [v, other])
        k = v.shape[-1]
        return self.apply("MatMul", [v, self.make_weights((k, self.d.int(1, 6)), v.dtype.name, k)])

    def gemm(self) -> list[Value]:
        v = self.pick(lambda w: w.dtype.is_float and len(w.shape) == 2)
        if v is None:
            return []
        ta, tb, n = self.d.int(0, 1), self.d.int(0, 1), self.d.int(1, 6)
        m, k = v.shape[:: -1 if ta else 1]
        w = self.make_weights((n, k) if tb else (k, n), v.dtype.name, k)
        shape = self.d.choice([(n,), (1, n), (m, 1), (m, n), ()])
        bias = self.constant(self.d.array(shape, v.dtype.name)) if self.d.bool() else None
        return self.apply("Gemm", [v, w, bias], transA=ta, transB=tb, alpha=self.d.choice([1.0, 1.0, 0.5]))

    def window(self) -> list[Value]:
        v = self.pick(lambda w: w.dtype.is_float and len(w.shape) in (3, 4) and min(w.shape[2:]) >= 2)
        if v is None:
            return []
        rank = len(v.shape) - 2
        kernel = self.d.shape(rank, 1, 2)
        pads = tuple(self.d.int(0, k - 1) for k in kernel * 2)
        op = self.d.choice(["MaxPool", "AveragePool"])
        return self.apply(op, [v], kernel_shape=kernel, strides=self.d.shape(rank, 1, 2), pads=pads)

    def reduce(self) -> list[Value]:
        v = self.pick(lambda w: len(w.shape) >= 1)
        assert v is not None
        axes = sorted({self.d.int(0, len(v.shape) - 1) for _ in range(2)})
        ops = ["ReduceSum", "ReduceMax"]
        if v.dtype.name == "f32":
            ops += ["ReduceMean", "ReduceMean", "ReduceL1", "ReduceSumSquare"]
        return self.apply(self.d.choice(ops), [v, self.ints(*axes)], keepdims=self.d.int(0, 1))

    def variance(self) -> list[Value]:
        """mean((x - mean(x))^2): a square before a sum, a value read twice."""
        v = self.pick(lambda w: w.dtype.name == "f32" and len(w.shape) >= 1)
        if v is None:
            return []
        axis = self.ints(len(v.shape) - 1)
        (mean,) = self.apply("ReduceMean", [v, axis], keepdims=1)
        (centred,) = self.apply("Sub", [v, mean])
        (square,) = self.apply("Mul", [centred, centred])
        return [centred, *self.apply("ReduceMean", [square, axis], keepdims=1)]

    def transpose(self) -> list[Value]:
        v = self.pick()
        assert v is not None
        (once,) = self.apply("Transpose", [v], perm=self.d.permutation(len(v.shape)))
        if self.d.bool():
            return self.apply("Transpose", [once], perm=self.d.permutation(len(v.shape)))
        return [once]

    def reshape(self) -> list[Value]:
        v = self.pick()
        assert v is not None
        shape = list(v.shape)
        if len(shape) >= 2 and self.d.bool():
            a = self.d.int(0, len(shape) - 2)
            shape[a : a + 2] = [shape[a] * shape[a + 1]]
        else:
            shape.insert(self.d.int(0, len(shape)), 1)
        return self.apply("Reshape", [v, self.ints(*shape)]) if len(shape) <= 5 else []

    def slice(self) -> list[Value]:
        v = self.pick(lambda w: len(w.shape) >= 1)
        assert v is not None
        a = self.d.int(0, len(v.shape) - 1)
        start = self.d.int(0, v.shape[a] - 1)
        step = self.d.choice([1, 1, 2, -1])
        end = -(2**31) if step < 0 else v.shape[a]
        return self.apply("Slice", [v, *map(self.ints, (start, end, a, step))])

    def split(self) -> list[Value]:
        v = self.pick(lambda w: len(w.shape) >= 1 and max(w.shape) >= 2)
        if v is None:
            return []
        a = v.shape.index(max(v.shape))
        cut = self.d.int(1, v.shape[a] - 1)
        return self.apply("Split", [v, self.ints(cut, v.shape[a] - cut)], outputs=2, axis=a)

    def concat(self) -> list[Value]:
        v = self.pick(lambda w: len(w.shape) >= 1)
        assert v is not None
        a = self.d.int(0, len(v.shape) - 1)
        like = (*v.shape[:a], *v.shape[a + 1 :])
        rank = len(v.shape)
        other = self.pick(
            lambda w: w.dtype == v.dtype and len(w.shape) == rank and (*w.shape[:a], *w.shape[a + 1 :]) == like
        )
        assert other is not None
        return self.apply("Concat", [v, other], axis=a)

    def cast(self) -> list[Value]:
        v = self.pick()
        assert v is not None
        targets = ["f32", "f16"] if v.dtype.is_float else ["i32", "i64", "f32"]
        if not v.dtype.is_float and np.abs(self.arrays[v]).max(initial=0) > LIMIT:
            targets = ["i32", "i64"]
        return self.apply("Cast", [v], to=_ONNX_NUMBER[self.d.choice(targets)])

    def idiom(self) -> list[Value]:
        return self.d.choice(IDIOMS)(self)

    def where(self) -> list[Value]:
        """A choice by a comparison of integers."""
        v = self.pick(lambda w: not w.dtype.is_float)
        if v is None:
            return []
        (mask,) = self.apply("Less", [v, self.constant(self.d.array((), v.dtype.name))])
        return self.apply("Where", [mask, v, self.constant(self.d.array((), v.dtype.name))])


def _fits(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """True if two shapes broadcast to one of at most `MAX_COUNT` elements."""
    try:
        return math.prod(broadcast_shapes(shape, other)) <= MAX_COUNT
    except ValueError:
        return False


_KINDS: tuple[Callable[[RandomGraph], list[Value]], ...] = (
    *(RandomGraph.unary,) * 4, *(RandomGraph.binary,) * 5, *(RandomGraph.convolution_block,) * 4,
    RandomGraph.on_constants, RandomGraph.again,
    *(RandomGraph.matmul,) * 2, *(RandomGraph.scale_and_shift,) * 2, *(RandomGraph.reshape,) * 2,
    RandomGraph.clip, RandomGraph.batch_norm, RandomGraph.conv_transpose, RandomGraph.gemm,
    RandomGraph.window, RandomGraph.reduce, RandomGraph.variance, RandomGraph.transpose,
    RandomGraph.slice, RandomGraph.split, RandomGraph.concat, RandomGraph.cast, RandomGraph.where,
    *(RandomGraph.idiom,) * 11,
)  # fmt: skip


def random_graph(seed: int, nodes: int = 12) -> RandomGraph:
    """The graph of a seed: the same on every machine, and a copy of its own at each call."""
    graph: RandomGraph = pickle.loads(_drawn(seed, nodes))
    return graph


@functools.cache
def _drawn(seed: int, nodes: int) -> bytes:
    return pickle.dumps(RandomGraph(seed, nodes))
