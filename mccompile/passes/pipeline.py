"""Which passes run at each optimisation level, in which order."""

from __future__ import annotations

_CLEAN = ("fold-constants", "eliminate-common-subexpressions", "canonicalize", "eliminate-dead-code")
_CHANNELS = ("remove-dead-channels", "fold-constant-channels")
_GROUPS = ("fuse-groups", "split-batches", "move-maps-over-movement", "move-maps-over-reshapes", "fuse-groups")
_FUSE = (
    "join-extremes", "move-maps-over-movement", "fold-pads", "fold-affine", "compose-products", "fold-affine-before",
    "merge-summed-convolutions", *_CHANNELS, *_GROUPS, "eliminate-dead-code", "recognize-attention",
    "eliminate-dead-code", "fold-score-scales", "share-heads", "eliminate-dead-code", "band-attention",
    "eliminate-dead-code", "fuse-prologues", "recognize-activations", "enlarge-windows", "fuse-siblings",
    "compose-movement", "nest-concats", "narrow-integers",
)  # fmt: skip
_RECOGNIZE = (
    "simplify-movement", "fold-constants", "recognize-recurrent", "fold-space-to-depth", "recognize-normalization",
    "recognize-softmax",
)  # fmt: skip
_INTEGERS = (
    "sink-dequantise", "raise-quantise", "sink-dequantise", "eliminate-dead-code", "fold-constants",
    "integer-products", "integer-sums", "integer-softmax", "start-sums", "hoist-zero-points",
    "hoist-matrix-zero-points", "eliminate-dead-code",
)  # fmt: skip
_SCALES = (
    "narrow-weights", "store-integers", "start-sums", "keep-quantised-weights", "keep-quantised-windows",
    "keep-quantised-recurrence", "fold-dequantised", "fold-constants", "canonicalize", "requantise",
    "hoist-weight-zero-points", "split-groups", "flip-signs", "eliminate-dead-code",
)  # fmt: skip
_STORE = (
    "col2im", "fold-constants", "im2col", "fold-strides", "flatten-volumes", "separate-pools", "separate-averages",
    "separate-resizes", "simplify-movement", *_CLEAN, "pair-channels", "round-products", "choose-layouts",
    "narrow-products", "store-halves", "eliminate-dead-code", "reduce-rows", "stream-rows",
)  # fmt: skip
_FULL = (
    *_CLEAN, "tabulate-extents", "widen-f16", *_RECOGNIZE, "inline-scalars", "canonicalize", *_INTEGERS, *_FUSE,
    *_SCALES, *_STORE,
)  # fmt: skip
_SMALL = (
    *_CLEAN, *_RECOGNIZE, "inline-scalars", "canonicalize", *_INTEGERS, *_FUSE, *_SCALES, *_CLEAN, "pair-channels",
    "round-products", "choose-layouts",
)  # fmt: skip

PIPELINES: dict[str, tuple[str, ...]] = {
    "O0": (),
    "O1": (*_CLEAN, "fold-dequantised", "round-products", "choose-layouts"),
    "O2": _FULL,
    "O3": _FULL,
    "Os": _SMALL,
}
"""Pass names by level. Nothing that helps is off by default.

At -Os numbers stay operands of expressions, but for those beside bytes: kernels that differ only in a number are one
kernel.
"""
