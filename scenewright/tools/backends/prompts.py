"""Prompts as a model reads them: counted, divided and weighed.

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.agents.judges.pictures import text_tokens
from scenewright.core.ports.backend import CountingBackend, Emphasis, ImageBackend, PromptCount
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

if TYPE_CHECKING:
    import torch

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
        return [prompt[begin:end] for begin, end in self.spans(prompt)]

    def spans(self, prompt: str) -> list[tuple[int, int]]:
        """Return begin and end in ``prompt`` of each piece of :meth:`chunks`."""
        room = self._room
        if not self.chunked or room is None or self.tokens(prompt) <= room:
            return [(0, len(prompt))]
        found: list[tuple[int, int]] = []
        begin = 0
        while rest := prompt[begin:].strip():
            begin = prompt.index(rest[0], begin)
            end = begin + (len(rest) if self.tokens(rest) <= room else self._end(rest, room))
            found.append((begin, end))
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
        found = _tokenizers(folder, [name for row in family.text for name in row])
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
    for name in names:
        kind = _class_of(index.get(name))
        if kind is None or not (folder / name).is_dir():
            return []
        try:
            with quiet():
                found.append(kind(folder / name, local_files_only=True))
        except Exception:
            # A part without its vocabulary, or whose library is not installed: the model itself
            # will say so when it is loaded.
            return []
    return found


def _class_of(entry: object) -> Callable[..., Any] | None:
    """Return the loader of the part with such an entry in a pipeline's index."""
    match entry:
        case [str(library), str(name)]:
            pass
        case _:
            return None
    with quiet():
        import diffusers.pipelines
        import transformers

        if name.endswith("Processor"):
            # Its tokenizer lies in the same folder; its other parts are not needed here.
            load: Callable[..., Any] = transformers.AutoTokenizer.from_pretrained
            return load
        place = transformers if library == "transformers" else None
        place = place or getattr(diffusers.pipelines, library, None)
        found = getattr(place, name, None)
    return getattr(found, "from_pretrained", None)


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
    return max((len(reader.spans(one)) for one in every), default=1)


class PromptWeights:
    """Weighs the prompt's embeddings that a pipeline's ``encode_prompt`` gives.

    As in AUTOMATIC1111's web UI ("Attention/emphasis"): the embeddings of the tokens are
    multiplied by their weight, and then all are scaled so that the mean is what it was. Here it is
    the mean magnitude, for the plain mean of T5's embeddings is near 0 and no scale. Pooled
    embeddings stay as they are. Not thread-safe: the weights are those of the next drawing.
    """

    def __init__(self, pipe: Any, rows: Sequence[Sequence[str]], reader: PromptReader) -> None:
        """Weigh embeddings of the tokenizers ``rows`` (``Family.text``).

        ``reader`` says which part of the prompt each chunk of the embeddings is.
        """
        self._pipe = pipe
        self._rows = rows
        self._reader = reader
        self._prompt = ""
        self._emphasis: tuple[Emphasis, ...] = ()
        encode = getattr(pipe, "encode_prompt", None)
        if rows and encode is not None:

            def weighed(*args: Any, **kwargs: Any) -> Any:
                found = encode(*args, **kwargs)
                return (self._with_weights(found[0]), *found[1:]) if self._emphasis else found

            pipe.encode_prompt = weighed

    def use(self, prompt: str, emphasis: Sequence[Emphasis]) -> list[str]:
        """Weighs ``prompt`` from now on; returns the texts whose words are not found in it.

        Words that the tokenizers cut off count as not found.
        """
        self._prompt = prompt
        missing = []
        for one in emphasis:
            doubled = [one.model_copy(update={"weight": 2.0})]
            tokenizers = [name for row in self._rows for name in row]
            factors = [self._factors(name, None, doubled) for name in tokenizers]
            if all(factor == 1.0 for rows in factors for chunk in rows for factor in chunk):
                missing.append(one.text)
        self._emphasis = tuple(
            one for one in emphasis if one.weight != 1.0 and one.text not in missing
        )
        return missing

    def _factors(
        self, name: str, length: int | None, emphasis: Sequence[Emphasis]
    ) -> list[list[float]]:
        """Return the weight of each token of the tokenizer ``name``, by chunk."""
        tokenizer = getattr(self._pipe, name)
        chunks = []
        for first, last in self._reader.spans(self._prompt):
            spans = tokenizer(
                self._prompt[first:last],
                truncation=True,
                max_length=length or tokenizer.model_max_length,
                return_offsets_mapping=True,
            )["offset_mapping"]
            chunks.append(self._weights_of([(first + a, first + b) for a, b in spans], emphasis))
        return chunks

    def _weights_of(
        self, spans: Sequence[tuple[int, int]], emphasis: Sequence[Emphasis]
    ) -> list[float]:
        """Return the factors of tokens that stand at ``spans`` of the prompt."""
        factors = [1.0] * len(spans)
        for one in emphasis:
            # Whole words: "red" is not meant in "bored".
            pattern = rf"(?<!\w){re.escape(one.text.strip())}(?!\w)"
            for match in re.finditer(pattern, self._prompt):
                for at, (begin, end) in enumerate(spans):
                    if begin < end and begin < match.end() and end > match.start():
                        factors[at] *= one.weight
        return factors

    def _with_weights(self, embeds: torch.Tensor) -> torch.Tensor:
        """``[batch, tokens, channels]`` with the words weighed."""
        import torch

        weighed, first = embeds.float().clone(), 0
        for row in self._rows:
            length = weighed.shape[1] - first
            if self._reader.chunked or row is not self._rows[-1]:
                # Every row but the last is as long as its tokenizers make it, and so is a chunk.
                length = int(getattr(self._pipe, row[0]).model_max_length)
            begin = 0
            for name in row:
                encoder = getattr(self._pipe, name.replace("tokenizer", "text_encoder"))
                width = int(encoder.config.hidden_size)
                chunks = self._factors(name, length, self._emphasis)
                factors = torch.ones(len(chunks) * length).to(weighed)
                for at, chunk in enumerate(chunks):
                    factors[at * length : at * length + len(chunk)] = torch.tensor(chunk)
                part = weighed[:, first : first + len(factors), begin : begin + width]
                begin += width
                if (factors != 1.0).any():
                    before = part.abs().mean()
                    part *= factors[None, :, None]
                    part *= before / part.abs().mean()
            first += len(chunks) * length
        return weighed.to(embeds.dtype)
