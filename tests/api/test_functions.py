"""The functions of `mccompile`: models in memory, results, errors in Python's words, networks that are called."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.api.words import in_python
from mccompile.run.network import Network
from mccompile.search.options import declared


@pytest.fixture(scope="module")
def proto() -> onnx.ModelProto:
    """y = x + h, hn = h + y, over a dim N that is no batch, for it is in no output's front."""
    x, h = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, "N"]) for name in "xh")
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "hn")]
    nodes = [helper.make_node("Add", ["x", "h"], ["y"]), helper.make_node("Add", ["h", "y"], ["hn"])]
    graph = helper.make_graph(nodes, "cell", [x, h], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture(scope="module")
def network(proto: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Network:
    out = tmp_path_factory.mktemp("cell") / "out"
    mccompile.compile(proto, out, target="generic", dims={"N": 3})
    return mccompile.load(out)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
H = np.full((2, 3), 10, np.float32)


def test_a_model_is_a_path_bytes_or_a_proto(proto: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(proto, tmp_path / "net.onnx")
    kinds = (str(tmp_path / "net.onnx"), tmp_path / "net.onnx", proto.SerializeToString(), proto)
    made = [mccompile.compile(m, tmp_path / "out", target="generic", dims={"N": 3}) for m in kinds]
    assert [m.name for m in made] == ["net", "net", "network", "cell"]
    named = mccompile.compile(kinds[2], tmp_path / "out", target="generic", dims={"N": 3}, name="mine")
    assert named.name == "mine"
    assert (tmp_path / "out" / "mine.h").is_file()
    with pytest.raises(mccompile.UsageError, match="path, bytes or a ModelProto, not int"):
        mccompile.compile(7, tmp_path / "out")  # type: ignore[arg-type]


def test_names_of_models_in_memory_are_no_paths(proto: onnx.ModelProto, tmp_path: Path) -> None:
    for name in ("a/b", f"../../{tmp_path.name}/leak", "a\0b", "n" * 300):
        with pytest.raises(mccompile.UsageError):
            mccompile.compile(proto.SerializeToString(), tmp_path / "out", name=name, dims={"N": 3})
    assert not list(tmp_path.rglob("*.onnx"))


@pytest.mark.parametrize(
    ("graph", "made"),
    [("model", "model"), ("a/b", "a_b"), ("größe", "gr_e"), ("n" * 300, "n" * 40), ("図", "network")],
)
def test_a_proto_is_called_as_its_graph_is(graph: str, made: str, proto: onnx.ModelProto, tmp_path: Path) -> None:
    other = onnx.ModelProto()
    other.CopyFrom(proto)
    other.graph.name = graph
    assert mccompile.compile(other, tmp_path, target="generic", dims={"N": 3}).name == made


def test_arguments_that_are_no_numbers(proto: onnx.ModelProto) -> None:
    for wrong in ({"seed": 1.5}, {"seed": -3}, {"rtol": "1e-3"}, {"atol": "x"}):
        with pytest.raises(mccompile.UsageError, match="it has to be a"):
            mccompile.check(proto, dims={"N": 3}, **wrong)
    for rounds in (1.5, "a"):
        with pytest.raises(mccompile.UsageError, match="it has to be a whole number"):
            mccompile.bench(proto, dims={"N": 3}, rounds=rounds)  # type: ignore[arg-type]


def test_results_are_one_line(proto: onnx.ModelProto, network: Network, tmp_path: Path) -> None:
    made = mccompile.compile(proto, tmp_path, target="generic", dims={"N": 3})
    found = mccompile.inspect(proto, target="generic", dims={"N": "3"})
    assert (found.ok, found.arena_bytes, found.unsupported) == (True, made.report["memory"]["arena_bytes"], ())
    refused = mccompile.inspect(proto)
    assert refused.error is not None
    assert (refused.ok, refused.error.hint.partition(";")[0]) == (False, "pass dims={'N': N}")
    for result in (made, found, refused, network):
        assert "\n" not in repr(result)
        assert len(repr(result)) < 200


def test_inputs_are_given_by_place_or_name(network: Network) -> None:
    by_name = network.run({"x": X, "h": H})
    for other in (network.run(X, H), network.run(x=X, h=H), network.run(X, h=H), network.run({"x": X}, h=H)):
        assert other.keys() == {"y", "hn"}
        assert all(np.array_equal(other[name], by_name[name]) for name in other)
    y, hn = network(X, H)
    assert np.array_equal(y, X + H)
    assert np.array_equal(hn, X + 2 * H)
    for arrays, named, message in (
        ((X, H, X), {}, "3 inputs are given"),
        ((X,), {"x": X, "h": H}, "'x' is given twice"),
        ((X,), {}, "expected"),
        ((X.astype(np.float64), H), {}, r"array.astype\(np.float32\)"),
        ((X[:1], H), {}, "compile the model for other extents"),
    ):
        with pytest.raises(mccompile.UsageError, match=message):
            network.run(*arrays, **named)


def test_a_loop_over_own_views_is_right(network: Network) -> None:
    """The natural loop of a stream: what the network gave is fed back, without a copy of the caller's."""
    h = np.zeros((2, 3), np.float32)
    network.run(x=X, h=h)
    for _ in range(5):
        y = X + h
        h = h + y
    network.run(x=X, h=np.zeros((2, 3), np.float32))
    for _ in range(4):
        network.run(h=network.outputs["hn"], x=X)
    assert np.array_equal(network.outputs["hn"], h)
    swapped = network.run(x=network.inputs["h"], h=network.inputs["x"])
    assert swapped["y"].shape == (2, 3)


def test_threads_take_turns(network: Network) -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        x = np.full((2, 3), k, np.float32)
        for _ in range(300):
            if not np.array_equal(network.run(x, H)["hn"], x + 2 * H):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_inputs_of_bfloat16_are_asked_for_as_bits(tmp_path: Path) -> None:
    """numpy has no such type: astype(uint16) would make other numbers of them."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    mccompile.compile(proto, tmp_path / "out", target="generic")
    with pytest.raises(mccompile.UsageError, match=r"astype\(ml_dtypes.bfloat16\).view\(np.uint16\)"):
        mccompile.load(tmp_path / "out").run(np.ones(2, np.float32))


def test_a_second_thread_may_not_invoke(network: Network) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            network.invoke()
        except mccompile.UsageError as e:
            errors.append(e)

    with network._lock:  # as while a run is going on
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "another thread" in str(errors[0])


def test_what_does_not_fit_is_an_error_and_leaves_nothing(proto: onnx.ModelProto, tmp_path: Path) -> None:
    for limits in ({"ram": 16}, {"flash": "1"}):
        with pytest.raises(mccompile.CompileError, match="does not fit") as caught:
            mccompile.compile(proto, tmp_path / "out", target="generic", dims={"N": 3}, **limits)  # type: ignore[arg-type]
        assert caught.value.code == "does-not-fit"
        assert "--" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_golden_tests_are_written(proto: onnx.ModelProto, tmp_path: Path) -> None:
    mccompile.compile(
        proto, tmp_path / "out", target="generic", dims={"N": 3}, golden=tmp_path / "golden",
        inputs={"x": X, "h": H},
    )  # fmt: skip
    assert [p.name for p in (tmp_path / "golden").iterdir()] == ["test_cell.c"]


def test_golden_tests_that_cannot_be_leave_nothing(proto: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(mccompile.CompileError, match="cannot write to"):
        mccompile.compile(proto, tmp_path / "out", target="generic", dims={"N": 3}, golden="/proc/none")
    with pytest.raises(mccompile.UsageError, match="inputs is of use only with golden"):
        mccompile.compile(proto, tmp_path / "out", target="generic", dims={"N": 3}, inputs={"x": X, "h": H})
    assert not (tmp_path / "out").exists()


def test_a_package_is_not_loaded(proto: onnx.ModelProto, tmp_path: Path) -> None:
    mccompile.compile(proto, tmp_path, dims={"N": 3}, package="zephyr")
    with pytest.raises(mccompile.UsageError, match="is a package of C files"):
        mccompile.load(tmp_path)


@pytest.mark.parametrize("option", ["weights", "precision"])
def test_inspect_finds_no_forms(option: str, proto: onnx.ModelProto) -> None:
    with pytest.raises(mccompile.UsageError, match="auto' is for compile, check and bench"):
        mccompile.inspect(proto, dims={"N": 3}, **{option: "auto"})  # type: ignore[arg-type]


HINTS = {
    "pass --dim seq=N": "pass dims={'seq': N}",
    "say --dim n=1..8 or 3": "say dims={'n': '1..8'} or 3",
    "--bound ids=128, or fix it with --constant": "bounds={'ids': 128}, or fix it with constants",
    "fix what it depends on: --constant sr=VALUE": "fix what it depends on: constants={'sr': VALUE}",
    "--constant x=none where it is absent": "constants={'x': None} where it is absent",
    "--input-shape input=N,N --input-shape state=2,N,128": "input_shapes={'input': [N, N], 'state': [2, N, 128]}",
    "smaller extents (--dim, --input-shape), or without --keep-inputs":
        "smaller extents (dims, input_shapes), or without keep_inputs=True",
    "--io quantized, or --io caller,quantized": "io='quantized', or io='caller,quantized'",
    "give the target with --target": "give the target with target",
    "say --state once for each input": "say state once for each input",
    "more than the 1,024 of --ram": "more than the 1,024 of ram",
    "--random input: an input of the network": "random='input': an input of the network",
    "compile with --string-bytes 80": "compile with string_bytes=80",
    "larger regions in --memory, a smaller model": "larger regions in memory, a smaller model",
    "--dim 'past+1'=N": "dims={'past+1': N}",
    "no option here - or there": "no option here - or there",
}  # fmt: skip


@pytest.mark.parametrize("text", HINTS)
def test_hints_speak_python(text: str) -> None:
    assert in_python(text) == HINTS[text]


def test_every_flag_has_a_word_in_python() -> None:
    for name, told, _ in declared():
        for flag in told.flags:
            if told.in_python and flag.startswith("--"):
                assert in_python(f"see {flag}").startswith(f"see {name}")


def test_only_what_users_need_is_shown() -> None:
    assert dir(mccompile) == sorted(mccompile.__all__)


@pytest.mark.parametrize(
    "options",
    [
        {"dims": 5},
        {"input_shapes": {"image": "1,2"}},
        {"input_shapes": {"image": 2}},
        {"bounds": {"n": 0}},
        {"bounds": {"n": "3"}},
        {"threads": 2.5},
        {"threads": "2"},
        {"string_bytes": 0},
        {"plan_effort": -1},
        {"plan_effort": 4},
        {"max_blob_growth": float("nan")},
        {"max_blob_growth": -1},
        {"kernels": {"conv": "nothing"}},
        {"kernels": {"nothing": "conv"}},
        {"kernels": {"conv": None}},
        {"weights": 5},
        {"weights": {"*": 5}},
        {"weights": {5: "i8"}},
        {"precision": ["bf16"]},
        {"io": 5},
        {"target": 5},
        {"name": 5},
        {"random": 1},
        {"input_formats": {"x": None}},
        {"state": {"hn": 1}},
        {"dims": {5: 3}},
        {"memory": {5: 3}},
        {"ram": -5},
        {"keep_inputs": "no"},
        {"stepwise": 1},
        {"max_blob_growth": [1]},
        {"constants": {"x": [[1], [1, 2]]}},
    ],
)
def test_python_refuses_what_the_command_line_refuses(
    options: dict[str, Any], proto: onnx.ModelProto, tmp_path: Path
) -> None:
    with pytest.raises(mccompile.UsageError):
        mccompile.compile(proto, tmp_path / "out", **{"name": "net", "dims": {"N": 3}, **options})


def test_what_is_no_array_is_refused(proto: onnx.ModelProto, network: Network) -> None:
    """Rows of different lengths; classes that are no numbers; results in another byte order than the machine's."""
    ragged = [[1.0], [1.0, 2.0]]
    with pytest.raises(mccompile.UsageError, match="what is given for input 'x' is no array"):
        network(ragged, H)
    given: list[tuple[str, dict[str, Any]]] = [
        ("for 'x' is no array", {"inputs": {"x": ragged, "h": H}}),
        ("labels are <U.*, and no whole numbers", {"labels": [1, "a"]}),
        ("labels are float64, and no whole", {"labels": [0.5]}),
        ("for labels is no array", {"labels": ragged}),
        ("expected of output 'y' is >f4, of another byte order", {"expect": {"y": X.astype(">f4")}}),
    ]
    for why, options in given:
        with pytest.raises(mccompile.UsageError, match=why):
            mccompile.check(proto, target="generic", **{"inputs": {"x": X, "h": H}, **options})
