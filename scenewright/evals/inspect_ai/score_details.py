"""What a score says in words and as data: facts, verdicts and answers, for people and for logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from scenewright.core.facts import Fact, State, Verdict
from scenewright.evals.metrics.base import MetricScore
from scenewright.evals.runner.judging import PanelJudgement, ToolCallSource

_MARKS = {"yes": "✓", "no": "✗", "void": "–", "unscored": "?"}


def explanation(
    name: str, found: MetricScore, facts: Sequence[Fact], verdicts: Sequence[Verdict]
) -> str:
    """The score and its parts, then one line a fact: ✓ holds, ✗ does not, – not asked, ?
    unscored; in Markdown."""
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    lines = [_headline(name, found)]
    if verdicts:
        lines += ["", counted(verdicts), ""]
    for fact in facts:
        verdict = by_id.get(fact.id)
        if verdict is not None:
            lines.append(f"- {_line(fact, verdict)}")
    return "\n".join(lines)


def _headline(name: str, found: MetricScore) -> str:
    if found.value is None:
        return f"{name} unscored: {found.reason}"
    parts = ", ".join(
        f"{part} {'–' if value is None else f'{value:.3f}'}" for part, value in found.parts.items()
    )
    return f"{name} {found.value:.3f}{f' ({parts})' if parts else ''}"


def counted(verdicts: Sequence[Verdict]) -> str:
    """How many facts hold, do not, were not asked and are open, in words."""
    count = Counter(verdict.state for verdict in verdicts)
    rest: dict[State, str] = {"no": "do not", "void": "not asked", "unscored": "unscored"}
    said = [f"{count['yes']} of {len(verdicts)} facts hold"]
    said += [f"{count[state]} {words}" for state, words in rest.items() if count[state]]
    return ", ".join(said)


def _line(fact: Fact, verdict: Verdict) -> str:
    said = f"{_MARKS[verdict.state]} {fact.statement}"
    if verdict.probability is not None:
        return f"{said} (probability {verdict.probability:.2f})"
    return f"{said} ({verdict.reason})" if verdict.reason else said


def verdict_rows(facts: Sequence[Fact], judged: PanelJudgement | None) -> list[dict[str, Any]]:
    """One row a fact of what the panel says of it."""
    if judged is None:
        return []
    by_id = {verdict.fact_id: verdict for verdict in judged.card.verdicts}
    shown = {"state", "probability", "disagreement", "reason"}
    return [
        {
            "fact": fact.id,
            "kind": fact.kind,
            "statement": fact.statement,
            "question": fact.question,
            **by_id[fact.id].model_dump(mode="json", include=shown),
        }
        for fact in facts
    ]


def answer_rows(judged: PanelJudgement | None) -> list[dict[str, Any]]:
    """One row a judge and fact of what was answered, with what it cost."""
    if judged is None:
        return []
    return [
        {"judge": judge, **answer.model_dump(mode="json", exclude={"judge_id"})}
        for judge, answers in judged.answers.items()
        for answer in answers
    ]


def panel_metadata(judge_panel: ToolCallSource | None) -> dict[str, Any] | None:
    """Who judged, with the fingerprints of the judges."""
    if judge_panel is None:
        return None
    judges = [{"id": judge.id, "fingerprint": judge.fingerprint} for judge in judge_panel.judges]
    panel = judge_panel.panel
    return {"judges": judges, "aggregation": panel.aggregation, "quorum": panel.quorum}


def part_of(found: MetricScore, name: str, part: str) -> MetricScore:
    """The score, or that ``part`` of it; a part that is not there is unscored with the reason."""
    if not part:
        return found
    if part in found.parts:
        value = found.parts[part]
        reason = found.reason or f"{name} has no value of its part {part!r} for this picture"
        return found.model_copy(
            update={
                "value": value,
                "reason": reason if value is None or found.unscored else "",
            }
        )
    if found.value is None:
        return found
    known = ", ".join(found.parts) or "none"
    return MetricScore(value=None, reason=f"{name} has no part {part!r}: it has {known}")
