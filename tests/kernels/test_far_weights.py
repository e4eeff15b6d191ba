"""What stays in no near cache: kernels ask for it early, or copy it, and choices count the way that it comes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from mccompile.codegen.files import source_files
from mccompile.driver import Options, compile_program, import_graph
from mccompile.kernels.conv.winograd import VARIANTS, ConvWinograd, WinogradTile
from mccompile.targets.target import resolve
from tests.kernels.cases import VariantCase, matmul, pointwise
from tests.kernels.cases_conv_channels import channels
from tests.kernels.cases_strassen import product as strassen
from tests.kernels.cases_winograd import winograd
from tests.kernels.test_winograd import Layer
from tests.support.compiled import keep_layouts, store_channels_last

SAME = [1] * 4


F4 = {"conv": "conv.winograd m=4"}


def _text(
    case: VariantCase, folder: Path, target: str = "x86-64-v4", force: Mapping[str, str] | None = None
) -> str:
    (folder / "net.onnx").write_bytes(case.model().SerializeToString())
    c = import_graph(folder / "net.onnx", Options(target=target, kernels=force or case.force))
    (store_channels_last if case.channels_last else keep_layouts)(c)
    return "".join(data.decode() for name, data in source_files(compile_program(c)).items() if name.endswith(".c"))


@pytest.mark.parametrize(
    ("case", "early"),
    [
        (matmul((16, 512), 512), True),
        (matmul((1, 512), 512), False),
        (matmul((16, 64), 64), False),
        (channels((1, 128, 8, 8), 128, (3, 3), pads=SAME), True),
        (channels((1, 16, 8, 8), 16, (3, 3), pads=SAME), False),
        (winograd((1, 128, 8, 8), 128, (3, 3), pads=SAME), True),
        (winograd((1, 16, 8, 8), 16, (3, 3), pads=SAME), False),
    ],
    ids=lambda v: v.name if isinstance(v, VariantCase) else "",
)
def test_far_weights_are_asked_for(case: VariantCase, early: bool, tmp_path: Path) -> None:
    """By tiles of several rows: one row alone waits for nothing but memory."""
    assert ("MCC_PREFETCH_AHEAD(w" in _text(case, tmp_path)) == early


@pytest.mark.parametrize(
    ("rows", "steps", "asked"),
    [
        (4, 512, ["8192", "8256", "8320", "8384"]),
        (8, 512, ["ahead", "ahead + 64"]),
        (16, 512, ["ahead"]),
        (128, 128, []),
        (16, 64, []),
    ],
)
def test_tiles_of_rows_share_what_they_ask_for(
    rows: int, steps: int, asked: list[str], tmp_path: Path
) -> None:
    """Where it takes instructions of their own: each turn of one tile asks for all lines that it reads, one of
    several tiles for its share of those of the next columns; many hide the wait of the first."""
    text = _text(matmul((rows, steps), 512), tmp_path, "aarch64")
    assert re.findall(r"MCC_PREFETCH_AHEAD\(w, (.*)\);", text) == asked
    tiles = {"ahead": 4, "ahead + 64": 2}.get(asked[-1]) if asked else None
    far = [f"{steps * 16 * 4} + ((m / 4) % {tiles}) * {64 * len(asked)}"] if tiles else []
    assert re.findall(r"int32_t ahead = (.*);", text) == far


@pytest.mark.parametrize(
    ("case", "steps", "pitch", "panels"),
    [
        (winograd((1, 256, 14, 14), 256, (3, 3), pads=SAME), 256, 32, 1),
        (winograd((1, 128, 28, 28), 128, (3, 3), pads=SAME), 128, 32, 1),
        (matmul((36, 256), 480), 256, 48, 1),
        (strassen((128, 384), 384), 192, 48, 7),
    ],
    ids=lambda v: v.name if isinstance(v, VariantCase) else str(v),
)
def test_tiles_ask_for_each_line_of_the_next_weights_once(
    case: VariantCase, steps: int, pitch: int, panels: int, tmp_path: Path
) -> None:
    """A run of them each: where an instruction asks for nothing beside, memory comes while all of them work."""
    text = _text(case, tmp_path, force=F4 if "conv" in case.force else None)
    found = set(re.findall(r"int32_t ahead = (\d+) \+ \(\(\w+ / \d+\) % (\d+)\) \* (\d+);", text))
    assert len(found) == 1, found
    far, tiles, share = map(int, found.pop())
    panel = 4 * steps * pitch
    asked = set(re.findall(r"MCC_PREFETCH_AHEAD\(w, ahead(?: \+ (\d+))?\);", text))
    less = set(map(int, re.findall(r"ahead -= (\d+);", text)))
    assert far == panels * panel
    assert len(less) == 1
    lines = [
        step * 4 * pitch + far + tile * share - step * min(less) + int(beside or 0)
        for tile in range(tiles) for step in range(steps) for beside in asked
    ]  # fmt: skip
    assert sorted(lines) == list(range(far, far + panel, 64))


@pytest.mark.parametrize(
    ("steps", "target", "shares"),
    [(384, "x86-64-v4", True), (1024, "x86-64-v4", False), (256, "aarch64", True), (1024, "aarch64", False)],
)
def test_nothing_is_asked_for_that_will_not_stay(steps: int, target: str, shares: bool, tmp_path: Path) -> None:
    """Seven products of a tile by 1024 rows of weights are half of the second cache."""
    text = _text(strassen((128, steps), 384), tmp_path, target)
    assert ("MCC_PREFETCH_AHEAD(w, ahead" in text) == shares
    assert "MCC_PREFETCH_AHEAD(w" in text


def test_weights_are_read_once_where_all_tiles_fit(tmp_path: Path) -> None:
    """16 tiles of 256 channels at 36 points are 0.7 of the second cache: no blocks of 10 and of 6."""
    for channels_, blocks in ((256, False), (512, True)):
        case = winograd((1, channels_, 14, 14), channels_, (3, 3), pads=SAME)
        assert ("const int32_t tiles = " in _text(case, tmp_path, force=F4)) == blocks


@pytest.mark.parametrize(("rows", "bytes_ahead"), [(1, 3072), (16, 8192)])
def test_a_row_of_bf16_asks_for_less(rows: int, bytes_ahead: int, tmp_path: Path) -> None:
    """It uses words up as fast as they come."""
    case = matmul((rows, 1024), 1024)
    (tmp_path / "net.onnx").write_bytes(case.model().SerializeToString())
    options = Options(target="x86-64-v4-bf16", precision={"*": "bf16"})
    files = source_files(compile_program(import_graph(tmp_path / "net.onnx", options)))
    text = "".join(data.decode() for name, data in files.items() if name.endswith(".c"))
    assert set(re.findall(r"MCC_PREFETCH_AHEAD\(w.*, (\d+)\)", text)) == {str(bytes_ahead)}


@pytest.mark.parametrize(
    ("case", "asked"),
    [
        (matmul((16, 512), 512), {"y0"}),
        (matmul((1, 512), 512), set()),
        (matmul((16, 64), 64), set()),
        (channels((1, 128, 8, 8), 128, (3, 3), pads=SAME), {"y0"}),
        (channels((1, 16, 8, 8), 16, (3, 3), pads=SAME), set()),
        (matmul((16, 512), 512, "residual"), {"y0", "e0"}),
    ],
    ids=lambda v: v.name if isinstance(v, VariantCase) else "",
)
def test_results_far_away_are_asked_for(case: VariantCase, asked: set[str], tmp_path: Path) -> None:
    """And what is added to them."""
    assert set(re.findall(r"mcc_prefetch_rows\(&(\w+)\[", _text(case, tmp_path))) == asked


@pytest.mark.parametrize(
    ("case", "crowded"),
    [
        (matmul((1, 512), 128), True),
        (matmul((1, 512), 64), False),
        (matmul((16, 512), 128), False),
    ],
    ids=lambda v: v.name if isinstance(v, VariantCase) else "",
)
def test_one_row_has_no_more_loads_to_a_turn_than_are_followed(
    case: VariantCase, crowded: bool, tmp_path: Path
) -> None:
    """Four steps of eight vectors are 32 loads; two are 16."""
    text = _text(case, tmp_path)
    assert ("MCC_UNROLL_BY_2\n" in text) == crowded
    assert ("MCC_UNROLL\n" in text) != crowded


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize(
    ("case", "copied"),
    [
        (pointwise((1, 5, 32, 32), 32), True),
        (pointwise((1, 64, 16, 16), 32), True),
        (pointwise((1, 4, 32, 32), 32), False),
        (pointwise((1, 64, 33, 33), 32), False),
        (pointwise((1, 64, 32, 32), 1), False),
    ],
    ids=lambda v: v.name if isinstance(v, VariantCase) else "",
)
def test_pixels_whose_lines_meet_are_copied(case: VariantCase, copied: bool, target: str, tmp_path: Path) -> None:
    """Channels that are whole pages apart share few lines of a cache; what one tile reads alone is read in place."""
    text = _text(case, tmp_path, target)
    assert "conv.pointwise" in text
    assert ("float *const line = &scratch[" in text) == copied


@pytest.mark.parametrize(
    ("channels", "extent", "label"),
    [(64, 32, "m=4"), (256, 14, "m=5"), (512, 14, "m=5"), (512, 7, "m=4x2")],
)
def test_winograd_weighs_work_against_weights(channels: int, extent: int, label: str) -> None:
    """What was measured to be fastest, in networks whose weights stay in no cache (Zen 4)."""
    graph, _ = Layer((1, channels, extent, extent), channels).graph()
    (node,) = graph.nodes
    target = resolve("x86-64-v4")
    offers = [o for v in VARIANTS for o in v.offers(node, target, graph.constants)]
    assert min(offers, key=lambda o: o.cycles).label == f"conv.winograd {label}"


def test_winograd_that_waits_for_memory_has_least_to_do_meanwhile() -> None:
    """Each tile of columns reads all points again: 8 tiles of 512 channels by one vector, or by two."""
    graph, _ = Layer((1, 512, 7, 7), 512).graph()
    (offer,) = ConvWinograd(4, 2).offers(graph.nodes[0], resolve("x86-64-v4"), graph.constants)
    assert isinstance(offer.params, WinogradTile)
    assert (offer.params.rows, offer.params.vectors) == (8, 2)
