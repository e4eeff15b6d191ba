"""What folding makes of ONNX operators without a front end, where it is not what broadcasting would give."""

from __future__ import annotations

import math

from mccompile.ops.folding import Arrays, Attributes, Folding, present


def _window_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """An element for each step of the window."""
    return 8 * _count(arrays, 0)


def _mel_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """A matrix of DFT length by mel bins; the other inputs are frequencies."""
    return 8 * math.prod(_count(arrays, i) for i in (0, 1))


def _quantized_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """The first input's elements: scales and zero points may be by blocks, which do not broadcast."""
    return 8 * int(present(arrays)[0].size)


def _count(arrays: Arrays, i: int) -> int:
    return max(int(present(arrays)[i].reshape(-1)[0]), 1)


FOLDINGS = {
    "HannWindow": Folding(_window_bytes),
    "HammingWindow": Folding(_window_bytes),
    "BlackmanWindow": Folding(_window_bytes),
    "MelWeightMatrix": Folding(_mel_bytes),
    "QuantizeLinear": Folding(_quantized_bytes),
    "DequantizeLinear": Folding(_quantized_bytes),
}
"""By operator of the domain ai.onnx."""
