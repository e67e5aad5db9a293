"""What of the hub's repositories is on this machine. Nothing here asks the network."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CardData, ModelCard, constants, get_cached_repo_tree
from huggingface_hub.errors import CachedRepoTreeNotFoundError
from huggingface_hub.file_download import repo_folder_name

from scenewright.providers.hub.known import known_repositories, size_words
from scenewright.providers.hub.needs import INDEX, Need, lacking, wanted_files

PULL = "scenewright models pull"


@dataclass(frozen=True, slots=True)
class Present:
    """How much of a need is on this machine."""

    need: Need
    """What is needed."""
    folder: Path | None
    """The snapshot; None if nothing of the repository is here."""
    bytes_here: int
    """Bytes of the needed files that are here."""
    bytes_needed: int | None
    """Bytes of all needed files: by the repository's listing if it is here, else by the table
    that ships with scenewright (about); None if neither knows."""
    missing: tuple[str, ...]
    """Needed files that are not here; patterns or folders (``unet/``) where no listing names
    them."""
    licence: str | None
    """The licence's name by the model card, else by the table; None if neither knows."""

    @property
    def complete(self) -> bool:
        """Whether everything needed is here."""
        return self.folder is not None and not self.missing

    @property
    def gated(self) -> bool:
        """Whether, to our knowledge, the licence must be accepted on the hub's page first."""
        entry = known_repositories().get(self.need.repository)
        return entry is not None and entry.gated

    def state(self) -> str:
        """``complete``, ``not here``, or what is missing."""
        if self.complete:
            return "complete"
        if self.folder is None or not self.bytes_here:
            return "not here"
        shown = ", ".join(self.missing[:3])
        more = f" and {len(self.missing) - 3} more" if len(self.missing) > 3 else ""
        return f"missing: {shown}{more}"

    def words(self) -> tuple[str, str, str, str, str]:
        """Repository, parts, size, licence and state, for a row of a table."""
        licence = self.licence or "unknown"
        gated = " (gated)" if self.gated and not self.complete else ""
        size = size_words(self.bytes_here) if self.complete else about(self.bytes_needed)
        return self.need.repository, ", ".join(self.need.parts), size, licence + gated, self.state()


def about(size: int | None) -> str:
    """Bytes as ``about 6.9 GB``."""
    return size_words(size) if size is None else f"about {size_words(size)}"


def cache_folder() -> Path:
    """Where the hub's repositories lie on this machine (``HF_HOME``, ``HF_HUB_CACHE``)."""
    return Path(constants.HF_HUB_CACHE).expanduser()


def storage_folder(repository: str) -> Path:
    """The folder of a repository in the cache, whether it exists or not."""
    return cache_folder() / repo_folder_name(repo_id=repository, repo_type="model")


def snapshot_folder(repository: str) -> Path | None:
    """The files of the repository's main branch as fetched last; None if nothing is here."""
    storage = storage_folder(repository)
    try:
        commit = (storage / "refs" / constants.DEFAULT_REVISION).read_text("utf-8").strip()
    except OSError:
        return None
    folder = storage / "snapshots" / commit
    return folder if commit and folder.is_dir() else None


def survey(need: Need) -> Present:
    """What of ``need`` is here: by the listing that came with the files, else by what any model
    of its kind must have."""
    folder = snapshot_folder(need.repository)
    if folder is None:
        patterns = need.patterns if need.kind == "files" else ()
        licence = licence_of(need.repository, None)
        return Present(need, None, 0, need.known_bytes(), patterns, licence)
    # A link whose blob was deleted is no file.
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
    """The content of ``model_index.json``; None if there is none that can be read."""
    try:
        found = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def licence_of(repository: str, folder: Path | None) -> str | None:
    """The licence by the model card in ``folder``, else by the table; None if unknown."""
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
    """The licence that a model card's metadata names; of ``other`` the name it gives itself."""
    if card is None:
        return None
    value = card.get("license")
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if value == "other":
        value = card.get("license_name") or card.get("license_link") or value
    return str(value) if value else None


def how_to_get(presents: Iterable[Present], command: str, own: str) -> str:
    """What is missing, how large it is, under which licence, where it goes, and what to do.

    ``command`` fetches it; ``own`` says how to name folders of one's own instead.
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
    lines.append(f"It goes to {cache_folder()}; HF_HOME names another place.")
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
