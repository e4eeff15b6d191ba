"""Where the linker puts functions: ``MCC_PLACE_CODE`` in front of each that a generated file defines.

    static void k0_conv(const float *x0,              MCC_PLACE_CODE
        float *y0)                          becomes   static void k0_conv(const float *x0,
    {                                                     float *y0)
                                                      {

The macro stands on a line of its own, as the pragma that it is for some compilers has to.
"""

from __future__ import annotations

import re

_DEFINITION = re.compile(r"^(?=(?:static|MCC_INLINE|void|mcc_status)\b[^;{}=]*\)\s*\{)", re.MULTILINE)
"""The beginning of a function's definition at file scope: no declaration, no object."""


def placed_code(text: str) -> str:
    """C at file scope, tidy as `indent_c` leaves it, with the macro in front of each function that it defines.

    >>> print(placed_code("static const int a[] = { 1 };\\nvoid f(int);\\nvoid f(int x)\\n{\\n}"))
    static const int a[] = { 1 };
    void f(int);
    MCC_PLACE_CODE
    void f(int x)
    {
    }
    """
    return _DEFINITION.sub("MCC_PLACE_CODE\n", text)
