"""Graders: how well an answer fits the right one, 0 to 5 (XTC-Bench, Sec. 6.2.4).

The paper grades by a large language model (:class:`ChatGrader`, several pairs a call). Where there
is none, likeness of words grades offline; such grades are called by what compared the words
(``lexical@2``), so that they are not taken for the paper's. A panel pools several graders.

Every grader decides some pairs without a look, and each pair once:

- An answer that is :data:`~scenewright.evals.studies.xtc.lookup.MISSING` (the object or edge is
  not in the drawn graph) is
  0, as Sec. 3.3.1 scores what was not drawn.
- Answers that are equal after folding case and spaces are 5, and so are those of which the best
  match counts (:attr:`~scenewright.evals.studies.xtc.base.AnswerPair.best`) if they share a part.
  Of the latter an answer that excludes all that is expected (*right of* where it is *left of*) is
  0. The paper asks its judge for those as well; a judge that gives them anything else is wrong by
  its own instruction.
- An answer without any words has no grade: it is no answer.

A pair that repeats is asked for once, also in calls that overlap. What failed is not kept. Where
words alone decide (numbers, yes and no, colours, predicates that exclude each other, forms of one
verb) the offline graders go by value.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from scenewright.agents.chat.language_replies import (
    as_data,
    ask_for,
    digest_of,
    name_of,
    shortened,
    tool_of,
)
from scenewright.agents.composers.reading import same_values
from scenewright.agents.parsers.tagging import NUMBERS
from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import CHAT_KINDS, JUDGE_KINDS
from scenewright.config.settings import Settings
from scenewright.core.error_text import error_text
from scenewright.core.formats.phrases import COLORS
from scenewright.core.inflection import singular, verb_base
from scenewright.core.vocabulary import (
    PREDICATES,
    canonical,
    entails,
    excludes,
    is_weak,
    kind_of,
    same_verbs,
)
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.graph_matching.embeddings import (
    AUTO,
    EXACT,
    LEXICAL,
    SENTENCES,
    similarity_of,
)
from scenewright.evals.metrics.graph_matching.text_similarity import TextSimilarity, folded
from scenewright.evals.studies.xtc.base import (
    BEST,
    AnswerPair,
    Grade,
    Grader,
    Question,
    XtcError,
)
from scenewright.evals.studies.xtc.lookup import MISSING
from scenewright.evals.studies.xtc.models import expected_call, numbered, whole_number
from scenewright.evals.studies.xtc.questions import spoken_label
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage
from scenewright.runs.model_factory.profiles import build_chat

Pooling = Literal["mean", "median"]
"""How the scores of a panel become one."""
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)


class PanelGrader:
    """Pools the scores of several graders; without the score of one a pair has no grade.

    A panel that went on with the others would grade that pair on another scale, and nothing would
    ask the one that failed again.

    The mean or median is rounded to the nearest score, halves to the even one: rounded up they
    would raise, over many pairs, what an even number of graders gives.
    """

    def __init__(self, graders: Sequence[Grader], pooling: Pooling = "mean") -> None:
        """Pool ``graders``.

        Raises ``ValueError`` without graders, for graders of one id, or another pooling.
        """
        ids = [grader.id for grader in graders]
        if not ids or len(set(ids)) < len(ids):
            raise ValueError(f"a panel of {ids}: name one or more graders, all different")
        if pooling not in POOLINGS:
            raise ValueError(f"pooling {pooling!r}: use {' or '.join(POOLINGS)}")
        self.graders = tuple(graders)
        self.pooling: Pooling = pooling

    @property
    def id(self) -> str:
        """``mean(openai:gpt-5, lexical@2)``."""
        return f"{self.pooling}({', '.join(grader.id for grader in self.graders)})"

    @property
    def fingerprint(self) -> str:
        """Those of the graders, and the pooling."""
        parts = [self.pooling, len(self.graders), *(grader.fingerprint for grader in self.graders)]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
        return f"panel grader@1 {self.id}#{digest}"

    async def grade(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        """Return one grade a pair, in order."""
        every = await asyncio.gather(*(grader.grade(pairs) for grader in self.graders))
        return [self._pooled(grades) for grades in zip(*every, strict=True)]

    def _pooled(self, grades: Sequence[Grade]) -> Grade:
        given = [grade.score for grade in grades if grade.score is not None]
        if len(given) < len(grades):
            lost = (
                f"{grader.id}: {grade.reason}"
                for grader, grade in zip(self.graders, grades, strict=True)
                if grade.score is None
            )
            return Grade(score=None, reason="; ".join(lost))
        pool = statistics.fmean if self.pooling == "mean" else statistics.median
        return Grade(score=round(pool(given)))

    def expected(self, pairs: int) -> ExpectedUsage:
        """Return what grading so many pairs is expected to take of all graders."""
        tells = (getattr(grader, "expected", None) for grader in self.graders)
        return sum((tell(pairs) for tell in tells if tell is not None), ExpectedUsage())


SHADE = 0.8
"""Likeness of two shades of one hue (``red`` and ``dark red``), and of a predicate that says less
(``on`` where the person is ``sitting on`` the bench)."""
_WORD = re.compile(r"[\w'/-]+")
_PARTS = re.compile(r"\s*(?:[,;&]|\band\b)\s*")
_EMPTY = frozenset({"a", "an", "the", "is", "are", "it", "its", "it's", "there", "this", "that"})
_YES = frozenset({"yes", "true", "present", "visible"})
_NO = frozenset({"no", "none", "false", "nothing", "not visible", "no text", "absent", "n/a"})
_NOT = frozenset({"not", "no", "without", "never", "isn't", "aren't"})
_HUES = frozenset(color for color in COLORS if " " not in color)


def answer_words(text: str, question: str = "", right: str = "") -> str:
    """Return ``text`` folded, without articles and the framing words of ``question``.

    "The car is red." to "What is the color of the car?" is ``red``. Words of the ``right`` answer
    stay, and so do a predicate of the vocabulary and a text that would lose all of its words.
    """
    if canonical(text) in PREDICATES:
        return folded(text)
    framing = {*_words(question)} - {*_words(right)}
    words = _words(spoken_label(text.strip().rstrip(".!?")))
    plain = [word for word in words if word not in _EMPTY]
    kept = [word for word in plain if word not in framing]
    return " ".join(kept or plain or words)


def _words(text: str) -> list[str]:
    return _WORD.findall(folded(text))


def parts_of(text: str) -> tuple[str, ...]:
    """Return what a list names: ``on and near`` → ``on``, ``near``; each once, in order.

    A text that begins with yes or no says that and nothing else.
    """
    whole = folded(text)
    first = _PARTS.split(whole)[0]
    if first in ("yes", "no"):
        return (first,)
    return tuple(dict.fromkeys(part for part in _PARTS.split(whole) if part)) or (whole,)


def consistent_parts(text: str) -> tuple[str, ...]:
    """Return the parts of ``text`` that no other part of it excludes.

    Where the best match counts, *left of and right of* would be right whatever was asked.
    """
    parts = parts_of(text)
    return tuple(
        part
        for part in parts
        if not any(other != part and _predicates(part, other) == 0.0 for other in parts)
    )


def likeness(expected: str, given: str) -> float | None:
    """Return how alike two folded answers are, in [0, 1]; None where these rules cannot tell."""
    if expected == given or singular(expected) == singular(given):
        return 1.0
    rules = (_polarity, _numbers, _colors, _predicates, _synonyms)
    return next((found for rule in rules if (found := rule(expected, given)) is not None), None)


def _polarity(expected: str, given: str) -> float | None:
    for one, other in ((expected, given), (given, expected)):
        if one in _YES | _NO and other in _YES | _NO:
            return float((one in _YES) == (other in _YES))
        if one in _YES | _NO and other.split()[:1] and other.split()[0] in {"yes", "no"}:
            return float((one in _YES) == (other.split()[0] == "yes"))
    if bool(_NOT & {*expected.split()}) != bool(_NOT & {*given.split()}):
        bare = [" ".join(w for w in t.split() if w not in _NOT) for t in (expected, given)]
        return 0.0 if bare[0] == bare[1] else None
    return None


def _numbers(expected: str, given: str) -> float | None:
    first, second = _number(expected), _number(given)
    return None if first is None or second is None else float(first == second)


def _number(text: str) -> float | None:
    if re.fullmatch(r"[0-9]+([.,][0-9]+)?", text):
        return float(text.replace(",", "."))
    return NUMBERS.get(text)


def _colors(expected: str, given: str) -> float | None:
    """Compare two colours by hue; shades of one hue are alike."""
    first, second = _color(expected), _color(given)
    if first is None or second is None:
        return None
    if not same_values(first[-1]) & same_values(second[-1]):
        return 0.0
    return 1.0 if first[:-1] == second[:-1] else SHADE


def _color(text: str) -> tuple[str, ...] | None:
    """Return the shade and hue of a text that is a colour and nothing else."""
    words = tuple(re.findall(r"\w+", text))
    words = words[:-1] if words[-1:] in (("color",), ("colored",), ("colour",)) else words
    if not words or words[-1] not in _HUES:
        return None
    return words if len(words) == 1 or " ".join(words) in COLORS else None


def _predicates(expected: str, given: str) -> float | None:
    """Compare two predicates by the vocabulary.

    One that means the same or says more is right, one that excludes the other is wrong, and one
    that says less is :data:`SHADE`, unless it says so little that it holds nearly always.
    """
    if not (_is_predicate(expected) and _is_predicate(given)):
        return None
    if entails(given, expected):
        return 1.0
    if excludes(expected, given):
        return 0.0
    if entails(expected, given) and is_weak(given) <= is_weak(expected):
        return SHADE
    return None


def _is_predicate(text: str) -> bool:
    return canonical(text) in PREDICATES or kind_of(text) is not None


def _synonyms(expected: str, given: str) -> float | None:
    """Return 1 where every word is a form of the same word, or may stand for it."""
    first, second = expected.split(), given.split()
    if len(first) != len(second):
        return None
    return 1.0 if all(map(_same_word, first, second)) else None


def _same_word(one: str, other: str) -> bool:
    if _base(one) == _base(other) or same_values(one) & same_values(other):
        return True
    return one.endswith("ing") and other in same_verbs(one)


def _base(word: str) -> str:
    return verb_base(word) or singular(word)


def list_likeness(table: Sequence[Sequence[float]]) -> float:
    """Return how alike two lists are: the F1 of best likenesses in ``table[expected][given]``.

    Order counts for nothing. What is expected and not given costs recall, what is given besides
    precision.
    """
    recall = sum(max(row) for row in table) / len(table)
    precision = sum(map(max, zip(*table, strict=True))) / len(table[0])
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


EMPTY = "the answer is empty"
"""Why an answer without words has no grade."""


def obvious(pair: AnswerPair) -> Grade | None:
    """Return the grade of a pair that needs no look; None for the others."""
    expected, given = folded(pair.expected), folded(pair.given)
    if not given:
        return Grade(score=None, reason=EMPTY)
    if expected == given:
        return Grade(score=BEST)
    if given == MISSING:
        return Grade(score=0)
    if pair.best:
        right, said = parts_of(expected), consistent_parts(given)
        if not {*right}.isdisjoint(said):
            return Grade(score=BEST)
        if all(any(excludes(one, other) for other in said) for one in right):
            return Grade(score=0)
    return None


class CachingGrader(ABC):
    """A grader that looks at each pair once. Safe for calls that overlap in one event loop."""

    def __init__(self) -> None:
        """Begin with nothing graded."""
        self._grades: dict[AnswerPair, asyncio.Future[Grade | None]] = {}

    @abstractmethod
    async def _look(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        """Return one grade a pair, in order; the pairs are different and none is obvious."""

    async def grade(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        """Return one grade a pair, in order; failures are grades without a score."""
        found = {pair: grade for pair in pairs if (grade := obvious(pair)) is not None}
        while open_ := [pair for pair in dict.fromkeys(pairs) if pair not in found]:
            mine = [pair for pair in open_ if pair not in self._grades]
            if mine:
                found.update(await self._fetch(mine))
            # Another call asks for the others; where it fails, this one asks.
            for pair in open_:
                if pair not in found and (future := self._grades.get(pair)) is not None:
                    # A call that is cancelled must not cancel what others wait for.
                    grade = await asyncio.shield(future)
                    found |= {} if grade is None else {pair: grade}
        return [found[pair] for pair in pairs]

    async def _fetch(self, pairs: Sequence[AnswerPair]) -> dict[AnswerPair, Grade]:
        awaited = {pair: asyncio.get_running_loop().create_future() for pair in pairs}
        self._grades |= awaited
        try:
            grades = dict(zip(pairs, await self._look(pairs), strict=True))
            for pair, grade in grades.items():
                if grade.score is not None:
                    awaited[pair].set_result(grade)
            return grades
        finally:
            for pair, future in awaited.items():
                if not future.done():
                    del self._grades[pair]
                    future.set_result(None)


PROMPT = "score_answers"
_LONGEST = 1000
"""Characters of an answer that the model is shown: a rambling answer shows by less."""
_CUT = " […]"
_GRADE_TOKENS = 10
"""Output tokens of a grade and its number."""
_PAIR_TOKENS = 45
"""Input tokens of a question with two answers."""


class ChatGrader(CachingGrader):
    """Grades with a chat model that calls a tool with the scores.

    What the model leaves out, gives twice or out of range is reported to it once; what is still
    unusable has no grade, with the reason. Words in answers are data: they can neither end the
    block in which they stand nor stand for another pair's number.
    """

    def __init__(
        self, chat: BaseChatModel, *, pairs_a_call: int = 20, concurrency: int = 4
    ) -> None:
        """Grade at most ``pairs_a_call`` pairs a call, ``concurrency`` calls at a time.

        Raises ``ValueError`` for numbers below 1.
        """
        super().__init__()
        if pairs_a_call < 1 or concurrency < 1:
            raise ValueError(
                f"pairs_a_call is {pairs_a_call} and concurrency {concurrency}: use 1 or more"
            )
        self.chat = chat
        self.pairs_a_call = pairs_a_call
        self._gate = asyncio.Semaphore(concurrency)

    @property
    def id(self) -> str:
        """``account:model``."""
        return name_of(self.chat)

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, the prompt, how many pairs stand side by side."""
        parts = [load_prompt(PROMPT).hash, str(self.pairs_a_call), str(_LONGEST)]
        return f"chat grader@1 {self.id}#{digest_of(self.chat, *parts)}"

    def expected(self, pairs: int) -> ExpectedUsage:
        """Return what grading so many pairs is expected to take."""
        size = self.pairs_a_call
        each = Usage(120 + _PAIR_TOKENS * size, _GRADE_TOKENS * size)
        return expected_call(self.chat, each) * -(-pairs // size)

    async def _look(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        size = self.pairs_a_call
        chunks = [pairs[at : at + size] for at in range(0, len(pairs), size)]
        answers = await asyncio.gather(*map(self._call, chunks))
        return [grade for grades in answers for grade in grades]

    async def _call(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        prompt = load_prompt(PROMPT)
        rows = [
            {
                "number": number,
                "question": _shown(pair.question),
                "gt_answer": _shown(pair.expected),
                "pred_answer": _shown(pair.given),
                **({"best": True} if pair.best else {}),
            }
            for number, pair in enumerate(pairs, 1)
        ]
        scores: dict[int, int] = {}
        problems = dict.fromkeys(range(1, len(pairs) + 1), "the model gave no score")
        strict = True

        def read(arguments: Mapping[str, Any]) -> None:
            """Take what can be used of the first reply or, where it lacks scores, of the second."""
            nonlocal strict
            found = numbered(arguments, "scores", "score", len(pairs))
            for number, said in found.items():
                score = whole_number(said[0]) if said else None
                if len(said) == 1 and score is not None and 0 <= score <= BEST:
                    scores[number] = score
                    problems.pop(number, None)
                elif said and number not in scores:
                    given = f"the score {shortened(repr(said[0]))} is not one of 0 to {BEST}"
                    problems[number] = (
                        given if len(said) == 1 else f"the model gave {len(said)} scores"
                    )
            first, strict = strict, False
            if problems and (first or not scores):
                told = (f"pair {number}: {problem}" for number, problem in problems.items())
                raise ValueError("; ".join(told))

        messages = [HumanMessage(prompt.render(pairs=as_data(rows)))]
        try:
            async with self._gate:
                await ask_for(self.chat, messages, tool_of(prompt), read)
        except Exception as error:
            # Whatever the model's library raises costs this call's pairs and no others.
            problems = dict.fromkeys(problems, error_text(error))
        return [
            Grade(score=scores.get(number), reason=problems.get(number, ""))
            for number in range(1, len(pairs) + 1)
        ]


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - len(_CUT)] + _CUT


CUT_OFFS: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 0.95)
"""Least likeness of the grades 1 to 5; below the first it is 0."""


class SimilarityGrader(CachingGrader):
    """Grades by a text similarity (:mod:`scenewright.evals.metrics.graph_matching`).

    Articles, and in the given answer the words of the question, are left out. Lists ("red and
    white") are compared as sets; where the best match counts (relations), the likest two parts
    decide, without what another given part excludes. Of each two parts numbers, yes and no,
    colours, predicates of the vocabulary and forms of a verb go by value
    (:mod:`~scenewright.evals.studies.xtc.grading`); for the others the similarity decides.
    The likeness becomes a grade by :data:`CUT_OFFS`.
    """

    def __init__(self, similarity: TextSimilarity) -> None:
        """Compare words that no rule knows by ``similarity``."""
        super().__init__()
        self.similarity = similarity

    @property
    def id(self) -> str:
        """That of what compares the words: ``lexical@2``."""
        return self.similarity.id

    @property
    def fingerprint(self) -> str:
        """The similarity, and the version of the rules around it."""
        return f"similarity grader@3 {self.similarity.id}"

    async def _look(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        # A sentence model takes its time; others go on meanwhile.
        try:
            alike = await asyncio.to_thread(self._likenesses, pairs)
        except Exception as error:
            reason = f"{self.id} failed: {error_text(error)}"
            return [Grade(score=None, reason=reason)] * len(pairs)
        return [Grade(score=score_of(value)) for value in alike]

    def _likenesses(self, pairs: Sequence[AnswerPair]) -> list[float]:
        lists = [
            (
                tuple(answer_words(part) for part in parts_of(pair.expected)),
                tuple(
                    answer_words(part, pair.question, pair.expected)
                    for part in (consistent_parts if pair.best else parts_of)(pair.given)
                ),
            )
            for pair in pairs
        ]
        texts = dict.fromkeys(
            both for expected, given in lists for both in product(expected, given)
        )
        known: dict[tuple[str, str], float] = {
            both: found for both in texts if (found := likeness(*both)) is not None
        }
        left = [both for both in texts if both not in known]
        if left:
            values = self.similarity.similarities(left)
            known.update({both: float(value) for both, value in zip(left, values, strict=True)})
        tables = [
            [[known[one, other] for other in given] for one in expected]
            for expected, given in lists
        ]
        return [
            _best(*one, table) if pair.best else list_likeness(table)
            for pair, one, table in zip(pairs, lists, tables, strict=True)
        ]


def _best(expected: Sequence[str], given: Sequence[str], table: Sequence[Sequence[float]]) -> float:
    """Return the largest of ``table[expected][given]`` that no given part excludes.

    *right of and near* denies *left of*, however near to it *near* may be.
    """
    kept = [
        max(row, default=0.0)
        for right, row in zip(expected, table, strict=True)
        if not any(excludes(right, said) for said in given)
    ]
    return max(kept, default=0.0)


def score_of(value: float) -> int:
    """Return the grade of a likeness in [0, 1], by :data:`CUT_OFFS`."""
    return sum(value >= least for least in CUT_OFFS)


async def graded(grader: Grader, pairs: Sequence[tuple[Question, str]]) -> list[Grade]:
    """Return the grades of answers to questions; of several relations the best match counts.

    Raises ``EvalError`` for a grader that miscounts.
    """
    if not pairs:
        return []
    asked = [
        AnswerPair(question=q.text, expected=q.answer, given=text, best=q.kind == "relation")
        for q, text in pairs
    ]
    grades = await grader.grade(asked)
    if len(grades) != len(asked):
        raise EvalError(f"{grader.id} gave {len(grades)} grades to {len(asked)} answers")
    return grades


_SIMILARITIES = (AUTO, EXACT, LEXICAL, SENTENCES)


def grader_of(spec: str, settings: Settings | None = None) -> Grader:
    """Return the grader of a name.

    ``account:model`` is a language model of ``settings`` (default: those of this machine);
    ``lexical``, ``exact``, ``sentence-transformers:MODEL`` and ``auto`` compare words offline;
    ``mean(ONE, OTHER)`` and ``median(ONE, OTHER)`` pool several. Raises ``XtcError`` for names that
    are none of these, ``MatchingError`` for a sentence model that is not here, and
    ``SettingsError`` for an unknown account or one without its key.
    """
    spec = spec.strip()
    for pooling in POOLINGS:
        if spec.startswith(f"{pooling}(") and spec.endswith(")"):
            names = [name.strip() for name in spec[len(pooling) + 1 : -1].split(",")]
            if not all(names):
                raise XtcError(
                    f"the grader {spec!r} has an empty place: write {pooling}(ONE, OTHER)"
                )
            graders = [grader_of(name, settings) for name in names]
            try:
                return PanelGrader(graders, pooling)
            except ValueError as error:
                raise XtcError(f"the grader {spec!r}: {error}") from error
    kind, _, model = spec.partition(":")
    if kind in _SIMILARITIES:
        return SimilarityGrader(similarity_of(spec))
    if not model or kind in (*CHAT_KINDS, *JUDGE_KINDS, DECISION_KIND):
        raise XtcError(
            f"no grader {spec!r}: name a language model of an account as account:model, or take "
            f"{', '.join(_SIMILARITIES[:3])}, {SENTENCES}:MODEL or mean(ONE, OTHER)"
        )
    return ChatGrader(build_chat(spec, settings, role="grader"))
