"""Sentinel pictures: they reveal a model that was exchanged under its old name.

The sentinel pictures are blurred paintings with questions whose answers are known. They are hard on
purpose: judges differ most where they are least sure. ``benchmarks/_sentinels.py`` paints and
selects them. Judges behind an API are asked about them from time to time; replies and detected
changes are stored in the evaluation's folder, so that a resumed evaluation continues the test.

**The sequential test.** While a judge stays the same model, its answers to one question are
exchangeable: they come from one unknown distribution, narrow for a judge that always says the same
and wide for one that wavers. The test predicts each answer from the judge's own earlier ones and
adds up the evidence that the answers come from elsewhere:

- an answer is a log odds, rounded to :data:`STEP` and bounded by :data:`BOUND`; a bare yes or no
  is one of the two bounds;
- **no change**: a Pólya urn for each question. After n answers yᵢ to it,
  ``P(y) = (α·base(y) + Σᵢ K_h(yᵢ, y)) / (α + n)``, where ``base`` is the mixture of the same kernel
  K over the answers to all questions, with a little of the uniform distribution. The concentration
  α and the width h, which say how much the judge wavers, are learnt: a posterior over a grid;
- **change**: a share s of the answers comes from ``base`` instead, whatever was answered before;
- **CUSUM** (Page, 1954) of the log likelihood ratio for each s of :data:`SHARES`:
  ``S ← max(0, S + min(log((1−s) + s·base(y)/P(y)), c))``, an alarm where one exceeds
  :data:`LIMIT`. The bound c (:data:`MOST`) keeps a few odd answers from raising it.

The first answer to a question is no evidence of a change, so there is no separate learning phase.
The truth is not used: a better model under the old name is a change as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from functools import cache
from math import exp, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scenewright.agents.panel.answer_arrays import two_way_probability
from scenewright.config import OnModelChange
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import load_image
from scenewright.core.ports.judge import Judge, out_of_vocabulary, unscored
from scenewright.core.sqlite_file import SqliteFile
from scenewright.evals.errors import EvalError, ModelChangedError
from scenewright.providers import Answers
from scenewright.providers.judge_calls import checked
from scenewright.providers.versions import served_name, since_version, time_text, versions_of

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

_COLUMNS = "judge, fingerprint, version, pictures, picture, places, at, tokens_in, tokens_out, usd"


@dataclass(frozen=True, slots=True)
class SentinelReply:
    """A judge's reply about a sentinel picture."""

    judge: str
    """Id of the judge."""
    fingerprint: str
    version: str
    """The served version in the reply; empty: none."""
    pictures: str
    """Digest of the sentinel pictures."""
    picture: int
    """Number of the picture."""
    places: Mapping[int, int]
    """Number of a question of the picture → place of the usable answer to it."""
    at: float
    """Unix time when it was asked."""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Drift:
    """A change of a judge's answers to sentinel questions that its replies do not name."""

    judge: str
    """Id of the judge."""
    fingerprint: str
    name: str
    """Model name in its replies before and after; that of its id if they have none."""
    version: str
    """Version of its later answers (:func:`~scenewright.providers.versions.since_version`)."""
    since: float
    """Unix time of the change: that of the last sentinel answer that fitted."""
    noticed: float
    """Unix time of the answer that raised the alarm."""
    questions: int
    """Sentinel questions answered in between."""
    accepted: bool = False
    """Whether the evaluation continued with it, by ``split`` or ``accept``."""

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

    def of(self, judge: str) -> tuple[Drift, ...]:
        """Return the changes of ``judge``."""
        return tuple(one for one in self.found if one.judge == judge)

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges that changed, each once."""
        return tuple(dict.fromkeys(one.judge for one in self.found))

    def version(self, judge: str, version: str, at: float) -> str:
        """Return the version of answers of ``judge`` at ``at`` under the name ``version``."""
        now = version
        for one in self.of(judge):
            if one.since <= at and served_name(version) in ("", one.name):
                now = one.version
        return now


class SentinelFile(SqliteFile):
    """Sentinel answers and changes; one process writes at a time."""

    def __init__(self, path: Path) -> None:
        """Open or make the file. Raises ``EvalError`` if that fails."""
        super().__init__(
            path, _SCHEMA, synchronous="NORMAL", kept="what is judged", wrong=EvalError
        )

    def put(self, reply: SentinelReply) -> int:
        """Keep ``reply`` and return its number."""
        places = json.dumps({str(at): place for at, place in reply.places.items()})
        with self._errors():
            found = self._db.execute(
                f"INSERT INTO asked ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(reply.judge, reply.fingerprint, reply.version, reply.pictures),
                    *(reply.picture, places, reply.at),
                    *(reply.tokens_in, reply.tokens_out, reply.usd),
                ),
            )
        assert found.lastrowid is not None
        return found.lastrowid

    def replies(self, pictures: str) -> Iterator[SentinelReply]:
        """Yield the replies to these ``pictures`` since the last change of each judge, in order.

        After a change a judge is tested anew.
        """
        query = (
            f"SELECT {_COLUMNS} FROM asked a WHERE pictures = ? AND number > coalesce((SELECT "
            "max(after) FROM drifts d WHERE d.fingerprint = a.fingerprint), 0) ORDER BY number"
        )
        for row in self._stream(query, (pictures,)):
            values = dict(zip(_COLUMNS.split(", "), row, strict=True))
            places = {int(at): place for at, place in json.loads(values.pop("places")).items()}
            yield SentinelReply(places=places, **values)

    def put_drift(self, drift: Drift, after: int) -> None:
        """Keep a change that the reply of number ``after`` showed."""
        *values, accepted = astuple(drift)
        self._put("drifts", [(*values, after, int(accepted))])

    def drifts(self) -> Drifts:
        """Return all changes."""
        names = [one.name for one in fields(Drift)]
        rows = self._rows(f"SELECT {', '.join(names)} FROM drifts ORDER BY rowid")
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return Drifts(tuple(Drift(**{**one, "accepted": bool(one["accepted"])}) for one in found))

    def accept(self) -> Drifts:
        """Note that the evaluation continues with all changes so far, and return them."""
        self._rows("UPDATE drifts SET accepted = 1")
        return self.drifts()

    def took(self) -> dict[str, dict[str, float]]:
        """Return judge → sentinel pictures asked, questions answered, tokens and dollars."""
        rows = self._rows(
            "SELECT judge, count(*), sum((SELECT count(*) FROM json_each(places))), "
            "sum(tokens_in), sum(tokens_out), sum(usd) FROM asked GROUP BY judge ORDER BY judge"
        )
        names = ("pictures", "questions", "tokens_in", "tokens_out", "usd")
        return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def open_drifts(path: Path) -> Drifts:
    """Return the changes kept in the file ``path``; none where there is no file."""
    if not path.exists():
        return Drifts()
    with SentinelFile(path) as file:
        return file.drifts()


FOLDER = Path(__file__).parent / "sentinel_pictures"
QUESTIONS = "questions.json"


@dataclass(frozen=True, slots=True, eq=False)
class SentinelPicture:
    """A picture and its questions, which are one request where the judge can."""

    image: Image.Image
    """RGB."""
    facts: tuple[Fact, ...]
    """The questions; their ids are unique among all sentinel pictures."""
    holds: tuple[bool, ...]
    """Truth of each fact."""

    def copy(self, number: int) -> Image.Image:
        """Return the picture with one pixel of its edge inverted, another one for each ``number``.

        To a gateway or provider that repeats its answer to a known request it is a new picture.
        """
        found = self.image.copy()
        width, height = found.size
        edge = [(x, y) for y in (0, height - 1) for x in range(width)]
        edge += [(x, y) for x in (0, width - 1) for y in range(1, height - 1)]
        # The second time round in pairs, so that copies stay different.
        for at in {number % len(edge), number // len(edge) + number % len(edge)}:
            place = edge[at % len(edge)]
            red, green, blue = found.getpixel(place)  # type: ignore[misc]
            found.putpixel(place, (255 - red, 255 - green, 255 - blue))
        return found


@cache
def digest_of_pictures() -> str:
    """Return the digest of the pictures that ship and of their questions."""
    files = sorted(FOLDER.iterdir())
    parts = [f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def sentinel_pictures() -> tuple[SentinelPicture, ...]:
    """Return the pictures that ship, always in the same order."""
    table = json.loads((FOLDER / QUESTIONS).read_text(encoding="utf-8"))
    return tuple(
        SentinelPicture(
            image=load_image(FOLDER / row["file"]),
            facts=tuple(Fact.model_validate(one["fact"]) for one in row["questions"]),
            holds=tuple(one["holds"] for one in row["questions"]),
        )
        for row in table
    )


_COPIES = 2**20
"""Copies of a picture begin at a random number below this, so that those of several processes and
of a resumed evaluation differ."""


def is_watched(judge: Judge) -> bool:
    """Return whether the model behind ``judge`` could be exchanged unnoticed.

    Weights on this machine and recorded answers cannot.
    """
    return not judge.caps.local


def askable(judge: Judge, picture: SentinelPicture) -> tuple[int, ...]:
    """Return the numbers of the questions about ``picture`` that ``judge`` can answer."""
    caps = judge.caps
    return tuple(
        at
        for at, fact in enumerate(picture.facts)
        if (caps.kinds is None or fact.kind in caps.kinds)
        and out_of_vocabulary(judge.id, caps.vocabulary, fact) is None
    )


class Sentinels:
    """Asks each judge a sentinel picture whenever its questions have earned one."""

    def __init__(self, judges: Iterable[Judge], share: float, limit: float | None = None) -> None:
        """Watch those of ``judges`` that are behind an API.

        Args:
            judges: the judges of the evaluation.
            share: sentinel questions for each question of the evaluation.
            limit: time limit of a call in seconds.
        """
        self._pictures = sentinel_pictures()
        self._share, self._limit = share, limit
        self._judges = {
            judge.id: judge
            for judge in judges
            if share > 0.0
            and is_watched(judge)
            and any(askable(judge, picture) for picture in self._pictures)
        }
        self._earned = dict.fromkeys(self._judges, 0.0)
        self._number = {judge: secrets.randbelow(_COPIES) for judge in self._judges}

    def count(self, asked: Mapping[str, int]) -> None:
        """Count questions of the evaluation, judge → how many were put to it now."""
        for judge, n in asked.items():
            if judge in self._earned:
                self._earned[judge] += self._share * n

    async def due(self) -> AsyncIterator[SentinelReply]:
        """Ask the questions that are due, and yield the replies; a failed one holds no places."""
        for name, judge in self._judges.items():
            while self._earned[name] > 0.0:
                number = self._number[name]
                at = number % len(self._pictures)
                numbers = askable(judge, self._pictures[at])
                if self._earned[name] < len(numbers):
                    break
                self._number[name] += 1
                self._earned[name] -= len(numbers)
                if numbers:
                    yield await self._asked(judge, at, numbers, number)

    async def _asked(
        self, judge: Judge, at: int, numbers: Sequence[int], copy: int
    ) -> SentinelReply:
        picture = self._pictures[at]
        facts = [picture.facts[n] for n in numbers]
        begun = time.time()
        image = await asyncio.to_thread(picture.copy, copy)
        answers = await _answers(judge, image, facts, self._limit)
        told = versions_of(answers)
        leads = (_lead(fact, answer) for fact, answer in zip(facts, answers, strict=True))
        return SentinelReply(
            judge=judge.id,
            fingerprint=judge.fingerprint,
            version=next(iter(told), ""),
            pictures=digest_of_pictures(),
            picture=at,
            # Several versions within one reply are no sample of either.
            places={}
            if len(told) > 1
            else {
                n: place_of(lead)
                for n, lead in zip(numbers, leads, strict=True)
                if lead is not None
            },
            at=begun,
            tokens_in=sum(answer.tokens_in for answer in answers),
            tokens_out=sum(answer.tokens_out for answer in answers),
            usd=sum(answer.usd for answer in answers),
        )


async def _answers(
    judge: Judge, image: Image.Image, facts: list[Fact], limit: float | None
) -> list[Answer]:
    """Return the judge's own answers, which are not stored; failures as unscored ones."""
    try:
        async with asyncio.timeout(None if judge.caps.bounds_calls else limit):
            given: object = await judge.answer(image, facts)
    except Exception as error:
        return unscored(judge.id, facts, error_text(error))
    return checked(judge.id, facts, given)


def _lead(fact: Fact, answer: Answer) -> float | None:
    """Return the probability that the fact holds; that of a bare yes or no is 1 or 0."""
    found = two_way_probability(fact, answer)
    if found is None and answer.state in ("yes", "no"):
        return float(answer.state == "yes")
    return found


Array = NDArray[np.float64]
Places = NDArray[np.intp]

STEP = 0.1
"""Resolution of log odds."""
BOUND = 6.0
"""Largest log odds."""
PLACES = round(2 * BOUND / STEP) + 1
"""Number of distinguishable answers."""
SHARES = (0.1, 0.3, 0.7)
"""Shares s of the answers that a change may affect."""
CONCENTRATIONS = (0.02, 0.06, 0.2, 0.6, 2.0, 6.0, 20.0)
"""Values of α."""
WIDTHS = (0.0, 0.15, 0.3, 0.6, 1.2)
"""Values of h, in log odds; 0: only the same answer is near."""
UNIFORM = 0.05
"""Share of the uniform distribution in the base."""
MOST = 2.5
"""Most evidence that one answer adds."""
LIMIT = 18.0
"""Sum above which an alarm is raised; its false alarms are measured by ``benchmarks/swap.py``."""
_FREEDOM = 3.0
"""Degrees of freedom of the kernel (Student's t): judges jump now and then."""


def place_of(probability: float) -> int:
    """Return the place of an answer by its probability: its rounded log odds, counted from 0."""
    edge = 1.0 / (1.0 + exp(BOUND))
    inside = min(max(probability, edge), 1.0 - edge)
    return round((log(inside / (1.0 - inside)) + BOUND) / STEP)


def _kernels() -> Array:
    gap = STEP * np.abs(np.arange(PLACES)[:, None] - np.arange(PLACES)[None, :])
    found = [np.eye(PLACES)]
    for width in WIDTHS[1:]:
        shape = (1.0 + (gap / width) ** 2 / _FREEDOM) ** (-(_FREEDOM + 1.0) / 2.0)
        found.append(shape / shape.sum(1, keepdims=True))
    return np.stack(found)


_KERNELS = _kernels()
"""Distribution around each place for each width, (widths, places, places)."""


class DriftTest:
    """The test of one judge, or of the judges of several runs side by side in a simulation."""

    def __init__(self, questions: int, *, runs: int = 1) -> None:
        """Start a test of that many sentinel ``questions``."""
        grid = (len(CONCENTRATIONS), len(WIDTHS))
        self._past: list[list[Places]] = [[] for _ in range(questions)]
        self._pooled = np.zeros((runs, len(WIDTHS), PLACES))
        self._weights = np.full((runs, *grid), 1.0 / (grid[0] * grid[1]))
        self._seen = 0
        self.sums: Array = np.zeros((runs, len(SHARES)))

    @property
    def seen(self) -> int:
        """Answers so far."""
        return self._seen

    @property
    def evidence(self) -> Array:
        """The largest sum, (runs,)."""
        found: Array = self.sums.max(1)
        return found

    @property
    def alarms(self) -> NDArray[np.bool_]:
        """Whether a change is detected, (runs,)."""
        return self.evidence > LIMIT

    def see(self, question: int, places: Places) -> None:
        """Take the next answer to ``question`` (:func:`place_of`) in each run, (runs,)."""
        grid, base = self._likely(question, places)
        weighted = self._weights * grid
        predicted = weighted.sum((1, 2))
        elsewhere = (self._weights.sum(1) * base).sum(1)
        for at, share in enumerate(SHARES):
            ratio = np.log((1.0 - share) + share * elsewhere / predicted)
            self.sums[:, at] = np.maximum(0.0, self.sums[:, at] + np.minimum(ratio, MOST))
        self._weights = weighted / predicted[:, None, None]
        self._past[question].append(places)
        self._pooled += _KERNELS[:, places].transpose(1, 0, 2)
        self._seen += 1

    def _likely(self, question: int, places: Places) -> tuple[Array, Array]:
        """Return the probability of an answer for each α and h, and that by the base alone.

        Their shapes are (runs, concentrations, widths) and (runs, widths).
        """
        base = np.full((len(places), len(WIDTHS)), 1.0 / PLACES)
        if self._seen:
            pooled = self._pooled[np.arange(len(places)), :, places] / self._seen
            base = UNIFORM / PLACES + (1.0 - UNIFORM) * pooled
        past = self._past[question]
        own = np.zeros_like(base)
        for before in past:
            own += _KERNELS[:, before, places].T
        alpha = np.array(CONCENTRATIONS)[None, :, None]
        return (alpha * base[:, None, :] + own[:, None, :]) / (alpha + len(past)), base


_LOG = logging.getLogger("scenewright.evals")


@dataclass(slots=True)
class _Followed:
    """The test of one judge under one name."""

    test: DriftTest
    fitted: list[float] = field(default_factory=list)
    """For each share of the test the time of the last reply after which its sum was 0."""
    since: list[int] = field(default_factory=lambda: [0] * len(SHARES))
    """For each share the answers since then."""

    def see(self, reply: SentinelReply, first: int) -> None:
        """Take a reply; ``first`` is the number of the picture's first question."""
        if not self.fitted:
            self.fitted = [reply.at] * len(SHARES)
        for number, place in reply.places.items():
            self.test.see(first + number, np.array([place]))
        for at, total in enumerate(self.test.sums[0]):
            self.since[at] += len(reply.places)
            if total == 0.0:
                self.fitted[at], self.since[at] = reply.at, 0


class DriftDetector:
    """Tests every judge by its sentinel answers, including those of earlier runs in the folder."""

    def __init__(
        self,
        file: SentinelFile,
        on_model_change: OnModelChange,
        answers: Answers,
        tell: Callable[[Drift], None] = lambda drift: None,
    ) -> None:
        """Replay the replies in ``file``.

        Args:
            file: replies and changes of the evaluation.
            on_model_change: whether the evaluation stops at a change.
            answers: store in which changed versions are noted.
            tell: called with a change with which the evaluation continues.

        Raises:
            ModelChangedError: a change was detected before and the evaluation must stop at one.
        """
        self._file, self._answers, self._tell = file, answers, tell
        self._stops = on_model_change == "stop"
        self._followed: dict[tuple[str, str], _Followed] = {}
        pictures = sentinel_pictures()
        sizes = [len(picture.facts) for picture in pictures]
        self._first = [sum(sizes[:at]) for at in range(len(sizes))]
        self._questions = sum(sizes)
        if self._stops:
            for drift in file.drifts().found:
                if not drift.accepted:
                    raise _stopped(drift)
        else:
            file.accept()
        for reply in file.replies(digest_of_pictures()):
            self._seen(reply)

    @property
    def drifts(self) -> Drifts:
        """All changes so far."""
        return self._file.drifts()

    def take(self, reply: SentinelReply) -> None:
        """Keep ``reply`` and test.

        Raises ``ModelChangedError`` where it shows a change and the evaluation is to stop at one.
        """
        number = self._file.put(reply)
        followed = self._seen(reply)
        if not followed.test.alarms[0]:
            return
        share = int(followed.test.sums[0].argmax())
        name = reply.version or reply.judge.partition(":")[2] or reply.judge
        since = followed.fitted[share]
        drift = Drift(
            judge=reply.judge,
            fingerprint=reply.fingerprint,
            name=name,
            version=since_version(name, since),
            since=since,
            noticed=reply.at,
            questions=followed.since[share],
            accepted=not self._stops,
        )
        self._file.put_drift(drift, number)
        # The model of now is tested anew, under whatever name it answered before.
        for key in [key for key in self._followed if key[0] == reply.fingerprint]:
            del self._followed[key]
        # Answers that are kept are of the model before: they are not found any more.
        self._answers.note_version(reply.fingerprint, name)
        self._answers.note_version(reply.fingerprint, drift.version)
        if self._stops:
            raise _stopped(drift)
        _LOG.warning("%s", drift.text)
        self._tell(drift)

    def _seen(self, reply: SentinelReply) -> _Followed:
        # A version of another name is a change that its name tells: it has a test of its own.
        key = (reply.fingerprint, reply.version)
        followed = self._followed.get(key)
        if followed is None:
            followed = self._followed[key] = _Followed(DriftTest(self._questions))
        followed.see(reply, self._first[reply.picture])
        return followed


def _stopped(drift: Drift) -> ModelChangedError:
    return ModelChangedError(
        f"{drift.text}: both under one name would be mixed. What is judged is kept. Run the same "
        "with --on-model-change split to go on with what was judged since then in rows of its own, "
        "with --on-model-change accept to pool both and note it, or in a new folder (--out) to "
        "judge everything by the model served now"
    )
