"""Which cell a turn is: LSTM, GRU or RNN, by the forms of its new states (`turn_forms`), and with which weights.

Worked example: the new state ``n - z*n + z*h`` is that of a GRU if z and n are functions of what is read and of h
times weights, where n has the latter part multiplied by another such gate, or h before the product.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.ops.recurrent import Gru, Lstm, Recurrent, Rnn
from mccompile.passes.analysis.polynomials import Monomial, Poly, atom, number
from mccompile.passes.analysis.turn_forms import Fn, Numbers, Outer, Product, State, atoms

H = atom(State("h"))
C = atom(State("c"))

Opened = Callable[[Outer], Poly]
"""What a value from outside is as a sum of products of others."""


class NotACellError(Exception):
    """Why a turn is no cell."""


@dataclass(frozen=True)
class Gate:
    """The argument of a gate's activation: ``outside``, which no state has a part in, and what the states add."""

    outside: Poly
    recurrent: Array
    peephole: Array | None = None
    inner: Array | None = None
    """The constants that the reset gate of a GRU scales with the product."""


@dataclass(frozen=True)
class Cell:
    """A cell with its gates in the order of its operator; ``make(outputs, reverse)`` gives that.

    ``own`` are its operands behind the states: peepholes of an LSTM, the inner bias of a GRU.
    """

    make: Callable[[tuple[str, ...], bool], Recurrent]
    gates: tuple[Gate, ...]
    own: tuple[Array | None, ...] = ()

    @property
    def op(self) -> Recurrent:
        return self.make(("h",), False)

    def alike(self, other: Cell) -> bool:
        """Whether another cell computes the same of what is read and of the states."""
        return self.op == other.op and all(
            _equal(getattr(a, name), getattr(b, name))
            for a, b in zip(self.gates, other.gates, strict=True)
            for name in ("recurrent", "peephole", "inner")
        )


def _equal(a: Array | None, b: Array | None) -> bool:
    return (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))


def cell_of(h: Poly, c: Poly | None, units: int, opened: Opened) -> Cell:
    """The cell whose new state is ``h``, of an LSTM the new cell state ``c``. NotACellError if it is none."""
    if c is not None:
        return _lstm(h, c, units, opened)
    if State("h") in {a for m in h.terms for a in m.factors}:
        return _gru(h, units, opened)
    f, argument = activation(h)
    return Cell(lambda outputs, back: Rnn(outputs, back, f), (_gate(argument, units, opened),))


# -- activations -----------------------------------------------------------------------------------------------
def activation(form: Poly, of: Poly | None = None) -> tuple[ex.Expr, Poly]:
    """A form as a function of x0, and what x0 is: ``of``, or the sum in it that has a product in it."""
    found = _Argument(of)
    body = found.expression(form)
    if found.of is None:
        raise NotACellError("a gate does not depend on the state by a product")
    return body, found.of


@dataclass
class _Argument:
    of: Poly | None

    def expression(self, form: Poly) -> ex.Expr:
        if form.value is not None:
            return ex.num(form.value, F32)
        if self.of is None and any(isinstance(a, Product) for m in form.terms for a in m.factors):
            self.of = form
        if self.of is not None and (scale := _ratio(form, self.of)):
            x = ex.var(0, F32)
            return x if scale == 1 else ex.apply("mul", x, ex.num(scale, F32))
        terms = [self._term(m, c) for m, c in form.terms.items()]
        total = terms[0]
        for term in terms[1:]:
            total = ex.apply("add", total, term)
        return total

    def _term(self, m: Monomial, c: float) -> ex.Expr:
        parts: list[ex.Expr] = [] if c == 1 and m.factors else [ex.num(c, F32)]
        for a in m.factors:
            if not isinstance(a, Fn):
                raise NotACellError("a gate is no function of one sum")
            parts.append(ex.apply(a.name, *map(self.expression, a.args)))
        product = parts[0]
        for part in parts[1:]:
            product = ex.apply("mul", product, part)
        return product


def _ratio(form: Poly, of: Poly) -> float | None:
    """The number that ``form`` is a multiple of ``of`` by; None if it is none."""
    (m, c) = next(iter(of.terms.items()))
    scale = form.terms.get(m, 0.0) / c
    return scale if scale and of.scaled(scale) == form else None


# -- the argument of a gate ------------------------------------------------------------------------------------
def _gate(argument: Poly, units: int, opened: Opened, reset: Hashable = None, linear_first: bool = False) -> Gate:
    """The parts of an argument; ``reset`` is the gate that scales the recurrent one, of the new state of a GRU: the
    product with the weights, or h before it, and not some of both."""
    outside = number(0)
    recurrent: Array = np.zeros((units, units), np.float32)
    peephole: Array = np.zeros(units, np.float32)
    inner: Array = np.zeros(units, np.float32)
    of_state = H if reset is None or linear_first else H * atom(reset)
    for m, coefficient in argument.terms.items():
        factors = list(m.factors)
        scaled = reset is not None and reset in factors
        if scaled:
            factors.remove(reset)
        match factors:
            case [Product(of=of, weights=w)] if of == of_state and scaled == linear_first:
                if w.shape != (units, units):
                    raise NotACellError(f"its recurrent weights are no {units} by {units}")
                recurrent = recurrent + np.float32(coefficient) * w.array.T
            case [] | [Numbers()] if scaled:
                inner = inner + _array(factors, coefficient, units)
            case [State(name="c"), *rest] | [*rest, State(name="c")] if not scaled:
                peephole = peephole + _array(rest, coefficient, units)
            case [] | [Numbers()] | [Product()] if not scaled:
                outside = outside + Poly({m: coefficient})
            case [Outer() as of] if not scaled:
                outside = outside + opened(of).scaled(coefficient)
            case _:
                raise NotACellError("a gate reads the states other than by one product")
    if any(_reads_states(a) for m in outside.terms for a in m.factors):
        raise NotACellError("a gate multiplies what is computed of the state")
    parts = [a if a.any() else None for a in (peephole, inner)]
    return Gate(outside, recurrent.astype(np.float32), *parts)


def _array(factors: Sequence[Hashable], coefficient: float, units: int) -> Array:
    known = [f.array for f in factors if isinstance(f, Numbers)]
    if len(known) != len(factors) or len(known) > 1:
        raise NotACellError("a gate reads the cell state other than by constant weights")
    array = np.float32(coefficient) * (known[0] if known else np.ones(units, np.float32))
    return np.asarray(array, np.float32)


def _reads_states(a: Hashable) -> bool:
    if isinstance(a, State):
        return True
    inner = (a.of,) if isinstance(a, Product) else a.args if isinstance(a, Fn) else ()
    return any(_reads_states(b) for p in inner for m in p.terms for b in m.factors)


# -- LSTM ------------------------------------------------------------------------------------------------------
def _lstm(h: Poly, c: Poly, units: int, opened: Opened) -> Cell:
    k, o = _output_of(h, c)
    f, i, g = _forget_of(c)
    bodies = [activation(atom(gate)) for gate in ((i, o) if f is None else (i, o, f))]
    if len({body for body, _ in bodies}) > 1:
        raise NotACellError("its gates have different activations")
    new, argument = activation(atom(g))
    first = bodies[0][0]
    arguments = [a for _, a in bodies]
    if f is None:
        # The forget gate is 1 - i: its own weights are not read.
        zero = Gate(number(0), np.zeros((units, units), np.float32))
        gates = [_gate(a, units, opened) for a in (*arguments, argument)]
        ordered = [gates[0], gates[1], zero, gates[2]]
    else:
        ordered = [_gate(a, units, opened) for a in (*arguments, argument)]
    if ordered[3].peephole is not None:
        raise NotACellError("the new value of the cell depends on the cell state beside the forget gate")
    if ordered[1].peephole is not None:
        raise NotACellError("the output gate reads the cell state before the turn, not the one after it")
    each = [np.zeros(units, np.float32) if gate.peephole is None else gate.peephole for gate in ordered[:3]]
    holes = np.concatenate(each) if any(gate.peephole is not None for gate in ordered) else None
    return Cell(lambda outputs, back: Lstm(outputs, back, first, new, k, f is None), tuple(ordered), (holes,))


def _output_of(h: Poly, c: Poly) -> tuple[ex.Expr, Hashable]:
    """The function of the new cell state, and the gate it is multiplied by."""
    if len(h.terms) == 1:
        ((m, coefficient),) = h.terms.items()
        for inner, gate in (m.factors, m.factors[::-1]) if coefficient == 1 and len(m.factors) == 2 else ():
            found = cell_state_in(inner)
            if found == c:
                return activation(atom(inner), c)[0], gate
    raise NotACellError("its new state is no gate times a function of the cell state")


def cell_state_in(a: Hashable) -> Poly | None:
    """The sum of products of gates within functions: the new state of an LSTM's cell."""
    for form in a.args if isinstance(a, Fn) else ():
        if any(_is_gated(m) for m in form.terms) and not any(isinstance(p, Product) for p in atoms(form)):
            return form
        for inner in atoms(form):
            found = cell_state_in(inner)
            if found is not None:
                return found
    return None


def _is_gated(m: Monomial) -> bool:
    return len(m.factors) == 2 and any(isinstance(a, Fn) for a in m.factors)


def _forget_of(c: Poly) -> tuple[Hashable | None, Hashable, Hashable]:
    """The forget gate (None: it is 1 - i), the input gate and the new value of c = f*c + i*g."""
    state, rest = State("c"), dict(c.terms)
    kept = [m for m in rest if state in m.factors]
    made = [m for m in rest if state not in m.factors]
    if len(made) == 1 and len(made[0].factors) == 2 and rest[made[0]] == 1:
        i, g = made[0].factors
        f = _times(kept[0], state) if len(kept) == 1 and rest[kept[0]] == 1 else None
        if f is not None:
            return (f, *_ordered(i, g, f))
        if rest.get(Monomial((state,))) == 1 and len(kept) == 2:
            for gate, value in ((i, g), (g, i)):
                if rest.get(Monomial((gate, state))) == -1:
                    return None, gate, value
    raise NotACellError("its cell state is no sum of a gate times the one before and a gate times a new value")


def _times(m: Monomial, a: Hashable) -> Hashable | None:
    """What a product of two atoms multiplies ``a`` by; None where there is no other, as in the square of it."""
    others = [b for b in m.factors if b != a]
    return others[0] if len(m.factors) == 2 and len(others) == 1 else None


def _ordered(a: Hashable, b: Hashable, f: Hashable) -> tuple[Hashable, Hashable]:
    """Of two factors the gate, which has the activation of the forget gate, and the new value."""
    body = activation(atom(f))[0]
    if activation(atom(a))[0] != body and activation(atom(b))[0] == body:
        return b, a
    return a, b


# -- GRU -------------------------------------------------------------------------------------------------------
def _gru(h: Poly, units: int, opened: Opened) -> Cell:
    z, n, flipped = _update_of(h)
    f, argument = activation(atom(z))
    if flipped:
        argument = _complement(f, argument)
    g, inner = activation(atom(n))
    reset, linear_first = _reset_of(inner)
    gates = [_gate(argument, units, opened)]
    body, of_reset = activation(atom(reset))
    if body != f:
        raise NotACellError("its gates have different activations")
    gates.append(_gate(of_reset, units, opened))
    gates.append(_gate(inner, units, opened, reset, linear_first))
    if gates[2].inner is not None and not linear_first:
        raise NotACellError("its reset gate scales a constant beside the state")
    return Cell(lambda outputs, back: Gru(outputs, back, f, g, linear_first), tuple(gates), (gates[2].inner,))


def _update_of(h: Poly) -> tuple[Hashable, Hashable, bool]:
    """The update gate, the new value, and whether the gate is the share of the new value instead of the old one."""
    state, terms = State("h"), h.terms
    for m, c in terms.items():
        z = _times(m, state)
        if z is None:
            continue
        for n in (a for other in terms for a in other.factors if a not in (z, state)):
            old, new = atom(z) * H, atom(z) * atom(n)
            if c == 1 and old + atom(n) - new == h:
                return z, n, False
            if c == -1 and H - old + new == h:
                return z, n, True
    raise NotACellError("its new state is no mean of the old one and a new value, weighted by a gate")


def _complement(f: ex.Expr, argument: Poly) -> Poly:
    """The argument at which an activation is 1 less what it is at ``argument``."""
    x = ex.var(0, F32)
    if f == ex.apply("sigmoid", x):
        return argument.scaled(-1)
    zero, one = ex.num(0.0, F32), ex.num(1.0, F32)
    clipped = [ex.apply("min", ex.apply("max", x, zero), one), ex.apply("max", ex.apply("min", x, one), zero)]
    if f in clipped:
        return number(1) - argument
    raise NotACellError("1 less its update gate is no gate of the same activation")


def _reset_of(argument: Poly) -> tuple[Hashable, bool]:
    """The reset gate in the argument of the new value, and whether it scales the product with h instead of h."""
    for m in argument.terms:
        products = [a for a in m.factors if isinstance(a, Product)]
        if len(m.factors) == 2 and len(products) == 1 and products[0].of == H:
            return next(a for a in m.factors if a is not products[0]), True
        if len(m.factors) == 1 and products and len(products[0].of.terms) == 1:
            ((inner, c),) = products[0].of.terms.items()
            gate = _times(inner, State("h"))
            if c == 1 and gate is not None:
                return gate, False
    raise NotACellError("no gate scales the old state in its new value")
