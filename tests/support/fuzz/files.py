"""Model files that are damaged: in their graph, their messages, their bytes. What is read ends in C or one error; of
the programs some run, and stay within their memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from mccompile.driver import Options
from mccompile.ops.registry import front_ends
from tests.support.compose.definite import Refused
from tests.support.draw import SeededDraw
from tests.support.fuzz.guarded import Outcome, Work
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.profiles import PROFILES, family
from tests.support.fuzz.trial import judged
from tests.support.opcases import case_model

TARGETS = ("generic", "x86-64-v3", "cortex-m4")
TYPES = [
    getattr(TensorProto, name)
    for name in "FLOAT FLOAT16 DOUBLE BFLOAT16 INT8 INT32 INT64 UINT8 UINT16 UINT64 BOOL STRING COMPLEX64 "
    "FLOAT8E4M3FN INT4".split()
]
NUMBERS = (0, 1, -1, 2, 7, -100, 1000, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 3e38, -1e38, 1e20, 1e10, 1e-20, 1e-45)

Change = Callable[[onnx.ModelProto, random.Random], None]


# -- on graph level -------------------------------------------------------------------------------------------------
def _untyped(model: onnx.ModelProto) -> None:
    """Types that were inferred would only show that something was changed."""
    del model.graph.value_info[:]
    for port in model.graph.output:
        port.ClearField("type")


def _input_type(m: onnx.ModelProto, r: random.Random) -> None:
    r.choice(m.graph.input).type.tensor_type.elem_type = r.choice(TYPES)


def _input_shape(m: onnx.ModelProto, r: random.Random) -> None:
    shape = r.choice(m.graph.input).type.tensor_type.shape
    way = r.randint(0, 3)
    if way == 0:
        shape.dim.add().dim_value = r.choice([0, 1, 2, 3])
    elif way == 1 and shape.dim:
        del shape.dim[r.randrange(len(shape.dim))]
    elif shape.dim:
        shape.dim[r.randrange(len(shape.dim))].dim_value = r.choice([0, 1, 5, 17, -1, 2**31, 2**40])


def _initializer(m: onnx.ModelProto, r: random.Random) -> None:
    tensor = r.choice(m.graph.initializer)
    a = numpy_helper.to_array(tensor)
    if a.dtype.kind not in "fiub":
        return
    kinds = [np.float16, np.float64, np.int8, np.int32, np.int64, np.uint8, np.bool_, np.float32]
    ways: list[Callable[[], np.ndarray]] = [
        lambda: np.nan_to_num(a).astype(r.choice(kinds)),
        lambda: a.reshape(-1),
        lambda: a[..., None],
        lambda: a[:0] if a.ndim else a,
        lambda: np.full_like(a, r.choice([0, 1, 127])),
        lambda: a.reshape(-1)[:1].reshape(()) if a.size else a,
        *[lambda: with_odd_number(a, r)] * 3,
    ]
    with np.errstate(all="ignore"):
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(r.choice(ways)(), order="C"), tensor.name))


def with_odd_number(a: np.ndarray, r: random.Random) -> np.ndarray:
    """One number, or every one, is far from what it was."""
    flat = a.reshape(-1).copy()
    places = slice(None) if r.random() < 0.3 else r.randrange(max(flat.size, 1))
    if flat.size and flat.dtype.kind in "iu":
        info = np.iinfo(flat.dtype)
        flat[places] = r.choice([info.max, info.min, *(n for n in NUMBERS if info.min <= n <= info.max)])
    elif flat.size and flat.dtype.kind == "f":
        flat[places] = r.choice(FLOATS)
    return flat.reshape(a.shape)


def _operands(m: onnx.ModelProto, r: random.Random) -> None:
    node, way = r.choice(m.graph.node), r.randint(0, 5)
    names = [n for other in m.graph.node for n in other.input if n]
    if way == 0 and node.input:
        del node.input[r.randrange(len(node.input))]
    elif way == 1:
        node.input.append(r.choice([*node.input, ""]))
    elif way == 2 and node.input:
        node.input[r.randrange(len(node.input))] = ""
    elif way == 3:
        node.output.append("one_more")
    elif way == 4 and node.input and names:
        node.input[r.randrange(len(node.input))] = r.choice(names)
    elif len(node.input) > 1:
        i, j = r.sample(range(len(node.input)), 2)
        node.input[i], node.input[j] = node.input[j], node.input[i]


def _attribute(m: onnx.ModelProto, r: random.Random) -> None:
    """Left out, of another kind, of another value."""
    nodes = [n for n in m.graph.node if n.attribute]
    if not nodes:
        return
    node = r.choice(nodes)
    attribute, way = r.choice(node.attribute), r.randint(0, 7)
    if way == 0:
        node.attribute.remove(attribute)
    elif way < 4:
        tensor = helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])
        value = r.choice([1.5, "text", [1, 2], [1.5], r.choice(NUMBERS), tensor])
        name = attribute.name
        node.attribute.remove(attribute)
        node.attribute.append(helper.make_attribute(name, value))
    else:
        change_value(attribute, r)


def change_value(attribute: AttributeProto, r: random.Random) -> None:
    if attribute.type == AttributeProto.INT:
        attribute.i = r.choice(NUMBERS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = r.choice(FLOATS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = r.choice([b"NONE", b"unknown", b"", b"\xff\xfe", attribute.s.upper(), attribute.s + b" "])
    elif attribute.type == AttributeProto.INTS:
        numbers = list(attribute.ints)
        at = r.randrange(max(len(numbers), 1))
        one = [*numbers[:at], r.choice(NUMBERS), *numbers[at + 1 :]]
        changed = [numbers[:-1], numbers + numbers[:1], [], [r.choice(NUMBERS) for _ in numbers], one]
        del attribute.ints[:]
        attribute.ints.extend(r.choice(changed))
    elif attribute.type == AttributeProto.FLOATS and attribute.floats:
        attribute.floats[r.randrange(len(attribute.floats))] = r.choice(FLOATS)


def _operator(m: onnx.ModelProto, r: random.Random) -> None:
    node, front_end = r.choice(m.graph.node), r.choice(list(front_ends().values()))
    node.op_type, node.domain = front_end.op_type, front_end.domain
    if front_end.domain and all(o.domain != front_end.domain for o in m.opset_import):
        m.opset_import.append(helper.make_opsetid(front_end.domain, 1))


def _opset(m: onnx.ModelProto, r: random.Random) -> None:
    for opset in m.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = r.choice([1, 5, 7, 9, 10, 11, 12, 13, 16, 18, 22, 28, 40, 0, -1])


def _wiring(m: onnx.ModelProto, r: random.Random) -> None:
    """Nodes in another order, twice, or gone; names twice; outputs of nowhere."""
    nodes, way = list(m.graph.node), r.randint(0, 4)
    if way == 0:
        r.shuffle(nodes)
    elif way == 1:
        nodes.append(r.choice(nodes))
    elif way == 2 and len(nodes) > 1:
        del nodes[r.randrange(len(nodes))]
    elif way == 3:
        m.graph.output.add().name = r.choice(["nowhere", "", *(o for n in nodes for o in n.output)])
    else:
        m.graph.input.add().CopyFrom(r.choice(m.graph.input))
    del m.graph.node[:]
    m.graph.node.extend(nodes)


GRAPH: tuple[Change, ...] = (
    _input_type, _input_type, _input_shape, _input_shape, _initializer, _initializer, _operands, _operands,
    _attribute, _attribute, _attribute, _operator, _operator, _opset, _wiring, _wiring,
)  # fmt: skip


# -- on the level of messages and bytes -----------------------------------------------------------------------------
def _fields(data: bytes) -> Iterable[tuple[int, int, int, int]]:
    """(begin, payload, end, wire type) of the fields of a message; it ends at what is none."""
    at = 0
    while at < len(data):
        begin = at
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 2:
            length, at = _varint(data, at)
            payload, at = at, at + length
        else:
            payload = at
            at = _varint(data, at)[1] if wire == 0 else at + {1: 8, 5: 4}.get(wire, len(data))
        if at > len(data):
            return
        yield begin, payload, at, wire


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 128:
            break
    return value, at


def message_changed(data: bytes, r: random.Random, deep: int = 6) -> bytes:
    """A field, at some depth, twice, left out, of another number, or of another length."""
    fields = list(_fields(data))
    if not fields:
        return data
    begin, payload, end, wire = r.choice(fields)
    if wire == 2 and deep and r.random() < 0.8:
        return data[:payload] + message_changed(data[payload:end], r, deep - 1) + data[end:]
    way = r.randint(0, 4)
    if way == 0:
        return data[:end] + data[begin:]
    if way == 1:
        return data[:begin] + data[end:]
    if way == 2:
        return data[:begin] + bytes([data[begin] ^ (8 << r.randint(0, 3))]) + data[begin + 1 :]
    if way == 3:
        return data[:begin] + bytes([data[begin] ^ r.randint(1, 7)]) + data[begin + 1 :]
    return data[:payload] + bytes(r.randrange(256) for _ in range(r.randint(0, 4))) + data[end:]


def bytes_changed(data: bytes, r: random.Random) -> bytes:
    """Bits flipped, a piece cut, copied or put in."""
    made = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 8])):
        at, way = r.randrange(max(len(made), 1)), r.randint(0, 4)
        if way < 2 and made:
            made[at] ^= 1 << r.randrange(8)
        elif way == 2:
            del made[at : at + r.choice([1, 2, 30])]
        elif way == 3:
            made[at:at] = made[max(at - 20, 0) : at]
        else:
            made[at:at] = bytes(r.randrange(256) for _ in range(r.randint(1, 9)))
    return bytes(made)


# -- the attack ---------------------------------------------------------------------------------------------------
def base(r: random.Random, extents: Sequence[int] = ()) -> onnx.ModelProto:
    """One operator, or a drawn network, in which an axis may be n of these extents."""
    rows = [f for f in front_ends().values() if f.sample is not None]
    while True:
        try:
            if r.random() < 0.3:
                return family(r.randint(0, 10**6), r.choice(list(PROFILES)), extents).model()
            front_end = r.choice(rows)
            assert front_end.sample is not None
            case = front_end.sample(SeededDraw(r.randint(0, 10**6)))
            return case_model(front_end, case, r.choice([23, 23, 24]))
        except (Refused, onnx.shape_inference.InferenceError, KeyError):
            continue


def mutant(seed: int) -> tuple[bytes, str]:
    """A damaged file, and what was done to it."""
    r = random.Random(f"file {seed}")
    model = base(r)
    operators = ", ".join(n.op_type for n in model.graph.node[:6])
    way = r.choice(["graph", "graph", "graph", "message", "bytes"])
    if way == "graph":
        done = []
        for change in r.choices(GRAPH, k=r.choice([1, 1, 2])):
            try:
                change(model, r)
            except (IndexError, ValueError, TypeError):  # nothing there that could be changed so
                continue
            done.append(change.__name__)
            _untyped(model)
        return model.SerializeToString(), f"{operators}: {', '.join(done)}"
    data = model.SerializeToString()
    for _ in range(r.choice([1, 1, 3])):
        data = (message_changed if way == "message" else bytes_changed)(data, r)
    return data, f"{operators}: {way}"


def attack(seed: int) -> Work:
    def work(say: Say, folder: Path) -> Outcome:
        data, what = mutant(seed)
        path = folder / "mutant.onnx"
        path.write_bytes(data)
        r = random.Random(f"options {seed}")
        options = Options(target=r.choice(TARGETS), opt_level=r.choice(["O0", "O2", "O2", "Os"]), name="mutant")
        say(f"{what}; {options.target} {options.opt_level}")
        return judged(path, options, what, folder, r)

    return work
