"""The C of small graphs is what the files beside them say; who changes a template shows it with `make golden`."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from mccompile.targets.target import targets
from tests._skips import REPOSITORY
from tests.golden.golden import FOLDER, facts_of, golden_files, parts
from tests.support.uses import check_uses


def test_the_c_is_what_the_files_say() -> None:
    made = golden_files()
    kept = {path.name: path.read_text() for path in FOLDER.glob("*.c")}
    shown: list[str] = []
    for name in sorted(made.keys() | kept.keys()):
        pair = (kept.get(name, "").splitlines(), made.get(name, "").splitlines())
        shown += difflib.unified_diff(*pair, f"tests/golden/{name}", "generated", lineterm="", n=1)
    assert not shown, "\n".join([*shown[:60], "if that is meant: make golden"])


def test_the_files_are_of_kernels_scalar_and_vector() -> None:
    kernels = {path.stem for path in FOLDER.glob("*.mcir")}
    templates = (REPOSITORY / "kernels_templates").glob("[a-z]*/*.c.j2")
    assert kernels <= {f"{p.parent.name}.{p.name.removesuffix('.c.j2')}" for p in templates}
    assert len(kernels) >= 20
    lanes = [targets()[part.target].lanes for path in FOLDER.glob("*.mcir") for part in parts(path)]
    assert lanes.count(0) >= 10
    assert sum(n > 0 for n in lanes) >= 20


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.mcir")), ids=lambda path: path.stem)
def test_kernels_ask_for_what_their_c_mentions(path: Path) -> None:
    for part in parts(path):
        check_uses(facts_of(part))
