"""A network under construction: each node is run by onnxruntime as soon as it is added, so every value is known.

Example: ``apply("Relu", [fresh])`` adds the node ``v3 = Relu(x0)`` and puts onnxruntime's answer into
``values["v3"]``. A node that onnxruntime refuses, or that makes NaN, raises `Refused`; `Stage` takes back what was
added since it was opened.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mccompile.ops.draw import SeededDraw
from mccompile.ops.registry import front_ends
from tests.support.compose.definite import (
    Array,
    Arrays,
    Refused,
    require_comparable,
    require_fit,
    require_one_answer,
    require_small,
)
from tests.support.compose.inside import unsure
from tests.support.judge import plain_session
from tests.support.opcases import ORT_OPSET, OTHER_OPSETS

EXACT = set(
    "Abs And ArgMax ArgMin Cast Ceil Clip Compress Concat ConstantOfShape DepthToSpace Equal Expand Flatten Floor "
    "Gather GatherElements GatherND GlobalMaxPool Greater GreaterOrEqual Hardmax Identity IsInf IsNaN Less "
    "LessOrEqual Max MaxPool Min Neg Not OneHot Or Pad ReduceMax ReduceMin Relu Reshape ReverseSequence Round "
    "ScatterND Sign Slice SpaceToDepth Split Squeeze ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where "
    "Xor ArrayFeatureExtractor Binarizer".split()
)
"""Operators whose floats are the same wherever they are computed."""

OWN_NOISE = {"float32": 4e-6, "float64": 4e-6, "float16": 4e-3}
"""How far computed floats may be off, relative to the largest, where no front end says."""

CANCELLING = ("Gelu", "BiasGelu", "FastGelu", "QuickGelu")
"""Operators that compute 1 + erf(x), which has a step of 2^-24 next to 0, and multiply it by x / 2: of x = -5.4, the
real result of -1.6e-7 is -0 as well. QuickGelu multiplies by a sigmoid, of which onnxruntime's is 1e-9 off: of
x = -9.4, the real result of -1.107e-6 is -1.117e-6."""

WHOLE = ("Add", "Sub", "Mul", "Div")
"""Of whole numbers, these are exact as long as their results are: 41 / 41 is 1, and Floor of it as well."""

MOST_WHOLE = {"float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}

KEPT = {
    "Gather": {1}, "GatherElements": {1}, "GatherND": {1}, "ScatterElements": {1}, "ScatterND": {1}, "OneHot": {0},
    "ReverseSequence": {1}, "LSTM": {4}, "GRU": {4}, "RNN": {4}, "Div": {1}, "Mod": {0, 1}, "Pow": {0, 1},
    "BitShift": {0, 1}, "Trilu": {1}, "TopK": {1}, "CumSum": {1}, "Resize": {1, 2, 3}, "Tile": {1}, "Expand": {1},
    "STFT": {1, 3}, "Pad": {1, 2}, "DFT": {1, 2}, "MatMulInteger": {2, 3}, "Einsum": set(), "Upsample": {1},
}  # fmt: skip
"""Operands by position that stay as they were sampled: indices, exponents, divisors, factors."""


class Noise:
    """Numbers from -1 to 1; with the other sign, their negatives: a pair finds what lies at a step (Ceil of a number
    next to 0), on whichever side it was computed. ``even``: all are 1, as of elements that are ties for one reason:
    drawn numbers move half of them to either side, and a sum of all hardly."""

    def __init__(self, seed: tuple[int, int], sign: int, even: bool = False) -> None:
        self._rng, self._sign, self._even = np.random.default_rng(seed), sign, even

    def drawn(self, shape: tuple[int, ...]) -> Array:
        return self._sign * (np.ones(shape) if self._even else self._rng.uniform(-1, 1, shape))

    def shaken(self, array: Array, size: float) -> Array:
        """Computed floats, each off by up to ``size``."""
        off = self.drawn(array.shape)
        if array.dtype == np.float16:  # the least number: which one is rounded to it depends on the last digit
            size = max(size, 2.0**-24)
            off = np.copysign((1 + np.abs(off)) / 2, off)  # less than half a step would be rounded away
        return np.asarray(array + size * off, array.dtype)


class RoundNumbers(Noise):
    """Noise that finds what depends on one number alone, which random noise misses: computed floats are 0, or a
    float of 16 bits, where that is no farther than they may be off. `x - float16(x)` is 0 in some of them then."""

    def __init__(self) -> None:
        super().__init__((0, 0), 0)

    def shaken(self, array: Array, size: float) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.where(np.abs(array) <= size, 0, array.astype(np.float16)).astype(array.dtype)
            return np.asarray(np.where(np.abs(near - array) <= size, near, array), array.dtype)


@dataclass(frozen=True)
class Step:
    """One ONNX node."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    captured: tuple[str, ...] = ()
    """Values that its sub-graphs read."""
    opset: int = 0
    """Of the node where onnxruntime is asked, if it is not the usual one."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Every value that it depends on, once."""
        return tuple(dict.fromkeys(n for n in (*self.inputs, *self.captured) if n))

    @property
    def kinds(self) -> set[str]:
        """The operators of the node and of its sub-graphs."""
        return _kinds([self.proto("node")])

    def proto(self, name: str) -> onnx.NodeProto:
        return helper.make_node(
            self.op_type, self.inputs, self.outputs, name=name, domain=self.domain, **self.attrs
        )

    def noise(self, dtype: str) -> float:
        """How far its floats may be off, relative to the largest."""
        if self.op_type in EXACT:
            return 0.0
        row = front_ends().get((self.domain, self.op_type))
        short = {"float32": "f32", "float16": "f16"}.get(dtype, "")
        return max(row.tolerance.get(short, 0.0) if row else 0.0, OWN_NOISE[dtype] / 4)


def _inner_noise(node: onnx.NodeProto, dtype: str) -> float:
    return Step(node.op_type, tuple(node.input), tuple(node.output), domain=node.domain).noise(dtype)


def _kinds(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    inner = [_kinds(a.g.node) for node in nodes for a in node.attribute if a.HasField("g")]
    return {node.op_type for node in nodes}.union(*inner)


def info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def opsets(steps: Sequence[Step]) -> list[onnx.OperatorSetIdProto]:
    """Of a file with these nodes: the newest that one of them asks for."""
    domains = sorted({s.domain for s in steps if s.domain})
    own = max((s.opset or ORT_OPSET for s in steps), default=ORT_OPSET)
    return [helper.make_opsetid("", own), *(helper.make_opsetid(d, OTHER_OPSETS.get(d, 1)) for d in domains)]


class Engine:
    """Runs single steps in onnxruntime without optimisations; a session for each step and its operands' types."""

    def __init__(self) -> None:
        self._sessions: dict[Any, Any] = {}
        self._unsure: dict[int, tuple[Step, Step, dict[str, tuple[type, float]]]] = {}

    def unsure(self, step: Step, values: Arrays, noise: Noise) -> tuple[Step, Arrays]:
        """A step whose graphs inside are off as well, and what it reads."""
        if id(step) not in self._unsure:
            node, factors = unsure(self._model(step, values), _inner_noise)
            attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            captured = (*step.captured, *factors)
            self._unsure[id(step)] = (step, replace(step, attrs=attrs, captured=captured), factors)
        _, made, factors = self._unsure[id(step)]
        off = {n: np.asarray(1 + size * noise.drawn(()), dtype) for n, (dtype, size) in factors.items()}
        return made, {**values, **off}

    def run(self, step: Step, values: Arrays) -> list[Array]:
        """The results of a step. Refused where onnxruntime refuses it."""
        feeds = {n: values[n] for n in step.reads}
        key = (id(step), tuple((a.dtype.name, a.shape) for a in feeds.values()))
        try:
            if key not in self._sessions:
                self._sessions[key] = (step, plain_session(self._model(step, values).SerializeToString()))
            return [np.asarray(a) for a in self._sessions[key][1].run(None, feeds)]
        except Exception as e:  # onnxruntime's errors have no common class of their own
            raise Refused(str(e)) from e

    @staticmethod
    def _model(step: Step, values: Arrays) -> onnx.ModelProto:
        inputs = [info(n, values[n]) for n in step.reads]
        outputs = [onnx.ValueInfoProto(name=o) for o in step.outputs if o]
        graph = helper.make_graph([step.proto("node")], "step", inputs, outputs)
        return helper.make_model(graph, opset_imports=opsets([step]), ir_version=10)


@dataclass
class Composition:
    """A network with its data.

    Attributes:
        inputs, constants: arrays by name.
        values: of every name, onnxruntime's answer for ``inputs``.
    """

    inputs: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    engine: Engine = field(default_factory=Engine)

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            [s.proto(f"{s.op_type}_{i}") for i, s in enumerate(self.steps)],
            "composition",
            [info(n, a) for n, a in self.inputs.items()],
            [info(n, self.values[n]) for n in self.outputs],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=opsets(self.steps), ir_version=10)

    def reference(self, inputs: Arrays, noise: Noise | None = None) -> dict[str, Array]:
        """Every value on ``inputs``; with ``noise``, floats are off as far as they may be after each step."""
        values = {**self.constants, **inputs}
        for step in self.steps:
            made = self.engine.run(*((step, values) if noise is None else self._unsure(step, values, noise)))
            names = [o for o in step.outputs if o]
            for name, array in zip(names, made, strict=True):
                values[name] = array if noise is None else self._off(name, _shaken(array, step, noise))
            if noise is not None and step.op_type in WHOLE and _is_whole(values[step.inputs[1]]).any():
                (sure,) = self.engine.run(step, values)
                left, right = (_is_whole(values[n]) for n in step.inputs)
                values[names[0]] = np.where(left & right & _is_whole(sure), sure, values[names[0]])
        return values

    def _off(self, name: str, shaken: Array) -> Array:
        """What a value may be beyond its step's noise: nothing else."""
        return shaken

    def _unsure(self, step: Step, values: Arrays, noise: Noise) -> tuple[Step, Arrays]:
        """A step and what it reads, in the last place off, and what it computes inside."""
        read = {**values, **_nearly(step, values, noise)}
        if any(isinstance(a, onnx.GraphProto) for a in step.attrs.values()):
            return self.engine.unsure(step, read, noise)
        return _with_unsure_scores(step, read, noise)

    def require_defined(self, values: Arrays) -> None:
        """Refused where a result cannot be compared: NaN, or a cast to a type without the number."""
        for step in self.steps:
            for name in filter(None, step.outputs):
                a = values[name]
                if a.dtype.kind == "f" and np.isnan(a).any():
                    raise Refused("NaN")
                if step.op_type in ("Cast", "CastLike"):
                    require_fit(values[step.inputs[0]], a.dtype)
            require_small(step, values)
            require_one_answer(step, values)

    @property
    def has_denormals(self) -> bool:
        """True if a value is too small for targets whose vectors take such numbers for zero."""
        floats = [np.abs(a) for a in self.values.values() if a.dtype == np.float32]
        return any(((a > 0) & (a < np.finfo(np.float32).tiny)).any() for a in floats)

    def prune(self) -> None:
        """Leave out what no output depends on."""
        needed, kept = set(self.outputs), []
        for step in reversed(self.steps):
            if needed.intersection(step.outputs):
                kept.append(step)
                needed.update(step.reads)
        self.steps = kept[::-1]
        self.inputs = {n: a for n, a in self.inputs.items() if n in needed}
        self.constants = {n: a for n, a in self.constants.items() if n in needed}

    def text(self) -> str:
        """The nodes as a reader wants them."""
        lines = [f"input    {n}: {_summary(a)}" for n, a in self.inputs.items()]
        lines += [f"constant {n}: {_summary(a)}" for n, a in self.constants.items()]
        for s in self.steps:
            made = ", ".join(f"{o}: {_type(self.values[o])}" for o in s.outputs if o)
            attrs = "".join(f", {k}={v!r}" for k, v in s.attrs.items())
            lines.append(f"{made} = {s.op_type}({', '.join(s.inputs)}{attrs})")
        return "\n".join([*lines, f"outputs  {', '.join(self.outputs)}"])


def _with_unsure_scores(step: Step, values: Arrays, noise: Noise) -> tuple[Step, Arrays]:
    """A step that masks keys by adding -10000 to their scores, with scores that are off by that sum's rounding.

    The float next to 10000 is 2^-10 away: where all keys of a row are masked, their weights are those of scores with
    that step, each rounded to one side or the other. Where a key is left, the weight of a masked one is 0 either way.
    """
    if step.op_type != "MultiHeadAttention" or len(step.inputs) < 5 or not step.inputs[4]:
        return step, values
    hidden, length = values[step.inputs[4]] == 0, values[step.inputs[0]].shape[1]
    row = np.zeros((1, 1, length, hidden.shape[1]), np.float32)
    bias = values[step.inputs[5]] if len(step.inputs) > 5 and step.inputs[5] else row
    off = 2.0**-10 * noise.drawn((*hidden.shape[:1], *bias.shape[1:])) * hidden[:, None, None, :]
    inputs = (*step.inputs[:5], f"{step.outputs[0]}.scores", *step.inputs[6:])
    return replace(step, inputs=inputs), {**values, inputs[5]: np.asarray(bias + off, bias.dtype)}


def _nearly(step: Step, values: Arrays, noise: Noise) -> Arrays:
    """What a step that rounds reads, in the last place off: the variance of equal numbers is 0, or what is left of
    the mean's rounding. Noise of one sign moves numbers of both signs up, as what rounds ties up does."""
    if step.op_type in EXACT:
        return values
    read = {n: values[n] for n in step.reads}
    kept = {step.inputs[i] for i in KEPT.get(step.op_type, ()) if i < len(step.inputs)}
    for name, a in read.items():
        if a.dtype == np.float32 and name not in kept:
            off = (2.0**-23 * noise.drawn(a.shape)).astype(np.float32)
            with np.errstate(invalid="ignore"):
                read[name] = np.asarray(np.where(np.isfinite(a), a + np.abs(a) * off, a), a.dtype)
    if _rounds_operand(step):
        x = values[step.inputs[0]]
        size = (x.max(initial=0) - x.min(initial=0)) / 255 / 2
        read[step.inputs[0]] = np.asarray(x + size * noise.drawn(x.shape), x.dtype)
    return read


def _rounds_operand(step: Step) -> bool:
    """Whether onnxruntime rounds what it multiplies to 8 bits, which we do not, or not always."""
    return step.op_type == "DynamicQuantizeLSTM" or step.attrs.get("accuracy_level", 0) == 4


def _is_whole(a: Array) -> Array:
    """Of each float, whether it is a whole number beside which the next ones are no more than 1 away."""
    return (np.abs(a) <= MOST_WHOLE.get(a.dtype.name, 0.0)) & (a == np.rint(a))


def _shaken(array: Array, step: Step, noise: Noise) -> Array:
    if array.dtype.kind != "f":
        return array
    size = step.noise(array.dtype.name) * float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    if step.op_type in CANCELLING:
        size = max(size, 2.0**-23)
    return noise.shaken(array, size) if size else array


def _type(a: Array) -> str:
    return f"{a.dtype.name}[{','.join(map(str, a.shape))}]"


def _summary(a: Array) -> str:
    flat = a.reshape(-1)
    if flat.size > 1 and (flat == flat[0]).all():
        return f"{_type(a)} all {flat[0]!r}"
    return f"{_type(a)} {flat[:12].tolist()}{' ...' if flat.size > 12 else ''}"


PARTS = (
    "0", "1", "2", "real", "real0", "real3", "shape", "axes", "first", "filled", "f32", "scale", "zero", "sums",
    "factor", "places", "zeros", "heads", "scores", "normal", "bytes", "weights", "product", "turned",
    "stored", "slice",
)  # fmt: skip
"""What the compiler calls parts of a node, behind the name of its result."""


class Composer:
    """Adds to a composition; every choice comes from one seeded draw."""

    def __init__(self, seed: int) -> None:
        self.d = SeededDraw(seed)
        self._named = random.Random(seed)
        self.net = Composition()
        self.pool: list[str] = []
        """Values that later nodes may read."""
        self.count = 0

    def chance(self, percent: int) -> bool:
        return self.d.int(0, 99) < percent

    def array(self, name: str) -> Array:
        return self.net.values[name]

    def _name(self, kind: str) -> str:
        """A new name; of some results one that a part of a neighbouring node might have."""
        self.count += 1
        name = f"{kind}{self.count}"
        if kind != "v" or self._named.randrange(8):
            return name
        near = self.count + self._named.choice((-3, -2, -1, 1, 2, 3))
        part = f"{kind}{near}.{self._named.choice(PARTS)}"
        return name if any(known.startswith(part) for known in self.net.values) else part

    def input(self, array: Array) -> str:
        name = self._name("x")
        self.net.inputs[name] = self.net.values[name] = np.asarray(array)
        return name

    def constant(self, array: Array) -> str:
        name = self._name("c")
        self.net.constants[name] = self.net.values[name] = np.asarray(array)
        return name

    def scalar(self, value: float, dtype: Any) -> str:
        with np.errstate(over="ignore"):  # a bound beyond f16 is none
            return self.constant(np.array(value, dtype=dtype))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def apply(
        self, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", since: int = 0, **attrs: Any
    ) -> list[str]:
        """The names of a node's results. Refused if onnxruntime refuses, or they cannot be compared."""
        base = self._name("v")
        names = tuple(base if outputs == 1 else f"{base}_{i}" for i in range(outputs))
        step = Step(op, tuple(inputs), names, attrs, domain, opset=since)
        arrays = self.net.engine.run(step, self.net.values)
        require_one_answer(step, self.net.values)
        for name, array in zip(names, arrays, strict=True):
            require_comparable(array)
            if op in ("Cast", "CastLike"):
                require_fit(self.array(inputs[0]), array.dtype)
            self.net.values[name] = array
        self.net.steps.append(step)
        return list(names)

    def one(self, op: str, *inputs: str, **attrs: Any) -> str:
        return self.apply(op, inputs, **attrs)[0]

    def pick(self, kinds: str = "fiub") -> str | None:
        """A value of the pool whose element type is of ``kinds``; late ones more often."""
        found = [n for n in self.pool if self.array(n).dtype.kind in kinds]
        return None if not found else self.d.choice(found[-3:] if self.chance(70) else found)

    def sampler(self, seed: int) -> SeededDraw:
        """What samples an operator."""
        return SeededDraw(seed)

    def stage(self) -> Stage:
        return Stage(self)


class Stage:
    """Takes back what was added to a composer inside if it is refused."""

    def __init__(self, composer: Composer) -> None:
        self.c = composer
        self.refused = ""

    def __enter__(self) -> Stage:
        net = self.c.net
        self._steps, self._pool = len(net.steps), list(self.c.pool)
        self._names = set(net.values)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if not isinstance(error, Refused):
            return False
        net = self.c.net
        del net.steps[self._steps :]
        self.c.pool = self._pool
        for table in (net.inputs, net.constants, net.values):
            for name in [n for n in table if n not in self._names]:
                del table[name]
        self.refused = str(error) or "refused"
        return True


@functools.cache
def dtype_number(name: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))


def count(shape: Sequence[int]) -> int:
    return math.prod(shape)


