"""The parser's benchmark: reading the release, the rules of comparison, the figures."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmarks._factual import Graph
from benchmarks._factual import load as load_captions
from benchmarks._harness import DATA as RELEASES
from benchmarks._harness import micro, spread
from benchmarks._negations import Denial
from benchmarks.parser import (
    TABLE,
    Facts,
    Prompt,
    add_tuple,
    aside,
    captions_per_second,
    compare,
    compare_captions,
    load,
    measure,
    measure_factual,
    measure_negations,
    nearest_pairs,
    read,
    right_counts,
    said_by,
    set_match,
    stated_by,
    with_parts,
)
from benchmarks.parser import main as command
from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.formats import loads_scene
from scenewright.core.formats.published_questions import label
from scenewright.evals.datasets.base import DatasetError

DATA = RELEASES / "dsg"

beside = pytest.mark.skipif(
    not DATA.is_dir(), reason="the DSG release is not beside the repository"
)


def facts(*tuples: str) -> Facts:
    found = Facts()
    for text in tuples:
        add_tuple(found, text)
    return found


def said(caption: str) -> Facts:
    return said_by(parse_caption(caption))


def test_tuples_of_the_release_become_facts() -> None:
    found = facts(
        "entity - whole (man)",
        "entity - part (man's hat)",
        "attribute - color (man's hat, red and white)",
        "attribute - style (man, oil painting)",
        "relation - spatial (man, bench, on)",
        "relation - action (man, sit)",
        "other - count (dogs, ==3)",
        "other - count (birds, ==several)",
        "global - - (photo)",
        "no tuple at all",
    )
    assert list(found.objects) == ["man", "hat"]
    assert list(found.attributes) == [("hat", "red"), ("hat", "white"), ("man", "sit")]
    assert list(found.relations) == [("man", "on", "bench")]
    assert list(found.parts) == [("man", "hat")]
    assert found.counts == {"dogs": 3}


@pytest.mark.parametrize(
    ("name", "plain"),
    [("the man's left arm", "left arm"), ("fish's eye's colour", "colour"), ("their dog", "dog"),
     ("men's room", "room"), ("guards' hats", "hats"), ("hat", "hat")],
)  # fmt: skip
def test_labels_lose_their_owners(name: str, plain: str) -> None:
    assert label(name) == plain


def write(folder: Path, rows: list[tuple[str, str, str]]) -> None:
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item_id", "text", "tuple"])
        writer.writerows(rows)


def test_a_table_is_read_by_prompt(tmp_path: Path) -> None:
    rows = [("tifa_2", "a dog", "entity - whole (dog)"), ("a_b_3", "a cat", "entity - whole (cat)")]
    write(tmp_path, rows)
    first, second = load(tmp_path)
    assert (first.category, first.held_out) == ("tifa", False)
    assert (second.category, second.held_out) == ("a_b", True)
    assert list(second.facts.objects) == ["cat"]


@pytest.mark.parametrize(
    ("content", "message"),
    [("item_id,text\n", "no column tuple"), ("item_id,text,tuple\n", "no prompts"),
     ("item_id,text,tuple\nx,y,z\n", "line 2: item id 'x'")],
)  # fmt: skip
def test_another_table_is_a_clear_error(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / TABLE).write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=message):
        load(tmp_path)


def test_a_missing_table_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read"):
        load(tmp_path / "nowhere")


def test_what_is_said_exactly_is_right_by_every_rule() -> None:
    true = facts(
        "entity - whole (dog)",
        "entity - whole (table)",
        "attribute - color (table, red)",
        "relation - spatial (dog, table, on)",
    )
    for rule in ("exact", "headline", "pairs"):
        found = compare(said("a dog on a red table"), true, rule)  # type: ignore[arg-type]
        assert found == {"objects": (2, 2, 2), "attributes": (1, 1, 1), "relations": (1, 1, 1)}


def test_heads_and_posture_count_in_the_headline_only() -> None:
    true = facts(
        "entity - whole (bricked building)",
        "entity - whole (man)",
        "relation - spatial (man, bricked building, on top of)",
    )
    mine = Facts()
    mine.objects = {"building": None, "man": None}
    mine.relations = {("man", "standing on", "building"): None}
    assert compare(mine, true)["objects"] == (2, 2, 2)
    assert compare(mine, true)["relations"] == (1, 1, 1)
    assert compare(mine, true, "exact")["objects"] == (1, 2, 2)
    assert compare(mine, true, "exact")["relations"] == (0, 1, 1)


@pytest.mark.parametrize("predicate", ["behind", "under", "wearing"])
def test_another_predicate_is_wrong_unless_only_pairs_count(predicate: str) -> None:
    true = facts("relation - spatial (dog, table, on)")
    mine = Facts(relations={("dog", predicate, "table"): None})
    assert compare(mine, true)["relations"] == (0, 1, 1)
    assert compare(mine, true, "pairs")["relations"] == (1, 1, 1)


def test_the_direction_must_be_right() -> None:
    mine = Facts(relations={("table", "on", "dog"): None})
    assert compare(mine, facts("relation - spatial (dog, table, on)"))["relations"] == (0, 1, 1)


def test_a_fact_is_matched_once() -> None:
    mine = Facts(objects={"red building": None, "old building": None})
    assert compare(mine, facts("entity - whole (building)"))["objects"] == (1, 2, 1)


def test_the_word_must_end_the_longer_label() -> None:
    mine = Facts(objects={"table": None})
    assert compare(mine, facts("entity - whole (table tennis)"))["objects"] == (0, 1, 1)


def test_parts_are_set_aside_or_counted_but_never_both() -> None:
    true = facts("entity - whole (man)", "entity - part (man's hat)")
    mine = said("a man wearing a hat")
    assert compare(mine, true)["relations"] == (0, 0, 0)
    assert aside(mine, true) == 1
    assert with_parts(mine, true) == (1, 1, 1)
    assert compare(mine, true, "exact")["relations"] == (0, 1, 0)


def test_an_attribute_within_a_label_is_neither_right_nor_wrong() -> None:
    mine = said("a red car")
    assert compare(mine, facts("entity - whole (red car)"))["attributes"] == (0, 0, 0)
    assert compare(mine, facts("entity - whole (car)"))["attributes"] == (0, 1, 0)


def test_a_place_in_the_picture_is_a_relation_of_the_release() -> None:
    true = facts("entity - whole (tree)", "relation - spatial (tree, background, in)")
    assert compare(said("a tree in the background"), true)["relations"] == (1, 1, 1)


def test_numbers_are_compared_where_both_name_the_object() -> None:
    true = facts(
        "other - count (dogs, ==3)", "other - count (cats, ==two)", "other - count (x, ==4)"
    )
    assert right_counts(said("three dogs and a cat"), true) == (1, 2, 2)


def test_the_baseline_knows_no_grammar() -> None:
    found = nearest_pairs("A red dog sits on a table. A cat")
    assert list(found.objects) == ["dog", "table", "cat"]
    assert list(found.attributes) == [("dog", "red")]
    assert list(found.relations) == [("dog", "sits on", "table")]


def test_micro_averages_weigh_facts_not_prompts() -> None:
    found = micro([(1, 1, 1), (0, 9, 3)], 50)
    assert found["precision"][0] == pytest.approx(0.1)
    assert found["recall"][0] == pytest.approx(0.25)
    assert found["f1"][0] == pytest.approx(2 / 14)
    assert found["f1"].shape == (51,)
    shown = spread(found["f1"])
    assert shown["low"] <= shown["mean"] <= shown["high"]
    with pytest.raises(ValueError, match="nothing was measured"):
        micro([], 5)


def test_nothing_said_and_nothing_true_is_no_division_by_zero() -> None:
    assert np.array_equal(micro([(0, 0, 0)], 3)["f1"], np.zeros(4))


def test_a_caption_without_objects_counts_as_saying_nothing() -> None:
    assert read("...") is None
    prompts = [
        Prompt("x_1", "...", facts("entity - whole (dog)")),
        Prompt("x_2", "a dog", facts("entity - whole (dog)")),
    ]
    figures = measure(prompts, 20)
    assert figures["refused"] == 1
    assert figures["recall.objects"]["mean"] == 0.0
    assert figures["tuned.recall.objects"]["mean"] == 1.0
    assert figures["all.recall.objects"]["mean"] == 0.5
    assert captions_per_second(prompts, 1) > 0.0


def test_a_declined_caption_is_unscored_and_counted() -> None:
    prompts = [
        Prompt("x_1", "no dog and no hat", facts("entity - whole (dog)")),
        Prompt("x_3", "a cat", facts("entity - whole (cat)")),
    ]
    figures = measure(prompts, 20)
    assert (figures["refused"], figures["refused.negation"]) == (1, 1)
    assert figures["recall.objects"]["mean"] == 1.0
    assert figures["strict.recall.objects"]["mean"] == 0.5
    assert (figures["held_out"], figures["short.captions"], figures["long.captions"]) == (1, 1, 0)


def test_a_scene_that_holds_what_is_denied_inverts_it() -> None:
    def inverts(denial: Denial, scene: str) -> bool:
        return denial.inverted_by(loads_scene(scene, "triplets"))

    cat = Denial("a room with no cat", "cat")
    assert inverts(cat, "black cat in room")
    assert not inverts(cat, "dog in room")
    red = Denial("a dog that is not red", "dog", value="red")
    assert inverts(red, "red dog")
    assert not inverts(red, "blue dog; red ball")
    assert not inverts(red, 'dog [state="not red"]')
    on = Denial("a dog not on a table", "dog", "table")
    assert inverts(on, "dog on table")
    assert not inverts(on, "table; dog on box")


def test_every_denial_is_refused_or_told() -> None:
    figures = measure_negations()
    assert figures["negation.inverted"] == figures["negation.silent"] == 0
    assert figures["negation.affirmed.refused"] == 0
    assert figures["negation.captions"] > 500
    assert figures["negation.baseline.inverted"] > 0.9


def written(folder: Path) -> Path:
    """Return a folder with a release of FACTUAL of two captions."""
    table = folder / "data/factual_sg/random/test.csv"
    table.parent.mkdir(parents=True)
    table.write_text(
        "image_id,region_id,caption,scene_graph\n"
        '1,3,a man in a red hat .,"( man , wear , hat ) , ( hat , is , red )"\n'
        '1,4,two dogs,"( dogs , is , 2 )"\n'
    )
    spice = folder / "tests/test_data/SPICE_parsing_outputs.txt"
    spice.parent.mkdir(parents=True)
    spice.write_text("a man in a red hat .\t( man , in , hat ) , ( hat ) , ( man )\n")
    return folder


def test_captions_of_factual_are_read_with_their_graphs(tmp_path: Path) -> None:
    hat, dogs = load_captions(written(tmp_path))
    assert hat.graph.facts == (("man", "wear", "hat"), ("hat", "is", "red"))
    assert (hat.held_out, hat.long, dogs.held_out) == (True, False, False)
    assert hat.spice is not None
    assert hat.spice.objects == ("man", "hat")
    assert stated_by(dogs.graph).counts == {"dogs": 2}
    with pytest.raises(DatasetError, match="has neither"):
        load_captions(tmp_path / "nowhere")


def test_development_splits_are_figures_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "random_dev.csv").write_text(
        "image_id,region_id,caption,scene_graph\n"
        '1,3,a man in a red hat .,"( man , wear , hat ) , ( hat , is , red )"\n'
    )
    figures = measure_factual(load_captions(tmp_path), 20)
    assert figures["factual.random_dev.set_match"]["mean"] == 1.0
    assert figures["factual.random_dev.f1.macro"]["mean"] == 1.0
    assert figures["factual.short.captions"] == 0


def test_a_set_match_has_all_facts_and_none_too_many(tmp_path: Path) -> None:
    hat, _ = load_captions(written(tmp_path))
    true = stated_by(hat.graph)
    assert set_match(compare_captions(said("a man in a red hat ."), true))
    assert not set_match(compare_captions(said("a man in a hat"), true))
    assert not set_match(compare_captions(said("a man in a red hat on a bench"), true))
    assert hat.spice is not None
    assert not set_match(compare_captions(stated_by(hat.spice), true))
    figures = measure_factual(load_captions(tmp_path), 20)
    assert figures["factual.short.set_match"]["mean"] == 1.0
    assert figures["factual.tuned.short.captions"] == 1
    assert figures["factual.short.spice.captions"] == 1


@pytest.mark.parametrize(
    ("graph", "caption"),
    [
        ("( snow , cover , hill )", "a hill covered in snow"),
        ("( house , have , roof )", "the roof of a house"),
        ("( dog , sit on , bench )", "a dog sitting on a bench"),
        ("( ropes , attach on bottom of , sign )", "ropes attached to the bottom of the sign"),
    ],
)
def test_what_factual_words_otherwise_is_the_same(graph: str, caption: str) -> None:
    assert set_match(compare_captions(said(caption), stated_by(Graph.of(graph))))


def test_without_the_release_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks._harness.DATA", tmp_path / "nowhere")
    command(["--quick"])
    assert capsys.readouterr().out.startswith("skipped: the DSG release")
    with pytest.raises(SystemExit):
        command(["--quick", "--data", str(tmp_path)])


@beside
def test_the_release_is_read_whole_and_the_aims_are_met_on_the_held_out_half() -> None:
    prompts = load(DATA)
    assert len(prompts) == 1060
    assert sum(prompt.held_out for prompt in prompts) == 530
    figures = measure(prompts, 20)
    assert figures["f1.objects"]["mean"] >= 0.6
    assert figures["f1.relations"]["mean"] >= 0.4
    assert figures["gain.f1.objects"]["low"] > 0.0
    assert figures["gain.f1.relations"]["low"] > 0.0
    assert figures["exact.f1.objects"]["mean"] <= figures["f1.objects"]["mean"]
