"""MaxUnpool: elements at the places that MaxPool found them at, zeros between them.

    MaxUnpool(x, places)  is  Reshape(ScatterElements(zeros, Reshape(places), Reshape(x)))
"""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir.dims import span
from mccompile.ops.expansion import Expansion
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def _sample(d: Draw) -> Case:
    x = d.array((d.int(1, 2), d.int(1, 3), *d.shape(2, 1, 4)))
    attrs = {"kernel_shape": (2, 2), "strides": (2, 2)}
    shape = np.array([*x.shape[:2], *(2 * e + d.int(0, 1) for e in x.shape[2:])])
    count = math.prod(shape.tolist()) if d.bool() else 4 * x.size
    places = np.sort(np.array(d.permutation(count)[: x.size])).reshape(x.shape).astype(np.int64)
    return Case([x, places, shape if count != 4 * x.size else None], attrs, frozenset({2}))


@onnx_op("MaxUnpool", sample=_sample, tolerance={}, composed=True)
def import_max_unpool(n: Import) -> None:
    x, e = n.input(0), Expansion(n)
    kernel = n.required("kernel_shape", tuple)
    rank = len(kernel)
    strides, pads = n.attr("strides", (1,) * rank), n.attr("pads", (0,) * (2 * rank))
    if len(x.shape) != 2 + rank or len(strides) != rank or len(pads) != 2 * rank:
        raise n.error(f"kernel_shape, strides or pads do not fit {x.type}")
    if n.optional(2) is not None:
        shape = n.ints(2, "output_shape")
    else:
        extents = zip(x.shape[2:], kernel, strides, pads[:rank], pads[rank:], strict=True)
        shape = (*x.shape[:2], *((i - 1) * s + k - lo - hi for i, k, s, lo, hi in extents))
    if len(shape) != 2 + rank or any(span(e)[0] < 1 for e in shape[2:]):
        raise n.error(f"a result of shape {list(shape)} does not fit {x.type}")
    total = math.prod(shape)
    zeros = e.add("ConstantOfShape", [e.ints([total], "count")], "zeros", value=np.zeros(1, x.dtype.numpy))
    flat = [e.reshaped(e.name(i), [x.type.count], f"flat{i}") for i in (1, 0)]
    placed = e.add("ScatterElements", [zeros, *flat], "placed", axis=0)
    e.bind(0, e.reshaped(placed, shape, "shaped"))
    e.finish()
