"""Cached hub repositories, and the check before a run that its models are here.

Nothing here uses the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
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
    missing_files,
    needs_of,
    on_the_hub,
    plain_index,
    size_words,
    wanted_files,
)
from scenewright.providers.hub.single_file import SingleFile, is_file

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
    licence = licence_of(need.repository, folder)
    if folder is None:
        return Present(need, None, 0, need.known_bytes(), need.patterns, licence)
    # A link to a deleted blob is not a file.
    here = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }
    index = read_index(folder) if need.kind == "pipeline" else None
    listing: dict[str, int] = {}
    with suppress(CachedRepoTreeNotFoundError, OSError, ValueError):
        listing = {file.path: file.size for file in get_cached_repo_tree(need.repository)}
    wanted = wanted_files(need, listing or here, index)
    missing = [name for name in wanted if name not in here]
    # Files that a listing names count by name; without one, whatever must be there.
    missing += [what for what in missing_files(need, listing or here, index) if what not in missing]
    sizes = listing or ({} if missing else here)
    if not (sizes and wanted) or INDEX in missing:
        size = need.known_bytes()
    else:
        size = sum(sizes[name] for name in wanted)
    size_here = sum(here[name] for name in wanted if name in here)
    return Present(need, folder, size_here, size, tuple(missing), licence)


def read_index(folder: Path) -> dict[str, Any] | None:
    """Return the pipeline's index in ``folder``; None if there is none that can be read."""
    name = INDEX if (folder / INDEX).is_file() else MODULAR_INDEX
    with suppress(OSError, ValueError):
        if isinstance(found := json.loads((folder / name).read_text(encoding="utf-8")), dict):
            return plain_index(found)
    return None


def licence_of(repository: str, folder: Path | None) -> str | None:
    """Return the licence by the model card in ``folder``, else by the table; None if unknown."""
    if folder is not None:
        with suppress(OSError, ValueError):
            text = (folder / "README.md").read_text("utf-8")
            if named := licence_in(ModelCard(text, ignore_metadata_errors=True).data):
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


def _how_to_get(profile: Profile, lost: Sequence[Present]) -> str:
    """Return a table of what ``profile`` lacks, and how to get it or to name folders instead."""
    rest = sum(max(0, (present.bytes_needed or 0) - present.bytes_here) for present in lost)
    unknown = any(present.bytes_needed is None for present in lost)
    total = f"more than {size_words(rest)}" if unknown else about(rest)
    rows = [present.words() for present in lost]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"the profile {profile.name!r} needs models that are not on this machine:"]
    for row in rows:
        padded = (word.ljust(width) for word, width in zip(row, widths, strict=True))
        lines.append(f"  {'  '.join(padded)}".rstrip())
    command = "`, `".join(pull_commands(profile, lost))
    lines.append(f"Get what is missing with `{command}` ({total}).")
    lines.append("It goes to the hub's cache folder; HF_HOME names another place.")
    if any(present.gated for present in lost):
        lines.append(
            "Gated: first accept the licence on https://huggingface.co/REPOSITORY, and log in "
            "with `hf auth login` or set HF_TOKEN."
        )
    base = LOCAL_MODEL if ":" in profile.name else profile.name
    lines.append(
        f"Or name folders of yours in scenewright.toml: [profiles.mine] extends = "
        f'"{base}", backend = "diffusers:/folder", judges = ["local:/folder"].'
    )
    return "\n".join(lines)


def pull_commands(profile: Profile, lost: Iterable[Present]) -> list[str]:
    """Return the commands that fetch what ``profile`` lacks.

    A profile made of a backend's name is none that can be fetched by its name.
    """
    if ":" not in profile.name:
        return [f"{PULL} {profile.name}"]
    drawing, commands = profile.backend.model, []
    for need in (present.need for present in lost):
        kind, model = LOCAL_JUDGE, need.repository
        if "backend" in need.parts and is_file(drawing):
            kind, model = LOCAL_BACKEND, drawing
        elif need.kind == "pipeline":
            kind = LOCAL_BACKEND
        elif need.parts == ("detector",):
            kind = "transformers"
        commands.append(f"{PULL} {kind}:{model}")
    return commands


_DRAWING = {"backend", "adapter", "LoRA", "denoiser", "image encoder"}


def require_models(profile: Profile, *, backend: bool = True, **judges: bool) -> None:
    """Check that the models of ``profile`` are cached; no network access.

    The flags leave out models that are provided otherwise or not used, as those of
    :func:`~scenewright.providers.hub.needs.needs_of`. Raises ``BackendError``, or ``JudgeError`` if
    only judges are missing: with every repository, its size, its licence and how to get it. What is
    to draw and is not there, or no model, comes first: no download mends it.
    """
    drawing = profile.backend
    if backend and drawing.kind == LOCAL_BACKEND:
        file, place = is_file(drawing.model), Path(drawing.model).expanduser()
        elsewhere = drawing.model.startswith("miniature") or on_the_hub(drawing.model)
        if not elsewhere and not place.exists():
            raise BackendError(
                f"the {'file' if file else 'folder'} {drawing.model} is not there: name the folder "
                "of a diffusers pipeline, a *.safetensors file, or a repository of the hub as "
                "diffusers:OWNER/NAME"
            )
        if file:
            SingleFile.read(place)
    presents = [survey(need) for need in needs_of(profile, backend=backend, **judges)]
    if lost := [present for present in presents if not present.complete]:
        draws = any(_DRAWING & set(present.need.parts) for present in lost)
        raise (BackendError if draws else JudgeError)(_how_to_get(profile, lost))
