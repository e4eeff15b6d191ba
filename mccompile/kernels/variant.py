"""What a kernel variant is and what it may ask of the lowering that calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Buffer, Halo, View
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.types import DType
from mccompile.targets.target import Target


class Packing(Protocol):
    """How a constant is rearranged at compile time. A frozen dataclass: equal packings are stored once."""

    def pack(self, array: Array) -> Array: ...


@dataclass(frozen=True)
class Demand:
    """What a variant needs of the buffer of ``operand``: a halo per logical axis, filled with ``fill``."""

    operand: int
    halo: Halo
    fill: float = 0


class Builder(Protocol):
    """The lowering of one node, as a variant sees it."""

    target: Target

    def read(self, value: Value) -> View:
        """The view of a value in memory; a constant is stored in the blob as it is."""
        ...

    def is_constant(self, value: Value) -> bool:
        """Whether `packed` may be asked for: the elements are known."""
        ...

    def result(self, index: int) -> View:
        """The view of a result of the node."""
        ...

    def packed(self, value: Value, how: Packing) -> View:
        """The view of a packed constant."""
        ...

    def read_halo(self, demand: Demand) -> View:
        """The view of an operand whose coordinates may run into the demanded halo."""
        ...

    def scratch(self, count: int, dtype: DType) -> Buffer:
        """Memory of the call's own: ``count`` uninitialised elements, aligned for the target."""
        ...

    def fill(self, view: View, value: float) -> None:
        """Emit a step that sets every element of a view."""
        ...

    def call(
        self,
        kernel: str,
        reads: list[View | None],
        results: list[View],
        *,
        op: Op | None = None,
        params: object | None = None,
        scratch: Buffer | None = None,
        extras: list[View] | None = None,
        inplace: tuple[int, ...] | None = None,
    ) -> None:
        """Emit a call of the node's operator (or ``op``), its prologues and epilogues included.

        ``extras`` default to the node's, broadcast to what they are applied to. ``inplace`` are the inputs
        the result may overwrite; by default the extras an epilogue reads at the element it writes.
        """
        ...


class Variant:
    """One way to compute an operator. Subclasses override what differs from the defaults."""

    ops: ClassVar[tuple[str, ...]] = ()
    kernel: ClassVar[str] = ""
    params: ClassVar[type | None] = None
    """The frozen dataclass of the ``params`` it gives to its calls; None if it gives none."""
    packs: ClassVar[tuple[int, ...]] = ()
    """Operands that must be constants, because they are rearranged at compile time."""
    may_share: ClassVar[bool] = True
    """Whether the template prints every extent and stride by `BoundView.e` and `index`: then -Os may share it."""

    def supports(self, node: Node, target: Target) -> str:
        """Empty if the variant can compute the node, else the reason why not."""
        return ""

    def demands(self, node: Node) -> tuple[Demand, ...]:
        """What the operands' buffers must offer."""
        return ()

    def cost(self, node: Node, target: Target) -> float:
        """Estimated cycles on the target."""
        macs = node.op.macs(node.operand_types(), [r.type for r in node.results])
        return 4.0 * macs + float(sum(r.type.count for r in node.results))

    def lower(self, node: Node, b: Builder) -> None:
        """Emit the calls that compute the node: by default one, with every operand as it is stored."""
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(i) for i in range(len(node.results))])
