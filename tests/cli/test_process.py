"""The end of a process leaves nothing undone."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
