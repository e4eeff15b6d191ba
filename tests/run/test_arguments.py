"""Axes, extents, pads, starts and the like that are inputs of the network: right ones give what onnxruntime gives,
all others MCC_E_DIM, and nothing is read or written outside."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import mccompile
from mccompile import driver
from mccompile.ir.errors import CompileError
from tests.support.harness import needs_sanitizers
from tests.support.read_again import is_read_again
from tests.support.small_models import Array

HOSTILE = (-(2**63), 2**63 - 1, -(2**31) - 1, 2**31, -129, 64, -2, -1, 0, 1, 2, 3)
"""What an argument may be, and mostly must not."""
NO_NUMBERS = (np.nan, np.inf, -1.0, 0.0, 1e30, 1.5)


@dataclass
class Drawn:
    """A node whose ``arguments`` are inputs. ``dims``: the shape of its result as the model has it, if not known."""

    op: str
    x: Array | None
    arguments: Mapping[str, Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    order: Sequence[str] = ()
    outputs: int = 1
    dims: Sequence[int | str] | None = None
    bounds: Mapping[str, int] = field(default_factory=dict)
    floats: Sequence[float] = NO_NUMBERS

    @property
    def inputs(self) -> dict[str, Array]:
        return {**({} if self.x is None else {"x": self.x}), **self.arguments}


def _floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(0, 1, shape).astype(np.float32)


def _shape(rng: np.random.Generator, rank: int, low: int = 1, high: int = 5) -> list[int]:
    return [int(e) for e in rng.integers(low, high, rank)]


def _ints(*values: int) -> Array:
    return np.array(values, np.int64)


def _slice(rng: np.random.Generator, named: bool, steps: bool) -> Drawn:
    shape = _shape(rng, 3, 3, 7)
    axes = sorted(rng.choice(3, 2, replace=False).tolist())
    starts = [int(rng.integers(0, shape[a] - 1)) for a in axes]
    ends = [int(rng.integers(s + 1, shape[a] + 1)) for s, a in zip(starts, axes, strict=True)]
    arguments = {"s": _ints(*starts), "e": _ints(*ends), "a": _ints(axes[0], axes[1] - 3)}
    if steps:
        arguments |= {"s": _ints(starts[0], ends[1] - 1), "e": _ints(ends[0], starts[1] - 99), "p": _ints(2, -1)}
    dims = ["a", "b", "c"] if named else None
    return Drawn("Slice", _floats(rng, *shape), arguments, dims=dims)


def _reduce(op: str, rng: np.random.Generator) -> Drawn:
    keep = int(rng.integers(2))
    rank = int(rng.integers(2, 4))
    x = np.abs(_floats(rng, *([2] * rank if not keep else _shape(rng, rank)))) + np.float32(0.1)
    axes = sorted(rng.choice(rank, int(rng.integers(1, rank + 1)), replace=False).tolist())
    axes[0] -= rank if rng.integers(2) else 0
    return Drawn(op, x, {"a": _ints(*axes)}, {"keepdims": keep})


def _pad(rng: np.random.Generator, mode: str) -> Drawn:
    shape = _shape(rng, 2, 3, 6)
    low = -1 if mode in ("constant", "edge") else 0
    pads = rng.integers(low, 3, 4).astype(np.int64)
    arguments = {"p": pads} if mode != "constant" else {"p": pads, "v": np.array(1.5, np.float32)}
    return Drawn("Pad", _floats(rng, *shape), arguments, {"mode": mode})


def _resize(rng: np.random.Generator, mode: str, **attributes: Any) -> Drawn:
    shape = [1, 2, *_shape(rng, 2, 3, 7)]
    chosen = {"mode": mode, "axes": [2, 3], **attributes}
    if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        region = np.array([0.1, 0.2, 0.9, 0.7], np.float32)
        return Drawn("Resize", _floats(rng, *shape), {"r": region, "s": _ints(7, 2)}, chosen, ("x", "r", "", "s"),
                     floats=(0.3, 1.25, -0.5))  # fmt: skip
    scales = rng.choice(np.array([2, 0.7, 1.3, 2.5] if mode != "cubic" else [2, 1.5, 2.5], np.float32), 2)
    return Drawn("Resize", _floats(rng, *shape), {"s": scales}, chosen, ("x", "", "s"))


def _falling(start: float, limit: float, delta: float) -> dict[str, Array]:
    return {"s": np.array(start, np.float32), "l": np.array(limit, np.float32), "d": np.array(delta, np.float32)}


Sample = Callable[[np.random.Generator], Drawn]

SAMPLES: dict[str, Sample] = {
    "Slice": lambda r: _slice(r, False, False),
    "Slice counted": lambda r: _slice(r, True, False),
    "Slice by steps": lambda r: _slice(r, False, True),
    "Slice by steps counted": lambda r: _slice(r, True, True),
    "ReduceSum": lambda r: _reduce("ReduceSum", r),
    "ReduceL2": lambda r: _reduce("ReduceL2", r),
    "ReduceLogSumExp": lambda r: _reduce("ReduceLogSumExp", r),
    "TopK": lambda r: Drawn("TopK", _floats(r, 6, 3), {"k": _ints(int(r.integers(1, 7)))}, {"axis": 0}, outputs=2),
    "TopK counted": lambda r: Drawn("TopK", _floats(r, 6, 3), {"k": _ints(2)}, {"axis": 0}, outputs=2, dims=["k", 3]),
    "STFT": lambda r: Drawn("STFT", _floats(r, 1, 40, 1), {"s": _ints(7).reshape(()), "f": _ints(9).reshape(())}, {},
                            ("x", "s", "", "f")),
    "CumSum": lambda r: Drawn("CumSum", _floats(r, *_shape(r, 3)), {"a": np.array(int(r.integers(-3, 3)))},
                              {"reverse": int(r.integers(2))}),
    "Reshape": lambda r: Drawn("Reshape", _floats(r, 2, 3, 4), {"s": _ints(0, -1, [2, 4][r.integers(2)])}),
    "Reshape of one unknown": lambda r: Drawn("Reshape", _floats(r, 2, 3, 4), {"s": _ints(-1, 4)}, dims=["n", 4]),
    "Expand": lambda r: Drawn("Expand", _floats(r, 3, 1, 2), {"s": _ints(2, 1, 4, 2)}),
    "Expand counted": lambda r: Drawn("Expand", _floats(r, 3, 1, 2), {"s": _ints(4, 2)}, dims=[3, "n", 2],
                                      bounds={"n": 5}),
    "Tile": lambda r: Drawn("Tile", _floats(r, 2, 1, 3), {"s": _ints(*_shape(r, 3, 1, 4))}),
    "Tile counted": lambda r: Drawn("Tile", _floats(r, 2, 3), {"s": _ints(2, 1)}, dims=["n", 3], bounds={"n": 6}),
    "ConstantOfShape": lambda r: Drawn("ConstantOfShape", None, {"s": _ints(*_shape(r, 2))}),
    "ConstantOfShape counted": lambda r: Drawn("ConstantOfShape", None, {"s": _ints(3, 2)}, dims=["n", "m"],
                                               bounds={"n": 4, "m": 2}),
    "Unsqueeze": lambda r: Drawn("Unsqueeze", _floats(r, 3, 1, 2), {"a": _ints(1, -1)}),
    "Squeeze": lambda r: Drawn("Squeeze", _floats(r, 1, 3, 1, 2, 1), {"a": _ints(0, -3)}),
    "Split": lambda r: Drawn("Split", _floats(r, 7, 2), {"s": _ints(3, 4)}, outputs=2),
    "OneHot": lambda r: Drawn("OneHot", r.integers(-3, 3, (3, 2)), {"d": _ints(3), "v": _floats(r, 2)}),
    "Range": lambda r: Drawn("Range", None, dict(zip("sld", map(np.array, (2, 12, 3)), strict=True))),
    "Range counted": lambda r: Drawn("Range", None, _falling(2.5, -4, -1.5), dims=["n"], bounds={"n": 9}),
    "Compress": lambda r: Drawn("Compress", _floats(r, 4, 3), {"c": r.integers(0, 2, 4).astype(bool)}, {"axis": 0}),
    "Compress counted": lambda r: Drawn("Compress", _floats(r, 4, 3), {"c": r.integers(0, 2, 9) > 0}, dims=["n"]),
    "ReverseSequence": lambda r: Drawn("ReverseSequence", _floats(r, 4, 3, 2), {"l": _ints(4, 1, 2)},
                                       {"batch_axis": 1, "time_axis": 0}),
    "Pad": lambda r: _pad(r, "constant"),
    "Pad edge": lambda r: _pad(r, "edge"),
    "Pad reflect": lambda r: _pad(r, "reflect"),
    "Pad wrap": lambda r: _pad(r, "wrap"),
    "Pad counted": lambda r: Drawn("Pad", _floats(r, 3, 4), {"p": _ints(1, 0, 2, 1)}, dims=["n", "m"],
                                   bounds={"n": 8, "m": 6}),
    "Resize sizes": lambda r: Drawn("Resize", _floats(r, 1, 1, 4, 5), {"s": _ints(8, 3)}, {"mode": "linear",
                                    "axes": [2, 3]}, ("x", "", "", "s")),
    "Resize nearest": lambda r: _resize(r, "nearest", coordinate_transformation_mode="asymmetric",
                                        nearest_mode="floor"),
    "Resize linear": lambda r: _resize(r, "linear"),
    "Resize cubic": lambda r: _resize(r, "cubic", exclude_outside=1),
    "Resize antialias": lambda r: _resize(r, "linear", antialias=1),
    "Resize symmetric": lambda r: _resize(r, "linear", coordinate_transformation_mode="half_pixel_symmetric"),
    "Resize crop": lambda r: _resize(r, "linear", coordinate_transformation_mode="tf_crop_and_resize",
                                     extrapolation_value=3.0),
}  # fmt: skip

QUICK = ("Slice by steps counted", "ReduceSum", "Pad", "Expand counted", "Resize linear")
"""Those that are tested at once; the others by `make test-slow`."""


def model_of(d: Drawn) -> onnx.ModelProto:
    """The node alone, with results of the shapes that onnxruntime finds, or of ``dims``."""
    values = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
              for k, a in d.inputs.items()]  # fmt: skip
    results = [f"y{i}" for i in range(d.outputs)]
    node = helper.make_node(d.op, list(d.order or d.inputs), results, **d.attributes)
    infos = [helper.make_empty_tensor_value_info(r) for r in results]
    graph = helper.make_graph([node], "arguments", values, infos)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)
    wanted = answers(_session(model), d.inputs)
    assert wanted is not None, d
    del model.graph.output[:]
    for name, a in zip(results, wanted, strict=True):
        shape = a.shape if d.dims is None else d.dims
        dtype = helper.np_dtype_to_tensor_dtype(a.dtype)
        model.graph.output.append(helper.make_tensor_value_info(name, dtype, shape))
    return model


def _session(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def answers(session: ort.InferenceSession, inputs: Mapping[str, Array]) -> list[Array] | None:
    """What onnxruntime gives; None where it refuses the arguments."""
    try:
        return list(session.run(None, dict(inputs)))
    except Exception:  # whatever it objects to
        return None


def others(rng: np.random.Generator, d: Drawn) -> dict[str, Array]:
    """The inputs, of whose arguments one element is another one."""
    name = str(rng.choice(list(d.arguments)))
    a = d.arguments[name].copy()
    at = a.reshape(-1)
    i = int(rng.integers(a.size))
    if a.dtype == bool:
        at[i] = not at[i]
    elif a.dtype.kind == "f":
        at[i] = rng.choice(np.array(d.floats, a.dtype))
    else:
        at[i] = rng.choice(np.array(HOSTILE, a.dtype))
    return {**d.inputs, name: a}


def _beyond(inputs: Mapping[str, Array]) -> bool:
    """Whether an argument has more than 31 bits: onnxruntime takes some for their lower 32."""
    whole = [a for a in inputs.values() if a.dtype == np.int64]
    return any(bool(((a >= 2**31) | (a < -(2**31))).any()) for a in whole)


def _fits(d: Drawn, wanted: Sequence[Array], stated: Sequence[Array]) -> bool:
    """Whether results are as the model has them, or not more than was said."""
    if d.dims is None:
        return all(a.shape == s.shape for a, s in zip(wanted, stated, strict=True))
    pairs = zip(d.dims, wanted[0].shape, strict=True)
    return all(e == n if isinstance(n, int) else e <= d.bounds.get(n, e) for n, e in pairs)


@pytest.mark.parametrize(("target", "level"), [("generic", "O0"), ("native", "O2")])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.thorough if n in QUICK else pytest.mark.slow) for n in SAMPLES]
)
def test_right_arguments_are_taken_and_others_refused(name: str, target: str, level: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(sum(map(ord, name)))
    d = SAMPLES[name](rng)
    model = model_of(d)
    onnx.save(model, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "c", target=target, opt_level=level, bounds=d.bounds)
    network, session = mccompile.load(tmp_path / "c"), _session(model)
    stated = answers(session, d.inputs)
    assert stated is not None
    for number in range(16):
        inputs = others(rng, d) if number else d.inputs
        wanted = answers(session, inputs)
        shown = f"{d.op} {dict(d.attributes)} { {k: v.tolist() for k, v in inputs.items() if k != 'x'} }"
        network.fill_arenas(0xFF)
        if wanted is None or not _fits(d, wanted, stated) or (_beyond(inputs) and d.op != "Slice"):
            with pytest.raises(CompileError, match=r"answered status (12|\d+): (extent over bound|index)"):
                network.run(inputs)
            continue
        got = network.run(inputs)
        for i, a in enumerate(wanted):
            assert got[f"y{i}"].shape == a.shape, shown
            np.testing.assert_allclose(got[f"y{i}"], a, rtol=2e-5, atol=2e-5, err_msg=shown)


@pytest.mark.thorough
def test_every_form_is_a_text_that_is_read_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name in ("Slice by steps counted", "ReduceSum", "Pad counted"):
        d = SAMPLES[name](rng)
        onnx.save(model_of(d), tmp_path / "net.onnx")
        compilation = driver.import_graph(tmp_path / "net.onnx", driver.Options(target="generic", bounds=d.bounds))

        driver.compile_program(compilation, is_read_again(tmp_path))


_DRIVER = """
static int {net}(void)
{{
    static {net}_t net;
    {net}_arena *arena = aligned_alloc({NET}_ALIGN, (sizeof *arena + {NET}_ALIGN - 1) / {NET}_ALIGN * {NET}_ALIGN);
    if (arena == NULL || {net}_init(&net, arena, {net}_blob, {NET}_BLOB_BYTES) != MCC_OK) return 1;
    for (int round = 0; round < ROUNDS; ++round) {{
        memset(arena, 0xFF, sizeof *arena);
{fills}
        const mcc_status s = {net}_run(&net);
        if (s != MCC_OK && s != MCC_E_DIM && s != MCC_E_INDEX) return 1;
    }}
    free(arena);
    return 0;
}}
"""


def _filled(net: str, name: str, a: Array, hostile: bool) -> str:
    values = ", ".join({"nan": "NAN", "inf": "INFINITY"}.get(str(v), _c(v)) for v in a.reshape(-1).tolist())
    ctype = {"int64": "int64_t", "float32": "float", "bool": "uint8_t"}[str(a.dtype)]
    lines = [f"        {{ static const {ctype} own[] = {{{values}}};",
             f"        {ctype} *v = {net}_input_{name}(&net); memcpy(v, own, sizeof own);"]  # fmt: skip
    if hostile:
        table = {"int64_t": "WHOLE", "float": "REAL", "uint8_t": "BYTE"}[ctype]
        lines += [f"        for (int i = 0; i < {a.size}; ++i) if (draw() % 3u == 0u) v[i] = {table}[draw() % "
                  f"(sizeof {table} / sizeof {table}[0])]; "]  # fmt: skip
    return "\n".join([*lines, "        }"])


def _c(value: float | bool) -> str:
    return str(int(value)) if isinstance(value, bool | int) else f"{value!r}f"


@pytest.mark.parametrize(
    "names",
    [pytest.param(QUICK, marks=pytest.mark.thorough), pytest.param(tuple(SAMPLES), marks=pytest.mark.slow)],
    ids=["few", "all"],
)
def test_hostile_arguments_touch_nothing_outside(names: Sequence[str], tmp_path: Path) -> None:
    """Every third element of all arguments at once is anything, in arenas of just their size, sanitised."""
    compiler = needs_sanitizers("gcc")
    rng = np.random.default_rng(11)
    heads, functions, calls, sources = [], [], [], []
    targets = itertools.cycle(["generic", "native"])
    for number, (name, target) in enumerate(zip(names, targets, strict=False)):
        d, net = SAMPLES[name](rng), f"n{number}"
        onnx.save(model_of(d), tmp_path / "net.onnx")
        mccompile.compile(
            tmp_path / "net.onnx", tmp_path / net, target=target, name=net, embed=True, bounds=d.bounds
        )
        heads.append(f'#include "{net}/{net}.h"')
        fills = [_filled(net, k, a, k in d.arguments) for k, a in d.inputs.items()]
        functions.append(_DRIVER.format(net=net, NET=net.upper(), fills="\n".join(fills)))
        calls.append(f"    if ({net}() != 0) return {number + 1};")
        sources += [f"{net}/{net}.c", f"{net}/{net}_blob.c"]
    whole = ", ".join("INT64_MIN" if v == -(2**63) else f"INT64_C({v})" for v in HOSTILE)
    lines = [
        "#include <math.h>", "#include <stdlib.h>", "#include <string.h>", *heads, "enum { ROUNDS = 300 };",
        f"static const int64_t WHOLE[] = {{{whole}}};",
        "static const float REAL[] = {NAN, INFINITY, -1.0f, 0.0f, 1e30f, 1.5f};",
        "static const uint8_t BYTE[] = {0, 1};",
        "static unsigned draw(void) { static unsigned s = 1u; s = s * 1664525u + 1013904223u; return s >> 8; }",
        *functions, "int main(void)", "{", *calls, "    return 0;", "}",
    ]  # fmt: skip
    (tmp_path / "main.c").write_text("\n".join(lines))
    flags = ["-std=c11", "-O0", "-g", "-march=native", "-fsanitize=address,undefined,float-cast-overflow",
             "-fno-sanitize-recover=all", "-I", "n0"]  # fmt: skip
    command = [compiler, *flags, "main.c", *sources, "n0/mcc.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{dict(enumerate(names, 1)).get(done.returncode)}: {done.stderr[:2000]}"


def test_what_has_no_bound_asks_for_it_by_name(tmp_path: Path) -> None:
    d = Drawn("ConstantOfShape", None, {"s": _ints(3, 2)}, dims=["rows", 2])
    onnx.save(model_of(d), tmp_path / "net.onnx")
    with pytest.raises(CompileError) as caught:
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "c", target="generic")
    assert "bounds={'rows': N}" in caught.value.hint


def test_a_stated_shape_that_no_arguments_give(tmp_path: Path) -> None:
    model = model_of(Drawn("ReduceSum", _floats(np.random.default_rng(0), 3, 2), {"a": _ints(1)}))
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 7
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(CompileError, match=r"no arguments give the shape that the model states .* \[7, 1\]"):
        mccompile.compile(tmp_path / "net.onnx", tmp_path / "c", target="generic")
