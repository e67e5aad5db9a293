"""What a manifest says of its evaluation: settings, models, prompts, versions, costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scenewright.evals.runner.dataset_predicates import told_of
from scenewright.evals.runner.independence import told_self_reports
from scenewright.evals.runner.served_versions import told_labels, told_versions, version_notes
from scenewright.evals.store.results import Results


@dataclass(frozen=True, slots=True)
class About:
    """An evaluation as its manifest tells of it; what the manifest lacks is empty."""

    name: str
    """How it is called."""
    text: str
    """One sentence."""
    dataset: str
    """Name of its set."""
    source: str
    """Where the set comes from."""
    licence: str
    """The set's licence, as its makers name it."""
    fingerprint: str
    """What its set was: another one if an item could be another."""
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
    """What it took, for example images, answers, tokens_in, tokens_out, usd."""
    left_out: Mapping[str, Any] = field(default_factory=dict)
    """Why entries of the set were left out → how many."""
    self_reports: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Panel → arm → models that steered the arm's loops and judge its pictures."""
    predicates: str = ""
    """Where the wrong options of relation questions come from, in a sentence."""
    model_changes: tuple[str, ...] = ()
    """A sentence for each judge that was served by several versions."""
    served: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Panel → judge → versions that answered, sorted; judges that tell none are left out."""
    created: str = ""
    """When it began."""
    finished: str = ""
    """When it ended; empty if it has not."""

    def setting(self, name: str, default: Any = None) -> Any:
        """A field of the configuration."""
        return self.config.get(name, default)


def about(results: Results) -> About:
    """What the manifest of ``results`` says."""
    manifest = results.manifest
    config = _mapping(manifest.get("config"))
    models = _mapping(manifest.get("models"))
    dataset = _mapping(manifest.get("dataset"))
    panels = {
        str(panel): _fingerprints(judges)
        for panel, judges in _mapping(models.get("panels")).items()
    }
    labels = told_labels(manifest)
    panels |= {label: panels.get(panel, {}) for label, (panel, _) in labels.items()}
    backends = [_mapping(arm).get("backend") for arm in _mapping(models.get("arms")).values()]
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
            for k, v in _mapping(manifest.get("totals")).items()
            if isinstance(v, int | float) and not isinstance(v, bool)
        },
        left_out=_mapping(manifest.get("left_out")),
        self_reports=told_self_reports(manifest),
        predicates=told_of(manifest),
        model_changes=version_notes(manifest),
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


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(entry) for key, entry in _mapping(value).items()}


def _fingerprints(models: Any) -> dict[str, str]:
    """Id → fingerprint of a list of models, each once."""
    listed = models if isinstance(models, list) else []
    return {
        str(model["id"]): str(model.get("fingerprint") or "")
        for model in listed
        if isinstance(model, Mapping) and "id" in model
    }
