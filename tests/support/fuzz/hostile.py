"""Inputs that no network is meant for: NaN, infinities, the ends of integers, where indices, divisors, places stand.

Nothing is compared. The C ends in results or in a status, without what C leaves undefined: gcc puts a trap at each
such place (UndefinedBehaviorSanitizer, conversions of floats included), and memory ends at a forbidden page.
Example: of ``Div(x, 3)`` both operands become inputs, and [-2^31, 7] is divided by [-1, 0].
"""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
from onnx import helper

import mccompile
from mccompile.ir.errors import CompileError
from mccompile.run.memory import guarded_bytes
from mccompile.run.network import Network
from mccompile.targets.target import runs_here
from tests.support.fuzz.family import MAIN
from tests.support.fuzz.files import base
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.setting import LEVELS

TRAPS = ("-O0", "-w", "-fsanitize=undefined,float-cast-overflow", "-fsanitize-undefined-trap-on-error")
"""At -O1, gcc 12 takes minutes for the traps of 20 KB with vectors."""
RUNS = 12
TARGETS = ("generic", "generic", *(t for t in ("native", "x86-64-v2") if runs_here(t)))
FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31), 2.0**63, 1e10, -1e10, 1e-45, 0.0, -0.0, 0.5, 1.0)
HALVES = (np.nan, np.inf, -np.inf, 65504.0, -65504.0, 6e-8, 0.0, -0.0, 0.5, 1.0)


def attack(seed: int) -> Work:
    """One operator or a drawn network, with some of its constants as inputs."""

    def work(say: Say, folder: Path) -> Outcome:
        r = random.Random(f"hostile {seed}")
        model = base(r, r.choice(((), (1, 4))))
        how = r.choice(TARGETS), r.choice(LEVELS)
        text = " ".join((*how, ", ".join(n.op_type for n in model.graph.node)))
        if not any(_compiled(m, folder, *how) for m in (_lifted(model, r), model)):
            return "none", "refused"
        say(text)
        with mock.patch.dict(os.environ, {"CC": "gcc", "MCC_CACHE": str(folder / "cache")}):
            network = Network(folder / "out", TRAPS, allocate=guarded_bytes)
        for _ in range(RUNS):
            mild = r.random() < 0.5
            if network.extents:
                network.set_extents({name: r.choice((1, 4, MAIN)) for name in network.extents})
            inputs = {n: _drawn(a.shape, a.dtype, r, mild) for n, a in network.inputs.items()}
            shown = (f"{n}: {a.dtype}{list(a.shape)} {a.reshape(-1)[:16]}" for n, a in inputs.items())
            say("\n".join((text, *shown)))
            network.fill_arenas(r.choice([0x5A, 0xFF]))
            network.reset()
            with suppress(CompileError):  # the status says what is wrong with them
                network.run(inputs)
        return ("ok", "") if network.intact() else ("wrong", f"{text}\nsomething was written outside of its memory")

    return work


def _lifted(model: onnx.ModelProto, r: random.Random) -> onnx.ModelProto:
    """With half of the constants as inputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [t for t in made.graph.initializer if r.random() < 0.5]
    names = {t.name for t in kept}
    for t in made.graph.initializer:
        if t.name not in names:
            made.graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    return made


def _compiled(model: onnx.ModelProto, folder: Path, target: str, level: str) -> bool:
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    named = {d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim if d.dim_param}
    dims = dict.fromkeys(named, f"1..{MAIN}")
    try:
        mccompile.compile(folder / "net.onnx", folder / "out", target=target, opt_level=level, dims=dims)
    except CompileError:
        return False
    return True


def _drawn(shape: tuple[int, ...], dtype: np.dtype[Any], r: random.Random, mild: bool) -> np.ndarray[Any, Any]:
    """Numbers of a type; with ``mild``, one of eight is hostile."""
    count = int(np.prod(shape))
    numbers: list[Any]
    if dtype.kind == "f":
        odd = HALVES if dtype.itemsize == 2 else FLOATS
        numbers = [r.choice(odd) if not mild or r.random() < 0.125 else r.uniform(-3, 3) for _ in range(count)]
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        ends = (int(info.min), int(info.max), int(info.min) + 1, 0, *((-1, -2) if dtype.kind == "i" else ()))
        numbers = [r.choice(ends) if not mild or r.random() < 0.125 else r.randint(0, 3) for _ in range(count)]
    else:
        numbers = [r.randint(0, 1) for _ in range(count)]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(numbers).astype(dtype).reshape(shape)
