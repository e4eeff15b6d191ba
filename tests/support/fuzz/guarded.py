"""What must end well whatever is given: in a minute, in 4 GB, with an answer or with an error of ours."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.fuzz.isolated import isolated

SECONDS = 60
MOST_MIB = 4096

Outcome = tuple[str, str]


def guarded(call: Callable[[Callable[[str], None], Path], Outcome]) -> Outcome:
    """The outcome of ``call(say, folder)``; before it says something, it only prepares."""
    with tempfile.TemporaryDirectory(prefix="mccompile-fuzz-") as folder:
        ended = isolated(lambda say: list(call(say, Path(folder))), SECONDS)
    if not ended.last:
        return "none", ended.by
    if ended.by:
        kind = "slow" if ended.by == "SIGALRM" else "crash" if ended.by.startswith("SIG") else "internal"
        return kind, f"{ended.last}\n{ended.by}"
    if ended.mib > MOST_MIB:
        return "memory", f"{ended.last}\n{ended.mib} MiB"
    kind, text = ended.answer
    return kind, text
