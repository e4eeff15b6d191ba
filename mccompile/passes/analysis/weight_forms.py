"""In which form weights are stored, as ``--weights`` says it, and what they are rounded to.

Worked example: two columns of 8 bits with a scale each; the largest of a column is 127.

>>> found = in_bytes(np.array([[127.0, 1.0], [-3.2, 0.25]], np.float32), (0,), 8)
>>> found.whole.tolist(), found.scale.tolist()
([[127, 127], [-3, 32]], [[1.0, 0.007874015718698502]])

4 bits are from -8 to 7, and that of largest magnitude is -8, whatever its sign:

>>> found = in_bytes(np.array([[4.0], [-1.0], [1.9]], np.float32), (0,), 4)
>>> found.whole.tolist(), found.scale.tolist()
([[-8], [2], [-4]], [[-0.5]])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array
from mccompile.ir.small_floats import bf16_bits, bf16_values

EVERY = "*"
"""The name that stands for all nodes of which nothing else is said."""
AUTO = "auto"
"""Stands for a form that is to be found out (`mccompile.check.narrowing`)."""
BLOCK = 32
"""Rows of a product that share a scale of 4 bits, where none is said."""


@dataclass(frozen=True)
class Form:
    """``name``: f32, bf16, f16, i8 or i4. ``block``: elements of a sum that share a scale; 0: all of them."""

    name: str
    block: int = 0

    @property
    def bits(self) -> int:
        """Of integers; 0 of floats."""
        return int(self.name[1:]) if self.name.startswith("i") else 0


def form_of(text: str) -> Form:
    """The form that a text means, of those that `mccompile.search.options` lets through."""
    name, _, block = text.partition(":")
    return Form(name, int(block) if block else BLOCK if name == "i4" else 0)


def named(pattern: str, names: Iterable[str], op: str) -> bool:
    """Whether a pattern is meant for a node: it is a pattern of ONNX node names, or an operator's name of the IR."""
    return pattern == op or any(name == pattern or fnmatchcase(name, pattern) for name in names)


def wanted(said: Mapping[str, str], names: Iterable[str], op: str) -> Form:
    """What was said of a node: the last of what names it, else of all."""
    found = [text for pattern, text in said.items() if pattern != EVERY and named(pattern, names, op)]
    return form_of(found[-1] if found else said.get(EVERY, "f32"))


def by_node(said: Mapping[str, str], nodes: Sequence[tuple[tuple[str, ...], str]]) -> dict[str, str]:
    """What was said of operators, said of their nodes, too, given by the names of each and its operator: passes may
    compute one operator by others.

    >>> by_node({"*": "i8", "conv": "f16"}, [(("first",), "conv"), (("sum",), "map")])
    {'*': 'i8', 'conv': 'f16', 'first': 'f16'}
    """
    meant: dict[str, str] = {}
    for pattern, form in said.items():
        names = [name for origins, op in nodes if op == pattern for name in origins]
        for name in (pattern, *names):
            meant.pop(name, None)  # the last that was said holds
            meant[name] = form
    return meant


@dataclass(frozen=True)
class InBytes:
    """``whole`` times ``scale``, which broadcasts; i8."""

    whole: Array
    scale: Array


def in_bytes(weights: Array, along: tuple[int, ...], bits: int) -> InBytes:
    """Weights as the nearest whole numbers times a scale for all elements ``along`` some axes: of 8 bits from -127
    to 127, of 4 bits from -8 to 7."""
    size = np.abs(weights)
    if bits == 8:
        largest = size.max(along, keepdims=True) / 127
        low, high = -127, 127
    else:
        top, bottom = weights.max(along, keepdims=True), weights.min(along, keepdims=True)
        largest = np.where(top >= -bottom, top, bottom) / -8
        low, high = -8, 7
    scale = np.where(largest == 0, 1, largest).astype(np.float32)
    whole = np.clip(np.rint(weights / scale), low, high)
    return InBytes(whole.astype(np.int8), scale)


def in_blocks(weights: Array, axis: int, block: int, bits: int) -> InBytes:
    """`in_bytes` with a scale for each ``block`` of elements along an axis; scales are as long as the weights."""
    moved = np.moveaxis(weights, axis, 0)
    size = moved.shape[0]
    padded = np.pad(moved, [(0, -size % block), *[(0, 0)] * (moved.ndim - 1)])
    found = in_bytes(padded.reshape(-1, block, *moved.shape[1:]), (1,), bits)
    scale = np.broadcast_to(found.scale, (*found.scale.shape[:1], block, *moved.shape[1:]))

    def whole(array: Array) -> Array:
        return np.ascontiguousarray(np.moveaxis(array.reshape(padded.shape)[:size], 0, axis))

    return InBytes(whole(found.whole), whole(scale))


def as_halves(weights: Array, name: str) -> Array | None:
    """Weights as f16, or as the bits of bf16; None where some would be infinite that are not."""
    with np.errstate(over="ignore"):
        halves: Array = weights.astype(np.float16) if name == "f16" else bf16_bits(weights)
        beyond = np.isinf(halves if name == "f16" else bf16_values(halves))
    return None if (beyond & np.isfinite(weights)).any() else halves
