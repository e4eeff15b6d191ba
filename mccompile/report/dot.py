"""The picture of an IR as Graphviz text."""

from __future__ import annotations

from collections.abc import Iterable

from mccompile.ir.files import IR
from mccompile.report.picture import Box, Fact, picture

_WIDTH = 72


def dot_text(ir: IR) -> str:
    """A graph, kernel module or program as one DOT digraph.

    Nodes: ``i0 ..`` inputs, ``c0 ..`` constants, ``n0 ..`` nodes of the IR in order, ``o0 ..`` outputs. Each
    operand and each output is an edge, labelled with name and type of its value.
    """
    p = picture(ir)
    sources: dict[str, str] = {}
    lines = [f"digraph {_quoted([p.name])} {{", '  node [fontname="monospace", fontsize=10, shape=box];']
    for i, name in enumerate(p.inputs):
        sources[name] = f"i{i}"
        lines.append(f"  i{i} [label={_quoted([name, str(p.types[name])])}, shape=ellipse];")
    for i, name in enumerate(p.constants):
        sources[name] = f"c{i}"
        lines.append(f"  c{i} [label={_quoted([name, str(p.types[name])])}, style=dashed];")
    for i, box in enumerate(p.boxes):
        sources.update(dict.fromkeys(box.outputs, f"n{i}"))
        lines.append(f"  n{i} [label={_quoted(_box_lines(box))}];")
    for i, name in enumerate(p.outputs):
        lines.append(f"  o{i} [label={_quoted([name, str(p.types[name])])}, shape=ellipse];")
    ends = [(name, f"n{i}") for i, box in enumerate(p.boxes) for name in box.inputs if name]
    ends += [(name, f"o{i}") for i, name in enumerate(p.outputs)]
    for name, end in ends:
        lines.append(f"  {sources[name]} -> {end} [label={_quoted([name, str(p.types[name])])}];")
    return "\n".join([*lines, "}", ""])


def _box_lines(box: Box) -> list[str]:
    return [box.kind, *(f"{key}: {_fact_text(fact)}" for key, fact in box.facts.items())]


def _fact_text(fact: Fact) -> str:
    text = ", ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _quoted(lines: Iterable[str]) -> str:
    r"""Lines as a DOT string. Graphviz reads ``\`` and ``&`` in labels itself, so names must not have them bare."""
    return '"' + "\\n".join("".join(map(_escaped, line)) for line in lines) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "&":
        return "&amp;"
    return char if char.isprintable() else char.encode("unicode_escape").decode().replace("\\", "\\\\")
