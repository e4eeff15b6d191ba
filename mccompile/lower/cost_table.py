"""What is known of the candidates of nodes beside what their own model of cycles says: measurements."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Node, Value
from mccompile.ir.op import op_text


@dataclass(frozen=True)
class CostTable:
    """Measured cycles: ``cycles[signature][label]`` of a node (`signature`) and of a candidate (`Variant.label`).

    ``origin`` says where they come from, for the report. Where they do not ``decide``, candidates are chosen by
    estimates, and measurements only say what these take.
    """

    cycles: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    decides: bool = True

    def of(self, node: Node, constants: Container[Value]) -> Mapping[str, float]:
        """The measured candidates of a node; mostly none."""
        return self.cycles.get(signature(node, constants), {}) if self.cycles else {}


UNMEASURED = CostTable()


def signature(node: Node, constants: Container[Value]) -> str:
    """What the generated code of a node depends on, elements of constants apart: operator, attributes, element types,
    shapes and layouts, which values are constants or the same, prologues and epilogues. No names.
    """
    numbers: dict[Value, int] = {}

    def text(value: Value | None) -> str:
        if value is None:
            return "_"
        number = numbers.setdefault(value, len(numbers))
        return f"%{number}: {'const ' if value in constants else ''}{value.type}"

    parts = [op_text(node.op), f"({', '.join(map(text, node.operands))})"]
    if node.extras:
        parts.append(f"with({', '.join(map(text, node.extras))})")
    for key, bodies in (("pre", node.pre), ("post", node.post)):
        parts += [f"{key}{i}{{ {ex.text(body)} }}" for i, body in sorted(bodies.items())]
    return " ".join([*parts, "->", ", ".join(str(r.type) for r in node.results)])
