"""What is compared: an arm of an evaluation over all its seeds, or one seed of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from scenewright.evals.reporting.about import About, about
from scenewright.evals.reporting.errors import ChoiceError
from scenewright.evals.reporting.score_matrix import ScoreMatrix, batches, load_score_matrix
from scenewright.evals.store.results import MANIFEST, Results


@dataclass(frozen=True, slots=True)
class Opened:
    """An evaluation that is read."""

    folder: Path
    about: About
    score_matrix: ScoreMatrix
    manifest: dict[str, object]
    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Panel → prompts of its answers, as ``id@version#hash``."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    label: str
    """As tables name it: the arm, with the evaluation's name before it where there are several."""
    arm: str
    """``backend/condition`` or ``backend/condition/seed``."""
    evaluation: Opened
    """Where it is from."""
    arms: tuple[int, ...]
    """Numbers of its arms on the board, one a seed."""

    @property
    def seeds(self) -> dict[int, int]:
        """Seed → number of its arm on the board."""
        return {self.evaluation.score_matrix.arms[at].seed: at for at in self.arms}


def open_sides(selectors: Sequence[str]) -> list[list[Side]]:
    """The sides that each selector names: ``FOLDER``, ``FOLDER:BACKEND/CONDITION`` or
    ``FOLDER:BACKEND/CONDITION/SEED``.

    A folder alone names all its arms, each over all its seeds. A folder is read once however
    often it is named. Raises ``ChoiceError`` for what is not there.
    """
    opened: dict[Path, Opened] = {}
    chosen: list[tuple[Opened, str]] = []
    for selector in selectors:
        folder, arm = _split(selector)
        place = folder.resolve()
        if place not in opened:
            results = Results(folder)
            opened[place] = Opened(
                folder,
                about(results),
                load_score_matrix(results),
                results.manifest,
                _asked(results),
            )
        chosen.append((opened[place], arm))
    titles = _titles(list(opened.values()))
    return [_sides(evaluation, arm, titles) for evaluation, arm in chosen]


def pairs_of(groups: Sequence[Sequence[Side]], first_only: bool = False) -> list[tuple[Side, Side]]:
    """Which sides are compared, each pair as (before, after).

    Where every selector names one side, or there is one evaluation: each with each. Otherwise arms
    of the same name in different evaluations. ``first_only`` keeps those pairs whose earlier side
    is the first of all (of its name). Raises ``ChoiceError`` if there is no pair.
    """
    sides: list[Side] = []
    for group in groups:
        sides.extend(side for side in group if side not in sides)
    folders = {id(side.evaluation) for side in sides}
    by_name = len(folders) > 1 and any(len(group) > 1 for group in groups)
    pairs = [
        (a, b)
        for at, a in enumerate(sides)
        for b in sides[at + 1 :]
        if not by_name or (a.arm == b.arm and a.evaluation is not b.evaluation)
    ]
    if first_only:
        firsts = {side.arm: side for side in reversed(sides)} if by_name else {}
        pairs = [(a, b) for a, b in pairs if (firsts[a.arm] if by_name else sides[0]) is a]
    if not pairs:
        named = ", ".join(sorted({side.arm for side in sides})) or "none"
        raise ChoiceError(
            f"there is nothing to compare: the arms are {named}. Name two of them, for example "
            "FOLDER:BACKEND/CONDITION OTHER:BACKEND/CONDITION"
            if by_name or len(sides) != 1
            else f"there is one arm, {named}: name another evaluation or an evaluation of two arms"
        )
    return pairs


def _split(selector: str) -> tuple[Path, str]:
    """Folder and arm; a folder whose name has a colon stays whole."""
    if (Path(selector) / MANIFEST).exists() or ":" not in selector:
        return Path(selector), ""
    folder, _, arm = selector.rpartition(":")
    return Path(folder), arm


def _asked(results: Results) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for batch in batches(results, "answers", ["panel", "prompt_id"]):
        table = pa.Table.from_batches([batch]).group_by(["panel", "prompt_id"]).aggregate([])
        for row in table.to_pylist():
            if row["prompt_id"]:
                found.setdefault(row["panel"] or "", set()).add(row["prompt_id"])
    return {panel: tuple(sorted(prompts)) for panel, prompts in found.items()}


def _titles(evaluations: Sequence[Opened]) -> dict[int, str]:
    """What tells evaluations apart in labels; empty where there is one."""
    if len(evaluations) == 1:
        return {id(evaluations[0]): ""}
    names = [evaluation.about.name for evaluation in evaluations]
    if len(set(names)) < len(names):
        names = [evaluation.folder.resolve().name for evaluation in evaluations]
    if len(set(names)) < len(names):
        names = [str(evaluation.folder) for evaluation in evaluations]
    return {id(e): name for e, name in zip(evaluations, names, strict=True)}


def _sides(evaluation: Opened, arm: str, titles: dict[int, str]) -> list[Side]:
    score_matrix = evaluation.score_matrix
    known: dict[str, tuple[int, ...]] = {way: tuple(at) for way, at in score_matrix.ways.items()}
    if arm:
        known |= {each.name: (at,) for at, each in enumerate(score_matrix.arms)}
        if arm not in known:
            raise ChoiceError(
                f"{evaluation.folder} has no arm {arm!r}: "
                f"use one of {', '.join(score_matrix.ways) or '–'}"
            )
        known = {arm: known[arm]}
    if not known:
        raise ChoiceError(f"{evaluation.folder} has no finished pictures: run it first")
    title = titles[id(evaluation)]
    return [
        Side(f"{title}:{name}" if title else name, name, evaluation, arms)
        for name, arms in known.items()
    ]
