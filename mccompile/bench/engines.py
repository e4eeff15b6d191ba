"""Other engines to be measured beside the generated C, each on as many threads as that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mccompile.ir.errors import CompileError, UsageError
from mccompile.run.memory import Array

Engine = Callable[[Path, Mapping[str, Array], int], tuple[str, Callable[[], object]]]
"""(model, inputs, threads) -> the engine's name with its version, and a function that runs once on these inputs."""


def onnxruntime(model: Path, inputs: Mapping[str, Array], threads: int = 1) -> tuple[str, Callable[[], object]]:
    """onnxruntime with all its optimisations; inputs and outputs are bound, so that nothing is copied in a run."""
    try:
        import onnxruntime as ort
    except ImportError as e:
        raise UsageError("onnxruntime is not installed", hint="pip install 'mccompile[check]'") from e
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        feeds = {v.name: inputs[v.name] for v in session.get_inputs()}
        outputs = session.run(None, feeds)
    except Exception as e:
        first = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise CompileError(f"onnxruntime cannot run the model: {first}") from e
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for port, array in zip(session.get_outputs(), outputs, strict=True):
        binding.bind_ortvalue_output(port.name, ort.OrtValue.ortvalue_from_numpy(np.zeros_like(array)))
    return f"onnxruntime {ort.__version__}", lambda: session.run_with_iobinding(binding)


ENGINES: dict[str, Engine] = {"onnxruntime": onnxruntime}
