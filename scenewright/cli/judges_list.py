"""``scenewright judges list``: what can judge here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scenewright.cli.console import describe
from scenewright.cli.judges_task import embedded, run_and_free

if TYPE_CHECKING:
    from scenewright.config.accounts import AccountSpec
    from scenewright.core.ports.judge import Judge


def known_judges() -> list[dict[str, str]]:
    """The embedded judges, the kinds, the accounts, and the judges that profiles name."""
    from scenewright.agents.judges.decisions.hosts import host_of
    from scenewright.agents.judges.decisions.models import deciding
    from scenewright.config.accounts import BUILT_IN_ACCOUNTS, DECISION_ACCOUNTS, DECISION_HOSTS
    from scenewright.config.settings import load_profiles, load_settings

    settings = load_settings()
    rows = [_row(spec, "comes with scenewright") for spec in embedded()]
    for profile in load_profiles(settings).values():
        known = {row["judge"] for row in rows}
        for spec in (*profile.judges, *profile.report_judges):
            if spec not in known:
                rows.append(_row(spec, f"in the profile {profile.name}"))
        for spec in (*profile.realism_judges, *profile.realism_report_judges):
            if spec not in known:
                rows.append(_row(spec, f"of realism, in the profile {profile.name}"))
    rows += [
        _row("local:MODEL", "a vision-language model: a folder, or a hub repository owner/name"),
        _row(
            "replay:FILE", "recorded answers, CSV or parquet; replay:FILE#JUDGE takes one of many"
        ),
        _row("olip:MODEL", "trained heads for the realism of objects: a folder or owner/name"),
        _row("decision:local/MODEL", "a vision-language model or a decision model, as local:MODEL"),
    ]
    for name, account in {**BUILT_IN_ACCOUNTS, **settings.accounts}.items():
        if account.provider not in DECISION_HOSTS:
            about = f"a model over the API of {account.provider}"
            rows.append(_row(f"{name}:MODEL", about, _note(account)))
    for name, account in {**BUILT_IN_ACCOUNTS, **DECISION_ACCOUNTS, **settings.accounts}.items():
        maker = account.decisions_of
        if maker in deciding():
            about = f"a decision model over the API of {maker}"
            if maker in DECISION_HOSTS:
                host = host_of(maker, account.host_settings)
                about = f"a decision model of {host.title} at {account.base_url or host.base_url}"
            rows.append(_row(f"decision:{name}/MODEL", about, _note(account)))
    return rows


def looked_at(specs: Sequence[str]) -> list[dict[str, Any]]:
    """What the judges of ``specs`` can do, or why they cannot be used; nothing is asked."""
    from scenewright.config.settings import load_settings
    from scenewright.runs.model_factory.profiles import judge_of

    settings = load_settings()

    async def look() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for spec in specs:
            try:
                judge = judge_of(spec, settings=settings)
                fingerprint = judge.fingerprint
            except Exception as error:
                rows.append({"judge": spec, "problem": describe(error)[0]})
                continue
            rows.append({"judge": judge.id, "fingerprint": fingerprint, "caps": _caps_words(judge)})
        return rows

    return run_and_free(look())


def _note(account: AccountSpec) -> str:
    from scenewright.config.accounts import OWN_HOSTS

    if account.key() is None:
        return f"set {' or '.join(account.key_variables)}"
    # Whether a server of one's own runs is not known without asking it.
    return "" if account.provider in OWN_HOSTS else "ready"


def _row(judge: str, about: str, note: str = "") -> dict[str, str]:
    return {"judge": judge, "about": about, "note": note}


def _caps_words(judge: Judge) -> str:
    """What a judge can do, in words."""
    caps = judge.caps
    words = [
        f"probability by {caps.probability}",
        f"{caps.facts_per_call} facts a call",
        f"images up to {caps.max_side} px",
        "on this machine" if caps.local else "over the network",
    ]
    if caps.kinds is not None:
        words.insert(0, f"facts of {', '.join(sorted(caps.kinds))} only")
    if caps.vocabulary is not None and caps.vocabulary.classes is not None:
        words.append(f"knows {len(caps.vocabulary.classes)} classes and leaves others unscored")
    if loading := getattr(judge, "loading", ""):
        words.append(loading)
    if caps.structured != "none":
        words.append(f"answers by {caps.structured}")
    if caps.sampling:
        words.append(f"takes {', '.join(caps.sampling)}")
    return "; ".join(words)
