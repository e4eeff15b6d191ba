"""Makes the generated parts of the documents (``make docs`` runs ``python -m tools.make_docs``).

A document says what is to stand in a place, and the tool writes it there:

    <!-- made: file mccompile/passes/clean/eliminate_dead_code.py -->
    ```python
    ...
    ```
    <!-- end -->

The word behind ``made:`` is a function of `MAKERS`, what follows are its arguments. ``make_docs.py --check`` writes
nothing and fails where a document is not what it would write.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mccompile.codegen.binding import KernelContext
from mccompile.codegen.bound_view import BoundView
from mccompile.codegen.packages import packages
from mccompile.codegen.vectors import Vectors
from mccompile.driver import Compilation, Options, finish, import_graph
from mccompile.ir.errors import CODES
from mccompile.ir.files import IR, text_of
from mccompile.ir.graph_text import parse_graph, print_graph
from mccompile.ir.kernel_parse import parse_module
from mccompile.ir.kernel_text import print_module
from mccompile.ir.limits import LIMITS, Limit
from mccompile.kernel_passes.pipeline import KERNEL_PIPELINES, improve, kernel_passes
from mccompile.kernels.registry import params_of
from mccompile.ops.draw import SeededDraw
from mccompile.ops.registry import lookup
from mccompile.passes.manager import Pass, passes, rounding, run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.report.diff import differences, text_lines
from mccompile.report.schema import schema
from mccompile.targets.target import resolve, targets

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^<!-- made: (.*?) -->\n(.*?)^<!-- end -->$", re.S | re.M)
LANGUAGES = {".py": "python", ".j2": "c", ".mcir": "", ".c": "c", ".h": "c", ".md": "markdown", ".toml": "toml"}
WIDTH = 116


def documents() -> list[Path]:
    """The documents that have, or may have, generated parts."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def made(text: str) -> str:
    """A document with its generated parts as they should be."""

    def block(found: re.Match[str]) -> str:
        name, *arguments = shlex.split(found[1])
        return f"<!-- made: {found[1]} -->\n{MAKERS[name](*arguments)}\n<!-- end -->"

    return BLOCK.sub(block, text)


def _fence(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


# -- files -------------------------------------------------------------------------------------------------------
def file(path: str, first: str = "", last: str = "") -> str:
    """A file, or its lines from the one that contains ``first`` up to the one behind it that contains ``last``."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    if first:
        begin = next(i for i, line in enumerate(lines) if first in line)
        end = next(i for i, line in enumerate(lines) if i > begin and last in line)
        lines = lines[begin : end + 1]
    return f"`{path}`:\n\n" + _fence(textwrap.dedent("\n".join(lines)), LANGUAGES[Path(path).suffix])


def grammar(module: str) -> str:
    """The grammar in the docstring of a module: its indented blocks behind a line that ends in two colons."""
    doc = inspect.getdoc(importlib.import_module(module)) or ""
    blocks = re.findall(r"::\n\n((?:(?:    .*)?\n)+)", doc + "\n")
    return _fence("\n".join(textwrap.dedent(b).strip("\n") for b in blocks))


# -- one convolution through the stages --------------------------------------------------------------------------
CONV = "conv2"
"""The node of the shipped network that is followed."""


@cache
def _stages() -> dict[str, str]:
    """The text of the shipped network after each stage, and its C."""
    kept: dict[str, str] = {}

    def keep(stage: str, ir: IR) -> None:
        kept[stage] = text_of(ir)

    path = ROOT / "examples" / "digits" / "digits.onnx"
    c: Compilation = import_graph(path, Options(target="generic"))
    files = finish(c, keep)
    names = list(kept)
    kept["passes"] = kept[names[names.index("lower") - 1]]
    kept["kernel-passes"] = kept[names[names.index("plan") - 1]]
    kept["c"] = bytes(files["digits.c"]).decode()
    return kept


def conv(stage: str) -> str:
    """What a convolution with its activation is at a stage: import, passes, lower, kernel-passes, plan or c."""
    text = _stages()[stage]
    if stage == "c":
        return _fence(_function_of(text), "c")
    words = (f"%{CONV}.out = ", f"%{CONV}.relu = ", f"; {CONV}", f"buffer {CONV}.relu", f"buffer {CONV}.weight")
    found = [line.strip() for line in text.splitlines() if any(w in line for w in words)]
    return _fence("\n".join(wrapped(line) for line in dict.fromkeys(found)))


def _function_of(text: str) -> str:
    """The kernel of `CONV` and its call in ``run``."""
    called = re.search(rf"/\* @\d+ {CONV}[^\n]*\n.*?(digits_k\d+_conv)\(.*?;", text, re.S)
    if called is None:
        raise SystemExit(f"the C has no step of {CONV}")
    kernel = re.search(rf"^(?:/\*(?:(?!\*/).)*\*/\n)?static void {called[1]}\(.*?^}}", text, re.S | re.M)
    if kernel is None:
        raise SystemExit(f"the C has no kernel {called[1]}")
    return f"{kernel[0]}\n\n{textwrap.dedent(called[0])}"


def wrapped(line: str) -> str:
    """A line of IR text on several lines where it is long."""
    parts = textwrap.wrap(line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(parts)


# -- passes ------------------------------------------------------------------------------------------------------
def pipelines() -> str:
    """The passes of each level, in order."""
    return _levels(PIPELINES)


def kernel_pipelines() -> str:
    """The passes on kernel IR of each level, in order."""
    return _levels(KERNEL_PIPELINES)


def _levels(pipelines: Mapping[str, Sequence[str]]) -> str:
    out = []
    for level, names in pipelines.items():
        out.append(f"- `-{level}`: " + (", ".join(names) if names else "none"))
    return "\n".join(textwrap.fill(line, 138, subsequent_indent="  ", break_on_hyphens=False) for line in out)


def pass_catalogue() -> str:
    """A section for every pass on graphs: its help, what it may change, where it runs, and its first test."""
    return _catalogue(passes(), PIPELINES, _first_hit)


def kernel_pass_catalogue() -> str:
    """A section for every pass on kernel IR, as that of passes on graphs."""
    return _catalogue(kernel_passes(), KERNEL_PIPELINES, _first_kernel_hit)


def _catalogue(
    found: Mapping[str, Pass], pipelines: Mapping[str, Sequence[str]], first_hit: Callable[[str], str]
) -> str:
    out = []
    for name, run in found.items():
        levels = [f"-{level}" for level, names in pipelines.items() if name in names]
        facts = [
            "may round" if name in rounding() else "exact",
            f"runs at {', '.join(levels)}" if levels else "runs only when it is asked for",
        ]
        if "target" in inspect.signature(run).parameters:
            facts.append("asks the target")
        if "judge" in inspect.signature(run).parameters:
            facts.append("asks the planner")
        out.append(f"### {name}\n\n{_paragraph(run)} *{'; '.join(facts)}.*\n")
        out.append(first_hit(name))
    return "\n".join(out).rstrip()


def _paragraph(item: object) -> str:
    """The docstring as one paragraph of Markdown: what stands in double backticks is code."""
    doc = inspect.getdoc(item) or ""
    text = " ".join(doc.split("\n\n")[0].split()).replace("``", "`")
    return textwrap.fill(text, 138, break_on_hyphens=False)


@dataclass(frozen=True)
class _Hit:
    """The first part of a pass's test that begins with what it does."""

    path: Path
    names: tuple[str, ...]
    target: str
    title: str
    text: str

    @classmethod
    def of(cls, folder: str, name: str) -> _Hit:
        path = ROOT / "tests" / folder / f"{name.replace('-', '_')}.mcir"
        header, _, body = path.read_text(encoding="utf-8").partition("\n")
        names = tuple(header.removeprefix("// passes: ").split(", "))
        target = re.match(r"// target: (\S+)\n", body)
        part = next(p for p in body.split("// -----\n") if re.search(r"^// hit: ", p, re.M))
        title = re.search(r"^// hit: (.*)$", part, re.M)
        return cls(path, names, target[1] if target else "generic", title[1] if title else name, part)

    def shown(self, before: Sequence[str], after: Sequence[str]) -> str:
        title = f"{self.title[:1].upper()}{self.title[1:]}"
        return f"{title}:\n\n" + _fence("\n".join([*before, "    becomes", *after]))


def _first_hit(name: str) -> str:
    """The first part of the pass's test as a graph before and after."""
    hit = _Hit.of("passes", name)
    before = hit.text[hit.text.index("graph @") :].rstrip()
    graph = parse_graph(hit.text, lookup, path=str(hit.path))
    importlib.import_module("tests.support.graphs").fill_constants(graph, seed=2)
    run_passes(graph, hit.names, target=resolve(hit.target))
    return hit.shown(_nodes(before), _nodes(print_graph(graph)))


def _first_kernel_hit(name: str) -> str:
    """The first part of the pass's test as kernel IR before and after: the steps, and buffers where they change."""
    hit = _Hit.of("kernel_passes", name)
    module = parse_module(hit.text, lookup, params_of, path=str(hit.path))
    for buffer in module.buffers:
        if buffer.space == "blob":
            buffer.data = SeededDraw(2).array(buffer.type.shape, buffer.type.dtype.name, -1, 1)
    before = _steps(print_module(module))
    improve(module, hit.names, resolve(module.target), threads=2)
    after = _steps(print_module(module))
    changed = (_shown(before, after), _shown(after, before))
    return hit.shown(*changed)


def _steps(text: str) -> list[str]:
    """The lines of a module's text, without heading and end."""
    return [line.strip() for line in text.splitlines()[1:-1]]


def _shown(lines: Sequence[str], other: Sequence[str]) -> list[str]:
    """Those of some lines that are no buffers which the other ones have, too."""
    return [wrapped(line) for line in lines if not (line.startswith("buffer ") and line in other)]


def _nodes(text: str) -> list[str]:
    """The nodes of a graph's text, without constants, heading and end."""
    lines = [line.strip() for line in text.splitlines()[1:-1]]
    return [wrapped(line) for line in lines if not re.match(r"%\S+ = const|return|//", line)]


# -- templates ---------------------------------------------------------------------------------------------------
def template_words() -> str:
    """What templates see: the public members of the three objects they are given."""
    out = []
    seen = (("`x[i]`, `y[i]`: a view", BoundView), ("`k`: the call", KernelContext), ("`v`: vectors", Vectors))
    for title, cls in seen:
        out.append(f"**{title}**\n\n| word | what it is |\n|---|---|")
        for name, member in _members(cls):
            out.append(f"| `{name}` | {member} |")
        out.append("")
    return "\n".join(out).rstrip()


def _members(cls: type) -> Iterator[tuple[str, str]]:
    """Name (with parameters) and the first sentence of the docstring of each public property and method."""
    for name, item in vars(cls).items():
        function = item.fget if isinstance(item, property) else getattr(item, "__func__", item)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        given = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
        shown = "" if isinstance(item, property) else f"({', '.join(str(p).split(':')[0] for p in given)})"
        first = " ".join(function.__doc__.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")
        yield f"{name}{shown}", first


def helpers() -> str:
    """The functions that generated C may hold beside its kernels, and what is said of each."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "kernels_templates" / "_lib").glob("*.c.j2")):
        text = path.read_text(encoding="utf-8")
        for name, said in re.findall(r"//% call helper\(([^,)]+)[^\n]*\n/\* (.*?)\*/", text, re.S):
            shown = "".join(part.strip('"') if part.startswith('"') else "..." for part in name.split(" ~ "))
            found.setdefault(shown, " ".join(said.split()))
    return "\n".join(["| helper | what it is |", "|---|---|", *(f"| `{n}` | {s} |" for n, s in found.items())])


def package_table() -> str:
    """Every layout of ``--package``: what it is, and its files beside the C."""
    rows = ["| `--package` | what it is | files beside C and report | C | headers |", "|---|---|---|---|---|"]
    for name, p in packages().items():
        others = [path.replace("{name}", "<model>") for path in (*p.files, *([p.example] if p.example else []))]
        shown = "<br>".join(f"`{path}`" for path in others)
        rows.append(f"| `{name}` | {p.title} | {shown} | `{p.sources or '.'}` | `{p.headers or '.'}` |")
    return "\n".join(rows)


# -- reports -----------------------------------------------------------------------------------------------------
REPORT_PARTS = (
    ("", ()), ("steps", ("steps", "items")), ("memory", ("memory",)),
    ("memory.tensors", ("memory", "properties", "tensors", "items")),
    ("code", ("code", "oneOf", 1)), ("code.functions", ("code", "oneOf", 1, "properties", "functions", "items")),
)  # fmt: skip
"""Parts of a report, and where they stand in its schema, from the properties of a model's report on."""


def report_fields() -> str:
    """The fields of report.json, by its schema: those that say something of themselves."""
    whole = schema()
    lines = ["| field | |", "|---|---|"]
    for name, path in REPORT_PARTS:
        part: Any = whole["$defs"]["model_report"] if not path else whole["$defs"]["model_report"]["properties"]
        for step in path:
            part = _resolved(part[step], whole)
        for field, told in part["properties"].items():
            text = told.get("description") or _resolved(told, whole).get("description", "")
            if text and field not in ("limits", "bench", "check"):
                lines.append(f"| `{name}{'.' if name else ''}{field}` | {text} |")
    return "\n".join(lines)


def _resolved(part: Any, whole: Mapping[str, Any]) -> Any:
    """A part of a schema, or what it refers to."""
    if not isinstance(part, dict) or "$ref" not in part:
        return part
    return whole["$defs"][part["$ref"].removeprefix("#/$defs/")]


def report_diff() -> str:
    """What `mccompile diff` says of the shipped network at two levels."""
    path = ROOT / "examples" / "digits" / "digits.onnx"
    reports = []
    for level in ("O2", "Os"):
        files = finish(import_graph(path, Options(target="cortex-m4", opt_level=level)))
        reports.append(json.loads(bytes(files["report.json"])))
    return _fence("\n".join(text_lines(differences(*reports))))
def error_codes() -> str:
    """What programs go by."""
    return "\n".join(["| code | |", "|---|---|", *(f"| `{code}` | {text} |" for code, text in CODES.items())])


def limits_table() -> str:
    """Every limit of `mccompile.ir.limits`."""
    rows = [f"| `{n}` | {t.what} | {t.usual:,} {t.unit} | {_most(t)} |" for n, t in LIMITS.items()]
    return "\n".join(["| limit | of what | usually | at most |", "|---|---|---:|---:|", *rows]) + "\n"


def _most(told: Limit) -> str:
    return "as asked" if told.most > 2**60 else f"{told.most:,}"


def instruction_sets() -> str:
    """What an instruction set consists of, in lines."""
    found: dict[str, list[str]] = {}
    for t in sorted(targets().values(), key=lambda t: t.name):
        if t.isa:
            found.setdefault(t.isa, []).append(t.name)
    rows = []
    for isa, names in found.items():
        files = [ROOT / "mccompile" / "targets" / f"{n.replace('-', '_')}.py" for n in names]
        primitives = ROOT / "kernels_templates" / "_lib" / f"vector_{isa}.c.j2"
        counts = " + ".join(str(_lines(path)) for path in files)
        named = ", ".join(f"`{n}`" for n in names)
        rows.append(f"| {named} | {counts} | `{primitives.name}` | {_lines(primitives)} |")
    return "\n".join(["| targets | lines | primitives of their own | lines |", "|---|--:|---|--:|", *rows])


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


MAKERS: dict[str, Callable[..., str]] = {
    "file": file,
    "grammar": grammar,
    "conv": conv,
    "pipelines": pipelines,
    "passes": pass_catalogue,
    "kernel-pipelines": kernel_pipelines,
    "kernel-passes": kernel_pass_catalogue,
    "template-words": template_words,
    "helpers": helpers,
    "packages": package_table,
    "report_fields": report_fields,
    "report_diff": report_diff,
    "error_codes": error_codes,
    "limits": limits_table,
    "instruction_sets": instruction_sets,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated parts of the documents.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something would change")
    check = parser.parse_args().check
    stale = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        wanted = made(text)
        if wanted != text:
            stale.append(path)
            if not check:
                path.write_text(wanted, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'is stale: run make docs' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
