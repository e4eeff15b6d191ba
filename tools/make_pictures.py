"""Makes the pictures of README and docs (``make pictures``): a network of MLPerf Tiny on an emulated Cortex-M4.

The memory map is what ``--report OUT.svg`` writes, the others are parts of the page, photographed by Chromium, which
is none of the Python packages (Debian, Ubuntu: apt install chromium).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.report.figures import with_figures
from mccompile.report.page.memory_picture import memory_picture
from mccompile.report.page.page import page

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
MODEL = Path(os.environ.get("MCC_SHARED", ROOT.parent / "shared")) / "mlperf_tiny" / "vww_mobilenetv1_int8.onnx"
OPTIONS = Options(target="cortex-m4", name="person_detection")
LIMITS = {"ram": 64 * 1024, "flash": 256 * 1024}
WIDTH = 1160
TOP, GRAPH = 1062, 206
"""Pixels of the page that are shown, from its top, and of its graph."""


def photograph(text: str, top: Path, graph: Path) -> None:
    """The top of a page, and its graph, as PNG."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = Path(folder, "page.html")
        path.write_text(text, encoding="utf-8")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": TOP})
        tab.goto(path.as_uri())
        tab.screenshot(path=top)
        box = tab.locator("figure.flow").bounding_box()
        assert box is not None
        clip: Any = {"x": box["x"], "y": box["y"], "width": box["width"], "height": GRAPH}
        tab.screenshot(path=graph, full_page=True, clip=clip)
        browser.close()


def main() -> int:
    result = check(MODEL, OPTIONS, with_code=True)
    if not result.ok or result.code is None or result.measured is None:
        print("\n".join([*result.lines(), result.code_note]))
        return 1
    found: dict[str, Any] = result.to_json()
    report = with_figures(result.report, limits=LIMITS, code=result.code.to_json(), check=found)
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "memory.svg").write_text(memory_picture(report), encoding="utf-8")
    photograph(page(report), PICTURES / "report.png", PICTURES / "graph.png")
    for path in sorted(PICTURES.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
