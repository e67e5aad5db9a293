"""Prompts of public benchmarks in their published formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scenewright.evals.datasets import benchmark_prompts as sets
from scenewright.evals.datasets.base import CATALOGUE, DatasetError, DatasetSpec, sources
from scenewright.evals.datasets.registry import open_dataset
from tests.evals.datasets.published import check_set, write_json
from tests.evals.recipes.benchmark_files import WRITERS

FIRST = {
    "geneval2": "geneval2_data.jsonl",
    "genai-bench": "genai_image.json",
    "oneig": "OneIG-Bench.csv",
    "wise": "natural_science_verified.json",
    "conceptmix": "300_sentences_k=2.json",
}


@pytest.mark.parametrize("name", FIRST)
def test_it_is_a_set(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path)
    file = tmp_path / FIRST[name]
    spec = DatasetSpec(name=name, path=str(tmp_path))
    items = check_set(
        lambda: open_dataset(spec),
        lambda: file.write_text(file.read_text(encoding="utf-8").replace("red", "green") + "\n"),
    )
    assert all(item.scene is not None for item in items)


@pytest.mark.parametrize("name", FIRST)
def test_its_source_has_its_licence_and_the_files_that_it_reads(name: str, tmp_path: Path) -> None:
    source = sources()[name]
    assert source.licence == CATALOGUE[name].licence
    WRITERS[name](tmp_path)
    published = {file.name for file in source.files}
    assert {file.name for file in tmp_path.iterdir()} <= published
    # A commit of 40 digits: what is fetched later is what was read here.
    assert all(any(len(part) == 40 for part in f.address.split("/")) for f in source.files)


def test_geneval2_offers_numbers(tmp_path: Path) -> None:
    WRITERS["geneval2"](tmp_path)
    ball, dog = sets.load_geneval2(tmp_path)
    assert [fact.kind for fact in ball.facts] == ["object", "attribute", "object"]
    assert {fact.options for fact in ball.facts} == {("yes", "no")}
    assert ball.group == "3 atoms"
    assert dog.facts[0].options == sets.NUMBERS
    assert dog.facts[0].expected == "one"


def test_geneval2_counts_an_answer_that_it_cannot_offer(tmp_path: Path) -> None:
    row = {"prompt": "x", "atom_count": 1, "vqa_list": [["How many?", "12"], ["How many?", "3"]],
           "skills": ["count", "count"]}  # fmt: skip
    (tmp_path / "geneval2_data.jsonl").write_text(json.dumps(row), encoding="utf-8")
    found = sets.load_geneval2(tmp_path, parse="none")
    (item,) = found
    assert [fact.expected for fact in item.facts] == ["three"]
    assert found.left_out == {sets.NO_OPTION: 1}


def test_genai_bench_has_several_skills(tmp_path: Path) -> None:
    WRITERS["genai-bench"](tmp_path)
    items = list(sets.load_genai_bench(tmp_path))
    assert [item.category for item in items] == [
        "attribute, basic", "attribute, spatial relation, advanced", "",
    ]  # fmt: skip
    assert [item.group for item in items] == ["basic", "advanced", ""]


def test_oneig_orders_questions_and_leaves_other_categories_out(tmp_path: Path) -> None:
    WRITERS["oneig"](tmp_path)
    found = sets.load_oneig(tmp_path)
    ball, dog = found
    assert [(fact.id, fact.parents) for fact in ball.facts] == [("1", ()), ("2", ("1",))]
    assert {fact.id: fact.parents for fact in dog.facts} == {"1": ("2",), "2": (), "3": ()}
    assert [fact.id for fact in dog.facts].index("2") < [f.id for f in dog.facts].index("1")
    assert found.left_out == {
        "prompt without questions of alignment (Text_Rendering)": 1,
        sets.LOST: 1,
    }


def test_oneig_cuts_a_circle(tmp_path: Path) -> None:
    WRITERS["oneig"](tmp_path)
    circle = {"question": {"1": "A?", "2": "B?"}, "dependency": {"1": [2], "2": [1]}}
    write_json(tmp_path / "human.json", {"000": circle})
    found = sets.load_oneig(tmp_path)
    ball = next(iter(found))
    assert sorted(len(fact.parents) for fact in ball.facts) == [0, 1]
    assert found.left_out[sets.CIRCLE] == 1


@pytest.mark.parametrize(
    ("version", "groups"),
    [
        ("verified", ["culture", "time", "space", "biology", "physics", "chemistry"]),
        ("legacy", ["culture", "time", "space", "biology", "physics", "chemistry"]),
    ],
)
def test_wise_groups_by_number(version: str, groups: list[str], tmp_path: Path) -> None:
    WRITERS["wise"](tmp_path)
    items = list(sets.load_wise(tmp_path, version=version))
    assert [item.group for item in items] == groups
    assert items[0].meta[sets.EXPLANATION] == "a ball that is red"


def test_the_ranges_of_wise_hold_as_many_prompts_as_published() -> None:
    sizes = {
        version: [b - a for a, b in zip((0, *last[:-1]), last, strict=True)]
        for version, last in sets.WISE_LAST.items()
    }
    # The weights of the fields are their shares of the 1,000 prompts.
    assert sizes["legacy"] == [400, 167, 133, 100, 100, 100]
    assert sizes["verified"] == [400, 120, 120, 120, 120, 120]


def test_conceptmix_leaves_an_empty_question_out(tmp_path: Path) -> None:
    WRITERS["conceptmix"](tmp_path)
    one, two = sets.load_conceptmix(tmp_path)
    assert (one.id, one.group, one.facts[1].key) == ("k1-1", "k=1", "color")
    assert one.facts[0].question == "Does the image contain a ball?"
    assert [fact.key for fact in two.facts] == ["object", "object"]


@pytest.mark.parametrize(
    ("name", "file", "text", "said"),
    [
        ("geneval2", "geneval2_data.jsonl", '{"prompt": "x", "vqa_list": [["a"]], "skills": []}',
         "vqa_list must be pairs"),
        ("genai-bench", "genai_image.json", "[]", "is not a JSON object"),
        ("genai-bench", "genai_image.json", '{"a": 1}', "is not a number with an object"),
        ("oneig", "human.json", '{"000": {"question": "1"}}', "must be objects by number"),
        ("wise", "natural_science_verified.json", '[{"prompt_id": 1001}]', "it must be 1 to 1000"),
        ("conceptmix", "300_sentences_k=1.json", "[{}]", "must be lists"),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_named(
    name: str, file: str, text: str, said: str, tmp_path: Path
) -> None:
    WRITERS[name](tmp_path)
    (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(DatasetError, match=said):
        list(open_dataset(DatasetSpec(name=name, path=str(tmp_path))))
