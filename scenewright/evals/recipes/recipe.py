"""A public benchmark as data: a TOML file that makes an evaluation.

The table ``[evaluation]`` holds fields of an evaluation's configuration; ``[[scores]]`` say how its
scores are put together as the benchmark publishes them. Address, revision and licence of the
prompts are those of ``scenewright data get``. Every recipe also scores the facts of the prompts'
scenes by the grounded protocol (:data:`OURS`), so that the published number and ours stand side by
side.

With a loop there are two more arms: the profile's own strategy, and fresh samples of which the best
is kept. Both begin with the same picture, may draw the same number of pictures for an item,
references included, and stop when their judges find nothing missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.config.settings import Settings, find_profile, load_settings
from scenewright.core.user_files import read_user_toml
from scenewright.evals.datasets.base import CATALOGUE
from scenewright.evals.errors import ConfigError
from scenewright.evals.metrics.registry import METRICS
from scenewright.evals.runner.config import Condition, EvalConfig, load_config
from scenewright.evals.store.files import read_toml

FOLDER = Path(__file__).parent
OURS = "grounded_facts"
"""Metric of every recipe beside the published ones."""
PLAIN, LOOP, BEST = "prompt", "loop", "best_of_n"
"""Conditions: the prompt as it is, drawn once; the loop; the best of as many pictures."""


class Score(BaseModel):
    """A published score: a mean of a metric over the items, or over classes of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """As its authors call it."""
    metric: str
    part: str = ""
    """Part of the metric; with ``*`` at its end one score for each such part, pooled over all
    questions of it, as ``answered:NAME`` counts them."""
    by: str = Field(default="", pattern="^(group|category)?$")
    """Classes that are scored apart, besides the whole; a category may name several."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Class → weight of its mean in the whole; empty: every item weighs alike."""
    labelled: bool = False
    """Whether the whole is of items with a class alone."""


class Recipe(BaseModel):
    """A public benchmark."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    about: str
    """One sentence: what is measured, and by what rule."""
    paper: str
    page: str
    version: str
    """Version of the rules that this follows, with its date or commit."""
    judge: str
    """Judge of the published numbers, and how it is asked."""
    images: int = Field(default=1, ge=1)
    """Pictures a prompt behind the published numbers."""
    differs: tuple[str, ...] = ()
    """What is done otherwise here, a sentence each."""
    untried: tuple[str, ...] = ()
    """What was not tried, a sentence each."""
    scores: tuple[Score, ...] = Field(min_length=1)
    """The first one is the leading number."""
    evaluation: dict[str, Any]
    """Fields of :class:`~scenewright.evals.runner.config.EvalConfig`."""

    @model_validator(mode="after")
    def _check(self) -> Recipe:
        asked = self.config(("miniature",))
        lost = {score.metric for score in self.scores} - {metric.name for metric in asked.metrics}
        if lost:
            raise ValueError(f"scores name {sorted(lost)[0]!r}, which is not one of the metrics")
        return self

    @property
    def licence(self) -> str:
        """Licence of the prompts, as their authors name it."""
        return CATALOGUE[self.config(("miniature",)).dataset.name].licence

    def config(
        self,
        models: Sequence[str],
        judges: Sequence[str] = (),
        loop: int | None = None,
        limit: int | None = None,
        images: int | None = None,
        recipe: str = "",
    ) -> EvalConfig:
        """Return the evaluation of ``models``, which are profiles.

        ``judges`` answer every metric that asks judges; by default the first model's report judges.
        ``loop`` adds the two arms that may draw so many pictures an item. ``limit`` takes the first
        items alone; ``images`` (default 1) are drawn of each prompt. Raises ``ValueError``
        (pydantic's) for fields that do not fit.
        """
        fields = {"name": self.name, "about": self.about, **self.evaluation}
        given = [
            dict(m) if isinstance(m, dict) else {"name": m} for m in (*fields["metrics"], OURS)
        ]
        asking: dict[str, Any] = {"judges": list(judges)} if judges else {"profile": models[0]}
        for one in given:
            entry, own = METRICS.get(one["name"]), one.get("options", {})
            # Metrics of networks take no judges, and a recipe's own stand unless others are named.
            takes = entry is not None and asking.keys() <= entry.options.keys()
            if takes and (judges or own.keys().isdisjoint(("judges", "profile"))):
                one["options"] = {**own, **asking}
        fields["metrics"] = given
        fields["conditions"] = [PLAIN]
        if loop is not None:
            most: dict[str, Any] = {"rounds": loop, "patience": loop, "images": loop}
            fields["conditions"] += [LOOP, BEST]
            fields["condition"] = {
                LOOP: Condition(**most),
                BEST: Condition(**most, profile={"strategy": "resample"}),
            }
        if limit is not None:
            fields["dataset"] = {**fields["dataset"], "limit": limit}
        fields |= {"backends": tuple(models), "seeds": tuple(range(images or 1))}
        return EvalConfig.model_validate({**fields, "recipe": recipe or self.name})


def recipe_names() -> tuple[str, ...]:
    """Return the names of the recipes that ship with scenewright."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))


def load_recipe(name: str) -> Recipe | None:
    """Return the recipe of that name, or in the file ``name``; None if it is neither.

    Raises ``ConfigError`` for a recipe that is wrong.
    """
    file = Path(name)
    # A folder of that name, such as a benchmark's own repository, hides no recipe.
    if not file.is_file() and name in recipe_names():
        return read_toml(FOLDER / f"{name}.toml", Recipe)
    if file.is_file() and "evaluation" in read_user_toml(file, ConfigError):
        return read_toml(file, Recipe)
    return None


def load_evaluation(
    name: str,
    models: Sequence[str] = (),
    settings: Settings | None = None,
    **asked: Any,
) -> EvalConfig:
    """Return the evaluation of the recipe ``name``, or of the configuration in the file ``name``.

    ``models`` (default: the profile of the settings) and ``asked`` are those of
    :meth:`Recipe.config`. Raises ``ConfigError`` where a configuration is given them, for a name
    that is neither, and where no judges are named and the models have different ones.
    """
    recipe = load_recipe(name)
    if recipe is not None:
        here = settings or load_settings()
        drawing = models or [here.profile]
        reporting = {find_profile(model, here).report_judges for model in drawing}
        if len(reporting) > 1 and not asked.get("judges"):
            raise ConfigError(
                f"{', '.join(drawing)} have different report judges: name one for all with --judge"
            )
        # The scores are also worked out from other folders.
        own = name if name in recipe_names() else str(Path(name).absolute())
        return recipe.config(drawing, **asked, recipe=own)
    if not Path(name).exists() and re.fullmatch(r"[\w-]+", name):
        known = ", ".join(recipe_names())
        raise ConfigError(f"there is no file or recipe {name}: the recipes are {known}")
    if chosen := [key for key, value in {"models": models, **asked}.items() if value]:
        raise ConfigError(
            f"{name} is a configuration: it names its {chosen[0]} itself; options for them are for "
            "recipes (`scenewright eval recipes`)"
        )
    return load_config(name)
