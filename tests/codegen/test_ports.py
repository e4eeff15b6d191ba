"""Which inputs and outputs share bytes."""

from __future__ import annotations

import random

from mccompile.codegen.ports import Port, ports_over


def port(rng: random.Random, name: str) -> Port:
    count, offset = rng.choice((0, 1, 2, 3, 20)), 4 * rng.randint(0, 30)
    space, region = rng.choice(("arena", "arena", "caller")), rng.choice(("", "a"))
    return Port(name, name, region, name, "float", "f32", (count,), count, offset, "input", space)


def share(a: Port, b: Port) -> bool:
    apart = "caller" in (a.space, b.space) or a.region != b.region
    return not apart and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes


def test_ports_that_share_bytes_are_found() -> None:
    rng = random.Random(5)
    found = 0
    for _ in range(100):
        outputs, inputs = ([port(rng, f"{p}{i}") for i in range(rng.randint(0, 9))] for p in "yx")
        over = ports_over(outputs, inputs)
        assert over == [[x for x in inputs if share(x, y)] for y in outputs]
        found += sum(map(len, over))
    assert found > 50
