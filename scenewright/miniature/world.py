"""What the miniature world is made of: kinds, colours, settings and predicates, as data.

The small vocabulary of the miniature text encoder, and how prompts become tokens.

Every word of the world is one token; any other word is spelled by its letters, so an
unknown name is still a name.
"""

from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from scenewright.agents.composers.rules import Piece
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.predicate_statistics import load_predicates

SIZE = 128
"""Side of every picture in pixels."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing."""

    width: int
    """Pixels, drawn at scale 1."""
    height: int
    """Pixels, drawn at scale 1."""
    color: str
    """The colour a scene's plan gives it when none is asked."""


KINDS: dict[str, Kind] = {
    "person": Kind(24, 38, "blue"),
    "dog": Kind(36, 28, "yellow"),
    "cat": Kind(26, 32, "purple"),
    "tree": Kind(34, 38, "green"),
    "house": Kind(38, 38, "red"),
    "car": Kind(38, 24, "red"),
    "boat": Kind(36, 36, "blue"),
    "ball": Kind(26, 26, "red"),
    "table": Kind(38, 28, "purple"),
    "lamp": Kind(22, 36, "yellow"),
    "umbrella": Kind(36, 36, "purple"),
    "hat": Kind(30, 20, "blue"),
}

COLORS: dict[str, tuple[int, int, int]] = {
    "red": (222, 52, 48),
    "yellow": (250, 200, 40),
    "green": (52, 160, 74),
    "blue": (48, 108, 222),
    "purple": (150, 70, 190),
    "black": (58, 58, 66),
}

SETTINGS: dict[str, str] = {
    "meadow": "in a meadow",
    "beach": "on a beach",
    "snow": "in the snow",
    "room": "in a room",
}
"""Background → how a sentence names it."""

STYLES: dict[str, str] = {
    "flat": "flat colours with an ink outline",
    "pencil": "coloured pencil and graphite on paper",
}
"""Style → how it looks."""

DIRECTIONS = ("left of", "right of", "above", "below")
CONTACTS = ("on", "under", "holding", "wearing", "riding", "inside")
PREDICATES = (*DIRECTIONS, "near", *CONTACTS)

VOCABULARY = ClosedVocabulary(
    classes=tuple(KINDS),
    attributes={"color": tuple(COLORS)},
    predicates=PREDICATES,
    # Things are near where their cells adjoin.
    synonyms={"next to": "near", "over": "above", "carrying": "holding"},
)
"""The words that the small models were taught."""
RIVALS: dict[str, tuple[str, ...]] = dict(load_predicates("miniature").fixed)
"""Predicate → what the judges were taught to tell it from. The shipped weights learnt these, so
they do not follow the vocabulary of predicates."""
MOST_COUNTED = 6
"""Most things of a kind that a judge is taught to count."""
JUDGE_VOCABULARY = replace(VOCABULARY, rivals=RIVALS, choices=3, soundness=True, most=MOST_COUNTED)
"""The words of the judges, who know questions with three predicates only. Measured on 216
relations of paintings: judge-a confirms .98 of the true ones with the options that it was taught,
.42 with two unknown predicates among them (.99 once these are replaced), none with one option
less."""

SMALL = 0.56
"""Scale of a thing inside a house, under a table or behind something large."""
HIDING = "behind"
"""How a small thing peeps out over a large one. It is drawn and known like a contact, but it is no
predicate of the world: no scene asks for it and no question names it."""

# Who can do what to whom; None: anything. Drawn relations only, a prompt may ask for any.
SUBJECTS: dict[str, frozenset[str] | None] = {
    "on": None,
    "under": None,
    "holding": frozenset({"person"}),
    "wearing": frozenset({"person", "dog", "cat"}),
    "riding": frozenset({"person", "dog", "cat"}),
    "inside": frozenset({"person", "dog", "cat", "ball", "lamp", "hat", "umbrella"}),
}
HOSTS: dict[str, frozenset[str] | None] = {
    "on": frozenset({"table", "house", "car", "ball", "boat", "tree", "dog", "lamp"}),
    "under": frozenset({"table", "umbrella", "tree"}),
    "holding": frozenset({"umbrella", "ball", "lamp", "hat", "cat"}),
    "wearing": frozenset({"hat"}),
    "riding": frozenset({"car", "boat"}),
    "inside": frozenset({"house"}),
}
UNDER_TABLE = frozenset({"person", "dog", "cat", "ball", "lamp", "hat", "umbrella"})
"""What is small enough to be drawn between a table's legs."""

LARGE = ("boat", "car", "house", "tree")
"""What a small thing may hide behind."""
UNUSUAL: tuple[tuple[str, str, str], ...] = (
    *(("house", "on", "ball"), ("car", "on", "tree"), ("boat", "on", "lamp")),
    *(("tree", "on", "dog"), ("house", "on", "car"), ("table", "on", "house")),
    *(("car", "on", "table"), ("boat", "on", "ball"), ("house", "under", "umbrella")),
    *(("car", "under", "tree"), ("cat", "riding", "boat"), ("dog", "riding", "car")),
    *(("dog", "wearing", "hat"), ("cat", "wearing", "hat"), ("person", "holding", "cat")),
)
"""Contacts (subject, predicate, host) that nobody expects."""


def can_hold(subject: str, predicate: str, host: str) -> bool:
    """Whether the painter knows how to draw ``subject predicate host`` (kinds)."""
    if predicate not in CONTACTS:
        return predicate in PREDICATES
    subjects, hosts = SUBJECTS[predicate], HOSTS[predicate]
    if subjects is not None and subject not in subjects:
        return False
    if hosts is not None and host not in hosts:
        return False
    return not (predicate == "under" and host == "table" and subject not in UNDER_TABLE)


MAX_TOKENS = 128
"""Longest prompt in tokens, start and end included."""

_START, _END = "<|startoftext|>", "<|endoftext|>"


def words() -> list[str]:
    """Every word that is one token."""
    phrases = [
        *KINDS,
        *COLORS,
        *PREDICATES,
        *SETTINGS.values(),
        "top middle bottom left center right",
        "a an the and of at : , . ; another two three four",
    ]
    return sorted({word for phrase in phrases for word in phrase.split()})


def new_tokenizer() -> CLIPTokenizer:
    """Return a CLIP tokenizer whose merges make each of :func:`words` one token."""
    suffix = "</w>"
    letters = [c for c in string.printable if not c.isspace() and not c.isupper()]
    # What the trainer has to find itself it numbers by chance, and the merges hang on the numbers.
    symbols = [*letters, *(letter + suffix for letter in letters)]
    core = Tokenizer(models.BPE(end_of_word_suffix=suffix))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=4096,
        min_frequency=1,
        end_of_word_suffix=suffix,
        special_tokens=symbols,
        show_progress=False,
    )
    core.train_from_iterator([" ".join(words())] * 2, trainer)
    with tempfile.TemporaryDirectory() as folder:
        core.model.save(folder)
        merges = (Path(folder) / "merges.txt").read_text().splitlines()
        vocab: dict[str, int] = json.loads((Path(folder) / "vocab.json").read_text())
    for token in (*symbols, _START, _END):
        vocab.setdefault(token, len(vocab))
    pairs = [tuple(line.split(" ")) for line in merges if line and not line.startswith("#")]
    return CLIPTokenizer(vocab=vocab, merges=pairs, model_max_length=MAX_TOKENS, pad_token=_END)


def token_owners(
    pieces: Sequence[Piece], tokenizer: CLIPTokenizer
) -> tuple[list[int], list[str | None]]:
    """Token ids of a prompt without start and end, and the object each token speaks of."""
    ids: list[int] = []
    owners: list[str | None] = []
    for piece in pieces:
        found = tokenizer(piece.text, add_special_tokens=False)["input_ids"]
        ids += found
        owners += [piece.object_id] * len(found)
    return ids[: MAX_TOKENS - 2], owners[: MAX_TOKENS - 2]
