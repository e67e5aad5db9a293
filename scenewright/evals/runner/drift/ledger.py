"""The file of an evaluation's sentinel answers and of the changes that they showed.

It lies in the evaluation's folder, so that an evaluation that goes on tests on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scenewright.evals.store.sqlite_file import SqliteFile
from scenewright.providers.versions import served_name, time_text

_SCHEMA = """
CREATE TABLE IF NOT EXISTS asked (
    number INTEGER PRIMARY KEY,
    judge TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    version TEXT NOT NULL,
    pictures TEXT NOT NULL,
    picture INTEGER NOT NULL,
    places TEXT NOT NULL,
    at REAL NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    usd REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS drifts (
    judge TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    since REAL NOT NULL,
    noticed REAL NOT NULL,
    questions INTEGER NOT NULL,
    after INTEGER NOT NULL,
    accepted INTEGER NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class SentinelReply:
    """What a judge said of a sentinel picture."""

    judge: str
    """Id of the judge."""
    fingerprint: str
    """Its fingerprint."""
    version: str
    """The served version that the reply told; empty: none."""
    pictures: str
    """Digest of the sentinel pictures."""
    picture: int
    """Number of the picture."""
    places: Mapping[int, int]
    """Number of a question of the picture → place of the usable answer to it."""
    at: float
    """Unix time when it was asked."""
    tokens_in: int = 0
    """Tokens of the request."""
    tokens_out: int = 0
    """Tokens of the reply."""
    usd: float = 0.0
    """Price of both."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A change of a judge's answers to sentinel questions that its replies do not name."""

    judge: str
    """Id of the judge."""
    fingerprint: str
    """Its fingerprint."""
    name: str
    """What its replies tell before and after; the model of its id where they tell nothing."""
    version: str
    """Version of what it answers from then on
    (:func:`~scenewright.providers.versions.since_version`).
    """
    since: float
    """Unix time from which it is taken to be another model: the last sentinel answer that fitted.
    """
    noticed: float
    """Unix time of the answer that raised it."""
    questions: int
    """Sentinel questions that were answered in between."""
    accepted: bool = False
    """Whether the evaluation went on with it, as ``split`` or ``accept`` asks."""

    @property
    def text(self) -> str:
        """The change as a sentence without its end."""
        return (
            f"{self.judge} gives other answers to sentinel pictures since "
            f"{time_text(self.since)} (noticed {time_text(self.noticed)}, after {self.questions} "
            f"sentinel questions), although it is still served as {self.name}"
        )


@dataclass(frozen=True, slots=True)
class Drifts:
    """The changes of an evaluation's judges, in the order in which they were noticed."""

    found: tuple[Drift, ...] = ()
    """Each."""

    def of(self, judge: str) -> tuple[Drift, ...]:
        """Return the changes of ``judge``."""
        return tuple(one for one in self.found if one.judge == judge)

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges that changed, each once."""
        return tuple(dict.fromkeys(one.judge for one in self.found))

    def version(self, judge: str, version: str, at: float) -> str:
        """Return the version that answers of ``judge`` given at ``at`` under the name ``version``
        are of."""
        now = version
        for one in self.of(judge):
            if one.since <= at and served_name(version) in ("", one.name):
                now = one.version
        return now


class SentinelFile(SqliteFile):
    """Sentinel answers and changes; one process writes at a time."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file. Raises ``EvalError`` if that fails."""
        super().__init__(path, _SCHEMA, synchronous="NORMAL", kept="what is judged")

    def put(self, reply: SentinelReply) -> int:
        """Keep ``reply``; its number."""
        places = json.dumps({str(at): place for at, place in reply.places.items()})
        with self._told():
            found = self._db.execute(
                "INSERT INTO asked (judge, fingerprint, version, pictures, picture, places, at, "
                "tokens_in, tokens_out, usd) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(reply.judge, reply.fingerprint, reply.version, reply.pictures),
                    *(reply.picture, places, reply.at),
                    *(reply.tokens_in, reply.tokens_out, reply.usd),
                ),
            )
            assert found.lastrowid is not None
            return found.lastrowid

    def replies(self, pictures: str) -> Iterator[SentinelReply]:
        """Yield the replies to these ``pictures`` that no change ended, in order: after a change a
        judge is tested anew."""
        with self._told():
            rows = self._db.execute(
                "SELECT judge, fingerprint, version, pictures, picture, places, at, tokens_in, "
                "tokens_out, usd FROM asked a WHERE pictures = ? AND number > coalesce((SELECT "
                "max(after) FROM drifts d WHERE d.fingerprint = a.fingerprint), 0) ORDER BY number",
                (pictures,),
            )
            for row in rows:
                places = {int(at): place for at, place in json.loads(row[5]).items()}
                judge, fingerprint, version, digest, picture = row[:5]
                at, tokens_in, tokens_out, usd = row[6:]
                yield SentinelReply(
                    *(judge, fingerprint, version, digest, picture, places, at),
                    *(tokens_in, tokens_out, usd),
                )

    def put_drift(self, drift: Drift, after: int) -> None:
        """Keep a change that the reply of number ``after`` showed."""
        with self._told():
            self._db.execute(
                "INSERT INTO drifts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(drift.judge, drift.fingerprint, drift.name, drift.version),
                    *(drift.since, drift.noticed, drift.questions, after, int(drift.accepted)),
                ),
            )

    def drifts(self) -> Drifts:
        """Return all changes."""
        with self._told():
            rows = self._db.execute(
                "SELECT judge, fingerprint, name, version, since, noticed, questions, accepted "
                "FROM drifts ORDER BY rowid"
            ).fetchall()
        found = []
        for judge, fingerprint, name, version, since, noticed, questions, accepted in rows:
            told = (judge, fingerprint, name, version, since, noticed, questions)
            found.append(Drift(*told, accepted=bool(accepted)))
        return Drifts(tuple(found))

    def accept(self) -> Drifts:
        """Note that the evaluation goes on with all changes so far; they."""
        with self._told():
            self._db.execute("UPDATE drifts SET accepted = 1")
        return Drifts(tuple(replace(one, accepted=True) for one in self.drifts().found))

    def took(self) -> dict[str, dict[str, float]]:
        """Return judge → sentinel pictures asked, questions answered, tokens and dollars."""
        with self._told():
            rows: Sequence[tuple[str, int, int, int, int, float]] = self._db.execute(
                "SELECT judge, count(*), sum((SELECT count(*) FROM json_each(places))), "
                "sum(tokens_in), sum(tokens_out), sum(usd) FROM asked GROUP BY judge ORDER BY judge"
            ).fetchall()
        names = ("pictures", "questions", "tokens_in", "tokens_out", "usd")
        return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def open_drifts(path: Path) -> Drifts:
    """Return the changes kept in the file ``path``; none where there is no file."""
    if not path.exists():
        return Drifts()
    with SentinelFile(path) as file:
        return file.drifts()
