"""What every operator of the graph IR is: attributes as dataclass fields, a type rule, a meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from mccompile._cached import cached
from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, symbols, value
from mccompile.ir.ranges import Range, anything
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure
from mccompile.ir.types import TensorType


class Kind(Enum):
    """The fusion kinds of TVM (Chen et al., OSDI 2018, section 3)."""

    INJECTIVE = "injective"
    REDUCTION = "reduction"
    COMPLEX = "complex-out-fusable"
    OPAQUE = "opaque"


class Layouts(Enum):
    """How an operator's operands and results may be stored (the interface of OneFlow's auto-NHWC).

    FIXED: row-major. ANY: each in any order of its axes. ALIKE: likewise, and best all in the same order.
    """

    FIXED = "fixed"
    ANY = "any"
    ALIKE = "alike"


Signature = tuple[tuple[TensorType, ...], tuple[TensorType, ...]]
"""The types of the inputs and of the outputs of a graph inside of a node."""


@dataclass(frozen=True)
class Inside:
    """A graph inside of a node, as a function on arrays; ``made`` are the types of what it gives, in known extents
    where these are known."""

    run: Callable[[Sequence[Array]], list[Array]]
    made: tuple[TensorType, ...]

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.run(arrays)


class TypeRuleError(Exception):
    """An operator's type rule is broken; the caller adds where."""


def has_axes(x: TensorType, axes: Sequence[int]) -> bool:
    """Whether a tensor has all of these axes, and none stands there twice."""
    return len(set(axes)) == len(axes) and all(0 <= a < x.rank for a in axes)


@dataclass(frozen=True)
class Recurrence:
    """An operator that carries ``states`` from turn to turn: operands from number ``first`` on are what they begin
    with (absent: 0). ``results`` are the names of its own results, "y" being the first state after each turn.

    ``whole`` is the operator that gives "y", if this one does, and then the last of all states. ``lengths`` is the
    number of an operand that ends sequences early. ``backwards`` tells what begins with the last row.
    """

    states: tuple[str, ...]
    results: tuple[str, ...]
    first: int
    lengths: int
    backwards: bool
    whole: Op


@dataclass(frozen=True)
class Op:
    """Base of the operators. A subclass is a frozen dataclass whose fields are its attributes.

    Attributes are ints, floats, bools, strings, tuples of these, or one `Expr`; printer and parser follow
    from them. A subclass names itself in ``name`` and says what it means in `infer` and `evaluate`.
    """

    name: ClassVar[str] = ""
    kind: ClassVar[Kind] = Kind.OPAQUE
    layouts: ClassVar[Layouts] = Layouts.FIXED
    wants_channels_last: ClassVar[bool] = False
    """Whether its kernels are at their best where neighbours in memory are channels."""
    keeps_order: ClassVar[bool] = False
    """Whether the result has the elements of operand 0 in their row-major order, under another shape."""

    reads_bits: ClassVar[bool] = False
    """Whether it depends on how elements are stored, not only on what they stand for."""

    addresses_result: ClassVar[bool] = False
    """Whether an operand holds places in the whole result: on a part of that they would be others."""

    wants_rows: ClassVar[bool] = False
    """Whether its operands and results must lie row by row, without gaps for halos."""

    ends_run: ClassVar[bool] = False
    """Whether it may end the program, so that it stays where nothing reads its results."""

    words: ClassVar[tuple[tuple[str, Collection[str]], ...]] = ()
    """The attributes that are one of some words, and these."""

    takes_prologue: ClassVar[bool] = False
    """Whether its kernels may well compute a little as they read operand 0: they read each element few times."""

    @classmethod
    def operand_of(cls, variable: int, shapes: Sequence[Sequence[int]]) -> int:
        """The operand that a variable of its expression stands for, or is an element of; ``shapes`` are theirs."""
        return variable

    @property
    def numbers(self) -> tuple[int, ...]:
        """Attributes that kernels may be given when they run: extents."""
        return ()

    @cached
    def varying(self) -> tuple[int, ...]:
        """What in its attributes is known at run time only."""
        return tuple(_varying([getattr(self, f.name) for f in dataclasses.fields(self)]))

    @property
    def told(self) -> tuple[int, ...]:
        """What of that a kernel is told: nothing where views say all of it, as those of a copy do."""
        return self.varying

    def at_bounds(self) -> Op:
        """The operator for who plans for the largest extents: what it says of them at its largest, as pads."""
        return self

    def binds(self, types: Sequence[TensorType | None]) -> bool:
        """Whether operands and results are to be stored alike; ``types`` are those of the operands."""
        return self.layouts is Layouts.ALIKE

    @property
    def is_identity(self) -> bool:
        """Whether each element of the result is that of operand 0, in its place."""
        return False

    @property
    def multilinear(self) -> tuple[int, ...]:
        """The operands that the results are linear in, each while all others stay as they are."""
        return ()

    @property
    def terms(self) -> tuple[int, ...]:
        """The operands whose elements, or these times others, results are sums of."""
        return self.multilinear

    @property
    def trusted(self) -> tuple[int, ...]:
        """The operands whose numbers say where kernels read and write, or how long, and are not checked there.

        Where they are constants, they were checked when the model was compiled: others in a blob would do harm.
        """
        return ()

    @property
    def evaluates(self) -> bool:
        """Whether `evaluate` knows the results: what comes from outside may be C alone."""
        return True

    @property
    def weights(self) -> int | None:
        """The operand that many others are multiplied by, if there is one, so that it may well be stored in fewer
        bits than it is multiplied in."""
        return 1 if self.multilinear == (0, 1) else None

    @property
    def recurrence(self) -> Recurrence | None:
        """Where it takes the rows of its first operand turn by turn: what it carries from one to the next."""
        return None

    def rounding(self, form: str) -> Op | None:
        """Where it multiplies by weights what it computes itself: the operator that rounds this to a form of 16 bits
        before; None: it has none, or what it multiplies is an operand."""
        return None

    @property
    def times(self) -> tuple[int, ...]:
        """How often each element of operand 0 comes along each axis, if it repeats elements and does nothing else."""
        return ()

    @property
    def selects(self) -> bool:
        """Whether every element of result 0 is one of operand 0, unchanged."""
        return False

    @property
    def hands_on(self) -> bool:
        """Whether every element of result 0 is one of some operand, unchanged."""
        return self.selects

    @property
    def joins(self) -> bool:
        """Whether its result is its operands, one behind the other along an axis."""
        return False

    @property
    def is_view(self) -> bool:
        """Whether its result is meant to be no copy: a part of its operand, or where its operands are written."""
        return False

    def beside(self, other: Op) -> Op | None:
        """The operator that gives, of one operand, this one's result and then the other's, as fast as one of them;
        None if there is none."""
        return None

    @property
    def picks(self) -> str:
        """"largest" or "least" where result 0 has, of several elements of operand 0 each, that one; else ""."""
        return ""

    def may_pick_none(self, types: Sequence[TensorType | None]) -> bool:
        """Whether it `picks`, and that may be of no element: of floats it is infinite then."""
        return False

    @property
    def decides(self) -> bool:
        """Whether it compares floats or rounds them, so that the last digit of one may change all of a result."""
        return False

    @property
    def smooth(self) -> tuple[int, ...]:
        """Of an operator that decides, the operands whose last digit changes no more than that of a result: an image
        of which it decides on places."""
        return ()

    @property
    def subtracts(self) -> bool:
        """Whether it takes elements of operand 0 away from each other: of equal ones nothing is left."""
        return False

    @property
    def makes_products(self) -> bool:
        """Whether the last thing that its kernels do is to multiply, so that C compilers may make one instruction of
        this and a sum in the epilogue."""
        return False

    @property
    def divides_by_size(self) -> bool:
        """Whether it divides elements of operand 0 by how large they are together: of next to nothing it makes as
        much as of large numbers."""
        return False

    @property
    def background(self) -> float | None:
        """The value of result elements that are none of an operand's, where elements are only moved; None if there is
        no such."""
        return None

    def with_background(self, value: float) -> Op:
        """The operator with another `background`, for one that has such."""
        raise NotImplementedError

    def as_sum(self, types: Sequence[TensorType | None]) -> tuple[Op, Array] | None:
        """An operator that sums elements of operand 0, and what these sums are multiplied by: one number, or one for
        each that broadcasts to the result. None for an operator that does something else."""
        return None

    def added_up(self, types: Sequence[TensorType | None]) -> tuple[Op, ...] | None:
        """Of a product: operators, one behind the other, that add up what each element of the result multiplies by
        operand 1, with one element where this is the same along an axis. None if there are no such."""
        return None

    def last_axis_first(self, axes: Sequence[int]) -> tuple[Op, Op] | None:
        """Of a reduction over several ``axes``, perhaps among others: the one over the last of them, and the one over
        the rest, which give the same one behind the other, but for rounding. None for all else."""
        return None

    def on_bytes(self, scale: float) -> Op | None:
        """The operator by integers alone, on bytes that stand for numbers ``scale`` apart, its results in units of
        2^-31. None if there is no such."""
        return None

    @property
    def weight_axes(self) -> tuple[int, int] | None:
        """The last two axes of operand 1, the one that is summed over before that of the result, of a product with a
        form for weights of whole numbers: see `with_whole_weights`. None for all else."""
        return None

    def with_whole_weights(self, block: int, zero: int, bits: int, least: int) -> Op:
        """The product of operand 0 by whole numbers [K, N], scales [blocks of K, N] and perhaps zero points alike.

        For an operator with `weight_axes`; the parameters are `MatMulQuantised`'s.
        """
        raise NotImplementedError

    @property
    def elementwise(self) -> ex.Expr | None:
        """What the only result is at each place: an expression over the operands (variable i), broadcast."""
        return None

    def with_elementwise(self, body: ex.Expr) -> Op:
        """The operator with another expression as `elementwise`, for one that has such."""
        raise NotImplementedError

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """What each element of the results depends on; nothing is known if there are no nests."""
        return ()

    def with_pads(self, axis: int, before: int, after: int) -> Op | None:
        """The operator on a part of operand 0 around which so much counts as padding, along a spatial axis.

        None if it cannot be. What reads nothing outside of its operands, as `structure` shows, has no padding.
        """
        return self if before == after == 0 else None

    def in_groups(self, count: int) -> Op:
        """The operator with another number of groups of channels, for one whose `structure` shows such."""
        raise NotImplementedError

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        """The ranges of the results where the operands lie in ``ranges``, as long as no NaN goes in.

        Each may have one element, or one for each channel: an index of axes that `structure` shows to be loops of
        operands and result alike.
        """
        results = self.infer(*types)
        count = max((r.low.size for r in ranges if r is not None), default=1)
        if self.selects and ranges[0] is not None:
            return ranges[0], *(anything(t.dtype, count) for t in results[1:])
        return tuple(anything(t.dtype, count) for t in results)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        """Result types for operand types (None: an absent optional operand). Raises TypeRuleError."""
        raise NotImplementedError

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        """The meaning on numpy arrays, in the arrays' own precision."""
        raise NotImplementedError

    def infer_around(
        self, types: Sequence[TensorType | None], inside: Sequence[Signature]
    ) -> tuple[TensorType, ...]:
        """`infer` for an operator of nodes with graphs ``inside`` (`Node.regions`)."""
        raise TypeRuleError(f"{self.name} has no graphs inside")

    def evaluate_around(self, arrays: Sequence[Array | None], inside: Sequence[Inside]) -> Sequence[Array]:
        """`evaluate` for an operator of nodes with graphs ``inside``."""
        raise NotImplementedError

    def turns_inside(self) -> int:
        """How often a graph inside is computed at most."""
        return 1

    def evaluate_wide(self, *arrays: Array | None) -> tuple[Array, ...]:
        """`evaluate` with floats in float64 also where no operand is one."""
        return self.evaluate(*arrays)

    def describe(self) -> str:
        """A short phrase for comments: the name, then the attributes that differ from their defaults."""
        shown = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        defaults = {f.name: f.default for f in dataclasses.fields(self)}
        words = [
            f"{name}={f'{value:g}' if isinstance(value, float) else attribute_text(value).replace(' ', '')}"
            for name, value in shown.items()
            if not isinstance(value, ex.Expr) and value != defaults[name] and value not in ("", ())
        ]
        return " ".join([self.name, *words])

    def macs(self, types: Sequence[TensorType | None], results: Sequence[TensorType]) -> int:
        """Multiply-adds of Conv, Gemm, MatMul and RNN kernels; 0 for everything else."""
        return 0


def _varying(value: object) -> Iterator[int]:
    if isinstance(value, Dim):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _varying(item)


def op_at(op: Op, values: Mapping[str, int]) -> Op:
    """The operator with those of its numbers known that depend on symbols which have values."""
    return op_with(op, lambda n: value(n, values) if all(s.name in values for s in symbols(n)) else n)


def op_with(op: Op, change: Callable[[int], int]) -> Op:
    """The operator with its numbers changed, where they vary."""
    if not op.varying:
        return op
    return dataclasses.replace(op, **{name: _changed(item, change) for name, item in attributes(op).items()})


def _changed(item: Any, change: Callable[[int], int]) -> Any:
    if isinstance(item, tuple):
        return tuple(_changed(part, change) for part in item)
    return change(item) if isinstance(item, Dim) else item


def attributes(op: Op) -> dict[str, Any]:
    """Attribute names and values, in order of declaration."""
    return {f.name: getattr(op, f.name) for f in dataclasses.fields(op)}


def attribute_text(value: object) -> str:
    """The text of one attribute: a Python literal, or an expression in braces."""
    if isinstance(value, ex.Expr):
        return "{" + ex.text(value) + "}"
    return repr(value)


def dataclass_text(item: Any) -> str:
    """The fields of a frozen dataclass that differ from their defaults, as ``key=value, ...``."""
    return ", ".join(
        f"{f.name}={attribute_text(getattr(item, f.name))}"
        for f in dataclasses.fields(item)
        if f.default is dataclasses.MISSING or repr(getattr(item, f.name)) != repr(f.default)  # -0.0 equals 0.0
    )


def op_text(op: Op) -> str:
    """The operator's name and the attributes that differ from their defaults: ``name {key=value, ...}``."""
    shown = dataclass_text(op)
    return f"{op.name} {{{shown}}}" if shown else op.name
