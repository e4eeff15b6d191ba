"""What is asked of a compilation. Options are declared here and nowhere else: the command line, the functions of
`mccompile`, their types (`mccompile/api/arguments.py`) and docs/options.md follow (`tools/write_options.py`).

Commands answer ``--help`` at once, so nothing here imports more than the standard library before it is used.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from mccompile._dataclass import dataclass
from mccompile.ir.errors import UsageError
from mccompile.passes.pipeline import PIPELINES

if TYPE_CHECKING:
    from mccompile.lower.cost_table import CostTable

STREAMING = ("auto", "never", "always")
"""What `Options.stream_rows` may be."""


IO = ("arena", "caller", "quantized")
"""What `Options.io` may say, with commas between: where inputs and outputs are, and what."""

RANDOM = ("refuse", "input")
"""What `Options.random` may be."""

WEIGHTS = r"f32|bf16|f16|(?:i8|i4)(?::[1-9]\d*)?"
"""What `Options.weights` may say of nodes."""

PRECISION = "f32|bf16|f16"
"""What `Options.precision` may say of nodes, beside auto."""

MOST_THREADS = 256
"""What `Options.threads` may be at most."""

REQUANT = ("exact", "tflite")
"""What `Options.requant` may be."""


MODEL, DEVICE, SPEED, OUTPUT, DEBUGGING = SECTIONS = ("Model", "Device", "Speed and memory", "Output", "Debugging")
"""What options are about: how help and docs group them."""


@dataclass(frozen=True)
class Declared:
    """An option as users see it.

    Args:
        help: a sentence for the command line.
        python: what docs of Python say instead, if anything.
        flags: how it is called on the command line; empty if it is of Python alone.
        kind: which values it takes: a name of `mccompile.cli.options.KINDS`.
        metavar: what stands for its value in the help.
        group: the commands that have it: those with `model_options`, `build_options` and so on.
        section: what it is about, of `SECTIONS`.
        show_default: the help names the default.
        in_python: functions of `mccompile` have it as a parameter.
        since: the version that had it first.
    """

    help: str
    python: str = ""
    flags: tuple[str, ...] = ()
    kind: str = "text"
    metavar: str = ""
    group: str = "build"
    section: str = SPEED
    show_default: bool = False
    in_python: bool = True
    since: str = "0.1.0"

    @property
    def text(self) -> str:
        """What docs of Python say."""
        return self.python or self.help[0].lower() + self.help[1:]


def _option(help: str, default: Any = dataclasses.MISSING, *flags: str, factory: Any = None, **more: Any) -> Any:
    declared = {"declared": Declared(help, flags=flags, **more)}
    if factory is not None:
        return field(default_factory=factory, metadata=declared)
    return field(default=default, metadata=declared)


def _unmeasured() -> CostTable:
    from mccompile.lower.cost_table import UNMEASURED

    return UNMEASURED


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to compile. Fields without a declaration are set by tools.

    ``passes`` are run instead of the level's. ``costs`` are measurements that selection believes more than estimates.
    """

    target: str = _option(
        "What the C is for: see 'mccompile targets'.", "native", "--target", metavar="NAME", show_default=True,
        python="a name of `mccompile targets`; ``native`` is the best one this machine runs.", section=DEVICE,
    )  # fmt: skip
    targets: tuple[str, ...] = _option(
        "Compile for several targets of one kind of machine; a program takes the last that its processor runs: "
        "x86-64-v2,x86-64-v3,x86-64-v4.", (), "--targets", kind="targets", metavar="NAME,..", group="output",
        section=DEVICE, in_python=False,
    )  # fmt: skip
    opt_level: str = _option(
        "0, 1, 2, 3, or s for size.  [default: 2]", "O2", "-O", "--opt-level", kind="level", metavar="LEVEL",
        python="O0, O1, O2, O3 or Os.",
    )  # fmt: skip
    dims: Mapping[str, int | str] = _option(
        "Extent of a symbolic dimension: a number; a range 1..128 (32..128:32: multiples of 32), or several numbers "
        "16,64,128, of which one is given when the program runs; or computed of others: s0, past+1 (repeatable).",
        None, "--dim", factory=dict, kind="dims", metavar="NAME=VALUE", group="model",
        python="extent of each symbolic dimension; the text ``1..128`` is a range of what is given when the program "
        "runs, ``32..128:32`` one of multiples of 32, ``16,64,128`` numbers to choose from, ``past+1`` what is "
        "computed of another.", section=MODEL,
    )  # fmt: skip
    bounds: Mapping[str, int] = _option(
        "The most that an extent may be which the network finds out when it runs, or the turns of a loop, where an "
        "error asks for it (repeatable).", None, "--bound", factory=dict, kind="bounds", metavar="NAME=N",
        group="model",
        python="the most that extents may be which the network finds out when it runs, or the turns of loops, where "
        "an error asks for them.", section=MODEL,
    )  # fmt: skip
    input_shapes: Mapping[str, Sequence[int | str]] = _option(
        "Whole shape of an input: numbers, and names that --dim says more of (repeatable).", None, "--input-shape",
        factory=dict, kind="shapes", metavar="NAME=D0,D1,..", group="model",
        python="whole shape of inputs by name: numbers, and names that ``dims`` says more of.", section=MODEL,
    )  # fmt: skip
    constants: Mapping[str, Any] = _option(
        "Fix an input to a number, to the array in an .npy file, or to the extent of a dim; an optional one that is "
        "absent is \"none\" (repeatable).", None, "--constant", factory=dict, kind="constants",
        metavar="NAME=VALUE", group="model",
        python="value of inputs that are the same in every run, by name: a number or an array; the name of a dim "
        "whose extent it is in every run; or None for an optional one that is absent. The network has no such inputs "
        "then, and what depends on them is computed when it is compiled.", section=MODEL,
    )  # fmt: skip
    state: Mapping[str, str] = _option(
        "Keep an output as this input of the next run: neither is an input or output then (repeatable).", None,
        "--state", factory=dict, kind="states", metavar="OUT=IN", group="model",
        python="outputs that are kept as inputs of the next run, output -> input: neither is an input or output of "
        "the network then.", section=MODEL,
    )  # fmt: skip
    random: str = _option(
        "What becomes of operators that draw random numbers: an error; or their draws become further inputs, which "
        "the caller fills.", "refuse", "--random", kind="random", show_default=True, group="model",
        python="what becomes of operators that draw random numbers: ``refuse``, an error; or ``input``: their draws "
        "become further inputs, which the caller fills.", section=MODEL,
    )  # fmt: skip
    string_bytes: int = _option(
        "Bytes of UTF-8 that an element of an input may take, where inputs are text.", 64, "--string-bytes",
        kind="count", metavar="N", show_default=True,
        python="bytes of UTF-8 that an element of an input may take, where inputs are text.", section=MODEL,
    )  # fmt: skip
    limits: Mapping[str, int] = _option(
        "Let a model ask for more, or less, than usual, such as tensor-elements=400000000: see docs/limits.md "
        "(repeatable).", None, "--limits", factory=dict, kind="limits", metavar="NAME=N", group="model",
        python="what a model may ask of the compiler, by the names of docs/limits.md, such as ``tensor-elements``.",
        section=MODEL,
    )  # fmt: skip
    keep_inputs: bool = _option(
        "Do not reuse the memory of inputs: run may be repeated on them.", False, "--keep-inputs", kind="flag",
        python="do not reuse the memory of inputs, so that ``run`` may be repeated on them.",
    )  # fmt: skip
    io: str = _option(
        "Where inputs and outputs are: in the arena, or in buffers of the caller, who says where at run time. With "
        "quantized, those that a network quantises at once, or dequantises at last, stay bytes: caller,quantized.",
        "arena", "--io", kind="io", metavar="WHERE,..", show_default=True,
        python="where inputs and outputs are: in the ``arena``, or in buffers of the ``caller``, who says where when "
        "it runs. With ``quantized`` (alone, or as in ``caller,quantized``), those that a network quantises at once, "
        "or dequantises at last, stay bytes.", section=MODEL,
    )  # fmt: skip
    input_formats: Mapping[str, str] = _option(
        "What an input is made of, such as image=u8,nhwc,mean=127.5,scale=0.0078: u8, i8, u16 or i16, channels last, "
        "and the model gets (element - mean) * scale; 1.5:2:2.5 is a number for each channel (repeatable).", None,
        "--input", factory=dict, kind="formats", metavar="NAME=TYPE,..",
        python="what inputs are made of, by name, as ``u8,nhwc,mean=127.5,scale=0.0078``: elements of u8, i8, u16 or "
        "i16, with ``nhwc`` channels last, of which the model gets (element - mean) * scale; ``1.5:2:2.5`` is a "
        "number for each channel.", section=MODEL,
    )  # fmt: skip
    weights: Mapping[str, str] = _option(
        "How weights are stored: f32, bf16, f16, i8 or i4, of all nodes or of those that are named: "
        "i8,classifier=f32. i8:32 has a scale for each 32 elements of a sum, i8 one for all of them; i4 is i4:32. "
        "auto: in as few bits as --max-error on --data allows (repeatable).", None, "--weights", factory=dict,
        kind="weights", metavar="[NODE=]FORM,..",
        python="how weights are stored, by the names of nodes (``*`` stands for any text) or operators: ``f32``, "
        "``bf16``, ``f16``, ``i8`` or ``i4``; a text such as ``i8,classifier=f32`` means the same. ``i8:32`` has a "
        "scale for each 32 elements of a sum, ``i8`` one for all of them; ``i4`` is ``i4:32``. ``auto``: in as few "
        "bits as ``max_error`` on ``data`` allows.",
    )  # fmt: skip
    precision: Mapping[str, str] = _option(
        "What convolutions and products are computed in, of all nodes or of those that are named: f32, bf16 or f16, "
        "operands rounded to 16 bits and sums of f32, on targets with instructions for that, and on generic: "
        "bf16,classifier=f32. auto: in as few bits as --max-error on --data allows (repeatable).", None,
        "--precision", factory=dict, kind="precision", metavar="[NODE=]FORM,..",
        python="what convolutions and products are computed in, by the names of nodes (``*`` stands for any text) or "
        "operators: ``f32``, or ``bf16`` or ``f16``, operands rounded to 16 bits and sums of f32, on targets with "
        "instructions for that, and on ``generic``; a text such as ``bf16,classifier=f32`` means the same. "
        "``auto``: in as few bits as ``max_error`` on ``data`` allows.",
    )  # fmt: skip
    requant: str = _option(
        "How sums of integers are rounded to 8 bits: each to the nearest, but for ties; or with the bits of "
        "TensorFlow Lite's reference kernels.", "exact", "--requant", kind="requant", show_default=True,
        python="how sums of integers are rounded to 8 bits: ``exact``, each to the nearest, but for ties; or "
        "``tflite``, with the bits of TensorFlow Lite's reference kernels.",
    )  # fmt: skip
    memory: tuple[tuple[str, int], ...] = _option(
        "Put the arena in several memories, fastest first: dtcm:64K,sram:256K.", (), "--memory", kind="memory",
        metavar="NAME:SIZE,..",
        python="several memories for the arena, name -> bytes, the fastest first: the hottest tensors go there.",
        section=DEVICE,
    )  # fmt: skip
    plan_effort: int = _option(
        "How long to search for a smaller arena: each 8 times as long as the one before.", 1, "--plan-effort",
        kind="effort", metavar="0..3", show_default=True,
        python="how long a smaller arena is searched for, from 0 to 3: each 8 times as long as the one before.",
    )  # fmt: skip
    stream_rows: str = _option(
        "Compute convolutions strip by strip of rows, so that of what lies between them a few rows exist: where it "
        "is faster, or --ram is too small otherwise; never; or always where the arena gets smaller.", "auto",
        "--stream-rows", kind="streaming", show_default=True,
        python="compute convolutions strip by strip of rows, so that of what lies between them only a few rows "
        "exist: ``auto`` where it is faster, or ``ram`` or ``memory`` are too small otherwise; ``never``; or "
        "``always`` where the arena gets smaller.",
    )  # fmt: skip
    threads: int = _option(
        "Cut the work of a step into at most N parts, which the threads of a pool that the application gives may do "
        "at the same time; results are the same bits: see docs/threads.md.", 1, "--threads", kind="count",
        metavar="N", show_default=True,
        python="the most parts that the work of a step is cut into, which the threads of a pool may do at the same "
        "time; results are the same bits.",
    )  # fmt: skip
    exact: bool = _option(
        "Leave out every optimisation that may change how a result is rounded.", False, "--exact", kind="flag",
    )  # fmt: skip
    stepwise: bool = _option(
        "Also write <model>_run_step, which runs one step: for watchdogs and cooperative tasks.", False, "--stepwise",
        kind="flag", section=OUTPUT,
    )  # fmt: skip
    max_blob_growth: float | None = _option(
        "By what factor the weights may grow for faster kernels (Winograd's convolutions and Strassen's products, at "
        "-O2 and -O3 on hosted targets); 0: not at all.  [default: as little as has 95 % of what 4 gains]", None,
        "--max-blob-growth", kind="factor", metavar="FACTOR",
        python="by what factor the weights may grow for faster kernels (Winograd's convolutions and Strassen's "
        "products, at O2 and O3 on hosted targets); 0 or 1: not at all; by default as little as has 95 % of what 4 "
        "gains.",
    )  # fmt: skip
    kernels: Mapping[str, str] = _option(
        "Use this kernel for an operator where it can be used (repeatable).", None, "--kernel", factory=dict,
        kind="kernels", metavar="OP=KERNEL",
        python="operator -> kernel that must be used where it supports the node (``conv`` -> ``conv.generic``).",
    )  # fmt: skip
    ram: int | None = _option(
        "Try harder, then fail, if the arena needs more, such as 64K.", None, "--ram", kind="size", metavar="SIZE",
        group="limit",
        python="bytes that the arena may take, or text such as ``64K``; slower ways that take less are tried before "
        "it is an error.", section=DEVICE,
    )  # fmt: skip
    name: str = _option(
        "Prefix of all that is generated.  [default: the file's name]", "", "--name", metavar="NAME", group="output",
        python="prefix of everything generated; by default the file's name.", section=OUTPUT,
    )  # fmt: skip
    project: str = _option(
        "Prefix of what several models share: kernels, and the arena with --share-arena.", "", "--project",
        metavar="NAME", group="output", in_python=False, section=OUTPUT,
    )  # fmt: skip
    share_arena: bool = _option(
        "The models of a project run in one arena, one after the other.", False, "--share-arena", kind="flag",
        group="output", in_python=False, section=OUTPUT,
    )  # fmt: skip
    split_kernels: bool = _option(
        "Write a C file for each kernel.", False, "--split-kernels", kind="flag", group="output",
        python="one C file per kernel.", section=OUTPUT,
    )  # fmt: skip
    pthread_pool: bool = _option(
        "Also write mcc_pool_pthread.c, a pool of POSIX threads for --threads.", False, "--pthread-pool", kind="flag",
        group="output", python="also write mcc_pool_pthread.c, a pool of POSIX threads for ``threads``.",
        section=OUTPUT,
    )  # fmt: skip
    embed: bool = _option(
        "Also write the weights as a C array.", False, "--embed", kind="flag", group="output",
        python="also write the weights as a C array.", section=OUTPUT,
    )  # fmt: skip
    package: str = _option(
        "Lay the files out as a build system wants them: cmake, zephyr, esp-idf, arduino, platformio, cmsis-pack or "
        "cargo.", "cmake", "--package", metavar="NAME", group="output", show_default=True,
        python="the build system that files are laid out for: ``cmake``, ``zephyr``, ``esp-idf``, ``arduino``, "
        "``platformio``, ``cmsis-pack`` or ``cargo``.", section=OUTPUT,
    )  # fmt: skip
    passes: Sequence[str] | None = None
    costs: CostTable = field(default_factory=_unmeasured)

    @property
    def place(self) -> str:
        """Where inputs and outputs are: in the "arena", or in memory of the "caller"."""
        return "caller" if "caller" in self.io.split(",") else "arena"

    @property
    def keeps_bytes(self) -> bool:
        """Whether quantised inputs and outputs stay bytes."""
        return "quantized" in self.io.split(",")


MORE: dict[str, tuple[Declared, Any]] = {
    "tune": (
        Declared(
            "Measure the kernels that each node could have on this machine; take the fastest.", flags=("--tune",),
            kind="flag", group="tune",
            python="measure the kernels that each node could have on this machine, and take the fastest. What was "
            "measured before is kept in the user's cache, or in the file ``tuning``.",
        ),
        False,
    ),
    "tuning": (
        Declared(
            "Choose kernels by these measurements; with --tune, where they are kept."
            "  [default of --tune: the user's cache]", flags=("--tuning",), kind="path", metavar="FILE", group="tune",
            python="file of measurements to choose kernels by.",
        ),
        None,
    ),
    "max_error": (
        Declared(
            "The relative error of outputs that --weights and --precision may cost: what auto goes up to, and above "
            "which check fails.  [default of check: what the forms explain]", flags=("--max-error",), kind="factor",
            metavar="E", group="tune",
            python="the relative error of outputs that ``weights`` and ``precision`` may cost: what ``auto`` goes up "
            "to, and above which `check` fails; by default of that, what the forms explain.",
        ),
        None,
    ),
    "data": (
        Declared(
            "Inputs that --weights auto and --precision auto judge by: an .npz by name, or the .npy of the only "
            "input; many samples along the first axis, or stacked.", flags=("--data",), kind="path",
            metavar="X.npz", group="tune",
            python="inputs that ``auto`` of ``weights`` and ``precision`` is judged by: arrays by name, or the array "
            "of the only input.",
        ),
        None,
    ),
    "flash": (
        Declared(
            "Fail if the weights need more.", flags=("--flash",), kind="size", metavar="SIZE", group="limit",
            section=DEVICE, python="bytes that the weights may take, or text such as ``512K``; more is an error.",
        ),
        None,
    ),
    "golden": (
        Declared(
            "Write test_<model>.c into DIR: inputs and expected outputs, for tests without Python.",
            flags=("--golden",), kind="path", metavar="DIR", group="golden", section=OUTPUT,
            python="folder for test_<model>.c: inputs and expected outputs, for tests without Python.",
        ),
        None,
    ),
    "inputs": (
        Declared(
            "Inputs of the golden test: an .npz by name, or the .npy of the only input.", flags=("--inputs",),
            kind="path", metavar="X.npz", group="golden", section=OUTPUT,
            python="inputs of the golden test: arrays by name, or the array of the only input.",
        ),
        None,
    ),
}  # fmt: skip
"""Options of commands that a compilation does not know: (declaration, default) by name."""


def declared() -> Iterator[tuple[str, Declared, Any]]:
    """Every option that users see: name, declaration, default."""
    for f in dataclasses.fields(Options):
        if "declared" in f.metadata:
            default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
            yield f.name, f.metadata["declared"], default
    for name, (told, default) in MORE.items():
        yield name, told, default


_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def size_of(text: str) -> int | None:
    """Bytes of a size such as ``65536``, ``64K`` or ``1.5M``; None where it is none. A K is 1024 bytes, ``KB`` and
    ``KiB`` mean the same.

    >>> size_of("1.5K"), size_of("lots")
    (1536, None)
    """
    m = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = math.inf if m is None else float(m[1]) * _UNITS[m[2].upper()]
    return None if m is None or math.isinf(size) else int(size)


def forms_of(text: str, known: str = rf"{WEIGHTS}|auto") -> dict[str, str] | None:
    """The forms, of those ``known``, that a text says of nodes, ``*`` being all of them; None where it says none.

    >>> forms_of("i8,classifier=f32"), forms_of("a,b=i4:64"), forms_of("i9")
    ({'*': 'i8', 'classifier': 'f32'}, {'a,b': 'i4:64'}, None)
    """
    part = rf"(?:(.+?)=)??({known})(?:,|$)"
    if not re.fullmatch(f"(?:{part})+", text) or text.endswith(","):
        return None
    return {name or "*": form for name, form in re.findall(part, text)}


def level_of(text: str) -> str:
    """The name of an optimisation level: ``2``, ``O2`` and ``-O2`` are O2, and so is the number."""
    return f"O{text.removeprefix('-').removeprefix('O')}"


def require_sense(options: Options) -> None:
    """UsageError for values that no option can have."""
    if options.opt_level not in PIPELINES:
        raise UsageError(f"unknown level {options.opt_level!r}", hint=f"known levels: {', '.join(PIPELINES)}")
    if options.stream_rows not in STREAMING:
        raise UsageError(f"rows are streamed {', '.join(STREAMING)}, not {options.stream_rows!r}")
    said = options.io.split(",")
    if not set(said) <= set(IO) or len(set(said)) != len(said) or {"arena", "caller"} <= set(said):
        raise UsageError(
            f"inputs and outputs are in memory of arena or caller, not {options.io!r}",
            hint="with quantized they stay bytes where they can: --io quantized, or --io caller,quantized",
        )
    if options.random not in RANDOM:
        raise UsageError(f"what becomes of random numbers is {' or '.join(RANDOM)}, not {options.random!r}")
    _require_forms(options)
    if options.requant not in REQUANT:
        raise UsageError(f"sums are rounded {' or '.join(REQUANT)}, not {options.requant!r}")
    if options.requant != "exact" and (other := _leaves_out(options, "requantise")):
        raise UsageError(
            f"--requant {options.requant} rounds sums of integers, which {other} computes in floats",
            hint="leave one of the two",
        )
    if not 1 <= options.threads <= MOST_THREADS:
        raise UsageError(f"a step is cut into 1 to {MOST_THREADS} parts, not {options.threads}")
    if options.pthread_pool and options.threads == 1:
        raise UsageError("a network of one part a step has no use for a pool of threads", hint="give --threads N")
    names = [name for name, _ in options.memory]
    for name, size in options.memory:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise UsageError(f"{name!r} is no name for a memory", hint="lower case letters and digits, such as dtcm")
        if names.count(name) > 1:
            raise UsageError(f"the memory {name} is given twice")
        if size < 1:
            raise UsageError(f"the memory {name} has {size} bytes")


def require_kernels(kernels: Mapping[str, str]) -> None:
    """UsageError for operators and kernels that users cannot name. (Our own searches and tests name copies, and
    kernels with their parameters.)"""
    if not kernels:
        return
    from mccompile.kernels.registry import candidates
    from mccompile.ops.registry import operators

    for op, kernel in kernels.items():
        if op not in operators():
            raise UsageError(f"unknown operator {op!r}", hint=f"the operators are: {', '.join(operators())}")
        known = list(dict.fromkeys(v.kernel for v in candidates(op)))
        if kernel not in known:
            raise UsageError(f"{op} has no kernel {kernel!r}", hint=f"its kernels are: {', '.join(known)}")


def _leaves_out(options: Options, rounding: str) -> str:
    """The option that leaves out a pass that rounds; empty if it runs."""
    if options.exact:
        return "--exact"
    return "" if rounding in PIPELINES[options.opt_level] else f"-{options.opt_level}"


def _require_forms(options: Options) -> None:
    """UsageError for forms of weights and products that do not exist, or that other options rule out."""
    kinds = (
        ("--precision", options.precision, "narrow-products", "what products read"),
        ("--weights", options.weights, "narrow-weights", "weights"),
    )
    for option, forms, _, _ in kinds:
        if "auto" in forms.values():
            raise UsageError(f"{option} auto is for compile, check and bench", hint="they say which forms it found")
    for name, form in options.weights.items():
        block = int(form.partition(":")[2] or 32) if re.fullmatch(WEIGHTS, form) else 0
        if not block or (form.startswith("i4") and block % 2):
            hint = "f32, bf16, f16, i8, i4, or with elements to a scale i8:32, i4:32 (of 4 bits an even number)"
            raise UsageError(f"weights of {name} cannot be stored as {form!r}", hint=hint)
    for name, form in options.precision.items():
        if not re.fullmatch(PRECISION, form):
            raise UsageError(f"{name} cannot be computed in {form!r}", hint="f32, bf16 or f16")
    for option, forms, narrowing, what in kinds:
        narrow = {form for form in forms.values() if form != "f32"}
        if narrow and (other := _leaves_out(options, narrowing)):
            raise UsageError(
                f"{option} {min(narrow)} rounds {what}, which {other} does not", hint="leave one of the two"
            )
