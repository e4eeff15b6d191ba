"""Vector forms of the recurrent cells: tiles of hidden units whose gates stay in registers, weights read forward.

Where weights are of bf16, and the target multiplies pairs of them or widens them best so, they lie in words of two:
of 3 units of a gate, of which the third has nobody beside it, in blocks of 2,

    w[0, 0] w[0, 1]  w[1, 0] w[1, 1]    w[0, 2] 0  w[1, 2] 0    w[2, 0] w[2, 1]  0 0    w[2, 2] 0  0 0

Where they are bytes, and the target adds up products of four bytes by four, they lie in words of four, and states are
put aside as digits at each step (`kernels/model/digits.py`): two where they are rounded to multiples of
1 / `FIXED`, else three. Instructions that want weights without sign, or with one, get them with the top bit flipped:
128 more, or less, without which each sum begins.

Weights that are computed when the network runs are packed into scratch memory then, before the first step.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import fields, replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I8, U8
from mccompile.kernels.model.arithmetic import by_name, float_arithmetic
from mccompile.kernels.model.digits import BYTES, DIGITS, LARGEST, digit_product
from mccompile.kernels.model.lanes import refusal
from mccompile.kernels.model.parts import Turns
from mccompile.kernels.model.tiles import LONG, RUN, Segment, fits, segments
from mccompile.kernels.model.widening import widened_operand
from mccompile.kernels.recurrent import is_narrow
from mccompile.kernels.variant import Builder, Offer, Packing, Variant, computed, vectors_apart
from mccompile.ops.recurrent import FIXED, Gru, Recurrent
from mccompile.targets.target import Target

WORDS = ("avx2", "avx512")
"""Instruction sets that make a vector of floats of 16 bits in two instructions of which one moves lanes, but in one
each of words of two (Zen 4: networks of an LSTM and of a GRU of 128 units take 0.72 and 0.75 of the time so, the LSTM
by AVX2 0.80)."""
VECTORS = 2
"""Vectors of units in a tile: the gates of all cells then hide the latency of a multiply-add."""
PACKED_FLOATS = 2
"""Weights that a cycle packs."""
FIXED_DIGITS = 2
"""Digits of multiples of 1 / `FIXED`."""
MOST_ITEMS = 4
"""Batch items of a tile, at most: as many products for each weight that is loaded hide that."""


@dataclass(frozen=True)
class UnitBlocks:
    """Recurrent weights [G*H, H] as [H / width][H / beside][G][width * beside], zeros behind the last unit. The top
    bits of bytes may be ``flipped``."""

    gates: int
    width: int
    beside: int = 1
    flipped: bool = False

    def pack(self, array: Array) -> Array:
        units = array.shape[1]
        if self.flipped:
            array = (array.view(np.uint8) ^ np.uint8(128)).view(array.dtype)
        blocks, words = -(-units // self.width), -(-units // self.beside)
        padded = np.zeros((self.gates, blocks * self.width, words * self.beside), dtype=array.dtype)
        padded[:, :units, :units] = array.reshape(self.gates, units, units)
        split = padded.reshape(self.gates, blocks, self.width, words, self.beside).transpose(1, 3, 0, 2, 4)
        return split.reshape(blocks, words, self.gates, self.width * self.beside)


@dataclass(frozen=True)
class PhasedBlocks:
    """Recurrent weights [3*H, H] as `UnitBlocks` of the first two gates, and behind them those of the third."""

    width: int
    beside: int = 1
    flipped: bool = False

    def pack(self, array: Array) -> Array:
        first = 2 * array.shape[1]
        parts = []
        for gates, rows in ((2, array[:first]), (1, array[first:])):
            parts.append(UnitBlocks(gates, self.width, self.beside, self.flipped).pack(rows).reshape(-1))
        return np.concatenate(parts)


@dataclass(frozen=True)
class Units:
    """``units`` hidden units in tiles of ``width``, for up to ``items`` batch items at a time, whose scratch memory
    lies so many elements ``apart``. Weights of ``beside`` units lie in one word. Where states are ``rounded`` before
    they are multiplied, they lie there so: as floats, last of an item's memory; behind it all as such words, or, for
    ``dot`` that multiplies bytes, as what 1 stands for, what sums of each digit begin with, and a plane of bytes for
    each digit. Weights of bytes are ``offset`` more than they were. Where weights are packed when the network runs,
    they lie there, and ``phases`` says how many gates each phase of a step has.
    """

    units: int
    width: int
    apart: int
    items: int = 1
    beside: int = 1
    rounded: bool = False
    dot: str = ""
    digits: int = DIGITS
    offset: int = 0
    phases: tuple[int, ...] = ()

    @property
    def tiles(self) -> tuple[Segment, ...]:
        return segments(self.units, self.width)

    @property
    def begins(self) -> int:
        """Where the weights of the third gate begin, behind `PhasedBlocks` of two."""
        return 2 * self.words * self.beside * (-(-self.units // self.width) * self.width)

    @property
    def packed_at(self) -> int:
        """Where in scratch weights begin that are packed there."""
        return self.items * self.apart

    @property
    def packed(self) -> int:
        """How many these are, filled up to whole tiles."""
        return sum(self.phases) * self.units * -(-self.units // self.width) * self.width

    @property
    def words(self) -> int:
        """Steps of a sum over all units."""
        return -(-self.units // self.beside)

    @property
    def run(self) -> int:
        """Steps of a run of the sums over all units; 0 where these are short."""
        return RUN // self.beside if self.units > LONG else 0

    @property
    def largest(self) -> int:
        """What the largest state becomes as a whole number of the digits: 1, where these are of `FIXED`."""
        return LARGEST if self.digits == DIGITS else FIXED

    @property
    def rounded_at(self) -> int:
        """Where in scratch states begin as they are multiplied, where they are rounded: those of the first item."""
        return self.apart - self.units if self.beside == 1 else self.apart

    def plane(self, lanes: int) -> int:
        """Bytes of a digit of all units, which are stored as whole vectors."""
        return -(-self.units // lanes) * lanes

    def held(self, lanes: int) -> int:
        """Floats of scratch behind all items that units take as they are multiplied: bf16 are made of two vectors at
        a time."""
        if self.dot:
            return 1 + self.digits + self.digits * self.plane(lanes) // 4
        return -(-self.units // (2 * lanes)) * lanes if self.rounded and self.beside > 1 else 0


class _Tiled(Variant):
    """A cell with one product per step."""

    params = Units
    may_share = False
    waiting = 0
    """Numbers of each unit that wait in scratch from one phase of a step to the next."""

    def takes(self, node: Node) -> bool:
        """Time and batch are loops; gates and units have to be known."""
        return not varies(v.shape[-1] for v in node.operands[:2] if v is not None)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x, r = node.operands[:2]
        assert x is not None
        assert r is not None
        assert isinstance(node.op, Recurrent)
        packs = r not in constants
        plain = r.dtype == F32 and 1 not in node.pre and not node.op.rounded
        if packs and (not plain or target.compact or target.lanes == 1):
            return computed(node, constants, 1)
        if reason := self._refusal(node, target):
            return reason
        steps, batch = x.shape[:2]
        units = r.shape[1]
        dot = digit_product(target) if r.dtype in (I8, U8) else ""
        beside = BYTES if dot else _beside(node, target)
        rounded = bool(node.op.rounded or dot)
        # The tiles of several items have no words, and take as many time steps for each of them.
        alone = beside > 1 or dot != "" or node.operands[2] is not None
        gates = self.at_once(node.op)
        vectors, items = _tile(gates, 1 if alone else batch, target)
        digits = FIXED_DIGITS if node.op.rounded == "fixed" else DIGITS
        if dot and gates * digits * vectors > target.machine.registers * 3 // 4:
            vectors = 1
        width = min(vectors, -(-units // target.lanes)) * target.lanes
        weights = r.type.nbytes / target.machine.l2_rate  # they come from the second cache at every time step
        cycles = steps * (-(-batch // items) * weights + batch * (2.0 * x.shape[2] + 100))
        as_floats = rounded and beside == 1 and not dot
        kept = (1 + len(node.op.states) + self.waiting + int(as_floats)) * units
        offset = by_name(dot).offset(r.dtype) if dot else 0
        phases = self.phases(node.op) if packs else ()
        tiles = Units(units, width, kept, items, beside, rounded, dot, digits, offset, phases)
        return Offer(self.label, cycles + tiles.packed / PACKED_FLOATS, tiles)

    def _refusal(self, node: Node, target: Target) -> str:
        op = node.op
        assert isinstance(op, Recurrent)
        narrow = is_narrow(node)
        if any(i != 1 or not narrow for i in node.pre):
            return "an operand has a prologue"
        bodies = [value for f in fields(op) if isinstance(value := getattr(op, f.name), ex.Expr)]
        return refusal(_as_floats(node, narrow), target, bodies) or self.peculiar(node)

    def at_once(self, op: Recurrent) -> int:
        """How many gates of a unit are summed up in one loop."""
        return op.gates

    def phases(self, op: Recurrent) -> tuple[int, ...]:
        """The gates of each phase of a step, in the order of their weights."""
        return (op.gates,)

    def peculiar(self, node: Node) -> str:
        """Why a cell of this kind is not vectorised; empty if it is."""
        return ""

    def packing(self, op: Recurrent, tiles: Units) -> Packing:
        """How the recurrent weights are packed."""
        return UnitBlocks(op.gates, tiles.width, tiles.beside, tiles.offset != 0)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, (x, r, *rest) = node.op, node.operands
        assert isinstance(op, Recurrent)
        assert x is not None
        assert r is not None
        tiles = offer.params
        assert isinstance(tiles, Units)
        weights = b.read(r) if tiles.phases else b.packed(r, self.packing(op, tiles))
        reads = [b.read(x), weights, *(None if v is None else b.read(v) for v in rest)]
        scratch = b.scratch(tiles.packed_at + tiles.packed + tiles.held(b.target.lanes), F32)
        results = [b.result(i) for i in range(len(node.results))]
        b.call(self.kernel, reads, results, params=tiles, scratch=scratch)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        """Batch items; of one item the units, in rounds: one that sets out, and one for each time step."""
        (x, *_), tiles = call.reads, call.params
        assert isinstance(tiles, Units)
        if x is None or varies(x.shape[:2]) or call.reads[2] is not None:  # a part cannot say that a length is none
            return []
        if tiles.phases:  # each part would pack all weights
            return []
        if x.shape[1] > 1:
            return [Turns.tiles("b", segments(x.shape[1], tiles.items))]
        if x.shape[0] == 1 or tiles.rounded or self.waiting:
            return []
        units = Turns.tiles("j", tiles.tiles)
        return [replace(units, rounds=x.shape[0] + 1)]

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        assert isinstance(after.params, Units)
        apart = vectors_apart(after, 1) if after.params.phases else ""
        return apart or super().refuses(before, after, target)

    def apart(self, call: Call, parts: int, target: Target) -> Call:
        """With tiles of fewer batch items, where there would be too few tiles."""
        (x, *_), tiles = call.reads, call.params
        assert isinstance(tiles, Units)
        if x is None or varies([x.shape[1]]) or x.shape[1] > tiles.items * (parts - 1):
            return call
        return replace(call, params=replace(tiles, items=min(tiles.items, -(-x.shape[1] // parts))))


def _tile(gates: int, batch: int, target: Target) -> tuple[int, int]:
    """Vectors of units, and batch items, of a tile: as many items as there are, up to `MOST_ITEMS`, and vectors as
    registers are left for. Items are shared out evenly: six go by threes."""
    most = 1 if target.compact or target.lanes == 1 else min(batch, MOST_ITEMS)
    if most > 1:
        most = max([i for i in range(2, most + 1) if fits(gates, i, target)], default=1)
    items = -(-batch // -(-batch // most))
    several = items == 1 or fits(gates * VECTORS, items, target)
    return (VECTORS if several else 1), items


def _beside(node: Node, target: Target) -> int:
    """Weights of a word: of bf16 those of an instruction that multiplies words of one row; or two, of which a shift
    and a mask make floats, where no instruction multiplies by a lane."""
    op, form, units = node.op, widened_operand(node, 1), node.operand_types()[1]
    assert isinstance(op, Recurrent)
    assert units is not None
    if op.rounded:
        own = float_arithmetic(target, op.rounded)
        return own.steps if own is not None and own.rows == 1 and own.steps == own.beside else 1
    return 2 if form == "bf16" and units.shape[1] % 2 == 0 and target.isa in WORDS else 1


def _as_floats(node: Node, narrow: bool) -> Node:
    """What vectors see of the node: no lengths, and floats for weights in fewer bits."""
    x, r, _, *rest = node.operands
    if not narrow:
        return replace(node, operands=[x, r, None, *rest])
    assert r is not None
    return replace(node, operands=[x, Value(r.name, r.type.with_dtype(F32)), None, *rest], pre={})


class LstmVector(_Tiled):
    ops = ("lstm",)
    kernel = "lstm.vector"


class GruVector(_Tiled):
    ops = ("gru",)
    kernel = "gru.vector"

    def peculiar(self, node: Node) -> str:
        assert isinstance(node.op, Gru)
        return "" if node.op.linear_first else "its reset gate scales h before the product"


class GruScaled(_Tiled):
    """A GRU whose reset gate scales h before the product: a step has two phases, each over all units."""

    ops = ("gru",)
    kernel = "gru.scaled"
    waiting = 2

    def at_once(self, op: Recurrent) -> int:
        return 2

    def phases(self, op: Recurrent) -> tuple[int, ...]:
        return 2, 1

    def packing(self, op: Recurrent, tiles: Units) -> Packing:
        return PhasedBlocks(tiles.width, tiles.beside, tiles.offset != 0)

    def peculiar(self, node: Node) -> str:
        assert isinstance(node.op, Gru)
        return "its reset gate scales the product" if node.op.linear_first else ""


class RnnVector(_Tiled):
    ops = ("rnn",)
    kernel = "rnn.vector"


VARIANTS = (LstmVector(), GruVector(), GruScaled(), RnnVector())
