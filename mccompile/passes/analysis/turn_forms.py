"""What a turn of a recurrent computation makes, as expressions of the states before it, whichever nodes compute that.

Worked example: one turn of a vanilla RNN of two units, x and h [1,2] beside each other times one matrix [4,2]:

    %xh = concat(%x, %h) {axis=1}           %p = matmul(%xh, %w)           %n = map(%p, %b) {expr={tanh((x0 + x1))}}

The form of %n is ``tanh(x . W[0:2] + h . W[2:4] + b)``: sums of products (`polynomials`) of the atoms below. Each
value is seen as [rows, columns], one row for each sequence of the batch; a form is that of some of its columns, so
that gates are found wherever movement has put them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.same_bits import product
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.passes.analysis.movement import moves, picks_places
from mccompile.passes.analysis.polynomials import ONE, Monomial, Poly, atom, number


class UnknownFormError(Exception):
    """A value has no form: why."""


@dataclass(frozen=True)
class Numbers:
    """An array by its content: a constant vector, or weights [K, columns]."""

    shape: tuple[int, ...]
    content: bytes = field(repr=False)

    @property
    def array(self) -> Array:
        return np.frombuffer(self.content, np.float32).reshape(self.shape)


def numbers(array: Array) -> Numbers:
    return Numbers(array.shape, np.ascontiguousarray(array, np.float32).tobytes())


@dataclass(frozen=True)
class State:
    """A state before the turn, column by column."""

    name: str


@dataclass(frozen=True)
class Outer:
    """Columns of a value that does not depend on the states; one row of it stands for all if it has only ``one``."""

    value: Value
    columns: tuple[int, ...] = field(repr=False)
    one: bool = False


@dataclass(frozen=True)
class Product:
    """The sum over k of ``of`` at column k times ``weights[k]``."""

    of: Poly
    weights: Numbers


@dataclass(frozen=True)
class Fn:
    """A scalar function of forms."""

    name: str
    args: tuple[Poly, ...]


Piece = tuple[Value, Array, bool, Array]
"""Columns of a value, whether it has one row for all sequences, and where these columns come to lie."""


def is_affine(form: Poly) -> bool:
    """Whether a form is a sum of constants, of values from outside, and of products of those."""
    return all(_is_outside(m) for m in form.terms)


def _is_outside(m: Monomial) -> bool:
    if len(m.factors) > 1:
        return False
    return all(isinstance(a, Numbers | Outer) or (isinstance(a, Product) and is_affine(a.of)) for a in m.factors)


@dataclass
class Turn:
    """The forms of values of ``graph`` in terms of ``states``.

    Attributes:
        rows: the sequences of the batch.
        depends: whether a value depends on one of the states.
        within: forms are looked for in values that depend on no state, too, as far as these are sums.
    """

    graph: Graph
    producers: Mapping[Value, Node]
    rows: int
    states: Mapping[Value, str]
    depends: Callable[[Value], bool]
    within: bool = False
    _forms: dict[tuple[Value, bytes, bool], Poly] = field(default_factory=dict)
    _moved: dict[Value, tuple[Array, Array]] = field(default_factory=dict)

    def whole(self, value: Value) -> Poly:
        """The form of all columns of a value. UnknownFormError if it has none."""
        if value.type.varies:
            raise UnknownFormError(f"the extents of %{value.name} are known at run time only")
        if value.type.count % self.rows:
            raise UnknownFormError(f"%{value.name} is no vector for each sequence")
        return self.form(value, np.arange(value.type.count // self.rows))

    def form(self, value: Value, columns: Array, one: bool = False) -> Poly:
        """The form of some columns of a value; ``one``: it has one row for all sequences."""
        key = (value, columns.tobytes(), one)
        if key not in self._forms:
            self._forms[key] = self._form(value, columns, one)
        return self._forms[key]

    def _form(self, value: Value, columns: Array, one: bool) -> Poly:
        if value.dtype != F32 or value.type.varies or value.type.layout is not None:
            raise UnknownFormError(f"%{value.name} is {value.type}")
        if isinstance(self.graph.constants.get(value), np.ndarray):
            return self._constant(value, columns, one)
        if value in self.states:
            if one:
                raise UnknownFormError(f"%{value.name} is read of one sequence for all of the batch")
            if not np.array_equal(columns, np.arange(value.type.count // self.rows)):
                raise UnknownFormError(f"a part of %{value.name} is read for itself")
            return atom(State(self.states[value]))
        if not self.depends(value):
            return self._outside(value, columns, one)
        node = self.producers.get(value)
        if node is None or one:
            raise UnknownFormError(f"%{value.name} is another state, or no vector for each sequence")
        return self._computed(node, value, columns)

    def _constant(self, value: Value, columns: Array, one: bool) -> Poly:
        array = self.graph.array(value).reshape(1 if one else self.rows, -1)[:, columns]
        if (array == array[0, 0]).all():
            return number(float(array[0, 0]))
        same = bool((array == array[0]).all())
        return atom(numbers(array[0]) if same else Outer(value, tuple(columns.tolist()), one))

    def _outside(self, value: Value, columns: Array, one: bool) -> Poly:
        node = self.producers.get(value)
        if self.within and node is not None and not one:
            try:
                found = self._computed(node, value, columns)
                if is_affine(found):
                    return found
            except UnknownFormError:
                pass
        return atom(Outer(value, tuple(columns.tolist()), one))

    def _computed(self, node: Node, value: Value, columns: Array) -> Poly:
        plain = not node.pre and not node.regions and not any(v.type.varies for v in (*node.inputs, *node.results))
        if plain and node.op.elementwise is not None and not node.post:
            return self._mapped(node.op.elementwise, node, columns)
        if plain and node.op.weight_axes is not None:
            return self._product(node, columns)
        if plain and not node.post and picks_places(node.op):
            pieces = self.pieces(value, columns, 1)
            if len(pieces) == 1 and pieces[0][0] is not value:
                return self.form(*pieces[0][:3])
        raise UnknownFormError(f"{node.where} is no step of a cell")

    # -- element by element ------------------------------------------------------------------------------------
    def _mapped(self, body: ex.Expr, node: Node, columns: Array, product: Poly | None = None) -> Poly:
        """The form of an expression over the operands of a node, of its extras where it is the epilogue."""
        operands = node.operands if product is None else node.extras

        def form(e: ex.Expr, of: Callable[[ex.Expr], Poly]) -> Poly:
            match e:
                case ex.Var(index=ex.ACC) if product is not None:
                    return product
                case ex.Var(index=index):
                    operand = operands[index]
                    assert operand is not None
                    return self._spread(operand, node.results[0], columns)
                case ex.Num():
                    return number(float(np.float32(e.value)))
                case ex.Apply(fn=fn, operands=args):
                    return applied(fn, tuple(map(of, args)))
            raise UnknownFormError(f"{node.where} is no step of a cell")

        return ex.OfParts(form)(body)

    def _spread(self, operand: Value, result: Value, columns: Array) -> Poly:
        """The form of an operand that is broadcast to a result."""
        if result.type.count % self.rows:
            raise UnknownFormError(f"%{result.name} is no vector for each sequence")
        ids = np.arange(operand.type.count).reshape(operand.shape)
        ids = np.broadcast_to(ids, result.shape).reshape(self.rows, -1)[:, columns]
        return self.form(operand, *self._along(ids, operand))

    def _along(self, ids: Array, operand: Value) -> tuple[Array, bool]:
        """Which columns of an operand elements ``ids`` [rows, columns] are, and whether one row is read for all."""
        first, count = ids[0], operand.type.count
        width = count // self.rows
        steps = ids - first
        whole = count == width * self.rows and bool((first < width).all())
        if whole and (steps == width * np.arange(self.rows)[:, None]).all():
            return first, False
        if not steps.any():
            return first, self.rows > 1
        raise UnknownFormError(f"%{operand.name} is read across the sequences of the batch")

    # -- movement ----------------------------------------------------------------------------------------------
    def pieces(self, value: Value, columns: Array, depth: int = 64) -> list[Piece]:
        """Which columns of which values those of a value are, as far back as these are moved."""
        node = self.producers.get(value)
        if node is not None and depth and value not in self.states and self._only_moves(node):
            try:
                return self._pieces(node, value, columns, depth)
            except UnknownFormError:
                pass
        return [(value, columns, False, np.arange(len(columns)))]

    def _only_moves(self, node: Node) -> bool:
        if node.pre or node.post or node.op.background is not None or not picks_places(node.op):
            return False
        return moves(node.op) or all(isinstance(self.graph.constants.get(v), np.ndarray) for v in node.inputs[1:])

    def _pieces(self, node: Node, value: Value, columns: Array, depth: int) -> list[Piece]:
        which, ids = self._sources(node, value)
        found: list[Piece] = []
        for i, operand in enumerate(node.operands):
            places = np.flatnonzero(which[columns] == i)
            if operand is None or not len(places):
                continue
            at, one = self._along(ids[:, columns[places]], operand)
            inner = [(operand, at, one, np.arange(len(at)))] if one else self.pieces(operand, at, depth - 1)
            found += [(of, own, alone, places[where]) for of, own, alone, where in inner]
        return found

    def _sources(self, node: Node, value: Value) -> tuple[Array, Array]:
        """Of each column of a moved value the operand it comes from, and of each element which it is there."""
        if value not in self._moved:
            if any(v.type.varies for v in (*node.inputs, *node.results)) or value.type.count % self.rows:
                raise UnknownFormError(f"{node.where} moves what is no vector for each sequence")
            arrays: list[Array | None] = []
            begins = [0]
            for i, v in enumerate(node.operands):
                assert v is not None
                if i and not moves(node.op):
                    arrays.append(self.graph.array(v))
                    continue
                arrays.append(begins[-1] + np.arange(v.type.count).reshape(v.shape))
                begins.append(begins[-1] + v.type.count)
            ids = np.asarray(node.op.evaluate(*arrays)[node.results.index(value)]).reshape(self.rows, -1)
            which = np.searchsorted(begins, ids, side="right") - 1
            if not (which == which[0]).all():
                raise UnknownFormError(f"{node.where} mixes the sequences of the batch")
            self._moved[value] = which[0], ids - np.asarray(begins)[which]
        return self._moved[value]

    # -- products ----------------------------------------------------------------------------------------------
    def _product(self, node: Node, columns: Array) -> Poly:
        x, weights = self._factors(node)
        total = number(0)
        for of, at, one, places in self.pieces(x, np.arange(weights.shape[0])):
            part = weights[places][:, columns]
            known = of in self.states or of in self.graph.constants or self.depends(of)
            inner = self.form(of, at, one) if known else atom(Outer(of, tuple(at.tolist()), one))
            total = total + weighted(inner, part)
        body = node.post.get(0)
        return total if body is None else self._mapped(body, node, columns, total)

    def _factors(self, node: Node) -> tuple[Value, Array]:
        """What a product multiplies, row by row, by weights [K, N]."""
        a, b = node.operands
        assert a is not None
        assert b is not None
        order = node.op.weight_axes
        assert order is not None
        if 0 in (a.type.count, b.type.count):
            raise UnknownFormError(f"{node.where} multiplies nothing")
        constants = {v for v in (a, b) if isinstance(self.graph.constants.get(v), np.ndarray)}
        rows = a.type.count // a.shape[-1]
        if b in constants and b.type.count == b.shape[-1] * b.shape[-2] and rows == self.rows:
            return a, self.graph.array(b).reshape(b.shape[-2:]).transpose(order)
        column = b.shape[-2:][order[1]] == 1 and b.type.count == a.shape[-1]  # as in W @ h
        if a in constants and column and self.rows == 1 and a.type.count == a.shape[-1] * a.shape[-2]:
            return b, self.graph.array(a).reshape(a.shape[-2:]).T
        raise UnknownFormError(f"{node.where} is no product with constant weights")


def weighted(of: Poly, weights: Array) -> Poly:
    """The sum over k of a form at column k times weights[k]: term by term."""
    total = number(0)
    for m, c in of.terms.items():
        if not m.factors:
            total = total + _vector(np.float32(c) * weights.sum(axis=0))
        elif len(m.factors) == 1 and isinstance(m.factors[0], Numbers):
            total = total + _vector(np.float32(c) * product(m.factors[0].array[None], weights)[0])
        else:
            total = total + atom(Product(Poly({m: 1.0}), numbers(weights))).scaled(c)
    return total


def _vector(array: Array) -> Poly:
    return number(float(array[0])) if (array == array[0]).all() else atom(numbers(array))


def applied(fn: str, args: tuple[Poly, ...]) -> Poly:
    """A scalar function of forms; sigmoid in the forms that it is written in is sigmoid."""
    known = [a.value for a in args]
    if fn in ("add", "sub"):
        return _sigmoid_of_tanh(args[0] + args[1] if fn == "add" else args[0] - args[1])
    if fn == "mul":
        return args[0] * args[1]
    if fn == "neg":
        return args[0].scaled(-1)
    if fn == "div" and known[1]:
        return args[0].scaled(1 / known[1])
    if all(v is not None for v in known):
        return number(float(ex.evaluate(ex.apply(fn, *(ex.num(v, F32) for v in known if v is not None)), np.zeros)))
    if fn == "div" and known[0] == 1 and args[1].terms.get(ONE) == 1:
        power = (args[1] - number(1)).only
        if isinstance(power, Fn) and power.name == "exp":
            return atom(Fn("sigmoid", (power.args[0].scaled(-1),)))
    return atom(Fn(fn, args))


def _sigmoid_of_tanh(form: Poly) -> Poly:
    """0.5 tanh(x / 2) + 0.5 is sigmoid(x)."""
    rest = (form - number(0.5)).scaled(2).only
    if isinstance(rest, Fn) and rest.name == "tanh":
        return atom(Fn("sigmoid", (rest.args[0].scaled(2),)))
    return form


def atoms(form: Poly) -> list[Hashable]:
    """The atoms of a form, those inside of others not, each once."""
    return list(dict.fromkeys(a for m in form.terms for a in m.factors))
