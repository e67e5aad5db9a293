"""Several scorers over the same rated objects: resumable, side by side, ready to be evaluated.

What was scored is kept in one file a scorer, named by its fingerprint, a line an object. A run that
starts again reads it and asks for the rest; objects that failed are asked about again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scenewright.core.images import ImageError, load_image
from scenewright.core.ports.vision import ObjectRealism, RealismError, RealismScorer
from scenewright.evals.human_ratings.objects.data import RatedObject
from scenewright.tools.vision.realism.vlm import MOST, Example, Examples

AT_ONCE = 4
"""Pictures that one scorer works on at a time."""
OnScored = Callable[[str, int], None]
"""Is told a scorer's id and how many objects it has done, now or before."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """What one scorer says of a set."""

    scorer: str
    """Its id."""
    fingerprint: str
    """Its fingerprint."""
    scores: tuple[ObjectRealism, ...]
    """One an object, in the order of the set."""
    found: int
    """How many were kept from before, and cost nothing now."""

    @property
    def usd(self) -> float:
        """Dollars of all, those from before included."""
        return sum(score.usd for score in self.scores)

    @property
    def failed(self) -> int:
        """Objects without any score."""
        return sum(not _scored(score) for score in self.scores)


def examples_of(folder: str | os.PathLike[str], objects: Sequence[RatedObject]) -> Examples:
    """Examples from a set in ``folder``: of its training part, or of objects without a part.

    Raises ``RealismError`` if all objects are of other parts.
    """
    root = Path(folder)
    usable = [item for item in objects if item.split in (None, "train")]
    if objects and not usable:
        raise RealismError(
            f"all {len(objects)} objects are for validation or test: examples come from training"
        )
    return Examples(
        tuple(Example(o.id, root / o.image, o.category, o.box, o.shape, o.texture) for o in usable),
        MOST,
    )


async def compare(
    scorers: Sequence[RealismScorer],
    folder: str | os.PathLike[str],
    objects: Sequence[RatedObject],
    *,
    kept: str | os.PathLike[str],
    at_once: int = AT_ONCE,
    heard: OnScored = lambda scorer, n: None,
) -> list[Predictions]:
    """What each of ``scorers`` says of ``objects``, whose pictures are in ``folder``.

    All scorers work at the same time, each on ``at_once`` pictures. ``kept``: the folder of what
    was scored before. A picture that cannot be read fails its objects. Raises ``RealismError`` for
    a scorer that cannot be loaded, two scorers of one fingerprint, or a folder that cannot be
    written; what was done by then is kept.
    """
    prints = [scorer.fingerprint for scorer in scorers]
    if len(set(prints)) < len(prints):
        raise RealismError("two of the scorers are the same: give each once")
    pictures: dict[str, list[int]] = {}
    for at, item in enumerate(objects):
        pictures.setdefault(item.image, []).append(at)
    digests = await asyncio.to_thread(_digests, Path(folder), pictures)
    keys = [_key(digests[item.image], item) for item in objects]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    _one(scorer, Path(folder), objects, pictures, keys, Path(kept), at_once, heard)
                )
                for scorer in scorers
            ]
    except* RealismError as several:
        # Whichever came first says what to mend; the others would come again.
        raise _first(several) from None
    return [task.result() for task in tasks]


async def _one(
    scorer: RealismScorer,
    folder: Path,
    objects: Sequence[RatedObject],
    pictures: Mapping[str, Sequence[int]],
    keys: Sequence[str],
    kept: Path,
    at_once: int,
    heard: OnScored,
) -> Predictions:
    file = kept / f"{hashlib.sha256(scorer.fingerprint.encode()).hexdigest()[:16]}.jsonl"
    known = await asyncio.to_thread(_read, file, scorer)
    scores = [known.get(key) for key in keys]
    found = sum(score is not None for score in scores)
    if found:
        heard(scorer.id, found)
    waiting = iter(
        [
            (image, missing)
            for image, members in pictures.items()
            if (missing := [at for at in members if scores[at] is None])
        ]
    )

    async def work() -> None:
        for image, missing in waiting:
            try:
                shown = await asyncio.to_thread(load_image, folder / image)
                said = await scorer.score(shown, [objects[at].detection for at in missing])
            except ImageError as error:
                said = [ObjectRealism(None, None, reason=str(error)) for _ in missing]
            for at, score in zip(missing, said, strict=True):
                scores[at] = score
            lines = [
                _line(keys[at], objects[at], score)
                for at, score in zip(missing, said, strict=True)
                if _scored(score) and not score.reason
            ]
            # One append a picture, here: two workers can never mix their lines.
            _append(file, lines)
            heard(scorer.id, len(missing))

    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, at_once)):
            group.create_task(work())
    done = tuple(score for score in scores if score is not None)
    return Predictions(scorer.id, scorer.fingerprint, done, found)


def _scored(score: ObjectRealism) -> bool:
    return any(value is not None for value in (score.shape, score.texture, score.joint))


def _digests(folder: Path, pictures: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name in pictures:
        try:
            found[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError:
            # It fails where it is loaded, with its reason.
            found[name] = ""
    return found


def _key(picture: str, item: RatedObject) -> str:
    """By what a scorer is shown: an id or a file that is renamed changes no score."""
    text = json.dumps([picture, item.category, item.box])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _line(key: str, item: RatedObject, score: ObjectRealism) -> str:
    return json.dumps({"key": key, "id": item.id, **asdict(score)}, allow_nan=False) + "\n"


def _append(file: Path, lines: Sequence[str]) -> None:
    if not lines:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as stream:
            stream.write("".join(lines).encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise RealismError(
            f"what was scored cannot be written to {file}: {error}. Make room, then run the same "
            "again: what is done is kept"
        ) from error


def _read(file: Path, scorer: RealismScorer) -> dict[str, ObjectRealism]:
    """What is kept; a line that a kill cut off is taken out, for the next one follows it."""
    try:
        data = file.read_bytes() if file.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(file, len(whole))
    except OSError as error:
        raise RealismError(f"what was scored before cannot be read: {error}") from error
    found: dict[str, ObjectRealism] = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            entry = json.loads(line)
            key = str(entry.pop("key"))
            entry.pop("id", None)
            found[key] = ObjectRealism(**entry)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RealismError(
                f"{file}, line {number}: what was kept of {scorer.id} cannot be read ({error}): "
                "remove the line, its object is scored again"
            ) from error
    return found


def _first(group: BaseExceptionGroup[RealismError]) -> RealismError:
    for error in group.exceptions:
        return _first(error) if isinstance(error, BaseExceptionGroup) else error
    raise AssertionError("a group of exceptions is never empty")
