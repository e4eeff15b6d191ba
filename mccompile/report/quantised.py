"""What of a quantised network is computed in floats: which nodes, why, and how much that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node
from mccompile.ir.names import own_names
from mccompile.passes.manager import PassRecord
from mccompile.report.choices import in_a_run, macs_of
from mccompile.targets.target import Target

_TOLD = ("integer-products", "integer-sums", "integer-softmax", "requantise")
"""The passes that make integers of floats; the last thing one of them says of a node is why it did not, and the first
of them says more than the others: of a product of floats nothing is rounded to integers either."""
_NAME = 80
_OWN = "the network computes it in floats"


def quantised(graph: Graph, passes: Sequence[PassRecord], target: Target) -> dict[str, Any] | None:
    """The multiply-adds of integers and of floats, and the nodes that compute floats; None for networks of floats.

    ``cost`` is multiply-adds, or elements where there are none. ``scaled`` nodes are not among those of floats: they
    read and write integers, and what they compute in between is in registers of floats, as the target's ``requant``
    has it.
    """
    if not any(_is_quantised(n) for n, _ in graph.everywhere()):
        return None
    told = sorted((p for p in passes if p.name in _TOLD), key=lambda p: p.name == _TOLD[0])
    reasons = {miss.what: miss.reason for record in told for miss in record.misses}
    floats = [n for n, _ in graph.everywhere() if _computes_floats(n)]
    why = {n: _reason(n, reasons) for n in floats}
    scaled = {n for n in floats if target.requant == "float" and not why[n] and _in_integers(n, graph)}
    return {
        "integer_macs": in_a_run(graph, lambda n: 0 if _multiplies_floats(n) else macs_of(n)),
        "float_macs": in_a_run(graph, lambda n: macs_of(n) if _multiplies_floats(n) else 0),
        "floats": [
            {"onnx": list(n.origins), "operator": n.op.name, "cost": _cost(n), "why": why[n] or _OWN}
            for n in floats
            if n not in scaled
        ],
        "scaled": len(scaled),
    }


def _is_small(dtype: str) -> bool:
    return dtype in ("i8", "u8", "i16", "u16")


def _is_quantised(node: Node) -> bool:
    """Whether a node makes bytes of sums or of floats: those of text, and of images before a network of floats, are
    only moved and looked up."""
    return any(_is_small(v.dtype.name) for v in node.results) and (bool(macs_of(node)) or _computes_floats(node))


def _computes_floats(node: Node) -> bool:
    """Whether anything in a node is arithmetic of floats: what it multiplies, or an expression around it."""
    parts = (part for body in node.expressions for part in ex.distinct(body))
    return _multiplies_floats(node) or any(map(_is_float, parts))


def _multiplies_floats(node: Node) -> bool:
    return any(t is not None and t.dtype.is_float for t in node.operand_types()) and bool(macs_of(node))


def _in_integers(node: Node, graph: Graph) -> bool:
    """Whether no tensor that a node reads or writes is of floats, but for constants such as scales."""
    read = [v for v in node.inputs if v not in graph.constants]
    return not any(v.dtype.is_float for v in (*read, *node.results))


def _is_float(e: ex.Expr) -> bool:
    return isinstance(e, ex.Apply | ex.Convert) and (e.dtype.is_float or any(a.dtype.is_float for a in e.args))


def _cost(node: Node) -> int:
    return macs_of(node) if _multiplies_floats(node) else bound(node.results[0].type.count)


def _reason(node: Node, reasons: dict[str, str]) -> str:
    """What a pass said that names one of the node's own ONNX nodes; empty if none did."""
    for what, reason in reversed(reasons.items()):
        if any(_names(what, origin) for origin in node.origins):
            return reason
    return ""


def _names(what: str, origin: str) -> bool:
    return f"({origin})" in what or f"({origin}," in what or f", {origin}," in what or f", {origin})" in what


def float_lines(found: dict[str, Any], most: int) -> Iterable[str]:
    """The nodes that compute floats, the dearest first."""
    nodes = sorted(found["floats"], key=lambda n: -n["cost"])
    for n in nodes[:most]:
        yield f"{n['operator']} {own_names(n['onnx'], _NAME)}: {n['cost']:,}; {n['why']}"
    if len(nodes) > most:
        yield f"and {len(nodes) - most} more, see report.json"
