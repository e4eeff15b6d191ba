"""A user's data in a check: what it says of open extents, its samples, and how good the results are over all of them.

    the model takes ids: i64[batch,seq]      ids in the file [50,16]      seq=16, and 50 samples of batch 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mccompile.check.result import Accuracy
from mccompile.driver import Options
from mccompile.importer.dim_names import rename_dims
from mccompile.importer.dims import bind_known
from mccompile.importer.fixed import fix_inputs
from mccompile.interface.formats import axes_of
from mccompile.interface.tensors import Interface
from mccompile.ir.dims import Dim
from mccompile.ir.errors import UsageError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.scalar import array_of
from mccompile.ir.small_floats import bf16_values
from mccompile.ir.types import U8
from mccompile.onnxio import OnnxValue, read_model
from mccompile.ops.text import encoded
from mccompile.run.noise import Noise
from mccompile.run.samples import Array, Sample, cut, named_arrays, require_names
from mccompile.run.values import item_name


def with_dims(model: Path, options: Options, given: Any) -> Options:
    """The options with the open extents that a user's inputs have.

    Args:
        model: the .onnx file.
        options: what they say of dims is left as it is.
        given: arrays by name, or the array of the only input.

    Raises:
        UsageError: one array for several inputs.
    """
    graph, _ = fix_inputs(read_model(model).graph, options.constants)
    kept = set(options.state.values())
    inputs = [v for v in graph.inputs if v.name not in graph.initializers and v.name not in kept]
    arrays = named_arrays(given, inputs)
    graph = rename_dims(graph, options.dims, options.input_shapes)
    shaped, bindings = bind_known(graph.inputs, graph.outputs, options.dims, options.input_shapes)
    dims, shapes = dict(options.dims), dict(options.input_shapes)
    for value in map(bindings.resolve, shaped):
        for i in range(len(arrays)) if value.dtype == "sequence" else ():
            if (item := item_name(value.name, i)) in arrays:
                shapes.setdefault(item, arrays[item].shape)
        if value.name not in arrays:
            continue
        extents = arrays[value.name].shape
        if value.shape is not None and len(extents) == len(value.shape) + 1:
            extents = extents[1:]  # stacked samples
        if value.shape is not None and len(extents) != len(value.shape):
            continue  # an error, which says so when the samples are cut
        if value.name in options.input_formats:
            extents = tuple(extents[a] for a in axes_of(options.input_formats[value.name], len(extents)))
        if value.shape is None or None in value.shape:
            shapes.setdefault(value.name, extents)
        for dim, extent in zip(value.shape or (), extents, strict=False):
            if isinstance(dim, str):
                dims.setdefault(dim, extent)
    return replace(options, dims=dims, input_shapes=shapes)


def samples_of(graph: Graph, given: Any) -> list[Sample]:
    """The inputs of each run. UsageError where they do not fit the network."""
    return _cut(graph.fed, given, "input")


def inputs_of(graph: Graph, given: Any) -> Sample:
    """The inputs of one run by name, text as bytes. UsageError where names are missing or unknown."""
    arrays = named_arrays(given, graph.fed)
    require_names(arrays, [v.name for v in graph.fed])
    return {v.name: _bytes_of(arrays[v.name], v) for v in graph.fed}


def expected_of(graph: Graph, given: Any, samples: int) -> list[Sample]:
    """The outputs that are expected of each run: all, or some of them. UsageError where they do not fit."""
    arrays = named_arrays(given, graph.outputs)
    known = {v.name: v for v in graph.outputs}
    if not arrays:
        raise UsageError("no outputs are expected", hint=f"the model's outputs are {', '.join(known)}")
    strange = [n for n in arrays if n not in known]
    if strange:
        raise UsageError(f"the model has no output {strange[0]!r}", hint=f"its outputs are {', '.join(known)}")
    foreign = [(n, a.dtype) for n, a in arrays.items() if not a.dtype.isnative]
    if foreign:
        name, dtype = foreign[0]
        raise UsageError(f"what is expected of output {name!r} is {dtype}, of another byte order than this machine's",
                         hint=f"convert it: array.astype(np.{dtype.newbyteorder('=')})")  # fmt: skip
    if samples == 1:
        return [{name: _bytes_of(array, known[name]) for name, array in arrays.items()}]
    found = _cut([known[n] for n in arrays], arrays, "output")
    if len(found) != samples:
        raise UsageError(f"{len(found)} samples of outputs are expected of {samples} of inputs")
    return found


def _cut(values: Sequence[Value], given: Any, kind: str) -> list[Sample]:
    arrays = named_arrays(given, values)
    require_names(arrays, [v.name for v in values], kind)
    arrays = {v.name: _bytes_of(arrays[v.name], v) for v in values}
    if all(_fits(arrays[v.name], v) for v in values):
        return [arrays]
    known = [tuple(None if isinstance(e, Dim) else e for e in v.type.shape) for v in values]
    return cut(arrays, [OnnxValue(v.name, v.dtype.name, s) for v, s in zip(values, known, strict=True)], kind)


def _bytes_of(array: Array, value: Value) -> Array:
    """Text as the bytes that a value takes; all else as it is."""
    is_text = array.dtype.kind in "OSU" and value.dtype == U8 and value.type.rank > 0
    return encoded(array, value.type.shape[-1]) if is_text else array


def _fits(array: Array, value: Value) -> bool:
    """Whether an array is just what a value may be."""
    shape = value.type.shape
    if array.ndim != len(shape) or array.dtype != value.dtype.numpy:
        return False
    return all(isinstance(e, Dim) or e == n for e, n in zip(shape, array.shape, strict=True))


def accuracy_of(
    wanted: Sequence[Mapping[str, Array]],
    got: Sequence[Mapping[str, Array]],
    interface: Interface,
    labels: Any = None,
) -> tuple[Accuracy, ...]:
    """Each output over all samples; none whose shape is another in each of them.

    Args:
        wanted, got: the outputs of each sample by name, of the reference, of which more may be known, and of the C.
        interface: what the outputs stand for.
        labels: the right class of each sample, which the first output is to say (`_class_of`).

    Raises:
        UsageError: not a label for each sample, or a first output that says no class.
    """
    right = None if labels is None else _classes(labels)
    if right is not None and len(right) != len(wanted):
        raise UsageError(f"{len(right)} labels are given for {len(wanted)} samples")
    first = next(iter(got[0]))
    if right is not None and first not in wanted[0]:
        raise UsageError(f"labels are of the first output, {first!r}, of which nothing is expected",
                         hint="expect it as well, or leave the labels out")  # fmt: skip
    found = []
    for name in got[0]:
        if name not in wanted[0]:
            continue
        pairs = [[_numbers(run[name], name, interface) for run in both] for both in zip(wanted, got, strict=True)]
        noise, equal = Noise(), []
        for want, have in pairs:
            if have.shape == want.shape:
                noise.add(want, have)
                equal.append(np.array_equal(want, have))
        has_signal = pairs[0][0].dtype.kind == "f" or name in interface.quantised
        agreement = noise.agreement if has_signal or not equal else float(np.mean(equal))
        scores: tuple[float | None, float | None] = (None, None)
        if right is not None and name == first:
            runs = [np.array([_class_of(name, a, interface) for a in one]) for one in zip(*pairs, strict=True)]
            scores = (float(np.mean(runs[1] == right)), float(np.mean(runs[0] == right)))
        if noise.samples or scores[0] is not None:
            sums = noise.samples, noise.relative, noise.largest
            found.append(Accuracy(name, *sums, agreement, *scores, has_signal))
    return tuple(found)


def _numbers(array: Array, name: str, interface: Interface) -> Array:
    return bf16_values(array) if name in interface.halves else array


def _classes(labels: Any) -> Array:
    """Labels in a row. UsageError where they are no whole numbers."""
    found = array_of("labels", labels).reshape(-1)
    whole = found.dtype.kind in "biu" or (found.dtype.kind == "f" and np.array_equal(found, np.rint(found)))
    if found.size and not whole:
        raise UsageError(f"labels are {found.dtype}, and no whole numbers", hint="give the number of each class")
    return found


def _class_of(name: str, output: Array, interface: Interface) -> int:
    """The class that an output says: the place of the largest of its numbers, or the whole number that it is alone,
    where that is no score. UsageError for what is neither."""
    if output.size == 1 and output.dtype.kind in "biu" and name not in interface.quantised:
        return int(output.reshape(-1)[0])
    if sum(e > 1 for e in output.shape) != 1 or name in interface.texts:
        shape = ",".join(map(str, output.shape))
        raise UsageError(f"labels are of the first output, but {name!r} is {output.dtype}[{shape}]: it is neither "
                         "the number of a class nor a score for each")  # fmt: skip
    return int(np.argmax(output))
