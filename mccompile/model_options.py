"""What options for several models say of each one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mccompile.driver import nodes_of, open_model, require_named
from mccompile.importer.bounds import UnknownBoundError
from mccompile.importer.dim_names import BATCH, first_axes, names_of
from mccompile.ir import files as ir_files
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.limits import limited
from mccompile.onnxio import read_model
from mccompile.passes.analysis.weight_forms import EVERY, named
from mccompile.search.options import Options


def options_or_errors(paths: Sequence[Path], options: Options) -> list[Options | CompileError]:
    """As `options_of`, with the error of each model that cannot be read, which may have what no other model has."""
    errors: dict[int, CompileError] = {}
    with limited(options.limits):
        for i, path in enumerate(paths):
            try:
                _open_names(path)
            except CompileError as e:
                errors[i] = e
    others = [path for i, path in enumerate(paths) if i not in errors]
    own = options_of(others, options, alone=not errors)
    return [errors[i] if i in errors else next(own) for i in range(len(paths))]


def options_of(paths: Sequence[Path], options: Options, alone: bool = True) -> Iterator[Options]:
    """The options of each model: those dims, shapes and nodes that it has. UsageError for one that none has, if there
    are no other models (``alone``)."""
    with limited(options.limits):
        known = [_with_given(_open_names(p), options) for p in paths]
    for what, given in _by_name(options):
        strange = [n for n in given if not any(n in names for names in known)]
        if strange and alone:
            raise UsageError(f"no model has {'a' if what == 'dim' else 'an'} {what} {strange[0]!r}")
    own = [
        replace(
            options,
            dims={n: v for n, v in options.dims.items() if n in names},
            input_shapes={n: v for n, v in options.input_shapes.items() if n in names},
            constants={n: v for n, v in options.constants.items() if n in names},
            input_formats={n: v for n, v in options.input_formats.items() if n in names},
            state={n: v for n, v in options.state.items() if n in names},
        )
        for names in known
    ]
    if options.bounds and (len(paths) > 1 or not alone):
        own = list(_with_own_bounds(paths, own, alone))
    yield from _with_own_nodes(paths, own, alone) if {*options.weights, *options.precision} - {EVERY} else own


def _with_own_nodes(paths: Sequence[Path], given: Sequence[Options], alone: bool) -> Iterator[Options]:
    """The options with those of ``--weights`` and ``--precision`` that each model has a node for. UsageError for a
    node that none has, if there are no other models."""
    nodes = [_importable(p, o) for p, o in zip(paths, given, strict=True)]
    if alone and all(of_one is not None for of_one in nodes):
        require_named([n for of_one in nodes for n in of_one or ()], [*given[0].weights, *given[0].precision])
    for of_one, o in zip(nodes, given, strict=True):
        if of_one is None:
            yield o
        else:
            yield replace(o, weights=_own(o.weights, of_one), precision=_own(o.precision, of_one))


def _with_own_bounds(paths: Sequence[Path], given: Sequence[Options], alone: bool) -> Iterator[Options]:
    """The options with those bounds that each model has something for. UsageError for one that none has, if there are
    no other models."""
    kept = [_own_bounds(path, options) for path, options in zip(paths, given, strict=True)]
    strange = [n for n in given[0].bounds if not any(n in names for names in kept)] if given else []
    if strange and alone:
        raise UsageError(f"no model has a loop or an extent {strange[0]!r}, of which a bound is said")
    for options, bounds in zip(given, kept, strict=True):
        yield replace(options, bounds=bounds)


def _own_bounds(path: Path, options: Options) -> dict[str, int]:
    """The bounds of what a model has; of one that cannot be compiled, those that nothing is known against."""
    bounds = dict(options.bounds)
    while bounds:
        try:
            open_model(path, replace(options, bounds=bounds))
        except UnknownBoundError as e:
            del bounds[e.name]
        except CompileError:
            break
        else:
            break
    return bounds


def _importable(path: Path, options: Options) -> list[tuple[tuple[str, ...], str]] | None:
    """The nodes of a model; None for one that cannot be compiled, which its own compilation will say."""
    try:
        return nodes_of(open_model(path, options))
    except UsageError:
        raise
    except CompileError:
        return None


def _own(forms: Mapping[str, str], nodes: Sequence[tuple[tuple[str, ...], str]]) -> dict[str, str]:
    return {p: form for p, form in forms.items() if p == EVERY or any(named(p, *node) for node in nodes)}


def _with_given(names: frozenset[str], options: Options) -> frozenset[str]:
    """The names of a model with those that --input-shape gives to axes of its inputs."""
    shapes = (shape for name, shape in options.input_shapes.items() if name in names)
    return names | {e for shape in shapes for e in shape if isinstance(e, str)}


def _by_name(options: Options) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """What options say of dims and inputs, by their names."""
    inputs: list[Mapping[str, Any]] = [options.input_shapes, options.constants, options.input_formats]
    return (("dim", options.dims), *(("input", given) for given in inputs), ("output", options.state))


def _open_names(path: Path) -> frozenset[str]:
    """The names of a model's inputs and of their symbolic dims, and of its outputs; what first axes may be called."""
    if path.suffix == ir_files.SUFFIX:
        return frozenset()
    graph = read_model(path).graph
    inputs = [v for v in graph.inputs if v.name not in graph.initializers]
    dims = [*names_of(inputs), *([BATCH] if first_axes(inputs) else [])]
    return frozenset([*dims, *(v.name for v in (*graph.inputs, *graph.outputs))])
