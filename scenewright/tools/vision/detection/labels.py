"""Class labels: how data sets write them, how people say them, and which of them are stuff."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from scenewright.core.closed_vocabulary import Unknown
from scenewright.core.ports.vision import Detector

_ENDINGS = ("-other-merged", "-merged", "-other", "-stuff")
COCO_STUFF = frozenset(
    (files("scenewright.tools.vision.detection") / "coco_stuff.txt").read_text("utf-8").split()
)
"""The 53 stuff categories of COCO's panoptic task (Kirillov et al., 2019), as its files write
them."""


def plain(label: str) -> str:
    """``label`` as people say it: without COCO's endings, and of several words the first.

    >>> plain("sky-other-merged"), plain("door-stuff"), plain("sofa, couch"), plain("hot dog")
    ('sky', 'door', 'sofa', 'hot dog')
    """
    first = " ".join(label.partition(",")[0].replace("_", " ").split())
    for ending in _ENDINGS:
        # A label that is nothing but an ending stays a label.
        if first.lower().endswith(ending) and len(first) > len(ending):
            return first[: -len(ending)]
    return first


def normalized_label(label: str) -> str:
    """Return a label in its form for comparison: plain, lower case, spaces for hyphens.

    >>> folded("Tree-merged"), folded("wall-brick"), folded("Cell_Phone")
    ('tree', 'wall brick', 'cell phone')
    """
    return " ".join(plain(label).lower().replace("-", " ").split())


def is_wanted(label: str, wanted: frozenset[str]) -> bool:
    """Return whether ``label`` is one of the folded labels ``wanted``; of none wanted each is."""
    return not wanted or normalized_label(label) in wanted


def normalized_labels(labels: Iterable[str]) -> frozenset[str]:
    """``labels`` folded."""
    return frozenset(normalized_label(label) for label in labels)


def stuff_ids(names: Mapping[int, str], given: Iterable[str] | None = None) -> frozenset[int]:
    """Return the classes of ``names`` (class → label) that have no instances.

    ``given`` are their labels. Without them a model with all of COCO's stuff has these, and of any
    other set of labels each is a thing: what stuff is, a list of labels does not tell.
    """
    if given is None:
        known = {name.lower() for name in names.values()}
        given = COCO_STUFF if known >= COCO_STUFF else ()
    wanted = {label.strip().lower() for label in given}
    return frozenset(at for at, name in names.items() if name.strip().lower() in wanted)


def unknown_labels(detector: Detector, labels: Sequence[str]) -> dict[str, str]:
    """Return the ``labels`` that ``detector`` has no class for, each with the reason."""
    words = detector.vocabulary
    if words is None:
        return {}
    unknown = [Unknown("class", label) for label in labels if not words.knows_class(plain(label))]
    return {one.word: f"{detector.id}: {words.reason([one])}" for one in unknown}
