"""Names that nothing else has, and the part of a long one that says most."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager


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


class Names:
    """Names that are taken, and new ones beside them.

    >>> names = Names(["y", "y.real"])
    >>> names.fresh("y.real"), names.fresh("y.scale"), names.fresh("y.scale")
    ('y.real_2', 'y.scale', 'y.scale_2')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._made: dict[str, None] = {}

    def fresh(self, base: str) -> str:
        """``base``, or a name like it that is not taken; it is taken then."""
        name = free_name(base, self._taken)
        self._taken.add(name)
        self._made[name] = None
        return name

    def is_made(self, name: str) -> bool:
        """Whether a name is one of `fresh` that is not given back yet."""
        return name in self._made

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Names that are made meanwhile are given back at the end: turns of a loop that is unrolled have the same."""
        many = len(self._made)
        try:
            yield
        finally:
            while len(self._made) > many:
                self._taken.discard(self._made.popitem()[0])


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


def first_of(names: Sequence[str], most: int, joint: str = ", ") -> str:
    """The first ``most`` of some names, and how many others there are.

    >>> first_of(["a", "b", "c"], 2), first_of(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    left = len(names) - most
    return joint.join(names[:most]) + (f" and {left} more" if left > 0 else "")


LEAST_ROOM = 24
"""Characters that a name among several has at least: fewer names are shown, then."""


def own_names(names: Iterable[str], room: int) -> str:
    """Several names, each by its `own_part`, in about ``room`` characters together.

    >>> own_names(["/net/layer/conv/Conv", "/net/layer/act/Relu", "/net/layer/Mul"], 50)
    '.../layer/conv/Conv+.../layer/act/Relu and 1 more'
    """
    listed = list(names)
    each = max(room // max(len(listed), 1), LEAST_ROOM)
    return first_of([own_part(name, each) for name in listed], max(room // each, 1), "+")
