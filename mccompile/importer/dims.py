"""Bind every unknown extent of the graph inputs to a number."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mccompile.ir.dims import identifier, symbol
from mccompile.ir.errors import CompileError, UsageError
from mccompile.onnxio import OnnxValue

BATCH = "batch"
"""What the first axis of all inputs may be called where the file has no name for it."""


@dataclass
class Bindings:
    """What extents are known to be: symbols by name, unnamed ones by (input, axis)."""

    symbols: dict[str, int] = field(default_factory=dict)
    unnamed: dict[tuple[str, int], int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def resolve(self, value: OnnxValue) -> OnnxValue:
        """The value with its known extents put in."""
        if value.shape is None:
            return value
        shape = tuple(
            self.unnamed.get((value.name, axis))
            if dim is None
            else self.symbols.get(dim, dim)
            if isinstance(dim, str)
            else dim
            for axis, dim in enumerate(value.shape)
        )
        return dataclasses.replace(value, shape=shape)


def bind_dims(
    inputs: Sequence[OnnxValue],
    outputs: Sequence[OnnxValue],
    dims: Mapping[str, int | str],
    input_shapes: Mapping[str, Sequence[int]],
) -> tuple[list[OnnxValue], Bindings]:
    """Give every input a concrete shape.

    Args:
        inputs, outputs: of the graph, as the file states them.
        dims: extents of symbols, by name.
        input_shapes: whole shapes, by input name.

    Returns:
        The inputs with concrete shapes, and what was bound.

    Raises:
        UsageError: a name that does not exist, a value that does not fit.
        CompileError: an extent that nothing determines; all of them at once.
    """
    bindings = Bindings()
    inputs = _named_batch(inputs) if BATCH in dims else inputs
    _bind_symbols(inputs, dims, bindings)
    shaped = _bind_shapes(inputs, input_shapes, bindings)
    _bind_batch(shaped, outputs, bindings)
    bound = [bindings.resolve(value) for value in shaped]
    _require_bound(bound)
    return bound, bindings


def _named_batch(inputs: Sequence[OnnxValue]) -> Sequence[OnnxValue]:
    """The inputs with a name for the first axis, if it is the one of all of them that has neither name nor extent."""
    shapes = [value.shape for value in inputs]
    named = {dim for shape in shapes for dim in shape or () if isinstance(dim, str)}
    if BATCH in named or not all(shape and shape[0] is None for shape in shapes):
        return inputs
    return [dataclasses.replace(value, shape=(BATCH, *(value.shape or ())[1:])) for value in inputs]


def _bind_symbols(inputs: Sequence[OnnxValue], dims: Mapping[str, int | str], bindings: Bindings) -> None:
    known = sorted({dim for value in inputs for dim in value.shape or () if isinstance(dim, str)})
    for name, extent in dims.items():
        if name not in known:
            raise UsageError(
                f"no graph input has a dim named '{name}'",
                hint=f"the dims are: {', '.join(known)}"
                if known
                else f"all named dims of the inputs are fixed; first axes without a name are called {BATCH!r}",
            )
        bindings.symbols[name] = _extent(extent, f"dim '{name}'", name)


def _extent(value: object, what: str, name: str = "") -> int:
    """A number, or with a ``name`` to go by a range "1..128" of what is given when the program runs, or "2..128:2" of
    multiples."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    form = r"\s*(\d*)\s*\.\.\s*(\d*)\s*(?::\s*(\d+)\s*)?"
    ends = re.fullmatch(form, value) if isinstance(value, str) else None
    if ends and not name:
        raise UsageError(f"{what}: only a named dim may be a range", hint="give one number")
    if ends and not ends[2]:
        raise UsageError(f"{what}: memory is planned for the largest extent, which {value!r} leaves open",
                         hint=f"say where it ends: --dim {name}={ends[1] or 1}..1024")
    if ends:
        step = int(ends[3] or 1)
        low, high = int(ends[1] or step), int(ends[2])
        if low > high:
            raise UsageError(f"{what}: the range {value!r} is empty")
        if step < 1 or low % step or high % step:
            least, most = (-(-low // step) * step, high // step * step) if step else (low, high)
            raise UsageError(f"{what}: the range {value!r} does not begin and end at multiples of its step",
                             hint=f"say --dim {name}={least}..{most}:{max(step, 1)}")
        return symbol(identifier(name), low, high, step)
    raise UsageError(
        f"{what} has to be a whole number of at least 0, or a range like 1..128 or 32..128:32, not {value!r}"
    )


def _bind_shapes(
    inputs: Sequence[OnnxValue], input_shapes: Mapping[str, Sequence[int]], bindings: Bindings
) -> list[OnnxValue]:
    known = [value.name for value in inputs]
    for name in input_shapes:
        if name not in known:
            raise UsageError(
                f"there is no graph input named '{name}'", hint=f"the inputs are: {', '.join(known)}"
            )
    shaped: list[OnnxValue] = []
    for value in inputs:
        given = input_shapes.get(value.name)
        if given is None:
            shaped.append(value)
            continue
        extents = tuple(_extent(e, f"axis {axis} of input '{value.name}'") for axis, e in enumerate(given))
        if value.shape is None:
            shaped.append(dataclasses.replace(value, shape=extents))
            continue
        if len(extents) != len(value.shape):
            raise UsageError(
                f"input '{value.name}' has {len(value.shape)} axes, the given shape {len(extents)}"
            )
        for axis, extent in enumerate(extents):
            _bind_axis(value, axis, extent, bindings)
        shaped.append(value)
    return shaped


def _bind_axis(value: OnnxValue, axis: int, extent: int, bindings: Bindings) -> None:
    dim = value.shape[axis] if value.shape else None
    if dim is None:
        bindings.unnamed[value.name, axis] = extent
        return
    already = bindings.symbols.setdefault(dim, extent) if isinstance(dim, str) else dim
    if already != extent:
        what = f"'{dim}' = {already}" if isinstance(dim, str) else f"{dim}"
        raise UsageError(f"axis {axis} of input '{value.name}' is {what}, the given shape says {extent}")


def _bind_batch(inputs: Sequence[OnnxValue], outputs: Sequence[OnnxValue], bindings: Bindings) -> None:
    """Bind the batch to 1: free on axis 0 of every input, under one name or none, and nowhere else."""
    shapes = [bindings.resolve(value).shape for value in inputs]
    if not shapes or not all(shape and not isinstance(shape[0], int) for shape in shapes):
        return
    names = {shape[0] for shape in shapes if shape and isinstance(shape[0], str)}
    if len(names) > 1:
        return
    symbols = {dim for shape in shapes for dim in shape or () if isinstance(dim, str)}
    if any(dim in names for shape in shapes for dim in (shape or ())[1:]):
        return
    for output in outputs:
        head, *tail = bindings.resolve(output).shape or (None,)
        fixed = isinstance(head, int) and head != 1
        other_symbol = isinstance(head, str) and head in symbols - names
        if fixed or other_symbol or any(dim in names for dim in tail):
            return
    for value in inputs:
        _bind_axis(value, 0, 1, bindings)
    name = next(iter(names), None)
    label = f"batch '{name}'" if name else BATCH
    option = f"--dim {name or BATCH}=8"
    bindings.notes.append(f"the {label} (axis 0 of every input) is set to 1; for another size, say {option}")


def _require_bound(inputs: Sequence[OnnxValue]) -> None:
    where: dict[str, list[str]] = {}
    unnamed: list[str] = []
    for value in inputs:
        if value.shape is None:
            unnamed.append(f"input '{value.name}' has no shape")
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, str):
                where.setdefault(dim, []).append(f"axis {axis} of input '{value.name}'")
            elif dim is None:
                unnamed.append(f"axis {axis} of input '{value.name}' is unknown")
    if not where and not unnamed:
        return
    parts = [f"'{name}' ({', '.join(places)})" for name, places in where.items()] + unnamed
    options = [f"--dim {name}=N" for name in where]
    shapes = {
        value.name: ",".join(str(d) if isinstance(d, int) else "N" for d in value.shape or ())
        for value in inputs
    }
    for value in inputs:
        if value.shape is None or None in value.shape:
            options.append(f"--input-shape {value.name}={shapes[value.name] or 'N,...'}")
    raise CompileError(
        f"extents of the inputs are not fixed: {'; '.join(parts)}", hint=f"pass {' '.join(options)}"
    )
