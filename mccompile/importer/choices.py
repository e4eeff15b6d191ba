"""Several fixed extents in one program: a graph for each of them, of which the program runs one.

Worked example: `--dim n=16,64` of x[n, 8] -> y[n, 2] gives::

    graph @net(%x: f32[n,8]) extents(n=16|64) {
      %n.now = extents() {values=(n,)} : i64[1]
      %n.is_16 = map(%n.now) {expr={(x0 == i64(16))}} : bool[1]
      %y = choose(%n.is_16, %x) {...} regions { graph @net.n16(%x: f32[16,8]) ... graph @net.n64(%x: f32[64,8]) ... }
    }

Both graphs read and write the memory of x and y as tensors of their own extents; all numbers in their kernels are
known when the network is compiled. Weights that both of them store alike are stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import chosen, varies
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import I64, TensorType
from mccompile.ops.branch import Choose
from mccompile.ops.extents import Extents
from mccompile.ops.map import Map


def through(extent: int, points: Mapping[int, int]) -> int | None:
    """The extent that is ``points[n]`` where one of several numbers is n: a constant, or ``(a * n + b) // c``, where
    other extents may be in a and b; None where there is no such.

    >>> through(chosen("n", (16, 64)), {16: 9, 64: 33})
    (n//2)+1
    """
    (x, first), *_, (end, last) = points.items()
    if varies(points.values()):
        more = {n: y - first for n, y in points.items()}
        if not varies(more.values()):
            rest = through(extent, more)
            return None if rest is None else first + rest
        slope = (last - first) // (end - x)
        return first + (extent - x) * slope if all((n - x) * slope == y for n, y in more.items()) else None
    for part in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 32, 64, 128, 160, 256, 320, 512):
        below = (last - first) * part // (end - x)
        for slope in (below, below + 1):  # the quotients at both ends are rounded down, so that it may be either
            least = max(y * part - n * slope for n, y in points.items())
            if all((n * slope + least) // part == y for n, y in points.items()):
                return (extent * slope + least) // part
    return None


@dataclass(frozen=True)
class _Fitted:
    """The types of inputs or outputs for each number, as types of one extent that is one of these numbers."""

    dim: str
    extent: int
    numbers: tuple[int, ...]

    def types(self, kind: str, ports: Mapping[int, Sequence[Value]]) -> list[TensorType]:
        columns = list(zip(*(ports[number] for number in self.numbers), strict=True))
        return [self._type(f"{kind} {column[0].name!r}", column) for column in columns]

    def _type(self, what: str, column: Sequence[Value]) -> TensorType:
        first = column[0].type
        if any((v.dtype, v.type.rank) != (first.dtype, first.rank) for v in column):
            raise CompileError(f"{what} has other axes for other numbers of '{self.dim}'", hint="give one number")
        shape = []
        for axis in range(first.rank):
            extents = [v.shape[axis] for v in column]
            found = through(self.extent, dict(zip(self.numbers, extents, strict=True)))
            if found is None and varies(extents):
                raise CompileError(
                    f"axis {axis} of {what} is as long as the run finds out, whichever number '{self.dim}' is",
                    hint=f"give a range, or one number: --dim {self.dim}={self.numbers[0]}..{self.numbers[-1]}",
                )
            if found is None:
                at = ", ".join(f"{e} for {n}" for n, e in zip(self.numbers, extents, strict=True))
                raise CompileError(
                    f"axis {axis} of {what} follows no rule that depends on '{self.dim}': it is {at}",
                    hint=f"give one number: --dim {self.dim}={self.numbers[-1]}",
                )
            shape.append(found)
        return TensorType(first.dtype, tuple(shape))


def together(name: str, dim: str, word: str, graphs: Mapping[int, Graph]) -> Graph:
    """One graph of those for the numbers that ``dim`` may be, in ascending order, which is called ``word`` when the
    program runs. CompileError if their inputs or outputs cannot be those of one program."""
    numbers = tuple(graphs)
    extent = chosen(word, numbers)
    fitted = _Fitted(dim, extent, numbers)
    inputs = fitted.types("input", {n: g.inputs for n, g in graphs.items()})
    outputs = fitted.types("output", {n: g.outputs for n, g in graphs.items()})
    names = [v.name for v in graphs[numbers[0]].outputs]
    whole = Graph(name)
    read = [whole.value(v.name, t) for v, t in zip(graphs[numbers[0]].inputs, inputs, strict=True)]
    whole.inputs = list(read)
    now = whole.emit(Extents((extent,), (1,)), [], [f"{dim}.now"])
    conditions = []
    for number in numbers[:-1]:
        same = ex.apply("eq", ex.var(0, I64), ex.num(number, I64))
        conditions += whole.emit(Map(same), now, [f"{dim}.is_{number}"])
    extents = tuple(e for t in outputs for e in t.shape)
    op = Choose(tuple(t.dtype.name for t in outputs), tuple(t.rank for t in outputs), extents)
    whole.outputs = _chosen(whole, op, [graphs[n] for n in numbers], conditions, read, names)
    for value, output in zip(whole.outputs, names, strict=True):
        whole.rename(value, output)  # where a condition above has that name
    return whole


def _chosen(
    graph: Graph, op: Choose, graphs: Sequence[Graph], conditions: Sequence[Value], read: Sequence[Value],
    names: Sequence[str],
) -> list[Value]:
    """The node that computes the first graph where the first condition holds, else one of the others."""
    first, *others = graphs
    condition, *later = conditions
    first.inputs = [*(first.value(c.name, c.type) for c in later), *first.inputs]
    if later:
        rest = Graph(f"{first.name}.else")
        inner = [rest.value(v.name, v.type) for v in (*later, *read)]
        rest.inputs = list(inner)
        rest.outputs = _chosen(rest, op, others, inner[: len(later)], inner[len(later) :], names)
    else:
        (rest,) = others
    return list(graph.emit(op, [condition, *later, *read], list(names), regions=[first, rest]))
