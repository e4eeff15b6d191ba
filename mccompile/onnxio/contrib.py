"""What onnxruntime's own operators (com.microsoft) take, of which ONNX has no schemas. The tables are written by
`tools/write_contrib.py`; a model that breaks it is none that onnxruntime would run.

>>> [(o.variable, o.required) for o in operands("CDist") or ()], sorted((operands("CDist") or ())[0].types)
([('T', True), ('T', True)], ['f32', 'f64'])
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from mccompile._dataclass import dataclass

MICROSOFT: Final = "com.microsoft"

# fmt: off
_TABLE: Final[Mapping[str, tuple[str, str]]] = {
    "Attention": (
        "T T T? M? T? T? M?",
        "T: f32 f16 bf16; M: i32",
    ),
    "BiasAdd": (
        "T T T",
        "T: f16 f32",
    ),
    "BiasDropout": (
        "T T T? T1? T2?",
        "T: f16 f32 f64 bf16; T1: f16 f32 f64 bf16; T2: bool",
    ),
    "BiasGelu": (
        "T T",
        "T: f16 f32 f64 bf16",
    ),
    "BiasSoftmax": (
        "T T",
        "T: f16 f32 f64",
    ),
    "BiasSplitGelu": (
        "T T",
        "T: f16 f32",
    ),
    "CDist": (
        "T T",
        "T: f32 f64",
    ),
    "ConvTransposeWithDynamicPads": (
        "T T i64? T?",
        "T: f16 f32 f64",
    ),
    "DequantizeLinear": (
        "T1 T2 T1?",
        "T1: i8 u8 i16 u16 i32 i4 u4; T2: f16 f32",
    ),
    "DynamicQuantizeLSTM": (
        "T T2 T2 T? T1? T? T? T? T T2 T T2",
        "T: f32; T1: i32; T2: u8 i8",
    ),
    "DynamicQuantizeMatMul": (
        "T1 T2 T1 T2? T1?",
        "T1: f32; T2: i8 u8",
    ),
    "EmbedLayerNormalization": (
        "T1 T1? T T T? T T T1? T1?",
        "T1: i32; T: f32 f16",
    ),
    "ExpandDims": (
        "T i32",
        "T: u8 u16 u32 u64 i8 i16 i32 i64 f16 f32 f64 string bool c64 c128",
    ),
    "FastGelu": (
        "T T?",
        "T: f32 f64 f16 bf16",
    ),
    "FusedConv": (
        "T T T? T?",
        "T: f16 f32 f64",
    ),
    "FusedGemm": (
        "T T T?",
        "T: f16 f32 f64 u32 u64 i32 i64",
    ),
    "FusedMatMul": (
        "T T",
        "T: f16 f32 f64 bf16",
    ),
    "FusedMatMulActivation": (
        "T T",
        "T: f16 f32 f64 bf16",
    ),
    "GatherBlockQuantized": (
        "T1 Tind T2 T1?",
        "T1: i4 u4 u8 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f4e2m1; T2: f32 f16 bf16; Tind: i32 i64",
    ),
    "GatherND": (
        "T Tind",
        "T: u8 u16 u32 u64 i8 i16 i32 i64 f16 f32 f64 string bool c64 c128; Tind: i32 i64",
    ),
    "Gelu": (
        "T",
        "T: f16 f32 f64 bf16",
    ),
    "GemmFastGelu": (
        "T T T?",
        "T: f32 f16 bf16",
    ),
    "GridSample": (
        "T1 T1",
        "T1: u8 u16 u32 u64 i8 i16 i32 i64 f16 f32 f64 string bool c64 c128",
    ),
    "GroupNorm": (
        "T M M",
        "T: f16 f32; M: f16 f32",
    ),
    "GroupQueryAttention": (
        "T T? T? T_CACHE? T_CACHE? M M T? T? i64? T? T? T_KV_SCALE? T_KV_SCALE? T? T? M?",
        "T: f16 bf16 f32; T_CACHE: f32 f16 bf16 u8 i8 f8e4m3fn; T_KV_SCALE: f32; M: i32",
    ),
    "Inverse": (
        "T",
        "T: f16 f32 f64",
    ),
    "MatMulBnb4": (
        "T1 T2 T1",
        "T1: f32 f16 bf16; T2: u8",
    ),
    "MatMulIntegerToFloat": (
        "T1 T2 T3 T3 T1? T2? T3?",
        "T1: i8 u8; T2: i8 u8; T3: f32 f16",
    ),
    "MatMulNBits": (
        "T1 T2 T1 T3? T4? T1?",
        "T1: f32 f16 bf16; T2: u8; T3: u8 f16 f32 bf16; T4: i32",
    ),
    "MultiHeadAttention": (
        "T T? T? T? M? T? T? T? M? M?",
        "T: f32 f16 bf16; M: i32",
    ),
    "NhwcConv": (
        "T T T?",
        "T: f16 f32 f64",
    ),
    "NhwcFusedConv": (
        "T T T? T?",
        "T: f16 f32",
    ),
    "NhwcMaxPool": (
        "T",
        "T: i8 u8",
    ),
    "Pad": (
        "T i64 T?",
        "T: f16 f32 f64",
    ),
    "QAttention": (
        "T1 T2 T3 T3 T3 T4? T1? T2? T3?",
        "T1: i8 u8; T2: i8 u8; T3: f32 f16; T4: i32",
    ),
    "QEmbedLayerNormalization": (
        "T1 T1? T2 T2 T2? T2 T2 T1? T T T? T T T2 T2 T2? T2 T2",
        "T1: i32; T2: i8 u8; T: f32",
    ),
    "QGemm": (
        "TA T TA TB T TB TC? T? TYZ?",
        "T: f32; TA: u8 i8; TB: u8 i8; TC: i32; TYZ: u8 i8",
    ),
    "QLinearAdd": (
        "T f32 T? T f32 T? f32 T?",
        "T: u8 i8",
    ),
    "QLinearAveragePool": (
        "T f32 T? f32 T?",
        "T: u8 i8",
    ),
    "QLinearConcat": (
        "TF T8 TV*",
        "T8: u8 i8; TF: f32; TV: u8 i8 f32",
    ),
    "QLinearConv": (
        "T1 f32 T1 T2 f32 T2 f32 T3 T4?",
        "T1: i8 u8; T2: i8 u8; T3: i8 u8; T4: i32",
    ),
    "QLinearGlobalAveragePool": (
        "T f32 T f32 T",
        "T: u8 i8",
    ),
    "QLinearLeakyRelu": (
        "T f32 T? f32 T?",
        "T: u8 i8",
    ),
    "QLinearMul": (
        "T f32 T? T f32 T? f32 T?",
        "T: u8 i8",
    ),
    "QLinearReduceMean": (
        "T f32 T? f32 T?",
        "T: u8 i8",
    ),
    "QLinearSigmoid": (
        "T f32 T? f32 T?",
        "T: u8 i8",
    ),
    "QLinearSoftmax": (
        "T f32 T? f32 T",
        "T: u8 i8",
    ),
    "QLinearWhere": (
        "B T TF T T TF T TF T",
        "B: bool; TF: f32; T: u8 i8",
    ),
    "QuantizeLinear": (
        "T1 T1 T2?",
        "T1: f16 f32; T2: i8 u8 i16 u16 i4 u4",
    ),
    "QuickGelu": (
        "T",
        "T: f16 f32 f64 bf16",
    ),
    "Range": (
        "T T T?",
        "T: f32 f64 i16 i32 i64",
    ),
    "RotaryEmbedding": (
        "T M T T",
        "T: f32 f16 bf16; M: i64",
    ),
    "SkipGroupNorm": (
        "T M M T T?",
        "T: f16 f32; M: f16 f32",
    ),
    "SkipLayerNormalization": (
        "T T T T? T?",
        "T: f32 f16 bf16",
    ),
    "SkipSimplifiedLayerNormalization": (
        "T T T T?",
        "T: f32 f16 bf16",
    ),
    "TorchEmbedding": (
        "T i64 i64? bool?",
        "T: f16 f32 f64 bf16 u8 u16 u32 u64 i8 i16 i32 i64",
    ),
    "TransposeMatMul": (
        "T T",
        "T: f16 f32 f64 bf16",
    ),
    "Trilu": (
        "T i64?",
        "T: f16 f32 f64 bf16 u8 u16 u32 u64 i8 i16 i32 i64 bool",
    ),
    "UnfoldTensor": (
        "T",
        "T: u8 u16 u32 u64 i8 i16 i32 i64 bf16 f16 f32 f64 string bool c64 c128",
    ),
}
"""By operator: the name of the type of each input (`?`: may be absent, `*`: any number), and what names stand for."""

_DEFAULTS: Final[Mapping[str, Mapping[str, int | float | str]]] = {
    "Attention": {
        "unidirectional": 0,
    },
    "BiasSoftmax": {
        "axis": 1,
    },
    "CDist": {
        "metric": "sqeuclidean",
    },
    "ConvTransposeWithDynamicPads": {
        "auto_pad": "NOTSET",
        "group": 1,
    },
    "DynamicQuantizeLSTM": {
        "direction": "forward",
        "input_forget": 0,
    },
    "EmbedLayerNormalization": {
        "epsilon": 9.999999960041972e-13,
    },
    "FusedConv": {
        "auto_pad": "NOTSET",
        "group": 1,
    },
    "FusedGemm": {
        "alpha": 1.0,
        "beta": 1.0,
        "transA": 0,
        "transB": 0,
    },
    "FusedMatMul": {
        "alpha": 1.0,
        "transA": 0,
        "transB": 0,
        "transBatchA": 0,
        "transBatchB": 0,
    },
    "FusedMatMulActivation": {
        "alpha": 1.0,
        "transA": 0,
        "transB": 0,
        "transBatchA": 0,
        "transBatchB": 0,
    },
    "GatherBlockQuantized": {
        "bits": 4,
        "block_size": 128,
        "gather_axis": 0,
        "quantize_axis": 1,
    },
    "GridSample": {
        "align_corners": 0,
        "mode": "bilinear",
        "padding_mode": "zeros",
    },
    "GroupNorm": {
        "channels_last": 1,
        "epsilon": 9.999999747378752e-06,
    },
    "GroupQueryAttention": {
        "causal": 1,
        "k_quant_type": "NONE",
        "local_window_size": -1,
        "qk_norm_epsilon": 9.999999974752427e-07,
        "qk_output": 0,
        "sliding_window_cache": 0,
        "smooth_softmax": -1,
        "v_quant_type": "NONE",
    },
    "MatMulBnb4": {
        "training_mode": 0,
        "transB": 1,
    },
    "MatMulNBits": {
        "accuracy_level": 0,
        "bits": 4,
        "weight_prepacked": 0,
    },
    "MultiHeadAttention": {
        "unidirectional": 0,
    },
    "NhwcConv": {
        "auto_pad": "NOTSET",
        "group": 1,
    },
    "NhwcFusedConv": {
        "auto_pad": "NOTSET",
        "group": 1,
    },
    "NhwcMaxPool": {
        "auto_pad": "NOTSET",
        "ceil_mode": 0,
    },
    "Pad": {
        "mode": "constant",
    },
    "QAttention": {
        "unidirectional": 0,
    },
    "QEmbedLayerNormalization": {
        "epsilon": 9.999999960041972e-13,
    },
    "QGemm": {
        "alpha": 1.0,
        "transA": 0,
        "transB": 0,
    },
    "QLinearAveragePool": {
        "auto_pad": "NOTSET",
        "ceil_mode": 0,
        "channels_last": 0,
        "count_include_pad": 0,
    },
    "QLinearConv": {
        "auto_pad": "NOTSET",
        "channels_last": 0,
        "group": 1,
    },
    "QLinearGlobalAveragePool": {
        "channels_last": 0,
    },
    "QLinearLeakyRelu": {
        "alpha": 0.009999999776482582,
    },
    "QLinearSoftmax": {
        "axis": -1,
    },
    "QuickGelu": {
        "alpha": 1.7020000219345093,
    },
    "SkipGroupNorm": {
        "channels_last": 1,
        "epsilon": 9.999999747378752e-06,
    },
    "SkipLayerNormalization": {
        "epsilon": 9.999999960041972e-13,
    },
    "SkipSimplifiedLayerNormalization": {
        "epsilon": 9.999999960041972e-13,
    },
    "TransposeMatMul": {
        "alpha": 1.0,
        "transA": 0,
        "transB": 0,
    },
    "Trilu": {
        "upper": 1,
    },
    "UnfoldTensor": {
        "dim": -1,
        "step": 1,
    },
}
# fmt: on
"""By operator: the attributes that have a default, which onnxruntime writes where it saves an optimised network."""


@dataclass(frozen=True)
class Operand:
    """An input or output: those whose types have one name (``variable``) have one type, of ``types``.

    Attributes:
        required: it may not be left out.
        many: it stands for any number of them, of one type where they are ``alike``.
    """

    variable: str
    types: frozenset[str]
    required: bool = True
    many: bool = False
    alike: bool = False
    name: str = ""


@cache
def operands(op: str) -> tuple[Operand, ...] | None:
    """The inputs of an operator; None if the table does not have it."""
    if op not in _TABLE:
        return None
    words, meanings = _TABLE[op]
    types = {name: frozenset(listed.split()) for name, listed in (m.split(": ") for m in meanings.split("; "))}
    found = []
    for word in words.split():
        name = word.rstrip("?*")
        found.append(Operand(name, types.get(name, frozenset({name})), not word.endswith("?"), word.endswith("*")))
    return tuple(found)


def default_of(op: str, attribute: str) -> int | float | str | None:
    """The default of an attribute; None if it has none.

    >>> default_of("Attention", "unidirectional"), default_of("Attention", "num_heads")
    (0, None)
    """
    return _DEFAULTS.get(op, {}).get(attribute)
