"""What users' files may hold, and where they may be, to which Python answers with errors that nobody expects."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def parsed_json(text: str | bytes) -> Any:
    """What JSON says; ValueError if it is none, or of more levels than Python follows."""
    try:
        return json.loads(text)
    except RecursionError as e:
        raise ValueError("it has too many levels") from e


def is_same_place(one: Path, other: Path) -> bool:
    """Whether two paths lead to one place, be it there or not; of links that lead to themselves, `resolve` raises
    RuntimeError."""
    return os.path.realpath(one) == os.path.realpath(other)
