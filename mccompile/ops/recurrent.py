"""Recurrent cells, one direction each: `lstm`, `gru`, `rnn` (ONNX operators LSTM, GRU, RNN).

What depends on the input alone is no part of them: they read the gates' share of it, biases included, as one
matrix product made it for all time steps, and do the recurrent half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import require_same
from mccompile.ir.op import Op, Recurrence, TypeRuleError
from mccompile.ir.same_bits import product
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Coordinates, Nest, Structure, axis_loops
from mccompile.ir.types import F32, I32, Shape, TensorType

FIXED = 127 * 256 + 127
"""Steps from 0 to 1 of the grid of states that are rounded to fixed steps: no two bytes hold more, one to the base of
the other, of numbers of either sign."""


@dataclass(frozen=True)
class Recurrent(Op):
    """Base of the cells, which have ``gates`` gates (G) of H units.

    Operands: gates x[T, B, G*H]; recurrent weights r[G*H, H]; i32 lengths[B] (absent: T each); h[B, H] at the
    start (absent: 0); then the cell's own. All are of the type of r, but gates may be floats beside halves. Results
    are those of ``outputs``, in this order: "y" (every h, [T, B, H], 0 from a length on), "h" and "c" (the last of
    each, [B, H]). ``reverse`` begins at the end.

    Activations are expressions over ``x0``, any clipping of their argument included. What is multiplied by the
    weights is ``rounded`` before: to the floats of 16 bits that this names, if it names any; or "fixed", where
    states are between -1 and 1, to multiples of 1 / `FIXED`.
    """

    gates: ClassVar[int] = 0
    states: ClassVar[tuple[str, ...]] = ("h",)
    words = (("rounded", ("", "bf16", "fixed")),)

    outputs: tuple[str, ...]
    reverse: bool
    rounded: str = field(default="", kw_only=True)

    def rounding(self, form: str) -> Op | None:
        return replace(self, rounded=form) if form == "bf16" else None

    @property
    def factor(self) -> ex.Expr | None:
        """What becomes of an element, ``x0``, before it is multiplied; None: nothing."""
        x = ex.var(0, F32)
        if self.rounded == "fixed":
            steps = ex.apply("rne", ex.apply("mul", x, ex.num(np.float32(FIXED), F32)))
            return ex.apply("mul", steps, ex.num(np.float32(1 / FIXED), F32))
        return ex.apply(f"round_{self.rounded}", x) if self.rounded else None

    @property
    def weights(self) -> int | None:
        return 1

    @property
    def recurrence(self) -> Recurrence:
        whole = replace(self, outputs=(*(o for o in self.outputs if o == "y"), *self.states))
        return Recurrence(self.states, self.outputs, 3, 2, self.reverse, whole)

    def own_shapes(self, batch: int, hidden: int) -> tuple[Shape, ...]:
        """The shapes of the cell's own operands."""
        return ()

    def step(self, x: Array, r: Array, state: dict[str, Array], own: Sequence[Array | None]) -> dict[str, Array]:
        """The states after one time step."""
        raise NotImplementedError

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Every element depends on all times and units of its sequence in the batch."""
        nests = []
        for i, y in enumerate(self.infer(*types)):
            batch = axis_loops(y.rank, y.rank)[-2]
            own: list[Coordinates | None] = [(None, batch, None), (None, None), (batch,), (batch, None)]
            for t in types[4:]:
                own.append(None if t is None else (batch, None) if t.rank == 2 else (None,))
            reads = tuple(None if t is None else at for t, at in zip(types, own, strict=True))
            nests.append(Nest(y.shape, axis_loops(y.rank, y.rank), reads, i))
        return tuple(nests)

    def product(self, h: Array, r: Array) -> Array:
        """What is multiplied by rows of weights."""
        return product(h if self.factor is None else _apply(self.factor, h), r.T)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, r, *rest = types
        assert x is not None
        assert r is not None
        if self.rounded and x.dtype != F32:
            raise TypeRuleError(f"gates {x} are none of f32, of which products are rounded")
        if x.rank != 3 or r.rank != 2 or x.dtype not in (r.dtype, r.dtype.compute) or not r.dtype.is_float:
            raise TypeRuleError(f"gates {x} and recurrent weights {r}: float tensors of ranks 3 and 2 are needed")
        (steps, batch, width), hidden = x.shape, r.shape[1]
        if width != r.shape[0] or width != self.gates * hidden:
            raise TypeRuleError(f"gates {x} do not fit recurrent weights {r}: {self.gates} gates")
        expected = [TensorType(I32, (batch,))]
        expected += [TensorType(r.dtype, s) for s in ((batch, hidden), *self.own_shapes(batch, hidden))]
        for have, want in zip(rest, expected, strict=True):
            if have is not None and (have.dtype != want.dtype or not require_same(have.shape, want.shape)):
                raise TypeRuleError(f"{have} is given where {want} is needed")
        if not self.outputs or not set(self.outputs) <= {"y", *self.states}:
            raise TypeRuleError(f"results {self.outputs} are not among y, {', '.join(self.states)}")
        state = TensorType(r.dtype, (batch, hidden))
        return tuple(TensorType(r.dtype, (steps, batch, hidden)) if o == "y" else state for o in self.outputs)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, r = (np.asarray(a) for a in arrays[:2])
        lengths, h, *own = arrays[2:]
        dtype = np.promote_types(x.dtype, np.float32)
        steps, batch, hidden = x.shape[0], x.shape[1], r.shape[1]
        ends = np.full(batch, steps) if lengths is None else np.asarray(lengths).astype(np.int64)
        state = {name: np.zeros((batch, hidden), dtype) for name in self.states}
        for name, given in zip(self.states, (h, own[0] if len(self.states) > 1 else None), strict=False):
            state[name] = state[name] if given is None else np.asarray(given).astype(dtype)
        y = np.zeros((steps, batch, hidden), dtype)
        for s in range(steps):
            live = np.flatnonzero(s < ends)
            at = ends[live] - 1 - s if self.reverse else np.full(len(live), s)
            before = {name: a[live] for name, a in state.items()}
            after = self.step(x[at, live].astype(dtype), r.astype(dtype), before, own)
            for name, a in after.items():
                state[name][live] = a
            y[at, live] = after["h"]
        return tuple((y if o == "y" else state[o]).astype(r.dtype) for o in self.outputs)

    def macs(self, types: Sequence[TensorType | None], results: Sequence[TensorType]) -> int:
        x, r = types[:2]
        assert x is not None
        assert r is not None
        return x.shape[0] * x.shape[1] * r.count


def _apply(body: ex.Expr, x: Array) -> Array:
    return ex.evaluate(body, lambda i: x, wide=x.dtype == np.float64)


@dataclass(frozen=True)
class Lstm(Recurrent):
    """Gates in the order i, o, f, c. Own operands: c[B, H] at the start, peepholes[3*H] (i, o, f), or absent.

    With ``input_forget`` the forget gate is 1 - i.
    """

    name = "lstm"
    gates = 4
    states = ("h", "c")

    f: ex.Expr
    g: ex.Expr
    h: ex.Expr
    input_forget: bool = False

    def own_shapes(self, batch: int, hidden: int) -> tuple[Shape, ...]:
        return ((batch, hidden), (3 * hidden,))

    def step(self, x: Array, r: Array, state: dict[str, Array], own: Sequence[Array | None]) -> dict[str, Array]:
        i, o, f, c = np.split(x + self.product(state["h"], r), 4, axis=1)
        before = state["c"]
        if own[1] is None:
            pi, po, pf = (np.zeros(r.shape[1], x.dtype),) * 3
        else:
            pi, po, pf = np.split(own[1].astype(x.dtype), 3)
        i = _apply(self.f, i + pi * before)
        f = 1 - i if self.input_forget else _apply(self.f, f + pf * before)
        c = f * before + i * _apply(self.g, c)
        o = _apply(self.f, o + po * c)
        return {"h": o * _apply(self.h, c), "c": c}


@dataclass(frozen=True)
class Gru(Recurrent):
    """Gates in the order z, r, h. Own operand: the recurrent bias[H] of gate h, or absent.

    With ``linear_first`` (ONNX: linear_before_reset) the reset gate scales the product with the weights, that
    bias included; else it scales h before the product, and the bias is a part of x.
    """

    name = "gru"
    gates = 3

    f: ex.Expr
    g: ex.Expr
    linear_first: bool = False

    def own_shapes(self, batch: int, hidden: int) -> tuple[Shape, ...]:
        return ((hidden,),)

    def step(self, x: Array, r: Array, state: dict[str, Array], own: Sequence[Array | None]) -> dict[str, Array]:
        n, h = r.shape[1], state["h"]
        z, reset = np.split(_apply(self.f, x[:, : 2 * n] + self.product(h, r[: 2 * n])), 2, axis=1)
        if self.linear_first:
            bias = 0 if own[0] is None else own[0].astype(x.dtype)
            inner = reset * (self.product(h, r[2 * n :]) + bias)
        else:
            inner = self.product(reset * h, r[2 * n :])
        return {"h": (1 - z) * _apply(self.g, x[:, 2 * n :] + inner) + z * h}


@dataclass(frozen=True)
class Rnn(Recurrent):
    """One gate: h = f(x + h r^T)."""

    name = "rnn"
    gates = 1

    f: ex.Expr

    def step(self, x: Array, r: Array, state: dict[str, Array], own: Sequence[Array | None]) -> dict[str, Array]:
        return {"h": _apply(self.f, x + self.product(state["h"], r))}
