"""Settings of the service: where it listens, what it keeps, how much it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from scenewright.config.profiles import SettingsError
from scenewright.core.sockets import is_loopback
from scenewright.core.validation import first_problem

DATABASE = "service.sqlite"
RUNS = "runs"


class ServiceSettings(BaseSettings):
    """Settings of ``scenewright serve``; the environment sets them as ``SCENEWRIGHT_SERVICE_…``."""

    model_config = SettingsConfigDict(
        env_prefix="SCENEWRIGHT_SERVICE_", extra="forbid", frozen=True
    )

    host: str = "127.0.0.1"
    """Address to listen on; one that other machines reach demands API keys."""
    port: int = Field(default=8642, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    data: Path = Path("scenewright-data")
    """Folder of the run folders and of the SQLite database."""
    database: str | None = None
    """URL of the database: ``postgresql://USER:PASSWORD@HOST/NAME``; none: SQLite in ``data``."""
    artifacts: str | None = None
    """Store of run folders for servers without a disk in common: a URL of fsspec, such as
    ``s3://BUCKET/FOLDER``; none: in ``data``."""
    work: bool = True
    """Whether this process drives runs itself; if not, ``scenewright worker`` does elsewhere."""
    health_port: int | None = Field(default=None, ge=0, le=65535)
    """Port on which ``scenewright worker`` says how it is (``/healthz``, ``/readyz``,
    ``/metrics``); none: nowhere."""
    running: int = Field(default=4, ge=1, le=256)
    """Runs that are driven at once."""
    queue: int = Field(default=1000, ge=1)
    """Runs that may wait; more are refused with 429."""
    scoring: int = Field(default=4, ge=1, le=256)
    """Images that are scored at once; as many again may wait."""
    profiles: tuple[str, ...] = ()
    """Names of the profiles that may be asked for; none named: all."""
    keys: bool = False
    """Whether API keys are demanded on a loopback address too."""
    trusted_hosts: tuple[str, ...] = ()
    """Further names by which the service is reached (the ``Host`` header of a reverse proxy)."""
    upload_bytes: int = Field(default=20 * 2**20, ge=1024)
    """Largest uploaded file."""
    upload_pixels: int = Field(default=4096 * 4096, ge=64 * 64)
    """Most pixels of an uploaded image."""
    drain_seconds: float = Field(default=60.0, gt=0)
    """Longest wait at the end for the steps under way; what is not done by then is done again."""
    lease_seconds: float = Field(default=30.0, ge=1)
    """After how many seconds of silence another server takes a run over."""
    keep_alive_seconds: float = Field(default=15.0, gt=0)
    """Seconds between two signs of life on a silent stream of events."""
    log_format: Literal["text", "json"] = "text"
    """``text`` for people, ``json`` for machines: one object a line."""
    otlp_endpoint: str | None = None
    """Address for traces: an OpenTelemetry collector, ``http://localhost:4318``; none: where
    ``OTEL_EXPORTER_OTLP_ENDPOINT`` says, or nowhere."""

    @property
    def runs(self) -> Path:
        """Folder of the run folders."""
        return self.data / RUNS

    @property
    def url(self) -> str:
        """URL of the database in SQLAlchemy's asynchronous form."""
        if self.database is None:
            return f"sqlite+aiosqlite:///{(self.data / DATABASE).resolve()}"
        scheme, _, rest = self.database.partition("://")
        kind = scheme.partition("+")[0]
        if kind in ("postgresql", "postgres") and rest:
            return f"postgresql+psycopg://{rest}"
        if kind == "sqlite" and rest:
            return f"sqlite+aiosqlite://{rest}"
        raise SettingsError(
            f"the database URL begins with {scheme!r}: write postgresql://USER:PASSWORD@HOST/NAME "
            "or sqlite:///FILE"
        )

    @property
    def shared(self) -> bool:
        """Whether the database is one that several servers may use."""
        return self.url.startswith("postgresql")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return is_loopback(self.host)

    @property
    def demands_keys(self) -> bool:
        """Whether a request needs an API key."""
        return self.keys or not self.loopback


def service_settings(**values: object) -> ServiceSettings:
    """Return the settings with ``values``, of which None stands for the default.

    Raises ``SettingsError`` naming the setting and the remedy.
    """
    chosen = {name: value for name, value in values.items() if value is not None}
    try:
        return ServiceSettings(**chosen)  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError(
            f"a setting of the service is wrong: {first_problem(error)}. Look at the options of "
            "scenewright serve and the environment (SCENEWRIGHT_SERVICE_…)"
        ) from error


def check(settings: ServiceSettings) -> None:
    """Raise ``SettingsError`` for a database of a wrong form, and where nobody drives the runs."""
    if not settings.shared and not settings.work:
        raise SettingsError(
            "without a worker in this process another one drives the runs, and both need the same "
            "PostgreSQL: give --database postgresql://USER:PASSWORD@HOST/NAME, or leave --no-work "
            "away"
        )
