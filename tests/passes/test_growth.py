"""What passes look at does not grow with the square of the nodes."""

from __future__ import annotations

import pytest

from mccompile.ir.graph import Graph, Node
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import Remarks
from mccompile.passes.movement import compose_movement
from mccompile.passes.rewrite import patterns


def joined(parts: int) -> Graph:
    """A concatenation of negated inputs."""
    maps = "\n".join(f"  %m{i} = map(%x) {{expr={{neg(x0)}}}} : f32[1,4]" for i in range(parts))
    operands = ", ".join(f"%m{i}" for i in range(parts))
    text = (
        f"graph @g(%x: f32[1,4]) {{\n{maps}\n  %y = concat({operands}) {{axis=0}} : f32[{parts},4]\n  return %y\n}}"
    )
    return parse_graph(text, lookup)


def test_compose_movement_looks_at_the_operands_of_a_concat_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part asks whether its reader may read something else: the answer is the same for all of them."""
    looked = 0
    is_plain = patterns.is_plain

    def counted(node: Node) -> bool:
        nonlocal looked
        looked += len(node.operands)
        return is_plain(node)

    monkeypatch.setattr(compose_movement, "is_plain", counted)
    compose_movement.run(joined(200), Remarks())
    assert 200 < looked < 5 * 200
