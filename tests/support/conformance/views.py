"""Cases of the backend suite whose inputs come as views: kernels read them with any stride, or with none. And such
whose results are columns of a larger tensor: kernels write with any stride.

    x f32[2,3] -> relu      reversed: x.whole f32[2,3] -> slice [::-1] -> x -> relu, of data that is turned before
                            one: x.whole f32[1,3] -> expand to [2,3] -> x -> relu, of the data's first row
                            joined: x -> relu -> y -> concat (y, more f32[2,1]) -> y.whole f32[2,4]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.conformance.cases import SuiteCase

KINDS = REVERSED, STRIDED, TRANSPOSED, ONE, JOINED = "reversed", "strided", "transposed", "one", "joined"

LEAST_OPSET = 13
"""Whose Slice, Expand and Transpose are used."""
SURELY, OF_HALVES = 1e-3, 2e-3
"""Sums of equal numbers that are 0 are as far off in the reference; and what it rounds to f16, relative."""

Array = np.ndarray[Any, np.dtype[Any]]


def behind(case: SuiteCase, kind: str) -> SuiteCase | None:
    """A case whose inputs, or results, are views of others; None where it has none, or (`ONE`) where no answer is
    known."""
    if kind == JOINED:
        return _joined(case)
    rng = np.random.default_rng(sum(map(ord, case.name)))
    opset = max((o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    named = dict(_tensors(case, kind)) if len(case.data) == 1 and opset >= LEAST_OPSET else {}
    if not named:
        return None
    inputs, outputs = case.data[0]
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    views, seen = [], {}
    for name, array in named.items():
        whole, view, constants = _view(name, array, kind, rng)
        model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
        info = next(v for v in model.graph.input if v.name == name)
        info.CopyFrom(helper.make_tensor_value_info(f"{name}.whole", info.type.tensor_type.elem_type, whole.shape))
        views.append(view)
        seen[name] = whole
    nodes = [*views, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    given = [seen.get(n, a) for n, a in zip(_names(case), inputs, strict=True)]
    changed = replace(case, name=f"{case.name} {kind}", model=model, data=[(given, outputs)])
    return changed if kind != ONE else _answered(changed, case, seen)


def _joined(case: SuiteCase) -> SuiteCase | None:
    """A case of whose results those with axes are the first columns of a wider tensor."""
    opset = max((o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if len(case.data) != 1 or opset < LEAST_OPSET:
        return None
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    inputs, outputs = case.data[0]
    wide = list(outputs)
    for i, (info, a) in enumerate(zip(list(model.graph.output), outputs, strict=False)):
        if not isinstance(a, np.ndarray) or a.dtype.kind not in "fiub" or not a.ndim or not a.size:
            continue
        if not info.type.HasField("tensor_type") or info.name in _names(case):
            continue
        more = np.ones((*a.shape[:-1], 1), a.dtype)
        whole, beside = f"{info.name}.whole", f"{info.name}.more"
        model.graph.initializer.append(numpy_helper.from_array(more, beside))
        model.graph.node.append(helper.make_node("Concat", [info.name, beside], [whole], axis=-1))
        wide[i] = np.concatenate([a, more], axis=-1)
        model.graph.value_info.append(info)
        type_ = info.type.tensor_type.elem_type
        model.graph.output[i].CopyFrom(helper.make_tensor_value_info(whole, type_, wide[i].shape))
    if not len(model.graph.node) > len(case.model.graph.node):
        return None
    return replace(case, name=f"{case.name} {JOINED}", model=model, data=[(inputs, wide)])


def _names(case: SuiteCase) -> list[str]:
    known = {i.name for i in case.model.graph.initializer}
    return [v.name for v in case.model.graph.input if v.name not in known]


def _tensors(case: SuiteCase, kind: str) -> Iterator[tuple[str, Array]]:
    """The inputs that become views. Whole numbers may be shapes or places, truths say what is kept, and the scales of
    a Resize how much: none of these becomes one number."""
    if kind == ONE and case.operator == "Resize":
        return
    infos = {v.name: v for v in case.model.graph.input}
    for name, a in zip(_names(case), case.data[0][0], strict=False):
        if not isinstance(a, np.ndarray) or not infos[name].type.HasField("tensor_type"):
            continue
        plain = a.dtype.kind == "f" or (a.dtype.kind in "iub" and kind != ONE)
        if plain and a.size > 1 and (a.ndim > 1 or kind != TRANSPOSED):
            yield name, a


def _view(
    name: str, array: Array, kind: str, rng: np.random.Generator
) -> tuple[Array, onnx.NodeProto, Mapping[str, Array]]:
    """What is given, the node that makes the input of it, and what that reads beside it."""
    if kind == TRANSPOSED:
        order = rng.permutation(array.ndim).tolist()
        node = helper.make_node("Transpose", [f"{name}.whole"], [name], perm=np.argsort(order).tolist())
        return np.ascontiguousarray(array.transpose(order)), node, {}
    axes = sorted(rng.choice(array.ndim, rng.integers(1, array.ndim + 1), replace=False).tolist())
    if kind == ONE:
        constants = {f"{name}.shape": np.array(array.shape)}
        node = helper.make_node("Expand", [f"{name}.whole", *constants], [name])
        first = tuple(slice(0, 1) if a in axes else slice(None) for a in range(array.ndim))
        return np.ascontiguousarray(array[first]), node, constants
    whole = array
    for a in axes:
        whole = np.flip(whole, a) if kind == REVERSED else np.repeat(whole, 2, a)
    begin, end, step = (-1, -(2**31), -1) if kind == REVERSED else (1, 2**31, 2)
    numbers = {"begin": [begin] * len(axes), "end": [end] * len(axes), "axes": axes, "step": [step] * len(axes)}
    constants = {f"{name}.{what}": np.array(n, np.int64) for what, n in numbers.items()}
    return np.ascontiguousarray(whole), helper.make_node("Slice", [f"{name}.whole", *constants], [name]), constants


def _answered(changed: SuiteCase, case: SuiteCase, seen: Mapping[str, Array]) -> SuiteCase | None:
    """A case with the answers to its inputs; None where the reference has none, or no finite one. A function that is
    written out, as a mean of squares less a squared mean, may have none of equal numbers."""
    if "_expanded" in case.name:
        return None
    names, (inputs, _) = _names(case), case.data[0]
    feeds = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    feeds |= {n: np.ascontiguousarray(np.broadcast_to(a, feeds[n].shape)) for n, a in seen.items()}
    try:
        with np.errstate(all="ignore"):
            outputs = ReferenceEvaluator(case.model).run(None, feeds)
    except Exception:  # it has no answer: nothing can be compared
        return None
    arrays = [a for a in outputs if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    if not all(np.isfinite(a).all() for a in arrays):
        return None
    rtol, atol = max(case.rtol, OF_HALVES), max(case.atol, SURELY)
    return replace(changed, data=[(changed.data[0][0], outputs)], rtol=rtol, atol=atol)
