"""What a reader of a study must know of the work that it read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Context(BaseModel):
    """An evaluation, or a trial of a study's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    set_name: str
    """The set."""
    fingerprint: str
    """Of the set."""
    items: int
    """Scenes or objects."""
    seeds: tuple[int, ...]
    """Seeds."""
    protocol: str = ""
    """How facts were asked; empty where no judge was asked about facts."""
    backends: tuple[str, ...] = ()
    """Ids of what drew."""
    panels: dict[str, list[str]] = Field(default_factory=dict)
    """Panel → ids of its judges."""
    models: dict[str, str] = Field(default_factory=dict)
    """What else took part (``extractor``, ``grader``, ``similarity``, …) → its id."""
    self_reports: tuple[str, ...] = ()
    """Whose scores are by models that steered the loops of an arm, a sentence each."""
    draws: bool = True
    """Whether pictures were looked at."""
    totals: dict[str, float] = Field(default_factory=dict)
    """Pictures, answers, tokens, dollars: of the evaluation, which several studies may share."""

    def sentence(self) -> str:
        """For people."""
        judges = sorted({judge for panel in self.panels.values() for judge in panel})
        seeds = ", ".join(map(str, self.seeds))
        parts = [f"Set `{self.set_name}`, {self.items:,} items, seeds {seeds}"]
        if self.draws:
            parts.append(f"drawn by {', '.join(self.backends) or 'given files'}")
        if judges:
            how = f", protocol {self.protocol}" if self.protocol else ""
            parts.append(f"judged by {', '.join(judges)}{how}")
        parts += [f"{what}: {model}" for what, model in self.models.items()]
        return "; ".join(parts) + "."
