"""Options are declared once: the page, Python's types and signatures, and the command line say what is declared."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import click
import pytest
from write_options import PAGE, TYPES, page, types

import mccompile
from mccompile.api import arguments
from mccompile.api.functions import BUILD, COMPILE, INSPECT
from mccompile.api.options import TYPES as KIND_TYPES
from mccompile.api.options import options_in
from mccompile.cli.compile import compile_
from mccompile.cli.options import KINDS
from mccompile.ir.errors import UsageError
from mccompile.search.options import SECTIONS, Options, declared

OPTIONS = {name: (told, default) for name, told, default in declared()}
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...], type]] = {
    "compile": (mccompile.compile, COMPILE, arguments.CompileOptions),
    "check": (mccompile.check, BUILD, arguments.BuildOptions),
    "bench": (mccompile.bench, BUILD, arguments.BuildOptions),
    "inspect": (mccompile.inspect, INSPECT, arguments.InspectOptions),
}


def test_the_page_and_the_types_are_fresh() -> None:
    assert PAGE.read_text() == page(), "run make docs"
    assert TYPES.read_text() == types(), "run make docs"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_signature_of_a_function_is_what_is_declared(name: str) -> None:
    function, groups, typed = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    wanted = {option: default for option, _, default in options_in(*groups)}
    assert wanted.keys() <= parameters.keys()
    assert typed.__annotations__.keys() == wanted.keys()
    for option, default in wanted.items():
        assert parameters[option].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[option].default == default


def test_docstrings_say_what_options_are() -> None:
    assert mccompile.compile.__doc__ is not None
    for name, told, _ in options_in(*COMPILE):
        assert f"\n        {name}: {told.text[:20]}" in mccompile.compile.__doc__


def test_every_option_of_a_compilation_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another value for each parameter arrives in the field of its name."""
    seen: list[Options] = []

    def compiled(model: object, out_dir: object, options: Options, extra: object) -> SimpleNamespace:
        seen.append(options)
        return SimpleNamespace(notes=(), with_notes=lambda notes: None)

    monkeypatch.setattr("mccompile.driver.compile", compiled)
    fields = {f.name for f in dataclasses.fields(Options)}
    names = [name for name, (told, _) in OPTIONS.items() if told.in_python and name in fields]
    given = {name: _other(OPTIONS[name][1]) for name in names}
    given |= {"memory": {"dtcm": "1K"}, "opt_level": 3, "ram": "64K", "limits": {"nodes": 7}}
    given |= {name: {"a": "f32"} for name in ("state", "input_formats", "weights", "precision") if name in given}
    given |= {"input_shapes": {"a": [1]}, "kernels": {"conv": "conv.generic"}}
    mccompile.compile("m.onnx", "out", **given)  # type: ignore[typeddict-item]
    wanted = given | {"memory": (("dtcm", 1024),), "opt_level": "O3", "ram": 65536}
    assert {name: getattr(seen[0], name) for name in given} == wanted


def _other(default: object) -> object:
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 1
    if isinstance(default, str):
        return f"{default}!"
    return {"a": 1} if isinstance(default, dict) else 7


def test_wrong_options_are_told() -> None:
    with pytest.raises(TypeError, match=r"compile\(\) has no option 'taget'; did you mean 'target'"):
        mccompile.compile("m.onnx", "out", taget="generic")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="ram='lots' is no size"):
        mccompile.compile("m.onnx", "out", ram="lots")


def test_the_command_line_has_every_declared_option() -> None:
    known = {p.name: p for p in compile_.params if isinstance(p, click.Option)}
    for name, (told, _) in OPTIONS.items():
        assert known[name].opts == list(told.flags)
        assert known[name].help == told.help
        assert told.kind in KINDS
        assert told.kind in KIND_TYPES
        assert told.section in SECTIONS
