"""GenEval (Ghosh et al., 2023) through the detection port, by one detector or a panel of them.

A picture is correct, 1, or not, 0. Each detector answers every clause of the item's demands with
yes or no and its reason, as a judge does; a panel votes clause by clause. Colours are named by an
encoder of pictures and texts, or by a judge; GenEval's released code classifies the object alone on
grey, cut to its box, with CLIP and three texts a colour.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from PIL import Image

from scenewright.agents.panel.aggregation import Array
from scenewright.config.settings import Settings
from scenewright.core.closed_vocabulary import listed
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import to_rgb
from scenewright.core.ports.judge import Judge, JudgeCaps, unscored
from scenewright.core.ports.vision import (
    Detection,
    Detector,
    ExtractionError,
    ReadAttribute,
    Thing,
    Unread,
)
from scenewright.evals.metrics.base import MetricError, Need, Sample, real, switch, text, whole
from scenewright.evals.metrics.encoders import TextImageEncoder
from scenewright.evals.metrics.extractors import encoder_of
from scenewright.evals.store.journal import Features
from scenewright.evals.studies.peers.geneval_rules import (
    COLORS,
    Clause,
    Demand,
    Rules,
    clause_facts,
    clauses,
    counted,
    demands_in,
    demands_of,
    to_color,
)
from scenewright.evals.studies.peers.panel_metric import MetricJudges, PanelMetric, metric_judges_of
from scenewright.runs.model_factory.local_models import DetectorSettings, cached_detector_of
from scenewright.runs.model_factory.profiles import build_judge
from scenewright.tools.vision.detection.labels import unknown_labels
from scenewright.tools.vision.extraction.judged_readers import JudgedAttributes
from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel

KINDS = ("clip", "judge", "judge-alone")
TEMPLATES = ("a photo of a {color} {name}", "a photo of a {color}-colored {name}",
             "a photo of a {color} object")  # fmt: skip
"""Of the released code; a colour's vector is that of the mean of the three."""
BACKGROUND = (153, 153, 153)
"""What is around the thing: #999."""


class ColorReader(Protocol):
    """Names colours."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a thing could get another colour."""
        ...

    @property
    def palette(self) -> tuple[str, ...] | None:
        """The colours that it distinguishes; None: any."""
        ...

    async def read(
        self, image: Image.Image, things: Sequence[Detection], every: Sequence[Detection]
    ) -> list[str | None]:
        """Return the colour of each of ``things``, all of one class; None where unknown.

        ``every`` holds all detections of the picture. Raises what its model raises.
        """
        ...


@dataclass(frozen=True)
class ClipColors:
    """Implements :class:`ColorReader` by zero-shot classification."""

    encoder: TextImageEncoder
    """Of pictures and texts."""
    palette: tuple[str, ...]
    """The colours that there are."""

    @cached_property
    def fingerprint(self) -> str:
        """Of the encoder, the texts and the colours."""
        return _digest("clip", self.encoder.fingerprint, list(TEMPLATES), list(self.palette))

    async def read(
        self, image: Image.Image, things: Sequence[Detection], every: Sequence[Detection]
    ) -> list[str | None]:
        """Return the likeliest colour of each thing."""
        if not things:
            return []
        name = things[0].name
        texts = [t.format(color=c, name=name) for c in self.palette for t in TEMPLATES]
        vectors = (await self.encoder.texts(texts)).vectors
        means = vectors.reshape(len(self.palette), len(TEMPLATES), -1).mean(1)
        colors: Features = means / np.linalg.norm(means, axis=1, keepdims=True)
        crops = await asyncio.to_thread(lambda: [alone(image, thing) for thing in things])
        likeness = await self.encoder.images(crops) @ colors.T
        return [self.palette[int(at)] for at in likeness.argmax(1)]


@dataclass(frozen=True)
class JudgedColors:
    """Implements :class:`ColorReader` by a judge that is asked for each colour."""

    reader: JudgedAttributes
    """Asks; its values are those of the key ``color``."""

    @property
    def fingerprint(self) -> str:
        """That of the reader."""
        return self.reader.fingerprint

    @property
    def palette(self) -> tuple[str, ...]:
        """The values that the judge is asked for."""
        return tuple(self.reader.values["color"])

    async def read(
        self, image: Image.Image, things: Sequence[Detection], every: Sequence[Detection]
    ) -> list[str | None]:
        """Return the likeliest colour of each thing.

        Raises ``ExtractionError`` if the judge's answers leave it open.
        """
        around = [Thing(str(at), one) for at, one in enumerate(every)]
        found: list[str | None] = []
        for one in things:
            thing = next((t for t in around if t.detection is one), Thing("thing", one))
            read = await self.reader.read(image, thing, ["color"], around)
            lost = next((each for each in read if isinstance(each, Unread)), None)
            if lost is not None:
                raise ExtractionError(lost.reason)
            found += [each.value for each in read if isinstance(each, ReadAttribute)] or [None]
        return found


def alone(image: Image.Image, thing: Detection) -> Image.Image:
    """Return ``thing`` on grey by its mask, if it has one, cut to its box of at least a pixel."""
    shown = image.convert("RGB")
    if thing.mask is not None:
        sheet = Image.fromarray(thing.mask.astype(np.uint8) * 255)
        shown = Image.composite(shown, Image.new("RGB", shown.size, BACKGROUND), sheet)
    left, top, right, bottom = (int(side) for side in thing.box)
    return shown.crop((left, top, max(right, left + 1), max(bottom, top + 1)))


def colors_of(spec: str, palette: Sequence[str], settings: Settings) -> ColorReader:
    """Return the colour reader that ``spec`` names.

    ``clip:MODEL`` is a folder or ``OWNER/NAME`` of CLIP's kind, or ``miniature``;
    ``judge:ACCOUNT:MODEL`` is shown the object alone; ``judge-alone:ACCOUNT:MODEL`` is shown the
    picture with other objects of the class painted over. Raises ``MetricError`` for another name,
    or if a model is not there.
    """
    kind, _, model = spec.partition(":")
    if kind not in KINDS or not model:
        raise MetricError(
            f"colors is {spec!r}: use clip:MODEL, judge:ACCOUNT:MODEL or judge-alone:ACCOUNT:MODEL"
        )
    if kind == "clip":
        return ClipColors(encoder_of("geneval", model, {}), tuple(palette))
    judge = build_judge(model, settings)
    # The release takes the likeliest colour, however likely.
    return JudgedColors(
        JudgedAttributes(
            ExtractionPanel([judge]),
            {"color": tuple(palette)},
            "crop" if kind == "judge" else "alone",
            0.0,
        )
    )


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


_VERSION = 2
"""Raised when the same detections would get other answers."""
_PARTS = {"count": "counts", "color": "colors", "position": "positions", "exclude": "excluded"}
_RELEASED = Rules()
_NO_COLORS = "no reader of colours is named: give colors, for example clip:OWNER/NAME"


@dataclass(frozen=True)
class DetectorJudge:
    """Judge of the facts of ``clause_facts``: a detector with GenEval's rules.

    Implements :class:`~scenewright.core.ports.judge.Judge`.
    """

    detector: Detector
    """Finds things."""
    rules: Rules = field(default_factory=Rules)
    """The numbers."""
    colors: ColorReader | None = None
    """Names their colours; without one, clauses of colour are unscored."""

    @property
    def id(self) -> str:
        """The detector's."""
        return self.detector.id

    @cached_property
    def fingerprint(self) -> str:
        """Of detector, rules and reader of colours."""
        colors = "" if self.colors is None else self.colors.fingerprint
        return _digest(_VERSION, self.detector.fingerprint, asdict(self.rules), colors)

    @property
    def caps(self) -> JudgeCaps:
        """One look answers all clauses, of the classes that the detector has."""
        return JudgeCaps(
            facts_per_call=512,
            probability="binary",
            max_side=1 << 16,
            local=True,
            vocabulary=self.detector.vocabulary,
        )

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Answer as the port says; the reason of a no is its rationale.

        A clause about a class that the detector does not have, or a colour that the reader does not
        name, is unscored.
        """
        shown = await asyncio.to_thread(to_rgb, image)
        unknown = {fact.id: why for fact in facts if (why := self._unknown(fact))}
        told = dict.fromkeys(str(fact.value) for fact in facts if fact.id not in unknown)
        seen = {text: await self._seen(shown, text) for text in told}
        return [
            unscored(self.id, [fact], unknown[fact.id])[0]
            if fact.id in unknown
            else self._read(fact, *seen[str(fact.value)])
            for fact in facts
        ]

    def _unknown(self, fact: Fact) -> str:
        """Return why nothing can be said of a clause; empty if something can."""
        for reason in unknown_labels(self.detector, fact.classes).values():
            return reason
        if self.colors is None or self.colors.palette is None:
            return ""
        for demand in _colored(fact):
            if demand.color not in self.colors.palette:
                return (
                    f"the color {demand.color!r} is not one of those that can be named: "
                    f"{listed(self.colors.palette)}"
                )
        return ""

    async def aclose(self) -> None:
        """Leave the detector open: its owner closes it."""

    async def _seen(
        self, image: Image.Image, told: str
    ) -> tuple[dict[str, Clause], dict[str, str]]:
        """Return the clauses, and of which classes the colours are not known, and why."""
        demands = demands_in(told)
        unknown = unknown_labels(self.detector, demands.names)
        names = [name for name in demands.names if name not in unknown]
        every = await self.detector.detect(image, names)
        found = counted(every, demands, self.rules)
        colored: dict[str, list[str | None]] = {}
        lost: dict[str, str] = {}
        for name, things in to_color(demands, found).items():
            if self.colors is None:
                lost[name] = _NO_COLORS
                continue
            try:
                colored[name] = await self.colors.read(image, things, every)
            except Exception as error:
                # A reader that fails takes the colours from a class, not its count.
                lost[name] = error_text(error)
        return clauses(demands, found, colored, self.rules), lost

    def _read(self, fact: Fact, seen: Mapping[str, Clause], lost: Mapping[str, str]) -> Answer:
        key = str(fact.key)
        clause = seen[key]
        why = next((lost[one.name] for one in _colored(fact) if one.name in lost), "")
        # What is wrong for want of things is so whatever their colours are.
        if why and seen[f"count:{key.split(':')[1]}"].holds:
            return unscored(self.id, [fact], why)[0]
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if clause.holds else "no",
            choice="yes" if clause.holds else "no",
            probability=float(clause.holds),
            method="binary",
            rationale=clause.reason,
        )


def _colored(fact: Fact) -> list[Demand]:
    """Return the entries on whose colour a clause depends."""
    include = demands_in(str(fact.value)).include
    kind, at, *number = str(fact.key).split(":")
    ends = [include[int(at)]] if kind in ("color", "position") else []
    if kind == "position":
        ends.append(include[ends[0].positions[int(number[0])].to])
    return [end for end in ends if end.color]


class GenEval(PanelMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "geneval"
    needs: frozenset[Need] = frozenset({"image"})

    def __init__(self, bench: MetricJudges, *, exact: bool = False) -> None:
        """Score with the judges of ``bench``, each a :class:`DetectorJudge`.

        ``exact``: see :func:`~scenewright.evals.studies.peers.geneval_rules.demands_of`.
        """
        super().__init__(bench)
        self._exact = switch("exact", exact)

    def wording(self) -> str:
        """Return whether scenes are counted exactly."""
        return f"exact={self._exact}"

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """Return one fact a clause of the demands."""
        return clause_facts(demands_of(sample.item, exact=self._exact))

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return 1 where every clause is met, 0 where one is not.

        None where that depends on a clause that no detector could decide. Of two detectors that
        differ, neither confirms.
        """
        known = likely[~np.isnan(likely)]
        if (known <= 0.5).any():
            return 0.0
        return 1.0 if len(known) == len(likely) else None

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """Return the shares of met clauses by kind.

        Parts: ``counts``, ``colors``, ``positions``, ``excluded``. A kind is there if the demands
        have such clauses. ``unasked`` counts attributes and relations of a scene that boxes cannot
        show.
        """
        parts: dict[str, float | None] = {"unasked": float(demands_in(str(facts[0].value)).unasked)}
        for kind, part in _PARTS.items():
            of_kind = np.array([str(fact.key).startswith(f"{kind}:") for fact in facts])
            if of_kind.any():
                known = likely[of_kind & ~np.isnan(likely)]
                parts[part] = float((known > 0.5).mean()) if len(known) else None
        return parts


def make(
    settings: Settings | None,
    detectors: Any = None,
    colors: Any = None,
    palette: Any = COLORS,
    exact: Any = False,
    threshold: Any = _RELEASED.threshold,
    counting_threshold: Any = _RELEASED.counting_threshold,
    position: Any = _RELEASED.position,
    most: Any = _RELEASED.most,
    overlap: Any = _RELEASED.overlap,
    aggregator: Any = "mean",
    folder: Any = None,
) -> GenEval:
    """Return the metric of the registry.

    Raises ``MetricError`` for a wrong option, and if a model is not on this machine.
    """
    if detectors is None:
        raise MetricError(
            "geneval needs a detector: name it in its options, for example "
            '{ name = "geneval", options = { detectors = "miniature", '
            'colors = "clip:miniature" } }'
        )
    if not isinstance(palette, list | tuple) or len(set(palette)) < 2:
        raise MetricError(f"palette is {palette!r}: use a list of two colours or more")
    named = tuple(text("palette", color) for color in palette)
    rules = Rules(
        real("threshold", threshold, 0.0, 1.0),
        real("counting_threshold", counting_threshold, 0.0, 1.0),
        real("position", position, 0.0),
        whole("most", most, 1),
        real("overlap", overlap, 0.0, 1.0),
    )
    reader: dict[str, ColorReader] = {}

    def made(spec: str, here: Settings) -> Judge:

        if colors is not None and not reader:
            reader["one"] = colors_of(text("colors", colors), named, here)
        least = min(rules.threshold, rules.counting_threshold)
        # By default detectors leave out more than these rules do.
        found = cached_detector_of(spec, DetectorSettings(threshold=least))
        return DetectorJudge(found, rules, reader.get("one"))

    try:
        bench = metric_judges_of(
            GenEval.name, settings, detectors, None, aggregator, folder, made_by=made
        )
    except MetricError as error:
        raise MetricError(str(error).replace("judges is", "detectors is", 1)) from error
    return GenEval(bench, exact=exact)
