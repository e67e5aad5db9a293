"""Score one image against a scene: the loop's checking without its drawing."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from langgraph.runtime import Runtime
from PIL import Image
from pydantic import Field

from scenewright.agents.panel.independence import check_independence
from scenewright.agents.panel.panel import Panel, able_judges, check_cascade, guarantee_in
from scenewright.agents.parsers.unread import warn_of
from scenewright.config.options import LoopOptions, SentenceReader
from scenewright.config.profiles import Profile
from scenewright.config.settings import (
    Settings,
    find_profile,
    load_settings,
    self_reporting,
)
from scenewright.core.facts import Fact, ScoreCard
from scenewright.core.images import ImageStore, is_image_file, load_image
from scenewright.core.ports.judge import Judge
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FrozenModel
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import Answered, Role, SentenceReading
from scenewright.graphs.judging import judge_candidate
from scenewright.graphs.record import Candidate
from scenewright.graphs.reporting import Reporting, reporting_of, version_changes
from scenewright.graphs.state import CheckContext
from scenewright.providers import open_answers
from scenewright.runs.coverage import coverage_of
from scenewright.runs.folder import RunError
from scenewright.runs.known_words import checked_as_known
from scenewright.runs.model_factory.profiles import JUDGE_GROUPS, RunJudges, build_judges
from scenewright.runs.options import ModelOverrides
from scenewright.runs.reading import ReadScene, read_scene
from scenewright.runs.result import JudgeAnswers, by_judge

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class Score(FrozenModel):
    """Verdicts of a profile's judges on one image."""

    scene: SceneGraph
    """Scene that was asked about."""
    facts: tuple[Fact, ...]
    """Checked facts."""
    loop: ScoreCard
    """By the judges that would steer a loop."""
    report: ScoreCard | None
    """By the judges that would report its result; none if the profile has none."""
    reporting: Reporting = Reporting(kind="none")
    """Whether these are other models than those of the loop."""
    answers: tuple[JudgeAnswers, ...]
    """Each judge's answers."""
    warnings: tuple[str, ...] = ()
    """Parts of the scene that the judges cannot answer, and why a language model did not read it.
    """
    reading: SentenceReading | None = Field(default=None, exclude_if=lambda read: read is None)
    """Reading of the sentence; None where no language model was asked."""

    @property
    def usd(self) -> float:
        """Cost of the judges and of the reading in US dollars."""
        answered = sum(answer.usd for said in self.answers for answer in said.answers)
        return answered + (0.0 if self.reading is None else self.reading.usd)


def check_judges(groups: Mapping[str, Sequence[Judge] | None], *, self_report: bool) -> None:
    """Raise ``RunError`` if there are no judges of the loop, or one is given twice.

    ``groups`` are named as in profiles; None: those of the profile. One that is asked both the
    scene's facts and realism is no other judge for that; with ``self_report`` one of the loop may
    report, too.
    """
    loop = groups["judges"]
    if loop is not None and not loop:
        raise RunError("no judges are given: the loop needs at least one")
    ids = {name: [judge.id for judge in groups[name] or ()] for name in JUDGE_GROUPS}
    twice = {id_ for own in ids.values() for id_ in own if own.count(id_) > 1}
    if not self_report:
        steer = {*ids["judges"], *ids["realism_judges"]}
        twice |= steer & {*ids["report_judges"], *ids["realism_report_judges"]}
    if twice:
        raise RunError(
            f"{', '.join(sorted(twice))} is given twice: each judge has one vote, and one that "
            "steers the loop cannot report its result, unless self_report is set"
        )


async def panel_for(
    profile: Profile,
    judges: RunJudges,
    *,
    realism: bool = False,
    director: BaseChatModel | None = None,
    settings: Settings | None = None,
) -> Panel:
    """Return the panel of ``profile`` for these judges of the loop and of the report.

    ``director`` is the chat model that directs the loop, if one does. Raises ``RunError`` if a
    judge is given twice or, with ``realism``, none of the loop can tell how real an object looks;
    ``SettingsError`` if one model stands twice among them, under whatever names, or if the
    profile's cascade or calibration does not fit them.
    """
    own, loop, report = profile.self_report, judges.loop_judges, judges.report_judges
    check_judges(judges.groups, self_report=own)
    if realism and not (judges.realism_judges or able_judges(loop, "realism")):
        names = ", ".join(judge.id for judge in loop)
        raise RunError(
            f"no judge of the profile {profile.name!r} can tell how real an object looks: {names} "
            "answer other facts. Add realism_judges to the profile, for example "
            "realism_judges = ['olip:miniature/olip-a'], or leave realism out"
        )
    # Weights of local judges are read for it.
    await asyncio.to_thread(
        check_independence,
        (*loop, *judges.realism_judges),
        (*report, *judges.realism_report_judges),
        director,
        self_report=own,
        accounts=None if settings is None else settings.accounts,
    )
    if profile.cascade is not None:
        check_cascade(profile.cascade, loop)
    panel = await asyncio.to_thread(Panel.of, profile, (*loop, *report))
    if profile.cascade is not None:
        guarantee_in(profile.cascade, panel)
    return panel


def swapped(image: object, scene: object) -> bool:
    """Return whether the picture stands where the scene belongs, and none where it belongs."""

    def shown(given: object) -> bool:
        named = isinstance(given, str | os.PathLike)
        return isinstance(given, Image.Image) or (named and is_image_file(given))  # type: ignore[arg-type]

    return shown(scene) and not shown(image)


async def score(
    image: Image.Image | str | os.PathLike[str],
    scene: SceneGraph | ReadScene | str | Path,
    profile: str | Profile | None = None,
    *,
    reader: SentenceReader | None = None,
    judges: Sequence[Judge] | None = None,
    report_judges: Sequence[Judge] | None = None,
    realism: bool = False,
    realism_judges: Sequence[Judge] | None = None,
    realism_report_judges: Sequence[Judge] | None = None,
    self_report: bool = False,
    settings: Settings | None = None,
) -> Score:
    """Ask the judges of ``profile`` every fact of ``scene`` about ``image``.

    ``image`` is a picture or a file. A sentence is read by the profile's language model where it
    has one, else by rules; ``reader`` chooses. Facts whose object is absent are void and not asked.
    With ``realism`` they are asked as well how real each object looks. With ``self_report`` the
    judges that would steer a loop report too, and :attr:`Score.reporting` says so.
    Raises ``ImageError`` for a wrong image, ``RunError`` for an empty scene or swapped arguments,
    the readers' and the models' errors, and those of :func:`panel_for`.
    """
    if swapped(image, scene):
        raise RunError("the picture and the scene are swapped: score(image, scene)")
    settings = settings or load_settings()
    if not isinstance(profile, Profile):
        profile = find_profile(profile or settings.profile, settings)
    read = scene
    if not isinstance(read, ReadScene):
        read = await read_scene(read, profile, settings, reader=reader)
    graph = read.scene
    if not graph:
        raise RunError("the scene has no objects: name at least one, for example 'red ball'")
    if self_report:
        profile = self_reporting(profile)
    picture = (
        image if isinstance(image, Image.Image) else await asyncio.to_thread(load_image, image)
    )
    judging = await build_judges(
        profile,
        ModelOverrides(
            judges=judges,
            report_judges=report_judges,
            realism_judges=realism_judges,
            realism_report_judges=realism_report_judges,
        ),
        realism=realism,
        settings=settings,
    )
    graph = checked_as_known(graph, judging.loop_judges)
    if not isinstance(scene, SceneGraph | ReadScene):
        warn_of(graph)
    panel = await panel_for(profile, judging, realism=realism, settings=settings)
    with (
        tempfile.TemporaryDirectory(prefix="scenewright-") as folder,
        closing(
            await asyncio.to_thread(
                # Each score pays for itself what it finds nowhere.
                lambda: open_answers(settings.answers, None, payer=secrets.token_hex(8))
            )
        ) as answers,
    ):
        context = CheckContext(
            loop_judges=judging.loop_judges,
            report_judges=judging.report_judges,
            realism_judges=judging.realism_judges,
            realism_report_judges=judging.realism_report_judges,
            images=ImageStore(folder),
            answers=answers,
            log=EventLog(None),
            options=LoopOptions(
                alpha=profile.alpha,
                protocol=profile.protocol,
                predicates=profile.predicates,
                asking=profile.asking,
                realism=realism,
            ),
            panel=panel,
            cascade=profile.cascade,
            judge_timeout=settings.judge_timeout,
        )
        name = await asyncio.to_thread(context.images.put, picture)
        both = bool(context.judges("report"))
        roles: tuple[Role, ...] = ("loop", "report") if both else ("loop",)
        candidate, runtime = Candidate(0, name), Runtime(context=context)
        await asyncio.gather(*(judge_candidate(graph, candidate, role, runtime) for role in roles))
    facts = profile.form(realism).facts(graph)
    covered = coverage_of(
        profile,
        facts,
        judges=judging.loop_judges,
        report_judges=judging.report_judges,
        settings=settings,
    ).judged
    asked = context.record.all(Answered)
    return Score(
        scene=graph,
        facts=facts,
        loop=context.record.card(0),
        report=context.record.card(0, "report") if both else None,
        warnings=(
            *read.warnings,
            *((covered.text,) if covered.text else ()),
            *version_changes(asked),
        ),
        reading=read.reading,
        reporting=reporting_of(asked),
        answers=by_judge(asked, facts),
    )
