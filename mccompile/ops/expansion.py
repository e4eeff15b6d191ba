"""Front ends that say a node in other nodes: what they mean is known, and passes fuse them again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mccompile.ir.dims import varies
from mccompile.ir.graph import Value
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.onnxio import OnnxNode, dtype_number
from mccompile.onnxio.contrib import MICROSOFT
from mccompile.onnxio.model import AttrValue
from mccompile.ops.frontend import Import, widened

CONTRIB = MICROSOFT
"""The domain of onnxruntime's own operators."""


class Expansion:
    """The nodes that stand for one that is expanded: their names begin with its own, and are none of the model."""

    def __init__(self, n: Import) -> None:
        self.n = n
        self.base = next((name for name in n.node.outputs if name), n.node.name)
        self.nodes: list[OnnxNode] = []

    def add(self, op_type: str, inputs: list[str], suffix: str, **attrs: AttrValue) -> str:
        """One more node; the name of its result."""
        out = self.fresh(suffix)
        self.last(op_type, inputs, out, f"{self.n.node.name}.{suffix}", **attrs)
        return out

    def fresh(self, suffix: str) -> str:
        """A name for one more result, which nothing else has."""
        return self.n.names.fresh(f"{self.base}.{suffix}")

    def last(self, op_type: str, inputs: list[str], out: str, name: str = "", **attrs: AttrValue) -> None:
        """The node with a given result."""
        node = OnnxNode(op_type, tuple(inputs), (out,), "", name or self.n.node.name, dict(attrs), self.n.node.index)
        self.nodes.append(node)

    def given(self, *names: str) -> dict[str, AttrValue]:
        """Those of the attributes that the node has, for a node that means the same by them."""
        return {name: value for name in names if (value := self.n.attr(name)) is not None}

    def name(self, i: int) -> str:
        """The name of input ``i``; "" if it is absent."""
        return self.n.node.inputs[i] if i < len(self.n.node.inputs) else ""

    def product(self, op: Op, operands: Sequence[Value], suffix: str, **bodies: Any) -> str:
        """What ``op`` makes of operands of the type of input 0, in the type that it is computed in: of halves, which
        it reads as they lie, sums that no node of ONNX gives."""
        name = self.fresh(suffix)
        self.n.expanded[name] = self.n.inner(op, operands, suffix, pre=widened(*operands), **bodies)
        return name

    def constant(self, array: Array, suffix: str) -> str:
        """A constant of the expansion."""
        return self.add("Constant", [], suffix, value=array)

    def number(self, value: int, suffix: str) -> str:
        """A whole number, which may be an extent that is known at run time only."""
        return self.constant(np.array(value, _type_of((value,))), suffix)

    def ints(self, values: Iterable[int], suffix: str) -> str:
        """A vector of whole numbers, of which some may be extents that are known at run time only: a shape."""
        given = tuple(values)
        return self.constant(np.array(given, _type_of(given)), suffix)

    def counted(self, start: int, stop: int, suffix: str) -> str:
        """The whole numbers from ``start`` to before ``stop``. CompileError for more than may be folded."""
        if not varies((start, stop)):
            self.n.require_foldable(8 * max(stop - start, 0), suffix)
            return self.constant(np.arange(start, stop), suffix)
        ends = [self.number(n, f"{suffix}.{what}") for n, what in ((start, "start"), (stop, "stop"), (1, "step"))]
        return self.add("Range", ends, suffix)

    def filled(self, value: Array, shape: Iterable[int], suffix: str) -> str:
        """The one element ``value`` in a shape. CompileError for more than may be folded."""
        given = tuple(shape)
        if not varies(given):
            self.n.require_foldable(value.itemsize * math.prod(given), suffix)
            return self.constant(np.full(given, value), suffix)
        return self.add("ConstantOfShape", [self.ints(given, f"{suffix}.shape")], suffix, value=value.reshape(1))

    def cast(self, x: str, dtype: str, suffix: str) -> str:
        return self.add("Cast", [x], suffix, to=dtype_number(dtype))

    def computed(self, x: str, suffix: str, i: int = 0) -> str:
        """A value of the type of input ``i`` in the type that it is computed in: halves as floats, so that what is
        made of them on the way to a result is not rounded."""
        return self.cast(x, "f32", f"{suffix}.wide") if x and self.n.input(i).dtype.name == "f16" else x

    def wide(self, i: int) -> str:
        """Input ``i`` in the type that it is computed in; "" if it is absent."""
        return self.computed(self.name(i), f"input{i}", i) if self.n.optional(i) is not None else ""

    def stored(self, x: str, suffix: str) -> str:
        """A value that is made of `computed` operands in the type of input 0."""
        return self.cast(x, "f16", f"{suffix}.stored") if self.n.input(0).dtype.name == "f16" else x

    def bind_stored(self, output: int, value: str, i: int = 0) -> None:
        """`bind` what is made of `computed` operands, in f16 where input ``i`` is that."""
        outs = self.n.node.outputs
        if self.n.input(i).dtype.name != "f16":
            self.bind(output, value)
        elif output < len(outs) and outs[output]:
            name = f"{self.n.node.name}.{outs[output]}"
            self.last("Cast", [value], outs[output], name, to=dtype_number("f16"))

    def last_stored(self, op_type: str, inputs: list[str], suffix: str, **attrs: AttrValue) -> None:
        """The node of result 0, made of `computed` operands, in f16 where input 0 is that."""
        if self.n.input(0).dtype.name == "f16":
            self.bind_stored(0, self.add(op_type, inputs, suffix, **attrs))
        else:
            self.last(op_type, inputs, self.n.node.outputs[0], "", **attrs)

    def reshaped(self, x: str, shape: Iterable[int], suffix: str) -> str:
        return self.add("Reshape", [x, self.ints(shape, f"{suffix}.shape")], suffix)

    def sliced(self, x: str, axis: int, start: int, stop: int, suffix: str) -> str:
        """The elements from ``start`` to ``stop`` of an axis."""
        parts = [self.ints([v], f"{suffix}.{name}") for name, v in (("from", start), ("to", stop), ("axis", axis))]
        return self.add("Slice", [x, *parts], suffix)

    def bind(self, output: int, value: str) -> None:
        """Let a result of the node, if it is asked for, be the value of a name."""
        outs = self.n.node.outputs
        if output < len(outs) and outs[output]:
            self.last("Identity", [value], outs[output], f"{self.n.node.name}.{outs[output]}")

    def finish(self) -> None:
        self.n.expand(self.nodes)


def channels_first(rank: int) -> tuple[int, ...]:
    """The order of axes that makes [N, C, spatial...] of [N, spatial..., C].

    >>> channels_first(4), channels_last(4)
    ((0, 3, 1, 2), (0, 2, 3, 1))
    """
    return (0, rank - 1, *range(1, rank - 1))


def channels_last(rank: int) -> tuple[int, ...]:
    """The order that undoes it."""
    return (0, *range(2, rank), 1)


def _type_of(numbers: tuple[int, ...]) -> type:
    """The element type of an array of numbers: objects where an extent is among them."""
    return object if varies(numbers) else np.int64
