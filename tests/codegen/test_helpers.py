"""The helpers of `_lib/`: what each declares that it needs is what its C mentions, for every target."""

from __future__ import annotations

import re

import pytest

from mccompile.codegen.helpers import EVERYWHERE, HEADERS, Helper, helpers_of, preamble
from mccompile.codegen.templates import environment
from mccompile.ir.errors import InternalError
from mccompile.targets.target import resolve, targets

LIBM = (
    "acos acosh asin asinh atan atanh ceil copysign cos cosh erf exp exp2 fabs floor fma fmod log log1p pow "
    "sin sinh sqrt tan tanh"
).split()
OF_MATH = {"INFINITY", "NAN", *LIBM, *(f"{name}f" for name in LIBM)}
INSTRUCTIONS = {
    "immintrin.h": r"_mm\d*_\w+|__m\d+\w*|__mmask\d+",
    "arm_acle.h": r"__(smla\w+|[su]xtb16|[su]sat)",
    "arm_neon.h": r"v\w+_[fsu]\d+(_x\d)?|(float|u?int)\d+x\d+(x\d)?_t",
    "arm_sve.h": r"sv\w+_[bf]32|svfloat32_t",
    "wasm_simd128.h": r"wasm_[fiv]\d+\w*|v128_t",
}
"""What the headers of instructions declare; where MVE is asked for, the words of NEON are those of "arm_mve.h"."""


def mentioned(helper: Helper, known: set[str]) -> set[str]:
    """The helpers and headers that the C of a helper would not compile without."""
    words = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", helper.text, flags=re.DOTALL)))
    found = words & known - {helper.name}
    found |= {"math.h"} if words & OF_MATH else set()
    found |= {"string.h"} if words & {"memcpy", "memmove", "memset"} else set()
    if "#include" not in helper.text:
        found |= {h for h, form in INSTRUCTIONS.items() if any(re.fullmatch(form, w) for w in words)}
    mve = "__ARM_FEATURE_MVE" in words
    return {"arm_mve.h" if mve and f == "arm_neon.h" else f for f in found}


@pytest.mark.parametrize("target", [*targets()])
def test_needs_are_what_the_c_mentions(target: str) -> None:
    known = helpers_of(resolve(target))
    wrong = {h.name: (h.needs, mentioned(h, {*known})) for h in known.values()}
    assert {n: w for n, w in wrong.items() if sorted(w[0]) != sorted(w[1])} == {}


@pytest.mark.parametrize("target", [*targets()])
def test_a_helper_defines_its_name(target: str) -> None:
    for helper in helpers_of(resolve(target)).values():
        name = re.escape(helper.name)
        code = re.sub(r"/\*.*?\*/", "", helper.text, flags=re.DOTALL)
        macro, type_ = rf"^#define {name}\b|^#include <{name}>", rf"^\}} {name};|^typedef .*\b{name}\b"
        defined = rf"{macro}|{type_}|^(?:static|MCC_INLINE) .*\b{name}\("
        assert re.search(defined, code, re.MULTILINE), helper


@pytest.mark.parametrize("target", [*targets()])
def test_all_c_of_the_library_is_declared(target: str) -> None:
    """What stands between two helpers would reach no file."""
    chosen = resolve(target)
    for name in (*EVERYWHERE, *(("vector",) if chosen.lanes else ())):
        template = environment().get_template(f"_lib/{name}.c.j2")
        assert not template.render(helper=lambda *_, caller: "", target=chosen, lanes=chosen.lanes).strip()


def test_a_preamble_has_what_is_needed_in_turn() -> None:
    before = preamble(["mcc_vmax"], resolve("x86-64-v3"))
    at = [before.helpers.index(c) for c in (" mcc_vf ", "#include <immintrin.h>", " mcc_vselect(", " mcc_vmax(")]
    assert at == sorted(at)
    assert before.headers == ()
    assert preamble(["mcc_sigmoid_f32"], resolve("generic")).headers == ("math.h",)
    assert preamble(HEADERS, resolve("generic")).headers == HEADERS


def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(InternalError, match="generic has no helper mcc_vmax"):
        preamble(["mcc_vmax"], resolve("generic"))


@pytest.mark.parametrize("target", [*targets()])
def test_all_assembler_can_be_left_out(target: str) -> None:
    """With -DMCC_NO_ASM there is C in its place: what else is asked where it stands never holds without."""
    for helper in helpers_of(resolve(target)).values():
        asked: list[str] = []
        for line in helper.text.splitlines():
            if line.startswith("#if"):
                asked.append(line)
            elif line.startswith("#el"):
                asked[-1] = f"not ({asked[-1]}) {line}"
            elif line.startswith("#endif"):
                asked.pop()
            if "__asm__" in line:
                conditions = " ".join(c for c in asked if not c.startswith("not") or "MCC_NO_ASM" in c)
                assert "defined(MCC_ASM)" in conditions or "MCC_NO_ASM" in conditions, helper
