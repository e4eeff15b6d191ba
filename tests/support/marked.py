"""The part of a document that is written by a tool, between its marks.

    before <!-- fuzz -->              before <!-- fuzz -->
    old                  becomes      new
    <!-- end fuzz --> after           <!-- end fuzz --> after
"""

from __future__ import annotations


def with_part(document: str, name: str, part: str) -> str:
    """The document with ``part`` between the marks of a name. ValueError if it has not each of them once."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->\n"
    before, rest = document.split(begin)
    _, after = rest.split(end)
    return before + begin + part + end + after
