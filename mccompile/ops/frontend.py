"""The view an ONNX front end has of the node it converts: operands, attributes, constants, results."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, UndecidedError, identifier, require_equal, symbol, symbols, varies
from mccompile.ir.dims_hints import hint_of
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.limits import require
from mccompile.ir.names import Names
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import DType
from mccompile.onnxio.model import PRIVATE, AttrValue, OnnxNode
from mccompile.onnxio.schema import attribute_default
from mccompile.ops.extents import Extents
from mccompile.ops.iota import Iota
from mccompile.ops.map import Map
from mccompile.ops.reshape import Reshape
from mccompile.ops.stated import Stated

T = TypeVar("T", int, float, str, tuple[int, ...], tuple[float, ...], tuple[str, ...])
Kind = TypeVar("Kind", int, float, str, tuple[Any, ...], Array)


_KINDS: Mapping[type, str] = {int: "int", float: "float", str: "string", tuple: "list", np.ndarray: "tensor"}


def _shown(value: object) -> str:
    """An attribute's value for people: ONNX's floats are of 32 bits, so that 0.01 has many digits."""
    return f"{value:g}" if isinstance(value, float) else repr(value)


def widened(*operands: Value) -> dict[int, ex.Expr]:
    """The prologues by which an operator reads halves as they lie, and gives the floats that it computes."""
    return {i: ex.acc(v.dtype) for i, v in enumerate(operands) if v.dtype != v.dtype.compute}


class Import:
    """One ONNX node (newest opset form) whose inputs are known, being turned into graph IR.

    A front end reads `input`, `attr` and `const`, emits nodes, and gives each output of the ONNX node a
    value through `emit` (last node) or `bind`.
    """

    def __init__(
        self, graph: Graph, node: OnnxNode, inputs: Sequence[Value | None], narrow: Mapping[Value, str] | None = None,
        extents: MutableMapping[Value, Array] | None = None, stated: Stated | None = None, names: Names | None = None,
    ) -> None:
        self.graph = graph
        self.node = node
        self.inputs = list(inputs)
        self.outputs: list[Value | None] = [None] * len(node.outputs)
        self.attributes_read: set[str] = set()
        self.expansion: list[OnnxNode] = []
        self.expanded: dict[str, Value] = {}
        """What the front end has emitted for its expansion to read, by the names that this has for it."""
        self._narrow = narrow or {}
        self._extents = {} if extents is None else extents
        self.stated = stated or Stated()
        self.names = names or Names((*node.inputs, *node.outputs))
        """Makes names for what the node becomes a number of: those of the model are taken."""
        self.narrow_result = ""
        """The ONNX type of output 0, if it has a wider one in the graph."""
        self.outputs_alike = False
        """Whether the other outputs have it, too."""

    @property
    def op_type(self) -> str:
        return self.node.op_type

    @property
    def where(self) -> str:
        shapes = ", ".join("-" if v is None else str(v.type) for v in self.inputs)
        return f"node {self.node.index} {self.node.name!r} {self.node.op_type}({shapes})"

    def error(self, rule: str, hint: str = "") -> CompileError:
        """The error to raise when the node breaks ``rule``."""
        return CompileError(rule, where=self.where, hint=hint)

    def undecided(self, cause: UndecidedError) -> CompileError:
        """The error to raise where what is asked of extents depends on the run."""
        rule = f"the node cannot be converted for all of these extents: {cause}"
        return self.error(rule, hint_of(cause, self.stated.taken))

    def require_foldable(self, asked: int, suffix: str) -> None:
        """CompileError where a constant of ``asked`` bytes, which is about to be made, is more than may be folded."""
        require("folded-bytes", asked, f"{suffix!r} of what it is made of", self.where)

    # -- what the node has -------------------------------------------------------------------------------
    def optional(self, i: int) -> Value | None:
        """Input ``i``, or None if absent."""
        return self.inputs[i] if i < len(self.inputs) else None

    def narrow(self, i: int) -> str:
        """The ONNX type of input ``i`` if it is held in a wider type (4-bit integers, 8-bit floats)."""
        value = self.optional(i)
        return "" if value is None else self._narrow.get(value, "")

    def input(self, i: int) -> Value:
        """Input ``i``; CompileError if absent."""
        value = self.optional(i)
        if value is None:
            raise self.error(f"input {i} is required")
        return value

    @overload
    def attr(self, name: str, default: T, items: type | None = None) -> T: ...
    @overload
    def attr(self, name: str, default: None = None) -> Any: ...
    def attr(self, name: str, default: Any = None, items: type | None = None) -> Any:
        """An attribute, or ``default``; CompileError if it is of another kind than a default that is not None. What
        a list has to be a list of say ``items``, or the default's."""
        self.attributes_read.add(name)
        value = self.node.attrs.get(name, default)
        if items is None and isinstance(default, tuple) and default:
            items = type(default[0])
        return value if default is None else self._of_kind(name, value, type(default), items)

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that says yes or no: 1 or 0, and nothing else."""
        value = self.attr(name, int(default))
        if value not in (0, 1):
            raise self.error(f"attribute {name!r} is {value}, but it may only be 0 or 1")
        return bool(value)

    def each(self, name: str, count: int) -> tuple[int, ...]:
        """An attribute of one number for each of so many, zeros without one; CompileError if it has others."""
        given: tuple[int, ...] = self.attr(name, (), int)
        if given and len(given) != count:
            raise self.error(f"attribute {name!r} has {len(given)} numbers, but there are {count} that it tells of")
        return given or (0,) * count

    def altered(self, inputs: Sequence[Value | None], **attributes: AttrValue) -> Import:
        """The node with other inputs and attributes, for a front end to convert that is not its own."""
        node = replace(self.node, attrs={**self.node.attrs, **attributes})
        return Import(self.graph, node, inputs, self._narrow, self._extents, self.stated, self.names)

    def refuse_unread(self, without_effect: Collection[str]) -> None:
        """CompileError if the node has an attribute that its front end did not look at: what it asks for would be
        left out in silence. Attributes ``without_effect`` and those of their default value ask for nothing.
        """
        for name, value in self.node.attrs.items():
            if name.startswith(PRIVATE) or name in without_effect or name in self.attributes_read:
                continue
            default = attribute_default(self.node.op_type, name, self.node.domain)
            if default is None or value != default:
                usual = "" if default is None else f", or set it to {_shown(default)}, its default"
                raise self.error(
                    f"attribute {name!r} = {_shown(value)} is not supported", f"leave {name!r} out{usual}"
                )

    def required(self, name: str, kind: type[Kind], items: type | None = None) -> Kind:
        """An attribute of that kind, a list of ``items``; CompileError if there is none."""
        self.attributes_read.add(name)
        if name not in self.node.attrs:
            raise self.error(f"attribute {name!r} is required")
        found: Kind = self._of_kind(name, self.node.attrs[name], kind, items)
        return found

    def _of_kind(self, name: str, value: AttrValue, kind: type, items: type | None = None) -> Any:
        """An attribute's value; a whole number may stand for a float. ONNX's own operators are checked before
        (`onnxio.wellformed`), those of other domains have no schema there."""
        allowed: dict[type, tuple[type, ...]] = {float: (int, float), tuple: (tuple, list)}
        if items is not None and isinstance(value, tuple | list):
            wanted = allowed.get(items, (items,))
            if not all(isinstance(item, wanted) for item in value):
                raise self.error(f"attribute {name!r} is no list of {_KINDS[items]}s")
        if not isinstance(value, allowed.get(kind, (kind,))):
            shown = f" = {_shown(value)}" if isinstance(value, int | float | str) else ""
            raise self.error(f"attribute {name!r}{shown} is no {_KINDS[kind]}")
        return float(value) if isinstance(value, int) and kind is float else value

    def declared(self, output: int = 0) -> tuple[int, ...] | None:
        """The shape that the model states for an output of the node; None where it states none. It may be wrong."""
        return self.stated.whole(self.node.outputs[output]) if output < len(self.node.outputs) else None

    def declared_extent(self, axis: int) -> int | None:
        """One extent that the model states for output 0."""
        return self.stated.extent(self.node.outputs[0], axis)

    def largest(self, axis: int, most: Callable[[], int | None] = lambda: None) -> int:
        """The most that an extent of output 0 may be which is found out at run time: what was said, else ``most``,
        which follows from how it is computed. CompileError asks for it."""
        said = self.stated.bound(self.node.outputs[0], axis)
        found = most() if said is None else said
        if found is None:
            name = self.stated.name(self.node.outputs[0], axis)
            raise self.error(
                f"extent {axis} of the result is computed at run time, and nothing says how large it may become",
                f"--bound {name}=N, or fix what it depends on with --constant",
            )
        return found

    def is_const(self, i: int) -> bool:
        value = self.optional(i)
        return value is not None and value in self.graph.constants

    def const(self, i: int, what: str) -> Array:
        """The elements of input ``i``, which must be known at compile time; ``what`` names it."""
        value = self.input(i)
        if value not in self.graph.constants:
            raise self.error(
                f"input {i} ({what}) must be a constant, but %{value.name} is computed at run time",
                hint="fix the shapes with --dim, or the graph input it depends on with --constant",
            )
        return self.graph.array(value)

    def one(self, i: int, what: str) -> Any:
        """The element of input ``i``, which must be known at compile time and have only one."""
        array = self.const(i, what)
        if array.size != 1:
            raise self.error(f"input {i} ({what}) is {self.input(i).type}, but it may only be one number")
        return array.reshape(-1)[0]

    def has_numbers(self, i: int) -> bool:
        """Whether the elements of input ``i`` are known, or are extents: what `ints` gives."""
        return self.is_const(i) or self.optional(i) in self._extents

    def ints(self, i: int, what: str) -> tuple[int, ...]:
        """The integers of constant input ``i``; some may be extents that are known at run time only."""
        known = self._extents.get(self.input(i))
        if known is not None:
            return tuple(known.reshape(-1))
        return tuple(int(x) for x in self.const(i, what).reshape(-1))

    def numbers(self, value: Value) -> tuple[int, ...]:
        """The whole numbers of a value, where they are known or extents; else none."""
        if value in self._extents:
            return tuple(self._extents[value].reshape(-1))
        return tuple(map(int, self.graph.array(value).reshape(-1))) if value in self.graph.constants else ()

    def elements(self, value: Value) -> Array | None:
        """The elements of a value, where they are known or extents."""
        return self.graph.array(value) if value in self.graph.constants else self._extents.get(value)

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis; CompileError if it is outside of [-rank, rank)."""
        if not -rank <= axis < max(rank, 1):
            raise self.error(f"axis {axis} is outside of rank {rank}")
        return axis % rank if rank else 0

    def axes(self, given: Iterable[int], rank: int) -> tuple[int, ...]:
        """Axes as `axis`; CompileError if one of them stands there twice."""
        stated = tuple(given)
        found = tuple(self.axis(a, rank) for a in stated)
        if len(set(found)) < len(found):
            raise self.error(f"axes {list(stated)} are not distinct")
        return found

    def counted(self, suffix: str, high: int, low: int = 0) -> int:
        """A new extent of ``low`` to ``high`` that a kernel will count: see `count`."""
        return symbol(self.stated.fresh(identifier(f"{self.node.outputs[0]}_{suffix}")), low, high)

    def counts(self, suffix: str, value: Value, low: int, high: int) -> int:
        """The extent of ``low`` to ``high`` that ``value``, i32[], holds; a plain number where these are equal."""
        extent = self.counted(suffix, high, low)
        self.count(extent, value)
        return extent

    def learn(self, value: Value, number: int) -> None:
        """Let an extent of `counted` stand for the only element of ``value``, which the run has found to be that."""
        if isinstance(number, Dim):
            self._extents[value] = np.array(number, object).reshape(value.shape)

    def count(self, extent: int, value: Value) -> None:
        """Let ``value``, i32[], be what an extent of `counted` is when the program runs."""
        for s in symbols(extent):
            self.graph.counts[s.name] = value

    # -- what it becomes ---------------------------------------------------------------------------------
    def constant(self, suffix: str, array: Array) -> Value:
        """A new constant named after the node's first output."""
        return self.graph.constant(f"{self.node.outputs[0]}.{suffix}", array)

    def told(self, suffix: str, numbers: Array, dtype: DType) -> Value:
        """A tensor of whole numbers, of which some may be extents: a constant where none is."""
        if not varies(numbers.reshape(-1)):
            return self.constant(suffix, numbers.astype(dtype.numpy))
        value = self.inner(Extents(tuple(numbers.reshape(-1)), numbers.shape, dtype.name), [], suffix)
        self._extents[value] = numbers
        return value

    def inner(self, op: Op, operands: Sequence[Value | None], suffix: str, **bodies: Any) -> Value:
        """Emit a node whose only result is not an output of the ONNX node."""
        return self._emit(op, operands, [f"{self.node.outputs[0]}.{suffix}"], **bodies)[0]

    def inners(self, op: Op, operands: Sequence[Value | None], suffixes: Sequence[str]) -> list[Value]:
        """Emit a node with one result per suffix, none of which is an output of the ONNX node."""
        base = next((name for name in self.node.outputs if name), self.node.name)
        return self._emit(op, operands, [f"{base}.{suffix}" for suffix in suffixes])

    def emit(
        self,
        op: Op,
        operands: Sequence[Value | None],
        *,
        extras: Sequence[Value] = (),
        pre: Mapping[int, ex.Expr] | None = None,
        post: Mapping[int, ex.Expr] | None = None,
    ) -> None:
        """Emit the node whose results are the outputs of the ONNX node, in order."""
        names = [n or f"{self.node.name}.unused{i}" for i, n in enumerate(self.node.outputs)]
        results = self._emit(op, operands, names, extras=extras, pre=pre, post=post)
        self.outputs = list(results[: len(self.node.outputs)])

    def steps(self, count: int, dtype: DType, suffix: str, start: int = 0) -> Value:
        """The whole numbers from ``start`` on, ``count`` of them, which may be known at run time only."""
        if not isinstance(count, Dim):
            return self.constant(suffix, np.arange(start, start + count).astype(dtype.numpy))
        return self.inner(Iota(start, 1, count, dtype.name), [], suffix)

    def map(self, body: ex.Expr, operands: Sequence[Value], suffix: str) -> Value:
        """``body`` over operands, in the type that it is computed in: what is made of halves on the way to a result
        are floats, which may be far apart where halves are equal. Constants are folded."""
        op = Map(body)
        if all(v in self.graph.constants for v in operands):
            (array,) = op.evaluate(*(self.graph.array(v) for v in operands))
            return self.constant(suffix, array.astype(body.dtype.numpy))
        return self.inner(op, operands, suffix)

    def computed(self, value: Value, suffix: str = "wide") -> Value:
        """``value`` in the type that it is computed in: halves as floats."""
        return value if value.dtype == value.dtype.compute else self.map(ex.var(0, value.dtype), [value], suffix)

    def stored(self, value: Value, suffix: str = "stored", like: Value | None = None) -> Value:
        """``value``, in f16 where ``like``, input 0 if it is not given, is that: kernels with a prologue see and give
        what they compute in, f32."""
        if (like or self.input(0)).dtype.name != "f16" or value.dtype.name != "f32":
            return value
        return self.inner(Map(ex.var(0, value.dtype), "f16"), [value], suffix)

    def reshape(self, value: Value, shape: tuple[int, ...], suffix: str) -> Value:
        """``value`` in another shape: a constant stays one, and numbers that are extents stay these."""
        if value.shape == shape:
            return value
        if value in self.graph.constants:
            return self.constant(suffix, self.graph.array(value).reshape(shape))
        if value in self._extents:
            return self.told(suffix, self._extents[value].reshape(shape), value.dtype)
        return self.inner(Reshape(shape), [value], suffix)

    def emit_reshape(self, shape: tuple[int, ...], x: Value | None = None) -> None:
        """Let output 0 be ``x``, or input 0, in another shape. UndecidedError where that holds as much in some runs
        alone."""
        x = self.input(0) if x is None else x
        require_equal(math.prod(shape), x.type.count)
        if x.shape == shape:
            self.bind(0, x)
        else:
            self.emit(Reshape(shape), [x])

    def bind(self, output: int, value: Value) -> None:
        """Let output ``output`` of the ONNX node be ``value``."""
        self.outputs[output] = value

    def expand(self, nodes: Sequence[OnnxNode]) -> None:
        """Let other nodes, from inputs of this one to its outputs, be converted in its place."""
        self.expansion = list(nodes)

    def fold(self, array: Array, output: int = 0) -> None:
        """Let output ``output`` be a constant."""
        self.outputs[output] = self.graph.constant(self.node.outputs[output], array)

    def _emit(self, op: Op, operands: Sequence[Value | None], names: list[str], **bodies: Any) -> list[Value]:
        try:
            return self.graph.emit(op, operands, names, origins=(self.node.name,), **bodies)
        except (TypeRuleError, ValueError) as e:
            raise self.error(str(e), hint_of(e, self.stated.taken) if isinstance(e, UndecidedError) else "") from e
