"""Data of the browser of items: rows of large tables by item, flags, counts and files.

Tables have rows in the order of finished work. Each is read once, a batch at a time, and split into
files of neighbouring items, so that only one such file of each table is in memory.

A page that is opened as a file may not fetch files, but it may add scripts: each piece of data is a
script that passes its JSON to the page. The index is loaded whole (some hundred bytes an item and
arm), the details of an item when it is opened.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from scenewright.core.facts import Fact, FactKind
from scenewright.core.scene import SceneGraph
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.score_matrix import FACETS, Column, ScoreMatrix, batches, in_order
from scenewright.evals.store.results import SCHEMAS, Results, Table
from scenewright.runs.report.graph import Mark, draw_graph
from scenewright.runs.report.words import scene_words, shorten

SIZE = 100
"""Fewest items of a bucket."""
_OPEN = 200
"""Most files open at once for a table."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gathered:
    """One item with all its rows."""

    number: int
    """Its place in the set."""
    item: Row
    """Its row of the table of items."""
    rows: Mapping[Table, list[Row]]
    """Its rows of the other tables, in their order."""


def gather(
    results: Results, ids: pa.Array, tables: Sequence[Table], folder: Path
) -> Iterator[Gathered]:
    """Yield every item in the order of the set, with its rows of ``tables``.

    ``ids`` are those of :func:`~scenewright.evals.reporting.score_matrix.item_ids`; ``folder`` is
    an empty one for temporary files. Rows of unknown items are skipped. Raises ``EvalError`` for a
    table that cannot be read or a full disk.
    """
    size = max(SIZE, -(-len(ids) // _OPEN))
    n_buckets = -(-len(ids) // size)
    kept: list[Table] = ["items", *tables]
    try:
        for table in kept:
            _part(results, table, ids, size, n_buckets, folder)
        for bucket in range(n_buckets):
            yield from _bucket(kept, ids, bucket, size, folder)
    except OSError as error:
        raise EvalError(
            f"{folder} cannot be written ({error.strerror or error}): the report needs about as "
            "much room as the tables for a while"
        ) from error


def _file(folder: Path, table: Table, bucket: int) -> Path:
    return folder / f"{table}-{bucket}.arrow"


def _part(
    results: Results, table: Table, ids: pa.Array, size: int, n_buckets: int, folder: Path
) -> None:
    """Write the rows of ``table`` into one file a bucket, the item's number as ``place``."""
    schema = SCHEMAS[table].append(pa.field("place", pa.int64()))
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in batches(results, table, SCHEMAS[table].names):
            place = np.asarray(
                pc.fill_null(pc.index_in(batch.column("item"), value_set=ids), -1), np.int64
            )
            order = np.argsort(place, kind="stable")
            order = order[place[order] >= 0]
            at = place[order] // size
            whole = batch.append_column("place", pa.array(place)).take(pa.array(order))
            for bucket in np.unique(at).tolist():
                if bucket not in writers:
                    file = _file(folder, table, bucket)
                    writers[bucket] = stack.enter_context(
                        pa.ipc.new_stream(file, schema, options=options)
                    )
                first, last = np.searchsorted(at, [bucket, bucket + 1])
                writers[bucket].write_batch(whole.slice(first, last - first).cast(schema))


def _bucket(
    tables: Sequence[Table], ids: pa.Array, bucket: int, size: int, folder: Path
) -> Iterator[Gathered]:
    found: dict[int, dict[Table, list[Row]]] = {
        number: {table: [] for table in tables}
        for number in range(bucket * size, min((bucket + 1) * size, len(ids)))
    }
    for table in tables:
        file = _file(folder, table, bucket)
        if not file.exists():
            continue
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                for row in batch.to_pylist():
                    found[row.pop("place")][table].append(row)
        file.unlink()
    for number in sorted(found):
        rows = found.pop(number)
        yield Gathered(number, rows.pop("items")[0], rows)


DISPUTED = 0.9
"""Disagreement in bits from which a verdict counts as disputed: the judges' mean probability then
lies between 0.32 and 0.68."""


class Flag(IntFlag):
    """One bit for each filter of the browser."""

    OBJECT = 1
    """An object is absent."""
    ATTRIBUTE = 2
    """An attribute is wrong."""
    RELATION = 4
    """A relation is wrong, though both its objects are there."""
    VOID = 8
    """A fact was not asked, because its object is absent."""
    UNSCORED = 16
    """A fact could not be judged."""
    DISPUTED = 32
    """The panel is undecided on a fact: its judges disagree, or each is unsure."""
    FAILED = 64
    """There is no picture, because drawing failed."""
    MISSING = 128
    """There is nothing: not drawn, or not judged by this panel."""
    HOLDS = 256
    """Every fact holds; a wish that no judge answered does not count."""
    BESIDE = 512
    """A number, an exclusion, a text or a wish does not hold."""


MEANINGS: Mapping[Flag, str] = {
    Flag.OBJECT: "an object is absent",
    Flag.ATTRIBUTE: "an attribute is wrong",
    Flag.RELATION: "a relation is wrong",
    Flag.VOID: "a fact was not asked (its object is absent)",
    Flag.UNSCORED: "a fact could not be judged",
    Flag.DISPUTED: "the panel is undecided (high disagreement)",
    Flag.FAILED: "drawing failed",
    Flag.MISSING: "not drawn or not judged",
    Flag.HOLDS: "every fact holds",
    Flag.BESIDE: "a number, text or wish does not hold",
}
_OF_KIND = {
    "object": Flag.OBJECT,
    "attribute": Flag.ATTRIBUTE,
    "relation": Flag.RELATION,
    **dict.fromkeys(("count", "text", "wish"), Flag.BESIDE),
}


def flags_of(verdicts: Iterable[Mapping[str, Any]], failed: bool) -> Flag:
    """Return the flags of a picture from the rows of its verdicts by one panel."""
    if failed:
        return Flag.FAILED
    found, states = Flag(0), []
    for row in verdicts:
        state = row["state"]
        if state == "unscored" and row["kind"] == "wish":
            continue
        states.append(state)
        if state == "no":
            found |= _OF_KIND.get(row["kind"], Flag(0))
        elif state == "void":
            found |= Flag.VOID
        elif state == "unscored":
            found |= Flag.UNSCORED
        if (row["disagreement"] or 0.0) >= DISPUTED:
            found |= Flag.DISPUTED
    if not states:
        return Flag.MISSING
    return found | Flag.HOLDS if all(state == "yes" for state in states) else found


def label_of(fact: Fact | None, row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return a label for a fact that does not hold, the same over all items.

    For example ``object: dog``, ``relation: left of`` or ``attribute: red``; the statement where
    more is not known. ``names`` are the objects' names by id.
    """
    kind = str(row["kind"] or "fact")
    if fact is None:
        return f"{kind}: {row['statement'] or row['fact']}"
    if kind == "object":
        return f"object: {names.get(fact.subject, fact.statement)}"
    if kind == "attribute":
        return f"attribute: {fact.value or fact.statement}"
    if kind == "relation":
        return f"relation: {fact.predicate or fact.statement}"
    return f"{kind}: {fact.statement}"


PAPER_TOKENS_IN = 940
"""Input tokens an image, Scene-Bench, appendix D.4: 4.7 million over 5,000."""
PAPER_TOKENS_OUT = 780
"""Output tokens an image: 3.9 million over 5,000."""
PAPER_USD = 0.0003
"""USD an image: about 1.5 over 5,000, Gemini 1.5 Flash, March 2025."""


@dataclass(slots=True)
class Judging:
    """Answers and costs of one judge of a panel."""

    answers: int = 0
    yes: int = 0
    no: int = 0
    unscored: int = 0
    against: int = 0
    """Usable answers that the panel's verdict contradicts."""
    decided: int = 0
    """Usable answers to facts that the panel decided."""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why answers are unscored."""


@dataclass(slots=True)
class Drawing:
    """Costs of the pictures of one arm."""

    pictures: int = 0
    """Items with a picture."""
    drawn: int = 0
    """Pictures drawn in all, references and rounds included."""
    counted: int = 0
    """Kept pictures of which it is known how much of their prompt was read."""
    cut: int = 0
    """Kept pictures whose prompt was not read to its end."""
    tokens_dropped: int = 0
    """Tokens that were not read."""
    facts_dropped: int = 0
    """Facts whose words these were."""
    seconds: float = 0.0
    work: float | None = 0.0
    """Full-picture steps of the denoiser; None if they are not known of all pictures."""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0


@dataclass(slots=True)
class Tally:
    """Counts over all items of an evaluation."""

    facts: dict[tuple[str, str, str], Counter[str]] = field(default_factory=dict)
    """(arm, panel, kind of fact) → state → verdicts, of the pictures that are kept."""
    judges: dict[tuple[str, str], Judging] = field(default_factory=dict)
    """(panel, judge) → what it said."""
    judged: Counter[str] = field(default_factory=Counter)
    """Panel → pictures that it looked at."""
    drawings: dict[str, Drawing] = field(default_factory=dict)
    """Arm → what its pictures took."""
    reasons: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(arm, panel, reason) → facts that could not be judged."""
    unfinished: Counter[str] = field(default_factory=Counter)
    """Arm → items for which there is neither a picture nor a failure."""

    def draw(self, arm: str, rounds: Iterable[Row]) -> None:
        """Count one item of an arm by its rows of the table of rounds."""
        rows = list(rounds)
        if not rows:
            self.unfinished[arm] += 1
            return
        found = self.drawings.setdefault(arm, Drawing())
        found.pictures += any(row["kept"] for row in rows)
        for row in rows:
            if row["kept"] and row["tokens_dropped"] is not None:
                found.counted += 1
                found.cut += row["tokens_dropped"] > 0
                found.tokens_dropped += row["tokens_dropped"]
                found.facts_dropped += row["facts_dropped"] or 0
            found.drawn += row["images_drawn"] or 0
            found.seconds += row["seconds"] or 0.0
            work = row["work"]
            found.work = None if work is None or found.work is None else found.work + work
            found.tokens_in += row["tokens_in"] or 0
            found.tokens_out += row["tokens_out"] or 0
            found.usd += row["usd"] or 0.0

    def decide(self, arm: str, panel: str, verdicts: Iterable[Row]) -> dict[str, str]:
        """Count the verdicts of one kept picture, and return the state of each fact."""
        states = {}
        for row in verdicts:
            states[row["fact"]] = row["state"]
            key = (arm, panel, row["kind"] or "fact")
            self.facts.setdefault(key, Counter())[row["state"]] += 1
            if row["state"] == "unscored":
                self.reasons[arm, panel, row["reason"] or "no reason"] += 1
        return states

    def answer(self, panel: str, answers: Iterable[Row], verdicts: Iterable[Row]) -> None:
        """Count all answers of a panel about one item of an arm, of every round."""
        states = {(row["round"], row["fact"]): row["state"] for row in verdicts}
        looked = set()
        for row in answers:
            looked.add(row["round"])
            found = self.judges.setdefault((panel, row["judge"]), Judging())
            found.answers += 1
            found.tokens_in += row["tokens_in"] or 0
            found.tokens_out += row["tokens_out"] or 0
            found.usd += row["usd"] or 0.0
            found.seconds += row["seconds"] or 0.0
            state = row["state"]
            if state == "unscored":
                found.unscored += 1
                found.reasons[row["reason"] or "no reason"] += 1
                continue
            found.yes += state == "yes"
            found.no += state == "no"
            verdict = states.get((row["round"], row["fact"]))
            if verdict in ("yes", "no") and state in ("yes", "no"):
                found.decided += 1
                found.against += verdict != state
        self.judged[panel] += len(looked)


MOST_DRAWN = 24
"""Objects up to which a scene is drawn as a graph; a larger one is told in words."""
TITLE = 220
"""Characters of an item's words in the index."""
_FACTS = TypeAdapter(list[Fact])


@dataclass(slots=True)
class Labels:
    """Labels of failing facts, numbered in order of appearance."""

    numbers: dict[str, int] = field(default_factory=dict)
    """Label → its number."""
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(arm, panel, label) → verdicts."""

    def number(self, label: str) -> int:
        """Return the number of ``label``."""
        return self.numbers.setdefault(label, len(self.numbers))


@dataclass(frozen=True, slots=True)
class Maker:
    """Maker of the entries of one evaluation."""

    arms: Sequence[str]
    panels: Sequence[str]
    thumb: Callable[[str], str]
    """Thumbnail of a picture by its content hash."""
    photo: Callable[[str], str]
    """Thumbnail of an original by its file."""
    tally: Tally
    labels: Labels

    def make(self, found: Gathered) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (entry of the index, details) of an item as plain JSON."""
        item = found.item
        scene = _scene(item["scene"])
        facts = _facts(item["facts"], found.rows["verdicts"])
        known = {fact.id: fact for fact in facts}
        names = {each.id: each.name for each in scene.objects} if scene else {}
        order = {fact.id: at for at, fact in enumerate(facts)}
        drawn = _by(found.rows["rounds"], "arm")
        verdicts = _by(found.rows["verdicts"], "arm")
        answers = _by(found.rows["answers"], "arm")
        flags, failing, thumbs, arms = [], [], [], []
        for arm in self.arms:
            rounds = sorted(drawn.get(arm, []), key=lambda row: row["round"] or 0)
            if rounds or not item.get("reading"):
                self.tally.draw(arm, rounds)
            kept = next((row for row in rounds if row["kept"]), None)
            number = _judged_round(rounds, kept)
            failed = kept is None and any(row["state"] == "failed" for row in rounds)
            of_panels, bits, wrong = [], [], []
            for panel in self.panels:
                all_rows = [row for row in verdicts.get(arm, []) if row["panel"] == panel]
                rows = [row for row in all_rows if number is None or row["round"] == number]
                said = [row for row in answers.get(arm, []) if row["panel"] == panel]
                self.tally.answer(panel, said, all_rows)
                self.tally.decide(arm, panel, rows)
                bits.append(int(flags_of(rows, failed)))
                lacking = [label_of(known.get(r["fact"]), r, names) for r in rows
                           if r["state"] == "no"]  # fmt: skip
                self.labels.counts.update((arm, panel, label) for label in set(lacking))
                wrong.append(sorted({self.labels.number(label) for label in lacking}))
                said = [row for row in said if number is None or row["round"] == number]
                of_panels.append(_judged(rows, said, order))
            flags.append(bits)
            failing.append(wrong)
            shots = [_shot(row, self.thumb) for row in rounds]
            thumbs.append(next((s["thumb"] for s in shots if s["kept"]), ""))
            arms.append({"failed": failed, "rounds": shots, "panels": of_panels})
        words = scene_words(scene, TITLE) if scene else ""
        title = item["prompt"] or words
        photo = self.photo(item["original"] or "")
        entry = {
            "id": item["item"],
            "title": shorten(words or title, TITLE),
            "text": shorten(item["prompt"], TITLE) if words and not _same(title, words) else "",
            "flags": flags,
            "wrong": failing,
            "thumbs": thumbs,
            "photo": photo,
        }
        details = {
            "id": item["item"],
            "prompt": item["prompt"] or "",
            "words": scene_words(scene, 4000) if scene else "",
            "objects": item["objects"],
            "relations": item["relations"],
            "photo": photo,
            "graph": _graph(scene, facts),
            "facts": [[fact.id, fact.kind, fact.statement, fact.question] for fact in facts],
            "arms": arms,
        }
        return entry, details


def _same(a: str, b: str) -> bool:
    """Return whether two texts have the same words."""
    return re.findall(r"\w+", a.lower()) == re.findall(r"\w+", b.lower())


def _judged_round(rounds: Sequence[Row], kept: Row | None) -> int | None:
    """Return the round of the kept picture.

    That is the first one if the loop drew the same picture twice.
    """
    if kept is None:
        return None
    same = [row["round"] or 0 for row in rounds if row["image"] == kept["image"]]
    return min(same)


def _by(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _scene(text: str | None) -> SceneGraph | None:
    try:
        return SceneGraph.model_validate_json(text) if text else None
    except ValidationError:
        return None


def _facts(text: str | None, verdicts: Sequence[Row]) -> list[Fact]:
    """Return the facts of the item; those known only from verdicts come last."""
    try:
        found = _FACTS.validate_python(json.loads(text)) if text else []
    except ValueError:
        found = []
    known = {fact.id for fact in found}
    for row in verdicts:
        if row["fact"] in known or row["kind"] not in get_args(FactKind):
            continue
        known.add(row["fact"])
        found.append(
            Fact(
                id=row["fact"],
                kind=row["kind"],
                subject="",
                statement=row["statement"] or row["fact"],
                question=row["question"] or "",
            )
        )
    return found


def _graph(scene: SceneGraph | None, facts: Sequence[Fact]) -> str:
    if scene is None or not scene.objects or len(scene.objects) > MOST_DRAWN:
        return ""
    marks = {fact.id: Mark("pending", fact.statement, fact=fact.id) for fact in facts}
    return draw_graph(scene, tuple(facts), marks, "Scene graph")


def _shot(row: Row, thumb: Callable[[str], str]) -> dict[str, Any]:
    return {
        "round": row["round"],
        "kept": bool(row["kept"]),
        "state": row["state"] or "",
        "reason": row["reason"] or "",
        "image": row["image"] or "",
        "thumb": thumb(row["image"] or ""),
        "prompt": row["prompt"] or "",
        "dropped": [row["tokens_dropped"] or 0, row["facts_dropped"] or 0],
        "strategy": row["strategy"] or "",
        "seconds": _short(row["seconds"]),
        "usd": _short(row["usd"], 6),
    }


def _judged(verdicts: Sequence[Row], answers: Sequence[Row], order: Mapping[str, int]) -> Any:
    """Return the verdicts and answers of a panel by number of the fact.

    Verdicts are ``[state, probability, disagreement, reason]``, answers ``[judge, state, choice,
    probability, method, rationale or reason]``.
    """
    return {
        "verdicts": {
            order[row["fact"]]: [
                row["state"], _short(row["probability"]), _short(row["disagreement"]),
                row["reason"] or "",
            ]
            for row in verdicts
            if row["fact"] in order
        },
        "answers": _listed(answers, order),
    }  # fmt: skip


def _listed(answers: Sequence[Row], order: Mapping[str, int]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row in sorted(answers, key=lambda each: each["judge"] or ""):
        if row["fact"] in order:
            found.setdefault(order[row["fact"]], []).append(
                [row["judge"], row["state"], row["choice"] or "", _short(row["probability"]),
                 row["method"] or "", row["reason"] or row["rationale"] or ""]
            )  # fmt: skip
    return found


def _short(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


INDEX = 1000
"""Items of one file of the index."""
CHUNK = 20
"""Items of one file of details."""
CALL = "sceneReport"
"""The function that takes the pieces."""


class Writer:
    """Writer of entries and details into ``folder``; holds one file's content of each."""

    def __init__(self, folder: Path, score_matrix: ScoreMatrix) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._board = score_matrix
        self._columns = score_matrix.columns()
        self._classes = {facet: in_order(facet, score_matrix.facets[facet]) for facet in FACETS}
        self._index: list[Any] = []
        self._chunk: list[Any] = []
        self._written = [0, 0]

    def add(self, number: int, entry: dict[str, Any], details: dict[str, Any]) -> None:
        """Add the next item; ``number`` is its place in the set."""
        score_matrix = self._board
        scores = [
            [_number(value) for value in score_matrix.values[column][number]]
            for column in self._columns
        ]
        classes = []
        for facet in FACETS:
            name = score_matrix.facets[facet][number]
            classes.append(self._classes[facet].index(name) if name else -1)
        self._index.append(
            [
                entry["id"], entry["title"], entry["text"], classes, scores, entry["flags"],
                entry["wrong"], entry["thumbs"], entry["photo"],
            ]
        )  # fmt: skip
        self._chunk.append(details)
        if len(self._index) == INDEX:
            self._flush_index()
        if len(self._chunk) == CHUNK:
            self._flush_chunk()

    def finish(
        self,
        panels: Sequence[str],
        labels: Labels,
        images: str,
        better: dict[Column, bool],
        meanings: dict[int, str],
    ) -> None:
        """Write the rest, and the file of metadata."""
        if self._index:
            self._flush_index()
        if self._chunk:
            self._flush_chunk()
        totals: dict[str, int] = {}
        for (_, _, label), n in labels.counts.items():
            totals[label] = totals.get(label, 0) + n
        meta = {
            "items": len(self._board.items),
            "indexes": self._written[0],
            "chunk": CHUNK,
            "images": images,
            "arms": [arm.name for arm in self._board.arms],
            "panels": list(panels),
            "columns": [
                {"metric": c.metric, "panel": c.panel, "up": better[c]} for c in self._columns
            ],
            "facets": {facet: self._classes[facet] for facet in FACETS},
            "labels": [[label, totals.get(label, 0)] for label in labels.numbers],
            "flags": meanings,
        }
        self._write("meta", 0, meta)

    def _flush_index(self) -> None:
        self._write("index", self._written[0], self._index)
        self._written[0] += 1
        self._index = []

    def _flush_chunk(self) -> None:
        self._write("chunk", self._written[1], self._chunk)
        self._written[1] += 1
        self._chunk = []

    def _write(self, kind: str, number: int, data: Any) -> None:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        # A lone surrogate, which JSON of elsewhere may hold, has no place in UTF-8.
        body = f'{CALL}("{kind}",{number},{text});\n'.encode("utf-8", "replace")
        (self.folder / f"{kind}-{number}.js").write_bytes(body)


def _number(value: float) -> float | None:
    return None if value != value else round(float(value), 4)
