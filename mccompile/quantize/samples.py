"""Arrays as samples: what a user's .npz holds, cut into the inputs of single runs.

    the model takes x: f32[1,3,8,8]        x in the file        samples
                                           [1,3,8,8]            1
                                           [50,3,8,8]           50, along the batch
                                           [50,1,3,8,8]         50, stacked
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mccompile.ir.errors import UsageError
from mccompile.onnxio import OnnxValue, dtype_of_array

Array = np.ndarray[Any, np.dtype[Any]]
Sample = dict[str, Array]


def cut(arrays: Mapping[str, Array], inputs: Sequence[OnnxValue]) -> list[Sample]:
    """The inputs of each run, by name.

    Args:
        arrays: by name of the input; of its shape, of several along the first axis, or stacked. An extent that the
            model leaves open is 1 for the first axis, and what the data has for others. An input with one sample
            has it in every run.
        inputs: those of the model.

    Raises:
        UsageError: a missing or unknown name, another element type or shape, numbers of samples that differ, NaN.
    """
    names = [v.name for v in inputs]
    missing, strange = [n for n in names if n not in arrays], [n for n in arrays if n not in names]
    if missing or strange:
        told = [f"no data for input {missing[0]!r}"] if missing else []
        told += [f"the model has no input {strange[0]!r}"] if strange else []
        raise UsageError("; ".join(told), hint=f"the arrays of the .npz are to be called {', '.join(names)}")
    parts = {v.name: _parts(arrays[v.name], v) for v in inputs}
    counts = {name: len(found) for name, found in parts.items()}
    number = max(counts.values(), default=0)
    for name, count in counts.items():
        if count not in (1, number):
            raise UsageError(f"{count} samples of input {name!r}, {number} of another", hint=f"the data has {counts}")
    if not number:
        raise UsageError("there is no sample to calibrate with", hint="a hundred typical ones are usual")
    return [{name: found[i % len(found)] for name, found in parts.items()} for i in range(number)]


def _parts(array: Array, value: OnnxValue) -> list[Array]:
    """The samples in the array of one input."""
    what = f"input {value.name!r} is {_type_text(value)}, its data {dtype_of_array(array)}{list(array.shape)}"
    if dtype_of_array(array) != value.dtype:
        raise UsageError(what, hint=f"convert it: array.astype({_numpy_name(value.dtype)!r})")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(f"the data of input {value.name!r} holds NaN or infinity", hint="they have no range")
    if value.shape is None:
        return [array]
    rank = len(value.shape)
    if array.ndim == rank + 1 and _fits(array.shape[1:], value.shape):
        return list(array)
    if array.ndim == rank and rank and _fits(array.shape[1:], value.shape[1:]):
        batch = value.shape[0] if isinstance(value.shape[0], int) else 1
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


def _numpy_name(dtype: str) -> str:
    from mccompile.ir.types import DTYPES

    return DTYPES[dtype].numpy.name if dtype in DTYPES else dtype
