"""``make prove``: proves the runtime and, network by network, generic kernels; writes docs/proofs.md."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import click

from mccompile.ops.registry import front_ends
from tests._skips import REPOSITORY
from tests.support.marked import with_part
from tests.support.prove.frama_c import HERE, alarms, proved
from tests.support.prove.kernels import Proof, prove

DOCUMENT = REPOSITORY / "docs" / "proofs.md"

BY_EVA = ("read_u16", "host_is_little_endian", "mcc_status_text")
"""Functions of mcc.c that Eva proves: WP does not follow bits, bytes of numbers, nor texts."""


@click.command()
@click.option("--seeds", default=2, show_default=True, help="Networks of each operator.")
@click.option("--operators", default="", help="Only these, by comma.")
@click.option("--jobs", default=2, show_default=True, help="Processes at once.")
@click.option("--write", is_flag=True, help="Write docs/proofs.md.")
def main(seeds: int, operators: str, jobs: int, write: bool) -> None:
    """Prove mcc.c, and the C of drawn networks. Exit code 1 if a goal of mcc.c stays open."""
    goals, left = proved(BY_EVA)
    left += [f"{kind} in {' or '.join(BY_EVA)}" for kind in alarms(HERE, ["interpreted.c"], 300, 11)]
    print(f"mcc.c: {goals} goals, open: {', '.join(left) or 'none'}", flush=True)
    asked = [
        key
        for key, front_end in front_ends().items()
        if front_end.sample is not None and (not operators or key[1] in operators.split(","))
    ]
    proofs = []
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(prove, key, seed) for key in asked for seed in range(seeds)]
        for job in waiting:
            proof = job.result()
            if proof is not None:
                proofs.append(proof)
                print(proof.operator, proof.seed, proof.unknown or dict(proof.alarms) or "proved", flush=True)
    if write:
        text = with_part(DOCUMENT.read_text(encoding="utf-8"), "proofs", written(goals, left, proofs))
        DOCUMENT.write_text(text, encoding="utf-8")
    sys.exit(1 if left else 0)


def written(goals: int, left: Sequence[str], proofs: Sequence[Proof]) -> str:
    """The tables of the document."""
    good = sum(p.good for p in proofs)
    lines = [
        f"`mcc.c`: {goals} goals, {len(left)} open{': ' + ', '.join(left) if left else ''}.",
        "",
        f"Networks of one operator: {len(proofs)}, of which {good} have no alarm, "
        f"{sum(bool(p.unknown) for p in proofs)} came to no end.",
        "",
        "| kernel | networks | proved | what is open |",
        "|---|---:|---:|---|",
    ]
    by_kernel: dict[str, list[Proof]] = defaultdict(list)
    for p in proofs:
        for kernel in p.kernels:
            by_kernel[kernel].append(p)
    for kernel, of_kernel in sorted(by_kernel.items()):
        lines.append(
            f"| `{kernel}` | {len(of_kernel)} | {sum(p.good for p in of_kernel)} | {_open(of_kernel)} |"
        )
    return "\n".join(lines) + "\n"


def _open(proofs: Iterable[Proof]) -> str:
    """How many networks have an alarm of each kind, most first."""
    kinds: Counter[str] = Counter()
    for p in proofs:
        kinds.update({"no end" if p.unknown else "", *p.alarms} - {""})
    return ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())


if __name__ == "__main__":
    main()
