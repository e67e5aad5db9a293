"""Settings of this machine, loading of profiles, and the user's cache folder.

Settings come from the environment (``SCENEWRIGHT_RUNS=…``), then from ``scenewright.toml`` in the
working folder. Your own profiles are in the same file (or in the one that ``profiles_file`` names)
and may extend another::

    [profiles.mine]
    extends = "sdxl"
    backend = "diffusers:/models/my-finetune"
    judges = ["local:/models/qwen-vl"]
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from scenewright.config.accounts import (
    ACCOUNT_NAME,
    BUILT_IN_ACCOUNTS,
    DECISION_ACCOUNTS,
    DECISION_KIND,
    AccountSpec,
)
from scenewright.config.model_identity import identity_of_spec
from scenewright.config.options import RunOptions
from scenewright.config.profiles import (
    ACCOUNTS,
    BUILT_IN,
    CHAT_KINDS,
    DIRECTED,
    JUDGE_KINDS,
    LOCAL_BACKEND,
    BackendSpec,
    LocalJudgeSpec,
    OutputTokens,
    Profile,
    SettingsError,
    account_of,
    split_judge,
)
from scenewright.core.suggestions import suggestion
from scenewright.core.user_files import read_user_toml
from scenewright.core.validation import first_problem, missing_fields

SETTINGS_FILE = "scenewright.toml"
PLAINEST = "miniature"
"""The profile that needs nothing but the package."""
LOCAL_MODEL = "z-image"
"""The profile that lends its judges to a model on this machine which has no profile."""
_POSTGRES = re.compile(r"postgres(ql)?(\+psycopg)?://.")
_KINDS = (LOCAL_BACKEND, DECISION_KIND, *JUDGE_KINDS, *CHAT_KINDS)


class Settings(BaseSettings):
    """Settings of this machine."""

    model_config = SettingsConfigDict(
        env_prefix="SCENEWRIGHT_",
        toml_file=SETTINGS_FILE,
        extra="forbid",
        frozen=True,
    )

    profile: str = PLAINEST
    """The profile used where none is named."""
    runs: Path = Path("runs")
    """Folder of new runs."""
    profiles_file: Path | None = None
    """A TOML file with further profiles."""
    judge_timeout: float = Field(default=120.0, gt=0)
    """Seconds that one call of a judge may take."""
    limit_usd: float = Field(default=5.0, gt=0)
    """Most dollars of one run from the command line, where its profile does not set it: asks before
    a run that may cost more, and begins no round after it. ``inf``: no limit."""
    allow_unpriced: bool = False
    """Whether models without a known price count as 0 dollars; else a limit in dollars that cannot
    be kept for their sake is refused."""
    prices: Path | None = None
    """A TOML file with prices of models, which override the built-in ones."""
    answers: str | None = None
    """URL of the PostgreSQL database that shares the answers of judges among processes and
    machines: ``postgresql://USER:PASSWORD@HOST/NAME``; none: each folder keeps its own."""
    shared_limits: str | None = None
    """The same for limits of accounts; none: each process keeps its own."""
    local_judges: LocalJudgeSpec = LocalJudgeSpec()
    """Loading of local judges, where a profile does not set it."""
    output_tokens: OutputTokens = Field(default_factory=dict)
    """Most output tokens of one reply by role, where a profile does not set it."""
    accounts: dict[str, AccountSpec] = Field(default_factory=dict)
    """Accounts at providers, by name; one of a built-in name replaces it."""
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Profiles of your own, by name; ``extends`` names the one to start from."""

    @field_validator("answers", "shared_limits")
    @classmethod
    def _postgres(cls, value: str | None) -> str | None:
        if value is not None and not _POSTGRES.match(value):
            raise ValueError(
                "it must be the URL of a PostgreSQL database: postgresql://USER:PASSWORD@HOST/NAME"
            )
        return value

    @field_validator("accounts")
    @classmethod
    def _account_names(cls, value: dict[str, AccountSpec]) -> dict[str, AccountSpec]:
        for name in value:
            if ACCOUNT_NAME.fullmatch(name) is None or name in _KINDS:
                raise ValueError(
                    f"{name!r} cannot name an account: use lower-case letters, digits, - and _, "
                    f"and none of {', '.join(_KINDS)}"
                )
        return value

    def account(
        self, name: str, kinds: Collection[str] = JUDGE_KINDS, of: str = "judge"
    ) -> AccountSpec:
        """Return the account of that name, yours before the built-in.

        ``kinds`` are the kinds that need no account and ``of`` what they are kinds of, both for the
        error. Raises ``SettingsError`` with the known names.
        """
        known = {**BUILT_IN_ACCOUNTS, **self.accounts}
        if name not in known and name in DECISION_ACCOUNTS:
            return DECISION_ACCOUNTS[name]
        if name not in known:
            raise SettingsError(
                f"no kind of {of} and no account {name!r}: there are "
                f"{', '.join((*kinds, *known))}; add your own as [accounts.NAME] in "
                f"{SETTINGS_FILE}"
            )
        try:
            return known[name].addressed()
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def without_keys(self, names: Iterable[str]) -> Settings:
        """Return the settings in which the accounts ``names`` need no key, to count and not call.

        Raises ``SettingsError`` for an unknown account.
        """
        found = {name: self.account(name) for name in names}
        bare = {
            name: account.model_copy(update={"key_variable": ""})
            for name, account in found.items()
            if account.key() is None
        }
        return self.model_copy(update={"accounts": {**self.accounts, **bare}})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Give arguments precedence over the environment, and both over the TOML file."""
        return (init_settings, env_settings, _SettingsFile(settings_cls))


class _SettingsFile(TomlConfigSettingsSource):
    """The settings file, as any editor writes it."""

    def _read_file(self, file_path: Path | Traversable) -> dict[str, Any]:
        return read_user_toml(Path(str(file_path)), SettingsError)


def load_settings(**values: Any) -> Settings:
    """Return the settings; raises ``SettingsError`` naming the setting and the remedy."""
    try:
        return Settings(**values)
    except ValidationError as error:
        told = f"{first_problem(error)}{suggestion(error, Settings) or '.'}"
        raise SettingsError(
            f"the settings are wrong: {told} Look into {SETTINGS_FILE} and the "
            f"environment (SCENEWRIGHT_…); known settings: {', '.join(Settings.model_fields)}"
        ) from error


def settings_with(profile: Profile, settings: Settings | None = None) -> Settings | None:
    """Return ``settings`` with the profile's overrides for local judges and output limits."""
    if profile.local_judges is None and not profile.output_tokens:
        return settings
    found = settings or load_settings()
    how: dict[str, object] = {"output_tokens": {**found.output_tokens, **profile.output_tokens}}
    if profile.local_judges is not None:
        how["local_judges"] = profile.local_judges
    return found.model_copy(update=how)


def load_profiles(settings: Settings | None = None) -> dict[str, Profile]:
    """Return all usable profiles by name.

    The built-in ones, then your own, which may replace them. :func:`read_profiles` also says why
    others are unusable.
    """
    return read_profiles(settings)[0]


def read_profiles(settings: Settings | None = None) -> tuple[dict[str, Profile], dict[str, str]]:
    """Return the profiles by name, and the reason why others cannot be used.

    A wrong profile takes no other with it but those that extend it; a built-in one that it was to
    replace is not used in its place. Raises ``SettingsError`` for a file that cannot be read.
    """
    settings = settings or load_settings()
    tables: dict[str, dict[str, Any]] = {}
    if settings.profiles_file is not None:
        tables |= _read_tables(settings.profiles_file)
    tables |= settings.profiles
    context = {ACCOUNTS: settings.accounts}
    found, problems = dict(BUILT_IN), dict[str, str]()
    for name in tables:
        try:
            profile = _own(name, tables, context, ())
            _check_accounts(name, profile, settings)
        except SettingsError as error:
            problems[name] = str(error)
            found.pop(name, None)
        else:
            found[name] = profile
    return found, problems


def _check_accounts(name: str, profile: Profile, settings: Settings) -> None:
    """Raise ``SettingsError`` for a backend, judge or language model of an unknown account."""
    every = (
        *profile.judges,
        *profile.report_judges,
        *profile.realism_judges,
        *profile.realism_report_judges,
    )
    judges = {account for judge in every if (account := account_of(judge)) is not None}
    chats = {split_judge(profile.chat)[0]} if profile.chat is not None else set()
    for named, kinds, of in (
        ({profile.backend.kind}, (LOCAL_BACKEND,), "backend"),
        (judges, JUDGE_KINDS, "judge"),
        (chats, CHAT_KINDS, "language model"),
    ):
        for kind in sorted(named - set(kinds)):
            try:
                settings.account(kind, kinds, of)
            except SettingsError as error:
                raise SettingsError(f"profile {name!r}: {error}") from error


def find_profile(name: str, settings: Settings | None = None) -> Profile:
    """Return the profile of that name.

    Raises ``SettingsError`` with its problem, or with the known names.
    """
    profiles, problems = read_profiles(settings)
    if name in problems:
        raise SettingsError(problems[name])
    if name not in profiles:
        raise SettingsError(f"no profile {name!r}: there are {', '.join(sorted(profiles))}")
    return profiles[name]


def profile_drawing(model: str, settings: Settings | None = None) -> Profile:
    """Return the profile that draws with ``model``: the name of one, or a backend ``kind:model``.

    A backend takes judges and everything else from the profile that uses it, else from the first
    of the same account or, on this machine, from :data:`LOCAL_MODEL`. Raises ``SettingsError``.
    """
    settings = settings or load_settings()
    profiles = load_profiles(settings)
    if ":" not in model:
        return find_profile(model, settings)
    try:
        asked = BackendSpec.model_validate(model)
    except ValidationError as error:
        raise SettingsError(first_problem(error)) from error
    alike = [one for one in profiles.values() if one.backend.kind == asked.kind]
    same = [one for one in alike if one.backend.model == asked.model]
    if same:
        return same[0]
    if asked.kind != LOCAL_BACKEND:
        settings.account(asked.kind, (LOCAL_BACKEND,), "backend")
    if not alike:
        raise SettingsError(
            f"no profile has judges for {model}: add one to {SETTINGS_FILE} with "
            f'backend = "{model}" and judges'
        )
    base = BUILT_IN[LOCAL_MODEL] if asked.kind == LOCAL_BACKEND else alike[0]
    own = {"name": model, "about": f"{model}, with the judges of {base.name}."}
    try:
        backend = (
            asked
            if asked.kind == LOCAL_BACKEND
            else {**base.backend.model_dump(), "model": asked.model}
        )
        return changed_profile(base, {**own, "backend": backend}, settings)
    except ValidationError as error:
        raise SettingsError(first_problem(error)) from error


def self_reporting(profile: Profile) -> Profile:
    """Return ``profile`` with the judges of its loop in place of its report judges."""
    none: tuple[str, ...] = ()
    changes = {"self_report": True, "report_judges": none, "realism_report_judges": none}
    return profile.model_copy(update=changes)


def reports_itself(profile: Profile, given: Sequence[object] | None = None) -> bool:
    """Return whether the loop's judges also report.

    So it is where ``profile`` asks for it and names no report judges, and the caller names none
    (``given``).
    """
    return profile.self_report and not (profile.report_judges if given is None else given)


def changed_profile(
    profile: Profile,
    changes: Mapping[str, Any],
    settings: Settings | None = None,
    *,
    directed: bool = False,
) -> Profile:
    """Return ``profile`` with other values of some fields, validated as a whole.

    ``directed``: a director is given in place of its ``chat``. Raises ``ValidationError`` for what
    does not go together.
    """
    context = {ACCOUNTS: settings.accounts if settings is not None else {}, DIRECTED: directed}
    return Profile.model_validate({**profile.model_dump(), **changes}, context=context)


def profile_with(
    profile: Profile, options: RunOptions, settings: Settings, *, directed: bool = False
) -> Profile:
    """Return ``profile`` with the models and choices of ``options``, validated as a whole.

    ``directed``: a director is given in place of its ``chat``. Judges in place of the profile's
    are asked without its cascade; without report judges of their own, those of the profile stay
    that are other models. Raises ``SettingsError`` for what does not go together.
    """
    changes = dict(options.for_profile())
    judges, report = options.judges, options.report_judges
    try:
        if judges is not None:
            changes |= {"judges": judges, "cascade": None}
            changes["quorum"] = min(profile.quorum, len(judges))
            if report is None:
                report = _independent_of(judges, profile.report_judges, settings)
        if options.self_report:
            profile = self_reporting(profile)
            report = options.report_judges or ()
        if report is not None:
            changes["report_judges"] = report
        if not changes:
            return profile
        return changed_profile(profile, changes, settings, directed=directed)
    except ValidationError as error:
        raise SettingsError(f"these options conflict: {first_problem(error)}") from error


def _independent_of(
    judges: Sequence[str], report: Sequence[str], settings: Settings
) -> tuple[str, ...]:
    """Return those of ``report`` that are other models than all of ``judges``."""
    loop = [identity_of_spec(judge, settings.accounts) for judge in judges]

    def is_other(judge: str) -> bool:
        own = identity_of_spec(judge, settings.accounts)
        return own is None or not any(own.same_as(one) for one in loop if one is not None)

    return tuple(judge for judge in report if judge not in judges and is_other(judge))


def _read_tables(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        raise SettingsError(f"the profiles file {path} does not exist: check profiles_file")
    data = read_user_toml(path, SettingsError)
    tables = data.get("profiles", {})
    if set(data) - {"profiles"} or not isinstance(tables, dict):
        raise SettingsError(f"{path} must hold tables [profiles.NAME] only")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: profiles.{name} must be a table")
    return tables


def _own(
    name: str,
    tables: Mapping[str, dict[str, Any]],
    context: Mapping[str, Any],
    path: tuple[str, ...],
) -> Profile:
    if name in path:
        raise SettingsError(f"profiles extend each other in a circle: {' → '.join([*path, name])}")
    table = dict(tables[name])
    parent = table.pop("extends", None)
    if "like" in table:
        raise SettingsError(
            f"profile {name!r} has like: write extends = {table['like']!r} to start from a profile"
        )
    base: dict[str, Any] = {}
    if parent is not None:
        if parent in tables and parent != name:
            base = _own(parent, tables, context, (*path, name)).model_dump(mode="json")
        elif parent in BUILT_IN:
            base = BUILT_IN[parent].model_dump(mode="json")
        else:
            known = sorted({*BUILT_IN, *tables} - {name})
            raise SettingsError(
                f"profile {name!r} extends {parent!r}, which does not exist: "
                f"there are {', '.join(known)}"
            )
    # A profile's own description is not inherited.
    base.pop("about", None)
    backend = table.get("backend")
    if isinstance(backend, str) and base:
        # A short form swaps the model and keeps what goes with it, such as the adapter.
        try:
            short = BackendSpec.model_validate(backend).model_dump(include={"kind", "model"})
        except ValidationError as error:
            told = f"{first_problem(error)}{suggestion(error, BackendSpec)}"
            raise SettingsError(f"profile {name!r}: {told}") from error
        table["backend"] = _swapped(base["backend"], short)
    elif isinstance(backend, dict) and base:
        table["backend"] = _swapped(base["backend"], backend)
    if table.get("self_report") is True:
        # The loop's own judges report in place of those that the profile inherits.
        base |= {"report_judges": (), "realism_report_judges": ()}
    try:
        return Profile.model_validate(base | table | {"name": name}, context=context)
    except ValidationError as error:
        if missing := missing_fields(error):
            raise SettingsError(
                f"profile {name!r} names no {' and no '.join(missing)}: add them, or start from a "
                f'profile that has them, for example extends = "{PLAINEST}"'
            ) from error
        told = f"{first_problem(error)}{suggestion(error, Profile)}"
        raise SettingsError(f"profile {name!r}: {told}") from error


def _swapped(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    # Options of one kind of model do not apply to another kind.
    return dict(own) if own.get("kind", base["kind"]) != base["kind"] else {**base, **own}


def user_cache(name: str) -> Path:
    """Return ``~/.cache/scenewright/NAME``, or that below ``XDG_CACHE_HOME``.

    It may not exist yet and may be emptied at any time. Raises ``RuntimeError`` where the user has
    no home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "scenewright" / name
