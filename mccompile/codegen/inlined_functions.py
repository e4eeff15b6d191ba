"""Functions beside kernels, and kernels without such, that differ in numbers alone, as one text that each of them has
inlined with its numbers: the C is shorter, the machine code is what it was.

Worked example: of two kernels that have

    static MCC_NOINLINE void KERNEL_NAME_tile(float *y0, int32_t i)
    { y0[i * 8] = 1; }

and one with ``y0[i * 16]`` there is one text, of which the first kernel's is left as

    MCC_INLINE void SHARED_0_tile_any(float *y0, int32_t i, int32_t n0)
    { y0[i * n0] = 1; }

    static MCC_NOINLINE void KERNEL_NAME_tile(float *y0, int32_t i)
    { SHARED_0_tile_any(y0, i, 8); }

The text has no ``MCC_RESTRICT``: compilers know of pointers what the functions say that it is inlined in. Of tiles of
6 and of 4 rows it has an array of 6: in a tile of 4 nothing touches the others, and they are in no register.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mccompile.codegen.binding import KERNEL_NAME
from mccompile.codegen.common_extents import numbered_extents
from mccompile.codegen.printed import WRITES
from mccompile.codegen.shared_functions import (
    Function,
    Shared,
    called_functions,
    functions_beside,
    own_name,
    whole_kernels,
    with_changes,
)
from mccompile.codegen.shared_numbers import SHARED_NAME, Form, Number, closing, form_of, joined

LEAST = 700
"""Letters that are worth a call with numbers."""
_ANY = f"{KERNEL_NAME}_any"
_PARAMETERS = re.compile(rf"MCC_INLINE void {KERNEL_NAME}_[^{{]*")
_CALLED = re.compile(r"static (?:MCC_NOINLINE |MCC_ONCE )?(void|mcc_status) ")


def without_restrict(kernel: str) -> str:
    """The text of a kernel whose inlined functions do not say again what those do that they are inlined in.

    >>> without_restrict("MCC_INLINE void KERNEL_NAME_tile(float *MCC_RESTRICT y0)\\n{\\n}")
    'MCC_INLINE void KERNEL_NAME_tile(float *y0)\\n{\\n}'
    """
    return _PARAMETERS.sub(lambda m: m[0].replace("MCC_RESTRICT ", ""), kernel)


def with_one_text(shared: Shared) -> Shared:
    """The same with one text for what differs in numbers, in names of extents, or in ``MCC_RESTRICT``."""
    kinds: dict[tuple[str, ...], list[tuple[Function, Form]]] = {}
    kernels = list(shared.texts.values())
    shared_ones = list(called_functions(shared.functions))
    for function in [*shared_ones, *functions_beside(kernels), *whole_kernels(kernels)]:
        text = function.text.replace("MCC_RESTRICT ", "").replace(f"{function.name}(", f"{_ANY}(")
        (text,) = numbered_extents(text[: text.index("{")], text)
        form = form_of(text, floats=True, rows=True)
        kinds.setdefault(form.kind, []).append((function, form))
    made, changes = dict(shared.functions), dict[str, list[tuple[int, int, str]]]()
    for same in kinds.values():
        one, first = joined([form for _, form in same], inlined=True), same[0][0]
        if (len(same) - 1) * len(one.text) < LEAST:
            continue
        name = f"{SHARED_NAME}{len(made)}{own_name(first.name, '').removeprefix(KERNEL_NAME)}_any"
        made[name] = _CALLED.sub(r"MCC_INLINE \1 ", one.text).replace(f"{_ANY}(", f"{name}(")
        for (function, _), values in zip(same, one.values, strict=True):
            change = (function.start, function.end, _caller(function, name, values))
            changes.setdefault(function.kernel, []).append(change)
    made |= {f.name: with_changes(f.kernel, changes.get(f.kernel, [])) for f in shared_ones}
    texts = {before: with_changes(text, changes.get(text, [])) for before, text in shared.texts.items()}
    return replace(shared, texts=texts, functions=made)


def _caller(function: Function, name: str, values: Sequence[Number]) -> str:
    """A function that does what it did by one that is inlined."""
    text = function.text
    begin = text.index(f"{function.name}(") + len(function.name) + 1
    end = closing(text, begin)
    body = text.index("{\n", end) + 2
    answer = "return " if "mcc_status" in text[:begin] else ""
    given = [*(p.split()[-1].lstrip("*") for p in text[begin:end].split(",")), *map(str, values)]
    return f"{text[text.index('MCC_PLACE_CODE'):body]}    {WRITES}\n    {answer}{name}({', '.join(given)});\n}}"
