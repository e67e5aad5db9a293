"""Self-reports of an evaluation: judges whose models also steered the loops they judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scenewright.agents.panel.independence import identity_of_judge
from scenewright.config.accounts import AccountSpec
from scenewright.config.model_identity import (
    ModelIdentity,
    doubled_names,
    identity_of_served,
    identity_of_spec,
    shared_names,
)
from scenewright.core.ports.judge import Judge
from scenewright.evals.metrics.base import judges_of
from scenewright.evals.runner.config import Arm
from scenewright.evals.runner.drawing import ImageGenerator
from scenewright.evals.runner.model_setup import EvalModels

SELF_REPORTS = "self_reports"
"""Key of a manifest: panel, or ``metric NAME``, → arm → models that steered the arm's loops and
judge its pictures."""
METRIC = "metric "
"""Prefix of a metric that asks judges by itself, among names of panels."""


def self_reports_of(eval_models: EvalModels, accounts: Mapping[str, AccountSpec]) -> dict[str, Any]:
    """Return panel or ``metric NAME`` → arm → models on both sides, for the manifest.

    Empty where all are apart.

    May read the weights of local models, which takes seconds.
    """
    found: dict[str, dict[str, list[str]]] = {}
    reporting = {judge_panel.name: judge_panel.judges for judge_panel in eval_models.judge_panels}
    reporting |= {f"{METRIC}{metric.name}": judges_of(metric) for metric in eval_models.metrics}
    for name, looking in reporting.items():
        judges = [identity_of_judge(judge, accounts) for judge in looking]
        for arm in eval_models.arms:
            generator = eval_models.generators[arm.name]
            if generator is None or not arm.loops:
                continue
            steers = [identity_of_judge(judge, accounts) for judge in generator.judges]
            steers += directors((arm,), accounts)
            if shared := shared_names(steers, judges):
                found.setdefault(name, {})[arm.name] = list(shared)
    return found


def served_self_reports(
    manifest: Mapping[str, Any],
    steering: Mapping[str, Mapping[str, Iterable[str]]],
    panels: Mapping[str, Mapping[str, Iterable[str]]],
    accounts: Mapping[str, AccountSpec],
) -> dict[str, dict[str, list[str]]]:
    """Return panel or ``metric NAME`` → arm → models that steered and judged.

    They are those known by name from ``manifest`` and those that the replies name. ``steering``:
    arm → judge or director → names in its replies; ``panels``: the same of panels and their judges.
    """
    found = {
        panel: {arm: list(names) for arm, names in arms.items()}
        for panel, arms in told_self_reports(manifest).items()
    }
    for panel, judges in panels.items():
        reports = _served_identities(judges, accounts)
        for arm, steers in steering.items():
            if shared := shared_names(_served_identities(steers, accounts), reports):
                known = found.setdefault(panel, {}).setdefault(arm, [])
                known += [name for name in shared if name not in known]
    return found


def served_doubles(
    panels: Mapping[str, Mapping[str, Iterable[str]]], accounts: Mapping[str, AccountSpec]
) -> dict[str, list[str]]:
    """Return panel → models that answered under two ids of it, so that their votes count double."""
    found = {
        panel: list(doubled_names(_served_identities(judges, accounts)))
        for panel, judges in panels.items()
    }
    return {panel: names for panel, names in found.items() if names}


def _served_identities(
    judges: Mapping[str, Iterable[str]], accounts: Mapping[str, AccountSpec]
) -> list[ModelIdentity]:
    """Return the identities of judges, by the names in their replies and by the requested ones."""
    found = []
    for id_, served in judges.items():
        named, asked = identity_of_spec(id_), identity_of_spec(id_, accounts)
        found += [asked] if asked is not None and asked.name else []
        for told in served:
            answered = identity_of_served(told)
            # A server that repeats the name it was asked by tells nothing more.
            if answered is not None and (named is None or answered.name != named.name):
                found.append(ModelIdentity(id_, answered.name))
    return found


def reporter(name: str) -> str:
    """Return ``the panel strong`` or ``the metric tifa``, of a key of :func:`self_reports_of`."""
    return f"the {name}" if name.startswith(METRIC) else f"the panel {name}"


def directors(
    arms: Iterable[Arm], accounts: Mapping[str, AccountSpec] | None
) -> list[ModelIdentity]:
    """Return the chat models that direct loops of ``arms``."""
    found = [arm.profile.identities(accounts)[2] for arm in arms if arm.loops]
    return [director for director in found if director is not None]


def self_report_notes(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each of :func:`told_self_reports`."""
    return tuple(
        f"Self-report: {', '.join(models)} of {reporter(name)} steered the loop of {arm}; its "
        "scores there are too good."
        for name, steered in told_self_reports(manifest).items()
        for arm, models in steered.items()
    )


def steering_of(
    arm: Arm, generator: ImageGenerator | None, accounts: Mapping[str, AccountSpec]
) -> list[dict[str, str]]:
    """Return the models that steered a drawing of ``arm`` as data.

    They are the judges of its loop, and the language model that directs it.
    """
    judges = () if generator is None else generator.judges
    found = [{"id": judge.id, "fingerprint": judge.fingerprint} for judge in judges]
    return found + [
        {"id": one.spec, "fingerprint": "", "model": one.name}
        for one in directors((arm,), accounts)
    ]


def shared_judges(
    steering: Sequence[Mapping[str, Any]],
    judges: Sequence[Judge],
    accounts: Mapping[str, AccountSpec],
) -> list[str]:
    """Return ids of ``judges`` whose models are among those of :func:`steering_of`.

    May read the weights of local models, which takes seconds.
    """
    steers = identities_listed(steering)
    return [
        judge.id for judge in judges if shared_names(steers, [identity_of_judge(judge, accounts)])
    ]


def told_self_reports(manifest: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the self-reports in a manifest.

    A manifest without them is compared by its models.
    """
    told = manifest.get(SELF_REPORTS)
    if isinstance(told, Mapping):
        return {
            str(panel): {str(arm): tuple(map(str, names)) for arm, names in arms.items()}
            for panel, arms in told.items()
            if isinstance(arms, Mapping)
        }
    models = manifest.get("models")
    panels, arms = ((models or {}).get(key) or {} for key in ("panels", "arms"))
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for panel, judges in panels.items():
        for arm, drawn in arms.items():
            if shared := shared_names(
                identities_listed(drawn.get("judges")), identities_listed(judges)
            ):
                found.setdefault(str(panel), {})[str(arm)] = shared
    return found


def identities_listed(models: Any) -> list[ModelIdentity]:
    """Return the identities of models that are listed as data.

    Each has an id, the fingerprint of a judge, and ``model``, its name, where the id does not have
    it.
    """
    found = []
    for model in models if isinstance(models, list | tuple) else ():
        named = identity_of_spec(str(model.get("id") or ""))
        name = "" if named is None else named.name
        name = str(model.get("model") or name)
        mark = str(model.get("fingerprint") or "")
        found.append(ModelIdentity(str(model.get("id") or ""), name, fingerprint=mark))
    return found
