"""Evaluations that ask sentinel pictures, and a model exchanged under its old name meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from scenewright.config.settings import load_settings
from scenewright.core.facts import Answer, Fact
from scenewright.evals.errors import EvalError, ModelChangedError
from scenewright.evals.reporting.report import build_report
from scenewright.evals.runner.estimating import estimate
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.runner import export_folder, run_eval
from scenewright.evals.runner.sentinels import SentinelFile, Sentinels
from scenewright.evals.runner.served_versions import (
    SERVED,
    told_labels,
    told_versions,
    version_notes,
)
from scenewright.evals.store.results import SENTINELS, Results
from scenewright.mock_providers import MockSettings, serving_thread
from scenewright.mock_providers.faults import parse_swaps
from scenewright.providers.versions import served_name
from tests.doubles import CallBook, ScriptedJudge
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted
from tests.evals.served_judges import REMOTE, SENTINEL_IDS, RemoteJudge

SPEC = "local:miniature/judge-c"


def given(judge: ScriptedJudge) -> EvalModelOverrides:
    models = scripted(judge.book)
    return replace(models, judges={**models.judges, SPEC: judge})


async def run(folder: Path, judge: ScriptedJudge, n: int = 60, **fields: object) -> Results:
    asked = config(**{"concurrency": 2, "protocol": "grounded", "sentinels": 1.0, **fields})
    return await run_eval(asked, folder, given=given(judge), dataset=ListedSet(scene_items(n)))


def build_judge(**fields: object) -> RemoteJudge:
    return RemoteJudge("c", CallBook(), lambda fact: 0, **fields)  # type: ignore[arg-type]


async def test_a_share_of_the_questions_is_spent_and_counted_as_overhead(tmp_path: Path) -> None:
    judge = build_judge()
    found = await run(tmp_path / "e", judge, sentinels=0.25)
    assert 0.25 * judge.asked - 6 < judge.sentinels <= 0.25 * judge.asked
    took = found.manifest["sentinels"][REMOTE]
    assert took["questions"] == judge.sentinels == 6 * took["pictures"]
    assert took["usd"] == pytest.approx(0.01 * judge.sentinels)
    rows = found.rows("answers")
    assert len(rows) == judge.asked
    assert not {row["fact"] for row in rows} & SENTINEL_IDS
    totals = found.manifest["totals"]
    assert totals["answers"] == judge.asked
    assert totals["usd"] == pytest.approx(0.01 * (judge.asked + judge.sentinels))
    assert version_notes(found.manifest) == ()


async def test_judges_on_this_machine_and_a_share_of_nothing_ask_none(tmp_path: Path) -> None:
    judge = build_judge()
    found = await run(tmp_path / "none", judge, sentinels=0.0)
    assert judge.sentinels == 0
    assert found.manifest["sentinels"] == {}
    local = ScriptedJudge("c", CallBook(), lambda fact: 0)
    await run(tmp_path / "local", local)
    asked = [line for line in local.book.lines if line.startswith("begin answer")]
    assert len(asked) == len(Results(tmp_path / "local").rows("answers"))


async def test_it_stops_keeps_what_is_judged_and_splits_where_that_is_asked(
    tmp_path: Path,
) -> None:
    judge = build_judge(after=120)
    place = tmp_path / "e"
    with pytest.raises(ModelChangedError) as stopped:
        await run(place, judge)
    said = str(stopped.value)
    assert f"{REMOTE} gives other answers to sentinel pictures since " in said
    assert "although it is still served as v1" in said
    assert "--on-model-change split" in said
    assert judge.sentinels <= 120 + 60
    # The same again asks nothing, and stops again.
    asked, sentinels = judge.asked, judge.sentinels
    with pytest.raises(ModelChangedError, match="gives other answers"):
        await run(place, judge)
    assert (judge.asked, judge.sentinels) == (asked, sentinels)
    # Tables of what is done name it already.
    assert export_folder(place).manifest[SERVED]["drifts"][0]["name"] == "v1"
    found = await run(place, judge, on_model_change="split")
    (drift,) = found.manifest[SERVED]["drifts"]
    assert drift["accepted"]
    label = f"report@{drift['version']}"
    assert served_name(drift["version"]) == "v1"
    assert set(told_labels(found.manifest)) == {"report@v1", label}
    versions = {one.version: one.answers for one in told_versions(found.manifest)[REMOTE]}
    rows = found.rows("answers")
    assert versions == {
        name: sum(row["model"] == name for row in rows) for name in ("v1", drift["version"])
    }
    # What the first model judged is not under the second one's name, and nothing stands under both.
    of: dict[str, set[str]] = {}
    for row in rows:
        assert row["panel"] == f"report@{row['model']}"
        of.setdefault(row["item"], set()).add(row["model"])
    assert all(len(models) == 1 for models in of.values())
    assert 10 < sum(models == {"v1"} for models in of.values()) < 60
    notes = version_notes(found.manifest)
    assert any("its panels stand apart, as report@v1, " in note for note in notes)
    assert any(note.startswith("Model changed under its name: ") for note in notes)
    assert (
        "gives other answers to sentinel pictures"
        in build_report(found, resamples=100).page.read_text()
    )
    # Going on without the option changes nothing.
    again = await run(place, judge)
    assert {row["panel"] for row in again.rows("scores")} == {"report@v1", label}


async def test_it_pools_both_and_says_so_where_that_is_accepted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judge = build_judge(after=120)
    found = await run(tmp_path / "e", judge, on_model_change="accept")
    assert {row["panel"] for row in found.rows("scores")} == {"report"}
    assert any("the tables pool them" in note for note in version_notes(found.manifest))
    assert "gives other answers to sentinel pictures since" in caplog.text


async def test_replies_that_name_no_version_are_split_too(tmp_path: Path) -> None:
    judge = build_judge(after=120, told="")
    found = await run(tmp_path / "e", judge, on_model_change="split")
    (drift,) = found.manifest[SERVED]["drifts"]
    assert drift["name"] == "c"
    panels = {row["panel"] for row in found.rows("scores")}
    assert panels == {"report@c", f"report@{drift['version']}"}


async def test_the_test_goes_on_where_an_evaluation_that_ended_was(tmp_path: Path) -> None:
    place = tmp_path / "e"
    first = build_judge()
    await run(place, first, n=24)
    assert first.sentinels >= 60
    # A new process: the model was exchanged in between.
    second = build_judge(after=0)
    with pytest.raises(ModelChangedError, match="gives other answers"):
        await run(place, second, n=120)
    assert second.sentinels <= 60
    # Without what the first one said nothing could be noticed yet.
    (place / SENTINELS).unlink()
    third = build_judge(after=0)
    await run(tmp_path / "fresh", third, n=24)


async def test_kept_answers_of_the_model_before_are_asked_anew(tmp_path: Path) -> None:
    place = tmp_path / "e"
    judge = build_judge(after=120)
    with pytest.raises(ModelChangedError):
        await run(place, judge)
    # Other panels ask the same of the same pictures: nothing of the first model answers them.
    panels = {"one": {"judges": [SPEC]}, "two": {"judges": [SPEC]}}
    found = await run(place, judge, panels=panels, on_model_change="split")
    (drift,) = found.manifest[SERVED]["drifts"]
    rows = found.rows("answers")
    assert {row["model"] for row in rows} == {drift["version"]}
    # What the second panel asks is found, under the new model's name.
    assert {row["panel"] for row in rows if row["seconds"] > 0} == {"one"}


async def test_a_judge_that_fails_at_sentinels_is_asked_on_and_raises_nothing(
    tmp_path: Path,
) -> None:
    judge = build_judge(broken=True)
    found = await run(tmp_path / "e", judge, n=20)
    took = found.manifest["sentinels"][REMOTE]
    assert took["pictures"] > 5
    assert took["questions"] == 0
    assert {row["state"] for row in found.rows("answers")} == {"yes"}


async def test_every_sentinel_picture_is_asked_as_another_picture() -> None:
    seen: set[bytes] = set()

    class Looking(RemoteJudge):
        async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
            seen.add(image.tobytes())
            return await super().answer(image, facts)

    sentinels = Sentinels([Looking("c")], 1.0)
    sentinels.count({REMOTE: 240, "nobody": 5})
    replies = [reply async for reply in sentinels.due()]
    assert len(replies) == len(seen) == 40
    assert {reply.picture for reply in replies} == set(range(6))
    assert [len(reply.places) for reply in replies] == [6] * 40


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The mock server's models do not fight for the cores with each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
async def test_a_model_exchanged_over_the_wire_is_noticed(tmp_path: Path) -> None:
    swaps = parse_swaps(["judge-a=judge-b@48"])
    with serving_thread(MockSettings(swaps=swaps)) as lab:
        account = {"provider": "openai", "base_url": f"{lab.url}/v1", "key_variable": ""}
        with pytest.raises(ModelChangedError) as stopped:
            await run_eval(
                config(
                    concurrency=2,
                    sentinels=1.0,
                    panels={"report": {"judges": ["lab:judge-a"]}},
                ),
                tmp_path / "e",
                given=scripted(),
                settings=load_settings(accounts={"lab": account}),
                dataset=ListedSet(scene_items(200)),
            )
    said = str(stopped.value)
    assert "lab:judge-a gives other answers to sentinel pictures since" in said
    assert "although it is still served as judge-a" in said
    with SentinelFile(tmp_path / "e" / SENTINELS) as file:
        assert 0 < file.took()["lab:judge-a"]["questions"] < 6 * 48


async def test_the_plan_counts_them(tmp_path: Path) -> None:
    class Priced(RemoteJudge):
        def expected(self, size: tuple[int, int], facts: Sequence[Fact]) -> object:
            from scenewright.providers.usage import ExpectedUsage, Usage

            return ExpectedUsage(1, Usage(100 * len(facts), len(facts)), usd=0.001 * len(facts))

    judge = Priced("c", CallBook(), lambda fact: 0)
    asked = config(protocol="grounded", sentinels=0.5)
    items = ListedSet(scene_items(40))
    found = await estimate(asked, given=given(judge), dataset=items)
    lines = {line.what: line for line in found.costs.lines if line.who == REMOTE}
    assert lines["is watched"].most.usd == pytest.approx(0.5 * (lines["judges"].most.usd or 0))
    plain = await estimate(
        config(protocol="grounded", sentinels=0.0), given=given(judge), dataset=items
    )
    assert "is watched" not in {line.what for line in plain.costs.lines}


def test_the_file_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    file = tmp_path / SENTINELS
    file.write_bytes(b"not a database, but long enough to look like one" * 10)
    with pytest.raises(EvalError, match="cannot be used"):
        SentinelFile(file)
