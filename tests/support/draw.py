"""Where tests get their draws from."""

from __future__ import annotations

from mccompile.ops.draw import SeededDraw

__all__ = ["SeededDraw"]
