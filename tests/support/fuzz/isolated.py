"""Calls in a process of their own: onnxruntime aborts the process on some networks, and what is called may hang.

Many calls share one process, so that what the first of them loads is there for the others; the call that ends it is
followed by a new one. Example: of ``[a, abort, b]`` the first process answers a and ends in abort, the second
answers b.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.children import end_after

Say = Callable[[str], None]
Call = Callable[[Say], Any]

CALLS_LEAVE = 6
"""Calls whose garbage is let lie: to look for it takes a tenth of the time of one."""

_PEAK = Path("/proc/self/clear_refs"), Path("/proc/self/status")


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    Attributes:
        answer: what it returned; None if it did not.
        by: empty, or the name of the signal or the error that ended it.
        last: the last word that it said through ``say``.
        mib: how much its process's memory grew, at most, since that word, or since the call where it said none; 0
            where the process ended.
    """

    answer: Any
    by: str
    last: str
    mib: int


def isolated(call: Call, seconds: int) -> Ended:
    """The answer of ``call(say)``, which is to be JSON; a signal of `SLOW` ends it after so many seconds."""
    return next(each_isolated([call], seconds))


def each_isolated(calls: Sequence[Call], seconds: int) -> Iterator[Ended]:
    """How each of the calls ended, one after the other; ``seconds`` is what one of them may take."""
    done = 0
    while done < len(calls):
        for ended in _of_one_process(calls[done:], seconds):
            done += 1
            yield ended


def _of_one_process(calls: Sequence[Call], seconds: int) -> Iterator[Ended]:
    """The calls that a process came to: all, or those up to the one that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)  # what it starts ends with it
        os.close(reading)
        _answer_all(calls, seconds, writing)
    with suppress(PermissionError, ProcessLookupError):  # whoever is first; the other one is too late
        os.setpgid(child, child)
    os.close(writing)
    said, left, status = "", len(calls), None
    with os.fdopen(reading) as lines:
        try:
            for line in lines:
                found = json.loads(line) if line.endswith("\n") else {}
                said = found.get("say", said)
                if "mib" in found:
                    yield Ended(found.get("answer"), found.get("error", ""), said, found["mib"])
                    said, left = "", left - 1
            _, status = os.waitpid(child, 0)
        finally:
            with suppress(ProcessLookupError):  # what it started, and itself if nobody wants the other answers
                os.killpg(child, signal.SIGKILL)
            if status is None:
                os.waitpid(child, 0)
    if left:
        number = os.WTERMSIG(status)
        yield Ended(None, signal.Signals(number).name if number else "exit", said, 0)


def _answer_all(calls: Sequence[Call], seconds: int, writing: int) -> None:
    with os.fdopen(writing, "w") as out:

        before = 0

        def tell(what: dict[str, Any]) -> None:
            print(json.dumps(what), file=out, flush=True)

        def say(word: str) -> None:
            nonlocal before
            tell({"say": word})
            before = _begin_peak()

        faulthandler.disable()  # how the process ends is an answer, not news for who reads what the tests print
        gc.disable()  # a seventh of the time goes there; what calls leave goes behind some of them
        for i, call in enumerate(calls):
            if i % CALLS_LEAVE == 0:
                gc.collect()
            end_after(seconds)
            before = _begin_peak()
            try:
                ended = {"answer": call(say)}
            except BaseException:
                ended = {"error": traceback.format_exc(limit=-5)}
            end_after(0)
            tell({**ended, "mib": _mib("VmHWM") - before})
    os._exit(0)


def _begin_peak() -> int:
    """Begin anew to measure the most memory; what there is in MiB, which others may have left (onnxruntime keeps
    gigabytes of it after some convolutions)."""
    _PEAK[0].write_text("5")
    return _mib("VmRSS")


def _mib(what: str) -> int:
    line = next(line for line in _PEAK[1].read_text().splitlines() if line.startswith(f"{what}:"))
    return int(line.split()[1]) // 1024
