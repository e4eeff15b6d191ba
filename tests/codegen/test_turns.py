"""Loops that templates write out: of no more turns than a file may ask for."""

from __future__ import annotations

import pytest

from mccompile.codegen.templates import MOST_TURNS, environment
from mccompile.ir.errors import CompileError


def test_a_template_writes_out_no_more_than_it_may() -> None:
    template = environment().from_string("{% for i in range(n) %}x{% endfor %}")
    assert len(template.render(n=MOST_TURNS)) == MOST_TURNS
    for turns in (MOST_TURNS + 1, 10**9, 2**63):
        with pytest.raises(CompileError, match="copies of its code"):
            template.render(n=turns)
