"""Layer by layer: what each step of the generated code leaves behind, against the ONNX values of the same name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.compare import Comparison, compare, json_number
from mccompile.check.reference import Expected
from mccompile.ir.names import own_names
from mccompile.ir.types import DTYPES
from mccompile.run.library import Hooks
from mccompile.run.memory import Array
from mccompile.run.network import Network

MAX_NAMES = 100
"""Characters of the names of a step's nodes, in a line."""

_HERE = Path(__file__).parent

TRACE_HOOKS = Hooks(
    header=_HERE / "trace_hooks.h",
    sources=(_HERE / "trace_hooks.c",),
    cdef="""typedef struct {
        const void *data; void *copy; size_t bytes; unsigned step; unsigned hits;
    } mcc_trace_slot;
    void mcc_trace_into(mcc_trace_slot *, size_t);""",
)
"""Networks that `capture` runs are built with these."""


@dataclass(frozen=True)
class Layer:
    """One value of the ONNX model that the generated code computes, too: after ``step`` it is complete.

    ``nodes`` are the ONNX nodes that the step does, several if they were fused.
    """

    step: int
    kernel: str
    nodes: tuple[str, ...]
    comparison: Comparison

    @property
    def name(self) -> str:
        """The value's ONNX name."""
        return self.comparison.name

    def text(self) -> str:
        return f"{self.name} (@{self.step} {self.kernel}: {own_names(self.nodes, MAX_NAMES)})"

    def to_json(self) -> dict[str, Any]:
        place = {"step": self.step, "kernel": self.kernel, "nodes": list(self.nodes)}
        return place | self.comparison.to_json()


@dataclass(frozen=True)
class Trace:
    """The layers in the order in which they are complete; ``skipped`` names those that have no counterpart of the
    same kind and number of elements in the reference."""

    layers: tuple[Layer, ...]
    skipped: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return all(layer.comparison.ok for layer in self.layers)

    @property
    def first(self) -> Layer | None:
        """The first diverging layer: what diverges later may only follow from it."""
        return next((layer for layer in self.layers if not layer.comparison.ok), None)

    @property
    def worst(self) -> Layer | None:
        """The layer furthest out of tolerance, or nearest to its limit if none is out."""
        return max(self.layers, key=lambda layer: layer.comparison.ratio, default=None)

    def to_json(self) -> dict[str, Any]:
        first, worst = self.first, self.worst
        return {
            "ok": self.ok,
            "first": first.name if first else None,
            "worst": worst.name if worst else None,
            "worst_ratio": json_number(worst.comparison.ratio) if worst else 0.0,
            "layers": [layer.to_json() for layer in self.layers],
            "skipped": list(self.skipped),
        }


def last_writes(report: Mapping[str, Any]) -> dict[str, int]:
    """The step after which each tensor is complete, in the order of these steps."""
    last: dict[str, int] = {}
    for step, done in enumerate(report["steps"]):
        for name in done["writes"]:
            last.pop(name, None)
            last[name] = step
    return last


def _tensors(report: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """What steps may write: the arena's tensors, and the outputs that are the caller's."""
    yield from report["memory"]["tensors"]
    for port in report["outputs"]:
        if port.get("space") == "caller":
            size = math.prod(port["shape"]) * DTYPES[port["dtype"]].nbytes
            yield {**port, "bytes": size}


def capture(network: Network, inputs: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """Run once and return each named tensor as it is when it is complete, in its logical shape.

    Args:
        network: built with `TRACE_HOOKS`.
        inputs: by ONNX name.
        names: tensors of the report that steps write; later steps may reuse their memory.

    Raises:
        CompileError: as `Network.run`.
        RuntimeError: a step did not report what report.json says it writes.
    """
    last = last_writes(network.report)
    sizes = {t["name"]: t for t in _tensors(network.report)}
    wanted = list(names)
    copies = {name: np.zeros(sizes[name]["bytes"], np.uint8) for name in wanted}
    slots = network.ffi.new("mcc_trace_slot[]", max(len(wanted), 1))
    for slot, name in zip(slots, wanted, strict=False):
        slot.data = network.pointer(network.tensor_bytes(sizes[name]))
        slot.copy = network.pointer(copies[name])
        slot.bytes = sizes[name]["bytes"]
        slot.step = last[name]
    network.set_inputs(inputs)
    network.lib.mcc_trace_into(slots, len(wanted))
    try:
        network.invoke()
    finally:
        network.lib.mcc_trace_into(network.ffi.NULL, 0)
    missed = [name for slot, name in zip(slots, wanted, strict=False) if slot.hits == 0]
    if missed:
        raise RuntimeError(f"steps of {network.name}.c did not report {', '.join(missed)}")
    return {name: logical(copies[name], network.report["tensors"][name]) for name in wanted}


def logical(raw: Array, view: Mapping[str, Any]) -> Array:
    """The elements of a view in the report (strides, factors, offset) from its buffer's bytes, in logical shape.

    A halo is left out, as is the tail of a blocked axis.
    """
    elements = raw.view(DTYPES[view["dtype"]].numpy)
    shape = view["shape"]
    index = np.full([1] * len(shape), view["offset"], np.int64)
    for (axis, div, mod), stride in zip(view["factors"], view["strides"], strict=True):
        position = np.arange(shape[axis]) // div
        steps = (position % mod if mod else position) * stride
        index = index + steps.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.asarray(elements[index]).reshape(shape)


def trace(
    network: Network, inputs: Mapping[str, Array], expected: Expected, factor: float = 1.0
) -> Trace:
    """Run once and compare every tensor whose name the reference knows.

    Args:
        network: built with `TRACE_HOOKS`.
        expected: outputs and as many inner values as there are.
        factor: of the tolerance rule.
    """
    last = last_writes(network.report)
    names = [name for name in last if name in expected.values]
    found = capture(network, inputs, names)
    layers: list[Layer] = []
    skipped: list[str] = []
    for name in names:
        want = expected.values[name]
        got = _as_reference(found[name], want)
        if got is None:
            skipped.append(name)
            continue
        step = network.report["steps"][last[name]]
        comparison = compare(name, got, want, expected.noise.get(name), factor)
        layers.append(Layer(last[name], step["kernel"], tuple(step["onnx"]), comparison))
    return Trace(tuple(layers), tuple(skipped))


def _as_reference(got: Array, want: Array) -> Array | None:
    """``got`` in the shape and element type of ``want``, or None where that is another kind of thing.

    A buffer has the name of the first of the values that are reshapes of each other, but the shape of any; and
    inside the graph integers may be narrower, floats wider than in the model.
    """
    kinds = {"i": "int", "u": "int", "f": "float", "b": "bool"}
    if got.size != want.size or kinds.get(got.dtype.kind) != kinds.get(want.dtype.kind, "other"):
        return None
    return got.reshape(want.shape).astype(want.dtype)
