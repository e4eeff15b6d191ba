"""How often Python looks for garbage that counting references does not find, in a process that only compiles."""

from __future__ import annotations

import gc

OBJECTS = 100_000
"""New objects before it looks: a graph keeps most of what is made, so that looking finds next to nothing. Python's
usual 700 are a tenth of the time that a network takes; this many are some tens of megabytes at most."""


def collect_rarely() -> None:
    """For the rest of the process."""
    gc.set_threshold(OBJECTS, 10, 10)
