"""Decide which scored pictures are kept and why, and write them (REAL, Section 4.4).

No file of the user is deleted. The folder of a result::

    filter.json        what was asked, and the classes in numbers
    manifest.jsonl     one line a picture (manifest.parquet where that is asked for)
    kept/CLASS/…       links to the kept pictures, or copies of them
    index.html         kept and dropped side by side, with the reasons
    thumbs/            their small copies

Written again it holds what the last filter kept; from ``kept`` only links and copies that a filter
made are removed.
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
from typing import Any, Literal, Self

from jinja2 import PackageLoader
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.flushing import write_text
from scenewright.core.images import ImageError
from scenewright.core.validation import FrozenModel
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.pages import POLICY, Thumbs, asset, environment
from scenewright.evals.reporting.words import whole
from scenewright.evals.statistics.answers import PlainAnswer, selection_answer
from scenewright.evals.store.files import write_table
from scenewright.evals.studies.real.ranking import Ranked, by_rank, tied_at
from scenewright.evals.studies.real.real_scorer import RealRow, latest
from scenewright.runs.folder import write_json

By = Literal["combined", "s_att", "s_rel", "s_style"]
BY: dict[By, str] = {
    "combined": "combined score",
    "s_att": "S_att",
    "s_rel": "S_rel",
    "s_style": "style score",
}
"""The scores in words."""
Why = Literal["kept", "rank", "least", "unscored", "duplicate", "unreadable", "changed"]
WHY: dict[Why, str] = {
    "kept": "kept",
    "rank": "beyond the best",
    "least": "below the least score",
    "unscored": "unscored",
    "duplicate": "equal to another",
    "unreadable": "unreadable",
    "changed": "changed since they were scored",
}
"""What became of a picture, in words."""


class FilterError(EvalError):
    """Scores that cannot be filtered, or a folder that cannot take the result; says what to do."""


class FilterPlan(BaseModel):
    """What is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    by: By = "combined"
    """The score that ranks."""
    top: int | None = Field(default=None, ge=1)
    """At most so many of each class; none: all that score enough."""
    least: float | None = Field(default=None, ge=0.0, le=1.0)
    """Least score."""
    per: Literal["class", "all"] = "class"
    """Ranked within each class, or all pictures at once."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.top is None and self.least is None:
            raise ValueError("nothing would be dropped: give how many are kept, or a least score")
        return self


class Filtered(FrozenModel):
    """What became of one picture: a line of the manifest."""

    image: str
    """The picture's file, as the scores name it."""
    label: str
    """Its class."""
    kept: bool
    """Whether it is kept."""
    why: Why
    """The reason."""
    told: str = ""
    """The reason in a sentence; empty if it is kept."""
    rank: int | None = None
    """Its place, 1 the best, among the scored pictures; duplicates have none."""
    of: int | None = None
    """How many places there are."""
    score: float | None = None
    """The score that ranks."""
    tied: bool = False
    """Whether the cut falls among pictures of its score: its content hash, not the score, decided
    whether it is kept."""
    digest: str = ""
    """Content hash; empty if it could not be read."""
    same_as: str = ""
    """The picture with the same pixels that is ranked for it."""
    also_in: tuple[str, ...] = ()
    """Other classes that have the same pixels."""
    file: str = ""
    """Where the kept picture lies, relative to the folder of the result."""
    row: RealRow
    """The scores, with what was not visible and what did not match."""


class Tally(FrozenModel):
    """One class in numbers."""

    label: str
    """The class."""
    pictures: int
    """Pictures with this class."""
    counts: dict[Why, int]
    """What became of them."""
    lowest_kept: float | None
    """Lowest score that is kept."""
    mean_kept: float | None
    """Mean score of the kept ones."""
    mean_ranked: float | None
    """Mean score of all that were ranked."""
    tied_at_the_cut: int = 0
    """Pictures, kept or not, that share the score at the cut."""


def classes_in_numbers(filtered: Sequence[Filtered]) -> dict[str, Any]:
    """Return class → its numbers, as they are written and shown as JSON."""
    return {one.label: one.model_dump(exclude={"label"}) for one in tallies(filtered)}


def filter_rows(
    rows: Sequence[RealRow], plan: FilterPlan, contents: Mapping[str, str | ImageError]
) -> list[Filtered]:
    """Decide about each picture; sorted by class, those with a rank first.

    ``contents``: image → content hash, or why it cannot be read. Of rows of the same picture and
    class the last counts. A picture without the score that ranks is unscored: it has no rank, and
    is not 0. Of equal pictures of a class one is ranked, the best by score. A picture whose pixels
    are not those that were scored is dropped. Raises ``FilterError`` for no rows, and for a class
    whose rows were scored in different ways.
    """
    given = list(latest(rows).values())
    if not given:
        raise FilterError(
            "the file has no scores: score pictures with `scenewright real-bench score`"
        )
    _check_plans(given, plan)
    out: dict[int, Filtered] = {}
    usable: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(given):
        found = contents[row.image]
        score = getattr(row, plan.by)
        if isinstance(found, ImageError):
            out[at] = _dropped(row, "unreadable", str(found), score)
        elif row.digest and row.digest != found:
            told = "its pixels are not those that were scored: score it again"
            out[at] = _dropped(row, "changed", told, score, found)
        elif score is None:
            out[at] = _dropped(row, "unscored", _unscored(row, plan.by), None, found)
        else:
            usable.setdefault((row.label, found), []).append(at)
    classes: dict[str, set[str]] = {}
    for label, digest in usable:
        classes.setdefault(digest, set()).add(label)
    ranked: list[Ranked] = []
    for (label, digest), places in usable.items():
        # Of equal scores that with the first name: the pixels cannot tell them apart.
        first, *others = sorted(places, key=lambda at: (-_score(given[at], plan), given[at].image))
        group = label if plan.per == "class" else ""
        ranked.append(Ranked(str(first), group, _score(given[first], plan), digest + label))
        for at in others:
            told = f"the same pixels as {given[first].image}, which is ranked"
            out[at] = _dropped(given[at], "duplicate", told, _score(given[at], plan), digest)
            out[at] = out[at].model_copy(update={"same_as": given[first].image})
    for inside in by_rank(ranked).values():
        scores = [_score(given[int(one.image)], plan) for one in inside]
        # Below the least score nothing is kept: there the score itself is the cut.
        tied = tied_at(scores, plan.top or 0)
        if plan.least is not None and len(tied) and scores[tied[0]] < plan.least:
            tied = range(0)
        for rank, one in enumerate(inside, start=1):
            at, n = int(one.image), len(inside)
            row = given[at]
            why, told = _placed(plan, rank, n, _score(row, plan))
            if rank - 1 in tied and why == "rank":
                told += f"; {len(tied)} share the score at the cut, of which a hash chose"
            digest = str(contents[row.image])
            out[at] = Filtered(
                image=row.image, label=row.label, kept=why == "kept", why=why, told=told,
                tied=rank - 1 in tied,
                rank=rank, of=n, score=one.score, digest=digest,
                also_in=tuple(sorted(classes[digest] - {row.label})), row=row,
            )  # fmt: skip
    return sorted(out.values(), key=_order)


def answer_of(filtered: Sequence[Filtered], plan: FilterPlan) -> PlainAnswer:
    """Return the sentence that leads the page: how many are kept, and how good they are."""
    scores = [(one.score, one.kept) for one in filtered if one.rank is not None]
    ranked = [score for score, _ in scores if score is not None]
    return selection_answer(
        {words: sum(one.why == why for one in filtered) for why, words in WHY.items()},
        BY[plan.by],
        kept=_mean([score for score, kept in scores if kept and score is not None]),
        ranked=_mean(ranked),
    )


def tallies(filtered: Sequence[Filtered]) -> list[Tally]:
    """Return the classes in numbers, by name."""
    found = []
    for label in sorted({one.label for one in filtered}):
        inside = [one for one in filtered if one.label == label]
        kept = [one.score for one in inside if one.kept and one.score is not None]
        scored = [one.score for one in inside if one.rank is not None and one.score is not None]
        found.append(
            Tally(
                label=label,
                pictures=len(inside),
                counts=Counter(one.why for one in inside),
                lowest_kept=min(kept, default=None),
                mean_kept=_mean(kept),
                mean_ranked=_mean(scored),
                tied_at_the_cut=sum(one.tied for one in inside),
            )
        )
    return found


def _check_plans(rows: Sequence[RealRow], plan: FilterPlan) -> None:
    if plan.by == "s_style":
        return
    ways: dict[str, set[str]] = {}
    for row in rows:
        if getattr(row, plan.by) is not None:
            ways.setdefault(row.label, set()).add(row.plan)
    mixed = sorted(label for label, plans in ways.items() if len(plans) > 1)
    if mixed:
        raise FilterError(
            f"the pictures of {', '.join(mixed[:5])} were scored in different ways (other schema, "
            "wording or judges), which cannot be ranked together: score them all again"
        )


def _placed(plan: FilterPlan, rank: int, n: int, score: float) -> tuple[Why, str]:
    if plan.top is not None and rank > plan.top:
        return "rank", f"rank {rank} of {n}: the best {plan.top} are kept"
    if plan.least is not None and score < plan.least:
        return "least", f"{plan.by} is {score:.3f}, the least is {plan.least:g}"
    return "kept", ""


def _unscored(row: RealRow, by: By) -> str:
    if row.reason:
        return row.reason
    if by in ("combined", "s_style") and row.s_style is None:
        return "it has no score of style: name a scorer with --style"
    if by == "combined" and row.base is not None:
        return "it has no combined score"
    return f"it has no {'s_att or s_rel' if by == 'combined' else by}"


def _dropped(row: RealRow, why: Why, told: str, score: float | None, digest: str = "") -> Filtered:
    return Filtered(
        image=row.image, label=row.label, kept=False, why=why, told=told, score=score,
        digest=digest, row=row,
    )  # fmt: skip


def _score(row: RealRow, plan: FilterPlan) -> float:
    return float(getattr(row, plan.by))


def _order(one: Filtered) -> tuple[str, bool, int, int, str]:
    return one.label, one.rank is None, one.rank or 0, list(WHY).index(one.why), one.image


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


PAGE, THUMBS = "index.html", "thumbs"
MOST = 24
"""Pictures of a class that are shown on each side."""


def write_page(
    rows: Sequence[Filtered],
    files: Mapping[str, Path],
    folder: Path,
    plan: FilterPlan,
    source: str = "",
) -> Path:
    """Write ``index.html`` and the thumbnails.

    ``rows`` are in the order of the manifest; :data:`MOST` pictures a class are shown on each side.
    Raises ``OSError``.
    """
    thumbs = Thumbs(folder / THUMBS, folder)
    try:
        classes = []
        for tally in tallies(rows):
            inside = [row for row in rows if row.label == tally.label]
            sides = {"kept": _some(inside, True, MOST), "dropped": _some(inside, False, MOST)}
            shown = {
                side: [{"one": row, "thumb": thumbs.of_file(str(files[row.image]))} for row in some]
                for side, some in sides.items()
            }
            classes.append({"tally": tally, **shown})
        thumbs.wait()
    finally:
        thumbs.close()
    there = {file.stem for file in (folder / THUMBS).glob("*.webp")}
    pages = environment(
        PackageLoader("scenewright.evals.studies.real", "assets"),
        whole=whole,
        score=lambda value: "–" if value is None else f"{value:.3f}",
        name=lambda path: Path(path).name,
    )
    text = pages.get_template("filter.html.j2").render(
        classes=classes, plan=plan, source=source, why=WHY, policy=POLICY,
        answer=answer_of(rows, plan),
        style=Markup(asset("style.css")),
        folder=THUMBS, there=there, counts={w: sum(r.why == w for r in rows) for w in WHY},
        pictures=len(rows),
    )  # fmt: skip
    write_text(folder / PAGE, text)
    return folder / PAGE


def _some(rows: Sequence[Filtered], kept: bool, most: int) -> list[Filtered]:
    """Return at most ``most`` rows; each reason keeps its first ones in turn."""
    inside = [row for row in rows if row.kept == kept]
    turns: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    for at, row in enumerate(inside):
        places.append((turns.get(row.why, 0), at))
        turns[row.why] = turns.get(row.why, 0) + 1
    return [inside[at] for at in sorted(at for _, at in sorted(places)[:most])]


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
        "answer": answer_of(rows, plan).model_dump(),
        "counts": dict(Counter(row.why for row in rows)),
        "classes": classes_in_numbers(rows),
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
    """Return the places of pictures of a former result; lines cut off by a kill are left out."""
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
    """Remove a link, or a copy whose original is still there, that a former filter made."""
    if place.is_symlink() or (
        place.is_file() and file.is_file() and filecmp.cmp(file, place, shallow=False)
    ):
        place.unlink()
    if place.parent.is_dir() and not any(place.parent.iterdir()):
        place.parent.rmdir()


def _write_parquet(folder: Path, rows: Sequence[Filtered]) -> None:
    kinds = {"rank": int, "of": int, "score": float, "kept": bool, "tied": bool}
    own = [name for name in Filtered.model_fields if name not in ("row", "also_in")]
    scores = ("s_att", "s_rel", "s_style", "combined", "invisible", "wrong")
    columns: dict[str, type] = {name: kinds.get(name, str) for name in own} | {"also_in": list}
    columns |= dict.fromkeys(scores[:4], float) | dict.fromkeys(scores[4:], list)
    content = [
        {name: getattr(row, name) for name in (*own, "also_in")}
        | {name: getattr(row.row, name) for name in scores}
        for row in rows
    ]
    write_table(folder, Path(PARQUET).stem, content, columns)


def file_of(row: RealRow, scores: Path) -> Path:
    """Return the file of a row's picture: as it is named, or from the folder of the scores."""
    file = Path(row.image)
    if file.is_absolute() or file.exists():
        return file
    beside = scores.parent / file
    return beside if beside.exists() else file
