"""MelWeightMatrix: a table that numbers ask for; it is made when the network is compiled."""

from __future__ import annotations

from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op

_INPUTS = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")


@onnx_op("MelWeightMatrix", tolerance={}, without_effect=("output_datatype",))
def import_mel_weight_matrix(n: Import) -> None:
    """The importer folds it; what comes here has inputs that are not known."""
    for i, what in enumerate(_INPUTS):
        n.const(i, what)
    raise n.error("the table cannot be made of these inputs")
