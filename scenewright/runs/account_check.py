"""Check of an account: one small request to each of its models, and what is wrong in plain words.

The requests go through the clients, limits and prices that runs use, so what fails here fails
there. A model that draws is left out unless that is wanted: a picture costs more than a word.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Literal
from urllib.parse import urlsplit

import httpx2
from PIL import Image

from scenewright.agents.chat.model import estimate
from scenewright.agents.judges.decisions.models import host_of
from scenewright.agents.judges.models import ModelCaps, caps_of
from scenewright.agents.judges.pictures import prepare
from scenewright.agents.judges.reading import read_parts
from scenewright.agents.judges.sheet import TOOL, sheet_of
from scenewright.config.accounts import (
    ADDRESS_VARIABLES,
    DECISION_HOSTS,
    DECISION_KIND,
    KEY_VARIABLES,
    AccountSpec,
)
from scenewright.config.profiles import BackendSpec, SettingsError, reached_by
from scenewright.config.settings import Settings, load_profiles
from scenewright.core.error_text import error_text
from scenewright.core.facts import Fact
from scenewright.core.formats import loads_scene
from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.core.ports.judge import JudgeError
from scenewright.core.questions import facts_of
from scenewright.core.suggestions import did_you_mean
from scenewright.prompts import load_prompt
from scenewright.providers.clients.base import (
    STREAM,
    Completion,
    CompletionRequest,
    Message,
    OutputSchema,
    Picture,
    Terms,
    Tools,
    place_of,
)
from scenewright.providers.clients.client import attempts, make_client
from scenewright.providers.model_facts import end_of, endings, model_facts
from scenewright.providers.replies import ERROR_TEXTS
from scenewright.providers.retry import (
    FailedAttempt,
    TransportError,
    UnusableReply,
    listen_for_retries,
)
from scenewright.providers.transport import http_client, proxy_for
from scenewright.providers.usage import Usage, metered
from scenewright.runs.model_factory.profiles import backend_of, build_judge, get_caller

Kind = Literal["chat", "decision", "image"]
"""Of a model: one that writes, one that decides, or one that draws."""
ATTEMPTS = 2
"""Most attempts of a request, rate-limited ones not counted."""
PATIENCE = 10.0
"""Most seconds of waiting between them."""
THOUGHTS = 120
"""Output tokens, of an answer of a few words, from which a model is taken to think."""
_PROMPT = "A red ball."
_PRICELESS = (
    "its price is unknown, so that limits in dollars cannot be kept: add "
    '["{}:{}"] to a file of prices (prices in scenewright.toml)'
)
_LISTED = 8
_LIST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model of the account, and what it is named for."""

    kind: Kind
    model: str
    """As the provider names it."""
    judges: bool = True
    """Whether it is asked as a judge is; else as a language model that converses."""
    backend: BackendSpec | None = None
    """Of a model that draws, what a profile sets for it."""


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """The outcome of one request."""

    model: str
    kind: Kind
    state: Literal["ok", "failed", "left out"]
    problem: str = ""
    """Why it failed or was left out, without secrets."""
    remedy: str = ""
    """Advice, where the problem does not hold it."""
    served: str = ""
    """The model that answered, as the provider names it."""
    learnt: tuple[str, ...] = ()
    """Form in which the request was sent in the end."""
    warnings: tuple[str, ...] = ()
    """Things that work and are worth a change."""
    retries: tuple[str, ...] = ()
    """Why requests before the last one were sent again."""
    seconds: float | None = None
    """Duration of its requests."""
    usd: float | None = None
    """Their price; None if it is unknown or nothing was charged."""
    usage: Usage = field(default_factory=Usage)


def model_kind(model: str, spec: AccountSpec, *, draws: bool = False) -> Kind:
    """Return the kind of a model by its account and by the table of facts.

    ``draws``: what is unknown draws.
    """
    if spec.provider in DECISION_HOSTS or model in spec.decisions:
        return "decision"
    images = [name for name in model_facts().rows("image") if not name.endswith(":*")]
    beginnings = tuple(name.removesuffix("*") for name in images)
    if draws or f"{spec.provider}:{model}".startswith(beginnings):
        return "image"
    return "chat"


def models_of(name: str, settings: Settings) -> tuple[NamedModel, ...]:
    """Return the models that profiles and the account's own tables name, each once."""
    spec = settings.account(name)
    found: dict[tuple[Kind, str], NamedModel] = {}

    def add(named: NamedModel) -> None:
        known = found.setdefault((named.kind, named.model), named)
        if named.judges and not known.judges:
            found[named.kind, named.model] = named

    for profile in load_profiles(settings).values():
        if profile.backend.kind == name:
            add(NamedModel("image", profile.backend.model, backend=profile.backend))
        for judge in (*profile.judges, *profile.report_judges):
            account, model = reached_by(judge)
            if account == name:
                decides = judge.startswith(f"{DECISION_KIND}:")
                add(NamedModel("decision" if decides else model_kind(model, spec), model))
        if profile.chat is not None and reached_by(profile.chat)[0] == name:
            model = reached_by(profile.chat)[1]
            add(NamedModel(model_kind(model, spec), model, judges=False))
    for model in spec.models:
        if not any(known == model for _, known in found):
            add(NamedModel(model_kind(model, spec), model))
    for model in spec.decisions:
        add(NamedModel("decision", model))
    return tuple(found.values())


def brief(name: str, settings: Settings) -> Settings:
    """Return the settings in which calls of the account ``name`` give up soon."""
    spec = settings.account(name)
    changes = {
        "attempts": min(spec.attempts, ATTEMPTS), "patience": min(spec.patience, PATIENCE)
    }  # fmt: skip
    accounts = {**settings.accounts, name: spec.model_copy(update=changes)}
    return settings.model_copy(update={"accounts": accounts})


def address_of(spec: AccountSpec) -> str:
    """Return the base URL of an account."""
    if spec.base_url is not None:
        return spec.base_url
    if spec.provider in KEY_VARIABLES:
        client = import_module(f"scenewright.providers.clients.{spec.provider}")
        return str(client.BASE_URL)
    return host_of(spec.provider, spec.host_settings).base_url


def route_of(name: str, settings: Settings) -> str:
    """Return where requests of an account go, by which key and through which proxy."""
    spec, own = settings.account(name), settings.accounts.get(name)
    address = address_of(spec)
    told = [place_of(address)]
    if spec.base_url and (own is None or own.base_url is None):
        told.append(f"as {ADDRESS_VARIABLES[spec.provider]} says")
    if spec.key_variables:
        told.append(f"key: {' or '.join(spec.key_variables)}")
    try:
        proxy = proxy_for(address)
        told += [f"through {proxy}"] if proxy else []
    except TransportError as error:
        told.append(str(error))
    return ", ".join(told)


async def check_model(name: str, named: NamedModel, settings: Settings) -> ModelCheck:
    """Send one small request to a model of the account ``name``, and return what came of it.

    ``settings``: as :func:`brief` returns them. Raises nothing that a model, its server or its
    settings do.
    """
    spec, checked = settings.account(name), _Checked(name, named, settings)
    failed: list[FailedAttempt] = []
    with listen_for_retries(failed.append), metered() as spent:
        try:
            done = await _ASK[named.kind](checked)
        except (RuntimeError, ValueError, OSError) as error:
            problem = error_text(error, key=spec.key() or "")
            done = ModelCheck(
                named.model, named.kind, "failed", problem, await _remedy(checked, problem)
            )
    if spent.calls:
        usd = get_caller(name, settings).price_of(*checked.priced, spent.usage)
        done = replace(
            done,
            seconds=spent.seconds,
            usage=spent.usage,
            usd=None if usd is None else spent.usd,
            warnings=(*done.warnings, _PRICELESS.format(*checked.priced))
            if usd is None
            else done.warnings,
        )
    ends = endings([checked.spec], {name: spec})
    return replace(
        done,
        retries=tuple(dict.fromkeys(one.reason for one in failed)),
        warnings=(*done.warnings, *(ending.text for ending in ends)),
    )


@dataclass(frozen=True, slots=True)
class _Checked:
    """A model that is checked, with its account."""

    name: str
    """Of the account."""
    named: NamedModel
    settings: Settings

    @property
    def account(self) -> AccountSpec:
        return self.settings.account(self.name)

    @property
    def decides(self) -> bool:
        return self.named.kind == "decision"

    @property
    def spec(self) -> str:
        """As profiles name it."""
        model = self.named.model
        return f"decision:{self.name}/{model}" if self.decides else f"{self.name}:{model}"

    @property
    def priced(self) -> tuple[str, str]:
        """Provider and model in the table of prices."""
        place = self.account.priced_as(self.name)
        model = self.named.model
        return (DECISION_KIND, f"{place}/{model}") if self.decides else (place, model)

    @property
    def table(self) -> str:
        """The table of settings for what the model takes."""
        kind = "decisions" if self.decides else "models"
        return f'[accounts.{self.name}.{kind}."{self.named.model}"]'


def _fact() -> Fact:
    return facts_of(loads_scene("ball", "triplets"))[0]


async def _ask_chat(checked: _Checked) -> ModelCheck:
    """Ask as a judge asks about a picture; a model that does not judge gets words alone."""
    account, model = checked.account, checked.named.model
    caps = caps_of(
        account.provider, model, account.models.get(model), chats=not checked.named.judges
    )
    key = account.key() or ""
    client = make_client(account.provider, model, caps, api_key=key, base_url=account.base_url)
    request, read = await _question(caps, shows=checked.named.judges and caps.pictures)

    async def build() -> CompletionRequest:
        return request

    try:
        call = await get_caller(checked.name, checked.settings).call(
            attempts(client, build, read),
            classify=client.classify,
            provider=checked.priced[0],
            model=model,
            tokens=estimate(request.messages, Tools(), caps.image_tokens),
            label=f"{checked.spec} check",
        )
        reply, terms = call.value, client.terms()
    finally:
        await client.aclose()
    return ModelCheck(
        model,
        "chat",
        "ok",
        served=reply.model,
        learnt=tuple(_learnt(reply, terms)),
        warnings=tuple(_warnings(checked, reply, caps)),
    )


async def _question(
    caps: ModelCaps, *, shows: bool
) -> tuple[CompletionRequest, Callable[[Completion], Completion]]:
    """Return the request, and what raises ``UnusableReply`` for a reply that does not answer it.

    ``shows``: it is a judge's, about a picture.
    """
    if shows:
        sheet = sheet_of([_fact()], reasons="none", stems=caps.stems)
        shown = await prepare(_picture(), caps.preparation)
        picture = Picture(shown.data, shown.media_type)
        asked = Message("system", (sheet.instructions,)), Message("user", (picture, sheet.text))

        def read_sheet(reply: Completion) -> Completion:
            read_parts(reply, sheet)
            return reply

        return CompletionRequest(asked, OutputSchema(TOOL, sheet.schema)), read_sheet
    prompt = load_prompt("check_account")
    schema = OutputSchema(prompt.tool, prompt.output or {})

    def read_word(reply: Completion) -> Completion:
        if reply.data is None:
            raise UnusableReply(f"no usable answer: {reply.text[:80]!r}", reply.usage)
        return reply

    return CompletionRequest((Message("user", (prompt.render(),)),), schema), read_word


def _picture() -> Image.Image:
    return Image.new("RGB", (64, 64), "red")


def _learnt(reply: Completion, terms: Terms) -> Iterator[str]:
    """Yield how the request was sent in the end."""
    if terms.responses:
        yield "through the Responses API"
    ways = {"named": "a tool forced by its name", "required": "a tool forced as the only one"}
    yield f"answers by {ways[terms.way] if reply.called else 'a JSON text'}"
    if terms.effort:
        yield f"reasoning effort {terms.effort}"
    yield "with log-probabilities" if reply.tokens else "without log-probabilities"
    yield "streamed" if reply.streamed else "sent whole, without a stream"
    if left_out := terms.left_out - {STREAM}:
        yield f"does not take {', '.join(sorted(left_out))}"


def _warnings(checked: _Checked, reply: Completion, caps: ModelCaps) -> Iterator[str]:
    """Yield what works and is worth a change."""
    usage, place = reply.usage, checked.table
    if caps.logprobs and not reply.tokens:
        yield (
            f"it returns no log-probabilities, and states its own: declare logprobs = false in "
            f"{place} to ask for none"
        )
    if not usage.tokens_in and not usage.tokens_out:
        yield (
            "the server counts no tokens, so that costs and tokens a minute are estimates: let it "
            "report usage, also in streams (stream_options.include_usage)"
        )
    thinks = reply.thoughts or usage.tokens_out > THOUGHTS
    if thinks and not (caps.thinks or caps.thinks_by_setting):
        yield (
            f"it thinks before it answers ({max(usage.tokens_out, reply.thoughts // 4)} tokens for "
            f"a word), which costs time: start the server with enable_thinking = false, or name an "
            f"effort that it accepts as reasoning_effort in {place}"
        )
    if reply.stop == "length":
        yield f"its reply was cut off: raise max_output_tokens in {place}"


async def _ask_decisions(checked: _Checked) -> ModelCheck:
    """Ask a judge of decisions about a picture."""
    judge = build_judge(checked.spec, checked.settings)
    (answer,) = await judge.answer(_picture(), [_fact()])
    done = ModelCheck(
        checked.named.model, checked.named.kind, "ok", served=getattr(answer, "model", "")
    )
    if answer.state == "unscored":
        raise JudgeError(answer.reason)
    learnt = (f"probability by {answer.method}",) if answer.method else ()
    return replace(done, learnt=learnt)


async def _ask_image(checked: _Checked) -> ModelCheck:
    """Draw one picture."""
    named = checked.named
    spec = named.backend or BackendSpec(kind=checked.name, model=named.model)
    backend = backend_of(spec, checked.settings)

    def load(name: str) -> Image.Image:
        raise BackendError(f"no picture {name}: the request has none")

    drawn = await backend.generate(GenerationRequest(prompt=_PROMPT, seed=1), load)
    learnt = (f"drew {drawn.details.get('served', f'{drawn.image.width}x{drawn.image.height}')}",)
    return ModelCheck(named.model, "image", "ok", learnt=learnt)


_ASK: Mapping[Kind, Callable[[_Checked], Awaitable[ModelCheck]]] = {
    "chat": _ask_chat, "decision": _ask_decisions, "image": _ask_image
}  # fmt: skip


def drawing_usd(name: str, named: NamedModel, settings: Settings) -> float | None:
    """Return about what :func:`check_model` would pay for a picture; None: unknown."""
    spec = named.backend or BackendSpec(kind=name, model=named.model)
    with suppress(BackendError, SettingsError):
        expected = getattr(backend_of(spec, settings), "expected", None)
        return None if expected is None else expected(_PROMPT).usd
    return None


_SAID = re.compile(
    r"base_url|proxy|\bredirects to\b|reasoning field|thoughts|certificate", re.IGNORECASE
)
"""Problems whose texts hold the remedy."""


async def _remedy(checked: _Checked, problem: str) -> str:
    """Return what to do about a problem whose text does not say it; empty: nothing is known."""
    account = checked.account
    url = urlsplit(account.base_url or "/v1")
    if account.provider == "openai" and "404" in problem and not re.search(r"/v\d", url.path):
        place = f"{url.scheme}://{place_of(url.geturl())}"
        return f'write base_url = "{place}/v1" in [accounts.{checked.name}]'
    if _SAID.search(problem):
        return ""
    rows = ERROR_TEXTS["checks"]
    fitting = (row["advice"] for row in rows if re.search(row["words"], problem, re.IGNORECASE))
    remedy = str(next(fitting, ""))
    if remedy == "{models}":
        end = None if account.base_url else end_of(account.provider, checked.named.model)
        if end is not None and end.successor:
            return f"name another model, such as {end.successor}"
        listed = await listed_models(checked.name, checked.settings)
        near = did_you_mean(checked.named.model, listed).removeprefix("; ")
        has = near or f"it lists {first_of(listed)}" if listed else ""
        return f"name a model that the account has{f': {has}' if has else ''}"
    variables = " or ".join(account.key_variables)
    key = (
        f"store another with `scenewright keys set {checked.name}` (a key in {variables} goes "
        "before a stored one)"
        if variables
        else f"the server wants a key: name its variable as key_variable in "
        f"[accounts.{checked.name}]"
    )
    return remedy.format(name=checked.name, table=checked.table, key=key)


def first_of(names: Sequence[str]) -> str:
    """Return the first names of a list in words, and how many more there are."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


async def listed_models(name: str, settings: Settings) -> list[str]:
    """Return the names in the account's own list of models (``GET /models``).

    Only servers with OpenAI's protocol are asked; of one that cannot be read it is empty.
    """
    account = settings.account(name)
    if account.provider != "openai":
        return []
    base = address_of(account)
    headers = {"authorization": f"Bearer {account.key()}"}
    try:
        async with asyncio.timeout(_LIST_SECONDS), http_client(base, headers=headers) as client:
            reply = await client.get(f"{base.rstrip('/')}/models")
            return [str(model["id"]) for model in reply.json()["data"]]
    except (TransportError, httpx2.HTTPError, TimeoutError, OSError, ValueError, LookupError,
            TypeError):  # fmt: skip
        return []
