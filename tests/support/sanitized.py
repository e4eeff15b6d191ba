"""Run under a preloaded AddressSanitizer: operator cases whose C is built with ASan and UBSan.

``python -m tests.support.sanitized FOLDER PART PARTS`` takes every PARTS-th operator from PART on and compares with
onnxruntime as tests/ops does. An access outside of arena or blob, or undefined behaviour, ends the process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mccompile.driver import Options
from mccompile.ops.registry import front_ends
from mccompile.targets.target import resolve
from tests.support.opcases import CaseLibrary, agreement, case_inputs, compile_case

FLAGS = ("-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
CASES = 3
TARGETS = ("generic", "native")


def run(folder: Path, part: int, parts: int) -> int:
    """How many cases ran. Raises AssertionError where one disagrees."""
    count = 0
    chosen = [f for f in front_ends().values() if f.sample is not None][part::parts]
    for front_end in chosen:
        for target in TARGETS:
            here = folder / f"{front_end.op_type}-{target}"
            here.mkdir()
            built = [compile_case(front_end, seed, here, Options(target=target)) for seed in range(CASES)]
            library = CaseLibrary(here, built, [*resolve(target).c_flags, *FLAGS]).build()
            for b in built:
                fault = agreement(front_end, b, library.run(b, case_inputs(b.case)))
                assert not fault, fault
                count += 1
    return count


if __name__ == "__main__":
    print(f"{run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))} cases agree")
