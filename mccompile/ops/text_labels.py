"""Labels that are text (ai.onnx.ml: LabelEncoder, CategoryMapper, OneHotEncoder): found in a table, taken from one.

    LabelEncoder(["b", "x"], keys a b, values 5 6, default 9)
      find in [a, b]: [1, -1]         gather [5, 6, 9] by it: [6, 9], as -1 is the last
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I64
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.map import Map
from mccompile.ops.ml_common import DOMAIN
from mccompile.ops.registry import onnx_op
from mccompile.ops.text import TEXT, encoded
from mccompile.ops.text_find import emit_find

NOWHERE = -2
"""The number of a category that nothing is found to be: -1 is what was not found."""
MOST_KEYS = 128
"""Keys that are compared one after the other; an ensemble of trees is the form of more."""


def text_or_numbers(n: Import, name: str) -> Array | None:
    """Keys or values of LabelEncoder, which stand in one attribute of several; of text an array of objects."""
    found = []
    for suffix, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        given = n.attr(f"{name}_{suffix}", ())
        if given:
            found.append(np.array(given, dtype))
    tensor = n.attr(f"{name}_tensor")
    if tensor is not None:
        array = np.asarray(tensor).reshape(-1)
        found.append(_texts(array) if array.dtype.kind in "OSU" else array)
    return found[0] if len(found) == 1 else None


def keys_and_values(n: Import, of_text: bool) -> tuple[Array | None, Array | None]:
    """What LabelEncoder makes of what. Its first version has classes, texts that are numbered: it makes one of the
    other, of equal ones the number of the last."""
    classes: tuple[str, ...] = n.attr("classes_strings") or ()
    if not classes:
        return text_or_numbers(n, "keys"), text_or_numbers(n, "values")
    for unused in ("default_string", "default_int64"):  # the one that is no default of the results
        n.attr(unused)
    texts, numbers = np.array(classes, dtype=object), np.arange(len(classes))
    return (texts[::-1], numbers[::-1]) if of_text else (numbers, texts)


def default_of(n: Import, values: Array) -> Any:
    """The value of what has no key."""
    given = n.attr("default_tensor")
    known = {
        "O": n.attr("default_string", "_Unused"),
        "i": n.attr("default_int64", -1),
        "f": n.attr("default_float", -0.0),
    }
    if given is not None:
        array = np.asarray(given).reshape(-1)
        return (_texts(array) if array.dtype.kind in "OSU" else array)[0]
    return known["i" if values.dtype.kind in "iu" else values.dtype.kind]


def emit_values(n: Import, found: Value, values: Array, default: Any) -> None:
    """Let output 0 be the values at places, the default where a place is -1."""
    table = np.append(values, np.array([default], values.dtype))
    if table.dtype == object:
        n.narrow_result = "string"
        table = encoded(table)
    n.emit(Gather(0), [n.constant("values", table), found])


def emit_known(n: Import, found: Value, count: int) -> Value:
    """The places as they are, where -1 is an index outside of a table: the run ends with an error there."""
    own = ex.var(0, I64)
    outside = ex.apply("select", ex.apply("lt", own, ex.num(0, I64)), ex.num(count, I64), own)
    place = n.inner(Map(outside), [found], "outside")
    return n.inner(Gather(0), [n.constant("known", np.arange(count)), place], "known")


def _texts(array: Array) -> Array:
    return np.array([s.decode() if isinstance(s, bytes) else str(s) for s in array], dtype=object)


@onnx_op("LabelEncoder", domain=TEXT, tolerance={})
def import_label_encoder(n: Import) -> None:
    keys, values = keys_and_values(n, True)
    if keys is None or values is None or keys.dtype != object or len(keys) != len(values):
        raise n.error("LabelEncoder of text needs keys that are text, and a value for each")
    found, numbers = emit_find(n, n.input(0), keys, "keys")
    first = dict(reversed(list(zip(keys, values, strict=True))))
    ordered = np.array([first[text] for text in numbers], values.dtype)
    emit_values(n, found, ordered, default_of(n, values))


def _categories(n: Import) -> tuple[Sequence[str], Array]:
    texts: tuple[str, ...] = n.attr("cats_strings") or ()
    numbers = np.array(n.attr("cats_int64s", ()), np.int64)
    if not texts or len(texts) != len(numbers):
        raise n.error("categories need a text and a number each")
    return texts, numbers


@onnx_op("CategoryMapper", domain=TEXT, tolerance={})
def import_category_of_text(n: Import) -> None:
    texts, numbers = _categories(n)
    n.attr("default_string", "")
    found, order = emit_find(n, n.input(0), texts, "texts")
    last = dict(zip(texts, numbers.tolist(), strict=True))  # of equal ones, as in onnxruntime
    emit_values(n, found, np.array([last[t] for t in order], np.int64), n.attr("default_int64", -1))


@onnx_op("CategoryMapper", domain=DOMAIN, tolerance={})
def import_text_of_category(n: Import) -> None:
    x = n.input(0)
    texts, numbers = _categories(n)
    n.attr("default_int64", -1)
    if x.dtype != I64:
        raise n.error(f"categories of {x.type} are not supported", "text and int64 are")
    last = dict(zip(numbers.tolist(), texts, strict=True))  # of equal ones, as in onnxruntime
    found = places(n, x, np.array(list(last), np.int64))
    emit_values(n, found, np.array(list(last.values()), dtype=object), n.attr("default_string", "_Unused"))


def require_few(n: Import, keys: int) -> None:
    """An error where more keys are compared one after the other than an expression takes."""
    if keys > MOST_KEYS:
        raise n.error(f"{n.node.op_type} of {keys} keys is not supported", f"up to {MOST_KEYS} are")


def places(n: Import, x: Value, keys: Array) -> Value:
    """Which of the keys, numbers of its type, each element is; -1 if none."""
    own = ex.var(0, x.dtype)
    if x.dtype == I64 and np.array_equal(keys, np.arange(len(keys))):  # numbers of classes are places themselves
        below = ex.apply("lt", own, ex.num(len(keys), I64))
        kept = ex.apply("select", below, ex.apply("max", own, ex.num(-1, I64)), ex.num(-1, I64))
        return n.inner(Map(kept), [x], "places")
    require_few(n, len(keys))
    body: ex.Expr = ex.num(-1, I64)
    for place, key in reversed(list(enumerate(keys.tolist()))):
        same = ex.apply("isnan", own) if key != key else ex.apply("eq", own, ex.num(key, x.dtype))
        body = ex.apply("select", same, ex.num(place, I64), body)
    return n.inner(Map(body), [x], "places")


@onnx_op("OneHotEncoder", domain=TEXT, tolerance={})
def import_one_hot_of_text(n: Import) -> None:
    """A new last axis: 1 at the place of the category that a text is."""
    cats: tuple[str, ...] = n.attr("cats_strings") or ()
    if not cats:
        raise n.error("categories that are text are needed")
    found, numbers = emit_find(n, n.input(0), cats, "found")
    emit_one_hot(n, found, cats, numbers)


def emit_one_hot(n: Import, found: Value, cats: Sequence[Any], numbers: Mapping[Any, int]) -> None:
    """Let output 0 be 1 at the place of the category whose number was found, at the last of equal ones, as in
    onnxruntime."""
    if not n.flag("zeros", True):
        found = emit_known(n, found, len(numbers))
    last = {c: place for place, c in enumerate(cats)}
    order = np.array([numbers[c] if last[c] == place else NOWHERE for place, c in enumerate(cats)], np.int64)
    column = n.reshape(found, (*found.shape, 1), "column")
    same = ex.convert(ex.apply("eq", ex.var(0, I64), ex.var(1, I64)), F32)
    n.emit(Map(same), [column, n.constant("categories", order)])
