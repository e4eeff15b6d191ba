"""What a user sees of a compilation while it runs: IR printed or dumped after each stage, and progress."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import click

from mccompile.driver import Options
from mccompile.ir import files
from mccompile.ir.errors import UsageError
from mccompile.ir.files import IR
from mccompile.kernel_passes.pipeline import KERNEL_PIPELINES, kernel_passes
from mccompile.passes.manager import passes
from mccompile.passes.pipeline import PIPELINES

PROGRESS_AFTER = 1.0
"""Seconds before the first word of progress."""

TICK = 0.1


def on_terminal() -> bool:
    """Whether somebody sees what is written on stderr at once; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


class Watch:
    """An observer of `driver.compile`; use it as a context, so that progress ends."""

    def __init__(
        self, options: Options, print_after: Sequence[str], print_all: bool, dump_dir: Path | None, quiet: bool
    ) -> None:
        known = ["import", *passes(), "lower", *kernel_passes(), "plan"]
        for name in print_after:
            if name not in known:
                raise UsageError(f"unknown pass or stage {name!r}", hint=f"known are: {', '.join(known)}")
        self.print_after = frozenset(print_after)
        self.print_all = print_all
        self.dump_dir = dump_dir
        level = options.opt_level
        on_kernels = ["lower", *KERNEL_PIPELINES.get(level, ()), "plan", "write"]
        self.stages = ["import", *PIPELINES.get(level, ()), *on_kernels]
        self.seen: list[str] = []
        self.progress = None if quiet or not on_terminal() else Progress(self.stages[0])
        if dump_dir is not None:
            try:
                dump_dir.mkdir(parents=True, exist_ok=True)
            except OSError as e:
                raise UsageError(f"the folder {dump_dir} cannot be made: {e.strerror}") from e

    def __enter__(self) -> Watch:
        if self.progress:
            self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.progress:
            self.progress.stop()
        missing = sorted(self.print_after - set(self.seen))
        if missing and error is None:
            click.echo(f"note: not run at this level: {', '.join(missing)}", err=True)

    def __call__(self, stage: str, ir: IR) -> None:
        number = len(self.seen)
        self.seen.append(stage)
        if self.print_all or stage in self.print_after:
            if self.progress:
                self.progress.clear()
            click.echo(f"// after {stage}\n{files.text_of(ir)}", err=True)
        if self.dump_dir is not None:
            files.save(self.dump_dir / f"{number:03d}-{stage}{files.SUFFIX}", ir)
        if self.progress:
            after_passes = stage in ("lower", "plan") or stage in kernel_passes()
            following = self.stages[self.stages.index(stage) + 1 :] if after_passes and stage in self.stages else []
            self.progress.stage = (following or self.stages[number + 1 :] or [stage])[0]


class Progress(threading.Thread):
    """One line on a terminal that says which stage runs and for how long; gone when it is over."""

    def __init__(self, stage: str) -> None:
        super().__init__(daemon=True)
        self.stage = stage
        self.over = threading.Event()
        self.shown = 0

    @staticmethod
    @contextmanager
    def of(stage: str, quiet: bool) -> Iterator[Callable[[str], None]]:
        """Progress while the context lasts, unless ``quiet`` or where stderr is no terminal; call it with stages."""
        if quiet or not on_terminal():
            yield lambda stage: None
            return
        progress = Progress(stage)
        progress.start()
        try:
            yield progress.at
        finally:
            progress.stop()

    def at(self, stage: str) -> None:
        """What is going on now."""
        self.stage = stage

    def run(self) -> None:
        begin = time.monotonic()
        while not self.over.wait(TICK):
            seconds = time.monotonic() - begin
            if seconds >= PROGRESS_AFTER:
                line = f"{self.stage} ... {seconds:.0f} s"
                sys.stderr.write("\r" + line.ljust(self.shown))
                sys.stderr.flush()
                self.shown = len(line)

    def clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r" + " " * self.shown + "\r")
            sys.stderr.flush()
            self.shown = 0

    def stop(self) -> None:
        self.over.set()
        self.join()
        self.clear()


