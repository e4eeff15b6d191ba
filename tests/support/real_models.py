"""The real networks under MCC_SHARED: what they hold, their stored inputs and outputs, what is later work in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from mccompile.driver import Options, import_graph
from mccompile.ops.registry import front_ends
from tests._skips import REPOSITORY

Array = np.ndarray[Any, np.dtype[Any]]
SHARED = Path(os.environ.get("MCC_SHARED", REPOSITORY.parent / "shared"))
LATER = frozenset({"Loop", "Scan"})
"""Operators of ai.onnx that are later work; so is what of other domains is not supported."""
CONTROL = frozenset(("If", "Loop", "Scan"))
"""Those of them that are no work at all where their course is known when the network is compiled."""


@dataclass(frozen=True)
class RealModel:
    """A network with inputs and outputs in graph order.

    ``noise`` is, for each output, how far onnxruntime is from itself; ``outputs`` and ``noise`` are empty where
    nothing is stored. ``later`` tells that it has features that are later work.
    """

    name: str
    path: Path
    macs: int
    half: bool
    later: bool
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def shapes(self) -> dict[str, list[int]]:
        return {n: list(a.shape) for n, a in self.inputs().items()}

    def _arrays(self, names: tuple[str, ...], kind: str) -> dict[str, Array]:
        if self.path.name == "model.onnx":
            return {n: _stored(self.path.with_name(f"{kind}_{i}")) for i, n in enumerate(names)}
        stored = np.load(self.path.with_suffix(f".{kind}.npy"))
        return {names[0]: stored[:1]}

    def inputs(self) -> dict[str, Array]:
        return self._arrays(self.input_names, "input")

    def outputs(self) -> dict[str, Array]:
        return self._arrays(self.output_names, "output")

    def exact(self) -> dict[str, Array]:
        """The outputs in float64, rounded once at the end: what the network means. Takes a while."""
        graph = import_graph(self.path, Options(target="generic", input_shapes=self.shapes)).graph
        found = graph.evaluate(self.inputs(), wide=True)
        return {name: found[name].astype(want.dtype) for name, want in self.outputs().items()}

    def noise(self) -> dict[str, float]:
        entry = _manifest(self.path)
        if "io_outputs" in entry:
            return {o["name"]: float(o.get("ort_opt_maxabs", 0.0)) for o in entry["io_outputs"]}
        return {self.output_names[0]: float(entry["max_abs_diff"]["ort_opt_vs_noopt"])}


def _stored(path: Path) -> Array:
    """An array, or what were maps, with their values as columns."""
    if path.with_suffix(".npy").exists():
        return np.load(path.with_suffix(".npy"))
    rows = json.loads(path.with_suffix(".json").read_text())
    return np.array([list(row.values()) for row in rows], np.float32)


def _manifest(path: Path) -> dict[str, Any]:
    if path.name == "model.onnx":
        manifest = json.loads((path.parent.parent / "manifest.json").read_text())
        return next(m for m in manifest["models"] if m["name"] == path.parent.name)
    return json.loads((path.parent / "manifest.json").read_text())[path.stem]


def _is_known(domain: str, op_type: str) -> bool:
    """Whether an operator of another domain is compiled; ZipMap is what its input is."""
    return (domain, op_type) in front_ends() or op_type == "ZipMap"


def _networks() -> Iterator[RealModel]:
    for entry in json.loads((SHARED / "models" / "manifest.json").read_text())["models"]:
        if entry["quantized"] != "none":
            continue  # judged layer by layer: a tie may fall to either side, and what follows magnifies it
        foreign = not all(_is_known(*op.split(":")) for op in entry["ops"] if ":" in op)
        yield RealModel(
            name=entry["name"],
            path=SHARED / "models" / entry["name"] / "model.onnx",
            macs=entry["macs"],
            half=entry["fp16"],
            later=foreign or not LATER.isdisjoint(entry["ops"]),
            input_names=tuple(i["name"] for i in entry["io_inputs"]),
            output_names=tuple(o["name"] for o in entry["io_outputs"]),
        )


def _tiny() -> Iterator[RealModel]:
    for name, entry in json.loads((SHARED / "mlperf_tiny" / "manifest.json").read_text()).items():
        if name.endswith("_fp32"):
            path = SHARED / "mlperf_tiny" / f"{name}.onnx"
            yield RealModel(name, path, 0, False, False, (entry["input"][0],), (entry["output"][0],))


def real_models() -> list[RealModel]:
    """All of them, by name; none where MCC_SHARED has none."""
    found: list[RealModel] = []
    if (SHARED / "models" / "manifest.json").exists():
        found += _networks()
    if (SHARED / "mlperf_tiny" / "manifest.json").exists():
        found += _tiny()
    return sorted(found, key=lambda m: m.name)


def unsupported_nodes(path: Path) -> list[onnx.NodeProto]:
    """The nodes of the main graph that are later work; what only prepares constants is folded and does not count."""
    graph = onnx.load(path).graph
    constant = {w.name for w in graph.initializer}
    found = []
    for node in graph.node:
        foreign = node.domain not in ("", "ai.onnx") and not _is_known(node.domain, node.op_type)
        if not foreign and all(i in constant for i in node.input if i) and node.op_type not in ("If", "Loop", "Scan"):
            constant.update(node.output)
        elif foreign or node.op_type in LATER:
            found.append(node)
    return found


def deciding_inputs(path: Path) -> tuple[str, ...]:
    """The inputs of one element that conditions and trip counts of the main graph depend on; none if a network has
    operators of `LATER` besides."""
    graph = onnx.load(path).graph
    if any(node.op_type not in CONTROL for node in unsupported_nodes(path)):
        return ()
    producer = {o: node for node in graph.node for o in node.output}
    single = {i.name for i in graph.input if all(d.dim_value == 1 for d in i.type.tensor_type.shape.dim)}
    counts = {"If": 1, "Loop": 2}
    pending = [i for node in graph.node for i in node.input[: counts.get(node.op_type, 0)] if i]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += producer[name].input if name in producer else []
    return tuple(sorted(seen & single))


def perturbed(inputs: dict[str, Array], seed: int = 5) -> dict[str, Array]:
    """Other inputs of the same kind: floats moved by a tenth, integers rotated so that indices stay in range."""
    random = np.random.default_rng(seed)
    moved = {}
    for name, array in inputs.items():
        if array.dtype.kind == "f":
            scale = float(np.abs(array[np.isfinite(array)]).max(initial=0)) or 1.0
            moved[name] = (array + 0.1 * scale * random.standard_normal(array.shape)).astype(array.dtype)
        else:
            moved[name] = np.roll(array, 1)
    return moved
