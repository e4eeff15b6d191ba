"""Command lines with odd values: each ends with an exit code that the manual has, and without a traceback."""

from __future__ import annotations

import io
import random
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import click

from mccompile.cli.main import cli
from tests.support.compose.definite import Refused
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.profiles import family
from tests.support.fuzz.trial import PYTHON

VALUES = (
    "0", "-1", "1", "3", "1e9", "nan", "", " ", "x", "a=b", "=", "x1=", "x1=1", "n=1..4", "n=4..1", "n=0..0", "n=..",
    "n=1,2,3", "n=n+1", "n=x", "n=-3", "n=99999999999", "x1=2,3", "x1=u8", "x1=u8,nhwc,mean=1:2:3,scale=0",
    "x1=i16,scale=nan", "conv=conv.generic", "map=none", "a:1K,b:2M", "a:1K,a:1K", "a:0", ":", "64K", "1.5M", "1T",
    "all", "caller", "quantized,caller", "none", "native", "generic", "cortex-m4", "é", "../x", "x1=none", "v1=x1",
    "always", "Os", "s", "refuse", "input", "tflite", "0..1",
)  # fmt: skip
COMMANDS = ("compile", "inspect", "opt", "ops", "targets", "compile", "compile")
KEPT = ("--help", "-h", "--tune", "--golden")
"""Options that are not drawn: they end the command, or take long."""


def line(r: random.Random, folder: Path) -> list[str]:
    """A command, the model, and up to four options with values of their own or of another's kind."""
    name = r.choice(COMMANDS)
    command = cli.commands[name]
    words = [name] + ([str(folder / "net.onnx")] if name not in ("ops", "targets") and r.random() < 0.95 else [])
    words += ["-o", str(folder / "out")] if name == "compile" else []
    options = [p for p in command.params if isinstance(p, click.Option) and not set(p.opts) & {*KEPT, "-o", "--out"}]
    for option in r.sample(options, min(len(options), r.randint(1, 4))):
        words.append(r.choice(option.opts))
        if not option.is_flag or r.random() < 0.05:
            own = [str(v) for v in getattr(option.type, "choices", ())]
            words.append(r.choice([*VALUES, *own * 10]) if own else r.choice(VALUES))
    if r.random() < 0.1:
        words.append(r.choice(["--unknown", "-", "--", "", "extra"]))
    return words


def attack(seed: int) -> Work:
    def work(say: Say, folder: Path) -> Outcome:
        r = random.Random(f"arguments {seed}")
        try:
            net = family(seed, r.choice(["extents", "quant", "all"]), r.choice([(), (1, 4)]))
        except Refused as e:
            return "none", str(e)
        (folder / "net.onnx").write_bytes(net.model().SerializeToString())
        words = line(r, folder)
        shown = " ".join(repr(w.replace(str(folder), "")) for w in words)
        say(shown)
        errors, printed, code = io.StringIO(), io.StringIO(), 0
        with chdir(folder), redirect_stdout(printed), redirect_stderr(errors):  # some options name files
            try:
                cli.main(words)
            except SystemExit as e:
                code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        text = f"{shown}\nexit code {code}\n{errors.getvalue()[:1500]}"
        if code not in (0, 1, 2, 3) or "internal error" in text or PYTHON.search(text):
            return "internal", text
        listed = words[0] == "inspect" and code == 1 and bool(printed.getvalue())  # what it found is the reason
        if bool(code) != (listed or "error:" in errors.getvalue()):
            return "wrong", text
        return ("refused" if code else "ok"), ""

    return work
