"""Codes of categories that are numbers (ai.onnx.ml: LabelEncoder, OneHotEncoder, FeatureVectorizer); those of text
are in `text_labels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.types import F32, I64, dtype_of
from mccompile.ops.expansion import Expansion
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.ml_common import DOMAIN
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.text_labels import default_of, emit_one_hot, emit_values, keys_and_values, places, require_few


def _sample_label_encoder(d: Draw) -> Case:
    key, value = d.choice(["int64s", "floats"]), d.choice(["int64s", "floats"])
    many = d.int(1, 6)

    def numbers(kind: str) -> list[Any]:
        return [3 * i - 4 for i in range(many)] if kind == "int64s" else [i / 2 - 1 for i in range(many)]

    attrs: dict[str, Any] = {f"keys_{key}": numbers(key), f"values_{value}": numbers(value)[::-1]}
    attrs |= {"default_int64": 77} if value == "int64s" else {"default_float": 7.5}
    x = np.asarray([*numbers(key), 99])[d.array((d.int(1, 3), d.int(1, 5)), "i64", 0, many)]
    return Case([x.astype(np.int64 if key == "int64s" else np.float32)], attrs)


@onnx_op("LabelEncoder", domain=DOMAIN, sample=_sample_label_encoder, tolerance={})
def import_label_encoder(n: Import) -> None:
    """The value of the key that an element is; NaN is a key as others are."""
    (keys, values), x = keys_and_values(n, False), n.input(0)
    if keys is None or values is None or len(keys) != len(values) or keys.dtype != x.dtype.numpy:
        raise n.error(f"LabelEncoder of {x.type} by such keys and values", "it takes keys of the element's type")
    default = default_of(n, values)
    if values.dtype == object:
        emit_values(n, places(n, x, keys), values, default)
        return
    require_few(n, len(keys))
    dtype, own = dtype_of(values), ex.var(0, x.dtype)
    body: ex.Expr = ex.num(default, dtype)
    for key, value in zip(keys[::-1].tolist(), values[::-1].tolist(), strict=True):
        is_key = ex.apply("isnan", own) if key != key else ex.apply("eq", own, ex.num(key, x.dtype))
        body = ex.apply("select", is_key, ex.num(value, dtype), body)
    n.emit(Map(body), [x])


def _sample_one_hot(d: Draw) -> Case:
    cats = [2 * i - 1 for i in range(d.int(1, 5))]
    x = d.array((d.int(1, 4), d.int(1, 3)), d.choice(["i64", "f32"]), -2, 9)
    return Case([np.rint(x).astype(x.dtype)], {"cats_int64s": cats, "zeros": 1})


@onnx_op("OneHotEncoder", domain=DOMAIN, sample=_sample_one_hot, tolerance={})
def import_one_hot_encoder(n: Import) -> None:
    """A new last axis: 1 at the place of the category that an element is."""
    x, cats = n.input(0), np.asarray(n.attr("cats_int64s", ()), np.int64)
    if n.attr("cats_strings", ()) or not cats.size:
        raise n.error("categories that are text are not supported", "all categories are to be of the element's type")
    given: ex.Expr = ex.var(0, x.dtype.compute)
    own = given if x.dtype == I64 else ex.convert(given, I64)
    if x.dtype.is_float:  # as no category is NaN
        own = ex.apply("select", ex.apply("isnan", given), ex.num(I64.ends[0], I64), own)
    distinct = {c: i for i, c in enumerate(dict.fromkeys(cats.tolist()))}
    if not n.flag("zeros", True) or len(distinct) < cats.size:
        whole = x if x.dtype == I64 else n.inner(Map(own), [x], "whole")
        emit_one_hot(n, places(n, whole, np.array(list(distinct), np.int64)), cats.tolist(), distinct)
        return
    body = ex.convert(ex.apply("eq", own, ex.var(1, I64)), F32)
    n.emit(Map(body), [n.reshape(x, (*x.shape, 1), "column"), n.constant("categories", cats)])


def _sample_vectorizer(d: Draw) -> Case:
    rows = d.int(1, 3)
    arrays = [d.array((rows, d.int(1, 4))) for _ in range(d.int(1, 3))]
    return Case(arrays, {"inputdimensions": [a.shape[1] for a in arrays]})


@onnx_op("FeatureVectorizer", domain=DOMAIN, sample=_sample_vectorizer, tolerance={}, composed=True)
def import_feature_vectorizer(n: Import) -> None:
    """The inputs as floats, side by side."""
    e, widths = Expansion(n), n.attr("inputdimensions", ())
    parts = []
    for i in range(len(n.inputs)):
        value = n.input(i)
        width = value.shape[-1] if value.shape else 1
        if len(value.shape) > 2 or (widths and (len(widths) != len(n.inputs) or widths[i] != width)):
            raise n.error(f"inputdimensions {list(widths)} do not fit input {i}, {value.type}")
        part = e.name(i) if value.dtype == F32 else e.cast(e.name(i), "f32", f"floats{i}")
        parts.append(e.reshaped(part, [value.type.count // max(width, 1), width], f"rows{i}"))
    e.last("Concat", parts, n.node.outputs[0], axis=1)
    e.finish()
