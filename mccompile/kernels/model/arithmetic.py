"""How vectors multiply and add bytes: what a word holds of an operand, and what is packed beside it.

Each step of a sum takes one word of each row of the operand, in all lanes, times a vector of words of packed weights,
one for each column; the products of a word are added up in the lane::

    vnni     u8 u8 u8 u8    times    i8 i8 i8 i8      4 products, bytes as they lie in memory
    sdot     i8 i8 i8 i8    times    i8 i8 i8 i8      4 products
    smmla    i8 x 8         times    i8 x 8           8 products, of two rows by two columns at once
    madd     i16 i16        times    i16 i16          2 products, operands widened beforehand
    madd_narrow  i16 i16    times    i8 i8            the same; weights are widened each time they are read
    maddubs  u8 u8 u8 u8    times    i8 i8 i8 i8      4 products, of which neighbours are added in 16 bits
    mlal     i16 i16        times    i16 i16          2 products; the first weights of all lanes come first
    smlal    i8 i8 i8 i8    times    i8 i8 i8 i8      4 products, of which the first and the third, and the second and
                                                      the fourth, are added in 16 bits

and floats of 16 bits alike, with sums of f32::

    dpbf16   bf16 bf16      times    bf16 bf16        2 products
    bfmmla   bf16 x 4       times    bf16 x 4         4 products, of two rows by two columns at once
    fmlal    f16 f16        times    f16 f16          2 products; the first weights of all lanes come first

Operands of i8 are u8 with the top bit flipped, and the other way round: that adds 128 to each, or takes it, which the
sums begin without.

Sums of 16 bits must hold whatever the operand is, which the weights of a layer decide:

>>> quads = np.array([[127, 1, 127, 2], [-128, 3, -128, 4]])
>>> holds(SMLAL, quads[:1]), holds(SMLAL, quads), holds(MADDUBS, quads[:, :2].repeat(2, axis=1))
(True, False, False)
"""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array
from mccompile.ir.types import F16, I8, I16, U8, U16, DType
from mccompile.kernels.model.woven import WovenRow, woven
from mccompile.targets.machine import Capability
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Arithmetic:
    """``staged`` is what an operand must lie in memory as, ``weight`` what is packed; both fill words of ``steps``.

    Attributes:
        weight_range: the least and the largest number that weights may be.
        steps: products of a word.
        beside: how many weights of a column lie side by side: words of a vector are packed as
            [steps / beside][lanes][beside].
        together: words of a row that one load brings: instructions take any of them for all lanes.
        rows: of the operand that an instruction multiplies at once.
        spare: registers that a step takes beside sums, weights and the words of rows.
        short: products of a word that are added in 16 bits.
        widened: the arithmetic that words of weights are for once they have been read and widened.
        form: the floats of 16 bits that operands are rounded to, whose bits are staged and packed, and sums are of
            f32; empty: all are whole numbers.
    """

    name: str
    staged: DType
    weight: DType
    weight_range: tuple[int, int]
    steps: int
    beside: int
    together: int = 1
    rows: int = 1
    spare: int = 2
    short: tuple[tuple[int, int], ...] = ()
    widened: str = ""
    form: str = ""

    @property
    def word_bytes(self) -> int:
        """Bytes of a packed word."""
        return self.steps * self.weight.nbytes

    @property
    def begin_bytes(self) -> int:
        """Bytes that a packed column has for what its sum begins with: of floats, 0 or a bias."""
        return 0 if self.form else 4

    @property
    def dot(self) -> str:
        """What its step is called among the vector primitives."""
        return f"mcc_vdot_{self.widened or self.name}"

    @property
    def load(self) -> str:
        """What reads a vector of packed words."""
        return "mcc_vload_widened" if self.widened else "mcc_vload_words"

    def registers(self, rows: int, vectors: int, flips: bool) -> int:
        """Vector registers of a tile: sums, weights, words of rows and what a step takes beside them."""
        whole = -(-rows // self.rows) * self.rows
        words = whole if self.together > 1 else 0
        return whole * vectors + vectors * self.rows + words + self.spare + flips

    def flips(self, operand: DType) -> bool:
        """Whether the top bit of an operand is flipped."""
        return self.staged.nbytes == operand.nbytes and self.staged != operand

    def offset(self, operand: DType) -> int:
        """What an operand is increased by."""
        return (128 if self.staged == U8 else -128) if self.flips(operand) else 0

    def flips_weight(self, weight: DType) -> bool:
        """Whether the top bit of weights is flipped."""
        return self.weight.nbytes == weight.nbytes and self.weight != weight

    def weight_offset(self, weight: DType) -> int:
        """What weights are increased by."""
        return -128 if self.flips_weight(weight) else 0

    def reads(self, operand: DType) -> bool:
        """Whether the operand can be read as it lies in memory."""
        return operand.nbytes == self.staged.nbytes

    def words(self, count: int) -> int:
        """Words that so many neighbours of an operand take."""
        return -(-count // self.steps)


VNNI = Arithmetic("vnni", U8, I8, (-128, 127), 4, 4)
MADD = Arithmetic("madd", I16, I16, (-255, 255), 2, 2)
MADD_NARROW = Arithmetic("madd_narrow", I16, I8, (-128, 127), 2, 2, widened="madd")
MADDUBS = Arithmetic("maddubs", U8, I8, (-128, 127), 4, 4, spare=3, short=((0, 1), (2, 3)))
MLAL = Arithmetic("mlal", I16, I16, (-255, 255), 2, 1)
SMLAL = Arithmetic("smlal", I8, I8, (-128, 127), 4, 2, together=4, spare=5, short=((0, 2), (1, 3)))
SDOT = Arithmetic("sdot", I8, I8, (-128, 127), 4, 4, together=4, spare=1)
SMMLA = Arithmetic("smmla", I8, I8, (-128, 127), 8, 8, together=2, rows=2, spare=3)
DPBF16 = Arithmetic("dpbf16", U16, U16, (0, 65535), 2, 2, form="bf16")
BFMMLA = Arithmetic("bfmmla", U16, U16, (0, 65535), 4, 4, together=2, rows=2, spare=3, form="bf16")
FMLAL = Arithmetic("fmlal", U16, U16, (0, 65535), 2, 1, together=4, spare=1, form="f16")
ALL = (VNNI, MADD, MADD_NARROW, MADDUBS, MLAL, SMLAL, SDOT, SMMLA, DPBF16, BFMMLA, FMLAL)


def arithmetics_of(target: Target) -> tuple[Arithmetic, ...]:
    """The arithmetics of a target, the best one first; none but the last may depend on what the weights are."""
    if Capability.VNNI in target.capabilities:
        return (VNNI,)
    if Capability.PAIRS in target.capabilities:
        return (MADDUBS, MADD)
    if Capability.I8MM in target.capabilities:
        return (SMMLA,)
    if Capability.DOTPROD in target.capabilities:
        return (SDOT,)
    return (SMLAL, MLAL) if target.isa == "neon" else ()


def float_arithmetic(target: Target, form: str) -> Arithmetic | None:
    """The arithmetic of a target for floats of 16 bits; None if it has none."""
    if form == "bf16" and Capability.BF16 in target.capabilities:
        return BFMMLA if target.isa == "neon" else DPBF16
    return FMLAL if form == "f16" and Capability.FHM in target.capabilities else None


def narrow_arithmetic(own: Arithmetic) -> Arithmetic | None:
    """The arithmetic whose packed weights take fewer bytes, for products that read each of them once; None if there
    is none."""
    return MADD_NARROW if own == MADD else None


def single_arithmetic(target: Target) -> Arithmetic | None:
    """The best arithmetic of a target that multiplies a word of one row and depends on no weights; None if it has
    none."""
    if Capability.DOTPROD in target.capabilities:
        return SDOT
    found = arithmetics_of(target)
    return found[-1] if found else None


def by_name(name: str) -> Arithmetic:
    """The arithmetic of a name. KeyError if there is none."""
    return {a.name: a for a in ALL}[name]


def holds(own: Arithmetic, words: Array) -> bool:
    """Whether no sum of 16 bits wraps or saturates, whatever the operand is; ``words`` are weights [.., steps]."""
    return bool(_held(own, words).all())


def _held(own: Arithmetic, words: Array) -> Array:
    """`holds` for each word."""
    low, high = (0, 255) if own.staged == U8 else (-128, 127)
    least, most = np.minimum(words * low, words * high), np.maximum(words * low, words * high)
    held = np.ones(words.shape[:-1], bool)
    for i, j in own.short:
        held &= (least[..., i] + least[..., j] >= -(2**15)) & (most[..., i] + most[..., j] < 2**15)
    return held


def refused(own: Arithmetic, words: Array, width: int) -> list[Array]:
    """For each block of ``width`` columns the words that `holds` refuses in one of these: half of their weights each
    it takes. ``words`` are [columns, words, steps].

    >>> columns = np.array([[[127, 1, 2, 3], [100, 100, 0, 0]], [[1, 1, 1, 1], [0, 9, -99, 99]]])
    >>> refused(MADDUBS, columns, 1)
    [array([1]), array([], dtype=int64)]
    """
    held = _held(own, words)
    return [np.flatnonzero(~held[i : i + width].all(0)) for i in range(0, len(held), width)]


@dataclass(frozen=True)
class PackedWords:
    """Weights [M, C, KH, KW] as [M / width] blocks: what sums begin with, i32[width], then words of
    [KH][runs][words][width][steps], all as bytes. Of floats nothing but their bits.

    A block's last vector of ``lanes`` may have columns of zeros. Sums begin with ``-offset`` times the sum of a
    column's weights, from which ``zero`` was taken. With ``one_run`` the taps of a line of the window lie one behind
    the other in the operand, as one run of KW * C; the last word of a run is filled up with zeros. Where
    ``transposed`` is not None the weights are a matrix [K, N], or [N, K]. Columns of a block may be ``woven``. Words
    that the arithmetic refuses, of the only run and in each block up to so many, are read ``twice``, with half of
    their weights each time: behind all words of a block each has, for each column, where it begins in the operand,
    and the other half.
    """

    arithmetic: str
    width: int
    lanes: int
    offset: int
    zero: int = 0
    one_run: bool = True
    transposed: bool | None = None
    woven: bool = False
    twice: int = 0

    def columns(self, array: Array) -> Array:
        """The weights less their zero point as i32 [M, words, steps]."""
        own = by_name(self.arithmetic)
        bits = array.view(np.uint16) if array.dtype == F16.numpy else array
        weights = bits.astype(np.int32) - np.int32(self.zero)
        if self.transposed is not None:
            matrix = weights.reshape(weights.shape[-2:])
            weights = (matrix if self.transposed else matrix.T)[:, :, None]
        if weights.ndim == 3:
            weights = weights[:, :, None]
        m, c, kh, kw = weights.shape
        runs = weights.transpose(0, 2, 3, 1).reshape(m, kh, *((1, kw * c) if self.one_run else (kw, c)))
        words = own.words(runs.shape[-1])
        padded = np.zeros((m, *runs.shape[1:3], words * own.steps), np.int32)
        padded[..., : runs.shape[-1]] = runs
        return padded.reshape(m, -1, own.steps)

    def pack(self, array: Array) -> Array:
        own = by_name(self.arithmetic)
        columns = self.columns(array)
        start = -self.offset * columns.sum((1, 2), dtype=np.int64)
        parts = []
        for first in range(0, len(columns), self.width):
            count = min(self.width, len(columns) - first)
            whole = -(-count // self.lanes) * self.lanes
            begin = np.zeros(whole, np.int64)
            begin[:count] = self._ordered(start[first : first + count])
            block = np.zeros((columns.shape[1], whole, own.steps), np.int32)
            block[:, :count] = self._ordered(columns[first : first + count]).transpose(1, 0, 2)
            parts += [] if own.form else [_bytes(begin, np.dtype("<i4"))]
            parts += self._halved(block) if self.twice else [self._laid(block)]
        return np.concatenate(parts)

    def _laid(self, words: Array) -> Array:
        """Words [words, columns, steps] as bytes in their order in vectors."""
        own = by_name(self.arithmetic)
        lanes = words.reshape(len(words), -1, self.lanes, own.steps // own.beside, own.beside)
        return _bytes(lanes.swapaxes(2, 3), own.weight.numpy.newbyteorder("<"))

    def _halved(self, block: Array) -> list[Array]:
        """The words of a block, refused ones halved; then for each of these where it is read, and the other half."""
        own, width = by_name(self.arithmetic), block.shape[1]
        (again,) = refused(own, block.swapaxes(0, 1), width)
        rest = np.zeros((self.twice, *block.shape[1:]), np.int32)
        rest[: len(again)] = block[again] // 2
        block[again] -= rest[: len(again)]
        parts = [self._laid(block)]
        for i, words in enumerate(rest):
            at = again[i] * own.steps if i < len(again) else 0
            parts += [_bytes(np.full(width, at), np.dtype("<i4")), self._laid(words[None])]
        return parts

    def _ordered(self, block: Array) -> Array:
        """What a block has for each column, in the order of these."""
        return woven(block, self.lanes) if self.woven else block


@dataclass(frozen=True)
class PackedColumns:
    """Weights [C, 1, KH, KW] of one filter for each channel as blocks of ``lanes`` channels: what sums begin with,
    then for each of ``lines`` lines of the result the words [groups][KW][lanes][steps], as bytes.

    A word holds rows of the operand, in groups of as many as a word has: line l of the result meets row
    l * ``stride`` + kh with its weight kh. Channels are woven in blocks of ``width``, if that is not 0.
    """

    arithmetic: str
    lanes: int
    lines: int
    stride: int
    offset: int
    zero: int = 0
    width: int = 0

    def pack(self, array: Array) -> Array:
        own = by_name(self.arithmetic)
        weights = array.astype(np.int64).reshape(array.shape[0], -1, array.shape[-1]) - self.zero
        if self.width:
            weights = weights[WovenRow(self.width, self.lanes).pack(np.arange(len(weights)))]
        c, kh, kw = weights.shape
        whole, groups = -(-c // self.lanes) * self.lanes, own.words((self.lines - 1) * self.stride + kh)
        rows = np.zeros((whole, self.lines, groups * own.steps, kw), np.int64)
        for line in range(self.lines):
            rows[:c, line, line * self.stride : line * self.stride + kh] = weights
        start = np.zeros(whole, np.int64)
        start[:c] = -self.offset * weights.sum((1, 2))
        words = rows.reshape(-1, self.lanes, self.lines, groups, own.steps, kw).transpose(0, 2, 3, 5, 1, 4)
        words = words.reshape(*words.shape[:-1], -1, own.beside).swapaxes(-2, -3)
        parts = []
        for block, begin in zip(words, start.reshape(-1, self.lanes), strict=True):
            parts += [_bytes(begin, np.dtype("<i4")), _bytes(block, own.weight.numpy.newbyteorder("<"))]
        return np.concatenate(parts)


def _bytes(array: Array, dtype: np.dtype[np.generic]) -> Array:
    return np.frombuffer(array.astype(dtype).tobytes(), np.int8)
