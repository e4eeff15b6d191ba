"""The first turn of a cell that was written out, of which little is left where its states are zeros.

Worked example: of ``h1 = tanh(x1 . W + h0 . R + b)`` the importer leaves ``h1 = tanh(x1 . W + b)`` if h0 is 0. The
next turn, with 0 for h1 and x1 for x2, is the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

from mccompile.ir import expr as ex
from mccompile.ir.graph import Node
from mccompile.passes.analysis.cells import NotACellError
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.polynomials import Poly, atom, number
from mccompile.passes.analysis.turn_forms import Fn, Outer, Product, State, Turn, applied, atoms, weighted
from mccompile.passes.recognize.cell_inputs import Reads
from mccompile.passes.recognize.cell_turn import NO_CELL, Nodes, WrittenTurn, inner_of
from mccompile.passes.rewrite.patterns import is_plain, number_of


class FoldedTurn:
    """A turn whose states were zeros, of which the importer has folded what it could.

    It is compared with the next one, where the states are 0 there and values from outside are those that the same
    weights multiply.
    """

    def __init__(self, search: Nodes, following: WrittenTurn, rows: int) -> None:
        self.search, self.following, self.rows = search, following, rows
        self.nodes: set[Node] = set()

    def turn(self) -> WrittenTurn | None:
        """The turn that makes the states before the following one; None if it is another computation."""
        try:
            return self._turn()
        except NO_CELL:
            return None

    def _turn(self) -> WrittenTurn | None:
        wanted = self._wanted()
        made = self._made()
        read = _unified(wanted, made)
        if len(wanted) != len(made) or any(_with_read(w, read) != m for w, m in zip(wanted, made, strict=True)):
            return None
        reads = self.following.reads
        if not read.keys() >= set(reads.read):
            return None
        own = Reads(reads.gates, reads.one, tuple(read[o] for o in reads.read))
        after = self.following.before
        assert all(v is not None for v in after)
        return WrittenTurn((None,) * len(after), after, self.following.cell, own, frozenset(self.nodes))

    def _wanted(self) -> list[Poly]:
        """The forms of the states after the following turn, the ones before being 0."""
        search, following = self.search, self.following
        before = [v for v in following.before if v is not None]
        inside = {v for n in search.reached(before, following.level) for v in n.results}
        states = dict(zip(before, "hc", strict=False))
        turn = Turn(search.graph, search.producers, self.rows, states, inside.__contains__, True)
        h = following.after[0]
        assert h is not None
        form = turn.whole(h)
        inner = [f for f in (inner_of(form),) if f is not None and len(before) > 1]
        return [f.with_atoms(_without_states) for f in (form, *inner)]

    def _made(self) -> list[Poly]:
        """The forms of the states before the following turn, opened down to what weights multiply."""
        search = self.search
        before = [v for v in self.following.before if v is not None]
        opened = {v for v in before if v in search.producers}
        pending = list(opened)
        while pending:
            node = search.producers[pending.pop()]
            self.nodes.add(node)
            for v in node.inputs:
                above = search.producers.get(v)
                if above is None or v in opened:
                    continue
                stops = node.op.weight_axes is not None or _joins(node)
                if not stops or _joins(above) or self._is_zero(above):
                    opened.add(v)
                    pending.append(v)
        turn = Turn(search.graph, search.producers, self.rows, {}, opened.__contains__, True)
        return [turn.whole(v) for v in before]

    def _is_zero(self, node: Node) -> bool:
        """Whether a node multiplies by a constant 0: a gate and the first state."""
        body = node.op.elementwise
        scales = isinstance(body, ex.Apply) and body.fn == "mul" and is_plain(node)
        return scales and any(number_of(self.search.graph, v) == 0 for v in node.inputs)


def _joins(node: Node) -> bool:
    return moves(node.op) and len(node.operands) > 1


def _without_states(a: Hashable) -> Poly:
    match a:
        case State():
            return number(0)
        case Product(of=of, weights=w):
            return weighted(of.with_atoms(_without_states), w.array)
        case Fn(name=name, args=args):
            return applied(name, tuple(f.with_atoms(_without_states) for f in args))
    return atom(a)


def _with_read(form: Poly, read: Mapping[Outer, Outer]) -> Poly:
    return form.with_atoms(partial(_atom_with_read, read=read))


def _atom_with_read(a: Hashable, read: Mapping[Outer, Outer]) -> Poly:
    match a:
        case Outer():
            return atom(read.get(a, a))
        case Product(of=of, weights=w):
            return atom(Product(_with_read(of, read), w))
        case Fn(name=name, args=args):
            return atom(Fn(name, tuple(_with_read(f, read) for f in args)))
    return atom(a)


def _unified(wanted: Sequence[Poly], made: Sequence[Poly]) -> dict[Outer, Outer]:
    """What takes the place of what is read in forms: what is multiplied by the same weights, or what alone is read by
    none."""
    found: dict[Outer, Outer] = {}
    places = [_places(forms) for forms in (wanted, made)]
    for place, read in places[0].items():
        others = places[1].get(place, [])
        if len(read) != 1 or len(others) != 1 or found.setdefault(read[0], others[0]) != others[0]:
            raise NotACellError("what its first turn reads is told apart by nothing")
    return found


def _places(forms: Sequence[Poly]) -> dict[Hashable, list[Outer]]:
    """What is read by how many columns, and by the weights around it."""
    found: dict[Hashable, dict[Outer, None]] = {}
    pending: list[tuple[Poly, Hashable]] = [(form, None) for form in reversed(forms)]
    while pending:
        form, weights = pending.pop()
        for a in atoms(form):
            match a:
                case Outer(columns=columns, one=one):
                    found.setdefault((weights, len(columns), one), {})[a] = None
                case Product(of=of, weights=w):
                    pending.append((of, w))
                case Fn(args=args):
                    pending += [(inner, None) for inner in args]
    return {place: list(read) for place, read in found.items()}
