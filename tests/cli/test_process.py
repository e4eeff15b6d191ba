"""The end of a process leaves nothing undone, and a process that also compiles looks for garbage as before."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mccompile._process import OBJECTS, collecting_rarely

START = "import atexit, threading, time\nfrom mccompile._process import leave\natexit.register(print, 'at exit')\n"
THREAD = "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\n"


@pytest.mark.parametrize("more", ["", THREAD], ids=["alone", "thread"])
def test_what_was_printed_and_registered_is_done(more: str) -> None:
    text = START + more + "print('text', end=' ')\nleave(3)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.split() == ["text", *(["thread"] if more else []), "at", "exit"]


def test_nobody_reads_what_was_printed() -> None:
    text = START + "import os\nos.close(1)\nprint('text')\nleave(0)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode != 0
    assert "Bad file descriptor" in done.stderr


@pytest.fixture
def threshold() -> Iterator[None]:
    own = gc.get_threshold()
    yield
    gc.set_threshold(*own)


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("own", [700, 0, 10 * OBJECTS])
def test_garbage_is_looked_for_as_before_when_the_last_has_compiled(own: int) -> None:
    gc.set_threshold(own, 5, 6)
    first, second = collecting_rarely(), collecting_rarely()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # as threads do, the first ends before the second
    assert gc.get_threshold()[0] == (OBJECTS if own == 700 else own)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (own, 5, 6)


@pytest.mark.usefixtures("threshold")
def test_an_error_restores_it_too() -> None:
    gc.set_threshold(701, 5, 6)
    with pytest.raises(ZeroDivisionError), collecting_rarely():
        assert 1 / 0
    assert gc.get_threshold() == (701, 5, 6)
