"""Write the table of pipeline families in ``docs/local-models.md`` from ``families.toml``.

``python scripts/families.py``; ``--check`` only says whether the page is up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from scenewright.core.ports.backend import BackendError
from scenewright.tools.backends.families import Family, known_families
from scenewright.tools.backends.pipeline import call_options, quiet

PAGE = Path(__file__).parents[1] / "docs" / "local-models.md"
BEGIN, END = "<!-- families: scripts/families.py writes this table -->", "<!-- /families -->"
HEADS = (
    "pipeline class",
    "references",
    "maths",
    "edits by instruction",
    "starts from a picture, with masks",
    "steps, guidance",
    "tokens of a prompt",
)
_ADAPTERS = {
    "none": "none",
    "unet": "IP-Adapter, any number, masks",
    "flux": "IP-Adapter, any number",
    "sd3": "IP-Adapter, one",
}


def table() -> str:
    """Return the table in Markdown, a row for each class of ``families.toml``."""
    rows = [HEADS, ("---",) * len(HEADS)]
    rows += [row(name, family) for name, family in known_families().items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def row(name: str, family: Family) -> tuple[str, ...]:
    """Return the cells of the class ``name``."""
    edits = family.edits
    references, instructions = _ADAPTERS[family.adapter], "no"
    if edits is not None:
        most = edits.pictures
        references = "one picture" if most == 1 else f"pictures, {most or '`max_references`'}"
        instructions = "of one picture" if most == 1 else "with references beside it"
    starts = "yes" if family.image_to_image else "no"
    if family.inpaint:
        starts = "yes, with one reference beside it"
    limit = "any" if family.chunks else str(max(family.lengths, default="") or "the class's own")
    if edits is not None and edits.unbounded:
        limit += "; any of an instruction"
    return (
        f"`{name}`",
        references,
        f"`{family.maths}`",
        instructions,
        starts,
        defaults(name, family),
        limit,
    )


def defaults(name: str, family: Family) -> str:
    """Return steps and guidance of the class, and of its distilled models."""
    try:
        with quiet():
            options = call_options(name)
    except BackendError:
        # A library that its class needs is not installed.
        options = {}
    steps, scale = family.recommended(options, distilled=False)
    few = family.few
    always = few is not None and not (few.key or few.name)
    told = [] if steps is None or scale is None or always else [f"{steps}, {scale:g}"]
    if few is not None:
        told.append(f"distilled {few.steps}, {few.guidance:g}" if told else f"{few.steps}, none")
    if family.few_loras:
        told.append("[fewer with LoRAs](#loras)")
    return "; ".join(told) or "the class's own"


def written(page: str) -> str:
    """Return ``page`` with the table of today between its marks."""
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not between.search(page):
        raise SystemExit(f"{PAGE} lacks the marks {BEGIN} and {END}: put them back")
    return between.sub(lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", page)


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where it differs")
    page = PAGE.read_text(encoding="utf-8")
    now = written(page)
    if parser.parse_args().check:
        sys.exit(0 if now == page else "the table is old: run python scripts/families.py")
    PAGE.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
