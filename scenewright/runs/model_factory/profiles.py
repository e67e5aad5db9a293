"""From a profile to its models: each model is built once a process and shared.

Building is cheap (files are found and checked); the weights are loaded by :func:`warm`, or
by the models themselves when they are first needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

from scenewright.agents.composers.rules import GridComposer, TripletComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import (
    CHAT_KINDS,
    DIRECTOR,
    JUDGE_KINDS,
    LOCAL_BACKEND,
    LOCAL_JUDGE,
    NO_TEXT,
    REALISM_FIELDS,
    BackendSpec,
    Profile,
    SettingsError,
    split_decision,
    split_judge,
)
from scenewright.config.settings import Settings, load_settings, reports_itself, settings_with
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer, PromptBudget
from scenewright.core.ports.judge import Judge, JudgeError
from scenewright.core.ports.vision import Detector
from scenewright.graphs.strategies.registry import uses_detector
from scenewright.providers.hub.cache import require_models
from scenewright.runs.model_factory.local_models import (
    SHARED,
    cached_detector_of,
    make_backend,
    make_local_decision_judge,
    shared_local_judge,
)
from scenewright.runs.options import ModelOverrides

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from scenewright.agents.judges.pictures import ImagePreparation
    from scenewright.config.accounts import AccountSpec
    from scenewright.config.profiles import Role
    from scenewright.providers.caller import Caller
    from scenewright.providers.limits import Limits

T = TypeVar("T")
JUDGE_GROUPS = ("judges", "report_judges", "realism_judges", "realism_report_judges")
"""Names of the groups of judges in profiles and among the models that a caller may replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJudges:
    """The judges of a run."""

    loop_judges: tuple[Judge, ...]
    """Judges that steer the loop."""
    report_judges: tuple[Judge, ...]
    """Judges that report its result."""
    realism_judges: tuple[Judge, ...] = ()
    """Judges of the loop for the realism of objects; none: :attr:`loop_judges`, if it is asked."""
    realism_report_judges: tuple[Judge, ...] = ()
    """Judges of the report for the realism of objects; none: :attr:`report_judges`."""

    @property
    def groups(self) -> dict[str, tuple[Judge, ...]]:
        """All judges by the names of their fields."""
        return {field.name: getattr(self, field.name) for field in fields(RunJudges)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModels(RunJudges):
    """The models of a run."""

    backend: ImageBackend
    """The image backend."""
    composer: Composer
    """The composer of prompts."""
    chat: BaseChatModel | None = None
    """The director's language model; none where no director is at work."""
    detector: Detector | None = None
    """Detector for strategies that repair places; none: the profile names none."""


def composer_of(
    profile: Profile,
    settings: Settings | None = None,
    room: PromptBudget | None = None,
    *,
    languages: Sequence[str] = ("en",),
) -> Composer:
    """Return the composer that ``profile`` names; raises as :func:`build_chat`.

    ``room``: what the image model reads of a prompt; None: all of any prompt. ``languages``:
    those that it reads; language models compose in English, which all read.
    """
    if profile.composer in ("sentence", "sentences"):
        return SentenceComposer(room, profile.composer == "sentence", tuple(languages))
    if profile.composer == "triplets":
        return TripletComposer()
    if profile.composer == "grid":
        return GridComposer(profile.composer_defaults or None)
    from scenewright.agents.composers.language import LanguageComposer, Table6Composer

    assert profile.chat is not None
    chat = build_chat(profile.chat, settings_with(profile, settings), role="composer")
    if profile.composer == "table6":
        return Table6Composer(chat)
    otherwise = (
        SentenceComposer(room, verbatim=True) if profile.composer_failure == "sentences" else None
    )
    return LanguageComposer(chat, profile.composer == "stages", otherwise, room=room)


def build_chat(
    spec: str,
    settings: Settings | None = None,
    *,
    role: Role | None = None,
    overrides: Mapping[str, object] | None = None,
) -> BaseChatModel:
    """Return the language model of ``kind:model``: any LangChain chat model with tool calling.

    ``role``: what it is for, which bounds its output (:mod:`~scenewright.config.profiles`).

    The kind is an account of ``settings`` (default: those of this machine), whose limits, prices
    and log hold for it as for judges, or ``scripted``. ``overrides``: what an account's model can
    do, in place of what is known of it. Raises ``SettingsError`` for an unknown kind or script,
    or if the account's key is not there.
    """
    settings = settings or load_settings()
    kind, model = split_judge(spec)
    if kind == DECISION_KIND:
        raise SettingsError(f"{spec} {NO_TEXT}: name a language model, as account:model")
    if kind in CHAT_KINDS:
        from scenewright.agents.chat.scripted import scripted_chat

        return scripted_chat(model)
    from scenewright.agents.chat.accounts import account_chat

    resolved = resolve_account(kind, model, settings)
    bounds = {role: settings.output_tokens[role]} if role in settings.output_tokens else {}
    return resolved.share(
        f"chat {resolved.key} {role} {json.dumps([bounds, dict(overrides or {})], sort_keys=True)}",
        account_chat,
        overrides={**resolved.spec.models.get(model, {}), **(overrides or {})},
        role=role,
        output_tokens=bounds,
    )


def preparation_of(spec: str, settings: Settings) -> ImagePreparation:
    """Return how images are prepared for the language model of ``spec``."""
    from scenewright.agents.judges.models import caps_of
    from scenewright.agents.judges.pictures import ImagePreparation

    kind, model = split_judge(spec)
    if kind in CHAT_KINDS:
        return ImagePreparation()
    return caps_of(settings.account(kind).provider, model).preparation


def backend_of(spec: BackendSpec, settings: Settings | None = None) -> ImageBackend:
    """Return the shared backend of ``spec``.

    Raises ``BackendError`` if its files are not there, and ``SettingsError`` for an unknown account
    or one without its key.
    """
    if spec.kind == LOCAL_BACKEND:
        return SHARED.get(f"backend {spec.model_dump_json()}", lambda: make_backend(spec))
    resolved = resolve_account(spec.kind, spec.model, settings or load_settings())
    from scenewright.tools.backends.remote import remote_backend

    return resolved.share(
        f"backend {spec.model_dump_json()} {resolved.key}",
        remote_backend,
        size=spec.size,
        quality=spec.quality,
        complexity=spec.complexity,
        partial_images=spec.partial_images,
        overrides=spec.limits_over(resolved.spec.models.get(spec.model)),
    )


def build_judge(spec: str, settings: Settings | None = None, detector: str | None = None) -> Judge:
    """Return the judge of ``kind:model``.

    Raises ``JudgeError`` if its files or its key are not there.

    The kind is ``local``, ``replay``, ``olip`` (for what ``detector`` finds), ``decision`` (then
    the model is ``ACCOUNT/MODEL`` or ``local/MODEL``) or an account of ``settings`` (default: those
    of this machine). Local models and limits of an account are shared; records (``replay:FILE`` or
    ``replay:FILE#JUDGE``) are read each time. Nothing is downloaded. The settings say how a
    local model is loaded, with what a profile says of it
    (:func:`~scenewright.config.settings.settings_with`). Raises ``SettingsError`` for an unknown
    kind.
    """
    kind, model = split_judge(spec)
    if kind in JUDGE_KINDS:
        made: Judge = resolve_name(JUDGE_KINDS[kind])(spec, settings, detector)
        return made
    if kind != DECISION_KIND:
        return _make_remote_judge(kind, model, settings or load_settings())
    account, model = split_decision(model)
    if account == LOCAL_JUDGE:
        return shared_local_judge(spec, settings, make=make_local_decision_judge)
    return _make_remote_judge(account, model, settings or load_settings(), decides=True)


async def build_panel(
    specs: Sequence[str],
    given: Sequence[Judge] | None = None,
    *,
    settings: Settings | None = None,
    detector: str | None = None,
) -> tuple[Judge, ...]:
    """Return the judges of ``specs``, or those ``given`` instead; raises as :func:`build_judge`."""

    def built(spec: str) -> Judge:
        more = {} if detector is None else {"detector": detector}
        found = build_judge(spec, settings=settings, **more)
        _ = found.fingerprint
        return found

    if given is not None:
        return tuple(given)
    return tuple(await asyncio.gather(*(asyncio.to_thread(built, spec) for spec in specs)))


async def build_judges(
    profile: Profile, given: ModelOverrides, *, realism: bool, settings: Settings | None
) -> RunJudges:
    """Return the judges of ``profile``, each group replaced by the one in ``given``.

    Those of realism only with ``realism``. They are built side by side in threads, and their
    fingerprints are read there too: hashing large weights takes seconds.
    """
    known = settings_with(profile, settings)
    chosen: Mapping[str, Sequence[Judge] | None] = cast(Any, given)

    async def group(name: str) -> tuple[Judge, ...]:
        real = name in REALISM_FIELDS
        if real and not realism:
            return ()
        detector = profile.detector if real else None
        specs = getattr(profile, name)
        return await build_panel(specs, chosen.get(name), settings=known, detector=detector)

    loop, report, real, real_report = await asyncio.gather(*map(group, JUDGE_GROUPS))
    own = reports_itself(profile, given.get("report_judges"))
    return RunJudges(
        loop_judges=loop,
        report_judges=loop if own else report,
        realism_judges=real,
        realism_report_judges=real if own else real_report,
    )


async def build_run_models(
    profile: Profile,
    *,
    realism: bool = False,
    settings: Settings | None = None,
    **given: Unpack[ModelOverrides],
) -> RunModels:
    """Return the models of ``profile``, each replaced by the one given here.

    Raises ``BackendError``, ``JudgeError``, ``SettingsError``; before anything is loaded if models
    of the profile are not on this machine.
    """
    from scenewright.tools.backends.prompts import prompt_budget_of

    require_models(
        profile,
        **{
            name: given.get(name) is None and (realism or name not in REALISM_FIELDS)
            for name in ("backend", *JUDGE_GROUPS)
        },
    )

    def drawn() -> ImageBackend:
        found = given.get("backend") or backend_of(profile.backend, settings)
        _ = found.fingerprint
        return found

    backend, judges = await asyncio.gather(
        asyncio.to_thread(drawn), build_judges(profile, given, realism=realism, settings=settings)
    )
    chat = given.get("chat")
    if chat is None and profile.strategy == DIRECTOR and profile.chat is not None:
        chat = build_chat(profile.chat, settings_with(profile, settings), role="director")
    composer = given.get("composer") or composer_of(
        profile, settings, prompt_budget_of(backend), languages=backend.features.languages
    )
    detector = None
    if profile.detector is not None and uses_detector(profile.strategy):
        detector = await asyncio.to_thread(cached_detector_of, profile.detector)
    return RunModels(
        backend=backend, composer=composer, chat=chat, detector=detector, **judges.groups
    )


def chat_name(chat: BaseChatModel) -> str:
    """Return the manifest's name of a language model: its class and its model name."""
    model = getattr(chat, "model_name", None) or getattr(chat, "model", None) or chat._llm_type
    return f"{type(chat).__name__}:{model}"


async def warm(run_models: RunModels) -> None:
    """Load the weights of every model that can be loaded ahead (has an ``async load()``).

    One after the other: the model libraries set the default dtype and device of the whole
    process while they load. Raises ``BackendError`` or ``JudgeError`` if one cannot be loaded.
    """
    for model in (run_models.backend, *chain.from_iterable(run_models.groups.values())):
        if (load := getattr(model, "load", None)) is not None:
            await load()


@dataclass(frozen=True, slots=True)
class AccountModel:
    """A model of an account, with everything that its client needs."""

    account: str
    """Name of the account."""
    model: str
    """As the provider names it."""
    spec: AccountSpec
    """Settings of the account."""
    api_key: str
    caller: Caller
    key: str
    """Identifies the model with its settings; holds no secret."""

    def share(
        self, key: str, build: Callable[..., T], *, provider: str = "", **options: object
    ) -> T:
        """Return the object that ``build`` makes of the model, one per process and ``key``.

        ``provider``: in place of the account's.
        """
        return SHARED.get(
            key,
            lambda: build(
                provider or self.spec.provider,
                self.model,
                self.caller,
                api_key=self.api_key,
                base_url=self.spec.base_url,
                name=self.account,
                **options,
            ),
        )


def resolve_account(
    account: str, model: str, settings: Settings, keyless: type[Exception] = SettingsError
) -> AccountModel:
    """Return ``model`` of ``account``; raises ``keyless`` where the account's key is not set."""
    spec = settings.account(account)
    api_key = spec.key()
    if api_key is None:
        raise keyless(
            f"{account}:{model} needs a key: set {' or '.join(spec.key_variables)}, store it "
            f"with `scenewright keys set {account}`, or name another variable as key_variable in "
            f"[accounts.{account}] of scenewright.toml"
        )
    digest = hashlib.sha256(api_key.encode()).hexdigest()
    key = f"{account}:{model} {spec.model_dump_json()} {_calls_of(settings)} {digest}"
    return AccountModel(account, model, spec, api_key, get_caller(account, settings), key)


def _make_remote_judge(
    account: str, model: str, settings: Settings, *, decides: bool = False
) -> Judge:
    resolved = resolve_account(account, model, settings, JudgeError)
    spec = resolved.spec
    if decides:
        from scenewright.agents.judges.decisions.judge import decision_judge

        return resolved.share(
            f"{DECISION_KIND} {resolved.key}",
            decision_judge,
            provider=spec.decisions_of,
            overrides=spec.decisions.get(model),
            host=spec.host_settings,
        )
    from scenewright.agents.judges.remote import remote_judge

    most = settings.output_tokens.get("judge")
    bound = {} if most is None else {"max_output_tokens": most}
    return resolved.share(
        f"judge {resolved.key} {most}",
        remote_judge,
        overrides={**spec.models.get(model, {}), **bound},
    )


def limits_of(account: str, spec: AccountSpec) -> Limits:
    """Return the limits of an account; the requests of a day are those of this machine."""
    from scenewright.providers.limits import Limits

    return Limits(
        spec.requests_per_minute,
        spec.tokens_per_minute,
        spec.concurrent,
        spec.window,
        spec.requests_per_day,
        spec.zone_of_day,
        spec.identity(account),
    )


def get_caller(account: str, settings: Settings) -> Caller:
    """Return the shared caller of an account: its limits hold for all judges of this process."""
    from scenewright.providers.caller import Caller
    from scenewright.providers.shared_limits import gate_at
    from scenewright.providers.usage import PriceTable

    spec = settings.account(account)
    limits = limits_of(account, spec)

    def made() -> Caller:
        overrides = () if settings.prices is None else (settings.prices,)
        return Caller(
            account,
            limits,
            timeout=spec.timeout or settings.judge_timeout,
            attempts=spec.attempts,
            max_wait=spec.patience,
            prices=PriceTable.load(*overrides),
            priced=not spec.self_hosted,
            gate=gate_at(settings.shared_limits, account, spec, limits),
        )

    told = spec.model_dump_json(exclude={"models", "decisions", "aliases"})
    return SHARED.get(f"account {account} {told} {_calls_of(settings)}", made)


def _calls_of(settings: Settings) -> tuple[float, Path | None, int]:
    """Return the call settings beside the account; they hold no secret."""
    return settings.judge_timeout, settings.prices, hash(settings.shared_limits)
