"""The tolerance rule: how far generated code may be from the reference, channel by channel.

For floats ``|y - ref| <= f * (1e-4 * max|ref slice| + 1e-6 * max|ref|) + noise``, where a slice is one channel, so
that small outputs do not hide behind large ones, and f is 1, or 50 for what is made of f16. Noise is how far the
reference is from itself when it computes in another order or precision: 8 times the most in the slice, but at
least the most in the tensor, for a channel that Relu has made 0 has none to show. Where noise allows more
than a hundredth of the largest value, that is told. Integers and booleans are exact, but for those that floats decide
(`decided`); NaN and infinities have to be in the same places. Where all of a reference is 0, 2e-8 is allowed:
onnxruntime's Sigmoid is 0 from -18 down, where it is 1.5e-8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.errors import UsageError
from mccompile.run.noise import distance, json_number

Array = np.ndarray[Any, np.dtype[Any]]

OF_SLICE = 1e-4
OF_TENSOR = 1e-6
OF_NOISE = 8.0
OF_NOTHING = 2e-8
DOUBT = 0.01
"""From here on, a share of the largest value, what noise allows is told."""


@dataclass(frozen=True)
class Tolerance:
    """What a user allows instead: ``|y - ref| <= atol + rtol * |ref|``, of each element, integers included."""

    rtol: float = 0.0
    atol: float = 0.0

    def limits(self, want: Array) -> Array:
        """The error allowed of each element."""
        size = np.array(np.abs(want.astype(np.float64)))  # of a scalar, abs gives no array
        size[~np.isfinite(size)] = 0.0
        return np.asarray(self.atol + self.rtol * size)


def tolerance_of(rtol: float | None, atol: float | None) -> Tolerance | None:
    """What a user allows; None for the rule. UsageError for what is no tolerance."""
    for name, value in (("rtol", rtol), ("atol", atol)):
        is_number = isinstance(value, int | float | np.number)
        if value is not None and not (is_number and 0 <= value < np.inf):
            raise UsageError(f"{name} is {value!r}, but it has to be a number of at least 0")
    return None if rtol is None and atol is None else Tolerance(rtol or 0.0, atol or 0.0)


def channel_axis(rank: int) -> int | None:
    """The axis whose positions are judged apart: axis 1, which is the last one of two; none below two axes."""
    return 1 if rank >= 2 else None


def tolerances(want: Array, noise: Array | None = None, factor: float = 1.0) -> Array:
    """The error allowed in each channel of a reference: float64, one entry if there is no channel axis.

    Args:
        want: the reference; of NaN and infinities none counts for the maxima.
        noise: the reference's own uncertainty, shaped like ``want``; None if it is not known.
        factor: multiplies the relative terms (`Factors`).
    """
    axis = channel_axis(want.ndim)
    channels = 1 if axis is None else want.shape[axis]
    if want.dtype.kind != "f":
        return np.zeros(channels)
    size = _channel_max(want, axis)
    own = np.zeros(channels) if noise is None else _channel_max(noise, axis)
    shown = np.maximum(OF_NOISE * own, own.max(initial=0.0))
    least = float(np.finfo(want.dtype).smallest_normal)  # the last place of smaller ones is its own
    terms = OF_SLICE * np.maximum(size, least) + OF_TENSOR * size.max(initial=0.0)
    allowed: Array = factor * terms + shown
    return allowed if size.any() else np.maximum(allowed, OF_NOTHING)


def limits(
    want: Array, noise: Array | None = None, factor: float = 1.0, shape: tuple[int, ...] | None = None
) -> Array:
    """As `tolerances`, of each element of the reference, in its shape, or in another ``shape`` of as many axes and
    channels."""
    axis = channel_axis(want.ndim)
    allowed = tolerances(want, noise, factor).reshape([-1 if i == axis else 1 for i in range(want.ndim)])
    return np.broadcast_to(allowed, want.shape if shape is None else shape)


def allowances(want: Array, noise: Array | None = None, factor: float = 1.0) -> Array:
    """As `tolerances`, of integers the most that noise says of an element of each channel."""
    if want.dtype.kind == "f":
        return tolerances(want, noise, factor)
    axis = channel_axis(want.ndim)
    return _channel_max(np.zeros(want.shape) if noise is None else noise, axis)


def _channel_max(array: Array, axis: int | None) -> Array:
    """max|finite elements| of each channel."""
    wide = np.array(np.abs(array.astype(np.float64)))  # of a scalar, abs gives no array
    wide[~np.isfinite(wide)] = 0.0
    if axis is None:
        return np.array([wide.max(initial=0.0)])
    return np.asarray(wide.max(axis=tuple(i for i in range(array.ndim) if i != axis), initial=0.0))


@dataclass(frozen=True)
class Comparison:
    """One tensor against its reference.

    Attributes:
        name: the tensor's ONNX name.
        type: element type and shape of the reference, as text.
        problem: why nothing can be compared (another shape, another element type); else "".
        differing: elements out of tolerance, of ``count``.
        error, allowed: at the worst element, which is the one furthest out of tolerance; an error is infinite
            where one side is NaN or infinite and the other is not.
        index: of the worst element; ``channel`` its position on the channel axis, None if there is none.
        got, want: the values there.
        uniform: whether all of the reference is one number, as where random inputs say that nothing is valid:
            what agrees then says little.
        unsure: what noise allows, as a share of the largest value: 0.02 where the reference is 0.0025 from itself. Of
            integers that scores pick, the share of those that may be others.
        nans: how many elements of the reference are NaN.
        near: elements that differ where the floats that decide them are not sure enough to say which is right.
    """

    name: str
    type: str
    problem: str = ""
    differing: int = 0
    count: int = 0
    error: float = 0.0
    allowed: float = 0.0
    index: tuple[int, ...] = ()
    channel: int | None = None
    got: float = 0.0
    want: float = 0.0
    uniform: bool = False
    unsure: float = 0.0
    nans: int = 0
    near: int = 0

    @property
    def ok(self) -> bool:
        return not self.problem and self.differing == 0

    @property
    def ratio(self) -> float:
        """Error in units of what is allowed; more than 1 is out of tolerance."""
        if self.problem:
            return np.inf
        if self.allowed > 0:
            return self.error / self.allowed
        return np.inf if self.error > 0 else 0.0

    def text(self) -> str:
        """One line, without the name."""
        if self.problem:
            return self.problem
        if not self.differing:
            said = f"error {self.error:.3g}, allowed {self.allowed:.3g}" if self.allowed else "equal"
            said += f"; all of it is {self.want:.9g}" if self.uniform else ""
            if self.near:
                said += f" but for {self.near} of {self.count} elements, decided by less than floats may be off"
            said += f"; {self.nans} of {self.count} elements are NaN in both" if self.nans else ""
            if self.unsure > DOUBT:
                share = "elements" if self.type.startswith(("int", "uint")) else "largest value"
                said += f"; small changes of weights move the reference, too: {self.unsure:.1%} of its {share}"
            return said
        at = f"[{','.join(map(str, self.index))}]"
        if self.channel is not None:
            at += f" (channel {self.channel})"
        return (
            f"{self.got:.9g} instead of {self.want:.9g} at {at}, allowed error {self.allowed:.3g}; "
            f"{self.differing} of {self.count} elements differ"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data; numbers that JSON has not are text."""
        return {
            "name": self.name,
            "type": self.type,
            "ok": self.ok,
            "problem": self.problem,
            "differing": self.differing,
            "count": self.count,
            "error": json_number(self.error),
            "allowed": json_number(self.allowed),
            "index": list(self.index),
            "channel": self.channel,
            "got": json_number(self.got),
            "want": json_number(self.want),
        }


def compare(
    name: str, got: Array, want: Array, noise: Array | None = None, factor: float = 1.0,
    tolerance: Tolerance | None = None,
) -> Comparison:  # fmt: skip
    """Judge ``got`` by the rule, or by a user's ``tolerance``. Shapes and element types have to be equal."""
    kind = f"{want.dtype.name}[{','.join(map(str, want.shape))}]"
    if got.shape != want.shape or got.dtype != want.dtype:
        return Comparison(name, kind, f"{got.dtype.name}[{','.join(map(str, got.shape))}] instead of {kind}")
    if want.size == 0:
        return Comparison(name, kind)
    axis = channel_axis(want.ndim)
    unsure = 0.0
    if tolerance is None:
        limit = limits(want, noise, factor)
        largest = float(_channel_max(want, None)[0])
        if noise is not None and want.dtype.kind == "f" and largest:
            unsure = OF_NOISE * float(_channel_max(noise, None)[0]) / largest
    else:
        limit = tolerance.limits(want)
    error = _errors(got, want)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error > 0, error / limit, 0.0)
    bad = error > limit
    worst = np.unravel_index(int(np.argmax(ratio if ratio.any() else error)), want.shape)
    index = tuple(int(i) for i in worst)
    return Comparison(
        name=name,
        type=kind,
        differing=int(bad.sum()),
        count=want.size,
        error=float(error[worst]),
        allowed=float(limit[worst]),
        index=index,
        channel=None if axis is None else index[axis],
        got=float(got[worst]),
        want=float(want[worst]),
        uniform=want.size > 1 and bool((want == want.flat[0]).all()),
        unsure=unsure,
        nans=int(np.isnan(want).sum()) if want.dtype.kind == "f" else 0,
    )


def _errors(got: Array, want: Array) -> Array:
    """`distance`; unequal integers are at least 1 apart."""
    if want.dtype.kind != "f":
        # Beyond 2^53 the float64 difference of unequal integers may be 0, and of wrapped ones anything.
        apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
        return np.where(got == want, 0.0, np.maximum(apart, 1.0))
    return distance(got, want)
