"""Words of the prompt that weigh more, or less, than the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scenewright.core.ports.backend import Emphasis
from scenewright.tools.backends.prompt_length import PromptReader

if TYPE_CHECKING:
    import torch


class PromptWeights:
    """Weighs the prompt's embeddings that a pipeline's ``encode_prompt`` gives.

    As in AUTOMATIC1111's web UI ("Attention/emphasis"): the embeddings of the tokens are
    multiplied by their weight, and then all are scaled so that the mean is what it was. Here it is
    the mean magnitude, for the plain mean of T5's embeddings is near 0 and no scale. Pooled
    embeddings stay as they are. Not thread-safe: the weights are those of the next drawing.
    """

    def __init__(self, pipe: Any, rows: Sequence[Sequence[str]], reader: PromptReader) -> None:
        """``rows`` names the tokenizers (``Family.text``); ``reader`` says which part of the prompt
        each chunk of the embeddings is."""
        self._pipe = pipe
        self._rows = rows
        self._reader = reader
        self._prompt = ""
        self._emphasis: tuple[Emphasis, ...] = ()
        encode = getattr(pipe, "encode_prompt", None)
        if rows and encode is not None:

            def weighed(*args: Any, **kwargs: Any) -> Any:
                found = encode(*args, **kwargs)
                return (self._weighed(found[0]), *found[1:]) if self._emphasis else found

            pipe.encode_prompt = weighed

    def use(self, prompt: str, emphasis: Sequence[Emphasis]) -> list[str]:
        """Weighs ``prompt`` from now on; returns the texts whose words are not found in it.

        Words that the tokenizers cut off count as not found.
        """
        self._prompt = prompt
        missing = [one.text for one in emphasis if not self._reached(one)]
        self._emphasis = tuple(
            one for one in emphasis if one.weight != 1.0 and one.text not in missing
        )
        return missing

    def _reached(self, one: Emphasis) -> bool:
        return any(
            factor != 1.0
            for row in self._rows
            for name in row
            for chunk in self._factors(name, None, [one.model_copy(update={"weight": 2.0})])
            for factor in chunk
        )

    def _factors(
        self, name: str, length: int | None, emphasis: Sequence[Emphasis]
    ) -> list[list[float]]:
        """The factor of each token that the tokenizer ``name`` makes of the prompt, by chunk."""
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
        """The factors of tokens that stand at ``spans`` of the prompt."""
        factors = [1.0] * len(spans)
        for one in emphasis:
            # Whole words: "red" is not meant in "bored".
            pattern = rf"(?<!\w){re.escape(one.text.strip())}(?!\w)"
            for match in re.finditer(pattern, self._prompt):
                for at, (begin, end) in enumerate(spans):
                    if begin < end and begin < match.end() and end > match.start():
                        factors[at] *= one.weight
        return factors

    def _weighed(self, embeds: torch.Tensor) -> torch.Tensor:
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
                width = self._width(name)
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

    def _width(self, name: str) -> int:
        encoder = getattr(self._pipe, name.replace("tokenizer", "text_encoder"))
        return int(encoder.config.hidden_size)
