"""The outputs of a graph: values of their own, one for each tensor of a sequence.

    y = x, which is an input; s = [a, b]     is      y, a copy of x; s_0 and s_1
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from mccompile.importer.sequences import Known, Rows
from mccompile.ir import expr as ex
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.onnxio import OnnxNode
from mccompile.ops.empty import Empty
from mccompile.ops.map import Map


def ports(values: Mapping[str, Known], names: Sequence[str]) -> Iterator[tuple[str, Value]]:
    """The tensors of each output with their names: of a sequence y these are y_0, y_1 and so on."""
    for name in names:
        value = values[name]
        if isinstance(value, Value):
            yield name, value
        elif isinstance(value, Rows):
            raise CompileError(f"{name!r} is a sequence whose length the run says", hint="join it to one tensor")
        else:
            yield from ((f"{name}_{i}", item) for i, item in enumerate(value))


def keep_names(graph: Graph, nodes: Sequence[OnnxNode], values: Mapping[str, Known]) -> None:
    """Let the name of a result of the model's ``nodes`` be that of its value, or of none: who compares values with
    those of the model, as ``check --per-layer`` does, knows them by their names.

        y = ReduceLogSumExp(x); y.max = w     is      y, for which y.max.2 is computed; y.max
    """
    makers = {o: node.name for node in nodes for o in node.outputs if o}
    for each in (graph, *graph.all_regions()):
        for node in each.nodes:
            for result in node.results:
                maker, own = makers.get(result.name), values.get(result.name)
                if maker is None or own is result or not node.origins or _is_part(node.origins, maker):
                    continue
                name, result.name = result.name, each.value(result.name, result.type).name
                if each is graph and isinstance(own, Value) and _is_numbered(own.name, name, makers):
                    own.name = name


def _is_part(origins: Sequence[str], maker: str) -> bool:
    """Whether what has these origins is of a node, or of what that was expanded to."""
    return any(o == maker or o.startswith((f"{maker}.", f"{maker}/")) for o in origins)


def _is_numbered(found: str, name: str, makers: Container[str]) -> bool:
    """Whether a value has the name with a number, for it was taken."""
    return found not in makers and found.startswith(f"{name}.") and found.removeprefix(f"{name}.").isdigit()


def bind_outputs(graph: Graph, values: Mapping[str, Known], names: Sequence[str]) -> None:
    """Give each output a value of its own, named as the output: inputs, constants and twins are copied."""
    produced = {r for n in graph.nodes for r in n.results}
    for name, value in ports(values, names):
        if value in graph.inputs and value.name == name:
            raise CompileError(
                f"output {name!r} is the input of that name",
                hint="leave it out, or give it a name of its own by an Identity node",
            )
        if value.type.count == 0:
            (value,) = graph.emit(Empty(value.dtype.name, value.shape), [], [name], origins=(name,))
        elif value not in produced or value in graph.outputs:
            storage = "f16" if value.dtype.name == "f16" else ""
            (value,) = graph.emit(Map(ex.var(0, value.dtype), storage), [value], [name], origins=(name,))
        graph.outputs.append(value)
        graph.rename(value, name)
