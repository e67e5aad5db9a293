"""Answers and verdicts as rows of an evaluation's tables, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scenewright.evals.export import as_text
from scenewright.facts import Answer, Verdict

_ANSWER = (
    *("state", "choice", "probability", "distribution", "method", "rationale", "reason"),
    *("tokens_in", "tokens_out", "tokens_cached", "seconds", "usd", "model", "prompt_id"),
)
_VERDICT = ("state", "probability", "rival", "rival_probability", "disagreement", "reason")


def answer_row(answer: Answer) -> dict[str, Any]:
    """Columns of an answer, without the names of judge and fact."""
    row = answer.model_dump(mode="json", include=set(_ANSWER))
    shares = answer.distribution
    return row | {"distribution": None if shares is None else as_text(shares)}


def answer_of(row: Mapping[str, Any]) -> Answer:
    """The answer in a row, of an earlier version or with only some columns too."""
    found = {name: row[name] for name in _ANSWER if row.get(name) is not None}
    if "distribution" in found:
        found["distribution"] = json.loads(found["distribution"])
    if found["state"] == "unscored":
        found.setdefault("reason", "no reason given")
    return Answer.model_validate({"fact_id": row["fact"], "judge_id": row["judge"]} | found)


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """Columns of a verdict, without the name of its fact."""
    return verdict.model_dump(mode="json", include=set(_VERDICT))


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """The verdict in a row, of an earlier version too."""
    found = {name: row[name] for name in _VERDICT if row.get(name) is not None}
    return Verdict.model_validate({"fact_id": row["fact"]} | found)
