"""Build the C programs around the compiled example and classify its test set: the end of ``make demo``."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from pathlib import Path

import numpy as np

from mccompile.run.build import spelled

HERE = Path(__file__).resolve().parent
WARNINGS = ["-Wall", "-Wextra"]


def build(cc: str, main: Path, out: Path) -> Path:
    """Compile and link one application with the generated code in ``out`` -> the program."""
    target_flags: list[str] = json.loads((out / "report.json").read_text())["target"]["c_flags"]
    program = out / main.stem
    sources = [str(main), f"{out}/digits.c", f"{out}/mcc.c"]
    flags = [*target_flags, *WARNINGS, f"-I{out}"]
    command = spelled([*shlex.split(cc), *flags, *sources, "-o", str(program), "-lm"])
    print("$", shlex.join(command), flush=True)
    subprocess.run(command, check=True)
    return program.resolve()


def classify(program: Path, out: Path, images: np.ndarray) -> np.ndarray:
    """The classes that classify.c prints for images[n,1,8,8]."""
    raw = out / "test_images.f32"
    images.astype(np.float32).tofile(raw)
    run = subprocess.run([program, out / "digits.mcb", raw], check=True, capture_output=True, text=True)
    return np.array(run.stdout.split(), dtype=np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="what mccompile wrote for digits.onnx")
    parser.add_argument("--cc", default="cc", help="the C compiler, with options if need be")
    arguments = parser.parse_args()
    out: Path = arguments.out

    example = build(arguments.cc, out / "example_main.c", out)
    print("$", example, flush=True)
    subprocess.run([example], check=True, cwd=out)

    images, labels = np.load(HERE / "test_images.npy"), np.load(HERE / "test_labels.npy")
    classes = classify(build(arguments.cc, HERE / "classify.c", out), out, images)
    hits = int((classes == labels).sum())
    print()
    print(f"The generated C is right on {hits} of {len(labels)} test pictures ({hits / len(labels):.2%}).")
    print(f"Look at  {out}/digits.h         the interface, with a usage comment")
    print(f"         {out}/digits.c         the network: its kernels and the calls in order")
    print(f"         {out}/report.json      sizes, memory plan, kernels chosen")
    print("         examples/digits/classify.c  an application around it")


if __name__ == "__main__":
    main()
