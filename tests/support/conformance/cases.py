"""The cases of ONNX's backend suite (`onnx.backend.test`), models and data, in the order of their names."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")

LONG = ("LinearAttention",)
"""Functions of so many nodes that one case takes as long to compile as a hundred of others."""


@dataclass(frozen=True)
class SuiteCase:
    """A case: its model, and pairs of inputs and expected outputs (arrays, lists of arrays, None).

    ``operator`` is what a case of suite "node" is about; "" in the others.
    """

    name: str
    suite: str
    operator: str
    model: onnx.ModelProto
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


def load_suite() -> list[SuiteCase]:
    """Every case that the installed onnx has the model and the data of."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [case for suite in SUITES for case in _load(suite)]
    return sorted(found, key=lambda c: (SUITES.index(c.suite), c.name))


def sample(count: int, folder: Path) -> list[SuiteCase]:
    """So many cases by the hash of their names; real networks and operators of `LONG` are left out.

    Making the suite takes longer than running these, so that they are kept in ``folder``.
    """
    path = folder / f"backend-suite-{onnx.__version__}-{count}.pickle"
    if path.exists():
        return list(pickle.loads(path.read_bytes()))
    cases = [c for c in load_suite() if c.suite != "real" and c.operator not in LONG]
    chosen = sorted(cases, key=lambda c: hashlib.sha256(c.name.encode()).digest())[:count]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(pickle.dumps(chosen))
    os.replace(file.name, path)
    return chosen


def _load(suite: str) -> Iterator[SuiteCase]:
    listed = load_model_tests(kind=suite)
    named = {c.name: _operator(c.model) for c in listed if c.model is not None}
    for c in listed:
        if c.model is not None:
            data = [([_array(v) for v in given], [_array(v) for v in wanted]) for given, wanted in c.data_sets]
            yield SuiteCase(c.name, suite, _about(c.name, named), c.model, data, c.rtol, c.atol)
        elif c.model_dir is not None:
            model = onnx.load(str(Path(c.model_dir) / "model.onnx"))
            yield SuiteCase(c.name, suite, "", model, list(_stored(Path(c.model_dir), model)), c.rtol, c.atol)
        else:
            path = Path(onnx.__file__).parent.parent / c.url
            model = onnx.load(str(path))
            yield SuiteCase(c.name, suite, "", model, [_light(path, model)], c.rtol, c.atol)


def _operator(model: onnx.ModelProto) -> str:
    node = model.graph.node[-1]
    return f"{node.domain}:{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _about(name: str, operators: dict[str, str]) -> str:
    """The operator of a case; of one whose function is expanded, that of the case it is made of."""
    whole = re.sub(r"_expanded(_ver\d+|_function.*)?$", "", name)
    return operators.get(whole, operators[name])


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _stored(folder: Path, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """The data sets that lie beside a model."""
    for data in sorted(folder.glob("test_data_set*")):
        yield _read(data, "input", model.graph.input), _read(data, "output", model.graph.output)


def _read(folder: Path, kind: str, infos: Any) -> list[Any]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [_value(folder / f"{kind}_{i}.pb", infos[i].type.WhichOneof("value")) for i in range(count)]


def _value(path: Path, kind: str) -> Any:
    reader, decode = {
        "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
    }[kind]
    proto = reader()
    proto.ParseFromString(path.read_bytes())
    return decode(proto)


def _light(path: Path, model: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
    """Inputs of a real network without its weights, as the official runner makes them, and what belongs to them."""
    known = {i.name for i in model.graph.initializer}
    inputs = [Runner.generate_dummy_data(v, name=v.name) for v in model.graph.input if v.name not in known]
    count = len(model.graph.output)
    return inputs, [_value(path.with_name(f"{path.stem}_output_{i}.pb"), "tensor_type") for i in range(count)]
