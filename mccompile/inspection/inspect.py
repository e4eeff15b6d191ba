"""Compiles a model in memory, and says what that takes or why it cannot be done."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from mccompile import driver
from mccompile._dataclass import dataclass
from mccompile.codegen.folder import write_folder
from mccompile.driver import Compilation, Options
from mccompile.inspection.contents import MISSING, REWRITTEN, Contents, contents_of
from mccompile.ir.errors import CompileError, Culprit, UsageError
from mccompile.onnxio import read_model
from mccompile.report.limits import misfits, weight_sizes
from mccompile.report.quantised import float_lines
from mccompile.report.report import make_report
from mccompile.report.summary import size_text, whole_text
from mccompile.run.stack import Stack, stack_of

MOST_FLOATS = 8
"""Nodes of a quantised network that are named because they are computed in floats."""

_MARKS = {
    "expanded": "expanded: its ONNX function",
    "folded": "only of what is known at compile time",
    REWRITTEN: "rewritten to its newest form",
    MISSING: "NOT SUPPORTED",
}


@dataclass(frozen=True, repr=False)
class Inspection:
    """What `inspect` found.

    Attributes:
        file: the model's name.
        contents: what the file says.
        error: why it cannot be compiled; None if it can.
        report: of the compilation, as report.json has it; empty if there is none.
        misfits: a paragraph for each memory that is too small.
        limits: the sizes of memories that were given, by name of the option.
        stack: what a run takes of it, where that was asked for.
    """

    file: str
    contents: Contents
    error: CompileError | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    misfits: tuple[str, ...] = ()
    limits: Mapping[str, int | None] = field(default_factory=dict)
    stack: Stack | None = None

    @property
    def ok(self) -> bool:
        """Whether the model can be compiled and fits."""
        return self.error is None and not self.misfits

    @property
    def unsupported(self) -> tuple[Culprit, ...]:
        """The nodes that stand in the way."""
        if self.error is None:
            return ()
        named = {(n.index, n.op) for n in self.error.nodes}  # nodes without a name have one by then
        return (*self.error.nodes, *(n for n in self.contents.missing if (n.index, n.op) not in named))

    @property
    def arena_bytes(self) -> int | None:
        """What the arena takes of the RAM; None where the model cannot be compiled."""
        return self.report["memory"]["arena_bytes"] if self.report else None

    @property
    def blob_bytes(self) -> int | None:
        """What the weights take of the flash; None where the model cannot be compiled."""
        return self.report["blob_bytes"] if self.report else None

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<Inspection of {self.file}: cannot be compiled, {self.error.code}>"
        sizes = f"{size_text(self.arena_bytes or 0)} of RAM, {size_text(self.blob_bytes or 0)} of weights"
        return f"<Inspection of {self.file}: {sizes}{', does not fit' if self.misfits else ''}>"

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        facts = {"file": self.file, **self.contents.to_json()}
        facts["unsupported"] = [node.to_json() for node in self.unsupported]
        facts["error"] = None if self.error is None else self.error.to_json()
        facts["misfits"] = list(self.misfits)
        if self.report:
            facts |= {key: self.report[key] for key in ("notes", "macs", "quantised", "blob_bytes")}
            facts |= {key: self.report["memory"][key] for key in ("arena_bytes", "lower_bound_bytes")}
            facts |= {"target": self.report["target"]["name"], "limits": dict(self.limits)}
        if self.stack is not None:
            facts["stack"] = self.stack.to_json() | {"line": self.stack.line()}
        return facts

    def lines(self) -> list[str]:
        """What to show a user."""
        return [*_contents_lines(self.file, self.contents), *self._outcome()]

    def _outcome(self) -> list[str]:
        if self.error is not None:
            hidden = self.unsupported[len(self.error.nodes) :]
            told = ["  nodes that are not supported either:", *(f"    node {n.index} {n.name!r}" for n in hidden)]
            why = [f"  {line}" for line in str(self.error).splitlines()]
            return [*(told if hidden else []), "cannot be compiled:", *why]
        r = self.report
        lines = [f"  note: {note}" for note in r["notes"]]
        lines.append(f"  for {r['target']['name']}: {r['macs']:,} MACs")
        if r["quantised"] is not None:
            lines += _float_lines(r["quantised"])
        lines.append(f"    arena (RAM)     {size_text(r['memory']['arena_bytes'])}")
        lines.append(f"    weights (flash) {size_text(r['blob_bytes'])}; the code comes on top")
        if self.stack is not None:
            lines.append(f"    {self.stack.line()}")
        given = " and ".join(f"--{k} {v:,}" for k, v in self.limits.items() if v is not None)
        if given and not self.misfits:
            lines.append(f"  it fits in {given}")
        return lines + [line for found in self.misfits for line in found.splitlines()]


def inspect(model: Path, options: Options, *, flash: int | None = None, stack: bool = False) -> Inspection:
    """Say what is in a model, whether it can be compiled, and what it needs.

    Args:
        model: the .onnx file.
        options: how it would be compiled; ``options.ram`` is what the arena may take.
        flash: bytes that the weights may take.
        stack: also say what a run takes of the stack, by the target's C compiler.

    Raises:
        UsageError: options that do not fit the model, or no such file.
        CompileError: the file is no model that can be read, or there is no compiler for the stack.
    """
    read = read_model(model)
    contents = contents_of(read)
    try:
        c = driver.import_graph(model, options)
        driver.compile_program(c)
    except UsageError:
        raise
    except CompileError as e:
        return Inspection(model.name, contents, e)
    report = make_report(c, {})
    return Inspection(
        model.name,
        contents,
        report=report,
        misfits=tuple(misfits(report, weight_sizes(c), options.ram, flash)),
        limits={"ram": options.ram, "flash": flash},
        stack=_stack(c) if stack else None,
    )


def _stack(c: Compilation) -> Stack:
    """What a run takes of the stack, by the compiler of the target."""
    with tempfile.TemporaryDirectory(prefix="mccompile-stack-") as folder:
        write_folder(Path(folder), driver.finish(c))
        return stack_of(Path(folder), make_report(c, {}))


def _contents_lines(file: str, c: Contents) -> list[str]:
    opsets = ", ".join(f"{domain} {version}" for domain, version in c.opsets.items())
    made = f", made by {c.producer}" if c.producer else ""
    lines = [f"{file}: opset {opsets}, IR version {c.ir_version}{made}"]
    lines += [f"  input   {p.text()}" for p in c.inputs] + [f"  output  {p.text()}" for p in c.outputs]
    lines.append(f"  {c.nodes} nodes, {c.parameters:,} parameters in {size_text(c.parameter_bytes)}")
    lines.append("  operators:")
    width = max((len(row.op) for row in c.operators), default=0)
    for row in c.operators:
        mark = f"  {_MARKS[row.status]}" if row.status in _MARKS else ""
        lines.append(f"    {row.op:{width}} {row.count:5}{mark}")
    return lines


def _float_lines(found: dict[str, Any]) -> list[str]:
    """What of a quantised network is computed in floats, and why."""
    if not found["floats"]:
        return [f"    quantised       {whole_text(found)}"]
    nodes = f"{len(found['floats'])} node{'s' * (len(found['floats']) != 1)}"
    head = f"    quantised       {found['float_macs']:,} MACs and {nodes} in floats:"
    return [head, *(f"      {line}" for line in float_lines(found, MOST_FLOATS))]
