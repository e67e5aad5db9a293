"""``scenewright refine --plan``: the prompt, its tokens, questions and models of a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.text import Text

from scenewright.cli.console import console, print_json

if TYPE_CHECKING:
    from scenewright.runs.plan import RunPlan
    from scenewright.runs.preview import RunPreview

_READ_WHOLE = "read in chunks without a limit"


def show_preview(plan: RunPlan, *, as_json: bool) -> None:
    """Print what the run of ``plan`` would send and ask; nothing is loaded or drawn."""
    from scenewright.runs.preview import preview_of

    found = asyncio.run(preview_of(plan))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    where = console()
    for label, text in _lines(found):
        where.print(Text.assemble((f"{label:<10}", "bold"), text), soft_wrap=True)


def _lines(found: RunPreview) -> list[tuple[str, str]]:
    """(label, text) of every line."""
    names = ", ".join(item.id for item in found.scene.objects)
    relations = "; ".join(str(relation) for relation in found.scene.relations)
    lines = [
        ("scene", names + (f"; {relations}" if relations else "")),
        ("draws", f"{found.backend} (profile {found.profile})"),
        ("composer", found.composer + (f", {found.chat}" if found.chat else "")),
    ]
    if found.prompt is not None:
        lines += [("prompt", found.prompt), ("tokens", _tokens(found))]
        said = {fact.id: fact.statement for fact in found.facts}
        lines += [("dropped", said.get(id_, id_)) for id_ in found.facts_dropped]
    else:
        lines.append(("tokens", _room(found)))
    for message in found.messages:
        lines.append((f"to {message.role}", message.text))
    for fact in found.facts:
        options = "" if fact.is_binary else f"  [{' / '.join(fact.options)}]"
        lines.append(("asks", f"{fact.question}{options}"))
    lines.append(("judges", ", ".join(found.judges) + f" (protocol {found.protocol})"))
    if found.cascade:
        lines.append(("cascade", found.cascade))
    own = " (self-report)" if found.self_report else ""
    lines.append(("report", (", ".join(found.report_judges) or "none") + own))
    if found.outside:
        lines.append(("outside", found.outside))
    return lines


def _room(found: RunPreview) -> str:
    """What is read of a prompt that a language model will write."""
    if found.budget is not None:
        return f"at most {found.budget} of what it writes are read"
    return f"what it writes is {_READ_WHOLE}" if found.chunked else "no limit known"


def _tokens(found: RunPreview) -> str:
    count = f"about {found.tokens} (estimated)" if found.estimated else str(found.tokens)
    if found.budget is not None:
        dropped = f", {found.dropped} are not read" if found.dropped else ""
        return f"{count} of {found.budget}{dropped}"
    return f"{count}, {_READ_WHOLE}" if found.chunked else f"{count}, no limit known"
