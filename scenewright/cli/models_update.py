"""``scenewright models update``: a newer table of facts about models, without a release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli import options
from scenewright.cli.console import Exit, fail, give, say

if TYPE_CHECKING:
    from scenewright.providers.model_facts import Kind, ModelFacts

MOST_BYTES = 2 * 2**20
_SECONDS = 20.0


def update(
    source: Annotated[str | None, typer.Option("--from")] = None,
    as_json: options.Json = False,
) -> Exit:
    """Fetch a newer table of facts about models: abilities, limits, prices, and when they end.

    The table is checked whole before it replaces the copy in your folder of settings. The newer of
    that copy and the package's own table is used from then on; `scenewright doctor` says which.

    Exit codes: 0 the copy is the table, or is as new; 2 wrong input; 3 it cannot be had or used.

    Args:
        source (FILE|URL): A table of this form; by default that of the newest development.
    """
    from scenewright.providers.model_facts import (
        UPDATE_URL,
        ModelTableError,
        keep_facts,
        model_facts,
        read_facts,
    )

    place = source or UPDATE_URL
    text = _read(place)
    before = model_facts()
    try:
        table = read_facts(text, place)
        check_facts(table)
    except ModelTableError as error:
        raise fail(f"{error}. The table in use stays: {before.version}", Exit.FAILED) from error
    newer = table.as_of > before.as_of
    if newer:
        try:
            kept = str(keep_facts(text))
        except (OSError, RuntimeError) as error:
            raise fail(f"the table cannot be kept: {error}", Exit.FAILED) from error
        told = f"model facts of {table.as_of} replace those of {before.as_of}: {kept}"
    else:
        kept = before.place
        told = f"the table in use ({before.version}) is as new as {place} ({table.as_of})"
    data = {"as_of": str(table.as_of), "before": str(before.as_of), "updated": newer, "file": kept}
    give(as_json, data, say, told)
    return Exit.OK


def check_facts(table: ModelFacts) -> None:
    """Raise ``ModelTableError`` unless every row of ``table`` can be used."""
    from pydantic import ValidationError

    from scenewright.agents.judges.decisions.models import caps_of as decision_caps_of
    from scenewright.agents.judges.models import caps_of
    from scenewright.core.ports.backend import BackendError
    from scenewright.core.ports.judge import JudgeError
    from scenewright.providers.known_models import end_of
    from scenewright.providers.model_facts import ModelTableError, using
    from scenewright.providers.usage import PriceTable
    from scenewright.tools.backends.image_models import image_caps_of

    views: dict[Kind, Callable[[str, str], object]] = {
        "chat": caps_of, "image": image_caps_of, "decision": decision_caps_of, "end": end_of
    }  # fmt: skip
    whole = {"chat": ("openai", "gemini", "anthropic"), "image": ("openai", "gemini")}
    with using(table):
        try:
            PriceTable.load()
            for kind, view in views.items():
                names = [*table.rows(kind), *(f"{one}:*" for one in whole.get(kind, ()))]
                for name in names:
                    provider, _, model = name.partition(":")
                    view(provider, model.removesuffix("*") or "unknown")
        except (BackendError, JudgeError, ValidationError) as error:
            raise ModelTableError(f"{table.place} cannot be used: {error}") from error


def _read(place: str) -> str:
    """Return the text of a file or of an address; ends the command where there is none."""
    try:
        if place.startswith(("https://", "http://")):
            return _download(place)
        file = Path(place)
        if file.stat().st_size > MOST_BYTES:
            raise fail(f"{place} is larger than {MOST_BYTES} bytes: it is no table of model facts")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise fail(f"{place} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise fail(f"{place} is no text file") from error


def _download(url: str) -> str:
    import httpx2

    found = bytearray()
    try:
        with httpx2.stream("GET", url, timeout=_SECONDS) as reply:
            if reply.status_code != 200:
                raise fail(f"{url} answers HTTP {reply.status_code}", Exit.FAILED)
            for chunk in reply.iter_bytes():
                found += chunk
                if len(found) > MOST_BYTES:
                    raise fail(f"{url} sends more than {MOST_BYTES} bytes", Exit.FAILED)
    except httpx2.HTTPError as error:
        raise fail(f"{url} cannot be fetched: {error}", Exit.FAILED) from error
    return found.decode("utf-8")
