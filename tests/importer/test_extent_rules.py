"""Arithmetic on extents: what is computed of symbols is, in each run, what onnxruntime computes of its numbers."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from mccompile.importer.extent_rules import MAX_NUMBERS
from mccompile.importer.extents import computed
from mccompile.ir.dims import Dim, symbol, symbols, value, varies
from mccompile.ir.types import BOOL, DTYPES, F32, I64
from mccompile.onnxio import OnnxNode, dtype_number
from mccompile.ops.extents import holds
from tests.support.judge import plain_session

Array = np.ndarray[Any, Any]
DRAWS = 60
"""Nodes of each operator."""
FAR = (-(2**63), -9, -1, 0, 1, 9, 2**63 - 1)


class Drawn:
    """One node: its operands, of which those of index and shape are plain, and its attributes."""

    def __init__(self, seed: str) -> None:
        self.r = random.Random(seed)
        self.dtype = self.r.choice(["i64", "i64", "i32", "f32", "f64"])
        low = self.r.choice([0, 1, 1, 2, 5])
        self.n, self.m = symbol("n", low, low + 3), symbol("m", 1, 4)
        self.outputs = 1

    def number(self) -> int:
        n, m, r = self.n, self.m, self.r
        plain = [r.randint(-9, 9), r.randint(0, 4), r.choice([0, 1, -1, 100_000, 2**31, 2**40])]
        found = r.choice([n, n, m, n + m, n * 2, n * m, n - 3, -n, n // 2, n + 1, *plain])
        return found * r.choice([3, 70_000, 2**21]) if r.random() < 0.15 else found

    def numbers(self, *shape: int) -> Array:
        found = np.empty(shape, object)
        for i in range(found.size):
            found.reshape(-1)[i] = self.number()
        return found

    def shape(self) -> tuple[int, ...]:
        return self.r.choice([(self.r.randint(1, 4),), (1,), ()])

    def one_of(self, *given: Any) -> Any:
        return self.r.choice(given)


Node = tuple[list[Array | None], dict[str, Any]]


def _plain(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def _gather(d: Drawn) -> Node:
    k = d.r.randint(1, 4)
    return [d.numbers(k), np.array(d.one_of(d.r.randint(-k, k - 1), [0, -1, -k]))], d.one_of({}, {"axis": -1})


def _slice(d: Drawn) -> Node:
    step = d.one_of(1, 1, -1, 2, -2)
    # onnxruntime takes the largest end for the last element of a walk backwards, too; the standard does not
    end = d.one_of(*FAR[: len(FAR) if step > 0 else -1])
    window = [_plain(n) for n in (d.one_of(*FAR), end)]
    axes = d.one_of(None, _plain(0), _plain(-1))
    return [d.numbers(d.r.randint(1, 4)), *window, *d.one_of([axes, _plain(step)], [axes], [])], {}


def _concat(d: Drawn) -> Node:
    return [d.numbers(d.r.randint(0, 3)) for _ in range(d.r.randint(1, 3))], {"axis": d.one_of(0, -1)}


def _split(d: Drawn) -> Node:
    d.outputs = d.r.randint(1, 3)
    if d.one_of(True, False):
        absent: list[Array | None] = d.one_of([], [None])
        return [d.numbers(d.outputs + d.r.randint(0, d.outputs - 1) // 2), *absent], {"num_outputs": d.outputs}
    sizes = [d.r.randint(0, 2) for _ in range(d.outputs)]
    return [d.numbers(sum(sizes)), _plain(*sizes)], {}


def _reshape(d: Drawn) -> Node:
    k = d.r.randint(1, 4)
    return [d.numbers(k), d.one_of(_plain(-1), _plain(k), _plain(1, k), _plain(1, -1), _plain(0), _plain(0, 1))], {}


def _expand(d: Drawn) -> Node:
    return [d.numbers(*d.shape()), d.one_of(_plain(1), _plain(2, 1), _plain(), _plain(0))], {}


def _transpose(d: Drawn) -> Node:
    return [d.numbers(2, d.r.randint(1, 3))], d.one_of({}, {"perm": (0, 1)}, {"perm": (1, 0)})


def _tile(d: Drawn) -> Node:
    return [d.numbers(d.r.randint(1, 4)), _plain(d.r.randint(0, 3))], {}


def _squeeze(d: Drawn) -> Node:
    return [d.numbers(*d.one_of((1,), (1, 3), (3, 1))), *d.one_of([], [_plain(0)], [_plain(-1)])], {}


def _unsqueeze(d: Drawn) -> Node:
    return [d.numbers(*d.shape()), d.one_of(_plain(0), _plain(-1), _plain(0, 1))], {}


def _cast(d: Drawn) -> Node:
    to = d.one_of("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64", "bool")
    return [d.numbers(*d.shape())], {"to": dtype_number(to)}


def _one(d: Drawn) -> Node:
    return [d.numbers(*d.shape())], {}


def _rounded(d: Drawn) -> Node:
    d.dtype = d.one_of("f32", "f64")
    return _one(d)


def _two(d: Drawn) -> Node:
    shape = d.shape()
    shapes = d.one_of([shape, shape], [shape, (1,)], [(), shape], [(3, 1), (2,)])
    return [d.numbers(*s) for s in shapes], {}


def _mod(d: Drawn) -> Node:
    operands, _ = _two(d)
    return operands, {"fmod": 1} if d.dtype[0] == "f" else d.one_of({}, {"fmod": 0}, {"fmod": 1})


def _several(d: Drawn) -> Node:
    operands, _ = _two(d)
    return d.one_of(operands, operands[:1], [*operands, d.numbers(1)]), {}


def _clip(d: Drawn) -> Node:
    operands = [d.numbers(*d.shape()), d.one_of(None, d.numbers()), d.one_of(None, d.numbers())]
    while operands[-1] is None:
        operands.pop()
    return operands, {}


def _reduce(d: Drawn) -> Node:
    axes = d.one_of([], [None], [_plain(0)], [_plain(-1)], [_plain()])
    attrs = d.one_of({}, {"keepdims": 0}) | d.one_of({}, {"noop_with_empty_axes": 1})
    return [d.numbers(d.r.randint(1, 4)), *axes], attrs


def _where(d: Drawn) -> Node:
    shape = d.shape()
    return [np.array(d.r.choices([True, False], k=int(np.prod(shape)))).reshape(shape), *_two(d)[0]], {}


def _power(d: Drawn) -> Node:
    return [d.numbers(*d.shape()), np.array(d.one_of(0, 1, 2, 2, 3), DTYPES[d.dtype].numpy)], {}


def _running(d: Drawn) -> Node:
    attrs = d.one_of({}, {"exclusive": 1}) | d.one_of({}, {"reverse": 1})
    return [d.numbers(d.r.randint(1, 4)), np.array(d.one_of(0, -1))], attrs


def _flatten(d: Drawn) -> Node:
    shape = d.one_of((3,), (2, 3), ())
    return [d.numbers(*shape)], d.one_of({}, {"axis": 0}, {"axis": -1}) if shape else {"axis": 0}


def _compress(d: Drawn) -> Node:
    k = d.r.randint(1, 4)
    return [d.numbers(k), np.array(d.r.choices([True, False], k=d.r.randint(1, k)))], d.one_of({}, {"axis": 0})


def _places(d: Drawn, extent: int, count: int) -> list[int]:
    return [at - d.one_of(0, extent) for at in d.r.sample(range(extent), count)]


def _gather_elements(d: Drawn) -> Node:
    k = d.r.randint(1, 4)
    return [d.numbers(k), _plain(*_places(d, k, d.r.randint(1, k)))], d.one_of({}, {"axis": -1})


def _gather_nd(d: Drawn) -> Node:
    k = d.r.randint(1, 4)
    return [d.numbers(k, 2), d.one_of(_plain(d.r.randrange(k)), _plain(d.r.randrange(k), 1))], {}


def _scatter_elements(d: Drawn) -> Node:
    k = d.r.randint(1, 4)
    at = _places(d, k, d.r.randint(1, k))
    reduced: dict[str, Any] = {"reduction": "add"}
    return [d.numbers(k), _plain(*at), d.numbers(len(at))], d.one_of({}, {"axis": -1}, {}, reduced)


def _scatter_nd(d: Drawn) -> Node:
    k = d.r.randint(1, 4)
    at = _places(d, k, d.r.randint(1, k))
    return [d.numbers(k), _plain(*at).reshape(-1, 1), d.numbers(len(at))], d.one_of({}, {"reduction": "none"})


def _pad(d: Drawn) -> Node:
    k, mode = d.r.randint(2, 4), d.one_of("constant", "constant", "edge", "reflect")
    value = d.one_of([], [d.numbers()]) if mode == "constant" else []
    return [d.numbers(k), _plain(d.r.randint(-1, 1), d.r.randint(0, 1)), *value], {"mode": mode}


COMPARED = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
REDUCED = ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")
CASES: dict[str, Callable[[Drawn], Node]] = {
    "Gather": _gather, "Slice": _slice, "Concat": _concat, "Split": _split, "Reshape": _reshape, "Expand": _expand,
    "Transpose": _transpose, "Tile": _tile, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Cast": _cast, "Mod": _mod,
    "Identity": _one, "Neg": _one, "Abs": _one, "Sign": _one, "Floor": _rounded, "Ceil": _rounded, "Round": _rounded,
    "Add": _two, "Sub": _two, "Mul": _two, "Div": _two, "Min": _several, "Max": _several, "Clip": _clip,
    "Where": _where, "Pow": _power, "Relu": _one, "CumSum": _running, "Flatten": _flatten, "Compress": _compress,
    "GatherElements": _gather_elements, "GatherND": _gather_nd, "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd, "Pad": _pad,
    **dict.fromkeys(COMPARED, _two), **dict.fromkeys(REDUCED, _reduce),
}  # fmt: skip


@pytest.mark.parametrize("op", CASES)
def test_symbols_are_numbers_of_each_run(op: str) -> None:
    ended = Counter(_ended(op, seed) for seed in range(DRAWS))
    assert ended["equal"] >= DRAWS // 10, ended


def _ended(op: str, seed: int) -> str:
    d = Drawn(f"{op} {seed}")
    drawn, attrs = CASES[op](d)
    dtype = DTYPES[d.dtype]
    operands = [a if a is None or a.dtype != object else _of_type(a, d.dtype) for a in drawn]
    if not any(_varies(a) for a in operands):
        return "nothing varies"
    if not all(holds(dtype, *a.reshape(-1)) for a in operands if _varies(a)):
        return "no such operands"
    names = tuple("" if a is None else f"x{i}" for i, a in enumerate(operands))
    node = OnnxNode(op, names, tuple(f"y{i}" for i in range(d.outputs)), attrs=attrs)
    found = computed(node, operands, dtype)
    to = BOOL if op in COMPARED else DTYPES[_name(attrs["to"])] if op == "Cast" else dtype
    if found is None or not all(holds(to, *part.reshape(-1)) for part in found):
        return "not computed"
    for values in _runs(operands):
        numbers = [a if a is None or not _varies(a) else _at(a, values).astype(dtype.numpy) for a in operands]
        wanted = _by_onnxruntime(node, numbers)
        for part, right in zip(found, wanted, strict=True):
            assert part.shape == right.shape, (node, operands, values)
            assert _at(part, values).astype(right.dtype).tolist() == right.tolist(), (node, operands, values)
    return "equal"


def _name(number: int) -> str:
    return next(name for name in DTYPES if dtype_number(name) == number)


def _of_type(numbers: Array, dtype: str) -> Array:
    if varies(numbers.reshape(-1)):
        return numbers
    return numbers.astype(np.float64 if dtype[0] == "f" else np.int64).astype(DTYPES[dtype].numpy)


def _varies(array: Array | None) -> bool:
    return array is not None and array.dtype == object


def _runs(operands: Sequence[Array | None]) -> list[dict[str, int]]:
    names = symbols(*(n for a in operands if a is not None and a.dtype == object for n in a.reshape(-1)))
    return [
        {s.name: n for s, n in zip(names, at, strict=True)} for at in itertools.product(*(s.values for s in names))
    ]


def _at(array: Array, values: dict[str, int]) -> Array:
    found = np.empty(array.shape, object)
    for i, n in enumerate(array.reshape(-1)):
        found.reshape(-1)[i] = value(n, values) if isinstance(n, Dim) else n
    return found


def _by_onnxruntime(node: OnnxNode, operands: Sequence[Array | None]) -> list[Array]:
    given = {name: a for name, a in zip(node.inputs, operands, strict=True) if a is not None}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in given.items()
    ]
    made = helper.make_node(node.op_type, node.inputs, node.outputs, **node.attrs)
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs]
    graph = helper.make_graph([made], "one", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return plain_session(model.SerializeToString()).run(None, given)


N = symbol("n", 1, 8)


def _of(*numbers: int) -> Array:
    return np.array([*numbers, None], object)[:-1]


def _node(op: str, count: int = 2, **attrs: Any) -> OnnxNode:
    return OnnxNode(op, tuple("abc"[:count]), ("y",), attrs=attrs)


def test_what_a_type_does_not_have_is_left_to_the_program() -> None:
    assert not holds(DTYPES["u8"], symbol("n", 1, 256))
    assert not holds(BOOL, N)
    assert not holds(F32, N * 2**22)
    assert holds(F32, N * 2**21)
    assert computed(_node("ReduceSum", 1), [_of(N * 2**21, N, -(N * 2**21))], F32) is None  # rounded on the way
    assert computed(_node("ReduceSum", 1), [_of(N * 2**21, N, -(N * 2**21))], I64) is not None


def test_steps_without_axes_are_steps() -> None:
    """``x.shape[::-1]``: what is absent keeps its place."""
    n = symbol("n", 1, 8)
    node = OnnxNode("Slice", ("x", "starts", "ends", "", "steps"), ("y",))
    found = computed(node, [_of(n, 3, 2), _plain(-1), _plain(-9), None, _plain(-1)])
    assert found is not None
    assert found[0].tolist() == [2, 3, n]


def test_an_order_that_depends_on_the_run_is_left_to_the_program() -> None:
    """Also that to 1, though no axis that varies is taken for one of extent 1."""
    for op in COMPARED:
        assert computed(_node(op), [_of(N), _plain(1)]) is None or op in ("Less", "GreaterOrEqual")
    assert computed(_node("Equal"), [_of(N), _plain(0)]) == [np.zeros(1, object)]


def test_no_more_numbers_than_are_followed() -> None:
    """Before there is memory for them, or time."""
    many = np.broadcast_to(_of(N), (MAX_NUMBERS,))
    assert computed(_node("Tile"), [_of(N), _plain(2**40)]) is None
    assert computed(_node("Tile"), [_of(N).reshape(1, 1), _plain(2**40, 0)]) is None
    assert computed(_node("Expand"), [_of(N), _plain(2**40)]) is None
    assert computed(_node("Max", 3), [many[:, None, None], many[:, None], many]) is None
    assert computed(_node("Where", 3), [many == 0, many[:, None, None], many[:, None]]) is None
    assert computed(_node("Concat"), [many, many], I64) is None


def test_no_longer_expressions_than_are_followed() -> None:
    power: Array | None = _of(symbol("b", 0, 1))
    steps = 0
    while power is not None:
        found = computed(_node("Mul"), [power, power])
        power, steps = (found[0] if found else None), steps + 1
    assert steps < 10
    long: Array | None = _of(symbol("n", 1, 10**6))
    for k in range(100):
        if long is None:
            return
        most = computed(_node("Max"), [long, _plain(3 * k + 2)])
        rest = computed(_node("Mod"), [most[0], _plain(k + 2)]) if most else None
        found = computed(_node("Add"), [long, rest[0]]) if rest else None
        long = found[0] if found else None
    pytest.fail("an expression of any length is followed")
