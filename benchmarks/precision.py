"""Instructions of inferences in fewer bits on 64-bit Arm, counted in an emulator: a table in docs/precision.md.

usage: precision.py [-o FILE] [NETWORK ...]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from arm import Counted, ours
from performance import ROOT, Network, benchmark_networks
from tables import renew_part

OUT = ROOT / "docs" / "precision.md"
TARGET = "aarch64-bf16"
FORMS = ("f32", "f16", "bf16")
NETWORKS = ("resnet8", "ds_cnn", "vww", "mobilenet_v1", "tcn", "minilm_16")
HEAD = """| network | million products | f32 | f16 | ratio | error | bf16 | ratio | error |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def counted(network: Network, form: str) -> tuple[Counted, dict[str, Any]]:
    """A network whose products are computed in a form."""
    with tempfile.TemporaryDirectory(prefix="mccompile-bench-") as name:
        found, report, *_ = ours(network.model, network.inputs, Path(name), TARGET, precision=form)
    return found, report


def error(got: Mapping[str, Any], want: Mapping[str, Any]) -> float:
    """The largest of an output: the length of the difference by that of what is wanted."""
    ends = [np.linalg.norm(got[name] - a) / max(np.linalg.norm(a), 1e-30) for name, a in want.items()]
    return float(max(ends))


def row(network: Network) -> str:
    """A row of the table."""
    plain, report = counted(network, FORMS[0])
    cells = [f"{(report['macs'] or 0) / 1e6:,.1f}", f"{plain.instructions:,}"]
    for form in FORMS[1:]:
        narrow, _ = counted(network, form)
        ratio, cost = narrow.instructions / plain.instructions, error(narrow.outputs, plain.outputs)
        cells += [f"{narrow.instructions:,}", f"**{ratio:.2f}**", f"{cost:.1g}"]
    return f"| {network.name} | {' | '.join(cells)} |"


def main() -> None:
    p = argparse.ArgumentParser(description="Count what inferences in fewer bits take on 64-bit Arm.")
    p.add_argument("-o", "--out", type=Path, default=OUT, help="default: docs/precision.md")
    p.add_argument("names", nargs="*", metavar="NETWORK")
    args = p.parse_args()
    networks = benchmark_networks(args.names or NETWORKS)
    renew_part(args.out, "counted", HEAD, NETWORKS, ((n.name, row(n)) for n in networks))


if __name__ == "__main__":
    main()
