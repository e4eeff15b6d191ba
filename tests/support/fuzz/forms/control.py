"""If, Loop and Scan, whose sub-graphs read values of the graph around them; loops with states, rows and lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support.compose import operands as on
from tests.support.compose.definite import Array, Refused
from tests.support.fuzz.family import MAIN, FamilyComposer

TURNS = (0, 1, 3, 20)


def _port(name: str, like: Array, rank: int | None = None) -> onnx.ValueInfoProto:
    """A float of a rank, its extents unknown."""
    kind = helper.np_dtype_to_tensor_dtype(like.dtype)
    return helper.make_tensor_value_info(name, kind, [None] * (like.ndim if rank is None else rank))


def _flag(name: str, shape: Sequence[int] = ()) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.BOOL, shape)


def _count(name: str, shape: Sequence[int] = ()) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, shape)


def branch(c: FamilyComposer) -> list[str]:
    """If on an input or on a sum; one of its sides may only pass a value on, or have an If of its own."""
    v = c.some()
    condition = c.input(np.array(c.d.bool()))
    if c.d.bool():
        condition = c.one("Greater", c.one("ReduceSum", v, keepdims=0), c.scalar(0, c.array(v).dtype))
    elif c.chance(30):
        condition = _of_several(c, condition)
    sides = [_side(c, v, condition, f"s{c.count}_{i}", 1) for i in range(2)]
    return c.apply("If", [condition], captured=(v, condition), then_branch=sides[0], else_branch=sides[1])


def _of_several(c: FamilyComposer, condition: str) -> str:
    """A condition that others lie beside, which somebody else reads: one part of a tensor, or in a tensor later."""
    if c.d.bool():
        flags = c.one("Not", c.input(np.array([c.d.bool() for _ in range(3)])))
        first, others = c.apply("Split", [flags, c.ints(1, 2)], outputs=2, axis=0)
        c.one("And", others, c.one("Unsqueeze", condition, c.ints(0)))
        return first
    found = c.one("Not", c.one("Unsqueeze", condition, c.ints(0)))
    c.one("Concat", found, c.constant(np.array([True, False])), axis=0)
    return found


def _side(c: FamilyComposer, v: str, condition: str, name: str, deeper: int) -> onnx.GraphProto:
    if deeper and c.chance(15):
        inner = [_side(c, v, condition, f"{name}{i}", 0) for i in range(2)]
        nodes = [helper.make_node("If", [condition], [name], then_branch=inner[0], else_branch=inner[1])]
    elif c.chance(30):
        nodes = [helper.make_node("Identity", [v], [name])]
    else:
        op = c.d.choice(["Relu", "Neg", "Abs", "Identity", "Tanh", "Exp"])
        nodes = [helper.make_node(op, [v], [f"{name}a"])]
        nodes.append(helper.make_node(c.d.choice(["Add", "Sub", "Max"]), [f"{name}a", v], [name]))
    return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=name)])


def among_windows(c: FamilyComposer) -> list[str]:
    """If whose sides see a value, and make one, by reshapes; convolutions outside read both of them."""
    channels, size = c.d.choice([1, 2, 4]), c.d.choice([(6, 7), (5, 16), (19,)])
    shape = (1, channels, *size)
    v = on.mapped(c, c.fresh(np.asarray(c.d.array(shape, "f32", -2, 2))))
    rows, back = c.ints(c.d.choice([channels, int(np.prod(size))]), -1), c.ints(*shape)
    condition, along = c.input(np.array(c.d.bool())), c.ints(c.d.int(0, 1))
    sides = []
    for name in (f"w{c.count}_{i}" for i in range(2)):
        nodes = [
            helper.make_node("Reshape", [v, rows], [f"{name}r"]),
            helper.make_node(c.d.choice(["Neg", "Abs", "Tanh"]), [f"{name}r"], [f"{name}m"]),
            helper.make_node("ReduceMax", [f"{name}r", along], [f"{name}l"]),
            helper.make_node("Sub", [f"{name}m", f"{name}l"], [f"{name}s"]),
            helper.make_node("Reshape", [f"{name}s", back], [name]),
        ]
        sides.append(helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=name)]))
    captured = (v, rows, back, along)
    (made,) = c.apply("If", [condition], captured=captured, then_branch=sides[0], else_branch=sides[1])
    read = []
    for value in (v, made):
        kernel = (c.d.choice([1, 4]), channels, *(3 for _ in size))
        weights = on.constant_like(c, np.asarray(c.d.array(kernel, "f32", -0.5, 0.5)))
        read.append(c.one("Conv", value, weights, pads=[1] * (2 * len(size))))
    return read


def loop(c: FamilyComposer) -> list[str]:
    """A state that is halved with a value of the outer graph each turn; perhaps rows, another state, an early end.
    The number of the turn may have an axis."""
    v, k = c.some(), c.count
    a = c.array(v)
    shape = (1,) if c.chance(20) else ()
    half, turns = c.scalar(0.5, a.dtype), np.array(c.d.choice(TURNS), np.int64)
    most = c.constant(turns) if c.d.bool() else c.input(turns)
    states = [c.one("Mul", v, half) if c.d.bool() else v]
    op = c.d.choice(["Add", "Sub", "Max"])
    nodes = [
        helper.make_node(op, [f"s{k}", v], [f"a{k}"]),
        helper.make_node("Mul", [f"a{k}", half], [f"so{k}"]),
    ]
    begin, ends, rows = [_port(f"s{k}", a)], [_port(f"so{k}", a)], []
    captured = [v, half]
    if c.chance(30):  # a second state, that of the turn before
        states.append(v)
        nodes.append(helper.make_node("Identity", [f"s{k}"], [f"to{k}"]))
        begin.append(_port(f"t{k}", a))
        ends.append(_port(f"to{k}", a))
        nodes.append(helper.make_node("Add", [f"so{k}", f"t{k}"], [f"both{k}"]))
        rows.append(_port(f"both{k}", a))
    if c.d.bool():
        nodes.append(helper.make_node("ReduceSum", [f"so{k}"], [f"row{k}"], keepdims=0))
        rows.append(_port(f"row{k}", a, 0))
    if c.chance(25):
        nodes.append(helper.make_node("Identity", [f"i{k}"], [f"turn{k}"]))
        rows.append(_count(f"turn{k}", shape))
    if c.chance(25):
        last = c.index(c.d.choice([0, 2, 9]))
        nodes.append(helper.make_node("Less", [f"i{k}", last], [f"co{k}"]))
        captured.append(last)
    else:
        nodes.append(helper.make_node("Identity", [f"ci{k}"], [f"co{k}"]))
    going = "" if c.d.bool() else c.constant(np.ones(shape, bool))
    body = helper.make_graph(
        nodes, "body", [_count(f"i{k}", shape), _flag(f"ci{k}", shape), *begin],
        [_flag(f"co{k}", shape), *ends, *rows],
    )  # fmt: skip
    outputs = len(states) + len(rows)
    return c.apply("Loop", [most, going, *states], outputs=outputs, captured=captured, body=body)


def counted(c: FamilyComposer) -> list[str]:
    """A while that counts by itself, and that data may end before: rows that are taken and written by the count."""
    v, k = c.some(), c.count
    a = c.array(v)
    length = c.one("Gather", c.one("Shape", v), c.index(0))
    begin, step = c.index(c.d.choice([0, 0, 1])), c.index(c.d.choice([1, 1, 2]))
    limit = length if c.chance(60) else c.index(c.d.choice([1, 3, a.shape[0]]))
    half, high = c.scalar(0.5, a.dtype), c.scalar(c.d.choice([-1.0, 0.3, 2.0, 1000.0]), a.dtype)
    zero, one, end = c.ints(0), c.ints(1), c.ints(2**31 - 1)
    node = helper.make_node
    nodes = [
        *_next(c, f"k{k}", step, f"n{k}"),
        node("Gather", [v, f"k{k}"], [f"row{k}"]), node("ReduceMax", [f"row{k}"], [f"top{k}"], keepdims=0),
        node("Mul", [f"s{k}", half], [f"h{k}"]), node("Add", [f"h{k}", f"top{k}"], [f"so{k}"]),
        node("Reshape", [f"k{k}", one], [f"at{k}"]), node("Add", [f"at{k}", one], [f"behind{k}"]),
        node("Slice", [f"r{k}", f"at{k}", f"behind{k}", zero], [f"part{k}"]),
        node("Mul", [f"part{k}", half], [f"new{k}"]),
    ]  # fmt: skip
    if c.d.bool():
        nodes += [
            node("Slice", [f"r{k}", zero, f"at{k}", zero], [f"left{k}"]),
            node("Slice", [f"r{k}", f"behind{k}", end, zero], [f"right{k}"]),
            node("Concat", [f"left{k}", f"new{k}", f"right{k}"], [f"ro{k}"], axis=0),
        ]  # fmt: skip
    else:
        nodes.append(node("Reshape", [f"at{k}", c.ints(1, 1)], [f"place{k}"]))
        nodes.append(node("ScatterND", [f"r{k}", f"place{k}", f"new{k}"], [f"ro{k}"]))
    nodes.append(node("Less", [f"n{k}", limit], [f"below{k}"]))
    nodes += [node("Greater", [f"so{k}", high], [f"g{k}"]), node("Not", [f"g{k}"], [f"low{k}"])]
    sides = [f"below{k}", f"low{k}"]
    nodes.append(node("And", sides if c.d.bool() else sides[::-1], [f"co{k}"]))
    ports = [_count(f"k{k}"), _port(f"s{k}", a, 0), _port(f"r{k}", a)]
    made = [_count(f"n{k}"), _port(f"so{k}", a, 0), _port(f"ro{k}", a)]
    rows = [_port(f"so{k}x", a, 0)] if c.d.bool() else []
    nodes += [node("Identity", [f"so{k}"], [f"so{k}x"])] if rows else []
    body = helper.make_graph(
        nodes, "body", [_count(f"i{k}"), _flag(f"ci{k}"), *ports], [_flag(f"co{k}"), *made, *rows]
    )
    inside = {name for n in nodes for name in n.input} - {name for n in nodes for name in n.output}
    captured = sorted(inside - {p.name for p in body.input})
    most = c.index(c.d.choice([30, 2**40]))
    states = [begin, c.scalar(0, a.dtype), v]
    return c.apply("Loop", [most, "", *states], outputs=3 + len(rows), captured=captured, body=body)


def nested(c: FamilyComposer) -> list[str]:
    """A while that counts by itself in a loop of few turns; its count may grow by more in each turn."""
    v, k = c.some(), c.count
    a = c.array(v)
    half, step, limit = c.scalar(0.5, a.dtype), c.index(c.d.choice([1, 2])), c.index(c.d.choice([5, 60, 500]))
    by = f"g{k}" if c.d.bool() else step
    node = helper.make_node
    nodes = [
        node("Add", [f"i{k}", step], [f"g{k}"]), node("Add", [f"k{k}", by], [f"n{k}"]),
        node("Less", [f"n{k}", limit], [f"co{k}"]), node("Add", [f"s{k}", v], [f"b{k}"]),
        node("Mul", [f"b{k}", half], [f"so{k}"]),
    ]  # fmt: skip
    inner = helper.make_graph(
        nodes, "inner", [_count(f"i{k}"), _flag(f"ci{k}"), _count(f"k{k}"), _port(f"s{k}", a)],
        [_flag(f"co{k}"), _count(f"n{k}"), _port(f"so{k}", a)],
    )  # fmt: skip
    begin, yes = c.index(0), c.constant(np.array(True))
    outer = [
        node("Loop", ["", yes, begin, f"t{k}"], [f"last{k}", f"to{k}"], body=inner),
        node("Identity", [f"oc{k}"], [f"oo{k}"]),
    ]  # fmt: skip
    body = helper.make_graph(
        outer, "body", [_count(f"o{k}"), _flag(f"oc{k}"), _port(f"t{k}", a)],
        [_flag(f"oo{k}"), _port(f"to{k}", a), _count(f"last{k}")],
    )  # fmt: skip
    captured = sorted({v, half, step, limit, begin, yes})
    turns = c.constant(np.array(c.d.choice([1, 2, 3]), np.int64))
    return c.apply("Loop", [turns, "", v], outputs=2, captured=captured, body=body)


def _next(c: FamilyComposer, before: str, step: str, after: str) -> list[onnx.NodeProto]:
    """A count and ``step`` more, as exporters write it: cast, and with an assignment that adds 0. Floats would be off
    by the noise, and count to the same number for ever."""
    node, zero = helper.make_node, c.ints(0)
    if c.d.bool():
        return [node("Add", [before, step], [after])]
    return [
        node("Cast", [before], [f"{after}a"], to=TensorProto.INT32),
        node("Cast", [step], [f"{after}b"], to=TensorProto.INT32),
        node("Add", [f"{after}a", f"{after}b"], [f"{after}c"]),
        node("Cast", [f"{after}c"], [f"{after}d"], to=TensorProto.INT64),
        node("Unsqueeze", [f"{after}d", zero], [f"{after}e"]), node("Add", [f"{after}e", zero], [f"{after}f"]),
        node("Squeeze", [f"{after}f"], [after]),
    ]  # fmt: skip


def listed(c: FamilyComposer) -> list[str]:
    """A Loop that gathers its results in a sequence, of which one tensor is made. A branch may ask how long it is."""
    v, k = c.some(), c.count
    a = c.array(v)
    kind = helper.np_dtype_to_tensor_dtype(a.dtype)
    sequence = helper.make_tensor_sequence_value_info
    nodes, factor, captured = [helper.make_node("Cast", [f"i{k}"], [f"f{k}"], to=kind)], f"f{k}", [v]
    if c.chance(30):
        asked = [
            helper.make_node("SequenceLength", [f"l{k}"], [f"n{k}l"]),
            helper.make_node("Cast", [f"n{k}l"], [f"yes{k}"], to=kind),
        ]
        sides = {
            "then_branch": helper.make_graph(asked, "then", [], [onnx.ValueInfoProto(name=f"yes{k}")]),
            "else_branch": helper.make_graph(
                [helper.make_node("Neg", [factor], [f"no{k}"])], "else", [], [onnx.ValueInfoProto(name=f"no{k}")]
            ),
        }
        captured.append(c.input(np.array(c.d.bool())))
        nodes.append(helper.make_node("If", captured[1:], [f"q{k}"], **sides))
        factor = f"q{k}"
    nodes += [
        helper.make_node("Mul", [v, factor], [f"m{k}"]),
        helper.make_node("SequenceInsert", [f"l{k}", f"m{k}"], [f"lo{k}"]),
        helper.make_node("Identity", [f"ci{k}"], [f"co{k}"]),
    ]
    body = helper.make_graph(
        nodes, "body", [_count(f"i{k}"), _flag(f"ci{k}"), sequence(f"l{k}", kind, None)],
        [_flag(f"co{k}"), sequence(f"lo{k}", kind, None)],
    )  # fmt: skip
    outer = [
        helper.make_node("SequenceEmpty", [], [f"e{k}"], dtype=kind),
        helper.make_node("Loop", [f"n{k}", "", f"e{k}"], [f"all{k}"], body=body),
        helper.make_node("ConcatFromSequence", [f"all{k}"], [f"r{k}"], axis=0, new_axis=c.d.int(0, 1)),
    ]
    # What has no tensor between its nodes is one step: an If that always takes it.
    turns = c.constant(np.array(c.d.choice([1, 2, 3, 40 if a.size < 100 else 3]), np.int64))
    outer.insert(0, helper.make_node("Identity", [turns], [f"n{k}"]))
    graph = helper.make_graph(outer, "listed", [], [onnx.ValueInfoProto(name=f"r{k}")])
    other = helper.make_graph(
        [*outer[:-1], helper.make_node("ConcatFromSequence", [f"all{k}"], [f"q{k}"], **_attributes(outer[-1]))],
        "other", [], [onnx.ValueInfoProto(name=f"q{k}")],
    )  # fmt: skip
    condition = c.constant(np.array(True))
    return c.apply("If", [condition], captured=(*captured, turns), then_branch=graph, else_branch=other)


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def scan(c: FamilyComposer) -> list[str]:
    """Rows of one or two values added to a state, in either direction."""
    v, k = c.some(rank=2), c.count
    a = c.array(v)
    if MAIN in a.shape[1:]:
        first = c.one("ReduceMax", v, c.ints(0), keepdims=0)
    else:
        first = c.constant(np.zeros(a.shape[1:], a.dtype))
    two = c.chance(30)
    given = [v, on.mapped(c, v)] if two else [v]
    if c.array(given[-1]).shape != a.shape or c.array(given[-1]).dtype != a.dtype:
        raise Refused("the rows differ")
    nodes = [
        helper.make_node("Add", [f"s{k}", f"x{k}_0"], [f"a{k}"]),
        helper.make_node("Tanh", [f"a{k}"], [f"so{k}"]),
        helper.make_node(c.d.choice(["Identity", "Neg", "Relu"]), [f"so{k}"], [f"p{k}"]),
        helper.make_node("Mul" if two else "Add", [f"p{k}", f"x{k}_{len(given) - 1}"], [f"r{k}"]),
    ]
    row = a.ndim - 1
    begin = [_port(f"s{k}", a, row), *(_port(f"x{k}_{i}", a, row) for i in range(len(given)))]
    body = helper.make_graph(nodes, "body", begin, [_port(f"so{k}", a, row), _port(f"r{k}", a, row)])
    return c.apply(
        "Scan", [first, *given], outputs=2, body=body, num_scan_inputs=len(given),
        scan_input_directions=[c.d.int(0, 1)] * len(given), scan_output_directions=[c.d.int(0, 1)],
    )  # fmt: skip


def renamed(c: FamilyComposer, graph: onnx.GraphProto, names: dict[str, str]) -> list[str]:
    """The nodes of a whole graph added; ``names`` says what its inputs are here. Its outputs' names here."""
    from onnx import numpy_helper

    names = dict(names)
    for tensor in graph.initializer:
        names[tensor.name] = c.constant(numpy_helper.to_array(tensor))
    for node in graph.node:
        attrs = _attributes(node)
        captured: list[str] = []
        for key, value in attrs.items():
            if isinstance(value, onnx.GraphProto):
                attrs[key], captured = _rewired(value, names)
        inputs = [names[n] if n else "" for n in node.input]
        made = c.apply(node.op_type, inputs, len(node.output), node.domain, captured, **attrs)
        names.update(zip(node.output, made, strict=True))
    return [names[o.name] for o in graph.output]


def _rewired(graph: onnx.GraphProto, names: dict[str, str]) -> tuple[onnx.GraphProto, list[str]]:
    """A sub-graph with the names that outer values have here, and those that it reads."""
    made = onnx.GraphProto()
    made.CopyFrom(graph)
    own = {p.name for p in made.input} | {o for n in made.node for o in n.output}
    read: Sequence[str] = []
    for node in made.node:
        for i, name in enumerate(node.input):
            if name and name not in own:
                node.input[i] = names[name]
                read = [*read, names[name]]
    return made, list(dict.fromkeys(read))


CONTROL: tuple[Callable[[FamilyComposer], list[str]], ...] = (branch, loop, nested, listed, scan)
