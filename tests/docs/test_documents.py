"""What README and CONTRIBUTING show is what the project does: their code is run, their file blocks are the files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import make_docs
import make_pictures
import pytest

import mccompile
from mccompile import driver
from mccompile.report.page.memory_picture import memory_picture
from tests._skips import needs_shared, needs_tool

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()

MAIN = r"""
#include <stdio.h>
int classify(const float pixels[64]);
int start(void);
int main(void)
{
    float pixels[64];
    if (start() != 0) { return 2; }
    for (int i = 0; i < 64; ++i) { if (scanf("%f", &pixels[i]) != 1) { return 3; } }
    printf("%d\n", classify(pixels));
    return 0;
}
"""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def test_the_firmware_example_classifies_a_picture(tmp_path: Path) -> None:
    import numpy as np

    needs_tool("gcc")
    digits = ROOT / "examples" / "digits"
    out = tmp_path / "out"
    mccompile.compile(digits / "digits.onnx", out, target="generic", embed=True)
    (example,) = blocks(README, "c")
    (tmp_path / "app.c").write_text(example)
    (tmp_path / "main.c").write_text(MAIN)
    sources = [tmp_path / "app.c", tmp_path / "main.c", out / "digits.c", out / "digits_blob.c", out / "mcc.c"]
    program = tmp_path / "app"
    flags = ["-std=c99", "-O2", "-Wall", "-Werror", f"-I{out}"]
    command = ["gcc", *flags, *map(str, sources), "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    image = np.load(digits / "test_images.npy")[0]
    pixels = " ".join(str(int(p)) for p in image.reshape(-1))
    done = subprocess.run([program], input=pixels, capture_output=True, text=True, check=True)
    assert int(done.stdout) == int(np.load(digits / "test_labels.npy")[0])


def test_the_sizes_on_a_cortex_m4_are_as_stated(tmp_path: Path) -> None:
    needs_tool("arm-none-eabi-gcc")
    digits = ROOT / "examples" / "digits" / "digits.onnx"
    artifacts = mccompile.compile(digits, tmp_path / "out", target="generic", opt_level="Os")
    cpu = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
    sizes = []
    for name in ("digits", "mcc"):
        command = ["arm-none-eabi-gcc", *cpu, "-std=c99", "-Os", "-ffp-contract=off", "-c", f"{name}.c"]
        subprocess.run(command, cwd=tmp_path / "out", check=True)
        size = subprocess.check_output(["arm-none-eabi-size", f"{name}.o"], cwd=tmp_path / "out", text=True)
        sizes.append(int(size.split("\n")[1].split()[0]))
    weights, ram = artifacts.report["weights_bytes"], artifacts.report["memory"]["arena_bytes"]
    stated = re.search(
        r"M4: ([\d.]+) KiB of code, ([\d.]+) KiB of runtime, (\d+) KiB of weights, ([\d.]+) KiB\s+of RAM", README
    )
    assert stated is not None
    measured = [f"{sizes[0] / 1024:.1f}", f"{sizes[1] / 1024:.1f}", f"{weights / 1024:.0f}", f"{ram / 1024:.1f}"]
    assert list(stated.groups()) == measured


def test_the_python_example_runs(tmp_path: Path) -> None:
    (example,) = blocks(README, "python")
    code = example.replace("build/readme", str(tmp_path / "out"))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "bytes of RAM" in done.stdout


def test_the_page_on_python_runs(tmp_path: Path) -> None:
    code = "\n".join(blocks((ROOT / "docs" / "python.md").read_text(), "python"))
    code = code.replace("build/python", str(tmp_path / "out"))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for word in ("of RAM", "True", "Conv", "right 100.00%", "does-not-fit"):
        assert word in done.stdout


@pytest.mark.parametrize("document", make_docs.documents(), ids=lambda p: p.name)
def test_links_lead_somewhere(document: Path) -> None:
    for name in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", document.read_text(encoding="utf-8")):
        assert (document.parent / name).exists(), name


@pytest.mark.parametrize("target", sorted(set(re.findall(r"^\$ make (\w+)", README + CONTRIBUTING, re.M))))
def test_make_targets_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("path", make_docs.documents(), ids=lambda p: p.name)
def test_generated_parts_are_what_make_docs_writes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert make_docs.made(text) == text, f"{path.name} is stale: run make docs"


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    assert len(pictures) == 3
    assert sum(p.stat().st_size for p in pictures) < 200_000


def test_the_memory_map_is_what_make_pictures_writes(tmp_path: Path) -> None:
    needs_shared("mlperf_tiny")
    made = driver.compile(make_pictures.MODEL, tmp_path / "out", make_pictures.OPTIONS)
    wanted = memory_picture(made.report)
    assert (make_pictures.PICTURES / "memory.svg").read_text() == wanted, "stale: run make pictures"


def test_a_stale_part_is_noticed() -> None:
    text = "<!-- made: file mccompile/_version.py -->\nold\n<!-- end -->\n"
    assert "__version__" in make_docs.made(text)


def test_an_excerpt_ends_where_it_is_told_to() -> None:
    shown = make_docs.file("mccompile/passes/clean/eliminate_dead_code.py", "def run", "return")
    assert shown.splitlines()[3] == "def run(graph: Graph, remarks: Remarks) -> int:"
    assert shown.splitlines()[-2].strip() == "return graph.remove_dead()"


def test_contributing_shows_an_operator_a_pass_and_a_kernel() -> None:
    shown = re.findall(r"^<!-- made: file ([\w./]+)", CONTRIBUTING, re.M)
    assert {p.split("/")[0] for p in shown} >= {"mccompile", "kernels_templates", "tests"}
