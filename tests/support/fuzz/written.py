"""What ran, in docs/testing.md: `make fuzz FUZZ=--record` adds it to the table between its marks.

    | `ints` | 96 | 92 | 4 |  |  | 4 |     and 3 seeds, of which 2 ended well and 1 failed, in 60 s, become
    | `ints` | 99 | 94 | 4 |  | 1 | 5 |

A ledger that was added keeps the seeds that come next, and begins to count anew.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.support.fuzz.ledger import Ledger
from tests.support.marked import part_of, with_part

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
KINDS = ("ok", "refused", "none", "failed")
HEAD = f"| attack | seeds | {' | '.join(KINDS)} | minutes |\n|---|{'---:|' * (len(KINDS) + 2)}\n"


def record(document: str, ledgers: Sequence[Ledger]) -> str:
    """The document with what the ledgers have counted added to its table. They count from nothing then."""
    rows = {m[1]: _numbers(m[2]) for m in re.finditer(r"^\| `(\w+)` \|(.*)\|$", part_of(document, "fuzz"), re.M)}
    for ledger in ledgers:
        for name, found in ledger.counts.items():
            row = rows.setdefault(name, Counter())
            row.update({kind if kind in KINDS else "failed": n for kind, n in found.items()})
            row["seconds"] += round(ledger.seconds.get(name, 0))
        ledger.counts, ledger.seconds = {}, {}
        ledger.write()
    return with_part(document, "fuzz", HEAD + "".join(f"| `{name}` |{_cells(row)}|\n" for name, row in rows.items()))


def _numbers(cells: str) -> Counter[str]:
    _, *counts, minutes = (int(cell.strip() or 0) for cell in cells.split("|"))
    return Counter({**dict(zip(KINDS, counts, strict=True)), "seconds": 60 * minutes})


def _cells(row: Counter[str]) -> str:
    seeds = sum(row[kind] for kind in KINDS)
    numbers = [seeds, *(row[kind] or "" for kind in KINDS), round(row["seconds"] / 60)]
    return "|".join(f" {n} " for n in numbers)
