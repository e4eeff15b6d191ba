"""mccompile as an ONNX backend: `onnx.backend.base.Backend`, which the official test runner and others drive.

    rep = mccompile.backend.prepare(onnx.load("digits.onnx"), target="generic")
    (scores,) = rep.run([image])

The only module beside `onnxio` that imports `onnx`: the interface is made of its classes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from mccompile import driver
from mccompile.ir.errors import CompileError, UsageError
from mccompile.onnxio import OnnxValue, read_model
from mccompile.ops.text import TEXT_BYTES
from mccompile.run.memory import Array
from mccompile.run.network import Network
from mccompile.run.values import gather, item_name, spread, stored

__all__ = ["CompiledBackend", "CompiledModel", "prepare", "run_model", "run_node", "supports_device"]

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class CompiledModel(BackendRep):
    """A model that is compiled for the shapes of its inputs.

    Where the model leaves extents open, that is done when `run` sees them first, and once for each set of shapes.
    Extents that are stated with `prepare(..., dims=..., input_shapes=...)` are no longer open.
    """

    def __init__(self, model: onnx.ModelProto, options: Mapping[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mccompile-backend-")
        self._path = Path(self._folder.name) / "model.onnx"
        self._path.write_bytes(model.SerializeToString())
        self._options = dict(options)
        self._networks: dict[Shapes, Network] = {}
        graph = read_model(self._path).graph
        constant = {*graph.initializers, *self._options.get("constants", {})}
        given = [v for v in graph.inputs if v.name not in constant]
        self.input_names = [v.name for v in given]
        self._outputs = graph.outputs
        self._optional = [v.name for v in given if v.dtype == "optional"]
        stated = {*self._options.get("dims", {}), *self._options.get("input_shapes", {})}
        self._open = {v.name for v in given if _is_open(v, stated)}
        if not self._open:
            self._network({})

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in graph order; ``inputs`` are in that order, too, or by name.

        Raises:
            UsageError: inputs that are missing, or of another type or shape.
            CompileError: the model cannot be compiled for the shapes of these inputs.
        """
        if isinstance(inputs, Mapping):
            inputs = [inputs.get(name) for name in self.input_names]
        elif isinstance(inputs, np.ndarray) or not isinstance(inputs, Iterable):
            inputs = [inputs]
        ports = spread(self.input_names, list(inputs))
        text_bytes = self._options.get("string_bytes", TEXT_BYTES)
        outputs = self._network(ports).run({name: stored(a, text_bytes) for name, a in ports.items()})
        return tuple(gather(self._outputs, outputs))

    def _network(self, ports: Mapping[str, Array]) -> Network:
        """The network for these inputs; compiled where there is none for their shapes yet."""
        tensors = set(self.input_names) - self._open  # the tensors of a sequence have names of their own
        shapes = {name: a.shape for name, a in ports.items() if name not in tensors}
        own = {*ports} - {*self.input_names}
        absent = dict.fromkeys(n for n in self._optional if n not in ports and item_name(n, 0) not in own)
        key = tuple(sorted(shapes.items()))
        if key not in self._networks:
            out = Path(self._folder.name) / f"shapes{len(self._networks)}"
            stated = {**self._options.get("input_shapes", {}), **shapes}
            fixed = {**self._options.get("constants", {}), **absent}
            options = driver.Options(
                **{"name": "model", **self._options, "input_shapes": stated, "constants": fixed}
            )
            driver.compile(self._path, out, options)
            self._networks[key] = Network(out)
        return self._networks[key]


def _is_open(value: OnnxValue, stated: Collection[str]) -> bool:
    """Whether a model leaves extents of an input open that nobody stated; of a sequence, how many tensors it has."""
    if value.name in stated:
        return False
    return value.shape is None or any(not isinstance(e, int) and e not in stated for e in value.shape)


class CompiledBackend(Backend):
    """Every method takes, as keywords, the fields of `mccompile.driver.Options`: ``target``, ``opt_level``, ..."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> CompiledModel:
        """Compile a model. Raises CompileError, UsageError."""
        _require_device(device)
        return CompiledModel(model, kwargs)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compile one node and run it once; ``opset_version`` is that of its domain, by default the newest."""
        _require_device(device)
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in node.input if name]
        if not isinstance(inputs, Mapping):
            if len(names) != len(inputs):
                raise UsageError(f"{len(inputs)} inputs given, the node has {len(names)}")
            inputs = dict(zip(names, inputs, strict=True))
        given = {name: inputs[name] for name in names}  # it may read one value several times
        return cls.run_model(_model_of(node, given, version), list(given.values()), device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for the CPU: a backend runs what it compiles on this machine."""
        return device.partition(":")[0] == "CPU"


def _require_device(device: str) -> None:
    if not CompiledBackend.supports_device(device):
        raise UsageError(f"device {device!r} is not supported", hint="CPU is")


def _model_of(node: onnx.NodeProto, inputs: Mapping[str, Any], version: int) -> onnx.ModelProto:
    """A model of one node with these inputs; it leaves the types of its outputs to be inferred."""
    arrays = {name: np.asarray(a) for name, a in inputs.items()}
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in arrays.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    opsets = [helper.make_opsetid(node.domain, version)]
    model = helper.make_model(helper.make_graph([node], "node", given, outputs), opset_imports=opsets)
    try:
        return onnx.shape_inference.infer_shapes(model)
    except onnx.shape_inference.InferenceError as error:
        raise CompileError(f"the node's types cannot be inferred: {error}") from error


prepare = CompiledBackend.prepare
run_model = CompiledBackend.run_model
run_node = CompiledBackend.run_node
supports_device = CompiledBackend.supports_device
