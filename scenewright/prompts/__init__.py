"""Prompts as data: one file per prompt, validated when loaded, rendered literally.

A prompt file is a TOML front matter between two ``+++`` lines, then the text::

    +++
    id = "judge_binary"
    version = 1
    source = "where the words come from"
    variables = ["question"]
    +++
    {question} Answer yes or no.

``{name}`` is a variable. Values are inserted as they are and never parsed again, so braces
inside a value have no meaning.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.errors import ScenewrightError

_FENCE = "+++"
_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class PromptError(ScenewrightError, ValueError):
    """An invalid prompt file or rendering; says what to change."""


class Prompt(BaseModel):
    """A prompt file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """File name without its suffix."""
    version: int = Field(ge=1)
    """Raised when the wording changes."""
    source: str = Field(min_length=1)
    """Origin of the wording."""
    variables: tuple[str, ...] = ()
    """Names of the arguments of :meth:`render`; all are used in the text."""
    output: dict[str, Any] | None = None
    """JSON schema of the answer; None: free text."""
    tool: str = ""
    """Tool that a chat model calls with the answer; empty if it needs none."""
    tool_description: str = ""
    """Description of the tool."""
    text: str = Field(min_length=1)
    """The template."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        used = set(_VARIABLE.findall(self.text))
        declared = set(self.variables)
        if len(declared) != len(self.variables):
            raise PromptError(f"prompt {self.id}: a variable is listed twice")
        if used - declared:
            raise PromptError(
                f"prompt {self.id}: {sorted(used - declared)} in the text: add them to variables"
            )
        if declared - used:
            raise PromptError(
                f"prompt {self.id}: variables {sorted(declared - used)} never used: remove them"
            )
        if self.tool and (not self.tool_description or self.output is None):
            raise PromptError(
                f"prompt {self.id}: the tool {self.tool} needs a tool_description and an [output]"
            )
        return self

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of everything that decides the rendered text and the wanted answer.

        The tool is not part of it: its words only repeat those of the text.
        """
        content = json.dumps(
            [self.id, self.version, list(self.variables), self.output, self.text], sort_keys=True
        )
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def ref(self) -> str:
        """``id@version#hash`` with the first 12 hex digits: the prompt's name in answers."""
        return f"{self.id}@{self.version}#{self.hash[:12]}"

    def render(self, **variables: str) -> str:
        """Return the text with every ``{name}`` replaced.

        Raises ``PromptError`` for unknown or missing names.
        """
        unknown = sorted(set(variables) - set(self.variables))
        missing = sorted(set(self.variables) - set(variables))
        if unknown or missing:
            raise PromptError(
                f"prompt {self.id} takes {list(self.variables)}: "
                f"unknown {unknown}, missing {missing}"
            )
        return _VARIABLE.sub(lambda match: variables[match.group(1)], self.text)


def parse_prompt(text: str, where: str) -> Prompt:
    """Return the prompt of a file's ``text``.

    Raises ``PromptError`` with ``where`` and what to change.
    """
    lines = text.splitlines()
    fences = [at for at, line in enumerate(lines) if line.strip() == _FENCE]
    if len(fences) < 2 or fences[0] != 0:
        raise PromptError(
            f"{where}: no front matter: begin with {_FENCE}, then id, version, source, "
            f"variables as TOML, then {_FENCE}"
        )
    try:
        head = tomllib.loads("\n".join(lines[1 : fences[1]]))
    except tomllib.TOMLDecodeError as error:
        raise PromptError(f"{where}: the front matter is not TOML: {error}") from error
    if "text" in head:
        raise PromptError(f"{where}: unknown key 'text': the text belongs below the front matter")
    body = "\n".join(lines[fences[1] + 1 :]).strip()
    try:
        return Prompt(text=body, **head)
    except ValidationError as error:
        details = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'prompt'}: {item['msg']}"
            for item in error.errors()
        )
        raise PromptError(f"{where}: {details}") from error


@lru_cache(maxsize=64)
def load_prompt(prompt_id: str) -> Prompt:
    """Return the prompt shipped as ``prompt_id``.

    Raises ``PromptError`` if there is none or it is malformed.
    """
    if _NAME.fullmatch(prompt_id) is None:
        raise PromptError(f"{prompt_id!r} is not a prompt id: use lower-case letters, digits and _")
    place = files(__name__).joinpath(f"{prompt_id}.md")
    if not place.is_file():
        known = sorted(
            Path(item.name).stem for item in files(__name__).iterdir() if item.name.endswith(".md")
        )
        raise PromptError(f"no prompt {prompt_id!r}: there are {', '.join(known)}")
    prompt = parse_prompt(place.read_text(encoding="utf-8"), f"prompts/{prompt_id}.md")
    if prompt.id != prompt_id:
        raise PromptError(f"prompts/{prompt_id}.md says id {prompt.id!r}: make both the same")
    return prompt
