"""Captions that deny something, each beside one that does not, and what a scene makes of them.

A caption is a form with names in it: *a {other} without a {thing}* denies that the thing is there.
A scene *inverts* it if it holds what is denied: the object, the attribute of the thing, or the
relation of the thing to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scenewright.core.inflection import plural
from scenewright.core.scene import SceneGraph

THINGS = ("dog", "cat", "lamp", "car", "umbrella", "tree", "chair", "bird", "hat", "ball")
OTHERS = ("table", "sofa", "bench", "box", "house", "bed", "statue")
VALUES = ("red", "wooden", "striped", "tall", "wet", "old", "open")

OBJECTS = (
    "a room with no {thing}", "a {other} without a {thing}", "no {thing} is near the {other}",
    "there is no {thing} on the {other}", "there isn't a {thing} beside the {other}",
    "there isn’t any {thing} in the room", "there are no {things} in the room",
    "a {other} and no {thing}", "a {other}, no {things}", "neither a {thing} nor a {other}",
    "a {other} with neither {things} nor books", "a {other} free of {things}",
    "a street empty of {things}", "a {other} instead of a {thing}",
    "a {other} rather than a {thing}", "a {other} but not a {thing}",
    "a {other} lacking a {thing}", "a {other} with a missing {thing}",
    "a {other} is missing its {thing}", "none of the {things} are on the {other}",
    "a garden devoid of {things}", "an alley with hardly any {things}",
    "a {other}. There are no {things}.", "a {other} that has no {thing}",
    "the {other} doesn't have a {thing}", "the {other} does n't have a {thing}",
    "the {other} never had a {thing}", "a room where no {thing} can be seen",
    "a room where a {thing} is absent", "a {other}, not a {thing}",
    "all is white except a {thing}", "a {other} without any {things} around it",
    "a photo of a {other} with no {thing}, 8k", "anything but a {thing} on a {other}",
    "in place of a {thing} there is a {other}", "a {other} and nothing like a {thing}",
)  # fmt: skip
ATTRIBUTES = (
    "a {thing} that is not {value}", "the {thing} isn't {value}", "the {thing} is not {value}",
    "the {thing} on the {other} is not {value}", "the {thing} isn’t {value}",
    "a not {value} {thing}", "a {thing} which was never {value}",
    "the {thing} is neither {value} nor blue", "the {thing} is no longer {value}",
    "a {thing} that's not {value}", "the {thing} does not look {value}",
    "a {thing} that cannot be {value}", "a {other} and a {thing}, which is not {value}",
    "a {thing}, not {value} but blue", "the {thing} is blue and not {value}",
    "the {thing} wasn't {value}", "a {thing} that is far from being {value}",
)  # fmt: skip
RELATIONS = (
    "a {thing} not on the {other}", "the {thing} is not next to the {other}",
    "the {thing} isn't standing on the {other}", "a {thing} that does not touch the {other}",
    "a {thing} that never stands on a {other}", "a {thing} unable to reach the {other}",
    "a {thing} refusing to look at the {other}", "the {thing} is nowhere near the {other}",
    "the {thing} is no longer under the {other}", "a {thing} which isn't behind the {other}",
    "a {thing} that is not in front of the {other}",
)  # fmt: skip
AFFIRMED = (
    "a room with a {thing}", "a {other} with a {thing}", "a {thing} is near the {other}",
    "there is a {thing} on the {other}", "a {thing} that is {value}", "the {thing} is {value}",
    "a sign with the words 'no {things}' beside a {thing}", "a no parking sign by a {thing}",
    "a {thing} that is not only {value} but also blue", "a {thing} beside a knot and a note",
    "a {other} with nothing but a {thing}", "a {thing} labelled “not for sale”",
    "a {thing} on the {other}. The background is not clear.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Denial:
    """A caption, and what it denies."""

    text: str
    thing: str
    other: str = ""
    """The other end of a denied relation."""
    value: str = ""
    """A denied attribute; without one and without ``other`` the thing itself is denied."""

    def inverted_by(self, scene: SceneGraph) -> bool:
        """Return whether the scene holds what the caption denies."""
        found = {item.id: item for item in scene.objects if _names(item.name, self.thing)}
        if self.value:
            said = [word for item in found.values() for word in item.attributes.values()]
            return any(self.value in text.split() and "not" not in text for text in said) or any(
                self.value in item.name.split() for item in found.values()
            )
        if self.other:
            others = {item.id for item in scene.objects if _names(item.name, self.other)}
            return any(
                r.source in found and r.target in others and "not" not in r.predicate.split()
                for r in scene.relations
            )
        return bool(found)


def _names(name: str, thing: str) -> bool:
    words = name.lower().split()
    return thing in words and not {"no", "not", "without"} & set(words)


def denials() -> Iterator[Denial]:
    """Yield captions that deny something: every form with every thing."""
    for at, thing in enumerate(THINGS):
        for place, (kind, form) in enumerate(_forms()):
            other = OTHERS[(at + place) % len(OTHERS)]
            value = VALUES[(at + place) % len(VALUES)]
            yield Denial(
                _written(form, thing, other, value),
                thing,
                other if kind == "relation" else "",
                value if kind == "attribute" else "",
            )


def affirmations() -> Iterator[str]:
    """Yield captions that deny nothing of a thing, some with words that could."""
    for at, thing in enumerate(THINGS):
        for place, form in enumerate(AFFIRMED):
            yield _written(
                form,
                thing,
                OTHERS[(at + place) % len(OTHERS)],
                VALUES[(at + place) % len(VALUES)],
            )


def _forms() -> Iterator[tuple[str, str]]:
    for kind, forms in (("object", OBJECTS), ("attribute", ATTRIBUTES), ("relation", RELATIONS)):
        for form in forms:
            yield kind, form


def _written(form: str, thing: str, other: str, value: str) -> str:
    return form.format(thing=thing, things=plural(thing), other=other, value=value)
