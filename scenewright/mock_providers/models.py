"""Models behind the mock providers, and which of them stands in for a provider's model.

The miniature's judges through the port of judges, ``instant``, which answers from a hash, and the
scripts of :mod:`scenewright.mock_providers.scripts`; the miniature's generator through the port of
backends, and ``instant-image``, which paints a pattern from a hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from PIL import Image, ImageOps

from scenewright.agents.judges.remote import WANTED
from scenewright.config.profiles import BackendSpec
from scenewright.core.english import indefinite
from scenewright.core.facts import Fact
from scenewright.core.images import hash_of_image
from scenewright.core.inflection import singular
from scenewright.core.ports.backend import BackendError, GenerationRequest, Reference, Start
from scenewright.core.ports.judge import Judge, JudgeError
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import relation_options
from scenewright.mock_providers.faults import MockError
from scenewright.mock_providers.pictures import Picture, decoded
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.refusals import table
from scenewright.mock_providers.scripts import ABOUT, PREFIX
from scenewright.mock_providers.sheets import YES_NO, Judged, Question
from scenewright.runs.model_factory.profiles import backend_of, build_judge

INSTANT = "instant"
_ALIKE = 0.1
INSTANTS = (INSTANT, "instant-2")
"""Models that answer from a hash, each from another one."""
MODELS: dict[str, str] = {
    "judge-a": "miniature judge a",
    "judge-b": "miniature judge b",
    "judge-c": "miniature judge c",
    "judge-d": "miniature judge d",
    "judge-weak": "miniature judge that is often wrong",
    "judge-eager": "miniature judge that likes to say yes",
    INSTANT: "answers at once, from a hash of the image and the question",
    INSTANTS[1]: "likewise from another hash: to be swapped with the first",
    **ABOUT,
}
"""Name → what it is."""
INSTANT_IMAGE = "instant-image"
IMAGE_MODELS: dict[str, str] = {
    "miniature": "miniature generator: draws 128 pixels square and scales that",
    INSTANT_IMAGE: "paints a pattern at once, from a hash of all that it is given",
}
"""Name → what it is."""
CREATED = 1_767_225_600
"""When the models were made, as Unix time: the same for all, so that listings do not change."""


def _own(model: str) -> str:
    """Return the name without a prefix such as ``miniature/``; a script's with ``script:``."""
    name = model.rpartition("/")[2]
    return f"{PREFIX}{name}" if f"{PREFIX}{name}" in MODELS else name


def _stand_in(name: str, among: Mapping[str, str]) -> str | None:
    """Return the first of ``among`` whose pattern fits ``name``."""
    return next((own for pattern, own in among.items() if fnmatchcase(name, pattern)), None)


def bare_name(model: str) -> str:
    """Return which of :data:`MODELS` answers for ``model``; raises ``Problem`` if none does."""
    name = _own(model)
    found = name if name in MODELS else _stand_in(name, table().judges)
    if found is None:
        raise Problem.unknown_model(model)
    return found


def image_model(model: str) -> str | None:
    """Return which of :data:`IMAGE_MODELS` answers for ``model``; none if it is no such name."""
    name = _own(model)
    return name if name in IMAGE_MODELS else _stand_in(name, table().generators)


def known_image_model(model: str) -> str:
    """As :func:`image_model`; raises ``Problem`` if it is no such name."""
    found = image_model(model)
    if found is None:
        raise Problem.unknown_model(model)
    return found


def is_own(model: str) -> bool:
    """Whether ``model`` is one of the mock itself, of whatever kind."""
    return _own(model) in {*MODELS, *IMAGE_MODELS}


def parse_models(texts: Iterable[str]) -> dict[str, str]:
    """Return names and the models that answer for them, from texts such as ``mine=judge-a``.

    Raises ``MockError``.
    """
    found = {}
    for text in texts:
        name, _, own = text.partition("=")
        try:
            found[name.strip()] = image_model(own.strip()) or bare_name(own.strip())
        except Problem:
            known = ", ".join((*MODELS, *IMAGE_MODELS))
            raise MockError(f"{text!r}: write NAME=MODEL with one of {known}") from None
    return found


def is_script(name: str) -> bool:
    """Whether the model ``name`` follows a script and judges nothing."""
    return name.startswith(PREFIX)


async def judge(name: str, picture: Picture, questions: Sequence[Question]) -> list[Judged]:
    """Return the answers of the model ``name`` to ``questions`` about ``picture``, in order.

    Facts outside a miniature judge's vocabulary are answered by :func:`instant`: a chat model,
    which it stands in for, answers anything. Raises ``Problem`` if the model fails.
    """
    if name in INSTANTS:
        salt = name.removeprefix(INSTANT).encode()
        return [instant(picture.digest + salt, question) for question in questions]
    numbers = [_thresholds(question) for question in questions]
    if any(numbers):
        # The miniature's judges count by one question for each number.
        apart = [some or [one] for one, some in zip(questions, numbers, strict=True)]
        said = iter(await judge(name, picture, [one for some in apart for one in some]))
        replies = [[next(said) for _ in some] for some in apart]
        told = zip(questions, numbers, replies, strict=True)
        return [_counted(one, some) if apart else some[0] for one, apart, some in told]
    try:
        found = await asyncio.to_thread(build_judge, f"local:miniature/{name}")
        image = await asyncio.to_thread(picture.decoded)
        known = [question for question in questions if _knows(found, question)]
        facts = [_fact(question, next(iter(question.options.values()))) for question in known]
        answers = await found.answer(image, facts)
    except JudgeError as error:
        raise Problem.server(error) from error
    judged = {}
    for question, answer in zip(known, answers, strict=True):
        if answer.probability is None or answer.choice is None:
            raise Problem.server(f"the model gave no answer: {answer.reason}")
        shares = answer.distribution or {"yes": answer.probability, "no": 1.0 - answer.probability}
        chances = tuple((key, shares.get(option, 0.0)) for key, option in question.options.items())
        picked = next(key for key, option in question.options.items() if option == answer.choice)
        judged[id(question)] = Judged(question, picked, dict(chances)[picked], chances)
    return [judged.get(id(one)) or instant(picture.digest, one) for one in questions]


_HOW_MANY = re.compile(r"How many (.+) are there in the image\?")


def _thresholds(question: Question) -> list[Question]:
    """Return a question for a number as one for each number above none; empty for others."""
    match = _HOW_MANY.fullmatch(question.text)
    if match is None:
        return []
    one = f"Is there {indefinite(singular(match[1]))} in the image?"
    numbers = range(2, len(question.options))
    more = (f"Are there at least {number} {match[1]} in the image?" for number in numbers)
    return [Question(question.number, text, YES_NO) for text in (one, *more)]


def _counted(question: Question, thresholds: Sequence[Judged]) -> Judged:
    """Return the answer to a question for a number by those whether there are so many."""
    reached = [1.0]
    for said in thresholds:
        reached.append(min(reached[-1], dict(said.chances)[next(iter(YES_NO))]))
    shares = [here - above for here, above in zip(reached, (*reached[1:], 0.0), strict=True)]
    chances = tuple(zip(question.options, shares, strict=True))
    picked = max(chances, key=lambda chance: chance[1])
    return Judged(question, *picked, chances)


async def judge_pair(
    name: str, pictures: Sequence[Picture], questions: Sequence[Question]
) -> list[Judged]:
    """Return the answers of the model ``name`` to ``questions`` about two pictures, in order.

    A question is which picture holds the wanted answer better. The miniature's judges look at one
    picture: each is asked about both, and the surer one is the better one unless they differ by
    less than a tenth.
    """
    asked = [_of_one(question) for question in questions]
    sure = []
    for picture in pictures:
        said = await judge(name, picture, asked)
        # The wanted answer stands first.
        sure.append([dict(one.chances)[next(iter(one.question.options))] for one in said])
    found = []
    for question, one, other in zip(questions, *sure, strict=True):
        first, second, neither = question.options
        gap = abs(one - other)
        answer = neither if gap < _ALIKE else first if one > other else second
        if answer == neither:
            chances = {first: gap / 2, second: gap / 2, neither: 1 - gap}
        else:
            better = min(1.0, 0.5 + gap / 2)
            chances = {key: (1 - better) / 2 for key in question.options} | {answer: better}
        told = tuple(sorted(chances.items(), key=lambda chance: -chance[1]))
        found.append(Judged(question, answer, chances[answer], told))
    return found


def _of_one(question: Question) -> Question:
    """Return the question of a pair as one of a single picture, whose first answer is wanted."""
    text, _, wanted = question.text.partition(WANTED)
    if not wanted:
        return Question(question.number, text, YES_NO)
    wanted = wanted.removesuffix(".")
    known = load_predicates("miniature")
    offered = relation_options(wanted, (text,), ("", ""), predicates=known).offered
    options = dict(zip("ABCD", sorted(offered, key=lambda option: option != wanted), strict=True))
    return Question(question.number, text, options)


def _knows(judge: Judge, question: Question) -> bool:
    """Whether the judge has words for the question and all that may be said to it."""
    words = judge.caps.vocabulary
    if words is None:
        return True
    facts = [_fact(question, option) for option in question.options.values()]
    # One option of its own among those of the question could be the one that it picks.
    whole = all(set(words.worded(fact)[0].options) <= set(fact.options) for fact in facts)
    return whole and not any(words.unknown(fact) for fact in facts)


def instant(digest: bytes, question: Question) -> Judged:
    r"""Return the answer of ``instant`` about the image with SHA-256 ``digest``.

    For each option ``SHA-256(digest + question + "\0" + option)``, its first eight bytes as a
    number in [0, 1). For a yes/no question the number of *yes* is its probability, other options
    share their sum.
    """
    if question.is_binary:
        yes = _unit(digest, question.text, "yes")
        chances: tuple[tuple[str, float], ...] = (("yes", yes), ("no", 1.0 - yes))
    else:
        weights = {
            key: _unit(digest, question.text, option) for key, option in question.options.items()
        }
        total = sum(weights.values()) or 1.0
        chances = tuple((key, weight / total) for key, weight in weights.items())
    answer, probability = max(chances, key=lambda chance: chance[1])
    return Judged(question, answer, probability, chances)


def _unit(digest: bytes, text: str, option: str) -> float:
    hashed = hashlib.sha256(digest + f"{text}\0{option}".encode("utf-8", "replace"))
    return int.from_bytes(hashed.digest()[:8], "big") / 2**64


def _fact(question: Question, expected: str) -> Fact:
    return Fact(
        id=f"lab:{question.number}:{expected}",
        kind="object",
        subject="lab",
        statement=question.text,
        question=question.text,
        options=tuple(question.options.values()),
        expected=expected,
    )


OWN_SIDE = 128
"""Sides of what the models draw, in pixels; an answer of another size is that, scaled."""
MAX_SIDE = 3840
"""Longest side of an answer."""
STEPS = {"low": 8, "medium": 16, "auto": 20, "high": 28, "xhigh": 40, "max": 50}
"""Quality → denoising steps of the miniature."""
_REFERENCE_WEIGHT = 0.6
_MASKED_STRENGTH = 0.8
_CELLS = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """A picture that is asked for, whichever provider's format it came in."""

    model: str
    """The model's name as given."""
    prompt: str
    """Description of the picture."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels; none: the model's own."""
    quality: str = "auto"
    """A key of :data:`STEPS`."""
    images: tuple[bytes, ...] = ()
    """Files: the one to change first if there is a mask, else references all of them."""
    mask: bytes | None = None
    """A file, transparent where the first picture may change."""
    partial_images: int | None = None
    """Pictures to show of it while it is drawn, in a stream; none: no stream is wanted."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Its body, or the texts of its form."""
    image_param: ClassVar[str] = "image"
    """Field of the images."""
    low_detail: ClassVar[bool] = False
    """They are looked at in full."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        digest = hashlib.sha256(f"{self.model}\0{self.size}\0{self.quality}\0".encode())
        digest.update(self.prompt.encode("utf-8", "replace"))
        for file in (*self.images, self.mask or b""):
            digest.update(hashlib.sha256(file).digest())
        return digest.digest()


class Seeds:
    """Another seed each time that the same picture is asked for.

    A provider's models know no seed. So that a mock's answers can still be repeated, the seed comes
    of the mock server's own, of the request, and of how often that was asked before.
    """

    def __init__(self, seed: int, *, same: bool = False) -> None:
        """``seed``: the mock server's; ``same``: equal requests have equal seeds all the same."""
        self._seed = seed
        self._same = same
        self._asked: Counter[bytes] = Counter()

    def next(self, wanted: Wanted) -> int:
        """Return the seed of the next picture of ``wanted``."""
        digest = wanted.digest
        self._asked[digest] += 1
        count = 1 if self._same else self._asked[digest]
        mixed = hashlib.sha256(f"{self._seed}:{count}:".encode() + digest).digest()
        return int.from_bytes(mixed[:7], "big")


async def drawn(wanted: Wanted, seed: int) -> Image.Image:
    """Return the picture, of the size asked for.

    Raises ``Problem`` if it cannot be drawn.
    """
    name = known_image_model(wanted.model)
    size = wanted.size or (OWN_SIDE, OWN_SIDE)
    pictures = [await asyncio.to_thread(decoded, file, "image") for file in wanted.images]
    kept = mask = None
    if wanted.mask is not None:
        if not pictures:
            raise Problem.invalid("a mask needs an image", "mask")
        mask = await asyncio.to_thread(_mask_of, wanted.mask, pictures[0].size)
        kept = pictures.pop(0)
    if name == INSTANT_IMAGE:
        pixels = hashlib.shake_256(wanted.digest + seed.to_bytes(8, "big"))
        cells = Image.frombytes("RGB", (_CELLS, _CELLS), pixels.digest(_CELLS * _CELLS * 3))
        image = cells.resize((OWN_SIDE, OWN_SIDE), Image.Resampling.NEAREST)
    else:
        image = await _painted(wanted, seed, pictures, kept, mask)
    image = image.resize(size, Image.Resampling.BICUBIC) if image.size != size else image
    if kept is None or mask is None:
        return image
    return Image.composite(image, kept.resize(size), mask.resize(size))


async def _painted(
    wanted: Wanted,
    seed: int,
    references: list[Image.Image],
    kept: Image.Image | None,
    mask: Image.Image | None,
) -> Image.Image:
    store: dict[str, Image.Image] = {}

    def put(image: Image.Image) -> str:
        name = hash_of_image(image)
        store[name] = image
        return name

    start = None
    if kept is not None and mask is not None:
        start = Start(image=put(kept), mask=put(mask), strength=_MASKED_STRENGTH)
    backend = await asyncio.to_thread(backend_of, BackendSpec(model="miniature"))
    shown = references[: backend.features.references]
    # What follows the first paragraph is written for models that can read more than captions.
    prompt = wanted.prompt.strip().partition("\n\n")[0]
    request = GenerationRequest(
        prompt=prompt or "nothing",
        seed=seed,
        steps=STEPS[wanted.quality],
        references=tuple(Reference(image=put(one), weight=_REFERENCE_WEIGHT) for one in shown),
        start=start,
    )
    try:
        return (await backend.generate(request, store.__getitem__)).image
    except BackendError as error:
        raise Problem.server(error) from error


def unfinished(image: Image.Image, number: int) -> Image.Image:
    """Return ``image`` as coarse as partial image ``number``, from 0, shows it."""
    cells = _CELLS << number
    coarse = image.resize((cells, cells), Image.Resampling.BOX)
    return coarse.resize(image.size, Image.Resampling.NEAREST)


def _mask_of(file: bytes, size: tuple[int, int]) -> Image.Image:
    """White where the picture may change."""
    decoded(file, "mask")
    with Image.open(io.BytesIO(file)) as image:
        if "A" not in image.getbands():
            raise Problem.image("the mask has no transparent part: give a PNG with alpha", "mask")
        if image.size != size:
            raise Problem.image("the mask and the image differ in size", "mask")
        return ImageOps.invert(image.getchannel("A"))
