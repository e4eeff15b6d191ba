"""Steps of nodes with graphs inside: branches on condition, loops turn by turn.

What a graph reads lies where it lies for the graph around. A branch makes its results in the place of the node's, or
copies them there. What a loop carries has one place, from which a turn reads it; at the end of the turn, when all of
it has been read, what is made for the next turn is copied there:

    call copy.generic turn {} (x) -> c                          before the first turn
    call map.generic map {expr={(x0 + x1)}} (c, w) -> n in(i)
    call copy.generic turn {} (n) -> rows+(4*i)[4]{1} in(i)      a row, at the number of the turn
    call copy.generic turn {} (n) -> c in(i)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING

from mccompile.ir.dims import symbols
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.turns import Loop
from mccompile.ir.types import TensorType, row_major
from mccompile.ir.views import Buffer, View, held, whole
from mccompile.lower.storage import Storage
from mccompile.ops import loop as ops

if TYPE_CHECKING:
    from mccompile.lower.lower import _Builder

MOVED = "copy.generic"
TURN = ops.Turn()

Bound = Iterable[tuple[Value, Buffer]]
"""Values of a graph inside, and the buffers of the graph around that they are in."""


def lower_regions(
    node: Node, b: _Builder, storage: Callable[[Graph, Set[Value]], Storage], lower: Callable[[Graph], None]
) -> None:
    """The steps of a node with graphs inside: where their values are stored, of which some lie with gaps, and how
    their nodes are lowered, is given."""
    around = b.graph, b.storage, b.when, b.loops

    def enter(region: Graph, bound: Bound) -> None:
        places = dict(bound)
        for value, buffer in places.items():
            b.bind(value, buffer)
        b.graph, b.storage = region, storage(region, {v for v, at in places.items() if at.halo or at.room})

    def leave() -> None:
        b.graph, b.storage, b.when, b.loops = around
        b.node = node

    if isinstance(node.op, ops.Loop):
        _lower_loop(node, node.op, b, enter, leave, lower)
    else:
        _lower_if(node, b, enter, leave, lower)


def _lower_if(
    node: Node, b: _Builder, enter: Callable[[Graph, Bound], None], leave: Callable[[], None],
    lower: Callable[[Graph], None],
) -> None:  # fmt: skip
    """The steps of both graphs one after the other, those of each on condition; of one, if that is known."""
    condition, *given = (b.read(v) for v in node.operands if v is not None)
    results = [b.result(i) for i in range(len(node.results))]
    known = condition.buffer.data
    for wanted, region in zip((True, False), node.regions, strict=True):
        if known is not None and bool(known.item()) != wanted:
            continue
        # No node of the graph makes a constant: it is copied.
        places = [
            (o, v, o not in region.constants and _is_place_of(v, o))
            for o, v in zip(region.outputs, results, strict=True)
        ]
        read = ((inner, view.buffer) for inner, view in zip(region.inputs, given, strict=True))
        enter(region, [*read, *((inner, view.buffer) for inner, view, direct in places if direct)])
        b.when = (*b.when, (condition.buffer, wanted)) if known is None else b.when
        b.declare_counts()
        lower(region)
        b.node = node
        for inner, view, direct in places:
            if not direct:
                b.call(MOVED, [b.read(inner)], [_as(view, inner.type)], extras=[])
        leave()


def _is_place_of(view: View, value: Value) -> bool:
    """Whether a view is all of a buffer that may hold a value."""
    return view == whole(view.buffer) and value.type.is_case_of(view.buffer.type)


def _as(view: View, type_: TensorType) -> View:
    """A whole tensor in another shape, or as one of the extents that it may have."""
    found = view if view.shape == type_.shape else held(view.buffer, type_)
    if isinstance(found, str):
        raise InternalError(f"{view.buffer.name} cannot be {type_}: {found}")
    return found


def _lower_loop(
    node: Node, op: ops.Loop, b: _Builder, enter: Callable[[Graph, Bound], None], leave: Callable[[], None],
    lower: Callable[[Graph], None],
) -> None:  # fmt: skip
    (region,) = node.regions
    count, going, *others = node.operands
    results = [b.result(i) for i in range(len(node.results))]
    rows, turn = results[op.carried : -1], results[-1].buffer
    firsts = [*([going] if going is not None else []), *(v for v in others[: op.carried] if v is not None)]
    own = region.inputs[1 : 1 + op.carried]
    places = [v.buffer if _is_place_of(v, o) else b.carry(o) for o, v in zip(own, results, strict=False)]
    kept = [*([b.carry(going)] if going is not None else []), *places]
    for first, place in zip(firsts, kept, strict=True):
        b.call(MOVED, [b.read(first)], [whole(place)], op=TURN, extras=[])
    read = [b.read(v).buffer for v in others[op.carried :] if v is not None]
    counts = tuple(b.module.counts[s.name] for s in symbols(op.trips) if s.name in b.module.counts)
    loop = Loop(
        turn, op.trips, None if count is None else b.read(count).buffer, kept[0] if going is not None else None,
        op.limited, counts, b.when,
    )  # fmt: skip

    enter(region, zip(region.inputs, (turn, *places, *read), strict=True))
    b.when, b.loops = (), (*b.loops, loop)
    for s in symbols(op.this_turn):
        if b.module.counts.setdefault(s.name, turn) is not turn:
            raise InternalError(f"{node.where}: two loops count their turns as {s.name}")
    b.declare_counts()
    lower(region)
    b.node = node
    made = [b.read(v) for v in region.outputs]
    for row, stack, axis, back in zip(made[len(kept) :], rows, op.axes, op.backwards, strict=True):
        b.call(MOVED, [row], [_row(stack, axis, op.extent - 1 - op.this_turn if back else op.this_turn)],
               op=TURN, extras=[])  # fmt: skip
    for now, place in zip(made, kept, strict=False):
        b.call(MOVED, [now], [whole(place)], op=TURN, extras=[])
    leave()
    _copy_back(b, places, results)


def _copy_back(b: _Builder, places: Sequence[Buffer], results: Sequence[View]) -> None:
    """The carried values whose places are not those of the results."""
    for place, result in zip(places, results, strict=False):
        if result.buffer is not place:
            b.call(MOVED, [whole(place)], [result], op=TURN, extras=[])


def _row(stack: View, axis: int, at: int) -> View:
    """One row of a view along an axis."""
    strides = stack.axis_strides()
    left = [a for a in range(stack.rank) if a != axis]
    shape = tuple(stack.shape[a] for a in left)
    return View(stack.buffer, shape, row_major(len(left)), tuple(strides[a] for a in left),
                stack.offset + strides[axis] * at)  # fmt: skip
