"""REAL's scores of a pool of painted candidates: judges of the miniature, a CLIP for the style."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from PIL import Image

from benchmarks._augmentation_queries import Query
from benchmarks._augmentation_species import Species
from benchmarks._progress import progress
from scenewright.core.images import hash_of_image
from scenewright.core.ports.judge import Judge
from scenewright.evals.statistics.correlation import Correlation, correlate
from scenewright.evals.statistics.figures import RESAMPLES
from scenewright.evals.studies.real.ranking import Ranked
from scenewright.evals.studies.real.real_scorer import RealScorer
from scenewright.evals.studies.real.rows import combine
from scenewright.evals.studies.real.schema import AttributeSchema, RelationSchema, SchemaAttribute
from scenewright.evals.studies.real.schema_files import ClassSchema
from scenewright.evals.studies.real.style import StyleScorer
from scenewright.evals.studies.real.style_data import checked, read_labelled
from scenewright.evals.studies.real.style_miniature import PLAN, new_style_clip, paint_styles
from scenewright.evals.studies.real.style_training import StylePlan, train_style
from scenewright.providers import AnswerStore

JUDGES = ("local:miniature/judge-a", "local:miniature/judge-b")
STYLE_PLAN = PLAN.model_copy(update={"batch": 8})
"""The recipe of the miniature's style scorer in the paper's small batches: fewer paintings do."""
_STYLE_SEED = 4000


class Named(Protocol):
    """A picture of a pool."""

    @property
    def name(self) -> str:
        """Unique within the pool."""

    @property
    def label(self) -> str:
        """The class it was made for."""

    @property
    def image(self) -> Image.Image:
        """RGB."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What REAL says of one picture."""

    name: str
    """The picture."""
    label: str
    """Its class."""
    base: float | None
    """S_att or S_rel (normalised); None if it could not be scored."""
    style: float
    """S_style, P(photo)."""
    hard: float | None = None
    """S_att as the paper counts it; None of relations."""

    @property
    def combined(self) -> float | None:
        """``base × style``."""
        return combine(self.base, self.style)


def ranked(rows: Sequence[Scored], *, style: bool = True) -> list[Ranked]:
    """``rows`` by their combined score or, without ``style``, by S_att or S_rel alone."""
    return [Ranked(r.name, r.label, r.combined if style else r.base) for r in rows]


def species_schemas(species: Sequence[Species]) -> dict[str, ClassSchema]:
    """What is asked of a picture of each species: a person, and the colours of the parts."""
    return {
        one.name: ClassSchema(
            one.name,
            attributes=AttributeSchema(
                name=one.name,
                existence="Is there a person in the image?",
                attributes=tuple(
                    SchemaAttribute(part=part, description=color)
                    for part, color in one.colors.items()
                ),
            ),
        )
        for one in species
    }


def query_schemas(queries: Sequence[Query]) -> dict[str, ClassSchema]:
    """What is asked of a picture of each query: its things, and their relations."""
    found: dict[str, ClassSchema] = {}
    for query in queries:
        schema, left_out = RelationSchema.of_scene(query.scene, query.name)
        if schema is None or left_out:
            raise ValueError(f"{query.name} has relations that cannot be asked for: {query.scene}")
        found[query.name] = ClassSchema(query.name, relations=schema)
    return found


async def trained_style(
    folder: Path, n: int, plan: StylePlan = STYLE_PLAN
) -> tuple[StyleScorer, Mapping[str, float]]:
    """A style scorer trained on ``n`` paintings a style in ``folder``, and its held-out figures."""
    out = folder / "style"

    def train() -> Mapping[str, float]:
        paint_styles(folder / "styles", n, _STYLE_SEED)
        start = folder / "style-start"
        if not start.exists():
            new_style_clip(start)
        data = checked(read_labelled(folder / "styles"))
        report = train_style(start, data, out, plan)
        if report is None:
            raise RuntimeError("the style scorer's training did not end")
        return {"accuracy": report.after.accuracy.value or 0.0}

    figures = await asyncio.to_thread(train)
    return StyleScorer(out), figures


async def scored(
    pool: Sequence[Named],
    schemas: Mapping[str, ClassSchema],
    style: StyleScorer,
    judges: Sequence[Judge],
    file: Path,
) -> list[Scored]:
    """REAL's scores of ``pool``, one a picture in its order; answers are kept in ``file``."""
    styles = await style.score([one.image for one in pool])
    found: list[Scored] = []
    with closing(AnswerStore(file)) as store:
        scorer = RealScorer(judges, store, wording="plain")
        for one, grade in progress("judged", zip(pool, styles, strict=True), len(pool)):
            looked = await scorer.look(
                hash_of_image(one.image), partial(_pixels, one), schemas[one.label]
            )
            score = looked.score.attributes or looked.score.relations
            value = None if score is None else score.value
            attributes = looked.score.attributes
            hard = None if attributes is None else attributes.hard
            found.append(Scored(one.name, one.label, value, grade, hard))
    return found


def _pixels(one: Named) -> Image.Image:
    return one.image


def agreement(rows: Sequence[Scored], truth: Mapping[str, float], seed: int = 0) -> Correlation:
    """How S_att or S_rel ranks pictures beside ``truth`` (name → number); intervals over pictures.

    Pictures that could not be scored are left out.
    """
    values = {(row.name, "pool"): row.base for row in rows if row.base is not None}
    people = {(name, "pool"): value for name, value in truth.items()}
    return correlate("REAL", values, people, resamples=RESAMPLES, seed=seed)
