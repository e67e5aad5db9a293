"""The models that annotate: who they are, what a call of them takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from scenewright.agents.chat.language_replies import digest_of, name_of
from scenewright.agents.judges.pictures import character_tokens, image_tokens
from scenewright.evals.errors import AnnotationError
from scenewright.prompts import load_prompt
from scenewright.providers.usage import Usage
from scenewright.tools.vision.extraction.one_stage import BOXES_PROMPT, PictureParser

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from scenewright.config.profiles import Role
    from scenewright.config.settings import Settings

RELATIONS_AN_OBJECT = 1.5
"""Relations that a model is expected to name for each object."""
TOKENS_A_RELATION = 28
"""Output tokens that one of them takes, about."""
TOKENS_AN_OBJECT = 14
"""Input tokens of an object and its box."""

PriceOf = Callable[[Usage], float | None]
"""Dollars of a usage; None if the price is not known."""


@dataclass(frozen=True)
class Voter:
    """A model that looks at photos and names relations."""

    name: str
    """As the configuration names it."""
    parser: PictureParser
    """Algorithm 1."""
    image_rule: str = "tiles-258"
    """How its provider counts the tokens of a picture."""
    price: PriceOf = field(default=lambda usage: 0.0)
    """What its tokens cost."""

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever a photo could get another reply."""
        return self.parser.fingerprint

    def expected(self, size: tuple[int, int], objects: int) -> Usage:
        """Tokens of a call for a photo of ``size`` (width, height) with so many objects."""
        shown = self.parser.preparation.shown_size(size)
        prompt = character_tokens(len(load_prompt(BOXES_PROMPT).text)) + TOKENS_AN_OBJECT * objects
        named = round(RELATIONS_AN_OBJECT * objects)
        return Usage(image_tokens(self.image_rule, *shown) + prompt, 20 + TOKENS_A_RELATION * named)


@dataclass(frozen=True)
class TextModel:
    """A language model that reads lists."""

    name: str
    """As the configuration names it."""
    chat: BaseChatModel
    """The model."""
    price: PriceOf = field(default=lambda usage: 0.0)
    """What its tokens cost."""

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings."""
        return f"{name_of(self.chat)}#{digest_of(self.chat)}"


def voters_of(specs: Sequence[str], settings: Settings | None = None) -> tuple[Voter, ...]:
    """The models ``account:model`` of ``specs``, sampled as Algorithm 1 does where they can be.

    Raises ``SettingsError`` for an unknown account or one without its key, and
    ``AnnotationError`` for a model that cannot look at photos.
    """
    return tuple(_voter(spec, settings) for spec in specs)


def text_model_of(
    spec: str, settings: Settings | None = None, role: Role | None = None
) -> TextModel:
    """The language model ``account:model`` for ``role``; raises as :func:`voters_of`."""
    from scenewright.config.settings import load_settings
    from scenewright.runs.model_factory.profiles import chat_of

    settings = settings or load_settings()
    _refuse_scripts(spec)
    return TextModel(spec, chat_of(spec, settings, role=role), _price_of(spec, settings))


def _voter(spec: str, settings: Settings | None) -> Voter:
    from scenewright.agents.judges.models import caps_of
    from scenewright.config.settings import load_settings, split_judge
    from scenewright.runs.model_factory.profiles import chat_of
    from scenewright.tools.vision.extraction.one_stage import sampling_of

    settings = settings or load_settings()
    _refuse_scripts(spec)
    account, model = split_judge(spec)
    about = settings.account(account)
    caps = caps_of(about.provider, model, about.models.get(model), chats=True)
    chat = chat_of(spec, settings, role="parser", overrides={"sampling": sampling_of(caps)})
    parser = PictureParser(chat, caps.preparation)
    return Voter(spec, parser, caps.image_tokens, _price_of(spec, settings))


def _refuse_scripts(spec: str) -> None:
    from scenewright.config.accounts import DECISION_KIND
    from scenewright.config.settings import CHAT_KINDS, JUDGE_KINDS, split_judge

    kind = split_judge(spec)[0]
    if kind in (*CHAT_KINDS, *JUDGE_KINDS, DECISION_KIND):
        raise AnnotationError(
            f"{spec} writes no scene graphs: name language models of accounts as account:model, "
            "for example gemini:gemini-3.8-flash; judges stand in judges, with "
            'consensus = "judges"'
        )


def _price_of(spec: str, settings: Settings) -> PriceOf:
    from scenewright.config.settings import split_judge
    from scenewright.runs.model_factory.profiles import caller_of

    account, model = split_judge(spec)
    about = settings.account(account)
    caller = caller_of(account, settings)
    # Another server's models are not the provider's, whatever they are called.
    priced_as = about.provider if about.base_url is None else account
    return lambda usage: caller.price_of(priced_as, model, usage)
