"""Whether what the stages of a compilation have made is the same once it was written down and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mccompile.ir import files
from mccompile.kernels.registry import params_of
from mccompile.ops.registry import lookup


def is_read_again(folder: Path) -> Callable[[str, files.IR], None]:
    """What observes the stages of a compilation: each text that no stage before had is read as what has that text."""
    known = set[str]()

    def observe(stage: str, ir: files.IR) -> None:
        text = files.text_of(ir)
        if text not in known:
            known.add(text)
            files.save(folder / "x.mcir", ir)
            assert files.text_of(files.load(folder / "x.mcir", lookup, params_of)) == text, stage

    return observe
