"""The process that compiles: how often it looks for garbage that counting references does not find; its end."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

OBJECTS = 2_000_000
"""New objects before it looks: a graph keeps most of what is made, and what it does not keep is found by counting
(`tools/lint_closures.py`), but for a macro or two of jinja for each kernel, so that looking finds next to nothing.
Python's usual 700 are a tenth of the time that a network takes, and 500,000 a twentieth of that of one of 10,000
nodes, whose peak of memory is the same with this many."""


def collect_rarely() -> None:
    """For the rest of a process that only compiles."""
    gc.set_threshold(OBJECTS, 10, 10)


_lock = threading.Lock()
_inside = 0
_own = gc.get_threshold()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """As long as the context lasts, in a process that does other things too; not more often than that asks for."""
    global _inside, _own
    with _lock:  # of threads that compile at the same time the last one restores what the first one found
        _inside += 1
        if _inside == 1:
            _own = gc.get_threshold()
            if 0 < _own[0] < OBJECTS:
                collect_rarely()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                gc.set_threshold(*_own)


def leave(code: int) -> NoReturn:
    """End the process, as `sys.exit` does, but without taking apart module by module what the system takes back
    anyway: that is a tenth of the time that a small network takes."""
    if threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # none where who has called us has closed it
        try:
            stream.flush()
        except (OSError, ValueError):
            sys.exit(code)  # whoever reads is gone: Python knows what to do then
    os._exit(code)
