"""Floats as whole numbers of three digits to the base 256: what instructions for bytes multiply by weights of bytes.

Worked example: of 0.5 and -1.0 the larger is 1.0, which becomes `LARGEST`; half of that is 2080703.5, rounded to the
even one of its neighbours. Their digits are

    2080704 =  32 * 256**2 - 64 * 256 - 64          -4161407 = -63 * 256**2 - 127 * 256 - 127

Weights w are multiplied digit by digit, and what comes out is put together as one number::

    ((d2 . w * 256 + d1 . w) * 256 + d0 . w) * (1.0 / LARGEST)

which loses what is below a 2^23rd of the largest, as sums of floats do. Three instructions for four steps of a sum
are fewer than four multiplications of floats, which weights have to be made of first.

>>> 32 * 256**2 - 64 * 256 - 64, (-63 * 256 - 127) * 256 - 127
(2080704, -4161407)
"""

from __future__ import annotations

from mccompile.targets.target import Target

BYTES = 4
"""Bytes of a word, which one instruction multiplies by those of another."""
DIGITS = 3
LARGEST = 63 * 256**2 + 127 * 256 + 127
"""What the largest of the numbers becomes: -128 .. 127 are the digits below the first, which has a bit less than a
byte so that floats hold the whole exactly.

>>> (LARGEST + 128) // 256 * 256 + (LARGEST + 128) % 256 - 128, (LARGEST + 128 - 255) // 256 // 256
(4161407, 63)
"""


def digit_product(target: Target) -> str:
    """The instruction of a target that adds up products of four bytes by four, by its name in the vector library;
    empty if it has none."""
    for capability, name in (("VNNI", "vnni"), ("DOTPROD", "sdot")):
        if target.can(capability):
            return name
    return ""
