"""``scenewright real-bench schema``: make and check the schemas of classes.

Args:
    out (FILE.json): File of the schemas.
    existence (QUESTION): First question, whose no makes the score 0; "" asks none.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.costs import agree_to_calls
from scenewright.cli.progress import show_progress, show_status
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.studies.real.schema_making import ClassText

app = App(help="Make and check schemas: the parts of each class and their appearance.")

_ENDINGS = (".txt", ".md")


@app.command()
@resumable("the same command goes on: replies are kept")
def make(
    texts: list[Path],
    chat: Annotated[str, typer.Option()],
    out: options.Out,
    existence: str | None = None,
    retry: options.Retry = False,
    limit_usd: options.LimitUsd = 5.0,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
) -> terminal.Exit:
    """Make schemas by a language model over a text of each class.

    Each attribute needs a quote from the text. Replies are kept in OUT.replies.db, so that the same
    command continues an interrupted one and pays for nothing twice.

    Examples of use:

      scenewright real-bench schema make texts/ --chat openai:gpt-6-luna --out birds.json

    Exit codes: 0 made; 1 made, but some classes have none; 2 wrong input; 3 could not run.

    Args:
        texts (TEXT...): Text files CLASS.txt (or .md), folders of them, or JSON lines with name and
            text.
        chat (ACCOUNT:MODEL): Language model.
    """
    from scenewright.evals.annotation.panel_queries import text_model_of
    from scenewright.evals.store.ledger import Ledger
    from scenewright.evals.studies.real.schema import EXISTENCE, write_schemas
    from scenewright.evals.studies.real.schema_making import expected, make_schemas

    found = read_texts(texts)
    model = text_model_of(chat)
    question = EXISTENCE if existence is None else existence.strip() or None
    costs = expected(model, found)
    size = f"{len(found)} classes; at most "
    agree_to_calls(model.name, costs, limit_usd, yes, quiet, size)
    with (
        Ledger(out.with_name(f"{out.name}.replies.db")) as ledger,
        show_progress("asking", quiet, lines=False) as show,
    ):
        work = make_schemas(ledger, model, found, existence=question, retry=retry, on_progress=show)
        made = terminal.run_and_free(work)
    schemas = [one.schema for one in made if one.schema is not None]
    if schemas:
        write_schemas(out, schemas)
    terminal.print_table(
        ("class", "attributes", "left out", "note"),
        [
            (one.name, str(0 if one.schema is None else len(one.schema.attributes)),
             str(len(one.dropped)), one.reason)
            for one in made
        ],
    )  # fmt: skip
    for one in made:
        for dropped in one.dropped:
            terminal.note(f"note: {one.name}: {dropped}")
    usd, tokens = sum(one.usd for one in made), sum(one.tokens for one in made)
    written = f"wrote {out}" if schemas else "nothing to write"
    terminal.say(f"{written}: {tokens:,} tokens, {dollars(usd)}")
    return terminal.Exit.MISSING if len(schemas) < len(made) else terminal.Exit.OK


@app.command()
def cub(
    folder: Path,
    out: options.Out,
    share: float = 0.5,
    certainty: Annotated[int, typer.Option(min=1, max=4)] = 3,
    existence: str | None = None,
    quiet: options.Quiet = False,
) -> terminal.Exit:
    """Make schemas from annotations in the format of CUB-200-2011.

    Exit codes: 0 made; 1 made, but some classes have none; 2 wrong input.

    Args:
        folder: CUB_200_2011, or a set in its format.
        share: Least share of a class's pictures that an attribute is marked on.
        certainty: Least certainty of a mark that counts.
    """
    from scenewright.evals.studies.real.schema import write_schemas
    from scenewright.evals.studies.real.schema_making import BIRD_EXISTENCE, cub_schemas

    question = BIRD_EXISTENCE if existence is None else existence.strip() or None
    with show_status("reading") as tell:
        made = cub_schemas(
            folder,
            share=share,
            certainty=certainty,
            existence=question,
            on_progress=lambda lines: None if quiet else tell(f"{lines:,} labels read"),
        )
    for problem in made.bad:
        terminal.note(f"note: left out: {problem}")
    if made.n_bad > len(made.bad):
        terminal.note(f"note: {made.n_bad - len(made.bad)} more lines are left out")
    if not made.schemas:
        raise terminal.fail("no class has a common attribute: lower --share or --certainty")
    write_schemas(out, made.schemas)
    count = sum(len(schema.attributes) for schema in made.schemas)
    terminal.say(
        f"wrote {out}: {len(made.schemas)} classes, {count} attributes of {made.lines:,} labels"
    )
    if made.without:
        terminal.note(f"note: without a common attribute: {', '.join(made.without[:8])}")
    return terminal.Exit.MISSING if made.without else terminal.Exit.OK


@app.command()
def check(file: Path, as_json: options.Json = False) -> terminal.Exit:
    """Check a file of schemas and list every fault.

    Exit codes: 0 sound; 2 faults.

    Args:
        file: Schemas, JSON or TOML.
    """
    from scenewright.evals.studies.real.schema import AttributeSchema, check_schemas

    schemas, faults = check_schemas(file)
    terminal.print_if_json({"file": file, "classes": schemas, "faults": faults})
    rows = []
    for schema in schemas:
        if isinstance(schema, AttributeSchema):
            asks = f"{len(schema.attributes)} attributes"
        else:
            asks = f"{len(schema.entities)} entities, {len(schema.relations)} relations"
        rows.append((schema.name, str(schema.version), schema.made_by, asks))
    terminal.print_table(("class", "version", "made by", "asks about"), rows)
    for fault in faults if not as_json else ():
        terminal.note(f"fault: {fault}", "red")
    return terminal.Exit.USAGE if faults else terminal.Exit.OK


def read_texts(places: list[Path]) -> list[ClassText]:
    """Return the texts of the files.

    Raises ``SchemaError`` for what cannot be read and a class given twice.
    """
    from scenewright.core.user_files import read_user_text
    from scenewright.evals.studies.real.schema import SchemaError
    from scenewright.evals.studies.real.schema_making import ClassText

    files: list[Path] = []
    for place in places:
        inside = place.is_dir()
        files += sorted(p for p in place.iterdir() if p.suffix in _ENDINGS) if inside else [place]
    found: list[ClassText] = []
    for file in files:
        text = read_user_text(file, SchemaError)
        if file.suffix != ".jsonl":
            found.append(ClassText(file.stem.replace("_", " "), text))
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                if line.strip():
                    row = json.loads(line)
                    found.append(ClassText(str(row["name"]), str(row["text"])))
            except (ValueError, KeyError, TypeError) as error:
                raise SchemaError(
                    f"{file}, line {number}: give an object with name and text"
                ) from error
    names = Counter(one.name for one in found)
    if not names:
        raise SchemaError("no texts found: name files CLASS.txt or a folder of them")
    if twice := sorted(name for name, times in names.items() if times > 1):
        raise SchemaError(f"texts for {', '.join(twice)} are given twice: keep one of each")
    if empty := [one.name for one in found if not one.text.strip()]:
        raise SchemaError(f"the texts of {', '.join(empty[:8])} are empty")
    return found
