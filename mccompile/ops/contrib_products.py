"""Products and convolutions that onnxruntime's optimiser fuses (com.microsoft), as what they were made of.

    FusedConv(x, w, b, z, activation="Relu")  is  Relu(Add(Conv(x, w, b), z))
"""

from __future__ import annotations

import numpy as np

from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ops.contrib_activations import activated
from mccompile.ops.conv import bias_epilogue, convolution
from mccompile.ops.expansion import CONTRIB, Expansion, channels_first, channels_last
from mccompile.ops.folding import WINDOW
from mccompile.ops.frontend import Import
from mccompile.ops.matmul import MatMul, as_matrices, gemm_epilogue, without_vectors
from mccompile.ops.registry import FrontEnd, compositions
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.transpose import transposed


def _turned(n: Import, i: int, matrix: bool, batch: bool) -> Value:
    """Input ``i`` with its last two axes exchanged (``matrix``), or its first axis behind the batch (``batch``)."""
    rank = len(n.input(i).shape)
    axes = list(range(rank))
    if rank < 2:
        return n.input(i)
    if batch:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if matrix:
        axes[-2:] = axes[:-3:-1]
    return transposed(n, n.input(i), tuple(axes), f"turned{i}") if axes != sorted(axes) else n.input(i)


def _product(e: Expansion, a: Value, b: Value) -> str:
    """MatMul, in the type that it is computed in."""
    vectors = len(a.shape) == 1, len(b.shape) == 1
    product = e.product(MatMul(), as_matrices(e.n, a, b), "product")
    shape = e.n.expanded[product].shape
    return e.reshaped(product, without_vectors(shape, vectors), "vector") if any(vectors) else product


def _fused_matmul(n: Import) -> None:
    """alpha * op(A) op(B), and an activation."""
    e, parts = Expansion(n), []
    for i, letter in enumerate("AB"):
        parts.append(_turned(n, i, n.flag(f"trans{letter}"), n.flag(f"transBatch{letter}")))
    product, alpha = _product(e, *parts), n.attr("alpha", 1.0)
    if alpha != 1:
        factor = e.constant(np.array(alpha, n.input(0).dtype.compute.numpy), "alpha")
        product = e.add("Mul", [product, factor], "scaled")
    e.bind_stored(0, activated(e, product, n.attr("activation", "")))
    e.finish()


def _fused_gemm(n: Import) -> None:
    e = Expansion(n)
    op = MatMul(bool(n.attr("transA", 0)), bool(n.attr("transB", 0)))
    product = e.product(op, [n.input(0), n.input(1)], "product", **gemm_epilogue(n))
    e.bind_stored(0, activated(e, product, n.attr("activation", "")))
    e.finish()


def _gemm_gelu(n: Import) -> None:
    """FastGelu(MatMul(x, w) + bias)."""
    e = Expansion(n)
    product = _product(e, n.input(0), n.input(1))
    if n.optional(2) is not None:
        product = e.add("Add", [product, e.wide(2)], "biased")
    e.last_stored("Gelu", [product], "curve", approximate="tanh")
    e.finish()


def _fused_conv(n: Import) -> None:
    """FusedConv; NhwcConv and NhwcFusedConv, whose operand and result have their channels last."""
    e, rank = Expansion(n), len(n.input(0).shape)
    last = n.op_type.startswith("Nhwc")
    x, added = n.input(0), e.wide(3)
    if last:
        first = channels_first(rank)
        x = transposed(n, x, first, "channels_first")
        added = added and e.add("Transpose", [added], "added_first", perm=first)
    view = n.altered([x, n.input(1)])
    op = convolution(view)
    n.attributes_read |= view.attributes_read
    y = e.product(op, [x, n.input(1)], "sums", **bias_epilogue(n, n.optional(2), rank))
    if added:
        y = e.add("Add", [y, added], "added")
    y = activated(e, y, n.attr("activation", ""))
    if last:
        y = e.add("Transpose", [y], "channels_last", perm=channels_last(rank))
    e.bind_stored(0, y)
    e.finish()


def _nhwc_max_pool(n: Import) -> None:
    e, rank = Expansion(n), len(n.input(0).shape)
    first = e.add("Transpose", [e.name(0)], "channels_first", perm=channels_first(rank))
    attrs = e.given("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    pooled = e.add("MaxPool", [first], "pooled", **attrs)
    e.last("Transpose", [pooled], n.node.outputs[0], perm=channels_last(rank))
    e.finish()


def _transposed_conv(n: Import) -> None:
    """ConvTranspose whose pads are an input, which has to be known."""
    e = Expansion(n)
    attrs = e.given("auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides")
    if n.optional(2) is not None:
        attrs["pads"] = n.ints(2, "pads")
    inputs = [e.name(0), e.name(1)] + ([e.name(3)] if n.optional(3) is not None else [])
    e.last("ConvTranspose", inputs, n.node.outputs[0], "", **attrs)
    e.finish()


_FP4 = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
    0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""The numbers of four bits of bitsandbytes (Dettmers et al., QLoRA, 2023)."""


def unpacked_bnb4(packed: Array, kind: int, scales: Array, block: int, count: int) -> Array:
    """``count`` numbers of 4 bits, the upper half of a byte first, times the scale of their block.

    >>> unpacked_bnb4(np.array([0x0F], np.uint8), 1, np.array([2.0], np.float32), 64, 2).tolist()
    [-2.0, 2.0]
    """
    table = np.array(_NF4 if kind else (*_FP4, *(-v for v in _FP4)), np.float32)
    codes = np.stack([packed >> 4, packed & 15], -1).reshape(-1)[:count]
    with np.errstate(invalid="ignore"):  # zero times a scale that is infinite is no number, as in C
        return table[codes] * scales.reshape(-1).astype(np.float32)[np.arange(count) // block]


def _matmul_bnb4(n: Import) -> None:
    """A times weights [N, K] of four bits, turned."""
    e, block = Expansion(n), n.required("block_size", int)
    rows, columns, kind = n.required("N", int), n.required("K", int), n.required("quant_type", int)
    packed, scales = n.const(1, "weights"), n.const(2, "absmax")
    count = rows * columns
    if kind not in (0, 1) or block < 1 or packed.size != -(-count // 2) or scales.size != -(-count // block):
        raise n.error(f"weights {n.input(1).type} and {n.input(2).type} are not {rows} x {columns} of 4 bits")
    if not n.flag("transB", True) or n.flag("training_mode"):
        raise n.error("weights that are not turned, or in training, are not supported")
    real = unpacked_bnb4(packed.reshape(-1), kind, scales, block, count).reshape(rows, columns)
    weights = e.constant(np.ascontiguousarray(real.T).astype(n.input(0).dtype.numpy), "weights")
    e.last("MatMul", [e.name(0), weights], n.node.outputs[0])
    e.finish()


# -- samples ---------------------------------------------------------------------------------------------------------
def _sample_matmul(d: Draw) -> Case:
    batch, (m, k, n) = d.shape(d.int(0, 2), 1, 3), d.shape(3, 1, 6)
    flags = {f"transBatch{letter}": 0 for letter in "AB"}
    flags |= {f"trans{letter}": d.int(0, 1) for letter in "AB"}
    if len(batch) and d.int(0, 2) == 0:
        flags |= {"transBatchA": 1, "transBatchB": 1}
    arrays = []
    for letter, shape in (("A", (m, k)), ("B", (k, n))):
        inner = shape[::-1] if flags[f"trans{letter}"] else shape
        whole = (inner[0], *batch, inner[1]) if flags[f"transBatch{letter}"] else (*batch, *inner)
        arrays.append(d.array(whole))
    return Case(arrays, {"alpha": d.choice([1.0, 0.5]), **flags}, d.choice([frozenset(), frozenset({1})]))


def _sample_transpose_matmul(d: Draw) -> Case:
    case = _sample_matmul(d)
    plain = {k: v for k, v in case.attrs.items() if not k.startswith("transBatch")}
    if case.attrs["transBatchA"]:
        m, k, n = d.shape(3, 1, 6)
        return Case([d.array((m, k)), d.array((k, n))], {"alpha": 0.5})
    return Case(case.inputs, plain, case.constant)


_ACTIVATIONS: tuple[tuple[str, dict[str, float]], ...] = (
    ("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"alpha": 0.25}),
)


def _sample_gemm(d: Draw) -> Case:
    (m, k, n), (name, params) = d.shape(3, 1, 6), d.choice(_ACTIVATIONS)
    attrs = {"transA": d.int(0, 1), "transB": d.int(0, 1), "activation": name, "alpha": d.choice([1.0, 0.5])}
    attrs |= {f"activation_{key}": value for key, value in params.items()}
    a, b = ((k, m) if attrs["transA"] else (m, k)), ((n, k) if attrs["transB"] else (k, n))
    return Case([d.array(a), d.array(b), d.array((n,))], attrs, d.choice([frozenset(), frozenset({1, 2})]))


def _sample_conv(d: Draw) -> Case:
    cin, cout, (name, params) = d.int(1, 4), d.int(1, 4), d.choice(_ACTIVATIONS)
    x = d.array((d.int(1, 2), cin, *d.shape(2, 4, 7)))
    attrs = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "activation": name}
    if params:
        attrs["activation_params"] = list(params.values())
    z = d.array((x.shape[0], cout, *x.shape[2:])) if d.bool() else None
    return Case([x, d.array((cout, cin, 3, 3)), d.array((cout,)), z], attrs, frozenset({1, 2}))


def _sample_nhwc_pool(d: Draw) -> Case:
    """Of bytes, which are all that onnxruntime has it for."""
    x = d.array((d.int(1, 2), *d.shape(2, 3, 8), d.int(1, 5)), d.choice(["u8", "i8"]), 0, 127)
    kernel = d.choice([(2, 2), (3, 2)])
    pads = (1, 1, 1, 1) if d.bool() else (0, 0, 0, 0)
    return Case([x], {"kernel_shape": kernel, "strides": (d.int(1, 2), d.int(1, 2)), "pads": pads})


def _sample_transposed(d: Draw) -> Case:
    cin, cout = d.int(1, 3), d.int(1, 3)
    x, pads = d.array((1, cin, *d.shape(2, 3, 6))), np.array([1, 1, 0, 1])
    return Case([x, d.array((cin, cout, 3, 3)), pads, d.array((cout,))], {"strides": (2, 2)}, frozenset({1, 2, 3}))


def _sample_bnb4(d: Draw) -> Case:
    m, k, n, block = d.int(1, 3), 16 * d.int(1, 3), d.int(1, 4), d.choice([16, 32])
    packed = d.array((-(-n * k // 2),), "u8", 0, 255)
    scales = np.abs(d.array((-(-n * k // block),), "f32", 0.5, 2))
    attrs = {"K": k, "N": n, "block_size": block, "quant_type": d.int(0, 1)}
    return Case([d.array((m, k)), packed, scales], attrs, frozenset({1, 2}))


_SUMS = {"f32": 4e-6, "f16": 8e-3}
FRONT_ENDS = compositions(
    FrontEnd("FusedMatMul", _fused_matmul, _sample_matmul, _SUMS, CONTRIB),
    FrontEnd("TransposeMatMul", _fused_matmul, _sample_transpose_matmul, _SUMS, CONTRIB),
    FrontEnd("FusedMatMulActivation", _fused_matmul, None, _SUMS, CONTRIB),
    FrontEnd("FusedGemm", _fused_gemm, _sample_gemm, _SUMS, CONTRIB),
    FrontEnd("GemmFastGelu", _gemm_gelu, None, _SUMS, CONTRIB),
    FrontEnd("FusedConv", _fused_conv, _sample_conv, _SUMS, CONTRIB, folding=WINDOW),
    FrontEnd("NhwcConv", _fused_conv, None, _SUMS, CONTRIB, folding=WINDOW),
    FrontEnd("NhwcFusedConv", _fused_conv, None, _SUMS, CONTRIB, folding=WINDOW),
    FrontEnd("NhwcMaxPool", _nhwc_max_pool, _sample_nhwc_pool, {}, CONTRIB, folding=WINDOW),
    FrontEnd("ConvTransposeWithDynamicPads", _transposed_conv, _sample_transposed, _SUMS, CONTRIB, folding=WINDOW),
    FrontEnd("MatMulBnb4", _matmul_bnb4, _sample_bnb4, _SUMS, CONTRIB),
)
