"""Visual Genome (Krishna et al., 2017): annotated scene graphs with boxes.

By default as SG2Im prepares it, which is the VG split of the paper (5,088 test images in SG2Im's
own count, 5,096 in the paper's): see :mod:`scenewright.evals.datasets.sg2im`. The vocabulary comes
from two passes over the training split, or from a ``vocab.json`` that SG2Im's script wrote. With
``raw=True`` nothing is filtered.

Counted in ``left_out``: images by the rule that drops them, and of kept images relations of an
object with itself, repeated ones, and those whose end is no object of the image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.core.formats.base import FormatError, build, numbered
from scenewright.core.formats.visual_genome import keys_for
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import MAX_OBJECTS, SceneError, SceneGraph, clean_name
from scenewright.evals.datasets import sg2im
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.detections import TOO_MANY, Photos, clipped, photos_in
from scenewright.evals.datasets.reading import one_of
from scenewright.evals.datasets.row_store import signature
from scenewright.evals.datasets.sg2im import Aliases, Kept, Rules, Vocabulary
from scenewright.evals.datasets.sources import given_or_default
from scenewright.evals.datasets.stream import StreamedSet, make_item
from scenewright.evals.datasets.vg_files import VgFiles, VgImage, VgObject, VgRelation

VERSION = 1
NAME = "visual-genome"
SPLITS_FILE = "vg_splits.json"
OBJECT_ALIASES, PREDICATE_ALIASES = "object_alias.txt", "relationship_alias.txt"
WITH_ITSELF = "relations of an object with itself"
REPEATED = "relations that repeat an earlier one"
NO_END = "relations whose end is no object of the image"
NO_WORDS = "relations without a predicate"
NO_NAME = "objects without a name"


def load(
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
    """Visual Genome's graphs.

    ``path`` is the folder of the files, or a ``scene_graphs.json``. ``split``: ``train``, ``val``
    or ``test`` (default; with ``raw`` all images) by the file ``splits`` (default
    ``vg_splits.json`` in the folder). ``aliases`` is the folder of the alias files (default the
    same), or ``none``. ``attributes`` keeps attributes, ``orphans=False`` drops objects without
    a relationship. ``rules`` are fields of :class:`~scenewright.evals.datasets.sg2im.Rules`.
    Raises ``DatasetError`` for files that are not there or options that are wrong.
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
        partial(_entries, reader),
        name=NAME,
        version=VERSION,
        options=options,
        files=lambda: [(file.name, file) for file in reader.all_files()],
    )


def vocabulary_of(
    path: Path | None = None, *, splits: str | None = None, aliases: str | None = None, **rules: Any
) -> Vocabulary:
    """The vocabulary that SG2Im's rules find, attributes included; arguments as of :func:`load`.

    :func:`~scenewright.evals.datasets.sg2im.dump_vocabulary` writes it, so that sets opened with
    the option ``vocabulary`` need not count again.
    """
    reader = _opened(path, sg2im.TRAIN, splits, aliases, None, None, False, rules)
    reader.attributes = True
    return reader.vocabulary(reader.splits()[sg2im.TRAIN], reader.aliases())


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
    given = given_or_default(path, NAME)
    files = VgFiles(given)
    folder = given if given.is_dir() else given.parent
    if raw and (rules or vocabulary or aliases):
        wrong = next(iter(rules), "vocabulary" if vocabulary else "aliases")
        raise DatasetError(f"raw filters nothing: leave the option {wrong} out")
    if split is None and not raw:
        split = "test"
    if split is not None:
        one_of("split", split, sg2im.SPLITS)
    reader = _Reader(files, _photos(images, folder), split)
    if split is not None:
        reader.splits_file = _there(splits, folder / SPLITS_FILE, "splits")
    if raw:
        return reader
    reader.rules = _rules(rules)
    if reader.rules.min_image_size and files.sizes is None:
        raise DatasetError(
            f"{folder} has no image_data.json, by which small images are left out: fetch it "
            f"with `scenewright data get {NAME}`, or set min_image_size = 0"
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
    """Photos lie in two folders, side by side, or all in one."""
    given = photos_in(images, (folder, folder / "images"), NAME)
    places = () if given is None else given.folders
    return Photos(place / part for place in places for part in ("VG_100K", "VG_100K_2", ""))


def _rules(given: dict[str, Any]) -> Rules:
    unknown = sorted(set(given) - set(Rules.model_fields))
    if unknown:
        known = ", ".join(Rules.model_fields)
        raise DatasetError(f"{NAME} has no option {unknown[0]!r}; its rules are {known}")
    try:
        return Rules(**given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise DatasetError(f"option {first['loc'][0]}: {first['msg']}") from error


def _there(given: str | None, default: Path, option: str) -> Path:
    file = default if given is None else Path(given).expanduser()
    if not file.is_file():
        raise DatasetError(
            f"there is no file {file}: fetch it with `scenewright data get {NAME}`, or name it "
            f"with the option {option}"
        )
    return file


class _Reader:
    """What a set was opened with, and the vocabulary once it is known."""

    def __init__(self, files: VgFiles, photos: Photos, split: str | None) -> None:
        self.files, self.photos, self.split = files, photos, split
        self.attributes, self.orphans = False, True
        self.rules: Rules | None = None
        self.splits_file: Path | None = None
        self.vocabulary_file: Path | None = None
        self.alias_files: tuple[Path, Path] | None = None
        self._counted: tuple[list[tuple[int, int]], Vocabulary] | None = None

    def all_files(self) -> list[Path]:
        more = (self.splits_file, self.vocabulary_file, *(self.alias_files or ()))
        return [*self.files.paths(), *(file for file in more if file is not None)]

    def splits(self) -> dict[str, frozenset[int]]:
        return {} if self.splits_file is None else sg2im.load_splits(self.splits_file)

    def aliases(self) -> Aliases:
        if self.alias_files is None:
            return Aliases({}, {})
        return Aliases(*map(sg2im.load_alias_file, self.alias_files))

    def vocabulary(self, training: frozenset[int], aliases: Aliases) -> Vocabulary:
        """As given, else counted over the training split, once for the same files."""
        if self.vocabulary_file is not None:
            return sg2im.load_vocabulary(self.vocabulary_file)
        now = [signature(file) for file in self.all_files()]
        if self._counted is None or self._counted[0] != now:
            self._counted = now, self._count(training, aliases)
        return self._counted[1]

    def _count(self, training: frozenset[int], aliases: Aliases) -> Vocabulary:
        rules = self.rules or Rules()
        objects: Counter[str] = Counter()
        words: Counter[str] = Counter()
        for image in self.files.images(relations=False, attributes=self.attributes):
            if image.id in training and not sg2im.is_small(image, rules):
                sg2im.count_names(image, aliases, objects, words)
        names = sg2im.frequent(objects, rules.min_object_instances)
        predicates: Counter[str] = Counter()
        for image in self.files.images():
            if image.id in training and not sg2im.is_small(image, rules):
                kept = sg2im.kept_objects(image, names, aliases, rules)
                sg2im.count_predicates(image, kept, aliases, predicates)
        return Vocabulary(
            names,
            sg2im.frequent(predicates, rules.min_relationship_instances),
            sg2im.frequent(words, rules.min_attribute_instances),
        )


def _entries(reader: _Reader, left_out: Counter[str]) -> Iterator[Item]:
    splits = reader.splits()
    wanted = splits.get(reader.split or "")
    limit: tuple[Vocabulary, Rules] | None = None
    aliases = Aliases({}, {})
    if reader.rules is not None:
        aliases = reader.aliases()
        limit = reader.vocabulary(splits[sg2im.TRAIN], aliases), reader.rules
    for image in reader.files.images(attributes=reader.attributes):
        if wanted is not None and image.id not in wanted:
            continue
        kept: Kept | str
        if limit is None:
            kept = _as_it_is(image, left_out)
        else:
            kept = sg2im.prepared(image, limit[0], aliases, limit[1], reader.split or "test")
        if isinstance(kept, str):
            left_out[kept] += 1
            continue
        item = _item(reader, image, kept, limit, left_out)
        if item is not None:
            yield item


def _as_it_is(image: VgImage, left_out: Counter[str]) -> Kept | str:
    """The image without any filter; a number that was merged stands for its object."""
    objects = []
    for item in image.objects:
        name = next((name for name in item.names if _usable(name)), None)
        if name is None:
            left_out[NO_NAME] += 1
        else:
            objects.append((item, name))
    if not objects:
        return sg2im.FEW_OBJECTS
    if len(objects) > MAX_OBJECTS:
        return TOO_MANY
    own = {item.id for item, _ in objects}
    merged = {old: item.id for item, _ in objects for old in item.merged if old not in own}
    relations = tuple(
        VgRelation(
            merged.get(relation.subject, relation.subject),
            relation.predicate,
            merged.get(relation.target, relation.target),
        )
        for relation in image.relations
    )
    return Kept(tuple(objects), relations)


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
    limit: tuple[Vocabulary, Rules] | None,
    left_out: Counter[str],
) -> Item | None:
    place = f"{reader.files.graphs or reader.files.objects}, image {image.id}"
    relations = list(_relations(kept, left_out))
    ends = {end for relation in relations for end in (relation.subject, relation.target)}
    # An object that is listed twice is one object.
    objects = {item.id: (item, name) for item, name in kept.objects}
    if not reader.orphans:
        objects = {id_: found for id_, found in objects.items() if id_ in ends}
    if not objects:
        left_out[sg2im.FEW_RELATIONS] += 1
        return None
    ids = dict(zip(objects, numbered(name for _, name in objects.values()), strict=True))
    try:
        scene: SceneGraph = build(
            [
                (ids[id_], name, _attributes(item, reader.attributes, limit))
                for id_, (item, name) in objects.items()
            ],
            [(ids[r.subject], r.predicate, ids[r.target], place) for r in relations],
            place,
        )
    except FormatError as error:
        raise DatasetError(str(error)) from error
    photo = reader.photos.find(f"{image.id}.jpg")
    width, height = image.size or (float("inf"), float("inf"))
    detections = []
    for item, name in objects.values():
        x, y, w, h = item.box
        inside = clipped((x, y, x + w, y + h), (width, height))
        if inside is not None:
            detections.append(Detection(name, inside))
    meta = {} if image.size is None else {"width": f"{width:g}", "height": f"{height:g}"}
    return make_item(
        place,
        id=str(image.id),
        scene=scene,
        image=None if photo is None else str(photo),
        detections=tuple(detections),
        meta=meta | ({"split": reader.split} if reader.split else {}),
    )


def _relations(kept: Kept, left_out: Counter[str]) -> Iterator[VgRelation]:
    ids = {item.id for item, _ in kept.objects}
    seen: set[tuple[int, str, int]] = set()
    for relation in kept.relations:
        key = relation.subject, " ".join(relation.predicate.split()), relation.target
        if relation.subject not in ids or relation.target not in ids:
            left_out[NO_END] += 1
        elif relation.subject == relation.target:
            left_out[WITH_ITSELF] += 1
        elif not _usable(relation.predicate):
            left_out[NO_WORDS] += 1
        elif key in seen:
            left_out[REPEATED] += 1
        else:
            seen.add(key)
            yield relation


def _attributes(
    item: VgObject, wanted: bool, limit: tuple[Vocabulary, Rules] | None
) -> dict[str, str]:
    if not wanted:
        return {}
    words = [word for word in dict.fromkeys(item.attributes) if _usable(word)]
    if limit is not None:
        vocabulary, rules = limit
        words = [word for word in words if word in vocabulary.attributes][: rules.max_attributes]
    return dict(zip(keys_for(words), words, strict=True))
