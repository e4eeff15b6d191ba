"""Writes `test_<model>.c`: inputs and expected outputs in C, for a firmware's own tests, where there is no Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.compare import channel_axis, tolerances
from mccompile.check.factors import Factors
from mccompile.check.reference import drawn_inputs
from mccompile.check.streams import stream_of_c
from mccompile.codegen.blob import declare_c
from mccompile.codegen.folder import write_folder
from mccompile.codegen.initialisers import special
from mccompile.codegen.ports import Port
from mccompile.codegen.templates import indent_c, render
from mccompile.driver import Compilation
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.files import SUFFIX
from mccompile.ir.types import DTYPES

Array = np.ndarray[Any, np.dtype[Any]]

MAX_BYTES = 2 * 1024 * 1024
"""Of inputs and expected outputs together; their text in C is about five times as large."""

PER_LINE = 8


@dataclass(frozen=True)
class Sample:
    """An input or expected output as the template prints it: literals by line, the tolerance of each channel.

    Element i belongs to channel ``i / inner % channels``. Of an output there are so many ``runs``, one after the
    other.
    """

    port: Port
    lines: list[str]
    allowed: list[str]
    inner: int = 1
    runs: int = 1

    @property
    def exact(self) -> bool:
        return not DTYPES[self.port.dtype].is_float

    @property
    def channels(self) -> int:
        return len(self.allowed) // self.runs


def golden_files(
    compilation: Compilation,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    noise: Mapping[str, Array] | None = None,
    later: Sequence[Mapping[str, Array]] = (),
) -> dict[str, bytes]:
    """`test_<model>.c` for a finished compilation.

    Args:
        inputs, outputs: an array for each input and output of the model that is no state, by ONNX name.
        noise: of the outputs, where it is known (see `compare.tolerances`).
        later: the outputs of further runs on these inputs, where the network keeps state.

    Raises:
        UsageError: an array is missing, or of another shape or element type.
        CompileError: more than `MAX_BYTES` of arrays, or an output whose extents a run tells.
    """
    facts = compilation.facts
    assert facts is not None
    given = [_array(p, inputs, "input") for p in facts.inputs]
    wanted = [[_array(p, run, "output") for run in (outputs, *later)] for p in facts.outputs]
    total = sum(a.nbytes for a in (*given, *(a for runs in wanted for a in runs)))
    if total > MAX_BYTES:
        raise CompileError(
            f"a golden test of {total} bytes of inputs and outputs is too large: at most {MAX_BYTES}",
            where=compilation.source,
            hint="compare with `mccompile check --inputs --expect` instead",
        )
    factors = Factors.of(compilation.graph)
    samples = []
    for port, arrays in zip(facts.outputs, wanted, strict=True):
        allowed = [tolerances(a, (noise or {}).get(port.name), factors(port.name)) for a in arrays]
        axis = channel_axis(arrays[0].ndim)
        inner = 1 if axis is None else int(np.prod(arrays[0].shape[axis + 1 :], dtype=np.int64))
        lines = [line for a in arrays for line in literals(a)]
        samples.append(Sample(port, lines, [float(x).hex() for run in allowed for x in run], inner, len(arrays)))
    feeds = [Sample(p, literals(a), []) for p, a in zip(facts.inputs, given, strict=True)]
    text = render(
        "_model/test_model.c.j2",
        m=facts,
        sources=f"{facts.name}.c{', the kernels' if facts.kernels_header else ''} and mcc.c",
        blob_declaration=declare_c(f"{facts.name}_blob", facts.blob),
        inputs=feeds,
        outputs=samples,
        runs=1 + len(later),
        uses_math=any("NAN" in x or "INFINITY" in x for s in (*feeds, *samples) for x in s.lines),
        float_types=sorted({p.dtype for p in facts.outputs if DTYPES[p.dtype].is_float}),
        exact_types=sorted({p.c for p in facts.outputs if not DTYPES[p.dtype].is_float}),
    )
    return {f"test_{facts.name}.c": indent_c(text).encode()}


def reference_golden(
    model: Path, inputs: Mapping[str, Array] | None = None, seed: int = 0
) -> Callable[[Compilation], dict[str, bytes]]:
    """For `driver.compile`'s ``extra``: a golden test on ``inputs``, or random ones, with the reference's outputs, or
    the graph's own where weights or products are of fewer bits.

    UsageError where the model is IR text, which no reference computes.
    """

    def files(c: Compilation) -> dict[str, bytes]:
        if model.suffix == SUFFIX:
            raise UsageError("--golden needs the .onnx model: the expected outputs are computed from it")
        given = drawn_inputs(c, seed) if inputs is None else inputs
        first, *later = stream_of_c(model, c).runs(given)
        return golden_files(c, given, first.values, first.noise, [e.values for e in later])

    return files


class GoldenFolder:
    """Where golden tests go: beside the generated files, with which they are written or not at all, or elsewhere.

    Args:
        folder: where they are to be; None: there are to be none.
        out: where the generated files are.
    """

    def __init__(self, folder: Path | None, out: Path) -> None:
        self.folder = folder
        self.beside = folder is not None and folder.resolve() == out.resolve()
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


def _array(port: Port, arrays: Mapping[str, Array], what: str) -> Array:
    if port.name not in arrays:
        raise UsageError(f"no array is given for {what} {port.name!r}")
    array = np.asarray(arrays[port.name])
    if what == "output" and port.varies and array.shape != port.shape:  # a cache that grows, or rows that are counted
        raise CompileError(
            f"output {port.name!r} is {port.shape_text}: each run tells how large it is, and no golden test asks",
            hint="compare with `mccompile check` instead",
        )
    if array.shape != port.shape or array.dtype != DTYPES[port.dtype].numpy:
        raise UsageError(f"{what} {port.name!r} is {array.dtype}{list(array.shape)}, not {port.shape_text}")
    return array


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
