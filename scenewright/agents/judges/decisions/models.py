"""Decision models and the servers of System One, as data.

The table of facts (:mod:`scenewright.providers.model_facts`) has the abilities of models, which an
account may override, and ``hosts.toml`` the differences between servers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, Self
from urllib.parse import quote

from pydantic import Field, model_validator

from scenewright.agents.judges.decisions.questions import Orders, Wording, levels
from scenewright.agents.judges.models import checked_row
from scenewright.agents.judges.pictures import PictureCaps
from scenewright.config.accounts import DECISION_HOSTS
from scenewright.core.ports.judge import JudgeCaps, JudgeError
from scenewright.core.validation import FrozenModel
from scenewright.providers.model_facts import model_facts, row_of, rows_of

PLAIN = "systemone"
"""Name of the host with the plain form of everything."""


class Host(FrozenModel):
    """Form of one server's requests and replies."""

    title: str
    """Its name, for people."""
    base_url: str
    """Default base URL; empty: an account must give one."""
    path: str = Field(pattern=r"^/")
    """Path of the requests, with ``{model}`` and ``{account}`` for these."""
    account_variable: str
    """Environment variable for ``{account}`` in the path."""
    headers: dict[str, str]
    """Headers of every request."""
    pictures: Literal["assets", "images", "parts"]
    """Place of an image: among the ``assets`` under a name in the state, among the ``images``, or
    as an ``image_url`` part of the state.
    """
    encoding: Literal["base64", "data_url"]
    """Encoding among the ``images``."""
    state: str
    """State beside an image among the ``images``."""
    reply: tuple[str, ...]
    """Path of the object with ``answers`` in the reply; empty: the reply itself."""
    input_tokens: tuple[str, ...]
    """Path of the count of input tokens in that object."""
    cached_tokens: tuple[str, ...]
    """Path of the count of cached tokens; empty: unknown."""
    label_mass: tuple[str, ...]
    """Path of the joint probability of a question's labels, ``{name}`` being the question; empty:
    unknown.
    """
    request_id: str
    """Header that names the request."""
    lasting_codes: tuple[int | str, ...]
    """Error codes that make retries useless."""

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
        """Return the URL of requests for ``model``.

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


def host_of(name: str, settings: Mapping[str, object] | None = None) -> Host:
    """Return the host ``name``; ``settings`` replace single keys.

    Raises ``JudgeError`` for an unknown host, an unknown key or a value that cannot be.
    """
    rows = rows_of("scenewright.agents.judges.decisions", "hosts.toml")
    if name not in rows:
        raise JudgeError(f"no host {name!r} of decision models: use one of {', '.join(rows)}")
    return checked_row(Host, {**rows[PLAIN], **rows[name], **(settings or {})}, f"host {name}")


class DecisionCaps(PictureCaps):
    """Abilities and limits of one decision model."""

    wire: str
    """Wire format: ``openai``, ``gemini``, or a host of System One in ``hosts.toml``."""
    questions_per_call: int = Field(ge=1)
    """Most questions of one request; a fact asked in two orders takes two."""
    options_per_question: int = Field(ge=2)
    """Most options of a choice, and levels of a score."""
    orders: Orders
    """Orders in which a choice is asked; with 2 also reversed, and the mean counts."""
    turns: bool
    """Whether yes/no questions can be reversed, for the second order."""
    wording: Wording
    """``short``: the package's own questions are put in fewer words; ``full``: as they are."""
    detail: str
    """Detail of an image, in the provider's word; empty: not sent."""
    request_bytes: int = Field(ge=0)
    """Most bytes of one request, the image in base64 included; 0: no limit is known."""
    request_tokens: int = Field(ge=0)
    """Most input tokens of one request, by our estimate; 0: no limit is known."""
    question_tokens: int = Field(ge=0)
    """Tokens of a question besides its words."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.questions_per_call < self.orders:
            raise ValueError("questions_per_call is below orders: no choice can be asked")
        if self.options_per_question < len(levels()):
            raise ValueError(
                f"options_per_question is {self.options_per_question}: a score has {len(levels())}"
            )
        if self.request_bytes and self.request_bytes < self.picture_bytes:
            raise ValueError(
                f"request_bytes is {self.request_bytes}, but an image of image_bytes takes "
                f"{self.picture_bytes} in base64: lower image_bytes"
            )
        return self

    @property
    def picture_bytes(self) -> int:
        """Most bytes that an image takes in a request."""
        return 4 * -(-self.image_bytes // 3)

    @property
    def judge_caps(self) -> JudgeCaps:
        """Abilities in the form of the judge protocol."""
        return JudgeCaps(
            facts_per_call=self.questions_per_call // self.orders,
            probability="decision",
            max_side=self.max_side,
            local=False,
            images_per_call=self.images_per_call,
            bounds_calls=True,
            at_once=True,
            counts=True,
        )


def deciding() -> tuple[str, ...]:
    """Return the providers and hosts that have decision models."""
    return tuple(dict.fromkeys(name.partition(":")[0] for name in model_facts().rows("decision")))


def caps_of(
    provider: str, model: str, overrides: Mapping[str, object] | None = None
) -> DecisionCaps:
    """Return the abilities of the decision model ``provider:model``, with ``overrides``.

    Raises ``JudgeError`` for a provider without decision models, an unknown key or a value that
    cannot be.
    """
    rows, providers = model_facts().rows("decision"), deciding()
    if provider not in providers:
        raise JudgeError(
            f"no decision models at {provider!r}: use an account of {', '.join(providers)}"
        )
    name = f"{provider}:{model}"
    row = row_of(rows, f"{PLAIN}:{model}") if provider in DECISION_HOSTS else {}
    row.update(row_of(rows, name))
    row.update(overrides or {})
    return checked_row(DecisionCaps, row, name)
