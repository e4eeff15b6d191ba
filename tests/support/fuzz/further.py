"""What a setting may have beside its options: inputs of other formats or with axes that have no names, fixed inputs,
kernels chosen by measurements, forms of some nodes, hooks around steps.

Example: of the inputs ``x1`` f32[1,3,n,4] and ``x2`` f32[4] may come
``formats={"x1": "u8,nhwc,mean=128,scale=0.0156"}``, ``fixed=("x2",)`` and ``shapes={"x1": (1, 3, "rows", 4)}``. Draws
are apart from those of `setting_of`: what a seed had before one was added here it has still.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import onnx

from mccompile.interface.formats import format_of
from mccompile.ir.types import F32, TensorType
from tests.support.compose.definite import Array, Arrays
from tests.support.compose.network import KEPT
from tests.support.fuzz.family import MAIN, SECOND, Family

FORMATS = 8
FIXED = 6
TUNED = 6
HOOKED = 6
MIXED = 5
UNNAMED = 5
AUTO = 1
TEXTS = 20
"""How many of a hundred networks have each, TEXTS of those with text in inputs."""

TEXT_SIZES = (7, 8, 33)
"""Bytes of the longest word that is drawn for an input, and more."""

NAMES = {MAIN: "rows", SECOND: "columns"}
"""What n and m are called where the file has no names for them."""

SCALES = {"u8": 1 / 64, "i8": 1 / 64, "u16": 1 / 16384, "i16": 1 / 16384}
"""With these, numbers of drawn inputs are elements."""

FORMS = {"weights": ("f32", "f16", "bf16", "i8", "i8:32", "i4"), "precision": ("f32", "bf16", "f16")}

WEIGHED = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Gather", "LSTM", "GRU")


@dataclass(frozen=True)
class Further:
    """What is drawn for a network.

    Attributes:
        formats: of inputs, as --input says them.
        fixed: inputs that are the same in every run, --constant.
        shapes: of inputs whose axes have no names in the file, --input-shape.
        tuned: a number that draws the measurements of --tuning; 0: none.
        hooked: steps are traced and profiled by `hooks.h`.
    """

    formats: Mapping[str, str] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    tuned: int = 0
    hooked: bool = False

    def plainer(self) -> list[Further]:
        """With one thing less."""
        less = [replace(self, **{f.name: getattr(NOTHING_MORE, f.name)}) for f in fields(self)]
        return [f for f in less if f != self]


NOTHING_MORE = Further()


def further_of(seed: str, net: Family, state: Mapping[str, str]) -> Further:
    """That of a seed's network, which keeps ``state``."""
    r = random.Random(f"further {seed}")
    tuned = r.randrange(1, 1 << 30) if r.random() * 100 < TUNED else 0
    hooked = r.random() * 100 < HOOKED
    plain = [n for n in net.inputs if n not in state.values() and n not in net.drawn]
    fixed: tuple[str, ...] = ()
    if r.random() * 100 < FIXED:
        still = [n for n in plain if not net.axes.get(n) and net.inputs[n].dtype.kind in "fiub"]
        fixed = tuple(n for n in still if r.random() < 0.6)
    formats: dict[str, str] = {}
    if r.random() * 100 < FORMATS and not net.halves:
        # Of indices that are no whole numbers, onnxruntime takes none where ONNX casts them.
        whole = {s.inputs[i] for s in net.steps for i in KEPT.get(s.op_type, ()) if i < len(s.inputs)}
        able = [n for n in plain if n not in {*fixed, *whole} and net.inputs[n].dtype == np.float32]
        formats = {n: _format(r, net.inputs[n], net.axes.get(n, ())) for n in able if r.random() < 0.7}
    shapes: dict[str, tuple[int | str, ...]] = {}
    if r.random() * 100 < UNNAMED and net.varies and not net.grows(state):
        shapes = {n: _named(net, n) for n in net.inputs if net.axes.get(n) and n not in net.drawn}
    return Further(formats, fixed, shapes, tuned, hooked)


def forms_of(seed: str, net: Family) -> dict[str, Any]:
    """Weights and precision that are not the same for all nodes, or that `auto` finds; seldom. Sizes of text."""
    r = random.Random(f"texts {seed}")
    has_text = any(a.dtype.kind == "O" for a in net.inputs.values())
    texts = {"string_bytes": r.choice(TEXT_SIZES)} if has_text and r.random() * 100 < TEXTS else {}
    return texts | _narrow_forms(seed, net)


def _narrow_forms(seed: str, net: Family) -> dict[str, Any]:
    r = random.Random(f"forms {seed}")
    if r.random() * 100 < AUTO:
        return {r.choice(("weights", "precision")): "auto", "max_error": r.choice((0.001, 0.02, 0.2))}
    if r.random() * 100 >= MIXED:
        return {}
    kinds = sorted({s.op_type for s in net.steps if s.op_type in WEIGHED})
    options: dict[str, Any] = {}
    for option in r.choice((("weights",), ("precision",), ("weights", "precision"))):
        some = {f"{kind}_*": r.choice(FORMS[option]) for kind in kinds if r.random() < 0.7}
        options[option] = {"*": r.choice(FORMS[option]), **some}
    return options


def _format(r: random.Random, array: Array, axes: tuple[int, ...]) -> str:
    """A format whose numbers the input may have: its elements, the layout of images, a mean and a scale."""
    dtype = r.choice(tuple(SCALES))
    layout = ",nhwc" if array.ndim > 2 and r.random() < 0.6 else ""
    axis = 1 if array.ndim > 1 else 0
    channels = array.shape[axis] if array.ndim and axis not in axes and r.random() < 0.5 else 1
    channels = max(channels, 1)  # of an image without channels one number is given, too
    middle = {"u8": 128.0, "i8": 0.0, "u16": 32768.0, "i16": 0.0}[dtype]
    means = ":".join(str(middle + r.choice((0.0, 0.5, -3.25))) for _ in range(channels))
    scales = ":".join(str(SCALES[dtype] * r.choice((1.0, 0.9, 1.25))) for _ in range(channels))
    mean = f",mean={means}" if r.random() < 0.8 or middle else ""
    return f"{dtype}{layout}{mean},scale={scales}"


def _named(net: Family, name: str) -> tuple[int | str, ...]:
    a = net.inputs[name]
    return tuple(NAMES[e] if i in net.axes[name] else e for i, e in enumerate(a.shape))


def model_of(net: Family, further: Further) -> onnx.ModelProto:
    """The file of a network: without the names of axes that --input-shape gives."""
    model = net.model()
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim if value.name in further.shapes else ():
            if dim.dim_param:
                dim.Clear()
    return model


# -- inputs in their formats --------------------------------------------------------------------------------------
def as_elements(text: str, array: Array) -> Array:
    """What the application gives where the model should get an array: the nearest elements, in their layout."""
    how = format_of("", text, TensorType(F32, array.shape))
    along = [-1 if i == how.axis else 1 for i in range(array.ndim)] if array.ndim else []
    mean, scale = (np.asarray(numbers, np.float32).reshape(along) for numbers in (how.mean, how.scale))
    info = np.iinfo(how.dtype.numpy)
    steps = np.clip(np.rint(array.astype(np.float64) / scale + mean), info.min, info.max).astype(how.dtype.numpy)
    return np.array(steps.transpose(np.argsort(how.perm(array.ndim)).astype(int)), order="C")


def snapped(formats: Mapping[str, str], inputs: Arrays) -> dict[str, Array]:
    """Inputs of which those with a format are numbers that it can say."""
    return {n: _snapped(formats[n], a) if n in formats else a for n, a in inputs.items()}


def _snapped(text: str, array: Array) -> Array:
    model = TensorType(F32, array.shape)
    return np.asarray(format_of("", text, model).real(as_elements(text, array), model), np.float32)
