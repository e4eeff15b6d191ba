"""As classify.cpp: pictures on several threads, with a network for each. ``python classify.py THREADS < pictures``"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import mccompile

MODEL = Path(__file__).resolve().parent.parent / "digits" / "digits.onnx"


def main(threads: int) -> None:
    pictures = np.frombuffer(sys.stdin.buffer.read(), np.uint8).reshape(-1, 1, 1, 8, 8).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        mccompile.compile(MODEL, folder, keep_inputs=True)

        def classify(worker: int) -> list[int]:
            network = mccompile.load(folder)  # one for each thread: the C is shared, the arena is not
            return [int(network.run({"image": p})["scores"].argmax()) for p in pictures[worker::threads]]

        answers = np.zeros(len(pictures), int)
        with ThreadPoolExecutor(threads) as pool:
            for worker, found in enumerate(pool.map(classify, range(threads))):
                answers[worker::threads] = found
    print(*answers, sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
