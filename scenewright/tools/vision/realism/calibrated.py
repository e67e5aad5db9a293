"""Few-shot for scorers that cannot be shown examples: their scores mapped onto people's.

An addition of ours. A language model takes examples as turns of a conversation (Liang et al., Sec.
4.2); a judge or an encoder gives a number and has no such turns. The same few examples a category
then fit a map from its scores to the ratings that never falls, so that ranks within a category
stay and only the scale is learned.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from scenewright.core.images import ImageError, load_image
from scenewright.core.ports.vision import Detection, ObjectRealism, RealismError, RealismScorer
from scenewright.tools.vision.realism.examples import Examples

Aspect = Literal["shape", "texture", "joint"]
ASPECTS: tuple[Aspect, ...] = ("shape", "texture", "joint")


class MonotoneMap:
    """A map that never falls: isotonic least squares, straight between its knots, level outside."""

    def __init__(self, scores: ArrayLike, ratings: ArrayLike) -> None:
        """Fitted on ``ratings`` of examples with ``scores``, both (n,).

        Equal scores count as their mean. Raises ``ValueError`` for none or for lengths that differ.
        """
        x, y = np.asarray(scores, np.float64), np.asarray(ratings, np.float64)
        if x.ndim != 1 or x.shape != y.shape or not len(x):
            raise ValueError("a map needs as many scores as ratings, at least one")
        from scipy.optimize import isotonic_regression

        self.knots, places = np.unique(x, return_inverse=True)
        counts = np.bincount(places)
        means = np.bincount(places, weights=y) / counts
        self.values: NDArray[np.float64] = isotonic_regression(means, weights=counts).x

    def __call__(self, score: float) -> float:
        """Return the rating that ``score`` stands for."""
        return float(np.interp(score, self.knots, self.values))


class CalibratedScorer:
    """Implements :class:`~scenewright.core.ports.vision.RealismScorer` over another one.

    The examples are scored once, before the first object that needs them; what that costs is no
    object's. While one of them cannot be scored no map is made, and objects go without scores: a
    map of fewer examples would be another scorer. An aspect of which the scorer tells nothing is
    left out.
    """

    def __init__(self, scorer: RealismScorer, examples: Examples) -> None:
        """Calibrate ``scorer`` by one map for all categories of ``examples``."""
        self._scorer = scorer
        self._examples = examples
        self._maps: Mapping[Aspect, MonotoneMap] | None = None
        self._scored: dict[str, ObjectRealism] = {}
        self._turn = asyncio.Lock()

    @property
    def scorer(self) -> RealismScorer:
        """The scorer whose scores are mapped."""
        return self._scorer

    @property
    def id(self) -> str:
        """``few-shot:`` and the scorer's."""
        return f"few-shot:{self._scorer.id}"

    @cached_property
    def fingerprint(self) -> str:
        """Of the scorer and the examples."""
        text = f"{self._scorer.fingerprint}\0{self._examples.digest}\0all"
        return f"calibrated@1 {self.id}#{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """As the port says: the scorer's scores, mapped."""
        found = await self._scorer.score(image, objects)
        return [await self._mapped(one) for one in found]

    async def aclose(self) -> None:
        """Close the scorer."""
        await self._scorer.aclose()

    async def _mapped(self, one: ObjectRealism) -> ObjectRealism:
        try:
            async with self._turn:
                if self._maps is None:
                    self._maps = await self._fitted()
                maps = self._maps
        except (ImageError, RealismError) as error:
            return replace(one, shape=None, texture=None, joint=None, reason=str(error))
        scores: dict[str, float | None] = {}
        for aspect in ASPECTS:
            score = getattr(one, aspect)
            known = score is not None and aspect in maps
            scores[aspect] = maps[aspect](score) if known else None
        return replace(one, **scores)  # type: ignore[arg-type]

    async def _fitted(self) -> Mapping[Aspect, MonotoneMap]:
        chosen = self._examples.chosen.values()
        for example in chosen:
            if example.id not in self._scored:
                shown = await asyncio.to_thread(load_image, example.picture)
                (scored,) = await self._scorer.score(shown, [example.detection])
                if scored.reason:
                    raise RealismError(
                        f"the example {example.id} could not be scored ({scored.reason}): mend the "
                        "cause, or take it out of the examples"
                    )
                self._scored[example.id] = scored
        maps: dict[Aspect, MonotoneMap] = {}
        for aspect in ASPECTS:
            said = [getattr(self._scored[example.id], aspect) for example in chosen]
            if None not in said:
                maps[aspect] = MonotoneMap(said, [getattr(one, aspect) for one in chosen])
        return maps
