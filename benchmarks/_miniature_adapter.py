"""What a reference adds: how often a thing appears with a picture of it, and without.

Every case is drawn with the same prompt and seed in several arms, so the arms are compared
case by case:

- ``prompt``: the full prompt alone;
- ``shown``: with a painted reference that shows the thing where the prompt puts it;
- ``unrelated``: with a reference that shows, in the same place, a kind that nobody asked for;
- ``zero``: ``shown`` with λ = 0, which must be the very picture of ``prompt``.

A thing counts as absent or miscoloured without a reference if both panels say so. It may then
come right by any change of the picture, and a judge's slip may not be repeated; so ``unrelated``,
not ``prompt``, is the arm that such things are to be compared with.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks._kept import ROLES, KeptTeam
from benchmarks._miniature_scenes import held_out
from benchmarks._progress import progress
from benchmarks._report import interval
from scenewright.agents.composers.rules import setting_of
from scenewright.core.facts import Fact
from scenewright.core.layout import Cell, place_what_fits
from scenewright.core.ports.backend import GenerationRequest, Reference
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.graphs.state import LoopOptions
from scenewright.miniature.painter import Painting, render
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import COLORS, KINDS, SETTINGS

WEIGHT = LoopOptions().weight_missing
"""λ of the reference: the default of profiles."""
ARMS = ("prompt", "shown", "unrelated")
_SETTING_OF_WORDS = {words: name for name, words in SETTINGS.items()}


@dataclass(frozen=True, slots=True)
class Subject:
    """A scene that is drawn in several arms."""

    at: int
    """Number of the case: its seed."""
    scene: SceneGraph
    """What is asked: 8 or 9 objects with their colours."""
    cells: dict[str, Cell]
    """Where the prompt puts them."""
    alone: tuple[str, ...]
    """Ids of the objects that are the only one of their kind."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the report judges say of one arm of one case."""

    appears: bool | None
    """Whether what the reference shows is there (of a miscoloured thing: in its colour); None:
    not scored."""
    facts: float | None
    """Share of all the scene's facts that hold."""


def subject(at: int) -> Subject:
    """Held-out case ``at``; all of its relations fit on the grid."""
    rng = held_out("adapter", at)
    while True:
        scene = sample_painting(rng, rng.randint(8, 9)).scene
        counts = Counter(item.name for item in scene.objects)
        alone = tuple(item.id for item in scene.objects if counts[item.name] == 1)
        cells = place_what_fits(scene, at)
        if alone and cells:
            return Subject(at, scene, cells, alone)


def reference_of(case: Subject, target: str, unrelated: bool) -> Painting:
    """A painting of ``target`` alone in its place; ``unrelated``: of a kind not in the scene."""
    rng = random.Random(f"reference/{case.at}/{target}")
    item = case.scene.object(target)
    if unrelated:
        asked = {other.name for other in case.scene.objects}
        item = SceneObject(
            id=target,
            name=rng.choice(sorted(set(KINDS) - asked)),
            attributes=Attributes({"color": rng.choice(sorted(COLORS))}),
        )
    setting = _SETTING_OF_WORDS[setting_of(case.scene)]
    scene = SceneGraph(objects=(item,))
    return render(scene, {target: case.cells[target]}, frozenset(), setting, rng)


async def _request(
    kept: KeptTeam, case: Subject, target: str, arm: str, unnamed: bool = False
) -> GenerationRequest:
    said = case.scene
    if unnamed:
        said = said.subgraph(item.id for item in said.objects if item.id != target)
    prompt = await kept.run_models.composer.compose(said, case.at, within=case.scene)
    references: tuple[Reference, ...] = ()
    if arm != "prompt":
        image = kept.images.put(reference_of(case, target, arm == "unrelated").image)
        references = (Reference(image=image, weight=0.0 if arm == "zero" else WEIGHT),)
    return GenerationRequest(prompt=prompt, seed=case.at, references=references)


async def _outcomes(
    kept: KeptTeam,
    case: Subject,
    goal: Fact,
    arms: Sequence[str] = ARMS,
    unnamed: bool = False,
) -> dict[str, Outcome]:
    """Every arm of a case whose reference shows the subject of ``goal``."""
    found: dict[str, Outcome] = {}
    for arm in arms:
        image = await kept.draw(await _request(kept, case, goal.subject, arm, unnamed))
        card = await kept.card(image, kept.profile.form().facts(case.scene), "report")
        state = next(v.state for v in card.verdicts if v.fact_id == goal.id)
        found[arm] = Outcome(None if state == "unscored" else state == "yes", card.fact_recall)
    return found


async def _denied(kept: KeptTeam, case: Subject) -> list[Fact]:
    """The facts that both panels deny of the picture of the prompt alone."""
    image = await kept.draw(await _request(kept, case, case.alone[0], "prompt"))
    denied = list(kept.profile.form().facts(case.scene))
    for role in ROLES:
        card = await kept.card(image, kept.profile.form().facts(case.scene), role)
        states = {verdict.fact_id: verdict.state for verdict in card.verdicts}
        denied = [fact for fact in denied if states[fact.id] == "no"]
    return denied


def summary(rows: Sequence[dict[str, Outcome]]) -> dict[str, Any]:
    """``<arm>.appears``, ``<arm>.facts``, and the gains of ``shown`` over the other arms, paired.

    A case with an unscored arm is left out and counted in ``unscored``.
    """
    whole = [
        row for row in rows if not any(o.appears is None or o.facts is None for o in row.values())
    ]
    found: dict[str, Any] = {"n": len(whole), "unscored": len(rows) - len(whole)}
    if not whole:
        return found
    for measure in ("appears", "facts"):
        columns = {arm: [float(getattr(row[arm], measure)) for row in whole] for arm in whole[0]}
        for arm, values in columns.items():
            found[f"{arm}.{measure}"] = interval(values)
        for arm in columns:
            if arm != "shown":
                pairs = zip(columns["shown"], columns[arm], strict=True)
                found[f"gain_over_{arm}.{measure}"] = interval([now - then for now, then in pairs])
    return found


@dataclass(frozen=True, slots=True)
class AdapterPlan:
    """How many cases there are of what."""

    cases: int
    """*all*: any single thing of a scene, drawn by lot."""
    search: int
    """Scenes that are drawn to find things that the prompt alone gets wrong."""
    wanted: int
    """*absent* (not there) and *miscoloured* (there, in another colour), each at most."""
    unnamed: int
    """*unnamed*: the prompt leaves the thing out."""
    zero: int
    """Pairs of pictures for λ = 0."""


async def adapter_figures(kept: KeptTeam, plan: AdapterPlan) -> dict[str, Any]:
    """``adapter.<set>.*`` for the sets of :class:`AdapterPlan` (see :func:`summary`), and
    ``adapter.zero.same``, the share of pictures that λ = 0 left as they were."""
    rows: dict[str, list[dict[str, Outcome]]] = {
        title: [] for title in ("all", "absent", "miscoloured", "unnamed")
    }
    same: list[bool] = []
    count = max(plan.cases, plan.search)
    for at in progress("adapter", range(count), count):
        case = subject(at)
        facts = kept.profile.form().facts(case.scene)
        target = held_out("adapter target", at).choice(case.alone)
        there = next(fact for fact in facts if fact.kind == "object" and fact.subject == target)
        if at < plan.cases:
            rows["all"].append(await _outcomes(kept, case, there))
        if at < plan.unnamed:
            arms = ("prompt", "shown")
            rows["unnamed"].append(await _outcomes(kept, case, there, arms, unnamed=True))
        if at < plan.zero:
            requests = [await _request(kept, case, target, arm) for arm in ("prompt", "zero")]
            plain, off = [await kept.draw(request) for request in requests]
            same.append(plain == off)
        full = min(len(rows["absent"]), len(rows["miscoloured"])) >= plan.wanted
        if at >= plan.search or full:
            continue
        denied = await _denied(kept, case)
        for title, kind in (("absent", "object"), ("miscoloured", "attribute")):
            goals = [fact for fact in denied if fact.kind == kind]
            if goals and len(rows[title]) < plan.wanted:
                goal = held_out(f"adapter {title}", at).choice(goals)
                rows[title].append(await _outcomes(kept, case, goal))
    figures: dict[str, Any] = {"weight": WEIGHT}
    for title, outcomes in rows.items():
        figures |= {f"{title}.{key}": value for key, value in summary(outcomes).items()}
    figures["zero.n"] = len(same)
    figures["zero.same"] = sum(same) / len(same) if same else 0.0
    return {f"adapter.{key}": value for key, value in figures.items()}
