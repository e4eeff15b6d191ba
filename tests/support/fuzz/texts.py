"""IR text that is damaged: each stage of drawn networks, with words changed, left out or twice."""

from __future__ import annotations

import random
import re
from pathlib import Path

from mccompile.driver import Options, compile_program, import_graph, load_ir
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.files import text_of
from mccompile.ops.registry import front_ends
from tests.support.draw import SeededDraw
from tests.support.fuzz.files import PYTHON
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.opcases import case_model

WORD = re.compile(r"\s+|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|.", re.S)
ODD = (*"-1 0 2147483648 1e999 nan f32 i8 ( } %x acc { ' é".split(), '"', "\x00")


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


def _text(r: random.Random, folder: Path) -> str:
    """One of the three IRs of an operator's sample."""
    rows = [f for f in front_ends().values() if f.sample is not None]
    while True:
        front_end = r.choice(rows)
        assert front_end.sample is not None
        try:
            model = case_model(front_end, front_end.sample(SeededDraw(r.randint(0, 10**6))))
            (folder / "m.onnx").write_bytes(model.SerializeToString())
            options = Options(target=r.choice(["generic", "x86-64-v3"]), opt_level=r.choice(["O0", "O2"]), name="m")
            graph = import_graph(folder / "m.onnx", options)
            stage = r.randint(0, 2)
            if stage == 0:
                return text_of(graph.graph)
            program = compile_program(graph).program
            return text_of(program.module if stage == 1 else program)
        except InternalError:
            raise
        except Exception:  # the sample is one that is refused
            continue


def attack(seed: int) -> Work:
    def work(say: Say, folder: Path) -> Outcome:
        r = random.Random(f"text {seed}")
        text = changed(_text(r, folder), r)
        path = folder / "t.mcir"
        path.write_text(text)
        say(text)
        try:
            load_ir(path)
        except InternalError:
            raise
        except CompileError as e:
            return ("message" if PYTHON.search(str(e)) else "refused"), f"{text[:600]}\n{e}"
        return "ok", ""

    return work
