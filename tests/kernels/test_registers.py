"""Tile functions keep their accumulators in registers: counted in the machine code of each instruction set."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from mccompile.codegen.files import source_files
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options, compile_program, import_graph
from mccompile.targets.target import resolve
from tests._skips import needs_tool
from tests.kernels.cases import VariantCase, direct, matmul, pointwise
from tests.kernels.cases_channels import depthwise
from tests.kernels.cases_conv_channels import channels
from tests.kernels.cases_matmul import attention, variable
from tests.support.compiled import keep_layouts, store_channels_last
from tests.support.precompiled import precompiled
from tests.support.targets import NARROW, WIDE

NETS = [
    matmul((28, 64), 96, "clip"),
    matmul((28, 2048), 96),
    pointwise((1, 64, 14, 16), 84, "residual"),
    direct((1, 16, 16, 16), 24, (3, 3), "clip", pads=[1] * 4),
    direct((1, 24, 16, 32), 24, (3, 3), "clip", pads=[1] * 4, group=24),
    variable((2, 28, 64), (2, 64, 96), "clip"),
    attention((2, 4), 28, 64, 32, 32, "heads"),
    depthwise((1, 40, 14, 28), (3, 3), "clip", pads=[1] * 4),
    depthwise((1, 40, 14, 28), (5, 5), pads=[2] * 4),
    channels((1, 64, 14, 16), 84, (1, 1), "residual"),
    channels((1, 16, 14, 28), 72, (3, 3), "clip", pads=[1] * 4),
]
SPILLS = {
    "matmul.packed": (0.15, 0.5), "matmul.variable": (0.02, 0.07), "attention.vector": (0.02, 0.07),
    "conv.pointwise": (0, 0), "conv.direct": (0.06, 0.5), "conv.channels": (0.07, 0.25),
    "conv.depthwise": (0.13, 0.07),
}  # fmt: skip
"""Stack accesses per multiply-add that gcc 12 and clang 14 may have: both unroll taps and load weights of the next
ones early, clang (which has no barrier) those of several. Depthwise tiles fill 16 registers to the last."""

FULL = {("conv.depthwise", "armv7-neon"): 0.35}
"""The same where gcc also reorders loads before it hands out the last of 16 registers."""


@dataclass(frozen=True)
class Listing:
    """How machine code reads: ``product`` is a multiply-add of vectors (or its multiplication), ``stack`` an access
    of vector registers to the stack; ``allowed`` is how many of these one product may have, at least.

    Broadcasts are no such accesses: their pointer may be in the register that else is the frame's.
    """

    product: str
    stack: str
    tools: str = ""
    allowed: float = 0.0

    @property
    def objdump(self) -> str:
        return f"{self.tools}objdump"


AVX = Listing(r"\tvfn?m(?:add|sub)\d+ps", r"\tv(?!broadcast)\w+\s(?!.*\{1to).*\(%r[sb]p")
LISTINGS = {
    "x86-64-v4": AVX,
    "x86-64-v3": AVX,
    "x86-64-v2": Listing(r"\tmulps", r"\t(?!movss)\w+[ps]s\s.*\(%r[sb]p", allowed=0.07),
    "aarch64": Listing(r"\tfmla\s", r"\t(?:ld|st)\w+\s+[qdsv].*\[sp", "aarch64-linux-gnu-"),
    "armv7-neon": Listing(r"\tvfma\.f32\s+q", r"\tv\w.*\[(?:sp|fp)", "arm-linux-gnueabihf-", 0.12),
}
COMPILERS = [
    *((target, compiler) for target in ("x86-64-v3", "x86-64-v4") for compiler in ("gcc", "clang")),
    *((target, f"{LISTINGS[target].tools}gcc") for target in ("x86-64-v2", "aarch64", "armv7-neon")),
]


def machine_code(case: VariantCase, target: str, compiler: str, folder: Path) -> dict[str, str]:
    """What objdump says of each function of a network, by name."""
    (folder / "tiles.onnx").write_bytes(case.model().SerializeToString())
    c = import_graph(folder / "tiles.onnx", Options(target=target, name="tiles", kernels=case.force))
    if case.channels_last:
        store_channels_last(c)
    else:
        keep_layouts(c)
    write_folder(folder, source_files(compile_program(c)))
    spared = precompiled([compiler], c.target.c_flags, folder / "tiles.c")
    command = [compiler, *c.target.c_flags, *spared, "-c", "tiles.c", "-o", "tiles.o"]
    subprocess.run(command, cwd=folder, check=True)
    command = [LISTINGS[target].objdump, "-d", "--no-show-raw-insn", "tiles.o"]
    listing = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"<([\w.]+)>:\n(.*?)(?=\n\n|\Z)", listing, re.DOTALL))


def tile_functions(case: VariantCase, target: str, compiler: str, folder: Path) -> dict[str, tuple[int, int]]:
    """(products, vector accesses to the stack among them) of each function that multiplies, by name.

    What an epilogue spills once, behind the reduction, is not counted, nor are the constants of exponentials
    between the products of attention.
    """
    counts = {}
    for name, body in machine_code(case, target, compiler, folder).items():
        products = [m.start() for m in re.finditer(LISTINGS[target].product, body)]
        if products and (case.kernel != "attention.vector" or re.search(r"_\d+x\d+$", name)):
            loop = body[products[0] : products[-1]]
            counts[name] = (len(products), len(re.findall(LISTINGS[target].stack, loop)))
    return counts


def loops(body: str) -> list[list[str]]:
    """The instructions of each loop of a function that has no other in it."""
    lines = [(int(at, 16), text) for at, text in re.findall(r"^ *([0-9a-f]+):\t(.*)$", body, re.MULTILINE)]
    spans = []
    for at, text in lines:
        branch = re.match(r"b\.\w+\s+([0-9a-f]+) <", text)
        if branch and int(branch[1], 16) <= at:
            spans.append((int(branch[1], 16), at))
    inner = [(b, e) for b, e in spans if not any(b <= o and u < e for o, u in spans)]
    return [[text for at, text in lines if begin <= at <= end] for begin, end in inner]


@pytest.mark.parametrize(("target", "compiler"), COMPILERS)
@pytest.mark.parametrize("case", NETS, ids=lambda c: c.name)
def test_accumulators_stay_in_registers(case: VariantCase, target: str, compiler: str, tmp_path: Path) -> None:
    needs_tool(LISTINGS[target].objdump)
    counts = tile_functions(case, target, needs_tool(compiler), tmp_path)
    assert counts, "no function multiplies and adds in one instruction"
    usual = max(SPILLS[case.kernel][compiler == "clang"], LISTINGS[target].allowed)
    share = FULL.get((case.kernel, target), usual)
    for name, (products, spills) in counts.items():
        assert spills <= products * share, f"{name}: {spills} accesses to the stack beside {products} products"


def test_every_vector_target_is_looked_at() -> None:
    assert set(LISTINGS) == {*WIDE, *NARROW}
    assert all(resolve(name).triple in listing.tools for name, listing in LISTINGS.items())


@pytest.mark.parametrize(
    ("case", "products", "others"),
    [
        (matmul((20, 512), 96), 80, {"ldr": 5, "ld1": 4, "prfm": 1}),
        (matmul((5, 640), 96), 80, {"ldr": 5, "ld1": 4, "prfm": 4}),
        (matmul((1, 640), 96), 32, {"ldr": 1, "ld1": 8}),
    ],
)
def test_a_step_takes_few_instructions_on_arm(
    case: VariantCase, products: int, others: dict[str, int], tmp_path: Path
) -> None:
    """A load brings four elements of a row, or four vectors of weights, and moves its pointer."""
    code = machine_code(case, "aarch64", needs_tool("aarch64-linux-gnu-gcc"), tmp_path)
    turns = [Counter(i.split()[0] for i in loop) for body in code.values() for loop in loops(body)]
    assert {"fmla": products, **others, "cmp": 1, "b.ne": 1} in turns


@pytest.mark.parametrize(
    "case",
    [
        matmul((20, 64), 96, "swish"),
        variable((2, 28, 64), (2, 64, 96), "swish"),
        channels((1, 64, 14, 20), 96, (3, 3), "swish"),
    ],
    ids=lambda c: c.name,
)
def test_long_epilogues_do_not_spill_on_arm(case: VariantCase, tmp_path: Path) -> None:
    """Sums are stored once and loaded once: rows are a loop over them."""
    code = machine_code(case, "aarch64", needs_tool("aarch64-linux-gnu-gcc"), tmp_path)
    tiles = {name: body for name, body in code.items() if re.search(LISTINGS["aarch64"].product, body)}
    for name, body in tiles.items():
        spills = re.findall(LISTINGS["aarch64"].stack, body)
        assert len(spills) < 30, f"{name}: {len(spills)} accesses to the stack"
    assert any("fdiv" in instruction for body in tiles.values() for loop in loops(body) for instruction in loop)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(
    "case",
    [
        direct((1, 16, 32, 32), 3, (7, 7), pads=[3] * 4),
        direct((1, 16, 32, 32), 2, (5, 5), pads=[2] * 4),
        pointwise((1, 64, 15, 17), 2),
    ],
    ids=lambda c: c.name,
)
def test_pixels_of_a_few_channels_are_loaded_once(case: VariantCase, target: str, tmp_path: Path) -> None:
    """An operand of a product that is in memory and not a line of the cache's is two loads, each time it is named."""
    for name, body in machine_code(case, target, needs_tool("gcc"), tmp_path).items():
        for block in re.split(r"\tj\w+ .*\n", body):
            products = [line for line in block.splitlines() if re.search(LISTINGS[target].product, line)]
            operands = Counter(re.findall(r"-?(?:0x[0-9a-f]+)?\([^)]*\)(?!\{1to)", "\n".join(products)))
            assert all(n == 1 for n in operands.values()), f"{name}: {operands}"
