"""Sets by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from scenewright.evals.datasets.base import Dataset, DatasetError, DatasetSpec
from scenewright.evals.datasets.catalogue import CATALOGUE
from scenewright.evals.datasets.sampling import limited, sampled
from scenewright.evals.datasets.sources import default_place


@dataclass(frozen=True, slots=True)
class Loader:
    """How a set is opened."""

    module: str
    """Module below ``scenewright.evals.datasets`` that holds :attr:`function`."""
    function: str
    """``(path: Path | None, **options) -> Dataset``; raises ``DatasetError``."""
    about: str
    """One line for lists."""
    needs_path: bool = True
    """Whether it reads files."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Option → what it means."""


def _loader(
    name: str, module: str, options: Mapping[str, str], *, needs_path: bool = True
) -> Loader:
    return Loader(module, "load", CATALOGUE[name].about, needs_path, options)


_PARSE = {"parse": "how a prompt becomes a scene: rules (default; offline) or none"}
_MAY_PARSE = {"parse": "how a prompt without a scene becomes one: none (default) or rules"}
_PHOTOS = {
    "images": "folder of the photos (default: beside the annotations)",
    "split": "val (default) or train",
    "min_objects": "images with fewer boxes are left out (default 3)",
    "scene": "none (default), or objects: a scene of the boxes' classes, which needs no photos",
}

LOADERS: dict[str, Loader] = {
    "miniature": _loader(
        "miniature",
        "miniature_scenes",
        {
            "n": "how many scenes (default 60)",
            "seed": "of the draw (default 0)",
            "levels": "levels taken in turn (default simple, medium, hard)",
            "complexity": "numbers of relations taken in turn, in place of levels: a list, or "
            "text such as 1-10",
            "attributes": "whether things have colours (default true)",
            "out": "folder for the painting of each scene, which is then the item's photo",
        },
        needs_path=False,
    ),
    "tifa": _loader(
        "tifa",
        "tifa",
        {
            **_PARSE,
            "questions": "file of questions and answers, if not tifa_v1.0_question_answers.json "
            "beside the prompts",
            "images": "folder of the COCO val2014 photos that captions describe",
        },
    ),
    "dsg": _loader(
        "dsg",
        "dsg",
        {
            "split": "part of the set, such as whoops or tifa160 (default all)",
            "parse": "where the scene comes from: tuples (default), rules (of the caption) or none",
        },
    ),
    "geneval": _loader(
        "geneval",
        "geneval",
        {"exclude": "what must not be there: fact (default; a question of it) or meta (a note)"},
    ),
    "partiprompts": _loader("partiprompts", "partiprompts", _PARSE),
    "t2i-compbench": _loader(
        "t2i-compbench",
        "t2i_compbench",
        {
            "split": "val (default), train or all",
            "categories": "list of categories, such as color and spatial (default all)",
            **_PARSE,
        },
    ),
    "psg-bench": _loader(
        "psg-bench",
        "psg_bench",
        {
            "n": "how many prompts, where no file is named (default 200)",
            "seed": "of the draw (default 0)",
            "names": "coco, ade20k, both (default), paper, or miniature: what can be painted here",
            "templates": "list of templates, such as position and counting (default all)",
            "challenges": "list of challenges, such as QUANTITY (default all)",
            "contrastive": "whether left, right, top and bottom come in pairs (default true)",
        },
        needs_path=False,
    ),
    "megasg": _loader(
        "megasg",
        "megasg",
        {
            "images": "folder of the photos (default: images beside the file)",
            "split": "which file of a folder: SPLIT.jsonl",
            "min_objects": "graphs with fewer objects are left out (default 1)",
            "photos_only": "true: graphs whose photo is not here are left out",
        },
    ),
    "visual-genome": _loader(
        "visual-genome",
        "visual_genome",
        {
            "split": "train, val or test (default; with raw all)",
            "splits": "file of SG2Im's splits (default vg_splits.json beside the files)",
            "aliases": "folder of object_alias.txt and relationship_alias.txt, or none",
            "vocabulary": "file of the vocabulary, if it is not to be counted",
            "images": "folder that holds VG_100K and VG_100K_2",
            "raw": "true: all images as annotated, without vocabulary and filters",
            "attributes": "true: keep attributes",
            "orphans": "false: drop objects without a relationship",
            "min_image_size": "least shorter side of an image in pixels (default 200)",
            "min_object_instances": "least often that a class occurs (default 2000)",
            "min_relationship_instances": "least often that a predicate occurs (default 500)",
            "min_attribute_instances": "least often that an attribute occurs (default 2000)",
            "min_object_size": "least side of a box in pixels (default 32)",
            "min_objects": "least objects of an image (default 3)",
            "max_objects": "most objects of an image (default 30)",
            "min_relationships": "least relationships of an image (default 1)",
            "max_relationships": "most relationships of an image (default 30)",
            "max_attributes": "most attributes of an object (default 30)",
            "predicates": "published (default) or normalised: spelling outside of train",
        },
    ),
    "coco": _loader("coco", "coco", _PHOTOS),
    "objects365": _loader("objects365", "objects365", _PHOTOS),
    "open-images": _loader(
        "open-images",
        "open_images",
        {
            **_PHOTOS,
            "split": "validation (default), train or test",
            "scene": "none (default), objects, or relations: of the annotated relationships",
        },
    ),
    "folder": _loader(
        "folder",
        "folder",
        {"recursive": "whether folders in it are read too (default true)", **_MAY_PARSE},
    ),
    "table": _loader(
        "table",
        "table",
        {
            "columns": "column of an item → column of the file, such as {prompt = 'caption'}",
            **_MAY_PARSE,
        },
    ),
    "huggingface": _loader(
        "huggingface",
        "huggingface",
        {
            "repo": "name on the hub, such as owner/name; or give a path to a folder",
            "config": "configuration of the set",
            "split": "split (default train)",
            "revision": "commit or tag on the hub; without one the newest is read",
            "columns": "column of an item → column of the set, such as {prompt = 'caption'}",
            "pictures": "folder where the set's pictures are written, to be the items' photos",
            **_MAY_PARSE,
        },
        needs_path=False,
    ),
}
"""Name → loader."""


def open_dataset(spec: DatasetSpec, root: Path | None = None) -> Dataset:
    """The set that ``spec`` names, sampled and limited as it says.

    Relative paths begin at ``root`` (default: the working folder). A set that reads files and is
    given no path is looked for where ``scenewright data get`` puts it. Raises ``DatasetError`` for
    an unknown name or option, and what the loader raises; a class that has too few items to be
    sampled is found on iteration.
    """
    found = open_whole(spec, root)
    if spec.sample is not None:
        found = sampled(found, spec.sample)
    return found if spec.limit is None else limited(found, spec.limit)


def open_whole(spec: DatasetSpec, root: Path | None = None) -> Dataset:
    """As :func:`open_dataset`, with all items whatever ``spec`` says of sample and limit."""
    loader = loader_of(spec.name)
    unknown = sorted(set(spec.options) - set(loader.options))
    if unknown:
        known = ", ".join(loader.options) or "none"
        raise DatasetError(f"{spec.name} has no option {unknown[0]!r}: it has {known}")
    path = None if spec.path is None else (root or Path()) / Path(spec.path).expanduser()
    if path is not None and not path.exists():
        raise DatasetError(f"there is no file or folder {path}: check the path of {spec.name}")
    make: Callable[..., Any] = getattr(
        import_module(f"scenewright.evals.datasets.{loader.module}"), loader.function
    )
    found: Dataset = make(path, **spec.options)
    return found


def loader_of(name: str) -> Loader:
    """The loader of that name; ``DatasetError`` that lists them otherwise."""
    found = LOADERS.get(name)
    if found is None:
        raise DatasetError(f"there is no set {name!r}: use one of {', '.join(sorted(LOADERS))}")
    return found


def place_of(name: str) -> Path | None:
    """Where ``scenewright data get`` put the files of the set; none if they are not there."""
    place = default_place(name)
    return place if loader_of(name).needs_path and place.exists() else None
