"""Words that C, C++ and the standard headers have a meaning for: nothing generated may be called like one."""

from __future__ import annotations

import re
from typing import Final

_STANDARD_TYPES: Final = frozenset(
    [f"{sign}int{kind}{bits}_t" for sign in ("", "u") for kind in ("", "_least", "_fast") for bits in (8, 16, 32, 64)]
    + "intmax_t uintmax_t intptr_t uintptr_t size_t ptrdiff_t wchar_t max_align_t".split()
)
"""Types of stdint.h and stddef.h: a member of a struct in C++ may not be called as a type that stands before it."""
_OF_C: Final = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "bool false true asm typeof linux unix".split()
)
"""Of C99 and its stdbool.h, and what gcc takes for words or macros where it was not told -std=c99."""
_KEYWORDS: Final = (
    _OF_C
    | _STANDARD_TYPES
    | frozenset(
        "alignas alignof and and_eq bitand bitor catch char8_t char16_t char32_t class co_await "
        "co_return co_yield compl concept consteval constexpr constinit const_cast decltype delete "
        "dynamic_cast explicit export friend mutable namespace new noexcept not not_eq nullptr "
        "operator or or_eq private protected public reinterpret_cast requires static_assert static_cast "
        "template this thread_local throw try typeid typename using virtual xor xor_eq main bytes".split()
    )
)
"""And of C11 and C++; ``bytes`` is a member of ours."""
_MACRO: Final = re.compile(
    r"NULL|NAN|INFINITY|EOF|BUFSIZ|RAND_MAX|errno|std(in|out|err)|I|complex|assert|HUGE_VALF?L?|math_errhandling|"
    r"(U?INT|SIZE|SSIZE|PTRDIFF|U?CHAR|SCHAR|U?SHRT|U?LONG|U?LLONG|WCHAR|WINT|SIG_ATOMIC)\w*_(MAX|MIN)|"
    r"(U?INT_(MAX|MIN))|(FP|FLT|DBL|LDBL|M|MCC|SEEK|CHAR)_\w+"
)
"""Object-like macros of the standard headers and of mcc.h: they would be replaced wherever they stand."""
COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
"""A comment, which has no words."""
HEADERS: Final = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg "
    "stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar wchar wctype "
    "unistd memory endian alloca malloc features sched "
    "arm_neon arm_sve arm_acle arm_mve wasm_simd128 cpuid"
).split()
"""Headers, of C and of systems, that a file of ours would hide."""


def is_c_word(text: str) -> bool:
    """Whether a name is a keyword or a type of the headers, or a macro would be put in its place.

    >>> [is_c_word(text) for text in ("int", "uint8_t", "INT_MAX", "integer")]
    [True, True, True, False]
    """
    return text in _KEYWORDS or _MACRO.fullmatch(text) is not None


def is_no_parameter(text: str) -> bool:
    """Whether C cannot have a parameter of this name, in a file that includes standard headers."""
    return text in _OF_C or _MACRO.fullmatch(text) is not None
