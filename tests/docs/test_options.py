"""Options are declared once: the page, the docstring, the signature and the command line say what is declared."""

from __future__ import annotations

import dataclasses
import inspect

import click
import pytest
from write_options import MODULE, PAGE, page, refreshed

import mccompile
from mccompile.cli.compile import compile_
from mccompile.cli.options import KINDS
from mccompile.search.options import Options, declared

OPTIONS = {name: (told, default) for name, told, default in declared()}


def test_the_page_and_the_docstring_are_fresh() -> None:
    assert PAGE.read_text() == page(), "run make docs"
    assert refreshed(MODULE.read_text()) == MODULE.read_text(), "run make docs"


def test_the_signature_of_compile_is_what_is_declared() -> None:
    parameters = dict(list(inspect.signature(mccompile.compile).parameters.items())[2:])
    assert set(parameters) == {name for name, (told, _) in OPTIONS.items() if told.in_python}
    for name, parameter in parameters.items():
        assert (parameter.default or None) == (OPTIONS[name][1] or None), name


def test_every_option_of_a_compilation_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another value for each parameter arrives in the field of its name."""
    seen: list[Options] = []
    monkeypatch.setattr("mccompile.driver.compile", lambda model, out_dir, options: seen.append(options))
    fields = {f.name for f in dataclasses.fields(Options)}
    names = [name for name, (told, _) in OPTIONS.items() if told.in_python and name in fields]
    given = {name: _other(OPTIONS[name][1]) for name in names}
    given |= {"memory": {"dtcm": 1}}
    mccompile.compile("m.onnx", "out", **given)
    assert {name: getattr(seen[0], name) for name in given} == given | {"memory": (("dtcm", 1),)}


def _other(default: object) -> object:
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 1
    if isinstance(default, str):
        return f"{default}!"
    return {"a": 1} if isinstance(default, dict) else 7


def test_the_command_line_has_every_declared_option() -> None:
    known = {p.name: p for p in compile_.params if isinstance(p, click.Option)}
    for name, (told, _) in OPTIONS.items():
        assert known[name].opts == list(told.flags)
        assert known[name].help == told.help
        assert told.kind in KINDS
