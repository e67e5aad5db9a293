"""``scenewright keys``: keys of providers, and the API keys that the service hands out."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from scenewright.cli import options
from scenewright.cli.app import App
from scenewright.cli.console import fail, fields_of, note, print_json, print_table, run_async, say
from scenewright.cli.options import given
from scenewright.cli.serve import DatabaseOption, DataOption

if TYPE_CHECKING:
    from scenewright.service.core.keys import ApiKey, KeyStore

app = App(
    help="Store keys of providers (set, forget), and create, list and revoke the API keys of your "
    "service."
)
PROVIDERS = "Providers"
SERVICE = "Your service"
T = TypeVar("T")
AccountArgument = Annotated[
    str,
    typer.Argument(
        metavar="ACCOUNT",
        help="openai, gemini, anthropic, or an account of scenewright.toml.",
        show_default=False,
    ),
]


@app.command(rich_help_panel=SERVICE)
def create(
    tenant: Annotated[
        str, typer.Argument(help="Tenant of the key: keys of one tenant see the same runs.")
    ],
    label: Annotated[str, typer.Option(help="What the key is for.")] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="Permission: refine, read, score, parse or admin; can be given several times. By "
            "default all but admin."
        ),
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Most requests in any 60 s.")
    ] = None,
    running: Annotated[
        int | None, typer.Option(min=1, help="Most runs waiting or running at once.")
    ] = None,
    usd: Annotated[
        float | None, typer.Option(min=0, help="US dollars that it may spend in total.")
    ] = None,
    images: Annotated[
        int | None, typer.Option(min=0, help="Images that it may draw in total.")
    ] = None,
    days: Annotated[
        float | None, typer.Option(min=0, help="Days until it expires; by default never.")
    ] = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    as_json: options.Json = False,
) -> None:
    """Create a key. It is shown only once: the service keeps its hash."""
    from scenewright.service.core.identity import SCOPES
    from scenewright.service.core.keys import USUAL

    unknown = sorted(set(scope or ()) - set(SCOPES))
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise fail(f"unknown scope {names}: use one of {', '.join(SCOPES)}")
    scopes = tuple(known for known in SCOPES if known in scope) if scope else USUAL
    key, text = _with_keys(
        data,
        database,
        lambda keys: keys.create(
            tenant,
            label=label,
            scopes=scopes,
            requests_per_minute=requests_per_minute,
            usd=usd,
            images=images,
            running=running,
            days=days,
        ),
    )
    if as_json:
        print_json({"key": text, **_row(key)})
        return
    say(text)
    note(
        f"The key of {key.tenant} ({', '.join(key.scopes)}). Keep it now: it is not shown "
        f"again. `scenewright keys revoke {key.id}` ends it."
    )


@app.command(name="list", rich_help_panel=SERVICE)
def listed(
    tenant: Annotated[str | None, typer.Option(help="Only keys of this tenant.")] = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    as_json: options.Json = False,
) -> None:
    """List the keys with their permissions, limits and spending."""
    rows = _with_keys(data, database, lambda keys: _rows(keys, tenant))
    if as_json:
        print_json({"keys": rows})
        return
    if not rows:
        note("no keys yet: make one with `scenewright keys create TENANT`")
    print_table(
        ("id", "tenant", "label", "scopes", "limits", "spent", "state"),
        [
            (row["id"], row["tenant"], row["label"], " ".join(row["scopes"]), _limits(row),
             f"{row['spent_usd']:.2f} USD, {row['spent_images']} images", row["state"])
            for row in rows
        ],
    )  # fmt: skip


@app.command(rich_help_panel=SERVICE)
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id, or the whole key.")],
    data: DataOption = None,
    database: DatabaseOption = None,
) -> None:
    """Revoke a key. Its runs and its spending stay on record."""
    number = key.split("_")[1] if key.startswith("sw_") and key.count("_") == 2 else key
    found = _with_keys(data, database, lambda keys: keys.revoke(number))
    say(f"{found.id} of {found.tenant} is revoked.")


@app.command(name="set", rich_help_panel=PROVIDERS)
def set_key(account: AccountArgument) -> None:
    """Store the key of a provider for this user, in a file that only they may read.

    The key is asked for without being shown, or read from standard input:

        scenewright keys set openai < key.txt

    A variable of the environment, such as OPENAI_API_KEY, goes before a stored key.
    """
    from scenewright.config.accounts import store_key

    variable = _variable(account)
    if sys.stdin.isatty():
        key = typer.prompt(f"key of {account}", hide_input=True, err=True)
    else:
        key = sys.stdin.readline()
    key = key.strip()
    if not key or not key.isprintable() or " " in key:
        raise fail("that is no key: it has at least one sign, and neither spaces nor line breaks")
    try:
        place = store_key(variable, key)
    except (OSError, RuntimeError, ValueError) as error:
        raise fail(f"the key cannot be stored: {error}; set {variable} instead") from None
    say(f"stored {variable} in {place}")
    if os.environ.get(variable, key) != key:
        note(f"note: {variable} of the environment goes before it and is another key")


@app.command(rich_help_panel=PROVIDERS)
def forget(account: AccountArgument) -> None:
    """Delete the stored key of a provider."""
    from scenewright.config.accounts import keys_file, store_key, stored_keys

    variable = _variable(account)
    try:
        if variable not in stored_keys():
            raise fail(f"no key of {account} is stored in {keys_file()}")
        say(f"deleted {variable} from {store_key(variable, None)}")
    except (OSError, RuntimeError, ValueError) as error:
        raise fail(f"the key cannot be deleted: {error}") from None


def _variable(account: str) -> str:
    """Return the variable that names the account's key; the command ends where it has none."""
    from scenewright.config.settings import load_settings

    found = load_settings().account(account).key_variables
    if not found:
        raise fail(f"the account {account} needs no key")
    return found[0]


def _with_keys(
    data: Path | None, database: str | None, call: Callable[[KeyStore], Awaitable[T]]
) -> T:
    from scenewright.service.core.database import open_database
    from scenewright.service.core.keys import KeyStore
    from scenewright.service.core.settings import service_settings

    async def called() -> T:
        async with open_database(service_settings(**given(data=data, database=database))) as engine:
            return await call(KeyStore(engine))

    return run_async(called())


async def _rows(keys: KeyStore, tenant: str | None) -> list[dict[str, Any]]:
    spent = await keys.spent()
    rows = []
    for key in await keys.all(tenant):
        usd, images = spent.get(key.id, (0.0, 0))
        rows.append({**_row(key), "spent_usd": usd, "spent_images": images})
    return rows


def _row(key: ApiKey) -> dict[str, Any]:
    now = datetime.now(UTC)
    if key.revoked is not None:
        state = "revoked"
    elif key.expires is None:
        state = "open"
    else:
        ends = datetime.fromtimestamp(key.expires, UTC)
        state = "expired" if ends <= now else f"open until {ends:%Y-%m-%d %H:%M} UTC"
    return fields_of(
        key,
        *("id", "tenant", "label", "requests_per_minute", "running", "usd", "images"),
        *("created", "expires", "revoked"),
        scopes=list(key.scopes),
        state=state,
    )


def _limits(row: dict[str, Any]) -> str:
    found = [
        f"{row[name]:g} {words}"
        for name, words in (
            ("requests_per_minute", "requests/min"),
            ("running", "runs"),
            ("usd", "USD"),
            ("images", "images"),
        )
        if row[name] is not None
    ]
    return ", ".join(found) or "none"
