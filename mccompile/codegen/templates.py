"""The Jinja environment of the templates, and the tidying of what they print."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

import jinja2

from mccompile._data import data_dir
from mccompile.codegen.code import bare, closed, wrapped
from mccompile.codegen.uses import requests_of_names
from mccompile.codegen.wrapping import STEP, wrapped_line, wrapped_text
from mccompile.ir.dims import Dim, bound
from mccompile.ir.errors import CompileError
from mccompile.plugins import registry, template_folders

_NO_CODE = re.compile(r'/\*.*?(\*/|$)|"(?:[^"\\]|\\.)*"')
"""Comments and strings."""
_CONTROL = re.compile(r"^[ ]*//%(-?)(.*)$", re.MULTILINE)
_REMARK = re.compile(r"^[ ]*//#(.*)$", re.MULTILINE)


def blocks_of_lines(source: str) -> str:
    """A template with its ``//%`` and ``//#`` lines as Jinja's blocks, line by line.

    Jinja has line statements of its own, but they take the blank lines around them away:

        int32_t a = 0;                              int32_t a = 0;
                                                    <blank>
        //% if x                    becomes         {% if x %}
    """
    source = _CONTROL.sub(lambda m: "{%" + m[1] + m[2] + " %}", source)
    return _REMARK.sub(lambda m: "{#" + m[1] + " #}", source)


_FUNCTION = re.compile(r"^(?=(?:static (?!const\b)|MCC_INLINE )[^;]*$)", re.MULTILINE)


def placed_functions(source: str) -> str:
    """A template with the macro of the section for code in front of each function that it defines itself.

    It stands on a line of its own, as the pragma that it is for some compilers has to:

    >>> placed_functions("static const int a[] = { 1 };\\nstatic void f(int x)\\n{")
    'static const int a[] = { 1 };\\nMCC_PLACE_CODE\\nstatic void f(int x)\\n{'
    """
    return _FUNCTION.sub("MCC_PLACE_CODE\n", source)


_FILES = ("_model/", "_packages/")
"""Templates of whole files."""
_PLAIN = (*_FILES, "_lib/scalar", "_lib/vector")
"""Those, and of helpers, which declare what they need."""


class _Loader(jinja2.FileSystemLoader):
    """Reads templates whose control lines look like comments of C, and whose C asks for the names it mentions."""

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        source, path, current = super().get_source(environment, template)
        source = blocks_of_lines(source)
        source = source if template.startswith(_FILES) else placed_functions(source)
        return source if template.startswith(_PLAIN) else requests_of_names(source), path, current


class _Compiled(jinja2.FileSystemBytecodeCache):
    """What Jinja has made of templates, beside what Python has made of this module, and like that: whoever may not
    write there compiles anew. It is made again where a template or this module, which says how, has changed."""

    def __init__(self) -> None:
        super().__init__(str(Path(cache_from_source(__file__)).parent), "%s.template")
        self.made_by = Path(__file__).stat().st_mtime_ns

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return super().get_cache_key(f"{name} {self.made_by}", filename)

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


MOST_TURNS = 1 << 16
"""Of one loop that a template writes out."""


def _turns(*args: int) -> range:
    """``range``, of at most `MOST_TURNS`: in IR text, the parameters of a kernel may be any numbers."""
    turns = range(*args)
    if len(turns[: MOST_TURNS + 1]) > MOST_TURNS:  # the whole one may have more turns than len can say
        raise CompileError(f"a kernel's parameters ask for more than {MOST_TURNS:,} copies of its code")
    return turns


def _printed(value: object) -> object:
    """An extent that is known at run time only as C that may stand next to any operator."""
    return wrapped(value) if isinstance(value, Dim) else value


def _printed_text(value: object) -> str:
    """What the filter `string` makes of a value: C, as where it is printed."""
    printed = _printed(value)
    return printed if isinstance(printed, str) else str(printed)


@registry
def environment() -> jinja2.Environment:
    """Templates as C with ``//%`` control lines; an undefined variable is an error."""
    made = jinja2.Environment(
        loader=_Loader([data_dir() / "kernels_templates", *template_folders()]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        extensions=["jinja2.ext.do"],
        finalize=_printed,
        bytecode_cache=_Compiled(),
    )
    made.globals["range"] = _turns
    made.filters["string"] = _printed_text
    made.filters["bare"] = bare
    made.filters["closed"] = closed
    made.filters["wrapped"] = wrapped
    made.filters["bound"] = bound
    made.tests["known"] = lambda value: not isinstance(value, Dim)
    made.filters["product"] = math.prod
    return made


def render(template: str, **variables: object) -> str:
    """The text of a template, which ends with a newline."""
    return environment().get_template(template).render(**variables)


def indent_c(text: str, step: int = STEP) -> str:
    """C with its lines indented by depth of braces, and within parentheses: by ``step`` spaces each.

    There is one blank line at most, and none at the ends of a block. Templates may so print bodies of several lines
    at any depth. No line is longer than `wrapping.COLUMNS`. Directives keep their place, as does extern "C".
    """
    out: list[str] = []
    depth = parentheses = 0
    in_comment = False
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            if out and out[-1] and not out[-1].endswith("{"):
                out.append("")
            continue
        if in_comment or line.startswith("#") or line == 'extern "C" {':
            pad = " " * (step * depth + 1) if in_comment else ""
            out += wrapped_text(pad + line) if in_comment else wrapped_line(raw.rstrip())
            in_comment = in_comment and "*/" not in line
            continue
        if depth == 0 and line.startswith("/*") and out and out[-1] in ("}", "#endif"):
            out.append("")
        code = _NO_CODE.sub("", line) if '"' in line or "/*" in line else line
        if code.startswith("}") and out and not out[-1]:
            out.pop()
        closing = len(code) - len(code.lstrip("}"))
        shown = " " * (step * (max(depth - closing, 0) + (parentheses > 0))) + line
        in_comment = "/*" in line and any(m[1] == "" for m in _NO_CODE.finditer(line))
        out += [shown] if in_comment else wrapped_line(shown)
        parentheses += sum(map(code.count, "([")) - sum(map(code.count, ")]"))
        depth = max(depth + code.count("{") - code.count("}"), 0)
    return "\n".join(out).rstrip() + "\n"
