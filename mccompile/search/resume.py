"""Compilations that begin with IR text instead of a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mccompile.codegen.names import given_name, model_name
from mccompile.interface.interface import make_interface
from mccompile.ir import files as ir_files
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.files import IR
from mccompile.ir.graph import Graph
from mccompile.ir.limits import limited
from mccompile.ir.program import Program
from mccompile.ir.scan import reason
from mccompile.kernels.registry import params_of
from mccompile.lower.lower import Lowered
from mccompile.ops.registry import lookup
from mccompile.plan.check import check_program
from mccompile.search.options import Options
from mccompile.search.state import Compilation
from mccompile.targets.target import Target, at_level, resolve, rounding_as


def load_ir(path: str | Path) -> IR:
    """Read an .mcir file of any stage. Raises UsageError, CompileError with the line."""
    return ir_files.load(Path(path), lookup, params_of)


def resume(path: Path, options: Options) -> Compilation:
    """A compilation from IR text. Raises UsageError; CompileError with the line, where kernels are not as they were
    printed, or where a program is not sound."""
    if options.dims or options.input_shapes or options.constants:
        hint = "--dim, --input-shape and --constant are for .onnx files"
        raise UsageError(f"the inputs of {path.name} are fixed", hint=hint)
    with limited(options.limits):
        ir = load_ir(path)
    ir_files.require_seal(path, ir)
    graph = ir if isinstance(ir, Graph) else Graph(ir.name)
    given = next((v for v in graph.outputs if v in graph.inputs or v in graph.constants), None)
    if given is not None:
        raise CompileError(f"output %{given.name} is never written", where=str(path))
    graph.name = given_name(options.name) if options.name else model_name(graph.name)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    c = Compilation(path.name, sha256, options, _target_of(ir, options), graph, [])
    if isinstance(ir, Graph):
        c.interface = make_interface(graph, options.input_formats, options.keeps_bytes, c.notes, options.state)
        return c
    if options.input_formats or options.keeps_bytes or options.state:
        raise UsageError(
            f"the inputs and outputs of {path.name} are fixed", hint="--input and --state are for graphs and models"
        )
    module = ir.module if isinstance(ir, Program) else ir
    module.name = graph.name
    missing = [b.name for b in module.buffers if b.space == "blob" and b.data is None]
    if missing:
        raise CompileError(
            f"the elements of {', '.join(missing[:4])} are needed",
            where=str(path),
            hint=f"they are read from {ir_files.arrays_path(path).name} beside it",
        )
    c.lowered = Lowered(module)
    c.kernels_given = True
    if isinstance(ir, Program):
        with text_at_fault(True, str(path)):
            check_program(ir, options.keep_inputs)
        c.program = ir
    return c


@contextmanager
def text_at_fault(given: bool, where: str) -> Iterator[None]:
    """CompileError where something does not hold that does for all kernels but those that are ``given`` as text."""
    try:
        yield
    except CompileError:
        raise
    except Exception as e:
        if not given:
            raise
        rule = f"the kernels in this text do not fit together: {reason(e)}"
        raise CompileError(rule, where=where, hint="they may be printed again from the model") from e


def target_of(options: Options) -> Target:
    """The target of the options, as its level and its rounding ask for."""
    return rounding_as(at_level(resolve(options.target), options.opt_level), options.requant)


def _target_of(ir: IR, options: Options) -> Target:
    """The target of the options, or of the text where its kernels are chosen already."""
    if isinstance(ir, Graph):
        return target_of(options)
    module = ir.module if isinstance(ir, Program) else ir
    if options.target not in ("native", module.target):
        raise UsageError(f"the kernels in this text are for target {module.target}, not {options.target}")
    return at_level(resolve(module.target), options.opt_level)
