"""Matrix products (ONNX operators MatMul and Gemm)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.affine import loop
from mccompile.ir.dims import require_same
from mccompile.ir.graph import Value
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.same_bits import product
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops, broadcast
from mccompile.ir.types import F64, I64, TensorType, broadcast_shapes
from mccompile.ops.folding import Folding, product_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.matmul_quantised import MatMulQuantised
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class MatMul(Op):
    """Operands a[..., M, K] and b[..., K, N]; leading axes broadcast; result [..., M, N].

    ``trans_a`` and ``trans_b`` say that the last two axes of an operand come the other way round.
    """

    name = "matmul"
    kind = Kind.COMPLEX

    trans_a: bool = False
    trans_b: bool = False

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0, 1)

    @property
    def weight_axes(self) -> tuple[int, int] | None:
        return None if self.trans_a else (1, 0) if self.trans_b else (0, 1)

    def with_whole_weights(self, block: int, zero: int, bits: int, least: int) -> Op:
        return MatMulQuantised(block, zero, bits, least)

    def added_up(self, types: Sequence[TensorType | None]) -> tuple[Op, ...] | None:
        a = types[0]
        return None if self.trans_a or a is None else (Reduce("sum", (a.rank - 1,)),)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Loops: leading axes, row, column; then the axis summed over."""
        a, b = types
        assert a is not None
        assert b is not None
        (y,) = self.infer(a, b)
        loops = (*y.shape, a.shape[-2 if self.trans_a else -1])
        n, lead = len(loops), y.rank - 2
        row, column, inner = (loop(lead + i, n) for i in range(3))
        left, right = ((inner, row) if self.trans_a else (row, inner)), (
            (column, inner) if self.trans_b else (inner, column)
        )
        reads = tuple((*broadcast(t.shape[:-2], lead, n), *last) for t, last in ((a, left), (b, right)))
        return (Nest(loops, axis_loops(y.rank, n), reads),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        a, b = types
        assert a is not None
        assert b is not None
        if a.rank < 2 or b.rank < 2 or a.dtype != b.dtype:
            raise TypeRuleError(f"{a} times {b}: equal element types and ranks of at least 2 are needed")
        m, k = a.shape[-2:][:: -1 if self.trans_a else 1]
        kb, n = b.shape[-2:][:: -1 if self.trans_b else 1]
        if not require_same((k,), (kb,)):
            raise TypeRuleError(f"{a} times {b}: {k} columns against {kb} rows")
        return (TensorType(a.dtype, (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), m, n)),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        a, b = (np.asarray(x) for x in arrays)
        wide = np.promote_types(a.dtype, np.float32) if a.dtype.kind == "f" else a.dtype
        a2 = np.swapaxes(a, -1, -2) if self.trans_a else a
        b2 = np.swapaxes(b, -1, -2) if self.trans_b else b
        return (product(a2.astype(wide), b2.astype(wide)).astype(a.dtype),)

    def macs(self, types: Sequence[TensorType | None], results: Sequence[TensorType]) -> int:
        a = types[0]
        assert a is not None
        return results[0].count * a.shape[-2 if self.trans_a else -1]


def _sample_matmul(d: Draw) -> Case:
    m, k, n = d.shape(3, 1, 20)
    batch = d.shape(d.int(0, 2), 1, 3)
    a, b = (*d.broadcastable(batch), m, k), (*d.broadcastable(batch), k, n)
    kind = d.int(0, 5)
    if kind == 0:
        a = (k,)
    elif kind == 1:
        b = (k,)
    elif kind == 2:
        a, b = (k,), (k,)
    constant = frozenset({1}) if d.bool() else frozenset()
    dtype = d.choice(["f32", "f32", "f32", "f16", "i32"])
    return Case([d.array(a, dtype), d.array(b, dtype)], {}, constant)


@onnx_op("MatMul", sample=_sample_matmul, tolerance={"f32": 3e-6, "f16": 4e-3}, folding=Folding(product_bytes))
def import_matmul(n: Import) -> None:
    """Vectors become matrices of one row or column, as numpy does; the axis goes again afterwards."""
    vectors = tuple(len(n.input(i).shape) == 1 for i in (0, 1))
    operands = as_matrices(n, n.input(0), n.input(1))
    if not any(vectors):
        n.emit(MatMul(), operands)
        return
    product = n.inner(MatMul(), operands, "matrix")
    n.bind(0, n.reshape(product, without_vectors(product.shape, vectors), "vector"))


def as_matrices(n: Import, a: Value, b: Value) -> list[Value]:
    """Operands of MatMul, a vector as a matrix of one row or column."""
    if not a.shape or not b.shape:
        raise n.error("operands of rank 0 have no matrix product")
    a = n.reshape(a, (1, *a.shape), "row") if len(a.shape) == 1 else a
    return [a, n.reshape(b, (*b.shape, 1), "column") if len(b.shape) == 1 else b]


def without_vectors(shape: tuple[int, ...], vectors: Sequence[bool]) -> tuple[int, ...]:
    """The shape of a product without the row and the column that its left and its right ``vectors`` had become."""
    row, column = vectors
    return shape[:-2] + (() if row else shape[-2:-1]) + (() if column else shape[-1:])


def _sample_gemm(d: Draw) -> Case:
    m, k, n = d.shape(3, 1, 20)
    ta, tb = d.int(0, 1), d.int(0, 1)
    bias = d.array(d.choice([(n,), (1, n), (m, 1), (m, n), ()])) if d.bool() else None
    attrs: dict[str, object] = {"transA": ta, "transB": tb}
    if d.bool():
        attrs |= {"alpha": 0.5, "beta": d.choice([2.0, 0.0])}
    return Case(
        [d.array((k, m) if ta else (m, k)), d.array((n, k) if tb else (k, n)), bias],
        attrs,
        frozenset({1, 2}) if d.bool() else frozenset(),
    )


@onnx_op("Gemm", sample=_sample_gemm, tolerance={"f32": 3e-6, "f16": 4e-3}, folding=Folding(product_bytes))
def import_gemm(n: Import) -> None:
    n.emit(MatMul(bool(n.attr("transA", 0)), bool(n.attr("transB", 0))), [n.input(0), n.input(1)], **gemm_epilogue(n))


def gemm_epilogue(n: Import) -> dict[str, Any]:
    """alpha * A' B' + beta * C of a product, the scales and the addition: arguments of `Import.emit`."""
    a, b, c = n.input(0), n.input(1), n.optional(2)
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise n.error("Gemm needs matrices")
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    # Half of whole numbers is computed in f64, and the sum is cut off: its own type has no 0.5. What leaves it wraps.
    parted = not a.dtype.is_float and not (float(alpha).is_integer() and float(beta).is_integer())
    dtype = F64 if parted else a.dtype.compute
    body: ex.Expr = ex.convert(ex.acc(a.dtype), dtype)
    if alpha != 1.0:
        body = ex.apply("mul", body, ex.num(alpha, dtype))
    extras = []
    if c is not None and beta != 0.0:
        term: ex.Expr = ex.convert(ex.var(0, a.dtype), dtype)
        if beta != 1.0:
            term = ex.apply("mul", term, ex.num(beta, dtype))
        body = ex.apply("add", body, term)
        extras = [c]
    if parted:
        body = ex.convert(ex.convert(body, I64), a.dtype)
    return {"extras": extras, "post": {} if isinstance(body, ex.Var) else {0: body}}
