"""What is served, and how, as data: of the command, of ``serve run`` and of RayService."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from scenewright.config.accounts import SERVE_KEY_VARIABLE
from scenewright.config.profiles import (
    LOCAL_BACKEND,
    LOCAL_JUDGE,
    BackendSpec,
    SettingsError,
    split_judge,
)
from scenewright.config.settings import Settings, find_profile, load_settings
from scenewright.core.validation import first_problem

_NOTHING = (
    "nothing to serve: name models, such as local:miniature/judge-a or diffusers:miniature, or a "
    "profile with some on this machine"
)


class Placing(BaseModel):
    """How many replicas a model has, and what each takes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    replicas: int = Field(default=1, ge=0, le=4096)
    """Replicas; with ``max_replicas`` the fewest (0: none while nobody asks)."""
    max_replicas: int | None = Field(default=None, ge=1, le=4096)
    """Most replicas that the load may call for; None: always ``replicas``."""
    ongoing: float | None = Field(default=None, gt=0)
    """Requests under way in a replica above which further replicas start, and below which they
    end; None: one of a backend, half of a batch of a judge."""
    cpus: float = Field(default=1.0, ge=0)
    """Processors of a replica."""
    gpus: float = Field(default=0.0, ge=0)
    """GPUs of a replica: 0.5 puts two on one GPU."""
    batch: int = Field(default=8, ge=1, le=256)
    """Of a judge: most pictures whose questions are answered together; 1: each alone."""
    batch_wait: float = Field(default=0.01, ge=0, le=10)
    """Seconds that a replica at rest waits for a batch to fill."""
    waiting: int = Field(default=1024, ge=1)
    """Most requests that wait for a replica; more are told to come back later."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_replicas is None and self.replicas < 1:
            raise ValueError("replicas is 0: serve at least 1, or set max_replicas as well")
        if self.max_replicas is not None and self.max_replicas < self.replicas:
            raise ValueError(
                f"max_replicas is {self.max_replicas}, below replicas ({self.replicas}): raise it"
            )
        return self


class ServedSpec(Placing):
    """One model that is served. ``"kind:model"`` is the short form."""

    model: str
    """``local:MODEL`` (a judge) or ``diffusers:MODEL`` (a backend); also its name for clients."""
    backend: BackendSpec | None = None
    """Of a backend that needs more than a name: adapter, dtype, scheduler …"""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"model": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        kind, name = split_judge(self.model)
        if kind not in (LOCAL_JUDGE, LOCAL_BACKEND):
            raise ValueError(
                f"{self.model!r} cannot be served: name models as local:MODEL (judges) or "
                "diffusers:MODEL (backends)"
            )
        if self.backend is not None and (self.backend.kind, self.backend.model) != (kind, name):
            raise ValueError(f"backend describes another model than {self.model}")
        return self

    @property
    def is_judge(self) -> bool:
        """Whether it judges; else it draws."""
        return self.model.startswith(f"{LOCAL_JUDGE}:")

    @property
    def what_draws(self) -> BackendSpec:
        """The backend."""
        return self.backend or BackendSpec.model_validate(self.model)


class ServingArgs(Placing):
    """All that is served by one application. The placing holds for models that set none."""

    profile: str = ""
    """Its backend and judges are served, those of accounts left out."""
    models: tuple[ServedSpec, ...] = ()
    """Further models."""
    gateways: int = Field(default=1, ge=1, le=64)
    """Replicas of what takes the HTTP requests; they load no model."""
    most_megabytes: float = Field(default=64.0, gt=0)
    """Most megabytes of one request."""
    key_variable: str = SERVE_KEY_VARIABLE
    """Environment variable, on the machines of the gateways, with the key that clients must send;
    not set: none is asked for."""

    @field_validator("models", mode="before")
    @classmethod
    def _with_defaults(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            # ``serve run … models=a,b`` gives text.
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            return value
        shared = {name: info.data[name] for name in Placing.model_fields if name in info.data}
        return [_placed(one, shared) for one in value]


def _placed(one: Any, shared: Mapping[str, Any]) -> Any:
    """Return a model of a configuration, with what it does not say of its placing."""
    if isinstance(one, str):
        return {**shared, "model": one}
    if isinstance(one, Mapping):
        return {**shared, **one}
    return one


def serving_args(raw: Mapping[str, Any]) -> ServingArgs:
    """Return the arguments as given; ``SettingsError`` names the first that is wrong."""
    try:
        return ServingArgs.model_validate(raw)
    except ValidationError as error:
        raise SettingsError(first_problem(error)) from None


def specs_of(args: ServingArgs, settings: Settings | None = None) -> tuple[ServedSpec, ...]:
    """Every model that ``args`` asks for, once, the profile's first.

    Raises ``SettingsError`` for an unknown profile, or where nothing is left to serve.
    """
    found: dict[str, ServedSpec] = {}
    for spec in (*_of_profile(args, settings), *args.models):
        found.setdefault(spec.model, spec)
    if not found:
        raise SettingsError(_NOTHING)
    return tuple(found.values())


def _of_profile(args: ServingArgs, settings: Settings | None) -> Iterable[ServedSpec]:
    if not args.profile:
        return
    profile = find_profile(args.profile, settings or load_settings())
    shared = args.model_dump(include=set(Placing.model_fields))
    backend = profile.backend
    if backend.kind == LOCAL_BACKEND:
        yield ServedSpec(**shared, model=f"{backend.kind}:{backend.model}", backend=backend)
    for judge in dict.fromkeys((*profile.judges, *profile.report_judges)):
        if split_judge(judge)[0] == LOCAL_JUDGE:
            yield ServedSpec(**shared, model=judge)
