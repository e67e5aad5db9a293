"""Judges over decision models: one image, typed questions, a probability per option.

Also their wire formats: OpenAI's, Gemini's and System One's, which many servers speak. A body has
the picture first, so that prefixes are alike. OpenAI lists questions and answers; Gemini and System
One send maps of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.agents.judges.decisions.models import DecisionCaps, Host, caps_of, host_of
from scenewright.agents.judges.decisions.questions import (
    ASKING,
    DECISION_PROMPT,
    READING,
    STATEMENT_PROMPT,
    Decided,
    DecisionReading,
    DecisionSheet,
    JsonObject,
    Question,
    copies,
    parse_json,
    parts_of,
    problem_of,
    read_listed,
    read_named,
    sheet_of,
    weighed,
)
from scenewright.agents.judges.pictures import PreparedImage, image_tokens, prepare, text_tokens
from scenewright.agents.judges.reading import FactReading, quote
from scenewright.agents.judges.remote import (
    Attempt,
    CallingJudge,
    Numbered,
    Pictures,
    Sizes,
    chunks,
)
from scenewright.config.accounts import DECISION_KIND, NO_KEY, OWN_HOSTS, missing_key
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import JudgeError
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import MalformedReply, RawReply
from scenewright.providers.clients.client import ModelClient, ProviderClient, make_client
from scenewright.providers.clients.reading import StatusError, count_of, error_codes
from scenewright.providers.clients.systemone import SystemOneClient
from scenewright.providers.replies import error_message
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Reply, Usage

_NAME_DIGITS = 8


@dataclass(frozen=True, slots=True)
class OpenAIDecisions:
    """Wire format of OpenAI's ``/v1/decisions``."""

    model: str
    caps: DecisionCaps

    def build(self, picture: PreparedImage, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the body: one user message with the image, and the list of questions."""
        image = {"type": "input_image", "image_url": picture.data_url}
        if self.caps.detail:
            image["detail"] = self.caps.detail
        return {
            "model": self.model,
            "input": [{"role": "user", "content": [image]}],
            "questions": [self._put(question) for question in questions],
        }

    def read(self, reply: RawReply, questions: Sequence[Question]) -> DecisionReading:
        """Return the answers by position and name, and the usage."""
        body = parse_json(reply.text)
        answers = _at(body, "answers")
        if not isinstance(answers, list):
            raise MalformedReply(f"no list of answers: {quote(reply.text)}")
        details = ("usage", "input_tokens_details")
        usage = Usage(
            _count(body, "usage", "input_tokens"),
            _count(body, "usage", "output_tokens"),
            _count(body, *details, "cached_tokens"),
            tokens_written=_count(body, *details, "cache_write_tokens"),
        )
        return _reading(body, read_listed(questions, answers), usage, reply)

    @staticmethod
    def _put(question: Question) -> dict[str, Any]:
        put = {"type": question.kind, "name": question.name, "instructions": question.text}
        if question.kind == "yes_no":
            # A predicate is a statement: its first option is its claim.
            return {**put, "type": "predicate", "instructions": question.statement}
        if question.kind == "score":
            return {**put, "levels": [{"label": label} for _, label in question.options]}
        return {**put, "choices": [{"value": value} for value in question.values]}


@dataclass(frozen=True, slots=True)
class GeminiDecisions:
    """Wire format of Gemini's ``/v1beta/decisions``."""

    model: str
    caps: DecisionCaps

    def build(self, picture: PreparedImage, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the body: image and map of questions."""
        image = {"type": "image", "mime_type": picture.media_type, "data": picture.base64}
        if self.caps.detail:
            image["resolution"] = self.caps.detail
        asked = {
            question.name: put(
                question, true="true_description", false="false_description", blank=""
            )
            for question in questions
        }
        return {"model": self.model, "input": [image], "questions": asked}

    def read(self, reply: RawReply, questions: Sequence[Question]) -> DecisionReading:
        """Return the answers by their names, and the usage; the wire names no served model."""
        body = parse_json(reply.text)
        usage = Usage(
            _count(body, "usage", "total_input_tokens"),
            _count(body, "usage", "total_output_tokens")
            + _count(body, "usage", "total_thought_tokens"),
            _count(body, "usage", "total_cached_tokens"),
        )
        blocked = _at(body, "prompt_feedback", "block_reason")
        if blocked:
            raise UnusableReply(f"refused: {quote(blocked)}", usage, retry=False)
        return _reading(body, read_named(questions, _answers_of(body, reply)), usage, reply)


@dataclass(frozen=True, slots=True)
class SystemOneDecisions:
    """Wire format of System One, for all hosts of ``hosts.toml``."""

    model: str
    host: Host

    def build(self, picture: PreparedImage, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the body: the state with the picture, then a map of questions."""
        asked = {question.name: put(question) for question in questions}
        told: dict[str, Any]
        match self.host.pictures:
            case "assets":
                digest = hashlib.sha256(picture.data).hexdigest()
                name = picture_name(digest, json.dumps(asked, ensure_ascii=False))
                form = picture.media_type.removeprefix("image/").replace("jpeg", "jpg")
                asset = {"type": "image", "format": form, "data_base64": picture.base64}
                told = {"state": name, "assets": {name: asset}}
            case "images":
                as_url = self.host.encoding == "data_url"
                image = picture.data_url if as_url else picture.base64
                told = {"state": self.host.state, "images": [image]}
            case "parts":
                told = {"state": [{"type": "image_url", "image_url": {"url": picture.data_url}}]}
        return {"model": self.model, **told, "questions": asked}

    def read(self, reply: RawReply, questions: Sequence[Question]) -> DecisionReading:
        """Return the answers by their names, and the usage.

        An answer whose labels held next to nothing of the probability is none.
        """
        whole = parse_json(reply.text)
        if _at(whole, "success") is False:
            raise StatusError(200, error_message(whole), reply.headers, error_codes(whole))
        host = self.host
        body = _at(whole, *host.reply)
        found = read_named(questions, _answers_of(body, reply))
        answers = []
        for one, question in zip(found, questions, strict=True):
            path = [step.replace("{name}", question.name) for step in host.label_mass]
            answers.append(weighed(one, _at(body, *path) if path else None))
        usage = Usage(
            _count(body, *host.input_tokens),
            _count(body, "usage", "output_tokens"),
            _count(body, *host.cached_tokens),
        )
        return _reading(body, answers, usage, reply, host.request_id)


DecisionFormat = OpenAIDecisions | GeminiDecisions | SystemOneDecisions
"""A wire format: ``build`` makes a request's body, ``read`` the answers of a reply; both are pure.

``read`` raises ``UnusableReply`` where the whole request was refused, ``MalformedReply`` for what
is no reply of the provider, ``StatusError`` where it reports a failure.
"""


def put(
    question: Question, *, true: str = "true", false: str = "false", blank: str | None = None
) -> dict[str, Any]:
    """Return ``question`` as a value of a map of questions.

    ``true``, ``false``: the keys of the criteria of a yes/no question, which has some only where it
    is turned round. ``blank``: what stands for an option's description.
    """
    asked: dict[str, Any] = {"instructions": question.text, "type": question.kind}
    if question.kind == "choice":
        return {**asked, "criteria": dict.fromkeys(question.values, blank)}
    if question.kind == "score":
        return {**asked, "criteria": [label for _, label in question.options]}
    first, second = question.values
    # Reversed: its "true" means no.
    criteria = {} if first == "yes" else {"criteria": {true: first, false: second}}
    return {**asked, "type": "noul", **criteria}


def picture_name(digest: str, text: str) -> str:
    """Return a name for the image of that ``digest`` (hex) that does not occur in ``text``.

    It is replaced by the picture wherever it stands, inside words too. The same picture has the
    same name, so that prefixes are alike.
    """
    digits = _NAME_DIGITS
    while f"<img-{digest[:digits]}>" in text and digits < len(digest):
        digits += 1
    return f"<img-{digest[:digits]}>"


def _answers_of(body: object, reply: RawReply) -> Sequence[tuple[str, object]]:
    """Return the answers of a map; a repeated name stands for several answers."""
    answers = _at(body, "answers")
    if not isinstance(answers, JsonObject):
        raise MalformedReply(f"no answers: {quote(reply.text)}")
    return answers.pairs


def _reading(
    body: object,
    answers: Sequence[Decided],
    usage: Usage,
    reply: RawReply,
    header: str = "x-request-id",
) -> DecisionReading:
    served = _at(body, "model")
    model = served if isinstance(served, str) else ""
    return DecisionReading(tuple(answers), usage, model, reply.headers.get(header, ""))


def _count(body: object, *path: str) -> int:
    return count_of(_at(body, *path))


def _at(value: object, *path: str) -> Any:
    """Return the value at ``path`` in nested objects, or None."""
    found: Any = value
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


_BYTES_AROUND = 64
"""Bytes of a question besides its words, in the largest wire format."""


class DecisionJudge(CallingJudge[ProviderClient[Any], DecisionCaps]):
    """Implements :class:`~scenewright.core.ports.judge.Judge` over a decision model's client.

    All facts of a picture go in one request, unless they are more than the model's caps allow.
    """

    prompt = DECISION_PROMPT

    def __init__(
        self,
        client: ModelClient[Any] | SystemOneClient,
        form: DecisionFormat,
        caller: Caller,
        caps: DecisionCaps,
        *,
        account: str = "",
        priced_as: str = "",
    ) -> None:
        """Initialise as :class:`CallingJudge`; ``form``: the wire format of ``client``."""
        super().__init__(client, caller, caps, account=account, priced_as=priced_as)
        self._decide, self._form = client.decide, form
        self.id = f"{DECISION_KIND}:{self._account}/{client.model}"
        """``decision:account/model``."""
        # A model that also chats costs another price there.
        self._priced = DECISION_KIND, "/".join(self._priced)

    def _settings(self) -> Mapping[str, object]:
        caps = self._model_caps
        return {
            "wire": caps.wire,
            "prompts": [load_prompt(name).hash for name in (DECISION_PROMPT, STATEMENT_PROMPT)],
            "orders": [caps.orders, caps.turns],
            "wording": caps.wording,
            "detail": caps.detail,
            # In joint models the questions of a request influence each other.
            "limits": [caps.questions_per_call, caps.request_bytes, caps.request_tokens],
            "asking": ASKING,
            "reading": READING,
        }

    def _unaskable(self, fact: Fact) -> str:
        caps = self._model_caps
        problem = problem_of(fact, caps.options_per_question)
        return problem or (
            "" if self._fits([fact]) else "the question is longer than a request may be: shorten it"
        )

    def _chunks(self, todo: Sequence[Numbered]) -> list[Sequence[Numbered]]:
        """Split into as few nearly equal parts as keep every limit of the wire."""
        most = len(todo)
        while most > 1:
            found = chunks(todo, most)
            if all(self._fits([fact for _, fact in chunk]) for chunk in found):
                return found
            # One part more.
            most = -(-len(todo) // (len(found) + 1))
        return chunks(todo, 1)

    def _fits(self, facts: Sequence[Fact]) -> bool:
        caps = self._model_caps
        asked = sum(copies(fact, caps.orders, turns=caps.turns) for fact in facts)
        if asked > caps.questions_per_call:
            return False
        questions = self._sheet(facts).questions
        # A name of another script takes up to six bytes a character where it is escaped.
        size = caps.picture_bytes + sum(
            _BYTES_AROUND * (1 + len(one.options)) + len(json.dumps(_words(one)))
            for one in questions
        )
        # A limit of 0 is unknown.
        return (not caps.request_bytes or size <= caps.request_bytes) and (
            not caps.request_tokens or self._question_tokens(questions) <= caps.request_tokens
        )

    def _sheet(self, facts: Sequence[Fact]) -> DecisionSheet:
        caps = self._model_caps
        return sheet_of(facts, caps.orders, turns=caps.turns, wording=caps.wording)

    def _usage(self, sizes: Sizes, facts: Sequence[Fact]) -> Usage:
        caps = self._model_caps
        (size,) = sizes
        shown = caps.preparation.shown_size(size)
        questions = self._sheet(facts).questions
        # The output is not text, and free.
        return Usage(image_tokens(caps.image_tokens, *shown) + self._question_tokens(questions))

    def _question_tokens(self, questions: Sequence[Question]) -> int:
        around = self._model_caps.question_tokens
        return sum(around + text_tokens(_words(question)) for question in questions)

    def _attempt(self, pictures: Pictures, facts: Sequence[Fact]) -> Attempt:
        (image,) = pictures
        caps = self._model_caps
        sheet = self._sheet(facts)

        async def attempt() -> Reply[tuple[list[FactReading], str]]:
            # Encode only now: thousands of queued calls need no encoded image.
            picture = await prepare(image, caps.preparation)
            body = self._form.build(picture, sheet.questions)
            reading = self._form.read(await self._decide(body), sheet.questions)
            parts = parts_of(reading, sheet)
            return Reply((parts, reading.model), reading.usage, reading.request_id)

        return attempt


def decision_judge(
    provider: str,
    model: str,
    caller: Caller,
    *,
    api_key: str | None,
    base_url: str | None = None,
    name: str | None = None,
    overrides: Mapping[str, object] | None = None,
    host: Mapping[str, object] | None = None,
) -> DecisionJudge:
    """Return the judge ``decision:NAME/model`` of an account of ``provider``.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own.
    ``name``: the account, in place of the provider in the judge's id. ``overrides``: keys of
    :class:`~.models.DecisionCaps`, in place of what the table of facts says. The library is
    imported here. Raises ``JudgeError`` for a missing key, a provider without decision models or a
    setting that cannot be.
    """
    caps = caps_of(provider, model, overrides)
    key = (api_key or "").strip() or (NO_KEY if provider in OWN_HOSTS else "")
    if not key:
        raise JudgeError(missing_key(provider, name))
    client: ModelClient[Any] | SystemOneClient
    form: DecisionFormat
    if caps.wire in ("openai", "gemini"):
        client = make_client(caps.wire, model, api_key=key, base_url=base_url)
        form = (OpenAIDecisions if caps.wire == "openai" else GeminiDecisions)(model, caps)
    else:
        served = host_of(caps.wire, host)
        address = base_url or served.base_url
        form = SystemOneDecisions(model, served)
        client = SystemOneClient(
            model,
            provider=caps.wire,
            title=served.title,
            url=served.url(address, model),
            api_key=key,
            base_url=address,
            headers=served.headers,
            lasting_codes=served.lasting_codes,
        )
    # Another server's models are not the provider's, whatever they are called.
    priced_as = provider if base_url is None else ""
    return DecisionJudge(client, form, caller, caps, account=name or "", priced_as=priced_as)


def _words(question: Question) -> str:
    """Return all text sent for a question."""
    told = [text for option in question.options for text in option if text]
    return " ".join([question.text, *told]) if question.kind != "yes_no" else question.statement
