"""The page in a real browser: no errors, what scripts do, what is seen without them, on paper, and of many steps.

Screenshots are left in build/report.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mccompile.report.page.page import page
from tests._skips import REPOSITORY, needs_tool
from tests.report.reports import Report, digits, full, repeated

SHOTS = REPOSITORY / "build" / "report"
STEPS = 2000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = needs_tool("chromium")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])  # in containers there is none
        yield made
        made.close()


@contextmanager
def opened(browser: Any, folder: Path, report: Report, **options: Any) -> Iterator[Any]:
    """A tab with the page of a report, which may not complain, nor ask for anything but itself."""
    file = folder / "page.html"
    file.write_text(page(report), encoding="utf-8")
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: said.append(request.url) if request.url != file.as_uri() else None)
    tab.goto(file.as_uri())
    yield tab
    assert not said
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 700])
def test_it_is_seen(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    """Every picture has a size, nothing is wider than the window, and light is light."""
    size = {"width": width, "height": 900}
    with opened(browser, tmp_path, full(digits()), color_scheme=scheme, viewport=size) as tab:
        assert tab.title() == "digits - mccompile"
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        pictures = tab.locator("figure > svg")
        assert pictures.count() == 5
        for i in range(pictures.count()):
            box = pictures.nth(i).bounding_box()
            assert box["width"] > 300
            assert box["height"] > 60
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
        tab.click("#theme")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != ground
        tab.click("#theme")
        SHOTS.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=SHOTS / f"digits-{scheme}-{width}.png", full_page=True)


def test_a_tip_tells_of_a_tensor(browser: Any, tmp_path: Path) -> None:
    report = full(digits())
    with opened(browser, tmp_path, report) as tab:
        largest = max(report["memory"]["tensors"], key=lambda t: t["bytes"])
        tab.hover(f'.map rect[data-name="{largest["name"]}"]')
        shown = tab.inner_text("#tip")
        shape = ", ".join(map(str, largest["shape"]))
        for word in (largest["name"], f"[{shape}]", f"{largest['bytes']:,} bytes", f" {largest['first_step']} to "):
            assert word in shown
        tab.hover('.dots circle[data-step="2"]')
        assert "GFLOP/s" in tab.inner_text("#tip")
        assert tab.locator('tr.lit[data-step="2"]').count() == 1
        tab.hover("h1")
        assert not tab.is_visible("#tip")


def test_tables_sort_and_filter(browser: Any, tmp_path: Path) -> None:
    report = full(digits("x86-64-v3"))
    with opened(browser, tmp_path, report) as tab:
        rows = "#m0-table tbody tr"

        def column(what: str) -> list[float]:
            number = tab.evaluate(
                "what => [...document.querySelectorAll('#m0-table th')].findIndex(h => h.textContent === what)", what
            )
            values = tab.eval_on_selector_all(rows, f"rows => rows.map(r => Number(r.children[{number}].dataset.v))")
            return list(values)

        assert column("step") == sorted(column("step"))
        for name in ("time", "MACs", "error"):
            head = tab.locator("#m0-table th", has_text=name).first
            head.click()
            assert column(name) == sorted(column(name), reverse=True)
            head.click()
            assert column(name) == sorted(column(name))
            assert head.get_attribute("aria-sort") == "ascending"
        assert column("time")[-1] == max(x["us"] for x in report["bench"]["layers"])
        tab.fill("input.filter", "maxpool pool")  # the operator is no text of the row's: names may say something else
        numbers = "rows => rows.filter(r => !r.hidden).map(r => Number(r.dataset.step))"
        visible = tab.eval_on_selector_all(rows, numbers)
        assert visible == [i for i, step in enumerate(report["steps"]) if step["onnx"] == ["pool"]]


def test_a_closer_look(browser: Any, tmp_path: Path) -> None:
    """Of many steps: what is drawn over fills the picture, with names; one button shows all again."""
    report = digits()
    report = full(repeated(report, STEPS // len(report["steps"])))
    with opened(browser, tmp_path, report) as tab:
        field = tab.locator(".map .field")
        field.scroll_into_view_if_needed()
        assert tab.locator(".map .labels text").count() == 0
        assert tab.locator(".timeline.dense").count() == 1
        box = field.bounding_box()
        tab.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
        tab.mouse.down()
        tab.mouse.move(box["x"] + box["width"] * 0.53, box["y"] + 60, steps=3)
        tab.mouse.up()
        first, _, some, _ = map(float, field.get_attribute("viewBox").split())
        assert 990 <= first <= 1010
        assert 50 <= some <= 70
        assert tab.locator(".timeline.dense").count() == 0
        assert tab.locator(".map .columns text").first.text_content() == str(-(-int(first) // 5) * 5)
        tab.screenshot(path=SHOTS / "steps-2000-closer.png")
        tab.click(".reset")
        assert field.get_attribute("viewBox").split()[:3] == ["0", "0", str(STEPS)]
        tab.screenshot(path=SHOTS / "steps-2000.png")


def test_without_scripts_and_on_paper(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, full(digits()), java_script_enabled=False) as tab:
        assert tab.locator(".map rect").count() > 5
        assert tab.locator(".map title").count() > 3
        paper = tab.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert 2 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") <= 8
    (SHOTS / "digits.pdf").write_bytes(paper)
