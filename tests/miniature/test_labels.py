"""Labels by eye: what is written and read, and what the judges say to the labels."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
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
from tests.doubles import ScriptedBackend, ScriptedJudge, painted

SCENE = load_scene("red ball left of table; blue ball on table", format="triplets")
"""Facts: 1 ball, 2 table, 3 second ball, 4 a red ball, 5 a blue ball, 6 and 7 relations."""
MAX_BYTES = 600_000


def picture(scene: SceneGraph = SCENE, file: str = "01.png") -> Picture:
    return Picture(file=file, sha256="0" * 64, level=scene.level(), seed=0, scene=scene)


def filled(one: Picture, marks: Mapping[int, Mark]) -> dict[str, Mark]:
    """Label every fact: as marked by its number, and what hangs on an absent thing is false."""
    labels: dict[str, Mark] = {}
    for at, fact in enumerate(one.all_facts(), start=1):
        above = {labels[parent] for parent in fact.parents}
        unmarked: Mark = "unclear" if "unclear" in above else "true"
        labels[fact.id] = "false" if "false" in above else marks.get(at, unmarked)
    return labels


def drawn(folder: Path, marks: Mapping[int, Mark] | None = None) -> Labels:
    """One labelled picture, written to ``folder``."""
    folder.mkdir(exist_ok=True)
    painted((128, 128), (0, 128, 128)).save(folder / "01.png")
    digest = hashlib.sha256((folder / "01.png").read_bytes()).hexdigest()
    whole = picture().model_copy(update={"sha256": digest, "facts": filled(picture(), marks or {})})
    labels = Labels(generator="g", seen_by="me", pictures=(whole,))
    (folder / FILE).write_text(labels.model_dump_json(exclude_defaults=True), encoding="utf-8")
    return labels


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(LEVELS),
    st.integers(0, 5),
    st.dictionaries(st.integers(1, 24), st.sampled_from(["false", "unclear"])),
)
def test_every_marking_gives_sound_labels(level: Any, at: int, marks: dict[int, Mark]) -> None:
    one = picture(painting_of_level(level, "labels", at).scene)
    facts = filled(one, marks)
    # The model's own checks: every fact once, nothing true of what is absent.
    whole = Picture.model_validate({**one.model_dump(), "facts": facts})
    for n, fact in enumerate(whole.all_facts(), start=1):
        if marks.get(n) == "false":
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
    run_models = RunModels(
        backend=ScriptedBackend(lambda request: 0),
        composer=GridComposer(),
        loop_judges=(judge,),
        report_judges=(),
    )
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
