"""The templates of the page, and what they are filled with."""

from __future__ import annotations

import functools
from pathlib import Path

import jinja2

from mccompile.report.page import flow
from mccompile.report.page.memory_map import step_marks
from mccompile.report.page.text import count, names, nbytes, number, seconds, short, tip

_HERE = Path(__file__).parent
MOST_FUNCTIONS = 60
"""In the table of functions: the largest."""


def text_of(name: str) -> str:
    """A file beside this one."""
    return (_HERE / name).read_text(encoding="utf-8")


@functools.cache
def environment() -> jinja2.Environment:
    """Names in models are not to be trusted: all that is printed is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    made.filters |= {
        "nbytes": nbytes, "seconds": seconds, "short": short, "names": names, "tip": tip, "n": number,
        "count": count,
    }  # fmt: skip
    made.globals |= {
        "file": text_of, "step_marks": step_marks, "LANE": flow.LANE, "LANES": flow.LANES, "ROW": flow.ROW,
        "MOST_FUNCTIONS": MOST_FUNCTIONS,
    }  # fmt: skip
    return made
