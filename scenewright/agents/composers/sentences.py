"""Composer of plain sentences: every object once with its attributes, and every relation.

Used where no language model composes. It adds no place or setting, keeps related things together,
counts equal instances ("two dogs") and distinguishes others ("a red dog", "another dog", "the first
dog").

Where the scene was read from a sentence, the sentence itself can be the prompt (``verbatim``), and
after an edit of the graph the sentence with what was changed (:mod:`.editing`). What was said of
the whole picture goes with the first sentence: a picture before it ("an oil painting of a cat"),
the rest behind it ("at night").

Where the image model reads only so many tokens, function words are left out, and then what does not
fit: relations first, then attributes, then objects.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from scenewright.agents.composers.editing import edited_sentence
from scenewright.agents.composers.english import grouped
from scenewright.agents.composers.writing import Writer
from scenewright.core.ports.composer import PromptBudget, ReportingComposer, Wording
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.core.wishes import as_said, exclusion_phrase, goes_on, picture_phrase

_VERSION = 4
_SHORT = 7
"""Most words of a noun phrase after which "at night" needs no comma."""


def sentences(scene: SceneGraph, brief: bool = False) -> str:
    """Return ``scene`` in sentences; ``brief`` omits articles, "is" and "there is".

    What is said of the whole picture goes with the first sentence, which is then a noun phrase: a
    picture before it ("an oil painting of …"), the rest after it.
    """
    lead, rest, options = _frame(scene)
    written = [one for one in Writer(grouped(scene), brief, bool(lead or rest)).write() if one]
    if lead:
        lead = lead.removeprefix("an ").removeprefix("a ") if brief else lead
        written[0] = f"{lead} of {written[0]}"
    for at, one in enumerate(rest):
        short = at == 0 and len(written[0].split()) <= _SHORT and goes_on(one)
        written[0] = f"{written[0]}{'' if short else ','} {one}"
    told = [f"{text[:1].upper()}{text[1:]}." for text in written]
    # Options of drawing programs end a prompt.
    return " ".join([*told, *options])


def _frame(scene: SceneGraph) -> tuple[str, list[str], list[str]]:
    """Return the picture that shows the scene, what else is said of the whole, and options."""
    intent = scene.intent
    texts = [one.text.casefold() for one in intent.globals]
    wishes = [
        one
        for one in intent.globals
        if not any(one.text.casefold() in text != one.text.casefold() for text in texts)
    ]
    shown = (one for kind in ("medium", "style", "view", "artist") for one in wishes
             if one.kind == kind and picture_phrase(one))  # fmt: skip
    leading = next(shown, None)
    rest = [f'with the text "{text}"' for text in intent.texts]
    rest += [as_said(one) for one in wishes if one is not leading and one.text[:2] != "--"]
    rest += [exclusion_phrase(one) for one in intent.exclusions if one.of is None]
    lead = picture_phrase(leading) if leading is not None else ""
    return lead, list(dict.fromkeys(rest)), [w.text for w in wishes if w.text[:2] == "--"]


def sentences_within(
    scene: SceneGraph, room: PromptBudget
) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """Return sentences of ``scene`` that fit ``room``, and what they omit (``Wording.unsaid``).

    Plain sentences if they are short enough, else brief ones, else brief ones of what has room:
    objects in the scene's order, then attributes, then relations. One object is always named.
    """
    for brief in (False, True):
        text = sentences(scene, brief)
        if room.holds(text):
            return text, ()
    told: set[tuple[str, ...]] = set()
    unsaid: list[tuple[str, ...]] = []
    text = ""
    # The most important facts first.
    parts: list[tuple[str, ...]] = [(item.id,) for item in scene.objects]
    parts += ((item.id, key) for item in scene.objects for key in item.attributes)
    parts += ((one.source, one.predicate, one.target) for one in scene.relations)
    for part in parts:
        ends = {part[0], part[-1]} if len(part) > 2 else {part[0]}
        known = len(part) == 1 or all((end,) in told for end in ends)
        longer = sentences(_part_of(scene, told | {part}), brief=True) if known else ""
        if known and (not text or room.holds(longer)):
            told.add(part)
            text = longer
        else:
            unsaid.append(part)
    return text, tuple(unsaid)


def _part_of(scene: SceneGraph, told: Set[tuple[str, ...]]) -> SceneGraph:
    objects: list[SceneObject] = []
    for item in scene.objects:
        if (item.id,) in told:
            kept = {key: value for key, value in item.attributes.items() if (item.id, key) in told}
            objects.append(item.model_copy(update={"attributes": Attributes(kept)}))
    return SceneGraph(
        objects=tuple(objects),
        relations=tuple(
            one for one in scene.relations if (one.source, one.predicate, one.target) in told
        ),
        intent=scene.intent.of(item.id for item in objects),
    )


@dataclass(frozen=True)
class SentenceComposer(ReportingComposer):
    """Composer by a grammar; needs no language model and adds no places."""

    room: PromptBudget | None = None
    """Part of a prompt that the image model reads; None: all."""
    verbatim: bool = False
    """Whether the sentence that a scene was read from is its prompt, where it fits."""
    languages: tuple[str, ...] = ("en",)
    """Languages in which that sentence stays as it is; of others its translation into English is
    the prompt."""

    @property
    def id(self) -> str:
        """``sentence`` or ``sentences``."""
        return "sentence" if self.verbatim else "sentences"

    @property
    def fingerprint(self) -> str:
        """Grammar version, and the budget if there is one."""
        within = "" if self.room is None else f" within {self.room.budget}"
        spoken = "" if self.languages == ("en",) else f" in {' '.join(self.languages)}"
        return f"{self.id}@{_VERSION}{within}{spoken}"

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """Return a prompt with every fact of ``scene`` that fits, and those that do not.

        The seed and the whole scene have no effect.
        """
        said = scene.sentence_for(self.languages).strip() if self.verbatim else ""
        if said and (self.room is None or self.room.holds(said)):
            return Wording(said, self.id)
        edited = self.verbatim and not (said or scene.intent.english) and within in (None, scene)
        kept = edited_sentence(scene) if edited else ""
        if kept and (self.room is None or self.room.holds(kept)):
            return Wording(kept, self.id)
        if self.room is None:
            return Wording(sentences(scene), "sentences")
        text, unsaid = sentences_within(scene, self.room)
        return Wording(text, "sentences", unsaid=unsaid)
