"""The types of options that functions of `mccompile` take by name.

Written by `make docs` from `mccompile/search/options.py`: do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict


class BuildOptions(TypedDict, total=False):
    target: str
    """A name of `mccompile targets`; ``native`` is the best one this machine runs."""
    opt_level: str | int
    """O0, O1, O2, O3 or Os."""
    dims: Mapping[str, int | str]
    """Extent of each symbolic dimension; the text ``1..128`` is a range of what is given when the program runs,
    ``32..128:32`` one of multiples of 32, ``16,64,128`` numbers to choose from, ``past+1`` what is computed of
    another."""
    bounds: Mapping[str, int]
    """The most that extents may be which the network finds out when it runs, or the turns of loops, where an error
    asks for them."""
    input_shapes: Mapping[str, Sequence[int | str]]
    """Whole shape of inputs by name: numbers, and names that ``dims`` says more of."""
    constants: Mapping[str, Any]
    """Value of inputs that are the same in every run, by name: a number or an array; the name of a dim whose extent
    it is in every run; or None for an optional one that is absent. The network has no such inputs then, and what
    depends on them is computed when it is compiled."""
    state: Mapping[str, str]
    """Outputs that are kept as inputs of the next run, output -> input: neither is an input or output of the network
    then."""
    random: str
    """What becomes of operators that draw random numbers: ``refuse``, an error; or ``input``: their draws become
    further inputs, which the caller fills."""
    string_bytes: int
    """Bytes of UTF-8 that an element of an input may take, where inputs are text."""
    limits: Mapping[str, int]
    """What a model may ask of the compiler, by the names of docs/limits.md, such as ``tensor-elements``."""
    keep_inputs: bool
    """Do not reuse the memory of inputs, so that ``run`` may be repeated on them."""
    io: str
    """Where inputs and outputs are: in the ``arena``, or in buffers of the ``caller``, who says where when it runs.
    With ``quantized`` (alone, or as in ``caller,quantized``), those that a network quantises at once, or dequantises
    at last, stay bytes."""
    input_formats: Mapping[str, str]
    """What inputs are made of, by name, as ``u8,nhwc,mean=127.5,scale=0.0078``: elements of u8, i8, u16 or i16, with
    ``nhwc`` channels last, of which the model gets (element - mean) * scale; ``1.5:2:2.5`` is a number for each
    channel."""
    weights: str | Mapping[str, str]
    """How weights are stored, by the names of nodes (``*`` stands for any text) or operators: ``f32``, ``bf16``,
    ``f16``, ``i8`` or ``i4``; a text such as ``i8,classifier=f32`` means the same. ``i8:32`` has a scale for each 32
    elements of a sum, ``i8`` one for all of them; ``i4`` is ``i4:32``. ``auto``: in as few bits as ``max_error`` on
    ``data`` allows."""
    precision: str | Mapping[str, str]
    """What convolutions and products are computed in, by the names of nodes (``*`` stands for any text) or operators:
    ``f32``, or ``bf16`` or ``f16``, operands rounded to 16 bits and sums of f32, on targets with instructions for
    that, and on ``generic``; a text such as ``bf16,classifier=f32`` means the same. ``auto``: in as few bits as
    ``max_error`` on ``data`` allows."""
    requant: str
    """How sums of integers are rounded to 8 bits: ``exact``, each to the nearest, but for ties; or ``tflite``, with
    the bits of TensorFlow Lite's reference kernels."""
    memory: Mapping[str, int | str]
    """Several memories for the arena, name -> bytes, the fastest first: the hottest tensors go there."""
    plan_effort: int
    """How long a smaller arena is searched for, from 0 to 3: each 8 times as long as the one before."""
    stream_rows: str
    """Compute convolutions strip by strip of rows, so that of what lies between them only a few rows exist: ``auto``
    where it is faster, or ``ram`` or ``memory`` are too small otherwise; ``never``; or ``always`` where the arena
    gets smaller."""
    threads: int
    """The most parts that the work of a step is cut into, which the threads of a pool may do at the same time;
    results are the same bits."""
    exact: bool
    """Leave out every optimisation that may change how a result is rounded."""
    stepwise: bool
    """Also write <model>_run_step, which runs one step: for watchdogs and cooperative tasks."""
    max_blob_growth: float | None
    """By what factor the weights may grow for faster kernels (Winograd's convolutions and Strassen's products, at O2
    and O3 on hosted targets); 0 or 1: not at all; by default as little as has 95 % of what 4 gains."""
    kernels: Mapping[str, str]
    """Operator -> kernel that must be used where it supports the node (``conv`` -> ``conv.generic``)."""
    tune: bool
    """Measure the kernels that each node could have on this machine, and take the fastest. What was measured before
    is kept in the user's cache, or in the file ``tuning``."""
    tuning: str | PathLike[str] | None
    """File of measurements to choose kernels by."""
    max_error: float | None
    """The relative error of outputs that ``weights`` and ``precision`` may cost: what ``auto`` goes up to, and above
    which `check` fails; by default of that, what the forms explain."""
    data: Mapping[str, Any] | Any
    """Inputs that ``auto`` of ``weights`` and ``precision`` is judged by: arrays by name, or the array of the only
    input."""


class InspectOptions(TypedDict, total=False):
    target: str
    """A name of `mccompile targets`; ``native`` is the best one this machine runs."""
    opt_level: str | int
    """O0, O1, O2, O3 or Os."""
    dims: Mapping[str, int | str]
    """Extent of each symbolic dimension; the text ``1..128`` is a range of what is given when the program runs,
    ``32..128:32`` one of multiples of 32, ``16,64,128`` numbers to choose from, ``past+1`` what is computed of
    another."""
    bounds: Mapping[str, int]
    """The most that extents may be which the network finds out when it runs, or the turns of loops, where an error
    asks for them."""
    input_shapes: Mapping[str, Sequence[int | str]]
    """Whole shape of inputs by name: numbers, and names that ``dims`` says more of."""
    constants: Mapping[str, Any]
    """Value of inputs that are the same in every run, by name: a number or an array; the name of a dim whose extent
    it is in every run; or None for an optional one that is absent. The network has no such inputs then, and what
    depends on them is computed when it is compiled."""
    state: Mapping[str, str]
    """Outputs that are kept as inputs of the next run, output -> input: neither is an input or output of the network
    then."""
    random: str
    """What becomes of operators that draw random numbers: ``refuse``, an error; or ``input``: their draws become
    further inputs, which the caller fills."""
    string_bytes: int
    """Bytes of UTF-8 that an element of an input may take, where inputs are text."""
    limits: Mapping[str, int]
    """What a model may ask of the compiler, by the names of docs/limits.md, such as ``tensor-elements``."""
    keep_inputs: bool
    """Do not reuse the memory of inputs, so that ``run`` may be repeated on them."""
    io: str
    """Where inputs and outputs are: in the ``arena``, or in buffers of the ``caller``, who says where when it runs.
    With ``quantized`` (alone, or as in ``caller,quantized``), those that a network quantises at once, or dequantises
    at last, stay bytes."""
    input_formats: Mapping[str, str]
    """What inputs are made of, by name, as ``u8,nhwc,mean=127.5,scale=0.0078``: elements of u8, i8, u16 or i16, with
    ``nhwc`` channels last, of which the model gets (element - mean) * scale; ``1.5:2:2.5`` is a number for each
    channel."""
    weights: str | Mapping[str, str]
    """How weights are stored, by the names of nodes (``*`` stands for any text) or operators: ``f32``, ``bf16``,
    ``f16``, ``i8`` or ``i4``; a text such as ``i8,classifier=f32`` means the same. ``i8:32`` has a scale for each 32
    elements of a sum, ``i8`` one for all of them; ``i4`` is ``i4:32``. ``auto``: in as few bits as ``max_error`` on
    ``data`` allows."""
    precision: str | Mapping[str, str]
    """What convolutions and products are computed in, by the names of nodes (``*`` stands for any text) or operators:
    ``f32``, or ``bf16`` or ``f16``, operands rounded to 16 bits and sums of f32, on targets with instructions for
    that, and on ``generic``; a text such as ``bf16,classifier=f32`` means the same. ``auto``: in as few bits as
    ``max_error`` on ``data`` allows."""
    requant: str
    """How sums of integers are rounded to 8 bits: ``exact``, each to the nearest, but for ties; or ``tflite``, with
    the bits of TensorFlow Lite's reference kernels."""
    memory: Mapping[str, int | str]
    """Several memories for the arena, name -> bytes, the fastest first: the hottest tensors go there."""
    plan_effort: int
    """How long a smaller arena is searched for, from 0 to 3: each 8 times as long as the one before."""
    stream_rows: str
    """Compute convolutions strip by strip of rows, so that of what lies between them only a few rows exist: ``auto``
    where it is faster, or ``ram`` or ``memory`` are too small otherwise; ``never``; or ``always`` where the arena
    gets smaller."""
    threads: int
    """The most parts that the work of a step is cut into, which the threads of a pool may do at the same time;
    results are the same bits."""
    exact: bool
    """Leave out every optimisation that may change how a result is rounded."""
    stepwise: bool
    """Also write <model>_run_step, which runs one step: for watchdogs and cooperative tasks."""
    max_blob_growth: float | None
    """By what factor the weights may grow for faster kernels (Winograd's convolutions and Strassen's products, at O2
    and O3 on hosted targets); 0 or 1: not at all; by default as little as has 95 % of what 4 gains."""
    kernels: Mapping[str, str]
    """Operator -> kernel that must be used where it supports the node (``conv`` -> ``conv.generic``)."""
    ram: int | str | None
    """Bytes that the arena may take, or text such as ``64K``; slower ways that take less are tried before it is an
    error."""
    flash: int | str | None
    """Bytes that the weights may take, or text such as ``512K``; more is an error."""


class CompileOptions(BuildOptions, total=False):
    ram: int | str | None
    """Bytes that the arena may take, or text such as ``64K``; slower ways that take less are tried before it is an
    error."""
    name: str
    """Prefix of everything generated; by default the file's name."""
    split_kernels: bool
    """One C file per kernel."""
    pthread_pool: bool
    """Also write mcc_pool_pthread.c, a pool of POSIX threads for ``threads``."""
    embed: bool
    """Also write the weights as a C array."""
    package: str
    """The build system that files are laid out for: ``cmake``, ``zephyr``, ``esp-idf``, ``arduino``, ``platformio``,
    ``cmsis-pack`` or ``cargo``."""
    flash: int | str | None
    """Bytes that the weights may take, or text such as ``512K``; more is an error."""
    golden: str | PathLike[str] | None
    """Folder for test_<model>.c: inputs and expected outputs, for tests without Python."""
    inputs: Mapping[str, Any] | Any
    """Inputs of the golden test: arrays by name, or the array of the only input."""
