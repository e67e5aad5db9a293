"""Limits of output tokens by the role of a language model, so that endless output ends soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["director", "composer", "parser", "questions", "grader", "judge"]
"""What a model does: direct a run, write prompts, read texts and pictures into graphs, write
questions, grade, judge facts."""
DEFAULTS: Mapping[Role, int] = {
    "director": 2048,  # a thought and some calls of tools
    "composer": 2048,  # a page of text; image models read far less
    "parser": 4096,  # the graph of a long text, as JSON
    "questions": 2048,
    "grader": 2048,
    "judge": 4096,  # a sheet of 32 facts with a reason for each takes a third of it
}
"""Most output tokens of one reply, where neither settings nor the model's table say less."""
OF_THE_MODEL = "max_output_tokens of the model in its account"
"""Where the limit of a model is set that has none of its role."""


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """The limit of a reply's output tokens."""

    tokens: int
    """How many; 0: none is sent."""
    set_by: str = OF_THE_MODEL
    """What sets it, for messages: where to raise it."""


def output_limit(
    role: Role | None,
    of_model: int,
    *,
    declared: bool,
    thinks: bool,
    given: Mapping[Role, int] | None = None,
) -> OutputLimit:
    """Return the limit of a model in ``role``; without a role it is the model's own.

    ``given``, what settings and profile say of roles, goes before all. ``of_model``: the limit in
    its table or, ``declared``, in its account; 0: none. A role's default holds where nobody
    declared a limit and the model does not think, for thoughts count as output.
    """
    if role is None:
        return OutputLimit(of_model)
    told = f"output_tokens.{role} in the profile or in scenewright.toml"
    if given and role in given:
        return OutputLimit(given[role], f"{told}, now {given[role]}")
    default = DEFAULTS[role]
    if declared or thinks or not 0 < default <= of_model:
        return OutputLimit(of_model)
    return OutputLimit(default, f"{told}, {default} by default")
