"""What operators say of themselves, on the nodes that samples of all front ends become: what `evaluate` does counts.

An element of an operand is changed: the elements of the results that change with it have to be those of which
`structure` says that they depend on it. `multilinear`, `selects` and `value_range` are held against results.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.driver import Options, import_graph
from mccompile.ir import expr as ex
from mccompile.ir.affine import positions
from mccompile.ir.graph import Graph
from mccompile.ir.op import Op
from mccompile.ir.ranges import of_array
from mccompile.ir.structure import Nest
from mccompile.ir.types import TensorType, dtype_of
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case
from mccompile.passes.analysis.axes import kept_axes
from tests._fast import share
from tests.support.draw import SeededDraw
from tests.support.opcases import case_inputs, case_model

Array = np.ndarray[Any, Any]

SEEDS = range(3)
CHANGED = 3
"""Elements of an operand that are changed, one after the other."""
MOST_POINTS = 200_000
"""Of a nest; larger ones are left out."""
FRONT_ENDS = [f for f in front_ends().values() if f.sample is not None]


@dataclass(frozen=True)
class Applied:
    """An operator and what it was given somewhere in a sample."""

    op: Op
    arrays: tuple[Array | None, ...]

    @property
    def types(self) -> tuple[TensorType | None, ...]:
        return tuple(None if a is None else TensorType(dtype_of(a), a.shape) for a in self.arrays)

    def wide(self) -> Applied:
        """In float64."""
        return Applied(self.op, tuple(a if _float(a) is None else np.asarray(a, np.float64) for a in self.arrays))

    def results(self, *changed: tuple[int, Array], wide: bool = False) -> tuple[Array, ...]:
        given = list(self.arrays)
        for i, array in changed:
            given[i] = array
        with np.errstate(all="ignore"):
            return self.op.evaluate_wide(*given) if wide else self.op.evaluate(*given)


@functools.cache
def applied(op_type: str, domain: str, folder: Path) -> list[Applied]:
    """Every operator that samples of a front end become, with operands in the sample."""
    front_end = next(f for f in FRONT_ENDS if (f.op_type, f.domain) == (op_type, domain))
    found = []
    for seed in SEEDS:
        assert front_end.sample is not None
        case = front_end.sample(SeededDraw(seed))
        path = folder / f"{front_end.op_type}{seed}.onnx"
        path.write_bytes(case_model(front_end, case).SerializeToString())
        graph = import_graph(path, Options(name="net")).graph
        found += list(_applied(graph, case))
    return found


def _applied(graph: Graph, case: Case) -> Iterator[Applied]:
    values = {v: graph.array(v) for v in graph.constants}
    values |= {v: case_inputs(case)[v.name] for v in graph.inputs}
    for node in graph.nodes:
        yield Applied(node.op, tuple(node.operand_arrays(values)))
        values |= dict(zip(node.results, node.evaluate(values), strict=True))


# -- structure -----------------------------------------------------------------------------------------------------
def dependents(a: Applied, nest: Nest, operand: int, at: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """For each element of a result whether it depends on the element ``at`` of an operand."""
    found = np.zeros(shape, dtype=bool)
    reads = nest.reads[operand]
    if reads is None:
        return found
    known = [(m, c) for m, c in zip(reads, at, strict=True) if m is not None]
    hit = np.ones(nest.loops, dtype=bool)
    for index, c in zip(positions(tuple(m for m, _ in known), nest.loops), [c for _, c in known], strict=True):
        hit &= index == c
    writes = positions(nest.writes, nest.loops)
    hit &= inside(writes, shape)
    for coordinates, other in zip(nest.reads, a.arrays, strict=True):
        if coordinates is not None and other is not None:
            said = [(m, e) for m, e in zip(coordinates, other.shape, strict=True) if m is not None]
            hit &= inside(positions(tuple(m for m, _ in said), nest.loops), [e for _, e in said])
    found[tuple(index[hit] for index in writes)] = hit.any()
    return found


def inside(index: Sequence[Array], shape: Sequence[int]) -> Array:
    """Where indices lie in a tensor of ``shape``."""
    found = np.ones((), dtype=bool)
    for at, extent in zip(index, shape, strict=True):
        found = found & (at >= 0) & (at < extent)
    return found


def changed(a: Applied, operand: int, at: tuple[int, ...]) -> list[Array]:
    """For each result the elements that change when one of an operand does, to more or less."""
    array, before = a.arrays[operand], a.results(wide=True)
    assert array is not None
    found = [np.zeros(r.shape, dtype=bool) for r in before]
    for value in _others(array[at]):
        other = array.copy()
        other[at] = value
        for mask, old, new in zip(found, before, a.results((operand, other), wide=True), strict=True):
            mask |= (old != new) & ~((old != old) & (new != new))
    return found


def _others(value: Any) -> list[Any]:
    if value.dtype.kind == "b":
        return [not value]
    if value.dtype.kind == "f":
        return [value.dtype.type(v) for v in (value + 1, value - 1, 50, -50)]
    info = np.iinfo(value.dtype)
    return [min(int(value) + 1, info.max), max(int(value) - 1, info.min)]


def is_index(a: Applied, operand: int) -> bool:
    """Whether an operand says where elements are: others than those given may lie outside."""
    array = a.arrays[operand]
    return operand > 0 and array is not None and array.dtype.kind in "iu" and a.op.elementwise is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("structure")


@pytest.mark.parametrize("front_end", share(FRONT_ENDS, 3), ids=lambda f: f.op_type)
def test_results_change_where_the_structure_says(front_end: FrontEnd, folder: Path) -> None:
    rng = np.random.default_rng(1)
    for a in applied(front_end.op_type, front_end.domain, folder):
        nests = a.op.structure(a.types)
        if not nests or any(np.prod(n.loops) > MOST_POINTS for n in nests):
            continue
        shapes = [t.shape for t in a.op.infer(*a.types)]
        for operand, array in enumerate(a.arrays):
            if array is None or array.size == 0 or is_index(a, operand):
                continue
            for _ in range(CHANGED):
                at = tuple(int(rng.integers(e)) for e in array.shape)
                said = [np.zeros(s, dtype=bool) for s in shapes]
                for nest in nests:
                    said[nest.result] |= dependents(a, nest, operand, at, shapes[nest.result])
                for seen, may in zip(changed(a.wide(), operand, at), said, strict=True):
                    assert not (seen & ~may).any(), f"{a.op} changes elsewhere with {at} of operand {operand}"
                    if depends_surely(a, operand):
                        assert np.array_equal(seen, may), f"{a.op} does not change with {at} of operand {operand}"


def depends_surely(a: Applied, operand: int) -> bool:
    """Whether every element that may depend on another does, whatever the others are."""
    reads = [n.reads[operand] for n in a.op.structure(a.types)]
    exact = all(r is None or None not in r for r in reads)
    finite = all(x is None or (np.isfinite(x).all() and (x != 0).all()) for x in map(_float, a.arrays))
    given = a.arrays[operand]
    fine = given is not None and given.dtype.kind == "f"
    return exact and fine and finite and a.op.name in SURE


def _float(a: Array | None) -> Array | None:
    return None if a is None or a.dtype.kind != "f" else a


SURE = {"conv", "conv_transpose", "matmul", "pool", "reduce", "concat", "slice", "split", "transpose", "expand",
        "pad", "repeat", "tile", "take", "reshape", "space_to_depth", "depth_to_space"}  # fmt: skip
"""Operators in which nothing cancels: a maximum becomes what is far more, a sum changes with each term."""


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_what_is_kept_index_by_index_does_not_know_its_neighbours(front_end: FrontEnd, folder: Path) -> None:
    """Without the first channel the results are the others' results: a place among all channels would be another."""
    for a in applied(front_end.op_type, front_end.domain, folder):
        x = a.arrays[0] if a.arrays else None
        for axis in range(0 if x is None else x.ndim):
            assert x is not None
            axes = kept_axes(a.op, a.types, axis) if x.shape[axis] > 1 and not a.op.varying else None
            if axes is not None:
                less = a.wide().results((0, np.delete(a.wide().arrays[0], 0, axis)), wide=True)
                for found, result, kept in zip(less, a.wide().results(wide=True), axes, strict=True):
                    np.testing.assert_allclose(found, np.delete(result, 0, kept), 1e-9, 1e-9, err_msg=str(a.op))


# -- multilinear, selects, value_range -----------------------------------------------------------------------------
@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_results_are_linear_in_what_is_said_to_be(front_end: FrontEnd, folder: Path) -> None:
    rng = np.random.default_rng(2)
    for a in applied(front_end.op_type, front_end.domain, folder):
        for operand in a.op.multilinear:
            x = a.arrays[operand]
            assert x is not None
            if x.dtype.kind != "f":
                continue
            wide = tuple(v if v is None or v.dtype.kind != "f" else rng.normal(size=v.shape) for v in a.arrays)
            given = Applied(a.op, wide)
            p, q = rng.normal(size=x.shape), rng.normal(size=x.shape)
            both, left, right = (
                given.results((operand, v), wide=True)[0] for v in (2.5 * p - 1.5 * q, p, q)
            )
            np.testing.assert_allclose(both, 2.5 * left - 1.5 * right, rtol=1e-9, atol=1e-9, err_msg=str(a.op))


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_results_are_selected_from_what_is_said_to_be(front_end: FrontEnd, folder: Path) -> None:
    for a in applied(front_end.op_type, front_end.domain, folder):
        if a.op.selects:
            first = a.arrays[0]
            assert first is not None
            given = np.concatenate([x.reshape(-1) for x in a.arrays if x is not None and x.dtype == first.dtype])
            result = a.results()[0]
            assert result.dtype == first.dtype
            assert np.isin(result[result == result], given).all(), a.op
            assert (result == result).all() or (given != given).any()


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_results_lie_in_their_range(front_end: FrontEnd, folder: Path) -> None:
    for a in applied(front_end.op_type, front_end.domain, folder):
        if any(x is not None and (x.size == 0 or (x != x).any()) for x in a.arrays):
            continue
        ranges = [None if x is None else of_array(x, None) for x in a.arrays]
        for result, found in zip(a.results(), a.op.value_range(a.types, ranges), strict=True):
            real = result[result == result].astype(np.float64)
            assert found.low.size == 1
            assert ((real >= found.low) & (real <= found.high)).all(), f"{a.op}: {found} but {result}"


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_an_expression_is_what_an_elementwise_operator_computes(front_end: FrontEnd, folder: Path) -> None:
    for a in applied(front_end.op_type, front_end.domain, folder):
        body = a.op.elementwise
        if body is not None:
            known = [x for x in a.arrays if x is not None]
            want = ex.evaluate(body, lambda i, known=known: known[i])
            np.testing.assert_array_equal(a.results()[0], np.broadcast_to(want, a.results()[0].shape))


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_an_order_is_kept_where_it_is_said_to_be(front_end: FrontEnd, folder: Path) -> None:
    for a in applied(front_end.op_type, front_end.domain, folder):
        if a.op.keeps_order:
            first = a.arrays[0]
            assert first is not None
            np.testing.assert_array_equal(a.results()[0].reshape(-1), first.reshape(-1))
