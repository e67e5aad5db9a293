"""Questions about an item: the item's own, a language model's, or those of its scene.

The choice (``auto``): questions that the set brings, whichever metric they were written for; else
those that a language model writes about the item's text, where one is named; else the facts of its
scene. All pictures of an item are asked the same.

A model's questions take one reply a step; replies are kept once they were paid for. TIFA (Hu et
al., 2023, Sec. 3) writes by one call (prompt ``tifa_questions``), then filters: a question stays
only if the model, given the text alone, picks the expected choice (``tifa_filter``; the choices are
dealt anew, since the right one tends to come first), and with ``both`` also answers it without
choices in the same words (``tifa_open``). DSG (Cho et al., 2024, Sec. 3.2) takes three steps:
tuples, what each depends on, and a yes/no question for each. Its replies are read as the released
sets are (:mod:`scenewright.evals.datasets.dsg`): a tuple without a question is left out and its own
parents stand in for it; dependencies on what is not there, on themselves and in circles are cut.
All of it is counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, get_args
from weakref import WeakValueDictionary

from scenewright.agents.chat.language_replies import as_data
from scenewright.agents.judges.pictures import character_tokens
from scenewright.core.facts import Fact
from scenewright.core.formats.published_questions import NUMBERS, TYPES
from scenewright.core.predicate_statistics import DEFAULT
from scenewright.core.questions import PROTOCOLS, QuestionForm
from scenewright.core.scene import SceneGraph
from scenewright.evals.annotation.panel_queries import TextModel, ask_text
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.dsg import facts_of_rows
from scenewright.evals.datasets.prompt_sets import FEW_CHOICES, WRONG_ANSWER, facts_of_questions
from scenewright.evals.datasets.prompt_sets import TWICE as ASKED_TWICE
from scenewright.evals.errors import AnnotationError
from scenewright.evals.metrics.base import MetricError, Sample, made_folder, text
from scenewright.evals.store.ledger import Ledger
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage

Source = Literal["auto", "item", "chat", "scene"]
SOURCES: tuple[Source, ...] = get_args(Source)
TYPICAL = 8
"""Questions about a text, where a plan has to guess: DSG-1k has 7.7 a prompt."""
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class ItemQuestions:
    """What is asked about an item."""

    facts: tuple[Fact, ...]
    """Parents before their children."""
    source: Source
    """Whose they are."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Why a model's question was left out → how many."""
    usd: float = 0.0
    """Dollars that the questions cost, on whatever day."""
    tokens: int = 0
    """Tokens in and out, likewise."""


class QuestionMaker(Protocol):
    """Writes the questions of a text."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a text could get other questions."""
        ...

    def expected(self, about: str) -> Mapping[str, ExpectedUsage]:
        """Return by id of the model what writing them takes; no call."""
        ...

    async def make(self, about: str) -> ItemQuestions:
        """Return the questions about a text. Raises ``MetricError`` where the model gave none."""
        ...


class QuestionSource:
    """Chooses what is asked, once an item."""

    def __init__(
        self,
        source: str = "auto",
        maker: QuestionMaker | None = None,
        protocol: str = "scene-bench",
        *,
        shuffled: bool = False,
    ) -> None:
        """Choose questions by ``source``, of a model's ``maker`` or by the scene's ``protocol``.

        ``shuffled``: deal the options of questions that are not yes/no, by a hash of the question,
        since their writers put the right one first. Facts of a scene keep the order of their
        protocol, so that metrics share their answers. Raises ``MetricError`` for an unknown source
        or protocol, for ``chat`` without a model, and for a model that has nothing to write.
        """
        text("questions", source, SOURCES)
        text("protocol", protocol, PROTOCOLS)
        if source == "chat" and maker is None:
            raise MetricError(
                'questions = "chat" needs a model that writes: chat = "ACCOUNT:MODEL"'
            )
        if source in ("item", "scene") and maker is not None:
            raise MetricError(f'chat writes nothing where questions = "{source}": leave one out')
        self._source = source
        self._maker = maker
        self._protocol: Any = protocol
        self._shuffled = shuffled
        self._known: OrderedDict[tuple[str, str], ItemQuestions] = OrderedDict()
        # A lock lives as long as a task waits for it, so that event loops do not share locks.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def fingerprint(self) -> str:
        """Changes whenever an item could be asked something else."""
        by = "" if self._maker is None else self._maker.fingerprint
        return f"{self._source} {self._protocol} {'shuffled' if self._shuffled else 'given'} {by}"

    async def of(self, sample: Sample) -> ItemQuestions:
        """Return the questions about the sample's item.

        Raises ``MetricError`` where the source has nothing for it. A model that failed is asked
        again for the item's next picture.
        """
        item = sample.item
        if self._brought(item):
            if not item.facts:
                raise MetricError(
                    "the item brings no questions: take a set that does (tifa, dsg), or another "
                    "source: chat or scene"
                )
            return self._dealt(ItemQuestions(item.facts, "item"))
        if self._maker is None:
            if item.scene is None:
                raise MetricError(
                    "the item has neither questions nor a scene: name a model that writes "
                    'questions, chat = "ACCOUNT:MODEL"'
                )
            return ItemQuestions(self._of_scene(sample, item.scene), "scene")
        about = _about(sample)
        if not about:
            raise MetricError("the item has no text to write questions about")
        async with self._locks.setdefault(about, asyncio.Lock()):
            key = (self._maker.fingerprint, about)
            found = self._known.get(key)
            if found is None:
                found = self._dealt(await self._maker.make(about))
                self._known[key] = found
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        if not found.facts:
            why = ", ".join(f"{reason} ({n})" for reason, n in found.dropped.items())
            raise MetricError(f"no question about the text was left: {why or 'none was written'}")
        return found

    async def planned(self, sample: Sample) -> tuple[tuple[Fact, ...], Mapping[str, ExpectedUsage]]:
        """Return the questions to come, and by model what writing them takes; no call is made.

        Questions that a model has yet to write are taken to be those of the item's scene, or
        :data:`TYPICAL` yes/no questions. Raises ``MetricError`` as :meth:`of`.
        """
        about = _about(sample)
        if self._maker is None or self._brought(sample.item) or not about:
            return (await self.of(sample)).facts, {}
        scene = sample.item.scene
        likely = _typical(about) if scene is None else self._of_scene(sample, scene)
        return tuple(likely), self._maker.expected(about)

    def _of_scene(self, sample: Sample, scene: SceneGraph) -> tuple[Fact, ...]:
        known = sample.predicates or sample.item.predicates or DEFAULT
        return QuestionForm(self._protocol, known).facts(scene)

    def _brought(self, item: Item) -> bool:
        return self._source == "item" or (self._source == "auto" and bool(item.facts))

    def _dealt(self, asked: ItemQuestions) -> ItemQuestions:
        if not self._shuffled:
            return asked
        return replace(asked, facts=tuple(map(dealt, asked.facts)))


def _about(sample: Sample) -> str:
    return " ".join((sample.item.prompt or sample.prompt).split())


def _typical(about: str) -> list[Fact]:
    question = f"Is there {about[:40]} in the image?"
    return [
        Fact(id=f"q{at}", kind="object", subject="any", statement=about, question=question)
        for at in range(TYPICAL)
    ]


def dealt(fact: Fact) -> Fact:
    """Return ``fact`` with its options in an order that its question decides; yes/no stays."""
    if fact.is_binary:
        return fact
    options = sorted(fact.options)
    random.Random(f"{fact.question}\0{options}").shuffle(options)
    return fact.model_copy(update={"options": tuple(options)})


@lru_cache(maxsize=8)
def ledger_in(folder: Path) -> Ledger:
    """Return the ledger of models' questions: one file a folder, for all metrics here.

    Raises ``MetricError`` if the folder cannot be made, and ``AnnotationError``.
    """
    return Ledger(made_folder(folder) / "questions.db")


Numbered = dict[int, Mapping[str, Any]]
"""Number → row of a reply."""
NO_ROW = "row of a reply that is none"
UNKNOWN_NUMBER = "number that was not asked for"
TWICE = "number answered twice"
MISSING = "number left out"
_SHOWN = 8


_ANSWER_TOKENS = 300
"""Tokens of a reply about a text: eight questions or tuples, or so."""


def expected_steps(
    model: TextModel, prompts: Sequence[str], about: str
) -> dict[str, ExpectedUsage]:
    """Return by the id of ``model`` what calls with ``prompts`` about a text take.

    Tokens are a quarter of the characters; each call is taken to be shown one reply of another.
    """
    total = ExpectedUsage()
    for name in prompts:
        prompt = load_prompt(name)
        characters = len(prompt.text) + len(str(prompt.output)) + len(about)
        usage = Usage(character_tokens(characters) + _ANSWER_TOKENS, _ANSWER_TOKENS)
        total = total + ExpectedUsage(1, usage, model.price(usage))
    return {model.name: total}


class Steps:
    """The steps of one text: what they cost, and what was left out on the way."""

    def __init__(self, ledger: Ledger, model: TextModel) -> None:
        """Keep the replies of ``model`` in ``ledger``."""
        self._ledger = ledger
        self._model = model
        self.dropped: Counter[str] = Counter()
        """Why something was left out → how often."""
        self.usd = 0.0
        """Dollars."""
        self.tokens = 0
        """Tokens in and out."""

    async def ask(
        self, prompt: str, read: Callable[[Any, Counter[str]], Any], **variables: str
    ) -> Any:
        """Return what ``read`` makes of the reply to ``prompt``.

        ``read`` counts what it leaves out under the reason; the model is corrected once, and what
        it then gives is taken. Raises ``MetricError`` if the model gives nothing usable, and asks
        again next time.
        """

        def reader(given: Mapping[str, Any], last: bool) -> Any:
            lost: Counter[str] = Counter()
            data = read(given, lost)
            if lost and not last:
                told = "; ".join(f"{why} ({n} times)" for why, n in lost.most_common(_SHOWN))
                raise ValueError(told)
            return {"data": data, "dropped": dict(lost)}

        try:
            reply = await ask_text(
                self._ledger, self._model, prompt, prompt, reader, retry=True, **variables
            )
        except AnnotationError as error:
            raise MetricError(str(error)) from error
        self.usd += reply.usd
        self.tokens += reply.tokens_in + reply.tokens_out
        if reply.state == "failed":
            raise MetricError(f"{self._model.name} wrote no questions ({prompt}): {reply.reason}")
        self.dropped.update(reply.data["dropped"])
        return reply.data["data"]


def rows_in(given: Mapping[str, Any], key: str, lost: Counter[str]) -> list[Mapping[str, Any]]:
    """Return the rows of a list in a reply; raises ``ValueError`` if it is none."""
    rows = given.get(key)
    if not isinstance(rows, list):
        raise ValueError(f"{key} is missing or no list")
    lost.update(NO_ROW for row in rows if not isinstance(row, Mapping))
    return [row for row in rows if isinstance(row, Mapping)]


def numbered_rows(
    rows: Sequence[Mapping[str, Any]], key: str, wanted: Sequence[int], lost: Counter[str]
) -> Numbered:
    """Return the first row of each number of ``wanted``, and the others counted."""
    found: Numbered = {}
    for row in rows:
        number = row.get(key)
        if isinstance(number, bool) or not isinstance(number, int) or number not in wanted:
            lost[UNKNOWN_NUMBER] += 1
        elif number in found:
            lost[TWICE] += 1
        else:
            found[number] = row
    for number in wanted:
        if number not in found:
            lost[MISSING] += 1
    return found


def plain(value: object) -> str:
    """Return a value of a reply as a line of text; empty for what is none."""
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


TIFA_PROMPTS = TIFA_QUESTIONS, FILTER, OPEN = "tifa_questions", "tifa_filter", "tifa_open"
FILTERS = ("choice", "both", "none")
FREE_FORM_F1 = 0.7
"""Least F1 of the words of a free answer with those of the expected one."""
_MERGED = {"animal": "animal/human", "human": "animal/human"}

NO_QUESTION = "question without words"
UNKNOWN_TYPE = "question about an unknown type of element"
OTHER_CHOICE = "question that the text answers otherwise"
OTHER_WORDS = "question that the text answers in other words"
_UNUSED = "tifa"


class _Maker:
    """What both makers share: a model, and the ledger that keeps its replies."""

    prompts: tuple[str, ...]

    def __init__(self, ledger: Ledger, model: TextModel) -> None:
        self._ledger = ledger
        self._model = model

    def _digest(self, *more: str) -> str:
        prompts = (load_prompt(name).hash for name in self.prompts)
        told = "\0".join((self._model.fingerprint, *more, *prompts))
        return hashlib.sha256(told.encode()).hexdigest()[:16]


class TifaMaker(_Maker):
    """Implements :class:`~scenewright.evals.studies.peers.questions.QuestionMaker`."""

    prompts = TIFA_PROMPTS

    def __init__(self, ledger: Ledger, model: TextModel, filtered: str = "choice") -> None:
        """Keep the replies of ``model`` in ``ledger``; ``filtered`` is one of :data:`FILTERS`.

        Raises ``MetricError`` for another filter.
        """
        super().__init__(ledger, model)
        self._filter = text("filter", filtered, FILTERS)

    @property
    def fingerprint(self) -> str:
        """Digest of the model, the prompts and the filter."""
        return self._digest(self._filter)

    def expected(self, about: str) -> dict[str, ExpectedUsage]:
        """Return what writing and the filter's calls are expected to take."""
        calls = {"none": (TIFA_QUESTIONS,), "choice": (TIFA_QUESTIONS, FILTER)}
        return expected_steps(self._model, calls.get(self._filter, TIFA_PROMPTS), about)

    async def make(self, about: str) -> ItemQuestions:
        """Return the questions that stay. Raises ``MetricError`` where the model gives none."""
        steps = Steps(self._ledger, self._model)
        rows = await steps.ask(TIFA_QUESTIONS, read_questions, text=as_data(about))
        facts = facts_of_questions([(_UNUSED, row) for row in rows], None, steps.dropped)
        if facts and self._filter != "none":
            facts = await self._by_choice(steps, about, facts)
        if facts and self._filter == "both":
            facts = await self._by_words(steps, about, facts)
        return ItemQuestions(facts, "chat", dict(steps.dropped), steps.usd, steps.tokens)

    async def _by_choice(self, steps: Steps, about: str, facts: Sequence[Fact]) -> tuple[Fact, ...]:
        asked = [
            {"number": at, "question": fact.question, "choices": list(dealt(fact).options)}
            for at, fact in enumerate(facts, start=1)
        ]
        said = await steps.ask(
            FILTER, _reader(len(facts), "choice"), text=as_data(about), questions=as_data(asked),
        )  # fmt: skip
        kept = tuple(
            fact
            for at, fact in enumerate(facts, start=1)
            if said.get(str(at), "").casefold() == fact.expected.casefold()
        )
        # Those without an answer were counted as such when the reply was read.
        steps.dropped[OTHER_CHOICE] += sum(str(at + 1) in said for at in range(len(facts))) - len(
            kept
        )
        steps.dropped += Counter()
        return kept

    async def _by_words(self, steps: Steps, about: str, facts: Sequence[Fact]) -> tuple[Fact, ...]:
        free = [fact for fact in facts if not fact.is_binary]
        if not free:
            return tuple(facts)
        asked = [{"number": at, "question": fact.question} for at, fact in enumerate(free, 1)]
        said = await steps.ask(
            OPEN, _reader(len(free), "answer"), text=as_data(about), questions=as_data(asked),
        )  # fmt: skip
        lost = set()
        for at, fact in enumerate(free, start=1):
            answer = said.get(str(at))
            if answer is None or word_f1(answer, fact.expected) < FREE_FORM_F1:
                lost.add(fact.id)
                steps.dropped[OTHER_WORDS] += answer is not None
        steps.dropped += Counter()
        return tuple(fact for fact in facts if fact.id not in lost)


def read_questions(given: Mapping[str, Any], lost: Counter[str]) -> list[dict[str, Any]]:
    """Return the usable questions of a reply, in the form of the release; the others are counted.

    Raises ``ValueError`` for a reply without a list.
    """
    kept: list[dict[str, Any]] = []
    seen: set[str] = set()
    for row in rows_in(given, "questions", lost):
        question, element = plain(row.get("question")), plain(row.get("element"))
        kind = plain(row.get("type")).casefold()
        choices = row.get("choices")
        options = [plain(one) for one in choices] if isinstance(choices, list) else []
        options = list(dict.fromkeys(one for one in options if one))
        answer = plain(row.get("answer"))
        exact = next((one for one in options if one.casefold() == answer.casefold()), "")
        if not question:
            lost[NO_QUESTION] += 1
        elif kind not in TYPES:
            lost[UNKNOWN_TYPE] += 1
        elif len({one.casefold() for one in options}) < 2:
            lost[FEW_CHOICES] += 1
        elif not exact:
            lost[WRONG_ANSWER] += 1
        elif question.casefold() in seen:
            lost[ASKED_TWICE] += 1
        else:
            seen.add(question.casefold())
            kept.append(
                {
                    "question": question,
                    "choices": options,
                    "answer": exact,
                    "element_type": _MERGED.get(kind, kind),
                    "element": element,
                }
            )
    return kept


def _reader(count: int, key: str) -> Any:
    def read(given: Mapping[str, Any], lost: Counter[str]) -> dict[str, str]:
        rows = rows_in(given, "answers", lost)
        found = numbered_rows(rows, "number", range(1, count + 1), lost)
        # Kept as JSON, whose keys are texts.
        return {str(number): plain(row.get(key)) for number, row in found.items()}

    return read


def word_f1(said: str, expected: str) -> float:
    """Return F1 of the words of two answers, in [0, 1]; number words count as digits."""
    one, other = _bag(said), _bag(expected)
    shared = (one & other).total()
    return 2.0 * shared / (one.total() + other.total()) if shared else 0.0


def _bag(words: str) -> Counter[str]:
    found = re.findall(r"[\w'-]+", words.casefold())
    return Counter(NUMBERS.get(word, word) for word in found)


DSG_PROMPTS = TUPLES, DEPENDENCIES, DSG_QUESTIONS = (
    "dsg_tuples",
    "dsg_dependencies",
    "dsg_questions",
)
CATEGORIES = ("entity", "attribute", "relation", "action", "global", "other")

NO_ID = "tuple without a number of its own"
NO_ARGUMENTS = "tuple that states nothing"
UNKNOWN_CATEGORY = "tuple of an unknown category"
SAME_TUPLE = "tuple that was there already"
NO_PARENT = "dependency that is no number"


class DsgMaker(_Maker):
    """Implements :class:`~scenewright.evals.studies.peers.questions.QuestionMaker`."""

    prompts = DSG_PROMPTS

    @property
    def fingerprint(self) -> str:
        """Digest of the model and the prompts."""
        return self._digest()

    def expected(self, about: str) -> dict[str, ExpectedUsage]:
        """Return what tuples, dependencies and questions are expected to take."""
        return expected_steps(self._model, DSG_PROMPTS, about)

    async def make(self, about: str) -> ItemQuestions:
        """Return the questions with their parents.

        Raises ``MetricError`` where the model gives none.
        """
        steps = Steps(self._ledger, self._model)
        tuples: dict[str, str] = await steps.ask(TUPLES, read_tuples, text=as_data(about))
        facts: tuple[Fact, ...] = ()
        if tuples:
            shown = as_data([{"id": int(at), "tuple": words} for at, words in tuples.items()])
            ids = [int(at) for at in tuples]
            parents: dict[str, list[int]] = await steps.ask(
                DEPENDENCIES, _parents_of(ids), text=as_data(about), tuples=shown,
            )  # fmt: skip
            questions: dict[str, str] = await steps.ask(
                DSG_QUESTIONS, _questions_of(ids), text=as_data(about), tuples=shown,
            )  # fmt: skip
            rows = [
                (
                    "dsg",
                    {
                        "proposition_id": at,
                        "tuple": words,
                        "dependency": ",".join(map(str, parents.get(at, []))) or "0",
                        "question_natural_language": questions.get(at, ""),
                    },
                )
                for at, words in tuples.items()
            ]
            try:
                _, facts = facts_of_rows(rows, steps.dropped)
            except (DatasetError, ValueError) as error:
                raise MetricError(f"the tuples make no scene: {error}") from error
        return ItemQuestions(facts, "chat", dict(steps.dropped), steps.usd, steps.tokens)


def read_tuples(given: Mapping[str, Any], lost: Counter[str]) -> dict[str, str]:
    """Return by number the tuples of a reply in DSG's form: ``attribute - color (dog, red)``.

    Unusable ones are counted. Raises ``ValueError`` for a reply without a list.
    """
    found: dict[str, str] = {}
    for row in rows_in(given, "tuples", lost):
        number, category = row.get("id"), plain(row.get("category")).casefold()
        kind = plain(row.get("kind")).translate(_NO_BRACKETS) or "-"
        values = row.get("arguments")
        parts = [plain(one) for one in values] if isinstance(values, list) else []
        # A comma or a bracket within a part would divide it.
        parts = [part.replace(",", "").translate(_NO_BRACKETS).strip() for part in parts]
        words = f"{category} - {kind} ({', '.join(part for part in parts if part)})"
        whole = isinstance(number, int) and not isinstance(number, bool) and number > 0
        if not whole or str(number) in found:
            lost[NO_ID] += 1
        elif category not in CATEGORIES:
            lost[UNKNOWN_CATEGORY] += 1
        elif not any(parts):
            lost[NO_ARGUMENTS] += 1
        elif words.casefold() in {known.casefold() for known in found.values()}:
            lost[SAME_TUPLE] += 1
        else:
            found[str(number)] = words
    return found


_NO_BRACKETS = str.maketrans("", "", "()")


def _parents_of(ids: Sequence[int]) -> Any:
    def read(given: Mapping[str, Any], lost: Counter[str]) -> dict[str, list[int]]:
        rows = numbered_rows(rows_in(given, "dependencies", lost), "id", ids, lost)
        found: dict[str, list[int]] = {}
        for number, row in rows.items():
            values = row.get("parents")
            parents = values if isinstance(values, list) else []
            whole = [one for one in parents if isinstance(one, int) and not isinstance(one, bool)]
            if len(whole) < len(parents) or not isinstance(values, list):
                lost[NO_PARENT] += max(1, len(parents) - len(whole))
            found[str(number)] = [one for one in whole if one >= 0]
        return found

    return read


def _questions_of(ids: Sequence[int]) -> Any:
    def read(given: Mapping[str, Any], lost: Counter[str]) -> dict[str, str]:
        rows = numbered_rows(rows_in(given, "questions", lost), "id", ids, lost)
        return {str(number): plain(row.get("question")) for number, row in rows.items()}

    return read
