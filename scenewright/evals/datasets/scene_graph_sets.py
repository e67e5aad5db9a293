"""Sets of scene graphs: MegaSG's style and Visual Genome.

**MegaSG** (Scene-Bench, Sec. 3.2, Algorithm 1, appendix A): a JSON list, JSON Lines or one entry,
also in ``.gz`` or ``.zip``; an entry is::

    {"image_id": "000000391895", "file_name": "000000391895.jpg", "width": 640, "height": 480,
     "objects": ["person.2:[116, 49, 309, 491]", "sports ball.1:[312, 360, 370, 417]"],
     "relationships": [{"source": "person.2", "target": "sports ball.1", "relation": "kicking"}],
     "level 1": "People-Centric", "level 2": "Sports & Recreation"}

Boxes are (xmin, ymin, xmax, ymax) in pixels, after an object's id or in ``"boxes"`` (id → box, or a
list beside ``objects``). Ids of ``relationships`` may carry their box as well. The two levels of
diversity become group and category. ``attributes`` and ``caption`` are read if present. The graphs
are a language model's: relations of an object with itself or with one that is not listed, and
repeated ones, are left out and counted, as are entries with too few objects.

**Visual Genome** (Krishna et al., 2017): annotated scene graphs with boxes, by default as SG2Im
prepares them, which is the VG split of the paper (5,088 test images in SG2Im's own count, 5,096 in
the paper's): see :mod:`scenewright.evals.datasets.vg_files`. The vocabulary comes from two passes
over the training split, or from a ``vocab.json`` that SG2Im's script wrote. With ``raw=True``
nothing is filtered. Counted in ``left_out``: images by the rule that drops them, and of kept images
relations of an object with itself, repeated ones, and those whose end is not an object of the
image.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.core.formats import megasg
from scenewright.core.formats.base import FormatError, build, numbered
from scenewright.core.formats.visual_genome import keys_for
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import MAX_OBJECTS, SceneError, SceneGraph, clean_name
from scenewright.evals.datasets import vg_files
from scenewright.evals.datasets.base import (
    DatasetError,
    Item,
    StreamedSet,
    given_or_default,
    make_item,
)
from scenewright.evals.datasets.json_stream import signature, values
from scenewright.evals.datasets.reading import (
    NO_AREA,
    NO_PHOTO,
    TOO_MANY,
    Box,
    Photos,
    clipped,
    number_of,
    one_of,
    photos_in,
    too_few,
    whole,
)
from scenewright.evals.datasets.vg_files import (
    Kept,
    Preparation,
    Rules,
    VgFiles,
    VgImage,
    VgObject,
    Vocabulary,
)

MEGASG_VERSION = 1
MEGASG_NAME = "megasg"
FILES = ("graphs.jsonl", "graphs.json", "megasg.jsonl", "megasg.json")
WITH_ITSELF = "relations of an object with itself"
NOT_LISTED = "relations with an object that is not listed"
REPEATED = "relations that repeat an earlier one"
EMPTY = "entries without objects"
_BOXED = re.compile(r"(?P<id>.+?)\s*:\s*\[(?P<box>[^\]]*)\]", re.DOTALL)
_IDS = ("id", "image_id", "file_name", "image")
_PHOTOS = ("file_name", "image", "image_id")
_PLACE = "photo"
_LEVELS = (
    ("level 1", "level_1", "level1", "theme", "group"),
    ("level 2", "level_2", "level2", "category"),
)
_READ = frozenset(
    {*_IDS, *_PHOTOS, *_LEVELS[0], *_LEVELS[1], "objects", "boxes", "relationships", "attributes"}
) | {"caption", "prompt", _PLACE}


def load_megasg(
    path: Path | None = None,
    *,
    images: str | None = None,
    split: str | None = None,
    min_objects: int = 1,
    photos_only: bool = False,
) -> StreamedSet:
    """Return the graphs of a file.

    Of a folder, ``SPLIT.jsonl`` in it or the first of :data:`FILES`.

    ``images`` is the folder of photos, by default ``images`` beside the file; without one the file
    that an entry calls ``photo`` (as ``scenewright data annotate`` writes it) is taken where it is
    there. With ``photos_only`` entries whose photo is not there are left out. Raises
    ``DatasetError`` for files that are not there, and on iteration for entries that are not in this
    form.
    """
    least = whole("min_objects", min_objects, 1)
    file = _file(given_or_default(path, MEGASG_NAME), split)
    photos = photos_in(images, (file.parent / "images",), MEGASG_NAME)
    return StreamedSet(
        partial(_megasg_items, file, photos, least, photos_only),
        name=MEGASG_NAME,
        version=MEGASG_VERSION,
        options={"min_objects": least, "photos_only": photos_only, "photos": photos is not None},
        files=lambda: [(file.name, file)],
    )


def _file(path: Path, split: str | None) -> Path:
    if path.is_file():
        if split is not None:
            raise DatasetError(
                f"{MEGASG_NAME}: a split is a file of a folder, and {path} is not a folder"
            )
        return path
    names = FILES if split is None else (f"{split}.jsonl", f"{split}.json")
    for name in names:
        for ending in ("", ".gz"):
            if (path / (name + ending)).is_file():
                return path / (name + ending)
    raise DatasetError(f"{path} holds none of {', '.join(names)}: name the file of graphs")


def _megasg_items(
    file: Path, photos: Photos | None, least: int, photos_only: bool, left_out: Counter[str]
) -> Iterator[Item]:
    for number, entry in values(file):
        place = f"{file}, entry {number}"
        if not isinstance(entry, dict):
            raise DatasetError(f"{place} is not a JSON object: write one object for each image")
        id_ = next((str(entry[key]) for key in _IDS if entry.get(key) not in (None, "")), None)
        if id_ is None:
            raise DatasetError(f'{place}: "image_id" is missing: results are kept by it')
        scene = _scene(entry, place, left_out)
        if scene is None or len(scene.objects) < least:
            left_out[EMPTY if scene is None else too_few(least)] += 1
            continue
        photo = _photo(entry, photos)
        if photos_only and photo is None:
            left_out[NO_PHOTO] += 1
            continue
        yield make_item(
            place,
            id=id_,
            scene=scene,
            prompt=_text(entry, ("caption", "prompt"), place),
            image=None if photo is None else str(photo),
            detections=tuple(_detections(scene, entry, place, left_out)),
            group=_text(entry, _LEVELS[0], place),
            category=_text(entry, _LEVELS[1], place),
            meta={
                key: str(value)
                for key, value in entry.items()
                if key not in _READ - {"file_name"} and isinstance(value, str | int | float)
            },
        )


def _text(entry: Mapping[str, Any], keys: tuple[str, ...], place: str) -> str:
    for key in keys:
        value = entry.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            raise DatasetError(f'{place}: "{key}" must be text, found {value!r:.60}')
        return value.strip()
    return ""


def _photo(entry: Mapping[str, Any], photos: Photos | None) -> Path | None:
    if photos is None:
        place = entry.get(_PLACE)
        return Path(place) if isinstance(place, str) and Path(place).is_file() else None
    for key in _PHOTOS:
        value = entry.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool):
            names = (str(value), *(f"{value}.{ending}" for ending in ("jpg", "png")))
            found = next((file for name in names if (file := photos.find(name))), None)
            if found is not None:
                return found
    return None


def bare_id(value: Any) -> Any:
    """Return an id without its box; other values stay, for the format's own error."""
    if not isinstance(value, str):
        return value
    match = _BOXED.fullmatch(value.strip())
    return " ".join((match["id"] if match else value).split())


def _scene(entry: Mapping[str, Any], place: str, left_out: Counter[str]) -> SceneGraph | None:
    listed = entry.get("objects")
    rows = entry.get("relationships", [])
    kept: list[Any] = rows
    if isinstance(rows, list):
        known = None
        if isinstance(listed, list):
            known = {bare_id(value) for value in listed if isinstance(value, str)}
        kept = list(_megasg_relations(rows, known, left_out))
    if not listed and not kept:
        return None
    if isinstance(listed, list) and len(listed) > MAX_OBJECTS:
        left_out[TOO_MANY] += 1
        return None
    data = {key: entry[key] for key in ("attributes",) if entry.get(key) is not None}
    if listed is not None:
        data["objects"] = (
            [bare_id(value) for value in listed] if isinstance(listed, list) else listed
        )
    try:
        return megasg.read({**data, "relationships": kept}, place)
    except SceneError as error:
        raise DatasetError(str(error)) from error


def _megasg_relations(
    rows: list[Any], known: set[Any] | None, left_out: Counter[str]
) -> Iterator[dict[str, Any] | Any]:
    seen: set[tuple[str, str, str]] = set()
    for row in rows:
        if not isinstance(row, dict):
            yield row
            continue
        bare = {**row, **{end: bare_id(row[end]) for end in ("source", "target") if end in row}}
        source, target, words = (bare.get(key) for key in ("source", "target", "relation"))
        if not all(isinstance(part, str) and part for part in (source, target, words)):
            yield bare
        elif source == target:
            left_out[WITH_ITSELF] += 1
        elif known is not None and not {source, target} <= known:
            left_out[NOT_LISTED] += 1
        elif (source, " ".join(str(words).split()), target) in seen:
            left_out[REPEATED] += 1
        else:
            seen.add((str(source), " ".join(str(words).split()), str(target)))
            yield bare


def _boxes(entry: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    """Yield ids with their boxes from all places; of two, the last counts."""
    listed = entry.get("objects")
    objects = listed if isinstance(listed, list) else []
    for value in objects:
        match = _BOXED.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is not None:
            yield str(bare_id(value)), match["box"].split(",")
    given = entry.get("boxes")
    if isinstance(given, dict):
        yield from ((str(bare_id(key)), box) for key, box in given.items())
    elif isinstance(given, list):
        if len(given) != len(objects):
            raise DatasetError(
                f"{place}: {len(given)} boxes for {len(objects)} objects: give each its own"
            )
        yield from ((str(bare_id(key)), box) for key, box in zip(objects, given, strict=True))
    elif given is not None:
        raise DatasetError(f"{place}: boxes must be a list or an object, found {given!r:.60}")


def boxes_of(scene: SceneGraph, entry: Mapping[str, Any], place: str) -> dict[str, Box]:
    """Return object id → (xmin, ymin, xmax, ymax) in pixels, as far as ``entry`` has boxes.

    Raises ``DatasetError`` for one that is no box.
    """
    given = dict(_boxes(entry, place))
    found = {}
    for item in scene.objects:
        box = given.get(item.id)
        if box is None:
            continue
        where = f"{place}, {item.id}"
        if not isinstance(box, list) or len(box) != 4:
            raise DatasetError(f"{where}: a box is [xmin, ymin, xmax, ymax], found {box!r:.60}")
        sides = (side.strip() if isinstance(side, str) else side for side in box)
        left, top, right, bottom = (number_of(side, where, "a side of the box") for side in sides)
        found[item.id] = left, top, right, bottom
    return found


def _detections(
    scene: SceneGraph, entry: Mapping[str, Any], place: str, left_out: Counter[str]
) -> Iterator[Detection]:
    width, height = (
        number_of(entry[key], place, key) if entry.get(key) is not None else float("inf")
        for key in ("width", "height")
    )
    names = {item.id: item.name for item in scene.objects}
    for id_, box in boxes_of(scene, entry, place).items():
        inside = clipped(box, (width, height))
        if inside is None:
            left_out[NO_AREA] += 1
        else:
            yield Detection(names[id_], inside)


VISUAL_GENOME_VERSION = 1
VISUAL_GENOME_NAME = "visual-genome"
SPLITS_FILE = "vg_splits.json"
OBJECT_ALIASES, PREDICATE_ALIASES = "object_alias.txt", "relationship_alias.txt"
NO_END = "relations whose end is not an object of the image"
NO_WORDS = "relations without a predicate"
NO_NAME = "objects without a name"


def load_visual_genome(
    path: Path | None = None,
    *,
    split: str | None = None,
    splits: str | None = None,
    aliases: str | None = None,
    vocabulary: str | None = None,
    images: str | None = None,
    raw: bool = False,
    attributes: bool = False,
    orphans: bool = True,
    **rules: Any,
) -> StreamedSet:
    """Return Visual Genome's graphs.

    ``path`` is the folder of the files, or a ``scene_graphs.json``. ``split``: ``train``, ``val``
    or ``test`` (default; with ``raw`` all images) by the file ``splits`` (default
    ``vg_splits.json`` in the folder). ``aliases`` is the folder of the alias files (default the
    same), or ``none``. ``attributes`` keeps attributes, ``orphans=False`` drops objects without a
    relationship. ``rules`` are fields of :class:`~scenewright.evals.datasets.vg_files.Rules`.
    Raises ``DatasetError`` for missing files or wrong options.
    """
    reader = _opened(path, split, splits, aliases, vocabulary, images, raw, rules)
    reader.attributes, reader.orphans = attributes, orphans
    options = {
        "split": reader.split,
        "attributes": attributes,
        "orphans": orphans,
        "rules": None if reader.rules is None else reader.rules.model_dump(),
    }
    return StreamedSet(
        partial(_visual_genome_items, reader),
        name=VISUAL_GENOME_NAME,
        version=VISUAL_GENOME_VERSION,
        options=options,
        files=lambda: [(file.name, file) for file in reader.all_files()],
    )


def vocabulary_of(
    path: Path | None = None, *, splits: str | None = None, aliases: str | None = None, **rules: Any
) -> Vocabulary:
    """Return the vocabulary that SG2Im's rules find, attributes included.

    Arguments as of :func:`load_visual_genome`.

    :func:`~scenewright.evals.datasets.vg_files.dump_vocabulary` writes it, so that sets opened with
    the option ``vocabulary`` need not count again.
    """
    reader = _opened(path, vg_files.TRAIN, splits, aliases, None, None, False, rules)
    reader.attributes = True
    return reader.prepare(reader.splits())[1]


def _opened(
    path: Path | None,
    split: str | None,
    splits: str | None,
    aliases: str | None,
    vocabulary: str | None,
    images: str | None,
    raw: bool,
    rules: dict[str, Any],
) -> _Reader:
    given = given_or_default(path, VISUAL_GENOME_NAME)
    files = VgFiles(given)
    folder = given if given.is_dir() else given.parent
    if raw and (rules or vocabulary or aliases):
        wrong = next(iter(rules), "vocabulary" if vocabulary else "aliases")
        raise DatasetError(f"raw filters nothing: leave the option {wrong} out")
    if split is None and not raw:
        split = "test"
    if split is not None:
        one_of("split", split, vg_files.SPLITS)
    reader = _Reader(files, _photos(images, folder), split)
    if split is not None:
        reader.splits_file = _there(splits, folder / SPLITS_FILE, "splits")
    if raw:
        return reader
    reader.rules = _rules(rules)
    if reader.rules.min_image_size and files.sizes is None:
        raise DatasetError(
            f"{folder} has no image_data.json, by which small images are left out: fetch it "
            f"with `scenewright data get {VISUAL_GENOME_NAME}`, or set min_image_size = 0"
        )
    if vocabulary is not None:
        reader.vocabulary_file = _there(vocabulary, folder, "vocabulary")
    if aliases != "none":
        place = folder if aliases is None else Path(aliases).expanduser()
        reader.alias_files = (
            _there(None, place / OBJECT_ALIASES, "aliases"),
            _there(None, place / PREDICATE_ALIASES, "aliases"),
        )
    return reader


def _photos(images: str | None, folder: Path) -> Photos:
    """Return the photos, which may be in two folders side by side or all in one."""
    given = photos_in(images, (folder, folder / "images"), VISUAL_GENOME_NAME)
    places = () if given is None else given.folders
    return Photos(place / part for place in places for part in ("VG_100K", "VG_100K_2", ""))


def _rules(given: dict[str, Any]) -> Rules:
    unknown = sorted(set(given) - set(Rules.model_fields))
    if unknown:
        known = ", ".join(Rules.model_fields)
        raise DatasetError(
            f"{VISUAL_GENOME_NAME} has no option {unknown[0]!r}; its rules are {known}"
        )
    try:
        return Rules(**given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise DatasetError(f"option {first['loc'][0]}: {first['msg']}") from error


def _there(given: str | None, default: Path, option: str) -> Path:
    file = default if given is None else Path(given).expanduser()
    if not file.is_file():
        raise DatasetError(
            f"there is no file {file}: fetch it with `scenewright data get {VISUAL_GENOME_NAME}`, "
            f"or name it with the option {option}"
        )
    return file


@dataclass
class _Reader:
    """Files and options of a set, and its vocabulary once it is known."""

    files: VgFiles
    photos: Photos
    split: str | None
    attributes: bool = False
    orphans: bool = True
    rules: Rules | None = None
    """None: nothing is filtered."""
    splits_file: Path | None = None
    vocabulary_file: Path | None = None
    alias_files: tuple[Path, ...] = ()
    counted: tuple[list[tuple[int, int]], Vocabulary] | None = None

    def all_files(self) -> list[Path]:
        more = (self.splits_file, self.vocabulary_file, *self.alias_files)
        return [*self.files.paths(), *(file for file in more if file is not None)]

    def splits(self) -> dict[str, frozenset[int]]:
        return {} if self.splits_file is None else vg_files.load_splits(self.splits_file)

    def prepare(self, splits: dict[str, frozenset[int]]) -> tuple[Preparation, Vocabulary]:
        """Return the preparation, and the given vocabulary or that of the training split."""
        aliases = [vg_files.load_alias_file(file) for file in self.alias_files] or [{}, {}]
        preparation = Preparation(self.rules or Rules(), *aliases)
        if self.vocabulary_file is not None:
            return preparation, vg_files.load_vocabulary(self.vocabulary_file)
        now = [signature(file) for file in self.all_files()]
        if self.counted is None or self.counted[0] != now:
            training = splits[vg_files.TRAIN]
            found = preparation.vocabulary(self.files, training, self.attributes)
            self.counted = now, found
        return preparation, self.counted[1]


def _visual_genome_items(reader: _Reader, left_out: Counter[str]) -> Iterator[Item]:
    splits = reader.splits()
    wanted = splits.get(reader.split or "")
    limit = None if reader.rules is None else reader.prepare(splits)
    for image in reader.files.images(attributes=reader.attributes):
        if wanted is not None and image.id not in wanted:
            continue
        if limit is None:
            kept = _as_it_is(image, left_out)
        else:
            kept = limit[0].prepared(image, limit[1], reader.split or "test")
        if isinstance(kept, str):
            left_out[kept] += 1
            continue
        item = _item(reader, image, kept, limit[1] if limit else None, left_out)
        if item is not None:
            yield item


def _as_it_is(image: VgImage, left_out: Counter[str]) -> Kept | str:
    """Return the image without any filter; a merged number means its object."""
    named = [(item, next(filter(_usable, item.names), None)) for item in image.objects]
    objects = [(item, name) for item, name in named if name is not None]
    if lost := len(named) - len(objects):
        left_out[NO_NAME] += lost
    if not objects:
        return vg_files.FEW_OBJECTS
    if len(objects) > MAX_OBJECTS:
        return TOO_MANY
    own = {item.id for item, _ in objects}
    merged = {old: item.id for item, _ in objects for old in item.merged if old not in own}
    relations = [
        (merged.get(r.subject, r.subject), r.predicate, merged.get(r.target, r.target))
        for r in image.relationships
    ]
    return Kept(objects, relations)


def _usable(text: str) -> bool:
    try:
        clean_name(text, "the name")
    except SceneError:
        return False
    return True


def _item(
    reader: _Reader,
    image: VgImage,
    kept: Kept,
    vocabulary: Vocabulary | None,
    left_out: Counter[str],
) -> Item | None:
    place = f"{reader.files.graphs or reader.files.objects}, image {image.id}"
    relations = list(_relations(kept, left_out))
    ends = {end for source, _, target in relations for end in (source, target)}
    # An object that is listed twice is one object.
    objects = {item.id: (item, name) for item, name in kept.objects}
    if not reader.orphans:
        objects = {id_: found for id_, found in objects.items() if id_ in ends}
    if not objects:
        left_out[vg_files.FEW_RELATIONS] += 1
        return None
    ids = dict(zip(objects, numbered(name for _, name in objects.values()), strict=True))

    def attributes(item: VgObject) -> dict[str, str]:
        words = [word for word in dict.fromkeys(image.words(item)) if _usable(word)]
        if vocabulary is not None and reader.rules is not None:
            words = [word for word in words if word in vocabulary.attributes]
            words = words[: reader.rules.max_attributes]
        return dict(zip(keys_for(words), words, strict=True))

    try:
        scene = build(
            [
                (ids[id_], name, attributes(item) if reader.attributes else {})
                for id_, (item, name) in objects.items()
            ],
            [(ids[source], words, ids[target], place) for source, words, target in relations],
            place,
        )
    except FormatError as error:
        raise DatasetError(str(error)) from error
    photo = reader.photos.find(f"{image.id}.jpg")
    size = image.size or (float("inf"), float("inf"))
    boxes = (
        (name, clipped((one.x, one.y, one.x + one.w, one.y + one.h), size))
        for one, name in objects.values()
    )
    meta = {"width": f"{size[0]:g}", "height": f"{size[1]:g}"} if image.size else {}
    return make_item(
        place,
        id=str(image.id),
        scene=scene,
        image=None if photo is None else str(photo),
        detections=tuple(Detection(name, box) for name, box in boxes if box is not None),
        meta=meta | ({"split": reader.split} if reader.split else {}),
    )


def _relations(kept: Kept, left_out: Counter[str]) -> Iterator[tuple[int, str, int]]:
    ids = {item.id for item, _ in kept.objects}
    seen: set[tuple[int, str, int]] = set()
    for relation in kept.relations:
        source, predicate, target = relation
        key = source, " ".join(predicate.split()), target
        if source not in ids or target not in ids:
            left_out[NO_END] += 1
        elif source == target:
            left_out[WITH_ITSELF] += 1
        elif not _usable(predicate):
            left_out[NO_WORDS] += 1
        elif key in seen:
            left_out[REPEATED] += 1
        else:
            seen.add(key)
            yield relation
