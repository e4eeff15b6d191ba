"""Numbers and names as a person reads them on the page, and where the marks of an axis stand."""

from __future__ import annotations

import math
from collections.abc import Iterable

from mccompile.ir.names import own_part

NAME = 44
"""Characters of a name in a row; the whole one is in its tip."""
TIP = 200
"""Characters of a text in a tip."""

_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def nbytes(count: float) -> str:
    """Bytes in their unit.

    >>> [nbytes(n) for n in (40, 6144, 98_624, 5_619_712)]
    ['40 B', '6.0 KiB', '96.3 KiB', '5.36 MiB']
    """
    for unit, name in _UNITS:
        if count >= unit:
            digits = 1 if name == "KiB" else 2
            return f"{count / unit:.{digits}f} {name}"
    return f"{count:,.0f} B"


def seconds(us: float) -> str:
    """A time given in microseconds.

    >>> [seconds(t) for t in (0.0421, 3.2, 68.61, 4_213.0, 1_250_000)]
    ['42.1 ns', '3.20 µs', '68.6 µs', '4.21 ms', '1.25 s']
    """
    for unit, name in ((1e6, "s"), (1e3, "ms"), (1, "µs"), (1e-3, "ns")):
        if us >= unit or name == "ns":
            value = us / unit
            return f"{value:.{2 if value < 10 else 1}f} {name}"
    raise AssertionError


def count(value: float) -> str:
    """A large number in short.

    >>> [count(n) for n in (512, 88_832, 7_489_664, 1_200_000_000)]
    ['512', '88.8 k', '7.49 M', '1.20 G']
    """
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            own = value / unit
            return f"{own:.{2 if own < 10 else 1 if own < 100 else 0}f} {name}"
    return f"{value:,.0f}"


def short(name: str, room: int = NAME) -> str:
    """A name cut to its own part.

    >>> short("Relu__14:0", 9)
    '…lu__14:0'
    """
    if len(name) <= room:
        return name
    own = own_part(name, room + 2).replace("...", "…")
    return own if len(own) <= room else f"…{own[len(own) - room + 1 :]}"


def ends(name: str, room: int) -> str:
    """As many parts of a path as there is room for, from its end; else the last one, cut in its middle.

    >>> ends("model/block_3/Relu;model/BiasAdd", 14), ends("model/Relu__14:0", 9), ends("conv1.relu", 5)
    ('block_3/Relu', 'Relu…14:0', 'co…lu')
    """
    *parts, own = (name.split(";")[0] or name).split("/")
    while parts and len(parts[-1]) + 1 + len(own) <= room:
        own = f"{parts.pop()}/{own}"
    if len(own) <= room:
        return own
    tail = (room - 1) // 2
    return f"{own[: room - 1 - tail]}…{own[len(own) - tail :]}"


def tip(text: str) -> str:
    """A text cut to what a tip may hold."""
    return text if len(text) <= TIP else f"{text[: TIP - 1]}…"


def names(of: Iterable[str], room: int = NAME) -> str:
    """Names in one line, the first ones if there are many.

    >>> names(["conv1", "relu1"]), names(["one_long_name"] * 9, 30)
    ('conv1 + relu1', 'one_long_name + 8 more')
    """
    of = list(of)
    shown: list[str] = []
    for i, name in enumerate(of):
        own = short(name, room)
        rest = f" + {len(of) - i} more" if i + 1 < len(of) else ""
        if shown and len(" + ".join([*shown, own])) + len(rest) > room:
            return f"{' + '.join(shown)} + {len(of) - i} more"
        shown.append(own)
    return " + ".join(shown)


def steps_between(top: float, most: int) -> float:
    """The distance of marks on an axis from 0 to ``top``: 1, 2 or 5 of a power of ten; ``most`` marks.

    >>> steps_between(28, 15), steps_between(900, 10)
    (2, 100)
    """
    if top <= 0:
        return 1
    raw = max(top / most, 1e-12)
    power = 10 ** math.floor(math.log10(raw))
    found = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
    return int(found) if found >= 1 else found


def byte_marks(top: int, most: int = 6) -> list[int]:
    """Marks on an axis of bytes, round in binary.

    >>> byte_marks(6144, 6)
    [0, 1024, 2048, 3072, 4096, 5120, 6144]
    """
    step = 1
    while top / step > most:
        step *= 2
    return list(range(0, top + 1, step))


def number(value: float) -> str:
    """A coordinate, without digits that nobody sees.

    >>> number(3.0), number(3.14159)
    ('3', '3.1')
    """
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
