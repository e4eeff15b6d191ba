"""How often Python looks for garbage that counting references does not find, in a process that only compiles."""

from __future__ import annotations

import atexit
import gc

OBJECTS = 500_000
"""New objects before it looks: a graph keeps most of what is made, so that looking finds next to nothing. Python's
usual 700 are a tenth of the time that a network takes, and 100,000 a twentieth of that of a small one; this many are
some tens of megabytes at most."""


def collect_rarely() -> None:
    """For the rest of the process, and not at its end, where Python would look through all modules once more."""
    gc.set_threshold(OBJECTS, 10, 10)
    atexit.register(gc.freeze)
