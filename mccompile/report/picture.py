"""What a picture of any of the three IRs shows: boxes that read and make named values, free of a file format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TypeAlias

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim
from mccompile.ir.files import IR
from mccompile.ir.graph import Digest, Graph, Node
from mccompile.ir.kernel import Call, Fill, KernelModule
from mccompile.ir.kernel_text import view_text
from mccompile.ir.op import Op, attribute_text, attributes, dataclass_text
from mccompile.ir.program import Program
from mccompile.ir.scalar import Array
from mccompile.ir.types import TensorType
from mccompile.ir.views import Buffer, View, whole

Fact: TypeAlias = int | str | tuple[int, ...] | tuple[str, ...]
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Box:
    """A node, or a step of a program. ``inputs`` are names of values ("": an absent operand)."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    facts: dict[str, Fact]


@dataclass
class Picture:
    """``types`` has every value; ``constants`` those without a box, None where the elements are not known."""

    name: str
    facts: dict[str, str]
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array | None] = field(default_factory=dict)


def picture(ir: IR) -> Picture:
    """The picture of a graph, a kernel module or a program."""
    if isinstance(ir, Graph):
        return _graph_picture(ir)
    return _Steps(ir).picture if isinstance(ir, KernelModule) else _Steps(ir.module, ir).picture


def _graph_picture(graph: Graph) -> Picture:
    p = Picture(graph.name, {"ir": "graph"})
    for value in [*graph.inputs, *graph.constants, *(r for n in graph.nodes for r in n.results)]:
        p.types[value.name] = value.type
    p.inputs = [v.name for v in graph.inputs]
    p.outputs = [v.name for v in graph.outputs]
    p.constants = {v.name: None if isinstance(a, Digest) else a for v, a in graph.constants.items()}
    p.boxes = [_node_box(n) for n in graph.nodes]
    return p


def _node_box(node: Node) -> Box:
    facts = _op_facts(node.op)
    facts.update(_body_facts(sorted(node.pre.items()), sorted(node.post.items())))
    if node.extras:
        facts["extras"] = tuple(v.name for v in node.extras)
    facts.update(_origin_facts(node.origins))
    operands = ["" if v is None else v.name for v in node.operands]
    return Box(
        node.op.name, (*operands, *(v.name for v in node.extras)), tuple(r.name for r in node.results), facts
    )


def _fact(value: object) -> Fact:
    """An attribute as an int or ints where it is that, else as its text in the IR: no float is rounded."""
    if isinstance(value, int) and _is_number(value):
        return int(value)
    if isinstance(value, str):
        return value
    if isinstance(value, tuple) and value:
        if all(map(_is_number, value)):
            return tuple(int(v) for v in value)
        if all(isinstance(v, str) for v in value):
            return tuple(str(v) for v in value)
    return attribute_text(value)


def _is_number(value: object) -> bool:
    """Whether an attribute is a number that ONNX has, and no extent of the run."""
    return isinstance(value, int) and not isinstance(value, Dim) and value in _INT64


def _op_facts(op: Op) -> dict[str, Fact]:
    return {name: _fact(value) for name, value in attributes(op).items()}


def _body_facts(pre: Iterable[tuple[int, ex.Expr]], post: Iterable[tuple[int, ex.Expr]]) -> dict[str, Fact]:
    facts: dict[str, Fact] = {f"pre{i}": ex.text(body) for i, body in pre}
    facts.update({f"post{i}": ex.text(body) for i, body in post})
    return facts


def _origin_facts(origins: tuple[str, ...]) -> dict[str, Fact]:
    return {"origins": " + ".join(origins)} if origins else {}


@dataclass(frozen=True)
class _Part:
    """What one step wrote of a buffer, under the name it has in the picture."""

    name: str
    view: View


class _Steps:
    """Draws steps. A buffer is several values where several steps write parts of it: its readers read them all."""

    def __init__(self, module: KernelModule, program: Program | None = None) -> None:
        self.module = module
        self.program = program
        self.offsets: Mapping[Buffer, int] = program.offsets if program else {}
        self.parts: dict[Buffer, list[_Part]] = {}
        self.taken = {b.name for b in module.buffers}
        self.picture = Picture(module.name, {"ir": "kernels", "target": module.target})
        if program:
            sizes = {"arena_bytes": str(program.arena_bytes), "blob_bytes": str(program.blob_bytes)}
            self.picture.facts.update({"ir": "program", **sizes})
        self._draw()

    def _draw(self) -> None:
        p = self.picture
        for b in self.module.buffers:
            if b.space == "blob" or b.role == "input":
                self.parts[b] = [_Part(b.name, whole(b))]
                p.types[b.name] = b.type
            if b.space == "blob":
                p.constants[b.name] = b.data
        p.inputs = [b.name for b in self.module.role("input")]
        for number, step in enumerate(self.module.body.linear()):
            p.boxes.append(self._fill(number, step) if isinstance(step, Fill) else self._call(number, step))
        for b in self.module.role("output"):
            p.outputs += [part.name for part in self.parts.get(b, [])]

    def _fill(self, number: int, step: Fill) -> Box:
        facts: dict[str, Fact] = {"step": number, "value": attribute_text(step.value)}
        facts.update(self._result_facts([step.view]))
        return Box("fill", (), (self._write(step.view, ".fill"),), facts)

    def _call(self, number: int, call: Call) -> Box:
        facts: dict[str, Fact] = {"step": number, "kernel_name": call.kernel, **_op_facts(call.op)}
        params = "" if call.params is None else dataclass_text(call.params)
        if params:
            facts["params"] = params
        facts.update(_body_facts(call.pre, call.post))
        facts["reads"] = tuple(self._place(v) for v in call.reads)
        if call.extras:
            facts["extras"] = tuple(self._place(v) for v in call.extras)
        facts.update(self._result_facts(call.results))
        if call.scratch:
            facts["scratch"] = f"{self._place(whole(call.scratch))}: {call.scratch.nbytes} bytes"
        facts.update(self._shared_facts(call))
        if call.args:
            facts["args"] = call.args
        facts.update(_origin_facts(call.origins))
        inputs = tuple(name for v in call.inputs for name in self._read(v))
        return Box(call.op.name, inputs, tuple(self._write(v) for v in call.results), facts)

    def _result_facts(self, views: Iterable[View]) -> dict[str, Fact]:
        views = list(views)
        facts: dict[str, Fact] = {"results": tuple(self._place(v) for v in views)}
        if self.program:
            facts["result_offsets"] = tuple(self.offsets[v.buffer] for v in views)
        return facts

    def _shared_facts(self, call: Call) -> dict[str, Fact]:
        """``inplace``: inputs the result may overwrite; ``shares_memory``: those whose buffers it does lie over."""
        facts: dict[str, Fact] = {}
        offered = [v for v in (call.inputs[i] for i in call.inplace) if v is not None and v.buffer.space == "arena"]
        if offered:
            facts["inplace"] = tuple(map(self._place, offered))
        shared = sorted(self.program.shared_inputs(call)) if self.program else []
        if shared:
            facts["shares_memory"] = tuple(self._place(call.inputs[i]) for i in shared)
        return facts

    def _place(self, view: View | None) -> str:
        """A view as in the IR's text, and where its buffer lies."""
        if view is None:
            return "_"
        b = view.buffer
        text = f"{view_text(view)} in {b.space}" + (f".{b.region}" if b.region else "")
        return f"{text} @{self.offsets[b]}" if b in self.offsets else text

    def _read(self, view: View | None) -> list[str]:
        """The names of what a view reads: parts it touches, and all of a buffer with a halo, outside of views."""
        if view is None:
            return [""]
        if view.buffer.halo:
            return [part.name for part in self.parts.get(view.buffer, [])]
        low, high = _reach(view)
        names = []
        for part in self.parts.get(view.buffer, []):
            first, last = _reach(part.view)
            if first <= high and low <= last:
                names.append(part.name)
        return names

    def _write(self, view: View, suffix: str = "") -> str:
        """The name of what a step writes; it hides what was written to the same elements before."""
        b = view.buffer
        before = self.parts.get(b, [])
        covers = view.count >= b.elements
        kept = [] if covers else [part for part in before if not part.view.same_elements(view)]
        name, n = b.name + suffix, 1
        while name in self.picture.types or (name != b.name and name in self.taken):
            n += 1
            name = f"{b.name}{suffix}.{n}"
        self.picture.types[name] = b.type if view.shape == b.type.shape else TensorType(view.dtype, view.shape)
        self.parts[b] = [*kept, _Part(name, view)]
        return name


def _reach(view: View) -> tuple[int, int]:
    """The first and the last element of its buffer that a view touches; an empty range for no element."""
    if not view.count:
        return 1, 0
    low = high = view.offset
    for f, s in zip(view.factors, view.strides, strict=True):
        reach = s * (f.extent(view.shape) - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high
