"""Kernels that differ in nothing but the names of their extents are one.

Two steps whose operands are as long as what was found before them, each by a count of its own, are rendered as

    static void KERNEL_NAME(float *y0, int32_t dim_found)       static void KERNEL_NAME(float *y0, int32_t dim_other)
    { for (int32_t i = 0; i < dim_found; ++i) y0[i] = 1; }      { for (int32_t i = 0; i < dim_other; ++i) y0[i] = 1; }

Both call one function, whose extents have numbers for names:

    static void KERNEL_NAME(float *y0, int32_t dim_0)
    { for (int32_t i = 0; i < dim_0; ++i) y0[i] = 1; }

A kernel all of whose steps have the same extents keeps their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from mccompile.codegen.code import extent_name
from mccompile.codegen.printed import Rendered

_EXTENT = re.compile(rf"\bint32_t ({extent_name('')}\w+)")


def common_kernels(made: Iterable[Rendered]) -> Mapping[str, Rendered]:
    """By the texts of kernels that others are equal to but for the names of extents: the one that stands for all."""
    alike: dict[str, dict[str, Rendered]] = {}
    for one in {m.text: m for m in made}.values():
        numbered = with_numbered_extents(one)
        if numbered is not None:
            alike.setdefault(numbered.text, {})[one.text] = numbered
    return {text: one for kernels in alike.values() if len(kernels) > 1 for text, one in kernels.items()}


def with_numbered_extents(made: Rendered) -> Rendered | None:
    """A kernel with numbers for the names of its extents, in the order of its parameters; None if it has none."""
    params, text = numbered_extents(made.head.params, made.head.params, made.text)
    return None if text == made.text else replace(made, head=replace(made.head, params=params), text=text)


def numbered_extents(params: str, *texts: str) -> tuple[str, ...]:
    """Texts with numbers for the names of the extents that ``params`` declare, in their order; as they are where
    there are none, or some have numbers.

    >>> numbered_extents("float *y0, int32_t dim_found", "y0[dim_found - 1]")
    ('y0[dim_0 - 1]',)
    """
    names = {name: extent_name(str(i)) for i, name in enumerate(_EXTENT.findall(params))}
    if not names or not names.keys().isdisjoint(names.values()):
        return texts
    word = re.compile(rf"\b(?:{'|'.join(names)})\b")
    return tuple(word.sub(lambda m: names[m[0]], t) for t in texts)
