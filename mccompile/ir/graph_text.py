"""Text of the graph IR: printer and parser, which are inverses of each other (grammar in `graph`)."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, bound, varies
from mccompile.ir.dims_text import declaration
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Digest, Graph, Node, Value, verify_node
from mccompile.ir.limits import LIMITS, exceeds, limit, to_raise
from mccompile.ir.op import Op, op_text
from mccompile.ir.scalar import Array
from mccompile.ir.scan import MALFORMED, Scanner, literal, name_text, origins_text, reason, split_items
from mccompile.ir.types import DTYPES, DType, TensorType, parse_layout

INLINE_LIMIT = 32
"""Constants of at most this many elements are printed, larger ones by digest."""

OpLookup = Callable[[str], type[Op]]


def digest(array: Array) -> str:
    """First 12 hex digits of the SHA-256 of the elements."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]


def value_text(value: Value | None) -> str:
    return "_" if value is None else "%" + name_text(value.name)


def _constant_text(value: Value, data: Array | Digest) -> str:
    head = f"  {value_text(value)} = const"
    if isinstance(data, Digest):
        return f"{head} : {value.type} ; sha256={data.sha256}"
    if data.size <= INLINE_LIMIT:
        return f"{head} {_elements_text(data)} : {value.type}"
    return f"{head} : {value.type} ; sha256={digest(data)}"


def _elements_text(data: Array) -> str:
    return "[" + ", ".join(str(x) if data.dtype.kind == "f" else str(int(x)) for x in data.reshape(-1)) + "]"


def _node_text(node: Node) -> str:
    text = f"  {', '.join(map(value_text, node.results))} = {node.op.name}"
    text += f"({', '.join(map(value_text, node.operands))})"
    text += op_text(node.op).removeprefix(node.op.name)
    if node.regions:
        inner = "".join(f"\n    {line}" for g in node.regions for line in print_graph(g).splitlines())
        text += f" regions {{{inner}\n  }}"
    if node.extras:
        text += f" with({', '.join(map(value_text, node.extras))})"
    for key, bodies in (("pre", node.pre), ("post", node.post)):
        text += "".join(f" {key}{i}{{ {ex.text(body)} }}" for i, body in sorted(bodies.items()))
    types = ", ".join(str(r.type) for r in node.results)
    return f"{text} : {types}{origins_text(node.origins)}"


def print_graph(graph: Graph) -> str:
    """The text of a graph. Large constants are digests: `arrays` gives what stands beside the text."""
    params = ", ".join(f"{value_text(v)}: {v.type}" for v in graph.inputs)
    numbers = [n for node in graph.nodes for n in node.numbers()] + [e for v in graph.inputs for e in v.shape]
    lines = [f"graph @{name_text(graph.name)}{declaration(numbers)}{' ' if varies(numbers) else ''}({params}) {{"]
    lines += [_constant_text(v, data) for v, data in graph.constants.items()]
    lines += [_node_text(n) for n in graph.nodes]
    lines += [f"  count {name} = {value_text(v)}" for name, v in graph.counts.items()]
    lines += [f"  state {value_text(given)} = {value_text(kept)}" for kept, given in graph.state_values()]
    lines.append(f"  return {', '.join(map(value_text, graph.outputs))}")
    return "\n".join([*lines, "}", ""])


def content_name(type_: TensorType, sha: str) -> str:
    """What an array beside the text is called where names do not tell it from others: equal bytes may be of another
    type."""
    return f"#{type_} {sha}"


def arrays(graph: Graph) -> dict[str, Array]:
    """The constants that the text shows by digest only: the content of ``<file>.npz``. By name; those of graphs
    inside of nodes, each of which has names of its own, by content."""
    found = {v.name: a for v, a in _beside(graph)}
    return found | {content_name(v.type, digest(a)): a for g in graph.all_regions() for v, a in _beside(g)}


def _beside(graph: Graph) -> Iterator[tuple[Value, Array]]:
    for v, a in graph.constants.items():
        if isinstance(a, np.ndarray) and a.size > INLINE_LIMIT:
            yield v, a


def parse_op(
    name: str, attributes: str, lookup: OpLookup, types: list[TensorType | None], extents: Mapping[str, int]
) -> Op:
    """An operator from its name and the text between the braces; ``types`` are its operands'."""
    shapes = [() if t is None else t.shape for t in types]
    cls = lookup(name)

    def variable(index: int) -> DType:
        return _operand_dtype(types, cls.operand_of(index, shapes))

    return cls(**parse_fields(cls, name, attributes, variable, extents))


def parse_fields(
    cls: type, name: str, source: str, variable: Callable[[int], DType], extents: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The fields of a dataclass from ``key=value, ...``; ``variable`` types the variables of expressions, ``extents``
    are the symbols that numbers may be made of.

    Raises ValueError for a field that ``cls`` (called ``name`` in the message) has not, or that is missing.
    """
    known = {f.name: f for f in dataclasses.fields(cls)}
    kwargs: dict[str, Any] = {}
    for item in split_items(source):
        key, _, value = item.partition("=")
        if key not in known or key in kwargs:
            raise ValueError(f"{name} has no attribute {key!r}" if key not in known else f"{key!r} is given twice")
        expression = value.startswith("{") and value.endswith("}")
        kwargs[key] = ex.parse(value[1:-1], variable) if expression else literal(value, extents)
        _require_kind(f"{key}={value}", kwargs[key], str(known[key].type))
    for key, f in known.items():
        if key not in kwargs and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise ValueError(f"{name} needs attribute {key!r}")
    return kwargs


def _require_kind(shown: str, value: Any, kind: str) -> None:
    """ValueError for a list, a text or a number where a field of type ``kind`` is another of these."""
    if kind.startswith("tuple[") and not isinstance(value, tuple):
        raise ValueError(f"{shown} is no list, such as (1,)")
    if (kind == "str") > isinstance(value, str):
        raise ValueError(f"{shown} is no text, such as 'a'")
    if kind in ("int", "float", "bool") and isinstance(value, tuple | str):
        raise ValueError(f"{shown} is no number")
    words = set(re.findall(r"\w+", kind)) - {"tuple"}
    if kind.startswith("tuple[tuple[") and not all(isinstance(v, tuple) for v in value):
        raise ValueError(f"{shown} is no list of lists, such as ((1,), (2,))")
    if words == {"str"} and not all(isinstance(v, str) for v in _leaves(value)):
        raise ValueError(f"{shown} is no list of texts, such as ('a',)")
    if words == {"int"}:
        numbers = list(_leaves(value))
        if not all(isinstance(v, int) for v in numbers):
            raise ValueError(f"{shown} is not whole")
        if not all(isinstance(v, Dim) or -(2**63) <= v < 2**63 for v in numbers):
            raise ValueError(f"{shown} is no number of 64 bits")


def _leaves(value: Any) -> Iterator[Any]:
    """What lists of lists hold."""
    if not isinstance(value, tuple):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _operand_dtype(types: list[TensorType | None], index: int) -> DType:
    t = types[index] if index < len(types) else None
    if t is None:
        raise ValueError(f"x{index} reads an absent operand")
    return t.dtype


def parse_type(s: Scanner) -> TensorType:
    """``dtype[extents]`` and the layout, if there is one on the line."""
    dtype = DTYPES.get(s.pattern(r"\w+", "an element type"))
    if dtype is None:
        raise s.error("unknown element type")
    body = s.balanced("[")
    layout = None
    if s.accept(":", newlines=False):
        layout = s.pattern(r"\([^)\n]*\)|\w+", "a layout")
    try:
        shape = s.numbers(body)
        type_ = TensorType(dtype, shape, None if layout is None else parse_layout(layout))
        type_.verify()
    except MALFORMED as e:
        raise s.error(f"not a type: {reason(e)}") from e
    for name, asked in (("tensor-axes", type_.rank), ("tensor-elements", bound(type_.count))):
        if exceeds(name, asked):
            allowed = f"the limit is {limit(name):,}; {to_raise(name, asked)}"
            raise s.error(f"a type has {asked:,} {LIMITS[name].unit}, {allowed}")
    return type_


class _GraphParser:
    def __init__(
        self, source: str, lookup: OpLookup, data: Mapping[str, Array], path: str, inside: bool = False
    ) -> None:
        self.s = Scanner(source, path)
        self.lookup = lookup
        self.data = data
        self.inside = inside
        self.values: dict[str, Value] = {}
        self.graph = Graph("")

    def result_name(self) -> str:
        self.s.expect("%")
        return self.s.name()

    def use(self) -> Value | None:
        if self.s.accept("_"):
            return None
        name = self.result_name()
        if name not in self.values:
            raise self.s.error(f"%{name} is not defined")
        return self.values[name]

    def use_list(self, closing: str) -> list[Value | None]:
        values: list[Value | None] = []
        while not self.s.accept(closing):
            if values:
                self.s.expect(",")
            values.append(self.use())
        return values

    def regions(self) -> list[Graph]:
        """The graphs inside of a node, which have names and extents of their own."""
        found: list[Graph] = []
        self.s.expect("{")
        while not self.s.accept("}"):
            inner = _GraphParser(self.s.source, self.lookup, self.data, self.s.path, inside=True)
            inner.s.at = self.s.at
            found.append(inner.parse())
            self.s.at = inner.s.at
        return found

    def define(self, name: str, type_: TensorType) -> Value:
        if name in self.values:
            raise self.s.error(f"%{name} is defined twice")
        self.values[name] = self.graph.value(name, type_)
        return self.values[name]

    def parse(self) -> Graph:
        self.s.expect("graph")
        self.s.expect("@")
        self.graph.name = self.s.name()
        self.s.declared_extents()
        self.s.expect("(")
        while not self.s.accept(")"):
            if self.graph.inputs:
                self.s.expect(",")
            name = self.result_name()
            self.s.expect(":")
            self.graph.inputs.append(self.define(name, parse_type(self.s)))
        self.s.expect("{")
        while not self.s.accept("return"):
            self.s.skip()
            start = self.s.at
            try:
                self.statement()
            except MALFORMED as e:
                self.s.at = start
                raise self.s.error(reason(e)) from e
        while not self.s.accept("}"):
            if self.graph.outputs:
                self.s.expect(",")
            output = self.use()
            if output is None:
                raise self.s.error("an output cannot be absent")
            self.graph.outputs.append(output)
        return self.graph

    def statement(self) -> None:
        if self.s.accept("count"):
            name = self.s.name()
            self.s.expect("=")
            counted = self.use()
            if counted is None or name not in self.s.extents:
                raise ValueError(f"{name} is not declared as an extent, or nothing counts it")
            self.graph.counts[name] = counted
            return
        if self.s.accept("state"):
            self.state()
            return
        names = [self.result_name()]
        while self.s.accept(","):
            names.append(self.result_name())
        self.s.expect("=")
        if self.s.accept("const"):
            self.constant(names[0])
        else:
            self.node(names)

    def state(self) -> None:
        """An input, and the output of the run before that it is."""
        given = self.use()
        self.s.expect("=")
        kept = self.use()
        if given is None or kept is None or kept.name in self.graph.state:
            raise ValueError("state is an output, once, and an input")
        self.graph.state[kept.name] = given.name

    def constant(self, name: str) -> None:
        self.s.skip()
        elements = self.s.balanced("[") if self.s.source.startswith("[", self.s.at) else None
        self.s.expect(":")
        value = self.define(name, parse_type(self.s))
        if elements is not None:
            items = [literal(e) for e in split_items(elements)]
            if len(items) != value.type.count:
                raise ValueError(f"{len(items)} elements for a constant of type {value.type}")
            try:
                with np.errstate(over="raise"):
                    array = np.array(items, dtype=value.dtype.numpy).reshape(value.shape)
            except FloatingPointError as e:
                raise ValueError(f"a number is too large for {value.dtype}") from e
            self.graph.constants[value] = array
            return
        self.s.expect(";")
        self.s.expect("sha256=")
        sha = self.s.pattern(r"[0-9a-f]+", "a digest")
        known = self.data.get(content_name(value.type, sha) if self.inside else name)
        if known is not None and digest(known) != sha:
            raise self.s.error(f"the array given for %{name} has digest {digest(known)}, not {sha}")
        self.graph.constants[value] = Digest(sha) if known is None else known

    def node(self, names: list[str]) -> None:
        op_name = self.s.name()
        self.s.expect("(")
        operands = self.use_list(")")
        attributes = self.s.balanced("{") if self.peek("{") else ""
        extras: list[Value] = []
        if self.s.accept("with"):
            self.s.expect("(")
            extras = [v for v in self.use_list(")") if v is not None]
        types = [None if v is None else v.type for v in operands]
        op = parse_op(op_name, attributes, self.lookup, types, self.s.extents)
        regions = self.regions() if self.s.accept("regions") else []
        node = Node(op, operands, [], extras, regions=regions)
        self.bodies(node)
        self.s.expect(":")
        for i, name in enumerate(names):
            if i:
                self.s.expect(",")
            node.results.append(self.define(name, parse_type(self.s)))
        node.origins = self.s.origins()
        verify_node(node, set(node.inputs))
        self.graph.nodes.append(node)

    def bodies(self, node: Node) -> None:
        extra_types = [v.type.dtype for v in node.extras]
        while self.s.accept("pre"):
            i = self.s.integer()
            operand = node.operands[i] if 0 <= i < len(node.operands) else None
            if operand is None:
                raise ValueError(f"pre{i} on an absent operand")
            node.pre[i] = self.body(extra_types, operand.dtype)
        # Results have no types yet: those of the operator alone are what an epilogue reads.
        raw = node.own_types() if self.peek("post") else ()
        while self.s.accept("post"):
            i = self.s.integer()
            if not 0 <= i < len(raw):
                raise ValueError(f"post{i} of {len(raw)} results")
            node.post[i] = self.body(extra_types, raw[i].dtype)

    def body(self, extras: list[DType], own: DType) -> ex.Expr:
        source = self.s.balanced("{")

        def variable(i: int) -> DType:
            if i >= len(extras):
                raise ValueError(f"x{i} is read, but there are {len(extras)} extra operands")
            return own if i == ex.ACC else extras[i]

        return ex.parse(source, variable)

    def peek(self, text: str) -> bool:
        self.s.skip()
        return self.s.source.startswith(text, self.s.at)


def parse_graph(
    source: str, lookup: OpLookup, data: Mapping[str, Array] | None = None, path: str = "<text>"
) -> Graph:
    """Parse a graph. ``lookup`` maps an operator's name to its class; ``data`` holds large constants.

    Raises CompileError with the line where the text or the graph is wrong.
    """
    parser = _GraphParser(source, lookup, data or {}, path)
    graph = parser.parse()
    try:
        graph.verify()
    except InternalError as e:
        raise parser.s.error(str(e)) from e
    return graph
