"""Fetch files from the hub: plan, download with resume, and verify every file.

A large file grows in the cache under its own name with a suffix, so that the next try continues it,
and takes its place once its SHA-256 is the one that the hub lists. The rest of the cache's layout
is left to huggingface_hub. Errors of the hub become sentences with a remedy.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx2
from huggingface_hub import HfApi, constants, hf_hub_download, hf_hub_url, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import WeakFileLock, build_hf_headers  # type: ignore[attr-defined]
from huggingface_hub.utils.tqdm import tqdm as hub_tqdm

from scenewright.core.error_text import error_text
from scenewright.providers.hub.cache import cache_folder, licence_in, licence_of, storage_folder
from scenewright.providers.hub.needs import (
    INDEX,
    MODULAR_INDEX,
    PARTIAL,
    Need,
    cards,
    free_bytes,
    known_repositories,
    lacking,
    plain_index,
    sha256_of,
    size_words,
    wanted_files,
)

LOG_IN = "`hf auth login` (or a token of yours in HF_TOKEN)"


class HubError(RuntimeError):
    """Models that could not be fetched; gives the reason and the next step."""


def hub_error(error: BaseException, repository: str) -> HubError:
    """Return a request's ``error`` about ``repository`` as a :class:`HubError`."""
    if isinstance(error, HubError):
        return error
    cause = error.__cause__
    if isinstance(error, LocalEntryNotFoundError) and isinstance(cause, Exception):
        return hub_error(cause, repository)
    return HubError(f"{repository}: {_reason(error, repository)}")


def _reason(error: BaseException, repository: str) -> str:
    page = f"{constants.ENDPOINT}/{repository}"
    if isinstance(error, GatedRepoError):
        entry = known_repositories().get(repository)
        licence = f" ({entry.licence})" if entry is not None else ""
        return (
            f"it is gated: open {page}, accept its licence{licence} with your account, log in here "
            f"with {LOG_IN}, and pull again"
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"{constants.ENDPOINT} has no such repository, or it is private: check the name; "
            f"if it is private, log in with {LOG_IN}"
        )
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, which forbids the network: unset it to pull"
    if isinstance(error, HfHubHTTPError):
        return _of_status(error.response.status_code, page)
    if isinstance(error, httpx2.HTTPError):
        return (
            f"{constants.ENDPOINT} cannot be reached ({error_text(error)}): check the "
            "network or the proxy (HF_ENDPOINT names a mirror), then pull again: what is here stays"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full: free some space or set HF_HOME to a larger disk, then pull again"
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{text}: pull again; what is here stays"


def _of_status(status: int, page: str) -> str:
    if status == 401:
        return f"the hub does not take your token (401): log in again with {LOG_IN}"
    if status == 403:
        return (
            f"the hub refuses access (403): look at {page} with the account that you log in "
            f"with ({LOG_IN})"
        )
    if status == 404:
        return f"a file that its listing names is not there (404): look at {page}, pull again"
    if status == 429:
        return "too many requests (429): wait some minutes, then pull again: what is here stays"
    return f"the hub answers {status}: pull again later; what is here stays"


TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file as the hub lists it."""

    name: str
    """Path in the repository."""
    size: int
    """Bytes."""
    sha256: str | None
    """Digest (hex) of a large file; None for the small ones that git itself holds."""
    blob: str
    """Git's object id: for a small file the SHA-1 of its header and content."""


@dataclass(frozen=True, slots=True)
class RepositoryPlan:
    """Files to fetch from one repository."""

    need: Need
    commit: str
    """Commit of the main branch."""
    files: tuple[HubFile, ...]
    licence: str | None
    gated: bool
    """Whether the licence must be accepted on the hub's page first."""
    refusal: str | None
    """Why the files cannot be fetched now; None if they can."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def size_here(self) -> int:
        """Cached bytes, parts of files included."""
        return sum(here(self, file) for file in self.files)


def blob_of(plan: RepositoryPlan, file: HubFile) -> Path:
    """Return the cache path of a large file, named by its digest."""
    return storage_folder(plan.need.repository) / "blobs" / (file.sha256 or file.blob)


def pointer_of(plan: RepositoryPlan, file: HubFile) -> Path:
    """Return the snapshot path of the file."""
    return storage_folder(plan.need.repository) / "snapshots" / plan.commit / file.name


def here(plan: RepositoryPlan, file: HubFile) -> int:
    """Return the cached bytes of ``file``."""
    pointer, blob = pointer_of(plan, file), blob_of(plan, file)
    if pointer.is_file() or blob.is_file():
        return file.size
    partial = blob.with_name(blob.name + PARTIAL)
    return min(partial.stat().st_size, file.size) if partial.is_file() else 0


def plan_of(
    needs: Iterable[Need], told: Callable[[str], None] = lambda text: None
) -> tuple[RepositoryPlan, ...]:
    """Plan the download of ``needs`` by the hub's listings.

    ``told`` is called with each repository. Raises ``HubError`` if the hub cannot be reached, has
    no such repository, or the repository lacks what a model of its kind must have. A gated
    repository is planned with its refusal.
    """
    plans = []
    api = HfApi()
    for need in needs:
        told(need.repository)
        try:
            plans.append(_plan(api, need))
        except (HubError, OSError, ValueError, RuntimeError) as error:
            raise hub_error(error, need.repository) from error
        except Exception as error:
            # httpx2 errors share no base with the built-in ones.
            raise hub_error(error, need.repository) from error
    return tuple(plans)


def check_disk(plans: Iterable[RepositoryPlan]) -> None:
    """Raise ``HubError`` if the download does not fit on the cache's disk."""
    rest = sum(plan.size - plan.size_here for plan in plans)
    free = free_bytes(cache_folder())
    if rest > free:
        raise HubError(
            f"{size_words(rest)} are still to come, but {cache_folder()} has only "
            f"{size_words(free)} free: free some space, or set HF_HOME to a folder on a larger disk"
        )


def _plan(api: HfApi, need: Need) -> RepositoryPlan:
    info = api.model_info(need.repository, timeout=TIMEOUT_SECONDS)
    if info.sha is None:
        raise HubError(f"{need.repository}: the hub names no commit of it: pull again later")
    listing = {
        entry.path: HubFile(
            entry.path,
            entry.lfs.size if entry.lfs is not None else entry.size,
            entry.lfs.sha256 if entry.lfs is not None else None,
            entry.blob_id,
        )
        for entry in api.list_repo_tree(need.repository, recursive=True, revision=info.sha)
        if isinstance(entry, RepoFile)
    }
    refusal = _refusal(api, need.repository) if info.gated else None
    index = _index(need, info.sha, listing) if refusal is None else None
    if refusal is None and (lost := lacking(need, listing, index)):
        raise HubError(
            f"{need.repository} has no {', '.join(lost)}: only models in the layout of "
            f"{'transformers' if need.kind == 'model' else 'diffusers'} with *.safetensors "
            "weights are used; name another repository"
        )
    names = {*wanted_files(need, listing, index), *cards(listing)}
    return RepositoryPlan(
        need,
        info.sha,
        tuple(listing[name] for name in sorted(names)),
        licence_in(info.card_data) or licence_of(need.repository, None),
        bool(info.gated),
        refusal,
    )


def _refusal(api: HfApi, repository: str) -> str | None:
    try:
        api.auth_check(repository)
    except (GatedRepoError, HfHubHTTPError) as error:
        return str(hub_error(error, repository))
    return None


def _index(need: Need, commit: str, listing: dict[str, HubFile]) -> dict[str, Any] | None:
    name = next((one for one in (INDEX, MODULAR_INDEX) if one in listing), None)
    if need.kind != "pipeline" or name is None:
        return None
    file = hf_hub_download(need.repository, name, revision=commit)
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise HubError(f"{need.repository}: its {name} holds no JSON object: delete {file}")
    return plain_index(found)


WORKERS = 4


class Stopped(Exception):
    """Another file failed, or the user pressed Ctrl-C; fetched files stay."""


@dataclass(slots=True)
class PullCallbacks:
    """Progress callbacks of a pull; may be called from several threads."""

    moved: Callable[[int], None] = lambda count: None
    """Called with arrived bytes; negative where some must come again."""
    checked: Callable[[int], None] = lambda count: None
    """Called with hashed bytes."""
    told: Callable[[str], None] = lambda text: None
    """Called with messages for people, such as a damaged file."""


@dataclass(slots=True)
class Pulled:
    """Result of a pull."""

    fetched: list[str] = field(default_factory=list)
    """``repository/file`` of fetched files."""
    damaged: list[str] = field(default_factory=list)
    """``repository/file`` of files with wrong content, which were fetched again."""


def pull(plans: Iterable[RepositoryPlan], watch: PullCallbacks | None = None) -> Pulled:
    """Fetch and verify the files of ``plans``, repository by repository.

    Every needed file is verified, also cached ones: large ones by SHA-256, small ones by git's
    object id. A damaged file is fetched again, once. Raises ``HubError``; what has arrived by then
    stays and is not fetched again.
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
            raise hub_error(error, plan.need.repository) from error
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
    """Fetch large files into the cache's blobs and small ones to their place, a few at a time."""
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
            # Report the cause, not the other downloads that were stopped because of it.
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
    """Write the snapshot's links, the listing and the branch, as huggingface_hub does."""
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
    """Return the bytes still to fetch."""
    return sum(file.size - here(plan, file) for plan in plans for file in plan.files)


class _Silent(hub_tqdm):
    """Progress bar of the library that shows nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"disable": True}))  # type: ignore[no-untyped-call]


def _bar(watch: PullCallbacks, stop: threading.Event) -> Any:
    """Return a progress bar for ``http_get`` that counts, and ends the transfer on request."""

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
