"""Outputs that are kept as inputs of the next run, written in their place: what has to come before what.

Worked example: h is state, and its next value g is made of it by a map, which reads each element before it writes it.
A second reader of h has to come before that map, though the text has it behind:

>>> from mccompile.ir.kernel_parse import parse_module
>>> from mccompile.kernels.registry import params_of
>>> from mccompile.ops.registry import lookup
>>> module = parse_module('''kernels @g target=generic {
...   buffer h : f32[4] arena align=16 role=input
...   buffer g : f32[4] arena align=16 role=output state=h
...   buffer y : f32[4] arena align=16 role=output
...   call map.generic map {expr={neg(x0)}} (h) -> g inplace(0)
...   call map.generic map {expr={exp(x0)}} (h) -> y
... }''', lookup, params_of)
>>> waits, apart = with_state(module, list(module.body.linear()), [[0], [1]], [0, 0])
>>> [bin(mask) for mask in waits], apart
(['0b10', '0b0'], [])

Where y is made of g and h both, no order will do: g has to be made elsewhere and copied at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir.kernel import Call, Fill, KernelModule
from mccompile.ir.order import bits, in_order
from mccompile.ir.views import Buffer

Step = Call | Fill


def with_state(
    module: KernelModule, steps: Sequence[Step], units: Sequence[Sequence[int]], waits: Sequence[int]
) -> tuple[list[int], list[Buffer]]:
    """What units wait for, with those that read state before those that write what it is next; and the outputs of
    which that cannot be. ``units`` are numbers of steps; ``waits`` masks of the units that come before."""
    known = list(waits)
    apart: list[Buffer] = []
    for kept, given in module.state.items():
        readers = [u for u, members in enumerate(units) if any(given in steps[t].buffers() for t in members)]
        writers = [u for u, members in enumerate(units) if any(kept in steps[t].written() for t in members)]
        more = list(known)
        for u in writers:
            more[u] |= sum(1 << r for r in readers if r != u)
        alone = all(_in_place([steps[t] for t in units[u]], kept, given) for u in writers)
        if alone and len(first_order(more)) == len(units):
            known = more
        else:
            apart.append(kept)
    return known, apart


def _in_place(unit: Sequence[Step], kept: Buffer, given: Buffer) -> bool:
    """Whether the steps of a unit may write ``kept`` where ``given`` lies, as far as they read that themselves: a pad
    that is filled before what is shifted is copied into it may not, nor may a turn of a loop before the next."""
    readers = [t for t, step in enumerate(unit) if given in step.buffers()]
    first = next(t for t, step in enumerate(unit) if kept in step.written())
    if readers and (first < readers[-1] or any(step.loops for step in unit)):
        return False
    return all(_over_itself(unit[t], kept, given) for t in readers)


def _over_itself(step: Step, kept: Buffer, given: Buffer) -> bool:
    """Whether a step that reads ``given`` may write ``kept`` in its place."""
    if isinstance(step, Fill) or kept not in step.written():
        return True
    read = [i for i, v in enumerate(step.inputs) if v is not None and v.buffer is given]
    if not read or len(step.results) != 1:
        return not read
    if step.overlaps.get(given) == 0:
        return True
    views = [step.inputs[i] for i in read]
    return all(i in step.inplace for i in read) and all(v and v.same_elements(step.results[0]) for v in views)


def first_order(waits: Sequence[int]) -> list[int]:
    """The units in file order, but that each comes behind those it waits for; without those that wait for each other.

    >>> first_order([0b10, 0b0]), first_order([0b10, 0b1])
    ([1, 0], [])
    """
    if all(mask.bit_length() <= unit for unit, mask in enumerate(waits)):  # then it is the file order, at no cost
        return list(range(len(waits)))
    return in_order([bits(mask) for mask in waits])
