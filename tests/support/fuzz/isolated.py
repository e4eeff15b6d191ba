"""A call in a process of its own: onnxruntime aborts the process on some networks, and what is called may hang."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    Attributes:
        answer: what it returned; None if it did not.
        by: empty, or the name of the signal or the error that ended it.
        last: the last word that it said through ``say``.
        mib: the most memory that its process had.
    """

    answer: Any
    by: str
    last: str
    mib: int


def isolated(call: Callable[[Callable[[str], None]], Any], seconds: int) -> Ended:
    """The answer of ``call(say)``, which is to be JSON; SIGALRM ends it after so many seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _answer(call, seconds, writing)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = [json.loads(line) for line in lines if line.endswith("\n")]
    _, status, usage = os.wait4(child, 0)
    words = [s["say"] for s in said if "say" in s]
    answers = [s for s in said if "say" not in s]
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    by = signal.Signals(number).name if number else "" if answers else "exit"
    found = answers[-1] if answers else {}
    return Ended(found.get("answer"), found.get("error", by), words[-1] if words else "", usage.ru_maxrss // 1024)


def _answer(call: Callable[[Callable[[str], None]], Any], seconds: int, writing: int) -> None:
    os.setpgid(0, 0)  # what it starts ends with it
    signal.signal(signal.SIGALRM, _end_all)
    signal.alarm(seconds)
    with os.fdopen(writing, "w") as out:

        def tell(what: dict[str, Any]) -> None:
            print(json.dumps(what), file=out, flush=True)

        try:
            tell({"answer": call(lambda word: tell({"say": word}))})
        except BaseException:
            tell({"error": traceback.format_exc(limit=-5)})
    os._exit(0)


def _end_all(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGALRM)
