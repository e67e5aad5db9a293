"""From a name or a file to an extractor: which models find, read, score and verify.

Names::

    miniature                  two stages: the segmenter and the judges that come with the package
    miniature-one-stage        one stage: the same judges, asked for every word of their world
    one-stage:ACCOUNT:MODEL    one stage by a multimodal language model
    two-stage:ACCOUNT:MODEL    two stages: a detector, and the language model for all the rest

or a TOML file of an :class:`ExtractorSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from scenewright.config.accounts import DECISION_KIND
from scenewright.config.profiles import (
    CHAT_KINDS,
    JUDGE_KINDS,
    NO_TEXT,
    SettingsError,
    reached_by,
    split_judge,
)
from scenewright.config.settings import Settings, load_settings
from scenewright.core.ports.vision import GraphExtractor
from scenewright.core.user_files import as_model, read_user_toml
from scenewright.core.validation import FiniteModel, FrozenModel
from scenewright.core.vocabulary import EXCLUSIVE
from scenewright.runs.model_factory import profiles

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from scenewright.agents.judges.pictures import ImagePreparation
    from scenewright.config.profiles import Role
    from scenewright.tools.vision.extraction.one_stage import PictureParser
    from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel
    from scenewright.tools.vision.extraction.world import World

Stages = Literal["one-stage", "two-stage"]
Part = Literal["chat", "judges", "scores", "none"]
MINIATURE_WORLD = "miniature"
NAMES = (
    "miniature",
    "miniature-one-stage",
    "one-stage:ACCOUNT:MODEL",
    "two-stage:ACCOUNT:MODEL",
    "FILE.toml",
)
"""Forms that :func:`spec_of` takes, for messages."""


class PartSpec(FrozenModel):
    """Models of one part of an extraction.

    The short form is ``KIND:REST``: ``chat:openai:gpt-6-luna``,
    ``judges:local:miniature/judge-a,local:miniature/judge-b``, ``scores:FILE`` or ``none``.
    """

    kind: Part
    """A language model, a panel of judges, a file of scores (relations only), or nobody."""
    names: tuple[str, ...] = ()
    """The language model ``account:model``, the judges ``kind:model``, or the file."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        kind, _, rest = value.partition(":")
        names = [name.strip() for name in rest.split(",")] if kind == "judges" else [rest.strip()]
        return {"kind": kind, "names": [name for name in names if name]}

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if (self.kind == "none") != (not self.names):
            wanted = "names nobody" if self.kind == "none" else "needs a name"
            raise ValueError(f"{self.kind} {wanted}: write for example 'chat:openai:gpt-6-luna'")
        if self.kind in ("chat", "scores") and len(self.names) != 1:
            raise ValueError(f"{self.kind} takes one name, not {', '.join(self.names)}")
        if self.kind in ("chat", "judges"):
            for name in self.names:
                if split_judge(name)[0] == DECISION_KIND and self.kind == "chat":
                    raise ValueError(f"{name} {NO_TEXT}: name a language model, or take judges")
        if len(set(self.names)) != len(self.names):
            raise ValueError("a judge is listed twice: its second vote would count double")
        return self


NOBODY = PartSpec(kind="none")


class ExtractorSpec(FiniteModel):
    """An extractor, as data."""

    stages: Stages = "two-stage"
    """``one-stage``: ``reader`` gives the whole graph; ``two-stage``: the parts below."""
    reader: PartSpec = NOBODY
    """Of one stage: a language model, or judges."""
    detector: str = "miniature"
    """Finder of things, as :func:`~scenewright.runs.model_factory.local_models.detector_of` names
    it."""
    labels: tuple[str, ...] = ()
    """Classes that are looked for; an open-vocabulary detector needs some."""
    attributes: PartSpec = NOBODY
    """Reader of attributes: ``chat`` or ``judges``."""
    relations: PartSpec = NOBODY
    """Scorer of relations: ``chat``, ``judges`` or ``scores``."""
    verifier: PartSpec = NOBODY
    """Verifier of relations: ``chat`` or ``judges``, others than those of ``relations``."""
    world: str = MINIATURE_WORLD
    """The words that judges are asked for: ``miniature`` or a TOML file."""
    meta_classes: Path | None = None
    """File of meta-classes whose attribute keys a language model is asked for; none: those of
    XTC-Bench, Table 11. Judges are asked for the keys of their world."""
    none_threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    """A pair whose score of no relation is this or more is dropped."""
    predicate_threshold: float = Field(default=0.4, ge=0.0, le=1.0)
    """A predicate is kept if its score is this or more."""
    exclusive: tuple[str, ...] = tuple(sorted(EXCLUSIVE))
    """Predicates that one subject alone can have toward an object."""
    threshold: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Least score of a detection; none: the detector's own."""
    device: str = "auto"
    """Device of the detector: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""
    images: Path | None = None
    """Of the detector ``json:FILE``: the folder that its file names are relative to."""
    merge: bool = True
    """Whether crowds of one class become one node."""
    merge_least: int = Field(default=3, ge=2)
    """Smallest crowd."""
    merge_padding: float = Field(default=0.1, ge=0.0, le=10.0)
    """Growth of boxes before overlaps are looked for, as a share of their sides."""
    concurrent: int = Field(default=8, ge=1, le=256)
    """Most calls of one part under way at once."""

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self.stages == "one-stage":
            if self.reader.kind not in ("chat", "judges"):
                raise ValueError("one stage needs a reader: 'chat:ACCOUNT:MODEL' or 'judges:…'")
            return self
        if self.reader.kind != "none":
            raise ValueError("a reader is for one stage: name attributes, relations and verifier")
        for name in ("attributes", "verifier"):
            if getattr(self, name).kind == "scores":
                raise ValueError(f"{name}: a file of scores is for relations alone")
        same = set(self.verifier.names) & set(self.relations.names)
        if self.verifier.kind == "judges" and self.relations.kind == "judges" and same:
            raise ValueError(
                f"{', '.join(sorted(same))} cannot confirm what it proposed: name another judge "
                "as verifier"
            )
        return self


_JUDGES = ("local:miniature/judge-a", "local:miniature/judge-b")
MINIATURE = ExtractorSpec(
    attributes=PartSpec(kind="judges", names=_JUDGES),
    relations=PartSpec(kind="judges", names=_JUDGES[:1]),
    verifier=PartSpec(kind="judges", names=_JUDGES[1:]),
    # Painted things of one class stand side by side on purpose; none of them are crowds.
    merge=False,
)
"""The segmenter and the judges a and b: judge b confirms what judge a proposes."""
MINIATURE_ONE_STAGE = ExtractorSpec(
    stages="one-stage", reader=PartSpec(kind="judges", names=_JUDGES)
)
"""The judges a and b, asked for every word of their world."""


def spec_of(text: str) -> ExtractorSpec:
    """Return the extractor that ``text`` names.

    ``SettingsError`` for another name or a broken file.
    """
    name = text.strip()
    if name == "miniature":
        return MINIATURE
    if name == "miniature-one-stage":
        return MINIATURE_ONE_STAGE
    stages, _, rest = name.partition(":")
    if stages in ("one-stage", "two-stage"):
        if not rest:
            raise SettingsError(
                f"{name} needs a language model: write for example '{stages}:openai:gpt-6-luna'"
            )
        if split_judge(rest)[0] == DECISION_KIND:
            raise SettingsError(f"{rest} {NO_TEXT}: {stages} needs a language model")
        part = PartSpec(kind="chat", names=(rest,))
        if stages == "one-stage":
            return ExtractorSpec(stages="one-stage", reader=part)
        return ExtractorSpec(attributes=part, relations=part, verifier=part)
    if name.endswith(".toml"):
        tables = read_user_toml(name, SettingsError)
        return as_model(tables, ExtractorSpec, name, SettingsError)
    raise SettingsError(f"{text!r} is not an extractor: use {', '.join(NAMES)}")


def paid_by(spec: ExtractorSpec) -> tuple[str, ...]:
    """Language models and judges of accounts that an extractor asks, as ``account:model``."""
    parts = (spec.reader, spec.attributes, spec.relations, spec.verifier)
    names = [name for part in parts if part.kind in ("chat", "judges") for name in part.names]
    here = (*JUDGE_KINDS, *CHAT_KINDS)
    return tuple(name for name in dict.fromkeys(names) if reached_by(name)[0] not in here)


def extractor_of(
    spec: str | ExtractorSpec = "miniature",
    settings: Settings | None = None,
    *,
    detector: str | None = None,
    labels: Sequence[str] | None = None,
) -> GraphExtractor:
    """Return the extractor of a name, a TOML file or a spec.

    Its judges and language models are shared.

    ``detector`` and ``labels`` replace those of the spec. Raises ``SettingsError`` for an
    unknown name, ``JudgeError`` or ``DetectionError`` if a model is not there, and
    ``ExtractionError`` for a file that cannot be used. Reads files: call it in a thread where
    others wait.
    """
    made = spec if isinstance(spec, ExtractorSpec) else spec_of(spec)
    given: dict[str, Any] = {}
    if detector is not None:
        given["detector"] = detector
    if labels is not None:
        given["labels"] = tuple(labels)
    if given and made.stages == "one-stage":
        raise SettingsError(
            f"{' and '.join(given)}: a one-stage extractor detects nothing; use a two-stage one"
        )
    made = made.model_copy(update=given)
    return _Builder(made, settings or load_settings()).extractor()


@dataclass(frozen=True)
class _Builder:
    """Makes the parts of one spec."""

    spec: ExtractorSpec
    settings: Settings

    def extractor(self) -> GraphExtractor:
        if self.spec.stages == "one-stage":
            from scenewright.tools.vision.extraction.one_stage import OneStageExtractor

            if self.spec.reader.kind == "chat":
                return OneStageExtractor.by_chat(self._parser(self.spec.reader))
            return OneStageExtractor.by_judges(self._bench(self.spec.reader), self._world())
        from scenewright.runs.model_factory.local_models import DetectorSettings, detector_of
        from scenewright.tools.vision.extraction.building import MergeRule, Thresholds
        from scenewright.tools.vision.extraction.chat_readers import (
            ChatAttributes,
            ChatRelations,
            ChatVerifier,
        )
        from scenewright.tools.vision.extraction.judged_readers import (
            JudgedAttributes,
            JudgedRelations,
            JudgedVerifier,
        )
        from scenewright.tools.vision.extraction.score_table import ScoreTable
        from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor

        spec = self.spec
        keys, keys_id = self._keys()
        place = DetectorSettings(spec.threshold, spec.device, images=spec.images)
        return TwoStageExtractor(
            detector_of(spec.detector, place),
            self._make_part(
                spec.attributes,
                chat=lambda part: ChatAttributes(*self._chat(part, "parser")),
                judges=lambda part: JudgedAttributes(self._bench(part), self._world().attributes),
            ),
            self._make_part(
                spec.relations,
                chat=lambda part: ChatRelations(self._parser(part)),
                judges=lambda part: JudgedRelations(self._bench(part), self._world()),
                scores=lambda part: ScoreTable.load(Path(part.names[0])),
            ),
            self._make_part(
                spec.verifier,
                chat=lambda part: ChatVerifier(*self._chat(part, "grader"), spec.concurrent),
                judges=lambda part: JudgedVerifier(self._bench(part), self._world().options),
            ),
            keys=keys,
            keys_id=keys_id,
            labels=spec.labels,
            merging=MergeRule(spec.merge_least, spec.merge_padding) if spec.merge else None,
            # A trained scorer has seen instances, never crowds.
            scored="instances" if spec.relations.kind == "scores" else "things",
            thresholds=Thresholds(spec.none_threshold, spec.predicate_threshold),
            exclusive=frozenset(spec.exclusive),
            # Judges tell two things of one class apart by what was read of them.
            attributes_first="judges" in (spec.relations.kind, spec.verifier.kind),
            concurrent=spec.concurrent,
            # Models of transformers are shared by the process.
            owns_detector=False,
        )

    def _world(self) -> World:
        from scenewright.tools.vision.extraction.world import load_world, miniature_world

        if self.spec.world == MINIATURE_WORLD:
            return miniature_world()
        return load_world(Path(self.spec.world))

    def _bench(self, part: PartSpec) -> ExtractionPanel:
        from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel

        return ExtractionPanel(
            [profiles.build_judge(name, settings=self.settings) for name in part.names]
        )

    def _parser(self, part: PartSpec) -> PictureParser:
        """Return the one-stage parser.

        Sampling follows Algorithm 1 of Scene-Bench where the model takes it.
        """
        from scenewright.agents.judges.models import caps_of
        from scenewright.tools.vision.extraction.one_stage import PictureParser, sampling_of

        account, model = split_judge(part.names[0])
        overrides = None
        if account not in CHAT_KINDS:
            caps = caps_of(self.settings.account(account).provider, model, chats=True)
            overrides = {"sampling": sampling_of(caps)}
        chat = profiles.build_chat(part.names[0], self.settings, role="parser", overrides=overrides)
        return PictureParser(chat, profiles.preparation_of(part.names[0], self.settings))

    def _keys(self) -> tuple[Any, str]:
        spec = self.spec
        if spec.attributes.kind == "none":
            return (lambda label: ()), ""
        if spec.attributes.kind == "judges":
            keys = tuple(self._world().attributes)
            return (lambda label: keys), f"world {','.join(keys)}"
        from scenewright.tools.vision.extraction.meta_classes import load_meta_classes

        table = load_meta_classes(spec.meta_classes)
        return table.keys_of, table.fingerprint

    def _make_part(self, part: PartSpec, **makers: Callable[[PartSpec], Any]) -> Any:
        """Return what the maker of the part's kind makes of it; None for nobody."""
        make = makers.get(part.kind)
        return None if make is None else make(part)

    def _chat(self, part: PartSpec, role: Role) -> tuple[BaseChatModel, ImagePreparation]:
        """Return the part's language model and how its pictures are prepared."""
        (name,) = part.names
        chat = profiles.build_chat(name, self.settings, role=role)
        return chat, profiles.preparation_of(name, self.settings)
