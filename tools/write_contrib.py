"""Write `mccompile/onnxio/contrib.py`'s table: what onnxruntime's own operators take, as its schemas say it.

ONNX has no schemas of the domain com.microsoft. Run this with a newer onnxruntime when a front end is added.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnxruntime.capi.onnxruntime_pybind11_state as state

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


def main() -> None:
    """Write the rows of the operators that have a front end."""
    ours = {op for domain, op in front_ends() if domain == MICROSOFT}
    known = {s.name: row(s) for s in state.get_all_operator_schema() if s.domain == MICROSOFT and s.name in ours}
    listed = sorted(known.items())
    rows = "".join(
        f'    "{op}": (\n        "{given}",\n        "{types}",\n    ),\n' for op, (given, types) in listed
    )
    text = FILE.read_text(encoding="utf-8")
    table = "_TABLE: Final[Mapping[str, tuple[str, str]]] = {\n" + rows + "}"
    FILE.write_text(re.sub(r"(?ms)^_TABLE: .*?^\}", lambda _: table, text), encoding="utf-8")


if __name__ == "__main__":
    main()
