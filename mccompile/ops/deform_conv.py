"""DeformConv: a convolution whose taps read at computed places (Dai et al., Deformable Convolutional Networks, 2017).

    DeformConv(x[N, C, H, W], w[M, C, h, w], offset[N, 2 h w, P, Q], bias, mask)
        is  a sample of x at (its usual place + offset) for each of h w taps and P Q results: [N, C, h w, P Q]
            times the mask, if there is one
            convolved with w as [M, C, h w, 1]: [N, M, 1, P Q]

With several groups of offsets a group's channels are a sample of the batch of their own.
"""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import require_same, varies
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ops.conv import Conv
from mccompile.ops.folding import WINDOW
from mccompile.ops.frontend import Import
from mccompile.ops.grid_sample import GridSample
from mccompile.ops.map import Map
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.ops.window import Window, read_window


def usual_places(window: Window, spatial: tuple[int, ...]) -> Array:
    """[taps, results, axes]: the coordinates, in pixels, of taps of a convolution, that of the last axis first.

    >>> usual_places(Window((2,), (1,), (1,), (1, 0)), (3,))[..., 0].tolist()  # taps by results, padded before
    [[-1, 0, 1], [0, 1, 2]]
    """
    rank, out = len(spatial), window.output(spatial)
    found = np.zeros((math.prod(window.kernel), math.prod(out), rank), np.int64)
    for t, tap in enumerate(np.ndindex(*window.kernel)):
        for r, result in enumerate(np.ndindex(*out)):
            for a in range(rank):
                at = result[a] * window.strides[a] + tap[a] * window.dilations[a] - window.pads[a]
                found[t, r, rank - 1 - a] = at
    return found


def _sample(d: Draw) -> Case:
    groups, offsets, each = d.choice([1, 1, 2]), d.choice([1, 1, 2]), d.int(1, 2)
    channels, out = 2 * each, groups * d.int(1, 3)
    kernel, image = d.shape(2, 1, 3), d.shape(2, 5, 7)
    window = Window(kernel, d.shape(2, 1, 2), d.shape(2, 1, 2), d.shape(4, 0, 2))
    taps, places = math.prod(kernel), window.output(image)
    batch = d.int(1, 2)
    attrs = {
        "strides": window.strides, "dilations": window.dilations, "pads": window.pads, "group": groups,
        "offset_group": offsets, "kernel_shape": kernel,
    }  # fmt: skip
    arrays = [d.array((batch, channels, *image)), d.array((out, channels // groups, *kernel))]
    arrays.append(d.array((batch, offsets * taps * 2, *places)))
    bias = d.array((out,)) if d.bool() else None
    mask = d.array((batch, offsets * taps, *places)) if d.bool() else None
    return Case([*arrays, bias, mask], attrs, d.choice([frozenset(), frozenset({1, 3})]))


@onnx_op("DeformConv", sample=_sample, tolerance={"f32": 2e-5, "f16": 8e-3}, folding=WINDOW)
def import_deform_conv(n: Import) -> None:
    x, w, offset = n.input(0), n.input(1), n.input(2)
    kernel = n.attr("kernel_shape", w.shape[2:])
    if kernel != w.shape[2:] or not 3 <= len(x.shape) == len(w.shape):
        raise n.error(f"kernel_shape {list(kernel)} or weights {w.type} do not fit {x.type}")
    window = read_window(n, kernel, has_auto_pad=False)
    groups, parts = n.attr("group", 1), n.attr("offset_group", 1)
    batch, channels, *spatial = x.shape
    if varies(spatial):
        raise n.error(
            "DeformConv is not supported where the image's extents are known at run time only",
            "give each dim that they depend on one number: --dim NAME=N",
        )
    rank, out = len(spatial), window.output(tuple(spatial))
    taps, results = math.prod(kernel), math.prod(out)
    if parts < 1 or channels % parts or not require_same(offset.shape, (batch, parts * taps * rank, *out)):
        raise n.error(f"offsets {offset.type} do not fit {parts} groups of {taps} taps at {list(out)} places")
    # [taps, results] has the channels last as the convolution wants them; of other ranks it is a line of points.
    at = (taps, results) if rank == 2 else (taps * results, *(1,) * (rank - 1))
    places = n.reshape(_places(n, window, batch * parts), (batch * parts, *at, rank), "at")
    image = n.reshape(x, (batch * parts, channels // parts, *spatial), "image")
    sampled = n.inner(GridSample("linear", "zeros", "pixels"), [image, places], "sampled")
    columns = n.reshape(sampled, (batch, channels, taps, results), "columns")
    if n.optional(4) is not None:
        columns = _masked(n, columns, parts)
    weights = n.reshape(w, (w.shape[0], w.shape[1], taps, 1), "weights")
    product = Conv((1, 1), (0, 0, 0, 0), (1, 1), groups)
    bias, dtype = n.optional(3), x.dtype
    extras = [] if bias is None else [n.reshape(bias, (bias.type.count, 1, 1), "bias")]
    post = {0: ex.apply("add", ex.acc(dtype), ex.var(0, dtype))} if extras else {}
    summed = n.inner(product, [columns, weights], "sums", extras=extras, post=post)
    n.bind(0, n.reshape(summed, (batch, w.shape[0], *out), "image_out"))


def _places(n: Import, window: Window, batch: int) -> Value:
    """[batch, taps, results, axes]: where taps read, the coordinate of the last axis first."""
    offset, spatial = n.input(2), n.input(0).shape[2:]
    rank = len(spatial)
    taps, results = math.prod(window.kernel), math.prod(window.output(spatial))
    by_axis = n.reshape(offset, (batch, taps, rank, results), "offsets")
    last = n.inner(Transpose((0, 1, 3, 2)), [by_axis], "pairs")
    shape = (batch, taps, results, rank)
    turned = n.inner(Slice((0, 0, 0, rank - 1), (1, 1, 1, -1), shape), [last], "turned") if rank > 1 else last
    usual = usual_places(window, spatial).astype(offset.dtype.compute.numpy)
    dtype = offset.dtype.compute
    body = ex.apply("add", ex.var(0, dtype), ex.var(1, dtype))
    return n.inner(Map(body), [turned, n.constant("usual", usual[None])], "places")


def _masked(n: Import, columns: Value, parts: int) -> Value:
    """Columns [batch, channels, taps, results] times the mask of their group of offsets."""
    batch, channels, taps, results = columns.shape
    mask = n.input(4)
    if mask.type.count != batch * parts * taps * results:
        raise n.error(f"a mask {mask.type} does not fit {parts} groups of {taps} taps at {results} places")
    x, m = ex.var(0, columns.dtype.compute), ex.var(1, mask.dtype.compute)
    body = Map(ex.apply("mul", x, m), "f16" if columns.dtype.name == "f16" else "")
    apart = n.reshape(columns, (batch, parts, channels // parts, taps, results), "apart")
    factors = n.reshape(mask, (batch, parts, 1, taps, results), "factors")
    return n.reshape(n.inner(body, [apart, factors], "masked"), columns.shape, "weighed")
