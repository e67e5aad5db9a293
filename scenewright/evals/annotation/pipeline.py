"""The pipeline from photos and detections to scene graphs, and its cost plan.

Filter → annotate → merge synonyms → consensus → drop rare predicates → split → classify →
attributes → files (Scene-Bench, appendix A and Algorithm 1). Each stage finds its earlier results.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scenewright.agents.judges.pictures import answer_tokens, character_tokens
from scenewright.core.formats.base import numbered
from scenewright.core.images import upright_size
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.consensus import (
    build_graphs,
    drop_rare,
    fingerprints,
    predicate_counts,
    split,
)
from scenewright.evals.annotation.engine import (
    AnnotationSession,
    Asking,
    Engine,
    LocalEngine,
    Models,
    OnProgress,
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
    TextModel,
    Voter,
    ask_panel,
    ballots,
    missing,
)
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
from scenewright.evals.store.ledger import Ledger, Photo, Reply
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
    voters: Sequence[Voter],
    text: TextModel | None,
    judges: Sequence[Judge] = (),
    *,
    retry: bool = False,
    synonyms_there: bool = False,
    on_photo: Callable[[int], None] = lambda count: None,
) -> Plan:
    """Return the calls that are missing in ``ledger``, whose photos must be there; asks no model.

    Tokens of pictures go by the providers' rules, texts by a quarter of their characters, replies
    by 1.5 relations an object. Calls of text models are counted anew even where some are done.
    """
    wanted = ballots(voters, config.samples)
    asked = {voter.name: ExpectedUsage() for voter in voters}
    judged = {judge.id: ExpectedUsage() for judge in judges}
    names: set[str] = set()
    photos = objects = done = 0
    for photo in ledger.photos():
        photos += 1
        on_photo(photos)
        objects += len(photo.objects)
        names.update(name for _, name, _ in photo.objects)
        lacking = missing(ledger, photo, wanted, retry)
        done += len(wanted) - len(lacking)
        for voter, _ in lacking:
            asked[voter.name] += ExpectedUsage(1, voter.expected(photo.size, len(photo.objects)))
        for judge in judges:
            judged[judge.id] += _judging(judge, photo.size, len(photo.objects))
    failed = sum(
        int(spent["failed"]) for (kind, _), spent in ledger.spent().items() if kind == "photo"
    )
    lines = []
    for voter in voters:
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
    shown = TOKENS_AN_OBJECT * objects + TOKENS_A_RELATION * RELATIONS_AN_OBJECT * objects
    stages = {
        "synonyms": (SYNONYMS_PROMPT, 1, _TOKENS_A_WORD * _VOCABULARY, 600),
        "classes": (CLASSES_PROMPT, -(-photos // config.batch), shown, _TOKENS_A_CLASS * photos),
        "attributes": (
            *(ATTRIBUTES_PROMPT, -(-names // BATCH)),
            *(_TOKENS_A_WORD * names, names * (INSTANCES + 1) * _TOKENS_A_WORD),
        ),
    }
    chosen = {
        "synonyms": config.synonyms and not synonyms_there,
        "classes": config.diversity,
        "attributes": config.attributes,
    }
    for stage, (prompt, calls, into, out) in stages.items():
        if chosen[stage]:
            fixed = character_tokens(len(load_prompt(prompt).text))
            usage = Usage(calls * fixed + round(into), out)
            once = ExpectedUsage(calls, usage, text.price(usage))
            yield CostLine.of(text.name, stage, once)


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
    ids = numbered(name for name, _ in found)
    objects = tuple((id_, name, box) for id_, (name, box) in zip(ids, found, strict=True))
    told = json.dumps([digest, objects], ensure_ascii=False)
    key = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    return Photo(position, item.id, item.image, key, (width, height), objects, digest, stamp)


def _left_out(photo: Photo, why: str) -> Photo:
    return Photo(photo.position, photo.id, photo.file, "", (0, 0), (), state=why)


LEDGER = "ledger.sqlite"
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


class Building:
    """The building of one set in one folder."""

    def __init__(
        self,
        config: AnnotateConfig,
        dataset: Dataset,
        folder: Path,
        voters: Sequence[Voter],
        text: TextModel | None = None,
        judges: Sequence[Judge] = (),
        *,
        retry: bool = False,
        told: OnProgress = lambda stage, done, of: None,
        engine: Engine = LocalEngine(),  # noqa: B008 - a constant
    ) -> None:
        """Open the ledger in ``folder``.

        Args:
            config: configuration of the set.
            dataset: photos with detections.
            folder: the set's folder.
            voters: the panel that ``config`` names.
            text: its model that reads lists.
            judges: its judges.
            retry: whether failures are asked again.
            told: called with the progress.
            engine: asks the panel and the judges.

        Raises:
            AnnotationError: the folder cannot be used.
        """
        self.config = config
        self.folder = folder
        self._dataset = dataset
        self._voters = tuple(voters)
        self._text = text
        self._judges = tuple(judges)
        self._retry = retry
        self._report = told
        self._engine = engine
        self._judged: dict[str, list[float]] = {}
        self._served: FollowedVersions
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from error
        self.ledger = Ledger(folder / LEDGER)

    def close(self) -> None:
        """Close the files."""
        self.ledger.close()

    def plan(self) -> Plan:
        """Read the photos and count the missing calls; asks no model.

        Raises ``DatasetError`` for a set that cannot be read.
        """

        def looked(count: int) -> None:
            if count % 100 == 0:
                self._report("photos", count, None)

        photos = photos_of(self._dataset, self.ledger, self.config.least_objects, looked)
        self.ledger.set_photos(photos)
        there = (self.folder / SYNONYMS_FILE).exists()
        return plan_of(
            self.ledger, self.config, self._voters, self._text, self._judges,
            retry=self._retry, synonyms_there=there,
        )  # fmt: skip

    async def run(self, plan: Plan) -> Summary:
        """Run all stages; ``plan`` is that of :meth:`plan`.

        Raises ``AnnotationError`` for what cannot go on; what was paid for is kept.
        """
        models = Models(self._voters, self._judges)
        session = AnnotationSession(
            self.config, self.folder, models, self._text, self._report, self.ledger.nonce()
        )
        with following(self.folder / SERVED_FILE) as self._served:
            async with self._engine.at_work(session) as asking:
                return await self._stages(plan, asking)

    async def _stages(self, plan: Plan, asking: Asking) -> Summary:
        config, ledger = self.config, self.ledger
        await self._annotate(plan, asking)
        counts = predicate_counts(ledger, self._voters, config.samples)
        synonyms = await self._synonyms(dict(counts))
        kept = plan.photos.get("kept", 0)
        done = 0

        def photo_done() -> None:
            nonlocal done
            done += 1
            self._report("consensus", done, kept)

        poor = await build_graphs(
            ledger, config, self._voters, synonyms,
            verify=asking.verify if self._judges else None,
            on_answer=self._paid, on_photo=photo_done,
        )  # fmt: skip
        dropped = drop_rare(ledger, config.rare)
        parts = split(ledger, config)
        await self._classify(sum(parts.values()))
        lost = await self._attributes()
        return await self._write(poor, synonyms, dropped, parts, lost)

    async def _annotate(self, plan: Plan, asking: Asking) -> None:
        total = sum(n.most.calls for n in plan.costs.lines if n.what == "annotates")
        done = 0

        def replied(reply: Reply) -> None:
            nonlocal done
            done += 1
            self._report("annotate", done, total)

        await ask_panel(
            self.ledger, self._voters, self.config.samples, asking.ask,
            retry=self._retry, on_reply=replied,
        )  # fmt: skip

    async def _synonyms(self, counts: dict[str, int]) -> dict[str, str]:
        if not self.config.synonyms:
            return {}
        path = self.folder / SYNONYMS_FILE
        found = read_synonyms(path)
        if found is None:
            if self._text is None or not counts:
                return {}
            self._report("synonyms", 0, None)
            found = await propose_synonyms(self.ledger, self._text, counts, retry=self._retry)
            if not any(one.startswith("a call failed") for one in found.refused):
                write_json(path, found.model_dump())
        return found.resolved(counts)

    async def _classify(self, graphs: int) -> None:
        if not self.config.diversity or self._text is None:
            return
        done = 0

        def batch_done(count: int) -> None:
            nonlocal done
            done += count
            self._report("classes", done, graphs)

        await classify(
            self.ledger, self._text, self.config.batch, self.config.concurrency,
            retry=self._retry, on_batch=batch_done,
        )  # fmt: skip

    async def _attributes(self) -> dict[str, str]:
        if not self.config.attributes or self._text is None:
            return {}
        names = {
            name for row in self.ledger.graphs(parts_only=True) for _, name, _ in row.photo.objects
        }
        self._report("attributes", 0, len(names))
        found, lost = await augment(self.ledger, self._text, sorted(names), retry=self._retry)
        write_json(
            self.folder / ATTRIBUTES,
            {
                "model": self._text.name,
                "prompt": load_prompt(ATTRIBUTES_PROMPT).ref,
                "instances": found,
                "lost": lost,
            },
        )
        return lost

    async def _write(
        self,
        poor: int,
        synonyms: dict[str, str],
        dropped: dict[str, int],
        parts: dict[str, int],
        lost: dict[str, str],
    ) -> Summary:
        self._report("files", 0, None)
        ledger = self.ledger
        graphs = sum(write_graphs(self.folder, ledger.graphs(parts_only=True)).values())
        write_votes(self.folder / VOTES, ledger.graphs())
        found = statistics_of(ledger.graphs(parts_only=True))
        photos = ledger.photo_states()
        found |= {
            "photos": photos,
            "below_quorum": poor,
            "rare_predicates_dropped": dropped,
            "synonyms_merged": len(synonyms),
            "categories_without_attributes": len(lost),
        }
        write_json(self.folder / STATISTICS, found)
        spent = self._spent()
        write_json(self.folder / MANIFEST, await self._manifest(spent, photos))
        return Summary(
            self.folder, graphs, photos, poor, parts, dropped, synonyms, found,
            ledger.problems(), sum(row["usd"] for row in spent), self._served.texts,
        )  # fmt: skip

    def _paid(self, judge: str, tokens_in: int, tokens_out: int, usd: float, lost: int) -> None:
        sums = self._judged.setdefault(judge, [0.0] * 4)
        for at, value in enumerate((tokens_in, tokens_out, usd, lost)):
            sums[at] += value

    def _spent(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [
            {"stage": kind, "model": voter, **spent}
            for (kind, voter), spent in self.ledger.spent().items()
        ]
        names = ("tokens_in", "tokens_out", "usd", "unscored")
        rows += [
            {"stage": "judges", "model": judge, **dict(zip(names, sums, strict=True))}
            for judge, sums in self._judged.items()
        ]
        return rows

    async def _manifest(
        self, spent: list[dict[str, Any]], photos: dict[str, int]
    ) -> dict[str, Any]:
        dataset = self._dataset
        prompts = [BOXES_PROMPT]
        if self._text is not None:
            prompts += [SYNONYMS_PROMPT] * self.config.synonyms
            prompts += [CLASSES_PROMPT] * self.config.diversity
            prompts += [ATTRIBUTES_PROMPT] * self.config.attributes
        return {
            "name": self.config.name,
            "about": self.config.about,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "graphs": GRAPHS,
            "config": self.config.model_dump(mode="json"),
            "model_changes": list(self._served.texts),
            "dataset": {
                "name": dataset.name,
                "source": dataset.source,
                "licence": dataset.licence,
                "fingerprint": dataset.fingerprint,
                "left_out": dict(dataset.left_out),
                "photos": photos,
            },
            "panel": {voter.name: voter.fingerprint for voter in self._voters},
            "text_model": None if self._text is None else self._text.fingerprint,
            "judges": dict(await fingerprints(self._judges)),
            "sampling": SAMPLING,
            "prompts": {name: load_prompt(name).ref for name in prompts},
            "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
            "spent": spent,
            "usd": sum(row["usd"] for row in spent),
        }
