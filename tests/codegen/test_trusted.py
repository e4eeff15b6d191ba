"""Indices in the blob are those that were checked when the model was compiled, or init refuses the blob."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.codegen.blob import payload_offset
from mccompile.run.network import Network

PAYLOAD_DAMAGED = 9
"""MCC_E_PAYLOAD"""


def _picked(path: Path, indices: Sequence[int]) -> Path:
    """Rows of x times weights, picked by a constant that is no progression."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [len(indices), 2])]
    weights = np.arange(6, dtype=np.float32).reshape(3, 2)
    constants = [numpy_helper.from_array(np.array(indices), "rows"), numpy_helper.from_array(weights, "weights")]
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["m"]), helper.make_node("Gather", ["m", "rows"], ["y"])]
    graph = helper.make_graph(nodes, "picked", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
    return path


@pytest.mark.parametrize("target", ["generic", "cortex-m4"])
def test_what_says_where_to_read_is_checked_by_init(target: str, tmp_path: Path) -> None:
    indices = (4, 0, 3, 3, 1)
    made = mccompile.compile(_picked(tmp_path / "picked.onnx", indices), tmp_path / "out", target=target)
    text = (tmp_path / "out" / "picked.c").read_text()
    assert re.search(r"mcc_crc32\(0u, payload, (20|40)u\)", text), "the indices come first, and nothing else"
    other = mccompile.compile(_picked(tmp_path / "picked.onnx", (4, 0, 3, 3, 2)), tmp_path / "other", target=target)
    ids = [_id(a.out_dir / "picked.mcb") for a in (made, other)]
    assert ids[0] != ids[1], "a blob of other indices is another program's"


def _id(blob: Path) -> bytes:
    return blob.read_bytes()[40:56]


def test_flipped_indices_are_refused_and_flipped_weights_are_not(tmp_path: Path) -> None:
    indices = (4, 0, 3, 3, 1)
    mccompile.compile(_picked(tmp_path / "picked.onnx", indices), tmp_path / "out", target="generic")
    network = Network(tmp_path / "out", ("-O1",))
    blob = np.fromfile(tmp_path / "out" / "picked.mcb", np.uint8)
    begin, wide = payload_offset(blob.tobytes()), len(indices)
    found = re.search(r"mcc_crc32\(0u, payload, (\d+)u\)", (tmp_path / "out" / "picked.c").read_text())
    assert found is not None
    end, place = begin + int(found[1]), network._blob
    arena = network.pointer(network.arena)

    def status(bit: int) -> int:
        place[bit // 8] ^= 1 << bit % 8
        found = int(network.lib.picked_init(network._net, arena, network.pointer(place), len(place)))
        place[bit // 8] ^= 1 << bit % 8
        return found

    assert (end - begin) % wide == 0
    assert {status(bit) for bit in range(8 * begin, 8 * end)} == {PAYLOAD_DAMAGED}
    assert {status(bit) for bit in range(8 * end, 8 * end + 6 * 32)} == {0}


def test_a_network_without_indices_checks_the_header_alone(tmp_path: Path) -> None:
    mccompile.compile(_picked(tmp_path / "picked.onnx", (0, 1, 2)), tmp_path / "out", target="generic")
    assert "mcc_crc32" not in (tmp_path / "out" / "picked.c").read_text(), "a progression is a view"
