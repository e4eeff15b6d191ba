"""Blobs with flipped bits: of the header init refuses them, of all behind it mcc_blob_verify finds them; what init
takes nevertheless runs, hostile words in it too, and stays within its memory."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import mccompile
from mccompile.codegen.blob import payload_offset, read_blob
from mccompile.ir.errors import CompileError
from mccompile.run.memory import aligned_bytes, guarded_bytes
from mccompile.run.network import Network
from tests.support.compose.definite import Refused
from tests.support.fuzz.files import base
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.setting import QUICK

HEADER = 64
FLIPS = 400

RUNS = 60
"""Faults with which a network is run, unverified."""
WORDS = (1_000_000, 2**31 - 1, 2**32 - 1, 2**31, 0x7FC00000, 3)
"""Places far away and before the first, NaN, and one that is hardly beside; one flipped bit seldom is."""


def attack(seed: int) -> Work:
    """Every bit of the header, some behind it, and blobs that are too short."""

    def work(say: Say, folder: Path) -> Outcome:
        r = random.Random(f"blob {seed}")
        try:
            model, target = base(r), r.choice(["generic", "native"])
            (folder / "net.onnx").write_bytes(model.SerializeToString())
            mccompile.compile(folder / "net.onnx", folder / "out", target=target)
        except (Refused, CompileError) as e:
            return "none", str(e)
        text = f"{', '.join(n.op_type for n in model.graph.node)}; {target}"
        say(text)
        quick = target == "generic" and shutil.which(QUICK)
        with mock.patch.dict(os.environ, {"CC": QUICK if quick else "gcc"}):
            network = Network(folder / "out", allocate=guarded_bytes)
        blob = (folder / "out" / "net.mcb").read_bytes()
        fault = _fault(network, blob, r) or _unverified(network, blob, r, say)
        return ("wrong" if fault else "ok"), f"{fault}\n{text}" if fault else ""

    return work


def _fault(network: Network, blob: bytes, r: random.Random) -> str:
    align = int(network.report["target"]["align"])
    place = aligned_bytes(len(blob), max(align, 64))
    network.ffi.cdef("int mcc_blob_verify(const void *blob, size_t bytes);")
    init = getattr(network.lib, f"{network.name}_init")
    arenas = [network.pointer(a) for a in network.arenas.values()]
    net = network.ffi.new("net_t *")

    def started(length: int) -> int:
        return int(init(net, *arenas, network.pointer(place), length))

    place[:] = np.frombuffer(blob, np.uint8)
    if started(len(blob)) or network.lib.mcc_blob_verify(network.pointer(place), len(blob)):
        return "the whole blob is refused"
    for bit in range(8 * HEADER):
        place[bit // 8] ^= 1 << bit % 8
        if not started(len(blob)):
            return f"init takes a header with bit {bit} flipped"
        place[bit // 8] ^= 1 << bit % 8
    for _ in range(FLIPS if len(blob) > HEADER else 0):
        bit = r.randrange(8 * HEADER, 8 * len(blob))
        place[bit // 8] ^= 1 << bit % 8
        if not network.lib.mcc_blob_verify(network.pointer(place), len(blob)):
            return f"mcc_blob_verify does not find bit {bit} flipped"
        place[bit // 8] ^= 1 << bit % 8
    short = next(
        (n for n in (0, 1, HEADER - 1, len(blob) - 4, len(blob) - 1) if n < len(blob) and not started(n)), -1
    )
    return f"init takes {short} of {len(blob)} bytes" if short >= 0 else ""


def _unverified(network: Network, blob: bytes, r: random.Random, say: Say) -> str:
    """Runs with numbers in the blob that were never checked: wrong results, nothing else."""
    arenas = [network.pointer(a) for a in network.arenas.values()]
    init = getattr(network.lib, f"{network.name}_init")
    begin = payload_offset(blob)
    end = begin + len(read_blob(blob).payload)
    inputs = {n: np.ones(a.shape, a.dtype) for n, a in network.inputs.items()}
    for _ in range(RUNS if end > begin else 0):
        _damage(network._blob[begin:end], r, say)
        if not init(network._net, *arenas, network.pointer(network._blob), len(blob)):
            with suppress(CompileError):  # an index of the run is out of range: the status says so
                network.run(inputs)
        network._blob[begin:end] = np.frombuffer(blob, np.uint8)[begin:end]
    return "" if network.intact() else "something was written outside of the network's memory"


def _damage(payload: np.ndarray[Any, np.dtype[np.uint8]], r: random.Random, say: Say) -> None:
    """One bit, or one of `WORDS` from some word on, to the end or once."""
    if r.random() < 0.5:
        bit = r.randrange(8 * len(payload))
        payload[bit // 8] ^= 1 << bit % 8
        say(f"bit {bit} of the payload flipped")
        return
    first, word = 4 * r.randrange(-(-len(payload) // 4)), r.choice(WORDS)
    end = len(payload) if r.random() < 0.5 else first + 4
    payload[first:end] = np.resize(np.frombuffer(np.uint32(word).tobytes(), np.uint8), len(payload[first:end]))
    say(f"{word:#x} in the payload from byte {first} to {end}")
