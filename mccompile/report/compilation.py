"""What was asked of a compilation, and what it knows after each stage: what reports are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mccompile.codegen.library import Library
from mccompile.codegen.model import ModelFacts
from mccompile.ir.graph import Graph
from mccompile.ir.program import Program
from mccompile.lower.cost_table import UNMEASURED, CostTable
from mccompile.lower.lower import Lowered
from mccompile.passes.manager import PassRecord
from mccompile.targets.target import Target


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


@dataclass
class Compilation:
    """The state after each stage; what the report and the dumps are made from."""

    source: str
    sha256: str
    options: Options
    target: Target
    graph: Graph
    notes: list[str]
    onnx_nodes: int = 0
    passes: list[PassRecord] = field(default_factory=list)
    lowered: Lowered | None = None
    program: Program | None = None
    facts: ModelFacts | None = None
    library: Library | None = None
