"""Rules that give a normalisation of groups the axes of its result: what varies along these becomes its epilogue."""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir.graph import Node, Value
from mccompile.ir.structure import refined
from mccompile.ir.types import Shape
from mccompile.ops.normalize import Normalize
from mccompile.ops.reshape import Reshape
from mccompile.passes.movement.move_maps_over_reshapes import reshaped, shared_blocks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule


def _axes(op: Normalize, shape: Shape, fine: Shape) -> tuple[int, ...]:
    """The axes of ``fine`` that the normalised axes of ``shape`` consist of. One of extent 1 is in the block of its
    neighbour, and says nothing of it."""
    long = {a for a in op.axes if shape[a] > 1}
    return tuple(a for mine, theirs in shared_blocks(shape, fine) if long & {*mine} for a in theirs if fine[a] > 1)


def _fine(m: Match) -> Shape | None:
    """The shape to normalise in; None if there is none."""
    return refined(m.nodes["normalize"].result.shape, m.root.result.shape)


def _fits(operand: Value, old: Shape, new: Shape) -> bool:
    return reshaped(operand.shape, old, new, shared_blocks(old, new)) is not None


def _gains(m: Match, user: Node, fine: Shape) -> bool:
    """Whether a map can move before the reshape in the new shape, but could not in the old one."""
    result, coarse = m.root.result, m.nodes["normalize"].result.shape
    if user.op.elementwise is None or user.result.shape != result.shape:
        return False
    others = [v for v in user.operands if v is not None and v is not result]
    return not all(_fits(v, result.shape, coarse) for v in others) and all(
        _fits(v, result.shape, fine) for v in others
    )


def _check(m: Match) -> Fail | None:
    node = m.nodes["normalize"]
    fine = _fine(m)
    if fine is None or not any(_gains(m, u, fine) for u in m.r.users(m.root.result)):
        return Fail("")
    if node.pre or any(v.type.layout is not None for v in (*node.inputs, *node.results)):
        return Fail("there is a prologue or a layout")
    if not m.r.is_private(node.result):
        return Fail("the groups are needed elsewhere")
    return None


def _rewrite(m: Match) -> None:
    node, fine, r = m.nodes["normalize"], _fine(m), m.r
    old = m.op(Normalize, "normalize")
    assert fine is not None
    shape = node.result.shape
    op = replace(old, axes=_axes(old, shape, fine))
    parts = r.insert(m.root, Reshape(fine), [m.values["x"]], f"{node.result.name}.groups")
    extras = []
    for v in node.extras:
        own = reshaped(v.shape, shape, fine, shared_blocks(shape, fine))
        assert own is not None
        extras.append(r.insert(m.root, Reshape(own), [v], v.name))
    value = r.insert(m.root, op, [parts], node.result.name)
    made = r.producer(value)
    assert made is not None
    made.post, made.origins = dict(node.post), node.origins
    r.rewire(made, extras=extras)
    r.rewire(m.root, [value])
    r.erase(node)


_NORMALIZED = Is(Normalize, (Any("x"),), "normalize", plain=False)
GROUPS = (Rule("normalised in the axes of the result", Is(Reshape, (_NORMALIZED,), "reshape"), _check, _rewrite),)
