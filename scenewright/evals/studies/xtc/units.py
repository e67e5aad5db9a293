"""Pieces of work of an evaluation by XTC-Bench, each kept in the journal under what decides it.

Of an item: its questions and prompt (``sheet``). Of a drawing side and seed: the picture
(``drawing``), and what its graph answers, graded (``generation``). Of an understanding side: what
it answers about the reference picture (``answers``), graded (``understanding``). Models that share
a side share its units.

For the prompt (Sec. 3.2.4) the paper linearizes the graph, has a language model refine each object,
then the whole. A :class:`~scenewright.agents.composers.language.LanguageComposer` in stages does
so; any other composer serves where there is no language model. Facts that do not survive in the
prompt are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scenewright.agents.composers.check import dropped_facts, lost_facts
from scenewright.agents.composers.language import LanguageComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.error_text import error_text
from scenewright.core.images import ImageStore, nothing_drawn, to_rgb
from scenewright.core.layout import Region, canonical_predicate
from scenewright.core.ports.backend import PromptCount
from scenewright.core.ports.composer import Composer, LostFact, compose_with_origin
from scenewright.core.ports.vision import Detection, ExtractionError
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.graph_matching.matching import EdgeReading, match_graphs
from scenewright.evals.runner.config import digest, file_mark, item_seed
from scenewright.evals.store.extractions import Extractions
from scenewright.evals.store.journal import Unit, UnitState
from scenewright.evals.studies.xtc.base import (
    AnswerPair,
    DrawnPicture,
    Grade,
    Grader,
    Question,
    QuestionSheet,
    Reply,
    UnifiedModel,
    XtcError,
    picture_of,
)
from scenewright.evals.studies.xtc.config import XtcModels
from scenewright.evals.studies.xtc.lookup import Unknown, answer_of, outside_of, with_converses
from scenewright.evals.studies.xtc.models import drawing_mark, understanding_mark
from scenewright.evals.studies.xtc.questions import QUESTIONS_VERSION, questions_of
from scenewright.providers.usage import Meter, metered
from scenewright.tools.vision.extraction.views import detail_crop

_NEAR = 0.5
"""Of the picture's side: the middles of neighbouring cells, corner to corner, lie closer."""


@dataclass(frozen=True, slots=True)
class XtcPrompt:
    """A prompt, and how it came about."""

    text: str
    """What the model is asked to draw."""
    author: str
    """``model``, ``model again`` (its second text), or a composer's id."""
    lost: tuple[LostFact, ...]
    """Facts of the scene that the text does not say; empty if all survived. What a composer says
    by places counts as said."""
    problem: str = ""
    """Why it was not written in the first way; empty if it was."""


def takes_views(composer: Composer) -> bool:
    """Return whether ``composer`` looks at pictures of single objects."""
    return isinstance(composer, LanguageComposer) and composer.stages


def views_of(item: Item, picture: Image.Image) -> dict[str, Image.Image]:
    """Return the detail crops of the objects of ``item`` in its photo, by object id.

    By the boxes or masks of :attr:`~scenewright.evals.datasets.base.Item.detections`: all of them
    where they are those of the scene's objects one by one, else those of classes that the scene and
    the boxes have once. A box outside of the photo gives no view.
    """
    objects = item.scene.objects if item.scene is not None else ()
    names = [one.name for one in objects]
    found = [one.name for one in item.detections]
    if names == found:
        places = dict(zip((one.id for one in objects), item.detections, strict=True))
    else:
        alone = {one.name: one for one in item.detections if found.count(one.name) == 1}
        places = {
            one.id: alone[one.name]
            for one in objects
            if names.count(one.name) == 1 and one.name in alone
        }
    views = {}
    for id_, place in places.items():
        with contextlib.suppress(ExtractionError):
            views[id_] = detail_crop(picture, place)
    return views


async def prompt_of(
    scene: SceneGraph,
    composer: Composer | None = None,
    views: Mapping[str, Image.Image] | None = None,
    seed: int = 0,
) -> XtcPrompt:
    """Return the prompt of ``scene`` by ``composer`` (default: plain sentences).

    ``views``: object id → its detail crop, for the refinement of single objects; only a language
    model that composes looks at them. ``seed`` picks among equally good placements. Raises
    ``XtcError`` for a view of an object that is not in the scene.
    """
    unknown = sorted(set(views or ()) - {item.id for item in scene.objects})
    if unknown:
        raise XtcError(
            f"views of objects that are not in the scene: {unknown[:12]}: leave them out"
        )
    composer = composer or SentenceComposer()
    if isinstance(composer, LanguageComposer):
        told = await composer.word(scene, seed, views=views)
    else:
        told = await compose_with_origin(composer, scene, seed)
    lost = lost_facts(_without_places(scene, composer.places(scene, seed)), told.prompt)
    return XtcPrompt(told.prompt, told.author, lost, told.problem)


def _without_places(scene: SceneGraph, places: Mapping[str, Region]) -> SceneGraph:
    """Return ``scene`` without the relations that ``places`` say."""
    kept = tuple(
        relation
        for relation in scene.relations
        if relation.source not in places
        or relation.target not in places
        or not _says(
            canonical_predicate(relation.predicate),
            places[relation.source],
            places[relation.target],
        )
    )
    return SceneGraph(objects=scene.objects, relations=kept)


def _says(predicate: str, source: Region, target: Region) -> bool:
    """Return whether two places make a direction or nearness plain."""
    across = (source.left + source.right - target.left - target.right) / 2
    down = (source.top + source.bottom - target.top - target.bottom) / 2
    match predicate:
        case "left of":
            return across < 0
        case "right of":
            return across > 0
        case "above":
            return down < 0
        case "below":
            return down > 0
        case "near":
            return max(abs(across), abs(down)) < _NEAR
        case _:
            return False


SHEET, DRAWING, GENERATION = "sheet", "drawing", "generation"
ANSWERS, UNDERSTANDING = "answers", "understanding"
READ = ("prompt_tokens", "tokens_dropped", "facts_dropped")
"""How much of the prompt a drawing read, where that is known."""
FINAL = "final"
"""Whether a row without a score stays without one however often it is tried."""
_VERSION = 1
_GENERATION_VERSION = 3
"""Raised when the same graph would give other answers."""
_MOST = 5
"""The best grade: scores are divided by it."""


@dataclass(frozen=True, slots=True)
class UnitRunner:
    """What the work needs."""

    xtc_models: XtcModels
    """The models."""
    images: ImageStore
    """All pictures."""
    extractions: Extractions
    """Graphs of drawn pictures that were read before."""
    timeout: float
    """Seconds that a drawing, a reading or an answering may take."""
    converses: bool = False
    """Whether a relation that is seen the other way round is an answer too."""
    matching: EdgeReading = "published"
    """How incident edges are compared when graphs are matched."""

    def sheet_key(self, item: Item) -> str:
        """Return the key of the questions, the prompt and the reference picture of ``item``.

        Raises ``EvalError`` if it has no scene, or its photo is not there.
        """
        if item.scene is None or not item.scene:
            raise EvalError(f"the item {item.id!r} has no scene")
        if item.image is None:
            raise EvalError(f"the item {item.id!r} has no photo")
        file = Path(item.image)
        if not file.is_file():
            raise EvalError(f"there is no photo {file}: name the set's folder of images")
        # A scene's order decides the questions' order alone, but its ids are theirs.
        words = self.xtc_models.composer.fingerprint
        shown = (
            [_place(one) for one in item.detections]
            if takes_views(self.xtc_models.composer)
            else []
        )
        return digest(
            *(SHEET, _VERSION, QUESTIONS_VERSION, item.id, item.scene.digest, words),
            *(file_mark(file), *([shown] if shown else [])),
        )

    async def sheet(self, key: str, item: Item) -> Unit:
        """Make questions, prompt and reference picture; raises what files raise.

        A composer that fails leaves the prompt open: the questions need none, and the photo can be
        asked about.
        """
        assert item.scene is not None
        assert item.image is not None
        file = Path(item.image)
        reference = await asyncio.to_thread(lambda: self.images.put_bytes(file.read_bytes()))
        views: dict[str, Image.Image] = {}
        if takes_views(self.xtc_models.composer) and item.detections:
            views = await asyncio.to_thread(
                lambda: views_of(item, to_rgb(self.images.get(reference)))
            )
        with metered() as spent:
            made, reason = XtcPrompt("", "", ()), ""
            try:
                made = await prompt_of(item.scene, self.xtc_models.composer, views)
            except Exception as error:
                reason = error_text(error)
        facts = {
            "sheet": questions_of(item.scene).model_dump(mode="json"),
            "prompt": made.text,
            "author": made.author,
            "problem": reason or made.problem,
            "lost": [lost.statement for lost in made.lost],
            "views": sorted(views),
            "reference": reference,
            "scene": item.scene.canonical_json(),
        }
        state: UnitState = "unscored" if reason else "done"
        return Unit(key, SHEET, state, reason, facts=facts | _spent(spent))

    def drawing_key(self, model: UnifiedModel, scene: SceneGraph, prompt: str, seed: int) -> str:
        """Return the key of a picture."""
        return digest(DRAWING, _VERSION, drawing_mark(model), scene.digest, prompt, seed)

    async def drawing(
        self, key: str, model: UnifiedModel, scene: SceneGraph, prompt: str, seed: int
    ) -> Unit:
        """Return the picture, kept under its key before the unit is kept.

        Raises what the model raises.
        """
        found = await asyncio.to_thread(self.images.recall, key)
        if found is None:
            with metered() as spent:
                async with asyncio.timeout(self.timeout):
                    drawn = picture_of(await model.draw(scene, prompt, seed))
            # A task cancelled meanwhile still keeps what was paid for.
            keeping = asyncio.create_task(
                asyncio.to_thread(self._keep, key, scene, prompt, drawn, _spent(spent))
            )
            try:
                found = await asyncio.shield(keeping)
            except asyncio.CancelledError:
                await keeping
                raise
        name, meta = found
        return Unit(key, DRAWING, facts={"image": name, **meta})

    def _keep(
        self, key: str, scene: SceneGraph, prompt: str, drawn: DrawnPicture, spent: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        name = self.images.put(drawn.image)
        meta = {**spent, **_read_of(scene, drawn.prompt or prompt, drawn.count)}
        self.images.remember(key, name, meta)
        return name, meta

    def generation_key(self, sheet: Unit, image: str) -> str:
        """Return the key of the grades of a drawn picture."""
        xtc_models = self.xtc_models
        used = [
            xtc_models.extractor.fingerprint,
            xtc_models.similarity.id,
            xtc_models.grader.fingerprint,
        ]
        rules = [self.converses, self.matching]
        return digest(GENERATION, _GENERATION_VERSION, sheet.key, image, *used, *rules)

    def undrawn(self, sheet: Unit) -> Unit | None:
        """Return the grades of a picture that need not be drawn; None if it must be.

        It need not be where the extractor has no words for any of its questions.
        """
        questions, outside = questions_in(sheet), self._outside(sheet)
        if not questions or len(outside) < len(questions):
            return None
        rows = [_unscored_row(question.id, outside[question.id]) for question in questions]
        reason = rows[0]["reason"]
        return Unit("", GENERATION, "unscored", reason, facts={"rows": rows, "image": ""})

    def _outside(self, sheet: Unit) -> dict[str, str]:
        scene = SceneGraph.model_validate_json(sheet.facts["scene"])
        return outside_of(questions_in(sheet), scene, self.xtc_models.extractor, self.converses)

    async def generation(self, key: str, sheet: Unit, image: str) -> Unit:
        """Grade what the graph of the drawn picture answers; raises what extractors raise.

        An answer that depends on a part that could not be read, or is outside of the extractor's
        words, is unscored, with the reason.
        """
        scene = SceneGraph.model_validate_json(sheet.facts["scene"])
        questions, outside = questions_in(sheet), self._outside(sheet)
        rows: list[dict[str, Any]]
        with metered() as spent:
            async with asyncio.timeout(self.timeout):
                picture = await asyncio.to_thread(self.images.get, image)
                if empty := await asyncio.to_thread(nothing_drawn, picture):
                    rows = [_unscored_row(question.id, empty) for question in questions]
                    return Unit(key, GENERATION, reason=empty, facts={"rows": rows, "image": image})
                extraction = await self.extractions.of(picture, image)
                seen = extraction.scene
            match = await asyncio.to_thread(
                match_graphs, scene, seen, self.xtc_models.similarity, edges=self.matching
            )
            known = with_converses(seen) if self.converses else seen
            drawn = [answer_of(match, scene, known, question) for question in questions]
            asked = [
                at
                for at, answer in enumerate(drawn)
                if not answer.missing and questions[at].id not in outside
            ]
            grades = await graded(
                self.xtc_models.grader, [(questions[at], drawn[at].text) for at in asked]
            )
        by_place = dict(zip(asked, grades, strict=True))
        unknown = Unknown(match, scene, extraction, self.converses)
        rows = []
        for at, question in enumerate(questions):
            if question.id in outside:
                rows.append(_unscored_row(question.id, outside[question.id]))
                continue
            grade = by_place.get(at) or Grade(score=0)
            unread = unknown.reason(question, right=grade.score == _MOST)
            if unread:
                grade = Grade(score=None, reason=f"the picture was not read as a whole: {unread}")
            rows.append(
                {
                    "question": question.id,
                    "u": share_of(grade),
                    "drawn": "" if drawn[at].missing else drawn[at].text,
                    "matched": drawn[at].matched,
                    "note": drawn[at].reason,
                    "reason": grade.reason if grade.score is None else "",
                }
            )
        counted = not extraction.unread_parts("objects")
        facts = {
            "rows": rows,
            "image": image,
            "seen": seen.canonical_json(),
            "nodes": len(scene.objects) if counted else None,
            "matched": len(match.nodes) if counted else None,
            "edges": len(match.edges),
            "edges_matched": (
                sum(bool(edge.seen) for edge in match.edges) if extraction.complete else None
            ),
            "dropped": [f"{d.what}: {d.reason}" for d in extraction.dropped],
            "unread": list(map(str, extraction.unread)),
        }
        state, reason = _state(_lost(rows, "u"))
        return Unit(key, GENERATION, state, reason, facts=facts | _spent(spent))

    def answers_key(self, model: UnifiedModel, sheet: Unit) -> str:
        """Return the key of a model's answers about the reference picture."""
        asked = [[q.id, q.text, q.kind, q.key, q.phrases] for q in questions_in(sheet)]
        reference = sheet.facts["reference"]
        return digest(ANSWERS, _VERSION, understanding_mark(model), reference, asked)

    async def answers(
        self, key: str, model: UnifiedModel, sheet: Unit, before: Unit | None = None
    ) -> Unit:
        """Return the model's answers; of those of ``before`` only what has no text is asked again.

        Raises what the model raises, and ``EvalError`` if it answers too few or too many.
        """
        questions = questions_in(sheet)
        replies: list[Reply | None] = [None] * len(questions)
        if before is not None:
            replies = list(replies_in(before))
        open_ = [
            at
            for at, reply in enumerate(replies)
            if reply is None or (reply.text is None and not reply.final)
        ]
        with metered() as spent:
            async with asyncio.timeout(self.timeout):
                picture = await asyncio.to_thread(self.images.get, sheet.facts["reference"])
                if empty := await asyncio.to_thread(nothing_drawn, picture):
                    found = [Reply(text=None, reason=empty, final=True) for _ in open_]
                else:
                    found = await model.answer(picture, [questions[at] for at in open_])
        if len(found) != len(open_):
            raise EvalError(f"{model.id} gave {len(found)} replies to {len(open_)} questions")
        for at, reply in zip(open_, found, strict=True):
            replies[at] = reply
        given = [reply for reply in replies if reply is not None]
        lost = [one.reason or "no answer" for one in given if one.text is None and not one.final]
        state, reason = _state(lost)
        facts = {"replies": [reply.model_dump(mode="json") for reply in given]}
        return Unit(key, ANSWERS, state, reason, facts=facts | _spent(spent))

    def understanding_key(self, sheet: Unit, answers: Unit) -> str:
        """Return the key of the grades of a model's answers."""
        said = [reply.text for reply in replies_in(answers)]
        right = [question.answer for question in questions_in(sheet)]
        return digest(
            UNDERSTANDING, _VERSION, answers.key, said, right, self.xtc_models.grader.fingerprint
        )

    async def understanding(self, key: str, sheet: Unit, answers: Unit) -> Unit:
        """Return the grades of a model's answers."""
        questions, replies = questions_in(sheet), replies_in(answers)
        texts = [(at, reply.text) for at, reply in enumerate(replies) if reply.text is not None]
        with metered() as spent:
            grades = await graded(
                self.xtc_models.grader, [(questions[at], text) for at, text in texts]
            )
        by_place = {at: grade for (at, _), grade in zip(texts, grades, strict=True)}
        rows: list[dict[str, Any]] = []
        for at, (question, reply) in enumerate(zip(questions, replies, strict=True)):
            grade = by_place.get(at) or Grade(score=None, reason=reply.reason or "no answer")
            rows.append(
                {
                    "question": question.id,
                    "v": share_of(grade),
                    "said": reply.text or "",
                    "reason": grade.reason if grade.score is None else "",
                    FINAL: reply.final,
                }
            )
        state, reason = _state(_lost(rows, "v"))
        return Unit(key, UNDERSTANDING, state, reason, facts={"rows": rows} | _spent(spent))


def _read_of(scene: SceneGraph, prompt: str, count: PromptCount | None) -> dict[str, Any]:
    """Return how much of a prompt was read, as columns; nothing where that is not known."""
    if count is None:
        return {}
    dropped = dropped_facts(scene, facts_of(scene), prompt, count.read) if count.dropped else ()
    numbers = (count.tokens, count.dropped, len(dropped))
    return dict(zip(READ, numbers, strict=True))


def _unscored_row(question: str, reason: str) -> dict[str, Any]:
    """Return a question that no graph of a picture could answer."""
    row = {"question": question, "u": None, "drawn": "", "matched": False, "note": ""}
    return {**row, "reason": reason, FINAL: True}


def _lost(rows: Sequence[Mapping[str, Any]], side: str) -> list[str]:
    """Return why ``side`` is missing in rows that another try could score."""
    return [row["reason"] for row in rows if row[side] is None and not row.get(FINAL)]


def _place(one: Detection) -> list[Any]:
    """Return what decides a detail crop of the photo."""
    mask = None if one.mask is None else hashlib.sha256(np.packbits(one.mask).tobytes()).hexdigest()
    return [one.name, list(one.box), mask]


def seed_of(seed: int, item: Item) -> int:
    """Return the seed of ``item``: the same for every model."""
    return item_seed(seed, item.id)


async def graded(grader: Grader, pairs: Sequence[tuple[Question, str]]) -> list[Grade]:
    """Return the grades of answers to questions; of several relations the best match counts.

    Raises ``EvalError`` for a grader that miscounts.
    """
    if not pairs:
        return []
    asked = [
        AnswerPair(question=q.text, expected=q.answer, given=text, best=q.kind == "relation")
        for q, text in pairs
    ]
    grades = await grader.grade(asked)
    if len(grades) != len(asked):
        raise EvalError(f"{grader.id} gave {len(grades)} grades to {len(asked)} answers")
    return grades


def share_of(grade: Grade) -> float | None:
    """Return a grade from 0 to 5 as a number in [0, 1]; None if there is none (Sec. 3.3.1)."""
    return None if grade.score is None else grade.score / _MOST


def questions_in(sheet: Unit) -> tuple[Question, ...]:
    """Return the questions of a sheet."""
    return QuestionSheet.model_validate(sheet.facts["sheet"]).questions


def replies_in(answers: Unit) -> tuple[Reply, ...]:
    """Return a model's replies, one a question."""
    return tuple(Reply.model_validate(reply) for reply in answers.facts["replies"])


def _spent(meter: Meter) -> dict[str, Any]:
    usage = meter.usage
    return {
        "spent": {
            "calls": meter.calls,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "usd": meter.usd,
        }
    }


def _state(reasons: Sequence[str]) -> tuple[UnitState, str]:
    return ("unscored", reasons[0] or "no reason was given") if reasons else ("done", "")


def spent_of(unit: Unit) -> Mapping[str, float]:
    """Return what a unit took: calls of models with accounts, their tokens and dollars."""
    found: Mapping[str, float] = unit.facts.get("spent", {})
    return found
