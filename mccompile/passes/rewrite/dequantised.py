"""Constants that are dequantised, and who reads the floats: for passes that let them stay integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mccompile.ir.graph import Node, Value
from mccompile.passes.analysis.quantised import Quantised, quantised
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter


def constants_read_by(
    r: Rewriter, remarks: Remarks, what: str, obstacle: Callable[[Rewriter, Node, Value, Quantised], str]
) -> Iterator[tuple[Quantised, list[Node], str]]:
    """Constants that nodes dequantise, the nodes that read the floats, and the words for what is done to them.

    Those are left out, and said of ``what`` (with the constant's name in it), where nobody reads them or some reader
    has an obstacle.
    """
    for node in r.nodes():
        found = quantised(r.graph, node)
        if found is None or not isinstance(r.graph.constants.get(found.integers), np.ndarray):
            continue
        said = what.format(found.integers.name)
        readers = r.users(node.result)
        reasons = [obstacle(r, reader, node.result, found) for reader in readers]
        reason = next(filter(None, reasons), "" if readers else "nothing reads them")
        if reason:
            remarks.miss(said, reason)
        else:
            yield found, readers, said
