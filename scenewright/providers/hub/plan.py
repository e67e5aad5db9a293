"""Before anything is fetched: which files, how large, how much of them is here already."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError
from huggingface_hub.hf_api import RepoFile

from scenewright.providers.hub.cache import cache_folder, licence_in, licence_of, storage_folder
from scenewright.providers.hub.disk import PARTIAL, free_bytes
from scenewright.providers.hub.errors import HubError, explained
from scenewright.providers.hub.known import size_words
from scenewright.providers.hub.needs import INDEX, Need, cards, lacking, wanted_files

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
    """What is fetched from one repository."""

    need: Need
    commit: str
    """What the main branch stands at."""
    files: tuple[HubFile, ...]
    licence: str | None
    gated: bool
    """Whether the licence must be accepted on the hub's page first."""
    refusal: str | None
    """Why the files cannot be had as things stand; None if they can."""

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def size_here(self) -> int:
        """Bytes of them that are here, parts of files included."""
        return sum(here(self, file) for file in self.files)


def blob_of(plan: RepositoryPlan, file: HubFile) -> Path:
    """Where the cache keeps the content of a large file, named by its digest."""
    return storage_folder(plan.need.repository) / "blobs" / (file.sha256 or file.blob)


def pointer_of(plan: RepositoryPlan, file: HubFile) -> Path:
    """Where the snapshot has the file."""
    return storage_folder(plan.need.repository) / "snapshots" / plan.commit / file.name


def here(plan: RepositoryPlan, file: HubFile) -> int:
    """Bytes of ``file`` on this machine."""
    pointer, blob = pointer_of(plan, file), blob_of(plan, file)
    if pointer.is_file() or blob.is_file():
        return file.size
    partial = blob.with_name(blob.name + PARTIAL)
    return min(partial.stat().st_size, file.size) if partial.is_file() else 0


def plan_of(
    needs: Iterable[Need], told: Callable[[str], None] = lambda text: None
) -> tuple[RepositoryPlan, ...]:
    """Asks the hub what ``needs`` come to. ``told`` hears of each repository.

    Raises ``HubError`` if the hub cannot be reached, has no such repository, or the repository
    lacks what a model of its kind must have. A gated repository is planned with its refusal.
    """
    plans = []
    api = HfApi()
    for need in needs:
        told(need.repository)
        try:
            plans.append(_plan(api, need))
        except (HubError, OSError, ValueError, RuntimeError) as error:
            raise explained(error, need.repository) from error
        except Exception as error:
            # httpx2 errors share no base with the built-in ones.
            raise explained(error, need.repository) from error
    return tuple(plans)


def check_disk(plans: Iterable[RepositoryPlan]) -> None:
    """Raises ``HubError`` if what is still to come does not fit on the cache's disk."""
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
        return str(explained(error, repository))
    return None


def _index(need: Need, commit: str, listing: dict[str, HubFile]) -> dict[str, Any] | None:
    if need.kind != "pipeline" or INDEX not in listing:
        return None
    file = hf_hub_download(need.repository, INDEX, revision=commit)
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise HubError(f"{need.repository}: its {INDEX} holds no JSON object: delete {file}")
    return found
