"""Vectors by themselves: loaded and stored in part, packed and woven into bytes, on pages that end there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mccompile.codegen.files import runtime_files
from mccompile.codegen.helpers import helpers_of, preamble
from mccompile.run.build import build_program
from mccompile.run.emulate import cross_tools
from mccompile.targets.target import resolve, runs_here
from tests.support.targets import ALL_VECTORS, needs_target

HEAD = r"""
#define _DEFAULT_SOURCE
#include "mcc.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifndef __wasm__
#include <sys/mman.h>
#endif
"""
TEST = r"""
enum { PAGE = 65536 };
static uint8_t *begin, *end;
static int wrong;

static void expect(int fine, const char *what, int n, int lane)
{
    if (!fine) {
        wrong = 1;
        printf("%s: %d, %d\n", what, n, lane);
    }
}

static int32_t clamped(int32_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* In 16 bits first, as the vectors have it. */
static int32_t packed(int32_t x, int32_t zero, int32_t low, int32_t high)
{
    return clamped(clamped(clamped(x, -32768, 32767) + zero, -32768, 32767), low, high);
}

static mcc_vi some(int32_t seed)
{
    mcc_vi v;
    for (int32_t i = 0; i < L; ++i) {
        seed = seed * 37 + 11 + i;
        v[i] = i % 3 == 0 ? (seed % 2 == 0 ? 70000 : -70000) : seed % 300;
        seed %= 10007;
    }
    return v;
}

#define LOADS(what, type, vector, load, value) \
    for (int32_t n = 1; n <= L; ++n) { \
        for (int32_t at = 0; at < 2; ++at) { \
            type *const p = at == 0 ? (type *)end - n : (type *)begin; \
            memset(begin, 0x55, PAGE); \
            for (int32_t i = 0; i < n; ++i) { \
                p[i] = (type)(value); \
            } \
            const vector v = load(p, n); \
            for (int32_t i = 0; i < L; ++i) { \
                type x = i < n ? (type)(value) : 0; \
                expect(EQUAL(v[i], x), what, n, i); \
            } \
        } \
    }
#define STEPS(what, type, vector, load, value) \
    for (int32_t n = 1; n <= L; ++n) { \
        for (int32_t step = -3; step <= 3; ++step) { \
            type *const p = step < 0 ? (type *)begin - (n - 1) * step : (type *)end - 1 - (n - 1) * step; \
            memset(begin, 0x55, PAGE); \
            for (int32_t i = 0; i < n; ++i) { \
                p[i * step] = (type)(value); \
            } \
            const vector v = load(p, step, n); \
            for (int32_t i = 0; step != 0 && i < L; ++i) { \
                type x = i < n ? (type)(value) : 0; \
                expect(EQUAL(v[i], x), what, n, i); \
            } \
        } \
    }
#define STORES(what, type, vector, store, value, most) \
    for (int32_t n = 1; n <= (most); ++n) { \
        for (int32_t at = 0; at < 3; ++at) { \
            type *const p = at == 0 ? (type *)end - n : at == 1 ? (type *)begin : (type *)(begin + PAGE / 2); \
            memset(begin, 0x55, PAGE); \
            vector v; \
            for (int32_t i = 0; i < L; ++i) { \
                v[i] = LANE(value); \
            } \
            store(p, v, n); \
            for (int32_t i = 0; i < n; ++i) { \
                expect(p[i] == (type)(value), what, n, i); \
            } \
            for (uint8_t *q = begin; q < end; ++q) { \
                const int own = q >= (uint8_t *)p && q < (uint8_t *)(p + n); \
                expect(own || *q == 0x55, what, n, (int)(q - (uint8_t *)p)); \
            } \
        } \
    }

int main(void)
{
#ifdef __wasm__ /* where nothing ends pages */
    static uint8_t page[PAGE + 64];
    begin = page + 32;
    end = begin + PAGE;
#else
    begin = (uint8_t *)mmap(0, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
    end = begin + PAGE;
    if (mprotect(begin, PAGE, PROT_READ | PROT_WRITE) != 0) {
        return 2;
    }
#endif
@TESTS@
    return wrong;
}
"""
EXACT = """
#undef EQUAL
#undef LANE
#define EQUAL(lane, x) ((lane) == (x))
#define LANE(x) (x)
"""
MASKS = EXACT.replace("((lane) == (x))", "((lane) == -(int32_t)(x))").replace("LANE(x) (x)", "LANE(x) (-(x))")
HALVES = EXACT.replace("((lane) == (x))", "((lane) == ((x) != 0 ? (float)i + 1.5f : 0.0f))").replace(
    "LANE(x) (x)", "LANE(x) ((float)i + 1.5f)"
)
HALF = "mcc_f32_to_f16((float)i + 1.5f)"
NARROW_TYPES = [("i8", "int8_t", -128, 127), ("u8", "uint8_t", 0, 255)]
NARROW_TYPES += [("i16", "int16_t", -32768, 32767), ("u16", "uint16_t", 0, 65535)]


def moved(known: set[str]) -> list[tuple[str, str]]:
    """What loads and stores the first lanes: (helper, C)."""
    rows = [
        ("f32", "float", "mcc_vf", "mcc_vload_n", "mcc_vstore_n", "i + 0.5f", EXACT),
        ("f32", "float", "mcc_vf", "", "mcc_vstore_pieces", "i + 0.5f", EXACT),
        ("i32", "int32_t", "mcc_vi", "mcc_vload_i32_n", "mcc_vstore_i32_n", "-70000 * i - 7", EXACT),
        ("i32", "int32_t", "mcc_vi", "", "mcc_vstore_i32_pieces", "-70000 * i - 7", EXACT),
        ("mask", "uint8_t", "mcc_vi", "mcc_vload_mask", "mcc_vstore_mask", "i % 3 != 1", MASKS),
        ("f16", "uint16_t", "mcc_vf", "mcc_vload_f16", "mcc_vstore_f16", HALF, HALVES),
    ]
    for name, ctype, low, high in NARROW_TYPES:
        value = f"(i % 2 == 0 ? {high} - i : {low} + i)"
        rows.append((name, ctype, "mcc_vi", f"mcc_vload_{name}", f"mcc_vstore_{name}", value, EXACT))
    found = []
    for name, ctype, vector, load, store, value, before in rows:
        if load in known:
            found.append((load, f'{before}LOADS("{load}", {ctype}, {vector}, {load}, {value})'))
            apart = f"mcc_vload_{'' if name == 'f32' else name + '_'}step"
            found.append((apart, f'{before}STEPS("{apart}", {ctype}, {vector}, {apart}, {value})'))
        if store in known:
            most = "L - 1" if name.endswith("32") else "L"  # whole vectors of these have a function of their own
            found.append((store, f'{before}STORES("{store}", {ctype}, {vector}, {store}, {value}, {most})'))
    return found


def packed(known: set[str], lanes: int) -> list[tuple[str, str]]:
    """What makes bytes of vectors, and stores these: (helper, C)."""
    found = []
    for name, ctype, low, high in NARROW_TYPES:
        store = f"mcc_vstore_sat_{name}"
        if store in known:
            value = f"clamped(i % 3 == 0 ? 70000 + i : i % 3 == 1 ? -70000 - i : 3 * i, {low}, {high})"
            wide = EXACT.replace("LANE(x) (x)", "LANE(x) (i % 3 == 0 ? 70000 + i : i % 3 == 1 ? -70000 - i : 3 * i)")
            found.append((store, f'{wide}STORES("{store}", {ctype}, mcc_vi, {store}, {value}, L)'))
        for helper, vectors, run in (("vpack", 4, lanes), ("vweave2", 2, 4), ("vweave4", 4, 4)):
            make = f"mcc_{helper}_{name}"
            if make not in known:
                continue
            given = ", ".join(f"v[{i}]" for i in range(vectors))
            found.append((make, f"""
    for (int32_t zero = {low}; zero <= {high}; zero += 51) {{
        const mcc_vi v[4] = {{ some(1), some(2), some(3), some(4) }};
        const mcc_vi bytes = {make}({given}, zero);
        {ctype} got[sizeof(bytes)];
        memcpy(got, &bytes, sizeof(bytes));
        for (int32_t i = 0; i < {vectors} * L; ++i) {{
            const int32_t x = v[i / {run} % {vectors}][i / ({run} * {vectors}) * {run} + i % {run}];
            expect(got[i] == packed(x, zero, {low}, {high}), "{make}", zero, i);
        }}
    }}"""))  # fmt: skip
        near = f"mcc_vnear_{name}"
        if near in known:
            found.append((near, f"""
    for (int32_t zero = {low}; zero <= {high}; zero += {(high - low) // 5}) {{
        for (int32_t k = -40; k <= 40; ++k) {{
            const float far = k == 40 ? INFINITY : k == 39 ? 2147483520.0f : k == -40 ? -3e9f : 0.0f;
            const float at = far != 0.0f ? far : (float)k * {(high - low) // 64}.0f + 0.5f * (float)(k % 3);
            const mcc_vi got = {near}(mcc_vset(at), zero);
            const float x = fmaxf(fminf(rintf(at) + (float)zero, 1e9f), -1e9f);
            for (int32_t i = 0; i < L; ++i) {{
                expect(got[i] == clamped((int32_t)x, {low}, {high}), "{near}", zero, k);
            }}
        }}
    }}"""))  # fmt: skip
    bytes_, part = 4 * lanes, 2 * lanes
    if "mcc_vstore_bytes" in known:
        found.append(("mcc_vstore_bytes", f"""
    for (int32_t first = 0; first < {bytes_}; first += {lanes}) {{
        for (int32_t n = 1; n <= (first == 0 ? {bytes_} : {part} - first % {part}); ++n) {{
            uint8_t given[{bytes_}];
            for (int32_t i = 0; i < {bytes_}; ++i) {{
                given[i] = (uint8_t)(3 * i + 1);
            }}
            mcc_vi v;
            memcpy(&v, given, sizeof(v));
            if (n > {part} && n < {bytes_}) {{
                continue;
            }}
            memset(begin, 0x55, PAGE);
            mcc_vstore_bytes(end - n, v, first, n);
            expect(memcmp(end - n, given + first, (size_t)n) == 0, "mcc_vstore_bytes", first, n);
            expect(end[-n - 1] == 0x55, "mcc_vstore_bytes before", first, n);
            mcc_vstore_bytes(begin, v, first, n);
            expect(memcmp(begin, given + first, (size_t)n) == 0, "mcc_vstore_bytes", first, n);
            expect(begin[n] == 0x55, "mcc_vstore_bytes behind", first, n);
        }}
    }}"""))  # fmt: skip
    for count in (2, 4):
        store = f"mcc_vstore_woven{count}"
        if store in known:
            found.append((store, f"""
    {{
        const mcc_vi v = some(5);
        memset(begin, 0x55, PAGE);
        {store}(end - {count * lanes}, v);
        expect(memcmp(end - {count * lanes}, &v, {count * lanes}) == 0, "{store}", 0, 0);
        {store}(begin, v);
        expect(begin[{count * lanes}] == 0x55, "{store}", 1, 0);
    }}"""))  # fmt: skip
    found.append(("mcc_vsteps", """
    for (int32_t k = -600; k < 600; ++k) {
        const float x = 0.25f * (float)k;
        const mcc_vf got = mcc_vsteps(mcc_vset(x), -127.0f, 100.0f);
        const float want = (float)clamped((int32_t)rintf(x), -127, 100) + 0.0f;
        for (int32_t i = 0; i < L; ++i) {
            expect(memcmp(&(float){ got[i] }, &want, 4) == 0, "mcc_vsteps", k, i);
        }
    }"""))  # fmt: skip
    found.append(("mcc_vwhole", """
    for (int32_t k = -600; k < 600; ++k) {
        const mcc_vi got = mcc_vwhole(mcc_vset(0.5f * (float)k * (float)(k % 7 == 0 ? 10001 : 1)));
        for (int32_t i = 0; i < L; ++i) {
            expect(got[i] == (int32_t)rintf(0.5f * (float)k * (float)(k % 7 == 0 ? 10001 : 1)), "mcc_vwhole", k, i);
        }
    }"""))  # fmt: skip
    found.append(("mcc_vany", """
    for (int32_t k = -1; k < L; ++k) {
        mcc_vi mask = { 0 };
        if (k >= 0) {
            mask[k] = -1;
        }
        expect((mcc_vany(mask) != 0) == (k >= 0), "mcc_vany", k, 0);
    }"""))  # fmt: skip
    return found


@pytest.mark.parametrize("target", ALL_VECTORS)
def test_lanes_are_those_they_should_be(target: str, tmp_path: Path) -> None:
    to = resolve(needs_target(target))
    known = set(helpers_of(to))
    tests = moved(known) + packed(known, to.lanes)
    uses = [name for name, _ in tests]
    before = preamble([*uses, "mcc_vset", "mcc_vf", "mcc_vi", "mcc_f32_to_f16"], to)
    body = TEST.replace("@TESTS@", "\n".join(text for _, text in tests))
    (tmp_path / "mcc.h").write_bytes(runtime_files()["mcc.h"])
    (tmp_path / "lanes.c").write_text(f"{HEAD}{before.helpers}\n#define L {to.lanes}\n{body}")
    tools = None if runs_here(target) else cross_tools(to)
    compiler = ("gcc",) if tools is None else tools.compiler
    flags = [*to.c_flags, "-O1", "-Wno-psabi", "-lm", *(() if tools is None else tools.link)]
    program = build_program(compiler, [tmp_path / "lanes.c"], flags, tmp_path)
    run = [] if tools is None else [*tools.emulator]
    done = subprocess.run([*run, str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:2000], done.stderr[:500]) == (0, "", "")
