"""Nodes that are written as text."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.parser

from mccompile.ir.names import Names


def spelt(text: str, called: Mapping[str, str], base: str, names: Names) -> list[onnx.NodeProto]:
    """The nodes of a text. What it names is ``called`` so in the model, or else new there: ``base`` and its name.

    Of ``"two = Add(x, x) y = Mul(two, x)"``, called ``{"x": "a", "y": "b"}`` on base ``"b"``: ``b.two = Add(a, a)``,
    ``b = Mul(b.two, a)``.
    """
    nodes = list(onnx.parser.parse_graph(f"g (float[N] x) => (float[N] y) {{ {text} }}").node)
    found = dict(called)
    for node in nodes:
        for values in (node.input, node.output):
            for i, name in enumerate(values):
                if name not in found:
                    found[name] = names.fresh(f"{base}.{name}")
                values[i] = found[name]
    return nodes
