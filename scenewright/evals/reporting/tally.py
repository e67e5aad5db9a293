"""What is counted while the items go by: failures, judges, costs, and what fails most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from scenewright.evals.reporting.buckets import Row

PAPER_TOKENS_IN = 940
"""Input tokens an image, Scene-Bench, appendix D.4: 4.7 million over 5,000."""
PAPER_TOKENS_OUT = 780
"""Output tokens an image: 3.9 million over 5,000."""
PAPER_USD = 0.0003
"""USD an image: about 1.5 over 5,000, Gemini 1.5 Flash, March 2025."""


@dataclass(slots=True)
class Judging:
    """What one judge of a panel said and took."""

    answers: int = 0
    yes: int = 0
    no: int = 0
    unscored: int = 0
    against: int = 0
    """Usable answers that the panel's verdict contradicts."""
    decided: int = 0
    """Usable answers to facts that the panel decided."""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why answers are unscored."""


@dataclass(slots=True)
class Drawing:
    """What the pictures of one arm took."""

    pictures: int = 0
    """Items with a picture."""
    drawn: int = 0
    """Pictures drawn in all, references and rounds included."""
    counted: int = 0
    """Kept pictures of which it is known how much of their prompt was read."""
    cut: int = 0
    """Those of them whose prompt was not read to its end."""
    tokens_dropped: int = 0
    """Tokens that were not read."""
    facts_dropped: int = 0
    """Facts whose words these were."""
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0


@dataclass(slots=True)
class Tally:
    """All counts of an evaluation."""

    facts: dict[tuple[str, str, str], Counter[str]] = field(default_factory=dict)
    """(arm, panel, kind of fact) → state → verdicts, of the pictures that are kept."""
    judges: dict[tuple[str, str], Judging] = field(default_factory=dict)
    """(panel, judge) → what it said."""
    judged: Counter[str] = field(default_factory=Counter)
    """Panel → pictures that it looked at."""
    drawings: dict[str, Drawing] = field(default_factory=dict)
    """Arm → what its pictures took."""
    reasons: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(arm, panel, reason) → facts that could not be judged."""
    unfinished: Counter[str] = field(default_factory=Counter)
    """Arm → items for which there is neither a picture nor a failure."""

    def draw(self, arm: str, rounds: Iterable[Row]) -> None:
        """Count one item of an arm by its rows of the table of rounds."""
        rows = list(rounds)
        if not rows:
            self.unfinished[arm] += 1
            return
        found = self.drawings.setdefault(arm, Drawing())
        found.pictures += any(row["kept"] for row in rows)
        for row in rows:
            if row["kept"] and row["tokens_dropped"] is not None:
                found.counted += 1
                found.cut += row["tokens_dropped"] > 0
                found.tokens_dropped += row["tokens_dropped"]
                found.facts_dropped += row["facts_dropped"] or 0
            found.drawn += row["images_drawn"] or 0
            found.seconds += row["seconds"] or 0.0
            found.tokens_in += row["tokens_in"] or 0
            found.tokens_out += row["tokens_out"] or 0
            found.usd += row["usd"] or 0.0

    def decide(self, arm: str, panel: str, verdicts: Iterable[Row]) -> dict[str, str]:
        """Count the verdicts of one kept picture; gives the state of each fact."""
        states = {}
        for row in verdicts:
            states[row["fact"]] = row["state"]
            key = (arm, panel, row["kind"] or "fact")
            self.facts.setdefault(key, Counter())[row["state"]] += 1
            if row["state"] == "unscored":
                self.reasons[arm, panel, row["reason"] or "no reason"] += 1
        return states

    def answer(self, panel: str, answers: Iterable[Row], verdicts: Iterable[Row]) -> None:
        """Count all answers of a panel about one item of an arm, whatever the round."""
        states = {(row["round"], row["fact"]): row["state"] for row in verdicts}
        looked = set()
        for row in answers:
            looked.add(row["round"])
            found = self.judges.setdefault((panel, row["judge"]), Judging())
            found.answers += 1
            found.tokens_in += row["tokens_in"] or 0
            found.tokens_out += row["tokens_out"] or 0
            found.usd += row["usd"] or 0.0
            found.seconds += row["seconds"] or 0.0
            state = row["state"]
            if state == "unscored":
                found.unscored += 1
                found.reasons[row["reason"] or "no reason"] += 1
                continue
            found.yes += state == "yes"
            found.no += state == "no"
            verdict = states.get((row["round"], row["fact"]))
            if verdict in ("yes", "no") and state in ("yes", "no"):
                found.decided += 1
                found.against += verdict != state
        self.judged[panel] += len(looked)
