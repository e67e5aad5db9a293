"""What an evaluation by XTC-Bench is to do, as a TOML file says it: a set × unified models × seeds,
with what reads, compares and grades."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.config import OnModelChange
from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import DatasetSpec
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.graph_matching.likeness import EdgeReading
from scenewright.evals.metrics.plugins import is_plugin
from scenewright.evals.runner.config import CONDITIONS
from scenewright.evals.store.toml_files import read_toml
from scenewright.evals.studies.xtc.base import QuestionKind
from scenewright.evals.studies.xtc.scores import COMPARED, THRESHOLD
from scenewright.evals.studies.xtc.understanding_judges import Vocabulary

UNDERSTANDERS = "judge:KIND:MODEL or chat:ACCOUNT:MODEL"
"""How an understander is named."""
RULES = "rules"
"""Who words the prompt where no language model does."""


class ModelSpec(BaseModel):
    """A unified model: one of two parts, or a class of your own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str | None = None
    """Profile whose backend draws."""
    condition: str | None = None
    """None: it draws the benchmark's prompt. Else the profile's own composer words the scene, as in
    the condition of that name (``composition``, ``triplets``): for models that understand one form
    of words alone."""
    understander: str | None = None
    """Who answers: ``judge:local:miniature/judge-a``, ``chat:openai:gpt-…``."""
    plugin: str | None = None
    """``module:function`` that gives a :class:`~scenewright.evals.studies.xtc.base.UnifiedModel`,
    in place of profile and understander; it is called with the model's name."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keywords of the plug-in."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.plugin is not None:
            if self.profile or self.understander or self.condition:
                raise ValueError("a plugin draws and answers itself: leave the other fields out")
            if not is_plugin(self.plugin):
                raise ValueError(f"{self.plugin!r} is no plug-in: write module:function")
            return self
        if not self.profile or not self.understander:
            raise ValueError("name a profile and an understander, or a plugin")
        kind, _, rest = self.understander.partition(":")
        if kind not in ("judge", "chat") or not rest:
            raise ValueError(f"{self.understander!r} is no understander: write {UNDERSTANDERS}")
        if self.options:
            raise ValueError("options are those of a plugin")
        if self.condition is not None:
            known = [n for n, c in CONDITIONS.items() if c.source == "draw" and c.rounds == 1]
            known = [n for n in known if CONDITIONS[n].text == "scene"]
            if self.condition not in known:
                raise ValueError(f"condition {self.condition!r}: use one of {', '.join(known)}")
        return self


class XtcConfig(BaseModel):
    """A whole evaluation."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """How it is called; the default folder is ``evals/NAME``."""
    about: str = ""
    """One sentence for reports."""
    dataset: DatasetSpec
    """Scenes with their photos; of the set ``miniature`` the paintings are made on the way."""
    models: dict[str, ModelSpec] = Field(min_length=1)
    """Name → unified model."""
    extractor: str | dict[str, Any] = "miniature"
    """What reads drawn pictures: a name of ``scenewright extract``, a TOML file or its fields."""
    grader: str = "lexical"
    """What grades answers: ``lexical``, ``exact``, a language model ``ACCOUNT:MODEL``, or several
    (``mean(ONE, OTHER)``)."""
    similarity: str = "auto"
    """What compares words when graphs are matched: ``auto``, ``lexical``, ``exact`` or
    ``sentence-transformers:MODEL``."""
    matching: EdgeReading = "published"
    """How incident edges are compared: ``published``, as Sec. 3.2.6 prints it, or ``directed``,
    ours: never an edge that leaves an object for one that enters it, and surplus edges cost."""
    prompt: str = RULES
    """Who words the benchmark's prompts: ``rules``, or ``ACCOUNT:MODEL``, a language model that
    refines each object, then the whole (Sec. 3.2.4)."""
    vocabulary: str | Vocabulary = "set"
    """Words that judges may answer with: ``set`` (those of all its scenes), ``miniature``, or a
    table with values, labels and predicates."""
    predicates: str = ""
    """Where the wrong options of judges' questions about relations come from: empty as the
    vocabulary says, with the counts of the set's own scenes where it says ``general``;
    ``package``: without these counts; else a name or a file of ``scenewright data predicates``."""
    seeds: tuple[int, ...] = (0,)
    """Every model draws every scene once with each."""
    converses: bool = True
    """Whether "boat above person" in a drawn picture's graph answers how the person is to the boat
    (``below``); false: edges must have the reference's direction."""
    compared: tuple[QuestionKind, ...] = Field(default=COMPARED, min_length=1)
    """Kinds of facts that count for G, CCTA and AW-CCTA."""
    threshold: float = Field(default=THRESHOLD, gt=0.0, le=1.0)
    """From here on a side counts as high in the quadrants."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels of what is drawn; none: the backend's default."""
    concurrency: int = Field(default=8, ge=1, le=1024)
    """Scenes at work at the same time."""
    limit_usd: float | None = Field(default=5.0, ge=0.0)
    """Dollars of the estimate above which the command asks first."""
    timeout: float = Field(default=1800.0, gt=0.0)
    """Seconds that one drawing, reading or answering may take."""
    stop_after_failures: int = Field(default=25, ge=1)
    """Failures in a row after which the evaluation stops: what fails every time is no accident."""
    on_model_change: OnModelChange = "stop"
    """What happens where a judge turns out to be served by another version than the one that
    answered before: ``stop`` with an error, what is done being kept, or ``accept`` and say so."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.on_model_change == "split":
            raise ValueError(
                "XTC-Bench cannot hold served versions apart: take on_model_change = 'accept', or "
                "another folder, where everything is answered by the version served now"
            )
        if not self.seeds:
            raise ValueError("seeds is empty: name at least one")
        for name, given in (("seeds", self.seeds), ("compared", self.compared)):
            if len(set(given)) != len(given):
                raise ValueError(f"{name} lists something twice: it would count double")
        if any(not 0 <= seed < 2**63 for seed in self.seeds):
            raise ValueError("seeds: use whole numbers from 0 to 2^63 - 1")
        if any(not name.strip() for name in self.models):
            raise ValueError("models: one has an empty name")
        if isinstance(self.vocabulary, str) and self.vocabulary not in ("set", "miniature"):
            raise ValueError("vocabulary: use set, miniature, or a table")
        if self.prompt != RULES and ":" not in self.prompt:
            raise ValueError(f"prompt {self.prompt!r}: use {RULES}, or ACCOUNT:MODEL")
        return self


def load_xtc_config(path: str | Path) -> XtcConfig:
    """The configuration in the TOML file ``path``.

    Raises ``EvalError`` with the file and the field for what cannot be read.
    """
    return read_toml(path, XtcConfig)


def with_on_model_change(config: XtcConfig, what: OnModelChange) -> XtcConfig:
    """Return ``config`` with another ``on_model_change``. Raises ``EvalError`` for ``split``."""
    try:
        return XtcConfig.model_validate({**config.model_dump(), "on_model_change": what})
    except ValidationError as error:
        raise EvalError(first_problem(error)) from None
