"""What the paper says, held against what was measured: verdicts by a rule, not by hand.

A statement about a direction agrees if the 95 % interval of the measured difference lies wholly on
the paper's side of 0, disagrees if it lies wholly on the other side, and is open otherwise. A
statement that something hardly changes agrees if the interval lies within a margin that is said,
disagrees if it lies wholly outside, and is open otherwise. Where there is no interval, or one of
fewer than ten items, or one without any width (all items alike: a bootstrap then cannot know what
is rare), the statement is open, and only the figure is said. Intervals are not widened for the
number of statements: of twenty that are true of nothing about one will seem to be decided.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.studies.paper import Printed

Side = Literal["above", "below", "within"]
Verdict = Literal["agrees", "disagrees", "open", "not measured"]

FEWEST = 10
"""Items below which a bootstrap interval is too narrow to decide anything."""
VERDICTS: dict[Verdict, str] = {
    "agrees": "Agrees",
    "disagrees": "Disagrees",
    "open": "Open",
    "not measured": "Not measured",
}


class Claim(BaseModel):
    """One statement of the paper, and the measured difference that bears on it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    where: str
    """Table or figure of the paper."""
    says: str
    """The statement, as a sentence without a full stop."""
    side: Side
    """Where the paper puts the difference: ``above`` 0, ``below`` 0, or ``within`` the margin."""
    margin: float = Field(default=0.0, ge=0.0)
    """Of ``within``, in the unit of the difference."""
    measured: Estimate
    """The difference here."""
    paper: tuple[Printed, ...] = ()
    """The same difference in the paper, where it prints numbers."""
    unit: str = "points"
    """Of the difference."""
    digits: int = Field(default=1, ge=0, le=6)
    """Decimal places."""
    note: str = ""
    """What is to be known beside it, as whole sentences."""

    @property
    def verdict(self) -> Verdict:
        """By the rule above."""
        found = self.measured
        if found.value is None:
            return "not measured"
        if found.low is None or found.high is None or self._too_thin:
            return "open"
        if self.side == "within":
            if -self.margin <= found.low and found.high <= self.margin:
                return "agrees"
            outside = found.low > self.margin or found.high < -self.margin
            return "disagrees" if outside else "open"
        # An interval of no width at 0 lies on neither side.
        above, below = found.low > 0.0, found.high < 0.0
        if above or below:
            return "agrees" if above == (self.side == "above") else "disagrees"
        return "open"

    @property
    def _too_thin(self) -> bool:
        """Whether the interval is of too few items, or of items that are all alike."""
        return self.measured.n < FEWEST or self.measured.low == self.measured.high

    def sentence(self) -> str:
        """The verdict with its figures."""
        said = self.says[0].upper() + self.says[1:]
        if self.measured.value is None:
            why = self.measured.reason or "there is no figure"
            return f"**{VERDICTS[self.verdict]}** ({self.where}): {said}: {why}."
        here = f"here {self._figure()}"
        if self.measured.low is None:
            here += " without an interval"
        elif self._too_thin:
            alike = self.measured.n >= FEWEST
            here += ", all alike" if alike else ", too few to decide"
        if self.side == "within":
            here += f" (within ± {self.margin:.{self.digits}f} is meant)"
        places = max(2, self.digits)
        theirs = "; ".join(f"{p.model} {number(p.value, places, sign=True)}" for p in self.paper)
        paper = f"; paper {theirs}" if theirs else ""
        note = f" {self.note}" if self.note else ""
        return f"**{VERDICTS[self.verdict]}** ({self.where}): {said}: {here}{paper}.{note}"

    def _figure(self) -> str:
        shown = self.measured.model_copy(update={"sd": None}).text(self.digits, sign=True)
        return f"{shown}{self.unit and ' '}{self.unit}, n = {self.measured.n}"
