"""The operators of ai.onnx.ml that pipelines of scalers, linear models and support vectors are made of."""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, F64, I64
from mccompile.ops.arg_reduce import ArgReduce
from mccompile.ops.extents import holds
from mccompile.ops.frontend import Import
from mccompile.ops.gather import emit_gather
from mccompile.ops.indices import index_operand
from mccompile.ops.map import Map
from mccompile.ops.matmul import MatMul
from mccompile.ops.ml_common import (
    DOMAIN,
    class_labels,
    emit_labels,
    floats,
    post_transformed,
    regressed,
    rows_of_features,
    rows_of_floats,
    scores_of_one,
)
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw

_X, _Y = ex.var(0, F32), ex.var(1, F32)


def _fitting(n: Import, name: str, given: Array, extent: int) -> Array:
    if given.size not in (1, extent):
        raise n.error(f"attribute {name!r} has {given.size} elements for {extent} features")
    return given


def _linear(n: Import, x: Value, rows: int) -> Value:
    """The scores of ``rows`` linear functions."""
    weights = floats(n, "coefficients")
    if weights.size != rows * x.shape[1]:
        raise n.error(f"{weights.size} coefficients for {rows} functions of {x.shape[1]} features")
    intercepts = floats(n, "intercepts")
    matrix = n.constant("weights", weights.reshape(rows, x.shape[1]))
    if intercepts.size == 0:
        return n.inner(MatMul(False, True), [x, matrix], "scores")
    bias = n.constant("bias", _fitting(n, "intercepts", intercepts, rows).reshape(1, -1))
    body = ex.apply("add", ex.acc(F32), _X)
    return n.inner(MatMul(False, True), [x, matrix], "scores", extras=[bias], post={0: body})


def _sample_rows(d: Draw, dtypes: tuple[str, ...] = ("f32", "f32", "i64")) -> Array:
    return d.array((d.int(1, 4), d.int(1, 9)), d.choice(dtypes))


def _sample_scaler(d: Draw) -> Case:
    x = _sample_rows(d)
    many = d.choice([1, x.shape[1]])
    given = {name: [float(v) for v in d.array((many,))] for name in ("offset", "scale")}
    return Case([x], given)


@onnx_op("Scaler", domain=DOMAIN, sample=_sample_scaler)
def import_scaler(n: Import) -> None:
    """Of f64 in f64, and rounded at the end: what is left of 1e9 + 0.5 without 1e9 f32 does not tell."""
    kind = F64 if n.input(0).dtype == F64 else F32
    x = rows_of_features(n, kind)
    offset, scale = (
        _fitting(n, name, floats(n, name), x.shape[1]).astype(kind.numpy) for name in ("offset", "scale")
    )
    body: ex.Expr = ex.apply("mul", ex.apply("sub", ex.var(0, kind), ex.var(1, kind)), ex.var(2, kind))
    body = body if kind == F32 else ex.convert(body, F32)
    constants = [n.constant("offset", offset.reshape(1, -1)), n.constant("scale", scale.reshape(1, -1))]
    scaled = n.map(body, [x, *constants], "scaled")
    n.bind(0, n.reshape(scaled, n.input(0).shape, "result"))


@onnx_op(
    "Normalizer", domain=DOMAIN,
    sample=lambda d: Case([_sample_rows(d)], {"norm": d.choice(["MAX", "L1", "L2"])}),
)  # fmt: skip
def import_normalizer(n: Import) -> None:
    """Rows whose norm is 0 stay as they are. MAX is the largest element, as onnxruntime has it."""
    x = rows_of_floats(n)
    norm = n.attr("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise n.error(f"norm {norm} is not known")
    size = {"MAX": _X, "L1": ex.apply("abs", _X), "L2": ex.apply("mul", _X, _X)}[norm]
    sizes = n.map(size, [x], "sizes")
    total = n.inner(Reduce("max" if norm == "MAX" else "sum", (1,)), [sizes], "total")
    length = ex.apply("sqrt", _Y) if norm == "L2" else _Y
    zero = ex.apply("eq", _Y, ex.num(0.0))
    body = ex.apply("div", _X, ex.apply("select", zero, ex.num(1.0), length))
    n.bind(0, n.reshape(n.map(body, [x, total], "normal"), n.input(0).shape, "result"))


def _sample_imputer(d: Draw) -> Case:
    x = d.array((d.int(1, 4), d.int(1, 9)))
    hole = d.choice([float("nan"), 0.0])
    x = np.where(d.array(x.shape, "bool"), np.float32(hole), x)
    values = [float(v) for v in d.array((d.choice([1, x.shape[1]]),))]
    return Case([x], {"imputed_value_floats": values, "replaced_value_float": hole})


@onnx_op("Imputer", domain=DOMAIN, sample=_sample_imputer)
def import_imputer(n: Import) -> None:
    x = n.input(0)
    of_floats = ("imputed_value_floats", n.attr("imputed_value_floats", ()), n.attr("replaced_value_float", 0.0))
    of_ints = ("imputed_value_int64s", n.attr("imputed_value_int64s", ()), n.attr("replaced_value_int64", 0))
    name, given, hole = of_floats if x.dtype.is_float else of_ints
    values = np.asarray(given, x.dtype.numpy).reshape(-1)
    if not x.shape:
        raise n.error("a scalar has no features")
    if not (x.dtype.is_float or holds(x.dtype, int(hole))):
        n.bind(0, x)  # no element is that number
        return
    new = n.constant("values", _fitting(n, name, values, x.shape[-1]))
    own = ex.var(0, x.dtype)
    missing = ex.apply("isnan", own) if np.isnan(hole) else ex.apply("eq", own, ex.num(hole, x.dtype))
    n.emit(Map(ex.apply("select", missing, ex.var(1, x.dtype), own)), [x, new])


@onnx_op(
    "Binarizer", domain=DOMAIN,
    sample=lambda d: Case([d.array((d.int(1, 4), d.int(1, 9)))], {"threshold": d.choice([0.0, 0.5])}),
)  # fmt: skip
def import_binarizer(n: Import) -> None:
    x = n.input(0)
    own, threshold = ex.var(0, x.dtype), n.attr("threshold", 0.0)
    if x.dtype.is_float:
        above = ex.apply("gt", own, ex.num(threshold, x.dtype))
    else:  # a whole number is above -0.5 where it is above -1; the threshold may be beyond all of them, or NaN
        low, high = x.dtype.ends
        whole = math.floor(threshold) if low <= threshold <= high else high
        test, than = ("ge", low) if threshold < low else ("gt", whole)
        above = ex.apply(test, own, ex.num(than, x.dtype))
    n.emit(Map(ex.convert(above, x.dtype)), [x])


def _sample_extractor(d: Draw) -> Case:
    shape = (d.int(1, 4), d.int(1, 9))
    dtype = d.choice(["f32", "i64"])
    return Case([d.array(shape, dtype), d.array((d.int(1, 5),), "i64", 0, shape[1] - 1)], {}, frozenset({1}))


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN, sample=_sample_extractor)
def import_array_feature_extractor(n: Import) -> None:
    """Chosen places of the last axis; a vector becomes one row, and so do all axes of the places."""
    x, places = n.input(0), n.input(1)
    if not x.shape:
        raise n.error("a scalar has no features")
    if len(x.shape) == 1:
        x = n.reshape(x, (1, *x.shape), "row")
    indices, inside = index_operand(n, 1, x.shape[-1])
    emit_gather(n, x, n.reshape(indices, (places.type.count,), "places"), len(x.shape) - 1, inside)


def _sample_regressor(d: Draw) -> Case:
    x, targets = _sample_rows(d, ("f32",)), d.int(1, 3)
    weights = [float(v) for v in d.array((targets * x.shape[1],))]
    attrs: dict[str, object] = {"coefficients": weights, "targets": targets}
    if d.bool():
        attrs["intercepts"] = [float(v) for v in d.array((targets,))]
    return Case([x], attrs)


@onnx_op("LinearRegressor", domain=DOMAIN, sample=_sample_regressor)
def import_linear_regressor(n: Import) -> None:
    scores = _linear(n, rows_of_floats(n), n.attr("targets", 1))
    n.bind(0, regressed(n, scores, n.attr("post_transform", "NONE")))


def _sample_classifier(d: Draw) -> Case:
    x, classes = _sample_rows(d), d.int(2, 4)
    attrs = {
        "coefficients": [float(v) for v in d.array((classes * x.shape[1],))],
        "intercepts": [float(v) for v in d.array((classes,))],
        "classlabels_ints": [3 * i - 2 for i in range(classes)],
        "post_transform": d.choice(["NONE", "LOGISTIC", "SOFTMAX"]),
        "multi_class": 1,
    }
    return Case([x], attrs, outputs=2)


@onnx_op("LinearClassifier", domain=DOMAIN, sample=_sample_classifier, without_effect=("multi_class",))
def import_linear_classifier(n: Import) -> None:
    """The label of the largest score, and all scores. Of two classes with one function it is the second's score, and
    decides at 0."""
    labels = class_labels(n, "classlabels_ints", "classlabels_strings")
    x, transform = rows_of_floats(n), n.attr("post_transform", "NONE")
    if labels.size == 2 and floats(n, "coefficients").size == x.shape[1]:
        score = _linear(n, x, 1)
        above = n.map(ex.convert(ex.apply("gt", _X, ex.num(0.0)), I64), [score], "above")
        emit_labels(n, n.reshape(above, (score.shape[0],), "place"), labels)
        if len(n.outputs) > 1:
            n.bind(1, scores_of_one(n, score, transform, positive=True))
        return
    scores = _linear(n, x, labels.size)
    best = n.inner(ArgReduce("max", 1), [scores], "best")
    emit_labels(n, n.reshape(best, (scores.shape[0],), "place"), labels)
    if len(n.outputs) > 1:
        n.bind(1, post_transformed(n, scores, transform))


KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _sample_svm(d: Draw) -> Case:
    x, many, kernel = _sample_rows(d, ("f32",)), d.int(1, 6), d.choice(KERNELS)
    degree = d.choice([1.0, 2.0, 3.0])
    attrs = {
        "kernel_type": kernel,
        "kernel_params": [d.choice([0.25, 0.5]), d.choice([0.0, 1.0]), degree],
        "coefficients": [float(v) for v in d.array((many,))],
        "support_vectors": [float(v) for v in d.array((many * x.shape[1],))],
        "n_supports": many,
        "rho": [0.75],
    }
    return Case([x], attrs)


@onnx_op("SVMRegressor", domain=DOMAIN, sample=_sample_svm, tolerance={"f32": 3e-5})
def import_svm_regressor(n: Import) -> None:
    """A weighted sum of similarities to the support vectors. ``one_class``: whether it is above 0, as 1 or -1."""
    x = rows_of_floats(n)
    many, kernel = n.attr("n_supports", 0), n.attr("kernel_type", "LINEAR")
    supports, one_class = floats(n, "support_vectors"), n.flag("one_class")
    if kernel not in KERNELS or many < 1 or supports.size != many * x.shape[1]:
        raise n.error(f"{many} support vectors of kernel {kernel} are not supported", f"kernels are {KERNELS}")
    alike = similarities(n, x, supports.reshape(many, x.shape[1]), kernel)
    weights = n.constant("coefficients", floats(n, "coefficients").reshape(many, 1))
    rho = n.constant("rho", floats(n, "rho").reshape(1, 1))
    body = ex.apply("add", ex.acc(F32), _X)
    score = n.inner(MatMul(), [alike, weights], "sum", extras=[rho], post={0: body})
    score = regressed(n, score, n.attr("post_transform", "NONE"), agreed=("NONE",))
    if one_class:
        above = ex.apply("gt", _X, ex.num(0.0))
        score = n.map(ex.apply("select", above, ex.num(1.0), ex.num(-1.0)), [score], "inside")
    n.bind(0, score)


def similarities(n: Import, x: Value, supports: Array, kernel: str) -> Value:
    """[rows, supports] of kernels between rows and support vectors."""
    gamma, offset, degree = (ex.num(float(p)) for p in (*floats(n, "kernel_params"), 0.0, 0.0, 0.0)[:3])
    if kernel == "RBF":
        apart = ex.apply("sub", _X, _Y)
        wide = n.reshape(x, (x.shape[0], 1, x.shape[1]), "wide")
        squares = n.map(ex.apply("mul", apart, apart), [wide, n.constant("supports", supports[None])], "squares")
        total = n.inner(Reduce("sum", (2,)), [squares], "distance")
        near = n.map(ex.apply("exp", ex.apply("neg", ex.apply("mul", gamma, _X))), [total], "near")
        return n.reshape(near, (x.shape[0], supports.shape[0]), "alike")
    product = n.inner(MatMul(False, True), [x, n.constant("supports", supports)], "products")
    if kernel == "LINEAR":
        return product
    body = ex.apply("add", ex.apply("mul", gamma, _X), offset)
    return n.map(ex.apply("tanh", body) if kernel == "SIGMOID" else ex.apply("pow", body, degree), [product], "alike")
