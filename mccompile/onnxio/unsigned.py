"""Products of signed by unsigned bytes as products of unsigned bytes, which processors of every kind compute exactly.

Vectors of bytes are multiplied u8 by i8, and without VNNI a pair of such products is added up in 16 bits, where it
saturates: 255 * 127 + 255 * 127 = 64770 becomes 32767. With 128 added to an element and to its zero point no sum
changes, and both operands are u8::

    (a - za) * (w - zw)  =  (a - za) * ((w + 128) - (zw + 128))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mccompile._dataclass import dataclass
from mccompile.ir.names import Names
from mccompile.onnxio.nested import all_nodes, inner_graphs, value_names
from mccompile.onnxio.untyped import inferred, inlined
from mccompile.onnxio.write import serialize


@dataclass(frozen=True)
class _Product:
    """Where an operator has its operands, each with the place of its zero point; ``dynamic``: one more is made u8 at
    run time."""

    operands: tuple[tuple[int, int], ...]
    dynamic: bool = False


_PRODUCTS = {
    ("", "MatMulInteger"): _Product(((0, 2), (1, 3))),
    ("", "ConvInteger"): _Product(((0, 2), (1, 3))),
    ("", "QLinearConv"): _Product(((0, 2), (3, 5))),
    ("com.microsoft", "QLinearConv"): _Product(((0, 2), (3, 5))),
    ("", "QLinearMatMul"): _Product(((0, 2), (3, 5))),
    ("com.microsoft", "QGemm"): _Product(((0, 2), (3, 5))),
    ("com.microsoft", "MatMulIntegerToFloat"): _Product(((0, 4), (1, 5))),
    ("com.microsoft", "DynamicQuantizeMatMul"): _Product(((1, 3),), dynamic=True),
    ("com.microsoft", "DynamicQuantizeLSTM"): _Product(((1, 9), (2, 11)), dynamic=True),
}
_OFFSET = 128
"""From the least i8 to the least u8."""


def unsigned_products(model: bytes) -> bytes | None:
    """The same model, the i8 operand of each product of i8 and u8 made u8, or None if it has no such product.

    Constants become other constants; in front of the others stand Cast, Add, Cast. A product is left as it is if
    ONNX's inference does not tell the types of its operands, and neither do their zero points.

    Args:
        model: as `extract_with_outputs` gives it, without external data.
    """
    proto = onnx.ModelProto.FromString(model)
    if not any(_product(node) for node in all_nodes(proto.graph)) and not proto.functions:
        return None
    proto = inferred(inlined(proto))
    names = Names(value_names(proto.graph))
    return serialize(proto) if _Graph(proto.graph, {}, {}, names).rewrite() else None


def _product(node: onnx.NodeProto) -> _Product | None:
    return _PRODUCTS.get((node.domain.removeprefix("ai.onnx"), node.op_type))


class _Graph:
    """A graph whose products are rewritten, with what the graphs around it know."""

    def __init__(
        self,
        graph: onnx.GraphProto,
        types: Mapping[str, int],
        constants: Mapping[str, onnx.TensorProto],
        names: Names,
    ) -> None:
        values = (*graph.value_info, *graph.output, *graph.input)
        self._graph, self._names = graph, names
        self._types = {
            **types,
            **{v.name: v.type.tensor_type.elem_type for v in values},
            **{t.name: t.data_type for t in graph.initializer},
        }
        given = {v.name for v in graph.input}  # of old files also constants, which a run may replace
        self._constants = {**constants, **{t.name: t for t in graph.initializer if t.name not in given}}
        self._nodes: list[onnx.NodeProto] = []
        self._made: dict[str | type, str] = {}

    def rewrite(self) -> bool:
        """Whether there was a product to rewrite, here or in an inner graph."""
        changed = False
        for node in self._graph.node:
            for inner in inner_graphs(node):
                changed |= _Graph(inner, self._types, self._constants, self._names).rewrite()
            product = _product(node)
            new = onnx.NodeProto()
            new.CopyFrom(node)
            for at, zero in self._signed(node, product) if product else ():
                new.input.extend([""] * (zero + 1 - len(new.input)))
                new.input[at] = self._unsigned(node.input[at])
                new.input[zero] = self._unsigned(new.input[zero]) if new.input[zero] else self._offset(np.uint8)
                changed = True
            self._nodes.append(new)
        del self._graph.node[:]
        self._graph.node.extend(self._nodes)
        return changed

    def _signed(self, node: onnx.NodeProto, product: _Product) -> list[tuple[int, int]]:
        """The operands of i8, if another one is u8."""
        types = [self._type(node, at) or self._type(node, zero) for at, zero in product.operands]
        if not (product.dynamic or TensorProto.UINT8 in types):
            return []
        return [places for places, t in zip(product.operands, types, strict=True) if t == TensorProto.INT8]

    def _type(self, node: onnx.NodeProto, i: int) -> int:
        """The element type of an input; 0 if it is absent or unknown."""
        return self._types.get(node.input[i], 0) if i < len(node.input) else 0

    def _unsigned(self, name: str) -> str:
        """The name of a value of i8 with 128 added, as u8."""
        if name not in self._made:
            self._made[name] = self._constant(name) if name in self._constants else self._computed(name)
        return self._made[name]

    def _constant(self, name: str) -> str:
        array = numpy_helper.to_array(self._constants[name]).astype(np.int16) + _OFFSET
        return self._add_constant(f"{name}.unsigned", array.astype(np.uint8))

    def _computed(self, name: str) -> str:
        wide, moved, made = (self._names.fresh(f"{name}.{part}") for part in ("wide", "moved", "unsigned"))
        self._nodes += [
            helper.make_node("Cast", [name], [wide], to=TensorProto.INT32),
            helper.make_node("Add", [wide, self._offset(np.int32)], [moved]),
            helper.make_node("Cast", [moved], [made], to=TensorProto.UINT8),
        ]
        return made

    def _offset(self, dtype: type[np.integer[Any]]) -> str:
        """The name of the number 128: the zero point of what has none."""
        if dtype not in self._made:
            self._made[dtype] = self._add_constant(f"{dtype.__name__}.{_OFFSET}", np.array(_OFFSET, dtype))
        return self._made[dtype]

    def _add_constant(self, wanted: str, array: np.ndarray[Any, Any]) -> str:
        name = self._names.fresh(wanted)
        self._graph.initializer.append(numpy_helper.from_array(array, name))
        return name
