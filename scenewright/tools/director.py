"""Arguments and replies of the director's tools: short JSON, a small picture, or an error.

Tools are plain asynchronous functions with a pydantic model as their argument. Whoever offers
them to a language model, as LangChain tools or over MCP, puts the parts together here.

The tools draw a new picture of the whole scene or a part of one, look closer at a picture, verify
facts, and accept a picture.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from PIL import Image, ImageDraw
from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic.config import JsonDict

from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Fact, ScoreCard
from scenewright.core.layout import Region
from scenewright.core.validation import RequestModel, problem_in_words

PREVIEW_SIDE = 256
"""Longest side, in pixels, of a picture that goes to a language model."""
_QUALITY = 85


class ToolError(ScenewrightError, ValueError):
    """A failed tool call and its remedy, for the language model that called it."""


class Arguments(RequestModel):
    """Base of all tools' arguments: unknown names are errors, so that none is lost in silence.

    The first lines of a class and of its fields are what the language model is told of them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Result of a tool."""

    data: Mapping[str, Any]
    """The result, short and plain JSON."""
    picture: Image.Image | None = None
    """Picture beside it, at most :data:`PREVIEW_SIDE` pixels a side."""

    @property
    def text(self) -> str:
        """The data as one line of JSON."""
        return json.dumps(self.data, ensure_ascii=False)


def preview(image: Image.Image) -> Image.Image:
    """``image`` as RGB, made smaller until no side is over :data:`PREVIEW_SIDE`."""
    small = image.convert("RGB")
    small.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE), Image.Resampling.LANCZOS)
    return small


def picture_block(image: Image.Image) -> dict[str, Any]:
    """``image`` as a JPEG in LangChain's standard content block for images."""
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=_QUALITY)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return {"type": "image", "base64": data, "mime_type": "image/jpeg"}


def content_of(text: str, picture: Image.Image | None) -> str | list[str | dict[str, Any]]:
    """Return the content of a LangChain tool message: the text, and the picture if there is one."""
    if picture is None:
        return text
    return [{"type": "text", "text": text}, picture_block(picture)]


def wrong_arguments(tool: str, error: ValidationError) -> str:
    """Return in one line what is wrong with the arguments of a call.

    Without the values.
    """
    found = [
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {problem_in_words(item)}"
        for item in error.errors(include_url=False, include_input=False)
    ]
    return f"{tool} was not done: {'; '.join(found)}. Correct the arguments and call it again"


class _Drawing(Arguments):
    why: str = Field(default="", max_length=500)
    """Why, in a few words, for the run's record."""


class GenerateImage(_Drawing):
    """Draw the whole scene as a new picture, from another seed than the pictures before."""

    prompt: str = Field(default="", max_length=4000)
    """Words to draw from; empty: the composer's description of the whole scene."""


_FACT_IDS: JsonDict = {"items": {"type": "string", "maxLength": 700}}
"""Schema of ids of facts, which hold names of a scene."""


class RefineWithReference(_Drawing):
    """Draw the scene again, led by the best picture so far and by a picture of what it lacks.

    The second picture is drawn first, so this takes two images of the budget. Pictures that are
    not verified yet are verified before.
    """

    facts: list[str] = Field(default=[], max_length=200, json_schema_extra=_FACT_IDS)
    """Ids of missing facts to repair; empty: all."""
    weight_best: float | None = Field(default=None, ge=0.0, le=2.0)
    """Weight of the best picture (λ0 of Scene-Bench Eq. 5); by default the profile's."""
    weight_missing: float | None = Field(default=None, ge=0.0, le=2.0)
    """Weight of the picture of what is missing (λ1 of Eq. 5); by default the profile's."""


_SHARES: JsonDict = {"items": {"type": "number", "minimum": 0, "maximum": 1}}
"""Schema of a box, whose sides :func:`region_of_box` checks."""
_DIFFERENT: JsonDict = {
    "uniqueItems": True,
    "items": {"type": "string", "minLength": 1, "maxLength": 60},
}
"""Schema of the options of a question."""


class Inpaint(_Drawing):
    """Draw a part of a picture anew and keep the rest as it is; the result is a new picture."""

    box: list[float] = Field(max_length=4, json_schema_extra={**_SHARES, "minItems": 4})
    """The part to draw: left, top, right, bottom, each from 0 to 1."""
    prompt: str = Field(default="", max_length=4000)
    """Words to draw from; empty: the composer's description of the whole scene."""
    image: str = Field(default="best", max_length=40)
    """The picture to begin with: its id, best or newest."""
    strength: float = Field(default=1.0, gt=0.0, le=1.0)
    """Freedom in drawing the part: 1 forgets what was there."""


SMALLEST = 0.02
"""Least width and height of a box, as a share of the picture's."""


def region_of_box(box: Sequence[float]) -> Region:
    """Return ``[left, top, right, bottom]`` as shares (0–1) of the picture's sides.

    ``ToolError`` says what is wrong with a box that is none. An empty box is the whole picture.
    """
    told = f"box is {list(box)}: give [left, top, right, bottom] as shares of the picture's sides"
    if not box:
        return Region(0.0, 0.0, 1.0, 1.0)
    if len(box) != 4:
        raise ToolError(f"{told}, four numbers")
    if not all(0.0 <= share <= 1.0 for share in box):
        raise ToolError(f"{told}, each from 0 to 1")
    left, top, right, bottom = box
    if right - left < SMALLEST or bottom - top < SMALLEST:
        raise ToolError(
            f"{told}, left before right and top before bottom, at least {SMALLEST} apart"
        )
    return Region(left, top, right, bottom)


class Look(Arguments):
    """Look closer at a picture, without drawing or changing anything.

    Shows the picture, or the part of it in the box, enlarged. With a question, one of the judges
    answers it about what is shown.
    """

    image: str = Field(default="best", max_length=40)
    """Id of the picture (r0, r1, r1-reference), best or newest."""
    box: list[float] = Field(default=[], max_length=4, json_schema_extra=_SHARES)
    """Part of the picture: left, top, right, bottom, each from 0 to 1; empty: all of it."""
    show: Literal["crop", "box"] = "crop"
    """crop: only the part in the box, enlarged; box: the whole picture with the box drawn on it."""
    question: str = Field(default="", max_length=300)
    """A question about what is shown; empty: none is asked."""
    options: list[str] = Field(
        default=["yes", "no"], min_length=2, max_length=6, json_schema_extra=_DIFFERENT
    )
    """Answers that the question allows, all different."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        options = self.options
        if len(set(options)) < len(options) or not all(0 < len(o) <= 60 for o in options):
            raise ValueError("options must all be different, each of 1 to 60 characters")
        return self

    def fact(self) -> Fact:
        """Return the question as a fact that a judge can be asked.

        What is expected does not matter.
        """
        digest = hashlib.sha256("\x1f".join((self.question, *self.options)).encode()).hexdigest()
        return Fact(
            id=f"q:{digest[:12]}",
            kind="object",
            subject="question",
            statement=self.question,
            question=self.question,
            options=tuple(self.options),
            expected=self.options[0],
        )


def view_of(image: Image.Image, look: Look) -> Image.Image:
    """Return the view of ``image`` that ``look`` shows: RGB, at full resolution.

    A crop is enlarged until its longest side is that of ``image``. Raises ``ToolError`` for an
    invalid box.
    """
    region = region_of_box(look.box)
    picture = image.convert("RGB")
    if not look.box:
        return picture
    width, height = picture.size
    corners = (
        round(region.left * width),
        round(region.top * height),
        max(round(region.left * width) + 1, round(region.right * width)),
        max(round(region.top * height) + 1, round(region.bottom * height)),
    )
    if look.show == "box":
        line = max(1, max(width, height) // 128)
        left, top, right, bottom = corners
        ImageDraw.Draw(picture).rectangle(
            (left, top, right - 1, bottom - 1), outline=(255, 0, 255), width=line
        )
        return picture
    part = picture.crop(corners)
    factor = max(width, height) / max(part.size)
    return part.resize(_scaled(part.size, factor), Image.Resampling.BICUBIC)


def preview_of(image: Image.Image, look: Look) -> Image.Image:
    """Return :func:`view_of` as a language model gets it.

    The longest side is :data:`PREVIEW_SIDE` if enlarged.
    """
    picture = view_of(image, look)
    if look.box and max(picture.size) < PREVIEW_SIDE:
        factor = PREVIEW_SIDE / max(picture.size)
        picture = picture.resize(_scaled(picture.size, factor), Image.Resampling.BICUBIC)
    return preview(picture)


def _scaled(size: tuple[int, int], factor: float) -> tuple[int, int]:
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


class VerifyFacts(Arguments):
    """Ask the judges whether each fact of the scene holds in a picture."""

    image: str = Field(default="newest", max_length=40)
    """Id of the picture (r0, r1), best or newest."""
    facts: list[str] = Field(default=[], max_length=200, json_schema_extra=_FACT_IDS)
    """Ids of facts to tell of; empty: all. All are asked in any case."""


class Accept(Arguments):
    """Keep a picture and end the run. A picture worse than the best one is not accepted."""

    image: str = Field(default="best", max_length=40)
    """Id of the picture (r0, r1), best or newest."""
    why: str = Field(default="", max_length=500)
    """Why, in a few words, for the run's record."""


def card_in_short(
    card: ScoreCard, facts: Sequence[Fact], only: Collection[str] = ()
) -> dict[str, Any]:
    """Return a score card as short JSON; ``only``, if given, names the facts that are told of.

    ``missing`` holds what the judges found not to hold, and what depends on it (``void``);
    ``unscored`` what no judge could tell.
    """
    verdicts = {verdict.fact_id: verdict for verdict in card.verdicts}
    told: dict[str, Any] = {
        "score": None if card.sgscore is None else round(card.sgscore, 4),
        "confirmed": [],
        "missing": [],
        "unscored": [],
    }
    for fact in facts:
        verdict = verdicts.get(fact.id)
        if verdict is None or (only and fact.id not in only):
            continue
        match verdict.state:
            case "yes":
                told["confirmed"].append(fact.id)
            case "unscored":
                told["unscored"].append(fact.id)
            case _:
                entry: dict[str, Any] = {"fact": fact.id, "says": fact.statement}
                if verdict.probability is not None:
                    entry["probability"] = round(verdict.probability, 3)
                if verdict.state == "void":
                    entry["void"] = True
                told["missing"].append(entry)
    return told
