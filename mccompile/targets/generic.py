"""Strict C99 for any compiler and any processor."""

from __future__ import annotations

from mccompile.targets.target import Target

TARGET = Target(name="generic", summary="portable C99, no vector unit assumed", requant="fixed")
