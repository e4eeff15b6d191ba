"""mccompile: an ahead-of-time compiler from ONNX networks to C99."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mccompile._version import __version__
from mccompile.api.functions import compile, inspect, load
from mccompile.ir.errors import CompileError, UsageError

if TYPE_CHECKING:
    from mccompile.api.functions import bench, check
else:
    from mccompile import bench, check  # packages that can be called: see `mccompile._callable`

__all__ = [
    "CompileError",
    "UsageError",
    "__version__",
    "bench",
    "check",
    "compile",
    "inspect",
    "load",
]


def __dir__() -> list[str]:
    """What is meant for users; Python adds every package that was imported."""
    return __all__
