"""Cached hub repositories, and the check before a run that its models are here.

Nothing here uses the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CardData, ModelCard, constants, get_cached_repo_tree
from huggingface_hub.errors import CachedRepoTreeNotFoundError
from huggingface_hub.file_download import repo_folder_name

from scenewright.config.profiles import LOCAL_BACKEND, LOCAL_JUDGE, Profile
from scenewright.config.settings import LOCAL_MODEL
from scenewright.core.ports.backend import BackendError
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.hub.needs import (
    INDEX,
    MODULAR_INDEX,
    Need,
    known_repositories,
    lacking,
    needs_of,
    on_the_hub,
    plain_index,
    size_words,
    wanted_files,
)

PULL = "scenewright models pull"


@dataclass(frozen=True, slots=True)
class Present:
    """Cached part of a need."""

    need: Need
    folder: Path | None
    """Snapshot; None if nothing of the repository is cached."""
    bytes_here: int
    """Bytes of the needed files in the cache."""
    bytes_needed: int | None
    """Bytes of all needed files: by the cached listing, else (about) by the built-in table; None if
    unknown.
    """
    missing: tuple[str, ...]
    """Missing files; patterns or folders (``unet/``) where no listing names them."""
    licence: str | None
    """The licence's name by the model card, else by the table; None if neither knows."""

    @property
    def complete(self) -> bool:
        return self.folder is not None and not self.missing

    @property
    def gated(self) -> bool:
        """Whether, as far as known, the licence must be accepted on the hub's page."""
        entry = known_repositories().get(self.need.repository)
        return entry is not None and entry.gated

    def state(self) -> str:
        """Return ``complete``, ``not here``, or the missing files."""
        if self.complete:
            return "complete"
        if self.folder is None or not self.bytes_here:
            return "not here"
        shown = ", ".join(self.missing[:3])
        more = f" and {len(self.missing) - 3} more" if len(self.missing) > 3 else ""
        return f"missing: {shown}{more}"

    def words(self) -> tuple[str, str, str, str, str]:
        """Return repository, parts, size, licence and state, for a table row."""
        licence = self.licence or "unknown"
        gated = " (gated)" if self.gated and not self.complete else ""
        size = size_words(self.bytes_here) if self.complete else about(self.bytes_needed)
        return self.need.repository, ", ".join(self.need.parts), size, licence + gated, self.state()


def about(size: int | None) -> str:
    """Return bytes as ``about 6.9 GB``."""
    return size_words(size) if size is None else f"about {size_words(size)}"


def cache_folder() -> Path:
    """Return the hub's cache folder on this machine (``HF_HOME``, ``HF_HUB_CACHE``)."""
    return Path(constants.HF_HUB_CACHE).expanduser()


def storage_folder(repository: str) -> Path:
    """Return the folder of a repository in the cache, whether it exists or not."""
    return cache_folder() / repo_folder_name(repo_id=repository, repo_type="model")


def snapshot_folder(repository: str) -> Path | None:
    """Return the snapshot of the main branch as fetched last; None if there is none."""
    storage = storage_folder(repository)
    try:
        commit = (storage / "refs" / constants.DEFAULT_REVISION).read_text("utf-8").strip()
    except OSError:
        return None
    folder = storage / "snapshots" / commit
    return folder if commit and folder.is_dir() else None


def survey(need: Need) -> Present:
    """Return which files of ``need`` are cached.

    Judged by the listing fetched with the files, else by what any model of its kind must have.
    """
    folder = snapshot_folder(need.repository)
    if folder is None:
        patterns = need.patterns if need.kind == "files" else ()
        licence = licence_of(need.repository, None)
        return Present(need, None, 0, need.known_bytes(), patterns, licence)
    # A link to a deleted blob is not a file.
    here = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }
    index = read_index(folder) if need.kind == "pipeline" else None
    listing = _listing(need.repository)
    wanted = wanted_files(need, listing or here, index)
    missing = [name for name in wanted if name not in here]
    # Files that a listing names count by name; without one, whatever must be there.
    missing += [what for what in lacking(need, listing or here, index) if what not in missing]
    sizes = listing or ({} if missing else here)
    known = sum(sizes[name] for name in wanted) if sizes and wanted else need.known_bytes()
    if INDEX in missing:
        known = need.known_bytes()
    return Present(
        need,
        folder,
        sum(here[name] for name in wanted if name in here),
        known,
        tuple(missing),
        licence_of(need.repository, folder),
    )


def read_index(folder: Path) -> dict[str, Any] | None:
    """Return the pipeline's index in ``folder``; None if there is none that can be read."""
    name = INDEX if (folder / INDEX).is_file() else MODULAR_INDEX
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return plain_index(found) if isinstance(found, dict) else None


def licence_of(repository: str, folder: Path | None) -> str | None:
    """Return the licence by the model card in ``folder``, else by the table; None if unknown."""
    card = folder / "README.md" if folder is not None else None
    if card is not None and card.is_file():
        try:
            data = ModelCard(card.read_text("utf-8"), ignore_metadata_errors=True).data
        except (OSError, ValueError):
            data = None
        named = licence_in(data)
        if named:
            return named
    entry = known_repositories().get(repository)
    return entry.licence if entry is not None else None


def licence_in(card: CardData | None) -> str | None:
    """Return the licence in a model card's metadata; for ``other`` its own name."""
    if card is None:
        return None
    value = card.get("license")
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if value == "other":
        value = card.get("license_name") or card.get("license_link") or value
    return str(value) if value else None


def how_to_get(presents: Iterable[Present], command: str, own: str) -> str:
    """Return what is missing, its size and licence, and how to get it.

    ``command`` fetches it; ``own`` says how to name your own folders instead.
    """
    lost = [present for present in presents if not present.complete]
    rest = sum(max(0, (present.bytes_needed or 0) - present.bytes_here) for present in lost)
    unknown = any(present.bytes_needed is None for present in lost)
    total = f"more than {size_words(rest)}" if unknown else about(rest)
    rows = [present.words() for present in lost]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  "
        + "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.append(f"Get what is missing with `{command}` ({total}).")
    lines.append("It goes to the hub's cache folder; HF_HOME names another place.")
    if any(present.gated for present in lost):
        lines.append(
            "Gated: first accept the licence on https://huggingface.co/REPOSITORY, and log in "
            "with `hf auth login` or set HF_TOKEN."
        )
    lines.append(own)
    return "\n".join(lines)


def _listing(repository: str) -> dict[str, int] | None:
    try:
        return {file.path: file.size for file in get_cached_repo_tree(repository)}
    except (CachedRepoTreeNotFoundError, OSError, ValueError):
        return None


def pull_commands(profile: Profile, lost: Iterable[Present]) -> list[str]:
    """Return the commands that fetch what ``profile`` lacks.

    A profile made of a backend's name is none that can be fetched by its name.
    """
    if ":" not in profile.name:
        return [f"{PULL} {profile.name}"]
    return [f"{PULL} {_kind(present.need)}:{present.need.repository}" for present in lost]


def _kind(need: Need) -> str:
    """Return the kind by which ``models pull`` takes a need."""
    if need.kind == "pipeline":
        return LOCAL_BACKEND
    return "transformers" if need.parts == ("detector",) else LOCAL_JUDGE


def _base(profile: Profile) -> str:
    """Return the profile to extend for one like ``profile``."""
    return LOCAL_MODEL if ":" in profile.name else profile.name


def _lost_folder(profile: Profile) -> str | None:
    """Return the folder that is to draw for ``profile`` if it is not there; else None."""
    spec = profile.backend
    if spec.kind != LOCAL_BACKEND or spec.model.startswith("miniature") or on_the_hub(spec.model):
        return None
    return None if Path(spec.model).expanduser().exists() else spec.model


_DRAWING = {"backend", "adapter", "LoRA", "denoiser", "image encoder"}


def demand_models(
    profile: Profile,
    *,
    backend: bool = True,
    judges: bool = True,
    report_judges: bool = True,
    realism_judges: bool = False,
    realism_report_judges: bool = False,
) -> None:
    """Check that the models of ``profile`` are cached; no network access.

    The flags leave out models that are provided otherwise or not used. Raises ``BackendError``, or
    ``JudgeError`` if only judges are missing: with every repository, its size, its licence and how
    to get it. A folder that is to draw and is not there comes first: no download mends it.
    """
    if backend and (folder := _lost_folder(profile)) is not None:
        raise BackendError(
            f"the folder {folder} is not there: name the folder of a diffusers pipeline, or a "
            "repository of the hub as diffusers:OWNER/NAME"
        )
    lost = [
        present
        for need in needs_of(
            profile,
            backend=backend,
            judges=judges,
            report_judges=report_judges,
            realism_judges=realism_judges,
            realism_report_judges=realism_report_judges,
        )
        if not (present := survey(need)).complete
    ]
    if not lost:
        return
    own = (
        f"Or name folders of yours in scenewright.toml: [profiles.mine] extends = "
        f'"{_base(profile)}", backend = "diffusers:/folder", judges = ["local:/folder"].'
    )
    command = "`, `".join(pull_commands(profile, lost))
    text = (
        f"the profile {profile.name!r} needs models that are not on this machine:\n"
        f"{how_to_get(lost, command, own)}"
    )
    if any(_DRAWING & set(present.need.parts) for present in lost):
        raise BackendError(text)
    raise JudgeError(text)
