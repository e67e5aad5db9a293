"""Where objects were seen in a picture: by judges, by a detector, and which of several is which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.config.profiles import BUILT_IN
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.vision import Detection, DetectionError
from scenewright.graphs.events import Event, Planned
from scenewright.runs.api import refine
from tests.doubles import ScriptedComposer, ScriptedJudge
from tests.graphs.test_work import CountedBackend


@dataclass
class FixedDetector:
    """Finds the same things in every picture."""

    found: tuple[Detection, ...] = ()
    fails: bool = False
    id: str = "fixed"
    fingerprint: str = "fixed-1"
    vocabulary: ClosedVocabulary | None = None

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        if self.fails:
            raise DetectionError("it is not there")
        return self.found

    async def aclose(self) -> None:
        return


class SeeingJudge(ScriptedJudge):
    """Tells where it sees the dog."""

    def _answer(self, fact: Fact, quality: int) -> Answer:
        answer = super()._answer(fact, quality)
        if fact.id != "o:dog.1":
            return answer
        return answer.model_copy(update={"region": (0.0, 0.0, 8.0, 8.0)})


def attribute_fails(fact: Fact) -> int:
    return 200 if fact.kind == "attribute" else 20


async def first_plan(
    out: Path, monkeypatch: Any, judge: ScriptedJudge, detector: Any, scene: str
) -> Planned:
    monkeypatch.setattr(
        "scenewright.runs.model_factory.profiles.cached_detector_of", lambda spec: detector
    )
    events: list[Event] = []
    await refine(
        scene,
        BUILT_IN["miniature"].model_copy(update={"strategy": "tournament"}),
        out=out,
        rounds=2,
        backend=CountedBackend(lambda request: 60, masks=True),
        composer=ScriptedComposer(),
        judges=[judge],
        report_judges=[],
        on_event=events.append,
    )
    return next(event for event in events if isinstance(event, Planned))


async def test_judges_tell_where_an_object_is(tmp_path: Path, monkeypatch: Any) -> None:
    judge = SeeingJudge("a", level=attribute_fails)
    plan = await first_plan(tmp_path, monkeypatch, judge, FixedDetector(), "red dog")
    (place,) = plan.places
    (region,) = place.regions
    assert region[:2] == (0.0, 0.0)
    assert 0 < region[2] <= 0.5


async def test_a_detector_tells_what_no_judge_does(tmp_path: Path, monkeypatch: Any) -> None:
    found = (Detection("dog", (8.0, 8.0, 16.0, 24.0)), Detection("cat", (0.0, 0.0, 8.0, 8.0)))
    judge = ScriptedJudge("a", level=attribute_fails)
    plan = await first_plan(tmp_path, monkeypatch, judge, FixedDetector(found), "red dog")
    (place,) = plan.places
    (region,) = place.regions
    assert region[0] * 2 == region[2]


async def test_a_detector_that_fails_sees_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    judge = ScriptedJudge("a", level=attribute_fails)
    detector = FixedDetector(fails=True)
    plan = await first_plan(tmp_path, monkeypatch, judge, detector, "red dog")
    (place,) = plan.places
    assert place.regions == ()


async def test_of_several_nobody_knows_which_is_which(tmp_path: Path, monkeypatch: Any) -> None:
    found = (Detection("dog", (8.0, 8.0, 16.0, 24.0)), Detection("dog", (0.0, 0.0, 8.0, 8.0)))
    judge = ScriptedJudge("a", level=attribute_fails)
    scene = "red dog; blue dog"
    plan = await first_plan(tmp_path, monkeypatch, judge, FixedDetector(found), scene)
    assert [place.regions for place in plan.places] == [()]
