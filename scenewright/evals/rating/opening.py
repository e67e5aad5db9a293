"""Opens the ratings of a study, of whatever kind."""

from __future__ import annotations

from scenewright.evals.rating.objects.store import ObjectStore
from scenewright.evals.rating.store import RatingStore
from scenewright.evals.rating.study import StudyFolder


def store_of(folder: StudyFolder) -> RatingStore:
    """The ratings of ``folder``. Raises as :class:`~scenewright.evals.rating.store.RatingStore`."""
    return ObjectStore(folder) if folder.study.kind == "objects" else RatingStore(folder)
