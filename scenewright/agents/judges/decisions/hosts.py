"""Servers of System One and what each does in its own way, as data: ``hosts.toml``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.core.ports.judge import JudgeError
from scenewright.providers.model_table import ModelTableError, checked, rows_of

PLAIN = "systemone"
"""The row of a server that does everything in the plain form."""


class Host(BaseModel):
    """How one server is asked and answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    """Its name, for people."""
    base_url: str
    """Where it is, unless an account says otherwise; empty: an account must."""
    path: str = Field(pattern=r"^/")
    """Path of the requests, with ``{model}`` and ``{account}`` for these."""
    account_variable: str
    """Environment variable of what stands for ``{account}`` in the path."""
    headers: dict[str, str]
    """Headers of every request."""
    pictures: Literal["assets", "images", "parts"]
    """Whether a picture travels among the ``assets`` under a name that the state holds, among the
    ``images``, or as an ``image_url`` part of the state."""
    encoding: Literal["base64", "data_url"]
    """How it is written among the ``images``."""
    state: str
    """The state beside a picture among the ``images``."""
    reply: tuple[str, ...]
    """Path of the object with ``answers`` in the reply; empty: the reply is that object."""
    input_tokens: tuple[str, ...]
    """Path of the count of input tokens in that object."""
    cached_tokens: tuple[str, ...]
    """Path of the count of those that came from a cache; empty: it is not told."""
    label_mass: tuple[str, ...]
    """Path of the probability of all labels of a question together, ``{name}`` being the question;
    empty: it is not told."""
    request_id: str
    """Header that names the request."""
    lasting_codes: tuple[int | str, ...]
    """Codes in the body of an error that say that no further try helps."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.path.format(model="", account="")
        except (LookupError, ValueError) as error:
            raise ValueError(f"path {self.path!r}: use {{model}} and {{account}} only") from error
        if "{account}" in self.path and not self.account_variable:
            raise ValueError("path has {account}: name the account_variable that holds it")
        return self

    def url(self, base_url: str, model: str) -> str:
        """Where requests for ``model`` go.

        ``base_url`` may end with the beginning of the path, as those of chat models end with
        ``/v1``. Raises ``JudgeError`` if the account's name in the path is not in the environment.
        """
        account = os.environ.get(self.account_variable, "") if self.account_variable else ""
        if "{account}" in self.path and not account:
            raise JudgeError(f"no account for {self.title}: set {self.account_variable}")
        path = self.path.format(model=quote(model, safe="/:@"), account=quote(account, safe=""))
        base = base_url.rstrip("/")
        steps = path.split("/")
        for count in range(len(steps), 1, -1):
            if base.endswith("/".join(steps[:count])):
                return f"{base}{'/' if count < len(steps) else ''}{'/'.join(steps[count:])}"
        return f"{base}{path}"


def host_names() -> tuple[str, ...]:
    """The hosts of ``hosts.toml``, the plain form first."""
    return tuple(_rows())


def host_of(name: str, settings: Mapping[str, object] | None = None) -> Host:
    """The host ``name``; ``settings`` replace single keys.

    Raises ``JudgeError`` for an unknown host, an unknown key or a value that cannot be.
    """
    rows = _rows()
    if name not in rows:
        raise JudgeError(f"no host {name!r} of decision models: use one of {', '.join(rows)}")
    try:
        return checked(Host, {**rows[PLAIN], **rows[name], **(settings or {})}, f"host {name}")
    except ModelTableError as error:
        raise JudgeError(str(error)) from error


def _rows() -> Mapping[str, Mapping[str, object]]:
    return rows_of("scenewright.agents.judges.decisions", "hosts.toml")
