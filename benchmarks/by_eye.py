"""The miniature's judges against labels by eye, by class of damage.

``python -m benchmarks.by_eye [--quick] [--data FOLDER] [--set FOLDER]``. The pictures are those of
the miniature's own generator, every fact of them labelled by looking at the picture before any
judge's answer was read: the sets ``first`` and ``second`` beside the repository, whose rules
differ a little (see their READMEs), and one of the same form in ``--set`` (default:
``benchmarks/data/by_eye``, where it is there). The profile's panels are asked in waves as in runs,
``loop`` and ``report``, and each of their judges alone beside them.

- ``false_yes.PANEL``: share of the facts that do not hold by eye and are confirmed;
  ``false_yes.CLASS.PANEL`` the same by class of damage, pictures that were chosen to provoke
  damage included, which all other rates leave out. A void fact is not confirmed.
- ``false_no.PANEL``: share of the facts that hold and are denied, of those that were asked;
  ``false_no.count.PANEL`` of facts about a second or later thing of a kind, and
  ``false_no.count.N.PANEL`` about the N-th.
- ``balanced.PANEL`` is the mean of both shares of right verdicts, ``brier.PANEL`` the mean squared
  error of the probability that a fact holds, ``ece.PANEL`` its expected calibration error.
- ``complete_but_not.PANEL``: of the pictures of which every fact is confirmed, those in which one
  does not hold; ``complete_but_denied.PANEL``: of the pictures in which every fact holds, those in
  which one is denied.
- ``counts.N.PANEL``: share of right answers to "at least N" on exact paintings, ``.there`` of those
  with N things, ``.fewer`` of those with N − 1.
- ``generator.whole.hats|under|all``: share of the things with a hat, of those under a table, and of
  all, that are whole by eye; of the set of ``--set`` alone where there is one.

A name without panel (``false_yes.headless``) is the worse of loop and report. Names of sets stand
before the same figures of one set. Intervals are by bootstrap over pictures; ``n.…`` are numbers of
facts or pictures. Floors: ``floor.yes.…`` says that every fact holds, ``floor.constant.…`` gives
the mean rate as every probability.

``--draw FOLDER [--n 120] [--seed S]`` draws a new set with unlabelled facts and contact sheets
(``sheet-01.png`` …) and measures nothing: look at them, fill in the column ``eye`` of
``labels.csv`` (and ``note``) with any editor, then name the folder with ``--set``.
"""

from __future__ import annotations

import asyncio
import random
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._by_eye import (
    DAMAGE,
    NUMBERS,
    OTHER,
    LabelledFact,
    LabelledPicture,
    draw_set,
    read_set,
)
from benchmarks._harness import (
    Option,
    Skipped,
    benchmark,
    figure,
    folder,
    interval,
    prefixed,
    progress,
    release,
)
from benchmarks._miniature_pictures import ROLES, short
from scenewright.agents.panel.panel import Panel
from scenewright.config.settings import find_profile
from scenewright.core.facts import Verdict
from scenewright.core.images import hash_of_image, load_image
from scenewright.core.questions import facts_of
from scenewright.core.referring import instance_order
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.evals.runner.judging import JudgePanel, judge_picture
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.miniature.painter import paint
from scenewright.miniature.world import COLORS, KINDS
from scenewright.providers import AnswerStore
from scenewright.runs.model_factory.profiles import build_run_models, warm

OWN = Path(__file__).parent / "data" / "by_eye"
"""Default folder of the set of ``--set``."""
SHARED = ("first", "second")
FEW = 8
"""Pictures of a set in a quick run."""
PAINTINGS, FEW_PAINTINGS = 40, 2
"""Exact paintings of each number of things."""
SITUATIONS = ("hats", "under", "all")


@dataclass(frozen=True, slots=True)
class Judged:
    """A labelled picture with the verdicts of one panel."""

    picture: LabelledPicture
    verdicts: Mapping[str, Verdict]

    @property
    def is_called_complete(self) -> bool:
        """Whether every fact is confirmed."""
        return all(self.verdicts[one.fact.id].state == "yes" for one in self.picture.facts)

    @property
    def is_denied(self) -> bool:
        """Whether some fact is denied."""
        return any(self.verdicts[one.fact.id].state == "no" for one in self.picture.facts)


async def profile_panels() -> dict[str, JudgePanel]:
    """Return the panels of the profile, and each of their judges as a panel of its own."""
    profile = find_profile("miniature")
    models = await build_run_models(profile)
    await warm(models)
    groups = {"loop": models.loop_judges, "report": models.report_judges}
    judges = tuple(judge for role in ROLES for judge in groups[role])
    groups |= {short(judge): (judge,) for judge in judges}
    return {name: JudgePanel(name, some, Panel.of(profile, some)) for name, some in groups.items()}


async def judged_by(
    panels: Mapping[str, JudgePanel], pictures: Sequence[LabelledPicture]
) -> dict[str, list[Judged]]:
    """Return panel → every picture with its verdicts; no judge is asked a question twice."""
    found: dict[str, list[Judged]] = {name: [] for name in panels}
    with AnswerStore(None) as store:
        for picture in progress(pictures, note="pictures"):
            image = load_image(picture.file)
            facts = [one.fact for one in picture.facts]
            for name, panel in panels.items():
                told = await judge_picture(
                    panel, hash_of_image(image), image.copy, facts, store=store
                )
                verdicts = {verdict.fact_id: verdict for verdict in told.card.verdicts}
                found[name].append(Judged(picture, verdicts))
    return found


def panel_figures(judged: Sequence[Judged]) -> dict[str, Figure]:
    """Return the figures of one panel on some pictures."""
    drawn = Bootstrap(len(judged))
    rows = [
        (at, one, told.verdicts[one.fact.id], told.picture.is_stress)
        for at, told in enumerate(judged)
        for one in told.picture.facts
    ]

    def share(part: Sequence[tuple[int, LabelledFact, Verdict, bool]], state: str) -> Figure:
        hits = [float(verdict.state == state) for _, _, verdict, _ in part]
        return drawn.share([at for at, *_ in part], hits)

    rated = [row for row in rows if not row[3]]
    lost = [row for row in rated if row[1].eye == "no"]
    held = [row for row in rated if row[1].eye == "yes" and row[2].state in ("yes", "no")]
    counted = [row for row in held if row[1].fact.counts and row[1].fact.key != "1"]
    found = {"false_yes": share(lost, "yes"), "false_no": share(held, "no")}
    for name in (*DAMAGE, OTHER):
        damaged = [row for row in rows if row[1].damage == name]
        found[f"false_yes.{name}"] = share(damaged, "yes")
    found["false_no.count"] = share(counted, "no")
    for number in range(2, len(NUMBERS) + 1):
        these = [row for row in counted if row[1].fact.key == str(number)]
        found[f"false_no.count.{number}"] = share(these, "no")
    known = [row for row in (*lost, *held) if row[2].probability is not None]
    if known:
        places = [at for at, *_ in known]
        truth = np.array([float(one.eye == "yes") for _, one, _, _ in known])
        said = np.array([float(verdict.probability or 0.0) for _, _, verdict, _ in known])
        votes = np.array([verdict.state == "yes" for _, _, verdict, _ in known])
        found["balanced"] = drawn.balanced(places, votes == (truth > 0.5), truth)
        found["brier"] = drawn.share(places, (said - truth) ** 2)
        found["ece"] = drawn.calibration_error(places, said, truth)
    pictures = [(at, told) for at, told in enumerate(judged) if not told.picture.is_stress]
    called = [(at, told) for at, told in pictures if told.is_called_complete]
    whole = [(at, told) for at, told in pictures if told.picture.is_complete]
    for name, some, wrong in (
        ("complete_but_not", called, [_lacks(told.picture) for _, told in called]),
        ("complete_but_denied", whole, [told.is_denied for _, told in whole]),
    ):
        found[name] = drawn.share([at for at, _ in some], np.array(wrong, float))
    return found


def _lacks(picture: LabelledPicture) -> bool:
    return any(one.eye == "no" for one in picture.facts)


def figures_of(found: Mapping[str, Sequence[Judged]]) -> dict[str, Any]:
    """Return the figures of all panels on some pictures, with their floors and numbers."""
    by_panel = {name: panel_figures(judged) for name, judged in found.items()}
    figures: dict[str, Any] = {}
    for name in next(iter(by_panel.values())):
        values = {panel: some[name] for panel, some in by_panel.items() if name in some}
        roles = [values[role] for role in ROLES if role in values]
        measured = [one for one in roles if one.value is not None]
        if not measured:
            continue
        worst = (min if name == "balanced" else max)(measured, key=lambda one: one.value or 0.0)
        figures |= {name: figure(worst), f"n.{name}": worst.n}
        figures |= prefixed(f"{name}.", {panel: figure(one) for panel, one in values.items()})
    pictures = [told.picture for told in next(iter(found.values()))]
    return figures | floor_figures(pictures) | {"n.pictures": len(pictures)}


def floor_figures(pictures: Sequence[LabelledPicture]) -> dict[str, Any]:
    """Return what is reached without a look at a picture."""
    rated = [picture for picture in pictures if not picture.is_stress]
    eyes = [one.eye for picture in rated for one in picture.facts if one.eye != "unclear"]
    if not eyes:
        return {}
    rate = eyes.count("yes") / len(eyes)
    return {
        "floor.yes.false_yes": 1.0,
        "floor.yes.false_no": 0.0,
        "floor.yes.balanced": 0.5,
        "floor.yes.brier": 1.0 - rate,
        "floor.yes.ece": 1.0 - rate,
        "floor.yes.complete_but_not": sum(map(_lacks, rated)) / len(rated),
        "floor.constant.brier": rate * (1.0 - rate),
        "floor.constant.ece": 0.0,
    }


def whole_figures(pictures: Sequence[LabelledPicture]) -> dict[str, Any]:
    """Return the shares of whole things by situation, and how many things there are."""
    figures: dict[str, Any] = {}
    drawn = Bootstrap(len(pictures))
    for situation in SITUATIONS:
        rows = [(at, one) for at, p in enumerate(pictures) for one in p.whole(situation)]
        if rows:
            places, whole = zip(*rows, strict=True)
            figures[f"generator.whole.{situation}"] = figure(drawn.share(places, whole))
            figures[f"n.generator.whole.{situation}"] = len(rows)
    return figures


def alike(number: int, rng: random.Random) -> SceneGraph:
    """Return a scene of ``number`` things of a kind, of one colour or of any, and one other."""
    kind, other = rng.sample(sorted(KINDS), 2)
    colors = sorted(COLORS)
    one = rng.choice(colors)
    own = [one if rng.random() < 0.5 else rng.choice(colors) for _ in range(number)]
    things = [*((kind, color) for color in own), (other, rng.choice(colors))]
    return SceneGraph(
        objects=tuple(
            SceneObject(id=f"{name}.{at}", name=name, attributes=Attributes({"color": color}))
            for at, (name, color) in enumerate(things)
        )
    )


async def count_figures(panels: Mapping[str, JudgePanel], paintings: int) -> dict[str, Any]:
    """Return ``counts.N.PANEL`` for N from 2, with ``.there`` and ``.fewer``."""
    figures: dict[str, Any] = {"counts.paintings": paintings}
    with AnswerStore(None) as store:
        for number in progress(range(2, len(NUMBERS) + 1), note="numbers"):
            right: dict[str, dict[str, list[float]]] = {
                name: {"there": [], "fewer": []} for name in panels
            }
            for at in range(paintings):
                scene = alike(number, random.Random(f"held-out/by eye/counts/{number}/{at}"))
                order = instance_order(scene, scene.objects[0].name)
                fact = next(f for f in facts_of(scene) if f.counts and f.subject == order[-1])
                fewer = scene.subgraph(item.id for item in scene.objects[1:])
                for case, painted in (("there", scene), ("fewer", fewer)):
                    image = paint(painted, at).image
                    for name, panel in panels.items():
                        told = await judge_picture(
                            panel, hash_of_image(image), image.copy, [fact], store=store
                        )
                        expected = "yes" if case == "there" else "no"
                        is_right = told.card.verdicts[0].state == expected
                        right[name][case].append(float(is_right))
            for name, cases in right.items():
                both = [*cases["there"], *cases["fewer"]]
                figures[f"counts.{number}.{name}"] = interval(both)
                for case, values in cases.items():
                    figures[f"counts.{number}.{name}.{case}"] = sum(values) / paintings
    return figures


def sets_of(options: Namespace) -> dict[str, list[LabelledPicture]]:
    """Return name → pictures of every set that is there; raises ``Skipped`` without any."""
    own: Path | None = options.set or (OWN if OWN.is_dir() else None)
    found: dict[str, list[LabelledPicture]] = {}
    try:
        place = release(options, "by-eye")
        found |= {name: read_set(place / name) for name in SHARED}
    except Skipped:
        if own is None:
            raise
    if own is not None:
        found["own"] = read_set(own)
    return found


async def measure(sets: Mapping[str, Sequence[LabelledPicture]], paintings: int) -> dict[str, Any]:
    """Return all figures: of the sets together, then of each."""
    panels = await profile_panels()
    every = [picture for pictures in sets.values() for picture in pictures]
    found = await judged_by(panels, every)
    figures = figures_of(found) | whole_figures(sets.get("own", every))
    first = 0
    for name, pictures in sets.items():
        last = first + len(pictures)
        part = {panel: judged[first:last] for panel, judged in found.items()}
        figures |= prefixed(f"{name}.", figures_of(part) | whole_figures(pictures))
        first = last
    return figures | await count_figures(panels, paintings)


@benchmark(
    "few pictures",
    data=folder("the labelled sets (default: shared/data/by-eye beside the repository)"),
    set=folder(f"one more labelled set (default: {OWN.relative_to(Path(__file__).parents[1])})"),
    draw=folder("draw a new set into this folder, and measure nothing"),
    n=Option(120, "pictures to draw", least=1),
    seed=Option(20_000, "seed of the first picture that is drawn", least=0),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]] | None:
    """Measure the judges, or draw a set for labelling."""
    torch.set_num_threads(1)
    if options.draw is not None:
        draw_set(options.draw, options.n, options.seed)
        print(f"{options.n} pictures in {options.draw}: fill in the column eye of labels.csv")
        return None
    sets = sets_of(options)
    if options.quick:
        sets = {name: pictures[:FEW] for name, pictures in sets.items()}
    paintings = FEW_PAINTINGS if options.quick else PAINTINGS
    n = sum(map(len, sets.values()))
    return n, asyncio.run(measure(sets, paintings))


if __name__ == "__main__":
    main()
