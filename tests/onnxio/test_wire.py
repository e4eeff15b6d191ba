"""Large tensors are read from where they lie in a model's file, and everything is as if it had been read whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.ir.errors import CompileError
from mccompile.onnxio import OnnxGraph, read_model, wire

LARGE = np.arange(40_000, dtype=np.float32).reshape(200, 200)
SMALL = np.float32([1, 2, 3])


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LARGE_FILE", 0)


def model(*more: onnx.NodeProto, opset: int = 21) -> onnx.ModelProto:
    """Tensors that are large or not: weights, in a node, and in a graph inside of one."""
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(LARGE + 2))],
        "inner", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, [200, 200])],
    )  # fmt: skip
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [200, 200], LARGE.reshape(-1))
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(LARGE + 1)),
            helper.make_node("If", ["yes"], ["i"], then_branch=inner, else_branch=inner),
            helper.make_node("Sum", ["x", "w", "typed", "k", "i"], ["y"]),
            *more,
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [200, 200])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [200, 200])],
        [numpy_helper.from_array(LARGE, "w"), numpy_helper.from_array(SMALL, "s"), typed,
         numpy_helper.from_array(np.bool_(True), "yes"), numpy_helper.from_array(LARGE.astype(np.float16), "h")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def arrays(graph: OnnxGraph) -> dict[str, np.ndarray]:
    """Every tensor of a graph and those inside, by what names it."""
    found = dict(graph.initializers)
    for node in graph.nodes:
        for name, value in node.attrs.items():
            if isinstance(value, np.ndarray):
                found[f"{node.outputs[0]}.{name}"] = value
            elif isinstance(value, OnnxGraph):
                found |= {f"{name}.{k}": v for k, v in arrays(value).items()}
    return found


def test_large_tensors_stay_in_the_file_and_are_what_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(model(), tmp_path)
    around = wire.read_around(path)
    assert len(around) < path.stat().st_size - 5 * LARGE.nbytes // 2, "all of them but one, which is no raw data"
    found = read_model(path)
    monkeypatch.setattr(wire, "LARGE_FILE", 1 << 40)
    whole = read_model(path)
    assert found.sha256 == whole.sha256
    assert arrays(found.graph).keys() == arrays(whole.graph).keys()
    for name, array in arrays(whole.graph).items():
        mine = arrays(found.graph)[name]
        assert mine.dtype == array.dtype
        assert mine.flags.writeable == array.flags.writeable
        np.testing.assert_array_equal(mine, array)


def test_a_file_may_be_a_link_to_anywhere(tmp_path: Path) -> None:
    """As in the cache of a hub of models, where data outside of the model's folder are refused else."""
    target = saved(model(), tmp_path)
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "odd:name.onnx"
    os.symlink(target, link)
    np.testing.assert_array_equal(read_model(link).graph.initializers["w"], LARGE)


def test_no_file_names_itself(tmp_path: Path) -> None:
    """What another process has made of a file does not read files outside of the model's folder."""
    proto = model()
    proto.graph.initializer[0].ClearField("raw_data")
    proto.graph.initializer[0].data_location = TensorProto.EXTERNAL
    proto.graph.initializer[0].external_data.add(key="location", value=f"{'0' * 16}:../secret")
    (tmp_path / "secret").write_bytes(LARGE.tobytes())
    (tmp_path / "inside").mkdir()
    with pytest.raises(CompileError, match="not a path inside the model's folder"):
        read_model(saved(proto, tmp_path / "inside"))


@pytest.mark.parametrize("opset", [21, 6], ids=["functions", "an old opset"])
def test_what_cpp_rewrites_is_read_whole(opset: int, tmp_path: Path) -> None:
    proto = model(opset=opset)
    if opset > 7:
        body = [helper.make_node("Neg", ["a"], ["b"])]
        proto.functions.append(
            helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("", opset)])
        )
        proto.opset_import.append(helper.make_opsetid("own", 1))
        proto.graph.node.append(helper.make_node("F", ["w"], ["z"], domain="own"))
    else:
        del proto.graph.node[1:]  # a Sum of opset 6 has one shape
        proto.graph.node.append(helper.make_node("Sum", ["x", "w"], ["y"]))
    np.testing.assert_array_equal(read_model(saved(proto, tmp_path)).graph.initializers["w"], LARGE)


def test_files_of_many_fields_are_given_to_protobuf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is walked through for longer than it takes to read; a field has no number 0."""
    path = saved(model(), tmp_path)
    whole = path.read_bytes()
    monkeypatch.setattr(wire, "MOST_FIELDS", 10)
    assert wire.read_around(path) == whole
    (tmp_path / "zeros").write_bytes(bytes(1000))
    assert wire.read_around(tmp_path / "zeros") == bytes(1000)


def test_graphs_inside_of_graphs_go_as_deep_as_protobuf_reads(tmp_path: Path) -> None:
    deep = b"n" * wire.LARGE
    for _ in range(1000):
        for field in (6, 5, 1):  # the graph of an attribute of a node
            deep = wire._varint(field << 3 | 2) + wire._varint(len(deep)) + deep
    path = tmp_path / "net.onnx"
    path.write_bytes(wire._varint(7 << 3 | 2) + wire._varint(len(deep)) + deep)
    with pytest.raises(CompileError, match="not a readable ONNX protobuf"):
        read_model(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_short_is_no_protobuf(share: float, tmp_path: Path) -> None:
    path = saved(model(), tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(CompileError, match="not a readable ONNX protobuf"):
        read_model(path)


def test_damaged_bytes_are_read_as_protobuf_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a byte becomes: the same error, or the same model."""
    rng = np.random.default_rng(1)
    data = np.frombuffer(model().SerializeToString(), np.uint8)
    ends = np.r_[0:300, len(data) - 500 : len(data)]  # what is between is LARGE's
    for at in rng.choice(ends, 80):
        damaged = data.copy()
        damaged[at] = rng.integers(256)
        (tmp_path / "net.onnx").write_bytes(damaged.tobytes())
        said = []
        for size in (0, 1 << 40):
            monkeypatch.setattr(wire, "LARGE_FILE", size)
            try:
                said.append(repr(read_model(tmp_path / "net.onnx")))
            except CompileError as e:
                said.append(str(e))
        assert said[0] == said[1], at


@pytest.mark.skipif(os.name != "posix", reason="names of files are text there")
def test_a_file_whose_name_is_no_text_is_read_whole(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xfc\xdfe"))
    folder.mkdir()
    path = folder.parent / f"{folder.name}.onnx"
    path.write_bytes(model().SerializeToString())
    assert arrays(read_model(path).graph).keys() == arrays(read_model(saved(model(), tmp_path)).graph).keys()


def test_tensors_of_another_size_than_their_shape_are_called_what_they_are(tmp_path: Path) -> None:
    """In the file itself, not external."""
    proto = model()
    proto.graph.initializer[0].dims[0] += 1
    with pytest.raises(CompileError, match=r"'w'.*holds 160000 bytes, its shape needs 160800"):
        read_model(saved(proto, tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """``mccompile <(cat net.onnx)``: its digest is that of what it gave."""
    whole, pipe = saved(model(), tmp_path), tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(whole.read_bytes()), daemon=True)
    writer.start()
    found = read_model(pipe)
    writer.join(timeout=10)
    assert found.sha256 == read_model(whole).sha256
    assert arrays(found.graph).keys() == arrays(read_model(whole).graph).keys()
