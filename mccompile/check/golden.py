"""Writes `test_<model>.c`: inputs and expected outputs in C, for a firmware's own tests, where there is no Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile._files import is_same_place
from mccompile.check.compare import allowances, channel_axis
from mccompile.check.drawn import given_symbols
from mccompile.check.factors import Factors
from mccompile.check.judged import Judged, judged_stream
from mccompile.check.reference import Expected
from mccompile.check.streams import GoldenRun
from mccompile.codegen.blob import declare_c
from mccompile.codegen.folder import write_folder
from mccompile.codegen.initialisers import special
from mccompile.codegen.ports import Port
from mccompile.codegen.templates import indent_c, render
from mccompile.driver import Compilation
from mccompile.ir.dims import symbols, value
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.files import SUFFIX
from mccompile.ir.graph import Graph
from mccompile.ir.small_floats import bf16_values
from mccompile.ir.types import DTYPES

Array = np.ndarray[Any, np.dtype[Any]]

MAX_BYTES = 2 * 1024 * 1024
"""Of inputs and expected outputs together; their text in C is about five times as large."""

PER_LINE = 8


@dataclass(frozen=True)
class Sample:
    """An input or expected output as the template prints it: literals by line, the tolerance of each channel.

    Of an input there is one array, which each run gets, or one for each run, one behind the other; of an output one
    for each run. Its elements are compared as ``kind``, "" for those that have to be equal.
    """

    port: Port
    lines: list[str]
    shapes: list[tuple[int, ...]]
    allowed: list[list[str]]
    kind: str = ""

    @property
    def count(self) -> int:
        """Of all elements in C, which has no arrays of none."""
        return max(sum(self.counts), 1)

    @property
    def has_elements(self) -> bool:
        return any(self.counts)

    @property
    def counts(self) -> list[int]:
        """The elements of each array."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def limits(self) -> list[str]:
        """The tolerances of all runs."""
        return [x for run in self.allowed for x in run] or ["0.0"]

    @property
    def places(self) -> list[list[int]]:
        """Of each array: where its elements begin and how many there are, where its tolerances begin, its channels,
        and how many neighbours are of one channel: element i belongs to channel ``i / inner % channels``."""
        found, begin, limit = [], 0, 0
        for shape, count, allowed in zip(self.shapes, self.counts, self.allowed, strict=True):
            axis = channel_axis(len(shape))
            inner = 1 if axis is None else math.prod(shape[axis + 1 :])
            found.append([begin, count, limit, max(len(allowed), 1), max(inner, 1)])
            begin, limit = begin + count, limit + len(allowed)
        return found

    @property
    def alike(self) -> bool:
        """Whether all arrays have one shape."""
        return len(set(self.shapes)) == 1


def golden_files(
    compilation: Compilation,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    noise: Mapping[str, Array] | None = None,
    later: Sequence[GoldenRun] = (),
    judge: str = "the reference",
) -> dict[str, bytes]:
    """`test_<model>.c` for a finished compilation.

    Args:
        inputs, outputs: an array for each input and output of the model that is no state, by ONNX name.
        noise: of the outputs, where it is known (see `compare.tolerances`).
        later: further runs, where the network keeps state: their inputs, of which those that grow with it are others,
            and what to expect.
        judge: whose outputs these are, for the comment.

    Raises:
        UsageError: an array is missing, or of another shape or element type.
        CompileError: more than `MAX_BYTES` of arrays, or an output whose extents a run tells.
    """
    facts = compilation.facts
    assert facts is not None
    runs: list[GoldenRun] = [(inputs, Expected(dict(outputs), dict(noise or {}))), *later]
    extents = _extents(compilation.graph, len(runs))
    pairs = list(zip(runs, extents, strict=True))
    given = {p.name: [_array(p, one, e, "input") for (one, _), e in pairs] for p in facts.inputs}
    given = {n: arrays if _differ(arrays) else arrays[:1] for n, arrays in given.items()}
    wanted = {p.name: [_array(p, one.values, e, "output") for (_, one), e in pairs] for p in facts.outputs}
    total = sum(a.nbytes for arrays in (*given.values(), *wanted.values()) for a in arrays)
    if total > MAX_BYTES:
        raise CompileError(
            f"a golden test of {total} bytes of inputs and outputs is too large: at most {MAX_BYTES}",
            where=compilation.source,
            hint="compare with `mccompile check --inputs --expect` instead",
        )
    factors, halves = Factors.of(compilation.graph), compilation.interface.halves
    samples = []
    for port in facts.outputs:
        name, allowed = port.name, []
        for array, (_, one) in zip(wanted[name], runs, strict=True):
            numbers = bf16_values(array) if name in halves else array
            allowed.append(allowances(numbers, one.of_channels.get(name), factors(name)))
        samples.append(_sample(port, wanted[name], allowed, "bf16" if name in halves else port.dtype))
    feeds = [_sample(p, given[p.name]) for p in facts.inputs]
    text = render(
        "_model/test_model.c.j2",
        m=facts,
        sources=f"{facts.name}.c{', the kernels' if facts.kernels_header else ''} and mcc.c",
        blob_declaration=declare_c(f"{facts.name}_blob", facts.blob),
        inputs=feeds,
        outputs=samples,
        runs=len(runs),
        judge=judge,
        uses_math=any("NAN" in x or "INFINITY" in x for s in (*feeds, *samples) for x in s.lines),
        near_types=sorted({(s.kind, s.port.c) for s in samples if s.kind}),
        exact_types=sorted({s.port.c for s in samples if not s.kind}),
    )
    return {f"test_{facts.name}.c": indent_c(text).encode()}


def reference_golden(
    model: Path, inputs: Mapping[str, Array] | None = None, seed: int = 0
) -> Callable[[Compilation], dict[str, bytes]]:
    """For `driver.compile`'s ``extra``: a golden test on ``inputs``, or random ones, with the reference's outputs.

    Where numbers are rounded to 8 or 16 bits, or weights or products are of fewer bits, the outputs are those of the
    graph, which the reference has judged: it may fall to the other side of a tie itself (`judged`).

    UsageError where the model is IR text, which no reference computes, or ``inputs`` do not fit it. CompileError
    where the graph is wrong.
    """

    def files(c: Compilation) -> dict[str, bytes]:
        if model.suffix == SUFFIX:
            raise UsageError("--golden needs the .onnx model: the expected outputs are computed from it")
        assert c.facts is not None
        if inputs is not None:
            (extents,) = _extents(c.graph, 1)
            for port in c.facts.inputs:
                _array(port, inputs, extents, "input")
        stream = judged_stream(model, c)
        (given, first), *later = stream.drawn_runs(c, seed) if inputs is None else stream.runs(inputs)
        judge = stream.expects if isinstance(stream, Judged) else "the reference"
        return golden_files(c, given, first.values, first.of_channels, later, judge)

    return files


class GoldenFolder:
    """Where golden tests go: beside the generated files, with which they are written or not at all, or elsewhere.

    Args:
        folder: where they are to be; None: there are to be none.
        out: where the generated files are.
    """

    def __init__(self, folder: Path | None, out: Path) -> None:
        self.folder = folder
        self.beside = folder is not None and is_same_place(folder, out)
        self.tests: dict[str, bytes] = {}

    def extra(self, model: Path, c: Compilation, inputs: Mapping[str, Array] | None = None) -> dict[str, bytes]:
        """For `driver.compile`'s ``extra``: makes the test of a model; returns it if it is to lie beside the C."""
        if self.folder is None:
            return {}
        self.tests.update(reference_golden(model, inputs)(c))
        return self.tests if self.beside else {}

    def write(self) -> None:
        """Write the tests where they lie elsewhere. CompileError if that fails."""
        if self.folder is not None and not self.beside:
            write_folder(self.folder, self.tests)


def _extents(graph: Graph, runs: int) -> list[dict[str, int]]:
    """The extents of each run: those of the caller stay at their bounds, with which a network begins; those of state
    grow from their least."""
    growths = graph.growths().values()
    least = {s.name: s.low for _, v in graph.state_values() for s in symbols(*v.shape)}
    found = [{s.name: s.high for s in given_symbols(graph)} | least]
    for _ in range(runs - 1):
        found.append(found[-1] | {g.name: found[-1][g.name] + value(g.by, found[-1]) for g in growths})
    return found


def _array(port: Port, arrays: Mapping[str, Array], extents: Mapping[str, int], what: str) -> Array:
    """The array of an input or output in a run."""
    if port.name not in arrays:
        raise UsageError(f"no array is given for {what} {port.name!r}")
    array = np.asarray(arrays[port.name])
    if what == "output" and port.varies and port.counted:
        raise CompileError(
            f"output {port.name!r} is {port.shape_text}: each run tells how large it is, and no golden test asks",
            hint="compare with `mccompile check` instead",
        )
    shape = tuple(value(e, extents) for e in port.extents)
    if what == "input" and port.varies and array.shape != shape and array.ndim == len(shape):
        raise UsageError(
            f"input {port.name!r} is {list(array.shape)}, and a golden test has all extents at their bounds: "
            f"{list(shape)}",
            hint="give inputs of these shapes, or compare with `mccompile check --inputs`",
        )
    if array.shape != shape or array.dtype != DTYPES[port.dtype].numpy:
        raise UsageError(f"{what} {port.name!r} is {array.dtype}{list(array.shape)}, not {port.shape_text}")
    return array


def _differ(arrays: Sequence[Array]) -> bool:
    """Whether runs get different inputs."""
    return any(a.shape != arrays[0].shape for a in arrays)


def _sample(port: Port, arrays: Sequence[Array], allowed: Sequence[Array] = (), kind: str = "") -> Sample:
    limits = [[float(x).hex() for x in run] for run in allowed]
    near = DTYPES[port.dtype].is_float or kind == "bf16" or any(run.any() for run in allowed)
    lines = [line for a in arrays for line in literals(a)] or ["0"]
    return Sample(port, lines, [a.shape for a in arrays], limits or [[] for _ in arrays], kind if near else "")


def literals(array: Array) -> list[str]:
    """C initialisers of an array's elements in row-major order, `PER_LINE` to a line; f16 as its bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype == np.float16:
        words = [f"0x{bits:04X}u" for bits in flat.view(np.uint16).tolist()]
    elif flat.dtype.kind == "f":
        suffix = "f" if flat.dtype == np.float32 else ""
        words = [_float_literal(x, suffix) for x in flat.astype(np.float64).tolist()]
    elif flat.dtype.kind == "b":
        words = ["1u" if x else "0u" for x in flat.tolist()]
    else:
        words = [_int_literal(x, flat.dtype) for x in flat.tolist()]
    return [", ".join(words[i : i + PER_LINE]) for i in range(0, len(words), PER_LINE)]


def _float_literal(x: float, suffix: str) -> str:
    """Hexadecimal, so that not one bit depends on the C compiler's rounding."""
    return x.hex() + suffix if np.isfinite(x) else special(x, double=not suffix)


def _int_literal(x: int, dtype: np.dtype[Any]) -> str:
    """The least value of a signed type is no literal in C: its minus sign is an operator."""
    if dtype.kind == "u":
        return f"UINT64_C({x})" if dtype.itemsize == 8 else f"{x}u"
    if dtype.itemsize == 8:
        return f"(-INT64_C({-(x + 1)}) - 1)" if x == np.iinfo(np.int64).min else f"INT64_C({x})"
    return "(-2147483647 - 1)" if x == np.iinfo(np.int32).min else str(x)
