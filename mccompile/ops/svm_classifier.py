"""SVMClassifier: each pair of classes votes by a weighted sum of similarities to their support vectors.

Two classes with one support vector each, 1 and 5, LINEAR, coefficients 1 and -1, rho 2: at x = 0 the score of the
pair is 1 * 0 - 5 * 0 + 2, which is positive and so a vote for the first; at x = 1 it is 1 - 5 + 2 = -2, one for the
second. Without support vectors there is a linear function for each class instead.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I64
from mccompile.ops.arg_reduce import ArgReduce
from mccompile.ops.concat import Concat
from mccompile.ops.frontend import Import
from mccompile.ops.matmul import MatMul
from mccompile.ops.ml import KERNELS, similarities
from mccompile.ops.ml_common import DOMAIN, class_labels, emit_labels, floats, post_transformed, rows_of_floats
from mccompile.ops.pairwise_coupling import PairwiseCoupling, pairs
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw

_X, _Y = ex.var(0, F32), ex.var(1, F32)
_NEAREST = 1e-7
"""What a probability stays away from 0 and 1."""


def _sample(d: Draw) -> Case:
    classes, features, kernel = d.int(2, 5), d.int(1, 6), d.choice(KERNELS)
    attrs: dict[str, object] = {
        "classlabels_ints": [3 * i - 2 for i in range(classes)],
        "post_transform": d.choice(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"][: 4 if classes > 2 else 2]),
        "kernel_type": kernel,
        "kernel_params": [d.choice([0.25, 0.5]), d.choice([0.0, 1.0]), d.choice([1.0, 2.0, 3.0])],
    }
    many = [d.int(1, 3) for _ in range(classes)] if d.int(0, 3) else []
    columns = len(pairs(classes))
    if many:
        attrs["vectors_per_class"] = many
        attrs["support_vectors"] = [float(v) for v in d.array((sum(many) * features,))]
        if d.int(0, 3):
            for name in ("prob_a", "prob_b"):
                attrs[name] = [float(v) for v in d.array((columns,))]
    size = (classes - 1) * sum(many) if many else classes * features
    attrs["coefficients"] = [float(v) for v in d.array((size,))]
    attrs["rho"] = [float(v) for v in d.array((columns if many else 1,))]
    return Case([d.array((d.int(1, 4), features), d.choice(["f32", "f32", "i64"]))], attrs, outputs=2)


@onnx_op("SVMClassifier", domain=DOMAIN, sample=_sample, tolerance={"f32": 1e-4})
def import_svm_classifier(n: Import) -> None:
    """Labels and scores as onnxruntime has them, its probabilities and its two scores of a single pair included."""
    x = rows_of_floats(n)
    labels = class_labels(n, "classlabels_ints", "classlabels_strings")
    per_class = np.asarray(n.attr("vectors_per_class", ()), np.int64)
    transform = n.attr("post_transform", "NONE")
    if per_class.size:
        place, scores = _by_votes(n, x, labels.size, per_class)
    else:
        place, scores = _by_scores(n, x, labels.size)
    emit_labels(n, n.reshape(place, (x.shape[0],), "place"), labels)
    if len(n.outputs) > 1:
        both = _two_of_one(n, scores, transform) if scores.shape[1] == 1 else scores
        n.bind(1, post_transformed(n, both, transform))


def _by_scores(n: Import, x: Value, classes: int) -> tuple[Value, Value]:
    """The places of the best classes, and scores by linear functions."""
    weights, rho = floats(n, "coefficients"), floats(n, "rho")
    if weights.size != classes * x.shape[1] or rho.size < 1:
        raise n.error(f"{weights.size} coefficients and {rho.size} rho of {classes} classes of {x.shape[1]} features")
    for name in ("prob_a", "prob_b", "support_vectors"):
        if floats(n, name).size:
            raise n.error(f"attribute {name!r} without vectors_per_class")
    for name in ("kernel_type", "kernel_params"):
        n.attr(name)  # of no effect: the functions are linear
    body = ex.apply("add", ex.acc(F32), ex.num(float(rho[0])))
    matrix = n.constant("weights", weights.reshape(classes, x.shape[1]))
    scores = n.inner(MatMul(False, True), [x, matrix], "scores", post={0: body})
    best = n.inner(ArgReduce("max", 1), [scores], "best")
    return (best if classes > 2 else _second_of_two(n, scores, best, bool((weights >= 0).all()))), scores


def _second_of_two(n: Import, scores: Value, best: Value, positive: bool) -> Value:
    """The place of one of two classes: the second wherever a score is large, as onnxruntime has it."""
    largest = n.inner(Reduce("max", (1,)), [scores], "largest")
    enough = ex.apply("ge" if positive else "gt", _X, ex.num(0.5 if positive else 0.0))
    body = ex.apply("select", enough, ex.num(1, I64), ex.var(1, I64))
    return n.map(body, [largest, n.reshape(best, largest.shape, "own")], "place")


def _by_votes(n: Import, x: Value, classes: int, per_class: Array) -> tuple[Value, Value]:
    """The places of the classes with the most votes, and the scores of the pairs, or probabilities of the classes."""
    coefficients, rho, kernel = floats(n, "coefficients"), floats(n, "rho"), n.attr("kernel_type", "LINEAR")
    columns, total = pairs(classes), int(per_class.sum())
    supports = floats(n, "support_vectors")
    wanted = {"coefficients": (classes - 1) * total, "rho": len(columns), "support_vectors": total * x.shape[1]}
    for name, count in wanted.items():
        if floats(n, name).size != count:
            raise n.error(f"attribute {name!r} has {floats(n, name).size} elements instead of {count}")
    if per_class.size != classes or (per_class < 0).any() or total < 1 or kernel not in KERNELS:
        raise n.error(f"{per_class.tolist()} support vectors of kernel {kernel}", f"kernels are {KERNELS}")
    alike = similarities(n, x, supports.reshape(total, x.shape[1]), kernel)
    matrix = _pair_weights(coefficients.reshape(classes - 1, total), per_class)
    body = ex.apply("add", ex.acc(F32), _X)
    offsets = n.constant("rho", rho.reshape(1, -1))
    scores = n.inner(MatMul(), [alike, n.constant("pairs", matrix)], "scores", extras=[offsets], post={0: body})
    best = n.inner(ArgReduce("max", 1), [_votes(n, scores, classes)], "best")
    prob_a, prob_b = floats(n, "prob_a"), floats(n, "prob_b")
    if not prob_a.size:
        return best, scores
    if prob_a.size != len(columns) or prob_b.size != len(columns):
        raise n.error(f"{prob_a.size} prob_a and {prob_b.size} prob_b of {len(columns)} pairs of classes")
    return best, _probabilities(n, scores, prob_a, prob_b, classes)


def _pair_weights(coefficients: Array, per_class: Array) -> Array:
    """[support vectors, pairs]: a pair has coefficients for the vectors of its two classes, and zeros.

    Row j - 1 of the coefficients of class i, and row i of those of j, are those of the pair i, j.
    """
    columns = pairs(per_class.size)
    stops = np.cumsum(per_class)
    matrix = np.zeros((int(stops[-1]), len(columns)), np.float32)
    for column, (i, j) in enumerate(columns):
        for own, row in ((i, j - 1), (j, i)):
            vectors = slice(int(stops[own] - per_class[own]), int(stops[own]))
            matrix[vectors, column] = coefficients[row, vectors]
    return matrix


def _votes(n: Import, scores: Value, classes: int) -> Value:
    """[rows, classes]: pairs of positive scores vote for their first class, the others for their second."""
    first, second = np.zeros((2, len(pairs(classes)), classes), np.float32)
    for column, (i, j) in enumerate(pairs(classes)):
        first[column, i] = second[column, j] = 1
    won = n.map(ex.apply("select", ex.apply("gt", _X, ex.num(0.0)), ex.num(1.0), ex.num(0.0)), [scores], "won")
    body = ex.apply("add", ex.acc(F32), _X)
    lost = n.constant("all_lost", second.sum(axis=0, keepdims=True))
    return n.inner(MatMul(), [won, n.constant("voters", first - second)], "votes", extras=[lost], post={0: body})


def _probabilities(n: Import, scores: Value, prob_a: Array, prob_b: Array, classes: int) -> Value:
    """[rows, classes] from the scores of pairs, by Platt's sigmoids a * score + b."""
    turned = ex.apply("add", ex.apply("mul", _X, _Y), ex.var(2, F32))
    wins = ex.apply("sigmoid", ex.apply("neg", turned))
    inside = ex.apply("min", ex.apply("max", wins, ex.num(_NEAREST)), ex.num(1 - _NEAREST))
    slopes = [n.constant("prob_a", prob_a.reshape(1, -1)), n.constant("prob_b", prob_b.reshape(1, -1))]
    return n.inner(PairwiseCoupling(classes), [n.map(inside, [scores, *slopes], "wins")], "probabilities")


def _two_of_one(n: Import, score: Value, transform: str) -> Value:
    """Both scores of two classes: of the pair's only one. What onnxruntime gives for a softmax of them is none."""
    if transform not in ("NONE", "LOGISTIC"):
        raise n.error(f"post_transform {transform} of two classes by one score is not supported")
    return n.inner(Concat(1), [n.map(ex.apply("neg", _X), [score], "other"), score], "both")
