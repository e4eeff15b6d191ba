"""Write `mccompile/onnxio/contrib.py`'s tables: what onnxruntime's own operators take, as its schemas say it.

ONNX has no schemas of the domain com.microsoft. Run this with a newer onnxruntime when a front end is added.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnx import AttributeProto
from onnx.helper import get_attribute_value

from mccompile.onnxio.contrib import MICROSOFT
from mccompile.onnxio.dtypes import BY_SCHEMA
from mccompile.ops.registry import front_ends

FILE = Path(__file__).parents[1] / "mccompile" / "onnxio" / "contrib.py"
MARKS = {"Single": "", "Optional": "?", "Variadic": "*"}


def row(schema: Any) -> tuple[str, str]:
    """Attention: `T T T? M? T? T? M?` and `T: f32 f16 bf16; M: i32`."""
    words, used = [], []
    for formal in schema.inputs:
        name = BY_SCHEMA.get(formal.typeStr, formal.typeStr)
        words.append(name + MARKS[str(formal.option).rsplit(".", 1)[-1]])
        used.append(formal.typeStr)
    meanings = []
    for constraint in schema.type_constraints:
        if constraint.type_param_str in used:
            types = [BY_SCHEMA[t] for t in constraint.allowed_type_strs if t in BY_SCHEMA]
            meanings.append(f"{constraint.type_param_str}: {' '.join(types)}")
    return " ".join(words), "; ".join(meanings)


def defaults(schema: Any) -> dict[str, int | float | str]:
    """FusedConv: group 1, auto_pad NOTSET."""
    found: dict[str, int | float | str] = {}
    for name, attribute in sorted(schema.attributes.items()):
        proto = AttributeProto.FromString(attribute._default_value or b"")
        if proto.type:
            value = get_attribute_value(proto)
            found[name] = value.decode() if isinstance(value, bytes) else value
    return found


def main() -> None:
    """Write the rows of the operators that have a front end."""
    ours = {op for domain, op in front_ends() if domain == MICROSOFT}
    schemas = [s for s in state.get_all_operator_schema() if s.domain == MICROSOFT and s.name in ours]
    text = FILE.read_text(encoding="utf-8")
    rows = []
    for op, (given, types) in sorted((s.name, row(s)) for s in schemas):
        rows.append(f'    "{op}": (\n        "{given}",\n        "{types}",\n    ),\n')
    text = _with_table(text, "_TABLE", rows)
    rows = []
    for op, values in sorted((s.name, defaults(s)) for s in schemas):
        lines = "".join(f'        "{name}": {_said(value)},\n' for name, value in values.items())
        rows.append(f'    "{op}": {{\n{lines}    }},\n' if values else "")
    FILE.write_text(_with_table(text, "_DEFAULTS", rows), encoding="utf-8")


def _said(value: float | str) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _with_table(text: str, name: str, rows: list[str]) -> str:
    return re.sub(rf"(?ms)^({name}: [^\n]*\{{\n).*?^\}}", lambda m: m[1] + "".join(rows) + "}", text)


if __name__ == "__main__":
    main()
