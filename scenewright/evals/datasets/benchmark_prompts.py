"""Prompts of public benchmarks: GenEval 2, GenAI-Bench, OneIG-Bench, WISE and ConceptMix.

Each is read as it was published; ids are those of the published pictures where these have any. The
scene of an item is read from its prompt by rules (``parse = "rules"``), offline, as in the other
sets of prompts (:mod:`~scenewright.evals.datasets.prompt_sets`).

**GenEval 2** (Kamath et al., 2025): ``geneval2_data.jsonl`` with ``prompt``, ``atom_count``,
``vqa_list`` (question, answer) and ``skills``, one for each question. Answers are *Yes* or a number
in words. The published judge answers in one free word; here a number is one of *zero* to *ten*. The
group counts the atoms, the skill is the fact's key.

**GenAI-Bench** (Li et al., 2024): ``genai_image.json`` (id → ``prompt``) and ``genai_skills.json``
(skill → numbers of prompts, *basic* and *advanced* among them). A prompt has several skills; the
category names all of them, with commas between.

**OneIG-Bench** (Chang et al., NeurIPS 2025): ``OneIG-Bench.csv`` (``category``, ``id``,
``prompt_en``) and, for the three categories whose alignment is measured, questions with
dependencies in ``anime.json``, ``human.json`` and ``object.json``. The others are left out.

**WISE** (Niu et al., 2025): three lists of ``prompt_id``, ``Prompt``, ``Explanation``, ``Category``
and ``Subcategory``; WISE_Verified (2026) has the same keys in files of its own. Groups are ranges
of ids, as in both published scripts.

**ConceptMix** (Wu et al., NeurIPS 2024): ``300_sentences_k=K.json`` for K from 1 to 7, each a list
of ``index``, ``sentence``, ``question`` and ``categories``. Questions may have empty ones between
them, which the published code skips; a category belongs to each of the others.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import zip_longest
from pathlib import Path
from typing import Any

from scenewright.core.facts import Fact, FactKind
from scenewright.evals.datasets.base import (
    DatasetError,
    Item,
    StreamedSet,
    given_or_default,
    make_item,
)
from scenewright.evals.datasets.reading import (
    MOST_IN_A_LIST,
    check_parse,
    json_lines,
    json_list,
    one_of,
    opened,
    parsed,
    published_file,
    published_set,
    rows_of,
    said_of,
    text_of,
)

VERSION = 1
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NO_OPTION = "question whose answer is neither yes nor no nor a number to ten"
KINDS: Mapping[str, FactKind] = {
    **dict.fromkeys(("attribute", "color", "shape", "size", "style", "texture"), "attribute"),
    **dict.fromkeys(("position", "relation", "spatial", "verb"), "relation"),
}
"""Skill or category of a question → kind of its fact; any other is an object."""


def _fact(
    number: object, question: str, skill: str, answer: str = "yes", parents: Sequence[str] = ()
) -> Fact:
    return Fact(
        id=str(number),
        kind=KINDS.get(skill, "object"),
        subject=question,
        key=skill or None,
        parents=tuple(parents),
        statement=question if answer == "yes" else f"{question} {answer}",
        question=question,
        options=NUMBERS if answer in NUMBERS else ("yes", "no"),
        expected=answer,
    )


def load_geneval2(path: Path | None, *, parse: str = "rules") -> StreamedSet:
    """Return the prompts of GenEval 2; ``path`` is the file or its folder.

    Raises ``DatasetError`` for a file of another form, here or on iteration, as all loaders here.
    """
    check_parse(parse)
    file = "geneval2_data.jsonl"
    return published_set("geneval2", VERSION, path, file, _geneval2_items, parse=parse)


def _geneval2_items(file: Path, parse: str, left_out: Counter[str]) -> Iterator[Item]:
    for at, (place, entry) in enumerate(json_lines(file)):
        asked, skills = entry.get("vqa_list"), entry.get("skills")
        if (
            not (isinstance(asked, list) and isinstance(skills, list) and len(asked) == len(skills))
            or not all(isinstance(one, list) and len(one) == 2 for one in asked)
            or not all(isinstance(word, str) for one in asked for word in one)
        ):
            raise DatasetError(
                f"{place}: vqa_list must be pairs of a question and its answer, and skills as many"
            )
        facts = []
        for number, ((question, answer), skill) in enumerate(zip(asked, skills, strict=True), 1):
            expected = answer.strip().lower()
            if expected.isdecimal() and int(expected) < len(NUMBERS):
                expected = NUMBERS[int(expected)]
            if expected in ("yes", "no", *NUMBERS):
                facts.append(_fact(f"q{number}", question, str(skill), expected))
            else:
                left_out[NO_OPTION] += 1
        yield make_item(
            place,
            id=f"{at:05d}",
            facts=tuple(facts),
            group=f"{entry.get('atom_count')} atoms",
            **said_of(text_of(entry, "prompt", place), parse),
        )


def _json_object(file: Path) -> dict[str, Any]:
    with opened(file) as lines:
        data = parsed(lines.read(MOST_IN_A_LIST), str(file))
    if not isinstance(data, dict):
        raise DatasetError(f"{file} is not a JSON object: take the file as it was published")
    return data


def _files(name: str, path: Path | None, names: Iterable[str]) -> list[Path]:
    place = given_or_default(path, name)
    return [published_file(place, file, name) for file in names]


def _of_files(
    name: str, items: Callable[..., Iterator[Item]], files: Sequence[Path], parse: str, **more: str
) -> StreamedSet:
    """Return the set of ``files``; ``items`` takes them, ``parse`` and the values of ``more``."""
    check_parse(parse)
    return StreamedSet(
        partial(items, files, parse, *more.values()),
        name=name,
        version=VERSION,
        options={"parse": parse, **more},
        files=lambda: [(file.name, file) for file in files],
    )


def load_genai_bench(path: Path | None, *, parse: str = "rules") -> StreamedSet:
    """Return the prompts of GenAI-Bench; ``path`` is the folder of both files."""
    files = _files("genai-bench", path, ("genai_image.json", "genai_skills.json"))
    return _of_files("genai-bench", _genai_items, files, parse)


def _genai_items(files: Sequence[Path], parse: str, left_out: Counter[str]) -> Iterator[Item]:
    prompts, skills = files
    tags: dict[int, list[str]] = {}
    for tag, numbers in _json_object(skills).items():
        for number in numbers:
            tags.setdefault(int(number), []).append(tag)
    for key, entry in _json_object(prompts).items():
        place = f"{prompts}, entry {key!r}"
        if not isinstance(entry, dict) or not key.isdecimal():
            raise DatasetError(f"{place} is not a number with an object: take the published file")
        mine = tags.get(int(key), [])
        yield make_item(
            place,
            id=key,
            group=next((tag for tag in ("basic", "advanced") if tag in mine), ""),
            category=", ".join(mine),
            **said_of(text_of(entry, "prompt", place), parse),
        )


ONEIG_FILES = {"Anime_Stylization": "anime", "Portrait": "human", "General_Object": "object"}
"""Category whose alignment is measured → name of its file of questions."""
CIRCLE = "dependency in a circle"
LOST = "dependency on a question that does not exist"


def load_oneig(path: Path | None, *, parse: str = "rules") -> StreamedSet:
    """Return the English prompts of OneIG-Bench whose alignment is measured.

    ``path`` is the folder of the table and of the three files of questions.
    """
    names = (f"{name}.json" for name in ONEIG_FILES.values())
    files = _files("oneig", path, ("OneIG-Bench.csv", *names))
    return _of_files("oneig", _oneig_items, files, parse)


def _oneig_items(files: Sequence[Path], parse: str, left_out: Counter[str]) -> Iterator[Item]:
    table, *questions = files
    asked = dict(zip(ONEIG_FILES, map(_json_object, questions), strict=True))
    for place, row in rows_of(table, ("category", "id", "prompt_en")):
        category, number = row["category"].strip(), row["id"].strip()
        entry = asked.get(category, {}).get(number)
        if entry is None:
            left_out[f"prompt without questions of alignment ({category})"] += 1
            continue
        yield make_item(
            place,
            id=f"{ONEIG_FILES[category]}-{number}",
            facts=_oneig_facts(f"questions of {category}, entry {number!r}", entry, left_out),
            group=category,
            **said_of(row["prompt_en"].strip(), parse),
        )


def _oneig_facts(place: str, entry: Any, left_out: Counter[str]) -> tuple[Fact, ...]:
    try:
        # Both are JSON in a text, or as they are.
        questions, parents = (
            json.loads(found) if isinstance(found := entry[key], str) else found
            for key in ("question", "dependency")
        )
        graph = {
            str(number): [str(one) for one in parents.get(number, ()) if str(one) != "0"]
            for number in questions
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(
            f"{place}: question and dependency must be objects by number ({error})"
        ) from error
    for number, above in graph.items():
        graph[number] = [one for one in above if one in graph]
        if lost := len(above) - len(graph[number]):
            left_out[LOST] += lost
    while True:
        try:
            order = list(TopologicalSorter(graph).static_order())
            break
        except CycleError as error:
            parent, child = error.args[1][:2]
            graph[child].remove(parent)
            left_out[CIRCLE] += 1
    return tuple(_fact(one, str(questions[one]), "", parents=graph[one]) for one in order)


EXPLANATION = "explanation"
"""Key of an item's ``meta``: what its prompt means."""
WISE_FILES = ("cultural_common_sense", "spatio-temporal_reasoning", "natural_science")
WISE_GROUPS = ("culture", "time", "space", "biology", "physics", "chemistry")
WISE_LAST: Mapping[str, tuple[int, ...]] = {
    "legacy": (400, 567, 700, 800, 900, 1000),
    "verified": (400, 520, 640, 760, 880, 1000),
}
"""Release → last id of each of :data:`WISE_GROUPS`."""


def load_wise(path: Path | None, *, version: str = "verified", parse: str = "rules") -> StreamedSet:
    """Return the prompts of WISE; ``path`` is the folder of its three files.

    ``version``: ``verified`` (2026) or ``legacy`` (the paper's, 2025).
    """
    one_of("version", version, tuple(WISE_LAST))
    end = "_verified.json" if version == "verified" else ".json"
    files = _files("wise", path, [f"{name}{end}" for name in WISE_FILES])
    return _of_files("wise", _wise_items, files, parse, version=version)


def _wise_items(
    files: Sequence[Path], parse: str, version: str, left_out: Counter[str]
) -> Iterator[Item]:
    last = WISE_LAST[version]
    for file in files:
        for place, entry in json_list(file):
            number = entry.get("prompt_id")
            if not isinstance(number, int) or not 1 <= number <= last[-1]:
                raise DatasetError(f"{place}: prompt_id is {number!r}: it must be 1 to {last[-1]}")
            meta = {EXPLANATION: text_of(entry, "Explanation", place)}
            yield make_item(
                place,
                id=str(number),
                group=WISE_GROUPS[bisect_left(last, number)],
                category=text_of(entry, "Subcategory", place, needed=False),
                **said_of(text_of(entry, "Prompt", place), parse, meta),
            )


UNKNOWN = "unknown"
"""Category of the questions of a prompt that has more or fewer categories than questions."""
_SENTENCES = re.compile(r"300_sentences_k=\d\.json")


def load_conceptmix(path: Path | None, *, parse: str = "rules") -> StreamedSet:
    """Return the prompts of ConceptMix; ``path`` is the folder of its files, or one of them."""
    place = given_or_default(path, "conceptmix")
    here = [place] if place.is_file() else sorted(place.iterdir())
    files = [file for file in here if _SENTENCES.fullmatch(file.name)]
    if not files:
        raise DatasetError(f"{place} has no files such as 300_sentences_k=3.json")
    return _of_files("conceptmix", _conceptmix_items, files, parse)


def _conceptmix_items(files: Sequence[Path], parse: str, left_out: Counter[str]) -> Iterator[Item]:
    for file in files:
        k = file.stem[-1]
        for place, entry in json_list(file):
            questions, kinds = entry.get("question"), entry.get("categories")
            if not (isinstance(questions, list) and isinstance(kinds, list)):
                raise DatasetError(f"{place}: question and categories must be lists")
            asked = [said for one in questions if (said := " ".join(str(one).split()))]
            # Which category a question belongs to is known where there are as many of both.
            named = kinds if len(kinds) == len(asked) else []
            facts = tuple(
                _fact(f"q{at}", question, str(kind))
                for at, (question, kind) in enumerate(
                    zip_longest(asked, named, fillvalue=UNKNOWN), 1
                )
            )
            yield make_item(
                place,
                id=f"k{k}-{entry.get('index')}",
                facts=facts,
                group=f"k={k}",
                **said_of(text_of(entry, "sentence", place), parse),
            )
