"""Tree ensembles (ai.onnx.ml: TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, F64, I64, DType
from mccompile.ops.arg_reduce import ArgReduce
from mccompile.ops.forest import (
    COMPARISONS,
    MEMBER,
    Forest,
    ForestError,
    Split,
    Weights,
    pack,
)
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.ml_common import (
    DOMAIN,
    TRANSFORMS,
    class_labels,
    emit_labels,
    pair,
    post_transformed,
    regressed,
    rows_of_features,
    scores_of_one,
)
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.tree_ensemble import TreeEnsemble

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""As TreeEnsemble numbers them."""


# -- what ONNX has ---------------------------------------------------------------------------------------------------
def _kind(n: Import) -> DType:
    """What is compared and added up: f64 where rows are, else f32."""
    return F64 if n.input(0).dtype == F64 else F32


def _floats(n: Import, name: str) -> Array:
    """An attribute that is a list of floats, or in newer versions a tensor ``.._as_tensor``."""
    given, tensor = n.attr(name, ()), n.attr(f"{name}_as_tensor")
    if tensor is None:
        return np.asarray(given, np.float32).astype(_kind(n).numpy).reshape(-1)
    return _exact(n, name, np.asarray(tensor))


def _exact(n: Import, name: str, values: Array) -> Array:
    """Numbers as the rows have them."""
    found = values.reshape(-1).astype(_kind(n).numpy)
    if not np.array_equal(found, values.reshape(-1), equal_nan=True):
        raise n.error(f"{name} of double precision for rows of {n.input(0).dtype}", "give rows of double precision")
    return found


def _numbered(n: Import, given: str) -> Forest:
    """The trees of a classifier ("class") or regressor ("target"): nodes are numbered in each tree."""
    trees, ids = n.attr("nodes_treeids", ()), n.attr("nodes_nodeids", ())
    modes: tuple[str, ...] = n.attr("nodes_modes") or ()
    features, values = n.attr("nodes_featureids", ()), _floats(n, "nodes_values")
    holds, fails = n.attr("nodes_truenodeids", ()), n.attr("nodes_falsenodeids", ())
    missing = n.attr("nodes_missing_value_tracks_true", ()) or (0,) * len(ids)
    if len({len(v) for v in (trees, ids, modes, features, values, holds, fails, missing)}) != 1 or not ids:
        raise n.error("attributes of nodes are of unequal lengths, or there are no nodes")
    at = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    if len(at) != len(ids):
        raise n.error("two nodes of a tree have one number")
    weights: dict[int, list[tuple[int, float]]] = {}
    leaves = [n.attr(f"{given}_{name}", ()) for name in ("treeids", "nodeids", "ids")]
    numbers = _floats(n, f"{given}_weights")
    if {len(v) for v in leaves} != {len(numbers)}:
        raise n.error(f"attributes {given}_.. are of unequal lengths")
    for tree, node, target, weight in zip(*leaves, numbers.tolist(), strict=True):
        if (tree, node) not in at:
            raise n.error(f"{given} weights of node {node} of tree {tree}, which there is not")
        weights.setdefault(at[tree, node], []).append((target, weight))
    if given == "target" and n.attr("n_targets", 1) == 1:  # as onnxruntime has it, and skl2onnx relies on the first
        weights = {i: weights.get(i, [(0, float(values[i]))])[:1] for i in range(len(ids))}
    nodes: list[Split | Weights] = []
    for i, mode in enumerate(modes):
        if mode == "LEAF":
            nodes.append(tuple(weights.get(i, ())))
            continue
        if mode not in COMPARISONS or (trees[i], holds[i]) not in at or (trees[i], fails[i]) not in at:
            raise n.error(f"node {ids[i]} of tree {trees[i]} compares by {mode}, or has no such children")
        children = at[trees[i], holds[i]], at[trees[i], fails[i]]
        nodes.append(
            Split(features[i], COMPARISONS.index(mode), (float(values[i]),), *children, bool(missing[i]))
        )
    reached = {c for node in nodes if isinstance(node, Split) for c in (node.holds, node.fails)}
    roots = list({trees[i]: i for i in reversed(range(len(ids))) if i not in reached}.values())[::-1]
    if len(roots) != len(set(trees)) or len(reached) + len(roots) != len(ids):
        raise n.error("a tree has no root, or more than one")
    return Forest(nodes, roots)


def _joined(n: Import) -> Forest:
    """The trees of TreeEnsemble: splits and leaves have tables of their own."""
    modes = n.required("nodes_modes", np.ndarray).reshape(-1).tolist()
    values = _exact(n, "nodes_splits", n.required("nodes_splits", np.ndarray))
    features = n.required("nodes_featureids", tuple)
    missing = n.attr("nodes_missing_value_tracks_true", ()) or (0,) * len(modes)
    weights = _exact(n, "leaf_weights", n.required("leaf_weights", np.ndarray))
    targets = n.required("leaf_targetids", tuple)
    sides = [
        (n.required(f"nodes_{side}nodeids", tuple), n.required(f"nodes_{side}leafs", tuple))
        for side in ("true", "false")
    ]
    lengths = {len(v) for v in (modes, values, features, missing, *sides[0], *sides[1])}
    if len(lengths) != 1 or len(weights) != len(targets):
        raise n.error("attributes of nodes, or of leaves, are of unequal lengths")
    sets = _sets(n, modes.count(MEMBER))
    nodes: list[Split | Weights] = [()] * len(modes)
    for i, mode in enumerate(modes):
        children = []
        for ids, is_leaf in sides:
            if is_leaf[i] and not 0 <= ids[i] < len(weights):
                raise n.error(f"node {i} has leaf {ids[i]}, which there is not")
            children.append(len(nodes) if is_leaf[i] else ids[i])
            if is_leaf[i]:
                nodes.append(((targets[ids[i]], float(weights[ids[i]])),))
        if not 0 <= mode <= MEMBER:
            raise n.error(f"node {i} compares by {mode}, which is unknown")
        found = sets.pop(0) if mode == MEMBER else (float(values[i]),)
        nodes[i] = Split(features[i], mode, found, children[0], children[1], bool(missing[i]))
    roots = n.required("tree_roots", tuple)
    if not all(0 <= r < len(modes) for r in roots):
        raise n.error("a root is none of the nodes")
    return Forest(nodes, list(roots))


def _sets(n: Import, count: int) -> list[tuple[float, ...]]:
    """The members of sets, which NaN parts; that behind the last may be missing."""
    given = n.attr("membership_values")
    found: list[list[float]] = [[]]
    for value in () if given is None else np.asarray(given).reshape(-1).tolist():
        if value != value:
            found.append([])
        else:
            found[-1].append(value)
    if len(found) not in (count, count + 1) and count:
        raise n.error(f"membership_values has {len(found)} sets for {count} nodes")
    return [tuple(s) for s in found]


# -- what it becomes -------------------------------------------------------------------------------------------------
def _scores(n: Import, forest: Forest, targets: int, aggregate: str) -> Value:
    """[N, targets]: what the trees give together."""
    kind = _kind(n)
    x = rows_of_features(n, kind)
    ids = {target for node in forest.nodes if isinstance(node, tuple) for target, _ in node}
    if any(not 0 <= i < targets for i in ids):
        raise n.error(f"a leaf is of target {max(ids)}, of {targets}")
    mode = {"AVERAGE": "sum", "SUM": "sum", "MIN": "min", "MAX": "max"}[aggregate]
    none = {"sum": 0.0, "min": float("inf"), "max": -float("inf")}[mode]
    if mode != "sum" and any(w == none for node in forest.nodes if isinstance(node, tuple) for _, w in node):
        raise n.error(f"a leaf gives {none} to the {mode}, as if it gave nothing")
    try:
        t = pack(forest, kind, x.shape[1], targets, none)
    except ForestError as e:
        raise n.error(str(e)) from e
    op = TreeEnsemble(mode, targets, t.bits, t.slots, t.missing_low)
    tables = [n.constant("nodes", t.nodes), n.constant("trees", t.trees), n.constant("groups", t.groups)]
    tables += [] if t.rows is None else [n.constant("weights", t.rows)]
    optional = [tables[3] if t.rows is not None else None, None if t.tests is None else n.constant("tests", t.tests)]
    scores = n.inner(op, [x, *tables[:3], *optional], "scores")
    if aggregate == "AVERAGE":
        count = ex.num(float(len(forest.roots)), kind)
        scores = n.map(ex.apply("div", ex.var(0, kind), count), [scores], "average")
    return scores


def _with_base(n: Import, scores: Value, base: Array) -> Value:
    if not base.size:
        return scores
    if base.size not in (1, scores.shape[1]):
        raise n.error(f"{base.size} base values for {scores.shape[1]} scores")
    body = ex.apply("add", ex.var(0, scores.dtype), ex.var(1, scores.dtype))
    return n.map(body, [scores, n.constant("base", base.reshape(1, -1))], "based")


def _single(n: Import, scores: Value) -> Value:
    """Scores in f32, as a regressor or classifier gives them, whatever they were added up in."""
    return scores if scores.dtype == F32 else n.map(ex.convert(ex.var(0, F64), F32), [scores], "single")


def _sample_forest(
    d: Draw, features: int, many: int, modes: Sequence[str], given: str, spread: bool
) -> dict[str, Any]:
    """Attributes of trees of a few levels. Leaves give to all of ``many``, with ``spread`` those of a tree to one."""
    attrs: dict[str, list[Any]] = {
        name: [] for name in (
            "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids",
            "nodes_falsenodeids", "nodes_missing_value_tracks_true", f"{given}_treeids", f"{given}_nodeids",
            f"{given}_ids", f"{given}_weights",
        )
    }  # fmt: skip
    for tree in range(d.choice([many, many + 2, 19] if spread else [1, 3, 16, 19])):
        open_, count = [(0, 0)], 1
        while open_:
            node, level = open_.pop(0)
            is_leaf = level >= 4 or (level > 0 and d.int(0, 3) == 0)
            row = [tree, node, d.int(0, features - 1), "LEAF" if is_leaf else d.choice(list(modes))]
            row += [float(d.int(-3, 3)) / 2, 0 if is_leaf else count, 0 if is_leaf else count + 1, d.int(0, 1)]
            for name, value in zip(list(attrs)[:8], row, strict=True):
                attrs[name].append(value)
            if not is_leaf:
                open_ += [(count, level + 1), (count + 1, level + 1)]
                count += 2
                continue
            for target in [tree % many] if spread else range(many):
                weight = float(np.float32(d.int(1, 99) / 64))
                for name, value in zip(list(attrs)[8:], (tree, node, target, weight), strict=True):
                    attrs[name].append(value)
    return attrs


_NUMERIC = COMPARISONS[:4]


def _sample_x(d: Draw) -> Array:
    x = np.round(d.array((d.int(1, 4), d.int(1, 9))) * 2) / 2
    return np.where(d.array(x.shape, "f32", 0, 9) > 8.5, np.nan, x).astype(d.choice(["f4", "f4", "f8"]))


def _sample_regressor(d: Draw) -> Case:
    x, targets = _sample_x(d), d.choice([1, 1, 3])
    modes = d.choice([_NUMERIC[:1], _NUMERIC, COMPARISONS])
    attrs = _sample_forest(d, x.shape[1], targets, modes, "target", d.bool())
    attrs |= {"n_targets": targets, "aggregate_function": d.choice(["SUM", "SUM", *_AGGREGATES])}
    if d.bool():
        attrs["base_values"] = [0.5] * targets
    return Case([x], attrs)


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN, sample=_sample_regressor, tolerance={"f32": 2e-6},
         without_effect=("nodes_hitrates", "nodes_hitrates_as_tensor"))  # fmt: skip
def import_tree_regressor(n: Import) -> None:
    targets, aggregate = n.attr("n_targets", 1), n.attr("aggregate_function", "SUM")
    if aggregate not in _AGGREGATES or targets < 1:
        raise n.error(f"{targets} targets by {aggregate} are not known")
    base = _floats(n, "base_values")
    scores = _with_base(n, _scores(n, _numbered(n, "target"), targets, aggregate), base)
    n.bind(0, regressed(n, _single(n, scores), n.attr("post_transform", "NONE")))


@onnx_op("TreeEnsemble", domain=DOMAIN, without_effect=("nodes_hitrates",))
def import_tree_ensemble(n: Import) -> None:
    targets, aggregate = n.attr("n_targets", 1), n.attr("aggregate_function", 1)
    transform = n.attr("post_transform", 0)
    if not 0 <= aggregate < len(_AGGREGATES) or not 0 <= transform < len(TRANSFORMS) or targets < 1:
        raise n.error(f"aggregate_function {aggregate} or post_transform {transform} is not known")
    scores = _scores(n, _joined(n), targets, _AGGREGATES[aggregate])
    if scores.dtype == F64 and TRANSFORMS[transform] != "NONE":
        raise n.error(f"post_transform {TRANSFORMS[transform]} of double precision is not supported")
    n.bind(0, regressed(n, scores, TRANSFORMS[transform]))


def _sample_classifier(d: Draw) -> Case:
    x, classes = _sample_x(d), d.choice([2, 3, 5])
    attrs = _sample_forest(d, x.shape[1], 1 if classes == 2 else classes, _NUMERIC, "class", False)
    if classes == 2:
        kind = d.int(0, 2)
        attrs["class_ids"] = [int(kind == 2)] * len(attrs["class_weights"])
        if kind == 1:
            attrs["class_weights"] = [w - 0.75 for w in attrs["class_weights"]]
    attrs["classlabels_int64s"] = [3 * i - 2 for i in range(classes)]
    attrs["post_transform"] = d.choice(["NONE", "LOGISTIC"])
    if classes > 2 and d.bool():
        attrs["base_values"] = [0.25 * i for i in range(classes)]
    elif classes > 2 and d.bool():  # no leaf scores the first one
        attrs["class_ids"] = [i + 1 for i in attrs["class_ids"]]
        attrs["class_weights"] = [w - 0.75 for w in attrs["class_weights"]]
        attrs["classlabels_int64s"].insert(0, -7)
    return Case([x], attrs, outputs=2)


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN, sample=_sample_classifier, tolerance={"f32": 2e-6},
         without_effect=("nodes_hitrates", "nodes_hitrates_as_tensor"))  # fmt: skip
def import_tree_classifier(n: Import) -> None:
    """The label of the largest score, and all scores; a class that no leaf scores is not chosen. Where two classes
    have scores of one alone, that of the other follows from it."""
    labels = class_labels(n, "classlabels_int64s", "classlabels_strings")
    forest, base = _numbered(n, "class"), _floats(n, "base_values")
    transform = n.attr("post_transform", "NONE")
    given = [w for node in forest.nodes if isinstance(node, tuple) for w in node]
    ids = {target for target, _ in given}
    if labels.size == 2 and len(ids) == 1:
        _binary(n, forest, labels, base, transform, ids.pop(), min(w for _, w in given) >= 0)
        return
    if base.size not in (0, labels.size):
        raise n.error(f"{base.size} base values for {labels.size} classes")
    if not base.size and not _always(forest, ids) and not _is_positive(forest):
        raise n.error("some leaves have no score for a class, and scores may not be positive", "give base values")
    scores = _with_base(n, _scores(n, forest, labels.size, "SUM"), base)
    chosen, names = scores, labels
    if not base.size and 0 < len(ids) < labels.size:
        scored = np.array(sorted(ids))
        chosen, names = n.inner(Gather(1), [scores, n.constant("scored", scored)], "chosen"), labels[scored]
    best = n.inner(ArgReduce("max", 1), [chosen], "best")
    emit_labels(n, n.reshape(best, (scores.shape[0],), "place"), names)
    if len(n.outputs) > 1:
        n.bind(1, post_transformed(n, _single(n, scores), transform))


def _always(forest: Forest, ids: set[int]) -> bool:
    """Whether every row has a score of each class: some tree gives one in all of its leaves."""
    return all(any(_gives(forest, root, target) for root in forest.roots) for target in ids)


def _gives(forest: Forest, root: int, target: int) -> bool:
    return all(any(t == target for t, _ in leaf) for leaf in _leaves(forest, root))


def _is_positive(forest: Forest) -> bool:
    """Whether the largest score of every row is more than 0, which a class without a score has: no weight is less,
    and some tree gives more in all of its leaves."""
    least = min((w for node in forest.nodes if isinstance(node, tuple) for _, w in node), default=0.0)
    return least >= 0 and any(
        all(any(w > 0 for _, w in leaf) for leaf in _leaves(forest, root)) for root in forest.roots
    )


def _leaves(forest: Forest, root: int) -> Iterator[Weights]:
    waiting = [root]
    while waiting:
        node = forest.nodes[waiting.pop()]
        if isinstance(node, Split):
            waiting += [node.holds, node.fails]
        else:
            yield node


def _binary(
    n: Import, forest: Forest, labels: Array, base: Array, transform: str, owner: int, positive: bool
) -> None:
    """Two classes by one score, as onnxruntime has them: it decides at 0, or at a half where all weights are
    positive. Of class 1 it is the score itself, and that of class 0 is 0; of class 0 it is that of class 1, too, and
    that of class 0 is what is left to 1, or its negative."""
    if base.size > (owner == 0):
        raise n.error(f"{base.size} base values for two classes by scores of class {owner} are not supported")
    leaves = [tuple((0, w) for _, w in node) if isinstance(node, tuple) else node for node in forest.nodes]
    score = _with_base(n, _scores(n, Forest(leaves, forest.roots), 1, "SUM"), base)
    above = ex.apply("gt", ex.var(0, score.dtype), ex.num(0.5 if positive else 0.0, score.dtype))
    chosen = ex.convert(above, I64)
    emit_labels(n, n.reshape(n.map(chosen, [score], "above"), (score.shape[0],), "place"), labels)
    if len(n.outputs) < 2:
        return
    score = _single(n, score)
    if owner == 1:
        both = pair(n, ex.num(0.0), ex.var(0, F32), score)
        n.bind(1, post_transformed(n, both, transform))
    else:
        n.bind(1, scores_of_one(n, score, transform, positive))
