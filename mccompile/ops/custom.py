"""An operator that is a function of C from outside: ``--custom-op com.acme:LowPass=low_pass.h``.

The node ``LowPass(x) {share=0.25}`` of domain com.acme, f32[3,16] to f32[3,16], is a call of the function that the
header is named after, with each tensor and its extents, operands first, and then the attributes by name:

    void low_pass(const float *x0, const int32_t *x0_dims, float *y0, const int32_t *y0_dims, float share);
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.c_words import is_no_parameter
from mccompile.ir.dims import identifier, varies
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Value
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.types import DTYPES, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import FrontEnd
from mccompile.plugins import Function, functions

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Custom(Op):
    """``function`` of the header ``<function>.h``, by the name of the node's operator in messages; ``types`` are
    the element type and extents of each, ``attributes`` those of the node by name."""

    name = "custom"
    wants_rows = True
    reads_bits = True  # a function of C is declared with the types that the network has

    function: str
    types: tuple[tuple[str, tuple[int, ...]], ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()

    @property
    def decides(self) -> bool:
        """What it does is not known."""
        return True

    def infer(self, *operands: TensorType | None) -> tuple[TensorType, ...]:
        return tuple(TensorType(DTYPES[dtype], shape) for dtype, shape in self.types)

    @property
    def _known(self) -> Function | None:
        return next((f for f in functions().values() if f.name == self.function), None)

    @property
    def evaluates(self) -> bool:
        known = self._known
        return known is not None and known.has_twin

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        """By its twin in Python; CompileError if it has none."""
        known = self._known
        if known is None:
            raise CompileError(f"nothing is known of {self.function}.h", hint="give --custom-op as for the model")
        found = known.evaluate([np.asarray(a) for a in arrays], dict(self.attributes))
        wanted = self.infer()
        if [a.shape for a in found] != [t.shape for t in wanted]:
            raise CompileError(f"{known.twin.name} gives {[a.shape for a in found]}, not {[t.shape for t in wanted]}")
        return tuple(np.asarray(a, t.dtype.numpy) for a, t in zip(found, wanted, strict=True))


def front_ends_of_functions() -> list[FrontEnd]:
    """A front end for each function that was named."""
    return [FrontEnd(op_type, _import, domain=domain, takes_extents=True) for domain, op_type in functions()]


def _import(n: Import) -> None:
    function = functions()[n.node.domain, n.op_type]
    operands = [n.input(i) for i in range(len(n.node.inputs))]
    attributes = tuple((name, _attribute(n, name)) for name in sorted(n.node.attrs))
    _require_names(n, function.name, len(operands), attributes)
    results = tuple(_result(n, name, operands) for name in n.node.outputs)
    shapes = [*(v.shape for v in operands), *(shape for _, shape in results)]
    for name, shape in zip((*n.node.inputs, *n.node.outputs), shapes, strict=True):
        _require_rows(n, name, shape)
    n.emit(Custom(function.name, results, attributes), operands)


def _attribute(n: Import, name: str) -> Attribute:
    """An attribute that C can be given. CompileError for tensors and graphs, and integers beyond 32 bits."""
    value: Any = n.attr(name)
    items: Sequence[Any] = value if isinstance(value, tuple | list) else [value]
    kinds = {type(item) for item in items}
    numbers = kinds <= {int} or kinds <= {float}
    fits = all(-(2**31) <= item < 2**31 for item in items if isinstance(item, int))
    if not re.fullmatch(r"[A-Za-z]\w*", name) or not fits or not (numbers or isinstance(value, str)):
        raise n.error(f"attribute {name!r} = {value!r} cannot be given to a function of C",
                      "integers of 32 bits, floats, lists of these, and text can")
    return tuple(value) if isinstance(value, tuple | list) else value


def _require_names(n: Import, function: str, operands: int, attributes: Sequence[tuple[str, Attribute]]) -> None:
    """CompileError if a parameter cannot be called as its attribute is: like a word of C, another parameter, or the
    function."""
    tensors = [*(f"x{i}" for i in range(operands)), *(f"y{i}" for i in range(len(n.node.outputs)))]
    taken = {function, *tensors, *(f"{name}_dims" for name in tensors)}
    for name, value in attributes:
        own = [name, f"{name}_count"] if isinstance(value, tuple) else [name]
        if is_no_parameter(name) or not taken.isdisjoint(own):
            raise n.error(f"in C, no parameter of {function} can be called as the attribute {name!r} is",
                          "it is a word of C or the name of another parameter: rename it")
        taken.update(own)


def _require_rows(n: Import, name: str, shape: Sequence[int]) -> None:
    """CompileError if elements would not follow each other at every extent: f32[t,4] lies as f32[2,4] at t = 2, and
    f32[3,t] has gaps, as rows begin where those of the longest do."""
    behind = next((e for k, e in enumerate(shape) if varies([e]) and any(before != 1 for before in shape[:k])), None)
    if behind is not None:
        raise n.error(
            f"extent {behind} of {name!r} is known at run time only, and not the first: there would be gaps",
            "a function of C wants its tensors row by row: transpose in front of the node and behind it, or fix it",
        )


def _result(n: Import, name: str, operands: Sequence[Value]) -> tuple[str, tuple[int, ...]]:
    """The type that the model states for a result, where extents may be called as those of operands are; of the only
    one, where it states none, that of operand 0."""
    called = {str(e): e for v in operands for e in v.shape}
    stated, dtype = n.stated.shapes.get(name), n.stated.dtypes.get(name, "")
    shape = [called.get(identifier(e)) if isinstance(e, str) else e for e in stated or ()]
    known = tuple(e for e in shape if e is not None)
    if stated is not None and len(known) == len(shape) and dtype in DTYPES:
        return dtype, known
    if len(n.node.outputs) == 1 and operands:
        return operands[0].dtype.name, operands[0].shape
    raise n.error(f"the type of {name!r} is not known", "state it in the model: graph.value_info, with extents that "
                  "are numbers, or called as those of operands")
