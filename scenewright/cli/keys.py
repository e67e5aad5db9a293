"""``scenewright keys``: API keys of the service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from scenewright.cli import options
from scenewright.cli.app import App
from scenewright.cli.console import fail, fields_of, note, print_json, print_table, say
from scenewright.cli.options import given
from scenewright.cli.serve import DatabaseOption, DataOption

if TYPE_CHECKING:
    from scenewright.service.core.keys import ApiKey, KeyStore

app = App(help="Create, list and revoke API keys of the service.")
T = TypeVar("T")


@app.command()
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


@app.command(name="list")
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


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id, or the whole key.")],
    data: DataOption = None,
    database: DatabaseOption = None,
) -> None:
    """Revoke a key. Its runs and its spending stay on record."""
    number = key.split("_")[1] if key.startswith("sw_") and key.count("_") == 2 else key
    found = _with_keys(data, database, lambda keys: keys.revoke(number))
    say(f"{found.id} of {found.tenant} is revoked.")


def _with_keys(
    data: Path | None, database: str | None, call: Callable[[KeyStore], Awaitable[T]]
) -> T:
    from scenewright.service.core.database import open_database
    from scenewright.service.core.keys import KeyStore
    from scenewright.service.core.settings import service_settings

    async def called() -> T:
        async with open_database(service_settings(**given(data=data, database=database))) as engine:
            return await call(KeyStore(engine))

    return asyncio.run(called())


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
