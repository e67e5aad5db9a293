"""Options of a run: each is declared here once, and every door is derived from it.

A profile holds the parts that it sets (:class:`RepairOptions`, :class:`ImageOptions`), and a caller
gives :class:`RunOptions`, in which None leaves an option to the profile. Both together become the
:class:`LoopOptions` of one run, which its manifest keeps. Python, the command line, the HTTP API,
the OpenAI extension, MCP and LangGraph Studio take the fields of :class:`RunOptions`;
``tests/config/test_options.py`` holds every door to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.config.removed import check_removed_options
from scenewright.core.ports import MAX_SIDE, MAX_STEPS
from scenewright.core.predicate_statistics import DEFAULT
from scenewright.core.questions import Protocol, QuestionForm
from scenewright.core.validation import FiniteModel, RequestModel

MAX_IMAGES = 1_000_000
"""Largest limit of images; databases count them in 32 bits."""
MAX_AMOUNT = 1_000_000_000_000
"""Largest limit of anything else: more is no limit at all, and no database could add it up."""
MAX_TEXT = 20_000
"""Longest text of a caller, in characters."""
Asking = Literal["waves", "together"]
Repair = Literal["whole", "region"]
ReferencePrompt = Literal["missing", "scene"]
Noise = Literal["new", "same"]
SentenceReader = Literal["llm", "rules"]
"""Parsers of sentences: the profile's language model, or the rules."""
Name = Annotated[str, Field(max_length=200)]
"""Name of a profile, a strategy or a judge."""
Judges = Annotated[tuple[Name, ...], Field(max_length=16)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
"""A scene in words, or a prompt."""
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
    """Begin no round after this many active seconds; interruptions do not count."""
    tokens: int | None = Field(default=None, ge=1, le=MAX_AMOUNT)
    """Begin no round that may take more tokens of judges, composer and director, in and out."""
    usd: float | None = Field(default=None, gt=0, le=MAX_AMOUNT)
    """Begin no round that may cost more US dollars."""
    work: float | None = Field(
        default=None, gt=0, le=MAX_AMOUNT, exclude_if=lambda most: most is None
    )
    """Begin no round after this much work of the denoiser, in full-picture steps."""
    judge_calls: int | None = Field(
        default=None, ge=1, le=MAX_AMOUNT, exclude_if=lambda most: most is None
    )
    """Begin no round after this many calls of the loop's judges."""
    tool_calls: int = Field(default=24, ge=1, le=1000)
    """Most tool calls of a director."""


class ImageOptions(FiniteModel):
    """Settings of every image."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    steps: Steps | None = None
    """Denoising steps; by default the backend's."""
    guidance: Guidance | None = None
    """Guidance scale; by default the backend's."""
    negative_prompt: str = ""
    """Things to avoid in the image."""


class RepairOptions(FiniteModel):
    """Questions about facts, and repairs of a round."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    strategy: str = "feedback"
    """Repair strategy of a round: feedback, tournament, edit, inpaint, router … (`scenewright
    strategies` lists them), or director for a language model that decides with tools."""
    weight_best: Weight = 0.5
    """λ0 of Eq. 5: weight of the best candidate so far."""
    weight_missing: Weight = 0.5
    """λ1 of Eq. 5: weight of the reference image that shows the missing graph."""
    repair: Repair = "whole"
    """Area that a round redraws: the whole image from another seed, as in the paper, or only the
    region where the composer places what is missing."""
    repair_strength: PositiveShare = 0.8
    """Share of the denoising steps for a region; with 1 only its weight ties it to the
    reference."""
    alpha: Share = 0.5
    """Weight of the objects in SGScore (Eq. 4)."""
    protocol: Protocol = "grounded"
    """Question protocol: grounded, or scene-bench for the paper to the letter."""
    predicates: str = DEFAULT
    """Source of the wrong options of relation questions: ``general`` (counts over public
    scene graphs, in the package), ``miniature``, or a file of ``scenewright data predicates``."""
    asking: Asking = "waves"
    """Ask in waves (objects first, then what depends on them) or all facts together, so that a
    judge behind an API sees the image once."""
    reference_prompt: ReferencePrompt = Field(
        default="scene", exclude_if=lambda chosen: chosen == "scene"
    )
    """Compose the reference image from the missing graph alone, as in the paper, or as a part of
    the scene (same setting, same places)."""
    noise: Noise = Field(default="new", exclude_if=lambda chosen: chosen == "new")
    """Refine from new noise or from that of the first image; a redraw without other changes always
    gets new noise."""
    crop: bool = Field(default=False, exclude_if=lambda chosen: not chosen)
    """Redraw a region within a crop around it: less work, and the model sees less of the rest."""
    proposals: Proposals = Field(default=5, exclude_if=lambda count: count == 5)
    """Most proposals for a place in a round of the strategy tournament."""

    @model_validator(mode="before")
    @classmethod
    def _without_removed(cls, data: Any) -> Any:
        check_removed_options(data)
        return data


class LoopOptions(RepairOptions, ImageOptions):
    """Resolved options of one loop: plain data, part of the run's manifest."""

    rounds: Count = 3
    """Most rounds of drawing and judging, the first one included."""
    patience: int = Field(default=2, ge=1)
    """Stop after this many rounds in a row without a better candidate."""
    seed: Seed = 0
    """Random seed: the same one, the same result."""
    budget: Budget = Budget()
    """Limits of cost and time."""
    width: Side | None = None
    """Width of every drawn image in pixels, with height; by default the backend's."""
    height: Side | None = None
    """Height of every drawn image in pixels, with width; by default the backend's."""
    realism: bool = Field(default=False, exclude_if=lambda wanted: not wanted)
    """Also judge how real each object looks; of equally correct images the more real one is
    kept."""
    start: str | None = None
    """Content hash of the picture to begin with instead of drawing one."""
    mask: str | None = None
    """Content hash of a mask of its size: white where repairs may change it; None: everywhere."""

    @property
    def form(self) -> QuestionForm:
        """Form of the questions about the scene."""
        return QuestionForm(self.protocol, self.predicates, self.realism)

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        if (self.width is None) != (self.height is None):
            raise ValueError("give both width and height, or none")
        return self


def _unset() -> Any:
    """Return the field of an option that a caller may leave out; it is not stored then."""
    return Field(default=None, exclude_if=lambda value: value is None)


class ModelChoice(RequestModel):
    """Models in place of the profile's."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    judges: Judges | None = Field(default=None, min_length=1)
    """Judges of the loop in place of the profile's, each as kind:model."""
    report_judges: Judges | None = None
    """Judges of the report in place of the profile's; they never steer the loop."""
    self_report: bool = Field(default=False, exclude_if=lambda wanted: not wanted)
    """Let models of the loop report its result; it is labelled a self-report."""


class LoopChoice(RequestModel):
    """Choices of the loop in place of the profile's; texts as in :class:`RepairOptions`."""

    model_config = ConfigDict(allow_inf_nan=False)

    strategy: Name | None = None
    rounds: Count = 3
    patience: Count = 2
    realism: bool = Field(default=False, exclude_if=lambda wanted: not wanted)
    weight_best: Weight | None = _unset()
    weight_missing: Weight | None = _unset()
    repair: Repair | None = _unset()
    repair_strength: PositiveShare | None = _unset()
    crop: bool | None = _unset()
    proposals: Proposals | None = _unset()
    alpha: Share | None = _unset()
    protocol: Protocol | None = _unset()
    asking: Asking | None = _unset()
    reference_prompt: ReferencePrompt | None = _unset()
    noise: Noise | None = _unset()


class ImageChoice(RequestModel):
    """Settings of images in place of the profile's; texts as in :class:`ImageOptions`."""

    model_config = ConfigDict(allow_inf_nan=False)

    seed: Seed = 0
    steps: Steps | None = None
    guidance: Guidance | None = None
    negative_prompt: Text | None = None
    width: Side | None = None
    height: Side | None = None

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        if (self.width is None) != (self.height is None):
            raise ValueError("give both width and height, or none")
        return self


class LimitChoice(RequestModel):
    """Limits of the run."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    budget: Budget = Budget()
    """Limits of cost and time."""


class PersonChoice(RequestModel):
    """Reading of the person's sentence."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    reader: SentenceReader | None = _unset()
    """Parser of a sentence: llm (the profile's language model; default where it has one) or rules
    (offline, English)."""


PARTS: Mapping[str, type[BaseModel]] = {
    "models": ModelChoice,
    "loop": LoopChoice,
    "image": ImageChoice,
    "budget": LimitChoice,
    "person": PersonChoice,
}
"""Parts of :class:`RunOptions` by name."""
for _part in (LoopChoice, ImageChoice):
    for _name, _field in _part.model_fields.items():
        _field.description = LoopOptions.model_fields[_name].description
    _part.model_rebuild(force=True)


class RunOptions(PersonChoice, LimitChoice, ImageChoice, LoopChoice, ModelChoice):
    """Options that a caller gives to one run; None leaves an option to the profile."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def for_profile(self) -> Iterator[tuple[str, Any]]:
        """Yield the options that replace values of the profile."""
        for name in (*RepairOptions.model_fields, *ImageOptions.model_fields):
            value = getattr(self, name, None)
            if value is not None:
                yield name, value

    def for_loop(self) -> dict[str, Any]:
        """Return the options that no profile has, by their name in :class:`LoopOptions`."""
        own = ("rounds", "patience", "seed", "realism", "width", "height", "budget")
        return {name: getattr(self, name) for name in own}
