"""Follows the sentinel answers of an evaluation's judges, and raises a change under an old name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from scenewright.config import OnModelChange
from scenewright.evals.errors import ModelChangedError
from scenewright.evals.runner.drift.ledger import Drift, Drifts, SentinelFile, SentinelReply
from scenewright.evals.runner.drift.pictures import digest_of_pictures, sentinel_pictures
from scenewright.evals.runner.drift.sequential import SHARES, DriftTest
from scenewright.providers import Answers
from scenewright.providers.versions import since_version

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
    """Tests every judge of an evaluation by its sentinel answers, those of earlier runs in the
    same folder included."""

    def __init__(
        self,
        file: SentinelFile,
        on_model_change: OnModelChange,
        answers: Answers,
        tell: Callable[[Drift], None] = lambda drift: None,
    ) -> None:
        """``answers`` is noted in that a judge's answers are of another version from now on;
        ``tell`` is told a change with which the evaluation goes on.

        Raises ``ModelChangedError`` where a change was raised before and the evaluation is to
        stop at one.
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
        """Keep ``reply`` and test. Raises ``ModelChangedError`` where it shows a change and the
        evaluation is to stop at one."""
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
