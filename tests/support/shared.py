"""What lies under MCC_SHARED, for the parameters of tests; empty where the folder is absent."""

from __future__ import annotations

import os
from pathlib import Path

from tests._skips import REPOSITORY


def model_names() -> list[str]:
    """The folders of models that hold a network and its inputs, by name."""
    models = Path(os.environ.get("MCC_SHARED", REPOSITORY.parent / "shared")) / "models"
    return sorted(p.parent.name for p in models.glob("*/model.onnx") if (p.parent / "io.json").exists())
