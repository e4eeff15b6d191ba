"""Operators that draw random numbers take them from further inputs of the network (``--random input``).

    y = RandomNormalLike(x[n, 4], scale=2)     is     an input y.normal[n, 4], and y = 2 * y.normal

An input has the shape of what is drawn, where its extents are those of other inputs. Where the run finds them out, or
computes them, it has the largest there may be, of which the first are taken.
"""

from __future__ import annotations

from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.importer.refusals import unsupported
from mccompile.importer.sequences import Known
from mccompile.ir.dims import Dim, bound
from mccompile.ir.graph import Graph
from mccompile.ir.types import DTYPES, F32, TensorType
from mccompile.onnxio import DRAWING, Draw, OnnxNode, dtype_name, taking
from mccompile.ops.frontend import Import


@dataclass
class Draws:
    """What a model draws: `wanted` says that inputs of ``graph`` are to be made of it, and they are ``made``."""

    wanted: bool = False
    graph: Graph | None = None
    made: list[Draw] = field(default_factory=list)

    def begin(self, graph: Graph) -> None:
        """Begin with a graph in which nothing is drawn yet."""
        self.graph = graph
        self.made.clear()

    @property
    def notes(self) -> list[str]:
        """A sentence for each input."""
        kinds = {
            "normal": "normal distribution of mean 0 and deviation 1",
            "uniform": "uniform distribution from 0 to below 1",
        }
        return [f"input {d.name!r} takes draws from the {kinds[d.kind]}" for d in self.made]


def draw(draws: Draws, values: dict[str, Known], n: Import) -> list[OnnxNode] | None:
    """The nodes in place of one that draws, whose input is there then; None for other nodes.

    CompileError where draws are not wanted, or would be others in each turn of a loop.
    """
    if n.node.domain or n.op_type not in DRAWING:
        return None
    if not draws.wanted:
        raise unsupported(n.node)
    shape = _shape(n)
    assert draws.graph is not None
    known = {e for v in draws.graph.inputs for e in v.shape}
    cut = any(isinstance(e, Dim) and e not in known for e in shape)
    dtype = _dtype(n)
    output, kind = n.node.outputs[0], DRAWING[n.op_type]
    if n.graph is not draws.graph or any(d.output == output for d in draws.made):
        raise n.error(f"{n.op_type} in a loop, or on condition, draws anew each time", "draw in the main graph")
    if cut and n.op_type == "Multinomial":
        raise n.error("Multinomial is not supported where its extents are computed", "give each dim one number")
    made = Draw(n.names.fresh(f"{output}.{kind}"), output, kind, len(shape), dtype, cut)
    port = draws.graph.value(made.name, TensorType(F32, tuple(bound(e) for e in shape) if cut else shape))
    draws.graph.inputs.append(port)
    values[made.name] = port
    draws.made.append(made)
    return taking(n.node, made, n.names)


def _shape(n: Import) -> tuple[int, ...]:
    """The extents of the draws."""
    if n.op_type in ("RandomNormal", "RandomUniform"):
        return n.required("shape", tuple)
    if n.op_type == "Multinomial":
        rows, columns = n.input(0).shape
        return (rows, n.attr("sample_size", 1), columns)
    return n.input(0).shape


def _dtype(n: Import) -> str:
    """The element type of the result."""
    if "dtype" in n.node.attrs:
        dtype = dtype_name(n.attr("dtype"))
    elif n.op_type == "Multinomial":
        dtype = "i32"
    else:
        dtype = n.input(0).dtype.name if n.inputs else "f32"
    if dtype not in DTYPES:
        raise n.error(f"draws of {dtype} are not supported", f"{', '.join(DTYPES)} are")
    return dtype
