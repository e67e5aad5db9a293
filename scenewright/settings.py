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
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from scenewright.accounts import ACCOUNT_NAME, BUILT_IN_ACCOUNTS, AccountSpec
from scenewright.profile_specs import (
    CHAT_KINDS,
    DIRECTOR,
    JUDGE_KINDS,
    LOCAL_BACKEND,
    AdapterSpec,
    Aggregation,
    Asking,
    BackendSpec,
    CascadeSpec,
    ComposerName,
    Profile,
    Repair,
    SettingsError,
    split_judge,
)

__all__ = [
    "BUILT_IN",
    "CHAT_KINDS",
    "DIRECTOR",
    "JUDGE_KINDS",
    "LOCAL_BACKEND",
    "SETTINGS_FILE",
    "AdapterSpec",
    "Aggregation",
    "Asking",
    "BackendSpec",
    "CascadeSpec",
    "ComposerName",
    "Profile",
    "Repair",
    "Settings",
    "SettingsError",
    "find_profile",
    "load_profiles",
    "load_settings",
    "split_judge",
]

SETTINGS_FILE = "scenewright.toml"

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
            # The picture outside of the region is kept as it is: I0 has nothing to add.
            weight_best=0.0,
            weight_missing=0.6,
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
    prices: Path | None = None
    """A TOML file with prices of models, which go before those that ship with scenewright."""
    accounts: dict[str, AccountSpec] = Field(default_factory=dict)
    """Accounts at providers, by name; one of a built-in name replaces it."""
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Profiles of your own, by name; ``extends`` names the one to start from."""

    @field_validator("accounts")
    @classmethod
    def _account_names(cls, value: dict[str, AccountSpec]) -> dict[str, AccountSpec]:
        for name in value:
            if ACCOUNT_NAME.fullmatch(name) is None or name in JUDGE_KINDS:
                raise ValueError(
                    f"{name!r} cannot name an account: use lower-case letters, digits, - and _, "
                    f"and neither of {', '.join(JUDGE_KINDS)}"
                )
        return value

    def account(self, name: str) -> AccountSpec:
        """The account of that name, your own before the built-in; ``SettingsError`` lists them."""
        known = {**BUILT_IN_ACCOUNTS, **self.accounts}
        if name not in known:
            raise SettingsError(
                f"no kind of judge and no account {name!r}: there are "
                f"{', '.join((*JUDGE_KINDS, *known))}; yours stand in [accounts.NAME] of "
                f"{SETTINGS_FILE}"
            )
        return known[name]

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
    own = {name: _own(name, tables, ()) for name in tables}
    for name, profile in own.items():
        for judge in (*profile.judges, *profile.report_judges):
            kind = split_judge(judge)[0]
            if kind not in JUDGE_KINDS:
                try:
                    settings.account(kind)
                except SettingsError as error:
                    raise SettingsError(f"profile {name!r}: {error}") from error
    return dict(BUILT_IN) | own


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
        table["backend"] = _swapped(base["backend"], short)
    elif isinstance(backend, dict) and base:
        table["backend"] = _swapped(base["backend"], backend)
    try:
        return Profile.model_validate(base | table | {"name": name})
    except ValidationError as error:
        raise SettingsError(f"profile {name!r}: {_first(error)}") from error


def _swapped(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    # What goes with a model of one kind says nothing to another kind.
    return dict(own) if own.get("kind", base["kind"]) != base["kind"] else {**base, **own}


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
