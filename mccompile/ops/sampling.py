"""What a test case of an operator is, and the draws it is made of; tests/ turns draws into hypothesis."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array

T = TypeVar("T")


class Draw(Protocol):
    """A source of choices. Every method is a pure function of the source's state."""

    def int(self, low: builtins.int, high: builtins.int) -> builtins.int:
        """An integer in [low, high]."""
        ...

    def bool(self) -> builtins.bool: ...

    def choice(self, options: Sequence[T]) -> T: ...

    def shape(
        self, rank: builtins.int, low: builtins.int = 1, high: builtins.int = 5
    ) -> tuple[builtins.int, ...]: ...

    def array(
        self,
        shape: Sequence[builtins.int],
        dtype: str = "f32",
        low: builtins.float = -2,
        high: builtins.float = 2,
    ) -> Array:
        """Elements in [low, high]; integers are whole, bools fair."""
        ...

    def special(self, shape: Sequence[builtins.int], dtype: str = "f32") -> Array:
        """Elements that include NaN, infinities, -0, and the extremes of the type."""
        ...

    def broadcastable(self, shape: Sequence[builtins.int]) -> tuple[builtins.int, ...]:
        """A shape that broadcasts with ``shape`` to ``shape``: some axes 1, leading ones dropped."""
        ...

    def permutation(self, n: builtins.int) -> tuple[builtins.int, ...]: ...


@dataclass(frozen=True)
class Case:
    """One ONNX node with data. ``constant`` lists the inputs that are initializers (shapes, axes, weights).

    ``tolerance`` replaces the front end's for this case, where the data makes it harder. ``opset`` is that of the
    node where onnxruntime does not know the newest form, or no older one exists; 0 for the usual one.
    """

    inputs: Sequence[Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    constant: frozenset[int] = frozenset()
    outputs: int = 1
    tolerance: float | None = None
    opset: int = 0
