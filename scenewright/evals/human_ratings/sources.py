"""Where a study's pictures come from: a finished evaluation, a folder of arms, or a CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from scenewright.agents.judges.replay import LIST_SEPARATOR, Row, TableError, read_table
from scenewright.core.facts import Fact
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.evals.human_ratings.study import RatingError
from scenewright.evals.store.results import IMAGES, MANIFEST, Results

ITEMS_FILE = "items.csv"
ORIGINALS = "originals"
"""Subfolder of a plain folder that holds the original photos, if there are any."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_COLUMNS = ("item", "arm", "image", "prompt", "original", "facts")
_FACTS = TypeAdapter(tuple[Fact, ...])


@dataclass(frozen=True, slots=True)
class Entry:
    """An item with the picture of each arm."""

    item: str
    """Its id."""
    pictures: Mapping[str, Path]
    """Arm → file."""
    original: Path | None = None
    """File of the original photo."""
    prompt: str = ""
    """The item's own text."""
    scene: SceneGraph | None = None
    """What a picture is asked to hold."""
    facts: tuple[Fact, ...] = ()
    """What is asked of each picture."""


@dataclass(frozen=True, slots=True)
class Source:
    """Items to rate."""

    about: str
    """What it is, for reports."""
    arms: tuple[str, ...]
    """All arms, in their order."""
    entries: tuple[Entry, ...]
    """The items, in their order."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why items are not among them → how many."""


def read_source(path: str | Path) -> Source:
    """The items of ``path``: an evaluation's folder, a plain folder, or a CSV or parquet file.

    A plain folder has one subfolder an arm with a file ``ITEM.png`` (or .jpg, .jpeg, .webp) each,
    if need be ``originals/`` with the photos, and ``items.csv`` with the columns item, prompt and
    facts (statements joined by ``|``). A table has the columns item, arm and image (file names
    from its folder), if need be prompt, original and facts.

    Raises ``RatingError`` or ``EvalError`` for what cannot be read or holds no picture.
    """
    place = Path(path)
    if (place / MANIFEST).is_file():
        return _evaluation(Results(place))
    if place.is_dir():
        return _folder(place)
    if place.is_file():
        return _table(place)
    raise RatingError(
        f"there is no {place}: name the folder of an evaluation, a folder with one subfolder an "
        "arm, or a CSV file with the columns item, arm and image"
    )


def match_arms(wanted: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The arms meant by ``wanted``: whole names, or any part between slashes that only one has.

    Raises ``RatingError`` for a name that no arm or more than one answers to, and for doubles.
    """
    found = []
    for name in wanted:
        parts = name.split("/")
        n = len(parts)
        hits = [name] if name in known else [
            arm for arm in known
            if any(arm.split("/")[at : at + n] == parts for at in range(arm.count("/") + 1))
        ]  # fmt: skip
        if len(hits) != 1:
            said = "is none of the arms" if not hits else "could be several of the arms"
            raise RatingError(f"{name!r} {said}: give one of {', '.join(hits or known)}")
        found.append(hits[0])
    if len(set(found)) < len(found):
        raise RatingError(f"an arm is named twice in {', '.join(wanted)}")
    return tuple(found)


def _evaluation(results: Results) -> Source:
    pictures: dict[str, dict[str, Path]] = {}
    arms: dict[str, None] = {}
    for row in results.rows("rounds", ["item", "arm", "kept", "image"]):
        arms.setdefault(row["arm"])
        if row["kept"] and row["image"]:
            file = results.folder / IMAGES / f"{row['image']}.png"
            pictures.setdefault(row["item"], {})[row["arm"]] = file
    entries, lost = [], 0
    for row in results.rows("items"):
        if row["item"] not in pictures:
            lost += 1
            continue
        where = f"{results.path('items')}, item {row['item']}"
        try:
            scene = SceneGraph.model_validate_json(row["scene"]) if row["scene"] else None
            facts = _FACTS.validate_json(row["facts"]) if row["facts"] else ()
        except ValidationError as error:
            raise RatingError(f"{where}: {error.errors()[0]['msg']}") from error
        original = Path(row["original"]) if row["original"] else None
        if original is not None and not original.is_absolute() and not original.is_file():
            original = results.folder / original
        entries.append(
            Entry(
                item=row["item"],
                pictures=pictures[row["item"]],
                original=original,
                prompt=row["prompt"] or "",
                scene=scene,
                facts=facts or (() if scene is None else tuple(facts_of(scene))),
            )
        )
    left_out = {"no arm has drawn it": lost} if lost else {}
    return _source(f"evaluation {results.folder.name}", arms, entries, left_out)


def _folder(folder: Path) -> Source:
    arms: dict[str, None] = {}
    pictures: dict[str, dict[str, Path]] = {}
    originals: dict[str, Path] = {}
    for below in sorted(p for p in folder.iterdir() if p.is_dir() and p.name[0] != "."):
        for item, file in _files(below):
            if below.name == ORIGINALS:
                originals[item] = file
            else:
                arms.setdefault(below.name)
                pictures.setdefault(item, {})[below.name] = file
    about: dict[str, Row] = {}
    file = folder / ITEMS_FILE
    if file.is_file():
        about = {row["item"]: row for row in _rows(file, ("item",))}
    entries = []
    for item, found in sorted(pictures.items()):
        row = about.get(item)
        entries.append(
            Entry(
                item=item,
                pictures=found,
                original=originals.get(item),
                prompt=row["prompt"] if row else "",
                facts=_statements(row["facts"]) if row else (),
            )
        )
    return _source(f"folder {folder.name}", arms, entries, {})


def _table(file: Path) -> Source:
    arms: dict[str, None] = {}
    pictures: dict[str, dict[str, Path]] = {}
    about: dict[str, Row] = {}
    for row in _rows(file, ("item", "arm", "image")):
        item, arm = row["item"], row["arm"]
        if not item or not arm or not row["image"]:
            raise RatingError(f"{file}, {row.place}: item, arm and image must not be empty")
        arms.setdefault(arm)
        if pictures.setdefault(item, {}).setdefault(arm, file.parent / row["image"]) != (
            file.parent / row["image"]
        ):
            raise RatingError(f"{file}, {row.place}: a second picture of {item!r} by {arm!r}")
        first = about.setdefault(item, row)
        for column in ("prompt", "original", "facts"):
            if row[column] != first[column]:
                raise RatingError(
                    f"{file}, {row.place}: another {column} of {item!r} than in {first.place}"
                )
    entries = [
        Entry(
            item=item,
            pictures=found,
            original=file.parent / about[item]["original"] if about[item]["original"] else None,
            prompt=about[item]["prompt"],
            facts=_statements(about[item]["facts"]),
        )
        for item, found in pictures.items()
    ]
    return _source(f"table {file.name}", arms, entries, {})


def _source(
    about: str, arms: Mapping[str, None], entries: list[Entry], left_out: dict[str, int]
) -> Source:
    if not entries:
        raise RatingError(
            f"{about} holds no picture to rate: an evaluation needs kept pictures, a folder one "
            "subfolder an arm with files ITEM.png"
        )
    return Source(about, tuple(arms), tuple(entries), left_out)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    seen: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in SUFFIXES and file.is_file():
            if file.stem in seen:
                raise RatingError(f"{seen[file.stem]} and {file} are two pictures of one item")
            seen[file.stem] = file
            yield file.stem, file


def _rows(file: Path, needed: Sequence[str]) -> tuple[Row, ...]:
    try:
        table = read_table(
            file, file.read_bytes(), _COLUMNS, lambda there: [c for c in needed if c not in there]
        )
    except OSError as error:
        raise RatingError(f"{file} cannot be read: {error.strerror or error}") from error
    except TableError as error:
        raise RatingError(str(error)) from error
    return table.rows


def _statements(cell: str) -> tuple[Fact, ...]:
    """Facts of statements in a user's own words."""
    said = [part.strip() for part in cell.split(LIST_SEPARATOR)]
    return tuple(
        Fact(id=f"s{number}", kind="object", subject=text, statement=text, question=text)
        for number, text in enumerate(filter(None, dict.fromkeys(said)), start=1)
    )
