"""Work on one item of XTC-Bench, in units of the journal, each kept under what decides it.

Of an item: its questions and prompt (``sheet``). Of a drawing side and seed: the picture
(``drawing``), and what its graph answers, graded (``generation``). Of an understanding side: what
it answers about the reference picture (``answers``), graded (``understanding``). Models that share
a side share its units. Of each model and seed both sides of every question are joined
(``picture``): the rows of the tables.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scenewright.agents.composers.check import dropped_facts
from scenewright.core.error_text import error_text
from scenewright.core.images import ImageStore, nothing_drawn, to_rgb
from scenewright.core.ports.backend import PromptCount
from scenewright.core.ports.vision import Detection
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.graph_matching.matching import match_graphs
from scenewright.evals.runner.config import digest, file_mark, item_seed
from scenewright.evals.runner.task import Counted, Ended, Tell, UnitWork
from scenewright.evals.store.extractions import Extractions
from scenewright.evals.store.journal import Unit, Units, UnitState
from scenewright.evals.studies.xtc.base import (
    DrawnPicture,
    Question,
    QuestionSheet,
    Reply,
    UnifiedModel,
)
from scenewright.evals.studies.xtc.config import XtcConfig, XtcModels
from scenewright.evals.studies.xtc.grading import graded
from scenewright.evals.studies.xtc.lookup import Unknown, answer_of, outside_of, with_converses
from scenewright.evals.studies.xtc.models import drawing_mark, understanding_mark
from scenewright.evals.studies.xtc.prompting import XtcPrompt, prompt_of, takes_views, views_of
from scenewright.evals.studies.xtc.questions import QUESTIONS_VERSION, category_of, questions_of
from scenewright.providers.usage import Meter, metered
from scenewright.providers.versions import served_to

SHEET, DRAWING, GENERATION = "sheet", "drawing", "generation"
ANSWERS, UNDERSTANDING, PICTURE = "answers", "understanding", "picture"
PAID = (SHEET, DRAWING, GENERATION, ANSWERS, UNDERSTANDING)
"""Kinds of units that calls of models may be spent on."""
READ = ("prompt_tokens", "tokens_dropped", "facts_dropped")
"""How much of the prompt a drawing read, where that is known."""
SPENT = ("calls", "tokens_in", "tokens_out", "usd")
"""What a unit took, in its fact ``spent``."""
_TIMED = (DRAWING, ANSWERS)
"""Kinds of units that may take as long as the configuration says; so may a reading."""
_COUNTS = ("nodes", "matched", "edges", "edges_matched")
_VERSION = 1
_SHEET_VERSION = 2
_GENERATION_VERSION = 3
"""Raised when the same graph would give other answers."""


@dataclass(frozen=True, slots=True)
class PhotoItem:
    """An item with what identifies the file of its photo."""

    item: Item
    mark: list[Any] = field(default_factory=list)
    """Path, size and time of change of the photo."""
    problem: str = ""
    """Why the item cannot be evaluated; empty if it can."""

    @property
    def id(self) -> str:
        """Id of the item."""
        return self.item.id

    @classmethod
    def of(cls, item: Item) -> PhotoItem:
        """Look for the scene and the photo of ``item``."""
        if not item.scene:
            return cls(item, problem="an item has no scene")
        if item.image is None:
            return cls(item, problem="an item has no photo")
        file = Path(item.image)
        if not file.is_file():
            what = f"there is no photo {file}: name the set's folder of images"
            return cls(item, problem=what)
        try:
            # Absolute, for a worker with another working directory.
            there = item.model_copy(update={"image": str(file.absolute())})
            return cls(there, file_mark(file))
        except OSError as error:
            return cls(item, problem=error_text(error))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Event: an item cannot be evaluated."""

    reason: str


@dataclass(frozen=True, slots=True)
class Served:
    """Event: a judge gave answers, counted by the version that was served."""

    judge: str
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Try:
    """One try to make a unit."""

    key: str
    """Key of the unit."""
    meter: Meter
    """Counts what its calls take."""
    before: Unit | None
    """An earlier try, if there is one."""


class XtcWork(UnitWork):
    """Work on one item."""

    def __init__(
        self,
        config: XtcConfig,
        models: XtcModels,
        images: ImageStore,
        photo: Callable[[str], bytes],
        extractions: Extractions,
        units: Units,
        tell: Tell,
        *,
        retry: bool,
    ) -> None:
        """Set up the work.

        Args:
            config: configuration of the evaluation.
            models: the models.
            images: store of all pictures.
            photo: reads the file of a photo.
            extractions: graphs of drawn pictures that were read before.
            units: as in :class:`~scenewright.evals.runner.task.UnitWork`.
            tell: receiver of events.
            retry: as in :class:`~scenewright.evals.runner.task.UnitWork`.
        """
        super().__init__(
            units,
            retry=retry,
            count=lambda **more: tell(Counted(more)),
            ended=lambda unit: tell(Ended(replace(unit, rows={}, facts={}))),
        )
        self._config = config
        self._models = models
        self._images = images
        self._photo = photo
        self._extractions = extractions
        self._event = tell

    async def do(self, photo: PhotoItem) -> list[str]:
        """Draw an item by every model, ask every model about it, and grade both.

        Return the keys of its units, in the order of the tables; none for an item that cannot be
        evaluated. What models do wrong is a failed or an unscored unit. Raises ``EvalError``,
        ``StoreError`` and ``ImageError`` where what is done cannot be kept.
        """
        item = photo.item
        if photo.problem:
            self._event(LeftOut(photo.problem))
            return []
        sheet = await self._unit(self._sheet_key(photo), SHEET, partial(self._sheet, item))
        if sheet.state == "failed":
            self._event(LeftOut(f"the photo could not be read: {sheet.reason}"))
            return []
        keys = [sheet.key]
        understood: dict[str, Unit] = {}
        drawn: dict[tuple[str, int], Unit] = {}
        for model in self._models.models:
            mark, other = drawing_mark(model), understanding_mark(model)
            if other not in understood:
                understood[other] = await self._understood(model, sheet, keys)
            for seed in self._config.seeds:
                if (mark, seed) not in drawn:
                    own = item_seed(seed, item.id)
                    drawn[mark, seed] = await self._drawn(model, sheet, own, keys)
                rows = _joined(item, model, seed, sheet, drawn[mark, seed], understood[other])
                joined = Unit(digest(PICTURE, _VERSION, rows), PICTURE, rows=rows)
                self._units.put([joined])
                keys.append(joined.key)
        # What two items or models share belongs to each of them once.
        return list(dict.fromkeys(keys))

    async def _unit(self, key: str, kind: str, make: Callable[[Try], Awaitable[Unit]]) -> Unit:
        """Return the finished unit of ``key``, or a new one; a failure is a unit too."""

        async def made(before: Unit | None) -> Unit:
            with metered() as meter, served_to(lambda *of: self._event(Served(*of))):
                unit = await make(Try(key, meter, before))
            # A picture that was kept before its unit knows what it took.
            return replace(unit, facts=_spent(meter) | dict(unit.facts))

        failed = partial(Unit, key, kind, "failed")
        seconds = self._config.timeout if kind in _TIMED else None
        unit, new = await self.unit(key, made, failed, seconds=seconds)
        if new:
            self.keep(unit)
        else:
            self._tell(found=int(kind == DRAWING), failed=int(unit.state == "failed"))
        self._tell(unscored=int(unit.state == "unscored"))
        return unit

    def _sheet_key(self, photo: PhotoItem) -> str:
        """Return the key of the questions, the prompt and the reference picture of an item."""
        item, composer = photo.item, self._models.composer
        assert item.scene is not None
        # A scene's order decides the questions' order alone, but its ids are theirs.
        return digest(
            *(SHEET, _SHEET_VERSION, QUESTIONS_VERSION, item.id, item.scene.digest),
            *(composer.fingerprint, photo.mark),
            *([[_place(one) for one in item.detections]] if takes_views(composer) else []),
        )

    async def _sheet(self, item: Item, this: Try) -> Unit:
        """Make questions, prompt and reference picture; raises what files raise.

        A composer that fails leaves the prompt open: the questions need none, and the photo can be
        asked about.
        """
        scene, file = item.scene, item.image or ""
        assert scene is not None
        reference = await asyncio.to_thread(lambda: self._images.put_bytes(self._photo(file)))
        views: dict[str, Image.Image] = {}
        if takes_views(self._models.composer) and item.detections:
            views = await asyncio.to_thread(
                lambda: views_of(item, to_rgb(self._images.get(reference)))
            )
        made, reason = XtcPrompt("", "", ()), ""
        try:
            made = await prompt_of(scene, self._models.composer, views)
        except Exception as error:
            reason = error_text(error)
        sheet = questions_of(scene)
        row = {
            "item": item.id,
            "reference": reference,
            "scene": scene.canonical_json(),
            "prompt": made.text,
            "author": made.author,
            "problem": reason or made.problem,
            "lost": _text([lost.statement for lost in made.lost]),
            "views": len(views),
            "questions": len(sheet.questions),
            "unasked": _text([one.model_dump() for one in sheet.unasked]),
        }
        facts = {"sheet": sheet.model_dump(mode="json")}
        return Unit(
            this.key, SHEET, "unscored" if reason else "done", reason, {"items": [row]}, facts
        )

    async def _drawn(self, model: UnifiedModel, sheet: Unit, seed: int, keys: list[str]) -> Unit:
        """Return the grades of the drawn picture, or the failure that prevents them.

        Nothing is drawn where the extractor has no words for any of the questions.
        """
        self._tell(pictures=1)
        row, questions, scene = _row_of(sheet), questions_in(sheet), _scene_of(sheet)
        outside = outside_of(questions, scene, self._models.extractor, self._config.converses)
        if questions and len(outside) == len(questions):
            self._tell(unscored=1)
            rows = [_unscored(question, outside[question.id]) for question in questions]
            return Unit("", GENERATION, "unscored", rows[0]["reason"], facts={"rows": rows})
        if sheet.state != "done":
            self._tell(unscored=1)
            return Unit("", GENERATION, "failed", f"the prompt failed: {sheet.reason}")
        prompt = row["prompt"]
        key = digest(DRAWING, _VERSION, drawing_mark(model), scene.digest, prompt, seed)
        draw = partial(self._draw, model, scene, prompt, seed)
        picture = await self._unit(key, DRAWING, draw)
        keys.append(key)
        if picture.state == "failed":
            return replace(picture, reason=f"the drawing failed: {picture.reason}")
        image = picture.facts["image"]
        known = {"image": image} | {name: picture.facts.get(name) for name in READ}
        used = self._models
        graded_key = digest(
            *(GENERATION, _GENERATION_VERSION, sheet.key, image, used.extractor.fingerprint),
            *(used.similarity.id, used.grader.fingerprint),
            *(self._config.converses, self._config.matching),
        )
        read = partial(self._read, questions, scene, outside, image)
        found = await self._unit(graded_key, GENERATION, read)
        keys.append(graded_key)
        if found.state == "failed":
            return replace(
                found, reason=f"the picture could not be read: {found.reason}", facts=known
            )
        return replace(found, facts={**found.facts, **known})

    async def _draw(
        self,
        model: UnifiedModel,
        scene: SceneGraph,
        prompt: str,
        seed: int,
        this: Try,
    ) -> Unit:
        """Return the picture, kept under its key before the unit is kept."""
        found = await asyncio.to_thread(self._images.recall, this.key)
        if found is None:
            made = await model.draw(scene, prompt, seed)
            drawn = made if isinstance(made, DrawnPicture) else DrawnPicture(made)

            def keep() -> tuple[str, dict[str, Any]]:
                name = self._images.put(drawn.image)
                meta = _spent(this.meter) | _read_of(scene, drawn.prompt or prompt, drawn.count)
                self._images.remember(this.key, name, meta)
                return name, meta

            # A task cancelled meanwhile still keeps what was paid for.
            keeping = asyncio.create_task(asyncio.to_thread(keep))
            try:
                found = await asyncio.shield(keeping)
            except asyncio.CancelledError:
                await keeping
                raise
        name, meta = found
        return Unit(this.key, DRAWING, facts={"image": name, **meta})

    async def _read(
        self,
        questions: Sequence[Question],
        scene: SceneGraph,
        outside: dict[str, str],
        image: str,
        this: Try,
    ) -> Unit:
        """Grade what the graph of the drawn picture answers; raises what extractors raise.

        An answer that depends on a part that could not be read, or is outside of the extractor's
        words, is unscored, with the reason.
        """
        config = self._config
        picture = await asyncio.to_thread(self._images.get, image)
        if empty := await asyncio.to_thread(nothing_drawn, picture):
            rows = [_unscored(question, empty) for question in questions]
            return Unit(this.key, GENERATION, reason=empty, facts={"rows": rows})
        try:
            # The time of a reading: grades wait for the grader's other calls.
            async with asyncio.timeout(config.timeout):
                extraction = await self._extractions.of(picture, image)
        except TimeoutError as error:
            late = f"not done within {config.timeout:g} s"
            raise EvalError(str(error).strip() or late) from error
        seen = extraction.scene
        match = await asyncio.to_thread(
            match_graphs, scene, seen, self._models.similarity, edges=config.matching
        )
        known = with_converses(seen) if config.converses else seen
        answers = {question.id: answer_of(match, scene, known, question) for question in questions}
        asked = [q for q in questions if not answers[q.id].missing and q.id not in outside]
        grades = await graded(self._models.grader, [(q, answers[q.id].text) for q in asked])
        by_question = {q.id: grade for q, grade in zip(asked, grades, strict=True)}
        unknown = Unknown(match, scene, extraction, config.converses)
        rows = []
        for question in questions:
            if question.id in outside:
                rows.append(_unscored(question, outside[question.id]))
                continue
            answer, grade = answers[question.id], by_question.get(question.id)
            u, reason = (0.0, "") if grade is None else (grade.share, grade.reason)
            if unread := unknown.reason(question, right=u == 1.0):
                u, reason = None, f"the picture was not read as a whole: {unread}"
            rows.append(
                {
                    "question": question.id,
                    "u": u,
                    "drawn": "" if answer.missing else answer.text,
                    "matched": answer.matched,
                    "note": answer.reason,
                    "reason": reason if u is None else "",
                }
            )
        counted = not extraction.unread_parts("objects")
        matched = sum(bool(edge.seen) for edge in match.edges)
        facts = {
            "rows": rows,
            "seen": seen.canonical_json(),
            "nodes": len(scene.objects) if counted else None,
            "matched": len(match.nodes) if counted else None,
            "edges": len(match.edges),
            "edges_matched": matched if extraction.complete else None,
            "dropped": [f"{d.what}: {d.reason}" for d in extraction.dropped],
            "unread": list(map(str, extraction.unread)),
        }
        return Unit(this.key, GENERATION, *_state(rows, "u"), facts=facts)

    async def _understood(self, model: UnifiedModel, sheet: Unit, keys: list[str]) -> Unit:
        """Return the grades of the model's answers, or the failure that prevents them."""
        self._tell(judged=1)
        questions, reference = questions_in(sheet), _row_of(sheet)["reference"]
        asked = [[q.id, q.text, q.kind, q.key, q.phrases] for q in questions]
        key = digest(ANSWERS, _VERSION, understanding_mark(model), reference, asked)
        answers = await self._unit(key, ANSWERS, partial(self._answer, model, questions, reference))
        keys.append(key)
        if answers.state == "failed":
            return replace(answers, reason=f"the answering failed: {answers.reason}")
        replies = [Reply.model_validate(reply) for reply in answers.facts["replies"]]
        said, right = [reply.text for reply in replies], [q.answer for q in questions]
        mark = self._models.grader.fingerprint
        graded_key = digest(UNDERSTANDING, _VERSION, key, said, right, mark)
        grade = partial(self._grade, questions, replies)
        found = await self._unit(graded_key, UNDERSTANDING, grade)
        keys.append(graded_key)
        if found.state == "failed":
            return replace(found, reason=f"the grading failed: {found.reason}")
        return found

    async def _answer(
        self,
        model: UnifiedModel,
        questions: Sequence[Question],
        reference: str,
        this: Try,
    ) -> Unit:
        """Return the model's answers; of those of an earlier try only what has no text is asked.

        Raises what the model raises, and ``EvalError`` if it answers too few or too many.
        """
        known: dict[str, Reply] = {}
        if this.before is not None and this.before.state != "failed":
            earlier = (Reply.model_validate(reply) for reply in this.before.facts["replies"])
            known = {
                question.id: reply
                for question, reply in zip(questions, earlier, strict=True)
                if reply.text is not None or reply.final
            }
        open_ = [question for question in questions if question.id not in known]
        picture = await asyncio.to_thread(self._images.get, reference)
        if empty := await asyncio.to_thread(nothing_drawn, picture):
            found = [Reply(text=None, reason=empty, final=True) for _ in open_]
        else:
            found = await model.answer(picture, open_)
        if len(found) != len(open_):
            raise EvalError(f"{model.id} gave {len(found)} replies to {len(open_)} questions")
        known |= {question.id: reply for question, reply in zip(open_, found, strict=True)}
        replies = [known[question.id] for question in questions]
        given = [reply.model_dump(mode="json") for reply in replies]
        return Unit(this.key, ANSWERS, *_state(given, "text"), facts={"replies": given})

    async def _grade(
        self, questions: Sequence[Question], replies: Sequence[Reply], this: Try
    ) -> Unit:
        """Return the grades of a model's answers."""
        both = list(zip(questions, replies, strict=True))
        texts = [(question, reply.text) for question, reply in both if reply.text is not None]
        grades = await graded(self._models.grader, texts)
        by_question = {q.id: grade for (q, _), grade in zip(texts, grades, strict=True)}
        rows: list[dict[str, Any]] = []
        for question, reply in both:
            grade = by_question.get(question.id)
            v = None if grade is None else grade.share
            reason = (reply.reason or "no answer") if grade is None else grade.reason
            rows.append(
                {
                    "question": question.id,
                    "v": v,
                    "said": reply.text or "",
                    "reason": reason if v is None else "",
                    "final": reply.final,
                }
            )
        return Unit(this.key, UNDERSTANDING, *_state(rows, "v"), facts={"rows": rows})


def questions_in(sheet: Unit) -> tuple[Question, ...]:
    """Return the questions of a sheet."""
    return QuestionSheet.model_validate(sheet.facts["sheet"]).questions


def _joined(
    item: Item, model: UnifiedModel, seed: int, sheet: Unit, drawn: Unit, understood: Unit
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of one picture: itself, and both sides of every question."""
    mine = {"item": item.id, "model": model.id, "seed": seed}
    ours = {row["question"]: row for row in drawn.facts.get("rows", ())}
    theirs = {row["question"]: row for row in understood.facts.get("rows", ())}
    failed = {"u": None, "matched": False, "reason": drawn.reason, "drawn": "", "note": ""}
    silent = {"v": None, "said": "", "reason": understood.reason}
    facts = []
    for question in questions_in(sheet):
        u, v = ours.get(question.id, failed), theirs.get(question.id, silent)
        lost = [side for side, score in ((u, u["u"]), (v, v["v"])) if score is None]
        facts.append(
            {
                **mine,
                "question": question.id,
                "kind": question.kind,
                "category": category_of(question),
                "text": question.text,
                "expected": question.answer,
                **{name: u[name] for name in ("u", "matched", "drawn", "note")},
                "v": v["v"],
                "said": v["said"],
                "reason": "; ".join(side["reason"] for side in lost),
                "final": bool(lost) and all(side.get("final") for side in lost),
            }
        )
    picture = {
        **mine,
        "image": drawn.facts.get("image", ""),
        "state": drawn.state,
        "reason": drawn.reason,
        **{name: drawn.facts.get(name) for name in (*_COUNTS, *READ)},
        "seen": drawn.facts.get("seen", ""),
        **{name: _text(drawn.facts.get(name, [])) for name in ("dropped", "unread")},
    }
    return {"pictures": [picture], "facts": facts}


def _row_of(sheet: Unit) -> Mapping[str, Any]:
    return sheet.rows["items"][0]


def _scene_of(sheet: Unit) -> SceneGraph:
    return SceneGraph.model_validate_json(_row_of(sheet)["scene"])


def _text(value: list[Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _read_of(scene: SceneGraph, prompt: str, count: PromptCount | None) -> dict[str, Any]:
    """Return how much of a prompt was read, as columns; nothing where that is not known."""
    if count is None:
        return {}
    dropped = dropped_facts(scene, facts_of(scene), prompt, count.read) if count.dropped else ()
    return dict(zip(READ, (count.tokens, count.dropped, len(dropped)), strict=True))


def _unscored(question: Question, reason: str) -> dict[str, Any]:
    """Return the row of a question that no graph of a picture could answer."""
    row = {"question": question.id, "u": None, "drawn": "", "matched": False, "note": ""}
    return {**row, "reason": reason, "final": True}


def _state(rows: Sequence[dict[str, Any]], column: str) -> tuple[UnitState, str]:
    """Return ``unscored`` with the first reason if another try could fill a gap in a column."""
    for row in rows:
        if row[column] is None and not row.get("final"):
            return "unscored", row["reason"] or "no reason was given"
    return "done", ""


def _spent(meter: Meter) -> dict[str, Any]:
    usage = meter.usage
    spent = (meter.calls, usage.tokens_in, usage.tokens_out, meter.usd)
    return {"spent": dict(zip(SPENT, spent, strict=True))}


def _place(one: Detection) -> list[Any]:
    """Return what decides a detail crop of the photo."""
    mask = None if one.mask is None else hashlib.sha256(np.packbits(one.mask).tobytes()).hexdigest()
    return [one.name, list(one.box), mask]
