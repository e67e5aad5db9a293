"""Makers of studies: they draw items or objects, copy pictures, and write the tasks.

Generators write prompts and model names into files (text chunks of PNG, EXIF), and a browser shows
them when the picture is saved. Raters get pixels only.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image
from pydantic import ValidationError

from scenewright.core.facts import Fact
from scenewright.core.images import ImageError, load_image, nothing_drawn, png_bytes
from scenewright.core.ports.vision import Box, Detection
from scenewright.core.sentences import scene_sentences, worded_facts
from scenewright.core.validation import first_problem
from scenewright.evals.human_ratings.sources import Entry, Pictured, Source, match_arms
from scenewright.evals.human_ratings.study import (
    IMAGES,
    STUDY,
    Candidate,
    Kind,
    RatingError,
    RatingStudy,
    Rule,
    Task,
    Thing,
    Tick,
    put_file,
    sheet,
)
from scenewright.evals.human_ratings.view import ANCHORS
from scenewright.runs.report.pictures import fit
from scenewright.tools.vision.detection.boxes import clipped
from scenewright.tools.vision.realism.object_views import object_crop
from scenewright.tools.vision.realism.pictures import LEAST_SCORE, LEAST_SHARE, scored_objects


class Pictures:
    """Writer of pictures into a study's folder."""

    def __init__(self, folder: Path, side: int | None = None) -> None:
        """Make the folder; ``side`` is the longest side in pixels to scale to; None: unchanged.

        Raises ``RatingError`` if the folder cannot be made.
        """
        self._folder = folder / IMAGES
        self._side = side
        self._known: dict[Path, str] = {}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RatingError(
                f"{self._folder} cannot be made: {error.strerror or error}"
            ) from error

    def put(self, file: Path) -> str:
        """Copy the picture of ``file`` into the folder and return its content hash.

        Raises ``ImageError`` for a file that is not a valid picture, ``RatingError`` if it cannot
        be written, and ``_Unfit`` for a picture on which nothing is drawn.
        """
        if file not in self._known:
            # Drawn anew: what a generator wrote into the file beside the pixels stays behind.
            image = load_image(file)
            if nothing_drawn(image):
                raise _Unfit("nothing is drawn on a picture of it")
            if self._side is not None and max(image.size) != self._side:
                image = fit(image, self._side)
            self._known[file] = self.put_image(image)
        return self._known[file]

    def put_image(self, image: Image.Image) -> str:
        """Write ``image`` into the folder without metadata and return its content hash.

        Raises ``RatingError`` if it cannot be written.
        """
        data = png_bytes(image)
        name = hashlib.sha256(data).hexdigest()
        place = self._folder / f"{name}.png"
        if not place.exists():
            put_file(place, data)
        return name


MOST_ARMS = 8
"""Candidates that a page can show and a row of keys can choose."""


@dataclass(frozen=True, slots=True)
class RatingStudySpec:
    """Options of a study."""

    kind: Kind
    arms: tuple[str, ...] = ()
    """Which arms; empty: all."""
    n: int | None = None
    """Tasks, or objects; none: as many as there are."""
    seed: int = 0
    """Seed of the draw and of all orders."""
    repeats: float = 0.0
    """Share of the tasks shown twice."""
    question: str = ""
    """Question to raters; empty: that of the kind."""
    name: str = ""
    """Title that raters see; it must not reveal the arms. Empty: one that says what is rated."""
    scale: tuple[str, str] = ("not at all", "completely")
    """Meanings of 1 and 5."""
    side: int | None = None
    """Pixels of the longest side that all pictures are scaled to; boxes and crops with them."""
    whole_share: float = 0.0
    """Share of the pictures of objects that are also rated as a whole."""
    least_share: float = LEAST_SHARE
    """Least share of the picture that an object covers."""
    least_score: float = LEAST_SCORE
    """Least confidence of its detection."""
    rule: Rule = field(default_factory=Rule)
    """How many raters an object gets."""


def make_study(
    source: Source, wish: RatingStudySpec, folder: Path, tick: Tick | None = None
) -> RatingStudy:
    """Make a study in ``folder`` and return it.

    Items or objects come in an order drawn with the seed. Items that lack an arm's picture, a fact
    or a readable file are left out and counted, and so are choices between identical pictures.
    Pictures that are rated one by one come with all arms of an item, so that arms are compared on
    the same items. Objects are filtered as in the paper
    (:func:`~scenewright.tools.vision.realism.pictures.scored_objects`). Raises ``RatingError`` for
    options that cannot be met and a folder that holds a study.
    """
    objects = wish.kind == "objects"
    arms = match_arms(wish.arms, source.arms) if wish.arms else source.arms
    _check(wish, arms, folder)
    left_out = Counter(source.left_out)
    found: list[Entry | _Drawn] = list(source.entries)
    if objects:
        found = [drawn for picture in source.objects for drawn in _fit(picture, wish, left_out)]
    random.Random(f"{'objects' if objects else 'items'} {wish.seed}").shuffle(found)
    each = len(arms) if wish.kind in ("facts", "score") else 1
    most = len(found) * each if wish.n is None else wish.n
    pictures = Pictures(folder, wish.side)
    tasks: list[Task] = []
    # An object that cannot be shown has no other in its place.
    for one in found[:most] if objects else found:
        if len(tasks) >= most:
            break
        number = len(tasks) + 1
        try:
            if isinstance(one, Entry):
                tasks.extend(_tasks(one, wish.kind, arms, pictures, number))
            else:
                tasks.append(_object_task(one, pictures, f"t{number}", wish.side))
        except ImageError:
            picture = "the picture" if objects else "a picture of it"
            left_out[f"{picture} cannot be read"] += 1
        except ValidationError as error:
            where = one.item if isinstance(one, Entry) else one.picture.file
            raise RatingError(f"{where}: {first_problem(error)}") from error
        except _Unfit as unfit:
            left_out[str(unfit)] += 1
        if tick is not None:
            tick(min(len(tasks), most), most)
    tasks = tasks[:most]
    if not tasks:
        why = "; ".join(f"{n} × {reason}" for reason, n in left_out.items())
        raise RatingError(
            f"{source.about}: no {'object' if objects else 'item'} can be rated"
            f"{f' ({why})' if why else ''}: "
            + (
                "lower --least-share or --least-score, or name another detector"
                if objects
                else "name other arms (--arms) or another kind of task (--kind)"
            )
        )
    try:
        study = RatingStudy(
            name=wish.name or f"Rating {'objects' if objects else 'pictures'}",
            kind=wish.kind,
            arms=arms,
            question=wish.question,
            scale=(ANCHORS[0], ANCHORS[-1]) if objects else wish.scale,
            seed=wish.seed,
            repeats=wish.repeats,
            rule=wish.rule,
            source=source.about,
            left_out=dict(left_out),
            tasks=(*tasks, *(_wholes(tasks, wish) if objects else ())),
        )
    except ValidationError as error:
        raise RatingError(first_problem(error)) from error
    put_file(folder / STUDY, study.model_dump_json(indent=1) + "\n")
    return study


class _Unfit(Exception):
    """Reason why an item cannot be rated."""


def _check(wish: RatingStudySpec, arms: Sequence[str], folder: Path) -> None:
    if (folder / STUDY).exists():
        raise RatingError(
            f"{folder} holds a study already, and ratings may belong to it: name another --out"
        )
    if wish.n is not None and wish.n < 1:
        what = "objects" if wish.kind == "objects" else "tasks"
        raise RatingError(f"{wish.n} {what} cannot be rated: ask for one or more")
    if wish.side is not None and not 16 <= wish.side <= 4096:
        raise RatingError(f"a side of {wish.side} pixels: give one from 16 to 4096")
    if wish.kind == "choice" and not 2 <= len(arms) <= MOST_ARMS:
        raise RatingError(
            f"a choice is between 2 and {MOST_ARMS} arms, not {len(arms)}: name them with --arms"
        )
    for name, share in (
        ("a share of whole pictures", wish.whole_share),
        ("a least share of the picture", wish.least_share),
        ("a least confidence", wish.least_score),
    ):
        if not 0.0 <= share <= 1.0:
            raise RatingError(f"{name} of {share}: give a number from 0 to 1")


def _tasks(
    entry: Entry, kind: Kind, arms: Sequence[str], pictures: Pictures, number: int
) -> Iterator[Task]:
    lost = [arm for arm in arms if arm not in entry.pictures]
    if lost:
        raise _Unfit("an arm has no picture of it")
    if kind == "facts" and not entry.facts:
        raise _Unfit("it has no facts")
    candidates = [Candidate(arm=a, image=pictures.put(entry.pictures[a])) for a in arms]
    original = None if entry.original is None else pictures.put(entry.original)
    if kind == "choice" and len({c.image for c in candidates}) < len(candidates):
        raise _Unfit("two arms give the same picture")
    groups = [candidates] if kind == "choice" else [[c] for c in candidates]
    phrases = () if entry.scene is None else scene_sentences(entry.scene)
    worded = bool(entry.prompt or phrases)
    if not worded and (kind == "score" or (kind == "choice" and original is None)):
        raise _Unfit("there is nothing to compare it with")
    facts: tuple[Fact, ...] = ()
    if kind == "facts":
        facts = sheet(worded_facts(entry.facts, entry.scene))
    for at, group in enumerate(groups):
        yield Task(
            id=f"t{number + at}",
            item=entry.item,
            candidates=tuple(group),
            # A single picture is held against words: the photo is but one way to show them.
            original=original if kind == "choice" else None,
            prompt=entry.prompt,
            phrases=phrases,
            facts=facts,
        )


@dataclass(frozen=True, slots=True)
class _Drawn:
    picture: Pictured
    thing: Detection
    box: Box
    id: str


def _fit(picture: Pictured, wish: RatingStudySpec, left_out: Counter[str]) -> Iterator[_Drawn]:
    ids = {id(thing): name for thing, name in zip(picture.things, picture.ids, strict=False)}
    kept = scored_objects(
        picture.things,
        picture.size,
        least_share=wish.least_share,
        least_score=wish.least_score,
    )
    lost = len(picture.things) - len(kept)
    if lost:
        left_out[
            f"objects below {wish.least_share:.2%} of the picture or a confidence of "
            f"{wish.least_score:g}, and regions without instances"
        ] += lost
    for number, thing in enumerate(kept, start=1):
        box = clipped(thing.box, picture.size)
        if box is None:
            left_out["the box is outside of the picture"] += 1
            continue
        name = ids.get(id(thing), f"{picture.source}/{picture.item}#{number}")
        yield _Drawn(picture, thing, box, name)


def _object_task(drawn: _Drawn, pictures: Pictures, name: str, side: int | None) -> Task:
    picture = drawn.picture
    image = load_image(picture.file)
    shown = pictures.put(picture.file)
    size, box = image.size, drawn.box
    if side is not None and max(size) != side:
        image = fit(image, side)
        across, down = image.width / size[0], image.height / size[1]
        box = (box[0] * across, box[1] * down, box[2] * across, box[3] * down)
        size = image.size
    return Task(
        id=name,
        item=picture.item,
        candidates=(Candidate(arm=picture.source, image=shown),),
        thing=Thing(
            id=drawn.id,
            category=drawn.thing.name,
            box=box,
            size=size,
            crop=pictures.put_image(object_crop(image, box)),
            score=drawn.thing.score,
        ),
    )


def _wholes(tasks: list[Task], wish: RatingStudySpec) -> list[Task]:
    """Return the tasks that ask for a picture as a whole."""
    by_picture = {task.candidates[0].image: task for task in tasks}
    count = round(wish.whole_share * len(by_picture))
    names = random.Random(f"wholes {wish.seed}").sample(sorted(by_picture), count)
    return [
        by_picture[name].model_copy(update={"id": f"p{number}", "thing": None})
        for number, name in enumerate(names, start=1)
    ]
