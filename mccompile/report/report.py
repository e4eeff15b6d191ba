"""Makes report.json: the single source of everything that is said about a compilation."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

from mccompile._version import version_text
from mccompile.codegen.extents import GivenExtent
from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.files import c_sources
from mccompile.codegen.pieces import Files
from mccompile.codegen.ports import Port
from mccompile.importer.outline import Outline
from mccompile.ir.dims import Dim
from mccompile.ir.graph import Graph
from mccompile.ir.kernel import Call, Fill
from mccompile.ir.program import Program
from mccompile.ir.turns import on_condition, times
from mccompile.ir.views import View, whole
from mccompile.kernel_passes.pipeline import Improved
from mccompile.plugins import made_with
from mccompile.report.choices import choices, estimate, in_a_run, macs_of
from mccompile.report.memory import extents, memory, occupied
from mccompile.report.quantised import quantised
from mccompile.report.schema import SCHEMA
from mccompile.report.traffic import step_bytes, step_macs, traffic
from mccompile.search.state import Compilation


def _port(p: Port) -> dict[str, Any]:
    port = {"name": p.name, "c_name": p.id, "dtype": p.dtype, "shape": list(p.shape), "offset": p.offset}
    if p.varies:
        port["extents"] = [str(e) if isinstance(e, Dim) else e for e in p.extents]
        port["counted"] = p.counted
    if p.quantisation is not None:
        port |= {"scale": p.quantisation.scale, "zero_point": p.quantisation.zero_point}
    port |= {"format": p.format} if p.format else {}
    port |= {"labels": list(p.legend.labels), "of_columns": p.legend.is_map} if p.legend else {}
    return port | _region(p.region) | ({"space": p.space, "c_field": p.field} if p.of_caller else {})


def _extent(g: GivenExtent) -> dict[str, Any]:
    """An extent that the caller sets; one of state that grows begins at its least."""
    grows = {"grows_by": g.by} if g.by else {}
    return {"name": g.name, "low": g.low, "high": g.high, "range": g.range, "c_field": g.field} | grows


def _region(name: str) -> dict[str, Any]:
    """The memory that an offset counts in; nothing where there is but one."""
    return {"region": name} if name else {}


def _states(c: Compilation, facts: ModelFacts) -> list[tuple[str, Port]]:
    """What is kept from run to run, and the output of the model that it is."""
    by_input = {given: kept for kept, given in c.graph.state.items()}
    return [(by_input.get(p.name, ""), p) for p in facts.states]


def _view(view: View) -> dict[str, Any]:
    """Where a tensor's elements lie: bytes from the arena, and the stride of each stored axis in elements."""
    return {
        "buffer": view.buffer.name,
        "dtype": view.dtype.name,
        "shape": list(view.shape),
        "strides": list(view.strides),
        "factors": [[f.axis, f.div, f.mod] for f in view.factors],
        "offset": view.offset,
    }


def _tensors(program: Program) -> dict[str, Any]:
    """The view of the whole tensor of each buffer that is no constant, by name."""
    lent = [b for b in program.module.buffers if b.space == "caller"]
    return {b.name: _view(whole(b)) for b in (*program.arena(), *lent)}


def _steps(program: Program, graph: Graph, facts: ModelFacts) -> list[dict[str, Any]]:
    """What each step runs, for which ONNX nodes, what it reads and writes, and how much work it is."""
    steps: list[dict[str, Any]] = []
    macs = step_macs(program.module, graph)
    used = occupied(program, facts.keep_inputs)
    for i, (step, done) in enumerate(zip(program.body.linear(), macs, strict=True)):
        kernel = step.kernel if isinstance(step, Call) else "fill.generic"
        origins = list(step.origins) if isinstance(step, Call) else []
        what: dict[str, Any] = {"kernel": kernel, "function": _function(facts.steps[i].call), "onnx": origins}
        read, written = (times(step) * n for n in step_bytes(step))
        work = {"macs": done, "read_bytes": read, "written_bytes": written, "arena_bytes": used[i]}
        turns: dict[str, Any] = {"turns": times(step)} if times(step) > 1 else {}
        if on_condition(step):
            turns["conditional"] = True
        if isinstance(step, Call) and step.parts is not None:
            turns |= {"parts": {"loop": step.parts.loop, "cuts": list(step.parts.cuts)}}
        steps.append(what | _operands(step) | work | turns)
    return steps


def _function(call: str) -> str:
    """The C function of a step; none of what lies there already."""
    return call.partition("(")[0]


def _operands(step: Call | Fill) -> dict[str, Any]:
    """The buffers that a step reads, those of the blob apart, and those that it writes."""
    if isinstance(step, Fill):
        return {"reads": [], "weights": [], "weights_bytes": 0, "writes": [step.view.buffer.name]}
    read = list(dict.fromkeys(v.buffer for v in step.inputs if v is not None))
    weights = [b for b in read if b.space == "blob"]
    return {
        "reads": [b.name for b in read if b.space != "blob"],
        "weights": [b.name for b in weights],
        "weights_bytes": sum(b.nbytes for b in weights),
        "writes": list(dict.fromkeys(v.buffer.name for v in step.results)),
    }


def _weights(program: Program) -> list[dict[str, Any]]:
    """What the blob holds, by address."""
    return [
        {"name": b.name, "offset": program.offsets[b], "bytes": b.nbytes, "dtype": b.type.dtype.name}
        | {"shape": extents(b)}
        for b in program.blob()
    ]


def _onnx(outline: Outline) -> list[dict[str, Any]]:
    """The nodes of the file, constants left out; what is read are numbers in this list."""
    return [{"name": n.name, "op": n.op, "reads": list(n.reads)} for n in outline.nodes]


def _copies(f: Improved) -> dict[str, Any]:
    """What memory forwarding did: copies and the bytes they write, before and after; why each that is left is."""
    return {
        "before": f.copies[0],
        "after": f.copies[1],
        "bytes_before": f.copied_bytes[0],
        "bytes_after": f.copied_bytes[1],
        "peak_before": f.peak[0],
        "peak_after": f.peak[1],
        "kept": [list(k) for k in f.kept],
    }


def make_report(c: Compilation, files: Files) -> dict[str, Any]:
    """The report of a finished compilation, as plain data."""
    program, facts, lowered = c.program, c.facts, c.lowered
    assert program is not None
    assert facts is not None
    assert lowered is not None
    macs = in_a_run(c.graph, macs_of)
    made = choices(c.graph, lowered.choices, c.target)
    split = {"sources": c_sources(facts, c.library)} if c.library is not None or facts.functions else {}
    return split | {
        "schema": SCHEMA,
        "mccompile": version_text(),
        "model": {"file": c.source, "sha256": c.sha256, "onnx_nodes": c.onnx_nodes, "name": c.graph.name},
        "target": {
            "required_flags": list(c.target.required_flags),
            "name": c.target.name,
            "c_flags": list(c.target.c_flags),
            "align": facts.align,
        },
        "options": {
            "opt_level": c.options.opt_level,
            "keep_inputs": c.options.keep_inputs,
            "stepwise": c.options.stepwise,
            "io": facts.io,
            "plan_effort": c.options.plan_effort,
            "weights": dict(c.options.weights),
            "precision": dict(c.options.precision),
        } | ({"threads": facts.threads} if facts.threads > 1 else {}),
        "plugins": [{"name": p.name, "sha256": p.digest} for p in made_with()],
        "notes": list(c.notes),
        "dims": [_extent(g) for g in facts.given],
        "inputs": [_port(p) for p in facts.inputs],
        "outputs": [_port(p) for p in facts.outputs],
        "state": [_port(p) | {"output": kept, "bytes": p.nbytes} for kept, p in _states(c, facts)],
        "macs": macs if c.graph.nodes else None,  # unknown where kernels are all that was given
        "quantised": quantised(c.graph, c.passes, c.target),
        "memory": memory(program, facts.keep_inputs, c.outline.values),
        "weights_bytes": facts.weights_bytes,
        "blob_bytes": len(facts.blob),
        "graph_nodes": len(c.graph.nodes),
        "kernels": dict(sorted(Counter(k.kernel for k in facts.kernels).items())),
        "traffic": asdict(traffic(program.module)),
        "copies": _copies(c.improved) if c.improved and c.improved.records else None,
        "steps": _steps(program, c.graph, facts),
        "onnx": _onnx(c.outline),
        "weights": _weights(program),
        "tensors": _tensors(program),
        "tuning": dict(c.options.costs.origin) or None,
        "estimate": estimate(c.graph, made, macs, c.target),
        "choices": made,
        "passes": [
            {"name": r.name, "changes": r.changes, "remarks": list(r.remarks)}
            for r in (*c.passes, *(c.improved.records if c.improved else ()))
        ],
        "files": {name: len(data) for name, data in sorted(files.items()) if name != "report.json"},
    }


def write_report(report: dict[str, Any]) -> bytes:
    """A report as JSON of which each line says one thing: a step, a tensor, a number of the whole.

    >>> made = write_report({"plan": {"peak": 8, "steps": [{"op": "map", "shape": [1, 3]}]}, "notes": []})
    >>> print(made.decode(), end="")
    {
     "plan": {
      "peak": 8,
      "steps": [
       {"op": "map", "shape": [1, 3]}
      ]
     },
     "notes": []
    }
    """
    return (_by_lines(report, "\n") + "\n").encode()


def _by_lines(value: Any, begin: str) -> str:
    """``begin`` is what a line begins with that is as far in as the value."""
    inside = begin + " "
    if isinstance(value, dict) and value:
        rows = [f"{json.dumps(str(key))}: {_by_lines(item, inside)}" for key, item in value.items()]
        return "{" + inside + f",{inside}".join(rows) + begin + "}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "[" + inside + f",{inside}".join(map(json.dumps, value)) + begin + "]"
    return json.dumps(value)
