"""Dynamic quantisation, and onnxruntime's fusions of it (com.microsoft), as the nodes that they were made of.

    DynamicQuantizeMatMul(a, b, b_scale, b_zero, bias)
        is  q, s, z = DynamicQuantizeLinear(a);  Cast(MatMulInteger(q, b, z, b_zero)) * (s * b_scale) + bias

Weights of few bits (MatMulNBits) are unpacked to one byte each and stay integers until passes decide. At
``accuracy_level`` 4 operands are rounded to bytes as well, by blocks.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.onnxio import OnnxNode
from mccompile.ops.expansion import CONTRIB
from mccompile.ops.frontend import Import
from mccompile.ops.matmul_quantised import MatMulQuantised
from mccompile.ops.quantize import draw_scale
from mccompile.ops.quantized import Quantised
from mccompile.ops.recurrent_family import MULTIPLIED
from mccompile.ops.registry import FrontEnd
from mccompile.ops.sampling import Case, Draw


class Contrib(Quantised):
    """An expansion with quantisation at run time."""

    def quantized_dynamically(self, x: str) -> tuple[str, str, str]:
        """``x`` as u8, the scale, and the zero point, both computed at run time."""
        base = self.n.node.outputs[0]
        names = (self.fresh("bytes"), self.fresh("byte_scale"), self.fresh("byte_zero"))
        self.nodes.append(
            OnnxNode("DynamicQuantizeLinear", (x,), names, "", f"{base}.dynamic", {}, self.n.node.index)
        )
        return names

    def factors(self, product: list[str], scales: tuple[str, str], suffix: str = "") -> list[str]:
        """MatMulInteger of a, b and their zero points, as floats, and the scale of that."""
        sums = self.add("MatMulInteger", product, f"sums{suffix}")
        scale = self.add("Mul", list(scales), f"factor{suffix}")
        return [self.cast(sums, "f32", f"real{suffix}"), scale]

    def scaled_product(self, product: list[str], scales: tuple[str, str], bias: str, of: int = 0) -> None:
        """The result: MatMulInteger of a, b and their zero points, as floats, plus a bias that may be absent (""); in
        f16 where input ``of`` is that."""
        result = self.add("Mul", self.factors(product, scales), "scaled")
        self.bind_stored(0, self.add("Add", [result, bias], "biased") if bias else result, of)
        self.finish()


def _dynamic_quantize(n: Import) -> None:
    """y as u8, its scale and zero point, which follow from the extremes of x and of zero.

    Of elements that are all zero onnxruntime's scale is 1, where ONNX's function divides zero by zero.
    """
    if n.input(0).dtype.name != "f32":
        raise n.error(f"elements of {n.input(0).dtype} cannot be quantised dynamically", "float can")
    e, x, outs = Contrib(n), n.node.inputs[0], n.node.outputs
    zero, one, top = (e.constant(np.array(v, np.float32), s) for v, s in ((0, "none"), (1, "one"), (255, "top")))
    high = e.add("Max", [e.add("ReduceMax", [x], "largest", keepdims=0), zero], "high")
    low = e.add("Min", [e.add("ReduceMin", [x], "smallest", keepdims=0), zero], "low")
    span = e.add("Div", [e.add("Sub", [high, low], "span"), top], "step")
    flat = e.add("Equal", [span, zero], "flat")
    scale, point = (out or e.fresh(s) for out, s in zip([*outs[1:], "", ""], ("scale", "zero"), strict=False))
    e.last("Where", [flat, one, span], scale, f"{n.node.name}.scale")
    offset = e.add("Neg", [e.add("Div", [low, scale], "offset")], "zero_real")
    bounded = e.add("Min", [e.add("Max", [offset, zero], "not_negative"), top], "bounded")
    least = e.constant(np.array(0, np.uint8), "least")
    e.last("QuantizeLinear", [bounded, one, least], point, f"{n.node.name}.zero")
    e.last("QuantizeLinear", [x, scale, point], outs[0])
    e.finish()


def _dynamic_matmul(n: Import) -> None:
    """DynamicQuantizeMatMul: a f32, b bytes, b's scale, zero point and a bias, of each column or one."""
    e = Contrib(n)
    q, scale, zero = e.quantized_dynamically(e.name(0))
    e.scaled_product([q, e.name(1), zero, e.name(3)], (scale, e.name(2)), e.name(4))


def _integer_to_float(n: Import) -> None:
    """MatMulIntegerToFloat: a, b, their scales, their zero points, a bias."""
    if n.input(2).type.count != 1:
        raise n.error(f"a scale of a of {n.input(2).type} is not supported", "one number is")
    e = Contrib(n)
    e.scaled_product([e.name(0), e.name(1), e.name(4), e.name(5)], (e.wide(2), e.wide(3)), e.wide(6), of=2)


def unpack_bits(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """``count`` numbers of ``bits`` bits along the last axis, the lowest bits of a byte first, as int16.

    >>> unpack_bits(np.array([[0x21, 0x43]], np.uint8), 4, 3)
    array([[1, 2, 3]], dtype=int16)
    """
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return parts.reshape(*packed.shape[:-1], -1)[..., :count].astype(np.int16)


def _matmul_nbits(n: Import) -> None:
    """MatMulNBits: a [.., K] times weights stored as [N, blocks, bytes of a block], with a scale for each block."""
    columns, depth = n.required("N", int), n.required("K", int)
    bits, block = n.attr("bits", 4), n.attr("block_size", 0)
    if bits not in (2, 4, 8):
        raise n.error(f"weights of {bits} bits are not supported", "2, 4 and 8 are")
    if block < 16 or block & (block - 1):
        raise n.error(f"block_size {block} is not supported", "powers of two from 16 on are")
    if n.attr("weight_prepacked", 0):
        raise n.error("weights packed for a certain processor are not supported", "export without weight_prepacked")
    blocks = -(-depth // block)
    stored, dtype = n.const(1, "weights"), n.input(0).dtype
    if stored.dtype != np.uint8 or stored.size != columns * blocks * (block * bits // 8):
        raise n.error(f"weights {n.input(1).type} are not {columns} columns of {blocks} blocks of {block}")
    scales = n.const(2, "scales")
    if scales.size != columns * blocks:
        raise n.error(f"scales {n.input(2).type} are not {columns} columns of {blocks} blocks")
    if scales.dtype == np.float16:  # weights are made of them as floats, as sums are
        scales = scales.astype(np.float32)
    middle = 2 ** (bits - 1)
    whole = unpack_bits(stored.reshape(columns, -1), bits, blocks * block)[:, :depth].T - middle
    turned = np.ascontiguousarray(scales.reshape(columns, blocks).T)
    zeros = _zeros(n, bits, columns, blocks, middle)
    level = n.attr("accuracy_level", 0)
    if bits >= 4 and level == BYTES and _rounds(n, whole, turned, zeros):
        return
    e = Contrib(n)
    left, order, groups = e.wide(0), *_rows(n, depth, blocks)
    if order is not None:
        left = e.add("Gather", [left, e.constant(order, "order")], "ordered", axis=-1)
        whole, groups = whole[order], groups[order]
    if zeros.dtype == np.int8:
        real = _dequantized(e, whole, turned, zeros, groups)
    else:  # zero points of any size: the floats themselves
        with np.errstate(invalid="ignore"):  # zero times a scale that is infinite is no number, as in C
            floats = (whole - zeros[groups]).astype(np.float32) * turned[groups].astype(np.float32)
        real = e.constant(floats.astype(scales.dtype), "floats")
    if scales.dtype != dtype.compute.numpy:
        real = e.cast(real, dtype.compute.name, "cast_weights")
    bias = e.wide(5)
    if bias:
        e.last_stored("Add", [e.add("MatMul", [left, real], "product"), bias], "sum")
    else:
        e.last_stored("MatMul", [left, real], "product")
    e.finish()


BYTES = 4
"""The ``accuracy_level`` at which operands may be rounded to 8 bits. Those of weights of 2 bits are not, which is
nearer to what is meant than onnxruntime is where it does."""


def _rounds(n: Import, whole: np.ndarray, scales: np.ndarray, zeros: np.ndarray) -> bool:
    """Let the node be a product whose operand is rounded to 8 bits by blocks; False where onnxruntime multiplies
    floats (by zero points that are no whole numbers, and weights in another order) or where that is nearer to what is
    meant (by f16)."""
    a = n.input(0)
    if a.dtype != F32 or len(a.shape) < 2 or n.optional(4) is not None or zeros.dtype != np.int8:
        return False
    block, same = n.attr("block_size", 0), bool((zeros == zeros[0, 0]).all())
    few = n.attr("bits", 4) == 4 and len(whole) % 2 == 0
    weights = n.constant("weights", np.ascontiguousarray(whole.astype(np.int8)))
    op = MatMulQuantised(block, int(zeros[0, 0]) if same else 0, 4 if few else 8, -8 if few else 0, rounds=True)
    parameters = [n.constant("scales", scales.astype(np.float32)), None if same else n.constant("zeros", zeros)]
    operands = [a, weights, *parameters]
    if n.optional(5) is None:
        n.emit(op, operands)
    else:
        sums = n.inner(op, operands, "product")
        n.bind(0, n.map(ex.apply("add", ex.var(0, F32), ex.var(1, F32)), [sums, n.input(5)], "sum"))
    return True


def _rows(n: Import, depth: int, blocks: int) -> tuple[np.ndarray | None, np.ndarray]:
    """The order in which rows of the weights stand together with those of their block, None if they do, and the block
    of each row: g_idx, or one block after the other.

    g_idx 1 0 1 0 is the order 1 3 0 2: the left operand is taken in it, too.
    """
    block = n.attr("block_size", 0)
    if n.optional(4) is None:
        return None, np.arange(depth) // block
    groups = n.const(4, "g_idx").reshape(-1)[:depth].astype(np.int64)
    if groups.size != depth or groups.min() < 0 or groups.max() >= blocks:
        raise n.error(f"g_idx {n.input(4).type} has no block below {blocks} for each of {depth} rows")
    order = np.argsort(groups, kind="stable")
    return (None if (order == np.arange(depth)).all() else order), groups


def _dequantized(
    e: Contrib, whole: np.ndarray, scales: np.ndarray, zeros: np.ndarray, groups: np.ndarray
) -> str:
    """Numbers [K, N] with the scales and zero points [blocks, N] of the ``groups`` of their rows, as floats."""
    weights = e.constant(np.ascontiguousarray(whole.astype(np.int8)), "weights")
    if len(scales) == 1:  # a scale for each column: then the sums themselves can be scaled
        parts, how = (scales[0], zeros[0]), {"axis": 1}
    else:  # groups may be of any size
        parts, how = (scales[groups], zeros[groups]), {"axis": 0, "block_size": 1}
    scale, zero = (e.constant(np.ascontiguousarray(a), f"parameters{i}") for i, a in enumerate(parts))
    return e.add("DequantizeLinear", [weights, scale, zero], "real_weights", **how)


def _zeros(n: Import, bits: int, columns: int, blocks: int, middle: int) -> np.ndarray:
    """The zero points [blocks, N], less ``middle``: int8, or float64 where they are no such numbers.

    As bytes they are packed along the blocks, as the weights are along K.
    """
    if n.optional(3) is None:
        return np.zeros((blocks, columns), np.int8)
    stored, each = n.const(3, "zero_points"), -(-blocks * bits // 8)
    if stored.dtype.kind == "f" and stored.size == columns * blocks:
        real = stored.reshape(columns, blocks).T.astype(np.float64) - middle
        exact = (real == np.rint(real)) & (np.abs(real) < 128)
        return real.astype(np.int8) if exact.all() else real
    if stored.dtype != np.uint8 or stored.size != columns * each:
        raise n.error(f"zero points {n.input(3).type} are not supported", f"{columns * each} packed bytes are")
    return (unpack_bits(stored.reshape(columns, each), bits, blocks) - middle).astype(np.int8).T


def _reduce_mean(n: Import) -> None:
    """QLinearReduceMean: x, scale, zero; the result's scale and zero point."""
    e = Contrib(n)
    axes: tuple[int, ...] = n.attr("axes", (), int)
    inputs = [e.dequantized(0)]
    if axes:
        inputs.append(e.constant(np.array(axes, np.int64), "axes"))
    e.quantized(e.add("ReduceMean", inputs, "real", keepdims=int(n.flag("keepdims", True))), 3)
    e.finish()


_LSTM = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget")


def _lstm(n: Import) -> None:
    """DynamicQuantizeLSTM: LSTM by quantised W [directions, input, 4 hidden] and R alike.

    x is rounded to 8 bits between its extremes, as onnxruntime does. So is the state of each step there, which here
    stays a float.
    """
    e = Contrib(n)
    w, r = (_Matrices(n, i, at) for i, at in ((1, 8), (2, 10)))
    if w.bytes.shape[::2] != r.bytes.shape[::2]:
        raise n.error(f"weights {n.input(1).type} and {n.input(2).type} are not of as many directions and columns")
    q, q_scale, q_zero = e.quantized_dynamically(_until_longest(e))
    products = []
    for d, (whole, scale, zero) in enumerate(w.directions()):
        parts = [q, e.constant(whole, f"weights{d}"), q_zero, e.constant(zero, f"weights_zero{d}")]
        factors = e.factors(parts, (q_scale, e.constant(scale, f"weights_scale{d}")), str(d))
        products.append(e.reshaped(e.add("Mul", factors, f"scaled{d}"), (1, -1, whole.shape[1]), f"product{d}"))
    joined = e.add("Concat", products, "products", axis=0) if len(products) > 1 else products[0]
    inputs = [e.name(0), joined, r.dequantised(e, "recurrence"), *(e.name(i) for i in range(3, 8))]
    while not inputs[-1]:
        inputs.pop()
    attrs = {**e.given(*_LSTM), MULTIPLIED: 1}
    e.nodes.append(OnnxNode("LSTM", tuple(inputs), n.node.outputs, "", n.node.name, attrs, n.node.index))
    e.finish()


def _until_longest(e: Contrib) -> str:
    """x without what lies behind the longest of the sequences, input 4: onnxruntime does not look at that. 0 is
    between the extremes in any case."""
    if e.n.optional(4) is None:
        return e.name(0)
    longest = e.cast(e.add("ReduceMax", [e.name(4)], "longest", keepdims=0), "i64", "steps")
    before = e.add("Less", [e.counted(0, e.n.input(0).shape[0], "step"), longest], "before_end")
    parts = [e.reshaped(before, (-1, 1, 1), "read"), e.name(0), e.constant(np.array(0, np.float32), "nothing")]
    return e.add("Where", parts, "until_longest")


class _Matrices:
    """Bytes [directions, K, N], input ``i``, with scales, input ``at``, and zero points, the next one: of directions,
    or of columns."""

    def __init__(self, n: Import, i: int, at: int) -> None:
        self.bytes = n.const(i, "weights")
        self.scale, self.zero = n.const(at, "scales"), n.const(at + 1, "zero points")
        shape = self.bytes.shape
        if len(shape) != 3 or any(a.shape not in (shape[:1], shape[::2]) for a in (self.scale, self.zero)):
            raise n.error(f"scales or zero points of {n.input(i).type} are neither of directions nor of columns")

    def directions(self) -> list[tuple[Array, Array, Array]]:
        """The bytes [K, N], scales and zero points of each."""
        return list(zip(self.bytes, map(np.asarray, self.scale), map(np.asarray, self.zero), strict=True))

    def dequantised(self, e: Contrib, suffix: str) -> str:
        """[directions, N, K]: columns are rows to LSTM."""
        many, depth, width = self.bytes.shape
        turned = np.ascontiguousarray(self.bytes.swapaxes(1, 2))
        scale, zero = (
            np.broadcast_to(a.reshape(many, -1, 1), (many, width, 1)).copy() for a in (self.scale, self.zero)
        )
        parts = [e.constant(a, f"{suffix}.{s}") for a, s in ((turned, "rows"), (scale, "scale"), (zero, "zero"))]
        return e.add("DequantizeLinear", parts, suffix, axis=2, block_size=depth)


def _sample_dynamic(d: Draw) -> Case:
    low, high = d.choice([(-3, 5), (0, 4), (-7, 0), (1, 2), (0, 0)])
    return Case([d.array(d.shape(d.int(1, 3)), "f32", low, high)], outputs=3)


def _byte_matrix(d: Draw, k: int, n: int) -> list[np.ndarray | None]:
    """Weights of bytes, and the scale and zero point of each column or one."""
    dtype, many = d.choice(["u8", "i8"]), d.choice([(), (n,)])
    w = d.array((k, n), dtype, 0 if dtype == "u8" else -128, 127)
    return [w, draw_scale(d, many, 0.1), d.array(many, dtype, 0, 20) if d.bool() else None]


def _sample_dynamic_matmul(d: Draw) -> Case:
    m, k, n = d.shape(3, 1, 9)
    bias = d.array((n,)) if d.bool() else None
    return Case([d.array((m, k)), *_byte_matrix(d, k, n), bias], {}, frozenset({1, 2, 3, 4}))


def _sample_to_float(d: Draw) -> Case:
    m, k, n = d.shape(3, 1, 9)
    w, scale, zero = _byte_matrix(d, k, n)
    a = d.array((m, k), "u8", 0, 255)
    a_zero, bias = d.array((), "u8", 0, 255) if d.bool() else None, d.array((n,)) if d.bool() else None
    return Case([a, w, draw_scale(d, ()), scale, a_zero, zero, bias], {}, frozenset(range(1, 7)))


def _sample_nbits(d: Draw) -> Case:
    bits, block = d.choice([2, 4, 4, 8]), d.choice([16, 32, 64, 128, 256])
    m, k, n = d.int(1, 4), d.int(1, 5) * 16, d.int(1, 6)
    blocks = -(-k // block)
    w = d.array((n, blocks, block * bits // 8), "u8", 0, 255)
    scales = draw_scale(d, (n * blocks,), 0.1)
    zeros = d.array((n * -(-blocks * bits // 8),), "u8", 0, 255) if d.bool() else None
    if zeros is not None and bits == 4 and d.bool():
        zeros = d.array((n * blocks,), "f32", 0, 15)
    order = None
    # onnxruntime 1.31 takes other weights than the standard's with g_idx and packed zero points, or 2 bits.
    if bits == 4 and (zeros is None or zeros.dtype == np.float32) and d.bool():
        order = (np.arange(k, dtype=np.int32) // block)[:: d.choice([1, -1])]
    bias = d.array((n,)) if d.bool() else None
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": d.choice([0, 4])}
    if bits == 2:  # which onnxruntime rounds for some sizes of blocks, and we do not
        attrs["accuracy_level"] = 0
    return Case([d.array((m, k)), w, scales, zeros, order, bias], attrs, frozenset(range(1, 6)))


def _sample_lstm(d: Draw) -> Case:
    size, hidden, steps, directions = d.int(1, 5), d.int(1, 4), d.int(1, 4), d.int(1, 2)
    case: list[np.ndarray | None] = [d.array((steps, d.int(1, 2), size))]
    case += [d.array((directions, rows, 4 * hidden), "i8", -127, 127) for rows in (size, hidden)]
    case += [d.array((directions, 8 * hidden)) if d.bool() else None, None, None, None, None]
    for _ in range(2):
        scales = np.abs(d.array((directions,), "f32", 0.5, 1.0)) * np.float32(1 / 127)
        case += [scales.astype(np.float32), np.zeros(directions, np.int8)]
    attrs = {"hidden_size": hidden, "direction": "forward" if directions == 1 else "bidirectional"}
    # x and the state are rounded to 8 bits at every step there, and not here.
    return Case(case, attrs, frozenset(range(1, 12)), outputs=3)


FRONT_ENDS: tuple[FrontEnd, ...] = (
    FrontEnd("DynamicQuantizeLinear", _dynamic_quantize, _sample_dynamic, {"f32": 2e-7}),
    FrontEnd("DynamicQuantizeMatMul", _dynamic_matmul, _sample_dynamic_matmul, {"f32": 2e-6}, CONTRIB),
    FrontEnd("MatMulIntegerToFloat", _integer_to_float, _sample_to_float, {"f32": 2e-6}, CONTRIB),
    FrontEnd("MatMulNBits", _matmul_nbits, _sample_nbits, {"f32": 3e-6}, CONTRIB),
    FrontEnd("QLinearReduceMean", _reduce_mean, None, {}, CONTRIB),
    FrontEnd("DynamicQuantizeLSTM", _lstm, _sample_lstm, {"f32": 3e-2}, CONTRIB),
)
