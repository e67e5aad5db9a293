"""Writes what a filter keeps: a manifest, the kept pictures and a page. Nobody's file is deleted.

The folder of a result::

    filter.json        what was asked, and the classes in numbers
    manifest.jsonl     one line a picture (manifest.parquet where that is asked for)
    kept/CLASS/…       links to the kept pictures, or copies of them
    index.html         kept and dropped side by side, with the reasons
    thumbs/            their small copies

Written again it holds what the last filter kept; of what lies in ``kept`` only links and copies
that a filter made are taken out.
"""

from __future__ import annotations

import filecmp
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from scenewright.core.flushing import write_text
from scenewright.evals.studies.real.filter_page import write_page
from scenewright.evals.studies.real.filtering import Filtered, FilterError, FilterPlan, tallies
from scenewright.evals.studies.real.rows import RealRow
from scenewright.runs.folder import write_json

Pictures = Literal["link", "copy", "none"]
ABOUT, MANIFEST, PARQUET, KEPT = "filter.json", "manifest.jsonl", "manifest.parquet", "kept"
STYLE_STORE = "style.sqlite"
"""Scores of style that were computed for a result."""
_PENDING = ".manifest.pending.jsonl"
_FORMAT = 1
_NOT_IN_NAMES = re.compile(r"[^\w .+-]")


def write_filtered(
    filtered: Sequence[Filtered],
    files: Mapping[str, Path],
    folder: Path,
    plan: FilterPlan,
    *,
    pictures: Pictures = "link",
    parquet: bool = False,
    source: str = "",
    page: bool = True,
    tell: Callable[[str], None] = lambda doing: None,
) -> list[Filtered]:
    """Write the folder of a result; the rows with the places of the kept pictures.

    ``files``: image → its file. ``pictures``: links, copies, or the manifest alone. ``source``:
    where the scores came from. The manifest is the former one or the new one; a run that was
    stopped is finished by the next. Raises ``FilterError`` for a folder that holds something else,
    or that cannot be written.
    """
    try:
        open_folder(folder)
        rows = _with_places(filtered, files) if pictures != "none" else list(filtered)
        former = _places(folder / MANIFEST) | _places(folder / _PENDING)
        tell("writing the manifest")
        text = "\n".join(row.model_dump_json() for row in rows)
        # Known before it is there, so that a stopped run leaves nothing unaccounted for.
        write_text(folder / _PENDING, text)
        write_json(folder / ABOUT, _about(rows, plan, pictures, source))
        tell("placing the kept pictures")
        places = {row.file: files[row.image] for row in rows if row.file}
        for place, file in places.items():
            _put(file, folder / place, pictures)
        for place in sorted(former.keys() - places.keys()):
            _take_out(folder / place, files.get(former[place], Path(former[place])))
        if parquet:
            _write_parquet(folder, rows)
        elif (folder / PARQUET).exists():
            (folder / PARQUET).unlink()
        os.replace(folder / _PENDING, folder / MANIFEST)
        if page:
            tell("writing the page")
            write_page(rows, files, folder, plan, source)
    except OSError as error:
        raise FilterError(
            f"{error.filename or folder} cannot be written: {error.strerror or error}. Mend that, "
            "then run the same again"
        ) from error
    return rows


def open_folder(folder: Path) -> None:
    """Make the folder of a result, or find a former one. Raises ``FilterError`` for another."""
    try:
        if folder.exists() and not folder.is_dir():
            raise FilterError(f"{folder} is a file: name a folder")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / ABOUT).is_file():
            raise FilterError(f"{folder} holds something else: name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / ABOUT).exists():
            write_json(folder / ABOUT, {"format": _FORMAT})
    except OSError as error:
        raise FilterError(f"{folder} cannot be made: {error.strerror or error}") from error


def _about(
    rows: Sequence[Filtered], plan: FilterPlan, pictures: Pictures, source: str
) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "plan": plan.model_dump(mode="json"),
        "pictures": pictures,
        "source": source,
        "counts": dict(Counter(row.why for row in rows)),
        "classes": {
            one.label: {
                "pictures": one.pictures,
                "counts": dict(one.counts),
                "lowest_kept": one.lowest,
                "mean_kept": one.mean_kept,
                "mean_ranked": one.mean_scored,
                "tied_at_the_cut": one.tied,
            }
            for one in tallies(rows)
        },
    }


def _with_places(rows: Sequence[Filtered], files: Mapping[str, Path]) -> list[Filtered]:
    kept = [row for row in rows if row.kept]
    folders = _distinct({row.label: _safe(row.label) for row in kept})
    taken = Counter((folders[row.label], _safe(files[row.image].name).casefold()) for row in kept)
    found = []
    for row in rows:
        if row.kept:
            file = files[row.image]
            name = _safe(file.name)
            if taken[folders[row.label], name.casefold()] > 1:
                name = f"{Path(name).stem}-{row.digest[:12]}{file.suffix}"
            row = row.model_copy(update={"file": f"{KEPT}/{folders[row.label]}/{name}"})
        found.append(row)
    return found


def _safe(name: str) -> str:
    clean = _NOT_IN_NAMES.sub("_", name).strip(" .")[-120:]
    return clean or "_"


def _distinct(names: Mapping[str, str]) -> dict[str, str]:
    taken = Counter(name.casefold() for name in names.values())
    numbers: Counter[str] = Counter()
    found = {}
    for label in sorted(names):
        name = names[label]
        if taken[name.casefold()] > 1:
            numbers[name.casefold()] += 1
            name = f"{name}-{numbers[name.casefold()]}"
        found[label] = name
    return found


def _places(manifest: Path) -> dict[str, str]:
    """Where a former result put which picture; lines that a kill cut off are left out."""
    found = {}
    try:
        lines = manifest.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            row = Filtered.model_validate_json(line)
        except ValidationError:
            continue
        parts = Path(row.file).parts
        if len(parts) == 3 and parts[0] == KEPT and ".." not in parts:
            found[row.file] = row.image
    return found


def _put(file: Path, place: Path, pictures: Pictures) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    source = file.resolve()
    if pictures == "link":
        if place.is_symlink() and Path(os.readlink(place)) == source:
            return
    elif not place.is_symlink() and place.is_file() and filecmp.cmp(source, place, shallow=False):
        return
    if place.exists() and not place.is_symlink() and not filecmp.cmp(source, place, shallow=False):
        raise FilterError(f"{place} is another file: take it away, or name another folder")
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp")
    try:
        if pictures == "link":
            draft.symlink_to(source)
        else:
            shutil.copyfile(source, draft)
        os.replace(draft, place)
    finally:
        draft.unlink(missing_ok=True)


def _take_out(place: Path, file: Path) -> None:
    """A link, or a copy whose original is still there, that a former filter made."""
    if place.is_symlink() or (
        place.is_file() and file.is_file() and filecmp.cmp(file, place, shallow=False)
    ):
        place.unlink()
    if place.parent.is_dir() and not any(place.parent.iterdir()):
        place.parent.rmdir()


def _write_parquet(folder: Path, rows: Sequence[Filtered]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    from scenewright.evals.store.parquet_files import drafted

    own = {
        **{"rank": pa.int64(), "of": pa.int64(), "score": pa.float64()},
        **{"kept": pa.bool_(), "tied": pa.bool_()},
    }
    scores = ("s_att", "s_rel", "s_style", "combined")
    names = [name for name in Filtered.model_fields if name not in ("row", "also_in")]
    schema = pa.schema(
        [(name, own.get(name, pa.string())) for name in names]
        + [("also_in", pa.list_(pa.string()))]
        + [(name, pa.float64()) for name in scores]
        + [("invisible", pa.list_(pa.string())), ("wrong", pa.list_(pa.string()))]
    )
    table = pa.Table.from_pylist(
        [
            {name: getattr(row, name) for name in (*names, "also_in")}
            | {name: getattr(row.row, name) for name in (*scores, "invisible", "wrong")}
            for row in rows
        ],
        schema=schema,
    )
    with drafted(folder, Path(PARQUET).stem) as draft:
        parquet.write_table(table, draft)


def file_of(row: RealRow, scores: Path) -> Path:
    """Where the picture of a row lies: as it is named, or from the folder of the scores."""
    file = Path(row.image)
    if file.is_absolute() or file.exists():
        return file
    beside = scores.parent / file
    return beside if beside.exists() else file
