"""The memory map alone, as a picture for documents: SVG that is light or dark as who shows it is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from mccompile.report.page.environment import environment
from mccompile.report.page.memory_map import memory_maps

_NO_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML has not, not even by number; names of tensors may have them."""
_MARGINS = 44 + 36
"""Above and below a map, in pixels."""


def memory_picture(report: Mapping[str, Any]) -> str:
    """The memory maps of a model's report, one below the other."""
    maps = memory_maps(report)
    heights = [m.height + _MARGINS for m in maps]
    tops = [0, *itertools.accumulate(heights)]
    drawn = environment().get_template("memory.svg.j2").render(
        maps=maps, tops=tops, height=max(tops[-1], 1), title=report["model"]["name"]
    )
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", drawn)

