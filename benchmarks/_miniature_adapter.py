"""What a reference adds: how often a thing appears with a picture of it, and without.

Every case is drawn with the same prompt and seed in several arms, so the arms are compared
case by case:

- ``prompt``: the full prompt alone;
- ``shown``: with a painted reference that shows the thing where the prompt puts it;
- ``unrelated``: with a reference that shows, in the same place, a kind that nobody asked for;
- ``zero``: ``shown`` with λ = 0, which must be the very picture of ``prompt``.

A thing counts as missing without a reference if both panels say so. It may then return by any
change of the picture, and a judge's slip may not be repeated; so ``unrelated``, not ``prompt``, is
the arm that missing things are to be compared with.
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
from scenewright.agents.composer import setting_of
from scenewright.graphs.state import LoopOptions
from scenewright.miniature.painter import Painting, render
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import COLORS, KINDS, SETTINGS
from scenewright.placement import Cell, place_what_fits
from scenewright.questions import facts_of, object_fact_id
from scenewright.scene import Attributes, SceneGraph, SceneObject
from scenewright.tools.backends.base import GenerationRequest, Reference

WEIGHT = LoopOptions().weight_missing
"""λ of the reference: that of a run."""
ARMS = ("prompt", "shown", "unrelated")
_SETTING_OF_WORDS = {words: name for name, words in SETTINGS.items()}


@dataclass(frozen=True, slots=True)
class Subject:
    """A scene that is drawn in several arms."""

    at: int
    """Number of the case: its seed."""
    scene: SceneGraph
    """What is asked: 4–6 objects with their colours."""
    cells: dict[str, Cell]
    """Where the prompt puts them."""
    alone: tuple[str, ...]
    """Ids of the objects that are the only one of their kind."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the report judges say of one arm of one case."""

    appears: bool | None
    """Whether the thing is there; None: not scored."""
    facts: float | None
    """Share of all the scene's facts that hold."""


def subject(at: int) -> Subject:
    """Held-out case ``at``; all of its relations fit on the grid."""
    rng = held_out("adapter", at)
    while True:
        scene = sample_painting(rng, rng.randint(4, 6)).scene
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
    prompt = await kept.team.composer.compose(said, case.at, within=case.scene)
    references: tuple[Reference, ...] = ()
    if arm != "prompt":
        image = kept.images.put(reference_of(case, target, arm == "unrelated").image)
        references = (Reference(image=image, weight=0.0 if arm == "zero" else WEIGHT),)
    return GenerationRequest(prompt=prompt, seed=case.at, references=references)


async def _outcome(
    kept: KeptTeam, case: Subject, target: str, arm: str, unnamed: bool = False
) -> Outcome:
    image = await kept.draw(await _request(kept, case, target, arm, unnamed))
    card = await kept.card(image, facts_of(case.scene, kept.profile.protocol), "report")
    states = {verdict.fact_id: verdict.state for verdict in card.verdicts}
    state = states[object_fact_id(target)]
    return Outcome(None if state == "unscored" else state == "yes", card.fact_recall)


async def _absent(kept: KeptTeam, case: Subject) -> list[str]:
    """The single things that both panels miss in the picture of the prompt alone."""
    image = await kept.draw(await _request(kept, case, case.alone[0], "prompt"))
    missed = list(case.alone)
    for role in ROLES:
        card = await kept.card(image, facts_of(case.scene, kept.profile.protocol), role)
        states = {verdict.fact_id: verdict.state for verdict in card.verdicts}
        missed = [target for target in missed if states[object_fact_id(target)] == "no"]
    return missed


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


async def adapter_figures(
    kept: KeptTeam, cases: int, search: int, wanted: int, unnamed: int, zero: int
) -> dict[str, Any]:
    """``adapter.all.*``, ``.absent.*``, ``.unnamed.*`` (see :func:`summary`), ``.zero.same``.

    ``cases`` for *all* (any single thing of the scene, drawn by lot), ``search`` scenes to find
    ``wanted`` *absent* ones in, ``unnamed`` cases whose prompt leaves the thing out, and
    ``zero`` pairs of pictures for λ = 0.
    """
    every: list[dict[str, Outcome]] = []
    missing: list[dict[str, Outcome]] = []
    silent: list[dict[str, Outcome]] = []
    same: list[bool] = []
    count = max(cases, search)
    for at in progress("adapter", range(count), count):
        case = subject(at)
        target = held_out("adapter target", at).choice(case.alone)
        if at < cases:
            every.append({arm: await _outcome(kept, case, target, arm) for arm in ARMS})
        if at < unnamed:
            arms = ("prompt", "shown")
            silent.append({arm: await _outcome(kept, case, target, arm, True) for arm in arms})
        if at < zero:
            plain, off = [
                await kept.draw(await _request(kept, case, target, arm))
                for arm in ("prompt", "zero")
            ]
            same.append(plain == off)
        if at < search and len(missing) < wanted:
            absent = await _absent(kept, case)
            if absent:
                chosen = held_out("adapter absent", at).choice(absent)
                missing.append({arm: await _outcome(kept, case, chosen, arm) for arm in ARMS})
    figures: dict[str, Any] = {"weight": WEIGHT}
    for title, rows in (("all", every), ("absent", missing), ("unnamed", silent)):
        figures |= {f"{title}.{key}": value for key, value in summary(rows).items()}
    figures["zero.n"] = len(same)
    figures["zero.same"] = sum(same) / len(same) if same else 0.0
    return {f"adapter.{key}": value for key, value in figures.items()}
