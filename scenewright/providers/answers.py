"""The port of what keeps answers, and the choice of a keeper: a file, or one that all share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from scenewright.core.facts import Answer
from scenewright.core.flushing import Flusher
from scenewright.providers.store import AnswerStore


class Answers(Protocol):
    """A durable map from (judge, image, fact) to an answer; safe for threads and processes.

    ``judge`` is a fingerprint, of further served versions with their name
    (:func:`~scenewright.providers.versions.kept_under`). The first answer to a fact stays, failures
    are never kept. Every method raises ``StoreError`` where the keeper fails, and ``StoreBusy``
    without ``wait`` where it would have to wait.
    """

    def get(
        self, judge: str, image: str, digests: Sequence[str], *, wait: bool = True
    ) -> dict[str, tuple[Answer, str]]:
        """The kept answers among ``digests``: fact digest → (answer, origin that paid)."""
        ...

    def put(
        self,
        judge: str,
        image: str,
        answers: Sequence[tuple[str, Answer]],
        origin: str,
        *,
        wait: bool = True,
    ) -> None:
        """Keeps (fact digest, answer) pairs; ``ValueError`` for unscored and void ones."""
        ...

    def noted_versions(self, judge: str, *, wait: bool = True) -> tuple[str, str]:
        """Return the served version noted first for a judge and the one noted last; both are empty
        where none is noted."""
        ...

    def note_version(self, judge: str, version: str, *, wait: bool = True) -> None:
        """Note that a judge is served as ``version`` now."""
        ...

    def __len__(self) -> int:
        """How many answers are kept."""
        ...

    def turn(self, judge: str, image: str) -> AbstractAsyncContextManager[Any]:
        """While it is held, nobody else who shares the answers asks this judge of this image."""
        ...

    def close(self) -> None:
        """Finish what is under way, and let go of the keeper."""
        ...


def open_answers(
    shared: str | None, path: Path | None, *, flusher: Flusher | None = None, payer: str = ""
) -> Answers:
    """The answers at the URL ``shared`` of PostgreSQL, or without one in the file ``path``.

    ``payer`` sets apart the origins of one run among those of all who share the answers. Raises
    ``StoreError`` where they cannot be opened.
    """
    if shared is None:
        return AnswerStore(path, flusher=flusher)
    from scenewright.providers.postgres_answers import PostgresAnswers

    return PostgresAnswers(shared, payer=payer)
