"""Renders the kernels of a program once each: calls whose text is equal share a function.

Calls whose texts differ may do so as well (`codegen/sharing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KERNEL_NAME, Head
from mccompile.codegen.comments import Use, kernel_comment
from mccompile.codegen.common_extents import common_kernels
from mccompile.codegen.names import USUAL, Lengths
from mccompile.codegen.printed import Printer, Rendered, Step
from mccompile.codegen.shared_functions import names_of, own_name, with_own_names
from mccompile.codegen.sharing import is_long, with_less_code
from mccompile.codegen.templates import indent_c
from mccompile.ir.kernel import Call, Fill
from mccompile.ir.program import Program
from mccompile.ir.views import View
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Kernel:
    """A C function: what it is declared as, its text, the helpers and headers that it uses, the tables it reads."""

    head: Head
    kernel: str
    text: str
    uses: frozenset[str]
    tables: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.head.name

    @property
    def prototype(self) -> str:
        """The declaration of a kernel with an external name."""
        return f"{self.head.text};"


@dataclass(frozen=True)
class Invocation:
    """A step of the program as a call of a C function: pointer arguments as views, then numbers. None of one that has
    nothing to do; what is no integer is a float as C, or the name of a number (`part_numbers`)."""

    kernel: Kernel | None
    step: Call | Fill
    pointers: tuple[View, ...]
    numbers: tuple[int | str, ...]


class KernelPool:
    """Kernels by text, for one program or for several that share them.

    ``prefix`` begins their names, unless there are ``many`` letters of them in one file. ``external`` ones can be
    called from other files. ``rendered`` are the steps of each program, by its name. ``shared`` are functions that
    several kernels call, by the names that the texts of kernels have for them (`shared_functions`): the first kernel
    that calls one has it beside it.
    """

    def __init__(self, prefix: str, external: bool = False) -> None:
        self.prefix = prefix
        self.external = external
        self.many = False
        self.rendered: dict[str, list[Invocation]] = {}
        self.shared: dict[str, Rendered] = {}
        self._own_names: dict[str, str] = {}
        self._by_text: dict[str, Kernel] = {}
        self._uses: dict[str, list[Use]] = {}

    @property
    def kernels(self) -> list[Kernel]:
        """In order of first use."""
        return list(self._by_text.values())

    def comment(self, kernel: Kernel, lengths: Lengths = USUAL) -> str:
        """What a kernel is and which steps call it, of all programs rendered so far."""
        return kernel_comment(kernel.kernel, self._uses[kernel.name], lengths.label)

    def intern(self, made: Rendered, kernel: str, use: Use) -> Kernel:
        """The C function of a rendered text, made on first sight; ``use`` is one more step that calls it."""
        if made.text not in self._by_text:
            prefix = "" if self.many else f"{self.prefix}_"  # of static functions nobody else knows
            fn = f"{prefix}k{len(self._by_text)}_{kernel.split('.')[0]}"
            text, uses = self._with_shared(made, fn)
            body = indent_c(text.replace(KERNEL_NAME, fn))
            self._by_text[made.text] = Kernel(replace(made.head, name=fn), kernel, body, uses, made.tables)
        found = self._by_text[made.text]
        self._uses.setdefault(found.name, []).append(use)
        return found

    def _with_shared(self, made: Rendered, fn: str) -> tuple[str, frozenset[str]]:
        """The text of a kernel, or of a shared function, with those that it is the first to call, and what it uses
        then."""
        before, uses = "", made.uses
        for name in names_of(made.text):
            if name not in self._own_names:
                self._own_names[name] = own_name(name, fn)
                text, more = self._with_shared(self.shared[name], fn)
                before += f"{text}\n\n"
                uses |= more
        return before + with_own_names(made.text, self._own_names), uses


def _steps(program: Program, printer: Printer) -> list[Step]:
    """The steps of a program as they are rendered each for itself."""
    return [
        printer.step(s, frozenset() if isinstance(s, Fill) else program.shared_inputs(s))
        for s in program.body.linear()
    ]


def _invoked(s: Step, use: Use, program: Program, pool: KernelPool) -> Invocation:
    kernel = None if program.idle(s.step) else pool.intern(s.made, s.kernel, use)
    return Invocation(kernel, s.step, s.pointers, s.numbers)


def render_programs(programs: Sequence[Program], target: Target, pool: KernelPool) -> None:
    """Render the kernels of programs that share a pool, which knows them from then on."""
    printer = Printer(target, pool.external)
    steps = [_steps(p, printer) for p in programs]
    printer.common = common_kernels(s.made for own in steps for s in own)
    steps = [list(map(printer.in_common, own)) for own in steps]
    every = list(chain.from_iterable(steps))
    shorter, beside = with_less_code(every, printer)
    pool.shared.update(beside)
    pool.many = not pool.external and is_long(shorter, beside.values())
    together = iter(shorter)
    for p, own in zip(programs, steps, strict=True):
        pool.rendered[p.name] = [
            _invoked(s, Use(p.name, number, s.step, s.plain), p, pool)
            for number, s in enumerate(islice(together, len(own)))
        ]


def render_kernels(
    program: Program, target: Target, pool: KernelPool
) -> tuple[list[Kernel], list[Invocation]]:
    """The distinct kernels in order of first use, and one invocation per step. They are added to ``pool``, if it does
    not know them yet."""
    if program.name not in pool.rendered:
        render_programs([program], target, pool)
    invocations = pool.rendered[program.name]
    return list(dict.fromkeys(i.kernel for i in invocations if i.kernel is not None)), invocations
