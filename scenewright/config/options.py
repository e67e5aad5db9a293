"""Options of a run: each is declared here once, and every door is derived from it.

A profile holds the parts that it sets (:class:`RepairOptions`, :class:`ImageOptions`), a caller
gives :class:`RunOptions`, whose None leaves an option to the profile, and :func:`loop_options`
resolves both to the :class:`LoopOptions` of one run. The command line, the HTTP API, the OpenAI
extension, MCP and LangGraph Studio take the fields of :class:`RunOptions`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from scenewright.config.removed import check_removed_options
from scenewright.core.ports.backend import MAX_SIDE, MAX_STEPS
from scenewright.core.predicate_statistics import DEFAULT
from scenewright.core.questions import Protocol, QuestionForm
from scenewright.core.validation import FiniteModel, RequestModel

MAX_IMAGES = 1_000_000
"""Largest limit of images; databases count them in 32 bits."""
MAX_AMOUNT = 1_000_000_000_000
"""Largest limit of anything else: more is no limit at all, and no database could add it up."""
Asking = Literal["waves", "together"]
Repair = Literal["whole", "region"]
ReferencePrompt = Literal["missing", "scene"]
Noise = Literal["new", "same"]
Count = Annotated[int, Field(ge=1, le=100)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Side = Annotated[int, Field(ge=8, le=MAX_SIDE, multiple_of=8)]
Steps = Annotated[int, Field(ge=1, le=MAX_STEPS)]
Guidance = Annotated[float, Field(ge=0.0, le=100.0)]
Weight = Annotated[float, Field(ge=-4.0, le=4.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveShare = Annotated[float, Field(gt=0.0, le=1.0)]
Proposals = Annotated[int, Field(ge=1, le=64)]


class Budget(FiniteModel, RequestModel):
    """Limits of one run, checked before each round; a started round is finished."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    images: int | None = Field(default=None, ge=1, le=MAX_IMAGES)
    """Most images drawn, references included; never exceeded."""
    seconds: float | None = Field(default=None, gt=0, le=MAX_AMOUNT)
    """Active seconds after which no further round begins; interruptions do not count."""
    tokens: int | None = Field(default=None, ge=1, le=MAX_AMOUNT)
    """Tokens of judges, composer and director, in and out; no round begins that may take more than
    are left."""
    usd: float | None = Field(default=None, gt=0, le=MAX_AMOUNT)
    """US dollars; no round begins that may cost more than are left."""
    work: float | None = Field(
        default=None, gt=0, le=MAX_AMOUNT, exclude_if=lambda most: most is None
    )
    """Full-picture steps of the denoiser after which no further round begins."""
    judge_calls: int | None = Field(
        default=None, ge=1, le=MAX_AMOUNT, exclude_if=lambda most: most is None
    )
    """Calls of the loop's judges after which no further round begins."""
    tool_calls: int = Field(default=24, ge=1, le=1000)
    """Most tools that a director may use."""


class ImageOptions(FiniteModel):
    """How every image is drawn."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    steps: Steps | None = None
    """Denoising steps; None: the backend's default."""
    guidance: Guidance | None = None
    """Guidance scale; None: the backend's default."""
    negative_prompt: str = ""
    """Negative prompt: what to avoid."""


class RepairOptions(FiniteModel):
    """How facts are asked, and what a round repairs."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    strategy: str = "feedback"
    """Repair strategy: a name of ``scenewright strategies``, or ``director`` for a language model
    that decides with tools."""
    weight_best: Weight = 0.5
    """λ0 of Eq. 5: weight of the best candidate so far."""
    weight_missing: Weight = 0.5
    """λ1 of Eq. 5: weight of the reference image that shows the missing graph."""
    repair: Repair = "whole"
    """What a repair round redraws: the ``whole`` picture from another seed, as in the paper, or
    only the ``region`` where the composer places what is missing."""
    repair_strength: PositiveShare = 0.8
    """Share of the denoising steps for a region; with 1 only its weight ties it to the
    reference image."""
    alpha: Share = 0.5
    """Weight of the objects in SGScore (Eq. 4)."""
    protocol: Protocol = "grounded"
    """Question protocol."""
    predicates: str = DEFAULT
    """Where the wrong options of relation questions come from: ``general`` (counts over public
    scene graphs, in the package), ``miniature``, or a file of ``scenewright data predicates``."""
    asking: Asking = "waves"
    """``waves``: objects first, then only what has its objects; ``together``: all facts at once,
    so that a judge behind an API sees the image once."""
    reference_prompt: ReferencePrompt = Field(
        default="scene", exclude_if=lambda chosen: chosen == "scene"
    )
    """Scene of a reference image's prompt: the ``missing`` graph alone, as in the paper, or as a
    part of the ``scene`` (same setting, same places)."""
    noise: Noise = Field(default="new", exclude_if=lambda chosen: chosen == "new")
    """Start noise of a refinement: ``new``, or the ``same`` as the first picture (unspecified in
    the paper). A redraw without other changes always gets new noise."""
    crop: bool = Field(default=False, exclude_if=lambda chosen: not chosen)
    """Whether a ``region`` is redrawn within a crop around it instead of the whole picture: less
    work, and the model sees less of the rest."""
    proposals: Proposals = Field(default=5, exclude_if=lambda count: count == 5)
    """Most proposals that a place gets in a round of the strategy ``tournament``."""

    @model_validator(mode="before")
    @classmethod
    def _without_removed(cls, data: Any) -> Any:
        check_removed_options(data)
        return data


class LoopOptions(RepairOptions, ImageOptions):
    """Resolved options of one loop: plain data, part of the run's manifest."""

    rounds: Count = 3
    """Most candidates drawn, the first one included."""
    patience: int = Field(default=2, ge=1)
    """Rounds in a row without a better candidate after which the loop stops."""
    seed: Seed = 0
    """Seed of the run; see :func:`scenewright.graphs.state.round_seed`."""
    budget: Budget = Budget()
    """Limits of cost and time."""
    width: Side | None = None
    """Pixels of every drawn image, with ``height``; None: the backend's default."""
    height: Side | None = None
    """Pixels of every drawn image, with ``width``; None: the backend's default."""
    realism: bool = Field(default=False, exclude_if=lambda wanted: not wanted)
    """Whether judges also say how real each object looks; of equally correct pictures the more
    real one is kept."""
    start: str | None = None
    """Content hash of the picture to begin with instead of drawing one."""
    mask: str | None = None
    """Content hash of a mask of its size: white where repairs may change it; None: everywhere."""

    @property
    def form(self) -> QuestionForm:
        """How the scene is asked about."""
        return QuestionForm(self.protocol, self.predicates, self.realism)

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        if (self.width is None) != (self.height is None):
            raise ValueError("give both width and height, or none")
        return self
