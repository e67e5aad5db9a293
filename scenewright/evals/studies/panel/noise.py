"""Noise models: what happens to the answers of a panel, with the truth left as it is.

Made of given answers, so that everything but the noise stays real. A model is laid over the facts
that are scored and over those that are learnt from alike, each with chance of its own: what is
learnt is learnt of judges as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import expit
from scenewright.agents.panel.stacking import log_odds
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable, JudgeColumn

_MISSING = 0.4
_SPREAD = 1.0
_COPIES = 3


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """A noise model."""

    about: str
    """In words, after "where"."""
    of: Callable[[AnswerTable, np.random.Generator], AnswerTable]
    """Lays it over a table."""


def noisy(table: AnswerTable, name: str, seed: int = 0) -> AnswerTable:
    """``table`` under the noise model ``name``, one of :data:`NOISE`. Deterministic. Raises
    ``PanelStudyError`` for an unknown one."""
    if name not in NOISE:
        raise PanelStudyError(f"there is no noise model {name!r}: use one of {', '.join(NOISE)}")
    return NOISE[name].of(table, np.random.default_rng([seed, list(NOISE).index(name)]))


def _clean(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
    return table


def _missing(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
    lost = rng.random(table.said.shape) < _MISSING
    return table.with_said(np.where(lost, np.nan, table.said), np.where(lost, np.nan, table.votes))


def _yes_sayer(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
    said = table.said.copy()
    there = ~np.isnan(said[:, -1])
    said[there, -1] = 1.0
    return table.with_said(said)


def _guesser(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
    said = table.said.copy()
    there = ~np.isnan(said[:, -1])
    said[there, -1] = rng.random(int(there.sum()))
    return table.with_said(said)


def _adversary(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
    said = table.said.copy()
    said[:, -1] = 1.0 - said[:, -1]
    return table.with_said(said)


def _clique(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
    """The last judge thrice more, as one family, each with its own noise on the log-odds."""
    last = len(table.judges) - 1
    columns = [*range(last), *[last] * (_COPIES + 1)]
    name = table.judges[last].id
    copies = [JudgeColumn(f"{name}#{n}", family=name) for n in range(1, _COPIES + 1)]
    judges = (*table.judges[:last], JudgeColumn(name, family=name), *copies)
    wide = table.with_judges(columns, judges)
    said = wide.said.copy()
    odds = log_odds(said[:, last + 1 :])
    said[:, last + 1 :] = expit(odds + rng.normal(0.0, _SPREAD, odds.shape))
    return wide.with_said(said)


NOISE: Mapping[str, NoiseModel] = {
    "clean": NoiseModel("nothing is changed", _clean),
    "missing": NoiseModel("four answers of ten are missing, at random", _missing),
    "yes_sayer": NoiseModel("the last judge always says yes", _yes_sayer),
    "guesser": NoiseModel("the last judge guesses", _guesser),
    "adversary": NoiseModel("the last judge says the opposite of what it thinks", _adversary),
    "clique": NoiseModel(
        "three near copies of the last judge sit beside it, told as one family", _clique
    ),
}
"""Name → model."""
