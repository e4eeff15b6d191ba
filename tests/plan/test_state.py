"""Where state may be written in the place of what it was: what a step that reads it may not do."""

from __future__ import annotations

import pytest

from mccompile.ir.kernel_parse import parse_module
from mccompile.kernels.registry import params_of
from mccompile.ops.registry import lookup
from mccompile.plan.state import with_state


def _copied(*steps: str, together: bool = False) -> list[str]:
    """The outputs of a network of state h, whose next value is g, that have to be made elsewhere and copied;
    ``together`` if its steps are one unit, as a call is with the fills before it."""
    lines = [
        "kernels @g target=generic {",
        "buffer h : f32[2,2] arena align=16 role=input",
        "buffer x : f32[2,2] arena align=16 role=input",
        "buffer g : f32[2,2] arena align=16 role=output state=h",
        "buffer y : f32[2,2] arena align=16 role=output",
        *(step if step.startswith("fill") else f"call map.generic map {step}" for step in steps),
        "}",
    ]
    module = parse_module("\n".join(lines), lookup, params_of)
    linear = list(module.body.linear())
    units = [[*range(len(linear))]] if together else [[i] for i in range(len(linear))]
    _, apart = with_state(module, linear, units, [0] * len(units))
    return [b.name for b in apart]


@pytest.mark.parametrize(
    ("step", "copied"),
    [
        ("{expr={neg(x0)}} (h) -> g inplace(0)", []),
        ("{expr={neg(x0)}} (h) -> g", ["g"]),
        ("{expr={neg(x0)}} (h[2,2]{1,2}) -> g inplace(0)", ["g"]),
        ("{expr={neg(x0)}} (x) -> g", []),
        ("{expr={(x0 + x1)}} (h, x) -> g inplace(0)", []),
        ("{expr={(x0 + x1)}} (h, x) -> g inplace(1)", ["g"]),
        ("{expr={(x0 + x1)}} (h, h[2,2]{1,2}) -> g inplace(0, 1)", ["g"]),
    ],
)
def test_a_step_writes_where_it_reads_only_element_by_element(step: str, copied: list[str]) -> None:
    assert _copied("{expr={exp(x0)}} (h) -> y", step) == copied


def test_a_step_that_writes_something_else_is_in_nobodys_way() -> None:
    """It reads state turned, before or behind the one that writes it in its place."""
    written, other = "{expr={neg(x0)}} (h) -> g inplace(0)", "{expr={exp(x0)}} (h[2,2]{1,2}) -> y"
    assert _copied(written, other) == _copied(other, written) == []
    assert _copied(other, written, together=True) == []


def test_a_unit_that_writes_before_it_reads_makes_its_result_elsewhere() -> None:
    """A window that is shifted into a padded one: all of it is filled before anything is copied."""
    fill, shifted = "fill g 0.0", "{expr={x0}} (h+1[3]{1}) -> g[3]{1} near(0:0)"
    other = "{expr={exp(x0)}} (x) -> y"
    assert _copied(other, shifted) == _copied(other, shifted, fill, together=True) == []
    assert _copied(other, fill, shifted, together=True) == ["g"]
