"""Where and how a drawn network is compiled and run: the axes beside what it computes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mccompile.driver import has_products
from mccompile.kernels.registry import candidates
from mccompile.targets.target import resolve, runs_here, targets
from tests.support.fuzz.family import MAIN, SECOND, Family
from tests.support.fuzz.further import NAMES, Further, forms_of, further_of
from tests.support.sanitized import SANITIZERS, is_sanitized

QUICK = "tcc"
"""A compiler that takes a tenth of the time; what it says is wrong is asked of gcc and its sanitizers again."""

BUILDS = (
    (76, ("generic",), QUICK if shutil.which(QUICK) else "gcc", ((),)),
    (8, ("generic",), "gcc", (("-O2",), ("-O2",), ("-O3",))),
    (3, ("generic", "x86-64-v2"), "gcc", (("-O1",), ("-O2",), ("-O3",))),
    (9, ("native", "native", "x86-64-v2"), "gcc", (("-O1",), ("-O1",), ("-O1",), ("-O0",), ("-O2",), ("-O3",))),
    (2, ("generic", "native"), "clang" if shutil.which("clang") else "gcc", (("-O1",), ("-O2",))),
    (2, ("generic",), "gcc", (SANITIZERS,)),
)
"""How many of a hundred networks are built how: targets, the compiler, its flags. A compiler's own faults show where
it makes most of what it is given."""

_HERE = [t for t in targets().values() if t.lanes > 1 and t.machines and runs_here(t.name)]
_WIDEST = [t for t in _HERE if t.lanes == max(other.lanes for other in _HERE)]
VECTORS = ("native", "native", *sorted(t.name for t in (*_HERE, *_WIDEST, *_WIDEST)))
"""Vector targets of this machine, the widest three times as often."""

WIDE_BUILDS = (
    (76, VECTORS, "gcc", (("-O1",),)),
    (8, VECTORS, "gcc", (("-O0",), ("-O2",), ("-O3",))),
    (8, VECTORS, "clang" if shutil.which("clang") else "gcc", (("-O1",), ("-O2",))),
    (4, VECTORS, "gcc", (SANITIZERS,)),
    (4, VECTORS, "clang" if shutil.which("clang") else "gcc", (SANITIZERS,)),
)
"""Those of networks that fill wide vectors."""

EMULATED = sorted(t.name for t in targets().values() if (t.emulator or not t.hosted) and not runs_here(t.name))
"""Targets of other processors: those of systems, and microcontrollers."""
ELSEWHERE = [name for name in EMULATED if resolve(name).lanes > 1]
"""Those with vectors."""
LEVELS = ("O0", "O1", "O2", "O2", "O2", "O3", "Os", "Os")

FORCED = tuple(
    {op: kernel}
    for op in ("conv", "matmul", "conv_transpose", "reduce", "normalize", "softmax", "map", "attention", "lstm")
    for kernel in dict.fromkeys(v.kernel for v in candidates(op))
)
"""Kernels that are taken wherever they can be, however slow they are thought to be there."""

OPTIONS: Mapping[str, tuple[int, tuple[Any, ...]]] = {
    "keep_inputs": (10, (True,)),
    "io": (24, ("caller", "quantized", "caller,quantized")),
    "stepwise": (6, (True,)),
    "exact": (6, (True,)),
    "split_kernels": (5, (True,)),
    "plan_effort": (6, (0, 2)),
    "stream_rows": (8, ("always", "never")),
    "memory": (8, tuple({"fast": fast, "slow": 8 << 20} for fast in (256, 1024, 4096))),
    "embed": (4, (True,)),
    "ram": (8, (512, 4096, 16384)),
    "requant": (6, ("tflite",)),
    "weights": (6, ("f16", "bf16", "i8", "i8:32", "i4")),
    "precision": (6, ("bf16", "f16")),
    "threads": (6, (2, 3)),
    "kernels": (8, FORCED),
    "max_blob_growth": (3, (0.0, 8.0)),
}
"""How often in a hundred networks an option is given, and its values."""

CHOICES = (("generic", "x86-64-v2"), ("x86-64-v2", "x86-64-v3"))
PROJECTS = ("own", "own", "shared")

NARROW_LEVELS: Mapping[str, tuple[str, ...]] = {"weights": ("O2", "O3", "Os"), "precision": ("O2", "O3")}
"""Those that store weights, or compute products, in fewer bits."""

WIDE_RANGES = 0.15
BOUNDS = (300, 2500, 100_000)
"""How often an extent of a run is up to one of these; to the last where no board has to have room for it."""

OF_WIDE = 4
"""How many times as often networks that fill wide vectors are compiled so, and how many times as much --ram has."""


@dataclass(frozen=True)
class Setting:
    """How a network is compiled, built and run.

    Attributes:
        dims, second: what --dim says of n and of m, "" where it is fixed.
        state: outputs kept as inputs of the next run.
        targets: of one program for several; none as a rule.
        project: compiled beside the network of its first output, each in its "own" arena, or a "shared" one.
        further: formats of inputs, fixed inputs, measured kernels, and the like.
    """

    target: str
    level: str
    compiler: str
    flags: tuple[str, ...]
    dims: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)
    second: str = ""
    targets: tuple[str, ...] = ()
    project: str = ""
    further: Further = field(default_factory=Further)

    @property
    def sanitized(self) -> bool:
        return is_sanitized(self.flags)

    @property
    def surely(self) -> Setting:
        """The same, built by gcc with its sanitizers."""
        return replace(self, compiler="gcc", flags=SANITIZERS)

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `mccompile.compile`, all but targets and project, and what arrays and files are needed for."""
        n, m = NAMES.values() if self.further.shapes else ("n", "m")
        dims = {name: said for name, said in ((n, self.dims), (m, self.second)) if said}
        more: dict[str, Any] = {"dims": dims} if dims else {}
        if self.state:
            more["state"] = dict(self.state)
        if self.further.formats:
            more["input_formats"] = dict(self.further.formats)
        if self.further.shapes:
            more["input_shapes"] = dict(self.further.shapes)
        return {"target": self.target, "opt_level": self.level, **self.options, **more}

    @property
    def label(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.arguments.items() if k not in ("target", "opt_level"))
        several = ",".join(self.targets) + (f"project={self.project}" if self.project else "")
        beside = [f"fixed={','.join(self.further.fixed)}"] if self.further.fixed else []
        beside += [f"tuned={self.further.tuned}"] if self.further.tuned else []
        beside += ["hooked"] if self.further.hooked else []
        return " ".join((several or self.target, self.level, self.compiler, *self.flags, *beside, given))

    def plainer(self) -> list[Setting]:
        """With one thing less that is special, the greatest first."""
        found = [replace(self, options={}, state={})] if len(self.options) + len(self.state) > 1 else []
        found += [replace(self, further=less) for less in self.further.plainer()]
        if self.targets or self.project:
            found.append(replace(self, targets=(), project=""))
        found += [replace(self, options={k: v for k, v in self.options.items() if k != key}) for key in self.options]
        found += [replace(self, state={k: v for k, v in self.state.items() if k != key}) for key in self.state]
        if self.target != "generic":
            found.append(replace(self, target="generic"))
        if self.level != "O0":
            found.append(replace(self, level="O0" if self.level == "O1" else "O1"))
        plain = ("gcc", ("-O1",))
        if not self.sanitized and (self.compiler, self.flags) != plain:
            found.append(replace(self, compiler=plain[0], flags=plain[1]))
        return [s for s in found if s != self]


def extents_of(seed: str) -> tuple[int, ...]:
    """The numbers beside `MAIN` that n may be in the network of a seed; none for an eighth of them."""
    r = random.Random(f"extents {seed}")
    low = r.choice([0, 1, 1])
    return () if r.random() < 0.12 else tuple(sorted({low, 1, 4}))


def two_of(seed: str) -> bool:
    """Whether the network of a seed has two extents."""
    return random.Random(f"two {seed}").random() < 0.25


def setting_of(seed: str, net: Family, emulated: bool = False, wide: bool = False) -> Setting:
    """That of a seed's network; of a ``wide`` one it is of this machine's vectors."""
    r = random.Random(f"setting {seed}")
    options: dict[str, Any] = {}
    for key, (percent, values) in OPTIONS.items():
        often = percent * OF_WIDE if wide and key in (*NARROW_LEVELS, "kernels") else percent
        if r.random() * 100 < often:
            options[key] = r.choice(values)
    if "ram" in options:
        options.pop("memory", None)
        options["ram"] *= OF_WIDE if wide else 1
    builds = WIDE_BUILDS if wide else BUILDS
    _, targets, compiler, every = r.choices(builds, [percent for percent, *_ in builds])[0]
    target, flags = r.choice(targets), r.choice(every)
    if emulated:
        target, flags = r.choice(ELSEWHERE if wide else EMULATED), r.choice([("-O1",), ("-O1",), ("-O1",), ()])
        compiler = "clang" if resolve(target).clang else "gcc"
    dims = second = ""
    if net.varying(MAIN):
        least = min(net.others)
        dims = f"1,4,{MAIN}" if least == 1 and r.random() < 0.3 else f"{least}..{MAIN}"
    if net.varying(SECOND):
        second = f"1..{SECOND}"
    if any(name in net.inputs for name in net.drawn):
        options["random"] = "input"
    state = _state(r, net) if r.random() < 0.7 and not emulated else {}
    options |= {} if emulated else forms_of(seed, net)
    further = Further() if emulated else further_of(seed, net, state)
    dims, second, limits = (dims, second, {}) if net.grows(state) else _wide_ranges(seed, dims, second, emulated)
    made = Setting(target, r.choice(LEVELS), compiler, flags, dims, options | limits, state, second, further=further)
    if net.grows(state):  # neither several fixed extents nor an emulator
        flags = ("-O1",) if made.sanitized or compiler == QUICK else flags
        made = replace(made, dims=f"{min(net.others)}..{MAIN}", compiler="gcc", flags=flags)
    return _possible(made if emulated else _several(made, r), r)


def _wide_ranges(seed: str, dims: str, second: str, emulated: bool) -> tuple[str, str, dict[str, Any]]:
    """Seldom extents of up to thousands, of which none runs: kernels are others, and so is what is known of numbers.
    Tensors are not to be larger than a program should fill before each run."""
    r = random.Random(f"range {seed}")
    ranges = [said for said in (dims, second) if ".." in said]
    if not ranges or r.random() > WIDE_RANGES:
        return dims, second, {}
    most = BOUNDS[-2 if emulated else -1]
    dims, second = (
        f"{said.split('..')[0]}..{min(r.choice(BOUNDS), most)}" if ".." in said else said for said in (dims, second)
    )
    return dims, second, {"limits": {"tensor-elements": 1 << 22}}


def _several(setting: Setting, r: random.Random) -> Setting:
    """Seldom a program for several targets, or a project."""
    kind = r.random()
    if kind < 0.03 and not setting.sanitized and runs_here("x86-64-v2"):
        targets = tuple(t for t in r.choice(CHOICES) if runs_here(t))
        return replace(setting, targets=targets, compiler="gcc", flags=("-O1",))
    if kind < 0.07 and not setting.state:
        return replace(setting, project=r.choice(PROJECTS))
    return setting


def _possible(setting: Setting, r: random.Random) -> Setting:
    """Without the options that others refuse, or that nobody can judge beside them."""
    options = dict(setting.options)
    form = options.get("precision")
    forms = set(form.values()) if isinstance(form, dict) else {form} if form else set()
    both = "auto" in (form, options.get("weights")) and form and "weights" in options
    alone = isinstance(form, str) and "weights" in options
    if both or alone or not all(has_products(resolve(setting.target), f) for f in forms - {"f32", "auto"}):
        del options["precision"]
    for key in [k for k in NARROW_LEVELS if k in options]:
        quantised, empty = "quantized" in options.get("io", ""), setting.dims.startswith("0")
        several = setting.targets or setting.project
        if "exact" in options or setting.state or several or quantised or empty:  # numpy reduces no empty axis
            del options[key]
        else:
            dims = f"1..{MAIN}" if "," in setting.dims else setting.dims
            setting = replace(setting, level=r.choice(NARROW_LEVELS[key]), dims=dims)
    gone = {"memory", "split_kernels"} if setting.targets else {"ram"} if setting.project else set()
    if setting.targets or setting.project:
        gone.add("threads")
        setting = replace(setting, further=replace(setting.further, tuned=0))
    options = {k: v for k, v in options.items() if k not in gone}
    if "auto" not in (options.get("precision"), options.get("weights")):
        options.pop("max_error", None)
    if "exact" in options or setting.level not in ("O2", "O3", "Os"):
        options.pop("requant", None)
    if "threads" in options and setting.compiler == QUICK:  # which does not know the pool's atomic operations
        setting = replace(setting, compiler="gcc", flags=("-O1",))
    return replace(setting, options=options)


def _state(r: random.Random, net: Family) -> dict[str, str]:
    """A pair of an output and an input of one type and fixed shape, where there is one; all that grow, or none."""
    known = {out: name for out, name in net.states.items() if out in net.outputs and name in net.inputs}
    if known:
        grow = r.random() < 0.8
        kept = {out: name for out, name in known.items() if (grow if out in net.grown else r.random() < 0.8)}
        return kept if len(kept) < min(len(net.inputs), len(net.outputs)) else {}
    if r.random() < 0.8:
        return {}
    pairs = []
    for out in net.outputs:
        for name in net.inputs:
            a, b = net.values[out], net.values[name]
            alike = a.shape == b.shape and a.dtype == b.dtype and a.dtype.kind == "f" and out not in net.inputs
            if alike and not net.axes.get(name) and all(v[out].shape == a.shape for v in net.others.values()):
                pairs.append((out, name))
    return dict([r.choice(pairs)]) if pairs and len(net.inputs) > 1 and len(net.outputs) > 1 else {}
