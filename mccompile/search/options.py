"""What is asked of a compilation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mccompile.ir.errors import UsageError
from mccompile.lower.cost_table import UNMEASURED, CostTable
from mccompile.passes.pipeline import PIPELINES

STREAMING = ("auto", "never", "always")
"""What `Options.stream_rows` may be."""


@dataclass(frozen=True)
class Options:
    """How to compile. See `mccompile.compile` for each field.

    ``project`` is the prefix of what several models share, ``share_arena`` lets them lie over one another. ``costs``
    are measurements that selection believes more than estimates.
    """

    target: str = "native"
    opt_level: str = "O2"
    dims: Mapping[str, int] = field(default_factory=dict)
    input_shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    keep_inputs: bool = False
    name: str = ""
    embed: bool = False
    passes: Sequence[str] | None = None
    kernels: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False
    memory: tuple[tuple[str, int], ...] = ()
    ram: int | None = None
    split_kernels: bool = False
    project: str = ""
    share_arena: bool = False
    constants: Mapping[str, Any] = field(default_factory=dict)
    costs: CostTable = UNMEASURED
    max_blob_growth: float = 4.0
    plan_effort: int = 1
    stream_rows: str = "auto"


def require_sense(options: Options) -> None:
    """UsageError for values that no option can have."""
    if options.opt_level not in PIPELINES:
        raise UsageError(f"unknown level {options.opt_level!r}", hint=f"known levels: {', '.join(PIPELINES)}")
    if options.stream_rows not in STREAMING:
        raise UsageError(f"rows are streamed {', '.join(STREAMING)}, not {options.stream_rows!r}")
    names = [name for name, _ in options.memory]
    for name, size in options.memory:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise UsageError(f"{name!r} is no name for a memory", hint="lower case letters and digits, such as dtcm")
        if names.count(name) > 1:
            raise UsageError(f"the memory {name} is given twice")
        if size < 1:
            raise UsageError(f"the memory {name} has {size} bytes")
