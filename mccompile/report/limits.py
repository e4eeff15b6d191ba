"""Whether a compilation fits a device, and if not, by how much and because of which tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mccompile.ir.errors import CompileError
from mccompile.passes.clean.fold_constants import may_grow
from mccompile.report.report import make_report
from mccompile.report.summary import peak_text
from mccompile.search.candidates import growth_factor
from mccompile.search.state import Compilation

MAX_SHOWN = 5
MAX_STEPS = 12


def misfits(report: Mapping[str, Any], largest: Mapping[str, int], ram: int | None, flash: int | None) -> list[str]:
    """One paragraph for each memory that is too small (bytes; None: no limit); empty if everything fits.

    ``largest`` are the sizes of weights by name.
    """
    found = []
    arena, blob = report["memory"]["arena_bytes"], report["blob_bytes"]
    if ram is not None and arena > ram:
        found.append(
            f"it does not fit in RAM: the arena takes {arena:,} bytes, {arena - ram:,} more than the {ram:,} "
            f"of --ram\n  peak: {peak_text(report)}\n  {_crowded_text(report, ram)}"
        )
    if flash is not None and blob > flash:
        top = sorted(largest.items(), key=lambda w: (-w[1], w[0]))[:MAX_SHOWN]
        found.append(
            f"it does not fit in flash: the weights take {blob:,} bytes, {blob - flash:,} more than the {flash:,} "
            f"of --flash, and the code comes on top\n"
            f"  largest: {', '.join(f'{name} {size:,}' for name, size in top)}"
        )
    return found


def _crowded_text(report: Mapping[str, Any], ram: int) -> str:
    """How many steps need more than there is: one layer to be changed, or the whole network."""
    steps = report["steps"]
    over = [i for i, step in enumerate(steps) if step["arena_bytes"] > ram]
    if not over:
        return "no step alone needs more: it is how the tensors lie beside one another"
    shown = ", ".join(map(str, over[:MAX_STEPS])) + (", ..." if len(over) > MAX_STEPS else "")
    return f"{len(over)} of {len(steps)} steps need more than that at once: {shown}"


def require_project_fit(report: Mapping[str, Any], ram: int | None, flash: int | None) -> None:
    """CompileError unless the arenas of all models together fit in ``ram`` and their blobs in ``flash`` bytes."""
    facts, models = report["project"], report["models"]
    blobs = {name: r["blob_bytes"] for name, r in models.items()}
    arenas = {name: r["memory"]["arena_bytes"] for name, r in models.items()}
    hint = "a larger budget, smaller models" + ("" if facts["share_arena"] else ", or --share-arena")
    for what, option, total, limit, parts in (
        ("arenas", "--ram", facts["arena_bytes"], ram, arenas),
        ("weights", "--flash", facts.get("blob_bytes", sum(blobs.values())), flash, blobs),
    ):
        if limit is not None and total > limit:
            sizes = ", ".join(f"{name} {size:,}" for name, size in parts.items())
            raise CompileError(
                f"the project does not fit: its {what} take {total:,} bytes, {total - limit:,} more than the "
                f"{limit:,} of {option}\n  models: {sizes}",
                where=facts["name"],
                hint=hint,
                code="does-not-fit",
            )


def weight_sizes(c: Compilation) -> dict[str, int]:
    """Bytes of each blob entry by name."""
    assert c.program is not None
    return {b.name: b.nbytes for b in c.program.blob()}


def require_fit(c: Compilation, ram: int | None, flash: int | None) -> None:
    """CompileError unless the arena fits in ``ram`` bytes and the blob in ``flash`` bytes (None: no limit)."""
    if ram is None and flash is None:
        return
    report = make_report(c, {})
    found = misfits(report, weight_sizes(c), ram, flash)
    if found:
        if c.in_vain and ram is not None and c.options.ram == ram and report["memory"]["arena_bytes"] > ram:
            found.append(f"  {c.in_vain}")
        hint = _ways_out(c, report, ram, flash)
        raise CompileError("\n".join(found), where=c.source, hint=hint, code="does-not-fit")


def _ways_out(c: Compilation, report: Mapping[str, Any], ram: int | None, flash: int | None) -> str:
    """What is left to the user, of what was not done yet."""
    floats = report["quantised"] is None
    ways = ["a smaller model"]
    if flash is not None and report["blob_bytes"] > flash and floats and not c.options.weights:
        ways.append("weights in fewer bits (--weights f16, i8 or i4)")
    if flash is not None and report["blob_bytes"] > flash and may_grow(c.target, growth_factor(c.options)):
        ways.append("constants that grow for nothing (--max-blob-growth 0)")
    if floats:
        ways.append("integers of 8 bits (`mccompile quantize`)")
    if ram is not None and report["memory"]["arena_bytes"] > ram:
        ways.append("smaller extents (--dim, --input-shape)")
        ways += ["inputs that may be overwritten (no --keep-inputs)"] * c.options.keep_inputs
    return ", ".join(ways[:-1]) + " or " * (len(ways) > 1) + ways[-1]
