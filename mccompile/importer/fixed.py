"""Graph inputs that are given a value at compile time: they become constants.

Worked example: a network takes ``ids[length]`` and, as a number, the ``length`` again. With ``--constant
length=length`` the input is gone, and what read it reads Gather(Shape(ids), 0).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.errors import UsageError
from mccompile.ir.names import Names
from mccompile.ir.scalar import array_of
from mccompile.onnxio import OnnxGraph, OnnxNode, OnnxValue, dtype_number, numpy_dtype, value_names

Fixed: TypeAlias = "np.ndarray[Any, np.dtype[Any]] | float | int | bool | str | None"
"""An array, or a number for an input of one element, or the name of a dim whose extent it is.
None: an input of type optional is absent."""


@dataclass(frozen=True)
class FromDim:
    """A whole number that is the extent of an axis of another input."""

    value: OnnxValue
    source: str
    axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,) * len(self.value.shape or ())

    def array(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """What it is where the inputs are these."""
        return np.full(self.shape, inputs[self.source].shape[self.axis], numpy_dtype(self.value.dtype))

    def nodes(self, taken: Names) -> tuple[list[OnnxNode], dict[str, np.ndarray]]:
        """The nodes that compute it, and the constants that they read, by names that are not ``taken``."""
        name = self.value.name
        axis, shape, number = (taken.fresh(f"{name}/{part}") for part in ("axis", "shape", "number"))
        nodes = [
            OnnxNode("Shape", (self.source,), (shape,)),
            OnnxNode("Gather", (shape, axis), (number,)),
            OnnxNode("Cast", (number,), (name,), attrs={"to": dtype_number(self.value.dtype)}),
        ]
        return nodes, {axis: np.full(self.shape, self.axis, np.int64)}


def fix_inputs(graph: OnnxGraph, values: Mapping[str, Fixed]) -> tuple[OnnxGraph, dict[str, int]]:
    """The graph with some inputs as constants, and the symbolic dims that their shapes bind.

    Raises:
        UsageError: an input that does not exist, a value that does not fit its element type or shape.
    """
    if not values:
        return graph, {}
    given = [v for v in graph.inputs if v.name not in graph.initializers]
    extents = from_dims(graph, values)
    arrays = fixed_arrays(given, values)
    missing = absent(given, values)
    dims: dict[str, int] = {}
    for value in graph.inputs:
        if value.name in arrays:
            for dim, extent in zip(value.shape or (), arrays[value.name].shape, strict=False):
                if isinstance(dim, str):
                    dims[dim] = extent
    gone = {*arrays, *extents, *missing}
    inputs = [v for v in graph.inputs if v.name not in gone]
    nodes: list[OnnxNode] = []
    taken = Names(value_names(graph))
    for extent in extents.values():
        made, constants = extent.nodes(taken)
        nodes += made
        arrays |= constants
    initializers = {**graph.initializers, **arrays}
    return dataclasses.replace(graph, inputs=inputs, nodes=[*nodes, *graph.nodes], initializers=initializers), dims


def from_dims(graph: OnnxGraph, values: Mapping[str, Fixed]) -> dict[str, FromDim]:
    """The inputs whose values are the names of dims. Raises UsageError."""
    named = {name: dim for name, dim in values.items() if isinstance(dim, str)}
    known = {v.name: v for v in graph.inputs if v.name not in graph.initializers}
    places: dict[str, tuple[str, int]] = {}
    for v in known.values():
        for axis, dim in enumerate(v.shape or ()):
            if isinstance(dim, str) and v.name not in values:
                places.setdefault(dim, (v.name, axis))
    found: dict[str, FromDim] = {}
    for name, dim in named.items():
        given = known.get(name)
        if given is None:
            continue  # `fixed_arrays` says so
        if dim not in places:
            raise UsageError(
                f"the constant for input '{name}' is neither a number nor an .npy file nor a dim: '{dim}'",
                hint=f"the dims of the other inputs are: {', '.join(sorted(places)) or 'none'}",
            )
        if given.dtype not in ("i64", "i32") or any(d not in (1, None) for d in given.shape or ()):
            raise UsageError(f"input '{name}' is no whole number, as the extent '{dim}' is", hint="give a value")
        found[name] = FromDim(given, *places[dim])
    return found


def absent(inputs: Sequence[OnnxValue], values: Mapping[str, Fixed]) -> list[str]:
    """The names of the inputs that are stated to be absent. UsageError where one of them cannot be."""
    optional = {v.name for v in inputs if v.dtype == "optional"}
    found = [name for name, value in values.items() if value is None]
    wrong = [name for name in found if name not in optional]
    if wrong:
        raise UsageError(f"there is no input of type optional named '{wrong[0]}', which alone may be absent")
    return found


def fixed_arrays(inputs: Sequence[OnnxValue], values: Mapping[str, Fixed]) -> dict[str, np.ndarray]:
    """The values in the element types and shapes of the inputs that they are for, but for those of `from_dims`
    and `absent`. Raises UsageError."""
    known = {v.name: v for v in inputs}
    for name in values:
        if name not in known:
            raise UsageError(f"there is no graph input named '{name}'", hint=f"the inputs are: {', '.join(known)}")
    given = {name: value for name, value in values.items() if value is not None and not isinstance(value, str)}
    return {name: _typed(known[name], array_of(f"input '{name}'", value)) for name, value in given.items()}


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Also where it is one of `ml_dtypes`, some of which have numpy's kind V, of bytes."""
    return dtype.kind in "biuf" or (dtype.kind == "V" and dtype.names is None and dtype.type is not np.void)


def _typed(value: OnnxValue, given: np.ndarray) -> np.ndarray:
    dtype = numpy_dtype(value.dtype)
    if not _is_number(given.dtype) or not _is_number(dtype):
        raise UsageError(f"the constant for input '{value.name}' is no array of numbers")
    with np.errstate(all="ignore"):
        typed = given.astype(dtype)
    if dtype.kind in "biu":
        fits = np.array_equal(typed.astype(np.float64), given.astype(np.float64))
    else:  # rounded, but what is finite stays that
        fits = np.array_equal(np.isfinite(typed.astype(np.float64)), np.isfinite(given.astype(np.float64)))
    if not fits or (dtype.kind == "b" and given.dtype.kind == "f"):
        raise UsageError(f"the constant for input '{value.name}' does not fit its element type {value.dtype}")
    shape = value.shape
    if shape is not None and not typed.shape and all(not isinstance(d, int) or d == 1 for d in shape):
        typed = typed.reshape((1,) * len(shape))
    fits = shape is None or (
        len(shape) == typed.ndim
        and all(not isinstance(d, int) or d == e for d, e in zip(shape, typed.shape, strict=True))
    )
    if not fits:
        wanted = ", ".join("?" if d is None else str(d) for d in shape or ())
        raise UsageError(f"input '{value.name}' has the shape [{wanted}], the constant for it {list(typed.shape)}")
    return typed
