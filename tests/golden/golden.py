"""The C that templates make of small graphs, beside the graphs: `make golden` writes it, `test_golden.py` compares.

`conv.direct.mcir` holds graphs whose convolutions are given to the kernel `conv.direct`, and `conv.direct.c` what is
generated for them, so that the change of a template shows its C in review:

    // target: x86-64-v3                                    for all graphs of the file
    // stride 1: the vectors lie along a row                a title for each graph
    graph @net(%x: f32[1,2,6,20]) { ... }
    // -----                                                between graphs

Of each generated file there are the kernels and the function that calls them. The library of vector helpers, which
would stand in every one of them, is once for each target in `helpers.<target>.c`: what all graphs of it use.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.templates import indent_c, render
from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call
from mccompile.ops.registry import lookup
from mccompile.targets.target import resolve
from tests.support.graphs import fill_constants

FOLDER = Path(__file__).parent
NOTE = "/* Written by `make golden`; do not edit. */\n"


@dataclass(frozen=True)
class Part:
    """One graph of a file: the kernel that is to compute its operator, its title, the target, the text."""

    kernel: str
    title: str
    target: str
    text: str

    @property
    def force(self) -> dict[str, str]:
        """A title that begins with the kernel names one of its variants: `conv.winograd m=2: ...`."""
        label = self.title.partition(": ")[0]
        return {self.kernel.split(".")[0]: label if label.startswith(self.kernel) else self.kernel}


def parts(path: Path) -> list[Part]:
    target, _, body = path.read_text().partition("\n")
    assert target.startswith("// target: "), f"{path.name} does not begin with its target"
    found = []
    for text in body.split("// -----\n"):
        title, _, graph = text.partition("\n")
        assert title.startswith("// "), f"a part of {path.name} has no title"
        found.append(Part(path.stem, title[3:], target.removeprefix("// target: "), graph))
    return found


def facts_of(part: Part) -> ModelFacts:
    """A part as it is compiled, without passes: the graph is the one in the file."""
    graph = parse_graph(part.text, lookup)
    fill_constants(graph, seed=1)
    options = Options(target=part.target, passes=(), kernels=part.force)
    c = Compilation(graph.name, "0" * 64, options, resolve(part.target), graph, [])
    facts = compile_program(c)
    assert c.program is not None
    used = {step.kernel for step in c.program.body.linear() if isinstance(step, Call)}
    assert part.kernel in used, f"{part.title}: computed by {used}"
    return facts


def kernels_text(facts: ModelFacts) -> str:
    """The kernels of a network, and the function that calls them."""
    bare = replace(facts, helpers="", headers=(), requires=())
    text = indent_c(render("_model/model.c.j2", m=bare))
    _, _, text = text.partition(f'#include "{facts.name}.h"\n')
    kernels, _, rest = text.partition("#ifndef MCC_SPLIT_ARENA\n")
    run = rest[rest.index(f"mcc_status {facts.name}_run(") :]
    return f"{kernels.strip()}\n\n{run}"


def helpers_text(facts: list[ModelFacts]) -> str:
    """The helpers of several networks, each once, in the order of the first that has them."""
    blocks = [block for f in facts for block in f.helpers.split("\n\n") if block.strip()]
    return "\n\n".join(block.strip("\n") for block in dict.fromkeys(blocks)) + "\n"


def golden_files() -> dict[str, str]:
    """Every C file of the folder by its name."""
    files: dict[str, str] = {}
    made: dict[str, list[ModelFacts]] = defaultdict(list)
    for path in sorted(FOLDER.glob("*.mcir")):
        text = NOTE
        for part in parts(path):
            facts = facts_of(part)
            made[part.target].append(facts)
            text += f"\n/* ---- {part.title} ---- */\n\n{kernels_text(facts)}"
        files[f"{path.stem}.c"] = text
    for target, facts in made.items():
        files[f"helpers.{target}.c"] = f"{NOTE}\n{helpers_text(facts)}"
    return files


def main() -> None:
    files = golden_files()
    for path in FOLDER.glob("*.c"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
