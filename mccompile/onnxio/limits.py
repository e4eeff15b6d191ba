"""Bounds on what a model file may ask of us, checked before anything of that size is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from mccompile.ir.errors import CompileError
from mccompile.ir.limits import require

MAX_DEPTH = 32

FunctionKey = tuple[str, str, str]


def check_limits(model: onnx.ModelProto, where: str) -> None:
    """Refuse too many nodes (functions counted as if inlined), too deep nesting, recursive functions."""
    functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
    require("nodes", _Sizes(functions, where).total(model.graph.node, 0), "the model", where)


class _Sizes:
    """How many nodes there are, with those of functions and of graphs inside."""

    def __init__(self, functions: Mapping[FunctionKey, onnx.FunctionProto], where: str) -> None:
        self._functions = functions
        self._where = where
        self._counts: dict[FunctionKey, int] = {}
        self._pending: list[FunctionKey] = []

    def total(self, nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        if depth > MAX_DEPTH:
            raise CompileError(f"graphs are nested deeper than {MAX_DEPTH}", where=self._where)
        count = 0
        for node in nodes:
            key = (node.domain, node.op_type, getattr(node, "overload", ""))
            count += self._of_function(key) if key in self._functions else 1
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    count += self.total(attribute.g.node, depth + 1)
                for graph in attribute.graphs:
                    count += self.total(graph.node, depth + 1)
        return count

    def _of_function(self, key: FunctionKey) -> int:
        if key in self._pending:
            raise CompileError(f"model-local function '{key[1]}' calls itself", where=self._where)
        if len(self._pending) > MAX_DEPTH:
            raise CompileError(f"model-local functions are nested deeper than {MAX_DEPTH}", where=self._where)
        if key not in self._counts:
            self._pending.append(key)
            self._counts[key] = self.total(self._functions[key].node, 0)
            self._pending.pop()
        return self._counts[key]
