"""Text: joined, split, matched, looked up, moved, encoded, and labels of classifiers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support.compose.definite import Refused
from tests.support.fuzz.family import FamilyComposer

WORDS = (
    "",
    "a",
    "b",
    "ab",
    "a b",
    " a",
    "x,y",
    "1",
    "-2",
    "3.5",
    "Stop",
    "stop",
    "é",
    "日本",
    "Ä",
    "a,b,,c",
    "1234567",
)
ML = "ai.onnx.ml"


def _fresh(c: FamilyComposer, shape: tuple[int, ...], words: tuple[str, ...] = WORDS) -> str:
    array = np.array([c.d.choice(words) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    return c.fresh(array) if c.chance(70) else c.constant(array)


def _some(c: FamilyComposer) -> str:
    found = [n for n in c.pool if c.array(n).dtype.kind == "O" and c.array(n).size]
    return c.d.choice(found) if found and c.chance(75) else _fresh(c, c.d.shape(c.d.int(1, 2), 1, 4))


def _joined(c: FamilyComposer) -> list[str]:
    v = _some(c)
    other = _fresh(c, c.d.broadcastable(c.array(v).shape)) if c.d.bool() else v
    return c.apply("StringConcat", [v, other] if c.d.bool() else [other, v])


def _normalised(c: FamilyComposer) -> list[str]:
    v = _fresh(c, c.d.choice([(c.d.int(1, 4),), (1, c.d.int(1, 4))]))
    attrs: dict[str, object] = {"case_change_action": c.d.choice(["LOWER", "UPPER", "NONE"])}
    if c.d.bool():
        attrs |= {"stopwords": ["stop", "a"], "is_case_sensitive": c.d.int(0, 1)}
    return c.apply("StringNormalizer", [v], **attrs)


def _split(c: FamilyComposer) -> list[str]:
    attrs = {"delimiter": c.d.choice([",", " ", "b"])} if c.d.bool() else {}
    if c.d.bool():
        attrs["maxsplit"] = c.d.choice([1, 2])
    v = _some(c)
    if "delimiter" in attrs and (c.array(v) == "").any():
        raise Refused("onnxruntime splits no text into nothing, the standard's reference into one of no text")
    return c.apply("StringSplit", [v], outputs=2, **attrs)


def _matched(c: FamilyComposer) -> list[str]:
    pattern = c.d.choice([r"[a-z]+", r"a.*", r"(a|b)*", r"\d+", r".*,.*", r"", r"[^ ]{1,3}", r"..?"])
    return c.apply("RegexFullMatch", [_some(c)], pattern=pattern)


def _looked_up(c: FamilyComposer) -> list[str]:
    v, keys = _some(c), ["a", "b", "stop", "é"]
    way = c.d.int(0, 2)
    if way == 0:
        return c.apply("LabelEncoder", [v], domain=ML, keys_strings=keys, values_int64s=[3, 1, 4, 1])
    if way == 1:
        return c.apply("LabelEncoder", [v], domain=ML, keys_strings=keys, values_strings=["x", "", "日", "ab"])
    numbers = c.constant(np.asarray(c.d.array(c.d.shape(2, 1, 4), "i64", 0, 4)))
    encoded = {"keys_int64s": [0, 1, 2], "values_strings": ["zero", "", "日"], "default_string": "other"}
    return c.apply("LabelEncoder", [numbers], domain=ML, **encoded)


def _classified(c: FamilyComposer) -> list[str]:
    """The label of each row, which may be looked up or compared, and its scores."""
    rows, width, names = c.d.int(1, 4), c.d.int(1, 5), ["b", "a", "é"]
    v = c.fresh(np.asarray(c.d.array((rows, width), "f32")))
    attrs = {
        "coefficients": [float(f) for f in np.asarray(c.d.array((3 * width,), "f32"))],
        "intercepts": [0.1, -0.2, 0.0],
        "classlabels_strings": names,
        "post_transform": c.d.choice(["NONE", "SOFTMAX", "LOGISTIC"]),
    }
    return c.apply("LinearClassifier", [v], outputs=2, domain=ML, **attrs)


def _moved(c: FamilyComposer) -> list[str]:
    """Text in another shape or order, some of it, or beside other text."""
    v = _some(c)
    shape, rank = c.array(v).shape, c.array(v).ndim
    if not rank:
        raise Refused("a text without axes has one place")
    axis = c.d.int(0, rank - 1)
    if c.d.bool():
        return _moved_as_numbers(c, v, axis)
    way = c.d.int(0, 6)
    if way == 0:
        return c.apply("Transpose", [v], perm=c.d.permutation(rank))
    if way == 1:
        extents = list(shape)
        extents[axis] = c.d.int(1, 3)
        return c.apply("Concat", [v, _fresh(c, tuple(extents)), *([v] if c.d.bool() else [])], axis=axis)
    if way == 2:
        places = np.asarray(c.d.array(c.d.shape(c.d.int(0, 2), 1, 3), "i64", 0, shape[axis] - 1))
        return c.apply("Gather", [v, c.constant(places) if c.d.bool() else c.fresh(places)], axis=axis)
    if way == 3:
        shapes = [(-1,), (1, -1), (-1, 1), *([(0, -1)] if rank > 1 else [])]
        return c.apply("Reshape", [v, c.ints(*c.d.choice(shapes))])
    if way == 4:
        return c.apply("Unsqueeze", [v, c.ints(c.d.int(0, rank))])
    if way == 5:
        return c.apply("Flatten", [v], axis=c.d.int(0, rank))
    return c.apply("Equal", [v, _fresh(c, c.d.broadcastable(shape))])


def _moved_as_numbers(c: FamilyComposer, v: str, axis: int) -> list[str]:
    """Some texts, in their places, in other places, or beside others that may be longer."""
    shape, rank, way = c.array(v).shape, c.array(v).ndim, c.d.int(0, 7)
    along = axis - c.d.choice([0, rank])
    if way == 0:
        condition = c.fresh(np.asarray(c.d.array(c.d.broadcastable(shape), "bool")))
        other = _fresh(c, c.d.broadcastable(shape))
        return c.apply("Where", [condition, *((v, other) if c.d.bool() else (other, v))])
    if way == 1:
        start, step = c.d.choice([0, 1, -1, -2]), c.d.choice([1, 2, -1])
        return c.apply("Slice", [v, c.ints(start), c.ints(9 if step > 0 else -9), c.ints(along), c.ints(step)])
    if way == 2:
        return c.apply("Split", [c.one("Concat", v, v, axis=axis)], outputs=2, axis=along, num_outputs=2)
    if way == 3:
        return c.apply("Expand", [v, c.ints(2, *(1 for _ in shape))])
    if way == 4:
        return c.apply("Tile", [v, c.ints(*(c.d.int(1, 2) for _ in shape))])
    if way == 5:
        kept = np.asarray(c.d.array((shape[axis],), "bool"))
        return c.apply("Compress", [v, c.constant(kept) if c.d.bool() else c.fresh(kept)], axis=along)
    places = np.asarray(c.d.array(shape, "i64", -shape[axis], shape[axis] - 1))
    if way == 6:
        return c.apply("GatherElements", [v, c.constant(places) if c.d.bool() else c.fresh(places)], axis=along)
    row = c.ints(c.d.int(-shape[0], shape[0] - 1))
    if c.d.bool():
        return c.apply("GatherND", [v, row])
    return c.apply("ScatterND", [v, c.one("Unsqueeze", row, c.ints(0)), _fresh(c, (1, *shape[1:]))])


def _encoded(c: FamilyComposer) -> list[str]:
    """A row of zeros and a one for each text, or its number."""
    v = _some(c)
    if c.d.bool():
        return c.apply("OneHotEncoder", [v], domain=ML, cats_strings=["a", "b", "é"], zeros=1)
    return c.apply("CategoryMapper", [v], domain=ML, cats_strings=["a", "b", "日本"], cats_int64s=[7, -1, 2**40])


FORMS: tuple[Callable[[FamilyComposer], list[str]], ...] = (
    _joined, _joined, _normalised, _split, _matched, _looked_up, _looked_up, _classified, _moved, _moved,
    _encoded,
)  # fmt: skip


def text(c: FamilyComposer) -> list[str]:
    return c.d.choice(FORMS)(c)
