"""Sets of pictures labelled by eye, and the figures of judges on them."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from benchmarks import _by_eye
from benchmarks._by_eye import COLUMNS, FILE, damage_of, draw_set, read_set, scene_texts
from benchmarks._harness import BenchmarkError
from benchmarks.by_eye import Judged, alike, figures_of, panel_figures, whole_figures
from scenewright.agents.parsers.rules import read_text
from scenewright.config.settings import find_profile
from scenewright.core.facts import State, Verdict
from scenewright.core.scene import SceneGraph

Row = tuple[str, str, str]
"""Fact, label and note."""
HAT = "red person wearing blue hat"
HATTED: list[Row] = [
    ("o:person.1", "no", "headless: nothing above the shoulders"),
    ("o:hat.1", "yes", ""),
    ("a:person.1:color", "unclear", ""),
    ("a:hat.1:color", "yes", ""),
    ("r:person.1|wearing|hat.1", "no", ""),
]
BALLS = "two red balls"
TWO: list[Row] = [
    ("o:ball.1", "yes", ""),
    ("o:ball.2", "yes", ""),
    ("a:ball.1:color", "yes", ""),
    ("a:ball.2:color", "yes", ""),
]


def labelled(folder: Path, *pictures: tuple[str, Sequence[Row], str]) -> Path:
    """Write a set; each picture is its scene, the labels of its facts and its level."""
    with (folder / FILE).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        for at, (scene, rows, level) in enumerate(pictures):
            for fact, eye, note in rows:
                values = (f"{at}.png", scene, fact, "", "", eye, note, level)
                writer.writerow(dict(zip(COLUMNS, values, strict=True)))
    return folder


def judged(folder: Path, *states: dict[str, State]) -> list[Judged]:
    """Return the pictures of a set, whose facts are confirmed unless ``states`` says otherwise."""
    return [
        Judged(
            picture,
            {
                one.fact.id: Verdict(
                    fact_id=one.fact.id,
                    state=(state := own.get(one.fact.id, "yes")),
                    probability={"yes": 0.9, "no": 0.1}.get(state),
                )
                for one in picture.facts
            },
        )
        for picture, own in zip(read_set(folder), states, strict=True)
    ]


@pytest.mark.parametrize(
    ("note", "name"),
    [
        ("malformed: headless person under a floating hat", "headless"),
        ("malformed: dog's head and back grown into the hat", "grown"),
        ("malformed: two lamps merged into one shade", "merged"),
        ("malformed: blue mound under the table is no hat", "blob"),
        ("floating: car hovers over the treetop", "hovering"),
        ("missing: no purple hat", "missing"),
        ("placed otherwise: boat and car at one height", "placed"),
        ("malformed: a wheel too many", "malformed"),
        ("", "other"),
    ],
)
def test_a_note_names_the_class_of_damage(note: str, name: str) -> None:
    assert damage_of(note) == name


def test_a_set_is_read_with_the_facts_of_its_scenes_in_their_order(tmp_path: Path) -> None:
    hat, balls = read_set(labelled(tmp_path, (HAT, HATTED[::-1], ""), (BALLS, TWO, "stress")))
    assert [one.fact.id for one in hat.facts] == [fact for fact, _, _ in HATTED]
    assert [one.damage for one in hat.facts] == ["headless", "", "", "", "other"]
    assert not hat.is_complete
    assert not hat.is_stress
    # The exact number has no label and is left out.
    assert [one.fact.id for one in balls.facts] == [fact for fact, _, _ in TWO]
    assert balls.is_complete
    assert balls.is_stress


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("o:person.1", "", ""), "has the label ''"),
        (("o:cat.1", "yes", ""), "no facts of the scene: o:cat.1"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, row: Row, said: str) -> None:
    with pytest.raises(BenchmarkError, match=said):
        read_set(labelled(tmp_path, (HAT, [row], "")))


def test_rates_leave_out_stress_and_void_facts_and_damage_does_not(tmp_path: Path) -> None:
    place = labelled(tmp_path, (HAT, HATTED, ""), (BALLS, TWO, ""), (HAT, HATTED, "stress"))
    wearing, second = "r:person.1|wearing|hat.1", "o:ball.2"
    states: list[dict[str, State]] = [{wearing: "no"}, {second: "no", "a:ball.2:color": "void"}, {}]
    found = {name: figure.value for name, figure in panel_figures(judged(place, *states)).items()}
    assert found["false_yes"] == 0.5
    assert found["false_yes.headless"] == 1.0
    assert found["false_yes.other"] == 0.5
    assert found["false_yes.merged"] is None
    # Five facts hold and were asked.
    assert found["false_no"] == pytest.approx(1 / 5)
    assert found["false_no.count"] == found["false_no.count.2"] == 1.0
    assert found["complete_but_not"] is None
    assert found["complete_but_denied"] == 1.0
    assert found["balanced"] == pytest.approx((4 / 5 + 1 / 2) / 2)


def test_the_plain_name_is_the_worse_panel_beside_the_floors(tmp_path: Path) -> None:
    place = labelled(tmp_path, (HAT, HATTED, ""), (BALLS, TWO, ""))
    wrong: dict[str, State] = {"o:person.1": "no", "r:person.1|wearing|hat.1": "no"}
    figures = figures_of({"loop": judged(place, {}, {}), "report": judged(place, wrong, {})})
    assert figures["false_yes"] == figures["false_yes.loop"]
    assert figures["false_yes.loop"]["mean"] == 1.0
    assert figures["false_yes.report"]["mean"] == 0.0
    assert figures["balanced"] == figures["balanced.loop"]
    assert figures["complete_but_not.loop"]["mean"] == 0.5
    assert figures["floor.yes.complete_but_not"] == 0.5
    assert figures["floor.yes.ece"] == pytest.approx(2 / 8)
    assert figures["n.false_yes"] == 2


def test_whole_things_are_counted_by_situation(tmp_path: Path) -> None:
    under = "green ball under blue table"
    rows: list[Row] = [("o:ball.1", "unclear", ""), ("o:table.1", "yes", "")]
    place = labelled(tmp_path, (HAT, HATTED, ""), (BALLS, TWO, ""), (under, rows, "stress"))
    figures = whole_figures(read_set(place))
    assert figures["generator.whole.hats"]["mean"] == 0.0
    assert figures["generator.whole.under"]["mean"] == 0.0
    assert figures["generator.whole.all"]["mean"] == pytest.approx(3 / 4)


def test_drawn_scenes_read_back_whole_and_cover_every_situation() -> None:
    texts = list(scene_texts(36, 1))
    assert list(scene_texts(12, 1)) == texts[:12]
    wanted = {"hats", "count", "under", "directions", "riding", "inside", "on", "holding", "mixed"}
    assert {situation for situation, _ in texts} == wanted
    for situation, text in texts:
        scene = read_text(text)
        relations = 0 if situation == "count" else text.count(";") + 1
        assert len(scene.relations) == relations, text


def test_a_drawn_set_awaits_its_labels_and_is_not_drawn_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []

    async def drawn(scene: SceneGraph, profile: str, **arguments: Any) -> Any:
        seeds.append((arguments["rounds"], arguments["seed"]))
        file = Path(arguments["out"]) / "picture.png"
        Image.new("RGB", (128, 128), "green").save(file)
        return SimpleNamespace(
            rounds=[SimpleNamespace(image="picture")],
            facts=find_profile(profile).form().facts(scene),
            image_path=lambda _: file,
        )

    monkeypatch.setattr(_by_eye, "refine", drawn)
    draw_set(tmp_path, 13, 40)
    assert seeds == [(1, 40 + at) for at in range(1, 14)]
    with Image.open(tmp_path / "sheet-01.png") as first:
        assert first.width > 4 * 3 * 128
        assert first.height > 3 * 3 * 128
    assert (tmp_path / "sheet-02.png").is_file()
    with pytest.raises(BenchmarkError, match=r"001: o:.* has the label ''"):
        read_set(tmp_path)
    path = tmp_path / FILE
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [row | {"eye": "yes"} for row in csv.DictReader(stream)]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    assert len(read_set(tmp_path)) == 13
    with pytest.raises(BenchmarkError, match="is there already"):
        draw_set(tmp_path, 1, 0)


def test_alike_things_are_of_one_kind_beside_another() -> None:
    scene = alike(4, random.Random(0))
    kinds = [item.name for item in scene.objects]
    assert len(set(kinds[:4])) == 1
    assert kinds[4] not in kinds[:4]
