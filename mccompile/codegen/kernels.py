"""Renders the kernels of a program once each: calls whose text is equal share a function."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mccompile.codegen.binding import KERNEL_NAME, BoundView, Head, KernelContext
from mccompile.codegen.c_expr import literal
from mccompile.codegen.comments import Use, kernel_comment
from mccompile.codegen.one_lane import vectors_for
from mccompile.codegen.templates import indent_c, render
from mccompile.codegen.words import Words
from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Call, Fill, View, number_names, whole
from mccompile.ir.program import Program
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
class Rendered:
    """A kernel in which `KERNEL_NAME` stands for its name."""

    head: Head
    text: str
    uses: frozenset[str]
    tables: tuple[tuple[str, str], ...] = ()


class KernelPool:
    """Kernels by text, for one program or for several that share them.

    ``prefix`` begins their names. ``external`` ones can be called from other files.
    """

    def __init__(self, prefix: str, external: bool = False) -> None:
        self.prefix = prefix
        self.external = external
        self._by_text: dict[str, Kernel] = {}
        self._uses: dict[str, list[Use]] = {}

    @property
    def kernels(self) -> list[Kernel]:
        """In order of first use."""
        return list(self._by_text.values())

    def comment(self, kernel: Kernel) -> str:
        """What a kernel is and which steps call it, of all programs rendered so far."""
        return kernel_comment(kernel.kernel, self._uses[kernel.name])

    def intern(self, made: Rendered, kernel: str, use: Use) -> Kernel:
        """The C function of a rendered text, made on first sight; ``use`` is one more step that calls it."""
        if made.text not in self._by_text:
            fn = f"{self.prefix}_k{len(self._by_text)}_{kernel.split('.')[0]}"
            body = indent_c(made.text.replace(KERNEL_NAME, fn))
            self._by_text[made.text] = Kernel(replace(made.head, name=fn), kernel, body, made.uses, made.tables)
        found = self._by_text[made.text]
        self._uses.setdefault(found.name, []).append(use)
        return found


@dataclass(frozen=True)
class Invocation:
    """A step of the program as a call of a C function: pointer arguments as views, then numbers."""

    kernel: Kernel
    step: Call | Fill
    pointers: tuple[View, ...]
    numbers: tuple[int, ...]


def _fill(step: Fill, external: bool) -> Rendered:
    view = BoundView("y0", step.view)
    value = view.uses.say(literal(step.value, view.dtype))
    head = Head(KERNEL_NAME, f"{view.ctype} *{view.name}", external=external)
    text = render("fill/generic.c.j2", head=head.definition, k=KernelContext, y=view, value=value)
    return Rendered(head, text, frozenset(view.uses.names))


def kernel_text(context: KernelContext, target: Target) -> str:
    """What the template of a call prints, `KERNEL_NAME` in place of its name."""
    family, variant = context.call.kernel.split(".")
    return render(
        f"{family}/{variant}.c.j2",
        fn=KERNEL_NAME, k=context, x=context.x, y=context.y, op=context.op, p=context.p, target=target,
        v=vectors_for(context, target), words=Words(context), use=context.uses.use, say=context.uses.say,
    )  # fmt: skip


def _call(step: Call, program: Program, target: Target, external: bool) -> tuple[KernelContext, Rendered]:
    """The context and text of a call, without the C parameters that its template turned out not to ask for."""
    context = KernelContext(step, program.shared_inputs(step), external)
    text = kernel_text(context, target)
    printed = tuple(a for a in step.args if a in context.uses.numbers)
    if printed != step.args:
        return _call(replace(step, args=printed), program, target, external)
    if context.declared is None:
        raise InternalError(f"{step.kernel} has no head")
    tables = tuple(sorted(context.uses.tables.items()))
    return context, Rendered(context.declared, text, frozenset(context.uses.names), tables)


def render_kernels(
    program: Program, target: Target, pool: KernelPool
) -> tuple[list[Kernel], list[Invocation]]:
    """The distinct kernels in order of first use, and one invocation per step. They are added to ``pool``."""
    invocations: list[Invocation] = []
    for number, step in enumerate(program.body.linear()):
        shared: frozenset[int] = frozenset()
        if isinstance(step, Fill):
            made, name = _fill(step, pool.external), "fill.generic"
            pointers: tuple[View, ...] = (step.view,)
            numbers: tuple[int, ...] = ()
        else:
            context, made = _call(step, program, target, pool.external)
            step, name, shared = context.call, step.kernel, context.plain
            scratch = () if step.scratch is None else (_scratch_view(step),)
            pointers = (*(v for _, v in context.pointers()), *scratch)
            values = number_names(step)
            numbers = tuple(values[a] for a in step.args)
        use = Use(program.name, number, step, shared)
        kernel = pool.intern(made, name, use)
        invocations.append(Invocation(kernel, step, pointers, numbers))
    return list(dict.fromkeys(i.kernel for i in invocations)), invocations


def _scratch_view(step: Call) -> View:
    assert step.scratch is not None
    return whole(step.scratch)
