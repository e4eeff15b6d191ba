"""What only the file has, and onnxruntime is asked in another form: random numbers, maps of labels."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.support.compose import operands as on
from tests.support.fuzz.family import MAIN, SECOND, FamilyComposer

ML = "ai.onnx.ml"


def random_numbers(c: FamilyComposer) -> list[str]:
    """Numbers that a node of the file draws: the draws are an input here, which ``--random input`` makes of them."""
    like = c.some() if c.d.bool() else None
    if like is None:
        shape = tuple(c.d.int(1, 5) for _ in range(c.d.int(1, 3)))
    else:
        shape = c.array(like).shape
    normal = c.d.bool()
    draws = c.input(np.asarray(c.d.array(shape, "f32", -2, 2) if normal else c.d.array(shape, "f32", 0, 0.99)))
    if like is not None and any(v[like].shape != v[draws].shape for v in c.net.others.values()):
        on.reject("an extent of the input is not that of the value")
    if like is None and {MAIN, SECOND} & set(shape):
        on.reject("a shape that is given has no extent of the run")
    if not normal and like is not None and c.array(like).dtype == np.float32 and c.d.bool():
        made = c.one("Less", draws, like)
        node = helper.make_node("Bernoulli", [like], [made], dtype=TensorProto.BOOL)
    else:
        factor = c.d.choice([0.5, 2.0, 3.0])
        made = c.apply("Mul", [draws, c.scalar(factor, np.float32)], captured=[like] if like else [])[0]
        kind, attrs = ("Normal", {"scale": factor}) if normal else ("Uniform", {"high": factor})
        if like is None:
            node = helper.make_node(f"Random{kind}", [], [made], shape=shape, **attrs)
        else:
            node = helper.make_node(f"Random{kind}Like", [like], [made], dtype=TensorProto.FLOAT, **attrs)
    c.net.told[made] = node
    c.net.drawn[draws] = f"{made}.{'normal' if normal else 'uniform'}"
    return [made]


def zipped(c: FamilyComposer) -> list[str]:
    """A map of labels to the columns of a value, which is a tensor here; only an output is one."""
    v = c.some(rank=2)
    if c.array(v).ndim != 2 or c.array(v).dtype != np.float32 or c.array(v).shape[1] in (0, *c.varying):
        on.reject("no rows of scores")
    columns = c.array(v).shape[1]
    made = c.one("Identity", v)
    labels = (
        {"classlabels_int64s": [3 * i - 1 for i in range(columns)]}
        if c.d.bool()
        else {"classlabels_strings": [f"label {i}" for i in range(columns)]}
    )
    c.net.told[made] = helper.make_node("ZipMap", [v], [made], domain=ML, **labels)
    return [made]
