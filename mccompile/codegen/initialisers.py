"""NaN and infinities as elements of constant arrays.

    static const float mcc_table_0a1b2c3d[4] = { 1.0f, INFINITY, (float)-1e39, NAN };

``-INFINITY`` is a constant to the standard and not to tcc, which folds no operation on what is infinite already; a
conversion that overflows it does. (MSVC folds no quotient by 0.)
"""

from __future__ import annotations

import math


def special(value: float, double: bool) -> str:
    """The C of what is no finite number, an element of floats or of doubles."""
    if math.isnan(value):
        name = "NAN"
    else:
        name = "INFINITY" if value > 0 else "(float)-1e39"
    return f"(double){name}" if double else name
