"""One item as the browser shows it: an entry of the index, and its details."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph
from scenewright.evals.reporting.buckets import Gathered, Row
from scenewright.evals.reporting.flags import flags_of, label_of
from scenewright.evals.reporting.tally import Tally
from scenewright.runs.report.graph import Mark, draw_graph
from scenewright.runs.report.words import scene_words, shorten

MOST_DRAWN = 24
"""Objects up to which a scene is drawn as a graph; a larger one is told in words."""
TITLE = 220
"""Characters of an item's words in the index."""
_FACTS = TypeAdapter(list[Fact])


@dataclass(slots=True)
class Labels:
    """What facts that fail are about, numbered as they come."""

    numbers: dict[str, int] = field(default_factory=dict)
    """Label → its number."""
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(arm, panel, label) → verdicts."""

    def number(self, label: str) -> int:
        """The number of ``label``."""
        return self.numbers.setdefault(label, len(self.numbers))


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the entries of one evaluation."""

    arms: Sequence[str]
    panels: Sequence[str]
    thumb: Callable[[str], str]
    """Thumbnail of a picture by its content hash."""
    photo: Callable[[str], str]
    """Thumbnail of an original by its file."""
    tally: Tally
    labels: Labels

    def make(self, found: Gathered) -> tuple[dict[str, Any], dict[str, Any]]:
        """(what the index holds of the item, its details), as plain JSON."""
        item = found.item
        scene = _scene(item["scene"])
        facts = _facts(item["facts"], found.rows["verdicts"])
        known = {fact.id: fact for fact in facts}
        names = {each.id: each.name for each in scene.objects} if scene else {}
        order = {fact.id: at for at, fact in enumerate(facts)}
        drawn = _by(found.rows["rounds"], "arm")
        verdicts = _by(found.rows["verdicts"], "arm")
        answers = _by(found.rows["answers"], "arm")
        flags, failing, thumbs, arms = [], [], [], []
        for arm in self.arms:
            rounds = sorted(drawn.get(arm, []), key=lambda row: row["round"] or 0)
            self.tally.draw(arm, rounds)
            kept = next((row for row in rounds if row["kept"]), None)
            number = _judged_round(rounds, kept)
            failed = kept is None and any(row["state"] == "failed" for row in rounds)
            of_panels, bits, wrong = [], [], []
            for panel in self.panels:
                all_rows = [row for row in verdicts.get(arm, []) if row["panel"] == panel]
                rows = [row for row in all_rows if number is None or row["round"] == number]
                said = [row for row in answers.get(arm, []) if row["panel"] == panel]
                self.tally.answer(panel, said, all_rows)
                self.tally.decide(arm, panel, rows)
                bits.append(int(flags_of(rows, failed)))
                lacking = [label_of(known.get(r["fact"]), r, names) for r in rows
                           if r["state"] == "no"]  # fmt: skip
                self.labels.counts.update((arm, panel, label) for label in set(lacking))
                wrong.append(sorted({self.labels.number(label) for label in lacking}))
                said = [row for row in said if number is None or row["round"] == number]
                of_panels.append(_judged(rows, said, order))
            flags.append(bits)
            failing.append(wrong)
            shots = [_shot(row, self.thumb) for row in rounds]
            thumbs.append(next((s["thumb"] for s in shots if s["kept"]), ""))
            arms.append({"failed": failed, "rounds": shots, "panels": of_panels})
        words = scene_words(scene, TITLE) if scene else ""
        title = item["prompt"] or words
        photo = self.photo(item["original"] or "")
        entry = {
            "id": item["item"],
            "title": shorten(words or title, TITLE),
            "text": shorten(item["prompt"], TITLE) if words and not _same(title, words) else "",
            "flags": flags,
            "wrong": failing,
            "thumbs": thumbs,
            "photo": photo,
        }
        details = {
            "id": item["item"],
            "prompt": item["prompt"] or "",
            "words": scene_words(scene, 4000) if scene else "",
            "objects": item["objects"],
            "relations": item["relations"],
            "photo": photo,
            "graph": _graph(scene, facts),
            "facts": [[fact.id, fact.kind, fact.statement, fact.question] for fact in facts],
            "arms": arms,
        }
        return entry, details


def _same(a: str, b: str) -> bool:
    """Whether two texts have the same words."""
    return re.findall(r"\w+", a.lower()) == re.findall(r"\w+", b.lower())


def _judged_round(rounds: Sequence[Row], kept: Row | None) -> int | None:
    """The round of the kept picture: the first one, if the loop drew the same picture twice."""
    if kept is None:
        return None
    same = [row["round"] or 0 for row in rounds if row["image"] == kept["image"]]
    return min(same)


def _by(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _scene(text: str | None) -> SceneGraph | None:
    try:
        return SceneGraph.model_validate_json(text) if text else None
    except ValidationError:
        return None


def _facts(text: str | None, verdicts: Sequence[Row]) -> list[Fact]:
    """The facts of the item; those that only verdicts tell of come last."""
    try:
        found = _FACTS.validate_python(json.loads(text)) if text else []
    except ValueError:
        found = []
    known = {fact.id for fact in found}
    for row in verdicts:
        if row["fact"] in known or row["kind"] not in ("object", "attribute", "relation"):
            continue
        known.add(row["fact"])
        found.append(
            Fact(
                id=row["fact"],
                kind=row["kind"],
                subject="",
                statement=row["statement"] or row["fact"],
                question=row["question"] or "",
            )
        )
    return found


def _graph(scene: SceneGraph | None, facts: Sequence[Fact]) -> str:
    if scene is None or not scene.objects or len(scene.objects) > MOST_DRAWN:
        return ""
    marks = {fact.id: Mark("pending", fact.statement, fact=fact.id) for fact in facts}
    return draw_graph(scene, tuple(facts), marks, "Scene graph")


def _shot(row: Row, thumb: Callable[[str], str]) -> dict[str, Any]:
    return {
        "round": row["round"],
        "kept": bool(row["kept"]),
        "state": row["state"] or "",
        "reason": row["reason"] or "",
        "image": row["image"] or "",
        "thumb": thumb(row["image"] or ""),
        "prompt": row["prompt"] or "",
        "dropped": [row["tokens_dropped"] or 0, row["facts_dropped"] or 0],
        "strategy": row["strategy"] or "",
        "seconds": _short(row["seconds"]),
        "usd": _short(row["usd"], 6),
    }


def _judged(verdicts: Sequence[Row], answers: Sequence[Row], order: Mapping[str, int]) -> Any:
    """Verdicts as ``fact → [state, probability, disagreement, reason]``, and each fact's answers
    as ``[judge, state, choice, probability, method, rationale or reason]``."""
    return {
        "verdicts": {
            order[row["fact"]]: [
                row["state"], _short(row["probability"]), _short(row["disagreement"]),
                row["reason"] or "",
            ]
            for row in verdicts
            if row["fact"] in order
        },
        "answers": _listed(answers, order),
    }  # fmt: skip


def _listed(answers: Sequence[Row], order: Mapping[str, int]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row in sorted(answers, key=lambda each: each["judge"] or ""):
        if row["fact"] in order:
            found.setdefault(order[row["fact"]], []).append(
                [row["judge"], row["state"], row["choice"] or "", _short(row["probability"]),
                 row["method"] or "", row["reason"] or row["rationale"] or ""]
            )  # fmt: skip
    return found


def _short(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
