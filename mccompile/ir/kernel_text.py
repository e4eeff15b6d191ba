"""Text of kernel and program IR (grammar in `kernel` and `program`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mccompile.ir import expr as ex
from mccompile.ir.graph_text import digest
from mccompile.ir.kernel import Block, Buffer, Call, Fill, KernelModule, View, whole
from mccompile.ir.op import dataclass_text, op_text
from mccompile.ir.program import Program
from mccompile.ir.scan import name_text, origins_text
from mccompile.ir.types import layout_text, row_major


def _ints(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def buffer_text(b: Buffer, offset: int | None, digests: bool) -> str:
    text = f"  buffer {name_text(b.name)} : {b.type} {b.space}"
    text += "" if offset is None else f" @{offset}"
    text += f" align={b.align}"
    if b.halo:
        pairs = ",".join(f"{lo}:{hi}" for lo, hi in b.halo)
        text += f" halo=({pairs}) fill={b.fill!r}"
    text += f" role={b.role}" if b.role else ""
    if b.data is not None and digests:
        text += f" sha256={digest(b.data)}"
    return text


def view_text(view: View | None) -> str:
    """A view; strides, offset and layout only where they differ from those of the whole buffer."""
    if view is None:
        return "_"
    text = name_text(view.buffer.name)
    plain = whole(view.buffer)
    if view == plain:
        return text
    text += f"+{view.offset}" if view.offset else ""
    text += f"[{_ints(view.shape)}]{{{_ints(view.strides)}}}"
    return text if view.factors == row_major(view.rank) else f"{text}:{layout_text(view.factors)}"


def call_text(call: Call) -> str:
    text = f"call {call.kernel} {op_text(call.op)}"
    if call.params is not None:
        text += f" params{{{dataclass_text(call.params)}}}"
    text += f" ({', '.join(map(view_text, call.reads))})"
    if call.extras:
        text += f" with({', '.join(map(view_text, call.extras))})"
    for key, bodies in (("pre", call.pre), ("post", call.post)):
        text += "".join(f" {key}{i}{{ {ex.text(body)} }}" for i, body in bodies)
    text += f" -> {', '.join(map(view_text, call.results))}"
    text += f" scratch {name_text(call.scratch.name)}" if call.scratch else ""
    text += f" inplace({_ints(call.inplace)})" if call.inplace else ""
    text += f" args({','.join(call.args)})" if call.args else ""
    return text + origins_text(call.origins)


def _block_lines(block: Block, depth: int) -> list[str]:
    lines = []
    pad = "  " * depth
    for step in block.steps:
        if isinstance(step, Block):
            lines += [pad + "{", *_block_lines(step, depth + 1), pad + "}"]
        elif isinstance(step, Fill):
            lines.append(f"{pad}fill {view_text(step.view)} {step.value!r}")
        else:
            lines.append(pad + call_text(step))
    return lines


def _module_lines(m: KernelModule, offsets: Mapping[Buffer, int], digests: bool) -> list[str]:
    buffers = [buffer_text(b, offsets.get(b), digests) for b in m.buffers]
    return [*buffers, *_block_lines(m.body, 1), "}", ""]


def print_module(m: KernelModule) -> str:
    head = f"kernels @{name_text(m.name)} target={m.target} {{"
    return "\n".join([head, *_module_lines(m, {}, True)])


def print_program(p: Program, digests: bool = True) -> str:
    """The text of a program. Without ``digests`` it does not depend on the values of the weights."""
    head = f"program @{name_text(p.name)} target={p.module.target} arena={p.arena_bytes} blob={p.blob_bytes} {{"
    return "\n".join([head, *_module_lines(p.module, p.offsets, digests)])
