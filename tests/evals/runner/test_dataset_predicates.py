"""Wrong options of an evaluation come from its own set: counted whole, kept, told, switched off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.settings import load_settings
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import NO_RELATION
from scenewright.evals.datasets.base import DatasetSpec, Item, StreamedSet
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.datasets.tables import write_items
from scenewright.evals.reporting.report import build_report
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.dataset_predicates import dataset_predicates, told_of
from scenewright.evals.runner.estimating import estimate
from scenewright.evals.runner.judging import facts_to_ask
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from scenewright.evals.studies.xtc.config import (
    XtcConfig,
    XtcModelOverrides,
    build_xtc_models,
    with_words,
)
from tests.doubles import CallBook
from tests.evals.eval_sets import ListedSet, config, scripted

# "pan … hob" is in no table of the package.
KITCHEN = (
    "pan standing on hob",
    "pan hanging from hob",
    "pan hanging from hob",
    "pan leaning against hob; pan next to spoon",
    "pan leaning against hob",
    "pan standing on hob",
)
OWN = {"hanging from", "leaning against", NO_RELATION, "standing on"}


def kitchen(folder: Path, texts: Sequence[str] = KITCHEN) -> Path:
    """A table of these scenes."""
    file = folder / "kitchen.jsonl"
    write_items([Item(id=f"k{at}", scene=load_scene(text)) for at, text in enumerate(texts)], file)
    return file


def of(file: Path, limit: int | None = None, **fields: Any) -> EvalConfig:
    spec = {"name": "table", "path": str(file), **({} if limit is None else {"limit": limit})}
    return config(dataset=spec, **fields)


async def done(
    folder: Path, asked: EvalConfig, book: CallBook | None = None, retry: bool = False
) -> Results:
    return await run_eval(asked, folder, given=scripted(book), retry=retry)


def options(results: Results) -> dict[str, tuple[str, ...]]:
    """Item → the options of its first relation."""
    found = {}
    for row in results.rows("items"):
        facts = [Fact.model_validate(one) for one in json.loads(row["facts"])]
        found[row["item"]] = next(f.options for f in facts if f.kind == "relation")
    return found


def asked_of(book: CallBook) -> list[str]:
    return [line for line in book.lines if line.startswith("begin answer")]


async def test_wrong_options_come_from_the_sets_own_scenes(tmp_path: Path) -> None:
    found = options(await done(tmp_path / "e", of(kitchen(tmp_path))))
    for item in ("k0", "k1", "k2", "k4"):
        assert set(found[item]) == OWN
    plain = options(await done(tmp_path / "p", of(kitchen(tmp_path), predicates="package")))
    assert set(plain["k0"]) == {"standing on", NO_RELATION}


async def test_a_sample_asks_what_the_whole_set_asks(tmp_path: Path) -> None:
    file = kitchen(tmp_path)
    whole = options(await done(tmp_path / "whole", of(file)))
    few = options(await done(tmp_path / "few", of(file, limit=1)))
    assert few == {"k0": whole["k0"]}


def test_the_sets_counts_are_added_to_the_general_ones(tmp_path: Path) -> None:
    """For real models: a pair that the package does not know is asked with what the set holds."""
    asked = of(kitchen(tmp_path), backends=["sdxl"])
    items = open_dataset(asked.dataset)
    own = dataset_predicates("", asked.dataset, items)
    assert own is not None
    (general,) = [f for f in facts_to_ask(next(iter(items)), asked) if f.kind == "relation"]
    (fact,) = [f for f in facts_to_ask(next(iter(items)), asked, own=own) if f.kind == "relation"]
    assert "hanging from" not in general.options
    # Who stands on a hob may lean against it: no wrong option, however often the set says it.
    assert set(fact.options) == {"hanging from", "next to", "standing on", NO_RELATION}
    known = own.over("general")
    assert not isinstance(known, str)
    man_horse = load_predicates().pair_counts("man", "horse")
    assert man_horse
    assert known.pair_counts("man", "horse") == man_horse


def test_what_holds_in_the_items_scene_is_no_wrong_option(tmp_path: Path) -> None:
    """Even where the set says it most often of the two classes."""
    texts = ("pan standing on hob; hob below pan", *KITCHEN, *["hob next to pan"] * 9)
    asked = of(kitchen(tmp_path, texts), backends=["sdxl"])
    items = open_dataset(asked.dataset)
    own = dataset_predicates("", asked.dataset, items)
    relations = [f for f in facts_to_ask(next(iter(items)), asked, own=own) if f.kind == "relation"]
    assert [fact.expected for fact in relations] == ["standing on", "below"]
    assert "above" not in relations[0].options
    assert "under" not in relations[1].options
    assert "hanging from" in relations[0].options


async def test_going_on_asks_the_stored_questions_though_the_set_has_changed(
    tmp_path: Path,
) -> None:
    file = kitchen(tmp_path)
    first = await done(tmp_path / "e", of(file))
    before = options(first)
    # Other relations of pans and hobs, counted anew, would be other options.
    kitchen(tmp_path, (*KITCHEN, *("pan sitting on hob", "pan lying under hob") * 4))
    book = CallBook()
    again = await done(tmp_path / "e", of(file), book, retry=True)
    assert {item: options(again)[item] for item in before} == before
    assert again.manifest["predicates"] == first.manifest["predicates"]
    new = {line.rpartition(" ")[2] for line in asked_of(book)}
    book_of_all = CallBook()
    fresh = options(await done(tmp_path / "fresh", of(file), book_of_all))
    assert fresh["k0"] != before["k0"]
    assert new
    assert len(new) < len({line.rpartition(" ")[2] for line in asked_of(book_of_all)})


async def test_another_table_is_another_judgement(tmp_path: Path) -> None:
    file = kitchen(tmp_path)
    await done(tmp_path / "e", of(file))
    book = CallBook()
    await done(tmp_path / "e", of(file), book)
    assert not asked_of(book)
    plain = await done(tmp_path / "e", of(file, predicates="package"), book)
    assert asked_of(book)
    assert plain.manifest["predicates"] is None


async def test_loops_ask_as_the_panels_do(tmp_path: Path) -> None:
    """Judges that steer are asked with the same options, and an off switch draws anew."""
    file = kitchen(tmp_path)
    book = CallBook()
    both = await done(tmp_path / "e", of(file, conditions=["feedback"]), book)
    (merged,) = (tmp_path / "e" / "predicates").glob("*.json")
    assert load_predicates(str(merged)).pair_counts("pan", "hob")
    loops = [json.loads(f.read_text()) for f in (tmp_path / "e" / "runs").glob("*/manifest.json")]
    assert loops
    assert all(str(merged) in json.dumps(one) for one in loops)
    digests = {
        judge: {line.split()[-1] for line in asked_of(book) if f"judge-{judge}-" in line}
        for judge in "ac"
    }
    # The report judge asks by the same protocol here: what it is asked, the loop's judge was.
    assert both.manifest["config"]["protocol"] == "scene-bench"
    assert digests["c"] <= digests["a"]
    book = CallBook()
    await done(tmp_path / "e", of(file, conditions=["feedback"], predicates="package"), book)
    assert any("judge-a-" in line for line in asked_of(book))


async def test_manifest_summary_and_report_say_where_options_come_from(tmp_path: Path) -> None:
    found = await done(tmp_path / "e", of(kitchen(tmp_path)))
    told = found.manifest["predicates"]
    assert told["set"] == "table"
    assert (told["scenes"], told["relations"]) == (6, 7)
    stored = json.loads((found.folder / told["file"]).read_text())
    assert stored["counts"]["hanging from"] == [["pan", "hob", 2]]
    sentence = told_of(found.manifest)
    assert "7 relations in 6 scenes of the set table" in sentence
    assert sentence in build_report(found).page.read_text()
    plain = await done(tmp_path / "p", of(kitchen(tmp_path), predicates="package"))
    assert told_of(plain.manifest).endswith("from the counts of the package.")
    named = await done(tmp_path / "n", of(kitchen(tmp_path), predicates="general"))
    assert told_of(named.manifest).endswith("from 'general'.")


async def test_sets_without_new_relations_change_nothing(tmp_path: Path) -> None:
    file = kitchen(tmp_path, ("red ball on table; dog left of table", "cat under umbrella"))
    own = await done(tmp_path / "e", of(file))
    plain = await done(tmp_path / "p", of(file, predicates="package"))
    assert options(own) == options(plain)
    assert own.manifest["predicates"] is None
    assert not list((tmp_path / "e").glob("predicates*"))


def test_what_is_not_counted(tmp_path: Path) -> None:
    scene = load_scene(KITCHEN[0])
    spec = DatasetSpec(name="listed")
    counted = dataset_predicates("", spec, ListedSet([Item(id="a", scene=scene)]))
    assert counted is not None
    assert counted.scenes == 1
    for item in (
        Item(id="a", prompt="a pan on a hob"),
        Item(id="a", scene=scene, predicates="miniature"),
        Item(id="a", scene=scene, facts=facts_to_ask(Item(id="a", scene=scene), config())),
    ):
        assert dataset_predicates("", spec, ListedSet([item])) is None
    far = StreamedSet(
        lambda _: iter([Item(id="a", scene=scene)]), name="huggingface", version=1, options={},
        light=False,
    )  # fmt: skip
    assert dataset_predicates("", spec, far) is None


async def test_an_estimate_asks_what_the_run_asks(tmp_path: Path) -> None:
    asked = of(kitchen(tmp_path))
    own = await estimate(asked, given=scripted())
    plain = await estimate(of(kitchen(tmp_path), predicates="package"), given=scripted())
    assert own.facts == plain.facts
    assert not list(tmp_path.glob("predicates*"))


@pytest.mark.parametrize("said", ["", "package"])
async def test_xtc_asks_judges_with_the_sets_own_options(tmp_path: Path, said: str) -> None:
    file = kitchen(tmp_path)
    asked = XtcConfig.model_validate(
        {
            "name": "x",
            "dataset": {"name": "table", "path": str(file)},
            "models": {
                "m": {"profile": "miniature", "understander": "judge:local:miniature/judge-a"}
            },
            "predicates": said,
        }
    )
    items = open_dataset(asked.dataset)
    scenes = [item.scene for item in items if item.scene is not None]
    own = dataset_predicates(asked.predicates, asked.dataset, items)
    asked = with_words(asked, scenes)
    xtc_models = await build_xtc_models(asked, load_settings(), XtcModelOverrides(), tmp_path, own)
    without = await build_xtc_models(asked, load_settings(), XtcModelOverrides(), tmp_path)
    (model,), (plain,) = xtc_models.models, without.models
    assert (model.understander.fingerprint != plain.understander.fingerprint) == (not said)  # type: ignore[attr-defined]
    words, general = (
        one.understander._choices(relation_question())  # type: ignore[attr-defined]
        for one in (model, plain)
    )
    assert (words != general) == (not said)


def relation_question() -> Any:
    from scenewright.evals.studies.xtc.questions import questions_of

    sheet = questions_of(load_scene(KITCHEN[0]))
    return next(question for question in sheet.questions if question.kind == "relation")
