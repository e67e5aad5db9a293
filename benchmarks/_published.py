"""Published agreement of TIFA, DSG and VQ2A with people, and its score of a picture.

Cho et al. (ICLR 2024) correlate, over the 800 images of TIFA160 that people rated, each judge's
score by the questions of each set with the mean rating. :func:`published_scores` gives the same
from the released answers (:mod:`scenewright.evals.studies.panel.sources.dsg_release`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.sources.dsg_release import Questions
from scenewright.evals.studies.panel.table import AnswerTable

DSG: Mapping[str, Mapping[str, float]] = {
    "spearman": {"mplug": 0.463, "instructblip": 0.442, "pali17b": 0.571},
    "kendall": {"mplug": 0.380, "instructblip": 0.364, "pali17b": 0.458},
}
"""Statistic → judge → correlation with the mean rating."""
TIFA: Mapping[str, Mapping[str, float]] = {
    "spearman": {"mplug": 0.352, "instructblip": 0.460, "pali17b": 0.431},
    "kendall": {"mplug": 0.259, "instructblip": 0.360, "pali17b": 0.323},
}
VQ2A: Mapping[str, Mapping[str, float]] = {
    "spearman": {"mplug": 0.212, "instructblip": 0.426, "pali17b": 0.207},
    "kendall": {"mplug": 0.164, "instructblip": 0.352, "pali17b": 0.157},
}
PUBLISHED: Mapping[Questions, Mapping[str, Mapping[str, float]]] = {
    "tifa": TIFA,
    "dsg": DSG,
    "vq2a": VQ2A,
}
"""Whose questions → statistic → judge → correlation, to three decimals (Cho et al., 2024,
item-level correlation on TIFA160; the release's page shows what its script prints)."""
UNASKED = 0.0
"""Score of an image without questions."""


def published_scores(table: AnswerTable, judge: int) -> Array:
    """Score of each image by one judge alone as in the published evaluation, (n_images,).

    The mean over its facts of *answered as expected, and so was every parent*. Parents count by
    what was answered, even where they were set to 0 themselves; an unscored answer counts as wrong;
    an image without facts scores ``UNASKED``. The metrics of this package do otherwise on all
    three counts; this is for comparison with what is published.
    """
    right = np.nan_to_num(table.said[:, judge]) > 0.5
    kept = right.copy()
    for row, fact in enumerate(table.facts):
        kept[row] &= all(right[parent] for parent in fact.parents)
    found = table.image_means(kept.astype(float))
    return np.where(np.isnan(found), UNASKED, found)
