"""How inputs and outputs of the generated code stand for those of the model.

Worked example: a model with a float input ``image`` whose first node is QuantizeLinear with scale 0.5 and zero point
3. With ``--io quantized`` the network takes the bytes behind that node, and the model's numbers are::

    (byte - 3) * 0.5            bytes 3, 4, 1 stand for 0.0, 0.5, -1.0

With ``--input image=u8,nhwc,mean=128,scale=0.5`` it takes pixels, channels last, and the model's numbers are::

    (pixel - 128) * 0.5, with the channels behind the batch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer.labels import Legend
from mccompile.ir.types import DType, TensorType

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Quantisation:
    """A tensor of 8 or 16 bits stands for the numbers ``(element - zero_point) * scale``, in f32.

    ``tensor`` is the name that these elements have in the model.
    """

    scale: float
    zero_point: int
    tensor: str

    def real(self, elements: Array) -> Array:
        """The f32 numbers that elements stand for."""
        whole = elements.astype(np.int32) - np.int32(self.zero_point)
        with np.errstate(over="ignore"):  # a scale near the end of f32 makes infinities of some, as C does
            return np.asarray(whole.astype(np.float32) * np.float32(self.scale))

    def elements(self, real: Array, dtype: DType) -> Array:
        """The elements of ``dtype`` nearest to numbers, ties to even, cut off at its ends."""
        info = np.iinfo(dtype.numpy.name)
        steps = np.rint(real.astype(np.float32) / np.float32(self.scale)).astype(np.float64) + self.zero_point
        return np.asarray(np.clip(steps, info.min, info.max).astype(dtype.numpy))


@dataclass(frozen=True)
class Format:
    """What ``--input`` says of an input: integers, and the numbers ``(element - mean) * scale`` that the model gets.

    Attributes:
        text: as it was given.
        dtype: of the elements.
        axis: of the channels, in the model's order; ``mean`` and ``scale`` have one number, or one for each of them.
        last: the channels lie innermost, all other axes in the model's order.
    """

    text: str
    dtype: DType
    axis: int
    last: bool
    mean: tuple[float, ...]
    scale: tuple[float, ...]

    def perm(self, rank: int) -> tuple[int, ...]:
        """Which axis of the elements each axis of the model's input is."""
        order = [a for a in range(rank) if a != self.axis] + [self.axis] if self.last else list(range(rank))
        return tuple(order.index(a) for a in range(rank))

    def stored(self, model: TensorType) -> TensorType:
        """The type of the elements for an input of the model."""
        perm = self.perm(model.rank)
        return TensorType(self.dtype, tuple(model.shape[perm.index(a)] for a in range(model.rank)))

    def real(self, elements: Array, model: TensorType) -> Array:
        """What the model gets: f32, or its integers, to the nearest and cut off at their ends."""
        x = elements.transpose(self.perm(model.rank)).astype(np.float32)
        along = [-1 if a == self.axis else 1 for a in range(model.rank)]
        mean, scale = (
            np.asarray(a, np.float32).reshape(along if len(a) > 1 else ()) for a in (self.mean, self.scale)
        )
        y = (x - mean) * scale
        if not model.dtype.is_float:
            info = np.iinfo(model.dtype.numpy.name)
            y = np.clip(np.rint(y).astype(np.float64), info.min, info.max)
        return np.array(y, model.dtype.numpy, order="C")  # of a scalar no ascontiguousarray, which has one axis


@dataclass(frozen=True)
class Interface:
    """What is different between the generated code and the model, by name.

    Attributes:
        quantised: inputs and outputs of integers whose scale the model says, whether they are the model's own or not.
        kept: types of the model's float inputs and outputs that are bytes in the generated code.
        formats: inputs of another format, and the type that the model has there.
        legends: outputs of numbers that stand for text, or were maps, and what these are.
        halves: inputs and outputs that are the bits of bfloat16, u16.
        texts: inputs and outputs that are text, as bytes.
    """

    quantised: Mapping[str, Quantisation] = field(default_factory=dict)
    kept: Mapping[str, TensorType] = field(default_factory=dict)
    formats: Mapping[str, tuple[Format, TensorType]] = field(default_factory=dict)
    legends: Mapping[str, Legend] = field(default_factory=dict)
    halves: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    @property
    def changed(self) -> bool:
        """Whether anything is not what it is in the model."""
        return bool(self.kept or self.formats)

    def changes(self, name: str) -> bool:
        """Whether an input or output is not what it is in the model."""
        return name in self.kept or name in self.formats

    def model_inputs(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the model gets where the generated code gets ``inputs``."""
        return {name: self._model_input(name, np.asarray(a)) for name, a in inputs.items()}

    def _model_input(self, name: str, array: Array) -> Array:
        if name in self.formats:
            given, model = self.formats[name]
            return given.real(array, model)
        if name in self.kept:
            return self.quantised[name].real(array).astype(self.kept[name].dtype.numpy)
        return array

    def outputs(self, values: Mapping[str, Array], types: Mapping[str, TensorType]) -> dict[str, Array]:
        """What the generated code gives where the model gives ``values``, of ``types``; other values stay."""
        return {
            name: self.quantised[name].elements(a, types[name].dtype) if name in self.kept and name in types else a
            for name, a in values.items()
        }

    @property
    def tensors(self) -> dict[str, str]:
        """The names that quantised inputs and outputs have in the model where that is another one."""
        return {name: self.quantised[name].tensor for name in self.kept}


MODELS_OWN = Interface()
"""Inputs and outputs as the model has them, of which nothing is known."""
