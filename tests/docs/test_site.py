"""The site has every document, and its links are as documents lie there."""

from __future__ import annotations

import re
from pathlib import Path

from make_site import moved

from tests._skips import REPOSITORY


def test_links_are_those_of_the_site() -> None:
    text = "[a](docs/ir.md#b) [c](CONTRIBUTING.md) [d](https://x.y) [e](LICENSE) [f](#g)"
    wanted = "[a](ir.md#b) [c](CONTRIBUTING.md) [d](https://x.y) e (`LICENSE`) [f](#g)"
    assert moved(text, REPOSITORY) == wanted
    assert moved("![p](docs/pictures/p.png)", REPOSITORY) == "![p](pictures/p.png)"
    assert moved("[a](../README.md)", REPOSITORY / "docs") == "[a](index.md)"


def test_every_document_is_in_the_menu() -> None:
    listed = set(re.findall(r": (\w[\w-]*\.md)$", Path(REPOSITORY / "mkdocs.yml").read_text(), re.M))
    assert {p.name for p in (REPOSITORY / "docs").glob("*.md")} <= listed
