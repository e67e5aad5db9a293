"""The three ways of asking: which calls they make, and what counts as right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from PIL import Image

from benchmarks.tokens import Case, asked, case_of
from scenewright.core.facts import Answer, Fact
from scenewright.core.formats import load_scene
from tests.doubles import ScriptedJudge

SCENE = load_scene("red dog; blue ball left of red dog; yellow cat right of red dog")


class Teller(ScriptedJudge):
    """Knows the truth of a case, and remembers what each call asked."""

    def __init__(self, case: Case) -> None:
        super().__init__(name="teller")
        self.truth = {f.id: holds for f, holds in zip(case.facts, case.holds, strict=True)}
        self.calls: list[list[str]] = []

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.calls.append([fact.id for fact in facts])
        return [
            Answer(
                fact_id=fact.id,
                judge_id=self.id,
                state="yes" if self.truth[fact.id] else "no",
                tokens_in=100,
                tokens_out=10,
            )
            for fact in facts
        ]


def lacking_one() -> Case:
    return case_of(SCENE, 1)


def test_a_case_knows_what_its_painting_lacks() -> None:
    case = lacking_one()
    objects = [holds for f, holds in zip(case.facts, case.holds, strict=True) if not f.parents]
    assert sorted(objects) == [False, True, True]
    assert {fact.kind for fact in case.facts} == {"object", "relation"}
    assert all(case_of(SCENE, 0).holds)
    truth = dict(zip((f.id for f in case.facts), case.holds, strict=True))
    for fact in case.facts:
        assert not truth[fact.id] or all(truth[parent] for parent in fact.parents)


@pytest.mark.parametrize("way", ["one_by_one", "together", "void_skipping"])
async def test_a_judge_that_knows_is_right_in_every_way(way: str) -> None:
    case = lacking_one()
    judge = Teller(case)
    spent = await asked(judge, case, way)
    assert spent.right == 1.0
    assert spent.calls == len(judge.calls)
    told = [fact for call in judge.calls for fact in call]
    if way == "one_by_one":
        assert judge.calls == [[fact.id] for fact in case.facts]
    elif way == "together":
        assert judge.calls == [[fact.id for fact in case.facts]]
    else:
        absent = {f.id for f, holds in zip(case.facts, case.holds, strict=True) if not holds}
        void = [fact.id for fact in case.facts if set(fact.parents) & absent]
        assert void
        assert not set(void) & set(told)
        assert len(judge.calls) == (2 if len(told) > 3 else 1)
    assert (spent.tokens_in, spent.tokens_out) == (100 * len(told), 10 * len(told))
