"""What an evaluation finds before it begins: pictures that a person brings, items to score.

A folder is read as one of these layouts, the first that names the picture:

- ``pictures.csv`` in it (or that file in place of the folder): columns ``item`` and ``file``, and
  ``seed`` and ``backend`` where there are several;
- ``BACKEND/SEED/ITEM.png`` or ``SEED/ITEM.png``;
- ``ITEM/samples/0003.png`` beside ``ITEM/metadata.jsonl`` (GenEval): the number is the seed, the
  folder that of the item's id or prompt;
- ``PROMPT_000003.png`` (T2I-CompBench): the number is the seed;
- ``ITEM.png``: one picture an item, for one seed.

A slash in an item's id is an underscore in names; every ending of :data:`ENDINGS` will do, in any
case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from scenewright.core.images import ENDINGS
from scenewright.evals.datasets.base import NO_SCENE, Dataset, Item
from scenewright.evals.datasets.reading import json_lines, rows_of
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import Metric
from scenewright.evals.runner.config import Arm

MANIFEST = "pictures.csv"
_METADATA, _SAMPLES = "metadata.jsonl", "samples"
_NUMBERED = re.compile(r"(?P<stem>.+)_(?P<number>\d+)")
_SHOWN = 3
_READ_PROMPTS = (
    'give the set a column of scenes, or write options = {parse = "rules"} under [dataset] to read '
    "its prompts"
)

Names = Mapping[str, list[Path]]
Numbers = Mapping[tuple[str, int], list[Path]]


class GivenPictures:
    """The pictures below one folder, found by name once."""

    def __init__(self, place: Path) -> None:
        """Use the folder or manifest ``place``. Raises ``EvalError`` if there is none."""
        self.place = place
        self._folders: dict[Path, Names] = {}
        self._numbered: dict[Path, Numbers] = {}
        if not place.exists():
            raise EvalError(f"there is no folder {place} of given pictures: check the name")

    def files(self, item: Item, backend: str, seed: int) -> list[Path]:
        """Return the files that the first layout which knows the picture has for it."""
        name = item.id.replace("/", "_")
        if self._manifest is not None:
            keys = [(item.id, b, s) for b in (backend, "") for s in (str(seed), "")]
            return next((self._manifest[key] for key in keys if key in self._manifest), [])
        for folder in (self.place / backend / str(seed), self.place / str(seed)):
            if found := self._names(folder).get(name):
                return found
        sampled = self._samples.get(item.id) or self._samples.get(item.prompt)
        if sampled is not None:
            return self._numbers(sampled / _SAMPLES).get(("", seed), [])
        if found := self._numbers(self.place).get((item.prompt, seed)):
            return found
        return self._names(self.place).get(name, [])

    def file(self, item: Item, backend: str, seed: int) -> Path:
        """Return the picture of ``item``. Raises ``EvalError`` if there is none, or are several."""
        found = self.files(item, backend, seed)
        if not found:
            name = item.id.replace("/", "_")
            raise EvalError(
                f"there is no picture of the item {item.id!r} in {self.place} for the seed {seed}: "
                f"name it {name}.png or {seed}/{name}.png, or list it in a {MANIFEST}"
            )
        if len(found) > 1:
            raise EvalError(
                f"{found[0]} and {found[1].name} are both a picture of the item {item.id!r}: keep "
                "one"
            )
        if not found[0].is_file():
            raise EvalError(f"there is no file {found[0]}, the picture of the item {item.id!r}")
        return found[0]

    @cached_property
    def _manifest(self) -> dict[tuple[str, str, str], list[Path]] | None:
        file = self.place if self.place.is_file() else self.place / MANIFEST
        if not file.is_file():
            return None
        found: dict[tuple[str, str, str], list[Path]] = {}
        for _, row in rows_of(file, ("item", "file")):
            key = (row["item"], row.get("backend", ""), row.get("seed", ""))
            found.setdefault(key, []).append(file.parent / row["file"])
        return found

    @cached_property
    def _samples(self) -> dict[str, Path]:
        """Return id and prompt → folder of an item's samples."""
        found: dict[str, Path] = {}
        for notes in sorted(self.place.glob(f"*/{_METADATA}")):
            found[notes.parent.name] = notes.parent
            for _, note in json_lines(notes):
                found.setdefault(str(note.get("prompt", "")), notes.parent)
        return found

    def _names(self, folder: Path) -> Names:
        """Return name → pictures of a folder."""
        if folder not in self._folders:
            found: dict[str, list[Path]] = {}
            for file in sorted(folder.iterdir()) if folder.is_dir() else ():
                if file.suffix.lower() in ENDINGS:
                    found.setdefault(file.stem, []).append(file)
            self._folders[folder] = found
        return self._folders[folder]

    def _numbers(self, folder: Path) -> Numbers:
        """Return (name without its number, number) → pictures of a folder."""
        if folder not in self._numbered:
            found: dict[tuple[str, int], list[Path]] = {}
            for name, files in self._names(folder).items():
                if name.isdecimal():
                    found.setdefault(("", int(name)), []).extend(files)
                elif split := _NUMBERED.fullmatch(name):
                    found.setdefault((split["stem"], int(split["number"])), []).extend(files)
            self._numbered[folder] = found
        return self._numbered[folder]


def folder_of(arm: Arm, root: Path) -> Path:
    """Return the folder, or manifest, of the pictures of an arm that draws none."""
    return root / Path(arm.spec.folder or "").expanduser()


def check_items(arms: Sequence[Arm], metrics: Sequence[Metric], items: Dataset, root: Path) -> None:
    """Raise ``EvalError`` if no item can be scored, or given pictures do not fit the items."""
    if all(metric.needs & {"scene", "judges"} for metric in metrics):
        items_with = (item for item in items if item.scene is not None or item.facts)
        if next(items_with, None) is None:
            count, first = 0, ""
            for count, item in enumerate(items, start=1):  # noqa: B007 - the last one counts
                first = first or item.meta.get(NO_SCENE, "")
            raise EvalError(
                f"0 of {count} items have a scene, which every metric here needs: "
                + (f"the first could not be read ({first})" if first else _READ_PROMPTS)
            )
    check_given(arms, items, root)


def check_given(arms: Sequence[Arm], items: Iterable[Item], root: Path) -> None:
    """Raise ``EvalError`` unless each item of every arm with given pictures has one of its own."""
    given = [arm for arm in arms if arm.spec.source == "given"]
    if not given:
        return
    places = {folder_of(arm, root) for arm in given}
    pictures = {place: GivenPictures(place) for place in places}
    lost: list[str] = []
    refused = any(arm.spec.missing == "stop" for arm in given)
    serves: dict[Path, tuple[str, int]] = {}
    count = 0
    for item in items:
        for arm in given:
            count += 1
            try:
                file = pictures[folder_of(arm, root)].file(item, arm.backend, arm.seed)
            except EvalError as error:
                lost.append(str(error))
                continue
            other = serves.setdefault(file, (item.id, arm.seed))
            if other != (item.id, arm.seed):
                raise EvalError(
                    f"{file} would be the picture of the item {item.id!r} for the seed {arm.seed} "
                    f"and of {other[0]!r} for {other[1]}: list one seed, put the pictures into a "
                    f"folder for each seed (0/ITEM.png), or name them in a {MANIFEST}"
                )
    if lost and (refused or len(lost) == count):
        more = f"; and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        raise EvalError(
            f"{len(lost)} of {count} pictures cannot be used: {'; '.join(lost[:_SHOWN])}{more}. "
            'Items without one count as failed with missing = "fail" in the condition'
        )
