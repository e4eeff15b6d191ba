"""If, Loop, Scan and SequenceMap whose course is known at compile time: branches are inlined, iterations unrolled.

What is short is unrolled; what is not, or takes a course that is known at run time only, stays a loop
(`importer.loops`). A loop that cannot stay one, for its sequences or shapes change from turn to turn, is unrolled up
to the limit ``unrolled-nodes``.

Names are unique over all nested graphs of a prepared model, so a nested graph is walked in the same table of names
as the graph around it; an iteration defines the names of the body anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from mccompile.importer import loops
from mccompile.importer.branch import Begin, Branch, alike, take_back
from mccompile.importer.counting import own_shapes
from mccompile.importer.extent_rules import Numbers
from mccompile.importer.sequences import Known, require_tensor, stack, take_range
from mccompile.ir import limits
from mccompile.ir.dims import UndecidedError, require_equal, varies
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.op import TypeRuleError
from mccompile.ir.types import DTYPES
from mccompile.onnxio import OnnxGraph, OnnxNode, subgraphs
from mccompile.ops.elements import one_element
from mccompile.ops.frontend import Import
from mccompile.ops.stated import Stated

OPERATORS = frozenset({"If", "Loop", "Scan", "SequenceMap"})

KEPT = {
    "If": "one branch, or steps on condition",
    "Loop": "unrolled if it is short, else as a loop",
    "Scan": "unrolled if it is short, else as a loop",
}
"""What becomes of those whose course may be known at run time only."""

SHORT_NODES = 128
"""A loop that becomes so many ONNX nodes at most is unrolled, if its course is known."""
SHORT_BYTES = 1 << 16
"""So much may be folded for it: each turn has constants of its own."""

class Walker(Protocol):
    """What the importer offers: its table of names, and the walk over nodes."""

    graph: Graph
    values: dict[str, Known]
    poisoned: set[str]
    errors: list[CompileError]
    narrow: dict[Value, str]
    varying: dict[Value, Numbers]
    supposed: dict[str, bool]
    stated: Stated
    unrolled: int
    folded_bytes: int

    def run(self, nodes: list[OnnxNode], depth: int = 0) -> None: ...

    def define_constants(self, graph: OnnxGraph) -> None: ...

    def branches(self, n: Import, condition: Value, bodies: list[OnnxGraph], depth: int) -> list[Branch]: ...

    def branch(
        self, n: Import, condition: Value, bodies: list[OnnxGraph], made: list[Branch]
    ) -> list[Known] | None: ...

    def closed(
        self, n: Import, body: OnnxGraph, kind: str, depth: int, begin: Begin = ..., outputs: Sequence[str] = ...
    ) -> Branch: ...

    def most_turns(self, n: Import) -> int | None: ...

    def numbers(self, value: Value | None) -> Numbers | None: ...

    def inputs_behind(self, values: Sequence[Value]) -> str: ...


def inline(w: Walker, node: OnnxNode, inputs: Sequence[Known | None], depth: int) -> None:
    """Define the outputs of an If, Loop, Scan or SequenceMap. CompileError if its course depends on data."""
    bodies = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
    tensors = [v if isinstance(v, Value) else None for v in inputs]
    n = Import(w.graph, node, tensors, extents=w.varying, stated=w.stated)
    try:
        results = bodies[node.op_type](w, n, inputs, depth)
    except TypeRuleError as e:
        raise _broken(node, str(e)) from e
    except UndecidedError as e:
        raise n.undecided(e) from e
    if results is None:
        w.poisoned.update(o for o in node.outputs if o)
        return
    _require_outputs(node, len(results))
    w.values.update({name: value for name, value in zip(node.outputs, results, strict=False) if name})


def _require_outputs(node: OnnxNode, made: int) -> None:
    if len(node.outputs) > made:
        raise _broken(node, f"it has {len(node.outputs)} outputs, its graph {made}")


def _broken(node: OnnxNode, rule: str, hint: str = "") -> CompileError:
    return CompileError(f"{node.op_type}: {rule}", where=f"node {node.index} {node.name!r}", hint=hint)


def _course(w: Walker, n: Import, value: Value, what: str) -> Any:
    """The number that is a condition or trip count; CompileError if it is not known, or not one."""
    if value.type.count != 1:
        raise _broken(n.node, f"{what} %{value.name} is {value.type}, but it may only be one number")
    if value in w.graph.constants:
        return w.graph.array(value).reshape(-1)[0]
    names = inputs_behind(w.graph, [value])
    raise _broken(
        n.node,
        f"{what} %{value.name} is computed at run time" + (f" from {', '.join(names)}" if names else ""),
        to_fix(names),
    )


def to_fix(names: Sequence[str]) -> str:
    """The hint that what depends on some inputs is known if they are."""
    options = " ".join(f"--constant {name}=VALUE" for name in names[:3])
    return f"fix what it depends on: {options}" if options else ""


def inputs_behind(graph: Graph, values: Collection[Value]) -> list[str]:
    """The graph inputs that some values depend on."""
    producers, seen, pending = graph.producers(), set(values), list(values)
    while pending:
        node = producers.get(pending.pop())
        for v in node.inputs if node is not None else ():
            if v not in seen:
                seen.add(v)
                pending.append(v)
    return [v.name for v in graph.inputs if v in seen]


def _body(node: OnnxNode, name: str) -> OnnxGraph:
    body = node.attrs.get(name)
    if not isinstance(body, OnnxGraph):
        raise _broken(node, f"attribute {name!r} is missing")
    return body


def _walk(w: Walker, body: OnnxGraph, depth: int) -> list[Known] | None:
    """The outputs of a nested graph; None if some of its nodes cannot be converted."""
    before = len(w.errors)
    w.run(body.nodes, depth)
    names = [v.name for v in body.outputs]
    if len(w.errors) > before or any(name in w.poisoned for name in names):
        return None
    return [w.values[name] for name in names]


def _if(w: Walker, n: Import, inputs: Sequence[Known | None], depth: int) -> list[Known] | None:
    condition = one_element(n, n.input(0))
    chosen = bool(n.one(0, "condition")) if condition in w.graph.constants else w.supposed.get(n.node.inputs[0])
    if condition not in w.graph.constants:
        bodies = [_body(n.node, "then_branch"), _body(n.node, "else_branch")]
        made = w.branches(n, condition, bodies, depth)
        if chosen is None or alike(made):
            return w.branch(n, condition, bodies, made)
    branch = _body(n.node, "then_branch" if chosen else "else_branch")
    w.define_constants(branch)
    return _walk(w, branch, depth)


# -- Loop --------------------------------------------------------------------------------------------------
def _loop(w: Walker, n: Import, inputs: Sequence[Known | None], depth: int) -> list[Known] | None:
    body = _body(n.node, "body")
    carried: list[Known] = [v for v in inputs[2:] if v is not None]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) <= len(carried):
        raise _broken(n.node, "the inputs of its body do not match its own")
    _require_outputs(n.node, len(body.outputs) - 1)
    trips = int(n.one(0, "trip count")) if n.is_const(0) else None
    never = n.is_const(1) and not n.one(1, "condition")
    course = None if never or (trips is not None and trips <= 0) else loops.of_loop(w, n, body, carried)
    known = all(v is None or v in w.graph.constants for v in (n.optional(0), n.optional(1)))
    return _short_or_kept(
        w, n, depth, course, trips if known else None, known,
        lambda limit: _unrolled_loop(w, n, body, carried, depth, limit), body,
    )  # fmt: skip


def _short_or_kept(
    w: Walker, n: Import, depth: int, course: loops.Course | None, trips: int | None, known: bool,
    unroll: Callable[[int], list[Known] | None], body: OnnxGraph,
) -> list[Known] | None:  # fmt: skip
    """A loop as its turns, if these are few; else as a loop, if it can be one; else as its turns.

    Args:
        trips: the number of turns, if it is known; ``known``: what says how many there are is.
        unroll: unrolls up to so many ONNX nodes. Raises CompileError where that does not do.
    """
    before, most = _Before(w, body), limits.limit("unrolled-nodes")
    small = known and (trips is None or trips * max(_size(body), 1) <= SHORT_NODES)
    if small or course is None:
        try:
            found = unroll(SHORT_NODES if course is not None else most)
            if course is None or (found is not None and before.folded_since(w) <= SHORT_BYTES):
                return found
        except CompileError:
            if course is None:
                raise
        before.restore(w)
    assert course is not None
    kept = loops.keep(w, n, course, depth)
    if isinstance(kept, list):
        return kept
    before.restore(w)
    if not known:
        decide = w.inputs_behind([v for v in n.inputs[:2] if v is not None])
        for e in kept.errors:
            hint = e.hint if decide in e.hint else f"{e.hint}; or {decide}" if e.hint else decide
            w.errors.append(CompileError(e.rule, where=e.where, hint=hint))
        return None
    if any(" is not supported" in e.rule for e in kept.errors):
        w.errors += kept.errors
        return None
    try:
        return unroll(most)
    except CompileError as e:
        if trips is None or trips > loops.MAX_TURNS:
            raise kept.errors[0] from e
        raise _broken(n.node, f"{e.rule}; it cannot stay a loop: {kept.errors[0].rule}", e.hint) from e


class _Before:
    """What a walk has made so far, to be gone back to when turns of ``body`` are dropped."""

    def __init__(self, w: Walker, body: OnnxGraph) -> None:
        self._body = body
        self._nodes, self._errors = len(w.graph.nodes), len(w.errors)
        self._poisoned, self._counts = set(w.poisoned), dict(w.graph.counts)
        self._unrolled, self._folded = w.unrolled, w.folded_bytes

    def folded_since(self, w: Walker) -> int:
        return w.folded_bytes - self._folded

    def restore(self, w: Walker) -> None:
        take_back(w.graph, w.values, self._nodes)
        for name in _defined(self._body):
            w.values.pop(name, None)  # what is walked next may not take it for a value from outside
        del w.errors[self._errors :]
        w.poisoned.clear()
        w.poisoned.update(self._poisoned)
        w.graph.counts = dict(self._counts)
        w.unrolled, w.folded_bytes = self._unrolled, self._folded


def _unrolled_loop(
    w: Walker, n: Import, body: OnnxGraph, carried: list[Known], depth: int, limit: int
) -> list[Known] | None:
    never = n.is_const(1) and not _course(w, n, n.input(1), "the condition")  # whatever the trip count is
    trips = None if never or n.optional(0) is None else int(_course(w, n, n.input(0), "the trip count"))
    never = never or (trips is not None and trips <= 0)
    going = not never and (n.optional(1) is None or bool(_course(w, n, n.input(1), "the condition")))
    scans: list[list[Value]] = [[] for _ in body.outputs[1 + len(carried) :]]
    w.define_constants(body)
    of_number, of_condition = own_shapes(body)
    done = 0
    while going and (trips is None or done < trips):
        _require_small(w, n, body, 1 if trips is None else trips - done, limit)
        start: list[Known] = [
            n.constant("i", np.full(of_number, done, np.int64)), n.constant("going", np.ones(of_condition, bool)),
        ]  # fmt: skip
        w.values.update({v.name: known for v, known in zip(body.inputs, [*start, *carried], strict=True)})
        results = _iterate(w, body, depth)
        if results is None:
            return None
        going = bool(_course(w, n, require_tensor(n.node, "the condition", results[0]), "the condition"))
        carried, rows = results[1 : 1 + len(carried)], results[1 + len(carried) :]
        for column, row in zip(scans, rows, strict=True):
            column.append(require_tensor(n.node, "a scan output", row))
        done += 1
    return [*carried, *(_stacked(n, column, body, i, 0, len(scans)) for i, column in enumerate(scans))]


def _iterate(w: Walker, body: OnnxGraph, depth: int) -> list[Known] | None:
    w.poisoned.difference_update(o for node in body.nodes for o in node.outputs)
    return _walk(w, body, depth)


def _require_small(
    w: Walker, n: Import, body: OnnxGraph, iterations: int, limit: int | None = None
) -> None:
    """Count one iteration; CompileError as soon as all that are to come would be too many nodes."""
    size = max(_size(body), 1)
    limit = limits.limit("unrolled-nodes") if limit is None else limit
    if w.unrolled + iterations * size > limit:
        raise _broken(
            n.node,
            f"unrolled it would be more than {limit} nodes ({iterations} iterations of {size} are left)",
            "a smaller trip count, or export the model without the loop; "
            + limits.to_raise("unrolled-nodes", w.unrolled + iterations * size),
        )
    w.unrolled += size


def _defined(graph: OnnxGraph) -> Iterator[str]:
    """The names that a nested graph, and those inside of it, give a meaning."""
    yield from (v.name for v in graph.inputs)
    yield from graph.initializers
    for node in graph.nodes:
        yield from node.outputs
        for inner in subgraphs(node):
            yield from _defined(inner)


def _size(graph: OnnxGraph) -> int:
    return sum(1 + sum(_size(inner) for inner in subgraphs(node)) for node in graph.nodes)


def _stacked(n: Import, rows: list[Value], body: OnnxGraph, i: int, axis: int, count: int) -> Value:
    """Scan output ``i`` of ``count``: its rows along a new axis, which may count from the end; without an iteration,
    an array of no elements."""
    if rows:
        return stack(n, rows, n.axis(axis, len(rows[0].shape) + 1), f"scan{i}")
    stated = body.outputs[len(body.outputs) - count + i]
    extents = [e for e in stated.shape or () if isinstance(e, int)]
    if stated.shape is None or len(extents) != len(stated.shape) or stated.dtype not in DTYPES:
        raise _broken(n.node, f"it has no iterations, and nothing says what shape {stated.name!r} has")
    extents.insert(n.axis(axis, len(extents) + 1), 0)
    empty = np.zeros(extents, DTYPES[stated.dtype].numpy)
    return n.constant(f"scan{i}", empty)


# -- Scan --------------------------------------------------------------------------------------------------
def _scan(w: Walker, n: Import, inputs: Sequence[Known | None], depth: int) -> list[Known] | None:
    body, count = _body(n.node, "body"), n.required("num_scan_inputs", int)
    given = [require_tensor(n.node, "an input", v) for v in inputs if v is not None]
    if not 0 < count <= len(given):
        raise _broken(n.node, f"it has {len(given)} inputs, of which num_scan_inputs = {count} are to be scanned")
    states, sources = given[: len(given) - count], given[len(given) - count :]
    if len(body.inputs) != len(given) or len(body.outputs) < len(states):
        raise _broken(n.node, "the inputs of its body do not match its own")
    _require_outputs(n.node, len(body.outputs))
    axes = [n.axis(a, len(v.shape)) for a, v in zip(n.each("scan_input_axes", count), sources, strict=True)]
    backwards = n.each("scan_input_directions", count)
    length, *others = (v.shape[a] for v, a in zip(sources, axes, strict=True))
    for other in others:
        require_equal(other, length)
        if other != length:
            raise _broken(n.node, f"its inputs are scanned along axes of different extents, {length} and {other}")
    items = [loops.Item(v, a, bool(back)) for v, a, back in zip(sources, axes, backwards, strict=True)]
    trips = None if varies((length,)) else length
    return _short_or_kept(
        w, n, depth, loops.of_scan(n, body, states, items, length) if length else None, trips, trips is not None,
        lambda limit: _unrolled_scan(w, n, body, states, items, length, depth, limit), body,
    )  # fmt: skip


def _unrolled_scan(
    w: Walker, n: Import, body: OnnxGraph, states: Sequence[Value], items: Sequence[loops.Item], length: int,
    depth: int, limit: int,
) -> list[Known] | None:  # fmt: skip
    now: list[Known] = list(states)
    scans: list[list[Value]] = [[] for _ in body.outputs[len(now) :]]
    w.define_constants(body)
    for i in range(length):
        _require_small(w, n, body, length - i, limit)
        rows = [_row(n, item.value, item.axis, length - 1 - i if item.backwards else i) for item in items]
        w.values.update({v.name: known for v, known in zip(body.inputs, [*now, *rows], strict=True)})
        results = _iterate(w, body, depth)
        if results is None:
            return None
        now = results[: len(now)]
        for column, row in zip(scans, results[len(now) :], strict=True):
            column.append(require_tensor(n.node, "a scan output", row))
    return [*now, *_scanned(n, scans, body)]


def _row(n: Import, value: Value, axis: int, at: int) -> Value:
    part = take_range(n, value, axis, at, 1, f"row{at}")
    return n.reshape(part, (*value.shape[:axis], *value.shape[axis + 1 :]), f"item{at}")


def _scanned(n: Import, scans: list[list[Value]], body: OnnxGraph) -> list[Value]:
    directions = n.each("scan_output_directions", len(scans))
    axes = n.each("scan_output_axes", len(scans))
    found = []
    for i, rows in enumerate(scans):
        ordered = rows[::-1] if directions[i] else rows
        found.append(_stacked(n, ordered, body, i, axes[i], len(scans)))
    return found


# -- SequenceMap -------------------------------------------------------------------------------------------
def _sequence_map(w: Walker, n: Import, inputs: Sequence[Known | None], depth: int) -> list[Known] | None:
    """The body for each tensor of input 0, and of every other sequence; tensors are the same for all of them."""
    body, given = _body(n.node, "body"), [v for v in inputs if v is not None]
    lengths = {len(v) for v in given if isinstance(v, tuple)}
    if not given or not isinstance(given[0], tuple) or len(lengths) != 1 or len(body.inputs) != len(given):
        raise _broken(n.node, "its inputs are no sequences of one length, or do not match those of its body")
    columns: list[list[Value]] = [[] for _ in body.outputs]
    w.define_constants(body)
    for i in range(len(given[0])):
        _require_small(w, n, body, len(given[0]) - i)
        items = [v[i] if isinstance(v, tuple) else v for v in given]
        w.values.update({v.name: item for v, item in zip(body.inputs, items, strict=True)})
        results = _iterate(w, body, depth)
        if results is None:
            return None
        for column, item in zip(columns, results, strict=True):
            column.append(require_tensor(n.node, "a result", item))
    return [tuple(column) for column in columns]
