"""Identity of models: whether two judges, or a judge and a director, are the same model.

A model is known by its maker's name for it, whatever account, gateway or copy it is reached
through, and by its weights where these are on this machine. The spellings of names (snapshots,
places, number formats) are data: ``model_names.toml``.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from scenewright.config.accounts import DECISION_KIND, AccountSpec

UNKNOWN = "unknown"
"""Model of ``kind:model`` where it is unknown: neither equal to another model nor known to differ.
"""
_SEPARATORS = re.compile(r"[_:@.]")
_FINE_TUNED = re.compile(r"ft:([^:]+):.*")
SINCE = " since "
"""Separates a version from the time since which its answers changed under the same name."""
_DIGEST = re.compile(r":[0-9a-f]{12,64}$")
_HASHED_WHOLE = 256 * 2**20
_HASHED_PARTS = 16
"""Blocks of 1 MiB, evenly spread, that are hashed of a file too large to be read whole."""
_OR_SAY_SO = (
    "or set self_report = true: the loop's own judges then report, and the result is labelled so"
)


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Identity of the model behind a judge or a chat model."""

    spec: str
    """Name for messages: ``kind:model``."""
    name: str = ""
    """Name of the model (:func:`model_name`); empty if unknown."""
    weights: str = ""
    """Digest of its weights; empty where they are elsewhere."""
    fingerprint: str = ""
    """Fingerprint of the judge; empty where it is not built."""

    def same_as(self, other: ModelIdentity) -> str:
        """Return why both are the same model, for a message; empty if they are not."""
        if self.name and _plain(self.name) == _plain(other.name):
            return self.name
        if self.weights and self.weights == other.weights:
            return "equal weights"
        if self.fingerprint and self.fingerprint == other.fingerprint:
            return "equal fingerprints"
        return ""


def model_name(text: str) -> str:
    """Return the name of the model that ``text`` names, without place, snapshot and number format.

    ``openai/gpt-4o-2024-08-06`` gives ``gpt-4o``, ``unsloth/Qwen2.5-VL-7B-Instruct-bnb-4bit``
    gives ``qwen2.5-vl-7b-instruct``. The owner of a name stays only where the model is not known
    by the rest: ``alice/judge`` and ``bob/judge`` are two models.
    """
    return _name_of(text)[0]


def knows(text: str) -> bool:
    """Return whether ``text`` names a model of a series that the table knows."""
    return _name_of(text)[1]


def identity_of_spec(
    spec: str, accounts: Mapping[str, AccountSpec] | None = None
) -> ModelIdentity | None:
    """Return the identity of the judge or chat model ``kind:model``; None for one without a model.

    ``accounts`` are those of the settings, whose ``aliases`` say what a name of their own means.
    """
    kind, _, model = spec.partition(":")
    if kind == DECISION_KIND:
        # The model is the same one whether it chats or decides.
        kind, _, model = model.partition("/")
    account = (accounts or {}).get(kind)
    if account is not None and model in account.aliases:
        return ModelIdentity(spec, model_name(account.aliases[model]))
    if kind == "scripted":
        return None
    if model == UNKNOWN:
        return ModelIdentity(spec)
    if kind == "replay":
        # A record is known by its content; what its judge was, only by the judge's name.
        _, _, judge = model.partition("#")
        named = judge.partition(":")[2] or judge
        return ModelIdentity(spec, model_name(named) if knows(named) else f"record {model}")
    if kind in ("local", "olip"):
        return ModelIdentity(spec, _local_name(model))
    if model.partition(":")[0] in ("local", "olip", "replay"):
        # Judges of older runs that were served under their local names.
        served = identity_of_spec(model, accounts)
        return None if served is None else ModelIdentity(spec, served.name)
    return ModelIdentity(spec, model_name(model))


def identities_of(
    specs: Iterable[str], accounts: Mapping[str, AccountSpec] | None = None
) -> list[ModelIdentity]:
    """Return the identities of ``specs``, each once; those without a model are left out."""
    found = (identity_of_spec(spec, accounts) for spec in dict.fromkeys(specs))
    return [identity for identity in found if identity is not None]


def identity_of_served(told: str) -> ModelIdentity | None:
    """Return the identity of the model that an answer names (``Answer.model``).

    None if it names none.
    """
    name = _DIGEST.sub("", told.partition(SINCE)[0].strip())
    return ModelIdentity(told, _local_name(name)) if name else None


def independence_problem(
    loop: Iterable[ModelIdentity],
    report: Iterable[ModelIdentity] = (),
    director: ModelIdentity | None = None,
    *,
    self_report: bool = False,
) -> str:
    """Return why these models cannot judge together; empty if they can.

    Two votes of one model are one vote that counts double, and a model that steers the loop, as a
    judge or as its ``director``, must not report its result, unless the run says ``self_report``.
    The same spec twice on one side is no matter of this check.
    """
    sides = (tuple(loop), tuple(report))
    for side in sides:
        for at, one in enumerate(side):
            for other in side[at + 1 :]:
                if one.spec != other.spec and (why := one.same_as(other)):
                    return (
                        f"{one.spec} and {other.spec} are the same model ({why}): its second vote "
                        "would count double; remove one"
                    )
    if self_report:
        return ""
    for one, other, why in _shared(sides[0], sides[1]):
        if one.spec == other.spec:
            said = f"{one.spec} cannot both steer the loop and report its result"
        else:
            said = (
                f"{one.spec} and {other.spec} are the same model ({why}): it cannot both steer "
                "the loop and report its result"
            )
        return f"{said}: keep it in judges or in report_judges, {_OR_SAY_SO}"
    for one, other, why in _shared(() if director is None else (director,), sides[1]):
        return (
            f"the director's chat {one.spec} and the report judge {other.spec} are the same model "
            f"({why}): it cannot both steer the loop and report its result: name another model "
            f"as chat or in report_judges, {_OR_SAY_SO}"
        )
    return ""


def shared_names(loop: Iterable[ModelIdentity], report: Iterable[ModelIdentity]) -> tuple[str, ...]:
    """Return the names of models on both sides, each once, sorted."""
    both = _shared(tuple(loop), tuple(report))
    return tuple(sorted({one.name or other.name or one.spec for one, other, _ in both}))


def doubled_names(side: Sequence[ModelIdentity]) -> tuple[str, ...]:
    """Return names of the models that answer under two specs of one side."""
    return tuple(
        sorted(
            {
                one.name or one.spec
                for at, one in enumerate(side)
                for other in side[at + 1 :]
                if one.spec != other.spec and one.same_as(other)
            }
        )
    )


def digest_weights(folder: Path) -> str:
    """Return the digest of the weights in ``folder`` under any file names; empty without any.

    Files that are not weights (configuration, tokenizer, cards) do not count: with others the
    model is still the same.
    """
    found = []
    for file in folder.rglob("*"):
        if file.suffix not in (".safetensors", ".bin") or not file.is_file():
            continue
        digest, size = hashlib.sha256(), file.stat().st_size
        with file.open("rb") as stream:
            if size <= _HASHED_WHOLE:
                while block := stream.read(2**20):
                    digest.update(block)
            else:
                for part in range(_HASHED_PARTS):
                    stream.seek(part * (size - 2**20) // (_HASHED_PARTS - 1))
                    digest.update(stream.read(2**20))
        found.append(f"{size}:{digest.hexdigest()}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest() if found else ""


def _shared(
    loop: Sequence[ModelIdentity], report: Sequence[ModelIdentity]
) -> list[tuple[ModelIdentity, ModelIdentity, str]]:
    return [
        (one, other, why or one.spec)
        for one in loop
        for other in report
        if (why := one.same_as(other)) or one.spec == other.spec
    ]


class _Maker(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    names: str
    snapshots: tuple[str, ...]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    routes: tuple[str, ...]
    copies: tuple[str, ...]
    variants: tuple[str, ...]
    snapshots: tuple[str, ...]
    makers: dict[str, _Maker]
    same: dict[str, str]

    def ends(self, maker: _Maker | None) -> re.Pattern[str]:
        """Return the suffixes removed from a name of ``maker``, or of an unknown name."""
        every = (*self.copies, *self.variants, *self.snapshots, *(maker.snapshots if maker else ()))
        return re.compile(rf"-(?:{'|'.join(f'(?:{one})' for one in every)})$")


@cache
def _table() -> _Table:
    text = files(__package__).joinpath("model_names.toml").read_text("utf-8")
    return _Table.model_validate(tomllib.loads(text))


@cache
def _name_of(text: str) -> tuple[str, bool]:
    """Return the name, and whether its series is known."""
    table = _table()
    text = text.strip().casefold()
    if (tuned := _FINE_TUNED.fullmatch(text)) is not None:
        text = tuned[1]
    dotted = re.sub(r"[_:@]", "-", text.rpartition("/")[2])
    plain = _plain(dotted)
    for route in table.routes:
        if (found := re.match(route, plain)) is not None:
            # Both spellings are equally long: only single characters differ.
            plain, dotted = plain[found.end() :], dotted[found.end() :]
    maker = next((m for m in table.makers.values() if re.match(m.names, plain)), None)
    if maker is None:
        owner = text.rpartition("/")[0]
        cut = _cut(dotted, table.ends(None))
        return (f"{owner}/{cut}" if owner and owner != "models" else cut), False
    dotted = _cut(dotted, table.ends(maker))
    plain = _plain(dotted)
    for pattern, name in table.same.items():
        if (whole := re.fullmatch(pattern, plain)) is not None:
            return whole.expand(name), True
    return dotted, True


def _cut(name: str, ends: re.Pattern[str]) -> str:
    while (found := ends.search(_plain(name))) is not None and found.start() > 0:
        name = name[: found.start()]
    return name


def _plain(name: str) -> str:
    """Return ``name`` as names are compared: one separator."""
    return _SEPARATORS.sub("-", name)


def _local_name(model: str) -> str:
    """Return the name of a local model: of a folder, its own name if that names a model."""
    if not (model.startswith(("/", ".", "~")) or model.count("/") > 1):
        return model_name(model)
    folder = os.path.normpath(os.path.expanduser(model))
    base = os.path.basename(folder)
    return model_name(base) if knows(base) else f"folder {os.path.abspath(folder)}"
