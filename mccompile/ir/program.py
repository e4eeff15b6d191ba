"""Program IR: the kernel IR with an execution order and an address for every buffer.

The text is that of kernel IR, headed ``program`` with the sizes, each buffer followed by ``@ offset``::

    program = "program" "@" name "target=" name "arena=" int "blob=" int [facts] "{" {buffer} {step} "}"
    facts   = "peak=" int "bound=" int "naive=" int "algorithm=" name ["inplace" "(" pair {"," pair} ")"]
    pair    = name "over" name                            (the first was written over the second)
"""

from __future__ import annotations

from dataclasses import dataclass

from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Block, Buffer, Call, KernelModule


@dataclass(frozen=True)
class PlanFacts:
    """What the planner reports: bytes of the arena's peak, its lower bound, and the sum without reuse."""

    peak: int
    lower_bound: int
    naive: int
    algorithm: str
    inplace: tuple[tuple[str, str], ...] = ()


@dataclass
class Program:
    """What codegen prints, one to one. ``offsets`` are bytes in the arena or the blob's payload."""

    module: KernelModule
    offsets: dict[Buffer, int]
    arena_bytes: int
    blob_bytes: int
    facts: PlanFacts

    @property
    def name(self) -> str:
        return self.module.name

    @property
    def body(self) -> Block:
        return self.module.body

    def arena(self) -> list[Buffer]:
        """The arena's buffers by address, larger first."""
        inside = [b for b in self.module.buffers if b.space == "arena"]
        return sorted(inside, key=lambda b: (self.offsets[b], -b.nbytes, b.name))

    def blob(self) -> list[Buffer]:
        """The blob's buffers by address."""
        inside = [b for b in self.module.buffers if b.space == "blob"]
        return sorted(inside, key=lambda b: self.offsets[b])

    def lives(self) -> dict[Buffer, tuple[int, int]]:
        """First and last step at which each arena buffer holds something; inputs from 0, outputs to the end."""
        steps = list(self.body.linear())
        lives: dict[Buffer, tuple[int, int]] = {}
        for t, step in enumerate(steps):
            for b in step.buffers():
                if b.space == "arena":
                    lives[b] = (lives.get(b, (t, t))[0], t)
        last = max(len(steps) - 1, 0)
        for b in self.module.buffers:
            if b.role == "input":
                lives[b] = (0, lives.get(b, (0, 0))[1])
            elif b.role == "output":
                lives[b] = (lives.get(b, (0, 0))[0], last)
        return lives

    def shared_inputs(self, call: Call) -> frozenset[int]:
        """The inputs of a call that share bytes with one of its results: these are not ``restrict``."""
        shared = set()
        for i, view in enumerate(call.inputs):
            if view is not None and view.buffer.space == "arena":
                for r in call.results:
                    if self.overlap(view.buffer, r.buffer):
                        shared.add(i)
        return frozenset(shared)

    def overlap(self, a: Buffer, b: Buffer) -> bool:
        """True if two arena buffers share bytes."""
        at, bt = self.offsets[a], self.offsets[b]
        return a.space == b.space and at < bt + b.nbytes and bt < at + a.nbytes

    def verify(self) -> None:
        """Raises InternalError where an offset is missing, misaligned, or out of its space."""
        self.module.verify()
        for b in self.module.buffers:
            self.verify_place(b)

    def verify_place(self, b: Buffer) -> None:
        """Raises InternalError if a buffer's offset is missing, misaligned, or out of its space."""
        limit = self.arena_bytes if b.space == "arena" else self.blob_bytes
        at = self.offsets.get(b, -1)
        if at < 0 or at % b.align or at + b.nbytes > limit:
            raise InternalError(f"{b.name} at {at} is misaligned or outside of the {b.space} of {limit} bytes")
