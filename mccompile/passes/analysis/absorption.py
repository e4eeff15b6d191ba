"""Numbers that float arithmetic rounds away: where sums may not be made in another order.

Worked example: 12582912 is 1.5 * 2^23, and behind it f32 has only whole numbers. So ``(x + 12582912) - 12582912``
is x rounded to a whole number, and not x. And where x is near 1000, ``(x - 1000) * w`` has an exact difference, where
``x * w - 1000 * w`` has the errors of products that are a thousand times as large.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir.scalar import Array
from mccompile.passes.analysis.contraction import Contraction

LARGE = 2.0**20
"""From here on, numbers of f32 have three bits behind the point or none: what is added to them is rounded."""

FAR = 2.0**7
"""How much larger than what they leave the shifts of a sum's terms may be, together, to be multiplied before they are
added: the difference may then be wrong in the last seven of its 24 bits."""

ROUNDED = "a number is so large that what it is added to is rounded"


def absorbs(*parts: Array | None) -> bool:
    """Whether numbers that were added one after the other must not be added beforehand, for what they are added to is
    rounded to the large one."""
    given = [a.astype(np.float64) for a in parts if a is not None]
    if len(given) < 2:
        return False
    met = np.broadcast_arrays(*given)
    both = np.all([a != 0 for a in met], axis=0)
    return bool((both & (np.max(np.abs(met), axis=0) >= LARGE)).any())


def are_large(*parts: Array | None) -> bool:
    """Whether any of some numbers is so large that what it is added to is rounded: what is added to that sum later
    must not be added before."""
    return any(a is not None and bool((np.abs(a) >= LARGE).any()) for a in parts)


def shifted(weights: Array, found: Contraction, shift: Array) -> float:
    """How large, in what a term is about without it, a shift of operand 0 makes the sums of a product, to be compared
    with `FAR`: each of as many terms is rounded, so 64 that are shifted by 20 count as one by 160, not by 20."""
    factor = found.operand.factor(shift)
    assert factor is not None
    terms = np.where(weights != 0, factor, 0.0)
    axes = tuple(a for a in range(terms.ndim) if a != found.result.weights)
    return float(np.sqrt(np.square(terms).sum(axes)).max(initial=0))
