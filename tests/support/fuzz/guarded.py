"""What must end well whatever is given: in time, in 4 GB, with an answer or with an error of ours."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.support.children import SLOW
from tests.support.fuzz.isolated import Call, Ended, Say, each_isolated

SECONDS = 60
"""What one piece of work may take; on a busy machine most take less than one."""

MOST_MIB = 4096

Outcome = tuple[str, str]
"""A kind, ``none`` for what came to nothing that can be judged, and a text."""

Work = Callable[[Say, Path], Outcome]
"""Its outcome, in a folder of its own; before it says something, it only prepares."""


def outcomes(works: Sequence[Work], seconds: int = SECONDS) -> Iterator[Outcome]:
    """The outcomes of works, one after the other, in a process of their own."""
    with tempfile.TemporaryDirectory(prefix="mccompile-fuzz-") as name:
        calls = [_in_folder(work, Path(name) / str(i)) for i, work in enumerate(works)]
        for ended in each_isolated(calls, seconds):
            yield outcome(ended)


def _in_folder(work: Work, folder: Path) -> Call:
    def call(say: Say) -> list[str]:
        folder.mkdir()
        try:
            return list(work(say, folder))
        finally:
            shutil.rmtree(folder)

    return call


def outcome(ended: Ended) -> Outcome:
    """What the end of a work says of what it tried."""
    if not ended.last and not ended.answer:  # onnxruntime aborts, or our own drawing is at fault
        return "harness" if "Traceback" in ended.by else "none", ended.by
    if ended.by:
        kind = "slow" if ended.by in SLOW else "crash" if ended.by.startswith("SIG") else "internal"
        return kind, f"{ended.last}\n{ended.by}"
    if ended.mib > MOST_MIB:
        return "memory", f"{ended.last}\n{ended.mib} MiB"
    kind, text = ended.answer
    return kind, text
