"""SGScore by ``scene-bench``: that of the judge's own choices, as in the paper."""

from __future__ import annotations

import asyncio
from pathlib import Path

from PIL import Image

from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.panel.panel import Panel
from scenewright.core.facts import Fact
from scenewright.core.images import hash_of_image
from scenewright.core.questions import facts_of
from scenewright.evals.datasets.miniature_scenes import load
from scenewright.evals.runner.judging import JudgePanel, PanelJudgement, judge_picture
from scenewright.providers import AnswerStore
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

SCENES = 8


def test_the_weak_judge_scores_what_it_chose(tmp_path: Path) -> None:
    items = list(load(n=SCENES, out=str(tmp_path / "painted"), levels=["medium", "hard"]))
    asked: list[tuple[Image.Image, tuple[Fact, ...]]] = []
    for item in items:
        assert item.scene is not None
        with Image.open(item.image or "") as opened:
            asked.append((opened.convert("RGB"), facts_of(item.scene, "scene-bench")))

    async def judged() -> list[PanelJudgement]:
        judge = LocalJudge(MINIATURE_WEIGHTS / "judges" / "judge-weak", name="weak")
        judge_panel = JudgePanel("report", (judge,), Panel())
        store = AnswerStore(tmp_path / "answers.db")
        try:
            return [
                await judge_picture(
                    judge_panel, hash_of_image(image), image.copy, facts, store=store
                )
                for image, facts in asked
            ]
        finally:
            await judge.aclose()

    low = 0
    for (_, facts), found in zip(asked, asyncio.run(judged()), strict=True):
        (answers,) = found.answers.values()
        assert [answer.fact_id for answer in answers] == [fact.id for fact in facts], "all asked"
        right = {
            kind: [a.choice == f.expected for f, a in zip(facts, answers, strict=True)
                   if f.kind == kind]
            for kind in ("object", "relation")
        }  # fmt: skip
        own = sum(sum(of) / len(of) for of in right.values()) / 2
        assert found.card.sgscore is not None
        assert abs(found.card.sgscore - own) < 1e-9
        assert found.card.relations.void == 0
        low += sum(
            a.state == "yes" and f.kind == "relation" and (a.probability or 0.0) <= 0.5
            for f, a in zip(facts, answers, strict=True)
        )
    assert low, "some choice was right at less than a half, which was a no before"
