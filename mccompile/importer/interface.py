"""Graph inputs that are sequences or optional: one input for each tensor, as the stated shapes say.

    x, a sequence; shapes x_0 = [2,3], x_1 = [4]    is    inputs x_0 and x_1;  x = SequenceConstruct(x_0, x_1)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence

from mccompile.ir.errors import CompileError
from mccompile.onnxio import OnnxGraph, OnnxNode, OnnxValue


def spread_inputs(graph: OnnxGraph, shapes: Mapping[str, Sequence[int | str]]) -> OnnxGraph:
    """The graph with tensors as inputs, where ``shapes`` (by input name) say which there are.

    CompileError for sequences and optional inputs of which nothing is stated.
    """
    taken = {value.name for value in graph.inputs}
    inputs: list[OnnxValue] = []
    nodes: list[OnnxNode] = []
    for value in graph.inputs:
        if value.dtype not in ("sequence", "optional") or not value.of:
            inputs.append(value)
            continue
        items = _items(value, shapes, taken)
        if items:
            names = tuple(item.name for item in items)
            nodes.append(OnnxNode("SequenceConstruct", names, (value.name,), name=f"{value.name}/items"))
            inputs += items
        elif value.dtype == "optional" and value.name in shapes:
            inputs.append(OnnxValue(value.name, value.of))
        else:
            raise _unknown(value, taken)
    return dataclasses.replace(graph, inputs=inputs, nodes=[*nodes, *graph.nodes])


def _unknown(value: OnnxValue, taken: Container[str]) -> CompileError:
    """What to say of an input of which nothing is stated, where inputs have these names."""
    first = f"{value.name}_0"
    ways = [f"--input-shape {first}=N,... for each tensor of a sequence"]
    if first in taken and (value.dtype == "sequence" or value.of.startswith("sequence ")):
        rule = f"the first tensor of input {value.name!r} would be called {first!r}, as another input is"
        return CompileError(rule, hint="give one of them another name")
    if value.dtype == "optional":
        ways.append(f"--input-shape {value.name}=N,... for one tensor")
        ways.append(f"--constant {value.name}=none where it is absent")
    return CompileError(
        f"input {value.name!r} is of type {value.dtype}: its tensors and their shapes are not known",
        hint=f"pass {', or '.join(ways)}",
    )


def _items(value: OnnxValue, shapes: Mapping[str, Sequence[int | str]], taken: Container[str]) -> list[OnnxValue]:
    """The tensors of a sequence that shapes are stated for, from the first on; inputs have the names ``taken``."""
    items: list[OnnxValue] = []
    while (name := f"{value.name}_{len(items)}") in shapes and name not in taken:
        items.append(OnnxValue(name, value.of.removeprefix("sequence ")))
    return items
