"""Counts where passes ask an operator for its class (part of ``make check``): it may fall, not grow.

A pass that knows classes does not see a new operator. It asks an operator instead for its structure, whether it is
linear, moves or selects elements, what it computes at each place (`mccompile/ir/op.py`). Counted are the classes in
isinstance (asserted ones too) and in comparisons of a type, class patterns of match, and keys of tables. What the
pattern of a rule names, which looks for just that operator, is not counted.

    python tools/count_class_tests.py --list
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MOST = 55
"""Lower it with the count."""


def operator_classes(root: Path = ROOT) -> set[str]:
    """The names of all classes below `Op`."""
    bases: dict[str, set[str]] = {}
    for path in [root / "mccompile/ir/op.py", *sorted((root / "mccompile/ops").rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = set().union(*map(_names, node.bases))
    known = {"Op"}
    while found := {name for name, above in bases.items() if above & known} - known:
        known |= found
    return known - {"Op"}


def class_tests(tree: ast.AST, classes: set[str]) -> Iterator[tuple[int, str]]:
    """Line and text of each place in a module."""
    for node in ast.walk(tree):
        asked: list[ast.expr] = []
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                asked = [kind]
            case ast.MatchClass(cls=kind):
                asked = [kind]
            case ast.Dict(keys=keys):
                asked = [k for k in keys if isinstance(k, ast.Name)]
            case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=others):
                asked = [*others]
        for kind in asked:
            if _names(kind) & classes:
                yield node.lineno if hasattr(node, "lineno") else kind.lineno, ast.unparse(kind)


def _names(node: ast.AST) -> set[str]:
    """The last parts of all names in an expression."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def places(root: Path = ROOT) -> list[str]:
    """Where the passes ask, as ``file:line: classes``."""
    classes, found = operator_classes(root), []
    for path in sorted((root / "mccompile/passes").rglob("*.py")):
        for line, text in class_tests(ast.parse(path.read_text()), classes):
            found.append(f"{path.relative_to(root)}:{line}: {text}")
    return found


def main() -> int:
    found = places()
    if "--list" in sys.argv:
        print("\n".join(found))
    if len(found) > MOST:
        print(f"passes ask {len(found)} times for the class of an operator, {MOST} are allowed: ask for what it does")
        return 1
    print(f"passes ask {len(found)} times for the class of an operator")
    return 0


if __name__ == "__main__":
    sys.exit(main())
