"""Outputs that are kept as inputs of the next run: what ``--state OUT=IN`` says, and which pairs look like it.

Worked example: a network with an input ``h_in`` and an output ``h_out`` of one type. ``--state h_out=h_in`` makes
both one tensor of the network, which begins with zeros. Where nobody says so, the pair is offered in a note:

>>> partner("h_out"), partner("present.3.key"), partner("cache")
(('h_in', 'h0', 'h'), ('past.3.key', 'past_key_values.3.key'), ())
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from mccompile.ir.errors import UsageError
from mccompile.ir.graph import Graph
from mccompile.ir.names import first_of
from mccompile.ir.state import growth, to_fix, unlike_state
from mccompile.ir.types import TensorType

MAX_SHOWN = 3
"""Pairs that a note names."""

_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"(.*)present(.*)", (r"\1past\2", r"\1past_key_values\2")),
    (r"(.*)_out(.*)", (r"\1_in\2", r"\g<1>0\2", r"\1\2")),
    (r"(.*)out_(.*)", (r"\1in_\2", r"\1\2")),
    (r"(.*)(?:_next|_new|next_|new_)(.*)", (r"\1\2", r"\1_in\2")),
    (r"(.+)[nN]", (r"\g<1>0", r"\1", r"\1_0")),
)
"""What outputs that are kept are called, and the inputs that they become."""


def partner(output: str) -> tuple[str, ...]:
    """What an input may be called that an output of this name is in the next run."""
    found = [[m.expand(name) for name in names] for pattern, names in _NAMES if (m := re.fullmatch(pattern, output))]
    return tuple(found[0]) if found else ()


def keep_state(graph: Graph, wanted: Mapping[str, str], otherwise: Collection[str], notes: list[str]) -> None:
    """Let outputs be inputs of the next run.

    Args:
        graph: as imported.
        wanted: input by output.
        otherwise: the inputs of which options say something else: another format.
        notes: takes the pairs that look like state and are not ``wanted``.

    Raises:
        UsageError: no such output or input, types that differ, or an input that two outputs would be.
    """
    inputs, outputs = {v.name: v for v in graph.inputs}, {v.name: v for v in graph.outputs}
    for kept, given in wanted.items():
        what = f"state {kept!r} = {given!r}"
        for name, known, kind in ((kept, outputs, "output"), (given, inputs, "input")):
            if name not in known:
                raise UsageError(f"{what}: there is no {kind} {name!r}", hint=f"the {kind}s are: {', '.join(known)}")
        if given in graph.state.values():
            raise UsageError(f"{what}: another output is that input already", hint="say --state once for each input")
        if given in otherwise:
            raise UsageError(f"{what}: --input says of what else it is made", hint="leave one of the two out")
        if why := unlike_state(outputs[kept].type, inputs[given].type):
            raise UsageError(f"{what}: {why}", hint=_remedy(outputs[kept].type, inputs[given].type))
        graph.state[kept] = given
    _require_one_growth(graph)
    _offer(graph, notes)


def _remedy(kept: TensorType, given: TensorType) -> str:
    """What to do about an output that cannot be an input of the next run."""
    fixed = " ".join(f"--dim {s.name}={s.high}" for s in to_fix(kept, given))
    return f"one extent for all runs: {fixed}" if fixed else "both are one tensor of the network, and need one type"


def _require_one_growth(graph: Graph) -> None:
    found: dict[str, tuple[str, int]] = {}
    for kept, given in graph.state_values():
        grown = growth(kept.type, given.type)
        if grown is not None and found.setdefault(grown.name, (kept.name, grown.by))[1] != grown.by:
            other, by = found[grown.name]
            raise UsageError(
                f"state {kept.name!r}: {grown.name} grows by {grown.by}, and in {other!r} by {by}",
                hint="what is as long before a run has to be as long behind it",
            )


def _offer(graph: Graph, notes: list[str]) -> None:
    free = {v.name: v.type for v in graph.inputs if v.name not in graph.state.values()}
    found = []
    for v in graph.outputs:
        if v.name not in graph.state:
            alike = [name for name in partner(v.name) if name in free and not unlike_state(v.type, free[name])]
            found += [f"--state {v.name}={name}" for name in alike[:1]]
            for name in alike[:1]:
                del free[name]
    if found:
        shown = first_of(found, MAX_SHOWN, " ")
        notes.append(f"by their names outputs may be inputs of the next run, kept with {shown}")
