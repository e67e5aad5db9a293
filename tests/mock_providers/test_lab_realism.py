"""The mock server rates objects over the providers' wires, in all strategies."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scenewright.config.settings import Settings
from scenewright.core.ports.vision import Detection
from scenewright.miniature.damage import GradedPainting, sample_graded
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.runs.model_factory.profiles import build_chat
from scenewright.tools.vision.realism.vlm import STRATEGIES, Example, Examples, VlmScorer

PROVIDERS = ("openai", "gemini", "anthropic")


def settings(lab: ThreadedMockProviders, provider: str) -> Settings:
    url = lab.openai_url if provider == "openai" else lab.url
    account = {"provider": provider, "base_url": url, "key_variable": "LAB_KEY"}
    return Settings.model_validate({"accounts": {"lab": account}})


@pytest.fixture(autouse=True)
def lab_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", key)


def examples(folder: Path) -> Examples:
    found = []
    for seed in range(2):
        painting, file = sample_graded(random.Random(seed)), folder / f"{seed}.png"
        painting.image.save(file)
        found += [
            Example(f"{seed}.{o.id}", file, o.name, o.box, o.shape, o.texture)
            for o in painting.objects
        ]
    return Examples(tuple(found), count=2)


def detections(painting: GradedPainting) -> list[Detection]:
    return [Detection(item.name, item.box) for item in painting.objects]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_every_strategy_gets_scores_that_hang_on_the_view(
    lab: ThreadedMockProviders, provider: str, tmp_path: Path
) -> None:
    painting = sample_graded(random.Random(99))
    objects = detections(painting)
    few = examples(tmp_path)
    chat = build_chat("lab:instant", settings(lab, provider))
    found = {}
    for name, strategy in STRATEGIES.items():
        scorer = VlmScorer(chat, strategy, few if strategy.few_shot else None)
        found[name] = await scorer.score(painting.image, objects)
        assert [one.reason for one in found[name]] == [""] * len(objects)
        assert all(one.tokens_in > 0 and one.tokens_out > 0 for one in found[name])
        again = await scorer.score(painting.image, objects[:1])
        assert again[0].shape == found[name][0].shape
    for view in ("img", "crop"):
        likert, free = (found[f"zero-shot-{view}-{wording}"] for wording in ("base", "s5"))
        for whole, decimal in zip(likert, free, strict=True):
            assert whole.shape is not None
            assert decimal.shape is not None
            # One judge looks at one view: the Likert score is the decimal one, rounded.
            assert whole.shape == int(whole.shape)
            assert abs(whole.shape - decimal.shape) <= 0.51
        # The mock heeds no examples, but it reads past them to the object that is asked about.
        assert [o.shape for o in found[f"few-shot-{view}-base"]] == [o.shape for o in likert]
        cost = (sum(o.tokens_in for o in found[f"{s}-shot-{view}-base"]) for s in ("few", "zero"))
        assert next(cost) > 2 * next(cost)
    await chat.aclose()  # type: ignore[attr-defined]


async def test_a_judge_looks_at_the_object(lab: ThreadedMockProviders) -> None:
    painting = sample_graded(random.Random(99))
    scorer = VlmScorer(
        build_chat("lab:judge-a", settings(lab, "openai")), STRATEGIES["zero-shot-crop-s5"]
    )
    found = await scorer.score(painting.image, detections(painting))
    await scorer.aclose()
    assert [one.reason for one in found] == [""] * len(found)
    assert len({(one.shape, one.texture, one.joint) for one in found}) > 1
