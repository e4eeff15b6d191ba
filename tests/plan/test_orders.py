"""Execution orders: dependencies kept, fills in place, peaks as the lifetimes say, the optimum of small graphs."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, fields, replace

import pytest

from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.kernel import Block, Call, Fill, KernelModule
from mccompile.ir.kernel_parse import parse_module
from mccompile.ir.program import PlanFacts, Program
from mccompile.ir.types import F32, TensorType
from mccompile.ir.views import Buffer, whole
from mccompile.kernels.registry import params_of
from mccompile.ops.registry import lookup
from mccompile.plan.alloc.bounds import lower_bound
from mccompile.plan.alloc.chains import choose_overwrites
from mccompile.plan.alloc.problem import Interval, Overwrite, Problem
from mccompile.plan.check import check_program
from mccompile.plan.oracle import SEARCHES, Oracle
from mccompile.plan.orders import (
    MOST_READY,
    RUNS_PER_STATE,
    OrderProblem,
    beam_order,
    best_order,
    depth_first_order,
    greedy_order,
    order_problem,
)
from mccompile.plan.plan import inplace_offers, lifetimes, plan
from mccompile.plan.schedule import schedule


@dataclass(frozen=True)
class _Op:
    """Stands for an operator; the planner does not look at it."""

    name: str = "op"
    numbers: tuple[int, ...] = ()
    told: tuple[int, ...] = ()


def buffer(name: str, floats: int, role: str = "") -> Buffer:
    return Buffer(name, TensorType(F32, (floats,)), "arena", 4, role=role)


def call(result: Buffer, *operands: Buffer, inplace: tuple[int, ...] = ()) -> Call:
    return Call("k.generic", _Op(), None, tuple(map(whole, operands)), (whole(result),), inplace=inplace)  # type: ignore[arg-type]


def module_of(*steps: Call | Fill) -> KernelModule:
    buffers = dict.fromkeys(b for s in steps for b in s.buffers())
    return KernelModule("m", "generic", list(buffers), Block(steps))


def bound_of(module: KernelModule, keep_inputs: bool = False) -> int:
    """The allocator's own lower bound of a module as it is ordered."""
    life = lifetimes(module, keep_inputs)
    index = {b: k for k, b in enumerate(life)}
    intervals = tuple(Interval(b.name, *life[b], b.nbytes, 4) for b in life)
    offers = tuple(Overwrite(index[s], index[d]) for s, d in inplace_offers(module, life))
    problem = Problem(intervals, offers)
    return lower_bound(problem, choose_overwrites(problem))


def random_module(rng: random.Random, count: int) -> KernelModule:
    known = [buffer("x", rng.randint(1, 9), "input")]
    steps: list[Call | Fill] = []
    for k in range(count):
        operands = rng.sample(known[-6:], min(len(known[-6:]), rng.choice((1, 1, 2))))
        floats = operands[0].elements if rng.random() < 0.4 else rng.randint(1, 9)
        result = buffer(f"t{k}", floats, "output" if k == count - 1 else "")
        if rng.random() < 0.2:
            steps.insert(rng.randint(0, len(steps)), Fill(whole(result), 0.0))
        steps.append(call(result, *operands, inplace=(0,) if rng.random() < 0.5 else ()))
        known.append(result)
    return module_of(*steps)


def optimum(module: KernelModule, keep_inputs: bool) -> int:
    """The least peak of all topological orders of the units."""
    p = order_problem(module, list(module.body.linear()), keep_inputs)
    best = 1 << 40

    def follow(live: int, done: int, peak: int) -> None:
        nonlocal best
        if peak >= best:
            return
        ready = [u for u in range(len(p.steps)) if not done >> u & 1 and not p.waits[u] & ~done]
        if not ready:
            best = peak
        for u in ready:
            need, left = p.run(live, done, u)
            follow(left, done | 1 << u, max(peak, need))

    follow(p.first_live, 0, p.first_live)
    return best


@pytest.mark.parametrize("keep_inputs", [False, True])
def test_small_graphs_reach_the_optimum(keep_inputs: bool) -> None:
    rng = random.Random(4)
    gained = tighter = 0
    for _ in range(60):
        module = random_module(rng, 9)
        steps = list(module.body.linear())
        p = order_problem(module, steps, keep_inputs)
        order = best_order(p)
        assert p.floor() <= p.bound() <= p.peak(order) == optimum(module, keep_inputs)
        tighter += p.floor() < p.bound()
        plain = (range(len(order)), greedy_order(p), depth_first_order(p))
        gained += p.peak(order) < min(map(p.peak, plain))
    assert gained, "the sample must hold graphs on which the beams find more"
    assert tighter, "and graphs of which more is known than what each unit needs"


@pytest.mark.thorough
def test_orders_keep_dependencies_and_fills_in_front() -> None:
    rng = random.Random(8)
    for _ in range(40):
        module = random_module(rng, 30)
        steps = list(module.body.linear())
        scheduled = schedule(module)
        assert sorted(map(id, scheduled.body.linear())) == sorted(map(id, steps))
        scheduled.verify()
        done: set[Buffer] = set()
        for step in scheduled.body.linear():
            if isinstance(step, Call):
                done.add(step.results[0].buffer)
            else:
                assert step.view.buffer not in done, "a background is filled before anything is written on it"


def test_every_search_gives_a_topological_order() -> None:
    rng = random.Random(2)
    for _ in range(20):
        p = order_problem(module := random_module(rng, 25), list(module.body.linear()), False)
        for order in (greedy_order(p), depth_first_order(p), beam_order(p, 5, 0), best_order(p)):
            done = 0
            for u in order:
                assert not p.waits[u] & ~done
                done |= 1 << u
            assert done == (1 << len(p.steps)) - 1


@pytest.mark.parametrize("keep_inputs", [False, True])
def test_peak_is_the_lower_bound_of_the_allocator(keep_inputs: bool) -> None:
    """Up to operands that two results want: the allocator gives each to one, a step counts its own."""
    rng = random.Random(11)
    for _ in range(60):
        module = random_module(rng, 12)
        p = order_problem(module, list(module.body.linear()), keep_inputs)
        order = best_order(p)
        steps = tuple(module.body.linear())
        body = Block(tuple(steps[t] for u in order for t in p.steps[u]))
        ordered = KernelModule("m", "generic", module.buffers, body)
        assert p.peak(order) == bound_of(ordered, keep_inputs)
        assert p.floor() <= p.peak(order)


def test_branches_run_one_after_the_other() -> None:
    """File order computes both wide tensors before it reduces either."""
    x, y = buffer("x", 1, "input"), buffer("y", 2, "output")
    wide = [buffer(f"w{k}", 100) for k in range(3)]
    thin = [buffer(f"n{k}", 1) for k in range(3)]
    steps = [call(w, x) for w in wide] + [call(n, w) for n, w in zip(thin, wide, strict=True)] + [call(y, *thin)]
    module = module_of(*steps)
    assert bound_of(module) == 4 * 301
    assert bound_of(schedule(module)) == 4 * 103


COUNTED = """kernels @counted extents(k=0..8) target=generic {
  buffer x : f32[8] arena align=4 role=input
  buffer y : f32[8] arena align=4 role=output
  buffer i : i64[1,k] arena align=8 role=output
  buffer n : i32[] arena align=4 role=count counts=k
  buffer a : f32[8] arena align=4
  buffer p : f32[k+8] arena align=4
  %s
  call map.generic map {expr={neg(x0)}} (x) -> a
  fill p 0
  call copy.generic pad {pads=(0, 3)} (a) -> p[8]{1}
  call map.generic map {expr={exp(x0)}} (p[8]{1}) -> y
}"""
"""The copy and its reader have no counted number: the fill alone asks how many elements there are."""
COUNTING = ("call nonzero.generic nonzero {count=k} (x) -> i, n", "fill n 3\n  fill i 0")


@pytest.mark.parametrize("counting", COUNTING)
def test_a_fill_waits_for_what_says_how_far_it_goes(counting: str) -> None:
    module = parse_module(COUNTED % counting, lookup, params_of)
    steps = list(module.body.linear())
    (fill,) = (t for t, s in enumerate(steps) if s.written()[0].name == "p" and isinstance(s, Fill))
    (count,) = (t for t, s in enumerate(steps) if "n" in [b.name for b in s.written()])
    p = order_problem(module, steps, False)
    assert "n" in [b.name for b in steps[fill].asked()]
    for order in (range(len(p.steps)), greedy_order(p), depth_first_order(p), beam_order(p, 64, p.floor())):
        in_order = [t for u in order for t in p.steps[u]]
        assert in_order.index(count) < in_order.index(fill)
    check_program(plan(module))
    at = {b: 64 * i for i, b in enumerate(module.buffers)}
    program = Program(module, at, 64 * len(at), 0, PlanFacts(0, 0, 0, "by hand"))
    check_program(program)
    program.module.body = Block((steps[fill], *(s for s in steps if s is not steps[fill])))
    with pytest.raises(InternalError, match="asks for what is in n, where nobody has written"):
        check_program(program)


def test_a_step_that_does_not_ask_for_what_it_depends_on_is_refused() -> None:
    module = parse_module(COUNTED % COUNTING[0], lookup, params_of)
    steps = [replace(s, counts=()) if isinstance(s, Fill) else s for s in module.body.linear()]
    with pytest.raises(InternalError, match="depends on what is in n, and does not ask for it"):
        replace(module, body=Block(tuple(steps))).verify()


def test_a_text_that_fills_what_is_counted_later_is_refused() -> None:
    counting = COUNTING[0]
    late = (COUNTED % "").replace("  fill p 0", f"  fill p 0\n  {counting}")
    with pytest.raises(CompileError, match="what is in n is asked for before it is known"):
        parse_module(late, lookup, params_of)


def test_order_that_is_best_already_stays() -> None:
    x, a, y = buffer("x", 4, "input"), buffer("a", 4), buffer("y", 4, "output")
    module = module_of(call(a, x), call(y, a))
    assert schedule(module) is module


def test_same_module_same_order() -> None:
    rng = random.Random(6)
    module = random_module(rng, 60)
    p = order_problem(module, list(module.body.linear()), False)
    assert best_order(p) == best_order(order_problem(module, list(module.body.linear()), False))


def test_thousands_of_steps_take_seconds() -> None:
    module = random_module(random.Random(1), 3000)
    started = time.process_time()
    schedule(module)
    assert time.process_time() - started < 10, "generous: it takes about one second"


def test_writers_of_one_buffer_take_seconds() -> None:
    """Each waits for all before it: only the next of them has to be found by each."""
    x, joined = buffer("x", 8, "input"), buffer("joined", 8, "output")
    steps = [call(joined, x) for _ in range(4000)]
    started = time.process_time()
    p = order_problem(module_of(*steps), list(steps), False)
    assert sum(map(len, p.followers)) == 3999
    assert greedy_order(p) == list(range(4000))
    assert time.process_time() - started < 10, "generous: it takes about one second"


def test_followers_that_are_left_out_change_no_order() -> None:
    rng = random.Random(3)
    for _ in range(20):
        module = random_module(rng, 20)
        drawn = [s for s in module.body.linear() if isinstance(s, Call)]
        again = [call(rng.choice(drawn).results[0].buffer, drawn[0].inputs[0].buffer) for _ in range(6)]  # type: ignore[union-attr]
        p = order_problem(module_of(*module.body.linear(), *again), [*module.body.linear(), *again], False)
        followers = [tuple(u for u, mask in enumerate(p.waits) if mask >> b & 1) for b in range(len(p.steps))]
        whole_lists = replace(p, followers=tuple(followers))
        for width in (1, 5):
            assert beam_order(p, width, 0) == beam_order(whole_lists, width, 0)
        assert best_order(p) == best_order(whole_lists)


def test_wide_graphs_are_searched_no_longer_than_narrow_ones() -> None:
    """As many units are tried per length as a beam has states, up to a factor: here 60 are ready at a time."""
    x, y = buffer("x", 1, "input"), buffer("y", 1, "output")
    parts = [buffer(f"t{k}", 1) for k in range(60)]
    module = module_of(*(call(t, x) for t in parts), call(y, *parts))
    p = order_problem(module, list(module.body.linear()), False)
    tried = 0

    class Counted(OrderProblem):
        def run(self, live: int, done: int, unit: int) -> tuple[int, int]:
            nonlocal tried
            tried += 1
            return super().run(live, done, unit)

    beam_order(Counted(**{f.name: getattr(p, f.name) for f in fields(p)}), 32, 0)
    assert tried <= len(p.steps) * (32 * RUNS_PER_STATE + MOST_READY)


def test_rewrites_whose_peak_is_low_enough_are_judged_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    efforts: list[int] = []

    def noted(module: KernelModule, keep_inputs: bool = False, effort: int = 1, part: int = 1) -> KernelModule:
        efforts.append(effort)
        return schedule(module, keep_inputs, effort, part)

    monkeypatch.setattr("mccompile.plan.oracle.schedule", noted)
    x, a, y = buffer("x", 4, "input"), buffer("a", 4), buffer("y", 4, "output")
    steps = [call(a, x), call(y, a)]
    module = module_of(*steps)
    oracle = Oracle(len(steps))
    peak = oracle.peak(module)
    assert efforts == [0, 1]
    assert oracle.peak(module, peak) == peak
    assert efforts == [0, 1, 0]
    for _ in range(SEARCHES.stop + 2):
        oracle.peak(module, peak - 1)
    assert efforts.count(1) == SEARCHES.stop - 1
