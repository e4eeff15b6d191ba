"""mccompile: an ahead-of-time compiler from ONNX networks to C99."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mccompile._version import __version__
from mccompile.ir.errors import CompileError, UsageError

if TYPE_CHECKING:
    from mccompile.api.functions import bench, check, compile, inspect, load
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


def __getattr__(name: str) -> Any:
    """The functions, when they are asked for: commands start without them."""
    if name in __all__:
        return getattr(importlib.import_module("mccompile.api.functions"), name)
    raise AttributeError(f"module 'mccompile' has no attribute '{name}'")
