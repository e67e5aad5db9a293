"""Does the person's sentence survive: what prompts lose and invent, and how well it is read.

``python -m benchmarks.intent [--quick] [--show] [--data FOLDER]``. On all PartiPrompts, 1,000 TIFA
prompts and DSG-1k, with real profiles without a language model (:data:`PROFILES`): the rules read
the sentence, and the profile's composer writes the prompt within what the image model reads. Words
are compared by this module's own lists, not by those of the product's own check.

Shares of the prompts that are read, a prompt counting where one of the profiles is at fault:

- ``words.lost_silently``: a content word of the sentence is neither in the prompt nor in the
  negative one, nor told as lost; ``told``: some are lost and all of them told.
- ``words.invented_silently``: a content word of the prompt is not in the sentence, nor told as
  added.
- ``numbers.invented``: the prompt or a count has a number that the sentence does not say.
- ``style.kept``: of prompts with a word for a medium, style or artist, those that keep all of them.
- ``refused``: share of all prompts in which nothing is found to draw.
- ``composed.…``: the same of prompts composed from graph and intent, as after an edit of the graph
  and by the composer ``sentences``.
- ``SET.…``: the same of one set.

Of 120 prompts that a person read (``intent_truth.toml``), ``tuned.…`` and ``held.…`` by halves:

- ``parse.right``: read as a person would accept; what is told as unread is neither right nor wrong
  (:mod:`benchmarks._intent_truth`). ``parse.in_full``: right with nothing told as unread.
- ``parse.right_without_doubts``: of readings without a doubt those that are right.
- ``doubts.recall``: share of wrong readings with a doubt; ``doubts.share``: of all readings.
- ``floor.right``: of a reading with the sentence's first noun as its one object.

``prompts.ungrammatical``: share of composed prompts that are not natural English, of
``prompts.read`` that a person read as they are now (``intent_read.toml``); ``prompts.unread`` have
changed since. ``--show`` prints these, as lines of that file.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import tomllib
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import parser
from benchmarks._harness import DATA, Option, Skipped, benchmark, folder, interval, progress
from benchmarks._intent_truth import Truth, base, judged
from benchmarks._intent_truth import load as load_truth
from scenewright.agents.composers.check import PromptChanges, compared, without_excluded
from scenewright.agents.parsers.rules import CaptionError, parse_caption
from scenewright.config.profiles import BUILT_IN
from scenewright.core.ports.composer import compose_with_origin
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.evals.datasets import prompt_sets
from scenewright.evals.datasets.base import DatasetError
from scenewright.runs.model_factory.profiles import composer_of
from scenewright.runs.plan import with_exclusions
from scenewright.tools.backends.prompts import find_prompt_reader

PROFILES = {"sdxl": True, "flux2-klein": False}
"""Profiles, and whether their image models take a negative prompt."""
SETS = {"parti": "partiprompts", "tifa": "tifa", "dsg": "dsg"}
"""Set → its folder among the releases."""
TIFA_PROMPTS = 1_000
QUICK = 150
"""Prompts of each set in a quick run."""
SEED = 38
READ = Path(__file__).with_name("intent_read.toml")
TO_READ = 100


@dataclass(frozen=True, slots=True)
class Sentence:
    """A prompt of a public set."""

    source: str
    item: str
    text: str

    @property
    def key(self) -> str:
        """``SET.ITEM``."""
        return f"{self.source}.{self.item}"


@dataclass(frozen=True, slots=True)
class Sent:
    """What a profile sends of a sentence, and what it says that it lost or added."""

    prompt: str
    negative: str
    changes: PromptChanges


def load(folder: Path) -> list[Sentence]:
    """Return all prompts of the releases in ``folder``, in their order."""
    streams = {"parti": prompt_sets.load_parti, "tifa": prompt_sets.load_tifa}
    found = [
        Sentence(source, item.id, item.prompt)
        for source, opened in streams.items()
        for item in opened(folder / SETS[source], parse="none")
    ]
    return [*found, *(Sentence("dsg", p.id, p.text) for p in parser.load(folder / SETS["dsg"]))]


def drawn(sentences: Sequence[Sentence], most: Mapping[str, int]) -> list[Sentence]:
    """Return at most so many sentences of each set, drawn with a fixed seed."""
    found: list[Sentence] = []
    for source in SETS:
        some = [one for one in sentences if one.source == source]
        number = min(len(some), most.get(source, len(some)))
        found += random.Random(SEED).sample(some, number)
    return found


def read(text: str) -> SceneGraph | None:
    """Return the scene of a sentence as the rules read it; None if it is refused."""
    try:
        return parse_caption(text)
    except CaptionError:
        return None


class Sender:
    """Writes prompts as a profile's run does."""

    def __init__(self, name: str, composed: bool = False) -> None:
        """Write for the profile ``name``; ``composed``: from the graph, not the sentence."""
        profile = BUILT_IN[name]
        if composed:
            profile = profile.model_copy(update={"composer": "sentences"})
        self._profile, self._negative = profile, PROFILES[name]
        self._composer = composer_of(profile, room=find_prompt_reader(profile.backend.model).room)

    async def send(self, scene: SceneGraph) -> Sent:
        """Return what is sent of ``scene``."""
        prompt = (await compose_with_origin(self._composer, scene, 0)).prompt
        prompt = without_excluded(prompt, scene, self._negative)
        negative = self._profile.negative_prompt
        if self._negative:
            negative = with_exclusions(negative, scene)
        return Sent(prompt, negative, compared(scene.sentence, prompt, negative))


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_FUNCTION_WORDS = """
a an the this that these those it its his her hers their they he she him them some any of in on at
to for by from with and or but as into than so such is are was were be been being has have had do
does did there here who whom which whose what where when while also very each both other another
one ones not no i we you can could will would may might should must up out off if then just too
made all every because though itself themselves seem seems appear appears gets becomes plus am shall
my your our doesn't isn't image picture scene see seen visible color colors
colour colours s t
"""
_EMPTY = frozenset(_FUNCTION_WORDS.split())
"""Words without content of their own."""
_NUMBER_WORDS = """
two pair couple both twin duo double; three trio triple triplet; four quartet; five; six; seven;
eight; nine; ten; eleven; twelve dozen; thirteen; fourteen; fifteen; sixteen; seventeen; eighteen;
nineteen; twenty
"""
_ORDINALS = frozenset(["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"])
_NUMBERS = {
    word: number
    for number, words in enumerate(_NUMBER_WORDS.split(";"), 2)
    for word in words.split()
}
STYLE = re.compile(
    r"""\b(?:(?:oil|acrylic|watercolou?r|digital|matte|abstract|ink\swash|sumi-?e)\s(?:painting|art)
    |in\s(?:the\s)?styles?\sof\s[^,.;]+|painting|drawing|photo(?:graph)?|portrait|close-?up
    |(?:aerial|top-down|wide-angle|low-angle|birds?-eye)\s(?:view|shot|photo)|watercolou?r|gouache|fresco|mosaic|woodcut|woodblock|linocut|etching|engraving
    |lithograph|tapestry|stained\sglass|charcoal|pastel|crayon|sketch|illustration|cartoon|comic
    |anime|manga|ukiyo-?e|hieroglyphics?|pixel\sart|vector\sart|line\sart|concept\sart|clip\sart
    |low-?poly|3d\srender(?:ing)?|cgi|octane|unreal\sengine|artstation|photorealistic|hyperrealis\w+
    |impressionis\w+|expressionis\w+|cubis[mt]\w*|surrealis\w+|minimalis\w+|baroque|renaissance
    |art\snouveau|art\sdeco|pop\sart|psychedelic|steampunk|cyberpunk|vaporwave|sepia|daguerreotype
    |polaroid|van\sgogh|picasso|monet|rembrandt|dal[ií]|hokusai|vermeer|matisse|klimt|warhol
    |greg\srutkowski|artgerm|mucha|beksinski|kandinsky|banksy)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words for media, styles and artists."""


_TEXT_WORDS = "word text write say read letter label spell message caption title slogan phrase"
_WRITING = frozenset(map(base, _TEXT_WORDS.split()))
"""Words that only say that there is a text."""


def _bases(text: str) -> set[str]:
    """Return the base forms of all words of ``text``; a number is its digits."""
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        plain = re.sub(r"['’]s?$", "", word)
        found |= {str(_NUMBERS.get(plain, plain)), base(plain)}
    if found & {"one", "singl"}:
        found.add("1")
    return found | ({"text"} if found & _WRITING else set())


def _content(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        if word.lower() not in _EMPTY:
            yield word


def silent(words: str, kept: str) -> list[str]:
    """Return the content words of ``words`` of which ``kept`` has no form."""
    known = _bases(kept)
    return [word for word in _content(words) if not _bases(word) & known]


def added_silently(prompt: str, known: str) -> list[str]:
    """Return what ``prompt`` says beyond ``known``.

    Ordinals only tell alike things apart, and "says" only that a text is written there.
    """
    return [word for word in silent(prompt, f"{known} text") if word.lower() not in _ORDINALS]


def numbers_of(text: str) -> set[int]:
    """Return the numbers that ``text`` says, from two on."""
    found: set[int] = set()
    before = 0
    for word in re.findall(r"\d+(?:,\d{3})*|[^\W\d_]+", text.lower()):
        plain = word.replace(",", "")
        now = int(plain) if plain.isdecimal() else _NUMBERS.get(_unit(word), 0)
        # "Four pairs" are eight.
        found |= {now, before * now}
        before = now
    return {number for number in found if number > 1}


def _unit(word: str) -> str:
    return word if word in _NUMBERS else word.removesuffix("s")


def invented_numbers(sentence: str, scene: SceneGraph, prompt: str) -> set[int]:
    """Return numbers of the prompt and of exact counts that the sentence does not say.

    Alike objects whose number nothing says are counted too, unless the sentence names each.
    """
    exact = {one.number or len(one.objects) for one in scene.intent.counts if one.kind == "exact"}
    counted = {item for one in scene.intent.counts for item in one.objects}
    free = (item for item in scene.objects if item.id not in counted)
    alike = Counter((item.name.lower(), item.attributes) for item in free)
    said = [base(word) for word in _WORD.findall(sentence.lower())]
    exact |= {n for (name, _), n in alike.items() if n > said.count(base(name.split()[-1]))}
    true = numbers_of(sentence)
    # "Two dogs … five more dogs" are seven; "a cup … a cup" are two cups.
    parts = numbers_of(prompt) | {1}
    written = {n for n in parts if not {n + other for other in parts} & true}
    written -= {n for n, noun in _counted(prompt) if said.count(noun) >= n}
    return {n for n in exact | written if n > 1} - true


def _counted(text: str) -> Iterator[tuple[int, str]]:
    """Yield each number in words with each of the three words after it."""
    words = _WORD.findall(text.lower())
    for at, word in enumerate(words):
        if word in _NUMBERS:
            yield from ((_NUMBERS[word], base(noun)) for noun in words[at + 1 : at + 4])


def faults(sentence: str, scene: SceneGraph, sent: Sent) -> dict[str, bool | None]:
    """Return what is true of one prompt, by the names of the figures; None: not asked of it."""
    # What the negative prompt names is denied by it.
    denied = f"{sent.negative} without instead missing" if sent.negative else ""
    kept = f"{sent.prompt} {denied}"
    lost = silent(sentence, kept)
    told = " ".join(one.text for one in sent.changes.lost)
    added = added_silently(sent.prompt, f"{sentence} {' '.join(sent.changes.added)}")
    style = [match[0] for match in STYLE.finditer(sentence)]
    return {
        "words.lost_silently": bool(silent(" ".join(lost), told)),
        "words.invented_silently": bool(added),
        "numbers.invented": bool(invented_numbers(sentence, scene, sent.prompt)),
        "style.kept": not silent(" ".join(style), sent.prompt) if style else None,
        "told": bool(lost) and not silent(" ".join(lost), told),
    }


async def measure(sentences: Sequence[Sentence]) -> dict[str, Any]:
    """Return the shares of prompts that lose, invent and tell."""
    ways = {
        prefix: [Sender(name, composed) for name in PROFILES]
        for prefix, composed in (("", False), ("composed.", True))
    }
    figures: dict[str, Any] = {}
    rows: dict[str, list[dict[str, bool | None]]] = {}
    refused = Counter[str]()
    for one in progress(sentences, note="sentences"):
        scene = read(one.text)
        if scene is None:
            refused[one.source] += 1
            continue
        for kind, senders in ways.items():
            found = [faults(one.text, scene, await sender.send(scene)) for sender in senders]
            rows.setdefault(kind, []).append(_worst(found))
            rows.setdefault(f"{one.source}.{kind}", []).append(rows[kind][-1])
    for prefix, some in rows.items():
        for name in some[0]:
            values = [float(value) for row in some if (value := row[name]) is not None]
            if values:
                figures[f"{prefix}{name}"] = float(np.mean(values))
    of = Counter(one.source for one in sentences)
    figures["refused"] = refused.total() / len(sentences)
    figures |= {f"{source}.refused": refused[source] / number for source, number in of.items()}
    return figures | {f"{source}.prompts": number for source, number in of.items()}


def _worst(found: Sequence[Mapping[str, bool | None]]) -> dict[str, bool | None]:
    """Return the row of one prompt: the worst of its profiles."""
    return {
        name: None
        if value is None
        else (all if name == "style.kept" else any)(bool(row[name]) for row in found)
        for name, value in found[0].items()
    }


def measure_truth(truths: Sequence[Truth], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return how many prompts of the truth are read right, and how many readings are in doubt."""
    rows: dict[str, list[tuple[bool, bool, bool, bool]]] = {}
    for truth in truths:
        text = texts[f"{truth.source}.{truth.item}"]
        scene = read(text)
        verdict = judged(scene, truth)
        row = (
            verdict.right,
            verdict.right and not verdict.abstained,
            scene is not None and bool(scene.intent.doubts),
            judged(first_object(text), truth).right,
        )
        for half in ("", f"{truth.half}."):
            rows.setdefault(half, []).append(row)
    figures: dict[str, Any] = {}
    for half, some in rows.items():
        right, in_full, doubtful, floor = np.array(some).T
        figures |= {
            f"{half}parse.right": interval(right),
            f"{half}parse.in_full": interval(in_full),
            f"{half}parse.right_without_doubts": _share(right[~doubtful]),
            f"{half}doubts.recall": _share(doubtful[~right]),
            f"{half}doubts.share": float(doubtful.mean()),
            f"{half}floor.right": float(floor.mean()),
            f"{half}parse.prompts": len(some),
        }
    return {name: value for name, value in figures.items() if value is not None}


def _share(values: Any) -> float | None:
    return float(values.mean()) if len(values) else None


def first_object(text: str) -> SceneGraph | None:
    """Return the floor's reading: the first noun-like word is the one object."""
    name = next(iter(parser.nearest_pairs(text).objects), None)
    if name is None:
        return None
    return SceneGraph(objects=(SceneObject(id=f"{name}.1", name=name),))


async def composed_prompts(sentences: Sequence[Sentence]) -> dict[str, str]:
    """Return key → the composed prompt of each of the sentences that a person reads.

    None of them is a held one of the truth, for whoever mends the composer reads them too.
    """
    held = {f"{one.source}.{one.item}" for one in load_truth() if one.half == "held"}
    free = [one for one in drawn(sentences, dict.fromkeys(SETS, TO_READ)) if one.key not in held]
    sender = Sender("flux2-klein", composed=True)
    found: dict[str, str] = {}
    for turn in zip(*([one for one in free if one.source == s] for s in SETS), strict=False):
        for one in turn:
            scene = read(one.text)
            if scene is not None and len(found) < TO_READ:
                found[one.key] = (await sender.send(scene)).prompt
    return found


def mark(prompt: str) -> str:
    """Return the hash by which a read prompt is known again."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:12]


def verdicts(prompts: Mapping[str, str], path: Path = READ) -> dict[str, str]:
    """Return key → what a person finds wrong with each prompt that was read as it is now."""
    known = tomllib.loads(path.read_text()) if path.is_file() else {}
    read = {f"{s}.{item}": verdict for s, some in known.items() for item, verdict in some.items()}
    return {
        key: read[key][1] for key, prompt in prompts.items() if mark(prompt) in read.get(key, ())
    }


def grammar(prompts: Mapping[str, str], path: Path = READ) -> dict[str, Any]:
    """Return the share of ungrammatical prompts among those that were read as they are."""
    faulty = [bool(fault) for fault in verdicts(prompts, path).values()]
    shown = {"prompts.ungrammatical": sum(faulty) / len(faulty)} if faulty else {}
    return {**shown, "prompts.read": len(faulty), "prompts.unread": len(prompts) - len(faulty)}


@benchmark(
    f"{QUICK} prompts of each set",
    measures=("scenewright.agents.parsers", "scenewright.agents.composers"),
    refused=(DatasetError,),
    trials=("show",),
    data=folder("folder of the releases, if not beside the repository"),
    show=Option(
        False, "print the composed prompts that a person is to read", more={"action": "store_true"}
    ),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]] | None:
    """Measure what prompts keep of their sentences, and how well these are read."""
    place = options.data or DATA
    missing = [name for name in SETS.values() if not (place / name).is_dir()]
    if missing:
        raise Skipped(f"skipped: {', '.join(missing)} not in {place}; name the folder with --data")
    sentences = load(place)
    prompts = asyncio.run(composed_prompts(sentences))
    if options.show:
        known = verdicts(prompts)
        for key in [key for key in prompts if key not in known]:
            print(f'{key} = ["{mark(prompts[key])}", ""]  # {prompts[key]}')
        return None
    quick = dict.fromkeys(SETS, QUICK)
    some = drawn(sentences, quick if options.quick else {"tifa": TIFA_PROMPTS})
    figures = asyncio.run(measure(some))
    figures |= measure_truth(load_truth(), {one.key: one.text for one in sentences})
    return len(some), figures | grammar(prompts)


if __name__ == "__main__":
    main()
