"""C identifiers for ONNX names: unique, no keywords, stable."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = set(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "alignas alignof and and_eq asm bitand bitor bool catch class compl constexpr const_cast decltype delete "
    "dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq "
    "private protected public reinterpret_cast static_assert static_cast template this thread_local throw true try "
    "typeid typename using virtual wchar_t xor xor_eq linux unix main bytes align_".split()
)


def identifier(name: str) -> str:
    """``name`` with every other character as ``_``; keywords and leading digits get a ``_`` around."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    text = re.sub(r"__+", "_", text).strip("_") or "t"
    if text[0].isdigit():
        text = "t" + text
    return text + "_" if text in _KEYWORDS else text


def unique_identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """An identifier for each name, duplicates numbered in order. C compares all characters, linkers may not."""
    used = set(taken)
    table: dict[str, str] = {}
    for name in names:
        base = identifier(name)
        text, n = base, 1
        while text in used:
            n += 1
            text = f"{base}_{n}"
        used.add(text)
        table[name] = text
    return table


def comment(text: str) -> str:
    """``text`` so that it cannot end or nest a C comment, nor continue a line."""
    safe = text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/").replace("??", "? ?")
    return "".join(c if c.isprintable() else "?" for c in safe)
