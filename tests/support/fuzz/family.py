"""Compositions of which an extent is known when the program runs only.

Every node is run by onnxruntime for each number that the extent may have, and kept only if all of them are taken.
Example: with `MAIN` 7 and the others 1 and 4, an input drawn as [2,7] is called [2,n] and is [2,1] and [2,4], too; a
Reshape of it to [14] is refused by onnxruntime for n = 1, and not added; one to [2,-1] is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mccompile.ir.small_floats import bf16_bits, bf16_values
from mccompile.ops.draw import SeededDraw
from tests.support.compose import definite, network
from tests.support.compose.definite import Array, Arrays, Refused
from tests.support.compose.network import Composer, Composition, Step

MAIN = 7
"""The extent of most values: axes of it are called n."""

SECOND = 6
"""The extent of axes that are called m, where a network has two extents."""

BESIDE = (5, 2, 1, 3, 3, 1, 4, SECOND)
"""What m is where n is 0, 1, ...: never the same."""

WIDE = (15, 16, 17, 20, 31, 32, 33, 40, 48, 63, 64, 65, 70)
"""Extents around one to four vectors of 16 floats, where widest vectors have whole and ragged ends."""

MOST_WIDE = 4000
"""Elements of a drawn shape, beyond which none of its extents is made wide."""


class Draw(SeededDraw):
    """Shapes that have the extent often; with ``two``, the second one at times."""

    two = False

    def shape(self, rank: int, low: int = 1, high: int = 5) -> tuple[int, ...]:
        made = [self.random.randint(low, high) for _ in range(rank)]
        if rank and self.random.random() < 0.75 and low <= MAIN:
            made[self.random.randrange(rank)] = MAIN
        if self.two and rank and self.random.random() < 0.5 and low <= SECOND:
            made[self.random.randrange(rank)] = SECOND
        return tuple(made)


class WideDraw(SeededDraw):
    """Shapes with extents of `WIDE`, the last one most often; with ``extents``, with that of the run, too."""

    extents = False

    def shape(self, rank: int, low: int = 1, high: int = 5) -> tuple[int, ...]:
        made = list(super().shape(rank, low, high))
        if rank and self.extents and low <= MAIN and self.random.random() < 0.75:
            made[self.random.randrange(rank)] = MAIN
        for axis in reversed(range(rank)):
            wanted, often = self.random.choice(WIDE), 0.6 if axis == rank - 1 else 0.25
            fits = math.prod(made) // max(made[axis], 1) * wanted <= MOST_WIDE
            if fits and self.random.random() < often and (made[axis] != MAIN or not self.extents):
                made[axis] = wanted
        return tuple(made)


ROUNDED = set(
    "Cast CastLike Equal Greater GreaterOrEqual Less LessOrEqual Floor Ceil Round Sign Mod ArgMax ArgMin TopK Unique "
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearConv "
    "QLinearMatMul Hardmax OneHot NonZero MaxPool ReduceLogSumExp If Loop Scan".split()
)
"""Operators in front of which bfloat16 is rounded, or that hold such. ReduceLogSumExp compares with infinity."""


@dataclass
class Family(Composition):
    """A composition and its values for other extents.

    Attributes:
        others: for each other extent, every value by name.
        axes: of inputs, which axes are n, or m, by which extent they have.
        states: values that may be kept as inputs of the next run.
        grown: by how much these are longer than those inputs along the axis that is n, where they are.
        told: by the first result of a step, what the file has in its place: what onnxruntime cannot be asked.
        drawn: inputs that the file draws, and what they are called if they are inputs.
        halves: the file has bfloat16 where this has f32.
        fixed: inputs that are constants to the compiler.
    """

    others: dict[int, dict[str, Array]] = field(default_factory=dict)
    axes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    grown: dict[str, int] = field(default_factory=dict)
    told: dict[str, onnx.NodeProto] = field(default_factory=dict)
    drawn: dict[str, str] = field(default_factory=dict)
    halves: bool = False
    fixed: tuple[str, ...] = ()

    def varying(self, extent: int) -> bool:
        """Whether an input has an axis that is n, or m."""
        return any(a.shape[i] == extent for n, a in self.inputs.items() for i in self.axes.get(n, ()))

    @property
    def varies(self) -> bool:
        return self.varying(MAIN) or self.varying(SECOND)

    def grows(self, state: Mapping[str, str]) -> int:
        """By how much n is more after each run, where what is kept of ``state`` grows."""
        return next((self.grown[out] for out in state if out in self.grown), 0)

    @property
    def judged_by_file(self) -> bool:
        """Whether onnxruntime computes what the file says."""
        return not (self.halves or any(s.outputs[0] in self.told for s in self.steps))

    def model(self) -> onnx.ModelProto:
        inputs = []
        for name, array in self.inputs.items():
            inputs.append(network.info(name, array))
            for axis in self.axes.get(name, ()):
                dim = "n" if array.shape[axis] == MAIN else "m"
                inputs[-1].type.tensor_type.shape.dim[axis].dim_param = dim
        nodes = [self.told.get(s.outputs[0], s.proto(f"{s.op_type}_{i}")) for i, s in enumerate(self.steps)]
        outputs = [
            onnx.ValueInfoProto(name=n)
            if self.others or n in self.told
            else network.info(n, self.values[n])
            for n in self.outputs
        ]
        constants = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        read = {name for node in nodes for name in node.input} | set(self.outputs)
        inputs = [v for v in inputs if v.name not in self.drawn or v.name in read]
        graph = helper.make_graph(nodes, "family", inputs, outputs, constants)
        if self.halves:
            _halve(graph)
        told = [Step("", (), (), domain=node.domain) for node in self.told.values()]
        return helper.make_model(graph, opset_imports=network.opsets([*self.steps, *told]), ir_version=10)

    def _off(self, name: str, shaken: Array) -> Array:
        """What is computed when a file of bfloat16 is compiled is rounded to that."""
        rounded = self.halves and shaken.dtype == np.float32 and name in self._folded
        return bf16_values(bf16_bits(shaken)) if rounded else shaken

    @cached_property
    def _folded(self) -> set[str]:
        """Values that depend on no input but those that are fixed."""
        known = {*self.constants, *self.fixed}
        for step in self.steps:
            if known.issuperset(step.reads):
                known.update(step.outputs)
        return known

    def runs(self) -> dict[int, Arrays]:
        """The inputs for each extent."""
        found: dict[int, Arrays] = {MAIN: self.inputs}
        for extent, values in self.others.items():
            found[extent] = {n: values[n] for n in self.inputs}
        return found

    def inputs_at(self, extent: int) -> dict[str, Array]:
        """The inputs for any extent up to `MAIN`."""
        return {n: self.at(n, a, extent) for n, a in self.inputs.items()}

    def at(self, name: str, array: Array, extent: int) -> Array:
        """An input for another extent: its first elements along the axes that have it."""
        for axis in self.axes.get(name, ()):
            most = array.shape[axis]
            array = np.take(array, np.arange(extent if most == MAIN else BESIDE[extent]), axis)
        return np.asarray(array, order="C")

    def as_inputs(self, names: Sequence[str]) -> dict[str, tuple[int, ...]] | None:
        """The axes of values that are n, if they are to be inputs; None if one has an extent that depends on n."""
        axes = {}
        for name in names:
            mine, found = self.values[name], []
            for axis, extent in enumerate(mine.shape):
                at = {n: v[name].shape[axis] for n, v in self.others.items()}
                if set(at.values()) <= {extent}:
                    continue
                one = extent == MAIN and all(n == e for n, e in at.items())
                other = extent == SECOND and all(BESIDE[n] == e for n, e in at.items())
                if not one and not other:
                    return None
                found.append(axis)
            axes[name] = tuple(found)
        return axes

    def text(self) -> str:
        varying = {n: a for n, a in self.axes.items() if a and n in self.inputs}
        told = "".join(f"in the file {n.output[0]} = {helper.printable_node(n)}\n" for n in self.told.values())
        halves = "in the file bfloat16 instead of float32\n" if self.halves else ""
        return (f"n or m is at {varying}\n" if varying else "") + told + halves + super().text()


def _halve(graph: onnx.GraphProto) -> None:
    """Make f32 bfloat16; the numbers have to be some of it (`FamilyComposer.halves`)."""
    f32, half = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == f32:
            value.type.tensor_type.elem_type = half
    for attribute in (a for node in graph.node for a in node.attribute if a.name in ("to", "dtype")):
        if attribute.i == f32:
            attribute.i = half
    values = [a.t for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.TENSOR]
    for tensor in (*graph.initializer, *values):
        if tensor.data_type == f32:
            bits = bf16_bits(numpy_helper.to_array(tensor)).tobytes()
            tensor.CopyFrom(helper.make_tensor(tensor.name, half, tensor.dims, bits, raw=True))


class FamilyComposer(Composer):
    """Adds to a family; with no ``extents``, to one of fixed shapes; with ``wide``, extents fill wide vectors."""

    net: Family

    def __init__(
        self, seed: int, extents: Sequence[int], two: bool = False, halves: bool = False, wide: bool = False
    ) -> None:
        super().__init__(seed)
        self.wide = wide
        self.d = WideDraw(seed) if wide else Draw(seed) if extents else SeededDraw(seed)
        if isinstance(self.d, WideDraw):
            self.d.extents = bool(extents)
        self.net = Family(others={e: {} for e in extents}, halves=halves)
        self.varying = (MAIN, SECOND) if two else (MAIN,)
        if isinstance(self.d, Draw):
            self.d.two = two

    def input(self, array: Array) -> str:
        name = super().input(self._rounded(array))
        mine = self.net.values[name]
        if self.net.others:
            self.net.axes[name] = tuple(i for i, e in enumerate(mine.shape) if e in self.varying)
        for extent, values in self.net.others.items():
            values[name] = self.net.at(name, mine, extent)
        return name

    def _rounded(self, array: Array) -> Array:
        """With halves, a number of bfloat16. Refused if it is a float of another width."""
        if self.net.halves and array.dtype.kind == "f" and array.dtype != np.float32:
            raise Refused("other floats")
        return bf16_values(bf16_bits(array)) if self.net.halves and array.dtype == np.float32 else array

    def constant(self, array: Array) -> str:
        name = super().constant(self._rounded(array))
        for values in self.net.others.values():
            values[name] = self.net.values[name]
        return name

    def apply(
        self, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", since: int = 0,
        captured: Sequence[str] = (), **attrs: Any,
    ) -> list[str]:  # fmt: skip
        if self.net.halves and (op in ROUNDED or domain):
            raise Refused("rounded on the way")
        for name, value in attrs.items():
            if isinstance(value, onnx.TensorProto):
                attrs[name] = numpy_helper.from_array(self._rounded(numpy_helper.to_array(value)), value.name)
        base = self._name("v")
        names = tuple(base if outputs == 1 else f"{base}_{i}" for i in range(outputs))
        return self.add(Step(op, tuple(inputs), names, attrs, domain, tuple(captured), since))

    def add(self, step: Step) -> list[str]:
        """The names of a step's results, for every extent. Refused as `Composer.apply` refuses."""
        names = [name for name in step.outputs if name]
        runs = {MAIN: self.net.values, **self.net.others}
        found = {extent: self._run(step, values) for extent, values in runs.items()}
        for arrays in zip(*found.values(), strict=True):
            if len({a.ndim for a in arrays}) > 1:
                raise Refused("the rank varies")
        for extent, made in found.items():
            runs[extent].update(zip(names, made, strict=True))
        self.net.steps.append(step)
        return names

    def _run(self, step: Step, values: Arrays) -> list[Array]:
        if step.op_type.startswith(("Reduce", "Arg")) and not values[step.inputs[0]].size:
            raise Refused("onnxruntime refuses to reduce nothing, or gives ArgMax of it the shape of its operand")
        if step.op_type in ("LSTM", "GRU", "RNN") and not values[step.inputs[0]].size:
            raise Refused("onnxruntime ends the process where a cell has no step")
        computed = step.op_type == "Reshape" and step.inputs[1] not in self.net.constants
        if computed and not step.attrs.get("allowzero") and 0 in values[step.inputs[1]]:
            raise Refused("an extent that is computed, and 0, means that of the operand (docs/conformance.md)")
        if _reads_beyond(step, values):
            raise Refused("onnxruntime rounds the extent of what a window does not fit into towards 0, to 1")
        if _copies_one_of_a_block(step, values):
            raise Refused("onnxruntime copies the first text of each block, and leaves the others empty")
        if _compares_halves(step, values):
            raise Refused("onnxruntime compares 64 bits as less, with AVX-512, where they are more than 32")
        if _asks_all_keys(step, values):
            raise Refused("onnxruntime lets one query ask the keys behind it, too")
        arrays = self.net.engine.run(step, values)
        definite.require_one_answer(step, values)
        if _loses_matrices(step, values, arrays):
            raise Refused("onnxruntime has only the matrices of the left operand where each is a sum of nothing")
        if step.op_type == "Loop" and any(a.shape.count(0) > 1 for a in arrays):
            raise Refused("onnxruntime takes what its loop without a turn does not say for an extent of 0")
        for array in arrays:
            if array.size or not self.net.others:
                definite.require_comparable(array)
            if step.op_type in ("Cast", "CastLike"):
                definite.require_fit(values[step.inputs[0]], array.dtype)
        definite.require_small(step, values)
        return arrays

    def some(self, kinds: str = "f", rank: int = 1) -> str:
        """A value of the pool with at least so many axes, or an input."""
        fits = [n for n in self.pool if self.array(n).dtype.kind in kinds and self.array(n).ndim >= rank]
        if fits and self.chance(75):
            return self.d.choice(fits)
        shape = self.d.shape(self.d.int(max(rank, 1), 4), 1, 5)
        return self.fresh(np.asarray(self.d.array(shape, "f32" if "f" in kinds else "i64", -2, 2)))

    def fresh(self, array: Array) -> str:
        """An input that later nodes may read, too."""
        name = self.input(array)
        self.pool.append(name)
        return name

    def width(self, *narrow: int) -> int:
        """A number of channels or columns: one of these; of a wide network mostly one of `WIDE`."""
        return self.d.choice(WIDE if self.wide and self.chance(70) else narrow)

    def sampler(self, seed: int) -> SeededDraw:
        return WideDraw(seed) if self.wide else super().sampler(seed)

    def axis(self, name: str) -> int:
        return self.d.int(0, self.array(name).ndim - 1)

    def i64(self, *values: int) -> str:
        return self.ints(*values)

    def index(self, value: int) -> str:
        """A number of its own, without axes."""
        return self.constant(np.array(value, np.int64))


def _copies_one_of_a_block(step: Step, values: Arrays) -> bool:
    """True of a Gather of texts along another axis than the last."""
    if step.op_type != "Gather":
        return False
    x = values[step.inputs[0]]
    return x.dtype == object and step.attrs.get("axis", 0) not in (-1, x.ndim - 1)


def _compares_halves(step: Step, values: Arrays) -> bool:
    """True of Min, Max, Clip and Sign of i64 that are no i32: of 2^32 - 1 and 77, the first is the smaller one."""
    wide = [values[n] for n in step.inputs if n and values[n].dtype == np.int64]
    return step.op_type in ("Min", "Max", "Clip", "Sign") and any((a != a.astype(np.int32)).any() for a in wide)


def _asks_all_keys(step: Step, values: Arrays) -> bool:
    """True of a causal Attention of one query, keys of before and several new ones."""
    if step.op_type != "Attention" or not step.attrs.get("is_causal") or len(step.inputs) < 5 or not step.inputs[4]:
        return False
    q, k = (values[n] for n in step.inputs[:2])
    return q.shape[-2] == 1 < k.shape[-2]


def _loses_matrices(step: Step, values: Arrays, made: Sequence[Array]) -> bool:
    """True of a MatMul over an axis of extent 0 whose result has not the matrices of both operands."""
    if step.op_type != "MatMul" or made[0].ndim < 3:
        return False
    left, right = (values[n].shape[:-2] for n in step.inputs)
    return made[0].shape[:-2] != np.broadcast_shapes(left, right)


def _reads_beyond(step: Step, values: Arrays) -> bool:
    """True if a window does not fit into what it reads with its padding: (1 - 2) / 2 + 1 results are 0, or 1."""
    kernel = step.attrs.get("kernel_shape")
    if kernel is None or step.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    rank, shape = len(kernel), values[step.inputs[0]].shape
    extents = shape[1:-1] if step.attrs.get("channels_last") else shape[2:]
    pads, dilations = step.attrs.get("pads", (0,) * 2 * rank), step.attrs.get("dilations", (1,) * rank)
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    room = [e + pads[i] + pads[i + rank] for i, e in enumerate(extents)]
    return any(span > most for span, most in zip(spans, room, strict=False))
