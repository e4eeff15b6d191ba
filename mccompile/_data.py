"""Where the files that are not Python live: the kernel templates and the C runtime."""

from __future__ import annotations

from pathlib import Path


def data_dir() -> Path:
    """The folder that holds ``kernels_templates/`` and ``runtime_c/``: in a wheel or beside the package."""
    package = Path(__file__).resolve().parent
    bundled = package / "_bundled"
    return bundled if bundled.is_dir() else package.parent


def cmake_dir() -> Path:
    """The folder of ``mccompileConfig.cmake``."""
    return Path(__file__).resolve().parent / "cmake"
