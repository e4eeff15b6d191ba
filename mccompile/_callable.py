"""Packages that can be called: `mccompile.check` is the package that checks, and the function that does it.

Python binds a package's name in the one around it whenever something of it is imported, over any function of that
name. So the function is what happens when the package is called.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package that is called as the function of its name in `mccompile.api.functions`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)

    @property
    def _function(self) -> Any:
        functions = importlib.import_module("mccompile.api.functions").FUNCTIONS
        return functions[self.__name__.rpartition(".")[2]]

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)


def make_callable(name: str) -> None:
    """Let the package ``name`` be called."""
    sys.modules[name].__class__ = CallablePackage
