"""How mcc.h and mcc.c build: warnings, C++, guard pages, symbols, Cortex-M4 size, hooks, embedding."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mccompile.codegen.blob import declare_c, embed_c, write_blob
from tests._skips import needs_sanitizers, needs_tool
from tests.runtime.support import ALIGN, ROOT, RUNTIME, run, strict_flags

GUARDED = Path(__file__).with_name("guarded_blob.c")
MCC_C = RUNTIME / "mcc.c"
M4 = ["-mcpu=cortex-m4", "-mthumb", "-Os", "-std=c99", "-ffreestanding"]
CONFIGURATIONS = [
    [],
    ["-DMCC_MISRA"],
    ["-DMCC_NO_STATUS_TEXT"],
    ["-DMCC_NO_DIRECTORY"],
    ["-DMCC_NO_STATUS_TEXT", "-DMCC_NO_DIRECTORY"],
]


def c_file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("compiler", ["gcc", "clang", "arm-none-eabi-gcc"])
@pytest.mark.parametrize("defines", CONFIGURATIONS, ids=lambda d: " ".join(d) or "default")
def test_no_warning(compiler: str, defines: list[str], tmp_path: Path) -> None:
    cc = needs_tool(compiler)
    for options in (["-std=c99", "-O0"], ["-std=c99", "-O3"], ["-std=c11", "-Os"]):
        run([cc, *strict_flags(compiler), *options, *defines, "-c", MCC_C, "-o", tmp_path / "mcc.o"])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("sanitize", [[], ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]])
def test_damaged_blobs_at_a_guard_page(
    compiler: str, sanitize: list[str], blob: bytes, tmp_path: Path
) -> None:
    cc = needs_sanitizers(compiler) if sanitize else needs_tool(compiler)
    (tmp_path / "t.mcb").write_bytes(blob)
    program = tmp_path / "guarded"
    run(
        [
            cc,
            "-std=c99",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            *sanitize,
            f"-I{RUNTIME}",
            GUARDED,
            MCC_C,
            "-o",
            program,
        ]
    )
    run([program, tmp_path / "t.mcb"])


@pytest.mark.parametrize(
    "lost_check",
    [
        "(blob_bytes < MCC_BLOB_HEADER_BYTES)",
        "read_u32(&b[MCC_BLOB_OFF_MAGIC]) != MCC_BLOB_MAGIC",
        "read_u32(&b[MCC_BLOB_OFF_FORMAT_VERSION]) != MCC_BLOB_FORMAT_VERSION",
        "mcc_crc32(0u, b, MCC_BLOB_OFF_HEADER_CRC) != read_u32(&b[MCC_BLOB_OFF_HEADER_CRC])",
        "(total > blob_bytes)",
        "!is_inside(&b[MCC_BLOB_OFF_PAYLOAD_OFFSET], total)",
        "!is_inside(&b[MCC_BLOB_OFF_DIRECTORY_OFFSET], total)",
        "left < ENTRY_BYTES",
        "(used > left)",
        "(e[name_end] != 0u)",
        "(t->offset > payload_bytes)",
        "(t->bytes > (payload_bytes - t->offset))",
        "(e[8] < (uint8_t)MCC_F32)",
    ],
)
def test_the_guard_page_test_notices_a_lost_check(lost_check: str, blob: bytes, tmp_path: Path) -> None:
    source = MCC_C.read_text(encoding="utf-8")
    assert source.count(lost_check) == 1
    mutant = c_file(tmp_path, "mutant.c", source.replace(lost_check, "(0)"))
    (tmp_path / "t.mcb").write_bytes(blob)
    program = tmp_path / "guarded"
    run([needs_tool("gcc"), "-std=c99", "-O1", "-w", f"-I{RUNTIME}", GUARDED, mutant, "-o", program])
    done = subprocess.run([program, tmp_path / "t.mcb"], capture_output=True, timeout=60, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize("compiler", ["gcc", "clang", "arm-none-eabi-gcc"])
def test_symbols_and_sections(compiler: str, tmp_path: Path) -> None:
    cc = needs_tool(compiler)
    nm, size = ("arm-none-eabi-nm", "arm-none-eabi-size") if compiler.startswith("arm") else ("nm", "size")
    run([cc, "-std=c99", "-Os", "-ffreestanding", "-c", MCC_C, "-o", tmp_path / "mcc.o"])
    exported = [
        line.split()[-1] for line in run([nm, "-g", "--defined-only", tmp_path / "mcc.o"]).splitlines()
    ]
    assert len(exported) == 8
    assert all(name.startswith("mcc_") for name in exported)
    assert run([nm, "-u", tmp_path / "mcc.o"]).split() == [], "the runtime calls nothing, libc included"
    _, data, bss, *_ = run([size, tmp_path / "mcc.o"]).splitlines()[1].split()
    assert (data, bss) == ("0", "0")


def m4_text_bytes(cc: str, defines: list[str], folder: Path) -> int:
    run([cc, *M4, *defines, "-c", MCC_C, "-o", folder / "m4.o"])
    return int(run(["arm-none-eabi-size", folder / "m4.o"]).splitlines()[1].split()[0])


def test_cortex_m4_size(tmp_path: Path) -> None:
    """The default build, with directory and status texts, is at most 1 KB; the document has today's sizes."""
    cc = needs_tool("arm-none-eabi-gcc")
    default, no_text, no_dir, bare = (
        m4_text_bytes(cc, defines, tmp_path) for defines in CONFIGURATIONS if defines != ["-DMCC_MISRA"]
    )
    print(f"mcc.c on Cortex-M4: {default} bytes, no texts {no_text}, no directory {no_dir}, neither {bare}")
    assert default <= 1024
    document = (ROOT / "docs" / "blob-format.md").read_text(encoding="utf-8")
    section = document.split("## Size of the reader")[1].split("##")[0]
    stated = [int(n) for n in re.findall(r"\| (\d+) \|", section)]
    if run([cc, "-dumpversion"]).startswith("12.2"):
        assert [default, no_text, no_dir, bare] == stated


def test_crc_takes_eleven_instructions_per_byte_on_cortex_m4(tmp_path: Path) -> None:
    cc = needs_tool("arm-none-eabi-gcc")
    run([cc, *M4, "-c", MCC_C, "-o", tmp_path / "m4.o"])
    listing = run(["arm-none-eabi-objdump", "-d", "--no-show-raw-insn", tmp_path / "m4.o"])
    body = re.findall(
        r"^ +(\w+):\t(\S+)\s*(\w*)", listing.split("<mcc_crc32>:")[1].split("\n\n")[0], re.MULTILINE
    )
    loops = [
        (int(to, 16), int(at, 16)) for at, op, to in body if op.startswith("b") and int(to, 16) < int(at, 16)
    ]
    assert len(loops) == 1
    inside = [op for at, op, _ in body if loops[0][0] <= int(at, 16) <= loops[0][1]]
    # gcc lays the exit, a complement and a return, between the loop's test and the rest of it
    assert len([op for op in inside if op not in ("mvns", "pop")]) <= 11


def test_big_endian_processors_are_refused_before_the_header_crc(tmp_path: Path) -> None:
    cc = needs_tool("arm-none-eabi-gcc")
    calls = {}
    for order in ("little", "big"):
        run([cc, *M4, f"-m{order}-endian", "-c", MCC_C, "-o", tmp_path / "m4.o"])
        listing = run(["arm-none-eabi-objdump", "-d", tmp_path / "m4.o"])
        calls[order] = re.search(r"\bb\w*\s.*<mcc_crc32>", listing) is not None
        assert re.search(r"mov\w*\s+r\d, #6\b", listing), "MCC_E_ENDIAN"
    assert calls == {"little": True, "big": False}


BIG_ENDIAN = """
#include "mcc.h"
#include <stdio.h>
extern const uint32_t embedded[];
int main(int argc, char **argv) {
    static unsigned char blob[4096];
    const mcc_blob_expect expect = { { 0 }, 0u, 16u };
    const void *payload = NULL;
    FILE *file = fopen(argv[argc - 1], "rb");
    size_t bytes = fread(blob, 1, sizeof blob, file);
    (void)fclose(file);
    printf("%d ", mcc_blob_check(blob, bytes, &expect, &payload));
    printf("%d", mcc_blob_check(embedded, bytes, &expect, &payload));
    return 0;
}
"""


def test_a_big_endian_processor_refuses_a_blob_from_a_file_and_an_embedded_one(blob: bytes, tmp_path: Path) -> None:
    cc, emulator = needs_tool("s390x-linux-gnu-gcc"), needs_tool("qemu-s390x")
    main = c_file(tmp_path, "main.c", BIG_ENDIAN)
    array = c_file(tmp_path, "embedded.c", embed_c("embedded", blob))
    (tmp_path / "t.mcb").write_bytes(blob)
    run([cc, "-std=c99", "-static", f"-I{RUNTIME}", main, array, MCC_C, "-o", tmp_path / "big"])
    assert run([emulator, tmp_path / "big", tmp_path / "t.mcb"]) == "6 6"


CPP = """
#include "mcc.h"
#include <cstdio>
MCC_STATIC_ASSERT(one_byte, sizeof(char) == 1u);
struct S { char c; MCC_ALIGNED(16) uint8_t v[4]; };
MCC_ALIGNED(64) static uint8_t buffer[64];
static int add(int *MCC_RESTRICT a, const int *MCC_RESTRICT b) {
    MCC_TRACE(0, undeclared, 1);
    return *a + *b;
}
int main() {
    int a = 1, b = 2;
    std::printf("%s %d %d %d", mcc_status_text(MCC_E_MAGIC), mcc_blob_verify(buffer, sizeof buffer),
                mcc_pointer_check(buffer, 64u) + mcc_pointer_check(&reinterpret_cast<S *>(buffer)->v, 16u),
                add(&a, &b));
    return 0;
}
"""


@pytest.mark.parametrize(("cxx", "cc"), [("g++", "gcc"), ("clang++", "clang")])
@pytest.mark.parametrize("standard", ["c++11", "c++17"])
def test_header_as_cpp(cxx: str, cc: str, standard: str, tmp_path: Path) -> None:
    main = c_file(tmp_path, "main.cpp", CPP)
    warn = ["-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Werror"]
    # clang needs a linker plugin for LTO, which not every machine has
    optimise = ["-O2", "-flto"] if cc == "gcc" else ["-O2"]
    run([needs_tool(cc), "-std=c99", *optimise, "-c", MCC_C, "-o", tmp_path / "mcc.o"])
    objects = [main, tmp_path / "mcc.o", "-o", tmp_path / "m"]
    run([needs_tool(cxx), f"-std={standard}", *warn, *optimise, f"-I{RUNTIME}", *objects])
    assert run([tmp_path / "m"]) == "not a blob 4 0 3"


HOOKED = """
#include "mcc.h"
#include <stdio.h>
int counts[3];
int main(void) {
    const int value = 7;
    MCC_PROFILE_BEGIN(2);
    MCC_PROFILE_END(2);
    MCC_TRACE(2, &value, sizeof value);
    (void)value;
    printf("%d %d %d", counts[0], counts[1], counts[2]);
    return 0;
}
"""
HOOKS = """
extern int counts[3];
#define MCC_TRACE(step, ptr, bytes) ((void)(counts[0] = (int)((step) * 100u + (bytes)) + *(ptr)))
#define MCC_PROFILE_BEGIN(step) ((void)(counts[1] = (step)))
#define MCC_PROFILE_END(step) ((void)(counts[2] = 10 * (step)))
"""


@pytest.mark.parametrize(
    ("hooks", "printed"), [([], "0 0 0"), (['-DMCC_HOOKS_HEADER="hooks.h"'], "211 2 20")]
)
def test_hooks(hooks: list[str], printed: str, tmp_path: Path) -> None:
    main = c_file(tmp_path, "main.c", HOOKED)
    c_file(tmp_path, "hooks.h", HOOKS)
    run(
        [
            needs_tool("gcc"),
            "-std=c99",
            "-Wall",
            "-Wextra",
            *hooks,
            f"-I{RUNTIME}",
            f"-I{tmp_path}",
            main,
            "-o",
            tmp_path / "m",
        ]
    )
    assert run([tmp_path / "m"]) == printed


def test_static_assert_fails_when_it_should(tmp_path: Path) -> None:
    source = c_file(tmp_path, "a.c", '#include "mcc.h"\nMCC_STATIC_ASSERT(wrong, sizeof(char) == 2u);\n')
    done = subprocess.run(
        [needs_tool("gcc"), "-std=c99", f"-I{RUNTIME}", "-c", source, "-o", tmp_path / "a.o"],
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0


EMBED_MAIN = """
#include "mcc.h"
#include <stdio.h>
{declaration}
int main(void) {{
    const uint8_t *b = (const uint8_t *)kws_blob;
    size_t i;
    if (mcc_pointer_check(kws_blob, {align}u) != MCC_OK) return 1;
    if (mcc_blob_verify(kws_blob, sizeof kws_blob) != MCC_OK) return 2;
    for (i = 0; i < KWS_BLOB_BYTES; i++) printf("%02x", (unsigned)b[i]);
    return 0;
}}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("align", [4, ALIGN])
def test_embedded_blob_is_the_blob(
    compiler: str, align: int, payload: bytes, program_id: bytes, tmp_path: Path
) -> None:
    cc = needs_tool(compiler)
    blob = bytes(write_blob(payload, [], program_id, align))
    embedded = c_file(tmp_path, "kws_blob.c", embed_c("kws_blob", blob))
    main = c_file(tmp_path, "main.c", EMBED_MAIN.format(declaration=declare_c("kws_blob", blob), align=align))
    run(
        [cc, "-std=c99", *strict_flags(compiler), f"-I{RUNTIME}", main, embedded, MCC_C, "-o", tmp_path / "m"]
    )
    assert run([tmp_path / "m"]) == blob.hex()


def test_no_comment_opens_within_a_comment_and_licence_is_stated() -> None:
    """MISRA C:2012 rule 3.1, and the licence of all that is copied beside generated code."""
    for name in ("mcc.h", "mcc.c"):
        text = (RUNTIME / name).read_text(encoding="utf-8")
        assert text.startswith("/* SPDX-License-Identifier: 0BSD\n")
        assert "//" not in text
        assert all("/*" not in comment for comment in re.findall(r"/\*(.*?)\*/", text, re.DOTALL))
