"""Tables that are measured a row at a time, for hours: what is not measured this time stays as it was.

    | network | ms |        rows_of(text) == {"lenet": "| lenet | 1.25 |", "vgg": "| vgg | 80 |"}
    |---|--:|
    | lenet | 1.25 |
    | vgg | 80 |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

_ROW = re.compile(r"^\| (?!network\b)`?(\w[^`|]*?)`? \|.*$", re.M)
_END = "<!-- end -->\n"


def rows_of(text: str) -> dict[str, str]:
    """The rows of a table by what is in their first cells."""
    return {m[1]: m[0] for m in _ROW.finditer(text)}


def renew(
    out: Path, order: Sequence[str], found: Iterable[tuple[str, str]], document: Callable[[Sequence[str]], str],
    within: Callable[[str], str] = lambda text: text,
) -> None:
    """Write ``out`` anew with each (name, row) that is ``found``; ``document`` makes its text of all rows, in
    ``order``. ``within`` is the part of the text with the table."""
    for name, row in found:
        print(row, flush=True)
        before = out.read_text(encoding="utf-8") if out.exists() else ""  # it may have changed meanwhile
        rows = rows_of(within(before)) | {name: row}
        out.write_text(document([rows[n] for n in order if n in rows]), encoding="utf-8")


def renew_part(out: Path, mark: str, head: str, order: Sequence[str], found: Iterable[tuple[str, str]]) -> None:
    """The same of a document by hand, in which the table stands between ``<!-- mark -->`` and ``<!-- end -->``."""
    begin = f"<!-- {mark} -->\n"

    def parts() -> tuple[str, str, str]:
        before, _, rest = out.read_text(encoding="utf-8").partition(begin)
        table, _, behind = rest.partition(_END)
        return before + begin, table, _END + behind

    def document(rows: Sequence[str]) -> str:
        before, _, behind = parts()
        return before + head + "\n".join(rows) + "\n" + behind

    renew(out, order, found, document, lambda _: parts()[1])
