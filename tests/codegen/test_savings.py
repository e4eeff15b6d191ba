"""Which functions are shared: those that save enough, as long as the network is hardly slower."""

from __future__ import annotations

import numpy as np

from mccompile.codegen.savings import MOST_SLOWER, SLOWER, Allowed, Saving, macs, results
from mccompile.codegen.shared_functions import functions_alike, functions_beside, shared_functions
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call, Fill
from mccompile.ops.registry import lookup
from mccompile.targets.target import at_level, resolve
from tests.support.compiled import compiled_graph

FUNCTION = "MCC_PLACE_CODE\nstatic MCC_NOINLINE void KERNEL_NAME_a(float *y)\n{\n%s    y[%d] = %s;\n}\n"
KERNEL = "static void KERNEL_NAME(float *y)\n{\n    KERNEL_NAME_a(&y[%d]);\n}\n"


def _texts(loop: str = "") -> list[str]:
    return [FUNCTION % (loop, i, value) + KERNEL % i for i, value in ((3, "0.5f"), (4, "2.0f"))]


def _steps_of_a_product() -> list[Call | Fill]:
    weights = np.arange(3200.0).reshape(100, 32).tolist()
    flat = ", ".join(str(v) for row in weights for v in row)
    text = f"""
graph @g(%x: f32[64,100]) {{
  %w = const [{flat}] : f32[100,32]
  %y = matmul(%x, %w) : f32[64,32]
  return %y
}}
"""
    program = compiled_graph(parse_graph(text, lookup), "O2", "g", target="x86-64-v3").compilation.program
    assert program is not None
    return list(program.body.linear())


def test_what_saves_most_for_what_it_takes_comes_first() -> None:
    steps = _steps_of_a_product()
    work = sum(map(macs, steps))
    assert work == 64 * 100 * 32
    most = MOST_SLOWER * work
    found = [Saving(3000, 0.6 * most), Saving(1000, 0.1 * most), Saving(2000, 0.5 * most), Saving(1, 0)]
    target = resolve("x86-64-v3")
    assert list(Allowed(steps, target).chosen(found)) == [found[1], found[0]]
    assert list(Allowed(steps, at_level(target, "Os")).chosen(found)) == [found[3], found[1], found[0], found[2]]
    assert SLOWER * sum(map(results, steps)) > most, "100 products are too few for numbers"


def test_stages_buy_at_one_price() -> None:
    steps = _steps_of_a_product()
    unit = MOST_SLOWER * sum(map(macs, steps)) / 10
    cheap, fair, dear, small = (Saving(b, m * unit) for b, m in ((1000, 1), (3000, 6), (2000, 5), (500, 1.5)))
    allowed = Allowed(steps, resolve("x86-64-v3"))
    allowed.set_price([dear, fair, small, cheap])
    assert allowed.affordable([dear, fair, small, cheap]) == [cheap, fair]
    assert list(allowed.chosen([dear, small])) == [small], "what is to spare"
    assert list(allowed.chosen([fair])) == [fair], "is left for it by the stage before"
    assert list(allowed.chosen([dear, cheap], last=True)) == [cheap]


def test_the_last_stage_leaves_nothing() -> None:
    steps = _steps_of_a_product()
    most = MOST_SLOWER * sum(map(macs, steps))
    cheap, dear = Saving(1000, 0.4 * most), Saving(1000, 0.7 * most)
    allowed = Allowed(steps, resolve("x86-64-v3"))
    allowed.set_price([cheap, dear])
    assert allowed.affordable([dear]) == []
    assert list(allowed.chosen([dear], last=True)) == [dear], "nothing was found at the price"


def test_nothing_is_affordable_where_all_is_too_dear() -> None:
    steps = _steps_of_a_product()
    allowed = Allowed(steps, resolve("x86-64-v3"))
    dear = Saving(1000, 2 * MOST_SLOWER * sum(map(macs, steps)))
    allowed.set_price([dear])
    assert allowed.affordable([dear]) == []
    assert list(allowed.chosen([dear], last=True)) == []


def test_functions_are_given_numbers_only_if_they_were_chosen() -> None:
    texts = _texts()
    functions = functions_beside(texts)
    assert shared_functions(texts, functions, 1).functions == {}
    (alike,) = functions_alike(functions)
    made = shared_functions(texts, functions, 1, [alike.kind])
    (text,) = made.functions.values()
    assert "(float *y, int32_t n0, float n1)" in text
    assert [made.texts[t].strip().splitlines()[-2].strip() for t in texts] == [
        "SHARED_0_a(&y[3], 3, 0.5f);", "SHARED_0_a(&y[4], 4, 2.0f);"
    ]  # fmt: skip


def test_loops_of_functions_with_numbers_are_not_unrolled() -> None:
    texts = _texts("    MCC_UNROLL\n    for (int32_t i = 0; i < 9; ++i) {\n        y[0] += 1;\n    }\n")
    functions = functions_beside(texts)
    (text,) = shared_functions(texts, functions, 1, [a.kind for a in functions_alike(functions)]).functions.values()
    assert "MCC_UNROLL" not in text
    assert "for (int32_t i = 0; i < 9; ++i)" in text
