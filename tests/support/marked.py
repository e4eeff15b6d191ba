"""The part of a document that is written by a tool, between its marks.

    before <!-- fuzz -->              before <!-- fuzz -->
    old                  becomes      new
    <!-- end fuzz --> after           <!-- end fuzz --> after
"""

from __future__ import annotations


def with_part(document: str, name: str, part: str) -> str:
    """The document with ``part`` between the marks of a name. ValueError if it has not each of them once."""
    before, _, after = _split(document, name)
    return before + part + after


def part_of(document: str, name: str) -> str:
    """What stands between the marks of a name. ValueError if the document has not each of them once."""
    return _split(document, name)[1]


def _split(document: str, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->\n"
    before, rest = document.split(begin)
    part, after = rest.split(end)
    return before + begin, part, end + after
