"""How much of the prompts of some pictures their image model read, for tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.statistics.estimates import Estimate, nothing
from scenewright.evals.studies.layout import Cell, Column, Layout, Row

COLUMNS = (
    Column(key="tokens_dropped", title="tokens dropped", digits=0),
    Column(key="facts_dropped", title="facts dropped", digits=0),
)
"""Of tables whose rows are of drawn pictures."""
_OPEN = "how much of the prompts was read is not known"


class PromptsRead(BaseModel):
    """What of the prompts of some pictures was not read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pictures: int = Field(ge=0)
    """Pictures of which it is known."""
    cut: int = Field(ge=0)
    """Those whose prompt was not read to its end."""
    tokens: int = Field(ge=0)
    """Tokens that were not read, of all of them."""
    facts: int | None = Field(default=None, ge=0)
    """Facts whose words these were; None where that is not known of a picture that was cut."""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> PromptsRead | None:
        """That of rows with ``tokens_dropped`` and ``facts_dropped``; None if no row knows."""
        known = [row for row in rows if row.get("tokens_dropped") is not None]
        if not known:
            return None
        cut = [row for row in known if row["tokens_dropped"]]
        facts = [row.get("facts_dropped") for row in cut]
        return cls(
            pictures=len(known),
            cut=len(cut),
            tokens=sum(row["tokens_dropped"] for row in cut),
            facts=None if None in facts else sum(filter(None, facts)),
        )

    @property
    def text(self) -> str:
        """Facts and tokens in short: ``3 (41)``, ``0``."""
        if not self.tokens:
            return "0"
        return f"{'?' if self.facts is None else self.facts} ({self.tokens})"


def cells(found: PromptsRead | None) -> tuple[Cell, Cell]:
    """The cells of :data:`COLUMNS`."""
    numbers = (None, None) if found is None else (found.tokens, found.facts)
    n = 0 if found is None else found.pictures
    first, second = (
        Cell(measured=Estimate(value=float(value), n=n) if value is not None else nothing(_OPEN))
        for value in numbers
    )
    return first, second


def layout(found: Mapping[str, PromptsRead | None], head: str) -> Layout | None:
    """A table of them by name (an arm, a condition); None if nothing is known of any."""
    if not any(found.values()):
        return None
    columns = (
        Column(key="pictures", title="pictures", digits=0),
        Column(key="cut", title="prompts cut", digits=0),
        *COLUMNS,
    )
    rows = []
    for name, one in found.items():
        counts = () if one is None else (one.pictures, one.cut)
        first = [Cell(measured=Estimate(value=float(n), n=n)) for n in counts]
        first = first or [Cell(measured=nothing(_OPEN))] * 2
        rows.append(Row(key=name, title=name, cells=(*first, *cells(one))))
    return Layout(
        id="prompts",
        title="Prompts that the image model did not read to their end",
        head=head,
        columns=columns,
        rows=tuple(rows),
        of_paper=False,
    )
