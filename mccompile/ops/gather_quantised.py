"""GatherBlockQuantized of com.microsoft: rows of a table of whole numbers, with a scale for each block of a row, as
onnxruntime's quantiser writes embeddings.

Worked example: of the table [[1, 2, 3, 4]], zero point 0, scales [[10, 100]] of blocks of two, row 0 is 10, 20, 300,
400: the numbers, [1, 2, 2] by blocks, times their scales [1, 2, 1]. What lies in the table stays bytes.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir.scalar import Array
from mccompile.ops.expansion import CONTRIB, Expansion
from mccompile.ops.frontend import Import
from mccompile.ops.quantized_contrib import unpack_bits
from mccompile.ops.registry import FrontEnd
from mccompile.ops.sampling import Case, Draw


def _gather_blocks(n: Import) -> None:
    """(data - zero) * scale at the indices. Of bytes that hold several numbers the zero point is the middle of these
    unless it is given, of others 0."""
    block, bits = n.attr("block_size", 128), n.attr("bits", 4)
    stored, scales = n.const(0, "data"), n.const(2, "scales")
    rank = stored.ndim
    at, along = n.axis(n.attr("gather_axis", 0), rank), n.axis(n.attr("quantize_axis", 1), rank)
    if bits not in (2, 4, 8) or block < 1:
        raise n.error(f"blocks of {block} numbers of {bits} bits are not supported", "2, 4 and 8 bits are")
    in_bytes = stored.dtype == np.uint8 and not n.narrow(0)
    whole = _numbers(stored, bits, in_bytes)
    wanted = tuple(-(-e // block) if a == along else e for a, e in enumerate(whole.shape))
    if scales.shape != wanted:
        raise n.error(f"scales {n.input(2).type} of {list(whole.shape)} numbers in blocks of {block}")
    zeros = np.full(wanted, 2 ** (bits - 1) if in_bytes else 0, np.int16)
    if n.optional(3) is not None:
        zeros = _numbers(n.const(3, "zero points"), bits, in_bytes)[..., : wanted[-1]]
        if zeros.shape != wanted:
            raise n.error(f"zero points {n.input(3).type} do not fit scales {n.input(2).type}")
    _emit(n, whole, scales, zeros, at, along, block)


def _numbers(stored: Array, bits: int, in_bytes: bool) -> Array:
    """The whole numbers of an array, which lie several in a byte."""
    if in_bytes and bits < 8:
        return unpack_bits(stored, bits, stored.shape[-1] * (8 // bits))
    return np.asarray(stored, np.int16)


def _emit(n: Import, whole: Array, scales: Array, zeros: Array, at: int, along: int, block: int) -> None:
    e, rank, out = Expansion(n), len(n.input(1).shape), n.node.outputs[0]
    size = whole.shape[along]
    if at == along or size % block:  # blocks are no axis of what is gathered: the table is made floats
        groups = np.arange(size) // block
        with np.errstate(over="ignore", invalid="ignore"):  # huge and infinite scales make what C makes of them
            steps = (whole - zeros.take(groups, along)).astype(np.float32)
            floats = (steps * scales.take(groups, along).astype(np.float32)).astype(scales.dtype)
        e.last("Gather", [e.constant(floats, "floats"), e.name(1)], out, axis=at)
        e.finish()
        return
    signed = bool(whole.min(initial=0) < 0 or zeros.min(initial=0) < 0)
    kind = np.int8 if signed else np.uint8
    place = along if along < at else along + rank - 1
    shape = (*whole.shape[:at], *n.input(1).shape, *whole.shape[at + 1 :])

    def taken(table: Array, name: str) -> str:
        """What lies at the indices, with an axis for the blocks and one for what is in a block."""
        found = e.add("Gather", [e.constant(table, name), e.name(1)], f"{name}.taken", axis=at)
        inside = table.shape[along] * block // size
        by_blocks = (*shape[:place], size // block, inside, *shape[place + 1 :])
        return e.reshaped(found, by_blocks, f"{name}.blocks")

    dtype = "f16" if scales.dtype == np.float16 else "f32"
    numbers = e.cast(taken(whole.astype(kind), "table"), dtype, "numbers")
    if zeros.any():
        numbers = e.add("Sub", [numbers, e.cast(taken(zeros.astype(kind), "zeros"), dtype, "zero")], "moved")
    product = e.add("Mul", [numbers, taken(scales, "scales")], "product")
    e.last("Reshape", [product, e.ints(shape, "shape")], out)
    e.finish()


def _sample(d: Draw) -> Case:
    bits, block, rows, count = d.choice([4, 8]), d.choice([16, 32]), d.int(1, 6), d.int(1, 4) * 16
    blocks = -(-count // block)
    data = d.array((rows, count * bits // 8), "u8", 0, 255)
    zeros = d.array((rows, -(-blocks * bits // 8)), "u8", 0, 255) if d.bool() else None
    indices = d.array(d.shape(d.int(0, 2), 1, 3), d.choice(["i32", "i64"]), 0, rows - 1)
    attrs = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    return Case([data, indices, d.array((rows, blocks)), zeros], attrs, frozenset({0, 2, 3}))


FRONT_ENDS: tuple[FrontEnd, ...] = (
    FrontEnd("GatherBlockQuantized", _gather_blocks, _sample, {"f32": 1e-6}, CONTRIB),
)
