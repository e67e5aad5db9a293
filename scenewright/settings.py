"""Settings of this machine and profiles: which backend, judges and composer go together.

Settings come from the environment (``SCENEWRIGHT_RUNS=…``), then from ``scenewright.toml``
in the working folder. Profiles of your own stand in the same file (or in the one that
``profiles_file`` names) and may extend another::

    [profiles.mine]
    extends = "sdxl"
    backend = "diffusers:/models/my-finetune"
    judges = ["local:/models/qwen-vl"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from scenewright.questions import Protocol

Strategy = Literal["feedback", "resample"]
Repair = Literal["whole", "region"]
Aggregation = Literal["mean", "majority"]
ComposerName = Literal["rules", "triplets"]
BACKEND_KINDS = ("diffusers",)
JUDGE_KINDS = ("local",)
SETTINGS_FILE = "scenewright.toml"


class SettingsError(ValueError):
    """A setting or profile that cannot be used: names the place and the remedy."""


class AdapterSpec(BaseModel):
    """Where an IP-Adapter's weights lie."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str
    """A local folder or a hub id, for example ``"h94/IP-Adapter"``."""
    subfolder: str = ""
    """Folder of the weights in it."""
    weight_name: str = "ip-adapter.safetensors"
    """File of the weights in the sub-folder."""
    image_encoder: str = "image_encoder"
    """Folder of the image encoder: below the sub-folder, or, with a slash, below the repository."""


class BackendSpec(BaseModel):
    """What draws, as data. ``"diffusers:<model>"`` is the short form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["diffusers"] = "diffusers"
    """Which backend class."""
    model: str = Field(min_length=1)
    """A folder, a hub id, or ``miniature`` for the model that comes with the package."""
    adapter: AdapterSpec | None = None
    """IP-Adapter for reference images; none: the loop draws anew without references."""
    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Number format of the weights."""
    scheduler: str | None = None
    """A diffusers scheduler class; None: the model's own."""
    variant: str | None = None
    """Weights variant, for example ``fp16``."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        kind, _, model = value.partition(":")
        if kind not in BACKEND_KINDS or not model:
            raise ValueError(
                f"{value!r} is no backend: write 'kind:model' with a kind of "
                f"{', '.join(BACKEND_KINDS)}, for example 'diffusers:miniature'"
            )
        return {"kind": kind, "model": model}


class Profile(BaseModel):
    """Models and choices that go together."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    """How it is called."""
    about: str = ""
    """One sentence for lists."""
    backend: BackendSpec
    """What draws."""
    composer: ComposerName = "rules"
    """What writes prompts: ``rules`` (a description) or ``triplets`` (the paper's baseline)."""
    composer_defaults: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Attributes that ``rules`` says of a class where the scene gives none:
    ``{"tree": {"color": "green"}}``."""
    judges: tuple[str, ...] = Field(min_length=1)
    """Judges of the loop, each ``kind:model``."""
    report_judges: tuple[str, ...] = ()
    """Judges that the loop never sees; the number that a run reports is theirs."""
    aggregation: Aggregation = "mean"
    """How the panel turns answers into verdicts."""
    quorum: int = Field(default=1, ge=1)
    """Fewest judges with a usable answer that a verdict needs."""
    strategy: Strategy = "feedback"
    """``feedback`` (references, Scene-Bench Sec. 4) or ``resample`` (new seeds, the control)."""
    steps: int | None = Field(default=None, ge=1, le=1000)
    """Denoising steps; None: the backend's default."""
    guidance: float | None = Field(default=None, ge=0.0, le=100.0)
    """Guidance scale; None: the backend's default."""
    negative_prompt: str = ""
    """What to avoid."""
    weight_best: float = Field(default=0.5, ge=-4.0, le=4.0)
    """λ0 of Eq. 5: weight of the best candidate so far."""
    weight_missing: float = Field(default=0.5, ge=-4.0, le=4.0)
    """λ1 of Eq. 5: weight of the reference image."""
    repair: Repair = "whole"
    """What a round of feedback draws anew: the ``whole`` picture from another seed, as in the
    paper, or only the ``region`` where the composer plans what is missing."""
    alpha: float = Field(default=0.5, ge=0.0, le=1.0)
    """Weight of the objects in SGScore (Eq. 4)."""
    protocol: Protocol = "grounded"
    """How facts are asked."""

    @field_validator("judges", "report_judges")
    @classmethod
    def _known_kinds(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for judge in value:
            kind, _, model = judge.partition(":")
            if kind not in JUDGE_KINDS or not model:
                raise ValueError(
                    f"{judge!r} is no judge: write 'kind:model' with a kind of "
                    f"{', '.join(JUDGE_KINDS)}, for example 'local:miniature/judge-a'"
                )
        if len(set(value)) != len(value):
            raise ValueError("a judge is listed twice: its second vote would count double")
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        shared = sorted(set(self.judges) & set(self.report_judges))
        if shared:
            raise ValueError(
                f"{', '.join(shared)} cannot both steer the loop and report its result: "
                "keep it in judges or in report_judges"
            )
        fewest = min(len(self.judges), len(self.report_judges) or len(self.judges))
        if self.quorum > fewest:
            raise ValueError(f"the quorum is {self.quorum}, but a panel has only {fewest} judges")
        return self


_VISION_MODELS: dict[str, Any] = {
    "judges": ("local:Qwen/Qwen2.5-VL-3B-Instruct", "local:HuggingFaceTB/SmolVLM-Instruct"),
    "report_judges": ("local:llava-hf/llava-1.5-7b-hf",),
}

# The colour that the small generator is told where a scene names none.
_MINIATURE_COLORS = {
    "person": "blue",
    "dog": "yellow",
    "cat": "purple",
    "tree": "green",
    "house": "red",
    "car": "red",
    "boat": "blue",
    "ball": "red",
    "table": "purple",
    "lamp": "yellow",
    "umbrella": "purple",
    "hat": "blue",
}

BUILT_IN: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="miniature",
            about="The small painted world that comes with the package; needs nothing else.",
            backend=BackendSpec(model="miniature"),
            composer_defaults={kind: {"color": color} for kind, color in _MINIATURE_COLORS.items()},
            judges=("local:miniature/judge-a", "local:miniature/judge-b"),
            report_judges=("local:miniature/judge-c",),
            repair="region",
            # The kept noise keeps the rest of the picture; I0 besides would wash its ground out.
            weight_best=0.0,
            weight_missing=0.3,
        ),
        Profile(
            name="sd15",
            about="Stable Diffusion 1.5 with the published IP-Adapter.",
            backend=BackendSpec(
                model="stable-diffusion-v1-5/stable-diffusion-v1-5",
                adapter=AdapterSpec(
                    repository="h94/IP-Adapter",
                    subfolder="models",
                    weight_name="ip-adapter_sd15.safetensors",
                ),
            ),
            **_VISION_MODELS,
        ),
        Profile(
            name="sdxl",
            about="Stable Diffusion XL with the published IP-Adapter.",
            backend=BackendSpec(
                model="stabilityai/stable-diffusion-xl-base-1.0",
                adapter=AdapterSpec(
                    repository="h94/IP-Adapter",
                    subfolder="sdxl_models",
                    weight_name="ip-adapter_sdxl.safetensors",
                ),
            ),
            **_VISION_MODELS,
        ),
    )
}


class Settings(BaseSettings):
    """Settings of this machine."""

    model_config = SettingsConfigDict(
        env_prefix="SCENEWRIGHT_",
        toml_file=SETTINGS_FILE,
        extra="forbid",
        frozen=True,
    )

    profile: str = "miniature"
    """The profile used where none is named."""
    runs: Path = Path("runs")
    """Where run folders are made."""
    profiles_file: Path | None = None
    """A TOML file with further profiles."""
    judge_timeout: float = Field(default=120.0, gt=0)
    """Seconds that one call of a judge may take."""
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Profiles of your own, by name; ``extends`` names the one to start from."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments go before the environment, and both before the TOML file."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


def load_settings(**values: Any) -> Settings:
    """The settings; raises ``SettingsError`` naming the setting and the remedy."""
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsError(
            f"the settings are wrong: {_first(error)}. Look into {SETTINGS_FILE} and the "
            f"environment (SCENEWRIGHT_…); known settings: {', '.join(Settings.model_fields)}"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{SETTINGS_FILE} is no TOML: {error}") from error
    except OSError as error:
        raise SettingsError(f"{SETTINGS_FILE} cannot be read: {error.strerror}") from error


def load_profiles(settings: Settings | None = None) -> dict[str, Profile]:
    """All profiles by name: the built-in ones, then your own (which may replace them)."""
    settings = settings or load_settings()
    tables: dict[str, dict[str, Any]] = {}
    if settings.profiles_file is not None:
        tables |= _read_tables(settings.profiles_file)
    tables |= settings.profiles
    return dict(BUILT_IN) | {name: _own(name, tables, ()) for name in tables}


def find_profile(name: str, settings: Settings | None = None) -> Profile:
    """The profile of that name; ``SettingsError`` lists what there is."""
    profiles = load_profiles(settings)
    if name not in profiles:
        raise SettingsError(f"no profile {name!r}: there are {', '.join(sorted(profiles))}")
    return profiles[name]


def _read_tables(path: Path) -> dict[str, dict[str, Any]]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"there is no profiles file {path}: check profiles_file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    tables = data.get("profiles", {})
    if set(data) - {"profiles"} or not isinstance(tables, dict):
        raise SettingsError(f"{path} must hold tables [profiles.NAME] only")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: profiles.{name} must be a table")
    return tables


def _own(name: str, tables: Mapping[str, dict[str, Any]], path: tuple[str, ...]) -> Profile:
    if name in path:
        raise SettingsError(f"profiles extend each other in a circle: {' → '.join([*path, name])}")
    table = dict(tables[name])
    parent = table.pop("extends", None)
    base: dict[str, Any] = {}
    if parent is not None:
        if parent in tables and parent != name:
            base = _own(parent, tables, (*path, name)).model_dump(mode="json")
        elif parent in BUILT_IN:
            base = BUILT_IN[parent].model_dump(mode="json")
        else:
            known = sorted({*BUILT_IN, *tables} - {name})
            raise SettingsError(
                f"profile {name!r} extends {parent!r}, which does not exist: "
                f"there are {', '.join(known)}"
            )
    backend = table.get("backend")
    if isinstance(backend, str) and base:
        # A short form swaps the model and keeps what goes with it, such as the adapter.
        try:
            short = BackendSpec.model_validate(backend).model_dump(include={"kind", "model"})
        except ValidationError as error:
            raise SettingsError(f"profile {name!r}: {_first(error)}") from error
        table["backend"] = base["backend"] | short
    elif isinstance(backend, dict) and base:
        table["backend"] = base["backend"] | backend
    try:
        return Profile.model_validate(base | table | {"name": name})
    except ValidationError as error:
        raise SettingsError(f"profile {name!r}: {_first(error)}") from error


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
