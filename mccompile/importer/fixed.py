"""Graph inputs that are given a value at compile time: they become constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mccompile.ir.errors import UsageError
from mccompile.onnxio import OnnxGraph, OnnxValue, numpy_dtype

Fixed: TypeAlias = "np.ndarray[Any, np.dtype[Any]] | float | int | bool | None"
"""An array, or a number for an input of one element. None: an input of type optional is absent."""


def fix_inputs(graph: OnnxGraph, values: Mapping[str, Fixed]) -> tuple[OnnxGraph, dict[str, int]]:
    """The graph with some inputs as constants, and the symbolic dims that their shapes bind.

    Raises:
        UsageError: an input that does not exist, a value that does not fit its element type or shape.
    """
    if not values:
        return graph, {}
    given = [v for v in graph.inputs if v.name not in graph.initializers]
    arrays = fixed_arrays(given, {name: v for name, v in values.items() if v is not None})
    missing = absent(given, values)
    dims: dict[str, int] = {}
    for value in graph.inputs:
        if value.name in arrays:
            for dim, extent in zip(value.shape or (), arrays[value.name].shape, strict=False):
                if isinstance(dim, str):
                    dims[dim] = extent
    inputs = [v for v in graph.inputs if v.name not in arrays and v.name not in missing]
    return dataclasses.replace(graph, inputs=inputs, initializers={**graph.initializers, **arrays}), dims


def absent(inputs: Sequence[OnnxValue], values: Mapping[str, Fixed]) -> list[str]:
    """The names of the inputs that are stated to be absent. UsageError where one of them cannot be."""
    optional = {v.name for v in inputs if v.dtype == "optional"}
    found = [name for name, value in values.items() if value is None]
    wrong = [name for name in found if name not in optional]
    if wrong:
        raise UsageError(f"there is no input of type optional named '{wrong[0]}', which alone may be absent")
    return found


def fixed_arrays(inputs: Sequence[OnnxValue], values: Mapping[str, Fixed]) -> dict[str, np.ndarray]:
    """The values in the element types and shapes of the inputs that they are for. Raises UsageError."""
    known = {v.name: v for v in inputs}
    for name in values:
        if name not in known:
            raise UsageError(f"there is no graph input named '{name}'", hint=f"the inputs are: {', '.join(known)}")
    return {name: _typed(known[name], np.asarray(given)) for name, given in values.items()}


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Also where it is one of `ml_dtypes`, some of which have numpy's kind V, of bytes."""
    return dtype.kind in "biuf" or (dtype.kind == "V" and dtype.names is None and dtype.type is not np.void)


def _typed(value: OnnxValue, given: np.ndarray) -> np.ndarray:
    dtype = numpy_dtype(value.dtype)
    if not _is_number(given.dtype) or not _is_number(dtype):
        raise UsageError(f"the constant for input '{value.name}' is no array of numbers")
    with np.errstate(all="ignore"):
        typed = given.astype(dtype)
    exact = dtype.kind not in "biu" or np.array_equal(typed.astype(np.float64), given.astype(np.float64))
    if not exact or (dtype.kind == "b" and given.dtype.kind == "f"):
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
