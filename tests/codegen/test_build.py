"""What generated C asks of compilers and linkers: warnings, symbols, sections, C++, LTO, microcontrollers."""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import mccompile
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import REPOSITORY, needs_tool
from tests.support.small_models import MODELS, write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
LEVELS = ("O0", "O2", "Os")
TARGETS = ("generic", "native")
ALLOWED_SYMBOLS = re.compile(
    r"mcc_\w+|mem(cpy|set|move)|(acos|asin|atan|acosh|asinh|atanh|cos|sin|tan|cosh|sinh|tanh|exp|exp2|expm1|log|log2|"
    r"log10|log1p|pow|sqrt|cbrt|erf|floor|ceil|trunc|round|rint|nearbyint|l?lrint|l?lround|fmod|remainder|fabs|fmax|"
    r"fmin|fma|hypot|atan2|ldexp|copysign)f?|__aeabi_\w+|_GLOBAL_OFFSET_TABLE_"
)


def _run(command: Sequence[str | Path], cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


Sources = Callable[[str, str], list[Path]]


@pytest.fixture(scope="module")
def sources_of(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """<name>.c of every small model for a target and a level, and mcc.c; their headers are beside them.

    They are generated when they are first asked for, and compiled by several tests.
    """

    @functools.cache
    def sources(target: str, level: str) -> list[Path]:
        folder = tmp_path_factory.mktemp("sources")
        models = [DIGITS, *(write_model(name, folder) for name in MODELS)]
        for model in models:
            mccompile.compile(model, folder / "all", target=target, opt_level=level, embed=True)
        return [folder / "all" / f"{name}.c" for name in (*(model.stem for model in models), "mcc")]

    return sources


@pytest.mark.parametrize(
    ("compiler", "target", "level"),
    [
        *(("gcc", "generic", level) for level in LEVELS),
        ("gcc", "native", "O2"),
        *(pytest.param("gcc", "native", level, marks=pytest.mark.slow) for level in LEVELS if level != "O2"),
        ("clang", "generic", "O0"),  # the C that gcc takes: of each target once, where there are most kernels
        ("clang", "native", "O2"),
        *(
            pytest.param("clang", target, level, marks=pytest.mark.slow)
            for target, level in itertools.product(TARGETS, LEVELS)
            if (target, level) not in (("generic", "O0"), ("native", "O2"))
        ),
    ],
)
def test_no_warnings_and_no_symbols_of_others(
    compiler: str, target: str, level: str, tmp_path: Path, sources_of: Sources
) -> None:
    needs_tool(compiler)
    sources = sources_of(target, level)
    flags = [*resolve(target).c_flags, *strict_warnings(compiler), "-fno-pic", "-fno-pie", "-c"]
    _run([compiler, *flags, *sources], tmp_path)
    for source in sources:
        _check_object(tmp_path / f"{source.stem}.o", source.stem)


def _check_object(path: Path, name: str, nm: str = "nm", size: str = "size") -> None:
    for line in _run([nm, path], path.parent).splitlines():
        kind, symbol = line.split()[-2:]
        if kind == "U":
            assert ALLOWED_SYMBOLS.fullmatch(symbol), f"{path.name} calls {symbol}"
        elif kind.isupper():
            assert symbol.startswith((f"{name}_", "mcc_")), f"{path.name} defines {symbol}"
            assert kind in "TR", f"{symbol} is {kind}"
        else:
            assert kind in "tr", f"{symbol} is {kind}: not code and not constant"
    _, data, bss, *_ = _run([size, path], path.parent).splitlines()[1].split()
    assert (int(data), int(bss)) == (0, 0)


@pytest.mark.parametrize("level", LEVELS)
def test_generic_for_a_microcontroller(level: str, tmp_path: Path, sources_of: Sources) -> None:
    compiler = needs_tool("arm-none-eabi-gcc")
    sources = sources_of("generic", level)
    flags = ["-std=c99", "-Os", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
    _run([compiler, *flags, *strict_warnings(compiler), "-c", *sources], tmp_path)
    for source in sources:
        _check_object(
            tmp_path / f"{source.stem}.o", source.stem, needs_tool("arm-none-eabi-nm"), "arm-none-eabi-size"
        )


def test_misra_split_and_hooks_builds_have_no_warnings(tmp_path: Path, sources_of: Sources) -> None:
    compiler = needs_tool("gcc")
    sources = sources_of("generic", "O2")
    (tmp_path / "hooks.h").write_text(
        "void my_trace(unsigned step, const void *data, size_t bytes);\n"
        "extern unsigned my_steps;\n"
        "#define MCC_TRACE(step, ptr, bytes) my_trace((step), (ptr), (bytes))\n"
        "#define MCC_PROFILE_BEGIN(step) (my_steps += (unsigned)(step))\n"
        "#define MCC_PROFILE_END(step) (my_steps -= (unsigned)(step))\n"
    )
    flags = ["-std=c99", "-O1", *strict_warnings(compiler), f"-I{tmp_path}", "-c"]
    hooks = '-DMCC_HOOKS_HEADER="hooks.h"'
    for extra in (["-DMCC_MISRA"], ["-DMCC_SPLIT_ARENA=64"], [hooks], ["-DMCC_NO_DIRECTORY", "-DMCC_NO_STATUS_TEXT"]):
        _run([compiler, *flags, *extra, *sources], tmp_path)


MAIN = """\
#include <cmath>
#include <cstdio>
#include <cstring>
#include "digits.h"
#include "residual.h"

extern "C" const uint32_t digits_blob[];
extern "C" const uint32_t residual_blob[];
static digits_arena one, other;
static residual_arena third;

static float total(const float *v, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; ++i) {
        sum += std::fabs(v[i]);
    }
    return sum;
}

int main()
{
    digits_t a, b;
    residual_t c;
    float first, again;
    bool ok = digits_init(&a, &one, digits_blob, DIGITS_BLOB) == MCC_OK
        && digits_init(&b, &other, digits_blob, DIGITS_BLOB) == MCC_OK
        && residual_init(&c, &third, residual_blob, RESIDUAL_BLOB) == MCC_OK
        && digits_init(&a, &one, residual_blob, RESIDUAL_BLOB) == MCC_E_ID;
    for (int i = 0; i < DIGITS_INPUT_IMAGE_COUNT; ++i) {
        digits_input_image(&a)[i] = static_cast<float>(i % 17);
        digits_input_image(&b)[i] = static_cast<float>(i % 17);
    }
    for (int i = 0; i < RESIDUAL_INPUT_X_COUNT; ++i) {
        residual_input_x(&c)[i] = 0.1f;
    }
    ok = ok && digits_run(&a) == MCC_OK;
    first = total(digits_output_scores(&a), DIGITS_OUTPUT_SCORES_COUNT);
    ok = ok && residual_run(&c) == MCC_OK && digits_run(&b) == MCC_OK;
    again = total(digits_output_scores(&b), DIGITS_OUTPUT_SCORES_COUNT);
    ok = ok && std::isfinite(first) && first > 0 && first == again;
    ok = ok && total(digits_output_scores(&a), DIGITS_OUTPUT_SCORES_COUNT) == first;
    std::printf("%s %.9g\\n", ok ? "ok" : "bad", static_cast<double>(first));
    return ok ? 0 : 1;
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("c", "cpp"), [("gcc", "g++"), ("clang", "clang++")])
def test_two_networks_in_one_cpp_program(c: str, cpp: str, target: str, tmp_path: Path) -> None:
    """With and without link-time optimisation the same result: no name clashes, no state, no miscompiled aliasing."""
    needs_tool(c), needs_tool(cpp)
    for model in (DIGITS, write_model("residual", tmp_path)):
        mccompile.compile(model, tmp_path / "out", target=target, embed=True)
    out = tmp_path / "out"
    (out / "app.cpp").write_text(MAIN)
    sizes = [f"-D{n.upper()}_BLOB={(out / f'{n}.mcb').stat().st_size}u" for n in ("digits", "residual")]
    sources = ["digits.c", "residual.c", "digits_blob.c", "residual_blob.c", "mcc.c"]
    printed = []
    for lto in ([], ["-flto"]):
        if lto and c == "clang":
            continue  # needs a linker plugin that is not part of the compiler
        _run([c, *resolve(target).c_flags, *lto, "-c", *sources], out)
        machine = resolve(target).flags
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wold-style-cast", "-Werror"]
        _run([cpp, "-std=c++11", "-O2", *machine, *warnings, *lto, *sizes, "-c", "app.cpp"], out)
        objects = ["app.o", *(s.replace(".c", ".o") for s in sources)]
        _run([cpp, "-O2", *machine, *lto, *objects, "-lm", "-o", "app"], out)
        printed.append(_run(["./app"], out))
    assert all(p.startswith("ok ") for p in printed)
    assert len(set(printed)) == 1


def test_a_wrong_build_is_refused_by_the_compiler(tmp_path: Path) -> None:
    """No vector unit for code that needs one; an mcc.h of another version."""
    compiler = needs_tool("gcc")
    mccompile.compile(write_model("residual", tmp_path), tmp_path / "out", target="x86-64-v3")
    command = [compiler, "-std=c99", "-c", "residual.c"]
    done = subprocess.run(command, cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "was generated for x86-64-v3" in done.stderr
    header = tmp_path / "out" / "mcc.h"
    header.write_text(re.sub(r"(#define MCC_ABI_VERSION) \d+", r"\1 999", header.read_text()))
    command = [compiler, *resolve("x86-64-v3").c_flags, "-c", "residual.c"]
    done = subprocess.run(command, cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "generated for another mcc.h" in done.stderr
