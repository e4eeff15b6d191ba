"""Products of 8-bit integers as kernels of integer arithmetic see them: zero points, and what sums begin with.

Worked example: a layer whose operand has the zero point -5 subtracts it from each element and adds a bias. The sum
of (q - -5) * w is that of q * w and 5 times the sum of the weights: kernels multiply the bytes as they are, pad with
-5, and begin with the bias and what the weights say.

>>> from mccompile.ir.graph_text import parse_graph
>>> from mccompile.ops.registry import lookup
>>> graph = parse_graph('''graph @g(%q: i8[1,2,4]) {
...   %w = const [1, 2, 3, -1] : i8[2,2,1]
...   %b = const [10, 20] : i32[2,1]
...   %y = conv(%q, %w) {strides=(1,), pads=(0, 0), dilations=(1,)} with(%b)
...     pre0{ (i32(acc) - i32(-5)) } pre1{ i32(acc) } post0{ sat_i8((acc + x0)) } : i8[1,2,4]
...   return %y
... }''', lookup)
>>> integer_product(graph.nodes[0], graph.constants, channels=1)
IntegerProduct(zero=-5, begun=0)
>>> w = graph.array(graph.nodes[0].operands[1]).astype(np.int64)
>>> Start(folded(w.reshape(2, -1), -5)).pack(np.array([10, 20])).tolist()
[25, 30]
"""

from __future__ import annotations

import functools
import math
from collections.abc import Container, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import I8, I32, U8, DType
from mccompile.ir.views import View
from mccompile.kernels.model.arithmetic import arithmetics_of
from mccompile.kernels.variant import Builder, computed, operand_pair
from mccompile.targets.target import Target


@dataclass(frozen=True)
class IntegerProduct:
    """Sums of 32 bits of products of bytes.

    Attributes:
        zero: what is subtracted from each element of operand 0; the bytes that its padding consists of.
        begun: the extra operand, one number for each channel, that is added to sums before all else; -1: there is
            none.
    """

    zero: int
    begun: int


def integer_product(node: Node, constants: Container[Value], channels: int) -> IntegerProduct | str:
    """A convolution or matrix product of bytes by constant bytes, with sums of 32 bits; or why it is none.

    ``channels`` is the axis of the result that the numbers of `IntegerProduct.begun` belong to.
    """
    x, w = operand_pair(node)
    if reason := computed(node, constants, 1) or no_integers(node):
        return reason
    if len(node.results) != 1 or node.own_types()[0].dtype != I32:
        return "its sums are not of 32 bits"
    padding, zero = zero_points(node)
    if not 0 <= padding - lowest(x.dtype) < 256:
        return f"its padding, {padding}, is no {x.dtype}"
    if not within_i8(w.dtype, zero):
        return "weights less their zero point need more than 8 bits"
    return IntegerProduct(padding, _begun(node, constants, channels))


def no_integers(node: Node) -> str:
    """Why a product is none of bytes less their zero points; empty if it is one."""
    for i, value in enumerate(operand_pair(node)):
        if value.dtype not in (I8, U8):
            return f"operand {i} is no integer of 8 bits"
        if zero_of(node.pre.get(i), value.dtype) is None:
            return f"operand {i} has another prologue than a zero point"
    return ""


def zero_points(node: Node) -> tuple[int, int]:
    """Those of the operands of a product of bytes (see `no_integers`)."""
    first, second = (zero_of(node.pre.get(i), v.dtype) for i, v in enumerate(operand_pair(node)))
    if first is None or second is None:
        raise InternalError(f"{node.where}: {no_integers(node)}")
    return first, second


def within_i8(dtype: DType, zero: int) -> bool:
    """Whether all numbers of a type of 8 bits, less a zero point, are from -128 to 127."""
    return lowest(dtype) - zero >= -128 and lowest(dtype) + 255 - zero <= 127


def multiplies_bytes(target: Target, dtype: DType, zero: int | None) -> bool:
    """Whether a target has kernels for products of bytes, and they take weights of a type less a zero point; None
    stands for several."""
    if zero is not None and within_i8(dtype, zero):
        return bool(target.integer or arithmetics_of(target))
    least = None if zero is None else lowest(dtype) - zero
    return least is not None and any(
        low <= least and least + 255 <= high for low, high in (a.weight_range for a in arithmetics_of(target))
    )


def lowest(dtype: DType) -> int:
    """The lowest number of a type of 8 bits."""
    return -128 if dtype.kind == "i" else 0


def is_byte(zero: int, dtype: DType) -> bool:
    """Whether a zero point is a number of its type of 8 bits, as in ONNX."""
    return lowest(dtype) <= zero <= lowest(dtype) + 255


@functools.lru_cache(maxsize=1024)
def zero_of(body: ex.Expr | None, dtype: DType) -> int | None:
    """The number that a prologue subtracts from bytes of a type, found by what it makes of all of them; None if it
    does anything else."""
    if body is None or ex.variables(body) - {ex.ACC} or body.dtype != I32:
        return None
    numbers = np.arange(256).astype(np.uint8).view(dtype.numpy)
    made = np.broadcast_to(ex.evaluate(body, lambda i: numbers), numbers.shape).astype(np.int64)
    zeros = numbers.astype(np.int64) - made
    return int(zeros[0]) if (zeros == zeros[0]).all() else None


def _begun(node: Node, constants: Container[Value], channels: int) -> int:
    """The extra operand of which an epilogue knows the sum only together with the accumulator."""
    body = node.post.get(0)
    if body is None:
        return -1
    result = node.results[0].shape
    for part in ex.distinct(body):
        match part:
            case ex.Apply(fn="add", operands=(ex.Var(index=ex.ACC), ex.Var(index=extra))) | ex.Apply(
                fn="add", operands=(ex.Var(index=extra), ex.Var(index=ex.ACC))
            ):
                if extra == ex.ACC or node.extras[extra] not in constants or node.extras[extra].dtype != I32:
                    continue
                seen = (1,) * (len(result) - node.extras[extra].type.rank) + node.extras[extra].shape
                own = math.prod(seen) == seen[channels] == result[channels]
                if own and not ex.variables(begun_with(body, extra)) & {extra}:
                    return extra
    return -1


def begun_with(body: ex.Expr, extra: int) -> ex.Expr:
    """An epilogue of sums that began with an extra operand: without the addition. Where the accumulator stands
    alone, what is subtracted again would be the extra operand, which then stays a variable."""
    plain = ex.acc(I32)

    def begun(e: ex.Expr) -> ex.Expr | None:
        match e:
            case ex.Apply(fn="add", operands=(ex.Var(index=ex.ACC), ex.Var(index=i))) if i == extra:
                return plain
            case ex.Apply(fn="add", operands=(ex.Var(index=i), ex.Var(index=ex.ACC))) if i == extra:
                return plain
            case ex.Var(index=ex.ACC):
                return ex.apply("sub", plain, ex.var(extra, I32))
        return None

    return ex.rewritten(body, begun)


def wrapped_i32(array: Array) -> Array:
    """Whole numbers modulo 2^32, as sums of 32 bits know them."""
    return array.astype(np.int64).astype(np.uint64).astype(np.uint32).view(np.int32)


def folded(weights: Array, zero: int) -> tuple[int, ...]:
    """What a zero point adds to the sum of each channel; ``weights`` are [channels, terms]."""
    return tuple((-zero * weights.astype(np.int64).sum(axis=1)).tolist())


@dataclass(frozen=True)
class Start:
    """What sums begin with: a bias for each channel and the numbers ``added`` to it, modulo 2^32."""

    added: tuple[int, ...]

    def pack(self, array: Array) -> Array:
        total = array.reshape(-1).astype(np.int64) + np.array(self.added, np.int64)
        return wrapped_i32(total).reshape(array.shape)


@dataclass(frozen=True)
class StartAlone:
    """`Start` without a bias, beside the weights that it follows from."""

    added: tuple[int, ...]

    def pack(self, array: Array) -> Array:
        return wrapped_i32(np.array(self.added, np.int64))


@dataclass(frozen=True)
class Prologued:
    """Weights less their zero point."""

    zero: int

    def pack(self, array: Array) -> Array:
        return array.astype(np.int64) - self.zero


def weights_of(node: Node, b: Builder) -> Array:
    """The constant operand 1 less its zero point, as i64."""
    _, zero = zero_points(node)
    data = b.seen(operand_pair(node)[1], Prologued(zero)).buffer.data
    assert data is not None
    return data


@dataclass(frozen=True)
class Begin:
    """Where a kernel finds what sums begin with: operand 2, or in the place of an extra operand."""

    operand: View | None
    extras: Sequence[View]


def begin_with(node: Node, product: IntegerProduct, added: tuple[int, ...], b: Builder) -> Begin:
    """The operands that say what sums begin with; ``extras`` are all of the node, not broadcast yet."""
    extras = [b.read(v) for i, v in enumerate(node.extras) if i != product.begun]
    if product.begun < 0:
        return Begin(b.packed(operand_pair(node)[1], StartAlone(added)), extras)
    extras.insert(product.begun, b.packed(node.extras[product.begun], Start(added)))
    return Begin(None, extras)
