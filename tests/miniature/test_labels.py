"""Labels by eye: the form, what is read from it, and what the judges say to the labels."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from benchmarks._label_form import blank_form, filled, phrases, read_form
from benchmarks._label_sheet import main, sheets_of
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from benchmarks._miniature_models import (
    FILE,
    FOLDER,
    LabelError,
    Labels,
    Mark,
    Picture,
    known_facts,
    label_counts,
    label_figures,
    read_labels,
)
from benchmarks._miniature_pictures import KeptTeam
from benchmarks._scenes import LEVELS, painting_of_level
from scenewright.agents.composers.rules import GridComposer
from scenewright.config.settings import find_profile
from scenewright.core.facts import FACT_KINDS
from scenewright.core.formats import load_scene
from scenewright.core.scene import SceneGraph
from scenewright.runs.model_factory.profiles import RunModels, build_run_models
from tests.doubles import ScriptedBackend, ScriptedJudge

SCENE = load_scene("red ball left of table; blue ball on table", format="triplets")
"""Facts: 1 ball, 2 table, 3 second ball, 4 a red ball, 5 a blue ball, 6 and 7 relations."""
MAX_BYTES = 600_000


def picture(scene: SceneGraph = SCENE, file: str = "01.png") -> Picture:
    return Picture(file=file, sha256="0" * 64, level=scene.level(), seed=0, scene=scene)


def unlabelled(*pictures: Picture) -> Labels:
    return Labels(generator="g", pictures=pictures or (picture(),))


def marked(marks: str, labels: Labels | None = None) -> dict[str, Mark]:
    labels = labels or unlabelled()
    form = blank_form(labels).rstrip("\n") + marks + "\n"
    return read_form(form, labels, "me").pictures[0].facts


def drawn(folder: Path, marks: Mapping[int, Mark] | None = None) -> Labels:
    """One labelled picture, written to ``folder``."""
    folder.mkdir(exist_ok=True)
    Image.new("RGB", (128, 128), "teal").save(folder / "01.png")
    digest = hashlib.sha256((folder / "01.png").read_bytes()).hexdigest()
    whole = picture().model_copy(update={"sha256": digest, "facts": filled(picture(), marks or {})})
    labels = Labels(generator="g", seen_by="me", pictures=(whole,))
    labels.write(folder)
    return labels


def test_the_form_has_a_line_a_picture_with_every_fact_numbered() -> None:
    lines = [line for line in blank_form(unlabelled()).splitlines() if line[0] != "#"]
    assert len(lines) == 1
    assert lines[0].startswith("01  1 ball, 2 table, 3 ball (number 2), 4 Is there a red ball, ")
    assert "7 blue ball on table" in lines[0]
    assert lines[0].endswith(" => ")


def test_a_relation_names_a_colour_only_where_its_question_does() -> None:
    scene = load_scene("black hat below blue lamp; red dog near blue dog", format="triplets")
    words = phrases(picture(scene))
    assert words[-2:] == ["9 hat below lamp", "10 red dog near blue dog"]
    for fact, said in zip(picture(scene).all_facts()[-2:], words[-2:], strict=True):
        assert all(word in fact.question for word in said.split()[1:] if word not in (
            "below", "near"
        ))  # fmt: skip
    twins = load_scene("red dog near cat; another red dog above cat", format="triplets")
    assert phrases(picture(twins))[-1].endswith(" a red dog above cat")


def test_everything_is_true_unless_it_is_marked() -> None:
    assert set(marked("ok").values()) == {"true"}
    facts = list(marked("6n 7?").values())
    assert facts == ["true"] * 5 + ["false", "unclear"]


def test_what_hangs_on_an_absent_thing_is_false_without_a_mark() -> None:
    # The table is not there: both relations with it fall.
    found = list(marked("2n").values())
    assert found == ["true", "false", "true", "true", "true", "false", "false"]
    # Without any ball all that is said of balls falls.
    found = list(marked("1n").values())
    assert found == ["false", "true", "true", "false", "false", "false", "false"]
    # Whether there are two balls says nothing of a blue one: its facts are marked by themselves.
    found = list(marked("3?").values())
    assert found == ["true", "true", "unclear", "true", "true", "true", "true"]
    assert list(marked("3? 7n").values())[-1] == "false"


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ("", "line 7, picture 01: nothing after '=>'"),
        ("ok 3n", "'ok' is no mark"),
        ("8n", "'8n' is no mark: write 1n … 7n"),
        ("0?", "'0\\?' is no mark"),
        ("3", "'3' is no mark"),
        ("3n 3?", "fact 3 is marked twice"),
        ("3n\n99  1 cat => ok", "line 8: .* is no picture's line"),
        ("3n\nlooks fine to me", "line 8: .* is no picture's line"),
    ],
)
def test_a_wrong_form_names_the_line(marks: str, message: str) -> None:
    with pytest.raises(LabelError, match=message):
        marked(marks)


def test_a_form_of_other_facts_a_double_or_a_missing_line_is_refused() -> None:
    labels = unlabelled()
    form = blank_form(labels).rstrip("\n") + "ok\n"
    with pytest.raises(LabelError, match="the facts of 01 were changed"):
        read_form(form.replace("2 table", "2 chair"), labels, "me")
    with pytest.raises(LabelError, match="two lines"):
        read_form(form + form.splitlines()[-1], labels, "me")
    with pytest.raises(LabelError, match=r"no line of the pictures \['02'\]"):
        read_form(form, unlabelled(picture(), picture(file="02.png")), "me")


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(LEVELS),
    st.integers(0, 5),
    st.dictionaries(st.integers(1, 24), st.sampled_from(["n", "?"])),
)
def test_every_marking_gives_sound_labels(level: str, at: int, marks: dict[int, str]) -> None:
    scene = painting_of_level(level, "labels", at).scene  # type: ignore[arg-type]
    one = picture(scene)
    own = {n: mark for n, mark in marks.items() if n <= len(phrases(one))}
    text = " ".join(f"{n}{mark}" for n, mark in own.items()) or "ok"
    facts = marked(text, unlabelled(one))
    # The model's own checks: every fact once, nothing true of what is absent.
    whole = Picture.model_validate({**one.model_dump(), "facts": facts})
    wrong = {n for n, mark in own.items() if mark == "n"}
    for n, fact in enumerate(whole.all_facts(), start=1):
        if n in wrong:
            assert facts[fact.id] == "false"
    asked = known_facts(whole)
    for known in asked:
        assert facts[known.fact.id] == ("true" if known.holds else "false")
        assert all(facts[parent] == "true" for parent in known.fact.parents)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    labels = drawn(tmp_path, {7: "false", 5: "unclear"})
    assert read_labels(tmp_path) == labels
    counts = label_counts(labels)
    assert counts["attribute.unclear"] == 1
    assert counts["relation.false"] == 1
    assert sum(counts.values()) == 7
    asked = known_facts(labels.pictures[0])
    assert len(asked) == 6
    assert [k.holds for k in asked][-1] is False


async def test_judges_are_measured_against_the_clear_labels(tmp_path: Path) -> None:
    labels = drawn(tmp_path / "pictures", {2: "false", 5: "unclear"})
    judge = ScriptedJudge("naysayer", level=lambda fact: 255)
    run_models = RunModels(ScriptedBackend(lambda request: 0), GridComposer(), (judge,), ())
    kept = KeptTeam(find_profile("miniature"), run_models, tmp_path / "kept")
    found = await label_figures(kept, [judge], labels, tmp_path / "pictures")
    kept.close()
    assert found["labels.pictures"] == 1
    assert found["labels.seen_by"] == "me"
    assert found["labels.attribute.unclear"] == 1
    # Objects 1 and 3 are there and denied, 2 is denied rightly; of the colours one is clear, and
    # both relations hang on what is absent.
    name = f"labels.{judge.id}"
    assert found[f"{name}.object.n"] == 3
    assert found[f"{name}.object.accuracy"]["mean"] == pytest.approx(1 / 3, abs=1e-4)
    assert found[f"{name}.object.specificity"]["mean"] == 1.0
    assert found[f"{name}.attribute.n"] == 1
    assert f"{name}.relation.n" not in found


def test_labels_that_do_not_fit_their_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match="label pictures first"):
        read_labels(tmp_path)
    drawn(tmp_path)
    (tmp_path / "02.png").write_bytes(b"")
    with pytest.raises(LabelError, match=r"02\.png"):
        read_labels(tmp_path)
    (tmp_path / "02.png").unlink()
    Image.new("RGB", (128, 128)).save(tmp_path / "01.png")
    with pytest.raises(LabelError, match="not the picture that was labelled"):
        read_labels(tmp_path)
    (tmp_path / "01.png").unlink()
    with pytest.raises(LabelError, match=r"01\.png"):
        read_labels(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"facts": {}}, "has no labels"),
        ({"facts": {"o:ball.1": "true"}}, "not labelled"),
        ({"level": "hard"}, "the scene is simple, not hard"),
    ],
)
def test_labels_must_be_whole(tmp_path: Path, change: dict[str, object], message: str) -> None:
    drawn(tmp_path)
    data = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    data["pictures"][0] |= change
    (tmp_path / FILE).write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(LabelError, match=message):
        read_labels(tmp_path)


def test_nothing_is_true_of_what_is_absent(tmp_path: Path) -> None:
    labels = drawn(tmp_path)
    table = labels.pictures[0].all_facts()[1]
    facts = {**labels.pictures[0].facts, table.id: "false"}
    with pytest.raises(ValueError, match=r"is true though .* is false"):
        Picture.model_validate({**labels.pictures[0].model_dump(), "facts": facts})


def test_sheets_show_every_picture_three_times_as_large(tmp_path: Path) -> None:
    labels = drawn(tmp_path)
    (sheet,) = sheets_of(labels, tmp_path)
    teal = (np.asarray(sheet) == (0, 128, 128)).all(-1).sum()
    assert teal == (3 * 128) ** 2


def test_the_command_reads_a_filled_form_and_keeps_what_is_wrong_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = drawn(tmp_path / "pictures")
    form = tmp_path / "form.txt"
    given = ["--work", str(tmp_path), "read", "--out", str(tmp_path / "out"), "--seen-by", "us"]
    with pytest.raises(SystemExit, match="draw one first"):
        main(given)
    form.write_text(blank_form(labels), encoding="utf-8")
    with pytest.raises(SystemExit, match="nothing after"):
        main(given)
    assert not (tmp_path / "out").exists()
    form.write_text(blank_form(labels).rstrip("\n") + "7n\n", encoding="utf-8")
    main(given)
    assert "1 pictures" in capsys.readouterr().out
    read = read_labels(tmp_path / "out")
    assert read.seen_by == "us"
    assert list(read.pictures[0].facts.values())[-1] == "false"
    with pytest.raises(SystemExit, match="is there already"):
        main(["--work", str(tmp_path), "draw", "-n", "1"])


committed = pytest.mark.skipif(not (FOLDER / FILE).is_file(), reason="no pictures are labelled")


@committed
def test_the_committed_labels_are_sound_and_small() -> None:
    labels = read_labels()
    assert len(labels.pictures) >= 24
    assert {p.level for p in labels.pictures} == set(LEVELS)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MAX_BYTES
    for one in labels.pictures:
        with Image.open(FOLDER / one.file) as image:
            assert image.size == (128, 128)


@committed
@pytest.mark.slow
def test_the_panels_judges_agree_with_the_labels(tmp_path: Path) -> None:
    async def measured() -> dict[str, object]:
        profile = find_profile("miniature")
        run_models = await build_run_models(profile)
        kept = KeptTeam(profile, run_models, tmp_path)
        judges = (*run_models.loop_judges, *run_models.report_judges)
        return await label_figures(kept, judges, read_labels())

    figures = asyncio.run(measured())
    for spec in (*find_profile("miniature").judges, *find_profile("miniature").report_judges):
        name = spec.rpartition("/")[2]
        for kind in FACT_KINDS:
            found = figures[f"labels.{name}.{kind}.accuracy"]
            assert isinstance(found, dict)
            assert found["mean"] > 0.7, (name, kind)
