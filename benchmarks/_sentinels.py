"""Candidates for sentinel pictures, and the choice of those that tell judges apart.

``python -m benchmarks._sentinels`` writes the pictures that ship with the package.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from benchmarks._harness import progress
from scenewright.agents.panel.answer_arrays import two_way_probability
from scenewright.evals.judge_reports.labelled_facts import LabelledFact
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.runner.sentinels import FOLDER, QUESTIONS
from scenewright.runs.model_factory.profiles import build_judge

JUDGES = ("a", "b", "c", "d", "weak", "eager")
"""The miniature's."""
PAINTINGS, BLURS, SEED = 60, (2.5, 3.0, 3.5), 90210
PICTURES, QUESTIONS_EACH = 6, 6
_UNSURE = 0.1
"""Weight of a mean answer near a half beside that of votes that differ."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Questions about blurred paintings, and what every judge of :data:`JUDGES` says."""

    facts: tuple[LabelledFact, ...]
    """The questions, picture by picture."""
    images: tuple[Image.Image, ...]
    """The blurred pictures."""
    picture: NDArray[np.intp]
    """Number of each question's picture, (n,)."""
    painting: NDArray[np.intp]
    """Number of the painting that each picture is a blur of."""
    said: NDArray[np.float64]
    """Probability that each fact holds, (judges, n); above ½ where the judge says yes."""


def candidates(paintings: int = PAINTINGS, blurs: Sequence[float] = BLURS) -> Candidates:
    """Paint, blur and ask."""
    torch.set_num_threads(1)
    judges = [build_judge(f"local:miniature/judge-{name}") for name in JUDGES]
    groups: dict[str, list[LabelledFact]] = {}
    for fact in synthetic_facts(paintings, SEED):
        groups.setdefault(fact.picture.name, []).append(fact)
    facts: list[LabelledFact] = []
    images: list[Image.Image] = []
    picture, painting, said = [], [], []
    for number, mine in enumerate(progress(groups.values())):
        whole = mine[0].picture.load()
        for blur in blurs:
            image = whole.filter(ImageFilter.GaussianBlur(blur))
            said.append([asyncio.run(_asked(judge, image, mine)) for judge in judges])
            facts += mine
            picture += [len(images)] * len(mine)
            images.append(image)
            painting.append(number)
    return Candidates(
        tuple(facts), tuple(images), np.array(picture), np.array(painting), np.hstack(said)
    )


async def _asked(judge: Any, image: Image.Image, facts: Sequence[LabelledFact]) -> list[float]:
    answers = await judge.answer(image, [one.fact for one in facts])
    leads = [
        two_way_probability(one.fact, answer) for one, answer in zip(facts, answers, strict=True)
    ]
    return [float("nan") if lead is None else lead for lead in leads]


def choose(found: Candidates, judges: Sequence[int]) -> list[list[int]]:
    """Return the rows of the questions of each chosen picture.

    By what some of the judges say: the pictures, no two of one painting, whose hardest questions
    divide these judges most.
    """
    said = found.said[list(judges)]
    votes = (said > 0.5).mean(0)
    worth = votes * (1.0 - votes) + _UNSURE * (0.25 - (said.mean(0) - 0.5) ** 2)
    worth[np.isnan(said).any(0)] = -1.0
    hardest = []
    for picture in range(len(found.images)):
        rows = np.flatnonzero(found.picture == picture)
        hardest.append(rows[np.argsort(-worth[rows], kind="stable")[:QUESTIONS_EACH]])
    order = np.argsort([-worth[rows].sum() for rows in hardest], kind="stable")
    taken: dict[int, list[int]] = {}
    for picture in order:
        if len(hardest[picture]) == QUESTIONS_EACH:
            taken.setdefault(int(found.painting[picture]), hardest[picture].tolist())
    return list(taken.values())[:PICTURES]


def write() -> None:
    """Write the pictures that ship: chosen by all judges."""
    found = candidates()
    FOLDER.mkdir(exist_ok=True)
    table = []
    for number, rows in enumerate(choose(found, range(len(JUDGES)))):
        name = f"{number}.png"
        found.images[found.picture[rows[0]]].save(FOLDER / name, optimize=True)
        questions = [
            {
                "fact": found.facts[row]
                .fact.model_copy(update={"id": f"sentinel:{number}.{at}", "parents": ()})
                .model_dump(mode="json", exclude_defaults=True),
                "holds": found.facts[row].holds,
            }
            for at, row in enumerate(rows)
        ]
        table.append({"file": name, "questions": questions})
    (FOLDER / QUESTIONS).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
