"""Every model is asked of every photo, once a sample; replies are kept before they are used."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from PIL import Image

from scenewright.core.ports.vision import Detection
from scenewright.evals.annotation.voters import Voter
from scenewright.evals.annotation.votes import Triple
from scenewright.evals.annotation.workers import StartupFailureLimit
from scenewright.evals.store.ledger import Ledger, Photo, Reply
from scenewright.providers.sdk_clients import identified
from scenewright.providers.usage import metered

_REASON_LENGTH = 500

Ballot = tuple[Voter, int]
"""A model and the number of its sample."""


def ballots(voters: Sequence[Voter], samples: int) -> list[Ballot]:
    """All votes that a photo gets."""
    return [(voter, sample) for voter in voters for sample in range(samples)]


def ballot_name(voter: Voter, sample: int, samples: int) -> str:
    """``account:model``, with ``#1``, ``#2``, … where there are several samples."""
    return voter.name if samples == 1 else f"{voter.name}#{sample + 1}"


def reply_key(photo: Photo, voter: Voter, sample: int) -> str:
    """SHA-256 of all that decides a reply."""
    told = "\0".join((photo.key, voter.fingerprint, str(sample)))
    return hashlib.sha256(told.encode()).hexdigest()


def missing(
    ledger: Ledger, photo: Photo, wanted: Iterable[Ballot], retry: bool = False
) -> list[Ballot]:
    """Those of ``wanted`` without a reply; failed ones are missing with ``retry`` alone."""
    found = []
    for voter, sample in wanted:
        reply = ledger.get(reply_key(photo, voter, sample))
        if reply is None or (retry and reply.state == "failed"):
            found.append((voter, sample))
    return found


@dataclass(frozen=True, slots=True)
class Request:
    """One reply that is wanted."""

    voter: int
    """Whose: the number of the model in the panel."""
    sample: int
    """Which of its replies."""
    tries: int = 0
    """How often it was tried for in vain."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A photo and the replies about it that lack."""

    photo: Photo
    """The photo."""
    wanted: tuple[Request, ...]
    """What is asked of it."""

    @property
    def id(self) -> str:
        """The photo's."""
        return self.photo.id


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A reply that just came."""

    reply: Reply
    """It, as this one try brought it."""
    asked: bool = True
    """Whether a model was asked: not of a photo that cannot be used."""


Ask = Callable[[Iterator[Sheet], Callable[[ReceivedReply], None]], Awaitable[None]]
"""Has models reply to sheets; tells of each reply as it comes."""


async def ask_panel(
    ledger: Ledger,
    voters: Sequence[Voter],
    samples: int,
    ask: Ask,
    *,
    retry: bool = False,
    on_reply: Callable[[Reply], None] = lambda reply: None,
) -> None:
    """Have ``ask`` bring every reply that ``ledger`` lacks, and keep each as soon as it is there.

    A call that is lost, and a photo or reply that cannot be used, are failed replies with their
    reason, and are asked again with ``retry`` alone. Raises ``AnnotationError`` if a model fails
    from the start, or if the ledger does.
    """
    wanted = ballots(voters, samples)
    places = {id(voter): at for at, voter in enumerate(voters)}
    patience = StartupFailureLimit()

    def lacking() -> Iterator[Sheet]:
        for photo in ledger.photos():
            requests = tuple(
                Request(places[id(voter)], sample, tries_of(ledger.get(key)))
                for voter, sample in missing(ledger, photo, wanted, retry)
                for key in (reply_key(photo, voter, sample),)
            )
            if requests:
                yield Sheet(photo, requests)

    def heard(one: ReceivedReply) -> None:
        reply = after(ledger.get(one.reply.key), one.reply)
        ledger.put(reply)
        on_reply(reply)
        if reply.state == "done":
            patience.worked(reply.voter)
        elif one.asked:
            patience.failed(reply.voter, reply.reason)

    await ask(lacking(), heard)


async def ask_about(
    sheet: Sheet,
    voters: Sequence[Voter],
    load: Callable[[], Image.Image],
    heard: Callable[[ReceivedReply], None],
) -> None:
    """Ask ``voters`` all that ``sheet`` wants, at the same time; ``heard`` is told reply by reply.

    ``load`` gives the photo, and is called in a thread. Raises what ``heard`` raises.
    """
    photo = sheet.photo
    try:
        image: Image.Image | None = await asyncio.to_thread(load)
        problem = ""
    except (ValueError, OSError) as error:
        image, problem = None, reason_of(error)
    if image is not None and image.size != photo.size:
        problem = f"the photo now has {image.width}×{image.height} pixels: run again"

    async def one(wanted: Request) -> None:
        voter = voters[wanted.voter]
        key = reply_key(photo, voter, wanted.sample)
        if image is None or problem:
            heard(ReceivedReply(Reply(key, "photo", voter.name, "failed", problem), asked=False))
            return
        scope = f"annotate:{key}:{wanted.tries}"
        heard(ReceivedReply(await _asked(photo, image, voter, key, scope)))

    await asyncio.gather(*(one(wanted) for wanted in sheet.wanted))


async def _asked(photo: Photo, image: Image.Image, voter: Voter, key: str, scope: str) -> Reply:
    detections = [Detection(name, box) for _, name, box in photo.objects]
    started = time.perf_counter()
    triples: list[Triple] | None = None
    reason = ""
    with metered() as spent, identified(scope):
        try:
            scene = await voter.parser.parse(image, detections)
            triples = [(r.source, r.predicate, r.target) for r in scene.relations]
        # Whatever a model's reply or library does costs this reply and no other.
        except Exception as error:
            reason = reason_of(error)
    return Reply(
        key,
        "photo",
        voter.name,
        "failed" if triples is None else "done",
        reason,
        triples,
        spent.usage.tokens_in,
        spent.usage.tokens_out,
        spent.usd,
        time.perf_counter() - started,
    )


def tries_of(before: Reply | None) -> int:
    """How often a reply was tried for in vain. A request that is sent once more after an unusable
    reply must be known as another one, or it would bring the same."""
    return 0 if before is None or before.state == "done" else int(before.data or 0)


def after(before: Reply | None, reply: Reply) -> Reply:
    """``reply`` with what the failed ones before it took; a failed one counts the tries."""
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


def reason_of(error: Exception) -> str:
    """Type and message of ``error``, as a reason is kept."""
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"


def replies_of(
    ledger: Ledger, photo: Photo, voters: Sequence[Voter], samples: int
) -> dict[str, list[Triple]]:
    """Voter → its triples, of the replies about ``photo`` that can be used."""
    found: dict[str, list[Triple]] = {}
    for voter, sample in ballots(voters, samples):
        reply = ledger.get(reply_key(photo, voter, sample))
        if reply is not None and reply.state == "done":
            found[ballot_name(voter, sample, samples)] = [(s, p, t) for s, p, t in reply.data]
    return found
