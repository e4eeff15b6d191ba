"""Which passes run at each optimisation level, in which order."""

from __future__ import annotations

_CLEAN = ("fold-constants", "eliminate-common-subexpressions", "canonicalize", "eliminate-dead-code")
_FUSE = ("fold-pads", "fold-affine", "fuse-maps", "fuse-epilogues", "fuse-prologues")
_FULL = (*_CLEAN, "inline-scalars", "canonicalize", *_FUSE, *_CLEAN)
_SMALL = (*_CLEAN, *_FUSE, *_CLEAN)

PIPELINES: dict[str, tuple[str, ...]] = {
    "O0": (),
    "O1": _CLEAN,
    "O2": _FULL,
    "O3": _FULL,
    "Os": _SMALL,
}
"""Pass names by level. Nothing that helps is off by default.

At -Os numbers stay operands of expressions: kernels that differ only in a number are one kernel.
"""
