"""Errors, strict JSON and graph building that all scene formats share; our own JSON format.

Errors name their place like ``scenes.json: [3].relationships[2].source``. Our own format has the
fields of :class:`~scenewright.core.scene.SceneGraph` and a format marker.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from scenewright.core.intent import Intent
from scenewright.core.scene import Attributes, Relation, SceneError, SceneGraph, SceneObject
from scenewright.core.validation import cut_short

MAX_BYTES = 20 * 1024 * 1024
_NUMBERED = re.compile(r"(?P<name>.+)\.(?P<number>[0-9]+)", re.DOTALL)


class FormatError(SceneError):
    """A scene file or text that cannot be read or written; names the place and the remedy."""


class FormatWarning(UserWarning):
    """A part of a foreign file that cannot be kept; names the place and what was left out."""


@dataclass(frozen=True, slots=True)
class Format:
    """One file format, both ways."""

    name: str
    """Values of ``format=``."""
    about: str
    """One line for help texts."""
    read: Callable[[str, str], list[SceneGraph]]
    """``read(text, where)`` returns all graphs of a file; errors begin with ``where``."""
    write: Callable[[Sequence[SceneGraph]], str]
    """Returns the text of a file with these graphs."""


def fail(where: str, problem: str) -> FormatError:
    """Return the error for ``problem`` at ``where``."""
    return FormatError(f"{where}: {problem}" if where else problem)


def quote(value: object, limit: int = 60) -> str:
    """Return ``value`` for a message, cut to ``limit`` characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return cut_short(text, limit)


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value of a JSON text, with its place for errors."""

    value: Any
    """The value."""
    place: str = ""
    """Its place; of a whole entry that of the file, or of the entry in it."""
    is_entry: bool = False
    """Whether it is a whole entry, of which the places of its parts begin."""

    def fail(self, problem: str) -> FormatError:
        """Return the error for ``problem`` at this place."""
        return fail(self.place, problem)

    def part(self, key: str | int, value: Any) -> JsonValue:
        """Return ``value`` as the part at ``key``."""
        if isinstance(key, int):
            return JsonValue(value, f"{self.place}[{key}]")
        if self.is_entry and not self.place.endswith("]"):
            return JsonValue(value, f"{self.place}: {key}" if self.place else key)
        return JsonValue(value, f"{self.place}.{key}")

    def object(self, example: str) -> JsonValue:
        """Return itself if it is a JSON object; ``FormatError`` with ``example`` otherwise."""
        if not isinstance(self.value, dict):
            raise self.fail(f"expected an object such as {example}, found {quote(self.value)}")
        return self

    def items(self, example: str) -> list[JsonValue]:
        """Return the parts of a JSON list; ``FormatError`` with ``example`` for anything else."""
        if not isinstance(self.value, list):
            raise self.fail(f"expected a list such as {example}, found {quote(self.value)}")
        return [self.part(index, value) for index, value in enumerate(self.value)]

    def text(self, example: str) -> str:
        """Return text that is not blank; ``FormatError`` with ``example`` for anything else."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.fail(f"expected text such as {example}, found {quote(self.value)}")
        return self.value

    def field(self, key: str, example: str) -> JsonValue:
        """Return the part at ``key``; ``FormatError`` that names the missing key otherwise."""
        if key not in self.value:
            raise self.fail(f'"{key}" is missing: add it, for example {example}')
        return self.part(key, self.value[key])

    def get(self, key: str, default: Any = None) -> JsonValue:
        """Return the part at ``key``, or ``default`` there."""
        return self.part(key, self.value.get(key, default))

    def attributes(self) -> dict[str, str]:
        """Return a JSON object of text to text: the attributes of one object."""
        entry = self.object('{"color": "red"}').value
        return {key: self.part(key, text).text('"red"') for key, text in entry.items()}

    def end(
        self,
        key: str,
        example: str,
        read_id: Callable[[JsonValue], str],
        known: Collection[str] | None,
        what: str,
    ) -> str:
        """Return the id at the ``key`` of a relation.

        ``FormatError`` for one that is not ``known`` (None: any), which says that it is not
        ``what``.
        """
        given = self.field(key, example)
        id_ = read_id(given)
        if known is not None and id_ not in known:
            some = quote(list(known)[:12], 200)
            raise given.fail(f"{quote(given.value)} is not {what}: add it, or use one of {some}")
        return id_


def split_id(text: str) -> tuple[str, int | None]:
    """Return ``"sports ball.1"`` → ``("sports ball", 1)``; the number is none if there is none."""
    match = _NUMBERED.fullmatch(text)
    return (match["name"], int(match["number"])) if match else (text, None)


def numbered(names: Iterable[str]) -> list[str]:
    """Return unique ids ``name.1``, ``name.2``, …, counted within each name."""
    count: Counter[str] = Counter()
    ids: list[str] = []
    for name in names:
        count[name] += 1
        ids.append(f"{name}.{count[name]}")
    return ids


def numbered_ids(scene: SceneGraph) -> dict[str, str]:
    """Return id → id of the form ``name.N``.

    Ids of this form stay unless another id of the same name has another form.
    """
    proper: dict[str, bool] = {}
    for item in scene.objects:
        name, number = split_id(item.id)
        fits = number is not None and name == item.name
        proper[item.name] = proper.get(item.name, True) and fits
    fresh = numbered(item.name for item in scene.objects)
    return {
        item.id: item.id if proper[item.name] else new
        for item, new in zip(scene.objects, fresh, strict=True)
    }


def renamed(scene: SceneGraph, ids: Mapping[str, str]) -> SceneGraph:
    """Return ``scene`` with other ids: old id → new one; its sentence still says it."""
    said = scene.intent
    counts = (
        count.model_copy(update={"objects": tuple(ids[one] for one in count.objects)})
        for count in said.counts
    )
    exclusions = (
        one.model_copy(update={"of": None if one.of is None else ids[one.of]})
        for one in said.exclusions
    )
    intent = said.model_copy(update={"counts": tuple(counts), "exclusions": tuple(exclusions)})
    new = SceneGraph(
        objects=tuple(item.model_copy(update={"id": ids[item.id]}) for item in scene.objects),
        relations=tuple(
            Relation(source=ids[r.source], predicate=r.predicate, target=ids[r.target])
            for r in scene.relations
        ),
        intent=intent,
    )
    return new.said_as(intent) if scene.sentence else new


def intent_entry(scene: SceneGraph) -> dict[str, Any]:
    """Return ``{"intent": …}`` for the entry of ``scene`` in a format; nothing without one."""
    return {"intent": scene.intent.model_dump(mode="json")} if scene.intent else {}


def with_intent(
    scene: SceneGraph, entry: Mapping[str, Any], where: str, inside: str = ""
) -> SceneGraph:
    """Return ``scene`` with the ``intent`` of its entry, as :func:`intent_entry` wrote it.

    ``inside`` is the key of the part of the file's entry that ``entry`` is, if it is not all.
    ``FormatError`` for an intent that is not of this form or names an unknown object.
    """
    if entry.get("intent") is None:
        return scene
    path = (inside, "intent") if inside else ("intent",)
    try:
        intent = Intent.model_validate(entry["intent"])
    except ValidationError as error:
        raise explain(error, where, *path) from None
    named = [one for count in intent.counts for one in count.objects]
    named += [one.of for one in intent.exclusions if one.of is not None]
    for object_id in named:
        if object_id not in scene:
            problem = f"{quote(object_id)} is not an object: use one of the scene's ids"
            raise JsonValue(None, where, is_entry=True).part(".".join(path), None).fail(problem)
    return scene.model_copy(update={"intent": intent})


def explain(error: ValidationError, where: str, *path: str) -> FormatError:
    """Return the first finding of a failed validation as a ``FormatError`` that names its place.

    ``path`` are the keys of what was validated, if it is not all of the entry.
    """
    first = error.errors(include_url=False)[0]
    place = JsonValue(None, where, is_entry=True)
    for part in (*path, *first["loc"]):
        place = place.part(part, None)
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        problem = "is not known here: remove it or correct its spelling"
    elif first["type"] == "missing":
        problem = "is missing: add it"
    elif not first["type"].startswith("value_error"):
        problem += f", found {quote(first['input'])}: correct it"
    return place.fail(problem)


def build(
    objects: Sequence[tuple[str, str, Mapping[str, str]]],
    relations: Sequence[tuple[str, str, str, str]],
    where: str,
    self_relations: str = "error",
) -> SceneGraph:
    """Return the graph of ``objects`` and ``relations``.

    An object is (id, name, attributes), a relation (source, predicate, target, place for errors).

    A relation that repeats an earlier one exactly is dropped: it says nothing new. A
    relation of an object with itself cannot be drawn or checked; with
    ``self_relations="drop"`` (real annotations hold such slips) it is left out with a
    ``FormatWarning``. Anything else that a scene graph cannot hold is a ``FormatError``.
    """
    kept: dict[Relation, None] = {}
    for source, predicate, target, place in relations:
        if source == target and self_relations == "drop":
            warnings.warn(
                f"{place}: {source!r} {predicate!r} itself was left out: "
                "a relation needs two different objects",
                FormatWarning,
                stacklevel=2,
            )
            continue
        if source == target:
            raise fail(place, f"{source!r} is related to itself: name two different objects")
        try:
            kept.setdefault(Relation(source=source, predicate=predicate, target=target))
        except ValidationError as error:
            raise explain(error, place) from None
    items: list[SceneObject] = []
    for id_, name, attributes in objects:
        try:
            items.append(SceneObject(id=id_, name=name, attributes=Attributes(attributes)))
        except (SceneError, ValidationError) as error:
            place = f"{where}, object {quote(id_)}" if where else f"object {quote(id_)}"
            if isinstance(error, ValidationError):
                raise explain(error, place) from None
            raise fail(place, str(error)) from None
    try:
        scene = SceneGraph(objects=tuple(items), relations=tuple(kept))
    except ValidationError as error:
        raise explain(error, where) from None
    return checked(scene, where)


def checked(scene: SceneGraph, where: str) -> SceneGraph:
    """Return ``scene`` if it has an object; an empty scene is a ``FormatError``."""
    if not scene.objects:
        raise fail(where, 'the scene is empty: name at least one object, for example "dog"')
    return scene


def _parse(text: str, where: str) -> Any:
    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, n in Counter(key for key, _ in pairs).items():
            if n > 1:
                raise ValueError(f"the key {quote(key)} is given twice in one object: keep one")
        return dict(pairs)

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON: write a number or leave the entry out")

    try:
        return json.loads(text, object_pairs_hook=as_dict, parse_constant=refuse)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise fail(
                where, "the JSON ends too early: the file is cut off, or a bracket or quote is open"
            ) from None
        raise fail(
            where,
            f"line {error.lineno}, column {error.colno}: not JSON ({error.msg}) near "
            f"{quote(text[error.pos : error.pos + 30])}: check the commas, brackets and double "
            "quotes there",
        ) from None
    except RecursionError:
        raise fail(where, "the JSON is nested too deeply: a scene needs five levels") from None
    except ValueError as error:
        raise fail(where, str(error)) from None


def parse_json(text: str, where: str) -> Any:
    """Return the value of JSON ``text``, or the list of values of JSON Lines.

    ``FormatError`` for anything that is not JSON: cut-off text, NaN and infinities,
    keys given twice, nesting past the interpreter's limit, numbers past its digits.
    """
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1:
        begin = f"{where}, " if where else ""
        try:
            json.loads(lines[0][1])
        except (ValueError, RecursionError):
            # One value over several lines.
            pass
        else:
            return [_parse(line, f"{begin}line {at}") for at, line in lines]
    return _parse(text, where)


NATIVE_MARKER = "scenewright/1"
NATIVE_EXAMPLE = '{"objects": [{"id": "dog.1", "name": "dog"}], "relations": []}'


def read_native(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one JSON entry; unknown keys, repeated relations and ids are errors."""
    whole = JsonValue(entry, where, is_entry=True).object(NATIVE_EXAMPLE)
    marker = whole.get("format", NATIVE_MARKER)
    if marker.value != NATIVE_MARKER:
        raise marker.fail(
            f"{quote(marker.value)} is not known: write {quote(NATIVE_MARKER)} or leave it out"
        )
    data = {key: value for key, value in whole.value.items() if key != "format"}
    try:
        return checked(SceneGraph.model_validate(data), where)
    except ValidationError as error:
        raise explain(error, where) from None


def write_native(scene: SceneGraph) -> dict[str, Any]:
    """Return the JSON entry of ``scene``, read back exactly equal."""
    return {"format": NATIVE_MARKER, **scene.model_dump(mode="json")}
