"""From specs to scorers and judges of realism, and from profiles to teams that have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from scenewright.config.profiles import BUILT_IN, Profile, SettingsError
from scenewright.config.settings import find_profile
from scenewright.core.ports.judge import JudgeError
from scenewright.core.ports.vision import RealismError
from scenewright.core.questions import realism_facts_of
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.providers.hub.needs import needs_of
from scenewright.runs.model_factory import local_models
from scenewright.runs.model_factory.local_models import (
    MINIATURE_WEIGHTS,
    SHARED,
    cached_detector_of,
    realism_judge_of,
)
from scenewright.runs.model_factory.profiles import build_judge, build_panel, build_run_models
from scenewright.runs.model_factory.realism_scorers import KINDS, scorer_of
from scenewright.tools.vision.detection.caching import CachedDetector
from scenewright.tools.vision.realism.olip_scorer import OlipScorer
from scenewright.tools.vision.realism.vlm import VlmScorer
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.tools.vision.realism.tiny_olip import save_blip, save_heads

HAS_SEGMENTER = (MINIATURE_WEIGHTS / "segmenter" / "config.json").is_file()


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stands for the miniature's folder of weights."""
    root = tmp_path_factory.mktemp("weights")
    save_blip(root / "blip")
    for seed, name in enumerate(("olip-a", "olip-b")):
        save_heads(root / "olip" / name, root / "blip", seed)
    return root


@pytest.fixture(autouse=True)
async def miniature(weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local_models, "OLIP_WEIGHTS", weights / "olip")
    # What another test made of the same names must not be met here, nor this one's there.
    await SHARED.aclose()


@pytest.fixture(autouse=True)
async def freed() -> object:
    yield
    await SHARED.aclose()


def profile(**more: object) -> Profile:
    return Profile.model_validate(BUILT_IN["miniature"].model_dump() | more)


@pytest.mark.parametrize("spec", ["", "olip", "olip:", "yolo:x", "miniature"])
def test_other_specs_are_told(spec: str) -> None:
    with pytest.raises(RealismError, match="write KIND:MODEL with a kind of olip, vlm, clip"):
        scorer_of(spec)
    assert "olip" in KINDS


def test_a_scorer_is_made_once_and_encoders_are_shared(weights: Path) -> None:
    a, b = scorer_of("olip:miniature/olip-a"), scorer_of("olip:miniature/olip-b")
    assert isinstance(a, OlipScorer)
    assert isinstance(b, OlipScorer)
    assert scorer_of("olip:miniature/olip-a") is a
    assert a._encoder is b._encoder
    assert (a.id, b.id) == ("olip:miniature/olip-a", "olip:miniature/olip-b")
    assert scorer_of(f"olip:{weights / 'olip' / 'olip-a'}").fingerprint == a.fingerprint


def test_what_is_not_here_is_told() -> None:
    with pytest.raises(RealismError, match="train it with `scenewright miniature train olip`"):
        scorer_of("olip:miniature/olip-z")
    with pytest.raises(RealismError, match="nobody/nothing"):
        scorer_of("olip:nobody/nothing")
    with pytest.raises(JudgeError, match="olip:miniature/olip-z: the miniature's olip-z is not in"):
        build_judge("olip:miniature/olip-z")


def test_language_models_and_judges_score_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    found = scorer_of("vlm:openai:gpt-4.1-mini:zero-shot-crop-s5")
    assert isinstance(found, VlmScorer)
    assert found.strategy.name == "zero-shot-crop-s5"
    plain = scorer_of("vlm:openai:gpt-4.1-mini")
    assert isinstance(plain, VlmScorer)
    assert plain.strategy.name == "zero-shot-img-base"
    assert plain.chat is found.chat
    with pytest.raises(RealismError, match="needs rated examples"):
        scorer_of("vlm:openai:gpt-4.1-mini:few-shot-crop-s5")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(RealismError, match="needs a key"):
        scorer_of("vlm:openai:gpt-4.1-mini")
    assert scorer_of("vqa:local:miniature/judge-a").id.startswith("vqa:local:miniature/judge-a")
    assert scorer_of("judge:local:miniature/judge-a").id.startswith("judge:local:miniature/judge-a")
    with pytest.raises(RealismError, match=r"vqa:local:no/where: .*no/where"):
        scorer_of("vqa:local:no/where")


def test_a_judge_needs_a_detector(weights: Path) -> None:
    with pytest.raises(JudgeError, match="name one in the profile"):
        realism_judge_of(f"olip:{weights / 'olip' / 'olip-a'}")
    with pytest.raises(JudgeError, match="is not a detector"):
        realism_judge_of("olip:miniature/olip-a", detector="yolo:x")
    judge = build_judge("olip:miniature/olip-a")
    assert judge is build_judge("olip:miniature/olip-a", detector="miniature")
    assert judge.fingerprint != build_judge("olip:miniature/olip-b").fingerprint
    kept = cached_detector_of("miniature")
    assert isinstance(kept, CachedDetector)
    assert kept is cached_detector_of("miniature")


@pytest.mark.skipif(not HAS_SEGMENTER, reason="the segmenter's weights are not here")
async def test_the_judge_looks_for_real() -> None:
    from scenewright.miniature.painter import paint

    scene = SceneGraph(objects=(SceneObject(id="car.1", name="car"),))
    (judge,) = await build_panel(("olip:miniature/olip-a",))
    painting = paint(scene, 3)
    answers = await judge.answer(painting.image, realism_facts_of(scene))
    assert [answer.method for answer in answers] == ["regression"] * 2
    box = painting.truth.boxes["car.1"]
    assert answers[0].region == pytest.approx(
        (box.left, box.top, box.left + box.width, box.top + box.height), abs=4
    )
    blank = Image.new("RGB", (128, 128), (250, 250, 250))
    lost = await judge.answer(blank, realism_facts_of(scene))
    assert [answer.state for answer in lost] == ["unscored"] * 2


async def test_a_team_has_them_only_where_realism_is_asked_for() -> None:
    models = {
        "backend": ScriptedBackend(lambda request: 0),
        "composer": ScriptedComposer(),
        "judges": [ScriptedJudge("a")],
        "report_judges": [ScriptedJudge("b")],
    }
    plain = await build_run_models(profile(), **models)  # type: ignore[arg-type]
    assert plain.realism_judges == plain.realism_report_judges == ()
    run_models = await build_run_models(profile(), realism=True, **models)  # type: ignore[arg-type]
    assert [judge.id for judge in run_models.realism_judges] == ["olip:miniature/olip-a"]
    assert [judge.id for judge in run_models.realism_report_judges] == ["olip:miniature/olip-b"]
    given = await build_run_models(
        profile(),
        realism=True,
        realism_judges=[ScriptedJudge("c")],
        **models,  # type: ignore[arg-type]
    )
    assert [judge.id for judge in given.realism_judges] == ["scripted:c"]
    none = profile(realism_judges=(), realism_report_judges=())
    assert (await build_run_models(none, realism=True, **models)).realism_judges == ()  # type: ignore[arg-type]


async def test_without_realism_nothing_of_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_models, "OLIP_WEIGHTS", Path("nowhere"))
    models = {
        "backend": ScriptedBackend(lambda request: 0),
        "judges": [ScriptedJudge("a")],
        "report_judges": [ScriptedJudge("b")],
    }
    await build_run_models(profile(), **models)  # type: ignore[arg-type]
    with pytest.raises(JudgeError, match=r"olip-[ab] is not in nowhere"):
        await build_run_models(profile(), realism=True, **models)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"realism_judges": ["olip:a", "olip:a"]}, "listed twice"),
        ({"realism_judges": ["olip:a"], "realism_report_judges": ["olip:a"]}, "both steer"),
        ({"realism_report_judges": ["local:miniature/judge-a"]}, "both steer"),
        ({"realism_judges": ["local:miniature/judge-c"]}, "both steer"),
        ({"detector": None}, "olip:miniature/olip-a judges what a detector finds: name one"),
        ({"judges": ["olip:a"]}, "realism of objects only: name it in realism_judges"),
        ({"report_judges": ["olip:a"]}, "name it in realism_report_judges"),
        ({"realism_judges": ["olip"]}, "not a judge: write 'kind:model'"),
    ],
)
def test_a_wrong_profile_says_what(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        profile(**changed)


def test_an_unknown_kind_is_told_as_of_any_judge() -> None:
    Path("scenewright.toml").write_text(
        '[profiles.mine]\nextends = "miniature"\nrealism_judges = ["yolo:x"]\n'
    )
    with pytest.raises(SettingsError, match="no kind of judge and no account 'yolo'"):
        find_profile("mine")


def test_a_profile_needs_their_models_only_where_realism_is_asked_for() -> None:
    real = profile(
        realism_judges=["olip:some/heads"],
        realism_report_judges=["local:some/vlm"],
        detector="transformers:some/detector",
    )
    assert needs_of(real) == ()
    found = needs_of(real, realism_judges=True, realism_report_judges=True)
    assert {need.repository: need.parts for need in found} == {
        "some/heads": ("realism judge",),
        "some/vlm": ("realism report judge",),
        "some/detector": ("detector",),
    }
    assert needs_of(profile(), realism_judges=True) == ()
