"""Questions about things of a picture, put to judges, and the verdicts of their panel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from PIL import Image

from scenewright.agents.panel.panel import Panel
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact, Verdict
from scenewright.core.ports.judge import Judge, unscored
from scenewright.core.ports.vision import ExtractionError, Thing
from scenewright.core.questions import NO_RELATION
from scenewright.providers import checked
from scenewright.providers.versions import note_served
from scenewright.tools.digests import short_digest
from scenewright.tools.vision.extraction.pairs import distinguishing_phrases
from scenewright.tools.vision.extraction.views import paint_over


def without_rivals(
    image: Image.Image, hidden: Iterable[str], kept: Iterable[Thing], things: Sequence[Thing]
) -> Image.Image:
    """``image`` with the things of the ids ``hidden`` painted over and the ``kept`` ones whole."""
    gone = frozenset(hidden)
    if not gone:
        return image
    boxes = [thing.detection.box for thing in things if thing.id in gone]
    return paint_over(image, boxes, [thing.detection.box for thing in kept])


def relation_fact(
    number: int, source: Thing, target: Thing, options: Sequence[str], expected: str
) -> Fact:
    """Return the question which of ``options`` is the relation of a pair.

    The last option is that none is (Scene-Bench, Sec. 3.2). Raises ``ExtractionError`` if no words
    tell the two apart.
    """
    named = distinguishing_phrases(source, target)
    if named is None:
        raise ExtractionError(f"no question tells {source.id} from {target.id}")
    text = f"What is the relationship between the {named[0]} and the {named[1]} in the image?"
    return Fact(
        id=f"pair:{number}",
        kind="relation",
        subject=source.id,
        target=target.id,
        predicate=expected,
        classes=(source.detection.name, target.detection.name),
        statement=f"{named[0]} {expected} {named[1]}",
        question=text,
        options=(*options, NO_RELATION),
        expected=expected,
    )


@dataclass(frozen=True)
class ExtractionPanel:
    """Judges, and how their answers become verdicts."""

    judges: Sequence[Judge]
    """The judges; one or more."""
    panel: Panel = field(default_factory=Panel)
    """Panel that makes verdicts of their answers."""

    def __post_init__(self) -> None:
        """Check that there is somebody to ask."""
        if not self.judges:
            raise ExtractionError("no judges are given: questions need at least one who looks")

    @cached_property
    def fingerprint(self) -> str:
        """Of the judges and the panel."""
        panel = [self.panel.aggregation, self.panel.quorum, self.panel.threshold]
        table = self.panel.calibration
        known = None if table is None else table.model_dump(mode="json")
        return short_digest([judge.fingerprint for judge in self.judges], panel, known)

    async def ask(
        self, image: Image.Image, facts: Sequence[Fact]
    ) -> tuple[list[Verdict], list[frozenset[str]]]:
        """Return one verdict a fact, and the options that some judge chose.

        A judge that raises is unscored.
        """
        if not facts:
            return [], []
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_answers(judge, image, facts)) for judge in self.judges]
        given: Mapping[str, list[Answer]] = {
            judge.id: task.result() for judge, task in zip(self.judges, tasks, strict=True)
        }
        chosen = [
            frozenset(
                answer.choice
                for answer in answers
                if answer.choice is not None and answer.state in ("yes", "no")
            )
            for answers in zip(*given.values(), strict=True)
        ]
        return self.panel.verdicts(facts, given), chosen


def reason_of(verdict: Verdict) -> str:
    """Return why a verdict is unscored."""
    return verdict.reason or "the judges gave no answer"


async def _answers(judge: Judge, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
    try:
        found = await judge.answer(image, facts)
    except Exception as error:
        # One judge that fails must not take the others' answers away.
        return unscored(judge.id, facts, error_text(error))
    answers = checked(judge.id, facts, found)
    note_served(judge.id, judge.fingerprint, answers)
    return answers
