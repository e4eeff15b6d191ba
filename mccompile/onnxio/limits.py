"""Bounds on what a model file may ask of us, checked before anything of that size is built."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from mccompile.ir.errors import CompileError
from mccompile.ir.limits import require

MAX_DEPTH = 32

FunctionKey = tuple[str, str, str]


def check_limits(model: onnx.ModelProto, where: str) -> None:
    """Refuse too many nodes (functions counted as if inlined), too deep nesting, recursive functions."""
    functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
    counts: dict[FunctionKey, int] = {}
    pending: list[FunctionKey] = []

    def size(key: FunctionKey) -> int:
        if key in pending:
            raise CompileError(f"model-local function '{key[1]}' calls itself", where=where)
        if len(pending) > MAX_DEPTH:
            raise CompileError(f"model-local functions are nested deeper than {MAX_DEPTH}", where=where)
        if key not in counts:
            pending.append(key)
            counts[key] = total(functions[key].node, 0)
            pending.pop()
        return counts[key]

    def total(nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        if depth > MAX_DEPTH:
            raise CompileError(f"graphs are nested deeper than {MAX_DEPTH}", where=where)
        count = 0
        for node in nodes:
            key = (node.domain, node.op_type, getattr(node, "overload", ""))
            count += size(key) if key in functions else 1
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    count += total(attribute.g.node, depth + 1)
                for graph in attribute.graphs:
                    count += total(graph.node, depth + 1)
        return count

    require("nodes", total(model.graph.node, 0), "the model", where)
