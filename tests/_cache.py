"""One cache for the C that tests build, kept between runs: libraries and programs by the text of all their files.

The key is that of `mccompile.run.build`: sources, headers, flags, and what the compiler says of its release. So equal
C is compiled once, by whichever test and worker comes first; a run after a change compiles the C that has changed.
What does not compile without warnings is not kept: it fails anew each time. ``make clean`` empties the cache.
"""

from __future__ import annotations

import os

import pytest

from mccompile.run.cache import MOST_BYTES, prune
from tests._skips import REPOSITORY

FOLDER = REPOSITORY / "build" / "test-cache"


def pytest_configure(config: pytest.Config) -> None:
    """Leave the cache of the user alone, unless MCC_CACHE names it; let IR be verified after each pass."""
    os.environ.setdefault("MCC_CACHE", str(FOLDER))
    os.environ.setdefault("MCC_VERIFY", "1")
    if not hasattr(config, "workerinput"):
        for folder in (FOLDER, FOLDER / "headers"):
            prune(folder, MOST_BYTES)

