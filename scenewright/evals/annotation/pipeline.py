"""The pipeline from photos and detections to scene graphs, and its cost plan.

Filter → annotate → merge synonyms → consensus → drop rare predicates → split → classify →
attributes → files (Scene-Bench, appendix A and Algorithm 1). Each stage finds its earlier results.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from scenewright.agents.judges.pictures import answer_tokens, character_tokens
from scenewright.config.settings import Settings
from scenewright.core.formats import base as formats
from scenewright.core.images import upright_size
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.consensus import (
    Claimed,
    Verified,
    build_graphs,
    drop_rare,
    predicate_counts,
    split,
)
from scenewright.evals.annotation.graph_sets import (
    ATTRIBUTES,
    GRAPHS,
    MANIFEST,
    STATISTICS,
    VOTES,
    statistics_of,
    unwritable,
    write_graphs,
    write_json,
    write_votes,
)
from scenewright.evals.annotation.leakage import LEAK
from scenewright.evals.annotation.panel_queries import (
    RELATIONS_AN_OBJECT,
    TOKENS_A_RELATION,
    TOKENS_AN_OBJECT,
    ReceivedReply,
    TextModel,
    Voter,
    ballots,
    keep_reply,
    missing,
    sheets_of,
)
from scenewright.evals.annotation.task import AnnotationTask, Models, OnProgress, Piece
from scenewright.evals.annotation.text_stages import (
    ATTRIBUTES_PROMPT,
    BATCH,
    CLASSES_PROMPT,
    INSTANCES,
    SYNONYMS_FILE,
    SYNONYMS_PROMPT,
    augment,
    classify,
    propose_synonyms,
    read_synonyms,
)
from scenewright.evals.datasets.base import Dataset, Item, file_digest
from scenewright.evals.runner.forecast import CostForecast, CostLine
from scenewright.evals.runner.progress import StartupFailureLimit
from scenewright.evals.runner.task import Engine, Items, LocalEngine, numbered
from scenewright.evals.store.ledger import Ledger, Photo
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage
from scenewright.providers.versions import SERVED_FILE, FollowedVersions, following
from scenewright.tools.vision.extraction.one_stage import BOXES_PROMPT, SAMPLING

_VOCABULARY = 200
_TOKENS_A_WORD = 4
_TOKENS_A_CLASS = 45
_SEVERAL = 1.5
"""Relations that a panel names together, relative to one model."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Planned photos and calls."""

    photos: dict[str, int]
    """``kept``, or the reason why they are left out → photos."""
    costs: CostForecast
    """Models that annotate, judge, or read lists of synonyms, classes and attributes."""
    done: int = 0
    """Replies that exist."""
    failed: int = 0
    """Failed ones of them, which are asked again with ``--retry``."""


def plan_of(
    ledger: Ledger,
    config: AnnotateConfig,
    models: Models,
    text: TextModel | None,
    retry: bool = False,
    synonyms_there: bool = False,
) -> Plan:
    """Return the calls that are missing in ``ledger``, whose photos must be there; asks no model.

    Tokens of pictures go by the providers' rules, texts by a quarter of their characters, replies
    by 1.5 relations an object. Calls of text models are counted anew even where some are done.
    """
    wanted = ballots(models.voters, config.samples)
    asked = {voter.name: ExpectedUsage() for voter in models.voters}
    judged = {judge.id: ExpectedUsage() for judge in models.judges}
    names: set[str] = set()
    photos = objects = done = 0
    for photo in ledger.photos():
        photos += 1
        objects += len(photo.objects)
        names.update(name for _, name, _ in photo.objects)
        lacking = missing(ledger, photo, wanted, retry)
        done += len(wanted) - len(lacking)
        for voter, _ in lacking:
            asked[voter.name] += ExpectedUsage(1, voter.expected(photo.size, len(photo.objects)))
        for judge in models.judges:
            judged[judge.id] += _judging(judge, photo.size, len(photo.objects))
    failed = sum(
        int(spent["failed"]) for (kind, _), spent in ledger.spent().items() if kind == "photo"
    )
    lines = []
    for voter in models.voters:
        told = asked[voter.name]
        priced = replace(told, usd=voter.price(told.usage)) if told.calls else told
        lines.append(CostLine.of(voter.name, "annotates", priced))
    lines += [CostLine.of(judge, "judges", told) for judge, told in judged.items()]
    if text is not None and photos:
        lines += _lists(config, text, photos, objects, len(names), synonyms_there)
    return Plan(ledger.photo_states(), CostForecast.of(lines), done, 0 if retry else failed)


def _lists(
    config: AnnotateConfig,
    text: TextModel,
    photos: int,
    objects: int,
    names: int,
    synonyms_there: bool,
) -> Iterator[CostLine]:
    """Yield the calls of the model that reads lists: (prompt, calls, tokens shown and given)."""
    shown = round((TOKENS_AN_OBJECT + TOKENS_A_RELATION * RELATIONS_AN_OBJECT) * objects)
    words = _TOKENS_A_WORD * names
    batches, lists = -(-photos // config.batch), -(-names // BATCH)
    for stage, chosen, prompt, calls, into, out in (
        ("synonyms", config.synonyms and not synonyms_there,
         SYNONYMS_PROMPT, 1, _TOKENS_A_WORD * _VOCABULARY, 600),
        ("classes", config.diversity, CLASSES_PROMPT, batches, shown, _TOKENS_A_CLASS * photos),
        ("attributes", config.attributes, ATTRIBUTES_PROMPT, lists, words, words * (INSTANCES + 1)),
    ):  # fmt: skip
        if chosen:
            fixed = character_tokens(len(load_prompt(prompt).text))
            usage = Usage(calls * fixed + into, out)
            yield CostLine.of(text.name, stage, ExpectedUsage(calls, usage, text.price(usage)))


def _judging(judge: Judge, size: tuple[int, int], objects: int) -> ExpectedUsage:
    named = max(1, round(RELATIONS_AN_OBJECT * _SEVERAL * objects))
    expected = getattr(judge, "expected", None)
    if expected is None:
        # A judge on this machine costs nothing.
        return ExpectedUsage(0 if judge.caps.local else 1, Usage(0, answer_tokens(named)), 0.0)
    ends = (SceneObject(id="a.1", name="person"), SceneObject(id="b.1", name="bicycle"))
    relations = tuple(
        Relation(source="a.1", predicate=f"near {n}", target="b.1") for n in range(named)
    )
    facts = facts_of(SceneGraph(objects=ends, relations=relations))
    found: ExpectedUsage = expected(size, [fact for fact in facts if fact.kind == "relation"])
    return found


_LEAST_SIDE = 1.0


def photos_of(
    items: Iterable[Item],
    ledger: Ledger,
    least_objects: int,
    on_photo: Callable[[int], None] = lambda count: None,
) -> Iterator[Photo]:
    """Yield a photo for each of ``items``, those left out too, with the reason as their state.

    Boxes are clipped to the picture; what then has no side of a pixel is no detection. Files that
    an earlier run has read and that did not change are not read again. ``on_photo`` is told how
    many there are so far.
    """
    for position, item in enumerate(items):
        yield _photo(position, item, ledger, least_objects)
        on_photo(position + 1)


def _photo(position: int, item: Item, ledger: Ledger, least: int) -> Photo:
    lost = Photo(position, item.id, item.image or "", "", (0, 0), (), state="no photo")
    if item.image is None:
        return lost
    if LEAK in item.meta:
        return _left_out(lost, "like a photo of the test set")
    if len(item.detections) < least:
        return _left_out(lost, f"fewer than {least} objects")
    try:
        about = Path(item.image).stat()
        stamp = f"upright {about.st_size} {about.st_mtime_ns}"
        known = ledger.digest_of(item.image, stamp)
        if known is None:
            known = (file_digest(Path(item.image)), *upright_size(item.image))
    # Pillow raises whatever a broken file makes its decoders stumble over.
    except Exception:
        return _left_out(lost, "photo cannot be read")
    digest, width, height = known
    found = []
    for seen in item.detections:
        left, right = (min(max(v, 0.0), float(width)) for v in (seen.box[0], seen.box[2]))
        top, bottom = (min(max(v, 0.0), float(height)) for v in (seen.box[1], seen.box[3]))
        if right - left >= _LEAST_SIDE and bottom - top >= _LEAST_SIDE:
            found.append((seen.name, (left, top, right, bottom)))
    if len(found) < least:
        return _left_out(lost, f"fewer than {least} objects")
    ids = formats.numbered(name for name, _ in found)
    objects = tuple((id_, name, box) for id_, (name, box) in zip(ids, found, strict=True))
    told = json.dumps([digest, objects], ensure_ascii=False)
    key = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    return Photo(position, item.id, item.image, key, (width, height), objects, digest, stamp)


def _left_out(photo: Photo, why: str) -> Photo:
    return Photo(photo.position, photo.id, photo.file, "", (0, 0), (), state=why)


LEDGER = "ledger.sqlite"
Work = Callable[[Items[Piece]], Awaitable[None]]
"""Does pieces, by an engine."""
_PACKAGES = ("scenewright", "langchain-core", "pydantic", "pyarrow", "pillow")


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a built set."""

    folder: Path
    graphs: int
    photos: dict[str, int]
    """``kept``, or the reason why they are left out → photos."""
    below_quorum: int
    """Photos with too few usable replies."""
    parts: dict[str, int]
    """Part → graphs."""
    dropped: dict[str, int]
    """Rare predicate → occurrences."""
    synonyms: dict[str, str]
    """Predicate → its replacement."""
    statistics: dict[str, Any]
    """As in ``statistics.json``."""
    problems: list[tuple[str, str, str, int]] = field(default_factory=list)
    """(kind, model, reason, count) of failures."""
    usd: float = 0.0
    """Dollars paid so far, earlier runs included."""
    model_changes: tuple[str, ...] = ()
    """A sentence for each judge that was served by several versions."""


@dataclass
class Building:
    """The building of one set in one folder; raises ``AnnotationError`` if it cannot be used."""

    config: AnnotateConfig
    dataset: Dataset
    """Photos with detections."""
    folder: Path
    """The set's folder."""
    voters: Sequence[Voter]
    """The panel that ``config`` names."""
    text: TextModel | None = None
    """Its model that reads lists."""
    judges: Sequence[Judge] = ()
    """Its judges."""
    _: KW_ONLY
    retry: bool = False
    """Whether failures are asked again."""
    told: OnProgress = lambda stage, done, of: None
    """Called with the progress."""
    engine: Engine = LocalEngine()  # noqa: RUF009 - a constant
    """Asks the panel and the judges."""
    settings: Settings | None = None
    """Those of workers on a cluster; None: those of this machine."""

    def __post_init__(self) -> None:
        """Open the ledger."""
        self._models = Models(tuple(self.voters), tuple(self.judges))
        self._judged: dict[str, Counter[str]] = defaultdict(Counter)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        self.ledger = Ledger(self.folder / LEDGER)

    def close(self) -> None:
        """Close the files."""
        self.ledger.close()

    def plan(self) -> Plan:
        """Read the photos and count the missing calls; asks no model.

        Raises ``DatasetError`` for a set that cannot be read.
        """

        def looked(count: int) -> None:
            if count % 100 == 0:
                self.told("photos", count, None)

        photos = photos_of(self.dataset, self.ledger, self.config.least_objects, looked)
        self.ledger.set_photos(photos)
        there = (self.folder / SYNONYMS_FILE).exists()
        return plan_of(self.ledger, self.config, self._models, self.text, self.retry, there)

    async def run(self, plan: Plan) -> Summary:
        """Run all stages; ``plan`` is that of :meth:`plan`.

        Raises ``AnnotationError`` for what cannot go on; what was paid for is kept.
        """
        with ExitStack() as stack:
            task = AnnotationTask(
                self.config, self.folder, self._models, self.ledger, stack,
                told=self.told, text=self.text, settings=self.settings,
            )  # fmt: skip
            served = stack.enter_context(following(self.folder / SERVED_FILE))
            async with self.engine.at_work(task) as work:
                return await self._stages(plan, task, work, served)

    async def _stages(
        self, plan: Plan, task: AnnotationTask, work: Work, served: FollowedVersions
    ) -> Summary:
        config, ledger = self.config, self.ledger
        total = sum(n.most.calls for n in plan.costs.lines if n.what == "annotates")
        failures, replied = StartupFailureLimit(), itertools.count(1)

        def heard(one: ReceivedReply) -> None:
            keep_reply(ledger, one, failures)
            self.told("annotate", next(replied), total)

        task.heard = heard
        await work(numbered(sheets_of(ledger, self.voters, config.samples, self.retry)))
        counts = predicate_counts(ledger, self.voters, config.samples)
        synonyms = await self._synonyms(dict(counts))
        kept, photos = plan.photos.get("kept", 0), itertools.count(1)

        async def verify(
            pieces: Iterator[Claimed], found: Callable[[Claimed, Verified], None]
        ) -> None:
            task.found = found
            await work(numbered(pieces))

        def photo_done(verified: Verified) -> None:
            for judge, spent in verified.spent.items():
                self._judged[judge].update(spent)
            self.told("consensus", next(photos), kept)

        poor = await build_graphs(
            ledger, config, self.voters, synonyms, photo_done, verify if self.judges else None
        )
        dropped = drop_rare(ledger, config.rare)
        parts = split(ledger, config)
        if config.diversity and self.text is not None:
            graphs, classed = sum(parts.values()), itertools.count(1)
            await classify(
                ledger, self.text, config.batch, config.concurrency, retry=self.retry,
                on_graph=lambda: self.told("classes", next(classed), graphs),
            )  # fmt: skip
        lost = await self._attributes()
        self.told("files", 0, None)
        graphs = sum(write_graphs(self.folder, ledger.graphs(parts_only=True)).values())
        write_votes(self.folder / VOTES, ledger.graphs())
        states = ledger.photo_states()
        found = statistics_of(ledger.graphs(parts_only=True)) | {
            "photos": states,
            "below_quorum": poor,
            "rare_predicates_dropped": dropped,
            "synonyms_merged": len(synonyms),
            "categories_without_attributes": len(lost),
        }
        write_json(self.folder / STATISTICS, found)
        spent: list[dict[str, Any]] = [
            {"stage": kind, "model": voter, **sums}
            for (kind, voter), sums in ledger.spent().items()
        ]
        spent += [{"stage": "judges", "model": j, **sums} for j, sums in self._judged.items()]
        models = await asyncio.to_thread(self._models.manifest)
        write_json(self.folder / MANIFEST, self._manifest(models, spent, states, served.texts))
        return Summary(
            self.folder, graphs, states, poor, parts, dropped, synonyms, found,
            ledger.problems(), sum(row["usd"] for row in spent), served.texts,
        )  # fmt: skip

    async def _synonyms(self, counts: dict[str, int]) -> dict[str, str]:
        if not self.config.synonyms:
            return {}
        path = self.folder / SYNONYMS_FILE
        found = read_synonyms(path)
        if found is None:
            if self.text is None or not counts:
                return {}
            self.told("synonyms", 0, None)
            found = await propose_synonyms(self.ledger, self.text, counts, retry=self.retry)
            if not any(one.startswith("a call failed") for one in found.refused):
                write_json(path, found.model_dump())
        return found.resolved(counts)

    async def _attributes(self) -> dict[str, str]:
        if not self.config.attributes or self.text is None:
            return {}
        names = {
            name for row in self.ledger.graphs(parts_only=True) for _, name, _ in row.photo.objects
        }
        self.told("attributes", 0, len(names))
        found, lost = await augment(self.ledger, self.text, sorted(names), retry=self.retry)
        told = {"model": self.text.name, "prompt": load_prompt(ATTRIBUTES_PROMPT).ref}
        write_json(self.folder / ATTRIBUTES, told | {"instances": found, "lost": lost})
        return lost

    def _manifest(
        self,
        models: dict[str, Any],
        spent: list[dict[str, Any]],
        photos: dict[str, int],
        model_changes: Sequence[str],
    ) -> dict[str, Any]:
        config, dataset = self.config, self.dataset
        prompts = [BOXES_PROMPT]
        if self.text is not None:
            prompts += [SYNONYMS_PROMPT] * config.synonyms
            prompts += [CLASSES_PROMPT] * config.diversity
            prompts += [ATTRIBUTES_PROMPT] * config.attributes
        return {
            "name": config.name,
            "about": config.about,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "graphs": GRAPHS,
            "config": config.model_dump(mode="json"),
            "model_changes": list(model_changes),
            "dataset": {
                "name": dataset.name,
                "source": dataset.source,
                "licence": dataset.licence,
                "fingerprint": dataset.fingerprint,
                "left_out": dict(dataset.left_out),
                "photos": photos,
            },
            **models,
            "text_model": None if self.text is None else self.text.fingerprint,
            "sampling": SAMPLING,
            "prompts": {name: load_prompt(name).ref for name in prompts},
            "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
            "spent": spent,
            "usd": sum(row["usd"] for row in spent),
        }
