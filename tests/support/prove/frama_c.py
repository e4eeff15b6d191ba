"""Runs Frama-C: WP, which proves contracts, and Eva, which follows all values that there may be."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests._skips import REPOSITORY, needs_tool

HERE = Path(__file__).parent
RUNTIME = REPOSITORY / "runtime_c"
MACHINE = ("-machdep", "gcc_x86_64")

_GOALS = re.compile(r"Proved goals:\s+(\d+) / (\d+)")
_FAILED = re.compile(r"^\[wp\] \[Failed\] Goal (\S+)", re.MULTILINE)
_ALARM = re.compile(r"^\[eva:alarm\] (\S+:\d+): Warning:\s*(.*?)\.?\s+(?:assert|\(|$)", re.MULTILINE | re.DOTALL)


class NoProofError(Exception):
    """Frama-C did not come to an end of its own."""


def proved(left_out: Sequence[str] = ()) -> tuple[int, list[str]]:
    """WP on mcc.c with its contracts and whatever C leaves undefined: how many goals there are, and which stay open.

    Args:
        left_out: functions that are not looked at; what they promise is taken for true.
    """
    for tool in ("why3", "z3", "cvc4"):
        needs_tool(tool)
    subprocess.run(["why3", "config", "detect"], capture_output=True, check=True)
    headers = f"-cpp-extra-args=-I{RUNTIME} -include {HERE / 'contracts.h'}"
    asked = ["-wp", "-wp-rte", "-wp-model", "Typed+Cast", "-wp-prover", "cvc4,z3", "-wp-timeout", "30"]
    said = _frama_c([headers, "-pp-annot", *asked, "-wp-skip-fct", ",".join(left_out), "mcc.c"], RUNTIME, 1200)
    found = _GOALS.search(said)
    if found is None:
        raise NoProofError(said[-2000:])
    return int(found[2]), _FAILED.findall(said)


def alarms(folder: Path, sources: Sequence[str], seconds: int, precision: int = 1) -> Counter[str]:
    """Eva from ``main`` on: what it cannot exclude, by kind. Floats may be NaN and infinite.

    Raises:
        NoProofError: it takes more than ``seconds``, or C that it does not read.
    """
    asked = ["-eva", "-eva-precision", str(precision), "-eva-no-show-progress", "-warn-special-float", "none"]
    headers = f"-cpp-extra-args=-DMCC_NO_ASM -I{folder} -I{RUNTIME}"
    said = _frama_c([headers, *sources, *asked], folder, seconds)
    if "ANALYSIS SUMMARY" not in said:
        raise NoProofError(said[-2000:])
    return Counter(" ".join(kind.split()) for _, kind in set(_ALARM.findall(said)))


def _frama_c(arguments: Sequence[str], folder: Path, seconds: int) -> str:
    command = [needs_tool("frama-c"), *MACHINE, *arguments]
    # It takes file names as seen from $PWD.
    environment = {**os.environ, "PWD": str(folder)}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as e:
        raise NoProofError(f"not at its end after {seconds} s") from e
    return done.stdout + done.stderr
