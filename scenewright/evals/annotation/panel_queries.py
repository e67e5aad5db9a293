"""Models that annotate, how they are asked about photos and lists, and their votes.

Every model is asked about every photo, once a sample. Replies are kept before they are used.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.language_replies import ask_for, digest_of, name_of, tool_of
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.pictures import character_tokens, image_tokens
from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import CHAT_KINDS, JUDGE_KINDS, Role, split_judge
from scenewright.config.settings import Settings, load_settings
from scenewright.core.error_text import error_text
from scenewright.core.images import nothing_drawn
from scenewright.core.ports.vision import Detection
from scenewright.evals.errors import AnnotationError
from scenewright.evals.runner.progress import StartupFailureLimit
from scenewright.evals.store.ledger import Ledger, Photo, Reply
from scenewright.prompts import Prompt, load_prompt
from scenewright.providers.sdk_clients import identified, paying
from scenewright.providers.usage import Usage, metered
from scenewright.runs.model_factory.profiles import build_chat, get_caller
from scenewright.tools.vision.extraction.one_stage import BOXES_PROMPT, PictureParser, sampling_of

V = TypeVar("V")
Triple = tuple[str, str, str]
"""(source id, predicate, target id)."""


def plain(predicate: str) -> str:
    """Return ``predicate`` without capitals and with single spaces: how it is counted."""
    return " ".join(predicate.casefold().split())


@dataclass(frozen=True, slots=True)
class Claim:
    """A relation that at least one reply names."""

    triple: Triple
    """As most of its voters word it, with merged predicate."""
    voters: tuple[str, ...]
    """Its voters, in the order of the replies."""
    said: tuple[str, ...]
    """The words of each voter, synonyms and the other direction included: ``cat right of dog``."""
    of: int
    """Number of usable replies about the photo."""

    @property
    def share(self) -> float:
        """Share of the replies that name it, 0 to 1."""
        return len(self.voters) / self.of


def claims_of(
    replies: Mapping[str, Sequence[Triple]],
    synonyms: Mapping[str, str] | None = None,
    converses: Mapping[str, str] | None = None,
) -> list[Claim]:
    """Return all relations that ``replies`` (voter → triples) name, those with most votes first.

    A voter counts once a relation, however often it says it. ``synonyms`` (predicate → the one that
    stands for it) are applied first; a relation and its converse (``converses``) are one. A reply
    without relations is a vote against all. Order: votes, then the ids and the predicate.
    """
    merged, turned = synonyms or {}, converses or {}
    found: dict[Triple, dict[str, list[tuple[Triple, str]]]] = {}
    for voter, triples in replies.items():
        for source, predicate, target in triples:
            word = merged.get(plain(predicate), plain(predicate))
            triple = (source, word, target)
            other = turned.get(word)
            key = triple if other is None else min(triple, (target, other, source))
            said = f"{source} {predicate} {target}"
            found.setdefault(key, {}).setdefault(voter, []).append((triple, said))
    claims = []
    for votes in found.values():
        first = [forms[0] for forms in votes.values()]
        forms = [triple for triple, _ in first]
        shown = max(sorted(set(forms)), key=forms.count)
        words = tuple(said for _, said in first)
        claims.append(Claim(shown, tuple(votes), words, len(replies)))
    return sorted(claims, key=lambda claim: (-len(claim.voters), claim.triple))


RELATIONS_AN_OBJECT = 1.5
"""Relations that a model is expected to name for each object."""
TOKENS_A_RELATION = 28
"""Approximate output tokens of one of them."""
TOKENS_AN_OBJECT = 14
"""Input tokens of an object and its box."""

PriceOf = Callable[[Usage], float | None]
"""Dollars of a usage; None if the price is unknown."""


@dataclass(frozen=True)
class Voter:
    """A model that looks at photos and names relations."""

    name: str
    """``account:model``."""
    parser: PictureParser
    """Algorithm 1."""
    image_rule: str = "tiles-258"
    """The provider's rule for the tokens of a picture."""
    price: PriceOf = field(default=lambda usage: 0.0)

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the model and its settings: equal ones give equal replies."""
        return self.parser.fingerprint

    def expected(self, size: tuple[int, int], objects: int) -> Usage:
        """Return the tokens of a call for a photo of ``size`` (width, height)."""
        shown = self.parser.preparation.shown_size(size)
        prompt = character_tokens(len(load_prompt(BOXES_PROMPT).text)) + TOKENS_AN_OBJECT * objects
        named = round(RELATIONS_AN_OBJECT * objects)
        return Usage(image_tokens(self.image_rule, *shown) + prompt, 20 + TOKENS_A_RELATION * named)


@dataclass(frozen=True)
class TextModel:
    """A language model that reads lists."""

    name: str
    """``account:model``."""
    chat: BaseChatModel
    price: PriceOf = field(default=lambda usage: 0.0)

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings."""
        return f"{name_of(self.chat)}#{digest_of(self.chat)}"


def voters_of(specs: Sequence[str], settings: Settings | None = None) -> tuple[Voter, ...]:
    """Return the models ``account:model`` of ``specs``.

    They are sampled as Algorithm 1 does where they can be. Raises ``SettingsError`` for an unknown
    account or one without its key, and ``AnnotationError`` for a model that cannot look at photos.
    """
    settings = settings or load_settings()
    found = []
    for spec in specs:
        _refuse_scripts(spec)
        account, model = split_judge(spec)
        about = settings.account(account)
        caps = caps_of(about.provider, model, about.models.get(model), chats=True)
        chat = build_chat(spec, settings, role="parser", overrides={"sampling": sampling_of(caps)})
        parser = PictureParser(chat, caps.preparation)
        found.append(Voter(spec, parser, caps.image_tokens, _price_of(spec, settings)))
    return tuple(found)


def text_model_of(
    spec: str, settings: Settings | None = None, role: Role | None = None
) -> TextModel:
    """Return the language model ``account:model`` for ``role``; raises as :func:`voters_of`."""
    settings = settings or load_settings()
    _refuse_scripts(spec)
    return TextModel(spec, build_chat(spec, settings, role=role), _price_of(spec, settings))


def _refuse_scripts(spec: str) -> None:
    if split_judge(spec)[0] in (*CHAT_KINDS, *JUDGE_KINDS, DECISION_KIND):
        raise AnnotationError(
            f"{spec} writes no scene graphs: name language models of accounts as account:model, "
            "for example gemini:gemini-3.8-flash; judges stand in judges, with "
            'consensus = "judges"'
        )


def _price_of(spec: str, settings: Settings) -> PriceOf:
    account, model = split_judge(spec)
    about = settings.account(account)
    caller = get_caller(account, settings)
    priced_as = about.priced_as(account)
    return lambda usage: caller.price_of(priced_as, model, usage)


Ballot = tuple[Voter, int]
"""A model and the number of its sample."""


def ballots(voters: Sequence[Voter], samples: int) -> list[Ballot]:
    """Return all votes that a photo gets."""
    return [(voter, sample) for voter in voters for sample in range(samples)]


def ballot_name(voter: Voter, sample: int, samples: int) -> str:
    """Return ``account:model``, with ``#1``, ``#2``, … where there are several samples."""
    return voter.name if samples == 1 else f"{voter.name}#{sample + 1}"


def reply_key(photo: Photo, voter: Voter, sample: int) -> str:
    """Return SHA-256 of all that decides a reply."""
    told = "\0".join((photo.key, voter.fingerprint, str(sample)))
    return hashlib.sha256(told.encode()).hexdigest()


def missing(
    ledger: Ledger, photo: Photo, wanted: Iterable[Ballot], retry: bool = False
) -> list[Ballot]:
    """Return those of ``wanted`` without a reply, and failed ones with ``retry``."""
    found = []
    for voter, sample in wanted:
        reply = ledger.get(reply_key(photo, voter, sample))
        if reply is None or (retry and reply.state == "failed"):
            found.append((voter, sample))
    return found


@dataclass(frozen=True, slots=True)
class Request:
    """One missing reply."""

    voter: int
    """Number of the model in the panel."""
    sample: int
    """Number of the reply."""
    tries: int = 0
    """Failed tries so far."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A photo and its missing replies."""

    photo: Photo
    wanted: tuple[Request, ...]
    """The missing replies."""

    @property
    def id(self) -> str:
        """Id of the photo."""
        return self.photo.id


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A new reply."""

    reply: Reply
    """The reply of this one try."""
    asked: bool = True
    """Whether a model was asked; not about a photo that cannot be used."""


def sheets_of(
    ledger: Ledger, voters: Sequence[Voter], samples: int, retry: bool = False
) -> Iterator[Sheet]:
    """Yield the photos that lack replies; failed ones are lacking only with ``retry``."""
    wanted = ballots(voters, samples)
    places = {id(voter): at for at, voter in enumerate(voters)}
    for photo in ledger.photos():
        requests = tuple(
            Request(places[id(voter)], sample, tries_of(ledger.get(key)))
            for voter, sample in missing(ledger, photo, wanted, retry)
            for key in (reply_key(photo, voter, sample),)
        )
        if requests:
            yield Sheet(photo, requests)


def keep_reply(ledger: Ledger, one: ReceivedReply, failures: StartupFailureLimit) -> None:
    """Keep a reply, failed ones too: they are asked again with ``retry`` alone.

    Raises ``AnnotationError`` if its model fails from the start, or if the ledger does.
    """
    reply = after(ledger.get(one.reply.key), one.reply)
    ledger.put(reply)
    if reply.state == "done":
        failures.worked(reply.voter)
    elif one.asked:
        failures.failed(reply.voter, reply.reason)


async def ask_about(
    sheet: Sheet,
    voters: Sequence[Voter],
    load: Callable[[], Image.Image],
    heard: Callable[[ReceivedReply], object],
) -> None:
    """Send all requests of ``sheet`` concurrently; ``heard`` is called with each reply.

    ``load`` loads the photo, and is called in a thread. Raises what ``heard`` raises.
    """
    photo = sheet.photo
    try:
        image: Image.Image | None = await asyncio.to_thread(load)
        problem = "" if image is None else await asyncio.to_thread(nothing_drawn, image)
    except (ValueError, OSError) as error:
        image, problem = None, error_text(error)
    if image is not None and image.size != photo.size:
        problem = f"the photo now has {image.width}×{image.height} pixels: run again"

    async def one(wanted: Request) -> None:
        voter = voters[wanted.voter]
        key = reply_key(photo, voter, wanted.sample)
        if image is None or problem:
            heard(ReceivedReply(Reply(key, "photo", voter.name, "failed", problem), asked=False))
            return
        heard(ReceivedReply(await _asked(photo, image, voter, key, wanted.tries)))

    await asyncio.gather(*(one(wanted) for wanted in sheet.wanted))


async def _asked(photo: Photo, image: Image.Image, voter: Voter, key: str, tries: int) -> Reply:
    detections = [Detection(name, box) for _, name, box in photo.objects]

    async def parsed() -> list[Triple]:
        scene = await voter.parser.parse(image, detections)
        return [(r.source, r.predicate, r.target) for r in scene.relations]

    return await _reply(key, "photo", voter.name, tries, parsed())


async def _reply(key: str, kind: str, who: str, tries: int, asked: Awaitable[Any]) -> Reply:
    """Return the reply with what ``asked`` gives, or the reason of its failure, and its costs."""
    data, reason = None, ""
    started = time.perf_counter()
    with metered() as spent, identified(f"{key}:{tries}"):
        try:
            data = await asked
        # Whatever a model's reply or library does costs this reply and no other.
        except Exception as error:
            reason = error_text(error)
    return Reply(
        key,
        kind,
        who,
        "failed" if reason else "done",
        reason,
        data,
        spent.usage.tokens_in,
        spent.usage.tokens_out,
        spent.usd,
        time.perf_counter() - started,
    )


def tries_of(before: Reply | None) -> int:
    """Return how often a reply was tried for in vain.

    A request that is sent once more after an unusable reply must be known as another one, or it
    would bring the same.
    """
    return 0 if before is None or before.state == "done" else int(before.data or 0)


def after(before: Reply | None, reply: Reply) -> Reply:
    """Return ``reply`` with the costs of the failed ones before it; a failure counts the tries."""
    tries = tries_of(before) + 1
    if reply.state == "failed":
        reply = replace(reply, data=tries)
    if before is None or before.state == "done":
        return reply
    return replace(
        reply,
        tokens_in=reply.tokens_in + before.tokens_in,
        tokens_out=reply.tokens_out + before.tokens_out,
        usd=reply.usd + before.usd,
        seconds=reply.seconds + before.seconds,
    )


def replies_of(
    ledger: Ledger, photo: Photo, voters: Sequence[Voter], samples: int
) -> dict[str, list[Triple]]:
    """Return voter → its triples, of the replies about ``photo`` that can be used."""
    found: dict[str, list[Triple]] = {}
    for voter, sample in ballots(voters, samples):
        reply = ledger.get(reply_key(photo, voter, sample))
        if reply is not None and reply.state == "done":
            found[ballot_name(voter, sample, samples)] = [(s, p, t) for s, p, t in reply.data]
    return found


Reader = Callable[[Mapping[str, Any], bool], Any]
"""Makes JSON data of the tool's arguments. The flag says that it is the model's last chance: usable
parts are then accepted. Otherwise raises ``ValueError`` with the problems."""


def rows_by_key(
    rows: Any,
    what: str,
    key: str,
    wanted: Iterable[str],
    read: Callable[[list[Mapping[str, Any]]], V],
    last: bool,
) -> tuple[dict[str, V], dict[str, str]]:
    """Return what ``read`` makes of the rows about each of ``wanted``, and why others have none.

    ``rows`` is the list ``what`` of a reply, whose rows name the one that they are about under
    ``key``; ``read`` raises ``ValueError`` for rows of no use. Raises ``ValueError`` with the
    problems unless it is the ``last`` chance.
    """
    if not isinstance(rows, list):
        raise ValueError(f"{what} is missing or not a list")
    said: dict[str, list[Mapping[str, Any]]] = {one: [] for one in wanted}
    problems: list[str] = []
    for at, row in enumerate(rows):
        name = str(row.get(key)) if isinstance(row, Mapping) else ""
        if name in said:
            said[name].append(row)
        else:
            problems.append(f"{what}[{at}]: there is no {key} {name} in the list")
    found: dict[str, V] = {}
    lost: dict[str, str] = {}
    for one, about in said.items():
        try:
            if not about:
                raise ValueError("the model left it out")
            found[one] = read(about)
            if len(about) > 1:
                problems.append(f"{key} {one} is there twice")
        except ValueError as error:
            lost[one] = str(error)
            problems.append(f"{key} {one}: {error}")
    if problems and not last:
        raise ValueError("; ".join(problems[:8]))
    return found, lost


async def ask_twice(chat: BaseChatModel, prompt: Prompt, text: str, read: Reader) -> Any:
    """Return what ``read`` makes of the call of the prompt's tool that ``chat`` answers with.

    The model is told once what is wrong with it.
    """
    heard = 0

    def attempt(given: Mapping[str, Any]) -> Any:
        nonlocal heard
        heard += 1
        return read(given, heard > 1)

    return (await ask_for(chat, [HumanMessage(text)], tool_of(prompt), attempt)).value


async def ask_text(
    ledger: Ledger,
    model: TextModel,
    kind: str,
    prompt_id: str,
    read: Reader,
    *,
    retry: bool = False,
    **variables: str,
) -> Reply:
    """Return the reply to a prompt with ``variables``, from ``ledger`` or from the model.

    The model calls the prompt's tool. A reply that is still unusable after the model was told so is
    a failed one, asked again only with ``retry``. Raises ``AnnotationError`` if the ledger fails.
    """
    prompt = load_prompt(prompt_id)
    text = prompt.render(**variables)
    told = "\0".join((kind, model.fingerprint, prompt.hash, text))
    key = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    before = ledger.get(key)
    if before is not None and (before.state == "done" or not retry):
        return before
    asked = ask_twice(model.chat, prompt, text, read)
    with paying(ledger.nonce()):
        reply = after(before, await _reply(key, kind, model.name, tries_of(before), asked))
    ledger.put(reply)
    return reply
