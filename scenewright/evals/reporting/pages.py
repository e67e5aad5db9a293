"""Static pages: templates, shared styles, thumbnails, and folders that appear as a whole."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined
from PIL import Image

from scenewright.core.images import ImageError, load_image
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.words import (
    count,
    dollars,
    p_value,
    probability,
    score,
    signed,
    whole,
)
from scenewright.runs.report import words

POLICY = "default-src 'none'; img-src 'self' file: data:; style-src 'self' file: 'unsafe-inline'"
"""Content security policy of a page without scripts: nothing is loaded but what lies beside it.
Style attributes are those of drawings and of widths."""
POLICY_WITH_SCRIPTS = f"{POLICY}; script-src 'self' file:"
"""The same where the page's own script, and its data as scripts, are loaded from files."""


def asset(name: str) -> str:
    """Return the text of an asset of the reports or, shared with the run page, of ``runs/report``.

    Raises ``FileNotFoundError`` for any other.
    """
    for package in ("scenewright.evals.reporting", "scenewright.runs.report"):
        found = files(package).joinpath("assets", name)
        if found.is_file():
            return found.read_text(encoding="utf-8")
    raise FileNotFoundError(name)


def render(template: str, **given: Any) -> str:
    """Return the page of ``template`` with ``given``; all text is escaped."""
    return _environment().get_template(template).render(**given)


def render_text(template: str, **given: Any) -> str:
    """Return the Markdown of ``template`` with ``given``; nothing is escaped."""
    text = environment(FunctionLoader(asset), escapes=False).get_template(template).render(**given)
    # What has been left out leaves no gap.
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def environment(
    loader: BaseLoader, *, escapes: bool = True, **filters: Callable[..., str]
) -> Environment:
    """Return an environment for templates: unknown names are errors.

    All text is escaped for HTML, unless ``escapes`` is False: for Markdown.
    """
    made = Environment(
        loader=loader,
        autoescape=escapes,
        keep_trailing_newline=not escapes,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= filters
    return made


@functools.cache
def _environment() -> Environment:
    made = environment(
        FunctionLoader(asset),
        dollars=dollars,
        count=count,
        score=score,
        signed=signed,
        whole=whole,
        p_value=p_value,
        probability=probability,
        duration=words.duration,
        moment=_moment,
        plain_json=functools.partial(json.dumps, ensure_ascii=False),
    )
    made.globals |= {"symbols": words.SYMBOLS, "meanings": words.MEANINGS}
    return made


def _moment(told: str) -> str:
    """Return a time in ISO 8601 as pages show it; one in another form stays as it is."""
    try:
        return words.moment(datetime.fromisoformat(told))
    except ValueError:
        return told


SIDE = 320
"""Longest side in pixels: that of a picture in the list, for dense screens."""
_NAME = 20
"""Hex digits of a thumbnail's name."""


class Thumbs:
    """Thumbnails in ``folder``, made by threads.

    Existing ones are kept, so that an interrupted or repeated report makes only new ones. A picture
    that is missing or damaged has no thumbnail and is counted.
    """

    def __init__(self, folder: Path, images: Path) -> None:
        """``images`` is the evaluation's image store."""
        self.folder = folder
        self.lost = 0
        """Pictures that are named in the tables and could not be read."""
        self._images = images
        self._pool = ThreadPoolExecutor(max_workers=max(1, min(4, os.cpu_count() or 1)))
        self._waiting: list[Future[bool]] = []
        self._tried: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self._there = {file.stem for file in folder.glob("*.webp")}

    def of_hash(self, image: str) -> str:
        """Return the name of the thumbnail of a picture by its hash; empty without such a file.

        The file may be written a little later: see :meth:`wait`.
        """
        if not image or not all(c in "0123456789abcdef" for c in image):
            return ""
        return self._of(image[:_NAME], self._images / f"{image}.png")

    def of_file(self, file: str) -> str:
        """Return the name of the thumbnail of a photo by its path, as :meth:`of_hash`."""
        if not file:
            return ""
        path = Path(file)
        try:
            mark = f"{path.stat().st_size} {path.stat().st_mtime_ns}"
        except (OSError, ValueError):
            self.lost += 1
            return ""
        name = hashlib.sha256(f"{file} {mark}".encode()).hexdigest()[:_NAME]
        return self._of(name, path)

    def _of(self, name: str, path: Path) -> str:
        if name in self._there or name in self._tried:
            return name
        if not path.is_file():
            self.lost += 1
            return ""
        self._tried.add(name)
        self._waiting.append(self._pool.submit(_write, path, self.folder / f"{name}.webp"))
        return name

    def wait(self) -> None:
        """Wait for all requested thumbnails."""
        for future in self._waiting:
            self.lost += not future.result()
        self._waiting.clear()

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _write(path: Path, place: Path) -> bool:
    try:
        image = load_image(path)
    except ImageError:
        return False
    # A small picture is enlarged smoothly by the page, at no cost in bytes.
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
    draft = place.with_name(f".{place.stem}.{secrets.token_hex(4)}.tmp")
    image.save(draft, "WEBP", quality=82, method=3)
    draft.replace(place)
    return True


class ChoiceError(EvalError):
    """Arms, scores or a folder that do not fit the evaluation; lists valid ones."""


MARK = "report.json"
"""The file that tells a folder that may be replaced from one that holds something else."""
_KIND = "scenewright-report"


@contextmanager
def building(place: Path, keep: str) -> Iterator[Path]:
    """Yield an empty folder that becomes ``place`` when the block ends without an error.

    The folder ``keep`` of the old or an interrupted report is already in it. Raises ``EvalError``
    if ``place`` holds something other than a report, if another process is building it, or if the
    disk cannot be written.
    """
    if place.exists() and not _replaceable(place):
        raise ChoiceError(
            f"{place} is there and holds no report: name another folder with --out, "
            "so that nothing is lost"
        )
    draft = place.with_name(f".{place.name}.building")
    try:
        draft.mkdir(parents=True, exist_ok=True)
        lock = open(place.with_name(f".{place.name}.lock"), "w")  # noqa: SIM115
    except OSError as error:
        raise _unwritable(place, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EvalError(f"another process is making the report {place}: wait for it") from error
        try:
            _clear(draft, keep)
            if (place / keep).is_dir() and not (draft / keep).exists():
                # Links, not copies: a file is never changed once it is there.
                shutil.copytree(place / keep, draft / keep, copy_function=_link)
            yield draft
            (draft / MARK).write_text(json.dumps({"kind": _KIND}) + "\n", encoding="utf-8")
            _swap(draft, place)
        except OSError as error:
            raise _unwritable(place, error) from error
        finally:
            Path(lock.name).unlink(missing_ok=True)


def _replaceable(place: Path) -> bool:
    if not place.is_dir():
        return False
    try:
        kind: str = json.loads((place / MARK).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return not any(place.iterdir())
    return kind == _KIND


def _clear(folder: Path, keep: str) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            if entry.name != keep:
                shutil.rmtree(entry)
        else:
            entry.unlink()


def _link(source: str, target: str) -> None:
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _swap(draft: Path, place: Path) -> None:
    old = place.with_name(f".{place.name}.old")
    if old.exists():
        shutil.rmtree(old)
    if place.exists():
        place.rename(old)
    draft.rename(place)
    if old.exists():
        shutil.rmtree(old)


def _unwritable(place: Path, error: OSError) -> EvalError:
    return EvalError(
        f"{place} cannot be written ({error.strerror or error}): make the folder writable or free "
        "some space"
    )
