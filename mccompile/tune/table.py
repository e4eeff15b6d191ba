"""The file of measurements: what was measured, on what, and for which generated code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from mccompile._dataclass import dataclass
from mccompile._files import parsed_json
from mccompile._version import __version__
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.whole import written_whole
from mccompile.lower.cost_table import CostTable
from mccompile.run.cache import cache_dir

FORMAT = 1


@dataclass(frozen=True)
class Conditions:
    """What measurements hold for: equal conditions share a file in the user's cache.

    ``weights`` is ``cached`` where those of the whole network stay in the second cache from run to run, else
    ``streamed``: then they come from further away, which is a matter for kernels that pack them larger.
    """

    cpu: str
    compiler: str
    target: str
    flags: tuple[str, ...]
    opt_level: str
    weights: str
    mccompile: str = __version__

    def to_json(self) -> dict[str, Any]:
        return {
            "mccompile": self.mccompile,
            "cpu": self.cpu,
            "compiler": self.compiler,
            "target": self.target,
            "flags": list(self.flags),
            "opt_level": self.opt_level,
            "weights": self.weights,
        }

    def path(self) -> Path:
        """Where the user's cache has these measurements."""
        key = hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()
        return cache_dir() / f"tune-{key[:16]}.json"


@dataclass(frozen=True)
class Measurement:
    """Cycles of a candidate, and the digest of the C that took them."""

    cycles: float
    code: str


def measured(cycles: float, code: str) -> Measurement:
    """What the file will say: a build by it has to choose as the one that measured."""
    return Measurement(round(cycles, 1), code)


@dataclass(frozen=True)
class TuningFile:
    """``nodes[signature][label]``: see `CostTable`."""

    conditions: Conditions
    nodes: Mapping[str, Mapping[str, Measurement]] = field(default_factory=dict)

    def find(self, signature: str, label: str, code: str) -> Measurement | None:
        """A measurement of this very code."""
        found = self.nodes.get(signature, {}).get(label)
        return found if found is not None and found.code == code else None

    def plus(self, signature: str, measured: Mapping[str, Measurement]) -> TuningFile:
        """With all candidates of a node replaced: what was measured together can be compared."""
        return replace(self, nodes={**self.nodes, signature: dict(measured)})

    def costs(self) -> CostTable:
        """What selection takes."""
        cycles = {s: {label: m.cycles for label, m in found.items()} for s, found in self.nodes.items()}
        digest = hashlib.sha256(json.dumps(cycles, sort_keys=True).encode()).hexdigest()
        shown = {key: self.conditions.to_json()[key] for key in ("cpu", "compiler", "target", "mccompile")}
        return CostTable(cycles, {**shown, "sha256": digest})

    def to_json(self) -> dict[str, Any]:
        nodes = {
            s: {label: {"cycles": m.cycles, "code": m.code} for label, m in sorted(found.items())}
            for s, found in sorted(self.nodes.items())
        }
        return {"format": FORMAT, "conditions": self.conditions.to_json(), "nodes": nodes}

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all. CompileError if that fails."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as staged:
                staged.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as e:
            raise CompileError(f"the tuning file {path} cannot be written: {e.strerror}") from e


def load(path: Path) -> TuningFile:
    """Read a file. UsageError if there is none or it is damaged."""
    try:
        data = parsed_json(path.read_text(encoding="utf-8"))
    except OSError as e:
        rule = f"the tuning file {path} cannot be read: {e.strerror}"
        raise UsageError(rule, hint="--tune makes one", code="no-file") from e
    except ValueError as e:
        raise UsageError(f"{path} is no tuning file: {e}") from e
    try:
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']}, not {FORMAT}")
        given = data["conditions"]
        conditions = Conditions(**{**given, "flags": tuple(given["flags"])})
        nodes = {s: dict(_measurements(found)) for s, found in data["nodes"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise UsageError(f"{path} is no tuning file of this mccompile: {e}", hint="make it again with --tune") from e
    return TuningFile(conditions, nodes)


def _measurements(found: Mapping[str, Any]) -> Iterator[tuple[str, Measurement]]:
    for label, m in found.items():
        cycles = float(m["cycles"])
        if not 0 <= cycles < float("inf"):
            raise ValueError(f"{label} has {cycles} cycles")
        yield label, Measurement(cycles, str(m["code"]))


def load_for(path: Path, target: str) -> TuningFile:
    """`load` for a target. UsageError if the file is of another one."""
    found = load(path)
    if found.conditions.target != target:
        raise UsageError(
            f"{path} was measured for target {found.conditions.target}, not {target}",
            hint="give the target with --target",
        )
    return found


def save_cached(found: TuningFile) -> None:
    """Add to what the user's cache has by now: another process may have measured another model meanwhile.
    CompileError if that fails."""
    kept = load_cached(found.conditions).nodes
    replace(found, nodes={**kept, **found.nodes}).save(found.conditions.path())


def load_cached(conditions: Conditions) -> TuningFile:
    """What the user's cache has; a file there that is damaged counts as none."""
    path = conditions.path()
    if not path.is_file():
        return TuningFile(conditions)
    try:
        return load(path)
    except UsageError:
        return TuningFile(conditions)
