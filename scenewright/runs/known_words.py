"""Scenes in the words that closed models know, and the words that models declare."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from scenewright.config.profiles import LOCAL_BACKEND, BackendSpec, Profile, local_model_of
from scenewright.core.closed_vocabulary import ClosedVocabulary, VocabularyError, read_vocabulary
from scenewright.core.english import article
from scenewright.core.inflection import plural, verb_base
from scenewright.core.intent import Passage
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.judge import Judge
from scenewright.core.scene import Attributes, SceneGraph
from scenewright.runs.model_factory.local_models import backend_folder, judge_folder

Words = ClosedVocabulary | None


def words_of_judge(spec: str) -> Words:
    """Return the words that the folder of a local judge declares."""
    model = local_model_of(spec)
    return None if model is None else _declared(judge_folder(model))


def words_of_backend(spec: BackendSpec, backend: ImageBackend | None = None) -> Words:
    """Return the words of ``backend``, else those that a local model's folder declares."""
    if backend is not None:
        return backend.features.vocabulary
    return _declared(backend_folder(spec.model)) if spec.kind == LOCAL_BACKEND else None


def _declared(folder: Path) -> Words:
    try:
        return read_vocabulary(folder)
    except VocabularyError:
        # The model itself tells what is wrong with its file when it is built.
        return None


def drawn_as_known(
    scene: SceneGraph, profile: Profile, backend: ImageBackend | None = None
) -> SceneGraph:
    """Return ``scene`` in words that the image model knows: see :func:`in_known_words`."""
    known = words_of_backend(profile.backend, backend)
    return in_known_words(scene, known, "drawn and checked")


def checked_as_known(scene: SceneGraph, judges: Sequence[Judge]) -> SceneGraph:
    """Return ``scene`` in words that ``judges`` know, all of them; see :func:`in_known_words`."""
    known = [judge.caps.vocabulary for judge in judges]
    return in_known_words(scene, known[0] if known and None not in known else None, "checked")


def in_known_words(scene: SceneGraph, known: Words, done: str) -> SceneGraph:
    """Return ``scene`` in words of ``known`` where they follow from the original ones.

    A woman becomes a person where only persons are known, and what lies on a table is on it.
    The original words are then not checked: they become an unread passage of the intent, ``done``
    (for example "drawn and checked") as the others.
    """
    if known is None:
        return scene
    said = scene.intent.sentence
    passages: dict[str, Passage] = {}

    def checked_as(span: tuple[int, int], words: str, reason: str) -> None:
        text = said[slice(*span)] or words
        passages[words] = Passage(
            start=span[0], end=span[1], text=text, reason=f"{done} as {reason}"
        )

    names = {o.name: to for o in scene.objects if (to := known.hypernym(o.name)) is not None}
    for name, to in names.items():
        place = re.search(rf"\b(?:{re.escape(name)}|{re.escape(plural(name))})\b", said, re.I)
        checked_as(place.span() if place else (0, 0), name, f"{article(to)} {to}")
    postures: dict[str, set[str]] = {}
    relations = []
    for relation in scene.relations:
        predicate = relation.predicate
        if (to := known.place(predicate)) is not None:
            postures.setdefault(relation.source, set()).add(_verb_of(predicate))
            checked_as(_in_text(predicate, said), predicate, repr(to))
            relation = relation.model_copy(update={"predicate": to})
        relations.append(relation)
    if not passages:
        return scene
    objects = []
    for item in scene.objects:
        kept = _without(item.attributes, postures.get(item.id, frozenset()))
        changed = {"name": names.get(item.name, item.name), "attributes": kept}
        objects.append(item.model_copy(update=changed))
    unread = (*scene.intent.unread, *passages.values())
    graph = scene.model_copy(
        update={"objects": tuple(objects), "relations": tuple(dict.fromkeys(relations))}
    )
    intent = scene.intent.model_copy(
        update={"unread": tuple(sorted(unread, key=lambda passage: passage.start))}
    )
    # A scene that its sentence no longer states must not be bound to it again.
    return graph.said_as(intent) if scene.sentence else graph.model_copy(update={"intent": intent})


def _verb_of(words: str) -> str:
    """Return the base form of the verb with which ``words`` begin; empty for another word."""
    return verb_base(words.casefold().partition(" ")[0]) or ""


def _in_text(predicate: str, text: str) -> tuple[int, int]:
    """Return where ``text`` says ``predicate``, in any form of its verb; (0, 0) if nowhere."""
    place = re.escape(predicate.partition(" ")[2])
    rest = re.compile(rf"(?:\s+\w+){{0,2}}?\s+{place}\b", re.I)
    for word in re.finditer(r"\w+", text):
        if _verb_of(word[0]) == _verb_of(predicate) and (found := rest.match(text, word.end())):
            return word.start(), found.end()
    return 0, 0


def _without(attributes: Attributes, postures: Collection[str]) -> Attributes:
    """Return ``attributes`` without the states that the verbs ``postures`` say."""
    if not postures:
        return attributes
    kept = {
        key: " and ".join(one for one in value.split(" and ") if _verb_of(one) not in postures)
        for key, value in attributes.items()
    }
    return Attributes({key: value for key, value in kept.items() if value})
