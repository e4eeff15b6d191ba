"""The helpers that kernels may call: functions, types and macros of ``_lib/``, each declared with what it needs.

    //% call helper("mcc_vmax", "mcc_vf mcc_vselect")       Helper("mcc_vmax", ("mcc_vf", "mcc_vselect"),
    /* The larger of two; NaN if either is. */                     "/* The larger of two ...")
    static inline mcc_vf mcc_vmax(mcc_vf a, mcc_vf b)
    ...
    //% endcall

A need is another helper or a header of the C library. The headers of an instruction set are helpers themselves: they
are printed in front of the first of those that need them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.codegen.templates import environment, indent_c
from mccompile.codegen.uses import HEADER_OF, HEADERS, RUNTIME
from mccompile.ir.errors import InternalError
from mccompile.targets.target import Target

EVERYWHERE = ("scalar", "scalar_integer", "scalar_pairs", "scalar_places", "scalar_trees", "vector_bytes")
"""The files of ``_lib/`` whose helpers every target has."""


@dataclass(frozen=True)
class Helper:
    """C by a name, and the names that this C mentions: of other helpers and of `HEADERS`."""

    name: str
    needs: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class _Declarations:
    """What templates declare, in the order of their text; of one name, the first counts."""

    found: dict[str, Helper] = field(default_factory=dict)

    def helper(self, name: str, needs: str = "", *, caller: Callable[[], str]) -> str:
        """The word of the templates; it leaves nothing in their text."""
        self.found.setdefault(name, Helper(name, tuple(needs.split()), caller().strip()))
        return ""


@functools.cache
def helpers_of(target: Target) -> Mapping[str, Helper]:
    """All helpers for a target, in the order in which files print them: those needed by others may stand behind."""
    declared = _Declarations()
    for name in EVERYWHERE:
        environment().get_template(f"_lib/{name}.c.j2").render(helper=declared.helper)
    if target.lanes:
        vector = environment().get_template("_lib/vector.c.j2")
        vector.render(helper=declared.helper, target=target, lanes=target.lanes)
    return declared.found


def with_needs(names: Iterable[str], target: Target) -> tuple[list[Helper], tuple[str, ...]]:
    """The helpers and headers that names of C belong to, and all that they need in turn."""
    known = helpers_of(target)
    wanted: set[str] = set()
    queue = [HEADER_OF.get(name, name) for name in names if name not in RUNTIME]
    while queue:
        name = queue.pop()
        if name in wanted:
            continue
        wanted.add(name)
        if name in known:
            queue += known[name].needs
        elif name not in HEADERS:
            raise InternalError(f"{target.name} has no helper {name}")
    return [h for h in known.values() if h.name in wanted], tuple(h for h in HEADERS if h in wanted)


@dataclass(frozen=True)
class Preamble:
    """What a C file has in front of its kernels: headers of the C library, and helpers."""

    headers: tuple[str, ...]
    helpers: str


def preamble(uses: Iterable[str], target: Target, tables: Iterable[tuple[str, str]] = ()) -> Preamble:
    """For kernels that use these names, and read these tables."""
    helpers, headers = with_needs(uses, target)
    text = "\n\n".join([*(h.text for h in helpers), *dict(tables).values()])
    return Preamble(headers, indent_c(text) if text else "")
