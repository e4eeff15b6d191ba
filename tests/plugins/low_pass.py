"""The twin of low_pass.c."""

from __future__ import annotations

import numpy as np


def low_pass(x: np.ndarray, share: float = 0.5) -> np.ndarray:
    """``x`` f32[rows, time], filtered along time."""
    y = x.copy()
    for t in range(1, x.shape[1]):
        y[:, t] = y[:, t - 1] + np.float32(share) * (x[:, t] - y[:, t - 1])
    return y
