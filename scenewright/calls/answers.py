"""The port of what keeps answers, and the choice of a keeper: a file, or one that all share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from scenewright.calls.store import AnswerStore
from scenewright.facts import Answer
from scenewright.flushing import Flusher


class Answers(Protocol):
    """A durable map from (judge, image, fact) to an answer; safe for threads and processes.

    The first answer to a fact stays, failures are never kept. Every method raises ``StoreError``
    where the keeper fails, and ``StoreBusy`` without ``wait`` where it would have to wait.
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
    from scenewright.calls.postgres_answers import PostgresAnswers

    return PostgresAnswers(shared, payer=payer)
