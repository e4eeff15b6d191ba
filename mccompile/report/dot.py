"""The picture of an IR as Graphviz text.

Names are cut to their own parts, so that boxes stay as narrow as what they say; whoever draws it as SVG has all of it
in the tips of boxes and edges. Constants stand in the boxes that read them: as boxes of their own they would be most
of the picture.
"""

from __future__ import annotations

from collections.abc import Iterable

from mccompile.ir.files import IR
from mccompile.ir.names import own_part
from mccompile.report.picture import Box, Fact, Picture, picture

_WIDTH = 44
"""Letters of a line in a box."""
_NAME = 26
"""Letters of a name at an edge."""
_INNER = ("params", "reads", "results", "result_offsets", "extras", "args", "shares_memory")
"""Facts that are in the tip alone: how, not what."""
_HEAD = (
    '  node [fontname="monospace", fontsize=10, shape=box, style="rounded,filled", color="#8a94a3", '
    'fillcolor="#eef3fb"];',
    '  edge [fontname="monospace", fontsize=9, fontcolor="#5b6470", color="#8a94a3", arrowsize=0.6];',
)
_COLOURS = {"i": "#dff1e5", "o": "#fbe6da"}
"""Of inputs and outputs."""
_MOVES = ("copy", "fill", "transpose", "reshape", "slice", "concat", "split", "pad", "expand", "tile")
"""Kinds that compute nothing: they are grey."""


def dot_text(ir: IR) -> str:
    """A graph, kernel module or program as one DOT digraph.

    Nodes: ``i0 ..`` inputs, ``n0 ..`` nodes of the IR in order, ``o0 ..`` outputs. Each operand that is no constant,
    and each output, is an edge, labelled with name and type of its value.
    """
    p = picture(ir)
    sources: dict[str, str] = {}
    lines = [f"digraph {_quoted([p.name])} {{", *_HEAD]
    for i, name in enumerate(p.inputs):
        sources[name] = f"i{i}"
        lines.append(_node(f"i{i}", _value(p, name), [name], shape="ellipse"))
    for i, box in enumerate(p.boxes):
        sources.update(dict.fromkeys(box.outputs, f"n{i}"))
        lines.append(_node(f"n{i}", _box_lines(p, box), _all_lines(box)))
    for i, name in enumerate(p.outputs):
        lines.append(_node(f"o{i}", _value(p, name), [name], shape="ellipse"))
    ends = [(name, f"n{i}") for i, box in enumerate(p.boxes) for name in box.inputs if name and name in sources]
    ends += [(name, f"o{i}") for i, name in enumerate(p.outputs) if name in sources]
    for name, end in ends:
        lines.append(f"  {sources[name]} -> {end} [label={_quoted(_value(p, name))}, edgetooltip={_quoted([name])}];")
    return "\n".join([*lines, "}", ""])


def _node(name: str, label: Iterable[str], tip: Iterable[str], shape: str = "") -> str:
    label = list(label)
    colour = _COLOURS.get(name[0], "#f1f2f4" if label[0] in _MOVES else "")
    more = f', fillcolor="{colour}"' if colour else ""
    more += f", shape={shape}" if shape else ""
    return f"  {name} [label={_quoted(label)}, tooltip={_quoted(tip)}{more}];"


def _value(p: Picture, name: str) -> list[str]:
    return [own_part(name, _NAME), str(p.types[name])]


def _box_lines(p: Picture, box: Box) -> list[str]:
    """What a box says: its kind, its facts in short, and the constants that it reads."""
    facts = {key: fact for key, fact in box.facts.items() if key not in _INNER}
    origins = facts.pop("origins", "")
    names = [own_part(name, _WIDTH) for name in str(origins).split(" + ")] if origins else []
    shown = [*names[:2], f"and {len(names) - 2} more"] if len(names) > 3 else names
    constants = [name for name in dict.fromkeys(box.inputs) if name in p.constants]
    return [
        box.kind, *shown,
        *(_cut(f"{key}: {_fact_text(fact)}") for key, fact in facts.items()),
        *(f"{own_part(name, _NAME)} {p.types[name]}" for name in constants),
    ]  # fmt: skip


def _all_lines(box: Box) -> list[str]:
    return [box.kind, *(f"{key}: {_fact_text(fact)}" for key, fact in box.facts.items())]


def _fact_text(fact: Fact) -> str:
    return ", ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)


def _cut(text: str) -> str:
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
