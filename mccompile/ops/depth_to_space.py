"""DepthToSpace and SpaceToDepth: blocks of channels become blocks of pixels, and back."""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Affine, Move, combine, loop
from mccompile.ir.op import TypeRuleError
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw

MODES = ("DCR", "CRD")

# Both operators move over the loops (n, c, h, block row, w, block column), c being a channel of the coarse side.
_RANK = 6


def _pixels(block: int) -> tuple[Affine, ...]:
    """The coordinates on the side with few channels and many pixels."""
    rows, columns = combine(_RANK, {2: block, 3: 1}), combine(_RANK, {4: block, 5: 1})
    return (loop(0, _RANK), loop(1, _RANK), rows, columns)


def _channels(channel: Affine) -> tuple[Affine, ...]:
    """The coordinates on the side with many channels and few pixels."""
    return (loop(0, _RANK), channel, loop(2, _RANK), loop(4, _RANK))


def _channel(mode: str, block: int, channels: int) -> Affine:
    """The channel on the side with many: blocks of ``channels`` (DCR), or channels of blocks (CRD)."""
    if mode == "CRD":
        return combine(_RANK, {1: block * block, 3: block, 5: 1})
    return combine(_RANK, {1: 1, 3: block * channels, 5: channels})


@dataclass(frozen=True)
class DepthToSpace(Movement):
    """Each group of block * block channels becomes a block of pixels.

    ``mode`` DCR: channel (row * block + column) * C + c; CRD: channel c * block * block + row * block + column.
    """

    name = "depth_to_space"
    words = (("mode", MODES),)

    block: int
    mode: str

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if x.rank != 4 or self.block < 1 or x.shape[1] % self.block**2:
            raise TypeRuleError(f"the channels of {x} are no multiple of {self.block} * {self.block}")
        n, c, h, w = x.shape
        return (TensorType(x.dtype, (n, c // self.block**2, h * self.block, w * self.block)),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        b, (n, _, h, w), c = self.block, types[0].shape, results[0].shape[1]
        channel = _channel(self.mode, b, c)
        return (Move(0, 0, (n, c, h, b, w, b), _channels(channel), _pixels(b)),)


@dataclass(frozen=True)
class SpaceToDepth(Movement):
    """Each block of pixels becomes block * block channels, in the order of ``mode`` as in `DepthToSpace`."""

    name = "space_to_depth"
    words = (("mode", MODES),)

    block: int
    mode: str = "DCR"

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if x.rank != 4 or self.block < 1 or x.shape[2] % self.block or x.shape[3] % self.block:
            raise TypeRuleError(f"height and width of {x} are no multiples of {self.block}")
        n, c, h, w = x.shape
        return (TensorType(x.dtype, (n, c * self.block**2, h // self.block, w // self.block)),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        b, (n, _, h, w), c = self.block, results[0].shape, types[0].shape[1]
        channel = _channel(self.mode, b, c)
        return (Move(0, 0, (n, c, h, b, w, b), _pixels(b), _channels(channel)),)


def _sample_depth(d: Draw) -> Case:
    block = d.int(1, 3)
    shape = (d.int(1, 2), d.int(1, 3) * block**2, d.int(1, 4), d.int(1, 4))
    return Case([d.array(shape)], {"blocksize": block, "mode": d.choice(["DCR", "CRD"])})


def _read_mode(n: Import) -> str:
    mode = n.attr("mode", "DCR")
    if mode not in MODES:
        raise n.error(f"mode {mode!r} is unknown", "DCR and CRD are known")
    return str(mode)


@onnx_op("DepthToSpace", sample=_sample_depth, tolerance={})
def import_depth_to_space(n: Import) -> None:
    n.emit(DepthToSpace(n.required("blocksize", int), _read_mode(n)), [n.input(0)])


def _sample_space(d: Draw) -> Case:
    block = d.int(1, 3)
    shape = (d.int(1, 2), d.int(1, 3), d.int(1, 3) * block, d.int(1, 3) * block)
    return Case([d.array(shape)], {"blocksize": block})


@onnx_op("SpaceToDepth", sample=_sample_space, tolerance={})
def import_space_to_depth(n: Import) -> None:
    n.emit(SpaceToDepth(n.required("blocksize", int), _read_mode(n)), [n.input(0)])
