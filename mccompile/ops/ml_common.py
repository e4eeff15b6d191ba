"""What the operators of ai.onnx.ml share: rows of floats, transformed scores, labels of classes."""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, DType
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.reduce import Reduce
from mccompile.ops.softmax import Softmax

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""What may become of scores, as TreeEnsemble numbers it."""
_X, _Y = ex.var(0, F32), ex.var(1, F32)


def floats(n: Import, name: str) -> Array:
    """An attribute that is a list of floats; none if it is absent."""
    return np.asarray(n.attr(name, ()), np.float32).reshape(-1)


def rows_of_floats(n: Import) -> Value:
    """Input 0 in f32, as rows of features."""
    return rows_of_features(n, F32)


def rows_of_features(n: Import, kind: DType) -> Value:
    """Input 0 in a type, as rows of features."""
    x = n.input(0)
    if not 1 <= len(x.shape) <= 2:
        raise n.error(f"{x.type} has no rows of features")
    if x.dtype != kind:
        x = n.map(ex.convert(ex.var(0, x.dtype.compute), kind), [x], "floats")
    return n.reshape(x, (1, *x.shape), "row") if len(x.shape) == 1 else x


def post_transformed(n: Import, scores: Value, transform: str) -> Value:
    """Scores [N, C] as ``post_transform`` wants them."""
    match transform:
        case "NONE":
            return scores
        case "LOGISTIC":
            return n.map(ex.apply("sigmoid", _X), [scores], "logistic")
        case "SOFTMAX":
            return n.inner(Softmax(len(scores.shape) - 1), [scores], "softmax")
        case "SOFTMAX_ZERO":
            return _softmax_zero(n, scores)
        case "PROBIT":
            return n.map(_probit(_X), [scores], "probit")
    raise n.error(f"post_transform {transform} is unknown")


def regressed(n: Import, scores: Value, transform: str, agreed: tuple[str, ...] = ("NONE", "PROBIT")) -> Value:
    """Scores of a regressor as ``post_transform`` wants them, unless they are of one target and onnxruntime does not
    agree."""
    if scores.shape[1] == 1 and transform not in agreed:
        raise n.error(
            f"post_transform {transform} of one target: onnxruntime leaves it out, ONNX does not",
            "leave it out, and add a Sigmoid where it is meant",
        )
    return post_transformed(n, scores, transform)


def _softmax_zero(n: Import, scores: Value) -> Value:
    """A softmax of those scores that are not zero, beside which zeros stay."""
    largest = n.inner(Reduce("max", (1,)), [scores], "largest")
    present = ex.apply("gt", ex.apply("abs", _X), ex.num(1e-7))
    power = ex.apply("exp", ex.apply("sub", _X, _Y))
    powers = n.map(ex.apply("select", present, power, ex.num(0.0)), [scores, largest], "powers")
    total = n.inner(Reduce("sum", (1,)), [powers], "total")
    empty = ex.apply("eq", _Y, ex.num(0.0))
    body = ex.apply("div", _X, ex.apply("select", empty, ex.num(1.0), _Y))
    return n.map(body, [powers, total], "softmax_zero")


def _probit(x: ex.Expr) -> ex.Expr:
    """The quantile of the normal distribution, by Winitzki's inverse of the error function, as onnxruntime has it."""
    twice = ex.apply("sub", ex.apply("mul", ex.num(2.0), x), ex.num(1.0))
    one = ex.num(1.0)
    log = ex.apply("log", ex.apply("mul", ex.apply("sub", one, twice), ex.apply("add", one, twice)))
    v = ex.apply("add", ex.num(2 / (3.14159 * 0.147)), ex.apply("mul", ex.num(0.5), log))
    rest = ex.apply("sub", ex.apply("mul", v, v), ex.apply("mul", ex.num(1 / 0.147), log))
    size = ex.apply("sqrt", ex.apply("sub", ex.apply("sqrt", rest), v))
    below = ex.apply("lt", twice, ex.num(0.0))
    signed = ex.apply("select", below, ex.apply("neg", size), size)
    return ex.apply("mul", ex.num(1.41421356), signed)


def class_labels(n: Import, ints: str, strings: str) -> Array:
    """The labels of classes. Text has no type here: such labels are numbers of the list."""
    given, text = n.attr(ints, ()), n.attr(strings, ())
    if bool(given) == bool(text) or len(given or text) < 2:
        raise n.error(f"{len(given or text)} labels of classes, or two lists of them", "at least two are needed")
    return np.arange(len(text)) if text else np.asarray(given, np.int64)


def emit_labels(n: Import, place: Value, labels: Array) -> None:
    """Let output 0 be the labels at i64 places [N]."""
    if not np.array_equal(labels, np.arange(labels.size)):
        place = n.inner(Gather(0), [n.constant("labels", labels), place], "label")
    n.bind(0, place)


def scores_of_one(n: Import, score: Value, transform: str, positive: bool) -> Value:
    """[N, 2]: the scores of two classes by that of the second, [N, 1], as onnxruntime has them. The first has what is
    left to 1, or where ``positive`` is not so the negative."""
    if transform == "LOGISTIC":
        return pair(n, ex.apply("sigmoid", ex.apply("neg", _X)), ex.apply("sigmoid", _X), score)
    if transform not in ("NONE", "SOFTMAX", "SOFTMAX_ZERO"):  # of one score there is no softmax
        raise n.error(f"post_transform {transform} of two classes by one score is not supported")
    return pair(n, ex.apply("sub", ex.num(1.0), _X) if positive else ex.apply("neg", _X), _X, score)


def pair(n: Import, first: ex.Expr, second: ex.Expr, score: Value) -> Value:
    """[N, 2]: two expressions of a score [N, 1], of which a mask chooses."""
    mask = n.constant("second", np.array([[0.0, 1.0]], np.float32))
    body = ex.apply("select", ex.apply("gt", ex.var(1, F32), ex.num(0.0)), second, first)
    return n.map(body, [score, mask], "pair")
