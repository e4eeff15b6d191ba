"""C identifiers, comments and string literals for ONNX names: identifiers are unique, no keywords, stable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from mccompile._dataclass import dataclass
from mccompile.codegen.wrapping import STEP
from mccompile.ir.c_words import HEADERS, is_c_word
from mccompile.ir.errors import UsageError
from mccompile.ir.names import own_part

_ARDUINO: Final = re.compile(
    r"HIGH|LOW|INPUT(_(PULLUP|PULLDOWN|ANALOG|FLOATING))?|OUTPUT(_OPEN_?DRAIN)?|ANALOG|PULLUP|PULLDOWN|OPEN_DRAIN|"
    r"(HALF_|TWO_)?PI|EULER|DEG_TO_RAD|RAD_TO_DEG|SERIAL|DISPLAY|[LM]SBFIRST|CHANGE|FALLING|RISING|ONLOW|ONHIGH|"
    r"DEFAULT|(AR_)?(INTERNAL|EXTERNAL|VDD)\w*|NOT_\w+|NUM_\w+|PIN_\w+|LED_\w+|USB_\w+|F_CPU|ARDUINO\w*|Serial\w*|"
    r"SS\d?|MOSI\d?|MISO\d?|SCK\d?|SDA\d?|SCL\d?|T[XR]X?\d?|DAC\d?|A\d+|D\d+|B[01]+|BIN|OCT|DEC|HEX|"
    r"P[A-L]\d{0,2}|TIMER\d\w*|SPI_\w+|IRAM_ATTR|DRAM_ATTR|PROGMEM"
)
"""Object-like macros of Arduino's cores: sketches, and C++ for PlatformIO, include our header behind Arduino.h."""

_TYPES: Final = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 intmax uintmax intptr uintptr size ssize ptrdiff off time "
    "clock div ldiv lldiv fpos mode pid dev ino uid gid id key float double max_align sig_atomic regex locale "
    "int_least8 int_least16 int_least32 int_least64 uint_least8 uint_least16 uint_least32 uint_least64 "
    "int_fast8 int_fast16 int_fast32 int_fast64 uint_fast8 uint_fast16 uint_fast32 uint_fast64 "
    "char8 char16 char32 float16 float32 float64 bfloat16 poly8 poly16 poly64 poly128 mve_pred16 "
    "timer clockid quad u_quad loff nlink blksize blkcnt fsblkcnt fsfilcnt useconds suseconds sig sigset siginfo "
    "sigval sigevent stack fsid caddr daddr cpu_set socklen imaxdiv fexcept femode mbstate wctrans wint"
).split()
_CMAKE: Final = (
    "all all_build clean depend edit_cache help install list_install_components package package_source preinstall "
    "rebuild_cache run_tests zero_check debug optimized general cmake"
).split()
"""Targets that CMake or its generators have, words of target_link_libraries, and what CMake's own variables begin
with."""
_LIBRARIES: Final = "c m dl rt pthread gcc".split()
"""What toolchains link by name: a library that is called so would be linked in their place."""
_MODEL_NAMES: Final = frozenset(
    [*HEADERS, *_TYPES, *_CMAKE, *_LIBRARIES, "example_main", "test", "report", "cmakelists"]
)
"""Prefixes whose files or types (``<name>.h``, ``<name>_t``) would hide those of the system or of ours, or that build
systems have another meaning for."""

MAX_IDENTIFIER: Final = 40
"""With prefix and number still among the 63 characters that C99 compilers tell apart."""
MAX_COMMENT: Final = 300
MAX_LABEL: Final = 60
"""Of a name in a comment; longer ones are shown by their own part."""


@dataclass(frozen=True)
class Lengths:
    """How much room what repeats in a program's C has: identifiers of members, names in comments of kernels and
    steps, and each level of indentation. Identifiers leave ``idle`` words out, which most names have."""

    identifier: int = MAX_IDENTIFIER
    label: int = MAX_LABEL
    indent: int = STEP
    idle: str = ""


USUAL: Final = Lengths()
OF_LONG: Final = Lengths(28, 36, 2, "_output_0")
"""Of programs whose C is long: in thousands of lines what repeats is most of it. PyTorch's exporter calls the first
result of each node ``node_output_0``."""

MAX_LITERAL: Final = 80
"""Characters of one string literal."""
MAX_STRING_BYTES: Final = 2000
"""Of a name in a string literal; C99 compilers need to take no more than 4095 characters."""


def identifier(name: str, most: int = MAX_IDENTIFIER) -> str:
    """``name`` with every other character as ``_``, cut to ``most``; a ``_`` ends keywords and macros."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    text = re.sub(r"__+", "_", text).strip("_")[:most].strip("_") or "t"
    if text[0].isdigit():
        text = "t" + text
    return text + "_" if is_c_word(text) else text


def model_name(name: str) -> str:
    """The prefix of everything generated and the files' name, made of a model's or file's name.

    Lower case; never a name of the standard library's headers and types, of the runtime, or of build systems.
    """
    text = identifier(name.lower()).rstrip("_")
    taken = is_c_word(text) or text in _MODEL_NAMES or re.match(r"mcc(_|$)|\w*intrin$", text)  # of compilers
    return f"net_{text}" if taken else text


def given_name(name: str, option: str = "--name") -> str:
    """A prefix that the user gave: as it is, or not at all. UsageError for one that C files cannot have."""
    made = model_name(name)
    if made != name:
        raise UsageError(
            f"{name!r} cannot be the prefix of C names and files: they are lower case, begin with a letter, have no "
            f"other characters than letters, digits and _, and hide no header or word of C, or target of CMake",
            hint=f"{option} {made} would do",
        )
    return name


def own_parts(names: Iterable[str]) -> dict[str, str]:
    """Of each path the fewest last parts that no other path ends with; other names stay as they are.

        /model/layer1/conv/Conv_output_0   ->   layer1/conv/Conv_output_0
        /model/layer2/conv/Conv_output_0   ->   layer2/conv/Conv_output_0
        /model/pool/MaxPool_output_0       ->   MaxPool_output_0
        net/act/Relu;net/conv/Conv         ->   Relu

    Names with dots are paths if they are too long for an identifier. A part that begins with a digit needs the one
    before it.
    """
    paths = {name: _path(name) for name in names}
    ends = Counter(parts[i:] for parts in set(paths.values()) for i in range(len(parts)))
    table = {}
    for name, parts in paths.items():
        lone = [i for i in range(len(parts)) if ends[parts[i:]] == 1 and not parts[i][:1].isdigit()]
        table[name] = "/".join(parts[lone[-1] :]) if lone else name
    return table


def _path(name: str) -> tuple[str, ...]:
    own = name.split(";")[0] or name
    parts = re.split("[/.]" if len(own) > MAX_IDENTIFIER else "/", own)
    return tuple(p for p in parts if p) or (name,)


def unique_identifiers(
    names: Iterable[str], taken: Iterable[str] = (), short: bool = False, members: bool = False,
    lengths: Lengths = USUAL,
) -> dict[str, str]:  # fmt: skip
    """An identifier for each name, duplicates numbered in order; with ``short`` it is made of `own_parts`; as
    ``members`` they stand alone in a header, where they are no macros of what is included before.

    They differ in more than upper and lower case, for macros are made of them.
    """
    used = {t.lower() for t in taken}
    names = list(names)
    own = own_parts(names) if short else {}
    table: dict[str, str] = {}
    for name in names:
        base = identifier(own.get(name, name).replace(lengths.idle, ""), lengths.identifier)
        base += "_" if members and _ARDUINO.fullmatch(base) else ""
        text, n = base, 1
        while text.lower() in used:
            n += 1
            text = f"{base.rstrip('_')}_{n}"
        used.add(text.lower())
        table[name] = text
    return table


def comment(text: str) -> str:
    """``text`` so that it cannot end or nest a C comment, continue a line or hold a trigraph; cut if very long."""
    safe = "".join(c if c.isprintable() else "?" for c in text[: MAX_COMMENT + 1]).replace("\\", "|")
    if len(safe) > MAX_COMMENT:
        safe = safe[: MAX_COMMENT - 3] + "..."
    return re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)", " ", safe)


def label(name: str, room: int = MAX_LABEL) -> str:
    """A name for a comment: as it is, or the end of its path; of names that a fusion joined by ``;`` the first.

    ``/model/decoder/layers/3/self_attn/k_proj/MatMul`` is ``.../3/self_attn/k_proj/MatMul`` where that is too long.
    """
    return comment(own_part(name, room))


def rust_string(text: str) -> str:
    """A string literal of Rust that is ``text``, in ASCII; cut as `string_literal` does."""
    shown = ("\\" + c if c in '"\\' else c if " " <= c <= "~" else f"\\u{{{ord(c):x}}}" for c in _cut(text))
    return f'"{"".join(shown)}"'


def string_literal(text: str) -> str:
    """The inside of a C string literal that is ``text`` in UTF-8, cut to `MAX_STRING_BYTES`.

    A long one is several literals side by side, so that lines may be broken between them.
    """
    plain = set(range(0x20, 0x7F)) - set(b'"\\?')
    shown = [chr(b) if b in plain else f"\\{b:03o}" for b in _cut(text).encode()]
    pieces: list[str] = [""]
    for c in shown:
        if len(pieces[-1]) + len(c) > MAX_LITERAL:
            pieces.append("")
        pieces[-1] += c
    return '" "'.join(pieces)


def _cut(text: str) -> str:
    """Its first `MAX_STRING_BYTES` bytes of UTF-8, without a part of a character."""
    return text.encode()[:MAX_STRING_BYTES].decode(errors="ignore")
