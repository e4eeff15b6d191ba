"""What the runs of a check are given where a user gives nothing: inputs and extents by a seed, and how many runs.

    f32[b, 3], b = 1..8, seeds 0, 1, 2    ->    f32[8, 3], f32[1, 3], f32[5, 3] of normal(0, 1)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mccompile.check.edges import with_edges
from mccompile.driver import Compilation
from mccompile.ir.dims import symbols
from mccompile.ir.dims_terms import Symbol
from mccompile.ir.graph import Graph
from mccompile.ir.small_floats import bf16_bits
from mccompile.ir.types import TensorType
from mccompile.run.memory import Array


def drawn_extents(c: Compilation, seed: int) -> dict[str, int]:
    """The extents that the caller gives, for inputs of ``seed``: of every three seeds one has all at their bounds,
    one all at the least, one each somewhere in between; of several numbers one after the other, the largest first."""
    rng = np.random.default_rng([seed, 3])
    found = {}
    for s in given_symbols(c.graph):
        inner = s.values[1:-1] or s.values
        values = s.choices[::-1] or (s.high, s.low, inner[int(rng.integers(len(inner)))])
        found[s.name] = values[seed % len(values)]
    return found


def drawn_cases(c: Compilation) -> int:
    """How many seeds draw all that extents are to be checked with: two, three where any has a range, or as many as
    there are to choose from."""
    return max([2, *(len(s.choices) or min(len(s.values), 3) for s in given_symbols(c.graph))])


def given_symbols(graph: Graph) -> list[Symbol]:
    """The symbols of the extents that the caller gives."""
    return symbols(*(e for v in graph.fed for e in v.shape))


def bounds_of(graph: Graph) -> dict[str, int]:
    """The largest extents of all inputs, by name."""
    return {s.name: s.high for s in symbols(*(e for v in graph.inputs for e in v.shape))}


def drawn_inputs(c: Compilation, seed: int, extents: Mapping[str, int], edges: bool = False) -> dict[str, Array]:
    """`random_inputs` of a compilation at ``extents``, but for what is state, `with_edges` if these are asked for;
    bytes that stand for other numbers of the model are any bytes, text is short, and bits of bfloat16 are those of
    normal(0, 1)."""
    types = {v.name: v.type.at(extents) for v in c.graph.fed}
    inputs = random_inputs(types, seed)
    inputs = with_edges(c.graph, inputs, seed) if edges else inputs
    rng = np.random.default_rng([seed, 1])
    for draw in c.draws:
        if draw.kind == "uniform":
            inputs[draw.name] = np.random.default_rng([seed, 2]).random(types[draw.name].shape, np.float32)
    for name, t in types.items():
        if c.interface.changes(name):
            info = np.iinfo(t.dtype.numpy.name)
            inputs[name] = rng.integers(info.min, info.max + 1, t.shape).astype(t.dtype.numpy)
        elif name in c.interface.halves:
            inputs[name] = bf16_bits(rng.standard_normal(t.shape))
        elif name in c.interface.texts:
            inputs[name] = _random_texts(rng, t.shape)
    return inputs


def _random_texts(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Text of one to three of the first letters: some of it is equal."""
    *extents, most = shape
    letters = rng.integers(ord("a"), ord("d"), (*extents, most))
    return np.where(np.arange(most) < rng.integers(1, 4, (*extents, 1)), letters, 0).astype(np.uint8)


def random_inputs(types: Mapping[str, TensorType], seed: int) -> dict[str, Array]:
    """Inputs by name: the same ones for the same types and seed.

    Floats are normal(0, 1). 8- and 16-bit integers are uniform in 0..127, as pixels and quantised data may be.
    32- and 64-bit integers are 0 or 1: mostly they are indices, lengths or masks, where more may be out of
    range. Booleans are fair coins.
    """
    rng = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    for name, t in types.items():
        if t.dtype.is_float:
            array: Array = np.asarray(rng.standard_normal(t.shape))
        elif t.dtype.kind == "b" or t.dtype.nbytes > 2:
            array = np.asarray(rng.integers(0, 2, t.shape))
        else:
            array = np.asarray(rng.integers(0, 128, t.shape))
        inputs[name] = array.astype(t.dtype.numpy)
    return inputs
