"""Reports to test with: of the shipped network, with figures as bench and check give them, and of many steps."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from mccompile.driver import Options, compile_files
from mccompile.report.figures import with_figures

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"

Report = dict[str, Any]


@cache
def _compiled(target: str, level: str) -> str:
    _, files = compile_files(DIGITS, Options(target=target, opt_level=level))
    return files["report.json"].decode()


def digits(target: str = "generic", level: str = "O2") -> Report:
    """report.json of the shipped network; a new one each time."""
    report: Report = json.loads(_compiled(target, level))
    return report


def bench_of(report: Report) -> Report:
    """What bench would say if each step took as many nanoseconds as it reads and writes bytes, and 10 more."""
    times = [10 + s["read_bytes"] + s["written_bytes"] for s in report["steps"]]
    layers = [
        {
            "step": i, "onnx": s["onnx"], "kernel": s["kernel"], "us": ns / 1e3, "share": ns / sum(times),
            "macs": s["macs"], "gflops": 2 * s["macs"] / ns, "of_peak": 2 * s["macs"] / ns / 100,
            "bytes": s["read_bytes"] + s["written_bytes"], "gb_per_s": 1.0,
            "bound": ("compute", "bandwidth", "overhead")[i % 3],
        }
        for i, (s, ns) in enumerate(zip(report["steps"], times, strict=True))
    ]  # fmt: skip
    took = {"median": sum(times) / 1e6, "quartile1": sum(times) / 1e6, "quartile3": sum(times) / 1e6, "best": 0.001}
    machine = {"cpu": "a core", "compiler": "cc", "gflops": 100.0, "ghz": 3.0, "near_gb_per_s": 50.0,
               "far_gb_per_s": 20.0}  # fmt: skip
    return {
        "machine": machine, "rounds": 3, "ms": took, "gflops": 1.0, "of_peak": 0.01, "layers": layers,
        "against": [{"engine": "another engine", "ms": took, "ratio": 1.5}],
    }  # fmt: skip


def check_of(report: Report, wrong: int = -1) -> Report:
    """What check would say if each step were off by a part of what is allowed; step ``wrong`` by more."""
    layers = []
    for i, s in enumerate(report["steps"]):
        error = 5.0 if i == wrong else 1e-3 * (i % 7) / 7
        layers.append(
            {
                "step": i, "kernel": s["kernel"], "nodes": s["onnx"], "name": f"value {i}", "type": "float32[4]",
                "ok": i != wrong, "problem": "", "differing": int(i == wrong), "count": 4, "error": error,
                "allowed": 1.0, "index": [0], "channel": None, "got": 1.0, "want": 1.0,
            }
        )  # fmt: skip
    ok = not 0 <= wrong < len(layers)
    trace = {"ok": ok, "first": None, "worst": None, "worst_ratio": 0.0, "layers": layers, "skipped": []}
    return {
        "model": "", "target": "", "judge": "a judge", "ok": ok, "runs": [], "faults": [], "stack": None,
        "trace": trace, "ties": None, "notes": [], "measured": None,
    }  # fmt: skip


def code_of(report: Report) -> Report:
    """What a compiler would say if each function had 100 bytes and a frame of 16."""
    name = report["model"]["name"]
    functions = [f"{name}_run", *dict.fromkeys(s["function"] for s in report["steps"])]
    stack = {
        "bytes": 32, "path": [{"function": f, "bytes": 16} for f in functions[:2]],
        "functions": dict.fromkeys(functions, 16), "outside": ["expf"], "compiler": "cc",
    }  # fmt: skip
    return {
        "compiler": "cc -O2", "version": "cc 1", "text_bytes": 100 * len(functions), "constants_bytes": 8,
        "data_bytes": 0, "runtime_bytes": 1000, "stack": stack, "note": "",
        "functions": [{"name": f, "bytes": 100, "stack_bytes": 16} for f in functions],
    }  # fmt: skip


def full(report: Report, wrong: int = -1) -> Report:
    """A report with all figures."""
    return with_figures(
        report, limits={"ram": 8192, "flash": 20000}, code=code_of(report), bench=bench_of(report),
        check=check_of(report, wrong),
    )  # fmt: skip


def repeated(report: Report, times: int) -> Report:
    """The network so many times in a row, each time under names of its own: a report of many steps."""
    found = copy.deepcopy(report)
    steps = len(report["steps"])
    for key in ("steps", "onnx", "weights"):
        found[key] = []
    found["memory"]["tensors"] = []
    found["choices"] = {}

    def own(name: str, turn: int) -> str:
        return f"/model/a_long_path/of/modules/{turn}/{name}"

    for turn in range(times):
        for s in report["steps"]:
            named = {key: [own(n, turn) for n in s[key]] for key in ("onnx", "reads", "weights", "writes")}
            found["steps"].append({**s, **named})
        for n in report["onnx"]:
            reads = [turn * len(report["onnx"]) + r for r in n["reads"]]
            found["onnx"].append({"name": own(n["name"], turn), "op": n["op"], "reads": reads})
        for t in report["memory"]["tensors"]:
            moved = {key: t[key] + turn * steps for key in ("first_step", "last_step")}
            found["memory"]["tensors"].append({**t, **moved, "name": own(t["name"], turn)})
        found["weights"] += [{**w, "name": own(w["name"], turn)} for w in report["weights"]]
        for name, choice in report["choices"].items():
            onnx = [own(n, turn) for n in choice["onnx"]]
            found["choices"][own(name, turn)] = {**choice, "onnx": onnx}
    return found
