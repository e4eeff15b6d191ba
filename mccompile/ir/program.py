"""Program IR: the kernel IR with an execution order and an address for every buffer.

The text is that of kernel IR, headed ``program`` with the sizes, each buffer followed by ``@ offset``::

    program = "program" "@" name "target=" name "arena=" int "blob=" int [regions] [facts] "{" {buffer} {step} "}"
    regions = "regions" "(" region {"," region} ")"       (fastest first; only if the arena lies in several memories)
    region  = name "=" int "/" int                        (bytes used, bytes there are)
    facts   = "peak=" int "bound=" int "naive=" int "algorithm=" name ["inplace" "(" pair {"," pair} ")"]
    pair    = name "over" name                            (the first was written over the second)
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Block, Call, Fill, KernelModule
from mccompile.ir.turns import widened
from mccompile.ir.views import Buffer


@dataclass(frozen=True)
class PlanFacts:
    """What the planner reports: bytes of the arena's peak, its lower bound, and the sum without reuse."""

    peak: int
    lower_bound: int
    naive: int
    algorithm: str
    inplace: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Region:
    """A memory that holds a part of the arena: what the plan uses of it, and what it has, in bytes."""

    name: str
    nbytes: int
    limit: int


@dataclass
class Program:
    """What codegen prints, one to one.

    ``offsets`` are bytes in the buffer's region of the arena or in the blob's payload. ``regions``, fastest first,
    are empty where the arena is one; else ``arena_bytes`` is their sum. A buffer of the caller is
    at 0 of a memory of its own.
    """

    module: KernelModule
    offsets: dict[Buffer, int]
    arena_bytes: int
    blob_bytes: int
    facts: PlanFacts
    regions: tuple[Region, ...] = ()

    @property
    def name(self) -> str:
        return self.module.name

    @property
    def body(self) -> Block:
        return self.module.body

    def arena(self) -> list[Buffer]:
        """The arena's buffers by region and address, larger first."""
        inside = [b for b in self.module.buffers if b.space == "arena"]
        rank = {r.name: i for i, r in enumerate(self.regions)}
        return sorted(inside, key=lambda b: (rank.get(b.region, 0), self.offsets[b], -b.nbytes, b.name))

    def space_bytes(self, b: Buffer) -> int:
        """The size of what a buffer's offset counts in: its region, the arena, the blob, itself; 0 if unknown."""
        if b.space == "caller":
            return b.nbytes
        if b.space == "blob":
            return self.blob_bytes
        if b.region or self.regions:
            return next((r.nbytes for r in self.regions if r.name == b.region), 0)
        return self.arena_bytes

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
                if b.space != "blob":
                    lives[b] = (lives.get(b, (t, t))[0], t)
        lives = widened(steps, lives)
        last = max(len(steps) - 1, 0)
        for b in self.module.buffers:
            if b.role == "input":
                lives[b] = (0, lives.get(b, (0, 0))[1])
            elif b.kept:
                lives[b] = (lives.get(b, (0, 0))[0], last)
        lives.update(dict.fromkeys(self.module.held, (0, last)))
        return lives

    def shared_inputs(self, call: Call) -> frozenset[int]:
        """The inputs of a call that share bytes with one of its results: these are not ``restrict``.

        Two views of one buffer share none, for a call never writes what it reads unless in place.
        """
        shared = set()
        for i, view in enumerate(call.inputs):
            if view is not None and view.buffer.space != "blob":
                for r in call.results:
                    if self.overlap(view.buffer, r.buffer) and (view.buffer is not r.buffer or i in call.inplace):
                        shared.add(i)
        return frozenset(shared)

    def overlap(self, a: Buffer, b: Buffer) -> bool:
        """True if two buffers share bytes. Those of the caller share none with others, by contract."""
        if "caller" in (a.space, b.space):
            return a is b
        at, bt = self.offsets[a], self.offsets[b]
        return (a.space, a.region) == (b.space, b.region) and at < bt + b.nbytes and bt < at + a.nbytes

    def idle(self, step: Call | Fill) -> bool:
        """True for a copy of elements to where they lie: there is nothing to be done."""
        if isinstance(step, Fill) or step.kernel != "copy.generic" or step.pre or step.post or step.reads[0] is None:
            return False
        x, y = step.reads[0], step.results[0]
        here, there = ((v.buffer.space, v.buffer.region, self.offsets[v.buffer]) for v in (x, y))
        return here == there and x.buffer.space == "arena" and x.dtype == y.dtype and x.same_elements(y)

    def verify(self) -> None:
        """Raises InternalError where an offset is missing, misaligned, or out of its space."""
        self.module.verify()
        if self.regions and sum(r.nbytes for r in self.regions) != self.arena_bytes:
            raise InternalError(f"the regions do not add up to the {self.arena_bytes} bytes of the arena")
        for b in self.module.buffers:
            self.verify_place(b)

    def verify_place(self, b: Buffer) -> None:
        """Raises InternalError if a buffer's offset is missing, misaligned, or out of its space."""
        limit = self.space_bytes(b)
        at = self.offsets.get(b, -1)
        if at < 0 or at % b.align or at + b.nbytes > limit:
            space = b.region or b.space
            raise InternalError(f"{b.name} at {at} is misaligned or outside of the {space} of {limit} bytes")
