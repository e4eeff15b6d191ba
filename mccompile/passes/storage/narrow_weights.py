"""Stores weights in the form that ``--weights`` asks for: half, a quarter or an eighth of the blob.

Worked example: a product by weights of f16, by weights of 8 bits, and a table of f16 that is looked up::

    %y = matmul(%x, %w) post0{ (acc + x0) }                       %w : f32[64,8]
    %y = matmul(%x, %w.f16) pre1{ acc } post0{ (acc + x0) }       %w.f16 : f16[64,8], f32 in expressions

    %v = map(%w.i8, %s) {expr={(f32(x0) * x1)}} : f32[64,8]       what `keep-quantised-weights` takes as it is
    %y = matmul(%x, %v) post0{ (acc + x0) }

    %e = gather(%t, %ids) {axis=0} : f32[5,8]                     %t : f32[100,8]
    %e.f16 = gather(%t.f16, %ids) {axis=0} : f16[5,8]
    %e = map(%e.f16) {expr={x0}} : f32[5,8]

Kernels widen what they load (`mccompile/kernels/model/widening.py`); sums are of f32.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.small_floats import bf16_values
from mccompile.ir.types import F32
from mccompile.kernels.model.widening import WIDENED
from mccompile.ops.map import Map
from mccompile.passes.analysis.quantised import Quantised, dequantised, followed
from mccompile.passes.analysis.weight_forms import Form, InBytes, as_halves, in_blocks, in_bytes, wanted
from mccompile.passes.manager import Remarks
from mccompile.passes.quant.keep_quantised_weights import obstacle as no_product
from mccompile.passes.quant.keep_quantised_windows import obstacle as no_window
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True


def run(graph: Graph, remarks: Remarks, weights: Mapping[str, str]) -> int:
    """Store weights, and tables that are looked up, as ``--weights`` says, where all of their readers can read them
    so."""
    if set(weights.values()) <= {"f32"}:
        return 0
    r = Rewriter(graph)
    changes = 0
    for value in [v for v in graph.constants if v.dtype == F32 and isinstance(graph.constants[v], np.ndarray)]:
        asked = [(node, wanted(weights, node.origins, node.op.name)) for node in r.users(value)]
        asked = [(node, form) for node, form in asked if form.name != "f32" and operand_of(node, value) is not None]
        reason = _refusal(r, value, [node for node, _ in asked])
        plans = [] if reason or not asked else [Narrowing(r, value, node, form) for node, form in asked]
        reason = reason or next(filter(None, (p.obstacle() for p in plans)), "")
        if reason:
            remarks.miss("narrowed", reason, value.name)
            continue
        for plan in plans:
            form, scaled = plan.rewrite()
            remarks.hit(f"stored {value.name} as {form}{scaled} in {plan.node.where}", form)
        changes += len(plans)
    r.finish()
    return changes


def operand_of(node: Node, value: Value) -> int | None:
    """The operand of a node that a constant is, if it is one that may be narrow: weights, or a table of which
    elements are picked. What is joined with others, or written over, is none: they have one type."""
    alone = all(v is None or v.dtype != value.dtype for v in node.operands[1:])
    at = node.op.weights if node.op.weights is not None else 0 if node.op.selects and alone else None
    return at if at is not None and at < len(node.operands) and node.operands[at] is value else None


def _refusal(r: Rewriter, value: Value, readers: list[Node]) -> str:
    """Why a constant has to stay as it is, whatever its form; empty if it need not, or if nobody asks."""
    if readers and value in r.graph.outputs:
        return "it is an output"
    others = [n for n in r.users(value) if n not in readers]
    if readers and others:
        return f"{others[0].where} needs the floats"
    return ""


class Narrowing:
    """One reader of a constant, and the form in which it is to read it."""

    def __init__(self, r: Rewriter, value: Value, node: Node, form: Form) -> None:
        self.r, self.value, self.node, self.form = r, value, node, form
        self.at = operand_of(node, value)
        self.array: Array = r.graph.array(value)

    @property
    def _looked_up(self) -> bool:
        return self.node.op.weights is None

    def obstacle(self) -> str:
        """Why it cannot be done; empty if it can."""
        node, at = self.node, self.at
        elsewhere = [*(v for i, v in enumerate(node.operands) if i != at), *node.extras]
        if self._looked_up and (node.pre or node.post or len(node.results) > 1):
            return f"{node.where} computes with what it looks up"
        if at in node.pre or self.value in elsewhere:
            return f"{node.where} needs the floats elsewhere"
        if not self.array.size:
            return "it is empty"
        if not np.isfinite(self.array).all():
            return "some elements are no finite numbers"
        if not self.form.bits:
            return "" if as_halves(self.array, self.form.name) is not None else f"it has no room in {self.form.name}"
        if self._looked_up:
            return "" if self._rows() is not None else f"{node.where} looks up no whole slices"
        if not node.op.multilinear:
            plain = self.array.ndim == 2 and not node.extras
            return "" if plain else f"{node.where} has no form for bytes"
        zero = np.zeros((), np.int64)
        if node.op.weight_axes is not None:
            return no_product(self.r, node, self.value, Quantised(self._bytes_of(), np.ones(()), zero))
        return no_window(self.r, node, self.value, Quantised(self._bytes_of(), np.ones(()), zero))

    def _bytes_of(self) -> Value:
        return Value(self.value.name, self.value.type.with_dtype(WIDENED["i8"][0]))

    def _rows(self) -> int | None:
        """The axis of a table along which whole slices are looked up; None if that is done along several, or none, or
        if each place of a slice has indices of its own, as those of GatherElements and of batches have."""
        nests = self.node.op.structure(self.node.operand_types())
        reads, *others = nests[0].reads if len(nests) == 1 else (None,)
        if reads is None:
            return None
        axes = [a for a, at in enumerate(reads) if at is None]
        places = [at for at in reads if at is not None]
        picked = [at for other in others for at in other or () if at is not None]
        own = any(p and q for at in places for by in picked for p, q in zip(at.coefs, by.coefs, strict=True))
        return axes[0] if len(axes) == 1 and not own else None

    def floats(self) -> Array:
        """The floats that the constant is rounded to."""
        if self.form.bits:
            found = self._whole()
            return np.asarray(found.whole * found.scale, np.float32)
        halves = as_halves(self.array, self.form.name)
        assert halves is not None
        return halves.astype(np.float32) if self.form.name == "f16" else bf16_values(halves)

    def _whole(self) -> InBytes:
        """The constant as bytes: what has no form of 4 bits has 8."""
        axes, form = self.node.op.weight_axes, self.form
        if self._looked_up:
            rows = self._rows()
            return in_bytes(self.array, tuple(a for a in range(self.array.ndim) if a != rows), 8)
        if not self.node.op.multilinear:
            return in_bytes(self.array, (1,), 8)
        if axes is None:
            return in_bytes(self.array, self._summed(), form.bits)
        return in_blocks(self.array, self._along(axes), self._block(axes), form.bits)

    def _along(self, axes: tuple[int, int]) -> int:
        """The axis of a product's weights that is summed over."""
        return self.array.ndim - 2 + axes[0]

    def _block(self, axes: tuple[int, int]) -> int:
        size: int = self.array.shape[self._along(axes)]
        return min(self.form.block or size, size)

    def rewrite(self) -> tuple[str, str]:
        """Let the node read the constant in its form, and say which that is and how it is scaled."""
        if not self.form.bits:
            return self._halved()
        if self._looked_up:
            return self._looked_up_bytes()
        return self._dequantised() if self.node.op.multilinear else self._scaled()

    def _scaled(self) -> tuple[str, str]:
        """Bytes with a scale for each row, which the prologue multiplies them by; of 8 bits also for 4."""
        found, node = self._whole(), self.node
        scale = self._constant(found.scale, "scales")
        assert self.at is not None
        node.pre[self.at] = ex.apply("mul", WIDENED["i8"][1], ex.var(len(node.extras), F32))
        self._read(self._constant(found.whole, "i8"), [*node.extras, scale])
        return "i8", " with a scale for each row"

    def _halved(self) -> tuple[str, str]:
        name = self.form.name
        dtype, body = WIDENED[name]
        halves = as_halves(self.array, name)
        assert halves is not None
        narrow = self._constant(halves, name)
        if self._looked_up:
            self._read_behind(narrow, body, [])
        else:
            assert self.at is not None
            self.node.pre[self.at] = body
            self._read(narrow, list(self.node.extras))
        assert narrow.dtype == dtype
        return name, ""

    def _looked_up_bytes(self) -> tuple[str, str]:
        """Bytes with a scale for each slice, which is looked up beside it. What has no form of 4 bits has 8."""
        node, found = self.node, self._whole()
        scales = self._constant(found.scale, "scales")
        beside = self.r.insert(node, node.op, [scales, *node.operands[1:]], f"{node.result.name}.scales")
        body = ex.apply("mul", WIDENED["i8"][1], ex.var(1, F32))
        self._read_behind(self._constant(found.whole, "i8"), body, [beside])
        return "i8", " with a scale for each slice"

    def _dequantised(self) -> tuple[str, str]:
        """A map of bytes in front of the product: `keep-quantised-weights` and `keep-quantised-windows` come next."""
        node, form, axes = self.node, self.form, self.node.op.weight_axes
        scaled = " with a scale for each channel" if axes is None else f" in blocks of {self._block(axes)}"
        found = self._whole()
        whole = self._constant(found.whole, form.name)
        op, others = dequantised(self.r.graph, whole, found.scale, np.zeros((), np.int64), whole.name)
        real = self.r.insert(node, op, [whole, *others], f"{whole.name}.real")
        self._read(real, list(node.extras))
        return form.name, scaled

    def _summed(self) -> tuple[int, ...]:
        """The axes of the weights that the result does not have: neither channels, nor matrices of a batch."""
        (nest,) = self.node.op.structure(self.node.operand_types())
        shape, result = self.array.shape, self.node.result.shape

        def kept(axis: int) -> bool:
            own = tuple(e if a == axis else 1 for a, e in enumerate(shape))
            return shape[axis] > 1 and followed(nest, 1, np.ones(own, np.float32), result) is not None

        return tuple(a for a in range(len(shape)) if not kept(a))

    def _constant(self, array: Array, suffix: str) -> Value:
        return self.r.graph.constant(f"{self.value.name}.{suffix}", np.ascontiguousarray(array))

    def _read(self, value: Value, extras: list[Value]) -> None:
        operands = [value if i == self.at else v for i, v in enumerate(self.node.operands)]
        self.r.rewire(self.node, operands, extras)

    def _read_behind(self, table: Value, body: ex.Expr, others: list[Value]) -> None:
        """Look up in another table, whose elements become floats when they are found: as ``body`` says of them."""
        node, found = self.node, self.node.result
        self._read(table, list(node.extras))
        stored = self.r.graph.value(f"{found.name}.stored", found.type.with_dtype(table.dtype))
        self.r.set_results(node, [stored])
        own = ex.substitute(body, lambda v: ex.var(0, v.dtype) if v.index == ex.ACC else v)
        self.r.insert_after(node, Node(Map(own), [stored, *others], [found], origins=node.origins))
