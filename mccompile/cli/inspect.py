"""`mccompile inspect`: what is in a model, what of it is supported, what it would need."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccompile.cli import options as o

if TYPE_CHECKING:
    from mccompile.driver import Compilation, Options
    from mccompile.onnxio import OnnxGraph, OnnxModel, OnnxValue


@click.command(short_help="Say what is in a model, what is supported, what it needs.")
@o.MODEL
@o.build_options
@o.limit_options
@click.option("--stack", is_flag=True, help="Also say what a run takes of the stack: needs the target's C compiler.")
@o.PLUGIN
@o.JSON
def inspect(model: Path, ram: int | None, flash: int | None, stack: bool, as_json: bool, **build: Any) -> int:
    """Say what is in MODEL: inputs, operators, parameters, MACs, memory; whether it is supported and fits.

    The exit code is 1 if --ram or --flash is given and the model does not fit or cannot be compiled.
    """
    from mccompile.onnxio import read_model

    read = read_model(model)
    facts = _contents(read, model)
    facts |= _compiled(model, o.make_options(build, ram=ram), ram, flash, stack)
    click.echo(json.dumps(facts, indent=1) if as_json else "\n".join(_lines(facts)))
    asked = ram is not None or flash is not None
    return 1 if asked and (facts["misfits"] or facts["error"]) else 0


def _contents(model: OnnxModel, path: Path) -> dict[str, Any]:
    """What the file says, whether it can be compiled or not."""
    graph = model.graph
    inputs = [v for v in graph.inputs if v.name not in graph.initializers]
    counts = Counter((n.domain, n.op_type) for n in _nodes(graph))
    arrays = list(_constants(graph))
    operators = [
        {"op": f"{domain}:{name}" if domain else name, "count": n, "status": _status(domain, name)}
        for (domain, name), n in sorted(counts.items())
    ]
    missing = {row["op"] for row in operators if row["status"] == "no"}
    return {
        "file": path.name,
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opsets.items()},
        "producer": model.producer,
        "inputs": [_port(v) for v in inputs],
        "outputs": [_port(v) for v in graph.outputs],
        "nodes": sum(counts.values()),
        "parameters": sum(int(a.size) for a in arrays),
        "parameter_bytes": sum(int(a.nbytes) for a in arrays),
        "operators": operators,
        "unsupported": [
            f"node {n.index} {n.name!r}"
            for n in _nodes(graph)
            if (f"{n.domain}:{n.op_type}" if n.domain else n.op_type) in missing
        ],
    }


def _nodes(graph: OnnxGraph) -> Any:
    from mccompile.onnxio import subgraphs

    for node in graph.nodes:
        yield node
        for inner in subgraphs(node):
            yield from _nodes(inner)


def _constants(graph: OnnxGraph) -> Any:
    from mccompile.onnxio import subgraphs

    """Every constant of a graph: initializers and tensors of Constant nodes, nested graphs included."""
    import numpy as np

    yield from graph.initializers.values()
    for node in graph.nodes:
        if node.op_type == "Constant":
            yield from (a for a in node.attrs.values() if isinstance(a, np.ndarray))
        for inner in subgraphs(node):
            yield from _constants(inner)


def _port(value: OnnxValue) -> dict[str, Any]:
    shape = None if value.shape is None else ["?" if e is None else e for e in value.shape]
    return {"name": value.name, "dtype": value.dtype, "shape": shape}


def _status(domain: str, name: str) -> str:
    """Of the operator as it is in the file: old names are rewritten at import."""
    from mccompile.importer.canonical import rewrites
    from mccompile.onnxio import op_names
    from mccompile.report.support import support_of

    if not domain and name not in op_names() and name in rewrites():
        return "rewritten"
    return support_of(domain, name).status.value


def _compiled(path: Path, options: Options, ram: int | None, flash: int | None, stack: bool) -> dict[str, Any]:
    """What compiling it in memory says: its needs, or the error."""
    from mccompile import driver
    from mccompile.ir.errors import CompileError, UsageError
    from mccompile.report.limits import misfits, weight_sizes
    from mccompile.report.report import make_report

    try:
        c = driver.import_graph(path, options)
        driver.compile_program(c)
    except UsageError:
        raise
    except CompileError as e:
        return {"error": str(e), "misfits": []}
    report = make_report(c, {})
    return {
        "error": "",
        "notes": report["notes"],
        "target": c.target.name,
        "macs": report["macs"],
        "quantised": report["quantised"],
        "arena_bytes": report["memory"]["arena_bytes"],
        "lower_bound_bytes": report["memory"]["lower_bound_bytes"],
        "blob_bytes": report["blob_bytes"],
        "misfits": misfits(report, weight_sizes(c), ram, flash),
        "limits": {"ram": ram, "flash": flash},
    } | ({"stack": _stack(c)} if stack else {})


def _float_lines(found: dict[str, Any]) -> list[str]:
    """What of a quantised network is computed in floats, and why."""
    from mccompile.report.quantised import float_lines

    if not found["floats"]:
        return ["    quantised       integers from end to end"]
    head = f"    quantised       {found['float_macs']:,} MACs and {len(found['floats'])} nodes in floats:"
    return [head, *(f"      {line}" for line in float_lines(found, 8))]


def _stack(c: Compilation) -> dict[str, Any]:
    """What a run takes of the stack, by the compiler of the target."""
    import tempfile

    from mccompile import driver
    from mccompile.codegen.folder import write_folder
    from mccompile.report.report import make_report
    from mccompile.run.stack import stack_of

    with tempfile.TemporaryDirectory(prefix="mccompile-stack-") as folder:
        write_folder(Path(folder), driver.finish(c))
        found = stack_of(Path(folder), make_report(c, {}))
    return found.to_json() | {"line": found.line()}


def _lines(f: dict[str, Any]) -> list[str]:
    from mccompile.report.summary import size_text

    opsets = ", ".join(f"{domain} {version}" for domain, version in f["opsets"].items())
    made = f", made by {f['producer']}" if f["producer"] else ""
    lines = [f"{f['file']}: opset {opsets}, IR version {f['ir_version']}{made}"]
    lines += [f"  {kind:6}  {_port_text(p)}" for kind in ("input", "output") for p in f[f"{kind}s"]]
    lines.append(f"  {f['nodes']} nodes, {f['parameters']:,} parameters in {size_text(f['parameter_bytes'])}")
    lines.append("  operators:")
    width = max((len(row["op"]) for row in f["operators"]), default=0)
    for row in f["operators"]:
        mark = "" if row["status"] == "supported" else f"  {_MARKS[row['status']]}"
        lines.append(f"    {row['op']:{width}} {row['count']:5}{mark}")
    hidden = [label for label in f["unsupported"] if label not in f["error"]]
    if hidden:
        lines += ["  nodes that are not supported:", *(f"    {label}" for label in hidden)]
    if f["error"]:
        return [*lines, "cannot be compiled:", *(f"  {line}" for line in f["error"].splitlines())]
    lines += [f"  note: {note}" for note in f["notes"]]
    lines.append(f"  for {f['target']}: {f['macs']:,} MACs")
    if f["quantised"] is not None:
        lines += _float_lines(f["quantised"])
    lines.append(f"    arena (RAM)     {size_text(f['arena_bytes'])}")
    lines.append(f"    weights (flash) {size_text(f['blob_bytes'])}; the code comes on top")
    if "stack" in f:
        lines.append(f"    {f['stack']['line']}")
    given = " and ".join(f"--{k} {v:,}" for k, v in f["limits"].items() if v is not None)
    if given and not f["misfits"]:
        lines.append(f"  it fits in {given}")
    return lines + [line for found in f["misfits"] for line in found.splitlines()]


_MARKS = {
    "expanded": "expanded: its ONNX function",
    "folded": "only of what is known at compile time",
    "rewritten": "rewritten to its newest form",
    "no": "NOT SUPPORTED",
}


def _port_text(port: dict[str, Any]) -> str:
    shape = " of unknown rank" if port["shape"] is None else f"[{','.join(map(str, port['shape']))}]"
    return f"{port['name']}  {port['dtype']}{shape}"
