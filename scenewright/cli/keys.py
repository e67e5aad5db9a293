"""``scenewright keys``: keys of providers, and the API keys that the service hands out.

Args:
    account: openai, gemini, anthropic, or an account of scenewright.toml.
    data: Folder of the runs and the database.
    database: postgresql://USER:PASSWORD@HOST/NAME; by default SQLite in the data folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App
from scenewright.cli.serve import DataOption

if TYPE_CHECKING:
    from scenewright.service.core.keys import ApiKey, KeyStore

app = App(
    help="Store keys of providers (set, forget), and create, list and revoke the API keys of your "
    "service."
)
PROVIDERS = "Providers"
SERVICE = "Your service"
T = TypeVar("T")


@app.command(rich_help_panel=SERVICE)
def create(
    context: typer.Context,
    tenant: str,
    label: str = "",
    scope: list[str] | None = None,
    requests_per_minute: options.OptionalPositive = None,
    running: options.OptionalPositive = None,
    usd: options.OptionalAmount = None,
    images: Annotated[int | None, typer.Option(min=0)] = None,
    days: options.OptionalAmount = None,
    data: DataOption = None,
    database: str | None = None,
    as_json: options.Json = False,
) -> None:
    """Create a key. It is shown only once: the service keeps its hash.

    Args:
        tenant: Tenant of the key: keys of one tenant see the same runs.
        label: What the key is for.
        scope: Permission: refine, read, score, parse or admin; can be given several times. By
            default all but admin.
        requests_per_minute: Most requests in any 60 s.
        running: Most runs waiting or running at once.
        usd: US dollars that it may spend in total.
        images: Images that it may draw in total.
        days: Days until it expires; by default never.
    """
    from scenewright.service.core.identity import SCOPES
    from scenewright.service.core.keys import USUAL

    unknown = sorted(set(scope or ()) - set(SCOPES))
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise terminal.fail(f"unknown scope {names}: use one of {', '.join(SCOPES)}")
    scopes = tuple(known for known in SCOPES if known in scope) if scope else USUAL
    given = {name: context.params[name] for name in ("label", "days", *_LIMITS)}
    key, text = with_keys(data, database, lambda keys: keys.create(tenant, scopes=scopes, **given))
    terminal.print_if_json({"key": text, **_row(key)})
    if as_json:
        return
    terminal.say(text)
    terminal.note(
        f"The key of {key.tenant} ({', '.join(key.scopes)}). Keep it now: it is not shown "
        f"again. `scenewright keys revoke {key.id}` ends it."
    )


@app.command(name="list")
def listed(
    tenant: str | None = None,
    data: DataOption = None,
    database: str | None = None,
    as_json: options.Json = False,
) -> None:
    """List the stored keys of providers, masked, and the service's keys with their spending.

    Args:
        tenant: Only keys of this tenant.
    """
    from scenewright.config.accounts import keys_file, stored_keys

    accounts: dict[str, list[str]] = {}
    stored: dict[str, str] = {}
    if tenant is None:
        for name, variables in key_variables().items():
            for variable in variables:
                accounts.setdefault(variable, []).append(name)
        try:
            stored = stored_keys()
        except ValueError as error:
            raise terminal.fail(str(error)) from None
    providers = [
        {
            "account": ", ".join(accounts.get(variable, ())),
            "variable": variable,
            "key": f"…{key[-4:]}" if len(key) >= _SHORTEST_SHOWN else "…",
            "from": place,
        }
        for variable in dict.fromkeys((*accounts, *stored))
        for place, keys in {"environment": os.environ, _STORED: stored}.items()
        if (key := keys.get(variable))
    ]

    async def read_keys(keys: KeyStore) -> list[dict[str, Any]]:
        spent, rows = await keys.spent(), []
        for key in await keys.all(tenant):
            usd, images = spent.get(key.id, (0.0, 0))
            rows.append({**_row(key), "spent_usd": usd, "spent_images": images})
        return rows

    rows = with_keys(data, database, read_keys) if has_database(data, database) else []
    terminal.print_if_json({"providers": providers, "keys": rows})
    if as_json:
        return
    if providers:
        terminal.say("Keys of providers")
        terminal.print_table(tuple(providers[0]), [tuple(row.values()) for row in providers])
        if any(row["from"] == _STORED for row in providers):
            terminal.note(f"the stored ones are in {keys_file()}")
    elif tenant is None:
        terminal.note("no key of a provider yet: store one with `scenewright keys set ACCOUNT`")
    if not rows:
        terminal.note("no key of your service yet: make one with `scenewright keys create TENANT`")
        return
    terminal.say("Keys of your service")
    terminal.print_table(
        ("id", "tenant", "label", "scopes", "limits", "spent", "state"),
        [
            (row["id"], row["tenant"], row["label"], " ".join(row["scopes"]),
             ", ".join(f"{row[name]:g} {unit}" for name, unit in _LIMITS.items()
                       if row[name] is not None) or "none",
             f"{row['spent_usd']:.2f} USD, {row['spent_images']} images", row["state"])
            for row in rows
        ],
    )  # fmt: skip


@app.command(rich_help_panel=SERVICE)
def revoke(key: str, data: DataOption = None, database: str | None = None) -> None:
    """Revoke a key. Its runs and its spending stay on record.

    Args:
        key: The key's id, or the whole key.
    """
    number = key.split("_")[1] if key.startswith("sw_") and key.count("_") == 2 else key
    if not has_database(data, database):
        raise terminal.fail(
            f"there is no key {number!r}: `scenewright keys list` shows those that are"
        )
    found = with_keys(data, database, lambda keys: keys.revoke(number))
    terminal.say(f"{found.id} of {found.tenant} is revoked.")


@app.command(name="set", rich_help_panel=PROVIDERS)
def set_key(account: str) -> None:
    """Store the key of a provider for this user, in a file that only they may read.

    The key is asked for without being shown, or read from standard input:

        scenewright keys set openai < key.txt

    A variable of the environment, such as OPENAI_API_KEY, goes before a stored key.
    """
    from scenewright.config.accounts import store_key

    variable = variable_of(account)
    if sys.stdin.isatty():
        key = typer.prompt(f"key of {account}", hide_input=True, err=True)
    else:
        key = sys.stdin.readline()
    key = key.strip()
    if not key:
        raise terminal.fail("the key is empty: type it, or send it to standard input")
    if not key.isprintable() or " " in key:
        raise terminal.fail("that is not a key: it has spaces or control characters in it")
    try:
        place = store_key(variable, key)
    except (OSError, RuntimeError, ValueError) as error:
        raise terminal.fail(f"the key cannot be stored: {error}; set {variable} instead") from None
    terminal.say(f"stored {variable} in {place}")
    if os.environ.get(variable, key) != key:
        terminal.note(f"note: {variable} of the environment goes before it and is another key")


@app.command(rich_help_panel=PROVIDERS)
def forget(account: str) -> None:
    """Delete the stored key of a provider."""
    from scenewright.config.accounts import keys_file, store_key, stored_keys

    variable = variable_of(account)
    try:
        if variable not in stored_keys():
            raise terminal.fail(f"no key of {account} is stored in {keys_file()}")
        terminal.say(f"deleted {variable} from {store_key(variable, None)}")
    except (OSError, RuntimeError, ValueError) as error:
        raise terminal.fail(f"the key cannot be deleted: {error}") from None


def key_variables() -> dict[str, tuple[str, ...]]:
    """Return account → the variables of its key, the built-in accounts first."""
    from scenewright.config.accounts import BUILT_IN_ACCOUNTS, DECISION_ACCOUNTS
    from scenewright.config.settings import load_settings

    accounts = {**BUILT_IN_ACCOUNTS, **DECISION_ACCOUNTS, **load_settings().accounts}
    return {name: account.key_variables for name, account in accounts.items()}


def variable_of(account: str) -> str:
    """Return the variable that names the account's key; the command ends where it has none."""
    from scenewright.config.settings import SETTINGS_FILE
    from scenewright.core.suggestions import did_you_mean

    known = key_variables()
    if account not in known:
        taking = [name for name, variables in known.items() if variables]
        raise terminal.fail(
            f"no account {account!r}{did_you_mean(account, taking)}: keys are stored for "
            f"{', '.join(taking)}, and for your own [accounts.NAME] of {SETTINGS_FILE}"
        )
    if not known[account]:
        raise terminal.fail(f"the account {account} needs no key")
    return known[account][0]


_STORED = "stored"
_SHORTEST_SHOWN = 16
"""Shortest key whose last four characters may be shown."""
_LIMITS = {
    "requests_per_minute": "requests/min", "running": "runs", "usd": "USD", "images": "images"
}  # fmt: skip
"""Units of a key's limits."""


def has_database(data: Path | None, database: str | None) -> bool:
    """Return whether the service has a database; a read makes none."""
    from scenewright.service.core.database import sqlite_file
    from scenewright.service.core.settings import service_settings

    file = sqlite_file(service_settings(data=data, database=database))
    return file is None or file.exists()


def with_keys(
    data: Path | None, database: str | None, call: Callable[[KeyStore], Awaitable[T]]
) -> T:
    """Return what ``call`` makes of the service's keys."""
    from scenewright.service.core.database import open_database
    from scenewright.service.core.keys import KeyStore
    from scenewright.service.core.settings import service_settings

    async def called() -> T:
        async with open_database(service_settings(data=data, database=database)) as engine:
            return await call(KeyStore(engine))

    return terminal.run_async(called())


def _row(key: ApiKey) -> dict[str, Any]:
    now = datetime.now(UTC)
    if key.revoked is not None:
        state = "revoked"
    elif key.expires is None:
        state = "open"
    else:
        ends = datetime.fromtimestamp(key.expires, UTC)
        state = "expired" if ends <= now else f"open until {ends:%Y-%m-%d %H:%M} UTC"
    return terminal.fields_of(
        key,
        *("id", "tenant", "label", "requests_per_minute", "running", "usd", "images"),
        *("created", "expires", "revoked"),
        scopes=list(key.scopes),
        state=state,
    )
