"""A decoder of llama.cpp of the same sizes as ours, and its tokens: for `decoders`, beside which nothing needs it.

The network is StarCoder2's, whose layers are those of `tests.support.decoders.grouped` but for biases and GELU: layer
normalisation, rotary positions, heads that share keys and values, two products behind the attention.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.decoders import Sizes

KINDS = {0: "F32", 8: "Q8_0", 4: "Q4_0"}
"""The types of weights by their bits: blocks of 32 with a scale, products of bytes."""


def write(path: Path, sizes: Sizes, bits: int) -> None:
    """A model of random weights as llama.cpp reads it."""
    import gguf

    s, rng, kind = sizes, np.random.default_rng(3), gguf.GGMLQuantizationType[KINDS[bits]]
    out: Any = gguf.GGUFWriter(str(path), "starcoder2")
    out.add_context_length(s.room)
    out.add_embedding_length(s.width)
    out.add_block_count(s.layers)
    out.add_feed_forward_length(4 * s.width)
    out.add_head_count(s.heads)
    out.add_head_count_kv(s.shared)
    out.add_layer_norm_eps(1e-5)
    out.add_vocab_size(s.vocabulary)
    out.add_tokenizer_model("none")

    def dense(name: str, rows: int, columns: int) -> None:
        weights = rng.normal(0, rows**-0.5, (columns, rows)).astype(np.float32)
        out.add_tensor(f"{name}.weight", gguf.quants.quantize(weights, kind) if bits else weights, raw_dtype=kind)

    def biased(name: str, rows: int, columns: int) -> None:
        dense(name, rows, columns)
        out.add_tensor(f"{name}.bias", np.zeros(columns, np.float32))

    def normal(name: str) -> None:
        out.add_tensor(f"{name}.weight", np.ones(s.width, np.float32))
        out.add_tensor(f"{name}.bias", np.zeros(s.width, np.float32))

    out.add_tensor("token_embd.weight", rng.normal(0, 1, (s.vocabulary, s.width)).astype(np.float32))
    normal("output_norm")
    dense("output", s.width, s.vocabulary)
    for i in range(s.layers):
        normal(f"blk.{i}.attn_norm")
        biased(f"blk.{i}.attn_q", s.width, s.width)
        biased(f"blk.{i}.attn_k", s.width, s.shared * s.head)
        biased(f"blk.{i}.attn_v", s.width, s.shared * s.head)
        biased(f"blk.{i}.attn_output", s.width, s.width)
        normal(f"blk.{i}.ffn_norm")
        biased(f"blk.{i}.ffn_up", s.width, 4 * s.width)
        biased(f"blk.{i}.ffn_down", 4 * s.width, s.width)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


class Llama:
    """Tokens of ``program``, which is `llama_token.cpp` linked with llama.cpp, each behind ``past`` others."""

    def __init__(self, program: Path, model: Path, past: int) -> None:
        given = [str(program), str(model), str(past)]
        self.process = subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def token(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        if self.process.stdout.read(1) != b".":
            raise SystemExit("llama.cpp made no token")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
