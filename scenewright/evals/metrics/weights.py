"""Where the weights of encoders lie on this machine. Nothing here asks the network."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from scenewright.evals.metrics.base import MetricError
from scenewright.providers.hub.cache import PULL, about, survey
from scenewright.providers.hub.needs import HUB_ID, Need

MINIATURE = 'or take extractor = "miniature" (the encoder that ships with scenewright, for its own \
painted world only)'
"""The remedy that needs nothing."""
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def find_model(metric: str, model: str) -> Path:
    """The local folder of ``model``: a folder in transformers layout, or a fetched repository.

    Raises ``MetricError`` with the remedies if it is not on this machine.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise MetricError(
                f"{metric}: {folder} holds no config.json: give a folder in transformers layout "
                "(config.json, model.safetensors, preprocessor_config.json)"
            )
        return folder
    if HUB_ID.fullmatch(model) is None:
        raise MetricError(
            f"{metric}: no extractor {model!r}: name inception, miniature, a folder, a repository "
            "as OWNER/NAME, or your own as module:function"
        )
    present = survey(Need(model, ("metric",), "model"))
    if present.folder is not None and (present.complete or _usable(present.folder)):
        return present.folder
    raise MetricError(
        f"{metric}: {model} is not on this machine ({about(present.bytes_needed)}, licence "
        f"{present.licence or 'unknown'}; {present.state()}): get it with `{PULL} local:{model}` "
        f"(where it has no safetensors, with `hf download {model}`), give the folder it lies in as "
        f"extractor, {MINIATURE}"
    )


def digest(folder: Path) -> str:
    """SHA-256 (hex) of a model's files, as judges' fingerprints take it."""
    # Imported here: its module loads torch and transformers.
    from scenewright.agents.judges.vlm import digest_folder

    return digest_folder(folder)


def digest_file(file: Path) -> str:
    """SHA-256 (hex) of a file."""
    found = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(2**20):
            found.update(block)
    return found.hexdigest()


def fingerprint(*parts: object) -> str:
    """SHA-256 (hex) of ``parts``, and of the versions of torch and transformers."""
    import torch
    import transformers

    whole = [*map(str, parts), torch.__version__, transformers.__version__]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _usable(folder: Path) -> bool:
    """Whether transformers can load it, though ``models pull`` would not have fetched it so."""
    weights = any(any(folder.glob(pattern)) for pattern in _WEIGHTS)
    return weights and (folder / "config.json").is_file()
