"""Finds the kernel variants by listing the package; an operator without a family has its generic template."""

from __future__ import annotations

from mccompile.kernels.variant import Variant
from mccompile.plugins import modules, registry


class Generic(Variant):
    """The variant of an operator that needs nothing special: its template ``<op>/generic.c.j2``."""

    def __init__(self, op: str) -> None:
        self.name = op
        self.__dict__["kernel"] = f"{op}.generic"


@registry
def _families() -> dict[str, tuple[Variant, ...]]:
    table: dict[str, tuple[Variant, ...]] = {}
    for module in modules("kernels"):
        for variant in getattr(module, "VARIANTS", ()):
            for op in variant.ops:
                table[op] = (*table.get(op, ()), variant)
    return {op: tuple(sorted(family, key=_generic_first)) for op, family in table.items()}


def _generic_first(v: Variant) -> tuple[bool, str]:
    """The order of candidates, which no file's name decides: of equally good ones the first is taken."""
    return not v.kernel.endswith(".generic"), v.kernel


@registry
def candidates(op: str) -> tuple[Variant, ...]:
    """The variants that may compute an operator, ``generic`` among them."""
    return _families().get(op) or (Generic(op),)


def variant(kernel: str) -> Variant:
    """The variant of a kernel name. KeyError if there is none."""
    op = kernel.partition(".")[0]
    for v in (v for family in _families().values() for v in family):
        if v.kernel == kernel:
            return v
    found = {v.kernel: v for v in candidates(op)}
    if kernel not in found:
        raise KeyError(f"unknown kernel {kernel!r}")
    return found[kernel]


def params_of(kernel: str) -> type | None:
    """The dataclass of a kernel's parameters, None if it has none. KeyError if there is no such kernel."""
    return variant(kernel).params
