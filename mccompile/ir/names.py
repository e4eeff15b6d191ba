"""Names that nothing else has, and the part of a long one that says most."""

from __future__ import annotations

from collections.abc import Container, Iterable


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


def own_part(name: str, room: int) -> str:
    """A name in at most ``room`` characters: as it is, or the end of its path; of names that a fusion joined by
    ``;`` the first.

    >>> own_part("/model/decoder/layers/3/self_attn/k_proj/MatMul", 24)
    '.../k_proj/MatMul'
    """
    own = name if len(name) <= room else name.split(";")[0] or name
    parts = own.split("/")
    while len(own) > room and len(parts) > 2:
        parts = parts[1:]
        own = ".../" + "/".join(parts)
    return own if len(own) <= room else "..." + own[3 - room :]


LEAST_ROOM = 24
"""Characters that a name among several has at least: fewer names are shown, then."""


def own_names(names: Iterable[str], room: int) -> str:
    """Several names, each by its `own_part`, in about ``room`` characters together.

    >>> own_names(["/net/layer/conv/Conv", "/net/layer/act/Relu", "/net/layer/Mul"], 50)
    '.../layer/conv/Conv+.../layer/act/Relu and 1 more'
    """
    listed = list(names)
    each = max(room // max(len(listed), 1), LEAST_ROOM)
    shown = listed[: max(room // each, 1)]
    more = f" and {len(listed) - len(shown)} more" if len(listed) > len(shown) else ""
    return "+".join(own_part(name, each) for name in shown) + more
