"""Turns a graph into kernel calls: buffers for values, views for operands, packed constants, halos."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import bound, ranges
from mccompile.ir.dims_hints import FIX
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.kernel import Block, Call, Condition, Fill, KernelModule, Logical
from mccompile.ir.names import free_name
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.state import room
from mccompile.ir.turns import Loop
from mccompile.ir.types import DType, Shape, TensorType, dtype_of, row_major
from mccompile.ir.views import Buffer, Halo, View, held, whole
from mccompile.kernels.registry import variant
from mccompile.kernels.variant import Demand, Packing
from mccompile.kernels.views.collapse import collapse
from mccompile.lower.control import lower_regions
from mccompile.lower.cost_table import UNMEASURED, CostTable
from mccompile.lower.growth import NO_GROWTH, Budget, choose_all, is_empty
from mccompile.lower.reshapes import copy_reshape
from mccompile.lower.select import Choice, choose
from mccompile.lower.storage import Storage, assign_storage
from mccompile.lower.widened import Narrow, stored, whole_weights
from mccompile.targets.target import Target

PORTS = ("input", "output")
"""The roles of what the caller may hold."""

MAX_ELEMENTS = 2**31 - 1
"""Generated C indexes with int32_t."""


@dataclass
class Lowered:
    """A kernel module, and the choice made for each node, by result name; of nodes of one name, as graphs for several
    extents have, that of the dearest."""

    module: KernelModule
    choices: dict[str, Choice] = field(default_factory=dict)


class _Builder:
    """Lowers nodes one after the other; it is the `Builder` that variants see."""

    def __init__(self, graph: Graph, target: Target, storage: Storage, ports: str = "arena") -> None:
        self.graph = graph
        self.ports = ports
        self.target = target
        self.storage = storage
        self.module = KernelModule(graph.name, target.name)
        self.steps: list[Call | Fill] = []
        self.when: tuple[Condition, ...] = ()
        """What has to hold for the steps that are lowered now."""
        self.loops: tuple[Loop, ...] = ()
        """What these steps are in."""
        self.node: Node
        self._blob: dict[tuple[Value, object], Buffer] = {}
        self._bytes: dict[tuple[Value, Packing], Buffer] = {}
        self._by_content: dict[tuple[TensorType, bytes], Buffer] = {}
        self._apart: list[Buffer] = []
        self._arena: dict[Value, Buffer] = {}
        self._copied: dict[int, Buffer] = {}
        self._names: set[str] = set()
        self._state = {v: room(kept.type, given.type) for kept, given in graph.state_values() for v in (kept, given)}
        for role, values in (("input", graph.inputs), ("output", graph.outputs)):
            for v in values:
                self._declare(v, role)
        self.module.state = {self._declare(kept): self._declare(given) for kept, given in graph.state_values()}
        self.declare_counts()

    # -- buffers -----------------------------------------------------------------------------------------
    def _buffer(self, name: str, type_: TensorType, space: str, **rest: object) -> Buffer:
        unique = free_name(name, self._names, ".")
        self._names.add(unique)
        align = max(self.target.align, type_.dtype.nbytes)
        buffer = Buffer(unique, type_, space, align, **rest)  # type: ignore[arg-type]
        if buffer.elements > MAX_ELEMENTS:
            raise CompileError(f"tensor {name} of {buffer.elements} elements is too large", where=self.graph.name)
        if space == "caller":
            buffer.align = type_.dtype.nbytes
        self.module.buffers.append(buffer)
        return buffer

    def declare_counts(self) -> None:
        """The buffers into which kernels of the graph count; what is counted in a loop is of use there alone.
        A number that is a constant, as that of a loop which was folded, is written."""
        for name, v in self.graph.counts.items():
            buffer = self._declare(v, "" if self.loops or v in self.graph.outputs else "count")
            if self.module.counts.setdefault(name, buffer) is not buffer:
                raise InternalError(f"two graphs count an extent as {name}")
            if v in self.graph.constants:
                self.fill(whole(buffer), int(self.graph.array(v)))

    def carry(self, value: Value) -> Buffer:
        """A buffer of its own for what a loop carries from turn to turn."""
        return self._buffer(value.name, value.type, "arena")

    def bind(self, value: Value, buffer: Buffer) -> None:
        """Let a value of the graph be in a buffer that another graph has declared."""
        self._arena[value] = buffer

    def _declare(self, value: Value, role: str = "") -> Buffer:
        """The buffer that holds a value (that of the value it is a reshape of)."""
        root = self.storage.root.get(value, value)
        if root not in self._arena:
            demand = self.storage.halo.get(root)
            halo, fill = (stored_halo(demand.halo, root.type), demand.fill) if demand else ((), 0.0)
            space = self.ports if role in PORTS and value not in self._state else "arena"
            more = {"room": self._state[value]} if self._state.get(value) else {}
            self._arena[root] = self._buffer(root.name, root.type, space, halo=halo, fill=fill, role=role, **more)
            if halo:
                self._fill_halo(self._arena[root])
        elif role:
            self._arena[root].role = role
        return self._arena[root]

    def _fill_halo(self, buffer: Buffer) -> None:
        """One step for each slab around the tensor; slabs of later axes leave out what earlier ones cover."""
        everything = Buffer(buffer.name, buffer.type, "arena", buffer.align, buffer.halo)
        view = whole(everything)
        extents, strides = list(buffer.extents), view.strides
        start = [0] * len(extents)
        for axis, (lo, hi) in enumerate(buffer.halo):
            for first, count in ((0, lo), (buffer.extents[axis] - hi, hi)):
                if count:
                    shape = tuple(count if a == axis else e for a, e in enumerate(extents))
                    offset = sum((first if a == axis else s) * strides[a] for a, s in enumerate(start))
                    slab = View(buffer, shape, row_major(len(shape)), strides, offset)
                    self.fill(slab, buffer.fill)
            start[axis] = lo
            extents[axis] -= lo + hi

    # -- what variants ask for ---------------------------------------------------------------------------
    def read(self, value: Value) -> View:
        if value in self.graph.constants:
            return self.packed(value, _AsIs())
        return self._view(value)

    def _view(self, value: Value) -> View:
        view = held(self._declare(value), value.type)
        if isinstance(view, str):
            raise InternalError(f"%{value.name} is no view of its root: {view}")
        return view

    def is_constant(self, value: Value) -> bool:
        return value in self.graph.constants

    def read_halo(self, demand: Demand) -> View:
        """The view of an operand whose negative and overhanging coordinates are its halo.

        If the value's buffer has no such halo, it is copied into one that has.
        """
        value = self.node.operands[demand.operand]
        assert value is not None
        view = self.read(value)
        if not any(lo or hi for lo, hi in demand.halo):
            return view
        have = self.storage.halo.get(value)
        if have is not None and have.fill == demand.fill and covers(have.halo, demand.halo):
            return view
        halo = stored_halo(demand.halo, value.type)
        copy = self._buffer(f"{value.name}.halo", value.type, "arena", halo=halo, fill=demand.fill)
        self._copied[demand.operand] = copy
        self._fill_halo(copy)
        origins = self.node.origins
        self.steps.append(
            Call(
                "copy.generic", self.node.op, None, (view,), (whole(copy),), origins=origins, when=self.when,
                loops=self.loops,
            ).with_counts(self.module.counts)
        )  # fmt: skip
        return whole(copy)

    def result(self, index: int) -> View:
        return self._view(self.node.results[index])

    def packed(self, value: Value, how: Packing) -> View:
        key = (value, how)
        if key not in self._blob:
            packed = how.pack(self.graph.array(value))
            data = np.ascontiguousarray(packed).reshape(packed.shape)
            suffix = "" if isinstance(how, _AsIs) else f".{type(how).__name__.lower()}"
            type_ = TensorType(dtype_of(data), data.shape)
            weights = self.target.lanes > 1 and whole_weights(self.node, self.graph) is value
            narrow = stored(data) if weights else None
            if narrow is not None:
                return self._widened(key, value.name + suffix, type_, narrow)
            self._blob[key] = self._stored(value.name + suffix, type_, data)
        return whole(self._blob[key])

    def _widened(self, key: tuple[Value, Packing], name: str, type_: TensorType, narrow: Narrow) -> View:
        """Where the floats are that bytes of the blob become, by steps that are made here for each reader; the bytes,
        of one ``key``, are there once."""
        data = narrow.bytes
        if key not in self._bytes:
            self._bytes[key] = self._stored(f"{name}.bytes", TensorType(dtype_of(data), data.shape), data)
        blob = whole(self._bytes[key])
        floats = self._buffer(f"{name}.floats", type_, "arena")
        for part in range(narrow.parts):
            view = View(floats, blob.shape, blob.factors, blob.strides, part * data.size)
            kernel = "map.generic" if narrow.parts > 1 else "map.vector"  # vectors have no shifts
            call = Call(kernel, narrow.widened(part), None, (blob,), (view,), origins=self.node.origins)
            self.steps.append(replace(call, when=self.when, loops=self.loops))
        return whole(floats)

    def _stored(self, name: str, type_: TensorType, data: Array) -> Buffer:
        """The buffer of a packed constant; in graphs of which one is run, that of another one of the same bytes."""
        if not self.when:  # nobody may ever ask for the same bytes: they are compared where somebody does
            self._apart.append(self._buffer(name, type_, "blob", data=data))
            return self._apart[-1]
        self._by_content |= {_content(b.type, b.data): b for b in self._apart}
        self._apart = []
        same = _content(type_, data)
        if same not in self._by_content:
            self._by_content[same] = self._buffer(name, type_, "blob", data=data)
        return self._by_content[same]

    def seen(self, value: Value, how: Packing) -> View:
        data = how.pack(self.graph.array(value))
        return whole(Buffer(value.name, TensorType(dtype_of(data), data.shape), "record", 1, data=data))

    def scratch(self, count: int, dtype: DType) -> Buffer:
        name = f"{self.node.results[0].name}.scratch"
        return self._buffer(name, TensorType(dtype, (count,)), "arena", role="scratch")

    def fill(self, view: View, value: float) -> None:
        merged = collapse([view])
        fill = Fill(view if isinstance(merged, str) else merged[0], value, self.when, self.loops)
        self.steps.append(fill.with_counts(self.module.counts))

    def call(
        self,
        kernel: str,
        reads: list[View | None],
        results: list[View],
        *,
        op: Op | None = None,
        params: object | None = None,
        scratch: Buffer | None = None,
        extras: list[View] | None = None,
        inplace: tuple[int, ...] | None = None,
        logical: Logical | None = None,
    ) -> None:
        node = self.node
        views = self.extras(reads) if extras is None else extras
        if inplace is None:
            written = set().union(*(ex.variables(b) for b in node.post.values())) if node.post else set()
            safe = written - set().union(*(ex.variables(b) for b in node.pre.values()))
            inplace = tuple(
                len(reads) + i for i, v in enumerate(views) if i in safe and v.same_elements(results[0])
            )
        self.steps.append(
            Call(
                kernel, op or node.op, params, tuple(reads), tuple(results), tuple(views),
                tuple(sorted(node.pre.items())), tuple(sorted(node.post.items())),
                scratch, inplace, origins=node.origins, logical=logical, when=self.when, loops=self.loops,
            ).with_counts(self.module.counts)
        )  # fmt: skip

    # -- what calls mean -----------------------------------------------------------------------------------
    def record(self, start: int) -> None:
        """Note at the call of the node, among the steps from ``start`` on, what its views are to the operator."""
        calls = [
            (i, s) for i, s in enumerate(self.steps[start:], start)
            if isinstance(s, Call) and not variant(s.kernel).elementwise and s.logical is None
        ]  # fmt: skip
        for i, call in calls:
            logical = Logical(missing="several calls compute it") if len(calls) > 1 else self._logical(call)
            own = (call.reads, call.results, call.extras)
            if (logical.reads, logical.results, logical.extras) != own:
                self.steps[i] = replace(call, logical=logical)
        self._copied.clear()

    def price(self, start: int, cycles: float) -> None:
        """Note at the calls among the steps from ``start`` on what they take of the cycles of the node."""
        calls = {i: s for i, s in enumerate(self.steps[start:], start) if isinstance(s, Call)}
        elements = {i: bound(call.results[0].count) for i, call in calls.items()}
        each = cycles / max(sum(elements.values()), 1)
        for i, call in calls.items():
            self.steps[i] = replace(call, cycles=each * elements[i])

    def _logical(self, call: Call) -> Logical:
        node = self.node
        if call.op != node.op:
            return Logical(missing="it computes another operator than the node")
        extras = [self._at(v, self._shapes_of(i)) for i, v in enumerate(node.extras)]
        reads = tuple(
            whole(self._copied[i]) if i in self._copied else None if v is None else self._recorded(v)
            for i, v in enumerate(node.operands)
        )
        unread = any(self.storage.root.get(r, r) not in self._arena for r in node.results)
        if unread or any(v is None for v in extras):
            return Logical(missing="an extra operand is read under several shapes, or a result by nobody")
        results = tuple(self.result(i) for i in range(len(node.results)))
        return Logical(reads, results, tuple(v for v in extras if v is not None))

    def _recorded(self, value: Value) -> View:
        """The view of a value; a constant that is packed in all of its uses is in no buffer of the module."""
        known = self._blob.get((value, _AsIs()))
        if value in self.graph.constants and known is None:
            return self.seen(value, _AsIs())
        return whole(known) if known is not None else self.read(value)

    def _at(self, value: Value, shapes: set[Shape]) -> View | None:
        return self._recorded(value).broadcast(next(iter(shapes))) if len(shapes) == 1 else None

    def _shapes_of(self, extra: int, reads: Sequence[View | None] = ()) -> set[Shape]:
        """The shapes under which bodies read an extra operand; ``reads`` may have axes in front of an operand's."""
        node = self.node
        shapes = {node.results[k].shape for k, body in node.post.items() if extra in ex.variables(body)}
        for k, body in node.pre.items():
            operand, seen = node.operands[k], reads[k] if k < len(reads) else None
            if operand is not None and extra in ex.variables(body):
                wider = seen is not None and _ends_with(seen, operand.shape)
                shapes.add(seen.shape if seen is not None and wider else operand.shape)
        return shapes

    def extras(self, reads: Sequence[View | None] = ()) -> list[View]:
        """The node's extra operands, broadcast to what they are applied to."""
        views = []
        for i, v in enumerate(self.node.extras):
            shapes = self._shapes_of(i, reads)
            if len(shapes) != 1:
                raise InternalError(f"{self.node.where}: extra operand {i} is read under several shapes")
            views.append(self.read(v).broadcast(shapes.pop()))
        return views


def _ends_with(view: View, shape: Shape) -> bool:
    """Whether the last axes of a view are all of a shape."""
    return not shape or view.shape[-len(shape) :] == shape


@dataclass(frozen=True)
class _AsIs:
    """A constant as it is, in row-major order."""

    def pack(self, array: np.ndarray) -> np.ndarray:
        return array


def stored_halo(halo: Halo, type_: TensorType) -> Halo:
    """A halo per logical axis in the order in which axes are stored."""
    return tuple(halo[f.axis] for f in type_.factors)


def covers(have: Halo, need: Halo) -> bool:
    return bool(have) and all(h[0] >= n[0] and h[1] >= n[1] for h, n in zip(have, need, strict=True))


def lower(
    graph: Graph,
    target: Target,
    force: Mapping[str, str] | None = None,
    arena_first: bool = False,
    costs: CostTable = UNMEASURED,
    budget: Budget = NO_GROWTH,
    ports: str = "arena",
) -> Lowered:
    """Lower a verified graph. ``force`` maps operators to kernels that must be used where supported.

    ``arena_first`` prefers kernels that take less of the arena to faster ones. ``costs`` are measurements that
    replace estimates. ``budget`` is what the kernels together may add to the weights. ``ports`` is the space of
    inputs and outputs: "arena", or "caller".

    Raises CompileError naming every node no kernel supports.
    """

    def choices_of(part: Graph) -> dict[Node, Choice]:
        def choice(node: Node) -> Choice:
            found = choose(node, target, force or {}, part.constants, arena_first, costs)
            # What is computed of whole numbers beforehand is none.
            return found.within(0) if whole_weights(node, part) else found

        return choose_all(part, choice, budget)

    chosen = {g: choices_of(g) for g in (graph, *graph.all_regions())}
    builder = _Builder(graph, target, _storage(graph, chosen[graph]), ports)
    _lower_nodes(graph, chosen, builder)
    _require_inside(builder.steps)
    builder.module.body = Block(tuple(builder.steps))
    builder.module.verify()
    dearest: dict[str, Choice] = {}
    for node, made in ((n, c) for of in chosen.values() for n, c in of.items()):
        kept = dearest.setdefault(node.results[0].name, made)
        if made.best.cycles > kept.best.cycles:
            dearest[node.results[0].name] = made
    return Lowered(builder.module, dearest)


def _require_inside(steps: Sequence[Call | Fill]) -> None:
    """CompileError where the ranges of extents do not tell that a view stays inside of its buffer."""
    for step in steps:
        for v in (step.view,) if isinstance(step, Fill) else (*step.inputs, *step.results):
            if v is not None and v.varies and not v.is_inside:
                rule = f"it is not known for all extents that {v.offset} lies inside of {list(v.buffer.extents)}"
                told = f"{rule}, where {ranges(v.offset, *v.buffer.extents)}"
                where = f"{step.op.name} ({', '.join(step.origins)})" if isinstance(step, Call) else v.buffer.name
                raise CompileError(told, where=where, hint=f"{FIX}: --dim NAME=N", code="open-extents")


Choices = Mapping[Graph, Mapping[Node, Choice]]
"""The kernels of a graph and of those inside of it."""


def _storage(graph: Graph, choices: Mapping[Node, Choice], gaps: Set[Value] = frozenset()) -> Storage:
    return assign_storage(graph, {n: c.offer.demands for n, c in choices.items()}, gaps)


def _lower_nodes(graph: Graph, chosen: Choices, b: _Builder) -> None:
    for node in graph.nodes:
        b.node = node
        found = chosen[graph].get(node)
        if is_empty(node):
            continue
        if node.regions:
            lower_regions(node, b, lambda g, gaps: _storage(g, chosen[g], gaps), lambda g: _lower_nodes(g, chosen, b))
        elif found is not None:
            start = len(b.steps)
            found.variant.lower(node, found.offer, b)
            b.record(start)
            b.price(start, found.best.cycles)
        elif b.storage.of(node.result) is not b.storage.of(node.inputs[0]):
            copy_reshape(node, b)


def _content(type_: TensorType, data: Array | None) -> tuple[TensorType, bytes]:
    """What is equal for constants of one type and the same bytes."""
    assert data is not None
    return type_, hashlib.sha256(data.tobytes()).digest()
