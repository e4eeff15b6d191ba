"""What ran, in docs/testing.md: `make fuzz FUZZ=--record` writes it between its marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.support.fuzz.ledger import Ledger
from tests.support.marked import with_part

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
KINDS = ("ok", "refused", "none")


def record(ledgers: Sequence[Ledger]) -> str:
    """The document with the sums of all ledgers."""
    return with_part(DOCUMENT.read_text(encoding="utf-8"), "fuzz", "\n".join(table(ledgers)) + "\n")


def table(ledgers: Sequence[Ledger]) -> list[str]:
    counts: dict[str, Counter[str]] = {}
    seconds: Counter[str] = Counter()
    for ledger in ledgers:
        for name, found in ledger.counts.items():
            counts.setdefault(name, Counter()).update(found)
        seconds.update(ledger.seconds)
    lines = [f"| attack | seeds | {' | '.join(KINDS)} | failed | minutes |", "|---|" + "---:|" * (len(KINDS) + 3)]
    for name, found in counts.items():
        failed = found.total() - sum(found[kind] for kind in KINDS)
        cells = [found.total(), *(found[kind] or "" for kind in KINDS), failed or "", round(seconds[name] / 60)]
        lines.append(f"| `{name}` | {' | '.join(map(str, cells))} |")
    return lines
