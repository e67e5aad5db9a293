"""Opened evaluations: their manifests, and the arms or seeds of them that are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from scenewright.core.validation import mapping_of
from scenewright.evals.reporting.pages import ChoiceError
from scenewright.evals.reporting.score_matrix import ScoreMatrix, batches, load_score_matrix
from scenewright.evals.runner.dataset_predicates import told_of
from scenewright.evals.runner.independence import told_self_reports
from scenewright.evals.runner.served_versions import told_labels, told_versions, version_notes
from scenewright.evals.runner.weighing import WEIGHED, weighing_notes
from scenewright.evals.store.results import MANIFEST, Results


@dataclass(frozen=True, slots=True)
class About:
    """An evaluation as its manifest describes it; missing parts are empty."""

    name: str
    text: str
    dataset: str
    """Name of its set."""
    source: str
    """Where the set comes from."""
    licence: str
    """The set's licence, as its makers name it."""
    fingerprint: str
    """Digest of the set, which changes whenever an item could."""
    config: Mapping[str, Any]
    """Its whole configuration."""
    backends: Mapping[str, str]
    """Id of what drew → fingerprint."""
    panels: Mapping[str, Mapping[str, str]]
    """Panel → judge → fingerprint; ``PANEL@VERSION`` beside PANEL, where looks stand apart."""
    judges: Mapping[str, str]
    """Judge → fingerprint."""
    prompts: Mapping[str, str]
    """Prompt → hash."""
    versions: Mapping[str, str]
    """Package → version."""
    totals: Mapping[str, float]
    """Totals such as images, answers, tokens_in, tokens_out, usd."""
    left_out: Mapping[str, Any] = field(default_factory=dict)
    """Why entries of the set were left out → how many."""
    self_reports: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Panel → arm → models that steered the arm's loops and judge its pictures."""
    predicates: str = ""
    """Where the wrong options of relation questions come from, in a sentence."""
    model_changes: tuple[str, ...] = ()
    """A sentence for each judge that was served by several versions."""
    weighed: tuple[str, ...] = ()
    """A sentence for each panel whose judges are weighed by their agreement."""
    weights: Mapping[str, Any] = field(default_factory=dict)
    """Panel → its weights by agreement; None with too few answers."""
    served: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Panel → judge → versions that answered, sorted; judges that tell none are left out."""
    created: str = ""
    """When it began, in ISO 8601."""
    finished: str = ""
    """When it ended; empty if it has not."""

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a field of the configuration."""
        return self.config.get(name, default)


def about(results: Results) -> About:
    """Return the description in the manifest of ``results``."""
    manifest = results.manifest
    config = mapping_of(manifest.get("config"))
    models = mapping_of(manifest.get("models"))
    dataset = mapping_of(manifest.get("dataset"))
    panels = {
        str(panel): _fingerprints(judges)
        for panel, judges in mapping_of(models.get("panels")).items()
    }
    labels = told_labels(manifest)
    panels |= {label: panels.get(panel, {}) for label, (panel, _) in labels.items()}
    backends = [mapping_of(arm).get("backend") for arm in mapping_of(models.get("arms")).values()]
    return About(
        name=str(manifest.get("name") or results.folder.name),
        text=str(config.get("about") or ""),
        dataset=str(dataset.get("name") or ""),
        source=str(dataset.get("source") or ""),
        licence=str(dataset.get("licence") or ""),
        fingerprint=str(dataset.get("fingerprint") or ""),
        config=config,
        backends=_fingerprints(backends),
        panels=panels,
        judges={judge: mark for judges in panels.values() for judge, mark in judges.items()},
        prompts=_texts(manifest.get("prompts")),
        versions=_texts(manifest.get("versions")),
        totals={
            str(k): float(v)
            for k, v in mapping_of(manifest.get("totals")).items()
            if isinstance(v, int | float) and not isinstance(v, bool)
        },
        left_out=mapping_of(manifest.get("left_out")),
        self_reports=told_self_reports(manifest),
        predicates=told_of(manifest),
        model_changes=version_notes(manifest),
        weighed=weighing_notes(manifest),
        weights=mapping_of(manifest.get(WEIGHED)),
        served=_served(panels, manifest),
        created=str(manifest.get("created") or ""),
        finished=str(manifest.get("finished") or ""),
    )


def _served(
    panels: Mapping[str, Mapping[str, str]], manifest: Mapping[str, Any]
) -> dict[str, dict[str, tuple[str, ...]]]:
    versions = {
        judge: tuple(sorted(one.version for one in told))
        for judge, told in told_versions(manifest).items()
    }
    found = {
        panel: {judge: versions[judge] for judge in judges if judge in versions}
        for panel, judges in panels.items()
    }
    for label, (_, apart) in told_labels(manifest).items():
        found[label] |= {judge: (version,) for judge, version in apart.items()}
    return found


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(entry) for key, entry in mapping_of(value).items()}


def _fingerprints(models: Any) -> dict[str, str]:
    """Return the fingerprints of a list of models by id."""
    listed = models if isinstance(models, list) else []
    return {
        str(model["id"]): str(model.get("fingerprint") or "")
        for model in listed
        if isinstance(model, Mapping) and "id" in model
    }


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened evaluation."""

    folder: Path
    about: About
    score_matrix: ScoreMatrix
    manifest: dict[str, object]
    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Panel → prompts of its answers, as ``id@version#hash``."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: an arm over its seeds, or one seed."""

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
        """Return the number of the arm on the board by seed."""
        return {self.evaluation.score_matrix.arms[at].seed: at for at in self.arms}


def open_sides(selectors: Sequence[str]) -> list[list[Side]]:
    """Return the sides that each selector names.

    A selector is ``FOLDER``, ``FOLDER:BACKEND/CONDITION`` or ``FOLDER:BACKEND/CONDITION/SEED``. A
    folder alone names all its arms, each over all its seeds. Each folder is read once. Raises
    ``ChoiceError`` for an arm that does not exist.
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
    """Return the sides to compare, each pair as (before, after).

    If every selector names one side, or there is one evaluation, each is compared with each.
    Otherwise arms of the same name in different evaluations are. ``first_only`` keeps the pairs
    whose earlier side is the first of all (of its name). Raises ``ChoiceError`` if there is no
    pair.
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
            f"nothing to compare: the arms are {named}. Name two of them, for example "
            "FOLDER:BACKEND/CONDITION OTHER:BACKEND/CONDITION"
            if by_name or len(sides) != 1
            else f"there is one arm, {named}: name another evaluation or an evaluation of two arms"
        )
    return pairs


def _split(selector: str) -> tuple[Path, str]:
    """Return folder and arm; a folder whose name has a colon stays whole."""
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
    """Return the parts of labels that distinguish evaluations; empty if there is one."""
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
