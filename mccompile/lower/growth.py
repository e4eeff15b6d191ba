"""Chooses the kernels of a whole graph: what they add to the weights goes where a byte saves most.

Worked example: kernels of a and b would be faster on weights in another form.

    a    100 bytes more save 500 cycles, 30 save 120        b    40 bytes more save 400

b saves 10 cycles for a byte, a 5 with its 100 (and 4 with its 30, which so are no step on the way). With room for
120, b comes first; a's 100 do not fit into the 80 that are left, so that it takes its 30. In a `Budget` of a share
of 75 %, of the 520 cycles that this saves 390 are enough: b is all that grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import pairwise

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Node, Value
from mccompile.lower.select import Choice

Choose = Callable[[Node], Choice]
"""The choice for a node whose kernel may add any number of bytes to the weights."""


@dataclass(frozen=True)
class Budget:
    """What kernels may add to the weights: at most ``room`` bytes, and no more of them than save ``share`` of the
    cycles that so many bytes can save."""

    room: int = 0
    share: float = 1.0


NO_GROWTH = Budget()


@dataclass(frozen=True)
class _Group:
    """Nodes for which all kernels take the same, that read one constant: what one of these adds to it is added once.
    ``kept`` bytes stay beside that, for others read the constant as well."""

    nodes: tuple[Node, ...]
    kept: int


@dataclass(frozen=True)
class _Level:
    """Kernels that add so many bytes to the weights of a node, and the cycles that it takes then."""

    bytes: int
    cycles: float


@dataclass(frozen=True)
class _Step:
    """One node from one level to a better one."""

    node: Node
    bytes: int
    saved: float

    @property
    def worth(self) -> float:
        """Cycles saved for a byte."""
        return self.saved / max(self.bytes, 1)


def choose_all(graph: Graph, choose: Choose, budget: Budget) -> dict[Node, Choice]:
    """The kernels of all nodes, which together add to the weights what the budget allows, where that saves most.

    Raises CompileError naming every node no kernel supports.
    """
    choices: dict[Node, Choice] = {}
    errors: list[CompileError] = []
    for node in graph.nodes:
        if node.op.name == "reshape" or node.regions or is_empty(node):
            continue
        try:
            choices[node] = choose(node)
        except CompileError as e:
            errors.append(e)
    if errors:
        raise errors[0] if len(errors) == 1 else CompileError("\n".join(map(str, errors)))
    groups = {g.nodes[0]: g for g in _groups(graph, choices)}
    spent = _spent({n: list(_levels(choices[n], g)) for n, g in groups.items()}, budget)
    rooms = {n: added - groups[first].kept for first, added in spent.items() for n in groups[first].nodes}
    return {n: c.within(rooms.get(n, 0)) for n, c in choices.items()}


def _groups(graph: Graph, choices: Mapping[Node, Choice]) -> list[_Group]:
    """The nodes whose weights may grow: alone, or with those that share them."""
    found: dict[Hashable, list[Node]] = {}
    readers = graph.users()
    for node, choice in choices.items():
        if choice.growth > 0:
            ranked = tuple((c.offer, c.cycles, c.growth) for c in (choice.best, *choice.others))
            found.setdefault((_weights(graph, node), ranked), []).append(node)
    groups = []
    for nodes in found.values():
        w = _weights(graph, nodes[0])
        others = w is not None and len(readers[w]) > len(nodes)
        groups.append(_Group(tuple(nodes), w.type.nbytes if w is not None and others else 0))
    return groups


def _weights(graph: Graph, node: Node) -> Value | None:
    """The largest constant that a node reads."""
    known = [v for v in node.operands if v is not None and v in graph.constants]
    return max(known, key=lambda v: v.type.nbytes, default=None)


def _levels(choice: Choice, group: _Group) -> Iterator[_Level]:
    """What may be spent on a group, whose nodes all have this choice, the most first: each next is the best one that
    takes less than that."""
    times = len(group.nodes)
    while choice.growth > 0:
        yield _Level(choice.growth + group.kept, times * choice.best.cycles)
        choice = choice.within(choice.growth - 1)
    yield _Level(0, times * choice.best.cycles)


def _spent(levels: dict[Node, list[_Level]], budget: Budget) -> dict[Node, int]:
    """The bytes that each node may add."""
    taken = list(_taken(levels, budget.room))
    enough = budget.share * math.fsum(step.saved for step in taken)
    rooms: dict[Node, int] = {}
    saved = 0.0
    for step in taken:
        if saved >= enough:
            break
        rooms[step.node] = rooms.get(step.node, 0) + step.bytes
        saved += step.saved
    return rooms


def _taken(levels: dict[Node, list[_Level]], room: int) -> Iterator[_Step]:
    """The steps that fit, those that save most for a byte first."""
    at = {node: found[-1] for node, found in levels.items()}
    full: set[Node] = set()
    steps = [step for node, found in levels.items() for step in _steps(node, found)]
    for step in sorted(steps, key=lambda s: -s.worth):  # stable: of equals the first
        if step.node in full:
            continue
        if step.bytes > room:
            full.add(step.node)
            here = at[step.node]
            fits = [level for level in levels[step.node] if here.bytes < level.bytes <= here.bytes + room]
            step = _between(step.node, here, max(fits, key=lambda level: here.cycles - level.cycles, default=here))
        if step.saved > 0:
            room -= step.bytes
            here = at[step.node]
            at[step.node] = _Level(here.bytes + step.bytes, here.cycles - step.saved)
            yield step


def _steps(node: Node, levels: Iterable[_Level]) -> list[_Step]:
    """From the least level to the best, each step worth less than the one before: levels that only lie on the way to
    better ones are left out."""
    hull: list[_Level] = []
    for level in sorted(levels, key=lambda found: found.bytes):
        while len(hull) > 1 and _between(node, hull[-2], hull[-1]).worth <= _between(node, hull[-1], level).worth:
            hull.pop()
        hull.append(level)
    return [_between(node, a, b) for a, b in pairwise(hull)]


def _between(node: Node, a: _Level, b: _Level) -> _Step:
    return _Step(node, b.bytes - a.bytes, a.cycles - b.cycles)


def is_empty(node: Node) -> bool:
    """Whether no result of a node has elements, so that nothing computes it."""
    return all(r.type.count == 0 for r in node.results)


def weight_bytes(graph: Graph) -> int:
    """What the constants of a graph take as they are."""
    return sum(v.type.nbytes for v in graph.constants)
