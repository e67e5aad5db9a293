"""Roles of models against the shapes of replies that compatible servers send.

:meth:`Bench.try_shape` asks one role once while a mock server shows one shape, and says whether the
end is right: the answer of an undisturbed call, or an error at once that holds the remedy. The
tests of the clients go through the same function.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from PIL import Image

from benchmarks._harness import BenchmarkError
from scenewright.agents.chat.model import AccountChat, account_chat
from scenewright.agents.composers.language import LanguageComposer
from scenewright.agents.judges.decisions.judge import decision_judge
from scenewright.agents.judges.remote import remote_judge
from scenewright.agents.parsers.language import LanguageParser
from scenewright.config.profiles import Role as ProfileRole
from scenewright.core.error_text import error_text
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import facts_of
from scenewright.graphs.director_tools import DirectorTool, langchain_tool
from scenewright.mock_providers import MockProviders, MockSettings
from scenewright.mock_providers.wild import Role, Shape
from scenewright.prompts import load_prompt
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.tools.backends.remote import remote_backend
from scenewright.tools.director import Accept, GenerateImage, ToolReply, VerifyFacts

SETTINGS = MockSettings(shape="no-v1", load_seconds=0.05, same_pictures=True, lenient=True)
"""Of a mock server for :class:`Bench`."""
SCENE = load_scene("red ball on table; dog left of table", format="triplets")
CAPTION = "A red ball is on a table."
GRAPH = {
    "objects": [
        {"id": "ball.1", "name": "ball", "attributes": [{"key": "color", "value": "red"}]},
        {"id": "table.1", "name": "table", "attributes": []},
    ],
    "relationships": [{"source": "ball.1", "target": "table.1", "relation": "on"}],
}
"""Of the caption, in the parser's form."""
TIMEOUT = 5.0
"""Seconds of silence that end an attempt."""
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one call of a role."""

    answer: Any = None
    """What the role made of the replies, comparable; None: it failed."""
    error: str = ""
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class Result:
    """A shape and a role, held against what is right."""

    shape: Shape
    role: Role
    outcome: Outcome
    attempts: int
    """Requests that were sent."""
    is_right: bool
    """Whether the call was answered as an undisturbed one, or failed if that is right."""

    @property
    def needless(self) -> int:
        """Requests beyond those that are right."""
        return max(0, self.attempts - self.shape.attempts)

    @property
    def missing_words(self) -> tuple[str, ...]:
        """Words of the remedy that the error lacks; of an error that is right alone."""
        if self.shape.decision != "final":
            return ()
        error = self.outcome.error.casefold()
        return tuple(word for word in self.shape.remedy if word.casefold() not in error)

    @property
    def problem(self) -> str:
        """What is wrong; empty if nothing is."""
        told = self.outcome.error or f"answered {str(self.outcome.answer)[:80]}"
        found = [] if self.is_right else ["wrong end"]
        found += [f"{self.needless} needless requests"] if self.needless else []
        found += [f"no {word!r}" for word in self.missing_words]
        where = f"{self.role}, {self.shape.name} ({self.shape.decision})"
        return f"{where}: {', '.join(found)}: {told}" if found else ""


class _Closing(Protocol):
    async def aclose(self) -> None: ...


@dataclass(slots=True)
class Account:
    """An account that no call used before: nothing is known of its server."""

    url: str
    in_text: bool = False
    """Whether answers of a schema come as text and not as the arguments of a call."""
    number: int = field(default_factory=lambda: next(_NUMBERS))
    caller: Caller = field(init=False)

    def __post_init__(self) -> None:
        self.caller = Caller(
            f"wild-{self.number}", timeout=TIMEOUT, priced=False, backoff=Backoff(initial=0.01)
        )

    @property
    def place(self) -> dict[str, Any]:
        """Arguments of the public factories."""
        return {
            "api_key": f"sk-wild-{self.number}",
            "base_url": f"{self.url}/v1",
            "name": self.caller.account,
        }

    @property
    def where(self) -> dict[str, Any]:
        """Arguments of the factories of judges and chat models."""
        return {**self.place, "overrides": {"structured": "schema"} if self.in_text else None}

    def chat(self, model: str, role: ProfileRole | None) -> AccountChat:
        """Return the chat model of this account for a role."""
        return account_chat("openai", model, self.caller, **self.where, role=role)


async def _judged(judge: Judge) -> Outcome:
    image = Image.new("RGB", (64, 64), "red")
    answers = await judge.answer(image, facts_of(SCENE))
    lost = [answer.reason for answer in answers if answer.state == "unscored"]
    if lost:
        return Outcome(error=f"{len(lost)} of {len(answers)} unscored: {lost[0]}")
    return Outcome([(answer.state, answer.choice) for answer in answers])


async def _judge(account: Account) -> Outcome:
    judge = remote_judge("openai", "instant", account.caller, **account.where)
    return await _closing(judge, _judged(judge))


async def _decision_judge(account: Account) -> Outcome:
    judge = decision_judge("openai", "instant", account.caller, **account.place)
    return await _closing(judge, _judged(judge))


async def _chat(account: Account) -> Outcome:
    chat = account.chat("script:echo", None)
    message = await _closing(chat, chat.ainvoke([HumanMessage("A red ball lies on a table.")]))
    return _said(message)


def _said(message: AIMessage) -> Outcome:
    """Return the words of a reply; cut-off and declined ones are failures of a chat."""
    stop = message.response_metadata.get("stop")
    text = str(message.text)
    if stop in ("length", "refusal"):
        return Outcome(error=f"{text} ({stop} after some tokens)" if stop == "length" else text)
    return Outcome(text) if text else Outcome(error="an empty reply")


async def _composer(account: Account) -> Outcome:
    chat = account.chat("script:poet", "composer")
    composer = LanguageComposer(chat, stages=False, otherwise=None)
    return Outcome(await _closing(chat, composer.compose(SCENE, 1)))


class _Saying(BaseChatModel):
    """A chat model without tools whose server echoes ``words``, whatever it is asked."""

    account: AccountChat
    words: str

    @property
    def _llm_type(self) -> str:
        return "saying"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise BenchmarkError("ask it by ainvoke")

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        message = await self.account.ainvoke([HumanMessage(self.words)])
        return ChatResult(generations=[ChatGeneration(message=message)])


async def _parser(account: Account) -> Outcome:
    chat = account.chat("script:echo" if account.in_text else "instant", "parser")
    asked = _Saying(account=chat, words=json.dumps(GRAPH)) if account.in_text else chat
    scene = await _closing(chat, LanguageParser(asked).parse(CAPTION))
    return Outcome(scene.model_dump(mode="json"))


async def _unused(given: Any) -> ToolReply:
    return ToolReply({})


async def _director(account: Account) -> Outcome:
    """One turn of a director: the tools that it calls."""
    takes = {"generate_image": GenerateImage, "verify_facts": VerifyFacts, "accept": Accept}
    offered = [
        langchain_tool(DirectorTool(name, str(kind.__doc__), kind, _unused))
        for name, kind in takes.items()
    ]
    chat = account.chat("script:director", "director")
    said = [SystemMessage(load_prompt("director").render()), HumanMessage('{"scene": {}}')]
    message = await _closing(chat, chat.bind_tools(offered).ainvoke(said))
    calls = [(call["name"], call["args"]) for call in message.tool_calls]
    return Outcome(calls) if calls else Outcome(error=f"no tool call, but {message.text!r}")


async def _image(account: Account) -> Outcome:
    backend = remote_backend("openai", "instant-image", account.caller, **account.place)
    request = GenerationRequest(prompt="A red ball on a table.", seed=1)
    made = await _closing(backend, backend.generate(request, _no_images))
    return Outcome(hashlib.sha256(made.image.tobytes()).hexdigest())


def _no_images(name: str) -> Image.Image:
    raise BenchmarkError(f"no picture {name} here: the request has none")


async def _closing(model: _Closing, work: Awaitable[Any]) -> Any:
    try:
        return await work
    finally:
        await model.aclose()


ASK: Mapping[Role, Callable[[Account], Awaitable[Outcome]]] = {
    "judge": _judge,
    "decision judge": _decision_judge,
    "chat": _chat,
    "composer": _composer,
    "parser": _parser,
    "director": _director,
    "image": _image,
}


async def ask(role: Role, url: str, *, in_text: bool = False) -> Outcome:
    """Return the end of one call of ``role`` to the server at ``url``, by a new account."""
    account = Account(url, in_text)
    try:
        return await ASK[role](account)
    except Exception as error:
        return Outcome(error=error_text(error))
    finally:
        await account.caller.aclose()


def is_about_text(shape: Shape) -> bool:
    """Return whether a shape changes the text of a reply: the answers of a director have none."""
    return bool(shape.patch) and "text" in shape.kinds and "director" not in shape.roles


class Bench:
    """A mock server and the right answers of the roles."""

    def __init__(self, mock: MockProviders) -> None:
        """``mock`` serves with :data:`SETTINGS`."""
        self._mock = mock
        self._right: dict[tuple[Role, bool], Outcome] = {}

    async def _undisturbed(self, role: Role, in_text: bool) -> Outcome:
        if (role, in_text) not in self._right:
            self._mock.wild.show("no-v1", times=0)
            found = await ask(role, self._mock.url, in_text=in_text)
            if found.answer is None:
                raise BenchmarkError(f"{role} fails without any shape: {found.error}")
            self._right[role, in_text] = found
        return self._right[role, in_text]

    async def try_shape(self, shape: Shape, role: Role) -> Result:
        """Return how ``role`` fares with ``shape``."""
        in_text = is_about_text(shape)
        right = await self._undisturbed(role, in_text)
        wild = self._mock.wild
        wild.show(shape.name, times=shape.times)
        found = await ask(role, self._mock.url, in_text=in_text)
        if not wild.shown:
            raise BenchmarkError(f"{role} met no {shape.name}: it sent {wild.attempts} requests")
        fails = shape.decision == "final"
        is_right = found.answer is None if fails else found.answer == right.answer
        return Result(shape, role, found, wild.attempts, is_right)
