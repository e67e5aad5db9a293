"""Style scores that are kept: what a scorer said of a picture once is not computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scenewright.evals.errors import EvalError
from scenewright.evals.store.sqlite_file import SqliteFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS style (
    scorer TEXT NOT NULL,
    picture TEXT NOT NULL,
    score REAL NOT NULL,
    PRIMARY KEY (scorer, picture)
)
"""
_AT_ONCE = 500
"""Pictures asked for in one statement."""


class StyleStore(SqliteFile):
    """A map from (fingerprint of a scorer, hash of a picture's pixels) to P(photo)."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file and its folder. Raises ``EvalError``."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvalError(f"{path.parent} cannot be made: {error.strerror or error}") from error
        # What a power cut takes back is computed again.
        super().__init__(path, _SCHEMA, synchronous="NORMAL", kept="every score")

    def known(self, scorer: str, pictures: Sequence[str]) -> dict[str, float]:
        """The kept scores of ``pictures``."""
        found: dict[str, float] = {}
        with self._told():
            for start in range(0, len(pictures), _AT_ONCE):
                some = pictures[start : start + _AT_ONCE]
                rows = self._db.execute(
                    "SELECT picture, score FROM style WHERE scorer=? AND picture IN "
                    f"({','.join('?' * len(some))})",
                    (scorer, *some),
                )
                found |= {str(picture): float(score) for picture, score in rows}
        return found

    def keep(self, scorer: str, scores: Mapping[str, float]) -> None:
        """Keep ``scores`` in one transaction."""
        if not scores:
            return
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(
                "INSERT OR REPLACE INTO style VALUES (?, ?, ?)",
                [(scorer, picture, score) for picture, score in scores.items()],
            )
            self._db.execute("COMMIT")
