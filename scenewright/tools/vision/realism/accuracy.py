"""Errors of realism scores against people's, as the paper counts them (Liang et al., Sec. 4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scenewright.core.ports.vision import HIGHEST, LOWEST

Array = NDArray[np.float64]


def normalized_error(said: ArrayLike, wanted: ArrayLike) -> Array:
    """``|said − wanted| / 4`` for scores of 1 to 5: its mean is the paper's MAE."""
    found: Array = np.abs(np.asarray(said, np.float64) - np.asarray(wanted, np.float64))
    return found / (HIGHEST - LOWEST)


def realism_class(score: ArrayLike) -> Array:
    """Return the nearest of the classes 1 to 5; halves go up, as people round."""
    # A mean of five ratings such as 3.4999999 must not fall below its half by rounding error.
    near = np.floor(np.asarray(score, np.float64) + 0.5 + 1e-9)
    found: Array = np.clip(near, LOWEST, HIGHEST)
    return found


def same_class(said: ArrayLike, wanted: ArrayLike) -> Array:
    """1.0 where both fall into one class, else 0.0.

    Its mean is the paper's ACC. ``wanted`` is the mean of an object's raters.
    """
    found: Array = (realism_class(said) == realism_class(wanted)).astype(np.float64)
    return found
