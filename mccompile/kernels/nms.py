"""The family of `nms`: a heap of the boxes of a class by their scores, of which the best are taken one by one."""

from __future__ import annotations

from collections.abc import Container

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.types import F32, I32, I64
from mccompile.kernels.variant import Builder, Offer, Variant
from mccompile.targets.target import Target

BOX_CYCLES = 20.0
"""Of a box, or of a vector of boxes, that may be taken."""


class NmsGeneric(Variant):
    ops = ("nms",)
    kernel = "nms.generic"
    stores_rows = True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if node.pre or node.post:
            return "neither prologues nor epilogues are supported"
        return Offer(self.label, BOX_CYCLES * int(node.inputs[1].type.count))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        scores = node.operands[1]
        assert scores is not None
        scratch = b.scratch(int(scores.shape[2]), I32)
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(0), b.result(1)], scratch=scratch)


@dataclass(frozen=True)
class Kept:
    """Boxes that were taken: five numbers of each. Those of a kind lie side by side, ``pitch`` from the next kind."""

    pitch: int


class NmsVector(Variant):
    """The boxes that were taken lie by their numbers, so that a vector of them is compared at a time."""

    ops = ("nms",)
    kernel = "nms.vector"
    params = Kept
    may_share = False

    def takes(self, node: Node) -> bool:
        """How many boxes are found varies, how many there are is known."""
        return not varies(node.inputs[1].shape)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if node.pre or node.post:
            return "neither prologues nor epilogues are supported"
        if target.lanes < 2:
            return "the target has no vectors"
        if target.compact:
            return "boxes of their own take memory"
        scores, found = node.inputs[1], node.results[0]
        most = bound(found.shape[0]) // max(scores.shape[0] * scores.shape[1], 1)
        params = Kept(-(-most // target.lanes) * target.lanes)
        return Offer(self.label, BOX_CYCLES / target.lanes * int(scores.type.count), params)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        kept, scores = offer.params, node.inputs[1]
        assert isinstance(kept, Kept)
        numbers = 5 * kept.pitch * F32.nbytes // I64.nbytes  # a pitch is of whole vectors
        scratch = b.scratch(scores.shape[2] + numbers, I64)
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(0), b.result(1)], params=kept, scratch=scratch)


VARIANTS = (NmsGeneric(), NmsVector())
