"""Bind every unknown extent of the graph inputs to a number."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.importer.dim_names import BATCH, first_axes, is_name, names_of
from mccompile.importer.dim_values import Formula, computed, extent_of, names_in, read
from mccompile.ir.dims import identifier
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.names import free_name
from mccompile.onnxio import OnnxValue

TAKEN = frozenset({"pool"})
"""No words of dims: what sets one in C, `net_set_pool`, sets something else."""


@dataclass
class Bindings:
    """What extents are known to be: symbols by name, unnamed ones by (input, axis); ``words``: what each symbol is
    called when the program runs (`words_of`)."""

    symbols: dict[str, int] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
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
    input_shapes: Mapping[str, Sequence[int | str]],
) -> tuple[list[OnnxValue], Bindings]:
    """Give every input a concrete shape.

    Args:
        inputs, outputs: of the graph, as the file states them.
        dims: extents of symbols, by name (`dim_values`).
        input_shapes: whole shapes, by input name: numbers, names of dims, and what is computed of these.

    Returns:
        The inputs with concrete shapes, and what was bound.

    Raises:
        UsageError: a name that does not exist, a value that does not fit.
        CompileError: an extent that nothing determines; all of them at once.
    """
    shaped, bindings = bind_known(inputs, outputs, dims, input_shapes)
    bound = [bindings.resolve(value) for value in shaped]
    _require_bound(bound)
    return bound, bindings


def bind_known(
    inputs: Sequence[OnnxValue],
    outputs: Sequence[OnnxValue],
    dims: Mapping[str, int | str],
    input_shapes: Mapping[str, Sequence[int | str]],
) -> tuple[list[OnnxValue], Bindings]:
    """As `bind_dims`, but extents that nothing determines stay open; `Bindings.resolve` puts the others in."""
    bindings = Bindings()
    inputs = _named_axes(inputs, input_shapes)
    _bind_symbols(inputs, dims, bindings)
    shaped = _bind_shapes(inputs, input_shapes, bindings)
    _bind_batch(shaped, outputs, bindings)
    _bind_formulas(shaped, bindings)
    return shaped, bindings


def _bind_symbols(inputs: Sequence[OnnxValue], dims: Mapping[str, int | str], bindings: Bindings) -> None:
    """Give the dims that are named in ``dims`` their extents, those that are computed of others behind these."""
    known = names_of(inputs)
    bindings.words = words_of(known)
    formulas: dict[str, Formula] = {}
    for given, value in dims.items():
        name = _meant(given, known)
        said = read(value, f"dim '{name}'", name)
        if isinstance(said, Formula):
            formulas[name] = said
        else:
            bindings.symbols[name] = extent_of(said, bindings.words[name])
    while formulas:
        waiting = {*formulas, *map(identifier, formulas)}
        ready = [n for n, f in formulas.items() if not waiting & set(names_in(f, known))]
        if not ready:
            circle = ", ".join(f"{n}={f.text}" for n, f in formulas.items())
            raise UsageError(f"dims are computed of each other: {circle}",
                             hint="give one of them a number or a range")  # fmt: skip
        for name in ready:
            bindings.symbols[name] = _computed(formulas.pop(name), f"dim '{name}'", bindings, known)


def words_of(names: Sequence[str]) -> dict[str, str]:
    """What dims are called in our text and in C, each by a word of its own.

    >>> words_of(["a b", "a.b", "a_b", "h"])
    {'a_b': 'a_b', 'h': 'h', 'a b': 'a_b_2', 'a.b': 'a_b_3'}
    """
    words = {name: name for name in names if identifier(name) == name and name not in TAKEN}
    for name in names:
        if name not in words:
            words[name] = free_name(identifier(name), {*words.values(), *TAKEN})
    return words


def _meant(given: str, known: Sequence[str]) -> str:
    """The dim that a name means: its own, or what C makes of it. UsageError for none."""
    alike = [name for name in known if identifier(name) == given]
    if given in known or len(alike) == 1:
        return given if given in known else alike[0]
    raise UsageError(
        f"no graph input has a dim named '{given}'",
        hint=f"the dims are: {', '.join(known)}"
        if known
        else f"all named dims of the inputs are fixed; first axes without a name are called {BATCH!r}, and others "
        f"are given one in the shape: --input-shape NAME=2,{given},64",
    )


def _computed(formula: Formula, what: str, bindings: Bindings, known: Sequence[str]) -> int:
    """The extent that a formula gives. UsageError where it is computed of what has none."""
    alike = Counter(map(identifier, bindings.symbols))
    meant = {identifier(name): e for name, e in bindings.symbols.items() if alike[identifier(name)] == 1}
    meant.update(bindings.symbols)
    missing = [name for name in names_in(formula, [*known, *meant]) if name not in meant]
    if missing:
        others = ", ".join(known) or "none"
        raise UsageError(
            f"{what}: '{formula.text}' is no whole number, and nothing says what '{missing[0]}' is",
            hint=f"say --dim {missing[0]}=N or 1..N" if missing[0] in known else f"the dims are: {others}",
        )
    try:
        return computed(formula, meant)
    except ValueError as e:
        raise UsageError(f"{what}: '{formula.text}' is no extent: {e}",
                         hint="a sum like past+1 or 2*n is, or a quotient like (n+3)//4") from e  # fmt: skip


def _bind_formulas(inputs: Sequence[OnnxValue], bindings: Bindings) -> None:
    """Compute the dims whose names say of which others: ``past + 1``, as exporters write them."""
    known = names_of(inputs)
    for name in known:
        formula = Formula(name)
        of = names_in(formula, [n for n in known if n != name])
        if name in bindings.symbols or of == [name] or not all(n in bindings.symbols for n in of):
            continue
        try:
            bindings.symbols[name] = computed(formula, bindings.symbols)
        except ValueError:
            continue  # a name that only looks like a formula: it is asked for
        bindings.notes.append(f"the dim '{name}' is what its name says; for another, say --dim '{name}=N'")


def _bind_shapes(
    inputs: Sequence[OnnxValue], input_shapes: Mapping[str, Sequence[int | str]], bindings: Bindings
) -> list[OnnxValue]:
    known = [value.name for value in inputs]
    dims = names_of(inputs)
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
        if value.shape is not None and len(given) != len(value.shape):
            raise UsageError(f"input '{value.name}' has {len(value.shape)} axes, the given shape {len(given)}")
        places = (f"axis {axis} of input '{value.name}'" for axis in range(len(given)))
        extents = tuple(_extent(e, at, bindings, dims) for e, at in zip(given, places, strict=True))
        if value.shape is None:
            shaped.append(dataclasses.replace(value, shape=extents))
            continue
        for axis, extent in enumerate(extents):
            _bind_axis(value, axis, extent, bindings)
        shaped.append(value)
    return shaped


def _extent(value: object, what: str, bindings: Bindings, known: Sequence[str]) -> int:
    """An extent of a shape: a number, or what is computed of dims."""
    said = read(value, what)
    if isinstance(said, Formula):
        return _computed(said, what, bindings, known)
    assert isinstance(said, int)
    return said


def _named_axes(inputs: Sequence[OnnxValue], shapes: Mapping[str, Sequence[int | str]]) -> list[OnnxValue]:
    """The inputs with the names that shapes give to axes which have none: 2,batch,128. UsageError where a new one is
    given to an axis that has an extent."""
    named, known = list[OnnxValue](), names_of(inputs)
    for value in inputs:
        given = shapes.get(value.name)
        shape = value.shape
        if given is not None and shape is None:
            shape = (None,) * len(given)
        if given is not None and shape is not None and len(given) == len(shape):
            names = [str(e) if is_name(e) else None for e in given]
            for axis, (dim, name) in enumerate(zip(shape, names, strict=True)):
                if isinstance(dim, int) and name is not None and name not in known:
                    raise UsageError(f"axis {axis} of input '{value.name}' is {dim} in the model, not '{name}'",
                                     hint="give the whole number, or export the model with dynamic axes")  # fmt: skip
            shape = tuple(name if dim is None else dim for dim, name in zip(shape, names, strict=True))
            if value.shape is not None or any(names):
                value = dataclasses.replace(value, shape=shape)
        named.append(value)
    return named


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
    """Bind the batch to 1: free on axis 0 of every input, under one name, none or made-up ones, and nowhere else."""
    shapes = [bindings.resolve(value).shape for value in inputs]
    if not shapes or not all(shape and not isinstance(shape[0], int) for shape in shapes):
        return
    names = {shape[0] for shape in shapes if shape and isinstance(shape[0], str)}
    if len(names) > 1 and not first_axes([bindings.resolve(value) for value in inputs]):
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
    name = next(iter(names)) if len(names) == 1 else None
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
    ranges = "; N is a number, or a range (1..64) of which a run takes any" if where else ""
    raise CompileError(
        f"extents of the inputs are not fixed: {'; '.join(parts)}", hint=f"pass {' '.join(options)}{ranges}",
        code="open-extents",
    )  # fmt: skip
