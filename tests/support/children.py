"""Calls that may end their process, each answered by a text: what ended the process is an answer, too."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence

SLOW = ("SIGPROF", "SIGALRM")
"""What ends a process that has had more time than `end_after` gives it."""

WAIT = 10
"""Seconds that a process may wait for each one that it may compute."""


def end_after(seconds: int) -> None:
    """End this process when it has computed so many seconds, however busy the machine is; 0: never.

    One that waits for ever ends `WAIT` times as late.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(WAIT * seconds)


def in_children(calls: Sequence[Callable[[], str]], seconds: int) -> list[tuple[str, bool]]:
    """Each call's answer, and whether it is the name of what ended the process instead.

    The calls have a child process, and another one behind each that ends it; ``seconds`` is what one may take.
    """
    answers: list[tuple[str, bool]] = []
    while len(answers) < len(calls):
        found, number = _in_child(calls[len(answers) :], seconds)
        answers += [(text, False) for text in found]
        if len(answers) < len(calls):
            answers.append((signal.Signals(number).name if number else "an exception", True))
    return answers


def _in_child(calls: Sequence[Callable[[], str]], seconds: int) -> tuple[list[str], int]:
    """The answers of the calls that ended, and the signal that ended the child, or 0."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "w") as answers:
            for call in calls:
                print(json.dumps(_answer(call, seconds)), file=answers, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        found = [json.loads(line) for line in answers]
    _, status = os.waitpid(child, 0)
    return found, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _answer(call: Callable[[], str], seconds: int) -> str:
    end_after(seconds)
    return answered(call)


def answered(call: Callable[[], str]) -> str:
    """A call's answer, or the exception that it ended with."""
    try:
        return call()
    except Exception as e:
        return f"{type(e).__name__}: {e}"
