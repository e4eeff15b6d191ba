"""Kernels of vectors with less code: last tiles that compute some rows again, tiles of one function."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import onnx
import pytest

from mccompile.check.check import check
from mccompile.codegen import savings
from mccompile.driver import Options, compile_files
from mccompile.kernels.model.tiles import flush
from tests._fast import first
from tests.kernels.cases import Net

TARGETS = ("aarch64", "aarch64-sve256")


@pytest.fixture
def at_any_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "MOST_SLOWER", 1e9)
    monkeypatch.setattr(savings, "WORTH", 1)


def _product(rows: int, columns: int, residual: bool) -> onnx.ModelProto:
    net = Net(rows)
    x = net.input(rows, 24)
    y = net("Add", net("MatMul", x, net.weight(24, columns)), net.weight(columns))
    if residual:
        y = net("Add", y, net("Sigmoid", net("MatMul", x, net.weight(24, columns))))
    return net.model(net("Relu", y))


def _depthwise(extent: int, stride: int, channels: int, kernel: int) -> onnx.ModelProto:
    net = Net(extent)
    x = net("Relu", net.conv(net.input(1, 3, extent, extent), (channels, 3, 1, 1)))
    pads = [kernel // 2] * 4
    y = net.conv(x, (channels, 1, kernel, kernel), group=channels, pads=pads, strides=[stride] * 2)
    return net.model(net("Clip", net.conv(y, (5, channels, 1, 1)), net.weight(), net.weight()))


def _image(extent: int, columns: int, stride: int, groups: int) -> onnx.ModelProto:
    net = Net(extent)
    x = net.input(1, 3 * groups, 6, extent)
    y = net.conv(x, (32 * groups, 3, 3, columns), group=groups, strides=[1, stride], pads=[1, 1, 1, 0])
    return net.model(net("Relu", y))


def _judge(model: onnx.ModelProto, target: str, folder: Path) -> None:
    onnx.save(model, folder / "m.onnx")
    result = check(folder / "m.onnx", Options(target=target))
    assert result.ok, "\n".join(result.lines())


def test_the_last_tile_ends_with_the_axis() -> None:
    for extent in range(1, 40):
        for size in range(1, 9):
            parts = flush(extent, size)
            met = {i for s in parts for o in range(s.start, s.stop, s.size) for i in range(o, o + s.size)}
            assert met == set(range(extent))
            assert len({s.size for s in parts}) == 1 or extent < size


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns", "residual"), [(7, 16, False), (23, 40, True), (129, 33, False)])
@pytest.mark.usefixtures("at_any_price")
def test_products(rows: int, columns: int, residual: bool, target: str, tmp_path: Path) -> None:
    _judge(_product(rows, columns, residual), target, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("extent", "columns", "stride", "groups"), [(27, 2, 1, 1), (49, 3, 2, 1), (40, 2, 1, 2)])
@pytest.mark.usefixtures("at_any_price")
def test_images(extent: int, columns: int, stride: int, groups: int, target: str, tmp_path: Path) -> None:
    _judge(_image(extent, columns, stride, groups), target, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("extent", "stride", "channels", "kernel"),
    first([(14, 1, 7, 3), (15, 1, 4, 5), (9, 2, 6, 3), (28, 1, 8, 3), (56, 2, 4, 3), (5, 1, 4, 3), (30, 1, 5, 3)], 3),
)
@pytest.mark.usefixtures("at_any_price")
def test_depthwise(extent: int, stride: int, channels: int, kernel: int, target: str, tmp_path: Path) -> None:
    _judge(_depthwise(extent, stride, channels, kernel), target, tmp_path)


def _heights(model: onnx.ModelProto, folder: Path) -> list[int]:
    """How many tiles of different heights each product has."""
    onnx.save(model, folder / "net.onnx")
    text = compile_files(folder / "net.onnx", Options(target="aarch64"))[1]["net.c"].decode()
    tiles = {(kernel, rows) for kernel, rows in re.findall(r"\bnet_(k\d+)_matmul_(\d+)x\d+\(", text)}
    return sorted(Counter(kernel for kernel, _ in tiles).values())


@pytest.mark.usefixtures("at_any_price")
def test_what_is_stored_twice_shares_no_memory_with_an_operand(tmp_path: Path) -> None:
    """Rows of a sum that takes the place of an operand would be added to twice: these have tiles of their own."""
    assert _heights(_product(23, 40, False), tmp_path) == [1]
    assert _heights(_product(23, 40, True), tmp_path) == [1, 2]


def test_nothing_is_computed_again_where_that_takes_more_than_it_is_worth(tmp_path: Path) -> None:
    assert _heights(_product(23, 40, False), tmp_path) == [2]
