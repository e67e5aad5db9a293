"""Opens the ratings of a study, of whatever kind."""

from __future__ import annotations

from scenewright.evals.human_ratings.object_store import ObjectStore
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import StudyFolder


def store_of(folder: StudyFolder) -> RatingStore:
    """The ratings of ``folder``. Raises as
    :class:`~scenewright.evals.human_ratings.store.RatingStore`."""
    return ObjectStore(folder) if folder.study.kind == "objects" else RatingStore(folder)
