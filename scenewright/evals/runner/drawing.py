"""Pictures of an item in an arm: drawn once, drawn by a loop, or read from files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scenewright.agents.composers.check import dropped_facts
from scenewright.config.options import Budget
from scenewright.config.profiles import REALISM_FIELDS, Profile
from scenewright.config.settings import Settings
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import Box, GenerationRequest, ImageBackend, PromptCount
from scenewright.core.ports.composer import Composer, Wording, compose_with_origin
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import facts_of
from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.backends import CachedBackend
from scenewright.evals.runner.config import Arm, digest, file_mark
from scenewright.evals.runner.dataset_predicates import (
    DatasetPredicates,
    Predicates,
    file_for_loops,
    mark_of,
)
from scenewright.evals.runner.given_pictures import GivenPictures, folder_of
from scenewright.evals.runner.served_versions import STEERED
from scenewright.evals.store.journal import Unit
from scenewright.graphs.drawing import boxes_of, stored_metadata, stored_prompt_count
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Answered, Event
from scenewright.graphs.reporting import served_models
from scenewright.providers.sdk_clients import identified
from scenewright.providers.usage import metered
from scenewright.runs.api import execute
from scenewright.runs.folder import EVENTS
from scenewright.runs.plan import plan_run
from scenewright.runs.result import PromptAuthor, RoundRecord, RunResult

DRAW = "draw"
OWN_TEXT = "dataset"
"""Author of a prompt of the set."""
_VERSION = 1
_READ = ("prompt_tokens", "tokens_dropped", "facts_dropped")
_IDS = "dropped_ids"
"""Key of the ids of dropped facts in a row that is not yet in its table."""
ASKED = "asked"
"""Key of a drawing's facts: judge of its loop → questions that it was asked."""


@dataclass(frozen=True, slots=True)
class ImageGenerator:
    """The models that draw an arm."""

    backend: ImageBackend
    composer: Composer
    judges: tuple[Judge, ...] = ()
    """Judges of the loop; empty without one."""

    @property
    def fingerprint(self) -> str:
        """Identity of the models: equal ones give equal pictures."""
        judges = [judge.fingerprint for judge in self.judges]
        return digest(self.backend.fingerprint, self.composer.fingerprint, judges)


@dataclass(frozen=True, slots=True)
class GenerationContext:
    """Folder, image store and settings for drawing."""

    folder: Path
    """The evaluation's folder; loops have their run folders below ``runs``."""
    images: ImageStore
    settings: Settings
    root: Path
    """Where relative paths of the configuration begin."""
    size: tuple[int, int] | None = None
    """(width, height) of pictures; None: the backend's default."""
    keep_runs: bool = True
    """Whether run folders are kept."""
    nonce: str = ""
    """Unique id of the evaluation. A loop that restarts because its run folder was lost with its
    machine then repeats its idempotency keys; empty: it sends others."""
    own: DatasetPredicates | None = None
    """The predicates of the set, for wrong options; None: the package's alone."""

    _given: dict[Path, GivenPictures] = field(default_factory=dict, compare=False, repr=False)

    def pictures_in(self, folder: Path) -> GivenPictures:
        """Return the pictures of a folder, whose names are read once."""
        if folder not in self._given:
            self._given[folder] = GivenPictures(folder)
        return self._given[folder]

    def predicates_for(self, item: Item, profile: Profile) -> Predicates:
        """Return the predicates from which a loop takes the wrong options of its questions."""
        base = profile.predicates
        return base if self.own is None or item.predicates else self.own.over(base)


def draw_key(
    item: Item, arm: Arm, generator: ImageGenerator | None, generation: GenerationContext
) -> str:
    """Return the key of the pictures of ``item`` in ``arm``.

    Raises ``EvalError`` if a picture that is read from a file is missing.
    """
    asked = [_VERSION, item.id, arm.name]
    if generator is None:
        return digest(DRAW, *asked, file_mark(given_file(item, arm, generation)))
    unseen = {"name", "about", "report_judges", *REALISM_FIELDS}
    profile = arm.profile.model_dump(mode="json", exclude=unseen)
    if not arm.loops:
        used = ("steps", "guidance", "negative_prompt")
        profile = {name: profile[name] for name in used}
    else:
        asked += [arm.spec.rounds, arm.spec.patience, arm.spec.images]
        profile["predicates"] = mark_of(generation.predicates_for(item, arm.profile))
    scene = None if item.scene is None else item.scene.digest
    text = item.prompt if arm.spec.text == "prompt" else scene
    return digest(
        DRAW, *asked, arm.spec.text, text, profile, generator.fingerprint, generation.size
    )


def given_file(item: Item, arm: Arm, generation: GenerationContext) -> Path:
    """Return the file of an item's picture where none is drawn.

    Raises ``EvalError`` if it is missing.
    """
    if arm.spec.source == "originals":
        if item.image is None:
            raise EvalError(f"the item {item.id!r} has no photo: leave the condition out for it")
        if not Path(item.image).is_file():
            raise EvalError(f"there is no photo {item.image}: name the set's folder of images")
        return Path(item.image)
    return generation.pictures_in(folder_of(arm, generation.root)).file(item, arm.backend, arm.seed)


async def draw(
    key: str, item: Item, arm: Arm, generator: ImageGenerator | None, generation: GenerationContext
) -> Unit:
    """Return the finished drawing; raises the errors of models and files.

    A picture is kept under its request before the unit is, so that nothing is paid for twice after
    a kill in between.
    """
    if generator is None:
        file = given_file(item, arm, generation)
        name = await asyncio.to_thread(lambda: generation.images.put_bytes(file.read_bytes()))
        return _unit(
            key,
            arm,
            item,
            [_row(0, name, prompt=item.prompt, prompt_author=OWN_TEXT, kept=True, images_drawn=0)],
        )
    if arm.loops:
        return await _looped(key, item, arm, generator, generation)
    row, _ = await _drawn(key, item, arm, generator, generation)
    return _unit(key, arm, item, [row])


async def _drawn(
    key: str, item: Item, arm: Arm, generator: ImageGenerator, generation: GenerationContext
) -> tuple[dict[str, Any], GenerationRequest]:
    """Return the row of a picture drawn without a loop, and its request.

    Arms that begin alike share it: what another arm or run has paid for costs this one nothing.
    """
    seed = arm.item_seed(item.id)
    with metered() as spent, identified("compose"):
        told = await _words(item, arm, generator.composer, seed)
    profile = arm.profile
    boxes: tuple[Box, ...] = ()
    if generator.backend.features.boxes and told.author != OWN_TEXT and item.scene:
        boxes = boxes_of(generator.composer, item.scene, seed)
    request = GenerationRequest(
        prompt=told.prompt,
        negative_prompt=profile.negative_prompt,
        seed=seed,
        steps=profile.steps,
        guidance=profile.guidance,
        width=generation.size[0] if generation.size else None,
        height=generation.size[1] if generation.size else None,
        boxes=boxes,
    )
    named = request.key(generator.backend.fingerprint)
    found = await asyncio.to_thread(generation.images.recall, named)
    if found is None:
        with identified("draw"):
            made = await generator.backend.generate(request, generation.images.get)
        name = await asyncio.to_thread(generation.images.put, made.image)
        cost: dict[str, Any] = {"seconds": made.seconds, "usd": made.usd, "origin": key}
        cost |= stored_metadata(made)
        await asyncio.to_thread(generation.images.remember, named, name, cost)
        found = name, cost
    name, meta = found
    mine = meta["origin"] == key
    row = _row(
        0,
        name,
        **_read_of(stored_prompt_count(meta), item, told),
        prompt=told.prompt,
        **_author(told),
        kept=True,
        images_drawn=int(mine),
        seconds=float(meta["seconds"]) if mine else 0.0,
        work=meta.get("work") if mine else 0.0,
        usd=(float(meta["usd"]) if mine else 0.0) + spent.usd,
        tokens_in=spent.usage.tokens_in,
        tokens_out=spent.usage.tokens_out,
    )
    return row, request


def _read_of(count: PromptCount | None, item: Item, told: Wording) -> dict[str, Any]:
    """Return columns about the tokens of a prompt, with ``dropped_ids`` besides."""
    if count is None:
        return {}
    dropped: tuple[str, ...] | None = ()
    if count.dropped or told.unsaid:
        facts = item.facts or (facts_of(item.scene) if item.scene else ())
        dropped = (
            dropped_facts(item.scene, facts, told.prompt, count.read, told.unsaid)
            if item.scene
            else None
        )
    return {
        "prompt_tokens": count.tokens,
        "tokens_dropped": count.dropped,
        "facts_dropped": None if dropped is None else len(dropped),
        _IDS: dropped,
    }


async def _words(item: Item, arm: Arm, composer: Composer, seed: int) -> Wording:
    if arm.spec.text == "prompt":
        if not item.prompt:
            raise EvalError(f"the item {item.id!r} has no text of its own: draw its scene")
        return Wording(item.prompt, OWN_TEXT)
    if not item.scene:
        raise EvalError(
            f"the item {item.id!r} has no scene: use the condition 'prompt', or a loader's option "
            "that parses its text"
        )
    return await compose_with_origin(composer, item.scene, seed)


def _author(of: Wording | PromptAuthor | None) -> dict[str, str]:
    """Return the columns about the author of a prompt."""
    if of is None:
        return {}
    return {"prompt_author": of.author, "prompt_model": of.model, "prompt_problem": of.problem}


async def _looped(
    key: str, item: Item, arm: Arm, generator: ImageGenerator, generation: GenerationContext
) -> Unit:
    if not item.scene:
        raise EvalError(f"the item {item.id!r} has no scene, which a loop would repair")
    folder = generation.folder / "runs" / key[:32]
    first, request = await _drawn(key, item, arm, generator, generation)
    # The first picture is the same in every arm: the loop need not draw it again.
    backend = CachedBackend(generator.backend, generation.images, request, first["image"])
    known = generation.predicates_for(item, arm.profile)
    named = await asyncio.to_thread(file_for_loops, known, generation.folder)
    plan = plan_run(
        item.scene,
        arm.profile.model_copy(update={"predicates": named}),
        out=folder,
        rounds=arm.spec.rounds,
        patience=arm.spec.patience,
        seed=arm.item_seed(item.id),
        budget=Budget(images=arm.spec.images),
        backend=backend,
        judges=generator.judges,
        report_judges=(),
        composer=generator.composer,
        settings=generation.settings,
        size=generation.size,
        page=False,
    )
    nonce = digest(generation.nonce, key) if generation.nonce else ""
    result = await execute(replace(plan, nonce=nonce))
    if result.best is None:
        raise EvalError(f"the loop drew nothing ({result.stop_reason}): see {folder}")
    rows = await asyncio.to_thread(_rounds, result, generation.images, first)
    events = await asyncio.to_thread(read_events, folder / EVENTS)
    unit = _unit(key, arm, item, rows)
    unit = replace(unit, facts={**unit.facts, "arm": arm.name, **_asked_of(events)})
    if not generation.keep_runs:
        await asyncio.to_thread(shutil.rmtree, folder, True)
    return unit


def _asked_of(events: Sequence[Event]) -> dict[str, Any]:
    """Return facts of a unit from a loop's events: served models, and questions by judge."""
    asked: dict[str, int] = {}
    for event in events:
        if isinstance(event, Answered) and not event.cached:
            asked[event.judge_id] = asked.get(event.judge_id, 0) + len(event.answers)
    return {STEERED: served_models(events), ASKED: asked}


def _rounds(result: RunResult, images: ImageStore, first: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for at, record in enumerate(result.rounds):
        for name in (record.image, record.reference_image):
            if name is not None and name not in images:
                images.put_bytes(result.image_path(name).read_bytes())
        # The loop counts its costs as a whole: they are in its last round.
        total = result.totals if at == len(result.rounds) - 1 else {}
        lent = at == 0 and record.image == first["image"]
        before = first if lent else _row(0, "")
        rows.append(
            _row(
                record.round,
                record.image,
                prompt=record.prompt,
                **_read_in(record, first if lent else None),
                **_author(record.prompt_author),
                kept=record.round == result.best_round,
                strategy=record.strategy,
                reference_image=record.reference_image or "",
                images_drawn=before["images_drawn"] + int(record.reference_image is not None),
                seconds=record.seconds + before["seconds"],
                # The loop was given its first picture: the work was this arm's, or another's.
                work=before["work"] if lent else record.work,
                usd=float(total.get("usd", 0.0)) + before["usd"],
                tokens_in=int(total.get("tokens_in", 0)) + before["tokens_in"],
                tokens_out=int(total.get("tokens_out", 0)) + before["tokens_out"],
            )
        )
    return rows


def _read_in(record: RoundRecord, first: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the columns of :func:`_read_of` for a round.

    ``first`` is the row of its picture if that came from the first drawing.
    """
    lent = {} if first is None else {name: first[name] for name in (*_READ, _IDS)}
    if record.prompt_tokens is None and lent.get("prompt_tokens") is not None:
        return lent
    return {
        "prompt_tokens": record.prompt_tokens,
        "tokens_dropped": None if record.prompt_tokens is None else record.tokens_dropped,
        "facts_dropped": None if record.prompt_tokens is None else len(record.facts_dropped),
        _IDS: None if record.prompt_tokens is None else record.facts_dropped,
    }


def _row(round: int, image: str, **values: Any) -> dict[str, Any]:
    blank = {
        "state": "done",
        "reason": "",
        "prompt": "",
        **dict.fromkeys((*_READ, _IDS)),
        "prompt_author": "",
        "prompt_model": "",
        "prompt_problem": "",
        "strategy": "",
        "reference_image": "",
        "images_drawn": 1,
        "seconds": 0.0,
        "work": 0.0,
        "tokens_in": 0,
        "tokens_out": 0,
        "usd": 0.0,
    }
    return {"round": round, "image": image, **blank, **values}


def _unit(key: str, arm: Arm, item: Item, rows: list[dict[str, Any]]) -> Unit:
    kept = next(row["image"] for row in rows if row["kept"])
    # The ids are not in a table: each verdict says whether its fact is among them.
    lost = [[row["round"], list(row[_IDS])] for row in rows if row[_IDS] is not None]
    return Unit(
        key,
        DRAW,
        rows={"rounds": [_columns(arm, item.id, row) for row in rows]},
        facts={
            "kept": kept,
            "images": [[row["round"], row["image"]] for row in rows],
            "dropped": lost,
        },
    )


def _columns(arm: Arm, item: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {**arm.columns(item), **{name: row[name] for name in row if name != _IDS}}


def failed_drawing(key: str, item: str, arm: Arm, reason: str) -> Unit:
    """Return a failed drawing."""
    row = _row(0, "", kept=False) | {"state": "failed", "reason": reason, "images_drawn": 0}
    return Unit(key, DRAW, "failed", reason, {"rounds": [_columns(arm, item, row)]})


def dropped_of(drawn: Unit, round: int) -> dict[str, Any]:
    """Return ``tokens_dropped`` and ``facts_dropped`` of a round's prompt; None where unknown."""
    row = next((row for row in drawn.rows["rounds"] if row["round"] == round), {})
    return {name: row.get(name) for name in ("tokens_dropped", "facts_dropped")}


def dropped_ids(drawn: Unit, round: int) -> frozenset[str] | None:
    """Return ids of the facts that were cut off a round's prompt; None where unknown."""
    found = next((ids for at, ids in drawn.facts.get("dropped", ()) if at == round), None)
    return None if found is None else frozenset(found)


def kept_of(drawn: Mapping[str, Any], every: bool) -> list[tuple[int, str]]:
    """Return (round, image) of the pictures to judge: the kept one, or ``every`` one."""
    images = [(int(round), str(image)) for round, image in drawn["images"]]
    if every:
        return images
    # A loop may draw the same picture twice: the earlier round is the one that is kept.
    return [next(pair for pair in images if pair[1] == drawn["kept"])]
