"""Runs in the emulated Python: a network by onnxruntime, twice; the second run is between two marks that are counted.

usage: arm_session.py MODEL INPUTS.npz OUTPUTS.npz BEGIN END

The marks are instructions at addresses that the caller chose: pages of a `ret` each, mapped there and called.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np
import onnxruntime as ort

RET = (0xD65F03C0).to_bytes(4, "little")
MAP_FIXED = 0x10


def mark(address: int) -> ctypes._CFuncPtr:
    """The function at an address that does nothing."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
    assert libc.mmap(address, mmap.PAGESIZE, protection, flags, -1, 0) == address
    ctypes.memmove(address, RET, len(RET))
    return ctypes.CFUNCTYPE(None)(address)


def main(model: str, given: str, out: str, first: str, last: str) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    with np.load(given) as inputs:
        held = {name: inputs[name] for name in inputs.files}
    for name, array in held.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    begin, end = mark(int(first, 16)), mark(int(last, 16))
    session.run_with_iobinding(binding)
    begin()
    session.run_with_iobinding(binding)
    end()
    np.savez(out, **{o.name: v for o, v in zip(session.get_outputs(), binding.copy_outputs_to_cpu(), strict=True)})


if __name__ == "__main__":
    main(*sys.argv[1:])
