"""The arithmetic of sliding windows that convolutions and pools share (ONNX operators Conv, MaxPool)."""

from __future__ import annotations

from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, bound, maximum, minimum, ranges, span, symbols
from mccompile.ir.limits import MOST_INDEX, elements, exceeds
from mccompile.ir.op import TypeRuleError
from mccompile.ir.types import Shape
from mccompile.ops.frontend import Import


@dataclass(frozen=True)
class Window:
    """Kernel extents, strides, dilations and pads (all begins, then all ends), one per spatial axis."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: tuple[int, ...]

    def output(self, spatial: Shape, ceil: bool = False, of_run: bool = False) -> Shape:
        """Output extents. With ``ceil``, a last window reaches beyond the end padding by less than a stride; one that
        would start in it is dropped. ``of_run``: extents of arrays, which are none of what is none in a run."""
        n = len(spatial)
        if (len(self.kernel), len(self.strides), len(self.dilations), len(self.pads)) != (n, n, n, 2 * n):
            raise TypeRuleError(f"kernel, strides, dilations or pads are not those of {n} spatial axes")
        if any(span(e)[0] < 1 for e in (*self.strides, *self.dilations)) or any(span(p)[0] < 0 for p in self.pads):
            raise TypeRuleError("strides and dilations must be positive, pads not negative")
        # Nothing else bounds a stride of one window, and a dilation of one tap.
        if max(map(bound, (*self.strides, *self.dilations)), default=1) > MOST_INDEX:
            raise TypeRuleError(f"strides and dilations are at most {MOST_INDEX:,}")
        padded = elements(e + self.pads[i] + self.pads[n + i] for i, e in enumerate(spatial))
        if min(map(bound, self.kernel), default=1) < 1 or exceeds("tensor-elements", padded):
            raise TypeRuleError(f"a window of {list(self.kernel)} over {padded:,} padded elements is not supported")
        extents = []
        for i in range(n):
            reach = self.dilations[i] * (self.kernel[i] - 1) + 1
            free = spatial[i] + self.pads[i] + self.pads[n + i] - reach
            # What may be none in a run, such as a count, may leave room for no window. Else it is an error, as it is
            # of numbers: onnxruntime has a window there that is cut off, for -1 / 2 is 0 in C, and -1 // 2 is -1.
            may_be_none = any(s.low < 1 for s in symbols(free)) or (of_run and spatial[i] == 0)
            none = self.strides[i] if may_be_none else 0
            least = 1 - self.strides[i] if ceil else 0  # the first window may reach beyond the end
            if span(free)[0] < least - none:
                always = f", where {ranges(free)}: begin the range higher" if isinstance(free, Dim) else ""
                raise TypeRuleError(f"a window of {reach} does not fit in axis {i} of {spatial[i]}, padded{always}")
            step = self.strides[i]
            if ceil:  # windows that begin before the end padding
                extents.append(minimum(-(-free // step) + 1, -(-(spatial[i] + self.pads[i]) // step)))
            else:
                extents.append(free // step + 1)
        return tuple(extents)


def meets_all(kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> bool:
    """Whether every place of an axis, however long, is a tap of some window: taps reach all remainders of a stride.

    >>> meets_all((4, 2), (2, 2), (1, 1)), meets_all((2,), (3,), (1,)), meets_all((3,), (2,), (2,))
    (True, False, False)
    """
    axes = zip(kernel, strides, dilations, strict=True)
    return all(len({t * d % s for t in range(k)}) == s for k, s, d in axes)


def window_words(strides: Shape, pads: tuple[int, ...], dilations: Shape, groups: int = 1) -> str:
    """The steps of a window in a few letters, those that do nothing left out: `` s2 p1 d2x1 g64``."""
    words = [
        letter + (str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values)))
        for letter, values, idle in (("s", strides, 1), ("p", pads, 0), ("d", dilations, 1), ("g", (groups,), 1))
        if any(v != idle for v in values)
    ]
    return "".join(f" {word}" for word in words)


def read_window(n: Import, kernel: Sequence[int], has_auto_pad: bool = True) -> Window:
    """The window of an ONNX node, `auto_pad` resolved by the extents of input 0, if the operator has that."""
    rank = len(kernel)
    spatial = n.input(0).shape[2:]
    if len(spatial) != rank:
        raise n.error(f"the kernel has {rank} axes but the input has {len(spatial)} spatial axes")
    ones = (1,) * rank
    strides, dilations = n.attr("strides", ones), n.attr("dilations", ones)
    pads = n.attr("pads", (0,) * (2 * rank))
    auto = n.attr("auto_pad", "NOTSET") if has_auto_pad else "NOTSET"
    if auto == "VALID":
        pads = (0,) * (2 * rank)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for i in range(rank):
            reach = dilations[i] * (kernel[i] - 1) + 1
            total = maximum((-(-spatial[i] // strides[i]) - 1) * strides[i] + reach - spatial[i], 0)
            small = total // 2
            large = maximum(total - small, 0)  # never less, but that is not seen of every pad of the run
            begin.append(small if auto == "SAME_UPPER" else large)
            end.append(large if auto == "SAME_UPPER" else small)
        pads = (*begin, *end)
    elif auto != "NOTSET":
        raise n.error(f"auto_pad {auto!r} is unknown")
    if not len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise n.error(f"strides, dilations and pads do not match a kernel of {rank} axes")
    least = min(span(e)[0] for e in (*strides, *dilations, *kernel))
    if least < 1 or min(span(p)[0] for p in pads) < 0:  # of two pads of the run none is known to be the lesser
        raise n.error("strides, dilations and kernel extents must be positive, pads not negative")
    return Window(tuple(kernel), tuple(strides), tuple(dilations), tuple(pads))
