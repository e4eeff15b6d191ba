"""IR text that is damaged: each stage of drawn networks, with words changed, left out or twice. What is read is
compiled from there on; some of the programs run, and stay within their memory. What is sealed again after it was
changed is trusted: of that nothing is promised but that there is no internal error."""

from __future__ import annotations

import random
import re
from pathlib import Path

from mccompile.driver import Options, import_graph, place_program
from mccompile.ir.errors import CompileError
from mccompile.ir.files import IR, resealed, save
from mccompile.ir.graph import Graph
from mccompile.ops.registry import front_ends
from tests.support.draw import SeededDraw
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.trial import judged
from tests.support.opcases import case_model

WORD = re.compile(r"\s+|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|.", re.S)
ODD = (*"-1 0 2147483648 1e999 nan f32 i8 ( } %x acc { ' é".split(), '"', "\x00")

SEALED, SEALED_GRAPHS = 0.7, 0.2
"""Of the texts of kernels, and of graphs, so much is sealed again."""


def changed(text: str, r: random.Random) -> str:
    words = WORD.findall(text)
    for _ in range(r.choice([1, 1, 1, 2, 4])):
        at, way = r.randrange(len(words)), r.randint(0, 4)
        if way == 0:
            del words[at]
        elif way == 1:
            words.insert(at, words[at])
        elif way == 2:
            words[at] = r.choice(ODD)
        elif way == 3:
            words[at] = r.choice(words)
        else:
            number = [i for i, w in enumerate(words) if w[-1:].isdigit()]
            if number:
                words[r.choice(number)] = r.choice(["0", "1", "-1", "3", "1000000", "9223372036854775808"])
        words = words or [" "]
    return "".join(words)


def drawn(r: random.Random, folder: Path) -> tuple[IR, str]:
    """One of the three IRs of an operator's sample, and its target."""
    rows = [f for f in front_ends().values() if f.sample is not None]
    while True:
        front_end = r.choice(rows)
        assert front_end.sample is not None
        try:
            model = case_model(front_end, front_end.sample(SeededDraw(r.randint(0, 10**6))))
            (folder / "m.onnx").write_bytes(model.SerializeToString())
            options = Options(target=r.choice(["generic", "x86-64-v3"]), opt_level=r.choice(["O0", "O2"]), name="net")
            c = import_graph(folder / "m.onnx", options)
            stage = r.randint(0, 2)
            if stage == 0:
                return c.graph, options.target
            place_program(c)
            assert c.program is not None
            return (c.program.module if stage == 1 else c.program), options.target
        except CompileError:  # the sample is one that is refused
            continue


def attack(seed: int) -> Work:
    def work(say: Say, folder: Path) -> Outcome:
        r = random.Random(f"text {seed}")
        ir, target = drawn(r, folder)
        path = folder / "t.mcir"
        save(path, ir)
        text = changed(path.read_text(), r)
        vouched = r.random() < (SEALED_GRAPHS if isinstance(ir, Graph) else SEALED)
        path.write_text(resealed(text) if vouched else text)
        say(text)
        return judged(path, Options(target=target, name="net"), text[:2000], folder, r, runs=not vouched)

    return work
