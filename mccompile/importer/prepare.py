"""Bring a model into the form that the importer walks: in order, closed, inputs concrete, newest forms."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.importer.arguments import declared_shapes
from mccompile.importer.canonical import canonicalize
from mccompile.importer.dim_names import rename_dims
from mccompile.importer.dims import bind_dims
from mccompile.importer.draws import Draws
from mccompile.importer.fixed import Fixed, fix_inputs
from mccompile.importer.interface import spread_inputs
from mccompile.importer.labels import Legend, as_tensors
from mccompile.importer.scopes import (
    lift_constants,
    name_nodes,
    remove_dead,
    sort_graph,
    unique_inner_values,
)
from mccompile.ir.errors import CompileError
from mccompile.onnxio import OnnxGraph, OnnxModel, OnnxValue, dtype_bits, infer_types, value_names
from mccompile.ops.held import HELD_IN
from mccompile.ops.stated import Shape

_NOT_ACCEPTED = ("sequence", "optional", "map", "sparse", "opaque", "c64", "c128")


@dataclass(frozen=True)
class Prepared:
    """A model ready for conversion.

    Attributes:
        model: every node in its newest form, named, in topological order, live; constants are initializers;
            value names are unique over all nested graphs; `value_info` is what ONNX inferred from the
            concrete inputs.
        inputs: the graph inputs that are no constants, in order, with concrete shapes.
        notes: what was decided for the user, one sentence each.
        dims: the value of each symbol that was bound.
        words: what each dim of the inputs is called when the program runs.
        declared: the shapes that the file states for results, which may be wrong.
        legends: what columns or numbers of outputs mean, by name.
        draws: what becomes of random numbers; the conversion adds the inputs that it makes for them.
        names: every name of a value, in the file too.
        source: the graph of the file, named, before anything was found to be constant or of no use.
    """

    model: OnnxModel
    inputs: list[OnnxValue]
    notes: list[str]
    dims: dict[str, int]
    words: Mapping[str, str] = field(default_factory=dict)
    declared: dict[str, Shape] = field(default_factory=dict)
    legends: dict[str, Legend] = field(default_factory=dict)
    draws: Draws = field(default_factory=Draws)
    names: Collection[str] = ()
    source: OnnxGraph | None = None


def prepare(
    model: OnnxModel,
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    constants: Mapping[str, Fixed] | None = None,
) -> Prepared:
    """Order, close, bind and canonicalize a model.

    Args:
        model: as read.
        dims: extents of symbolic dims, by name.
        input_shapes: whole shapes, by input name.
        constants: values of inputs that are to be constants, by input name.

    Raises:
        UsageError: names or values in `dims`, `input_shapes` or `constants` that do not fit the model.
        CompileError: what makes the model unusable: cycles, undefined values, unbound extents, inputs that are no
            tensors, ... Outputs that are none are left to the conversion, which reports their nodes as well.
    """
    graph, repeated = _with_outputs_once(model.graph)
    fixed, known_dims = fix_inputs(graph, constants or {})
    absent = [name for name, value in (constants or {}).items() if value is None]
    graph = name_nodes(lift_constants(fixed))
    # Before IR version 4 every initializer had to be listed as an input, too.
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    graph = spread_inputs(dataclasses.replace(graph, inputs=inputs), input_shapes or {})
    _require_tensors(graph.inputs)
    graph, legends = as_tensors(sort_graph(unique_inner_values(graph, absent)))
    graph = rename_dims(graph, dims or {}, input_shapes or {})
    source = graph
    symbols = {d for v in graph.inputs for d in v.shape or () if isinstance(d, str)}
    known_dims = {name: extent for name, extent in known_dims.items() if name in symbols}
    bound, bindings = bind_dims(graph.inputs, graph.outputs, {**known_dims, **(dims or {})}, input_shapes or {})
    outputs = [bindings.resolve(value) for value in graph.outputs]
    graph = remove_dead(dataclasses.replace(graph, inputs=bound, outputs=outputs))
    stated = {name: bindings.resolve(v) for name, v in graph.value_info.items()}
    declared = declared_shapes(dataclasses.replace(graph, value_info=stated))
    typed = infer_types(dataclasses.replace(model, graph=graph))
    inferred = typed.graph.value_info
    outputs = [v if v.dtype in _NOT_ACCEPTED else inferred.get(v.name, v) for v in typed.graph.outputs]
    done = canonicalize(dataclasses.replace(typed, graph=dataclasses.replace(typed.graph, outputs=outputs)))
    done = dataclasses.replace(done, graph=remove_dead(done.graph))
    named = [legend.note(name) for name, legend in legends.items()]
    notes = [*bindings.notes, *repeated, *named, *_packed("input", bound), *_packed("output", outputs)]
    names = value_names(model.graph) | value_names(done.graph)
    return Prepared(
        done, bound, notes, dict(bindings.symbols), bindings.words, declared, legends, names=names, source=source
    )  # fmt: skip


def _with_outputs_once(graph: OnnxGraph) -> tuple[OnnxGraph, list[str]]:
    """The graph with each output once, and a note for those that are listed again: they have no name of their own."""
    counts = Counter(v.name for v in graph.outputs)
    again = [f"output {name!r} is listed {n} times, and is one output" for name, n in counts.items() if n > 1]
    if not again:
        return graph, []
    first = {v.name: v for v in reversed(graph.outputs)}
    return dataclasses.replace(graph, outputs=[first[name] for name in counts]), again


def _packed(kind: str, values: Sequence[OnnxValue]) -> list[str]:
    """A sentence for each input or output of a type that C has not."""
    said = {
        0: "is bytes (u8): UTF-8 in a last axis of its own, zeros behind the last",
        16: "is u16, the bits of each element",
        8: "is u8, the bits of each element",
    }
    packed = "is bytes (u8), as ONNX packs it: the first element in the low bits"
    return [
        f"{kind} {v.name!r} of {v.dtype} {said.get(dtype_bits(v.dtype), packed)}"
        for v in values
        if v.dtype in HELD_IN
    ]


def _require_tensors(inputs: Sequence[OnnxValue]) -> None:
    wrong = not_tensors("input", inputs)
    if wrong:
        raise CompileError("; ".join(wrong), hint="export the model without them")
    untyped = [value.name for value in inputs if value.dtype == "unknown"]
    if untyped:
        raise CompileError(f"graph inputs without an element type: {', '.join(untyped)}")


def not_tensors(kind: str, values: Sequence[OnnxValue]) -> list[str]:
    """A sentence for each value that is no tensor of numbers; ``kind`` is "input" or "output"."""
    return [
        f"{kind} {value.name!r} is of type {value.dtype}, not a tensor of numbers"
        for value in values
        if value.dtype in _NOT_ACCEPTED
    ]
