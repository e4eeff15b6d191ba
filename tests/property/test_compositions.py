"""Compositions of all operators agree with onnxruntime: 3 to 20 nodes, all levels, several targets and compilers.

Seeds are fixed. ``python -m tests.support.compose --seed N`` shows what is wrong with one, made smaller.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from mccompile.ops.registry import front_ends
from tests.support.compose.definite import Refused, require_padding
from tests.support.compose.drawn import composition
from tests.support.compose.judge import expectations
from tests.support.compose.network import Composition, Step
from tests.support.compose.reduce import reduced
from tests.support.compose.run import EMULATED, LEVELS, SETTINGS, Setting, examine, setting_of, subject

SEEDS = range(331)
EMULATED_SEEDS = range(331, 347)


def _check(seeds: list[int], setting: Setting) -> None:
    if not setting.here:
        pytest.skip(f"needs {setting.compiler} and what runs code for {setting.target}")
    findings = examine([subject(s) for s in seeds], setting)
    faults = [f.text() for f in findings if f.kind != "refused"]
    assert not faults, "\n".join(faults)
    refused = [f.text() for f in findings]
    assert len(refused) <= len(seeds) // 10, "\n".join(refused)


@pytest.mark.parametrize("i", range(len(SETTINGS)), ids=lambda i: SETTINGS[i].label)
def test_compositions_agree_with_onnxruntime(i: int) -> None:
    _check([s for s in SEEDS if setting_of(s) == SETTINGS[i] and s % len(SETTINGS) == i], SETTINGS[i])


@pytest.mark.slow
@pytest.mark.parametrize("setting", EMULATED, ids=lambda s: s.label)
def test_compositions_agree_in_an_emulator(setting: Setting) -> None:
    _check(list(EMULATED_SEEDS), setting)


# -- the tests themselves ----------------------------------------------------------------------------------
def test_a_seed_is_a_network_and_its_data() -> None:
    for seed in range(20):
        a, b = composition(seed), composition(seed)
        assert a.model().SerializeToString() == b.model().SerializeToString()
        assert all(np.array_equal(a.inputs[n], b.inputs[n], equal_nan=True) for n in a.inputs)


def test_every_operator_and_level_is_drawn() -> None:
    drawn = [composition(seed) for seed in SEEDS]
    counts = Counter(s.op_type for net in drawn for s in net.steps)
    sampled = {f.op_type for f in front_ends().values() if f.sample is not None and f.domain != "com.microsoft"}
    missing = sampled - set(counts)
    assert len(missing) <= 50, sorted(missing)
    assert min(counts[op] for op in ("Softmax", "ReduceSum", "Conv", "Slice", "Where", "LeakyRelu", "Cast")) > 10
    assert sum(len(net.outputs) > 1 for net in drawn) > 100
    assert 6 < np.median([len(net.steps) for net in drawn]) < 16
    assert {subject(seed).level for seed in range(40)} == set(LEVELS)


def test_a_planted_error_is_found_and_reduced_to_the_node_that_has_it() -> None:
    """The expected sums of one network are made wrong."""
    s = subject(0)
    spoiled = [replace(e, values={n: a + a.dtype.type(1) for n, a in e.values.items()}) for e in s.expected]
    (finding,) = examine([replace(s, expected=spoiled)], SETTINGS[0])
    assert finding.kind == "wrong"
    assert len(expectations(s.net, 0)) == 2
    assert not examine([s], SETTINGS[0])
    unharmed = reduced(finding, most=3)
    assert unharmed.text() == s.net.text(), "nothing is wrong with smaller networks"


def test_a_difference_that_one_rounding_makes_0_is_not_certain() -> None:
    """1 + 3e-7 may have been computed as 1, which is a float of 16 bits; 1.3 has none next to it."""
    steps = [
        Step("Mul", ("x", "one"), ("y",)),
        Step("Cast", ("y",), ("half",), {"to": TensorProto.FLOAT16}),
        Step("Cast", ("half",), ("near",), {"to": TensorProto.FLOAT}),
        Step("Sub", ("y", "near"), ("left",)),
        Step("Cast", ("left",), ("some",), {"to": TensorProto.BOOL}),
    ]
    x, one = np.array([1 + 3e-7, 1.3], np.float32), np.ones(1, np.float32)
    first, *_ = expectations(Composition({"x": x}, {"one": one}, steps, ["some"]), 0)
    assert first.values["some"].tolist() == [True, True]
    assert first.certain["some"].tolist() == [False, True]


def test_what_has_no_one_answer_is_not_judged() -> None:
    matrix, one, byte = np.array([[1, 2], [2, 4]], np.float32), np.float32(1), np.int8(0)
    three, half = np.array([3], np.int8), np.float32(0.5)
    cases: list[tuple[Step, list[Any], str]] = [
        (Step("Inverse", ("x",), ("y",)), [matrix], "without an inverse"),
        (Step("QLinearSoftmax", tuple("xszto"), ("y",)), [byte, one, byte, one, byte], "256 steps"),
        (Step("QuantizeLinear", ("x", "s"), ("y",)), [matrix, np.float32(-1)], "0 or less"),
        (Step("QLinearAdd", tuple("abcdefgh"), ("y",)), [three, half, byte, three, one, byte, one, byte], "a tie"),
    ]
    for step, operands, why in cases:
        values = dict(zip(step.inputs, map(np.asarray, operands), strict=True)) | {"y": np.zeros(1, np.int8)}
        with pytest.raises(Refused, match=why):
            Composition(steps=[step]).require_defined(values)


@pytest.mark.parametrize("op", ["Conv", "FusedConv", "NhwcFusedConv", "MaxPool", "NhwcMaxPool", "QLinearConv"])
def test_padding_of_less_than_nothing_is_known_of_every_window(op: str) -> None:
    """Windows of one element that are three apart, beside those of three: of 8 elements two are left over."""
    last = op.startswith("Nhwc")
    image = np.zeros((1, 8, 8, 2) if last else (1, 2, 8, 8), np.float32)
    place = 0 if "Pool" in op else 3 if op.startswith("QLinear") else 1
    names = ("x", *(f"w{i}" for i in range(1, place + 1)))
    for kernel, refused in (((1, 1), True), ((3, 3), False)):
        own = {} if place else {"kernel_shape": kernel}
        attrs = {"auto_pad": "SAME_UPPER", "strides": (3, 3), **own}
        values = dict.fromkeys(names, image) | ({names[-1]: np.zeros((4, 2, *kernel))} if place else {})
        step = Step(op, names, ("y",), attrs)
        if not refused:
            require_padding(step, values)
            continue
        with pytest.raises(Refused, match="less than nothing"):
            require_padding(step, values)
