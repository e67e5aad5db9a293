"""How hard to damage a drawing so that a measured damage comes out."""

from __future__ import annotations

from collections.abc import Callable


def force_for(target: float, measure: Callable[[float], float], most: float) -> float:
    """The force from 0 to ``most`` whose measured damage is near ``target``, by bisection.

    A greater target never gives a smaller force, even where ``measure`` jumps or falls.
    Where no force on the way reaches the target it comes near to ``most``.
    """
    low, high = 0.0, most
    reached = {low: 0.0, high: measure(high)}
    for _ in range(9):
        middle = (low + high) / 2
        reached[middle] = measure(middle)
        if reached[middle] < target:
            low = middle
        else:
            high = middle
    return low if target - reached[low] < reached[high] - target else high
