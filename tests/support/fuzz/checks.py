"""`check` of drawn networks, layer by layer: it agrees with the judge of compositions, and gives an answer.

Example: the program of a seed gives what onnxruntime gives, so that ``check --per-layer`` has to say ok, too; that it
ends with a traceback, or finds fault with the program, is a fault of its own. So is a golden test that is refused, or
an output that is found right though something else is expected.
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from mccompile import driver
from mccompile.check.check import check
from mccompile.check.golden import reference_golden
from mccompile.check.judged import WRONG
from mccompile.check.reference import Array
from mccompile.driver import Options
from mccompile.ir.errors import CompileError, InternalError, UsageError
from mccompile.ir.small_floats import bf16_bits
from tests.support.compose.definite import Refused
from tests.support.compose.judge import Arrays
from tests.support.fuzz.attempt import attempt, expectations
from tests.support.fuzz.family import Family
from tests.support.fuzz.further import NOTHING_MORE
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.networks import NAMES, drawn
from tests.support.fuzz.programs import options_of
from tests.support.fuzz.setting import NARROW_LEVELS, Setting, setting_of

KEPT = (
    "opt_level", "dims", "random", "state", "requant", "exact", "embed", "keep_inputs", "ram", "memory",
    "stream_rows", "stepwise", "split_kernels", "string_bytes", "limits", *NARROW_LEVELS,
)  # fmt: skip
"""Options that networks of this attack have. `check` draws the longest run: limits say how long that may be."""


def network_of(seed: int) -> tuple[Family, Setting]:
    """The network of a seed, and the setting that is checked: generic, by gcc, without what `KEPT` does not say."""
    name = f"checks {seed}"
    net, _ = drawn(seed, random.Random(name).choice(NAMES), name)
    every = setting_of(name, net)
    options = {k: v for k, v in every.options.items() if k in KEPT and v != "auto"}
    return net, replace(
        every, options=options, further=NOTHING_MORE, target="generic", targets=(), project="", compiler="gcc",
        flags=("-O1",),
    )  # fmt: skip


def attack(seed: int) -> Work:
    """The network of a seed, checked on its own inputs or on those that `check` draws."""

    def work(say: Say, folder: Path) -> Outcome:
        try:
            net, setting = network_of(seed)
            expected = expectations(net, setting, seed)
        except Refused as e:
            return "none", str(e)[:200]
        say(setting.label)
        r = random.Random(f"checks of {seed}")
        given = None if r.random() < 0.3 else _in_bits(net, expected[0][0].inputs)
        path = folder / "drawn.onnx"
        path.write_bytes(net.model().SerializeToString())
        own = {k: v for k, v in setting.arguments.items() if k in ("target", *KEPT)}
        with mock.patch.dict(os.environ, {"CC": "gcc", "MCC_CACHE": str(folder / "cache")}):
            try:
                options, _ = options_of(own)
                golden = r.random() < 0.5
                found = check(path, options, inputs=given, per_layer=True, golden=golden)
                refusal = _refusal(path, options, given) if golden and found.ok else ""
                if given is not None and found.ok and not refusal and r.random() < 0.2:
                    refusal = _taken(path, options, given, _wrong(net, expected[0][0].values), r)
            except InternalError as e:
                return "internal", f"{setting.label}\n{e}\n{traceback.format_exc(limit=-4)}"
            except (CompileError, UsageError) as e:
                return "refused", str(e)
            except Exception:
                return "internal", f"{setting.label}\n{traceback.format_exc(limit=-6)}"
        if refusal:
            return "wrong", f"{setting.label}\n{refusal}"
        if found.ok or given is None:  # of numbers that check draws nobody knows whether they can be judged
            return "ok", ""
        verdict = attempt(net, setting, expected, folder / "attempt")
        text = "\n".join([setting.label, *found.lines()])
        return ("wrong", text) if verdict.kind == "ok" else ("none", verdict.text)

    return work


def _in_bits(net: Family, arrays: Arrays) -> dict[str, Array]:
    """Inputs or outputs as `check` has them: those of bfloat16 are its bits."""
    return {n: bf16_bits(a) if net.halves and a.dtype == np.float32 else a for n, a in arrays.items()}


def _wrong(net: Family, values: Arrays) -> dict[str, Array]:
    """Outputs of floats, each of which is nothing like it."""
    floats = {n: a for n, a in values.items() if a.dtype in (np.float32, np.float64) and a.size}
    finite = {n: a for n, a in floats.items() if np.isfinite(a).all()}
    return _in_bits(net, {n: a + np.asarray(1 + 9 * np.abs(a).max(), a.dtype) for n, a in finite.items()})


def _taken(path: Path, options: Options, given: Arrays, wrong: Arrays, r: random.Random) -> str:
    """What is said where an output that is expected to be nothing like it is found right."""
    if not wrong:
        return ""
    name = r.choice(list(wrong))
    found = check(path, options, inputs=given, expect={name: wrong[name]}, per_layer=r.random() < 0.5)
    return "\n".join([f"{name} is expected to be another", *found.lines()]) if found.ok else ""


def _refusal(path: Path, options: Options, inputs: Mapping[str, Array] | None) -> str:
    """What the golden test of a network that is right is refused for, where that is how the reference judges it."""
    compilation, _ = driver.compile_files(path, options)
    try:
        reference_golden(path, inputs)(compilation)
    except CompileError as e:
        return str(e) if WRONG in e.rule else ""
    return ""
