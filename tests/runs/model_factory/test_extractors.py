"""Extractors by name, by file and by spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from PIL import Image

from scenewright.config.profiles import SettingsError
from scenewright.config.settings import Settings
from scenewright.core.ports.vision import DetectionError
from scenewright.runs.model_factory import profiles
from scenewright.runs.model_factory.extractors import (
    MINIATURE,
    MINIATURE_ONE_STAGE,
    ExtractorSpec,
    PartSpec,
    extractor_of,
    spec_of,
)
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
from scenewright.tools.vision.extraction.one_stage import OneStageExtractor
from scenewright.tools.vision.extraction.score_table import ScoreTable
from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor
from tests.agents.replying import ReplyingChat
from tests.tools.vision.extraction.extraction_doubles import SayingJudge

BOXES: dict[str, Any] = {"images": {"photo.png": [{"name": "dog", "box": [1, 2, 20, 20]}]}}
SPEC = """
stages = "two-stage"
detector = "json:boxes.json"
attributes = "chat:openai:gpt-4.1-mini"
relations = "scores:scores.json"
verifier = "judges:local:miniature/judge-a"
predicate_threshold = 0.3
merge = false
"""


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a picture and its boxes; language models and judges are stand-ins."""

    def build_chat(
        spec: str, settings: object = None, *, role: str = "", overrides: object = None
    ) -> BaseChatModel:
        assert role in ("parser", "grader")
        return ReplyingChat(replies=[{}], model=spec)

    def build_judge(spec: str, settings: object = None) -> SayingJudge:
        return SayingJudge(lambda fact, image: None, id=spec, fingerprint=spec)

    monkeypatch.setattr(profiles, "build_chat", build_chat)
    monkeypatch.setattr(profiles, "build_judge", build_judge)
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (40, 30), (9, 9, 9)).save("photo.png")
    Path("boxes.json").write_text(json.dumps(BOXES), encoding="utf-8")
    Path("scores.json").write_text(json.dumps({"pairs": []}), encoding="utf-8")
    Path("mine.toml").write_text(SPEC, encoding="utf-8")
    return tmp_path


def two_stage(spec: str | ExtractorSpec, **changes: Any) -> TwoStageExtractor:
    found = extractor_of(spec, Settings(), detector="json:boxes.json", **changes)
    assert isinstance(found, TwoStageExtractor)
    return found


def test_the_miniature_reads_by_judges_and_confirms_by_another() -> None:
    found = two_stage("miniature")
    assert isinstance(found.reader, JudgedAttributes)
    assert isinstance(found.scorer, JudgedRelations)
    assert isinstance(found.verifier, JudgedVerifier)
    proposing = {judge.id for judge in found.scorer.bench.judges}
    assert not proposing & {judge.id for judge in found.verifier.bench.judges}
    assert found.keys("dog") == ("color",)
    assert found.attributes_first
    assert isinstance(extractor_of("miniature-one-stage", Settings()), OneStageExtractor)
    assert spec_of("miniature") == MINIATURE
    assert spec_of(" miniature-one-stage ") == MINIATURE_ONE_STAGE


def test_a_language_model_in_one_stage_or_two() -> None:
    assert isinstance(extractor_of("one-stage:openai:gpt-4.1-mini", Settings()), OneStageExtractor)
    found = two_stage("two-stage:openai:gpt-4.1-mini", labels=["dog"])
    assert isinstance(found.reader, ChatAttributes)
    assert isinstance(found.scorer, ChatRelations)
    assert isinstance(found.verifier, ChatVerifier)
    assert found.labels == ("dog",)
    assert found.scored == "things"
    assert "pattern type" in found.keys("dog")
    assert found.merging is not None


def test_a_file_names_each_part() -> None:
    found = extractor_of("mine.toml", Settings())
    assert isinstance(found, TwoStageExtractor)
    assert isinstance(found.scorer, ScoreTable)
    assert found.scored == "instances"
    assert isinstance(found.reader, ChatAttributes)
    assert isinstance(found.verifier, JudgedVerifier)
    assert found.thresholds.predicate == 0.3
    assert found.merging is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sorcery", "is not an extractor: use miniature"),
        ("one-stage", "needs a language model"),
        ("one-stage:gpt", "is not a judge"),
        ("missing.toml", "cannot be read"),
    ],
)
def test_an_unknown_name_is_told(name: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        spec_of(name)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("stages =", "is not valid TOML"),
        ('stages = "three"', "stages"),
        ('colour = "red"', "colour"),
        ('stages = "one-stage"', "one stage needs a reader"),
        ('reader = "chat:openai:gpt"', "a reader is for one stage"),
        ('attributes = "scores:file.json"', "relations alone"),
        ('attributes = "chat"', "needs a name"),
        ('attributes = "none:a"', "names nobody"),
        ('relations = "judges:a:b,a:b"', "listed twice"),
        ('relations = "judges:a:b"\nverifier = "judges:a:b"', "cannot confirm what it proposed"),
        ("predicate_threshold = 2", "predicate_threshold"),
    ],
)
def test_a_broken_file_is_told(text: str, told: str) -> None:
    Path("mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=told):
        spec_of("mine.toml")


def test_what_does_not_fit_or_is_not_there_is_told() -> None:
    with pytest.raises(SettingsError, match="detects nothing"):
        extractor_of("miniature-one-stage", Settings(), detector="json:boxes.json")
    with pytest.raises(DetectionError, match="sorcery"):
        extractor_of("miniature", Settings(), detector="sorcery")


def test_specs_travel_as_json_and_differ_in_their_fingerprints() -> None:
    assert ExtractorSpec.model_validate_json(MINIATURE.model_dump_json()) == MINIATURE
    assert PartSpec.model_validate("judges: a:b, c:d ").names == ("a:b", "c:d")
    prints = {
        two_stage(spec).fingerprint
        for spec in (
            "miniature",
            "mine.toml",
            "two-stage:openai:gpt-4.1-mini",
            "two-stage:openai:gpt-4.1",
            MINIATURE.model_copy(update={"none_threshold": 0.6}),
        )
    }
    assert len(prints) == 5
