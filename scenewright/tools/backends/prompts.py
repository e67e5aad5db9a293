"""Prompts as a model reads them: counted and divided.

Tokenizers are read from the model's folder; its weights are not. Where no tokenizer is on this
machine, tokens are estimated from the characters, and the count says so.

Prompts longer than the input of CLIP's text encoders are read in chunks, the established way
(AUTOMATIC1111's web UI, compel): each chunk goes through the text encoders by itself, with its own
marks of start and end, and the embeddings of all stand in a row. Here the pipeline's own
``encode_prompt`` encodes each chunk, so that whatever it does with one prompt (clip skip, weights
of a LoRA, precision) holds for every chunk, and a prompt of one chunk is exactly what the pipeline
makes of it. compel encodes plain prompts to the same numbers, but reads brackets, ``+`` and ``-``
of a sentence as weights.
"""

from __future__ import annotations

import inspect
import re
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scenewright.agents.judges.pictures import text_tokens
from scenewright.core.ports.backend import CountingBackend, ImageBackend, PromptCount
from scenewright.core.ports.composer import PromptBudget
from scenewright.providers.hub.cache import read_index, snapshot_folder
from scenewright.providers.hub.needs import DEFAULTS, HUB_ID, known_repositories, parts_of
from scenewright.tools.backends.families import family_of
from scenewright.tools.backends.model_folder import (
    LongPrompts,
    ModelFolder,
    is_distilled,
    read_defaults,
)
from scenewright.tools.backends.pipeline import call_options, quiet

CLIP_TOKENS = 77
"""Positions of CLIP's published text encoders, the marks of start and end included. A model whose
text encoder has another number was trained by its makers on prompts of that length."""
MARKS = 2
"""Marks that a tokenizer puts around a prompt, where it cannot be asked."""
_UNBOUNDED = 10**6
"""Tokenizers without a limit name more than this."""
_PARTS = ("unet", "tokenizer", "tokenizer_2", "tokenizer_3")
"""Parts of a model that is not here: all that matter."""
_BACK = 4
"""A chunk ends at the last clause of its last quarter, as wide a search as the 20 tokens of other
programs that read long prompts."""
_TEXTS = ("prompt", "negative_prompt")
_UNIT = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\S+")
_CLAUSE = re.compile(r"[,.;:!?]['\")\]]*\Z")


class PromptReader:
    """Reader of a model's prompts: its tokenizers, and how many tokens of each.

    May be used from several threads at once.
    """

    def __init__(
        self,
        tokenizers: Iterable[Any],
        room: int | None,
        *,
        chunked: bool = False,
        lengths: Sequence[int] = (),
    ) -> None:
        """Read with ``tokenizers``, ``room`` tokens at once (without marks).

        ``room`` is None for any or an unknown number. ``chunked``: longer prompts are read in
        chunks of so many. ``lengths``: what the pipeline takes as ``max_sequence_length``
        (``Family.lengths``). Without ``tokenizers`` tokens are estimated.
        """
        self._tokenizers = tuple(tokenizers)
        self._room = room
        self.chunked = chunked and room is not None
        self._lengths = tuple(lengths)
        # Tokenizers change their own settings while they work.
        self._lock = threading.Lock()

    @property
    def budget(self) -> int | None:
        """Most tokens of a prompt that are read; None: any number, or nobody knows."""
        return None if self.chunked else self._room

    def less(self, tokens: int) -> PromptReader:
        """Return a reader with room for so many ``tokens`` less."""
        room = self._room if self.chunked or self._room is None else self._room - tokens
        return PromptReader(self._tokenizers, room, chunked=self.chunked, lengths=self._lengths)

    @property
    def estimates(self) -> bool:
        """Whether there is no tokenizer to count with."""
        return not self._tokenizers

    def tokens(self, text: str) -> int:
        """Tokens of ``text`` without marks: the most that one of the tokenizers makes of it."""
        if not self._tokenizers:
            return text_tokens(text.strip())
        with self._lock:
            read = [
                tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)
                for tokenizer in self._tokenizers
            ]
            return max(len(one.input_ids) for one in read)

    def count(self, prompt: str) -> PromptCount:
        """Return the tokens of ``prompt``, and what of it is not read."""
        tokens, budget = self.tokens(prompt), self.budget
        if budget is None or tokens <= budget:
            return PromptCount(tokens, estimated=self.estimates)
        read = self._fitting(prompt, [match.end() for match in _UNIT.finditer(prompt)])
        return PromptCount(tokens, tokens - budget, read, self.estimates)

    @property
    def room(self) -> PromptBudget | None:
        """The budget, for composers; None: any number, or nobody knows."""
        return None if self.budget is None else PromptBudget(self.budget, self.tokens)

    def length(self, prompts: Iterable[str]) -> int | None:
        """Return the shortest ``max_sequence_length`` that holds each of ``prompts``.

        The longest available if none does; None for the pipeline's own.
        """
        if not self._lengths:
            return None
        longest = max((self.tokens(prompt) for prompt in prompts), default=0)
        # The room is that of the longest, so that the difference is the marks.
        marks = self._lengths[-1] - (self._room or self._lengths[-1])
        return next((one for one in self._lengths if longest + marks <= one), self._lengths[-1])

    def named(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that change pictures compared to the plain pipeline, for fingerprints.

        ``options`` are those of the pipeline's call.
        """
        if self.chunked:
            return {"prompts": f"chunks of {self._room}"}
        plain = options.get("max_sequence_length")
        return {"prompts": self._lengths} if self._lengths not in ((), (plain,)) else {}

    def chunks(self, prompt: str) -> list[str]:
        """``prompt`` in pieces that are read at once, in their order; itself if it is short.

        A piece ends after a punctuation mark in its last quarter if there is one, else between
        two words; a word is cut only where it is longer than a piece.
        """
        room = self._room
        if not self.chunked or room is None or self.tokens(prompt) <= room:
            return [prompt]
        found: list[str] = []
        begin = 0
        while rest := prompt[begin:].strip():
            begin = prompt.index(rest[0], begin)
            end = begin + (len(rest) if self.tokens(rest) <= room else self._end(rest, room))
            found.append(prompt[begin:end])
            begin = end
        return found

    def _end(self, text: str, room: int) -> int:
        """Return the end of the first piece of ``text``, which is too long for one."""
        ends = [match.end() for match in _WORD.finditer(text)]
        last = self._fitting(text, ends)
        if not last:
            # One word longer than a piece.
            return max(1, self._fitting(text, list(range(1, ends[0]))))
        for end in reversed(ends[: bisect_right(ends, last)]):
            if self.tokens(text[end:last]) > room // _BACK:
                break
            if _CLAUSE.search(text[:end]):
                return end
        return last

    def _fitting(self, text: str, ends: Sequence[int]) -> int:
        """Return the last of ``ends`` up to which ``text`` has room; 0 if none has."""
        room = self._room
        assert room is not None
        few = bisect_right(ends, room, key=lambda end: self.tokens(text[:end]))
        return ends[few - 1] if few else 0


def count_prompt(backend: ImageBackend, prompt: str) -> PromptCount:
    """Return the tokens of ``prompt`` for ``backend``, by its tokenizers where it has any.

    Else an estimate against ``features.prompt_tokens``. Its weights are not loaded.
    """
    if isinstance(backend, CountingBackend):
        return backend.count_prompt(prompt)
    return PromptReader((), backend.features.prompt_tokens).count(prompt)


def prompt_budget_of(backend: ImageBackend) -> PromptBudget | None:
    """Return the prompt budget of ``backend`` for composers; None if unlimited or unknown."""
    budget = backend.features.prompt_tokens
    return (
        None
        if budget is None
        else PromptBudget(budget, lambda text: count_prompt(backend, text).tokens)
    )


def prompt_reader_of(folder: ModelFolder) -> PromptReader:
    """Return the reader of prompts of the model in ``folder``."""
    return _reader(
        folder.folder,
        folder.pipeline_class,
        folder.parts,
        folder.defaults.long_prompts,
        folder.distilled,
    )


def find_prompt_reader(model: str) -> PromptReader:
    """Return how ``model``, a folder or a hub id, reads prompts, by its files on this machine.

    Neither weights nor a whole model are needed. Without its tokenizers tokens are estimated, and
    the budget is that of its family, if that is known.
    """
    folder: Path | None = Path(model).expanduser()
    if not model or folder is None or not folder.is_dir():
        folder = snapshot_folder(model) if HUB_ID.fullmatch(model) else None
    index = None if folder is None else read_index(folder)
    if folder is None or index is None:
        entry = known_repositories().get(model)
        if entry is None or entry.pipeline is None:
            return PromptReader((), None)
        return _reader(None, entry.pipeline, _PARTS, None, entry.distilled)
    choice = read_defaults(folder / DEFAULTS).long_prompts
    name, parts = str(index.get("_class_name")), parts_of(index)
    distilled = is_distilled(family_of(name, parts), folder, index)
    return _reader(folder, name, parts, choice, distilled)


def _reader(
    folder: Path | None,
    pipeline_class: str,
    parts: Collection[str],
    choice: LongPrompts | None,
    distilled: bool,
) -> PromptReader:
    family = family_of(pipeline_class, parts)
    if family.chunks:
        found = _tokenizers(folder, family.text)
        input_tokens = min((int(one.model_max_length) for one in found), default=CLIP_TOKENS)
        chunked = choice == "chunks" or (choice is None and input_tokens == CLIP_TOKENS)
        return PromptReader(found, input_tokens - MARKS, chunked=chunked)
    few = family.defaults(distilled)
    lengths = few.lengths if few and few.lengths else family.lengths
    if lengths or family.reader in parts:
        names = [family.reader]
    else:
        names = sorted(name for name in parts if name.startswith("tokenizer"))
    found = _tokenizers(folder, names)
    limit = lengths[-1] if lengths else None
    if not lengths and not family.text:
        # A family of which nothing is known here, but what its call takes.
        with quiet():
            default = call_options(pipeline_class).get("max_sequence_length")
        limit = default if isinstance(default, int) else None
    if not found:
        marks = MARKS if family.marks is None else family.marks
        return PromptReader((), None if limit is None else limit - marks, lengths=lengths)
    # Of several, the one that reads most: others feed pooled embeddings beside it.
    most = max(found, key=lambda tokenizer: int(tokenizer.model_max_length))
    if limit is None and most.model_max_length < _UNBOUNDED:
        limit = int(most.model_max_length)
    own_marks = len(most("", verbose=False).input_ids)
    marks = own_marks if family.marks is None else family.marks
    room = None if limit is None else limit - marks
    return PromptReader((most,), room, lengths=lengths)


def _tokenizers(folder: Path | None, names: Iterable[str]) -> list[Any]:
    """Return the tokenizers of those parts; none unless all are here and can be read."""
    if folder is None:
        return []
    index = read_index(folder) or {}
    found = []
    with quiet():
        import diffusers.pipelines
        import transformers

        for name in names:
            match index.get(name):
                case [str(library), str(kind)] if (folder / name).is_dir():
                    pass
                case _:
                    return []
            if kind.endswith("Processor"):
                # Its tokenizer lies in the same folder; its other parts are not needed here.
                library, kind = "transformers", "AutoTokenizer"
            own = transformers if library == "transformers" else None
            place = own or getattr(diffusers.pipelines, library, None)
            try:
                read = getattr(place, kind).from_pretrained
                found.append(read(folder / name, local_files_only=True))
            except Exception:
                # A class that is not known, a part without its vocabulary, or whose library is not
                # installed: the model itself will say so when it is loaded.
                return []
    return found


def read_in_chunks(pipe: Any, reader: PromptReader) -> None:
    """Make ``pipe.encode_prompt`` read prompts of any length, if ``reader`` divides them.

    Prompt and negative prompt, and all prompts of a batch, get equally many chunks: shorter ones
    are filled up with the empty prompt. Pooled embeddings are those of the first chunk.
    """
    if not reader.chunked:
        return
    import torch

    encode = pipe.encode_prompt
    signature = inspect.signature(encode)

    def encoded(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        guided = given.arguments.get("do_classifier_free_guidance", True)
        texts = {
            name: given.arguments[name]
            for name in (_TEXTS if guided else _TEXTS[:1])
            if given.arguments.get(name) is not None
        }
        count = chunk_count(reader, texts.values())
        if count == 1:
            return encode(*args, **kwargs)
        chunks = {
            name: [reader.chunks(one) for one in ([text] if isinstance(text, str) else text)]
            for name, text in texts.items()
        }
        parts = []
        for at in range(count):
            pieces: dict[str, Any] = {}
            for name, every in chunks.items():
                row = [pieces_of[at] if at < len(pieces_of) else "" for pieces_of in every]
                pieces[name] = row[0] if isinstance(texts[name], str) else row
            parts.append(encode(**given.arguments | pieces))
        rows = [[part[side] for part in parts] for side in (0, 1)]
        joined = [None if row[0] is None else torch.cat(row, dim=1) for row in rows]
        return (*joined, *parts[0][2:])

    pipe.encode_prompt = encoded


def chunk_count(reader: PromptReader, texts: Any) -> int:
    """Return the number of chunks that ``texts``, each a text or several, need together."""
    every = (one for text in texts for one in ([text] if isinstance(text, str) else text))
    return max((len(reader.chunks(one)) for one in every), default=1)
