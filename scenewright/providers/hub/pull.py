"""Fetch files from the hub: plan, download with resume, and verify every file.

A file grows in the cache under its own name with a suffix, so that the next try continues it, and
takes its place once its digest is the one that the hub lists: SHA-256 of a large file, git's object
id of a small one. The rest of the cache's layout is left to huggingface_hub. Errors of the hub
become sentences with a remedy.
"""

from __future__ import annotations

import errno
import glob
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from huggingface_hub.utils.sha import git_hash
from huggingface_hub.utils.tqdm import tqdm as hub_tqdm

from scenewright.core.error_text import error_text
from scenewright.core.errors import ScenewrightError
from scenewright.providers.hub.cache import (
    cache_folder,
    licence_in,
    licence_of,
    read_index,
    storage_folder,
)
from scenewright.providers.hub.needs import (
    CARD,
    INDEX,
    MODULAR_INDEX,
    PARTIAL,
    Need,
    free_bytes,
    known_repositories,
    missing_files,
    sha256_of,
    size_words,
    wanted_files,
)

LOG_IN = "`hf auth login` (or a token of yours in HF_TOKEN)"
TIMEOUT_SECONDS = 20.0
WORKERS = 4
_STATUSES = {
    401: f"the hub does not take your token (401): log in again with {LOG_IN}",
    403: "the hub refuses access (403): look at {page} with the account that you log in "
    f"with ({LOG_IN})",
    404: "a file that its listing names is not there (404): look at {page}, pull again",
    429: "too many requests (429): wait some minutes, then pull again: what is here stays",
}


class HubError(ScenewrightError, RuntimeError):
    """Models that could not be fetched; gives the reason and the next step."""


def hub_error(error: BaseException, repository: str) -> HubError:
    """Return a request's ``error`` about ``repository`` as a :class:`HubError`."""
    if isinstance(error, HubError):
        return error
    if isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        return hub_error(error.__cause__, repository)
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
        status = error.response.status_code
        other = f"the hub answers {status}: pull again later; what is here stays"
        return _STATUSES.get(status, other).format(page=page)
    if isinstance(error, httpx2.HTTPError):
        return (
            f"{constants.ENDPOINT} cannot be reached ({error_text(error)}): check the "
            "network or the proxy (HF_ENDPOINT names a mirror), then pull again: what is here stays"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full: free some space or set HF_HOME to a larger disk, then pull again"
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{text}: pull again; what is here stays"


@dataclass(frozen=True, slots=True)
class RepositoryPlan:
    """Files to fetch from one repository."""

    need: Need
    commit: str
    """Commit of the main branch."""
    files: tuple[RepoFile, ...]
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
        return sum(self._bytes_here(file) for file in self.files)

    def _bytes_here(self, file: RepoFile) -> int:
        if self.place(file) is not None:
            return file.size
        partial = self.partial(file)
        return min(partial.stat().st_size, file.size) if partial.is_file() else 0

    def blob(self, file: RepoFile) -> Path:
        """Return the cache path of ``file``, whose name is its digest."""
        digest = file.blob_id if file.lfs is None else file.lfs.sha256
        return storage_folder(self.need.repository) / "blobs" / digest

    def partial(self, file: RepoFile) -> Path:
        """Return the cache path of ``file`` while it is incomplete."""
        blob = self.blob(file)
        return blob.with_name(blob.name + PARTIAL)

    def place(self, file: RepoFile) -> Path | None:
        """Return the path of ``file`` in the cached snapshot or among the blobs; None: not here."""
        snapshots = storage_folder(self.need.repository) / "snapshots"
        places = (snapshots / self.commit / file.path, self.blob(file))
        return next((place for place in places if place.is_file()), None)


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
        except Exception as error:
            raise hub_error(error, need.repository) from error
    return tuple(plans)


def bytes_left(plans: Iterable[RepositoryPlan]) -> int:
    """Return the bytes still to fetch."""
    return sum(plan.size - plan.size_here for plan in plans)


def check_disk(plans: Iterable[RepositoryPlan]) -> None:
    """Raise ``HubError`` if the download does not fit on the cache's disk."""
    rest = bytes_left(plans)
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
        entry.path: entry
        for entry in api.list_repo_tree(need.repository, recursive=True, revision=info.sha)
        if isinstance(entry, RepoFile)
    }
    refusal = _refusal(api, need.repository) if info.gated else None
    index = _index(need, info.sha, listing) if refusal is None else None
    if refusal is None and (lost := missing_files(need, listing, index)):
        raise HubError(
            f"{need.repository} has no {', '.join(lost)}: only models in the layout of "
            f"{'transformers' if need.kind == 'model' else 'diffusers'} with *.safetensors "
            "weights are used; name another repository"
        )
    names = {*wanted_files(need, listing, index), *filter(CARD.fullmatch, listing)}
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
    except HfHubHTTPError as error:
        return str(hub_error(error, repository))
    return None


def _index(need: Need, commit: str, listing: Mapping[str, RepoFile]) -> dict[str, Any] | None:
    name = next((one for one in (INDEX, MODULAR_INDEX) if one in listing), None)
    if need.kind != "pipeline" or name is None:
        return None
    file = Path(hf_hub_download(need.repository, name, revision=commit))
    if (found := read_index(file.parent)) is None:
        raise HubError(f"{need.repository}: its {name} holds no JSON object: delete {file}")
    return found


class Stopped(Exception):
    """Another file failed, or the user pressed Ctrl-C; fetched files stay."""


@dataclass(slots=True)
class PullCallbacks:
    """Progress callbacks of a pull; may be called from several threads."""

    moved: Callable[[int], None] = lambda count: None
    """Called with arrived bytes; negative where some must come again."""
    checked: Callable[[int], None] = lambda count: None
    """Called with hashed bytes."""
    message: Callable[[str], None] = lambda text: None
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
        except Exception as error:
            raise hub_error(error, plan.need.repository) from error
    return done


def _pull(plan: RepositoryPlan, watch: PullCallbacks, done: Pulled) -> None:
    repository, absent = plan.need.repository, []
    for file in plan.files:
        name, place = f"{repository}/{file.path}", plan.place(file)
        if place is None:
            done.fetched.append(name)
        elif _is_whole(place, file, watch):
            continue
        else:
            watch.message(f"{name} is damaged: it is fetched again")
            watch.moved(-file.size)
            done.damaged.append(name)
            for path in (place.resolve(), place, plan.blob(file)):
                path.unlink(missing_ok=True)
        absent.append(file)
    _fetch(plan, absent, watch)
    # Writes the snapshot's links, the listing and the branch.
    folder = snapshot_download(
        repository,
        allow_patterns=[glob.escape(file.path) for file in plan.files],
        tqdm_class=_Silent,
    )
    if Path(folder).name != plan.commit:
        raise HubError(f"{repository} changed on the hub while it was fetched: pull again")


def _is_whole(place: Path, file: RepoFile, watch: PullCallbacks) -> bool:
    if place.stat().st_size != file.size:
        return False
    if file.lfs is not None:
        return sha256_of(place, watch.checked) == file.lfs.sha256
    watch.checked(file.size)
    return git_hash(place.read_bytes()) == file.blob_id


def _fetch(plan: RepositoryPlan, files: Iterable[RepoFile], watch: PullCallbacks) -> None:
    """Fetch ``files`` into the cache's blobs, a few at a time and the largest first."""
    stop = threading.Event()

    def fetch(file: RepoFile) -> None:
        if not stop.is_set():
            _fetch_file(plan, file, watch, stop)

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="pull") as pool:
        jobs = [pool.submit(fetch, file) for file in sorted(files, key=lambda f: -f.size)]
        try:
            for job in as_completed(jobs):
                job.result()
        finally:
            stop.set()


def _fetch_file(
    plan: RepositoryPlan, file: RepoFile, watch: PullCallbacks, stop: threading.Event
) -> None:
    name, blob = f"{plan.need.repository}/{file.path}", plan.blob(file)
    lock = cache_folder() / ".locks" / blob.parent.parent.name / f"{blob.name}.lock"
    for folder in (blob.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    # The library's own download locks by itself.
    with nullcontext() if _is_huge(file) else WeakFileLock(lock):
        for last in (False, True):
            # Another process, or an equal file, may have been faster.
            place = blob if blob.is_file() else _transfer(plan, file, watch, stop)
            if _is_whole(place, file, watch):
                os.replace(place, blob)
                return
            place.unlink()
            if last:
                raise HubError(
                    f"{name} came twice with content that the hub does not list: a proxy or "
                    "mirror on the way may change it (HF_ENDPOINT); pull again later"
                )
            watch.message(f"{name} arrived damaged: it comes again")
            watch.moved(-file.size)
            watch.checked(-file.size)


def _is_huge(file: RepoFile) -> bool:
    """Return whether plain HTTP does not serve ``file``."""
    return file.size > constants.MAX_HTTP_DOWNLOAD_SIZE


def _transfer(
    plan: RepositoryPlan, file: RepoFile, watch: PullCallbacks, stop: threading.Event
) -> Path:
    """Fetch ``file``, or the rest of it, and return the path of the whole."""
    repository = plan.need.repository
    if _is_huge(file):
        place = hf_hub_download(repository, file.path, revision=plan.commit, tqdm_class=_Silent)
        watch.moved(file.size)
        return Path(place).resolve()

    class Bar(_Silent):
        def update(self, n: float | None = 1) -> None:
            watch.moved(int(n or 0))
            if stop.is_set():
                raise Stopped

    partial = plan.partial(file)
    # Longer than the whole: whatever that is, it is not the beginning of it.
    if partial.is_file() and partial.stat().st_size > file.size:
        partial.unlink()
    url = hf_hub_url(repository, file.path, revision=plan.commit, endpoint=constants.ENDPOINT)
    with partial.open("ab") as stream:
        http_get(
            url,
            stream,
            resume_size=stream.tell(),
            headers=build_hf_headers() | {"accept-encoding": "identity"},
            expected_size=file.size,
            tqdm_class=Bar,
        )
    return partial


class _Silent(hub_tqdm):
    """Progress bar of the library that shows nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"disable": True}))  # type: ignore[no-untyped-call]
