"""`mccompile opt`: the pass-by-pass tool. Reads a model or IR text, runs passes, prints IR text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccompile._files import is_same_place
from mccompile.cli import options as o
from mccompile.search.options import DEBUGGING, DEVICE

if TYPE_CHECKING:
    from mccompile.ir.files import IR
    from mccompile.targets.target import Target


def _list_passes(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from mccompile.kernel_passes.pipeline import KERNEL_PIPELINES, kernel_passes
    from mccompile.passes.manager import passes
    from mccompile.passes.pipeline import PIPELINES

    width = max(map(len, (*passes(), *kernel_passes())))
    for on, known, pipelines in (("", passes(), PIPELINES), ("kernel IR, ", kernel_passes(), KERNEL_PIPELINES)):
        for name, run in known.items():
            levels = " ".join(f"-{level}" for level, names in pipelines.items() if name in names)
            text = (run.__doc__ or "").strip().split("\n")[0]
            click.echo(f"{name:{width}}  {text}" + (f"  [{on}{levels}]" if levels else ""))
    ctx.exit()


@o.command(short_help="Run passes on a model or IR text and print the IR.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@o.option("-p", "--passes", "names", default="", metavar="PASS,..", help="Passes to run, in order.")
@o.option("-o", "--out", type=click.Path(path_type=Path), metavar="OUT.mcir",
              help="Write the text here, and large constants into an .npz beside it.  [default: stdout]")
@o.option("--dot", type=click.Path(path_type=Path), metavar="OUT.dot", help="Also draw it: text for Graphviz.")
@o.option("--onnx", "onnx_file", type=click.Path(path_type=Path), metavar="OUT.onnx",
              help="Also draw it: an ONNX file that viewers as Netron open, not to be run.")
@o.option("--list", is_flag=True, section=DEBUGGING, is_eager=True, expose_value=False, callback=_list_passes,
              help="List the passes and the levels they run at.")
@o.option("--time", "timed", is_flag=True, section=DEBUGGING,
          help="Say on stderr how long each pass took and what it changed.")
@o.option("--remarks", is_flag=True, section=DEBUGGING, help="Say on stderr what each pass did, and did not and why.")
@o.option("--target", section=DEVICE, default="generic", metavar="NAME", show_default=True,
              help="What passes that depend on a target choose for.")
@o.PLUGIN
@o.model_options
def opt(
    file: Path, names: str, out: Path | None, dot: Path | None, onnx_file: Path | None, timed: bool, remarks: bool,
    target: str, **dims: Any,
) -> None:  # fmt: skip
    """Run passes on FILE (.onnx or .mcir) and print the IR; program IR is verified and printed."""
    from mccompile.ir.errors import UsageError
    from mccompile.ir.files import SUFFIX, save, sealed
    from mccompile.ir.graph import Graph
    from mccompile.kernel_passes.pipeline import kernel_passes
    from mccompile.passes.manager import passes, require_passes
    from mccompile.search.resume import text_at_fault
    from mccompile.targets.target import resolve

    if out is not None and out.suffix != SUFFIX:
        raise UsageError(f"the name of '{out}' has to end in {SUFFIX}")
    _check_pictures(file, dot, onnx_file)
    wanted = [n.strip() for n in names.split(",") if n.strip()]
    require_passes(wanted, {**passes(), **kernel_passes()})
    machine = resolve(target)
    ir, seconds = _read(file, dims)
    if timed:
        click.echo(f"{1000 * seconds:9.1f} ms  read", err=True)
    with text_at_fault(not isinstance(ir, Graph), str(file)):
        _run(ir, wanted, machine, timed, remarks)
        _draw(ir, dot, onnx_file)
    if out is None:
        click.echo(sealed(ir), nl=False)
    else:
        save(out, ir)


def _read(file: Path, dims: dict[str, Any]) -> tuple[IR, float]:
    """The IR of a file, and the seconds that took."""
    import time

    from mccompile import driver
    from mccompile.ir.errors import UsageError
    from mccompile.ir.files import SUFFIX

    start = time.perf_counter()
    if file.suffix == SUFFIX:
        if driver.Options(**dims) != driver.Options():
            raise UsageError(f"the inputs of {file.name} are fixed")
        ir = driver.load_ir(file)
    else:
        ir = driver.import_graph(file, driver.Options(target="generic", **dims)).graph
    return ir, time.perf_counter() - start


def _check_pictures(file: Path, dot: Path | None, onnx_file: Path | None) -> None:
    from mccompile.ir.errors import UsageError

    if dot is not None and dot.suffix not in (".dot", ".gv"):
        raise UsageError(f"the name of '{dot}' has to end in .dot or .gv")
    if onnx_file is not None and onnx_file.suffix != ".onnx":
        raise UsageError(f"the name of '{onnx_file}' has to end in .onnx")
    if onnx_file is not None and is_same_place(onnx_file, file):
        raise UsageError(f"'{onnx_file}' is the model itself", hint="what --onnx writes cannot be run or compiled")


def _draw(ir: IR, dot: Path | None, onnx_file: Path | None) -> None:
    from mccompile.ir.errors import CompileError

    try:
        if dot is not None:
            from mccompile.ir.whole import written_whole
            from mccompile.report.dot import dot_text

            with written_whole(dot) as staged:
                staged.write_text(dot_text(ir), encoding="utf-8")
        if onnx_file is not None:
            from mccompile.onnxio import write_model
            from mccompile.report.netron import netron_model

            write_model(netron_model(ir), onnx_file, value_info=True)
    except OSError as e:
        names = " or ".join(str(path) for path in (dot, onnx_file) if path is not None)
        raise CompileError(f"cannot write {names}: {e.strerror or e}") from e


def _run(ir: IR, names: list[str], target: Target, timed: bool, remarks: bool) -> None:
    from mccompile.ir.errors import UsageError
    from mccompile.ir.graph import Graph
    from mccompile.ir.kernel import KernelModule
    from mccompile.kernel_passes.pipeline import improve, kernel_passes
    from mccompile.passes.manager import passes, run_passes
    from mccompile.targets.target import resolve

    if not names:
        return
    known = passes() if isinstance(ir, Graph) else kernel_passes() if isinstance(ir, KernelModule) else {}
    strange = [n for n in names if n not in known]
    if strange:
        where = "graphs" if strange[0] in passes() else "kernel IR"
        raise UsageError(
            f"{strange[0]} runs on {where}, this is {_kind(ir)}", hint="without -p it is verified and printed"
        )
    if isinstance(ir, Graph):
        records = run_passes(ir, names, target=target)
    else:
        assert isinstance(ir, KernelModule)
        records = list(improve(ir, names, resolve(ir.target)).records)
    for record in records:
        if timed:
            click.echo(f"{1000 * record.seconds:9.1f} ms  {record.name}: {record.changes} changes", err=True)
        if remarks:
            click.echo("\n".join([f"{record.name}:", *(f"  {line}" for line in record.remarks)]), err=True)


def _kind(ir: IR) -> str:
    from mccompile.ir.graph import Graph
    from mccompile.ir.kernel import KernelModule

    return "a graph" if isinstance(ir, Graph) else "kernel IR" if isinstance(ir, KernelModule) else "a program"
