"""A compilation: what it knows after each stage."""

from __future__ import annotations

from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.library import Library
from mccompile.importer.outline import Outline
from mccompile.interface.tensors import Interface
from mccompile.ir.graph import Graph
from mccompile.ir.program import Program
from mccompile.kernel_passes.pipeline import Improved
from mccompile.lower.lower import Lowered
from mccompile.onnxio import Draw
from mccompile.passes.manager import PassRecord
from mccompile.search.options import Options
from mccompile.targets.target import Target


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
    outline: Outline = field(default_factory=Outline)
    interface: Interface = field(default_factory=Interface)
    draws: tuple[Draw, ...] = ()
    passes: list[PassRecord] = field(default_factory=list)
    lowered: Lowered | None = None
    improved: Improved | None = None
    program: Program | None = None
    in_vain: str = ""
    """What was tried where no form of the program fits: of the graph before it became that of a form."""
    kernels_given: bool = False
    """Whether it began with kernels as text, of which less is known than of those that are lowered here."""
    facts: ModelFacts | None = None
    library: Library | None = None
