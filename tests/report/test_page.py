"""The page of a report: everything is in it, nothing is fetched, names are text, its size has a bound."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from mccompile import driver
from mccompile.driver import Options
from mccompile.ir.errors import UsageError
from mccompile.report.figures import require_suffixes, write_reports
from mccompile.report.page.budget import budget
from mccompile.report.page.flow import MOST, flow, lanes
from mccompile.report.page.memory_map import memory_maps
from mccompile.report.page.page import page
from mccompile.report.page.rows import cost_of, rows
from tests.cli.conftest import Run, floats, run, save  # noqa: F401  # `run` is a fixture
from tests.report.reports import DIGITS, Report, digits, full, repeated
from tests.support.small_models import write_model

VOID = {"meta", "input"}


class _Reader(HTMLParser):
    """Tags that are closed in order, attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.titles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        named = dict(attrs)
        assert len(named) == len(attrs), f"<{tag}> has an attribute twice: {attrs}"
        self.ids += [named["id"]] if named.get("id") else []
        self.links += [str(named[key]) for key in ("href", "src") if key in named]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "title":
            self.titles.append(data)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "cortex-m4"])
def test_everything_is_there(target: str) -> None:
    report = full(digits(target), wrong=2)
    text = page(report)
    read = _Reader(text)
    text = html.unescape(text)
    tips = "".join(read.titles)
    for tensor in report["memory"]["tensors"]:
        assert tensor["name"] in tips
        assert f"{tensor['bytes']:,} bytes at {tensor['offset']:,}" in tips
    for i, step in enumerate(report["steps"]):
        assert f'id="m0-s{i}"' in text
        assert all(name in text for name in [step["kernel"], *step["onnx"]])
    for choice in report["choices"].values():
        assert all(reason in text for _, reason in choice["rejected"])
    limits = ("8.0 KiB (--ram)", "19.5 KiB (--flash)")
    for word in (*limits, "GFLOP/s", "lower bound", "expf", "another engine", "failed"):
        assert word in text
    assert len(read.ids) == len(set(read.ids))
    assert all(link.startswith("#") and link[1:] in read.ids for link in read.links)


@pytest.mark.fast
def test_it_is_one_file_and_always_the_same() -> None:
    text = page(full(digits()))
    assert text == page(full(digits()))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|<link|<img|<iframe", text)


def test_what_is_not_known_is_not_shown() -> None:
    text = page(digits())
    assert "Roofline" not in text
    assert "Error by layer" not in text
    assert "code and stack are not known" in text


def test_names_are_text(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="</title><script>alert('n')</script>")]
    path = save(tmp_path / "a&b<c>.onnx", nodes, [floats("x", [1, 4])])
    _, files = driver.compile_files(path, Options(target="generic"))
    read = _Reader(page(digits_of(files)))
    assert read.tags["script"] == 1


def test_an_error_where_nothing_is_allowed_is_sorted_as_the_largest() -> None:
    report = full(digits("x86-64-v3"))
    trace = report["check"]["trace"]
    trace["layers"][0] |= {"ok": False, "allowed": 0.0, "error": 1.0}
    values = re.findall(r'data-v="([^"]*)" title="', page(report))
    assert "inf" not in values
    assert max(map(float, values)) == 1e300


def test_memory_without_reuse_is_told_where_it_is_more(tmp_path: Path) -> None:
    """Sizes alone have no room between them: 16 bytes of an output, and what is aligned is 64."""
    for count, told in ((1, False), (9, True)):
        steps = [("x" if i == 0 else f"t{i}", "y" if i == count - 1 else f"t{i + 1}", i % 2) for i in range(count)]
        nodes = [helper.make_node("Softmax", [x], [y], axis=axis) for x, y, axis in steps]
        path = save(tmp_path / "net.onnx", nodes, [floats("x", [4, 1])])
        _, files = driver.compile_files(path, Options(target="x86-64-v3"))
        report = digits_of(files)
        assert (report["memory"]["naive_bytes"] > report["memory"]["peak_bytes"]) == told
        assert ("without reuse" in page(report)) == told


def digits_of(files: dict[str, bytes]) -> Report:
    report: Report = json.loads(files["report.json"])
    return report


def test_a_network_of_nothing_has_a_page(tmp_path: Path) -> None:
    node = [helper.make_node("Identity", ["x"], ["y"])]
    for io in ("arena", "caller"):
        path = save(tmp_path / "same.onnx", node, [floats("x", [1, 4])])
        _, files = driver.compile_files(path, Options(target="generic", io=io))
        _Reader(page(digits_of(files)))


def test_a_project_has_a_part_for_each_model(tmp_path: Path, run: Run) -> None:  # noqa: F811
    models = [write_model(name, tmp_path) for name in ("residual", "views")]
    target = tmp_path / "both.html"
    done = run(*models, "-o", tmp_path / "out", "--project", "both", "--target", "generic", "--report", target)
    assert done.exit_code == 0, done.output
    read = _Reader(target.read_text())
    assert {"m0", "m1", "m0-memory", "m1-memory"} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))


def test_regions_have_a_map_each(tmp_path: Path) -> None:
    options = Options(target="generic", memory=(("fast", 4096), ("slow", 65536)))
    _, files = driver.compile_files(DIGITS, options)
    report = digits_of(files)
    maps = memory_maps(report)
    assert [m.name for m in maps] == [r["name"] for r in report["memory"]["regions"] if r["arena_bytes"]]
    assert sum(len(m.boxes) for m in maps) == len(report["memory"]["tensors"])


@pytest.mark.parametrize("steps", [2000, 9000])
def test_its_size_has_a_bound(steps: int) -> None:
    report = digits("x86-64-v3")
    report = full(repeated(report, steps // len(report["steps"])))
    assert len(report["steps"]) == steps
    text = page(report)
    assert len(text.encode()) < 5_500_000
    assert ("The dearest 2000 of 9000 steps" in text) == (steps > MOST)
    assert ("The first 2000 steps are drawn" in text) == (steps > MOST)


def test_boxes_are_tensors() -> None:
    report = digits("cortex-m4")
    (found,) = memory_maps(report)
    tensors = {t["name"]: t for t in report["memory"]["tensors"]}
    for box in found.boxes:
        t = tensors.pop(box.name)
        assert (box.x, box.width) == (t["first_step"], t["last_step"] - t["first_step"] + 1)
        assert (found.total - box.y, box.height) == (t["offset"] + t["bytes"], t["bytes"])
    assert not tensors
    assert found.peak == report["memory"]["peak_step"]
    for i, a in enumerate(found.labels):
        assert not any(a.over(b) for b in found.labels[:i])


@pytest.mark.fast
def test_bars_add_up() -> None:
    report = full(digits())
    flash, ram = budget(report)
    code = report["code"]
    parts = code["text_bytes"] + code["constants_bytes"] + code["runtime_bytes"]
    assert flash.total == report["blob_bytes"] + parts
    assert ram.total == report["memory"]["arena_bytes"] + code["stack"]["bytes"]
    assert not flash.fits
    assert ram.fits
    assert sum(p.share for p in flash.parts) == pytest.approx(1)


DAG = st.integers(0, 25).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, max(i - 1, 0)), max_size=min(i, 4)) for i in range(n)))
)


@settings(max_examples=60, deadline=None)
@given(DAG)
def test_a_lane_holds_one_value_at_a_time(reads: tuple[list[int], ...]) -> None:
    found = lanes(reads)
    assert {(e.first, e.last) for e in found.edges} == {(p, i) for i, read in enumerate(reads) for p in read if p < i}
    ends: dict[int, int] = {}
    for e in found.edges:
        assert (e.lane, e.into) == (found.of[e.first], found.of[e.last])
        ends[e.first] = max(ends.get(e.first, 0), e.last)
    for row, last in ends.items():
        between = [r for r in range(row + 1, last) if found.of[r] == found.of[row]]
        assert not between, "a row stands on the line of another value"
    assert all(lane < found.count for lane in found.of)


def test_nodes_stand_beside_their_steps() -> None:
    report = digits("x86-64-v3")
    found, _ = rows(report)
    drawn = flow(report, found, cost_of(found))
    assert len(drawn.nodes) == len(report["onnx"])
    assert {n.step for n in drawn.nodes if n.op == "Flatten"} == {-1}
    for n in drawn.nodes:
        if n.step >= 0:
            box = drawn.steps[n.step]
            assert box.row <= n.row < box.row + box.rows
    assert sorted(n.row for n in drawn.nodes) == [n.row for n in drawn.nodes]
    assert drawn.fused == 3


@pytest.mark.fast
def test_suffixes(tmp_path: Path, run: Run) -> None:  # noqa: F811
    with pytest.raises(UsageError, match=r"\.html, \.json or \.svg"):
        require_suffixes((tmp_path / "a.txt",))
    done = run(DIGITS, "-o", tmp_path / "out", "--report", tmp_path / "a.pdf")
    assert done.exit_code == 2
    assert not (tmp_path / "out").exists()
    write_reports((tmp_path / "new" / "a.html",), digits())
    assert (tmp_path / "new" / "a.html").read_text().startswith("<!DOCTYPE html>")
    unlike = json.loads(json.dumps(digits()).replace('"x"', '"x\\u0001"'))  # a character that XML has not
    for report in (unlike, digits()):
        write_reports((tmp_path / "a.svg",), report)
        ElementTree.parse(tmp_path / "a.svg")
    drawn = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert drawn.tag.endswith("svg")
    assert "conv1.relu" in "".join(drawn.itertext())
    with pytest.raises(UsageError, match="of one model"):
        write_reports((tmp_path / "b.svg",), {"models": {}})
    (tmp_path / "file").write_text("")
    done = run(DIGITS, "-o", tmp_path / "out", "-q", "--target", "generic", "--report", tmp_path / "file" / "a.html")
    assert done.exit_code == 1
    assert "cannot write" in done.stderr
