"""What the templates of a model's files are told: its arenas, weights, kernels, steps and ports."""

from __future__ import annotations

import functools
from typing import ClassVar

from mccompile._dataclass import dataclass
from mccompile.codegen.extents import GivenExtent
from mccompile.codegen.loops import all_of
from mccompile.codegen.pieces import Pieces
from mccompile.codegen.ports import Port, ports_over
from mccompile.ir.parts import Parts
from mccompile.plugins import Function
from mccompile.targets.processor import Question


@dataclass(frozen=True)
class Trusted:
    """The first ``nbytes`` of the weights say where kernels read and write; ``crc`` is that of what was checked."""

    nbytes: int
    crc: int


@dataclass(frozen=True)
class Member:
    """A buffer as a struct member. ``offset``/``end`` are bytes, ``first``/``last`` steps, ``pad`` bytes before."""

    id: str
    c: str
    elements: int
    offset: int
    end: int
    comment: str
    first: int = 0
    last: int = 0
    pad: int = 0


@dataclass(frozen=True)
class Arena:
    """The activations in one memory: a C type, the pointer to it in the network's struct, and a local in ``run``.

    ``memory`` says which memory that is, where there are several.
    """

    type: str
    field: str
    local: str
    bytes_macro: str
    check: str
    bytes: int
    memory: str
    members: list[Member]
    region: str = ""

    @property
    def place(self) -> str:
        """The macro that stands before its definition in an application."""
        return "MCC_PLACE_ARENA" + (f"_{self.region.upper()}" if self.region else "")

    @property
    def section(self) -> str:
        """The macro that names the section it is to be in."""
        return f"MCC_ARENA_{self.region.upper()}_SECTION" if self.region else "MCC_ARENA_SECTION"


@dataclass(frozen=True)
class Written:
    """What a step writes: an array, or the address of one of so many bytes."""

    c: str
    nbytes: int = 0

    @property
    def size(self) -> str:
        return f"{self.nbytes}u" if self.nbytes else f"sizeof({self.c})"


@dataclass(frozen=True)
class Step:
    """One statement of ``run``. ``traced`` is what it writes, ``before`` are declarations in front of it."""

    number: int
    call: str
    comment: str
    checked: bool
    traced: tuple[Written, ...]
    when: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """The step with its hooks, made when its conditions hold."""
        if not self.when:
            return self._always
        begin = ["st = MCC_OK;"] if self.checked else []
        return "\n".join([*begin, f"if ({all_of(self.when)}) {{", self._always, "}"])

    @property
    def letters(self) -> int:
        """Of what is printed of it."""
        return len(self.comment) + len(self.statement) + sum(map(len, self.before))

    @property
    def _always(self) -> str:
        """The step with its hooks: one macro of mcc.h, and a trace of each further result."""
        result, *others = self.traced
        macro = "MCC_STATUS_STEP" if self.checked else "MCC_STEP"
        status = "st, " if self.checked else ""
        size = f"_TO({self.number}, {status}{self.call}, {result.c}, {result.size});"
        first = size if result.nbytes else f"({self.number}, {status}{self.call}, {result.c});"
        return "\n".join([macro + first, *(f"MCC_TRACE({self.number}, {o.c}, {o.size});" for o in others)])


@dataclass(frozen=True)
class Needs:
    """What a function of steps has pointers to: arenas, and whether the weights."""

    arenas: list[Arena]
    weights: bool


@dataclass(frozen=True)
class Repeat:
    """Steps that are made again and again, ``count`` of them from ``number`` on: while all of ``tests`` hold; where
    the turn has got to the ``limit``, if there is one, the run ends."""

    number: int
    count: int
    name: str
    turn: str
    tests: tuple[str, ...]
    limit: str
    when: tuple[str, ...]
    inside: list[Step | Repeat]
    needs: Needs

    @property
    def test(self) -> str:
        return all_of(self.tests)

    @property
    def condition(self) -> str:
        """What has to hold for the whole loop; empty: nothing."""
        return all_of(self.when) if self.when else ""

    @property
    def checked(self) -> bool:
        """Whether something in it answers a status."""
        return any(s.checked for s in self.inside)

    @property
    def limited(self) -> bool:
        """Whether the run may end because of its turns, or of those of a loop in it."""
        return self.limit != "" or any(isinstance(s, Repeat) and s.limited for s in self.inside)


@dataclass(frozen=True)
class StepOfSeries:
    """One statement of a loop over a series of steps: the number and the comment of the step of the first turn."""

    number: int
    comment: str
    statement: str
    checked: bool


@dataclass(frozen=True)
class Series:
    """``times`` turns of ``count`` steps each, from ``number`` on, which differ in where their operands lie: ``rows``
    of a table say that of each turn, behind the beginnings of which of the ``bases`` "a" and "w", and ``firsts``
    which its first step is."""

    number: int
    count: int
    times: int
    steps: tuple[StepOfSeries, ...]
    rows: tuple[tuple[str, ...], ...]
    bases: frozenset[str]
    firsts: tuple[str, ...]
    checked: ClassVar[bool] = False

    @property
    def what(self) -> str:
        """The steps in a few words."""
        last = self.number + self.count * self.times - 1
        return f"@{self.number}-@{last}: {self.times} turns of {self.count} step{'' if self.count == 1 else 's'}"


@dataclass(frozen=True)
class Shared:
    """A step whose parts threads may do at the same time, and the call of its kernel for some of them."""

    number: int
    call: str
    comment: str
    parts: Parts
    needs: Needs


@dataclass(frozen=True)
class KernelText:
    """A kernel as it is printed, below what it is."""

    kernel: str
    comment: str
    text: str


@dataclass(frozen=True)
class Part:
    """The program of a network for one of the targets that it takes its code from when it runs: its name in unions of
    C, its facts, where its blob begins in the payload of the blob of all, the kind of machine it is for
    (`family`), what it asks of the processor."""

    id: str
    facts: ModelFacts
    place: int
    machine: str
    questions: tuple[Question, ...]

    @property
    def asked(self) -> str:
        """What the processor is asked, as a condition in C."""
        calls = (f"has(0x{q.leaf:X}u, {q.subleaf}u, {q.register}u, 0x{q.mask:X}u)" for q in self.questions)
        return " && ".join(calls)


@dataclass(frozen=True)
class ModelFacts:
    """Everything the templates of a model's files print."""

    name: str
    version: str
    source: str
    sha256: str
    target: str
    c_flags: str
    optimisation: str
    requires: tuple[str, ...]
    align: int
    abi: int
    keep_inputs: bool
    arena_bytes: int
    weights_bytes: int
    weights_pad: int
    inputs: list[Port]
    outputs: list[Port]
    states: list[Port]
    arenas: list[Arena]
    weights: list[Member]
    steps: list[Step]
    body: list[Step | Repeat | Series]
    needs: Needs
    kernels: list[KernelText]
    kernels_header: str
    uses: frozenset[str]
    tables: tuple[tuple[str, str], ...]
    helpers: str
    headers: tuple[str, ...]
    indent: int
    checked: bool
    stepwise: bool
    io: str
    id_bytes: str
    blob: Pieces
    trusted: Trusted | None
    given: list[GivenExtent]
    functions: tuple[Function, ...] = ()
    parts: tuple[Part, ...] = ()
    threads: int = 1
    shared: tuple[Shared, ...] = ()
    sums: int = 0
    """Of extents, that `run` keeps in an array."""

    @property
    def upper(self) -> str:
        return self.name.upper()

    @property
    def state_bytes(self) -> int:
        """What is kept from run to run, without what lies between."""
        return sum(p.nbytes for p in self.states)

    @property
    def of_caller(self) -> list[Port]:
        """The inputs and outputs whose places the caller says."""
        return [p for p in (*self.inputs, *self.outputs) if p.of_caller]

    @property
    def init_parameters(self) -> str:
        arenas = "".join(f"{a.type} *{a.field}, " for a in self.arenas)
        return f"{self.name}_t *net, {arenas}const void *blob, size_t blob_bytes"

    @property
    def loops(self) -> list[Repeat]:
        """The outermost ones: each is a function."""
        return [s for s in self.body if isinstance(s, Repeat)]

    @property
    def limited(self) -> bool:
        """Whether a run may end because a loop would make too many turns."""
        return any(r.limited for r in self.loops)

    @property
    def series(self) -> list[Series]:
        """What has a table each."""
        return [s for s in self.body if isinstance(s, Series) and s.rows]

    @property
    def bases(self) -> frozenset[str]:
        """Behind the beginnings of which locals the tables say that operands lie."""
        return frozenset().union(*(s.bases for s in self.series))

    @property
    def arena_arguments(self) -> str:
        return ", ".join(f"&{a.field}" for a in self.arenas)

    def over(self, output: Port) -> list[Port]:
        """The inputs that share bytes with an output; for one of its targets, if there are several."""
        return self._over[output.name]

    @functools.cached_property
    def _over(self) -> dict[str, list[Port]]:
        """`over` by the names of the outputs."""
        number = {p.name: i for i, p in enumerate(self.inputs)}
        found: dict[str, set[int]] = {p.name: set() for p in self.outputs}
        for m in [part.facts for part in self.parts] or [self]:
            for mine, inputs in zip(self.outputs, ports_over(m.outputs, m.inputs), strict=True):
                found[mine.name].update(number[p.name] for p in inputs)
        return {name: [self.inputs[i] for i in sorted(numbers)] for name, numbers in found.items()}

    @property
    def growing(self) -> list[GivenExtent]:
        """The extents that a run leaves larger, with its state."""
        return [g for g in self.given if g.by]

    @property
    def net(self) -> str:
        """The parameter of what runs the network, which changes only what grows."""
        return f"{self.name}_t *net" if self.growing else f"const {self.name}_t *net"

    @property
    def guard(self) -> str:
        return f"{self.upper}_H"
