"""Score one image against a scene: the loop's checking without its drawing."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from PIL import Image
from pydantic import BaseModel, ConfigDict

from scenewright.agents.cascade import check_cascade
from scenewright.agents.judges.base import Judge
from scenewright.agents.panel import Panel, check_apart
from scenewright.calls import AnswerStore
from scenewright.facts import Fact, ScoreCard
from scenewright.formats import load_scene
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import Answered, Role
from scenewright.graphs.state import CheckContext, LoopOptions, facts_for
from scenewright.graphs.verify import build_verify
from scenewright.images import ImageStore, load_image
from scenewright.profiles import panel_of
from scenewright.records import JudgeAnswers, by_judge
from scenewright.runfolder import RunError
from scenewright.scene import SceneGraph
from scenewright.settings import Profile, Settings, find_profile, load_settings


class Score(BaseModel):
    """What the judges of a profile say of one image."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scene: SceneGraph
    """What was asked."""
    facts: tuple[Fact, ...]
    """What was checked."""
    loop: ScoreCard
    """By the judges that would steer a loop."""
    report: ScoreCard | None
    """By the judges that would report its result; none if the profile has none."""
    answers: tuple[JudgeAnswers, ...]
    """Each judge's answers."""


def check_judges(
    judges: Sequence[Judge] | None, report_judges: Sequence[Judge] | None = None
) -> None:
    """Raises ``RunError`` if there are no judges of the loop, or one is given twice."""
    if judges is not None and not judges:
        raise RunError("no judges are given: the loop needs at least one")
    every = [judge.id for judge in (*(judges or ()), *(report_judges or ()))]
    twice = sorted({judge for judge in every if every.count(judge) > 1})
    if twice:
        raise RunError(
            f"{', '.join(twice)} is given twice: each judge has one vote, and one that steers "
            "the loop cannot report its result"
        )


async def panel_for(profile: Profile, loop: Sequence[Judge], report: Sequence[Judge]) -> Panel:
    """The panel of ``profile`` for these judges of the loop and of the report.

    Raises ``SettingsError`` if one model stands twice among them, under whatever names, or if the
    profile's cascade or calibration does not fit them.
    """
    check_apart(loop, report)
    if profile.cascade is not None:
        check_cascade(profile.cascade, loop)
    return await asyncio.to_thread(Panel.of, profile, (*loop, *report))


async def score(
    image: Image.Image | str | os.PathLike[str],
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    *,
    judges: Sequence[Judge] | None = None,
    report_judges: Sequence[Judge] | None = None,
    settings: Settings | None = None,
) -> Score:
    """Ask the judges of ``profile`` every fact of ``scene`` about ``image``.

    ``image`` is a picture or a file. Facts whose object is absent are void and not asked.
    Raises ``ImageError`` for a wrong image, ``RunError`` for an empty scene, the readers' and
    the models' errors, and those of :func:`panel_for`.
    """
    graph = scene if isinstance(scene, SceneGraph) else load_scene(scene)
    if not graph:
        raise RunError("the scene has no objects: name at least one, for example 'red ball'")
    settings = settings or load_settings()
    if not isinstance(profile, Profile):
        profile = find_profile(profile or settings.profile, settings)
    picture = (
        image if isinstance(image, Image.Image) else await asyncio.to_thread(load_image, image)
    )
    loop, report = await asyncio.gather(
        panel_of(profile.judges, judges, settings=settings),
        panel_of(profile.report_judges, report_judges, settings=settings),
    )
    check_judges(loop, report)
    panel = await panel_for(profile, loop, report)
    with (
        tempfile.TemporaryDirectory(prefix="scenewright-") as folder,
        closing(AnswerStore(None)) as answers,
    ):
        context = CheckContext(
            loop_judges=loop,
            report_judges=report,
            images=ImageStore(folder),
            answers=answers,
            log=EventLog(None),
            options=LoopOptions(
                alpha=profile.alpha, protocol=profile.protocol, asking=profile.asking
            ),
            panel=panel,
            cascade=profile.cascade,
            judge_timeout=settings.judge_timeout,
        )
        name = await asyncio.to_thread(context.images.put, picture)
        roles: tuple[Role, ...] = ("loop", "report") if report else ("loop",)
        check = build_verify().compile()
        data = graph.model_dump(mode="json")
        await asyncio.gather(
            *(
                check.ainvoke(
                    {"scene": data, "image": name, "round": 0, "role": role}, context=context
                )
                for role in roles
            )
        )
    facts = facts_for(graph, profile.protocol)
    order = {fact.id: at for at, fact in enumerate(facts)}
    return Score(
        scene=graph,
        facts=facts,
        loop=context.card(0),
        report=context.card(0, "report") if report else None,
        answers=by_judge((e for e in context.log.events if isinstance(e, Answered)), order),
    )
