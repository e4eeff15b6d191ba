"""ONNX nodes to graph IR, one after the other: constants are folded on the way, so that every shape is known."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer import control, sequences
from mccompile.importer.arguments import read_arguments
from mccompile.importer.bounded import require_results, require_window
from mccompile.importer.branch import Begin, Branch, Captures, emit_if, refused, settled
from mccompile.importer.draws import Draws, draw
from mccompile.importer.element_types import require_types
from mccompile.importer.extent_rules import Numbers
from mccompile.importer.extents import asked, combined, computed, supposed, written
from mccompile.importer.fold import fold_node, grows_much, stand_in
from mccompile.importer.narrow import (
    as_computed,
    asks_shape,
    depends_on_narrow,
    halves_within,
    reads_text,
    require_readable,
    result_types,
    round_before_jumps,
)
from mccompile.importer.outputs import bind_outputs, ports
from mccompile.importer.ranks import require_ranks
from mccompile.importer.ratios import Ratios, cast_to, ratios
from mccompile.importer.refusals import UNSUPPORTED, blame, unsupported
from mccompile.importer.sequences import Known, require_tensor
from mccompile.importer.varying import TAKES_EXTENTS
from mccompile.ir import expr as ex
from mccompile.ir.dims import UndecidedError, varies
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.limits import require
from mccompile.ir.names import Names
from mccompile.ir.op import TypeRuleError
from mccompile.ir.scan import reason
from mccompile.ir.types import BOOL, DTYPES, I64, BroadcastError, DType
from mccompile.onnxio import (
    DRAWING,
    PRIVATE,
    OnnxGraph,
    OnnxNode,
    OnnxValue,
    attributes,
    broken_rule,
    dtype_of_array,
    expand_function,
    is_function,
    newest_opset,
    require_operands,
)
from mccompile.ops.extents import Extents, holds
from mccompile.ops.frontend import Import
from mccompile.ops.held import HELD_IN, held
from mccompile.ops.registry import front_ends, run_time_forms
from mccompile.ops.reshape import Reshape
from mccompile.ops.run_time import RunTime
from mccompile.ops.slice import Slice
from mccompile.ops.stated import Stated
from mccompile.ops.text import TEXT

MAX_EXPANSION = 16
"""How deep functions may be made of functions."""
KINDS = ("then", "else")
"""The branches of an If, in the order of `Converter.branches`."""


@dataclass
class Converter:
    """Walks the nodes in order; ``values`` maps ONNX names to graph values, and to sequences of them.

    ``unrolled`` counts the nodes that loops became, ``folded_bytes`` what is folded, ``narrow`` the
    values that are held in a wider type than their own (`narrow`), ``varying`` the values whose elements are
    numbers of which some vary (`importer.extents`), ``ratios`` floats that are such numbers over another one, by
    their names, ``supposed`` what conditions are taken for where an axis that varies has several elements, by their
    names, ``stated`` what is said of shapes, ``names`` those of the model and of what its nodes are being made of.
    Names in ``poisoned`` come from nodes that could not be converted; what depends on them is only checked for
    being known, so that one run reports every unsupported node.
    """

    graph: Graph
    values: dict[str, Known] = field(default_factory=dict)
    poisoned: set[str] = field(default_factory=set)
    errors: list[CompileError] = field(default_factory=list)
    unrolled: int = 0
    folded_bytes: int = 0
    narrow: dict[Value, str] = field(default_factory=dict)
    varying: dict[Value, Numbers] = field(default_factory=dict)
    ratios: dict[str, Ratios] = field(default_factory=dict)
    supposed: dict[str, bool] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stated: Stated = field(default_factory=Stated)
    draws: Draws = field(default_factory=Draws)
    names: Names = field(default_factory=Names)

    def run(self, nodes: list[OnnxNode], depth: int = 0) -> None:
        for node in nodes:
            before = len(self.errors)
            try:
                with self.names.lent():
                    self.run_node(node, depth)
            except CompileError as e:
                self.errors.append(e)
                self.poisoned.update(o for o in node.outputs if o)
            if depth == 0:  # what is deeper is of definitions, not of the file
                blame(self.errors[before:], node)

    def _run_in_place(self, node: OnnxNode, nodes: list[OnnxNode], depth: int) -> None:
        """Convert the nodes that a node is made of; they define its results, and beside these only new names."""
        for name in (o for inner in nodes for o in inner.outputs if o):
            if name not in node.outputs and not self.names.is_made(name):
                raise InternalError(f"{node.op_type} is made of nodes that define {name!r}, which is no new name")
        self.run(nodes, depth + 1)

    def define_constants(self, graph: OnnxGraph) -> None:
        """Give the initializers of a graph, nested or not, their values."""
        for key, array in graph.initializers.items():
            try:
                self.values[key] = self._constant(key, array, f"initializer {key!r}")
            except CompileError as e:
                self.poisoned.add(key)
                self.errors.append(e)

    def run_node(self, node: OnnxNode, depth: int) -> None:
        _require_known_attributes(node)
        if depth:  # those of the file were looked at when it was read
            require_operands(node, newest_opset())
        if any(i in self.poisoned for i in node.inputs):
            self._skip(node)
            return
        known = [self.values[i] if i else None for i in node.inputs]
        if node.domain or node.op_type not in control.OPERATORS:
            require_readable(node, known, self.narrow)
        if not node.domain and node.op_type in control.OPERATORS:
            control.inline(self, node, known, depth)
        elif sequences.takes_sequences(node, known):
            length = sequences.length_of_rows(node, known)
            if length is not None:
                self._bind_extents(node.outputs[0], np.array(length, object), I64, node.name)
                return
            self.values[node.outputs[0]] = sequences.resolve(self.graph, node, known, self.varying)
        else:
            named = zip(node.inputs, known, strict=True)
            tensors = [None if v is None else require_tensor(node, n, v) for n, v in named]
            require_types(node, tensors, self.narrow)
            require_ranks(node, tensors)
            self._tensors(node, tensors, depth)

    def branches(self, n: Import, condition: Value, bodies: list[OnnxGraph], depth: int) -> list[Branch]:
        """Two nested graphs of which a condition says at run time which one is computed."""
        if len(bodies[0].outputs) != len(bodies[1].outputs):
            raise n.error("the branches have different numbers of outputs")
        if len(bodies[0].outputs) != len(n.node.outputs):
            raise n.error(f"it has {len(n.node.outputs)} outputs, its branches have {len(bodies[0].outputs)}")
        return [
            self.closed(n, body, kind, depth, settled(condition, kind == "then"), sequences=True)
            for body, kind in zip(bodies, KINDS, strict=True)
        ]

    def branch(self, n: Import, condition: Value, bodies: list[OnnxGraph], made: list[Branch]) -> list[Known] | None:
        """The results of one of two nested graphs, as a condition says at run time; None where one cannot be
        converted."""
        failed = [part for part in made if isinstance(part, list)]
        if len(failed) == len(made) or any(_unsupported_in(errors) for errors in failed):
            self.errors += [e for errors in failed for e in errors]
            return None
        branches = [part for part in made if not isinstance(part, list)]
        if failed:
            first = failed[0][0] if failed[0] else None
            kind = KINDS[[isinstance(part, list) for part in made].index(True)]
            self.notes.append(
                f"the {kind} branch of {n.node.name!r} cannot be computed with these shapes: where it is to be, "
                f"run answers MCC_E_DIM" + (f" ({first.rule})" if first else "")
            )
            branches.insert(KINDS.index(kind), refused(f"{n.node.name}.{kind}", branches[0][0]))
        parts = zip(made, bodies, strict=True)
        widths = {_widths(part[1], body.outputs) for part, body in parts if not isinstance(part, list)}
        if len(widths) > 1:
            raise n.error("the branches give sequences of different lengths", self.inputs_behind([condition]))
        named = [o or f"{n.node.name}.unused{i}" for i, o in enumerate(n.node.outputs)]
        closed = [part[0] for part in made if not isinstance(part, list)]
        kinds = {tuple(self.narrow.get(v, "") for v in graph.outputs) for graph in closed}
        if len(kinds) > 1:
            raise n.error("the branches give bfloat16 and another type")
        results = emit_if(n, condition, branches, named, *widths)
        flat = [v for known in results for v in (known if isinstance(known, tuple) else (known,))]
        self.narrow.update((v, kind) for v, kind in zip(flat, *kinds, strict=True) if kind and isinstance(v, Value))
        return results

    def inputs_behind(self, values: Sequence[Value]) -> str:
        """The hint to fix the inputs that some values depend on."""
        return control.to_fix(control.inputs_behind(self.graph, values))

    def most_turns(self, n: Import) -> int | None:
        """How many turns a loop makes at most, by the options or what the model declares of its rows."""
        name = n.node.name
        if name in self.stated.bounds:
            self.stated.asked.add(name)
            return self.stated.bounds[name]
        rows = n.node.outputs[len(n.node.inputs) - 2 :] if n.node.op_type == "Loop" else ()
        stated = [of(row, 0) for row in rows for of in (self.stated.extent, self.stated.bound)]
        return min((e for e in stated if e is not None), default=None)

    def closed(
        self, n: Import, body: OnnxGraph, kind: str, depth: int, begin: Begin = lambda graph, names: None,
        outputs: Sequence[str] | None = None, sequences: bool = False,
    ) -> Branch:  # fmt: skip
        """A nested graph as one of its own, or the reasons why it cannot be converted; ``outputs``: those wanted,
        which may be ``sequences`` only where whoever asks takes these apart."""
        inner = Graph(f"{n.node.name}.{kind}")
        names = Captures(inner, self.values, self.graph, self.varying, self.narrow)
        walker = Converter(inner, names, set(self.poisoned), narrow=self.narrow, varying=self.varying)
        walker.notes, walker.stated, walker.draws, walker.names = self.notes, self.stated, self.draws, self.names
        walker.supposed = dict(self.supposed)
        begin(inner, names)
        walker.define_constants(body)
        walker.run(body.nodes, depth)
        outputs = [v.name for v in body.outputs] if outputs is None else outputs
        if walker.errors or any(name in walker.poisoned for name in outputs):
            return walker.errors
        several = any(isinstance(names[name], tuple) for name in outputs)
        kinds = [self.narrow.get(v, "") for _, v in ports(names, outputs)]
        refused = ["a sequence"] if several and not sequences else []
        refused += [kind for kind in kinds if kind and not (kind == "bf16" and sequences)]
        if refused:
            rule = f"what is inside gives {refused[0]}, and is run on condition or in turns"
            decide = [v for v in n.inputs[:2] if v is not None]
            return [n.error(f"{n.node.op_type}: {rule}", self.inputs_behind(decide))]
        bind_outputs(inner, names, outputs)
        self.narrow.update((v, kind) for v, kind in zip(inner.outputs, kinds, strict=True) if kind)
        return inner, names

    def _skip(self, node: OnnxNode) -> None:
        """A node that reads what could not be converted; it is an error of its own only if nothing knows it."""
        self.poisoned.update(o for o in node.outputs if o)
        ours = sequences.takes_sequences(node, [None]) or (not node.domain and node.op_type in control.OPERATORS)
        ours = ours or (self.draws.wanted and not node.domain and node.op_type in DRAWING)
        known = any((domain, node.op_type) in front_ends() for domain in (node.domain, TEXT))
        if not (ours or known or _is_expandable(node)):
            self.errors.append(unsupported(node))

    def _tensors(self, node: OnnxNode, inputs: list[Value | None], depth: int) -> None:
        if asks_shape(node) and inputs and inputs[0] is not None and self.narrow.get(inputs[0]) == "string":
            inputs = [self._first_bytes(inputs[0])]
        if reads_text(node, inputs, self.narrow) or depends_on_narrow(node, inputs, self.narrow):
            self._convert(node, inputs, depth)
            return
        if self._of_extents(node, inputs):
            return
        # What is like a narrow value is told by the function of CastLike, to which it is expanded.
        folded = None if node.op_type == "CastLike" else fold_node(self.graph, node, inputs)
        has_kernel = node.domain != TEXT and (node.domain, node.op_type) in front_ends()
        if folded is not None:
            self._count(node, folded)
        if folded is not None and not (has_kernel and grows_much(node, folded, inputs)):
            kinds = result_types(node, inputs, self.narrow)
            for name, array, kind in zip(node.outputs, folded, kinds, strict=False):
                if name:
                    array = as_computed(array, kind)
                    self.values[name] = value = self._constant(name, array, f"node {node.index} {node.name!r}")
                    if kind:
                        self.narrow[value] = kind
            return
        if read_arguments(self, self._view(node, inputs), depth):
            return
        drawn = draw(self.draws, self.values, self._view(node, inputs))
        if drawn is not None:
            self._run_in_place(node, drawn, depth)
            return
        if has_kernel:
            self._convert(node, inputs, depth)
            return
        hidden = halves_within(node, inputs, self.narrow)
        for value in hidden:
            del self.narrow[value]
        try:
            self._expand(node, inputs, depth)
        finally:
            self.narrow.update(hidden)
        for name, kind in zip(node.outputs, result_types(node, inputs, hidden), strict=True):
            result = self.values.get(name)
            if not kind or not isinstance(result, Value):
                continue
            if result in self.graph.constants:  # of floats, where those of bfloat16 are taken for rounded
                result = self.values[name] = self.graph.constant(name, as_computed(self.graph.array(result), kind))
            self.narrow[result] = kind

    def _expand(self, node: OnnxNode, inputs: list[Value | None], depth: int) -> None:
        """Convert a node as what ONNX defines it to mean."""
        body = None
        if depth < MAX_EXPANSION:
            types = [self._onnx_value(n, v) for n, v in zip(node.inputs, inputs, strict=True)]
            body = expand_function(node, newest_opset(), types, self.names)
        if body is None:
            raise unsupported(node)
        self._run_in_place(node, body, depth)

    def _first_bytes(self, text: Value) -> Value:
        """A tensor of the shape of a text, which nothing reads once its extents are told."""
        *own, _ = text.shape
        starts, steps = (0,) * len(text.shape), (1,) * len(text.shape)
        (column,) = self.graph.emit(Slice(starts, steps, (*own, 1)), [text], [f"{text.name}.first"])
        return self.graph.emit(Reshape(tuple(own)), [column], [f"{text.name}.shape"])[0]

    def _of_extents(self, node: OnnxNode, inputs: list[Value | None]) -> bool:
        """Whether the node is arithmetic on extents that vary; its output is that of an `extents` then, or known."""
        for name in node.outputs:
            self.ratios.pop(name, None)  # of an earlier turn of a loop
            self.supposed.pop(name, None)
        first = inputs[0] if inputs else None
        own = written(node) if first is None else asked(node, first.shape)
        found = self._computed(node, inputs) if own is None else [own]
        if found is None:
            self._suppose(node, inputs)
            return False
        dtype = _numbers_type(node, inputs)
        if dtype is None or not all(holds(dtype, *numbers.reshape(-1)) for numbers in found):
            return False
        for name, numbers in zip(node.outputs, found, strict=True):
            self._bind_extents(name, numbers, dtype, node.name)
        return True

    def _computed(self, node: OnnxNode, inputs: list[Value | None]) -> list[Numbers] | None:
        """The numbers that a node makes of extents that vary; None where it is no arithmetic on them. Quotients that
        are no whole numbers are kept until they are rounded."""
        first = inputs[0] if inputs else None
        if first is None:
            return None
        ratio = self.ratios.get(node.inputs[0])
        rounded = None if ratio is None else ratio.to_whole(node)
        if rounded is not None:
            return [rounded]
        known = [self.numbers(v) for v in inputs]
        told = [self.ratios.get(name, k) for name, k in zip(node.inputs, known, strict=True)]
        unknown = any(k is None and v is not None for k, v in zip(told, inputs, strict=True))
        has_ratios = any(isinstance(k, Ratios) for k in told)
        if unknown or not (has_ratios or any(v in self.varying for v in inputs)):
            return None
        found = None if has_ratios else computed(node, known, first.dtype)
        ratio = ratios(node, told, first.dtype) if found is None else None
        whole = None if ratio is None else ratio.whole()
        if whole is not None:
            return [whole]
        if ratio is not None:
            self.ratios[node.outputs[0]] = ratio
        return found

    def _suppose(self, node: OnnxNode, inputs: list[Value | None]) -> None:
        """What a comparison of extents is taken for, and what is made of such alone."""
        known = [self.numbers(v) for v in inputs]
        told = [self.supposed.get(name, k) for name, k in zip(node.inputs, known, strict=True)]
        usual = supposed(node, known) if any(v in self.varying for v in inputs) else combined(node, told)
        if usual is not None:
            self.supposed[node.outputs[0]] = usual

    def _bind_extents(self, name: str, numbers: Numbers, dtype: DType, origin: str) -> None:
        if not varies(numbers.reshape(-1)):
            self.values[name] = self.graph.constant(name, numbers.astype(dtype.numpy))
            return
        op = Extents(tuple(numbers.reshape(-1)), numbers.shape, dtype.name)
        (value,) = self.graph.emit(op, [], [name], origins=(origin,))
        self.values[name], self.varying[value] = value, numbers

    def numbers(self, value: Value | None) -> Numbers | None:
        """The elements of a value, where they are known or extents."""
        if value in self.graph.constants:
            return self.graph.array(value)
        return None if value is None else self.varying.get(value)

    def _onnx_value(self, name: str, value: Value | None) -> OnnxValue | None:
        return None if value is None else OnnxValue(name, self.narrow.get(value, value.dtype.name), value.shape)

    def _count(self, node: OnnxNode, folded: list[np.ndarray]) -> None:
        self.folded_bytes += sum(a.nbytes for a in folded)
        where = f"node {node.index} {node.name!r} {node.op_type}"
        require("all-folded-bytes", self.folded_bytes, "all that is folded", where)

    def _view(self, node: OnnxNode, inputs: list[Value | None]) -> Import:
        return Import(self.graph, node, inputs, self.narrow, self.varying, self.stated, self.names)

    def _convert(self, node: OnnxNode, inputs: list[Value | None], depth: int) -> None:
        view = self._view(node, inputs)
        domain = TEXT if reads_text(node, inputs, self.narrow) else node.domain
        front_end = front_ends()[(domain, node.op_type)]
        reviewed = front_end.takes_extents or node.op_type in TAKES_EXTENTS
        if not reviewed and any(v is not None and v.type.varies for v in inputs):
            raise view.error(
                f"{node.op_type} is not supported where extents are known at run time only",
                "give each dim that it depends on one number: --dim NAME=N",
            )
        require_window(node, inputs)
        before = len(self.graph.nodes)
        form = None if domain else run_time_forms().get(node.op_type)
        try:
            _by_form(view, front_end.convert, form)
        except UndecidedError as e:
            raise view.undecided(e) from e
        except (TypeRuleError, BroadcastError) as e:
            raise view.error(str(e)) from e
        except (ArithmeticError, LookupError, TypeError, ValueError, ex.OperandTypeError) as e:
            rule = broken_rule(node, [stand_in(self.graph, v) for v in inputs])
            raise view.error(
                f"the node cannot be converted: {rule or reason(e)}",
                "it may break a rule of its operator: onnx.checker.check_model(path, full_check=True) tells",
            ) from e
        except MemoryError as e:
            raise view.error(f"{node.op_type} takes more memory than there is: {e}") from e
        require_results(self.graph.nodes[before:], f"node {node.index} {node.name!r} {node.op_type}")
        view.refuse_unread(front_end.without_effect)
        if view.expansion:
            self.values.update(view.expanded)
            if kind := view.narrow(0):
                self.narrow.update(dict.fromkeys(view.expanded.values(), kind))
            self._run_in_place(node, view.expansion, depth)
            for name in filter(None, node.outputs):
                if name not in self.values and name not in self.poisoned:
                    raise view.error(f"output {name!r} of {node.op_type} is not supported")
            return
        told = [view.narrow_result] * (len(view.outputs) if view.outputs_alike else 1)
        kinds = told if view.narrow_result else result_types(node, inputs, self.narrow)
        round_before_jumps(view, before, kinds, self.narrow)
        for i, (name, value) in enumerate(zip(node.outputs, view.outputs, strict=True)):
            if not name:
                continue
            if value is None:
                raise view.error(f"output {name!r} of {node.op_type} is not supported")
            if value.type.count == 0 and not value.type.varies and value not in self.graph.constants:
                value = self.graph.constant(value.name, np.zeros(value.shape, value.dtype.numpy))
                view.outputs[i] = value  # which is of the narrow type, too
            self.values[name] = value
        for value, kind in zip(view.outputs, kinds, strict=False):
            if value is not None and kind and value.dtype.name == dtype_of_array(np.zeros(0, HELD_IN[kind])):
                self.narrow[value] = kind

    def _constant(self, name: str, array: np.ndarray, where: str) -> Value:
        array, narrow = held(array)
        if dtype_of_array(array) not in DTYPES:
            raise CompileError(
                f"a constant of {array.dtype} is not supported", where=where,
                hint=f"{', '.join((*DTYPES, *HELD_IN))} are",
            )  # fmt: skip
        value = self.graph.constant(name, array)
        if narrow:
            self.narrow[value] = narrow
        return value


def _by_form(view: Import, convert: Callable[[Import], None], form: RunTime | None) -> None:
    """Convert a node, by the form that takes its arguments at run time where that is wanted or the only way."""
    if form is not None:
        form.settle(view)
        if form.wanted(view):
            form.convert(view)
            return
    try:
        convert(view)
    except UndecidedError:
        if form is None or not form.offered(view):
            raise
        form.convert(view)


def _numbers_type(node: OnnxNode, inputs: list[Value | None]) -> DType | None:
    """The element type of what a node makes of extents; None for those that its front end has to see: text, and
    floats of fewer bits."""
    if node.op_type in ("Shape", "Size", "Constant"):
        return I64
    if node.op_type == "Cast":
        return DTYPES.get(cast_to(node) or "")
    if node.op_type in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        return BOOL
    given = inputs[1] if node.op_type == "Where" else inputs[0]
    assert given is not None
    return given.dtype


def _is_expandable(node: OnnxNode) -> bool:
    return not node.domain and is_function(node.op_type)


def _require_known_attributes(node: OnnxNode) -> None:
    """Refuse attributes that ONNX does not know; those of nodes that we made of others may be private."""
    known = attributes(node.op_type, node.domain)
    unknown = [] if known is None else [a for a in node.attrs if a not in known and not a.startswith(PRIVATE)]
    if unknown:
        name, value = unknown[0], node.attrs[unknown[0]]
        shown = "" if isinstance(value, OnnxGraph) else f" = {value!r}"
        near = difflib.get_close_matches(name, known or (), 1)
        others = f"leave it out; {node.op_type} has: {', '.join(known or ()) or 'none'}"
        raise CompileError(
            f"{node.op_type} has no attribute {name!r}{shown}",
            where=f"node {node.index} {node.name!r}",
            hint=f"did you mean {near[0]!r}?" if near else others,
        )


def _widths(values: Mapping[str, Known], outputs: Sequence[OnnxValue]) -> tuple[int | None, ...]:
    """How many tensors each output has that is a sequence; None of a tensor."""
    known = [values[v.name] for v in outputs]
    return tuple(len(v) if isinstance(v, tuple) else None for v in known)


def _unsupported_in(errors: list[CompileError]) -> bool:
    """Whether an operator is not supported at all: then it is no matter of shapes."""
    return any(" is not supported" in e.rule or e.code == UNSUPPORTED for e in errors)
