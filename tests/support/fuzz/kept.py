"""Failures as files: a model, its inputs and its setting, which are tried again whatever is drawn since.

A folder has ``model.onnx``, ``inputs.npz`` (``0/x1``: input x1 of run 0), ``setting.json``, ``finding.txt`` for the
reader and ``reproduce.py``. Those under tests/property/kept are tests.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.support.compose.definite import Arrays
from tests.support.compose.judge import NOTHING, Expected
from tests.support.fuzz.attempt import TURNS, Verdict, attempted
from tests.support.fuzz.family import Family
from tests.support.fuzz.further import Further, model_of, snapped
from tests.support.fuzz.setting import Setting
from tests.support.judge import plain_session

RELATIVE = 1e-5
"""What floats may be off beside the rule of `mccompile check`, of the largest."""


def write(folder: Path, net: Family, setting: Setting, title: str, text: str) -> None:
    """A folder; of a network whose file onnxruntime is not asked, without what tries it again."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "finding.txt").write_text(text + "\n")
    (folder / "model.onnx").write_bytes(model_of(net, setting.further).SerializeToString())
    np.savez(folder / "inputs.npz", **_named(net, setting))
    if not net.judged_by_file:
        return
    (folder / "setting.json").write_text(json.dumps(asdict(setting), indent=1) + "\n")
    (folder / "reproduce.py").write_text(_script(setting, title))


def again(folder: Path) -> Verdict:
    """What becomes of a kept failure now."""
    found = json.loads((folder / "setting.json").read_text())
    tuples = {key: tuple(found.get(key, ())) for key in ("flags", "targets")}
    further = found.get("further", {})
    fixed = tuple(further.get("fixed", ()))
    setting = Setting(**{**found, **tuples, "further": Further(**{**further, "fixed": fixed})})
    model = (folder / "model.onnx").read_bytes()
    with np.load(folder / "inputs.npz") as data:
        runs: dict[str, dict[str, Any]] = {}
        for key in data:
            run, name = key.split("/", 1)
            runs.setdefault(run, {})[name] = data[key].astype(object) if data[key].dtype.kind == "U" else data[key]
    given = [snapped(setting.further.formats, inputs) for _, inputs in sorted(runs.items())]
    expected = [_expected(model, inputs, setting.state) for inputs in given]
    with tempfile.TemporaryDirectory(prefix="mccompile-fuzz-") as name:
        return attempted(model, setting, expected, Path(name))


def _expected(model: bytes, inputs: Arrays, state: Mapping[str, str]) -> list[Expected]:
    session = plain_session(model)
    names = [o.name for o in onnx.load_from_string(model).graph.output]
    kept = {name: np.zeros_like(inputs[name]) for name in state.values()}
    found = []
    for _ in range(TURNS if state else 1):
        values = dict(zip(names, session.run(None, {**inputs, **kept}), strict=True))
        want = {n: np.asarray(a) for n, a in values.items() if n not in state}
        noise = {n: np.full(a.shape, RELATIVE * _largest(a) + NOTHING) for n, a in want.items()}
        given = {n: a for n, a in inputs.items() if n not in state.values()}
        found.append(Expected(given, want, noise, {n: np.ones(a.shape, bool) for n, a in want.items()}))
        kept = {name: values[out] for out, name in state.items()}
    return found


def _largest(a: Any) -> float:
    return float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) if a.dtype.kind == "f" else 0.0


def _named(net: Family, setting: Setting) -> dict[str, Any]:
    """Inputs of each run; text as numpy stores it."""
    runs = net.runs().values() if setting.dims else [net.inputs]
    every = {f"{i}/{name}": a for i, run in enumerate(runs) for name, a in run.items()}
    return {key: a.astype(str) if a.dtype == object else a for key, a in every.items()}


def _script(setting: Setting, title: str) -> str:
    """A reproduction that needs mccompile and onnxruntime alone."""
    flags = () if setting.sanitized else setting.flags
    fixed = ", ".join(f"{n!r}: data[{f'0/{n}'!r}]" for n in setting.further.fixed)
    return f'''"""{title}. Found by `make fuzz`; finding.txt shows the network. Run it with CC={setting.compiler}."""
from pathlib import Path
import mccompile, numpy as np, onnxruntime as ort
from mccompile.run.network import Network
here = Path(__file__).parent
data = np.load(here / "inputs.npz")
mccompile.compile(here / "model.onnx", here / "out", name="drawn", constants={{{fixed}}}, **{setting.arguments!r})
network = Network(here / "out", {flags!r}, emulate=True)
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
session = ort.InferenceSession(here / "model.onnx", options, providers=["CPUExecutionProvider"])
for run in sorted({{key.split("/")[0] for key in data}}):
    inputs = {{key.split("/", 1)[1]: data[key] for key in data if key.startswith(run + "/")}}
    want = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))
    for name, array in network.run({{n: inputs[n] for n in network.inputs}}).items():
        print(f"run {{run}}, {{name}}: here\\n{{array}}\\nonnxruntime\\n{{want[name]}}")
'''
