"""Finds operators and their ONNX front ends by listing the package and plugins; nothing is registered by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from mccompile._dataclass import dataclass
from mccompile.ir.op import Op
from mccompile.ops.folded import FOLDINGS
from mccompile.ops.folding import BROADCAST, Folding
from mccompile.ops.frontend import Import
from mccompile.ops.run_time import RunTime
from mccompile.ops.sampling import Case, Draw
from mccompile.plugins import modules, registry


@dataclass(frozen=True)
class FrontEnd:
    """How one ONNX operator (newest form) becomes graph IR.

    ``convert`` emits nodes through the `Import`; ``sample`` draws test cases; ``tolerance`` bounds
    |C - onnxruntime| relative to max|reference| by element type (exact where a type is not listed).
    ``without_effect`` names the attributes that change nothing in what is supported; ``convert`` reads all others.
    ``folding`` says how large its results may become where the importer knows them. ``composed``: it becomes other
    operators and nothing else, so that tests compare what these say, and leave C to their own tests.
    ``takes_extents``: its extents may be known at run time only, as those of what `importer.varying` lists.
    """

    op_type: str
    convert: Callable[[Import], None]
    sample: Callable[[Draw], Case] | None = None
    tolerance: Mapping[str, float] = field(default_factory=lambda: {"f32": 2e-6, "f16": 1e-3})
    domain: str = ""
    without_effect: tuple[str, ...] = ()
    folding: Folding = BROADCAST
    composed: bool = False
    takes_extents: bool = False


def compositions(*rows: FrontEnd) -> tuple[FrontEnd, ...]:
    """Front ends that are made of others."""
    return tuple(replace(row, composed=True) for row in rows)


_MARK = "_mccompile_front_ends"


def onnx_op(
    op_type: str,
    *,
    sample: Callable[[Draw], Case] | None = None,
    tolerance: Mapping[str, float] | None = None,
    domain: str = "",
    without_effect: tuple[str, ...] = (),
    folding: Folding = BROADCAST,
    composed: bool = False,
) -> Callable[[Callable[[Import], None]], Callable[[Import], None]]:
    """Mark a function as the front end of an ONNX operator."""

    def mark(convert: Callable[[Import], None]) -> Callable[[Import], None]:
        row = FrontEnd(
            op_type, convert, sample, domain=domain, without_effect=without_effect, folding=folding, composed=composed
        )
        if tolerance is not None:
            row = replace(row, tolerance=tolerance)
        convert.__dict__.setdefault(_MARK, []).append(row)
        return convert

    return mark


@registry
def operators() -> dict[str, type[Op]]:
    """Every operator class by its name."""
    found: dict[str, type[Op]] = {}
    for module in modules("ops"):
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Op) and item.__dict__.get("name"):
                found[item.name] = item
    return dict(sorted(found.items()))


def lookup(name: str) -> type[Op]:
    """The operator class of a name. KeyError names it."""
    table = operators()
    if name not in table:
        raise KeyError(f"unknown operator {name!r}")
    return table[name]


@registry
def front_ends() -> dict[tuple[str, str], FrontEnd]:
    """Every ONNX front end by (domain, operator), single functions and table rows alike."""
    found: dict[tuple[str, str], FrontEnd] = {}
    for module in modules("ops"):
        rows = list(vars(module).get("FRONT_ENDS", ()))
        for item in vars(module).values():
            if callable(item) and getattr(item, "__module__", "") == vars(module)["__name__"]:
                rows += getattr(item, _MARK, [])
        found.update({(row.domain, row.op_type): row for row in rows})
    for module in modules("ops"):
        more = vars(module).get("front_ends_of_functions")
        if more is not None and more.__module__ == vars(module)["__name__"]:
            found.update({(row.domain, row.op_type): row for row in more()})
    return dict(sorted(found.items()))


@registry
def run_time_forms() -> dict[str, RunTime]:
    """The front ends of ai.onnx operators whose arguments are computed at run time."""
    return {op_type: row for module in modules("ops") for op_type, row in vars(module).get("RUN_TIME", {}).items()}


def folding(domain: str, op_type: str) -> Folding:
    """How large a folded result of an ONNX operator may become: said by its front end, or beside them."""
    if not domain and op_type in FOLDINGS:
        return FOLDINGS[op_type]
    row = front_ends().get((domain, op_type))
    return BROADCAST if row is None else row.folding
