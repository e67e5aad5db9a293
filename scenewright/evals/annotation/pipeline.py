"""Photos and detections to scene graphs, stage by stage: each finds what it has done before.

Filter → annotate → merge synonyms → consensus → drop rare predicates → split → classify →
attributes → files (Scene-Bench, appendix A and Algorithm 1).
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scenewright.core.ports.judge import Judge
from scenewright.evals.annotation import merging
from scenewright.evals.annotation.classes import PROMPT as CLASSES
from scenewright.evals.annotation.classes import classify
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.consensus import (
    build_graphs,
    drop_rare,
    predicate_counts,
    split,
)
from scenewright.evals.annotation.engines.base import (
    AnnotationSession,
    Asking,
    Engine,
    Models,
    OnProgress,
)
from scenewright.evals.annotation.engines.local import LocalEngine
from scenewright.evals.annotation.instances import PROMPT as INSTANCES
from scenewright.evals.annotation.instances import augment
from scenewright.evals.annotation.panel_queries import ask_panel
from scenewright.evals.annotation.photos import photos_of
from scenewright.evals.annotation.plan import Plan, plan_of
from scenewright.evals.annotation.verifying import fingerprints
from scenewright.evals.annotation.voters import TextModel, Voter
from scenewright.evals.annotation.writing import (
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
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.store.ledger import Ledger, Reply
from scenewright.prompts import load_prompt
from scenewright.providers.versions import SERVED_FILE, FollowedVersions, following
from scenewright.tools.vision.extraction.one_stage import BOXES_PROMPT, SAMPLING

LEDGER = "ledger.sqlite"
_PACKAGES = ("scenewright", "langchain-core", "pydantic", "pyarrow", "pillow")


@dataclass(frozen=True, slots=True)
class Summary:
    """What was built."""

    folder: Path
    """Where it lies."""
    graphs: int
    """Scene graphs."""
    photos: dict[str, int]
    """``kept``, or why they are left out → photos."""
    below_quorum: int
    """Photos with too few usable replies."""
    parts: dict[str, int]
    """Part → graphs."""
    dropped: dict[str, int]
    """Rare predicate → how often it was found."""
    synonyms: dict[str, str]
    """Predicate → the one that stands for it."""
    statistics: dict[str, Any]
    """As in ``statistics.json``."""
    problems: list[tuple[str, str, str, int]] = field(default_factory=list)
    """(kind, model, reason, how often) of what failed."""
    usd: float = 0.0
    """Dollars paid for it so far, earlier runs included."""
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
        """``voters`` and ``text`` are the models that ``config`` names, ``judges`` likewise.

        ``retry``: what failed is asked again. ``engine`` asks the panel and the judges.
        Raises ``AnnotationError`` if the folder cannot be used.
        """
        self.config = config
        self.folder = folder
        self._dataset = dataset
        self._voters = tuple(voters)
        self._text = text
        self._judges = tuple(judges)
        self._retry = retry
        self._told = told
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
        """Look at the photos and count what is to be asked; asks no model.

        Raises ``DatasetError`` for a set that cannot be read.
        """

        def looked(count: int) -> None:
            if count % 100 == 0:
                self._told("photos", count, None)

        photos = photos_of(self._dataset, self.ledger, self.config.least_objects, looked)
        self.ledger.set_photos(photos)
        there = (self.folder / merging.FILE).exists()
        return plan_of(
            self.ledger, self.config, self._voters, self._text, self._judges,
            retry=self._retry, synonyms_there=there,
        )  # fmt: skip

    async def run(self, plan: Plan) -> Summary:
        """All stages; ``plan`` is that of :meth:`plan`.

        Raises ``AnnotationError`` for what cannot go on; what was paid for is kept.
        """
        models = Models(self._voters, self._judges)
        session = AnnotationSession(self.config, self.folder, models, self._text, self._told)
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
            self._told("consensus", done, kept)

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
        total = sum(plan.lines[voter.name].calls for voter in self._voters)
        done = 0

        def replied(reply: Reply) -> None:
            nonlocal done
            done += 1
            self._told("annotate", done, total)

        await ask_panel(
            self.ledger, self._voters, self.config.samples, asking.ask,
            retry=self._retry, on_reply=replied,
        )  # fmt: skip

    async def _synonyms(self, counts: dict[str, int]) -> dict[str, str]:
        if not self.config.synonyms:
            return {}
        path = self.folder / merging.FILE
        found = merging.read_synonyms(path)
        if found is None:
            if self._text is None or not counts:
                return {}
            self._told("synonyms", 0, None)
            found = await merging.propose_synonyms(
                self.ledger, self._text, counts, retry=self._retry
            )
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
            self._told("classes", done, graphs)

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
        self._told("attributes", 0, len(names))
        found, lost = await augment(self.ledger, self._text, sorted(names), retry=self._retry)
        write_json(
            self.folder / ATTRIBUTES,
            {
                "model": self._text.name,
                "prompt": load_prompt(INSTANCES).ref,
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
        self._told("files", 0, None)
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
            prompts += [merging.PROMPT] * self.config.synonyms
            prompts += [CLASSES] * self.config.diversity
            prompts += [INSTANCES] * self.config.attributes
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
