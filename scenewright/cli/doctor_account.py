"""``scenewright doctor ACCOUNT``: one small request to each model of an account."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from scenewright.cli.console import (
    Exit,
    console,
    debugging,
    fail,
    give,
    note,
    run_and_free,
    say,
)

if TYPE_CHECKING:
    from scenewright.config.settings import Settings
    from scenewright.runs.account_check import ModelCheck, NamedModel

_STATES = {"ok": ("answers", "green"), "failed": ("fails", "red"), "left out": ("", "dim")}


def check_account(name: str, models: Sequence[str], draw: bool, as_json: bool) -> Exit:
    """Ask the models of the account ``name``, or ``models`` of it, and print what came of it."""
    from scenewright.config.accounts import missing_key
    from scenewright.config.settings import load_settings
    from scenewright.runs.account_check import brief, models_of, route_of

    settings = load_settings()
    settings.account(name)
    where = route_of(name, settings)
    settings = brief(name, settings)
    named = _named(name, models, draw, settings) if models else models_of(name, settings)
    if not as_json:
        say(Text.assemble(("account ", "bold"), (name, "bold"), f": {where}"))
    if not named:
        raise fail(_without_models(name, settings))
    if settings.account(name).key() is None:
        raise fail(missing_key(settings.account(name).provider, name), Exit.FAILED)
    asked = [one for one in named if draw or one.kind != "image"]
    note(_announced(name, asked, settings))
    with _calls_untold():
        checks = run_and_free(_checked(name, named, draw, settings))
    ok = all(check.state != "failed" for check in checks)
    report: dict[str, Any] = {
        "account": name, "route": where, "ok": ok, "models": [asdict(check) for check in checks]
    }  # fmt: skip
    give(as_json, report, _print, checks)
    return Exit.OK if ok else Exit.FAILED


def _named(
    name: str, models: Sequence[str], draw: bool, settings: Settings
) -> tuple[NamedModel, ...]:
    from scenewright.runs.account_check import NamedModel, model_kind, models_of

    spec = settings.account(name)
    known = {(one.kind, one.model): one for one in models_of(name, settings)}
    found = []
    for given in dict.fromkeys(models):
        model = given.removeprefix("decision:")
        kind = model_kind(model, spec, draws=draw) if model == given else "decision"
        found.append(known.get((kind, model), NamedModel(kind, model)))
    return tuple(found)


def _without_models(name: str, settings: Settings) -> str:
    from scenewright.config.settings import read_profiles
    from scenewright.runs.account_check import first_of, listed_models

    broken = sorted(read_profiles(settings)[1])
    unread = f" ({', '.join(broken)} cannot be read: `scenewright doctor`)" if broken else ""
    listed = run_and_free(listed_models(name, settings))
    has = f"; it lists {first_of(listed)}" if listed else ""
    return f"no profile names a model of {name}{unread}: add --model NAME{has}"


def _announced(name: str, asked: Sequence[NamedModel], settings: Settings) -> str:
    """Return what will be sent and about what it costs."""
    from scenewright.runs.account_check import drawing_usd

    words = sum(one.kind != "image" for one in asked)
    charged = not settings.account(name).self_hosted
    told = [f"{words} small answer{'s' * (words != 1)}"] if words else []
    told = [f"{told[0]}, a fraction of a cent"] if told and charged else told
    for one in asked:
        if one.kind == "image":
            usd = drawing_usd(name, one, settings)
            price = "its price is unknown" if usd is None else f"about ${usd:.3f}"
            told.append(f"a picture by {one.model}{f' ({price})' if charged else ''}")
    return f"asking {name} for {' and '.join(told)}" if told else f"nothing is asked of {name}"


async def _checked(
    name: str, named: Sequence[NamedModel], draw: bool, settings: Settings
) -> list[ModelCheck]:
    """Check one after the other: what one shows is not another's load."""
    from scenewright.runs.account_check import ModelCheck, check_model

    return [
        await check_model(name, one, settings)
        if draw or one.kind != "image"
        else ModelCheck(one.model, one.kind, "left out", "not drawn: add --draw")
        for one in named
    ]


@contextmanager
def _calls_untold() -> Iterator[None]:
    """Keep the log of calls off the terminal: the report tells the same."""
    calls = logging.getLogger("scenewright.providers")
    before = calls.level
    if not debugging():
        calls.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        calls.setLevel(before)


def _print(checks: Sequence[ModelCheck]) -> None:
    for check in checks:
        word, style = _STATES[check.state]
        figures = []
        if check.seconds is not None:
            figures.append(f"{check.seconds:.1f} s")
        if check.usage.tokens_in or check.usage.tokens_out:
            figures.append(f"{check.usage.tokens_in} + {check.usage.tokens_out} tokens")
            figures += [f"${check.usd:.6f}"] if check.usd else []
        word = "draws" if check.kind == "image" and check.state == "ok" else word
        name = (f"{check.kind} {check.model}", "bold")
        head = Text.assemble(name, ": ", (word or check.problem, style))
        say(Text.assemble(head, *(f", {figure}" for figure in figures)))
        lines = [(check.problem, "red")] if check.state == "failed" else []
        lines += [(f"what to do: {check.remedy}", "")] if check.remedy else []
        if check.served not in ("", check.model):
            lines.append((f"served by {check.served}", ""))
        lines += [("; ".join(check.learnt), "dim")] if check.learnt else []
        lines += [(f"first {reason}", "dim") for reason in check.retries]
        lines += [(warning, "yellow") for warning in check.warnings]
        for text, colour in lines:
            say(f"  {text}", colour, console())
