"""Names that nothing else has."""

from __future__ import annotations

from collections.abc import Container


def free_name(base: str, taken: Container[str], mark: str = "_") -> str:
    """The name, numbered from 2 on behind a ``mark`` if it is taken.

    >>> free_name("x", {"x", "x_2"}), free_name("y", {"x"})
    ('x_3', 'y')
    """
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}{mark}{number}"
    return name
