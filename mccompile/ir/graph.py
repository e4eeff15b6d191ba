"""Graph IR: SSA tensors, constants, and nodes with prologues and epilogues.

Grammar (see `graph_text` for printing and parsing)::

    graph    = "graph" "@" ident [extents] "(" [param {"," param}] ")" "{" {const} {node} {count} {state} return "}"
    extents  = "extents" "(" name "=" int ".." int {"," ...} ")"    (symbols that numbers are made of: see `dims`)
    count    = "count" name "=" value            (the value that holds such a symbol, if a node counts it)
    state    = "state" value "=" value           (an input, and the output of the run before that it is)
    param    = value ":" type
    const    = value "=" "const" [literal] ":" type [";" "sha256=" digest]
    node     = value {"," value} "=" op "(" [operand {"," operand}] ")" [attributes] ["regions" "{" {graph} "}"]
               ["with" "(" value {"," value} ")"] {"pre" int body} {"post" int body}
               ":" type {"," type} [";" origin {"+" origin}]
    operand  = value | "_"                       (absent)
    body     = "{" expr "}"
    return   = "return" [value {"," value}]
    value    = "%" (name | json-string)

``pre i`` is applied to each element read from operand i, ``post i`` to each element of result i; ``with``
lists the extra operands their variables ``x0 x1 ...`` read, broadcast to that operand's or result's shape.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import UndecidedError, symbols, value, varies
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.names import first_of
from mccompile.ir.op import Inside, Layouts, Op, TypeRuleError, op_at
from mccompile.ir.scalar import Array, as_computed
from mccompile.ir.scan import reason
from mccompile.ir.state import Growth, growth, unlike_state
from mccompile.ir.types import I32, DType, TensorType, broadcast_shapes, dtype_of


@dataclass(eq=False)
class Value:
    """One SSA value. ``name`` is the ONNX name where there is one, unique in its graph."""

    name: str
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


MOST_SHOWN = 16
"""ONNX nodes that a message names of those that a node came from: a sum of thousands of convolutions is made of all,
and each that is merged is a remark."""


@dataclass(frozen=True)
class Digest:
    """Stands for the elements of a constant whose array was not given with the text."""

    sha256: str


@dataclass(eq=False)
class Node:
    """An operator applied to values; see the module's text for ``pre``, ``post`` and ``extras``.

    ``origins`` are the names of the ONNX nodes it came from, that of its own operator first. ``regions`` are the
    graphs inside of an `if` or a `loop`, closed ones: all that they read are their inputs.
    """

    op: Op
    operands: list[Value | None]
    results: list[Value]
    extras: list[Value] = field(default_factory=list)
    pre: dict[int, ex.Expr] = field(default_factory=dict)
    post: dict[int, ex.Expr] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    regions: list[Graph] = field(default_factory=list)
    verified: tuple[object, ...] = field(default=(), init=False, repr=False)
    """The `typed_parts` that were last found right."""
    ruled: tuple[tuple[object, ...], tuple[TensorType, ...]] = field(default=((), ()), init=False, repr=False)
    """The operator and operand types that `own_types` was last asked of, and what its rule said."""

    @property
    def result(self) -> Value:
        """The only result. InternalError if there are several."""
        if len(self.results) != 1:
            raise InternalError(f"{self.op.name} has {len(self.results)} results")
        return self.results[0]

    @property
    def inputs(self) -> list[Value]:
        """Every value read, operands before extras, absent ones left out."""
        return [v for v in self.operands if v is not None] + self.extras

    @property
    def varies(self) -> bool:
        """Whether an extent of its operands or results, or another number, is known at run time only."""
        for v in (*self.operands, *self.extras, *self.results):  # not by `any`: each pass asks every node
            if v is not None and v.type.varies:
                return True
        return bool(self.op.varying) or varies(self.op.numbers)

    def numbers(self) -> list[int]:
        """The extents of its operands and results, and the numbers that its kernel may be given."""
        return [*self.op.numbers, *self.op.varying, *(e for v in (*self.inputs, *self.results) for e in v.shape)]

    def at_bounds(self) -> Node:
        """The node on operands and results of the largest extents that they may have, with the largest pads, for who
        plans for these: as it is where nothing varies."""
        if not self.varies:
            return self
        seen = {v: Value(v.name, v.type.at_bounds()) for v in (*self.inputs, *self.results) if v.type.varies}
        operands = [None if v is None else seen.get(v, v) for v in self.operands]
        results, extras = ([seen.get(v, v) for v in of] for of in (self.results, self.extras))
        return replace(self, op=self.op.at_bounds(), operands=operands, results=results, extras=extras)

    @property
    def expressions(self) -> list[ex.Expr]:
        """What a map computes, and the prologues and epilogues."""
        own = [] if self.op.elementwise is None else [self.op.elementwise]
        return [*own, *self.pre.values(), *self.post.values()]

    @property
    def where(self) -> str:
        """What it is called in messages: its operator, and the first of the ONNX nodes it came from."""
        return f"{self.op.name} ({first_of(self.origins, MOST_SHOWN) or self.results[0].name})"

    def typed_parts(self) -> tuple[object, ...]:
        """All that its types being right depends on. Each part is immutable: as long as they are the same ones,
        passes that leave a node as it is need not have it verified again."""
        types = [None if v is None else v.type for v in (*self.operands, None, *self.extras, None, *self.results)]
        bodies = (*self.pre, *self.pre.values(), None, *self.post, *self.post.values())
        return (self.op, *types, *bodies, None, *(v.type for g in self.regions for v in (*g.inputs, *g.outputs)))

    def operand_types(self) -> list[TensorType | None]:
        """Operand types as the operator sees them: after the prologues."""
        types: list[TensorType | None] = []
        for i, v in enumerate(self.operands):
            if v is not None and i in self.pre:
                types.append(v.type.with_dtype(self.pre[i].dtype))
            else:
                types.append(None if v is None else v.type)
        return types

    def own_types(self) -> tuple[TensorType, ...]:
        """Result types by the operator's rule, without regions, before the epilogues. Raises TypeRuleError."""
        types = self.operand_types()
        asked = (self.op, *types)
        if asked != self.ruled[0]:
            self.ruled = (asked, self.op.infer(*types))  # many passes ask, and of windows the rule is long
        return self.ruled[1]

    def infer(self) -> list[TensorType]:
        """Result types by the operator's rule, epilogues applied. Raises TypeRuleError."""
        if self.regions:
            inside = [(_types(g.inputs), _types(g.outputs)) for g in self.regions]
            types = list(self.op.infer_around(self.operand_types(), inside))
        else:
            types = list(self.own_types())
        for i, body in self.post.items():
            kept = types[i].dtype if types[i].dtype.compute == body.dtype else body.dtype
            types[i] = types[i].with_dtype(kept)
        return types

    @property
    def evaluates(self) -> bool:
        """Whether `evaluate` knows the results, of the graphs inside, too."""
        return self.op.evaluates and all(node.evaluates for region in self.regions for node in region.nodes)

    def evaluate(
        self, values: Mapping[Value, Array], wide: bool = False, extents: Mapping[str, int] | None = None
    ) -> list[Array]:
        """The meaning in numpy. ``wide`` computes floats in float64 (tolerances are scaled by it), ``extents`` are
        symbols of which the values are known, or that this very node counts (then they are -1).

        Raises UndecidedError if another extent is known at run time only, CompileError where numbers have no meaning.
        """
        known = extents or {}
        unknown = [s.name for s in symbols(*self.numbers()) if s.name not in known] if self.varies else []
        if unknown:
            raise UndecidedError(f"{self.where} has no value before its extent {unknown[0]} is known")
        told = {s: n for s, n in known.items() if n >= 0}
        op = op_at(self.op, told)
        if self.regions:
            given = [None if v is None else values[v] for v in self.operands]
            results = op.evaluate_around(given, [g.as_function(wide, told) for g in self.regions])
            return [typed(r, v.dtype, wide) for r, v in zip(results, self.results, strict=True)]
        arrays = self.operand_arrays(values, wide)
        if self.post:  # an epilogue reads what the operator computes, before it is stored
            arrays = list(map(as_computed, arrays))
        try:
            with np.errstate(all="ignore"):
                results = list(op.evaluate_wide(*arrays) if wide else op.evaluate(*arrays))
        except CompileError as e:
            if e.where:
                raise
            if not self.varies:
                raise CompileError(e.rule, where=self.where, hint=e.hint) from e
            at = ", ".join(f"{s} is {n}" for s, n in told.items())
            hint = e.hint or "a run would fail there: leave it out of the range of extents"
            raise CompileError(e.rule, where=f"{self.where}, where {at}", hint=hint) from e
        for i, body in self.post.items():
            results[i] = self._apply(body, results[i], values, wide)
        return [typed(r, v.dtype, wide) for r, v in zip(results, self.results, strict=True)]

    def operand_arrays(self, values: Mapping[Value, Array], wide: bool = False) -> list[Array | None]:
        """Operands as the operator sees them: after the prologues."""
        arrays: list[Array | None] = []
        for i, v in enumerate(self.operands):
            a = None if v is None else values[v]
            if a is not None and i in self.pre:
                a = self._apply(self.pre[i], a, values, wide)
            arrays.append(a)
        return arrays

    def _apply(self, body: ex.Expr, a: Array, values: Mapping[Value, Array], wide: bool) -> Array:
        read = ex.evaluate(body, lambda i: a if i == ex.ACC else values[self.extras[i]], wide)
        return np.broadcast_to(read, np.broadcast_shapes(a.shape, read.shape))


def _types(values: Iterable[Value]) -> tuple[TensorType, ...]:
    return tuple(v.type for v in values)


def typed(a: Array, dtype: DType, wide: bool) -> Array:
    """An array as an evaluation has a value of ``dtype``: with ``wide``, floats are float64. What is too large for it
    is infinite."""
    with np.errstate(all="ignore"):
        return np.asarray(a, dtype=dtype.evaluated(wide))


class Graph:
    """A list of nodes in execution order between inputs and outputs, with constants.

    ``counts`` are the values that hold what symbols of extents stand for, i32[]: extents that nodes count. The caller
    gives all other symbols. ``state`` says which output is which input in the next run, by name: outputs keep theirs.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.nodes: list[Node] = []
        self.constants: dict[Value, Array | Digest] = {}
        self.counts: dict[str, Value] = {}
        self.state: dict[str, str] = {}
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}

    def value(self, name: str, type_: TensorType) -> Value:
        """A new value; the name is made unique by a number if it is taken."""
        unique, n = name, self._numbers.get(name, 1)
        while unique in self._names:
            n += 1
            unique = f"{name}.{n}"
        self._numbers[name] = n
        self._names.add(unique)
        return Value(unique, type_)

    def reserve(self, names: Iterable[str]) -> None:
        """Let no new value have one of these names."""
        self._names.update(names)

    def constant(self, name: str, array: Array) -> Value:
        value = self.value(name, TensorType(dtype_of(array), array.shape))
        self.constants[value] = np.ascontiguousarray(array).reshape(array.shape)
        return value

    def rename(self, value: Value, name: str) -> None:
        """Give ``value`` a name; whoever has it now is numbered."""
        if value.name == name:
            return
        for other in self._all_values():
            if other.name == name:
                self._names.discard(name)
                other.name = self.value(name + ".1", other.type).name
        self._names.add(name)
        value.name = name

    def _all_values(self) -> list[Value]:
        return [*self.inputs, *self.constants, *(r for n in self.nodes for r in n.results)]

    def array(self, value: Value) -> Array:
        """The elements of a constant. CompileError if only its digest is known."""
        data = self.constants[value]
        if isinstance(data, Digest):
            raise CompileError(
                f"the elements of constant %{value.name} are needed",
                hint="give the .npz file beside the .mcir text",
            )
        return data

    def emit(
        self,
        op: Op,
        operands: Iterable[Value | None],
        names: Iterable[str],
        *,
        origins: tuple[str, ...] = (),
        extras: Iterable[Value] = (),
        pre: Mapping[int, ex.Expr] | None = None,
        post: Mapping[int, ex.Expr] | None = None,
        regions: Iterable[Graph] = (),
    ) -> list[Value]:
        """Append a node and return its results, typed by the operator's rule. Raises TypeRuleError, or ValueError
        where shapes do not broadcast."""
        bodies = dict(pre or {}), dict(post or {})
        node = Node(op, list(operands), [], list(extras), *bodies, origins, list(regions))
        types = node.infer()
        _extras_read(node, types)
        node.results = [self.value(n, t) for n, t in zip(names, types, strict=True)]
        self.nodes.append(node)
        return node.results

    def producers(self) -> dict[Value, Node]:
        return {r: n for n in self.nodes for r in n.results}

    def users(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, in order; a node that reads it twice is listed once."""
        return {v: list(nodes) for v, nodes in self.user_sets().items()}

    def user_sets(self) -> dict[Value, dict[Node, None]]:
        """`users` as sets in order, for who changes them."""
        table: dict[Value, dict[Node, None]] = {}
        for node in self.nodes:
            for v in (*node.operands, *node.extras):  # not by `inputs`: most passes ask all nodes
                if v is None:
                    continue
                readers = table.get(v)
                if readers is None:
                    table[v] = {node: None}
                else:
                    readers[node] = None
        return table

    def replace(self, old: Value, new: Value) -> None:
        """Let every reader of ``old`` (graph outputs included) read ``new``."""
        for node in self.nodes:
            node.operands = [new if v is old else v for v in node.operands]
            node.extras = [new if v is old else v for v in node.extras]
        self.outputs = [new if v is old else v for v in self.outputs]

    def all_regions(self) -> Iterator[Graph]:
        """The graphs inside of nodes, at any depth."""
        for node in self.nodes:
            for region in node.regions:
                yield region
                yield from region.all_regions()

    def everywhere(self, times: int = 1) -> Iterator[tuple[Node, int]]:
        """The nodes, those inside of others too, and how often each is computed in a run at most."""
        for node in self.nodes:
            yield node, times
            for region in node.regions:
                yield from region.everywhere(times * node.op.turns_inside())

    def remove_dead(self) -> int:
        """Drop nodes and constants nothing reads. Returns how many nodes went."""
        live = set(self.outputs) | {self.counts[s] for v in self.outputs for s in self._counted(v.shape)}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if node.op.ends_run or any(r in live for r in node.results):
                kept.append(node)
                live.update(node.inputs)
                # What a node counts itself, too: other results of it have that extent, also where nobody reads them.
                if self.counts:
                    live.update(self.counts[s] for s in self._asked(node))
        removed = len(self.nodes) - len(kept)
        self.nodes = kept[::-1]
        self.constants = {v: a for v, a in self.constants.items() if v in live}
        self.counts = {s: v for s, v in self.counts.items() if v in live}
        return removed

    def counted(self, node: Node) -> list[str]:
        """The symbols of extents that a node depends on and does not count itself."""
        return [s for s in self._asked(node) if self.counts[s] not in node.results]

    def _asked(self, node: Node) -> list[str]:
        """The symbols of extents that a node, or the graphs inside of it, depend on."""
        own = self._counted(node.numbers()) if node.varies else []
        return [*own, *(s for region in node.regions for inner in region.nodes for s in self._asked(inner))]

    def _counted(self, numbers: Iterable[int]) -> list[str]:
        return [s.name for s in symbols(*numbers) if s.name in self.counts]

    def shallow_copy(self) -> Graph:
        """A graph of the same values and nodes, to which others may be added, and from which these may be dropped."""
        other = Graph(self.name)
        other.inputs, other.outputs, other.nodes = list(self.inputs), list(self.outputs), list(self.nodes)
        other.constants, other.counts = dict(self.constants), dict(self.counts)
        other.state = dict(self.state)
        other._names, other._numbers = set(self._names), dict(self._numbers)
        return other

    def adopt(self, other: Graph) -> None:
        """Become what a changed copy is."""
        self.inputs, self.outputs, self.nodes = other.inputs, other.outputs, other.nodes
        self.constants, self.counts, self.state = other.constants, other.counts, other.state
        self._names, self._numbers = other._names, other._numbers

    def verify(self) -> None:
        """Raises InternalError where a rule of the IR is broken."""
        known = [*self.inputs, *self.constants]
        defined = set(known)
        names = [v.name for v in known]
        for v, data in self.constants.items():
            if isinstance(data, np.ndarray) and (data.shape != v.shape or dtype_of(data) != v.dtype):
                raise InternalError(f"constant {v} has elements of {data.dtype}{list(data.shape)}")
        for node in self.nodes:
            verify_node(node, defined)
            for region in node.regions:
                region.verify()
            defined.update(node.results)
            names.extend(r.name for r in node.results)
        for v in self.outputs:
            if v not in defined:
                raise InternalError(f"output %{v.name} is never defined")
        for name, v in self.counts.items():
            if v not in defined or v.type != TensorType(I32, ()):
                raise InternalError(f"the extent {name} is counted into %{v.name}, which is not defined, or no i32[]")
        if len(set(names)) != len(names) or len(defined) != len(names):
            raise InternalError("two values share a name or one is defined twice")
        self._verify_state()

    @property
    def fed(self) -> list[Value]:
        """The inputs that are no state."""
        return [v for v in self.inputs if v.name not in self.state.values()]

    def state_values(self) -> list[tuple[Value, Value]]:
        """(output, the input that it is in the next run), in the order of the inputs."""
        inputs, outputs = {v.name: v for v in self.inputs}, {v.name: v for v in self.outputs}
        by_input = {given: kept for kept, given in self.state.items()}
        return [(outputs[by_input[name]], v) for name, v in inputs.items() if name in by_input]

    def growths(self) -> dict[str, Growth]:
        """How extents of state grow from run to run, by symbol. InternalError where two grow apart."""
        found: dict[str, Growth] = {}
        for kept, given in self.state_values():
            grown = growth(kept.type, given.type)
            if grown is not None and found.setdefault(grown.name, grown) != grown:
                raise InternalError(f"{grown.name} grows by {grown.by} in %{kept.name}, elsewhere by another number")
        return found

    def _verify_state(self) -> None:
        inputs, outputs = {v.name: v for v in self.inputs}, {v.name: v for v in self.outputs}
        if len(set(self.state.values())) != len(self.state):
            raise InternalError("two outputs are one input of the next run")
        for kept, given in self.state.items():
            if kept not in outputs or given not in inputs:
                raise InternalError(f"state %{kept} is no output, or %{given} no input")
            if why := unlike_state(outputs[kept].type, inputs[given].type):
                raise InternalError(f"state %{kept} cannot be %{given}: {why}")

    def evaluate(
        self, inputs: Mapping[str, Array], wide: bool = False, keep: bool = False,
        extents: Mapping[str, int] | None = None,
    ) -> dict[str, Array]:
        """Run in numpy. Returns outputs by name, or with ``keep`` every value; ``wide`` in float64. ``extents`` are
        the symbols that the caller gives, by name."""
        values: dict[Value, Array] = {v: typed(self.array(v), v.dtype, wide) for v in self.constants}
        known = extents or {}
        for v in self.inputs:
            if inputs[v.name].shape != tuple(value(e, known) for e in v.shape):
                raise CompileError(f"input {v.name} has shape {inputs[v.name].shape}, not {v.shape}")
            values[v] = typed(inputs[v.name], v.dtype, wide)
        for node in self.nodes:
            results = node.evaluate(values, wide, self.known_at(node, values, known))
            for r, a in zip(node.results, results, strict=True):
                if a.shape != r.shape and not r.type.varies:
                    raise InternalError(f"{node.where} evaluates to shape {a.shape}, its rule says {r.type}")
                values[r] = a
        shown = values if keep else self.outputs
        return {v.name: values[v] for v in shown}

    def extents_of(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """The symbols that extents of the inputs are, by name, as arrays have them."""
        pairs = [pair for v in self.inputs for pair in zip(v.shape, inputs[v.name].shape, strict=True)]
        return {str(e): n for e, n in pairs if [s.name for s in symbols(e)] == [str(e)]}

    def known_at(self, node: Node, values: Mapping[Value, Array], extents: Mapping[str, int]) -> dict[str, int]:
        """What `Node.evaluate` has to know: ``extents``, and those that nodes before it have counted."""
        counted = {s: int(values[v]) for s, v in self.counts.items() if v in values}
        own = {s: -1 for s, v in self.counts.items() if v in node.results}
        return {**counted, **extents, **own}

    def as_function(self, wide: bool = False, extents: Mapping[str, int] | None = None) -> Inside:
        """`evaluate` on arrays in the order of inputs and outputs."""

        def run(arrays: Sequence[Array]) -> list[Array]:
            given = {v.name: a for v, a in zip(self.inputs, arrays, strict=True)}
            found = self.evaluate(given, wide, extents=extents)
            return [found[v.name] for v in self.outputs]

        known = extents or {}
        types = [v.type for v in self.outputs]
        decided = [known.keys() >= {s.name for s in symbols(*t.shape)} for t in types]
        return Inside(run, tuple(t.at(known) if d else t for t, d in zip(types, decided, strict=True)))


def verify_node(node: Node, defined: set[Value]) -> None:
    """Raises InternalError where a node reads what is not defined or its types are not those of its rule."""
    if not defined.issuperset(node.inputs):
        early = next(v for v in node.inputs if v not in defined)
        raise InternalError(f"{node.where} reads %{early.name} before it is defined")
    parts = node.typed_parts()
    if len(parts) != len(node.verified) or not all(map(operator.is_, parts, node.verified)):
        _verify_types(node)
        node.verified = parts


def _verify_types(node: Node) -> None:
    for name, words in node.op.words:
        if getattr(node.op, name) not in words:
            raise InternalError(f"{node.where}: its {name} is one of {', '.join(words)}")
    try:
        types = node.infer()
        reads = _extras_read(node, types)
    except (TypeRuleError, ValueError, IndexError, ArithmeticError) as e:
        raise InternalError(f"{node.where}: {reason(e)}") from e
    if len(types) != len(node.results):
        raise InternalError(f"{node.where}: {len(node.results)} results but its rule gives {len(types)}")
    for inferred, r in zip(types, node.results, strict=True):
        r.type.verify()
        if (inferred.dtype, inferred.shape) != (r.dtype, r.shape):
            raise InternalError(f"{node.where}: result {r} but its rule gives {inferred}")
    if reads != set(range(len(node.extras))):
        raise InternalError(f"{node.where}: extra operands and the variables read do not match")
    if node.op.layouts is Layouts.FIXED:
        stored = [v for v in (*node.inputs, *node.results) if v.type.layout is not None]
        if stored:
            raise InternalError(f"{node.where}: {stored[0]} is not row-major")


def _extras_read(node: Node, results: Sequence[TensorType]) -> set[int]:
    """The extra operands that prologues and epilogues read. Raises TypeRuleError, or ValueError, where one does not
    broadcast to what is computed there."""
    reads: set[int] = set()
    for i, body in node.pre.items():
        operand = node.operands[i]
        if operand is None:
            raise TypeRuleError(f"prologue on absent operand {i}")
        reads |= _read_by(node, body, operand.type)
    for i, body in node.post.items():
        reads |= _read_by(node, body, results[i])
    return reads


def _read_by(node: Node, body: ex.Expr, at: TensorType) -> frozenset[int]:
    extras = ex.variables(body) - {ex.ACC}
    for i in extras:
        shape = node.extras[i].shape
        if broadcast_shapes(shape, at.shape) != at.shape:
            raise TypeRuleError(f"extra operand {i} of shape {list(shape)} does not broadcast to {at}")
    return extras
