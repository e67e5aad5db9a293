"""Requests and replies of AUTOMATIC1111's routes.

Which profile a tenant has chosen, kept in a file each.

AUTOMATIC1111's prompt syntax, read as plain words: weights, networks, words that change.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.config.options import MAX_TEXT
from scenewright.core.validation import is_given
from scenewright.runs.folder import write_json
from scenewright.service.api.common import Extension
from scenewright.service.compat.adapter import Outcome, Size, obstacles
from scenewright.service.core.errors import Unavailable, Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.service import Service

MOST = 10
"""Most pictures of one request."""
OWN_SAMPLER = "Automatic"
"""The scheduler of each profile's model."""
OWN_SIDE = 512
"""AUTOMATIC1111's side where only the other one is given, pixels."""
LEAST_SIDE, MOST_SIDE = 16, 4096
"""Pixels of a side."""

_OBJECTS = ("alwayson_scripts", "override_settings")


class TextToImage(BaseModel):
    """A request for pictures.

    Fields that are not named here are accepted without effect; the reply names those that ask for
    something.
    """

    model_config = ConfigDict(extra="allow")

    prompt: str = Field(default="", max_length=MAX_TEXT)
    """Prompt of the pictures; its syntax (weights, networks) is left out."""
    negative_prompt: str = Field(default="", max_length=MAX_TEXT)
    """Things to avoid; empty: as the profile says."""
    seed: int = Field(default=-1, ge=-1, lt=2**62)
    """Seed of the first picture, each further one has the next; -1: a random one."""
    steps: int | None = Field(default=None, ge=1, le=1000)
    """Denoising steps."""
    cfg_scale: float | None = Field(default=None, ge=0.0, le=100.0, allow_inf_nan=False)
    """Guidance scale."""
    width: int | None = Field(default=None, ge=LEAST_SIDE, le=MOST_SIDE)
    """Pixels of the pictures that come; neither side given: the model's own."""
    height: int | None = Field(default=None, ge=LEAST_SIDE, le=MOST_SIDE)
    """Height in pixels; neither side given: the model's own."""
    batch_size: int = Field(default=1, ge=1, le=MOST)
    """Pictures at once; each is a run of its own."""
    n_iter: int = Field(default=1, ge=1, le=MOST)
    """Repetitions of the batch."""
    enable_hr: bool = False
    """Whether the pictures are to be larger than ``width`` and ``height``, by the next three
    fields: drawn as large as the model draws well, and scaled from there. There is no second
    pass."""
    hr_scale: float = Field(default=2.0, ge=0.0, le=100.0, allow_inf_nan=False)
    """Factor of width and height."""
    hr_resize_x: int = Field(default=0, ge=0, le=MOST_SIDE)
    """Width in pixels, in place of ``hr_scale``; 0: by the height."""
    hr_resize_y: int = Field(default=0, ge=0, le=MOST_SIDE)
    """Height in pixels likewise."""
    script_name: str | None = Field(default=None, max_length=200)
    """There are no scripts: a name is refused."""
    alwayson_scripts: dict[str, Any] = Field(default_factory=dict)
    """Scripts that always run: there are none, a name is refused."""
    send_images: bool = True
    """Whether the pictures come in the reply."""
    override_settings: dict[str, Any] = Field(default_factory=dict)
    """Options for this request alone; of them ``sd_model_checkpoint`` has an effect."""
    scenewright: Extension = Extension()
    """Options beyond AUTOMATIC1111's API."""

    @model_validator(mode="before")
    @classmethod
    def _drop_not_given(cls, given: Any) -> Any:
        """Take null and "" for a field that is not there, also of fields without effect."""
        if not isinstance(given, dict):
            return given
        # Some languages write an empty object as a list.
        return {
            name: value
            for name, value in given.items()
            if is_given(value) and not (name in _OBJECTS and value == [])
        }

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.count > MOST:
            raise ValueError(f"batch_size × n_iter may be at most {MOST}: ask for fewer pictures")
        scripts = [*filter(None, (self.script_name,)), *self.alwayson_scripts]
        if scripts:
            raise ValueError(
                f"no script {scripts[0][:100]!r} here: there are none (GET /sdapi/v1/scripts); "
                "leave script_name and alwayson_scripts out"
            )
        return self

    @property
    def count(self) -> int:
        """Pictures in all."""
        return self.batch_size * self.n_iter

    def size(self, own: Size) -> Size | None:
        """Return the (width, height) in pixels that is asked for; none: the model's ``own``.

        Raises ``Unprocessable`` if the hires fix asks for too large pictures.
        """
        given = None
        if self.width is not None or self.height is not None:
            given = self.width or OWN_SIDE, self.height or OWN_SIDE
        if not self.enable_hr:
            return given
        width, height = given or own
        to_width, to_height = self.hr_resize_x, self.hr_resize_y
        if not to_width and not to_height:
            larger = int(width * self.hr_scale), int(height * self.hr_scale)
        else:
            larger = (
                to_width or round(to_height * width / height),
                to_height or round(to_width * height / width),
            )
        if not all(LEAST_SIDE <= side <= MOST_SIDE for side in larger):
            raise Unprocessable(
                f"the hires fix asks for {larger[0]}x{larger[1]} pixels: sides may have "
                f"{LEAST_SIDE} to {MOST_SIDE}; choose another hr_scale, hr_resize_x or hr_resize_y"
            )
        return larger


class TextToImageReply(BaseModel):
    """Pictures."""

    images: tuple[str, ...]
    """PNG files in base64, their infotext in each."""
    parameters: dict[str, Any]
    """The request."""
    info: str
    """Seeds, infotexts and what else AUTOMATIC1111 tells, as JSON in a string."""
    ignored: dict[str, str]
    """Parameters that had no effect, each with the reason; ``info`` has them too."""
    scenewright: tuple[Outcome, ...]
    """Facts and scores, one run a picture; runs without a picture last."""


class State(BaseModel):
    """State of the work."""

    skipped: bool = False
    """Always false."""
    interrupted: bool = False
    """Always false: what was interrupted is over."""
    stopping_generation: bool = False
    """Always false."""
    job: str = ""
    """The newest run at work; empty: none is."""
    job_count: int = 0
    """Pictures of the request."""
    job_timestamp: str = ""
    """When it came, ``YYYYMMDDhhmmss`` in UTC."""
    job_no: int = 0
    """Pictures that are done."""
    sampling_step: int = 0
    """Candidates that the run has drawn."""
    sampling_steps: int = 0
    """Most candidates that it may draw."""


class Progress(BaseModel):
    """Progress of your newest request."""

    progress: float = 0.0
    """0–1; 0 where nothing is at work."""
    eta_relative: float = 0.0
    """Seconds that it will still take, by what it took so far."""
    state: State = State()
    """State of the request."""
    current_image: str | None = None
    """The newest candidate, a PNG file in base64."""
    textinfo: str | None = None
    """The round, in words."""


class Picture(BaseModel):
    """A picture whose infotext is asked for."""

    image: str = Field(min_length=1)
    """The file in base64, or as a ``data:`` address."""


class PictureInfo(BaseModel):
    """Text in the file of a picture about itself."""

    info: str
    """Its infotext; empty: it has none."""
    items: dict[str, str]
    """The other texts in it."""
    parameters: dict[str, str]
    """The infotext taken apart: ``Prompt``, ``Steps``, ``Size-1``, …"""


class Checkpoint(BaseModel):
    """A profile, as AUTOMATIC1111 lists models."""

    title: str
    """Its name: what ``sd_model_checkpoint`` takes."""
    model_name: str
    """The same."""
    hash: str | None = None
    """None: a profile is no file."""
    sha256: str | None = None
    """None likewise."""
    filename: str
    """Backend that draws: ``kind:model``."""
    config: str | None = None
    """None."""


class Sampler(BaseModel):
    """A sampler."""

    name: str
    """Name."""
    aliases: tuple[str, ...] = ()
    """Other names."""
    options: dict[str, str] = Field(default_factory=dict)
    """None."""


class Upscaler(BaseModel):
    """An upscaler."""

    name: str
    """Name."""
    model_name: str | None = None
    """None."""
    model_path: str | None = None
    """None."""
    model_url: str | None = None
    """None."""
    scale: float = 1.0
    """Factor by which pictures become larger."""


CHECKPOINT = "sd_model_checkpoint"
_FOLDER = "automatic1111"
_AROUND = re.compile(r"(\.(safetensors|ckpt))?(\s*\[[^\]]*\])?$")


def options_of(service: Service, identity: Identity) -> dict[str, Any]:
    """Return the options that have a meaning here, by AUTOMATIC1111's names."""
    return {
        CHECKPOINT: chosen_profile(service, identity),
        "sd_checkpoint_hash": "",
        "samples_format": "png",
        "CLIP_stop_at_last_layers": 1,
        "enable_pnginfo": True,
    }


def choose(service: Service, identity: Identity, given: dict[str, Any]) -> None:
    """Keep the profile that ``given`` names, if it names one; the other options have no effect.

    Raises ``Unprocessable`` for a profile that may not be asked for, or that cannot run here.
    """
    named = given.get(CHECKPOINT)
    if not is_given(named):
        return
    profile = runnable_profile(service, identity, named)
    place = _place(service, identity)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_json(place, {CHECKPOINT: profile})
    except OSError as error:
        raise Unavailable(f"the choice cannot be kept: {error.strerror or error}") from error


def chosen_profile(service: Service, identity: Identity) -> str:
    """Return the tenant's profile, else the service's default, else the first allowed one."""
    known = service.profiles()
    try:
        kept = json.loads(_place(service, identity).read_text(encoding="utf-8"))[CHECKPOINT]
    except (OSError, ValueError, KeyError, TypeError):
        kept = None
    for name in (kept, service.base.profile):
        if name in known:
            return str(name)
    return next(iter(known), service.base.profile)


def runnable_profile(service: Service, identity: Identity, named: object) -> str:
    """Return the profile of a model's title, as plug-ins write it; none: the tenant's own.

    Raises ``Unprocessable`` for one that is not known, with those that are, or cannot run here.
    """
    known = service.profiles()
    if is_given(named):
        name = _AROUND.sub("", named) if isinstance(named, str) else ""
        if name not in known:
            raise Unprocessable(
                f"no model {str(named)[:100]!r} here: there are {', '.join(sorted(known))}, the "
                "service's profiles"
            )
    else:
        name = chosen_profile(service, identity)
    if problem := obstacles(service, name)[name]:
        raise Unprocessable(problem)
    return name


def _place(service: Service, identity: Identity) -> Path:
    name = hashlib.sha256(identity.tenant.encode()).hexdigest()[:32]
    return service.settings.data / _FOLDER / f"{name}.json"


_NETWORK = re.compile(r"<[^<>]*>")
_EDITED = re.compile(r"\[([^\[\]():|]*):([^\[\]():|]*):\s*[\d.]+\s*\]")
_SWITCHED = re.compile(r"\[([^\[\]()|]*)\|[^\[\]()]*\]")
_WEIGHTED = re.compile(r"\(([^()\[\]]*?)(?::\s*[\d.]+\s*)?\)|\[([^()\[\]]*)\]")
_BREAK = re.compile(r"\s*\bBREAK\b\s*")
_AND = re.compile(r"\s+AND\s+")
_ESCAPED = {"\\(": "\ue000", "\\)": "\ue001", "\\[": "\ue002", "\\]": "\ue003"}
_MOST_NESTED = 20


def plain_words(prompt: str) -> str:
    """``prompt`` without its syntax: ``(red ball:1.2) <lora:x:1>`` is ``red ball``.

    Of words that change while a picture is drawn (``[dog:cat:0.5]``, ``[dog|cat]``) the last or
    the first stay. Parentheses with a backslash before them are meant as such.
    """
    text = _NETWORK.sub(" ", prompt)
    for shown, kept in _ESCAPED.items():
        text = text.replace(shown, kept)
    for _ in range(_MOST_NESTED):
        before = text
        text = _EDITED.sub(lambda found: found[2].strip() or found[1], text)
        text = _SWITCHED.sub(r"\1", text)
        text = _WEIGHTED.sub(lambda found: found[1] or found[2] or "", text)
        if text == before:
            break
    text = _AND.sub(", ", _BREAK.sub(". ", text))
    for shown, kept in _ESCAPED.items():
        text = text.replace(kept, shown[1])
    return re.sub(r"\s+", " ", text).strip(" ,")
