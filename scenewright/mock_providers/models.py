"""Models behind the mock providers, and which of them stands in for a provider's model.

The miniature's judges through the port of judges, ``instant``, which answers from a hash, and the
scripts of :mod:`scenewright.mock_providers.scripts`.
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scenewright.agents.judges.remote import WANTED
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge, JudgeError
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import relation_options
from scenewright.mock_providers.pictures import Picture
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.scripts import ABOUT, PREFIX
from scenewright.mock_providers.sheets import YES_NO, Question
from scenewright.runs.model_factory.profiles import judge_of

JUDGES: Mapping[str, str] = {
    "gpt-4.1": "script:director",
    "gpt-*-terra*": "script:director",
    "gpt-6-luna*": "judge-b",
    "gemini-decision-*": "judge-a",
    "gpt-[0-9]*-mini*": "judge-a",
    "gpt-4o*": "judge-b",
    "gpt-[0-9]*": "judge-c",
    "gemini-*-flash-lite*": "judge-b",
    "gemini-*-flash*": "judge-a",
    "gemini-[0-9]*": "judge-c",
    "claude-*haiku*": "judge-a",
    "claude-*sonnet*": "judge-b",
    "claude-*-[0-9]*": "judge-c",
}
"""Pattern of a name → the model that looks at images for it."""
GENERATORS: Mapping[str, str] = {
    "gpt-image-*": "miniature",
    "chatgpt-image-*": "miniature",
    "dall-e-*": "miniature",
    "gemini-*-image*": "miniature",
}
"""Pattern of a name → the model that draws for it."""


def model_alias(name: str, among: Mapping[str, str]) -> str | None:
    """Return the first of ``among`` whose pattern fits ``name``.

    None if there is no such pattern.
    """
    fitting = (own for pattern, own in among.items() if fnmatch.fnmatchcase(name, pattern))
    return next(fitting, None)


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
CREATED = 1_767_225_600
"""When the models were made, as Unix time: the same for all, so that listings do not change."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a model says to one question."""

    question: Question
    """The question."""
    answer: str
    """The key of the option that it picks."""
    probability: float
    """That this answer is right, 0 to 1."""
    chances: tuple[tuple[str, float], ...]
    """Key of an option → its probability, all options if they were asked for."""


def bare_name(model: str) -> str:
    """Return the name without a prefix such as ``miniature/``; raises ``Problem`` if it is unknown.

    A script is found without ``script:`` too, and for models of the providers one stands in.
    """
    name = model.rpartition("/")[2]
    name = f"{PREFIX}{name}" if f"{PREFIX}{name}" in MODELS else name
    name = name if name in MODELS else model_alias(name, JUDGES) or name
    if name not in MODELS:
        known = ", ".join(MODELS)
        raise Problem("unknown_model", 404, f"{model} (there are {known})", param="model")
    return name


def is_script(name: str) -> bool:
    """Whether the model ``name`` follows a script and judges nothing."""
    return name.startswith(PREFIX)


async def judge(
    name: str, picture: Picture, questions: Sequence[Question], every: bool = False
) -> list[Judged]:
    """Return the answers of the model ``name`` to ``questions`` about ``picture``, in order.

    Facts outside a miniature judge's vocabulary are answered by :func:`instant`: a chat model,
    which it stands in for, answers anything. ``every``: the probabilities of all options are
    wanted, not only that of the choice. Raises ``Problem`` if the model fails.
    """
    if name in INSTANTS:
        salt = name.removeprefix(INSTANT).encode()
        return [instant(picture.digest + salt, question) for question in questions]
    try:
        found = await asyncio.to_thread(judge_of, f"local:miniature/{name}")
        image = await asyncio.to_thread(picture.decoded)
        known = [question for question in questions if _knows(found, question)]
        asked = [_facts(question, every) for question in known]
        answers = _usable(await found.answer(image, [fact for facts in asked for fact in facts]))
        # Where the option picked is not the one whose probability came back, it is asked for.
        again = {
            at: _fact(question, at, choice)
            for at, question in enumerate(known)
            if not every
            and (choice := answers[at].choice) is not None
            and choice != asked[at][0].expected
            and len(question.options) > 2
        }
        if again:
            more = _usable(await found.answer(image, list(again.values())))
            seconds = dict(zip(again, more, strict=True))
        else:
            seconds = {}
    except JudgeError as error:
        raise Problem("server", 500, str(error)) from error
    judged: dict[int, Judged] = {}
    first = 0
    for at, (question, facts) in enumerate(zip(known, asked, strict=True)):
        said = answers[first : first + len(facts)]
        first += len(facts)
        judged[id(question)] = _read(question, facts, said, seconds.get(at))
    return [judged.get(id(one)) or instant(picture.digest, one) for one in questions]


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
        said = await judge(name, picture, asked, every=True)
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
    offered = relation_options(wanted, (text,), ("", ""), predicates=known)
    options = dict(zip("ABCD", sorted(offered, key=lambda option: option != wanted), strict=True))
    return Question(question.number, text, options)


def _knows(judge: Judge, question: Question) -> bool:
    """Whether the judge has words for the question and all that may be said to it."""
    words = judge.caps.vocabulary
    if words is None:
        return True
    facts = _facts(question, True)
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


def _fact(question: Question, at: int, expected: str) -> Fact:
    return Fact(
        id=f"lab:{at}:{expected}",
        kind="object",
        subject="lab",
        statement=question.text,
        question=question.text,
        options=tuple(question.options.values()),
        expected=expected,
    )


def _facts(question: Question, every: bool) -> list[Fact]:
    """One fact, or for all probabilities one an option but the last, which has the rest."""
    options = list(question.options.values())
    wanted = options[:-1] if every else options[:1]
    return [_fact(question, question.number, option) for option in wanted]


def _usable(answers: Sequence[Answer]) -> Sequence[Answer]:
    for answer in answers:
        if answer.probability is None or answer.choice is None:
            raise Problem("server", 500, f"the model gave no answer: {answer.reason}")
    return answers


def _read(
    question: Question, facts: Sequence[Fact], said: Sequence[Answer], second: Answer | None
) -> Judged:
    keys = {option: key for key, option in question.options.items()}
    known = {
        keys[fact.expected]: answer.probability or 0.0
        for fact, answer in zip(facts, said, strict=True)
    }
    choice = said[0].choice or ""
    if second is not None:
        known[keys[choice]] = second.probability or 0.0
    rest = [key for key in question.options if key not in known]
    if len(rest) == 1:
        known[rest[0]] = max(0.0, 1.0 - sum(known.values()))
    chances = tuple((key, known[key]) for key in question.options if key in known)
    return Judged(question, keys[choice], known[keys[choice]], chances)
