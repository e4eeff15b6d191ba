"""Numbers that lie far from what they are meant to be: one attribute or constant of an operator, and nothing else.

Most of what damages a file is refused by the first rule that it breaks. A number that is only far away goes further:
to tables of so many rows, loops of so many turns, places before a result. Example: of TfIdfVectorizer one of
``ngram_indexes`` becomes -2^31.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

from mccompile.driver import Options
from mccompile.ops.registry import front_ends
from tests.support.draw import SeededDraw
from tests.support.fuzz.files import TARGETS, change_value, with_odd_number
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.trial import judged
from tests.support.opcases import case_model

NUMBERED = (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS, AttributeProto.FLOATS)


def mutant(seed: int) -> tuple[onnx.ModelProto, str]:
    """An operator with one number, or all of one attribute or constant, far from what they were; and which."""
    r = random.Random(f"number {seed}")
    rows = [f for f in front_ends().values() if f.sample is not None]
    while True:
        front_end = r.choice(rows)
        assert front_end.sample is not None
        model = case_model(front_end, front_end.sample(SeededDraw(r.randint(0, 10**6))))
        attributes = [a for node in model.graph.node for a in node.attribute if a.type in NUMBERED]
        constants = [t for t in model.graph.initializer if numpy_helper.to_array(t).dtype.kind in "iuf"]
        if attributes or constants:
            place = r.choice([*attributes, *constants])
            if isinstance(place, TensorProto):
                _change_tensor(place, r)
            else:
                change_value(place, r)
            return model, f"{front_end.op_type}: {place.name}"


def _change_tensor(tensor: TensorProto, r: random.Random) -> None:
    with np.errstate(over="ignore"):
        tensor.CopyFrom(numpy_helper.from_array(with_odd_number(numpy_helper.to_array(tensor), r), tensor.name))


def attack(seed: int) -> Work:
    def work(say: Say, folder: Path) -> Outcome:
        model, what = mutant(seed)
        path = folder / "number.onnx"
        path.write_bytes(model.SerializeToString())
        r = random.Random(f"options {seed}")
        options = Options(target=r.choice(TARGETS), opt_level=r.choice(["O0", "O2", "O2", "Os"]), name="number")
        say(f"{what}; {options.target} {options.opt_level}")
        return judged(path, options, what, folder, r)

    return work
