"""Judging of pictures by panels, and scores by metrics, as units of the journal.

Facts are asked in waves and the answers become a score card, by the same rules as in
:mod:`scenewright.graphs.judging`, for any facts (a dataset's own questions too) and without a run's
log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from PIL import Image

from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.config import OnModelChange
from scenewright.config.options import Asking
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict, is_wish
from scenewright.core.images import ImageError, ImageStore, load_image, nothing_drawn
from scenewright.core.ports.judge import Judge, JudgeError
from scenewright.core.predicate_statistics import BUILT_IN, DEFAULT
from scenewright.core.questions import Protocol, QuestionForm
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import DOUBTFUL, Item
from scenewright.evals.metrics.base import ItemMetric, Metric, MetricScore, Need, Sample
from scenewright.evals.runner.config import PACKAGE, Arm, EvalConfig, digest
from scenewright.evals.runner.dataset_predicates import DatasetPredicates, Predicates, mark_of
from scenewright.evals.runner.served_versions import SERVED, served_by
from scenewright.evals.store.journal import (
    Unit,
    UnitState,
    answer_of,
    answer_row,
    verdict_of,
    verdict_row,
)
from scenewright.providers import Answers, ask
from scenewright.providers.judge_calls import with_costs
from scenewright.providers.versions import served_version, versions_of

_LOOKS = 4
"""Most judgings of a picture until all answers of a judge are of one served version."""


@dataclass(frozen=True, slots=True)
class JudgePanel:
    """A panel with its judges."""

    name: str
    """Name in the configuration."""
    judges: tuple[Judge, ...]
    panel: Panel
    """Aggregation of answers to verdicts."""
    protocol: Protocol | None = None
    """Protocol of questions about scenes, where that is not the evaluation's own."""

    @property
    def configured(self) -> str:
        """Name of the panel in the configuration."""
        return self.name if self.protocol is None else self.name.removesuffix(f":{self.protocol}")

    def beside(self, protocol: Protocol) -> Self:
        """Return the same panel asking by another protocol, as ``NAME:PROTOCOL``."""
        return replace(self, name=f"{self.name}:{protocol}", protocol=protocol)


@dataclass(frozen=True, slots=True)
class PanelJudgement:
    """Score card and answers of a panel about a picture."""

    card: ScoreCard
    answers: dict[str, list[Answer]]
    """Judge id → its answers, in the order of the facts."""
    empty: str = ""
    """Why no judge was asked: nothing is drawn on the picture."""


async def judge_picture(
    judge_panel: JudgePanel,
    image: str,
    load: Callable[[], Image.Image],
    facts: Sequence[Fact],
    *,
    store: Answers,
    alpha: float = 0.5,
    asking: Asking = "waves",
    limit: float | None = None,
    origin: str = "",
    on_model_change: OnModelChange = "accept",
) -> PanelJudgement:
    """Ask every judge of ``judge_panel`` the ``facts`` of the picture with content hash ``image``.

    ``load`` gives its pixels, and is called in a thread. A fact that a parent rules out is void and
    not asked; ``together`` asks all at once. Answers come from ``store`` where they are there, and
    ``origin`` pays for the others. ``limit``: seconds of one call of a judge.

    Unless ``on_model_change`` accepts it, the answers of a judge are of one served version: where
    the version changes between two calls, the picture is looked at again. Raises ``ImageError`` and
    ``StoreError``, and ``JudgeError`` for a judge whose version changes from call to call; what a
    judge does wrong otherwise is an unscored answer.
    """
    looks: list[dict[str, list[Answer]]] = []
    while True:
        found = await _look(
            judge_panel, image, load, facts, store, alpha, asking=asking, limit=limit, origin=origin
        )
        served = {judge: versions_of(given) for judge, given in found.answers.items()}
        mixed = {judge: versions for judge, versions in served.items() if len(versions) > 1}
        if not mixed or on_model_change == "accept":
            return _with_lost(found, looks, bool(origin))
        looks.append(found.answers)
        if len(looks) == _LOOKS:
            said = "; ".join(f"{judge} as {' and '.join(by)}" for judge, by in mixed.items())
            raise JudgeError(
                f"a judge is served by several models in turns ({said}), so that no picture is "
                "judged by one: name one version in the judge's id, or set "
                "on_model_change = 'accept'"
            )


def _with_lost(
    found: PanelJudgement, looks: Sequence[dict[str, list[Answer]]], paid: bool
) -> PanelJudgement:
    """Return ``found`` with the costs of answers of earlier ``looks`` that are not in it.

    ``paid``: answers from the store carry what this judging paid for them.
    """
    answers = dict(found.answers)
    for judge, given in answers.items():
        versions = versions_of(given)
        lost = [
            answer
            for look in looks
            for answer in look[judge]
            if not paid or served_version(answer) not in versions
        ]
        if lost and given:
            answers[judge] = with_costs(given, lost)
    return replace(found, answers=answers)


async def _look(
    judge_panel: JudgePanel,
    image: str,
    load: Callable[[], Image.Image],
    facts: Sequence[Fact],
    store: Answers,
    alpha: float,
    *,
    asking: Asking,
    limit: float | None,
    origin: str,
) -> PanelJudgement:
    """Return the result of one judging; see :func:`judge_picture`."""
    answers: dict[str, list[Answer]] = {judge.id: [] for judge in judge_panel.judges}
    known: dict[str, Verdict] = {}
    pixels: Image.Image | None = None
    empty = ""
    while True:
        for verdict in void_verdicts(facts, known):
            known[verdict.fact_id] = verdict
        asked = (
            tuple(fact for fact in facts if fact.id not in known)
            if asking == "together"
            else next_wave(facts, known)
        )
        if not asked:
            break
        later: list[Fact] = []
        if pixels is None:
            pixels = await asyncio.to_thread(load)
            now = {fact.id for fact in asked}
            later = [fact for fact in facts if fact.id not in known and fact.id not in now]
        for judge, given in zip(
            judge_panel.judges,
            await asyncio.gather(
                *(
                    ask(
                        *(judge, image, pixels, asked),
                        store=store,
                        limit=limit,
                        origin=origin,
                        ahead=later,
                    )
                    for judge in judge_panel.judges
                )
            ),
            strict=True,
        ):
            answers[judge.id] += given.answers
            empty = given.empty
        for verdict in judge_panel.panel.verdicts(asked, answers, known):
            known[verdict.fact_id] = verdict
    order = {fact.id: at for at, fact in enumerate(facts)}
    for said in answers.values():
        said.sort(key=lambda answer: order[answer.fact_id])
    return PanelJudgement(ScoreCard.of(facts, known.values(), alpha), answers, empty)


JUDGE, SCORE = "judge", "score"
EMPTY = "empty"
"""Fact of a judging: why no judge was asked, where nothing is drawn on the picture; else empty."""
_DECIDING = 2
"""Increased when the same answers could become other verdicts."""


def facts_to_ask(
    item: Item,
    config: EvalConfig,
    protocol: Protocol | None = None,
    own: DatasetPredicates | None = None,
) -> tuple[Fact, ...]:
    """Return the item's own questions, else those of its scene by ``protocol``, if it has any.

    The default protocol is the evaluation's. Wrong options come from the predicates of the ``own``
    set. An item's own questions have no protocol: they are asked once, with the evaluation's
    protocol. A scene of a doubtful reading has no questions (:func:`withheld`).
    """
    if item.facts:
        return item.facts if protocol in (None, config.protocol) else ()
    if not item.scene or withheld(item, config):
        return ()
    form = QuestionForm(protocol or config.protocol, predicates_for(item, config, own))
    return form.facts(item.scene)


def withheld(item: Item, config: EvalConfig) -> str:
    """Return why nothing that rests on the scene of ``item`` is scored; empty if it is."""
    problem = item.reading_problem
    return "" if problem == DOUBTFUL and config.include_doubtful else problem


def rests_on_reading(metric: Metric, item: Item) -> bool:
    """Return whether a score of ``item`` depends on the scene that was read of its prompt."""
    return "scene" in metric.needs or ("judges" in metric.needs and not item.facts)


def is_drawn(item: Item, arm: Arm, config: EvalConfig, metrics: Sequence[Metric]) -> bool:
    """Return whether ``item`` has a picture in ``arm``.

    Of a withheld item none is drawn from its scene, and none that no metric could score.
    """
    if not withheld(item, config):
        return True
    if arm.spec.source == "draw" and arm.spec.text == "scene":
        return False
    return not all(rests_on_reading(metric, item) for metric in metrics)


def predicates_for(item: Item, config: EvalConfig, own: DatasetPredicates | None) -> Predicates:
    """Return the predicates from which the wrong options of the item's questions come.

    They are those of the configuration, else of the item, else the package's table with the counts
    of the ``own`` set.
    """
    if config.predicates not in ("", PACKAGE):
        return config.predicates
    base = base_of(config)
    return item.predicates or (base if own is None else own.over(base))


def base_of(config: EvalConfig) -> str:
    """Return the table of the package that the counts of a set are added to."""
    return "miniature" if set(config.backends) == {"miniature"} else DEFAULT


def protocol_of(item: Item, config: EvalConfig, judge_panel: JudgePanel) -> str:
    """Return the protocol of ``judge_panel`` for ``item``; empty if it has own facts."""
    return "" if item.facts else judge_panel.protocol or config.protocol


def text_of(item: Item) -> str:
    """Return the text that encoders compare a picture with: the set's or the scene's."""
    if item.prompt or not item.scene:
        return item.prompt
    return scene_text(item.scene)


def scene_text(scene: SceneGraph) -> str:
    """Return ``cat sitting on desk, dog near chair``: the paper's text of a scene graph."""
    names = {
        o.id: " ".join([*(value for _, value in sorted(o.attributes.items())), o.name])
        for o in scene.objects
    }
    related = {end for r in scene.relations for end in (r.source, r.target)}
    said = [f"{names[r.source]} {r.predicate} {names[r.target]}" for r in scene.relations]
    return ", ".join([*said, *(names[o.id] for o in scene.objects if o.id not in related)])


def judge_key(
    drawn: str, round: int, facts: Sequence[Fact], judge_panel: JudgePanel, config: EvalConfig
) -> str:
    """Return the key of a panel's judging of a picture of the drawing ``drawn``."""
    panel = judge_panel.panel
    known = None if panel.calibration is None else panel.calibration.digest
    # A picture alone is judged by the mean; the weights of all pictures come later.
    aggregation = "mean" if panel.aggregation == "agreement" else panel.aggregation
    rules = [aggregation, panel.quorum, panel.threshold, known, config.asking, config.alpha]
    rules.append(_DECIDING)
    judges = [(judge.id, judge.fingerprint) for judge in judge_panel.judges]
    # Judges that do not count are asked as ever.
    left = None if any(judge.caps.counts for judge in judge_panel.judges) else {"counting"}
    asked = [fact.model_dump(mode="json", exclude=left) for fact in facts]
    return digest(JUDGE, drawn, round, asked, judge_panel.name, judges, rules)


async def judged(
    key: str,
    item: Item,
    arm: Arm,
    judge_panel: JudgePanel,
    picture: tuple[int, str],
    facts: Sequence[Fact],
    *,
    images: ImageStore,
    answers: Answers,
    config: EvalConfig,
    limit: float | None,
    dropped: frozenset[str] | None = None,
) -> Unit:
    """Return the unit of one panel's judging of one picture.

    ``dropped``: ids of the facts that were cut off the prompt, None where unknown. Raises
    ``ImageError`` and ``StoreError``.
    """
    _, image = picture
    found = await judge_picture(
        judge_panel,
        image,
        partial(images.get, image),
        facts,
        store=answers,
        alpha=config.alpha,
        asking=config.asking,
        limit=limit,
        origin=key,
        on_model_change=config.on_model_change,
    )
    told: list[Answer | Verdict] = [*found.card.verdicts]
    told += [answer for given in found.answers.values() for answer in given]
    # Wishes are judged where a judge can, and pictures where something is drawn: the others are
    # told, and never tried again.
    lost = [one for one in told if one.state == "unscored" and not is_wish(one.fact_id)]
    return Unit(
        key,
        JUDGE,
        "unscored" if lost and not found.empty else "done",
        found.empty or (lost[0].reason if lost else ""),
        _rows(
            item,
            arm,
            judge_panel,
            protocol_of(item, config, judge_panel),
            picture,
            facts,
            found,
            dropped,
        ),
        {SERVED: served_by(found.answers), EMPTY: found.empty},
    )


def _rows(
    item: Item,
    arm: Arm,
    judge_panel: JudgePanel,
    protocol: str,
    picture: tuple[int, str],
    facts: Sequence[Fact],
    found: PanelJudgement,
    dropped: frozenset[str] | None,
) -> dict[Any, list[dict[str, Any]]]:
    round, image = picture
    base = {
        **arm.columns(item.id),
        "panel": judge_panel.name,
        "protocol": protocol,
        "round": round,
        "image": image,
    }
    by_id = {fact.id: fact for fact in facts}
    return {
        "answers": [
            {
                **base,
                "judge": judge,
                "fact": answer.fact_id,
                "kind": by_id[answer.fact_id].kind,
                **answer_row(answer),
            }
            for judge, given in found.answers.items()
            for answer in given
        ],
        "verdicts": [
            {
                **base,
                "fact": verdict.fact_id,
                "kind": by_id[verdict.fact_id].kind,
                "statement": by_id[verdict.fact_id].statement,
                "question": by_id[verdict.fact_id].question,
                **verdict_row(verdict),
                "dropped": None if dropped is None else verdict.fact_id in dropped,
            }
            for verdict in found.card.verdicts
        ],
    }


def card_of(unit: Unit, facts: Sequence[Fact], alpha: float) -> ScoreCard:
    """Return the score card from the rows of a unit of judging."""
    verdicts = [verdict_of(row) for row in unit.rows["verdicts"]]
    return ScoreCard.of(facts, verdicts, alpha)


def _answers_of(unit: Unit) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for row in unit.rows["answers"]:
        answer = answer_of(row)
        found.setdefault(answer.judge_id, []).append(answer)
    return found


def asked_in(unit: Unit) -> dict[str, int]:
    """Return judge → questions of a judging, without those that a store answered."""
    found: dict[str, int] = {}
    for row in unit.rows.get("answers", ()):
        if row["seconds"] > 0.0:
            found[row["judge"]] = found.get(row["judge"], 0) + 1
    return found


def sample_of(
    item: Item,
    image: str,
    images: ImageStore,
    facts: Sequence[Fact],
    judged: Unit | None,
    alpha: float,
    predicates: Predicates,
    empty: str | None,
) -> Sample:
    """Return a metric's input of a picture; ``predicates``: of :func:`predicates_for`.

    ``empty``: what :data:`EMPTY` says of the picture; None where nobody has looked.
    """
    photo = None if item.image is None else Path(item.image)
    original: Callable[[], Image.Image] | None = (
        partial(load_image, photo) if photo is not None and photo.is_file() else None
    )
    return Sample(
        item=item,
        prompt=text_of(item),
        image=image,
        load=partial(images.get, image),
        original=original,
        facts=tuple(facts),
        predicates=predicates,
        card=None if judged is None or judged.state == "failed" else card_of(judged, facts, alpha),
        answers={} if judged is None or judged.state == "failed" else _answers_of(judged),
        empty=empty,
    )


def answers_digest(look: Unit) -> str:
    """Return a digest of a judging's key and answers, which decide the scores made of it.

    Another try may complete the answers.
    """
    names = ("judge", "fact", "state", "choice", "probability")
    answers = [[row[name] for name in names] for row in look.rows.get("answers", ())]
    verdicts = [
        [row["fact"], row["state"], row["probability"]] for row in look.rows.get("verdicts", ())
    ]
    return digest(look.key, look.state, answers, verdicts)


def item_mark(item: Item) -> str:
    """Return a digest of what metrics read of an item: all but files and boxes of its photo."""
    return digest("item", item.model_dump(mode="json", exclude={"image", "detections"}))


def score_key(
    based_on: str,
    metric: ItemMetric,
    image: str,
    predicates: Predicates = DEFAULT,
    item: str = "",
) -> str:
    """Return the key of a score of a picture.

    ``based_on`` is the key of its drawing, or :func:`answers_digest` of its judging; ``item`` is
    its :func:`item_mark`, which neither of them holds where the picture is the user's own.
    ``predicates`` are part of it where the metric itself asks about scenes; those of the package
    are part of the item already.
    """
    asked = []
    if getattr(metric, "asks_scenes", False) and predicates not in BUILT_IN:
        asked.append(mark_of(predicates))
    return digest(SCORE, based_on, image, metric.name, metric.version, item, *asked)


async def scored(
    key: str,
    metric: ItemMetric,
    sample: Sample,
    base: Mapping[str, Any],
    lacking: str = "",
    look: str = "",
) -> Unit:
    """Return the unit of one score; an error of the metric makes it unscored with the reason.

    A picture on which nothing is drawn has no score, whatever the metric, and is not tried again.
    ``base`` holds the first columns of its rows, up to ``image``; ``lacking`` is the reason why a
    metric that needs judges has none; ``look`` is the key of the judging that it is made of.
    """
    lacking = (lacking if "judges" in metric.needs else "") or _lacking(metric.needs, sample)
    sample = sample if lacking else await looked_at(sample)
    if lacking or sample.empty:
        found = MetricScore(value=None, reason=lacking or str(sample.empty))
    else:
        try:
            found = await metric.score(sample)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            found = MetricScore(value=None, reason=error_text(error))
    rows = score_rows(found, metric.name, metric.version, base)
    facts = {"look": look} if look else {}
    return Unit(key, SCORE, "done" if sample.empty else state_of(found), found.reason, rows, facts)


async def looked_at(sample: Sample) -> Sample:
    """Return ``sample`` with what is known after a look at its picture."""
    if sample.empty is not None:
        return sample
    try:
        return replace(sample, empty=await asyncio.to_thread(lambda: nothing_drawn(sample.load())))
    except ImageError:
        # The metric says so, if it needs the picture.
        return replace(sample, empty="")


def state_of(found: MetricScore) -> UnitState:
    """Return how a unit of a score ended: a score of which a part failed is tried again as well."""
    return "unscored" if found.value is None or found.unscored else "done"


def score_rows(
    found: MetricScore,
    name: str,
    version: str,
    base: Mapping[str, Any],
    scope: str = "",
    n: int = 1,
) -> dict[Any, list[dict[str, Any]]]:
    """Return the rows of a score: its own value with its costs, then its parts."""
    parts: list[tuple[str, float | None]] = [("", found.value), *found.parts.items()]
    return {
        "scores": [
            {
                **base,
                "metric": name,
                "version": version,
                "part": part,
                "scope": scope,
                "value": value,
                "reason": found.reason if value is None or not part else "",
                "unscored": 0 if part else found.unscored,
                "n": n,
                "tokens_in": 0 if part else found.tokens_in,
                "tokens_out": 0 if part else found.tokens_out,
                "usd": 0.0 if part else found.usd,
            }
            for part, value in parts
        ]
    }


def _lacking(needs: frozenset[Need], sample: Sample) -> str:
    if "judges" in needs and sample.card is None:
        own = bool(sample.item.facts)
        return (not own and sample.item.reading_problem) or "no panel judged the picture"
    if "scene" in needs and not sample.item.scene:
        return sample.item.reading_problem or "the item has no scene"
    if "prompt" in needs and not sample.prompt:
        return "the item has neither text nor scene"
    if "original" in needs and sample.original is None:
        return "the item has no original photo"
    return ""
