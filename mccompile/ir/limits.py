"""Limits of what a model may ask of the compiler: each has a name, by which ``--limits`` raises or lowers it.

A file of a few bytes can ask for windows of 2^31 elements or for loops of 2^62 turns. Whoever is about to take time
or memory for a number that a file states asks here first.

Worked example: a tensor of 3 * 10^8 elements is refused, unless whoever compiles says that it is meant:

>>> from mccompile.ir.errors import CompileError
>>> try:
...     require("tensor-elements", 300_000_000, "the result 'y'", "node 0 'Tile_0'")
... except CompileError as e:
...     print(e)
node 0 'Tile_0': the result 'y' has 300,000,000 elements, the limit is 268,435,456
  hint: if that is meant: --limits tensor-elements=300000000
>>> with limited({"tensor-elements": 300_000_000}):
...     require("tensor-elements", 300_000_000, "the result 'y'")
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, bound
from mccompile.ir.errors import CompileError, UsageError


@dataclass(frozen=True)
class Limit:
    """A limit as users see it.

    Args:
        usual: what it is if nothing is said.
        most: what it can be raised to at most.
        unit: what is counted, behind a number.
        what: what is limited, for docs.
        verb: what stands between what asks and the number.
    """

    usual: int
    most: int
    unit: str
    what: str
    verb: str = "has"


_ANY = 2**62
MOST_INDEX = 2**31 - 1
"""Generated C indexes with 32 bits."""

LIMITS: Mapping[str, Limit] = {
    "nodes": Limit(1_000_000, _ANY, "nodes", "nodes of a model, functions as if inlined"),
    "stored-bytes": Limit(2 << 30, _ANY, "bytes", "a tensor of the file", "needs"),
    "tensor-elements": Limit(
        1 << 28, MOST_INDEX, "elements", "any tensor at run time; an operand of a window with its padding"
    ),
    "tensor-axes": Limit(64, 64, "axes", "any tensor"),
    "folded-bytes": Limit(256 << 20, _ANY, "bytes", "a constant that is computed of others", "would take"),
    "all-folded-bytes": Limit(2 << 30, _ANY, "bytes", "all constants that are computed of others", "would take"),
    "unrolled-nodes": Limit(2_000, _ANY, "nodes", "what all loops that cannot stay loops become", "would be"),
    "folded-steps": Limit(
        100_000, _ANY, "steps", "a loop over constants that is computed when the model is compiled: turns by nodes",
        "takes",
    ),
}  # fmt: skip
"""Limits by name."""

_now: ContextVar[Mapping[str, int] | None] = ContextVar("limits", default=None)
_sketched: ContextVar[bool] = ContextVar("sketched", default=False)


def limit(name: str) -> int:
    """What a limit is now."""
    return (_now.get() or {}).get(name, LIMITS[name].usual)


@contextmanager
def limited(given: Mapping[str, int]) -> Iterator[None]:
    """Other limits for what is done inside. UsageError for names that no limit has, and numbers that it cannot be."""
    for name, number in given.items():
        if name not in LIMITS:
            raise UsageError(f"there is no limit {name!r}", hint=f"the limits are: {', '.join(LIMITS)}")
        most = LIMITS[name].most
        if not isinstance(number, int) or not 0 < number <= most:
            raise UsageError(f"the limit {name} has to be a whole number from 1 to {most}, not {number!r}")
    token = _now.set({**(_now.get() or {}), **given})
    try:
        yield
    finally:
        _now.reset(token)


@contextmanager
def sketched() -> Iterator[None]:
    """Tensors of any size for what looks at shapes alone: symbols are tried that may be any number."""
    token = _sketched.set(True)
    try:
        yield
    finally:
        _sketched.reset(token)


def elements(extents: Iterable[int]) -> int:
    """How many elements a tensor has at most; in a sketch, with one place along each extent that varies. Extents of 0
    count as 1: numpy, strides and the extents of results are of the others, too, however many these are.

    >>> elements((0, 2, 3))
    6
    """
    if _sketched.get():
        extents = (1 if isinstance(e, Dim) else e for e in extents)
    return math.prod(max(bound(e), 1) for e in extents)


def exceeds(name: str, asked: int) -> bool:
    """Whether ``asked`` is more than a limit allows."""
    return asked > limit(name)


def require(name: str, asked: int, what: str, where: str = "") -> None:
    """CompileError if ``what`` asks for more than a limit allows, with the option that raises it."""
    if exceeds(name, asked):
        told = LIMITS[name]
        raise CompileError(
            f"{what} {told.verb} {asked:,} {told.unit}, the limit is {limit(name):,}", where=where,
            hint=to_raise(name, asked),
        )  # fmt: skip


def to_raise(name: str, asked: int) -> str:
    """What to do about a limit."""
    if asked > LIMITS[name].most:
        return f"no more than {LIMITS[name].most:,} {LIMITS[name].unit} are supported"
    return f"if that is meant: --limits {name}={asked}"
