"""Units of judging and of scores: what a panel says of a picture, and what metrics make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.core.facts import Answer, Fact, ScoreCard
from scenewright.core.images import ImageStore, load_image
from scenewright.core.predicate_statistics import BUILT_IN, DEFAULT
from scenewright.core.questions import Protocol, QuestionForm
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import ItemMetric, MetricScore, Need, Sample
from scenewright.evals.runner.arms import Arm, digest
from scenewright.evals.runner.config import PACKAGE, EvalConfig
from scenewright.evals.runner.dataset_predicates import DatasetPredicates, Predicates, mark_of
from scenewright.evals.runner.judging import PanelJudgement, ToolCallSource, judge_picture
from scenewright.evals.runner.served_versions import SERVED, served_by
from scenewright.evals.store.export import answer_of, answer_row, verdict_of, verdict_row
from scenewright.evals.store.journal import Unit, UnitState
from scenewright.providers import Answers

JUDGE, SCORE = "judge", "score"
_DECIDING = 2
"""Raised when the same answers could become other verdicts."""


def facts_to_ask(
    item: Item,
    config: EvalConfig,
    protocol: Protocol | None = None,
    own: DatasetPredicates | None = None,
) -> tuple[Fact, ...]:
    """The item's own questions, else those of its scene by ``protocol`` (default: the
    evaluation's), with wrong options of the set's ``own`` predicates; none without either.

    Its own questions have no protocol: there are none of another one than the evaluation's.
    """
    if item.facts:
        return item.facts if protocol in (None, config.protocol) else ()
    if not item.scene:
        return ()
    form = QuestionForm(protocol or config.protocol, predicates_for(item, config, own))
    return form.facts(item.scene)


def predicates_for(item: Item, config: EvalConfig, own: DatasetPredicates | None) -> Predicates:
    """Return where the wrong options of the item's questions come from: as the configuration says,
    else as the item does, else the package's table with what was counted in the ``own`` set."""
    if config.predicates not in ("", PACKAGE):
        return config.predicates
    base = base_of(config)
    return item.predicates or (base if own is None else own.over(base))


def base_of(config: EvalConfig) -> str:
    """Return the table of the package that the counts of a set are added to."""
    return "miniature" if set(config.backends) == {"miniature"} else DEFAULT


def protocol_of(item: Item, config: EvalConfig, judge_panel: ToolCallSource) -> str:
    """By which protocol ``judge_panel`` asks about ``item``; empty for the item's own questions."""
    return "" if item.facts else judge_panel.protocol or config.protocol


def text_of(item: Item) -> str:
    """What a text encoder compares with: the set's text, else the scene in the paper's phrases
    ``subject predicate object``, and what stands in no relation by its name."""
    if item.prompt or not item.scene:
        return item.prompt
    return scene_text(item.scene)


def scene_text(scene: SceneGraph) -> str:
    """``cat sitting on desk, dog near chair``: the paper's text of a scene graph."""
    names = {
        o.id: " ".join([*(value for _, value in sorted(o.attributes.items())), o.name])
        for o in scene.objects
    }
    related = {end for r in scene.relations for end in (r.source, r.target)}
    said = [f"{names[r.source]} {r.predicate} {names[r.target]}" for r in scene.relations]
    return ", ".join([*said, *(names[o.id] for o in scene.objects if o.id not in related)])


def judge_key(
    drawn: str, round: int, facts: Sequence[Fact], judge_panel: ToolCallSource, config: EvalConfig
) -> str:
    """What decides a panel's rows about a picture of the drawing ``drawn``."""
    panel = judge_panel.panel
    known = None if panel.calibration is None else panel.calibration.digest
    rules = [panel.aggregation, panel.quorum, panel.threshold, known, config.asking, config.alpha]
    rules.append(_DECIDING)
    judges = [(judge.id, judge.fingerprint) for judge in judge_panel.judges]
    asked = [fact.model_dump(mode="json") for fact in facts]
    return digest(JUDGE, drawn, round, asked, judge_panel.name, judges, rules)


async def judged(
    key: str,
    item: Item,
    arm: Arm,
    judge_panel: ToolCallSource,
    picture: tuple[int, str],
    facts: Sequence[Fact],
    *,
    images: ImageStore,
    answers: Answers,
    config: EvalConfig,
    limit: float | None,
    dropped: frozenset[str] | None = None,
) -> Unit:
    """The unit of one panel's look at one picture; ``dropped``: ids of the facts whose words were
    not read, None if that is not known. Raises ``ImageError`` and ``StoreError``."""
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
    open_facts = [v for v in found.card.verdicts if v.state == "unscored"]
    silent = [a for given in found.answers.values() for a in given if a.state == "unscored"]
    reason = (open_facts or silent or [None])[0]
    return Unit(
        key,
        JUDGE,
        "unscored" if silent or open_facts else "done",
        "" if reason is None else reason.reason,
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
        {SERVED: served_by(found.answers)},
    )


def _rows(
    item: Item,
    arm: Arm,
    judge_panel: ToolCallSource,
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
    """The score card that the rows of a unit of judging tell."""
    verdicts = [verdict_of(row) for row in unit.rows["verdicts"]]
    return ScoreCard.of(facts, verdicts, alpha)


def _answers_of(unit: Unit) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for row in unit.rows["answers"]:
        answer = answer_of(row)
        found.setdefault(answer.judge_id, []).append(answer)
    return found


def asked_in(unit: Unit) -> dict[str, int]:
    """Return judge → questions that a look put to it, without those that a store answered."""
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
) -> Sample:
    """What a metric gets of a picture; ``predicates``: of :func:`predicates_for`."""
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
    )


def answers_digest(look: Unit) -> str:
    """What decides the scores that are made of a judging: its key, and what was answered, which
    another try may complete."""
    names = ("judge", "fact", "state", "choice", "probability")
    answers = [[row[name] for name in names] for row in look.rows.get("answers", ())]
    verdicts = [
        [row["fact"], row["state"], row["probability"]] for row in look.rows.get("verdicts", ())
    ]
    return digest(look.key, look.state, answers, verdicts)


def score_key(
    based_on: str, metric: ItemMetric, image: str, predicates: Predicates = DEFAULT
) -> str:
    """What decides a score of a picture; ``based_on`` is the key of its drawing, or
    :func:`answers_digest` its judging.

    ``predicates`` decide it where the metric itself asks about scenes; those that the package
    holds are part of what the item is.
    """
    asked = []
    if getattr(metric, "asks_scenes", False) and predicates not in BUILT_IN:
        asked.append(mark_of(predicates))
    return digest(SCORE, based_on, image, metric.name, metric.version, *asked)


async def scored(
    key: str,
    metric: ItemMetric,
    sample: Sample,
    base: Mapping[str, Any],
    lacking: str = "",
    look: str = "",
) -> Unit:
    """The unit of one score; what the metric raises makes it unscored with the reason.

    ``base`` holds the first columns of its rows, up to ``image``; ``lacking`` tells why a metric
    that needs judges has none; ``look`` is the key of the judging that it is made of.
    """
    lacking = (lacking if "judges" in metric.needs else "") or _lacking(metric.needs, sample)
    if lacking:
        found = MetricScore(value=None, reason=lacking)
    else:
        try:
            found = await metric.score(sample)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            found = MetricScore(value=None, reason=error_text(error))
    rows = score_rows(found, metric.name, metric.version, base)
    facts = {"look": look} if look else {}
    return Unit(key, SCORE, state_of(found), found.reason, rows, facts)


def state_of(found: MetricScore) -> UnitState:
    """How a unit of a score ended: a score of which a part failed is tried again as well."""
    return "unscored" if found.value is None or found.unscored else "done"


def score_rows(
    found: MetricScore,
    name: str,
    version: str,
    base: Mapping[str, Any],
    scope: str = "",
    n: int = 1,
) -> dict[Any, list[dict[str, Any]]]:
    """The rows of a score: its own value with what it took, then its parts."""
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
        return "no panel judged the picture"
    if "scene" in needs and not sample.item.scene:
        return "the item has no scene"
    if "prompt" in needs and not sample.prompt:
        return "the item has neither text nor scene"
    if "original" in needs and sample.original is None:
        return "the item has no original photo"
    return ""


def error_text(error: BaseException) -> str:
    """An error as the reason of a row: its class and its first lines."""
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return text if len(text) <= 500 else text[:499] + "…"
