"""Arrays as samples: what a user's .npz holds, cut into the inputs of single runs.

    the model takes x: f32[1,3,8,8]        x in the file        samples
                                           [1,3,8,8]            1
                                           [50,3,8,8]           50, along the batch
                                           [50,1,3,8,8]         50, stacked

Where the model takes f32[seq,8], what is [50,8] is one sample of 50 rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mccompile.ir.errors import UsageError
from mccompile.ir.scalar import array_of, conversion
from mccompile.onnxio import OnnxValue, dtype_of_array, numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]
Sample = dict[str, Array]

NO_TENSORS = ("sequence", "optional", "map", "sparse", "opaque")
"""Types of inputs that an array is none of."""


class Named(Protocol):
    """A value of a model or graph."""

    @property
    def name(self) -> str: ...


def named_arrays(given: Any, inputs: Sequence[Named]) -> dict[str, Array]:
    """What was given as inputs, by name: a mapping, or the array of the only input.

    UsageError where one array is given for several inputs.
    """
    if isinstance(given, Mapping):
        return {str(name): array_of(repr(name), array) for name, array in given.items()}
    if len(inputs) != 1:
        names = ", ".join(v.name for v in inputs)
        raise UsageError("one array is given without a name, but the model has several inputs",
                         hint=f"give one for each by name: {names}")  # fmt: skip
    return {inputs[0].name: array_of(repr(inputs[0].name), given)}


def require_names(arrays: Mapping[str, Array], names: Sequence[str], kind: str = "input") -> None:
    """UsageError unless there is exactly one array for each name."""
    missing, strange = [n for n in names if n not in arrays], [n for n in arrays if n not in names]
    if missing or strange:
        told = [f"no array is given for {kind} {n!r}" for n in missing]
        told += [f"the model has no {kind} {n!r}" for n in strange]
        raise UsageError("; ".join(told), hint=f"its {kind}s are {', '.join(names)}")


def require_finite(arrays: Mapping[str, Array]) -> None:
    """UsageError for NaN and infinity."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UsageError(f"the data of input {name!r} holds NaN or infinity", hint="they have no range")


def cut(
    arrays: Mapping[str, Array], inputs: Sequence[OnnxValue], kind: str = "input", batch: int | None = None
) -> list[Sample]:
    """The inputs of each run, by name.

    Args:
        arrays: by name of the input; of its shape, of several along the first axis, or stacked. An extent that the
            model leaves open is what the data has. An input with one sample has it in every run.
        inputs: those of the model.
        kind: what they are called in errors.
        batch: the extent of a first axis that the model leaves open; None: what the data has.

    Raises:
        UsageError: a missing or unknown name, another element type or shape, numbers of samples that differ.
    """
    require_names(arrays, [v.name for v in inputs], kind)
    parts = {v.name: _parts(arrays[v.name], v, kind, batch) for v in inputs}
    counts = {name: len(found) for name, found in parts.items()}
    number = max(counts.values(), default=0)
    for name, count in counts.items():
        if count not in (1, number):
            rule = f"{count} samples of {kind} {name!r}, {number} of another"
            raise UsageError(rule, hint=f"the data has {counts}")
    if not number:
        raise UsageError("the data holds no sample", hint="a hundred typical ones are usual")
    return [{name: found[i % len(found)] for name, found in parts.items()} for i in range(number)]


def _parts(array: Array, value: OnnxValue, kind: str, batch: int | None) -> list[Array]:
    """The samples in the array of one input."""
    what = f"{kind} {value.name!r} is {_type_text(value)}, its data {dtype_of_array(array)}{list(array.shape)}"
    if value.dtype in NO_TENSORS:
        raise UsageError(f"{kind} {value.name!r} is of type {value.dtype}, of which no array is")
    if dtype_of_array(array) != value.dtype:
        raise UsageError(what, hint=conversion(array.dtype, numpy_dtype(value.dtype)))
    if value.shape is None:
        return [array]
    rank = len(value.shape)
    if array.ndim == rank + 1 and _fits(array.shape[1:], value.shape):
        return [array[i, ...] for i in range(len(array))]  # arrays, also of inputs without axes
    if array.ndim == rank and rank and _fits(array.shape[1:], value.shape[1:]):
        batch = value.shape[0] if isinstance(value.shape[0], int) else batch
        if batch and array.shape[0] % batch == 0:
            return [array[i : i + batch] for i in range(0, array.shape[0], batch)]
    if array.ndim == rank and _fits(array.shape, value.shape):
        return [array]
    raise UsageError(what, hint="several samples lie along the first axis, or along one more in front")


def _fits(extents: Sequence[int], shape: Sequence[int | str | None]) -> bool:
    return all(not isinstance(s, int) or e == s for e, s in zip(extents, shape, strict=True))


def _type_text(value: OnnxValue) -> str:
    shape = "" if value.shape is None else f"[{','.join('?' if e is None else str(e) for e in value.shape)}]"
    return f"{value.dtype}{shape}"
