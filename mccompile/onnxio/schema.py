"""Questions to ONNX's operator schemas: versions, which operators are functions, attribute defaults."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
import onnx.defs
import onnx.helper

from mccompile._dataclass import dataclass
from mccompile.onnxio.contrib import MICROSOFT, Operand, default_of, operands
from mccompile.onnxio.dtypes import BY_SCHEMA


@cache
def newest_opset() -> int:
    """The newest ai.onnx opset of the installed onnx: the canonical one."""
    return int(onnx.defs.onnx_opset_version())


@cache
def _history(domain: str) -> dict[str, tuple[int, ...]]:
    found: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == domain:
            found.setdefault(schema.name, set()).add(schema.since_version)
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def op_names(domain: str = "") -> list[str]:
    """All operators of a domain's newest opset, sorted, without the deprecated ones."""
    return [
        name
        for name, found in _history(domain).items()
        if not onnx.defs.get_schema(name, found[-1], domain).deprecated
    ]


@cache
def versions(op: str, domain: str = "") -> tuple[int, ...]:
    """Every version in which an operator changed, ascending; empty if there is no such operator.

    One after the other is asked for, the newest first: a network has few of the operators that `_history` lists.
    """
    found: list[int] = []
    try:
        found.append(onnx.defs.get_schema(op, domain).since_version)
        while found[-1] > 1:
            found.append(onnx.defs.get_schema(op, found[-1] - 1, domain).since_version)
    except onnx.defs.SchemaError:
        pass  # there is none before
    return tuple(reversed(found))


def since_version(op: str, opset: int, domain: str = "") -> int | None:
    """The version of `op` that a model of this opset means; None if it does not exist (yet)."""
    known = [version for version in versions(op, domain) if version <= opset]
    return known[-1] if known else None


@cache
def means_the_same(op: str, opset: int, other: int) -> bool:
    """Whether a node of an ai.onnx operator is the same in two opsets: no version between them has other inputs,
    outputs, attributes or defaults. That it takes further types is no other meaning.

    >>> means_the_same("Reshape", 14, 23), means_the_same("Softmax", 12, 13)
    (True, False)
    """
    first, last = sorted((opset, other))
    if since_version(op, first) is None:
        return False
    return all(_form(op, v) == _form(op, first) for v in versions(op) if first < v <= last)


def _form(op: str, opset: int) -> tuple[object, ...]:
    """What a version of an operator has beside its types."""
    found: Any = onnx.defs.get_schema(op, opset, "")  # onnx's stubs lack much of it
    values = [[(v.name, v.option) for v in side] for side in (found.inputs, found.outputs)]
    attrs = {name: (a.type, a.required, a.default_value.SerializeToString()) for name, a in found.attributes.items()}
    return found.deprecated, values, attrs


def is_function(op: str) -> bool:
    """Whether ONNX defines the newest form of an ai.onnx operator by a function of other operators."""
    if not versions(op):
        return False
    schema: Any = onnx.defs.get_schema(op, newest_opset(), "")  # onnx's stubs lack these attributes
    return bool(schema.has_function or schema.has_context_dependent_function)


@cache
def attributes(op: str, domain: str = "") -> tuple[str, ...] | None:
    """The attributes of an operator's newest form, sorted; None if there is no such operator. Of other domains than
    ai.onnx, of which models keep the version they have, those of all its forms."""
    known = versions(op, domain)
    forms = known if domain else known[-1:]
    found = {a for version in forms for a in onnx.defs.get_schema(op, version, domain).attributes}
    return tuple(sorted(found)) if known else None


def attribute_default(op: str, attribute: str, domain: str = "") -> int | float | str | tuple[object, ...] | None:
    """The default of an attribute of an operator's newest form; None if it has none."""
    if domain == MICROSOFT:
        return default_of(op, attribute)
    known = versions(op, domain)
    if not known:
        return None
    found = onnx.defs.get_schema(op, known[-1], domain).attributes.get(attribute)
    if found is None or not found.default_value.type:
        return None
    value = onnx.helper.get_attribute_value(found.default_value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value if isinstance(value, int | float | str) else None


def type_variables(op: str, domain: str, inputs: int, outputs: int) -> tuple[list[str], list[str]] | None:
    """The names that the newest schema has for the types of so many inputs and outputs: ["T", "K"], ["T", "I"] of
    TopK; None if there is no such operator."""
    known = versions(op, domain)
    if not known:
        return None
    schema = onnx.defs.get_schema(op, known[-1], domain)

    def named(formals: Any, count: int) -> list[str]:
        names = [f.type_str for f in formals]
        return (names + names[-1:] * count)[:count]  # a last one may stand for many

    return named(schema.inputs, inputs), named(schema.outputs, outputs)


@dataclass(frozen=True)
class Side:
    """The inputs of an operator, or its outputs: so many, the last of which may stand for more."""

    operands: tuple[Operand, ...]
    least: int
    most: int

    def at(self, i: int) -> Operand:
        return self.operands[min(i, len(self.operands) - 1)]


@dataclass(frozen=True)
class Formal:
    """What a schema says of an input: ``variable`` is the name of its type, which may have the values
    ``types`` (our names); inputs whose types have one name have one type."""

    variable: str
    types: frozenset[str]


_MANY = 2**31 - 1


@cache
def sides(op: str, domain: str, opset: int) -> tuple[Side, Side | None] | None:
    """The inputs and outputs of an operator as a model of this opset means it, by ONNX's schema or `contrib`, which
    does not tell of outputs; None if neither knows it."""
    if domain == MICROSOFT:
        listed = operands(op)
        if listed is None:
            return None
        least = max((i + 1 for i, o in enumerate(listed) if o.required), default=0)
        return Side(listed, least, _MANY if listed[-1].many else len(listed)), None
    schema = schema_of(op, domain, opset)
    if schema is None:
        return None
    inputs, outputs = (tuple(map(_operand, formal)) for formal in (schema.inputs, schema.outputs))
    return (
        Side(inputs, schema.min_input, schema.max_input),
        Side(outputs, schema.min_output, schema.max_output),
    )


def _operand(formal: Any) -> Operand:
    option = onnx.defs.OpSchema.FormalParameterOption
    return Operand(
        formal.type_str,
        frozenset(BY_SCHEMA[t] for t in formal.types if t in BY_SCHEMA),
        formal.option != option.Optional,
        formal.option == option.Variadic,
        formal.is_homogeneous,
        formal.name,
    )


@cache
def schema_of(op: str, domain: str, opset: int) -> Any:
    """ONNX's schema of an operator as a model of this opset means it; None where it does not know it. What was
    experimental before it was listed has the first form that is."""
    first = versions(op, domain)[:1]
    if not domain and op in _EXPERIMENTAL and first and opset < first[0]:
        opset = first[0]
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


_EXPERIMENTAL = ("ConstantFill", "LayerNormalization", "MeanVarianceNormalization", "ThresholdedRelu")
"""Operators that files had in opset 1 already, though later ones list them, or none: LayerNormalization is what
onnxruntime's optimiser writes into files of any opset."""


def too_new(op: str, domain: str, opset: int) -> int:
    """The opset that brought an operator of ai.onnx, where that is a later one; else 0."""
    known = versions(op, domain)
    return known[0] if not domain and known and op not in _EXPERIMENTAL and known[0] > opset else 0


@cache
def formals(op: str, domain: str, count: int) -> tuple[Formal, ...] | None:
    """What an operator may be given as its first ``count`` inputs; None if neither ONNX nor `contrib` knows it."""
    found = sides(op, domain, versions(op, domain)[-1] if versions(op, domain) else 0)
    if found is None:
        return None
    listed = found[0].operands
    return tuple(_formal(found[0].at(i), i, len(listed) - 1) for i in range(count if listed else 0))


def _formal(operand: Operand, i: int, last: int) -> Formal:
    alike = operand.alike or i < last or not operand.many
    return Formal(operand.variable if alike else f"{operand.variable}{i}", operand.types)


def has_reference(op: str) -> bool:
    """Whether onnx.reference computes an ai.onnx operator whose inputs and outputs can be tensors of numbers."""
    if not versions(op):
        return False
    from onnx.reference.ops import load_op

    schema: Any = onnx.defs.get_schema(op, newest_opset(), "")
    if any(a.type in (onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS)
           for a in schema.attributes.values()):  # fmt: skip
        return False
    numbers = ("tensor(float)", "tensor(int64)", "tensor(bool)", "tensor(uint8)", "tensor(int8)")
    for formal in [*schema.inputs, *schema.outputs]:
        if not any(t in formal.types for t in numbers):
            return False
    try:
        load_op("", op, newest_opset())
    except Exception:
        return False
    return True
