"""Watch for judges that change without notice, and cut off judges that are slow.

A fingerprint that changes says so before the first answer (:func:`changed_judges`), but a provider
may exchange a model silently. What can be watched is the judge's **agreement** with the others: of
an image the mean over facts of ``1 − |q − mean of the other judges' q|``. Two watches read the
stream of images, both set to raise a false alarm in 5 % of streams without a change:

- **CUSUM** (Page, 1954): ``S ← max(0, S ± z − ½)`` of the agreement standardised by the images
  before, an alarm where one of the two sums exceeds its limit;
- a **two-sample test**: the mean of the first n images after the change against those before it
  (Welch's z), for each n alone.

A judge answers all facts of an image in one call. Judges are asked at the same time, so an image
takes as long as its slowest judge, or the limit; a call that takes longer than the limit leaves all
its facts unscored for that judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from scipy.stats import norm

from scenewright.agents.panel.aggregation import Array, mean_probability
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError, Places

Change = Literal["worse", "eager"]
CHANGES: tuple[Change, ...] = get_args(Change)
FALSE_ALARMS = 0.05
_SLACK = 0.5
"""Of CUSUM, in standard deviations: half of the shift that it finds soonest."""
FEWEST = 20
"""Images before the change, and as many after it, that a watch needs."""


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """What the watches saw of one judge that changed in one way."""

    judge: str
    """Its id."""
    delays: Array
    """Images from the change to the alarm of CUSUM, one a stream; infinite where it never came."""
    ns: tuple[int, ...]
    """Numbers of images after the change."""
    found: tuple[float, ...]
    """Share of streams in which the two-sample test sees the change after so many."""
    watched: int
    """Images after the change in a stream."""
    agreement: tuple[float, float]
    """Mean agreement before and after."""

    @property
    def caught(self) -> float:
        """Share of streams with an alarm."""
        return float(np.isfinite(self.delays).mean())

    @property
    def enough(self) -> int | None:
        """Fewest images, of ``ns``, after which the test finds the change in 80 % of streams."""
        return next((n for n, share in zip(self.ns, self.found, strict=True) if share >= 0.8), None)


def changed_judges(before: AnswerTable, after: AnswerTable) -> tuple[str, ...]:
    """Return the ids of judges in both tables whose fingerprints are known and differ.

    What was learnt of them holds no more.
    """
    known = {judge.id: judge.fingerprint for judge in before.judges if judge.fingerprint}
    return tuple(
        judge.id
        for judge in after.judges
        if judge.fingerprint and known.get(judge.id, judge.fingerprint) != judge.fingerprint
    )


def changed_answers(said: Array, change: Change, shift: float, rng: np.random.Generator) -> Array:
    """Return answers (…) after an update.

    Each with probability ``shift`` turned round (``worse``: Se falls by ``shift·(2Se − 1)``, Sp
    likewise) or set to yes (``eager``: Se rises, Sp falls).
    """
    hit = (rng.random(said.shape) < shift) & ~np.isnan(said)
    found: Array = np.where(hit, 1.0 - said if change == "worse" else 1.0, said)
    return found


def watch(
    table: AnswerTable,
    judge: int,
    change: Change,
    shift: float,
    *,
    streams: int = 200,
    seed: int = 0,
) -> Watched:
    """Streams of the table's images in random order of items, with the change after half of them.

    Raises ``PanelStudyError`` for a judge alone, for a shift that is no share, and for fewer than
    twice :data:`FEWEST` images that the judge and another one answered.
    """
    if len(table.judges) < 2:
        raise PanelStudyError(
            "a judge alone has no other to agree with, so a change of it cannot be seen: use two "
            "judges or more"
        )
    if not 0.0 <= shift <= 1.0:
        raise PanelStudyError(f"a shift of {shift}: use a share of the answers, from 0 to 1")
    own = table.said[:, judge]
    others = mean_probability(np.delete(table.said, judge, axis=1))
    rng = np.random.default_rng([seed, judge, round(1e6 * shift)])
    usual = table.image_means(1.0 - np.abs(own - others))
    images = np.flatnonzero(~np.isnan(usual))
    half = len(images) // 2
    if half < FEWEST:
        raise PanelStudyError(
            f"{len(images)} images were answered by {table.judge_ids[judge]} and another judge: "
            f"watching for a change needs {2 * FEWEST}"
        )
    clean, changed = np.empty((streams, 2 * half)), np.empty((streams, 2 * half))
    for at in range(streams):
        order = _in_order_of_items(table, images, rng)[: 2 * half]
        new = changed_answers(own, change, shift, rng)
        after = table.image_means(1.0 - np.abs(new - others))
        clean[at] = usual[order]
        changed[at] = np.where(np.arange(2 * half) < half, usual[order], after[order])
    limit = float(np.quantile(_cusum(clean, half).max(1), 1.0 - FALSE_ALARMS))
    alarms = _cusum(changed, half) > limit
    delays = np.where(alarms.any(1), alarms.argmax(1) + 1.0, np.inf)
    ns = tuple(n for n in (5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000) if n <= half)
    return Watched(
        judge=table.judge_ids[judge],
        delays=delays,
        ns=ns,
        found=tuple(_two_samples(clean, changed, half, n) for n in ns),
        watched=half,
        agreement=(float(clean[:, half:].mean()), float(changed[:, half:].mean())),
    )


def _in_order_of_items(table: AnswerTable, images: Places, rng: np.random.Generator) -> Places:
    """``images`` with items in random order, those of one item side by side."""
    place = rng.permutation(table.n_items)[table.item_of_image[images]]
    order: Places = np.lexsort((rng.random(len(images)), place)).astype(np.intp)
    found: Places = images[order]
    return found


def _cusum(values: Array, half: int) -> Array:
    """Return the larger of the two sums after each image after the change, (streams, half)."""
    before, after = values[:, :half], values[:, half:]
    scale = np.maximum(before.std(1, ddof=1), 1e-12)[:, None]
    z = (after - before.mean(1)[:, None]) / scale
    up, down = np.zeros(len(z)), np.zeros(len(z))
    found: Array = np.zeros(after.shape)
    for at in range(z.shape[1]):
        up = np.maximum(0.0, up + z[:, at] - _SLACK)
        down = np.maximum(0.0, down - z[:, at] - _SLACK)
        found[:, at] = np.maximum(up, down)
    return found


def _two_samples(clean: Array, changed: Array, half: int, n: int) -> float:
    """Return the share of streams in which the test sees the change after n images.

    The first n images after it must differ more from those before it than in 95 % of the streams
    without a change, and no less than the normal test asks.
    """

    def z(values: Array) -> Array:
        before, after = values[:, :half], values[:, half : half + n]
        error = np.sqrt(before.var(1, ddof=1) / half + after.var(1, ddof=1) / n)
        gap = np.abs(after.mean(1) - before.mean(1))
        found: Array = gap / np.maximum(error, 1e-12)
        return found

    usual = float(np.quantile(z(clean), 1.0 - FALSE_ALARMS))
    edge = max(usual, float(norm.isf(FALSE_ALARMS / 2.0)))
    return float(np.mean(z(changed) > edge))


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A table under a time limit."""

    limit: float
    """Seconds; infinite: none."""
    table: AnswerTable
    """What is left of the answers."""
    lost: float
    """Share of the answers that were given up."""
    wall: Array
    """Seconds of each image, (n_images,); NaN for one that was not asked about."""


def call_seconds(table: AnswerTable) -> Array | None:
    """Return the seconds of each judge's call for each image, (n_images, n_judges).

    NaN where it was not asked; None where the table has no times.
    """
    if not (np.nan_to_num(table.seconds) > 0.0).any():
        return None
    return _by_image(table, np.nan_to_num(table.seconds))


def modelled_seconds(table: AnswerTable, median: float, spread: float, seed: int = 0) -> Array:
    """Draw the seconds of calls log-normal, shaped as :func:`call_seconds`.

    ``median`` in seconds; ``spread`` is the standard deviation of the logarithm (0.5 is a steady
    server, 1 one with a heavy tail). Raises ``PanelStudyError`` for numbers that are not positive,
    or a negative spread.
    """
    if not (median > 0.0 and spread >= 0.0):
        raise PanelStudyError(f"a median of {median} s and a spread of {spread}: use positive ones")
    asked = _by_image(table, np.ones(table.said.shape))
    rng = np.random.default_rng([seed, 7])
    drawn = median * np.exp(spread * rng.standard_normal(asked.shape))
    found: Array = np.where(np.isnan(asked), np.nan, drawn)
    return found


def cut_off(table: AnswerTable, seconds: Array, limits: Sequence[float]) -> list[Cut]:
    """Return the table under each of the ``limits`` of time.

    ``seconds`` (n_images, n_judges) are those of calls.
    """
    found = []
    answered = ~np.isnan(table.said)
    for limit in limits:
        late = (np.nan_to_num(seconds, nan=0.0) > limit)[table.image_of]
        said = np.where(late, np.nan, table.said)
        capped = np.minimum(seconds, limit)
        known = ~np.isnan(capped).all(1)
        wall = np.full(len(capped), np.nan)
        wall[known] = np.nanmax(capped[known], axis=1)
        found.append(
            Cut(
                limit=float(limit),
                table=replace(table, said=said, votes=np.where(late, np.nan, table.votes)),
                lost=float((late & answered).sum() / max(1, answered.sum())),
                wall=wall,
            )
        )
    return found


def _by_image(table: AnswerTable, values: Array) -> Array:
    shape = (len(table.images), len(table.judges))
    sums, asked = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, table.image_of, np.where(table.asked, values, 0.0))
    np.add.at(asked, table.image_of, table.asked.astype(float))
    found: Array = np.where(asked > 0, sums, np.nan)
    return found
