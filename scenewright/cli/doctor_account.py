"""``scenewright doctor ACCOUNT``: one small request to each model of an account."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from scenewright.cli.console import (
    Exit,
    debugging,
    fail,
    note,
    print_json,
    run_and_free,
    say,
)

if TYPE_CHECKING:
    from scenewright.runs.account_check import Kind, ModelCheck

_STATES = {"ok": ("answers", "green"), "failed": ("fails", "red"), "left out": ("", "dim")}


def check_account(name: str, models: Sequence[str], draw: bool, as_json: bool) -> Exit:
    """Ask the models of the account ``name``, or ``models`` of it, and print what came of it."""
    from scenewright.config.accounts import missing_key
    from scenewright.config.settings import load_settings, read_profiles
    from scenewright.runs import account_check as checking

    settings = load_settings()
    settings.account(name)
    where = checking.route_of(name, settings)
    settings = checking.brief(name, settings)
    account = settings.account(name)
    named = checking.models_of(name, settings)
    if models:
        known = {(one.kind, one.model): one for one in named}
        keys = []
        for one in dict.fromkeys(models):
            model = one.removeprefix("decision:")
            kind: Kind = "decision"
            if model == one:
                kind = checking.model_kind(model, account, draws=draw)
            keys.append((kind, model))
        named = tuple(known.get(key, checking.NamedModel(*key)) for key in keys)
    if not as_json:
        say(Text.assemble(("account ", "bold"), (name, "bold"), f": {where}"))
    if not named:
        broken = ", ".join(sorted(read_profiles(settings)[1]))
        unread = f" ({broken} cannot be read: `scenewright doctor`)" if broken else ""
        listed = run_and_free(checking.listed_models(name, settings))
        has = f"; it lists {checking.first_of(listed)}" if listed else ""
        raise fail(f"no profile names a model of {name}{unread}: add --model NAME{has}")
    if account.key() is None:
        raise fail(missing_key(account.provider, name), Exit.FAILED)
    charged, texts = not account.self_hosted, []
    if answers := sum(one.kind != "image" for one in named):
        cost = ", a fraction of a cent" if charged else ""
        texts.append(f"{answers} small answer{'s' * (answers != 1)}{cost}")
    for image in (one for one in named if draw and one.kind == "image"):
        usd = checking.drawing_usd(name, image, settings)
        price = "its price is unknown" if usd is None else f"about ${usd:.3f}"
        texts.append(f"a picture by {image.model}{f' ({price})' if charged else ''}")
    asks = f"asking {name} for {' and '.join(texts)}"
    note(asks if texts else f"nothing is asked of {name}")

    async def check_all() -> list[ModelCheck]:
        # One after the other: what one shows is not another's load.
        return [
            await checking.check_model(name, one, settings)
            if draw or one.kind != "image"
            else checking.ModelCheck(one.model, one.kind, "left out", "not drawn: add --draw")
            for one in named
        ]

    # The report says what the log of calls would.
    calls = logging.getLogger("scenewright.providers")
    before = calls.level
    if not debugging():
        calls.setLevel(logging.CRITICAL)
    try:
        checks = run_and_free(check_all())
    finally:
        calls.setLevel(before)
    ok = all(check.state != "failed" for check in checks)
    if as_json:
        rows = [asdict(check) for check in checks]
        print_json({"account": name, "route": where, "ok": ok, "models": rows})
    else:
        _print_checks(checks)
    return Exit.OK if ok else Exit.FAILED


def _print_checks(checks: Sequence[ModelCheck]) -> None:
    for check in checks:
        word, style = _STATES[check.state]
        word = "draws" if check.kind == "image" and check.state == "ok" else word
        figures = [f"{check.seconds:.1f} s"] if check.seconds is not None else []
        if check.usage.tokens_in or check.usage.tokens_out:
            figures.append(f"{check.usage.tokens_in} + {check.usage.tokens_out} tokens")
            figures += [f"${check.usd:.6f}"] if check.usd else []
        title = (f"{check.kind} {check.model}", "bold")
        head = Text.assemble(title, ": ", (word or check.problem, style))
        say(Text.assemble(head, *(f", {figure}" for figure in figures)))
        lines = [(check.problem, "red")] if check.state == "failed" else []
        lines += [(f"what to do: {check.remedy}", "")] if check.remedy else []
        if check.served not in ("", check.model):
            lines.append((f"served by {check.served}", ""))
        lines += [("; ".join(check.learnt), "dim")] if check.learnt else []
        lines += [(f"first {reason}", "dim") for reason in check.retries]
        lines += [(warning, "yellow") for warning in check.warnings]
        for text, colour in lines:
            say(f"  {text}", colour)
