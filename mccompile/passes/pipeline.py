"""Which passes run at each optimisation level, in which order."""

from __future__ import annotations

_CLEAN = ("fold-constants", "eliminate-common-subexpressions", "eliminate-dead-code")
_FULL = (*_CLEAN, "fold-affine", "fuse-maps", "fuse-epilogues", *_CLEAN)

PIPELINES: dict[str, tuple[str, ...]] = {
    "O0": (),
    "O1": _CLEAN,
    "O2": _FULL,
    "O3": _FULL,
    "Os": _FULL,
}
"""Pass names by level. Nothing that helps is off by default."""
