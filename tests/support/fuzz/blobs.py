"""Blobs with flipped bits: of the header init refuses them, of all behind it mcc_blob_verify finds them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

import mccompile
from mccompile.ir.errors import CompileError
from mccompile.run.memory import aligned_bytes
from mccompile.run.network import Network
from tests.support.compose.network import Refused
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.profiles import PROFILES, family

HEADER = 64
FLIPS = 400


def attack(seed: int) -> Work:
    """Every bit of the header, some behind it, and blobs that are too short."""

    def work(say: Say, folder: Path) -> Outcome:
        r = random.Random(f"blob {seed}")
        try:
            net = family(seed, r.choice(list(PROFILES)), ())
            (folder / "net.onnx").write_bytes(net.model().SerializeToString())
            mccompile.compile(folder / "net.onnx", folder / "out", target="generic")
        except (Refused, CompileError) as e:
            return "none", str(e)
        say(net.text())
        fault = _fault(Network(folder / "out", ("-O1",)), (folder / "out" / "net.mcb").read_bytes(), r)
        return ("wrong" if fault else "ok"), f"{fault}\n{net.text()}" if fault else ""

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
