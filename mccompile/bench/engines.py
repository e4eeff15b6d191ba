"""Other engines to be measured beside the generated C, each on as many threads as that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mccompile.ir.errors import CompileError, UsageError
from mccompile.onnxio import dtype_number, extract_with_outputs, read_model, widened

Engine = Callable[[Path, Mapping[str, Any], int], tuple[str, Callable[[], object]]]
"""(model, inputs, threads) -> the engine's name with its version, and a function that runs once on these inputs."""


def onnxruntime(model: Path, inputs: Mapping[str, Any], threads: int = 1) -> tuple[str, Callable[[], object]]:
    """onnxruntime with all its optimisations. Inputs and outputs are bound if they can be: a run copies nothing."""
    try:
        import onnxruntime as ort
    except ImportError as e:
        raise UsageError("onnxruntime is not installed", hint="pip install 'mccompile[check]'") from e
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(_runnable(model), options, providers=["CPUExecutionProvider"])
        feeds = {v.name: inputs[v.name] for v in session.get_inputs() if v.name in inputs}
        outputs = session.run(None, feeds)
    except Exception as e:
        first = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise CompileError(f"onnxruntime cannot run the model: {first}") from e
    name, ports = f"onnxruntime {ort.__version__}", session.get_outputs()
    # Text and sequences cannot be bound, nor outputs of another shape than the file says.
    tensors = all(isinstance(a, np.ndarray) and a.dtype.kind in "biufc" for a in (*feeds.values(), *outputs))
    if not tensors or not all(_is_of(a.shape, port.shape) for port, a in zip(ports, outputs, strict=True)):
        return name, lambda: session.run(None, feeds)
    binding = session.io_binding()
    for given, array in feeds.items():
        binding.bind_cpu_input(given, array)
    for port, array in zip(ports, outputs, strict=True):
        binding.bind_ortvalue_output(port.name, ort.OrtValue.ortvalue_from_numpy(np.zeros_like(array)))
    return name, lambda: session.run_with_iobinding(binding)


def _is_of(shape: tuple[int, ...], said: Sequence[int | str | None]) -> bool:
    """Whether a shape is the one that a model says; names stand for any extent."""
    fixed = (not isinstance(n, int) or n == extent for n, extent in zip(said, shape, strict=False))
    return len(shape) == len(said) and all(fixed)


def _runnable(model: Path) -> str | bytes:
    """A model as onnxruntime and numpy have its types: with bfloat16 it is computed in f32, as in C."""
    graph = read_model(model).graph
    casts = (n.attrs.get("to") for n in graph.nodes if n.op_type == "Cast")
    if all(v.dtype != "bf16" for v in (*graph.inputs, *graph.outputs)) and dtype_number("bf16") not in casts:
        return str(model)
    return widened(extract_with_outputs(model, []), "bf16") or str(model)


ENGINES: dict[str, Engine] = {"onnxruntime": onnxruntime}
