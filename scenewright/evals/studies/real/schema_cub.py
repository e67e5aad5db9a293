"""Schemas from annotations in the manner of CUB-200-2011: what most pictures of a class show.

The files are those of the set (Wah et al., 2011): ``classes.txt``, ``image_class_labels.txt``,
``attributes.txt`` (beside the folder in the set's archive) and
``attributes/image_attribute_labels.txt``. REAL (Sec. 4.1) gathers the common annotations of the
pictures of a class; what is common is not said there and is ours: marked on at least a share of
those of them that somebody was certain enough of.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scenewright.evals.studies.real.schema import AttributeSchema, SchemaAttribute, SchemaError

SHARE = 0.5
"""Least share of a class's pictures that an attribute is marked on."""
CERTAINTY = 3
"""Least certainty of a mark that counts: 1 not visible, 2 guessing, 3 probably, 4 definitely."""
EXISTENCE = "Is there a realistic bird in the image?"
_WORST = 0.01
"""Share of bad lines above which a file is taken for another kind of file."""
_NAMED = 20
_PARTLESS = {"primary": "plumage", "size": "bird", "shape": "bird"}
_MANNERS = {"color": "{}", "shape": "{} in shape", "pattern": "{} in pattern",
            "length": "{} in length", "size": "{} in size"}  # fmt: skip


@dataclass(slots=True)
class CubSchemas:
    """What was made of a set."""

    schemas: list[AttributeSchema] = field(default_factory=list)
    """One a class that has a common attribute, in the order of ``classes.txt``."""
    without: list[str] = field(default_factory=list)
    """Classes without a common attribute."""
    bad: list[str] = field(default_factory=list)
    """Lines that cannot be read, the first twenty: file, number, what is wrong."""
    n_bad: int = 0
    """How many there are."""
    lines: int = 0
    """Labels that were read."""


def cub_schemas(
    folder: str | Path,
    *,
    share: float = SHARE,
    certainty: int = CERTAINTY,
    existence: str | None = EXISTENCE,
    told: Callable[[int], None] = lambda lines: None,
) -> CubSchemas:
    """The schemas of the classes of a set; the labels are read as a stream.

    ``told`` hears, every hundred thousand, how many labels were read. Lines that cannot be read
    (the set's own file has a few with fields too many) are named and left out. Raises
    ``SchemaError`` if a file is missing, more than a hundredth of it cannot be read, or a number
    is out of range.
    """
    if not 0.0 < share <= 1.0:
        raise SchemaError(f"the share is {share}: it must lie above 0, at most at 1")
    if certainty not in (1, 2, 3, 4):
        raise SchemaError(f"the certainty is {certainty}: use 1, 2, 3 or 4")
    root = Path(folder)
    made = CubSchemas()
    digest = hashlib.sha256(f"{share} {certainty}".encode())
    classes = _names(_file(root, "classes.txt"), made)
    attributes = {
        id_: _attribute(name, made, id_)
        for id_, name in _names(_file(root, "attributes.txt", "../attributes.txt",
                                      "attributes/attributes.txt"), made).items()
    }  # fmt: skip
    class_of = _names(_file(root, "image_class_labels.txt"), made)
    unknown = sorted(set(class_of.values()) - set(classes))
    if unknown:
        raise SchemaError(f"image_class_labels.txt names classes {unknown[:5]} not in classes.txt")
    # (class, attribute) → pictures that say yes, and pictures that say anything
    marked: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    labels = _file(root, "attributes/image_attribute_labels.txt", "image_attribute_labels.txt")
    for number, line in _lines(labels):
        made.lines += 1
        if made.lines % 100_000 == 0:
            told(made.lines)
        digest.update(line.encode("utf-8", "surrogateescape"))
        parts = line.split()
        problem = _label_problem(parts, class_of, attributes)
        if problem:
            _bad(made, labels, number, problem)
            continue
        if int(parts[3]) >= certainty:
            counts = marked[class_of[parts[0]], parts[1]]
            counts[0] += parts[2] == "1"
            counts[1] += 1
    if made.n_bad > _WORST * max(made.lines, 1):
        raise SchemaError(
            f"{labels}: {made.n_bad} of {made.lines} lines cannot be read: "
            f"{'; '.join(made.bad[:3])}. A line is: image attribute is_present certainty seconds"
        )
    for class_id, name in classes.items():
        common = [
            attribute
            for id_, attribute in attributes.items()
            if attribute is not None
            and (found := marked.get((class_id, id_))) is not None
            and found[0] >= share * found[1]
            and found[0]
        ]
        title = re.sub(r"^\d+\.", "", name).replace("_", " ").strip()
        if not common:
            made.without.append(title)
            continue
        made.schemas.append(
            AttributeSchema(
                name=title,
                made_by="cub",
                source=digest.hexdigest(),
                existence=existence,
                attributes=tuple(dict.fromkeys(common)),
            )
        )
    return made


def attribute_of(name: str) -> SchemaAttribute:
    """The attribute of a name such as ``has_bill_shape::curved_(up_or_down)``: part ``bill``,
    description ``curved (up or down) in shape``. Raises ``SchemaError`` for another form."""
    match = re.fullmatch(r"has_([a-z_-]+?)::(\S+)", name)
    if match is None:
        raise SchemaError(f"{name!r} is no attribute: write has_PART_KIND::VALUE")
    before, _, kind = match[1].rpartition("_")
    manner = _MANNERS.get(kind)
    if manner is None:
        raise SchemaError(f"{name!r} is of no known kind: there are {', '.join(_MANNERS)}")
    part = _PARTLESS.get(before or kind, (before or kind).replace("_", " "))
    value = match[2].replace("_", " ").strip()
    # "rounded-wings" of a wing, "forked tail" of a tail
    value = re.sub(rf"[- ]{re.escape(part)}s?$", "", value) or value
    return SchemaAttribute(part=part, description=manner.format(value))


def _attribute(name: str, made: CubSchemas, id_: str) -> SchemaAttribute | None:
    try:
        return attribute_of(name)
    except SchemaError as error:
        made.n_bad += 1
        made.bad.append(f"attributes.txt, {id_}: {error}")
        return None


def _label_problem(
    parts: list[str], images: Mapping[str, str], attributes: Mapping[str, object]
) -> str:
    """What is wrong with a line of labels; empty if nothing is."""
    if len(parts) != 5:
        return f"{len(parts)} fields in place of 5"
    if parts[0] not in images:
        return f"image {parts[0]} has no class"
    if parts[1] not in attributes:
        return f"there is no attribute {parts[1]}"
    if parts[2] not in ("0", "1"):
        return f"is_present is {parts[2]!r} in place of 0 or 1"
    if parts[3] not in ("1", "2", "3", "4"):
        return f"certainty is {parts[3]!r} in place of 1 to 4"
    return ""


def _names(file: Path, made: CubSchemas) -> dict[str, str]:
    """Id → name of a file of ``ID NAME`` lines."""
    found: dict[str, str] = {}
    for number, line in _lines(file):
        id_, _, name = line.partition(" ")
        if not id_.isdecimal() or not name.strip():
            _bad(made, file, number, f"{line[:60]!r} is no id with a name")
        elif id_ in found:
            _bad(made, file, number, f"the id {id_} stands there twice")
        else:
            found[id_] = name.strip()
    if not found:
        raise SchemaError(f"{file}: it has no lines of an id and a name")
    return found


def _bad(made: CubSchemas, file: Path, number: int, problem: str) -> None:
    made.n_bad += 1
    if len(made.bad) < _NAMED:
        made.bad.append(f"{file.name}, line {number}: {problem}")


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as lines:
            for number, line in enumerate(lines, start=1):
                if text := line.strip():
                    yield number, text
    except OSError as error:
        raise SchemaError(f"{file} cannot be read: {error.strerror or error}") from error


def _file(root: Path, *places: str) -> Path:
    for place in places:
        if (root / place).is_file():
            return root / place
    raise SchemaError(
        f"there is no {root / places[0]}: name the folder of the set, CUB_200_2011, with "
        "classes.txt, image_class_labels.txt and attributes/image_attribute_labels.txt"
    )
