"""Prints kernel and program IR (grammar in `kernel` and `program`); `kernel_parse` is the inverse."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, varies
from mccompile.ir.dims_text import declaration
from mccompile.ir.graph_text import content_name, digest
from mccompile.ir.kernel import Block, Call, Condition, Fill, KernelModule, Logical
from mccompile.ir.op import dataclass_text, op_text
from mccompile.ir.program import PlanFacts, Program
from mccompile.ir.scalar import Array
from mccompile.ir.scan import name_text, origins_text
from mccompile.ir.turns import Loop
from mccompile.ir.types import DType, layout_text, row_major
from mccompile.ir.views import Buffer, View, whole


def _ints(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def _number(value: float) -> str:
    """A fill value: a Python literal, whole if it is an int."""
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def buffer_name(buffer: Buffer) -> str:
    """A buffer's name; one that is called ``_`` is quoted, for that means an absent operand."""
    return json.dumps(buffer.name) if buffer.name == "_" else name_text(buffer.name)


def buffer_text(
    b: Buffer, offset: int | None, digests: bool, counts: str = "", given: Buffer | None = None
) -> str:
    """A buffer; ``counts`` are the symbols of the extents that are counted into it, ``given`` the input that it is in
    the next run."""
    text = f"  buffer {buffer_name(b)} : {b.type} {b.space}" + (f".{b.region}" if b.region else "")
    text += "" if offset is None else f" @{offset}"
    text += f" align={b.align}"
    text += f" room=({_ints(b.room)})" if b.room else ""
    if b.halo:
        pairs = ",".join(f"{lo}:{hi}" for lo, hi in b.halo)
        text += f" halo=({pairs}) fill={_number(b.fill)}"
    text += f" role={b.role}" if b.role else ""
    text += f" counts={counts}" if counts else ""
    text += f" state={buffer_name(given)}" if given else ""
    if b.data is not None and digests:
        text += f" sha256={digest(b.data)}"
    return text


def view_text(view: View | None) -> str:
    """A view; strides, offset and layout only where they differ from those of the whole buffer."""
    if view is None:
        return "_"
    text = buffer_name(view.buffer)
    if view.buffer.space == "record":
        data = view.buffer.data  # a text that is read without its arrays has the digest for a name
        text = content_name(view.buffer.type, view.buffer.name if data is None else digest(data))
    plain = whole(view.buffer)
    if view == plain:
        return text
    offset = f"({view.offset})" if isinstance(view.offset, Dim) else view.offset
    text += f"+{offset}" if varies([view.offset]) or view.offset else ""
    text += f"[{_ints(view.shape)}]{{{_ints(view.strides)}}}"
    return text if view.factors == row_major(view.rank) else f"{text}:{layout_text(view.factors)}"


def _acc_dtype(body: ex.Expr) -> DType | None:
    """The type of ``acc`` in an epilogue, None if it is not read."""
    if isinstance(body, ex.Var):
        return body.dtype if body.index == ex.ACC else None
    return next((found for a in body.args if (found := _acc_dtype(a))), None)


def _post_text(i: int, body: ex.Expr) -> str:
    dtype = _acc_dtype(body)
    return f" post{i}{f':{dtype}' if dtype else ''}{{ {ex.text(body)} }}"


def call_text(call: Call, meaning: bool = False) -> str:
    """A call, with what its views are to the operator if ``meaning`` is wanted."""
    text = f"call {call.kernel} {op_text(call.op)}"
    if call.params is not None:
        text += f" params{{{dataclass_text(call.params)}}}"
    text += f" ({', '.join(map(view_text, call.reads))})"
    if call.extras:
        text += f" with({', '.join(map(view_text, call.extras))})"
    text += "".join(f" pre{i}{{ {ex.text(body)} }}" for i, body in call.pre)
    text += "".join(_post_text(i, body) for i, body in call.post)
    text += f" -> {', '.join(map(view_text, call.results))}"
    text += f" scratch {buffer_name(call.scratch)}" if call.scratch else ""
    text += f" inplace({_ints(call.inplace)})" if call.inplace else ""
    text += f" near({', '.join(f'{i}:{distance}' for i, distance in call.near)})" if call.near else ""
    text += f" args({','.join(call.args)})" if call.args else ""
    text += f" {call.parts}" if call.parts else ""
    if meaning and call.logical is not None:
        text += f" means {_logical_text(call.logical)}"
    return text + _when_text(call.when) + _in_text(call.loops) + origins_text(call.origins)


def _when_text(when: Sequence[Condition]) -> str:
    conditions = ", ".join(f"{'' if wanted else '!'}{buffer_name(b)}" for b, wanted in when)
    return f" when({conditions})" if when else ""


def _in_text(loops: Sequence[Loop]) -> str:
    return f" in({', '.join(buffer_name(loop.turn) for loop in loops)})" if loops else ""


def _loop_text(loop: Loop) -> str:
    text = f"  loop {buffer_name(loop.turn)} trips={loop.trips}"
    text += " limited" if loop.limited else ""
    text += f" count={buffer_name(loop.count)}" if loop.count else ""
    text += f" going={buffer_name(loop.going)}" if loop.going else ""
    return text + _when_text(loop.when)


def _logical_text(logical: Logical) -> str:
    if logical.missing:
        return json.dumps(logical.missing)
    text = f"{op_text(logical.op)} " if logical.op else ""
    text += f"({', '.join(map(view_text, logical.reads))})"
    text += f" with({', '.join(map(view_text, logical.extras))})" if logical.extras else ""
    return f"{text} -> {', '.join(map(view_text, logical.results))}"


def _block_lines(block: Block, depth: int, meaning: bool) -> list[str]:
    lines = []
    pad = "  " * depth
    for step in block.steps:
        if isinstance(step, Block):
            lines += [pad + "{", *_block_lines(step, depth + 1, meaning), pad + "}"]
        elif isinstance(step, Fill):
            text = f"{pad}fill {view_text(step.view)} {_number(step.value)}"
            lines.append(text + _when_text(step.when) + _in_text(step.loops))
        else:
            lines.append(pad + call_text(step, meaning))
    return lines


def _module_lines(m: KernelModule, offsets: Mapping[Buffer, int], digests: bool) -> list[str]:
    counts: dict[Buffer, list[str]] = {}
    used = {s.name for s in m.symbols()}
    for name, b in ((name, b) for name, b in m.counts.items() if name in used):
        counts.setdefault(b, []).append(name)
    buffers = [
        buffer_text(b, offsets.get(b), digests, ",".join(counts.get(b, ())), m.state.get(b)) for b in m.buffers
    ]
    return [*buffers, *map(_loop_text, m.loops()), *_block_lines(m.body, 1, digests), "}", ""]


def print_module(m: KernelModule) -> str:
    head = f"kernels @{name_text(m.name)}{declaration(m.numbers())} target={m.target} {{"
    return "\n".join([head, *_module_lines(m, {}, True)])


def print_program(p: Program, digests: bool = True) -> str:
    """The text of a program.

    Without ``digests`` it says nothing about the values of the weights, nor what the planner reports.
    """
    head = f"program @{name_text(p.name)}{declaration(p.module.numbers())} target={p.module.target}"
    head += f" arena={p.arena_bytes} blob={p.blob_bytes}"
    if p.regions:
        head += f" regions({', '.join(f'{r.name}={r.nbytes}/{r.limit}' for r in p.regions)})"
    facts = f" {facts_text(p.facts)}" if digests else ""
    return "\n".join([f"{head}{facts} {{", *_module_lines(p.module, p.offsets, digests)])


def facts_text(f: PlanFacts) -> str:
    text = f"peak={f.peak} bound={f.lower_bound} naive={f.naive} algorithm={name_text(f.algorithm)}"
    pairs = ", ".join(f"{name_text(a)} over {name_text(b)}" for a, b in f.inplace)
    return f"{text} inplace({pairs})" if pairs else text


def module_arrays(m: KernelModule) -> dict[str, Array]:
    """The elements of the blob's buffers by name, and those of records by content: what is in ``<file>.npz``."""
    packed = {b.name: b.data for b in m.buffers if b.data is not None}
    views = [v for s in m.body.linear() if isinstance(s, Call) and s.logical for v in _inputs(s.logical)]
    records = [v.buffer for v in views if v is not None and v.buffer.space == "record"]
    return packed | {content_name(b.type, digest(b.data)): b.data for b in records if b.data is not None}


def _inputs(logical: Logical) -> tuple[View | None, ...]:
    return (*logical.reads, *logical.extras)
