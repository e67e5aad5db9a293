"""Where in a model's reply the answer begins: after its thinking, and after what leads to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from scenewright.agents.judges.families import Family

Place = Literal["thinking", "leading", "answer"]
_TAIL = 16
"""Most tokens that a mark may take; in these the end of thinking is looked for."""


class ReplyReader:
    """Reads the logits of the answer's token of a model that may think before it answers."""

    def __init__(self, model: Any, tokenizer: Any, family: Family, most: int) -> None:
        """``most``: tokens that thinking may take; a longer one is given up."""
        self._model, self._tokenizer, self._family, self._most = model, tokenizer, family, most
        self._marks = tuple(mark for mark in (family.opens, *family.leads) if mark)
        if self.thinks:
            # Greedy and without penalties: what the repository says of sampling is left out.
            model.generation_config = GenerationConfig(
                do_sample=False,
                eos_token_id=model.generation_config.eos_token_id or tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                max_new_tokens=most,
            )

    @property
    def thinks(self) -> bool:
        """Whether anything may stand before the answer."""
        return bool(self._marks)

    def opened(self, prompt: str) -> bool:
        """Whether ``prompt`` ends within thinking: its template begins it."""
        opens, closes = self._family.opens, self._family.closes
        return bool(opens) and prompt.rfind(opens) > prompt.rfind(closes)

    def begins(self, token: int) -> bool:
        """Whether a reply that begins with ``token`` begins with the answer."""
        return not self.thinks or self.place("", token) == "answer"

    def place(self, reply: str, token: int) -> Place:
        """Return what ``token`` is after ``reply``, which holds no thinking and no answer yet."""
        rest = (reply + self._decoded([token])).strip()
        found = True
        while found:
            found = False
            for lead in self._family.leads:
                if rest.startswith(lead):
                    rest, found = rest[len(lead) :].strip(), True
        if rest and rest == self._family.opens:
            return "thinking"
        whole = not rest or any(mark.startswith(rest) for mark in self._marks)
        return "leading" if whole else "answer"

    @torch.inference_mode()
    def read(
        self,
        inputs: Mapping[str, Any],
        opened: list[bool],
        stopped: Callable[[], bool],
    ) -> tuple[list[torch.Tensor | None], list[int]]:
        """Generate each reply up to its answer.

        ``inputs`` are those of the model, padded on the left; ``opened`` says which prompts end
        within thinking. Returns the logits of each answer's token (None: there was none within the
        bound, or ``stopped`` was true) and the number of tokens that stand before it.
        """
        catcher = _Catcher(self, opened, inputs["input_ids"].shape[1], stopped)
        self._model.generate(
            **inputs,
            logits_processor=LogitsProcessorList([catcher.look]),
            stopping_criteria=StoppingCriteriaList([catcher.done]),
        )
        return catcher.found, catcher.before

    def closed(self, last: list[int]) -> bool:
        """Whether thinking ended within the ``last`` tokens."""
        return self._family.closes in self._decoded(last)

    def text(self, tokens: list[int]) -> str:
        """What ``tokens`` say, their marks included."""
        return self._decoded(tokens)

    def _decoded(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))


class _Catcher:
    """Follows the replies of a batch while they are written."""

    def __init__(
        self, reader: ReplyReader, opened: list[bool], prompt: int, stopped: Callable[[], bool]
    ) -> None:
        self._reader, self._prompt, self._stopped = reader, prompt, stopped
        self._thinking = list(opened)
        self._start = [0] * len(opened)
        self.found: list[torch.Tensor | None] = [None] * len(opened)
        self.before = [0] * len(opened)

    def look(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Keep the logits of each reply that stands before its answer."""
        for row, tokens in enumerate(input_ids[:, self._prompt :].tolist()):
            if self.found[row] is None:
                self.before[row] = len(tokens)
                self._follow(row, tokens, scores[row])
        return scores

    def done(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Which replies need not go on."""
        every = self._stopped()
        return torch.tensor(
            [every or logits is not None for logits in self.found], device=input_ids.device
        )

    def _follow(self, row: int, tokens: list[int], logits: torch.Tensor) -> None:
        if self._thinking[row]:
            if not self._reader.closed(tokens[max(self._start[row], len(tokens) - _TAIL) :]):
                return
            self._thinking[row], self._start[row] = False, len(tokens)
        reply = self._reader.text(tokens[self._start[row] :])
        match self._reader.place(reply, int(logits.argmax())):
            case "answer":
                self.found[row] = logits.clone()
            case "thinking":
                # The mark itself is the next token.
                self._thinking[row], self._start[row] = True, len(tokens) + 1
            case "leading":
                pass
