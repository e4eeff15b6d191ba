"""Finds out which weights may be stored, or products computed, in fewer bits: as few as a given error on given data
allows.

Worked example: two layers, of which each form has been tried alone. Errors of layers are taken for independent, so
that their squares add; 0.01 is allowed, 1e-4 as a square.

>>> big, small = Layer(("big",), ()), Layer(("small",), ())
>>> tried = [Step(big, "i8", 3000, 1.6e-5), Step(big, "f16", 2000, 4e-8), Step(small, "i8", 300, 8.1e-5)]
>>> [(s.layer.names[0], s.form) for s in chosen([*tried, Step(small, "f16", 200, 1e-8)], 0.01)]
[('big', 'f16'), ('small', 'f16'), ('big', 'i8'), ('small', 'i8')]

Steps go by what they save for what they add. All that were taken are tried at once then: if the error is 0.0104 after
all, the last ones are taken back one by one, and small is f16 again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mccompile import driver
from mccompile._dataclass import dataclass
from mccompile.check.data import samples_of, with_dims
from mccompile.check.precision import MOST, add_output, error_of, numbers, unrounded
from mccompile.driver import Compilation, Options
from mccompile.ir.errors import UsageError
from mccompile.ir.expr import Expr
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.types import F32
from mccompile.kernels.model.widening import ROUNDED
from mccompile.passes.analysis.weight_forms import AUTO, EVERY, form_of, named
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.passes.storage.narrow_products import obstacle_of, rounded_weights
from mccompile.passes.storage.narrow_weights import Narrowing, operand_of
from mccompile.run.noise import Noise

Array = np.ndarray[Any, np.dtype[Any]]

TRIED = ("f16", "i8", "i4")
BITS = {"f32": 32.0, "f16": 16.0, "i8": 8.0, "i4": 5.0}
"""Of a weight, with its share of a scale."""
FASTER = {"bf16": 3 / 4, "f16": 1 / 8}
"""What a product that is computed so spares of its multiply-adds, about: BFMMLA makes four times as many, FMLAL as
many of half the bytes."""


@dataclass(frozen=True)
class Layer:
    """Weights that are stored alike: those of the nodes of some names, each constant with its readers."""

    names: tuple[str, ...]
    readers: tuple[tuple[Value, tuple[Node, ...]], ...]

    @property
    def count(self) -> int:
        return sum(value.type.count for value, _ in self.readers)

    @property
    def nodes(self) -> list[Node]:
        return [node for _, readers in self.readers for node in readers]


@dataclass(frozen=True)
class Step:
    """A layer in a form, tried alone: what that saves, and the square of its error."""

    layer: Layer
    form: str
    saved: float
    square: float


def asked(options: Options) -> str:
    """The option, of ``weights`` and ``precision``, whose forms are to be found out; empty where none is."""
    found = [name for name in ("weights", "precision") if AUTO in getattr(options, name).values()]
    if len(found) > 1:
        raise UsageError("--weights auto and --precision auto are found one after the other", hint="name one's forms")
    return "".join(found)


def apply(options: Options, models: Sequence[Path], data: Any, most: float | None) -> Options:
    """The options with the forms that ``--weights auto`` or ``--precision auto`` finds; as they are where neither was
    asked for."""
    name = asked(options)
    if not name:
        return options
    if len(models) != 1:
        raise UsageError(f"--{name} auto is for one model")
    if data is None or most is None or not 0 <= most < math.inf:
        raise UsageError(
            f"--{name} auto needs data, and an error that is allowed", hint="--data X.npz --max-error 0.01"
        )
    forms: Mapping[str, str] = getattr(options, name)
    if forms.get(EVERY) != AUTO:
        raise UsageError(f"--{name} auto is for all nodes", hint="what is named keeps its form: auto,head=f32")
    if name == "weights":
        return replace(options, weights=found_for(models[0], options, data, most))
    return replace(options, precision=products_for(models[0], options, data, most))


def found_for(model: Path, options: Options, data: Any, most: float) -> dict[str, str]:
    """The forms of weights, by names of nodes, that keep outputs so near to those of f32 on the data."""
    said = {name: form for name, form in options.weights.items() if form != AUTO}
    plain = with_dims(model, replace(options, weights={}), data)
    c = driver.import_graph(model, plain)
    driver.require_nodes(c, said)
    driver.optimize(c)
    samples = samples_of(c.graph, data)
    layers, kept = _free(layers_of(c.graph), said)
    trial = _Trial(c, samples, _in_f32(model, plain, c), kept)
    return {**_found(trial, layers, [step for layer in layers for step in _steps(trial, layer, most)], most), **said}


def _in_f32(model: Path, options: Options, c: Compilation) -> Compilation:
    """The compilation whose outputs errors are of: without the forms of the other option, too."""
    return unrounded(model, replace(c, options=options)) if options.weights or options.precision else c


def _free(layers: Sequence[Layer], said: Mapping[str, str]) -> tuple[list[Layer], list[Step]]:
    """The layers whose forms are to be found, and what is said of the others: theirs cost some of the error, too."""
    free, kept = [], []
    for layer in layers:
        forms = [form for name, form in said.items() if name != EVERY and _means(name, layer)]
        if not forms:
            free.append(layer)
        elif forms[-1] != "f32":
            kept.append(Step(layer, forms[-1], 0.0, 0.0))
    return free, kept


def products_for(model: Path, options: Options, data: Any, most: float) -> dict[str, str]:
    """The forms of products, by names of nodes, that the target has and that keep outputs so near."""
    said = {name: form for name, form in options.precision.items() if form != AUTO}
    plain = with_dims(model, replace(options, precision={}), data)
    c = driver.import_graph(model, plain)
    forms = [form for form in FASTER if driver.has_products(c.target, form)]
    if not forms:
        driver.require_products(c.target, {EVERY: next(iter(FASTER))})
    driver.require_nodes(c, said)
    driver.optimize(c)
    samples = samples_of(c.graph, data)
    layers, kept = _free(products_of(c.graph), said)
    trial = _Products(c, samples, _in_f32(model, plain, c), kept)
    steps = []
    for layer, form in ((layer, form) for layer in layers for form in forms):
        error = trial.error([Step(layer, form, 0.0, 0.0)])
        steps += [Step(layer, form, _macs(layer) * FASTER[form], trial.added(error))] if error <= most else []
    return {**_found(trial, layers, steps, most), **said}


def products_of(graph: Graph) -> list[Layer]:
    """The products of a graph that may be computed in fewer bits, by the first of their names."""
    found: dict[str, list[tuple[Value, tuple[Node, ...]]]] = {}
    for node in graph.nodes:
        w = node.operands[1] if len(node.operands) > 1 and node.op.weights == 1 else None
        if w is not None and node.origins and any(not obstacle_of(graph, node, form) for form in FASTER):
            found.setdefault(node.origins[0], []).append((w, (node,)))
    return [Layer((name,), tuple(own)) for name, own in found.items()]


def _is_cell(node: Node) -> bool:
    """Whether what a node multiplies is its state, which an attribute rounds."""
    return any(node.op.rounding(form) is not None for form in FASTER)


def _macs(layer: Layer) -> int:
    return sum(n.op.macs(n.operand_types(), [r.type for r in n.results]) for n in layer.nodes)


def _found(trial: _Trial, layers: Sequence[Layer], steps: Sequence[Step], most: float) -> dict[str, str]:
    """The forms, by names of nodes, of the steps that an error has room for.

    What is said last holds. So a name that means other layers, too, as that of an operator does, or a pattern, comes
    before theirs, which are f32 where they are to stay so::

        layers "matmul" and "head", both products; i8 for "matmul"    ->  matmul=i8,head=f32
    """
    taken = chosen(steps, math.sqrt(trial.added(most)))
    while taken and trial.error(taken) > most:
        taken = taken[:-1]
    forms: dict[str, str] = {}
    for step in taken:
        forms |= dict.fromkeys(step.layer.names, step.form)
    meant = {name: [layer for layer in layers if _means(name, layer)] for layer in layers for name in layer.names}
    others = {name for taken_name in forms for layer in meant[taken_name] for name in layer.names} - forms.keys()
    forms |= dict.fromkeys(sorted(others), "f32")
    return dict(sorted(forms.items(), key=lambda said: -len(meant[said[0]])))


def _means(name: str, layer: Layer) -> bool:
    """Whether a name in an option is meant for some node of a layer."""
    return any(named(name, node.origins, node.op.name) for node in layer.nodes)


def chosen(steps: Sequence[Step], most: float) -> list[Step]:
    """The steps whose squares add up to no more than that of an error: those first that save the most for what they
    add to the square, each in the place of the layer's step before it."""
    taken: dict[tuple[str, ...], Step] = {}
    order: list[Step] = []
    room = most**2
    for step in sorted(steps, key=lambda s: (-s.saved / (s.square or 1e-30), s.layer.names, s.form)):
        before = taken.get(step.layer.names)
        more = step.square - (before.square if before else 0.0)
        if more <= room and (before is None or step.saved > before.saved):
            taken[step.layer.names] = step
            order.append(step)
            room -= more
    return order


def layers_of(graph: Graph) -> list[Layer]:
    """The weights of a graph by the nodes that read them. Constants that share a node's name, or a reader, are one
    layer: names are all that a form can be said of."""
    groups: list[tuple[set[str], list[tuple[Value, tuple[Node, ...]]]]] = []
    users = graph.users()
    for value, array in graph.constants.items():
        readers = users.get(value, [])
        takes = readers and all(operand_of(node, value) is not None and node.origins for node in readers)
        if not takes or value.dtype != F32 or not isinstance(array, np.ndarray) or value in graph.outputs:
            continue
        names = {node.origins[0] for node in readers}
        own = [(value, tuple(readers))]
        for group in [g for g in groups if g[0] & names]:
            groups.remove(group)
            names |= group[0]
            own = [*group[1], *own]
        groups.append((names, own))
    return [Layer(tuple(sorted(names)), tuple(own)) for names, own in groups]


def _steps(trial: _Trial, layer: Layer, most: float) -> list[Step]:
    """The forms of a layer that are no worse than what is allowed. 4 bits are for products alone."""
    products = all(node.op.weight_axes is not None for node in layer.nodes)
    found = []
    for form in TRIED if products else TRIED[:2]:
        step = Step(layer, form, layer.count * (BITS["f32"] - BITS[form]) / 8, 0.0)
        error = trial.error([step])
        if error <= most:
            found.append(replace(step, square=trial.added(error)))
    return found


class _Trial:
    """A graph whose weights can be rounded for as long as it is computed.

    UsageError where no output is a number on any sample: whatever is rounded, it is the same NaN.
    """

    def __init__(
        self, c: Compilation, samples: Sequence[Mapping[str, Array]], plain: Compilation, kept: Sequence[Step]
    ) -> None:
        graph = c.graph
        self.graph = graph
        self.interface = c.interface
        self.rewriter = Rewriter(graph)
        zeros = {v.name: np.zeros(v.shape, v.dtype.numpy) for v in graph.inputs if v.name not in samples[0]}
        self.samples = [{**zeros, **sample} for sample in samples]
        self.wanted = [plain.graph.evaluate(one, extents=plain.graph.extents_of(one)) for one in self.samples]
        found = [self._numbers(one) for one in self.wanted]
        self.exact = {name for name, array in found[0].items() if array is None}
        floats = [a for one in found for a in one.values() if a is not None and a.size]
        if floats and not any(np.isfinite(a).any() for a in floats):
            raise UsageError("on this data all outputs are NaN or infinite: nothing says what fewer bits cost")
        able = [step for step in kept if self._rounded({step.layer: step.form}) is not None]  # others stay f32
        self.kept, self.least = able, 0.0
        self.least = min(self.error([]), MOST)

    def added(self, error: float) -> float:
        """The square of what is added to the error that there is in any case."""
        return max(error**2 - self.least**2, 0.0)

    def _run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        return self.graph.evaluate(sample, extents=self.graph.extents_of(sample))

    def _numbers(self, outputs: Mapping[str, Array]) -> dict[str, Array | None]:
        return {name: numbers(array, name, self.interface) for name, array in outputs.items()}

    def error(self, steps: Sequence[Step]) -> float:
        """The largest error of an output with layers as steps say, the last of a layer; infinite for a form that some
        weight cannot have."""
        forms = {step.layer: step.form for step in (*self.kept, *steps)}
        rounded = self._rounded(forms)
        if rounded is None:
            return math.inf
        kept = {v: self.graph.constants[v] for v in rounded}
        self.graph.constants.update(rounded)
        altered = self._altered(forms)
        plain = {node: (node.op, node.pre) for node in altered}
        for node, (op, pre) in altered.items():
            node.op, node.pre = op, pre
        noise = {name: Noise() for name in self.wanted[0]}
        for sample, want in zip(self.samples, self.wanted, strict=True):
            got = self._run(sample)
            for name, one in noise.items():
                add_output(one, name, self.interface, want[name], got[name])
        self.graph.constants.update(kept)
        for node, (op, pre) in plain.items():
            node.op, node.pre = op, pre
        return max((error_of(n, name in self.exact) for name, n in noise.items()), default=0.0)

    def _altered(self, forms: Mapping[Layer, str]) -> dict[Node, tuple[Op, dict[int, Expr]]]:
        """The operators and prologues that nodes have meanwhile."""
        return {}

    def _rounded(self, forms: Mapping[Layer, str]) -> dict[Value, Array] | None:
        """The rounded constants, as the first of several readers reads them."""
        found: dict[Value, Array] = {}
        for layer, form in forms.items():
            for value, readers in layer.readers:
                plans = [Narrowing(self.rewriter, value, node, form_of(form)) for node in readers]
                if any(plan.obstacle() for plan in plans):
                    return None
                found[value] = plans[0].floats()
        return found


class _Products(_Trial):
    """A graph whose products can be computed in fewer bits for as long as it is computed."""

    def _altered(self, forms: Mapping[Layer, str]) -> dict[Node, tuple[Op, dict[int, Expr]]]:
        """Cells round their state, others what their operand 0 is, of which nothing is computed before."""
        found = {}
        for node, form in ((node, form) for layer, form in forms.items() for node in layer.nodes):
            if not _is_cell(node):
                found[node] = node.op, {**node.pre, 0: ROUNDED[form]}
            elif (rounding := node.op.rounding(form)) is not None:
                found[node] = rounding, node.pre
        return found

    def _rounded(self, forms: Mapping[Layer, str]) -> dict[Value, Array] | None:
        found: dict[Value, Array] = {}
        for layer, form in forms.items():
            for value, (node,) in layer.readers:
                if _is_cell(node) and node.op.rounding(form) is None:
                    continue  # it stays f32
                if obstacle_of(self.graph, node, form):
                    return None
                if 1 not in node.pre:
                    found[value] = rounded_weights(self.graph.array(value), form)
        return found
