"""Extents read from text, and what the head of a text says of the symbols in it.

>>> known = parse_declaration("n=1..128, k=2..8:2")
>>> parse("12*n+(k//2)", known)
(k//2)+12*n
>>> declaration([parse("n+k", known)])
' extents(k=2..8:2, n=1..128)'
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping

from mccompile.ir.dims import chosen, counter, maximum, minimum, symbol, symbols, text

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def parse(written: str, known: Mapping[str, int]) -> int:
    """The inverse of `text`. ``known`` are the symbols, as extents. Raises ValueError for what is no extent."""
    try:
        return _parsed(ast.parse(written.replace(";", ","), mode="eval").body, known)
    except SyntaxError as e:
        raise ValueError(f"{written!r} is no extent") from e


def _parsed(tree: ast.expr, known: Mapping[str, int]) -> int:
    match tree:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_parsed(inner, known)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_parsed(left, known), _parsed(right, known))
        case ast.Call(func=ast.Name(id="least" | "most" as name), args=[left, right]):
            pick = minimum if name == "least" else maximum
            return pick(_parsed(left, known), _parsed(right, known))
    raise ValueError(f"{ast.unparse(tree)} is no extent")


def declaration(numbers: Iterable[int]) -> str:
    """What the head of a text says of the symbols in numbers, `` extents(n=2..128:2, k=0..20)``; "" without any. Of a
    counter it says what it is less than, ``i=0..127<n``."""
    used = dict.fromkeys(symbols(*numbers))
    for s in list(used):
        used |= dict.fromkeys(symbols(*s.under))
    found = ", ".join("<".join([f"{s.name}={s}", *map(text, s.under)]) for s in sorted(used))
    return f" extents({found})" if found else ""


def parse_declaration(source: str) -> dict[str, int]:
    """The extents by name from what stands in the parentheses of a `declaration`. Raises ValueError."""
    found: dict[str, int] = {}
    for part in sorted(source.split(","), key=lambda part: "<" in part):
        counting = re.fullmatch(r"\s*([A-Za-z]\w*)=0\.\.\d+<(.+)", part)
        if counting and counting[1] not in found:
            found[counting[1]] = counter(counting[1], parse(counting[2].strip(), found))
            continue
        several = re.fullmatch(r"\s*([A-Za-z]\w*)=(\d+(?:\|\d+)+)\s*", part)
        if several and several[1] not in found:
            found[several[1]] = chosen(several[1], tuple(sorted({int(n) for n in several[2].split("|")})))
            continue
        written = re.fullmatch(r"\s*([A-Za-z]\w*)=(\d+)\.\.(\d+)(?::([1-9]\d*))?\s*", part)
        low, high, step = (int(n or 1) for n in written.groups()[1:]) if written else (0, 0, 1)
        if not written or low >= high or low % step or high % step or written[1] in found:
            raise ValueError(f"{part.strip()!r} declares no extent")
        found[written[1]] = symbol(written[1], low, high, step)
    return found
