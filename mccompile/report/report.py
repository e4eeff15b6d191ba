"""Makes report.json: the single source of everything that is said about a compilation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from mccompile._version import __version__
from mccompile.codegen.extents import GivenExtent
from mccompile.codegen.files import c_sources
from mccompile.codegen.model import ModelFacts
from mccompile.codegen.ports import Port
from mccompile.ir.dims import Dim
from mccompile.ir.graph import Graph
from mccompile.ir.kernel import Buffer, Call, View, whole
from mccompile.ir.program import Program
from mccompile.ir.turns import times
from mccompile.kernel_passes.pipeline import Improved
from mccompile.plugins import plugins
from mccompile.report.choices import choices, estimate
from mccompile.report.quantised import quantised
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


def _steps(program: Program, graph: Graph) -> list[dict[str, Any]]:
    """What each step runs, for which ONNX nodes, and how much work it is."""
    steps: list[dict[str, Any]] = []
    macs = step_macs(program.module, graph)
    alive = _alive(program)
    for step, done in zip(program.body.linear(), macs, strict=True):
        if isinstance(step, Call):
            names = list(dict.fromkeys(v.buffer.name for v in step.results))
            what: dict[str, Any] = {"kernel": step.kernel, "onnx": list(step.origins), "writes": names}
        else:
            what = {"kernel": "fill.generic", "onnx": [], "writes": [step.view.buffer.name]}
        read, written = (times(step) * n for n in step_bytes(step))
        used = footprint(program, alive[len(steps)])
        steps.append(what | {"macs": done, "read_bytes": read, "written_bytes": written, "arena_bytes": used})
    return steps


def _alive(program: Program) -> list[list[Buffer]]:
    """The buffers alive at each step; those of a program without steps at its one moment."""
    lives = program.lives()
    alive: list[list[Buffer]] = [[] for _ in range(max((hi for _, hi in lives.values()), default=0) + 1)]
    for b, (lo, hi) in lives.items():
        for at in alive[lo : hi + 1]:
            at.append(b)
    return alive


def footprint(program: Program, buffers: Iterable[Buffer]) -> int:
    """The bytes of the arena that buffers take together; those that lie over one another count once."""
    buffers = [b for b in buffers if b.space == "arena"]
    total, region, end = 0, "", 0
    for name, start, stop in sorted((b.region, program.offsets[b], program.offsets[b] + b.nbytes) for b in buffers):
        if name != region:
            region, end = name, 0
        total += max(stop - max(start, end), 0)
        end = max(end, stop)
    return total


def _memory(program: Program) -> dict[str, Any]:
    facts = program.facts
    alive = _alive(program)
    used = [footprint(program, buffers) for buffers in alive]
    step = used.index(max(used))
    scratch = [b for b in program.arena() if b.role == "scratch"]
    return {
        "arena_bytes": program.arena_bytes,
        "peak_bytes": facts.peak,
        "lower_bound_bytes": facts.lower_bound,
        "gap_percent": round(100 * (facts.peak / facts.lower_bound - 1), 2) if facts.lower_bound else 0.0,
        "naive_bytes": facts.naive,
        "state_bytes": sum(b.nbytes for b in program.module.state),
        "scratch_bytes": max((b.nbytes for b in scratch), default=0),
        "algorithm": facts.algorithm,
        "in_place": [list(pair) for pair in facts.inplace],
        "peak_step": step,
        "used_at_peak_bytes": used[step],
        "alive_at_peak": [{"name": b.name, "bytes": b.nbytes} for b in alive[step] if b.space == "arena"],
        "tensors": [
            {"name": b.name, "offset": program.offsets[b], "bytes": b.nbytes, "role": b.role} | _region(b.region)
            for b in program.arena()
        ],
    } | ({"regions": _regions(program)} if program.regions else {})


def _regions(program: Program) -> list[dict[str, Any]]:
    """Each memory of the arena, fastest first: what it has, what is used, and by how many tensors."""
    return [
        {
            "name": r.name,
            "arena_bytes": r.nbytes,
            "limit_bytes": r.limit,
            "tensors": sum(b.region == r.name for b in program.arena()),
        }
        for r in program.regions
    ]


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


def make_report(c: Compilation, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The report of a finished compilation, as plain data."""
    program, facts, lowered = c.program, c.facts, c.lowered
    assert program is not None
    assert facts is not None
    assert lowered is not None
    macs = sum(many * n.op.macs(n.operand_types(), [r.type for r in n.results]) for n, many in c.graph.everywhere())
    made = choices(c.graph, lowered.choices, c.target)
    split = {"sources": c_sources(facts, c.library)} if c.library is not None else {}
    return split | {
        "mccompile": __version__,
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
        },
        "plugins": [{"name": p.name, "sha256": p.digest} for p in plugins()],
        "notes": list(c.notes),
        "dims": [_extent(g) for g in facts.given],
        "inputs": [_port(p) for p in facts.inputs],
        "outputs": [_port(p) for p in facts.outputs],
        "state": [_port(p) | {"output": kept, "bytes": p.nbytes} for kept, p in _states(c, facts)],
        "macs": macs if c.graph.nodes else None,  # unknown where kernels are all that was given
        "quantised": quantised(c.graph, c.passes),
        "memory": _memory(program),
        "weights_bytes": facts.weights_bytes,
        "blob_bytes": len(facts.blob),
        "graph_nodes": len(c.graph.nodes),
        "kernels": dict(sorted(Counter(k.kernel for k in facts.kernels).items())),
        "traffic": asdict(traffic(program.module)),
        "copies": _copies(c.improved) if c.improved and c.improved.records else None,
        "steps": _steps(program, c.graph),
        "tensors": _tensors(program),
        "tuning": dict(c.options.costs.origin) or None,
        "estimate": estimate(made, macs, c.target),
        "choices": made,
        "passes": [
            {"name": r.name, "changes": r.changes, "remarks": list(r.remarks)}
            for r in (*c.passes, *(c.improved.records if c.improved else ()))
        ],
        "files": {name: len(data) for name, data in sorted(files.items()) if name != "report.json"},
    }


def write_report(report: dict[str, Any]) -> bytes:
    return (json.dumps(report, indent=1) + "\n").encode()
