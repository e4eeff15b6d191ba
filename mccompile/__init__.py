"""mccompile: an ahead-of-time compiler from ONNX networks to C99."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mccompile._version import __version__

if TYPE_CHECKING:
    from mccompile.driver import Artifacts
    from mccompile.run.network import Network

__all__ = ["__version__", "compile", "load"]


def compile(
    model: str | Path,
    out_dir: str | Path,
    target: str = "native",
    opt_level: str = "O2",
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    keep_inputs: bool = False,
    *,
    name: str = "",
    embed: bool = False,
    package: str = "cmake",
    kernels: Mapping[str, str] | None = None,
    exact: bool = False,
    memory: Mapping[str, int] | None = None,
    ram: int | None = None,
    split_kernels: bool = False,
    constants: Mapping[str, Any] | None = None,
    bounds: Mapping[str, int] | None = None,
    max_blob_growth: float = 4.0,
    plan_effort: int = 1,
    stream_rows: str = "auto",
    stepwise: bool = False,
    io: str = "arena",
    input_formats: Mapping[str, str] | None = None,
    requant: str = "exact",
    state: Mapping[str, str] | None = None,
    random: str = "refuse",
    string_bytes: int = 64,
    tune: bool = False,
    tuning: str | Path | None = None,
) -> Artifacts:
    """Compile an ONNX model into a folder of C99.

    Args:
        model: path of the .onnx file.
        out_dir: folder to write; written completely or not at all.
        target: a name of `mccompile targets`; ``native`` is the best one this machine runs.
        opt_level: O0, O1, O2, O3 or Os.
        dims: extent of each symbolic dimension; the text ``1..128`` is a range of what is given when the program
            runs, ``32..128:32`` one of multiples of 32, ``16,64,128`` numbers to choose from, ``past+1`` what is
            computed of another.
        bounds: the most that extents may be which the network finds out when it runs, or the turns of loops, where an
            error asks for them.
        input_shapes: whole shape of inputs by name: numbers, and names that ``dims`` says more of.
        constants: value of inputs that are the same in every run, by name: a number or an array; the name of a dim
            whose extent it is in every run; or None for an optional one that is absent. The network has no such
            inputs then, and what depends on them is computed when it is compiled.
        state: outputs that are kept as inputs of the next run, output -> input: neither is an input or output of the
            network then.
        random: what becomes of operators that draw random numbers: ``refuse``, an error; or ``input``: their draws
            become further inputs, which the caller fills.
        string_bytes: bytes of UTF-8 that an element of an input may take, where inputs are text.
        keep_inputs: do not reuse the memory of inputs, so that ``run`` may be repeated on them.
        io: where inputs and outputs are: in the ``arena``, or in buffers of the ``caller``, who says where when it
            runs. With ``quantized`` (alone, or as in ``caller,quantized``), those that a network quantises at once,
            or dequantises at last, stay bytes.
        input_formats: what inputs are made of, by name, as ``u8,nhwc,mean=127.5,scale=0.0078``: elements of u8, i8,
            u16 or i16, with ``nhwc`` channels last, of which the model gets (element - mean) * scale; ``1.5:2:2.5``
            is a number for each channel.
        requant: how sums of integers are rounded to 8 bits: ``exact``, each to the nearest, but for ties; or
            ``tflite``, with the bits of TensorFlow Lite's reference kernels.
        memory: several memories for the arena, name -> bytes, the fastest first: the hottest tensors go there.
        plan_effort: how long a smaller arena is searched for, from 0 to 3: each 8 times as long as the one before.
        stream_rows: compute convolutions strip by strip of rows, so that of what lies between them only a few rows
            exist: ``auto`` where it is faster, or ``ram`` or ``memory`` are too small otherwise; ``never``; or
            ``always`` where the arena gets smaller.
        exact: leave out every optimisation that may change how a result is rounded.
        stepwise: also write <model>_run_step, which runs one step: for watchdogs and cooperative tasks.
        max_blob_growth: by what factor the weights may grow for faster kernels (Winograd convolution, at O2 and O3 on
            hosted targets); 0 or 1: not at all.
        kernels: operator -> kernel that must be used where it supports the node (``conv`` -> ``conv.generic``).
        ram: bytes that the arena should not exceed; if it does, slower ways that take less are tried. It is no error
            if they are of no use: see ``report["memory"]["arena_bytes"]``.
        name: prefix of everything generated; by default the file's name.
        split_kernels: one C file per kernel.
        embed: also write the weights as a C array.
        package: the build system that files are laid out for: ``cmake``, ``zephyr``, ``esp-idf``, ``arduino``,
            ``platformio``, ``cmsis-pack`` or ``cargo``.
        tune: measure the kernels that each node could have on this machine, and take the fastest. What was measured
            before is kept in the user's cache, or in the file ``tuning``.
        tuning: file of measurements to choose kernels by.

    Raises:
        mccompile.ir.errors.CompileError: the model cannot be compiled; says where, which rule, what to do.
        mccompile.ir.errors.UsageError: an argument is wrong.
    """
    from mccompile import driver

    options = driver.Options(
        target=target, opt_level=opt_level, dims=dims or {}, input_shapes=input_shapes or {}, keep_inputs=keep_inputs,
        name=name, embed=embed, package=package, kernels=kernels or {}, exact=exact,
        memory=tuple((memory or {}).items()), ram=ram, split_kernels=split_kernels,
        constants=constants or {}, bounds=bounds or {}, max_blob_growth=max_blob_growth,
        plan_effort=plan_effort, stream_rows=stream_rows, stepwise=stepwise, io=io,
        input_formats=input_formats or {}, requant=requant, state=state or {}, string_bytes=string_bytes,
        random=random,
    )  # fmt: skip
    if tune or tuning is not None:
        from mccompile.tune.tune import apply

        options = apply(options, [Path(model)], tune, None if tuning is None else Path(tuning))
    return driver.compile(model, out_dir, options)


def load(out_dir: str | Path, model: str = "") -> Network:
    """Build the C of a folder made by `compile` (cached by content) and load it.

    ``model`` is the name of one, where the folder holds several.

    Raises:
        mccompile.ir.errors.CompileError: no C compiler, or the C does not build.
    """
    from mccompile.run.network import Network

    return Network(Path(out_dir), model=model)
