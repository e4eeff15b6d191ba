"""What is in a file, in one piece or in several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from mccompile._dataclass import dataclass


@dataclass(frozen=True)
class Pieces:
    """Bytes that lie in several places, one piece behind the other: weights may be most of what memory holds, and are
    not copied only to be written.

    >>> found = Pieces((b"head", memoryview(b"weights")))
    >>> len(found), bytes(found)
    (11, b'headweights')
    """

    pieces: tuple[bytes | memoryview, ...]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


Bytes: TypeAlias = bytes | Pieces

Files: TypeAlias = Mapping[str, Bytes]
"""What is in the files of a folder, by their names."""


def pieces_of(data: Bytes) -> tuple[bytes | memoryview, ...]:
    """The bytes of a file, in as many pieces as they are in."""
    return data.pieces if isinstance(data, Pieces) else (data,)
