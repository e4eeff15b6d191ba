"""Finds functions in functions that call themselves, by way of others, too (part of ``make check``).

    def depth(expr):
        def walk(e):                                   # holds itself, in a cell of its own
            return 1 + max(map(walk, e.args), default=0)
        return walk(expr)

Each call leaves such a function behind, and all that it holds, until Python searches for garbage: of networks of
10,000 nodes that took a fifth of the time. A function of the module, a method, or `ir.expr.OfParts` leaves nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def closures(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each."""
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef):
            inner = {n.name: n for n in ast.walk(outer) if isinstance(n, ast.FunctionDef) and n is not outer}
            names = {name: _names(node) & set(inner) for name, node in inner.items()}
            for name in inner:
                if name in _reached(name, names):
                    yield inner[name].lineno, name


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _reached(name: str, names: dict[str, set[str]]) -> set[str]:
    """Those that a function names, and that these name in turn."""
    found = set[str]()
    pending = [*names[name]]
    while pending:
        other = pending.pop()
        if other not in found:
            found.add(other)
            pending += names[other]
    return found


def main() -> None:
    """Says where they are, and ends with 1 if there is one."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name} calls itself: it is garbage that only a search finds"
        for path in sorted((ROOT / "mccompile").rglob("*.py"))
        for line, name in sorted(set(closures(ast.parse(path.read_text()))))
    ]
    print("\n".join(found or ["closures: none calls itself"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
