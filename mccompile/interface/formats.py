"""``--input NAME=u8,nhwc,mean=..,scale=..``: an input of another format, by ordinary nodes in front of the model's.

Worked example: pixels of a camera for a model that takes ``image`` f32[1,3,4,4], with ``u8,nhwc,mean=10:20:30``::

    graph @g(%image: u8[1,4,4,3]) {
      %image.cast = map(%image, %image.mean) {expr={(f32(x0) - x1)}} : f32[1,4,4,3]
      %image.model = transpose(%image.cast) {perm=(0, 3, 1, 2)} : f32[1,3,4,4]

Passes move and fuse them as any others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from mccompile.interface.tensors import Format
from mccompile.ir import expr as ex
from mccompile.ir.errors import UsageError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import DTYPES, F32, TensorType
from mccompile.ops.map import Map
from mccompile.ops.transpose import Transpose

ELEMENTS = ("u8", "i8", "u16", "i16")
_LAYOUTS = ("nchw", "nhwc")
_EXAMPLE = "such as image=u8,nhwc,mean=123.7:116.3:103.5,scale=0.0171"


def apply_formats(
    graph: Graph, given: Mapping[str, str], packed: Mapping[str, str] = MappingProxyType({})
) -> dict[str, tuple[Format, TensorType]]:
    """Give inputs of a graph the formats that were asked for. Returns each with the type that the model has there.

    Args:
        packed: the types of inputs that are stored as bits, which are no numbers: those of bfloat16, say.

    Raises UsageError: an input that does not exist, a format that says nothing or does not fit it.
    """
    inputs = {v.name: v for v in graph.inputs}
    found: dict[str, tuple[Format, TensorType]] = {}
    for name, text in given.items():
        if name not in inputs:
            raise UsageError(f"there is no graph input named {name!r}", hint=f"the inputs are: {', '.join(inputs)}")
        if name in packed:
            raise UsageError(
                f"the format {text!r} for input {name!r} is for C's numbers, and the model has {packed[name]} there",
                hint="leave --input out, or let the model begin with a Cast",
            )
        model = inputs[name].type
        found[name] = (format_of(name, text, model), model)
        _convert(graph, inputs[name], found[name][0])
    graph.verify()
    return found


def format_of(name: str, text: str, model: TensorType) -> Format:
    """The format that a text says for an input of the model."""
    where = f"the format {text!r} for input {name!r}"
    dtype, *rest = text.split(",")
    if dtype not in ELEMENTS:
        raise UsageError(f"{where} begins with {dtype!r}", hint=f"it has to begin with {', '.join(ELEMENTS)}")
    if model.dtype.kind == "b":
        raise UsageError(f"{where} is for numbers, and the model has {model} there")
    layout, axis = "nchw", 1 if model.rank > 1 else 0
    numbers: dict[str, tuple[float, ...]] = {"mean": (0.0,), "scale": (1.0,)}
    for part in rest:
        key, equals, value = part.partition("=")
        if part in _LAYOUTS:
            layout = part
        elif key == "axis" and re.fullmatch(r"-?\d+", value):
            axis = int(value)
        elif key in numbers and equals:
            numbers[key] = tuple(_number(where, n) for n in value.split(":"))
        else:
            raise UsageError(f"{where} says {part!r}", hint=f"nhwc, axis=, mean= and scale= are known, {_EXAMPLE}")
    if layout == "nhwc" and model.rank < 3:
        raise UsageError(f"{where} is for images, and the model has {model} there", hint="leave nhwc out")
    if not -model.rank <= axis < max(model.rank, 1):
        raise UsageError(f"{where} names axis {axis}, and the model has {model} there")
    axis = axis % model.rank if model.rank else 0
    channels = model.shape[axis] if model.rank else 1
    for key, given in numbers.items():
        if len(given) not in (1, channels):
            raise UsageError(
                f"{where} has {len(given)} numbers for {key}, and the model has {channels} channels there",
                hint=f"the channels of {model} are axis {axis}; axis=N says another one",
            )
    if 0 in numbers["scale"]:
        raise UsageError(f"{where} makes 0 of all elements", hint="a scale must not be 0")
    return Format(text, DTYPES[dtype], axis, layout == "nhwc", numbers["mean"], numbers["scale"])


def axes_of(text: str, rank: int) -> tuple[int, ...]:
    """Which axis of the elements each axis of the model's input is, whatever else the text of a format says.

    >>> axes_of("u8,nhwc,scale=0.01", 4)
    (0, 3, 1, 2)
    """
    parts = text.split(",")
    said = [part.removeprefix("axis=") for part in parts if re.fullmatch(r"axis=-?\d+", part)]
    axis = int(said[-1]) if said else min(1, rank - 1)
    if "nhwc" not in parts or not -rank <= axis < rank:
        return tuple(range(rank))
    return Format(text, DTYPES[ELEMENTS[0]], axis % rank, True, (), ()).perm(rank)


def _number(where: str, text: str) -> float:
    try:
        number = float(np.float32(text))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{where} has {text!r} where a number is expected", hint=_EXAMPLE)
    return number


def _convert(graph: Graph, value: Value, given: Format) -> None:
    """Put the nodes in front that make the model's input of the elements."""
    model, name = value.type, value.name
    elements = graph.value(f"{name}.elements", given.stored(model))
    operands = [elements]
    at = given.perm(model.rank)[given.axis] if model.rank else 0

    def number(numbers: tuple[float, ...], suffix: str) -> ex.Expr:
        if len(set(numbers)) == 1:
            return ex.num(numbers[0], F32)
        shape = tuple(len(numbers) if a == at else 1 for a in range(model.rank))
        operands.append(graph.constant(f"{name}.{suffix}", np.asarray(numbers, np.float32).reshape(shape)))
        return ex.var(len(operands) - 1, F32)

    body: ex.Expr = ex.convert(ex.var(0, given.dtype), F32)
    if any(given.mean):
        body = ex.apply("sub", body, number(given.mean, "mean"))
    if set(given.scale) != {1.0}:
        body = ex.apply("mul", body, number(given.scale, "scale"))
    if not model.dtype.is_float:
        body = ex.apply("rne", body)
    before = len(graph.nodes)
    storage = "f16" if model.dtype.name == "f16" else ""
    (result,) = graph.emit(Map(ex.convert(body, model.dtype.compute), storage), operands, [f"{name}.cast"])
    if at != given.axis:
        (result,) = graph.emit(Transpose(given.perm(model.rank)), [result], [f"{name}.model"])
    made = graph.nodes[before:]
    graph.nodes = graph.nodes[:before]
    graph.replace(value, result)
    graph.nodes = made + graph.nodes
    graph.inputs = [elements if v is value else v for v in graph.inputs]
    graph.rename(elements, name)
