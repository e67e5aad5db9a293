"""Scripted judges for studies that ask again, and what they are asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from scenewright.config.settings import Settings
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge, JudgeCaps
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.studies.panel.study import LiveJudges, PanelStudyContext
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn
from scenewright.providers import AnswerStore

Likely = Callable[[Image.Image, Fact], float | None]
"""Probability that the fact holds, from the picture and the question alone."""


@dataclass
class Looker:
    """Answers by a function of what it is shown and asked."""

    name: str
    likely: Likely
    usd: float = 0.0
    local: bool = True
    sheets: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"looker:{self.name}"

    @property
    def fingerprint(self) -> str:
        return f"looker-{self.name}"

    @property
    def caps(self) -> JudgeCaps:
        return JudgeCaps(facts_per_call=64, probability="logprob", max_side=256, local=self.local)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.sheets.append(tuple(fact.question for fact in facts))
        return [self._answer(fact, self.likely(image, fact)) for fact in facts]

    def _answer(self, fact: Fact, likely: float | None) -> Answer:
        if likely is None:
            return Answer(
                fact_id=fact.id, judge_id=self.id, state="unscored", reason="it would not say"
            )
        other = next(option for option in fact.options if option != fact.expected)
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if likely > 0.5 else "no",
            choice=fact.expected if likely > 0.5 else other,
            probability=likely,
            method="logprob",
            usd=self.usd,
        )

    async def aclose(self) -> None:
        return


def context_of(
    facts: Sequence[LabelledFact],
    judges: Sequence[Judge],
    folder: Path,
    *,
    usd: float = 0.0,
    seed: int = 0,
) -> PanelStudyContext:
    """A context whose table has one item a picture, and answers of ½ that nobody reads; each cost
    ``usd``."""
    names = list(dict.fromkeys(of.picture.name for of in facts))
    shape = (len(facts), len(judges))
    table = AnswerTable(
        name="asked",
        judges=tuple(JudgeColumn(judge.id) for judge in judges),
        images=tuple(ImageRow(name, name) for name in names),
        facts=tuple(
            FactRow(of.fact.id, names.index(of.picture.name), of.fact.kind, of.group)
            for of in facts
        ),
        said=np.full(shape, 0.5),
        usd=np.full(shape, usd),
        truth=np.array([float(of.holds) for of in facts]),
    )
    live = LiveJudges(tuple(judges), tuple(facts), AnswerStore(None))
    return PanelStudyContext(table, None, folder, Settings(), seed=seed, resamples=200, live=live)


def shades(n: int) -> list[LabelledFact]:
    """``n`` grey pictures, each with two facts: that it shows a cat, which holds, and a dog."""
    found = []
    for at in range(n):
        image = Image.new("RGB", (96, 96), (90 + at, 110, 130))
        image.paste((0, 0, 0), (0, 0, 16, 16))
        picture = Picture(f"shade {at}", lambda image=image: image)  # type: ignore[misc]
        for thing, holds in (("cat", True), ("dog", False)):
            question = f"Is there a {thing} in the image?"
            fact = Fact(
                id=f"{at}:{thing}", kind="object", subject=f"{thing}.1", statement=thing,
                question=question,
            )  # fmt: skip
            found.append(LabelledFact(picture, fact, holds))
    return found


def untouched(image: Image.Image) -> bool:
    """Whether nothing was done to a shade below its mark."""
    pixels = np.asarray(image)[32:]
    return bool((pixels == pixels[0, 0]).all() and pixels[0, 0, 1] == 110)


def sees(fact: Fact) -> float:
    """The truth of a shade's fact, a little unsure, whatever the wording of the same question."""
    return 0.9 if "cat" in fact.question else 0.1
