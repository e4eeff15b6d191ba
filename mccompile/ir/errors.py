"""The errors a user can meet: each says where, which rule was broken, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mccompile._dataclass import dataclass

CODES = {
    "cannot-compile": "the model, or what is around it, is not as it has to be; `rule` says how",
    "no-onnx": "the file is no ONNX model, or is damaged",
    "unsupported-operator": "there is no kernel for operators of the model: `nodes` are theirs",
    "refused-node": "an operator is supported, but not as `nodes` use it",
    "open-extents": "shapes are not known: `hint` says which options bind them",
    "does-not-fit": "it takes more memory than the device has",
    "no-compiler": "there is no C compiler, emulator or other tool for the target",
    "unsafe-cache": "others can replace what is in the cache's folder",
    "compiler-failed": "the C compiler, or the program that it made, failed",
    "usage": "the command or call itself is wrong",
    "no-file": "a file is missing or cannot be read",
    "out-of-memory": "there is not enough memory to compile the model",
    "internal": "a bug of mccompile",
}
"""What `CompileError.code` may be: it stays the same from version to version, where texts do not."""


@dataclass(frozen=True)
class Culprit:
    """A node of the file that an error is about; ``index`` is its place in its graph."""

    index: int
    name: str
    op: str

    def to_json(self) -> dict[str, Any]:
        return {"index": self.index, "name": self.name, "operator": self.op}


class CompileError(Exception):
    """The model cannot be compiled. Exit code 1.

    Args:
        rule: what is required or unsupported, in the field's terms.
        where: file, node index and name, operator, shapes; empty if the whole model is meant.
        hint: what the user can do about it; empty if nothing is known.
        code: what programs go by, one of `CODES`; by default it follows from the class and the nodes.
        nodes: those of the file that are concerned, where it is about nodes.
    """

    exit_code = 1
    usual_code = "cannot-compile"

    def __init__(
        self, rule: str, *, where: str = "", hint: str = "", code: str = "", nodes: Sequence[Culprit] = ()
    ) -> None:
        super().__init__(rule)
        assert not code or code in CODES, code
        self.rule = rule
        self.where = where
        self.hint = hint
        self.nodes = tuple(nodes)
        self._code = code

    @property
    def code(self) -> str:
        """What programs go by: one of `CODES`."""
        return self._code or ("refused-node" if self.nodes else self.usual_code)

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.rule}" if self.where else self.rule]
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; ``operators`` counts the nodes by operator."""
        operators: dict[str, int] = {}
        for node in self.nodes:
            operators[node.op] = operators.get(node.op, 0) + 1
        return {
            "code": self.code,
            "exit_code": self.exit_code,
            "where": self.where,
            "rule": self.rule,
            "hint": self.hint,
            "nodes": [node.to_json() for node in self.nodes],
            "operators": operators,
        }


class UsageError(CompileError):
    """The command or call itself is wrong (an unknown option value, a missing file). Exit code 2."""

    exit_code = 2
    usual_code = "usage"


class InternalError(Exception):
    """An invariant of the compiler does not hold: always our bug, never the user's."""
