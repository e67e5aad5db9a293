"""Fetching what was planned: goes on where it stopped, and believes no file unchecked.

A large file grows in the cache under its own name with a suffix, so that the next try continues
it; it takes its place once its SHA-256 is the one that the hub lists. The rest of the cache's
layout is left to huggingface_hub.
"""

from __future__ import annotations

import glob
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from huggingface_hub import constants, hf_hub_download, hf_hub_url, snapshot_download
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import WeakFileLock, build_hf_headers  # type: ignore[attr-defined]
from huggingface_hub.utils.tqdm import tqdm as hub_tqdm

from scenewright.providers.hub.cache import cache_folder
from scenewright.providers.hub.disk import PARTIAL, sha256_of
from scenewright.providers.hub.errors import HubError, explained
from scenewright.providers.hub.plan import HubFile, RepositoryPlan, blob_of, here, pointer_of

WORKERS = 4


class Stopped(Exception):
    """Another file failed, or the user pressed Ctrl-C: what is here stays for the next try."""


@dataclass(slots=True)
class PullCallbacks:
    """What a pull tells while it works; may be called from several threads."""

    moved: Callable[[int], None] = lambda count: None
    """Bytes that arrived; less than 0 where some must come again."""
    checked: Callable[[int], None] = lambda count: None
    """Bytes whose digest was computed."""
    told: Callable[[str], None] = lambda text: None
    """What a person should know, such as a damaged file."""


@dataclass(slots=True)
class Pulled:
    """What a pull did."""

    fetched: list[str] = field(default_factory=list)
    """``repository/file`` of what was not here."""
    damaged: list[str] = field(default_factory=list)
    """The same of files that were here, or arrived, with the wrong content and came again."""


def pull(plans: Iterable[RepositoryPlan], watch: PullCallbacks | None = None) -> Pulled:
    """Fetches and checks the files of ``plans``, repository by repository.

    Every needed file is checked, also those that were here: large ones by SHA-256, small ones by
    git's object id. What is damaged comes again, once. Raises ``HubError``; what has arrived by
    then stays and is not fetched again.
    """
    watch, done = watch or PullCallbacks(), Pulled()
    for plan in plans:
        if plan.refusal is not None:
            raise HubError(plan.refusal)
        try:
            _pull(plan, watch, done)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            raise explained(error, plan.need.repository) from error
    return done


def _pull(plan: RepositoryPlan, watch: PullCallbacks, done: Pulled) -> None:
    name = plan.need.repository
    absent = [file for file in plan.files if not _lies_here(plan, file)]
    done.fetched += [f"{name}/{file.name}" for file in absent]
    # A file whose digest was compared when it arrived is not read again.
    sure: set[str] = set()
    _fetch(plan, absent, watch, sure)
    _settle(plan)
    bad = _damaged(plan, watch, sure)
    for file in bad:
        watch.told(f"{name}/{file.name} is damaged: it is fetched again")
        done.damaged.append(f"{name}/{file.name}")
        _forget(plan, file)
        watch.moved(-file.size)
    if bad:
        _fetch(plan, bad, watch, sure)
        _settle(plan)
        if still := _damaged(plan, watch, sure):
            for file in still:
                _forget(plan, file)
            raise HubError(
                f"{name}/{still[0].name} came twice with content that the hub does not list: a "
                "proxy or mirror on the way may change it (HF_ENDPOINT); pull again later"
            )


def _lies_here(plan: RepositoryPlan, file: HubFile) -> bool:
    return pointer_of(plan, file).is_file() or blob_of(plan, file).is_file()


def _fetch(
    plan: RepositoryPlan, files: list[HubFile], watch: PullCallbacks, sure: set[str]
) -> None:
    """Large files into the cache's blobs, small ones to their place, a few at a time."""
    stop = threading.Event()

    def fetch(file: HubFile) -> None:
        if stop.is_set():
            return
        try:
            arrive(file)
        except BaseException:
            stop.set()
            raise

    def arrive(file: HubFile) -> None:
        if file.sha256 is None or file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
            hf_hub_download(
                plan.need.repository,
                file.name,
                revision=plan.commit,
                tqdm_class=_Silent,
            )
            watch.moved(file.size)
        else:
            _fetch_large(plan, file, watch, stop)
            sure.add(file.name)

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="pull") as pool:
        jobs = [pool.submit(fetch, file) for file in sorted(files, key=lambda f: -f.size)]
        try:
            # The cause of an end is told, not that the others were stopped for it.
            errors = [error for job in jobs if (error := job.exception()) is not None]
        except BaseException:
            stop.set()
            raise
    if errors:
        raise next((e for e in errors if not isinstance(e, Stopped)), errors[0])


def _fetch_large(
    plan: RepositoryPlan, file: HubFile, watch: PullCallbacks, stop: threading.Event
) -> None:
    blob = blob_of(plan, file)
    partial = blob.with_name(blob.name + PARTIAL)
    blob.parent.mkdir(parents=True, exist_ok=True)
    lock = cache_folder() / ".locks" / blob.parent.parent.name / f"{blob.name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    url = hf_hub_url(
        plan.need.repository, file.name, revision=plan.commit, endpoint=constants.ENDPOINT
    )
    with WeakFileLock(lock):
        if blob.is_file():
            return
        for last in (False, True):
            # Longer than the whole: whatever that is, it is not the beginning of it.
            if partial.is_file() and partial.stat().st_size > file.size:
                partial.unlink()
            with partial.open("ab") as stream:
                http_get(
                    url,
                    stream,
                    resume_size=stream.tell(),
                    headers=build_hf_headers() | {"accept-encoding": "identity"},
                    expected_size=file.size,
                    tqdm_class=_bar(watch, stop),
                )
            if sha256_of(partial, watch.checked) == file.sha256:
                os.replace(partial, blob)
                return
            partial.unlink()
            if last:
                raise HubError(
                    f"{plan.need.repository}/{file.name} came twice with content that the hub "
                    "does not list: a proxy or mirror on the way may change it (HF_ENDPOINT); "
                    "pull again later"
                )
            watch.told(f"{plan.need.repository}/{file.name} arrived damaged: it comes again")
            watch.moved(-file.size)
            watch.checked(-file.size)


def _settle(plan: RepositoryPlan) -> None:
    """Links of the snapshot, the listing and the branch's place, as huggingface_hub writes them."""
    folder = snapshot_download(
        plan.need.repository,
        allow_patterns=[glob.escape(file.name) for file in plan.files],
        tqdm_class=_Silent,
    )
    if Path(folder).name != plan.commit:
        raise HubError(
            f"{plan.need.repository} changed on the hub while it was fetched: pull again"
        )


def _damaged(plan: RepositoryPlan, watch: PullCallbacks, sure: set[str]) -> list[HubFile]:
    bad = []
    for file in plan.files:
        place = pointer_of(plan, file)
        if file.name not in sure and not (place.is_file() and _whole(place, file, watch)):
            bad.append(file)
        else:
            sure.add(file.name)
    return bad


def _whole(place: Path, file: HubFile, watch: PullCallbacks) -> bool:
    if place.stat().st_size != file.size:
        return False
    if file.sha256 is not None:
        return sha256_of(place, watch.checked) == file.sha256
    content = place.read_bytes()
    watch.checked(len(content))
    # Git names an object by the SHA-1 of its kind, its length and its content.
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == file.blob


def _forget(plan: RepositoryPlan, file: HubFile) -> None:
    place = pointer_of(plan, file)
    for path in (place.resolve(), place, blob_of(plan, file)):
        path.unlink(missing_ok=True)


def bytes_left(plans: Iterable[RepositoryPlan]) -> int:
    """Bytes that are still to come."""
    return sum(file.size - here(plan, file) for plan in plans for file in plan.files)


class _Silent(hub_tqdm):
    """The library's own bars are not shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"disable": True}))  # type: ignore[no-untyped-call]


def _bar(watch: PullCallbacks, stop: threading.Event) -> Any:
    """What ``http_get`` takes for a bar: it counts, and ends the transfer when asked to."""

    class Bar:
        def __init__(self, *args: object, **kwargs: object) -> None:
            pass

        def update(self, count: int) -> None:
            watch.moved(count)
            if stop.is_set():
                raise Stopped

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __iter__(self) -> Iterator[Any]:
            return iter(())

    return Bar
