"""What the C of a kernel uses is asked for as it is printed: helpers, and names of the C library.

    const mcc_vf top = mcc_vset(-INFINITY);                  C in a template, of which its loader makes
    const {{ use("mcc_vf") }} top = {{ use("mcc_vset") }}(-{{ use("INFINITY") }});

    {{ part if whole else use("mcc_vfirst") ~ "(3, " ~ part ~ ", b)" }}      inside of an expression
    say("mcc_vmax({0}, {1})", "a", "b")                                      a form of C: uses mcc_vmax
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.codegen.code import Code, form
from mccompile.codegen.initialisers import special
from mccompile.ir.scalar import FUNCTIONS, Array
from mccompile.ir.types import DType, dtype_of

_LIBM = {m[1] for row in FUNCTIONS.values() for c in row.c.values() if (m := re.match(r"(\w+)\{f\}\(", c))}
HEADER_OF: Mapping[str, str] = {
    **dict.fromkeys(["INFINITY", "NAN", *_LIBM, *(f"{name}f" for name in _LIBM)], "math.h"),
    **dict.fromkeys(["memcpy", "memmove"], "string.h"),
}
"""The headers that declare names of the C library."""
HEADERS = ("math.h", "string.h")
"""In the order in which files include them."""
PLACES = ("{0}", "{1}", "{2}")
"""What a form is filled with to remain one."""
RUNTIME = frozenset({"MCC_E_DIM", "MCC_E_INDEX", "MCC_OK", "MCC_PLACE_CODE", "MCC_RESTRICT", "mcc_status"})
"""Names of mcc.h, which every file includes."""

_FUNCTIONS = "|".join(sorted(name for name in HEADER_OF if name.islower()))
_NAME = re.compile(rf"\b(?:(?:mcc|MCC)_\w+|INFINITY|NAN|(?:{_FUNCTIONS})(?=\())(?!\w|\{{\{{)")
"""A name that is somebody's to define; where an expression goes on with it, it is the template that asks."""
_PART = re.compile(r"(\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|/\*.*?\*/)", re.DOTALL)
"""What is no C, of a template."""


def requests_of_names(source: str) -> str:
    """A template in which the names that its C mentions are asked for."""
    parts = _PART.split(source)
    return "".join(p if i % 2 else _NAME.sub(r'{{ use("\g<0>") }}', p) for i, p in enumerate(parts))


@functools.cache
def _names(form: str) -> frozenset[str]:
    return frozenset(_NAME.findall(form))


def printed_names(names: Iterable[str], *texts: str) -> Iterator[str]:
    """Those that C mentions, of the names that were asked for: what a template makes, and leaves out, asks as well.
    What is no name of C, such as a header, is always one of them.

    >>> list(printed_names(["mcc_vset", "mcc_vset_f16", "immintrin.h"], "s = mcc_vset_f16(w[0]);"))
    ['mcc_vset_f16', 'immintrin.h']
    """
    for name in names:
        called = any(f" {name}(" in text for text in texts)
        if called or not name.isidentifier() or any(_mentions(name).search(text) for text in texts):
            yield name


@functools.cache
def _mentions(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{name}\b")


@dataclass
class Uses:
    """What a kernel has asked for so far: names of C, the numbers of its views that are C parameters, and the tables
    that it reads: their C by their name."""

    names: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)
    tables: dict[str, str] = field(default_factory=dict)

    def use(self, name: str) -> str:
        """The name, to be printed."""
        self.names.add(name)
        return name

    def number(self, name: str) -> str:
        """The name of a number of a view, to be printed."""
        self.numbers.add(name)
        return name

    def say(self, pattern: str, *values: str) -> Code:
        """A pattern of C with its places filled; its names are asked for."""
        self.names |= _names(pattern)
        return form(pattern, *values)

    def table(self, elements: Array) -> str:
        """The name of a constant array of the file, which is named after what it holds."""
        dtype = dtype_of(elements)
        name = f"mcc_table_{hashlib.sha256(dtype.name.encode() + elements.tobytes()).hexdigest()[:8]}"
        numbers = [self.element(x, dtype) for x in elements.tolist()]
        rows = ",\n".join("    " + ", ".join(numbers[i : i + 16]) for i in range(0, len(numbers), 16))
        self.tables[name] = f"static const {dtype.c} {name}[{len(numbers)}] = {{\n{rows}\n}};"
        return name

    def element(self, value: float, dtype: DType) -> str:
        """An element of a constant array."""
        if dtype.is_float and not math.isfinite(value):
            return str(self.say(special(value, double=dtype.name == "f64")))
        return f"{value}f" if dtype.name == "f32" else str(value)
