"""What a filter keeps, why it drops the rest, and that it takes nothing of the user's away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyarrow import parquet
from pydantic import ValidationError

from scenewright.core.images import ImageError, hash_of_image, load_image
from scenewright.evals.studies.real.filtering import (
    ABOUT,
    KEPT,
    MANIFEST,
    PARQUET,
    Filtered,
    FilterError,
    FilterPlan,
    filter_rows,
    tallies,
    write_filtered,
)
from scenewright.evals.studies.real.real_scorer import RealRow
from tests.doubles import painted


def row(
    image: str, label: str, att: float | None, style: float | None = 1.0, **more: object
) -> RealRow:
    """A row with 4 attributes, all visible."""
    combined = None if att is None or style is None else att * style
    fields: dict[str, object] = {
        "image": image, "label": label, "s_att": att, "attributes": 4, "visible": 4,
        "s_style": style, "combined": combined, "plan": "p",
    }  # fmt: skip
    return RealRow.model_validate(fields | more)


def became(
    rows: list[RealRow], plan: FilterPlan, **contents: str | ImageError
) -> dict[str, Filtered]:
    """Image → what became of it; contents differ unless they are given."""
    known = {one.image: contents.get(one.image, one.image * 3) for one in rows}
    return {one.image: one for one in filter_rows(rows, plan, known)}


def test_the_best_of_each_class_are_kept_and_the_others_told_why() -> None:
    rows = [
        row("a1", "a", 0.9), row("a2", "a", 0.5), row("a3", "a", 0.7), row("b1", "b", 0.1),
        row("b2", "b", None, reason="the judge refused"),
    ]  # fmt: skip
    found = became(rows, FilterPlan(top=2))
    assert {name for name, one in found.items() if one.kept} == {"a1", "a3", "b1"}
    assert found["a2"].why == "rank"
    assert found["a2"].told == "rank 3 of 3: the best 2 are kept"
    assert (found["b2"].why, found["b2"].rank, found["b2"].score) == ("unscored", None, None)
    assert found["b2"].told == "the judge refused"
    assert (found["b1"].rank, found["b1"].of) == (1, 1)


def test_ties_at_the_cut_are_told() -> None:
    rows = [row(f"a{at}", "a", score) for at, score in enumerate((0.9, 0.5, 0.5, 0.5, 0.2))]
    rows += [row("b1", "b", 0.7), row("b2", "b", 0.5)]
    found = became(rows, FilterPlan(top=2))
    assert {name for name, one in found.items() if one.tied} == {"a1", "a2", "a3"}
    assert sum(one.tied and one.kept for one in found.values()) == 1
    lost = next(one for one in found.values() if one.tied and not one.kept)
    assert lost.told.endswith("3 share the score at the cut, of which a hash chose")
    counted = tallies(list(found.values()))
    assert {one.label: one.tied_at_the_cut for one in counted} == {"a": 3, "b": 0}
    # Nothing of that score is kept: the least score decides, and no hash.
    assert not any(one.tied for one in became(rows, FilterPlan(top=2, least=0.6)).values())
    # All of it is: there is nothing to choose.
    assert not any(one.tied for one in became(rows, FilterPlan(top=4)).values())


def test_the_score_that_ranks_can_be_chosen() -> None:
    rows = [row("a1", "a", 0.9, 0.1), row("a2", "a", 0.5, 1.0)]
    assert became(rows, FilterPlan(top=1))["a2"].kept
    assert became(rows, FilterPlan(top=1, by="s_att"))["a1"].kept
    assert became(rows, FilterPlan(top=1, by="s_style"))["a2"].kept


def test_a_score_of_zero_has_a_rank_and_a_missing_one_has_none() -> None:
    found = became([row("a1", "a", 0.0), row("a2", "a", 0.5, None)], FilterPlan(top=5))
    assert found["a1"].kept
    assert found["a2"].why == "unscored"
    assert "--style" in found["a2"].told


def test_least_drops_what_top_would_keep() -> None:
    found = became([row("a1", "a", 0.9), row("a2", "a", 0.3)], FilterPlan(top=5, least=0.5))
    assert (found["a2"].why, found["a2"].rank) == ("least", 2)
    assert found["a2"].told == "combined is 0.300, the least is 0.5"


def test_of_equal_pictures_of_a_class_one_is_ranked() -> None:
    rows = [row("a1", "a", 0.4), row("a2", "a", 0.9), row("a3", "a", 0.5), row("b1", "b", 0.2)]
    found = became(rows, FilterPlan(top=2), a1="same", a2="same", b1="same")
    assert (found["a1"].why, found["a1"].same_as) == ("duplicate", "a2")
    assert (found["a3"].rank, found["a3"].of) == (2, 2)
    assert found["b1"].kept
    assert (found["b1"].also_in, found["a2"].also_in) == (("a",), ("b",))


def test_unreadable_and_changed_pictures_are_not_kept() -> None:
    rows = [row("a1", "a", 0.9), row("a2", "a", 0.8, digest="old"), row("a3", "a", 0.1)]
    found = became(rows, FilterPlan(top=1), a1=ImageError("a1 is cut off"), a2="new")
    assert (found["a1"].why, found["a1"].told) == ("unreadable", "a1 is cut off")
    assert found["a2"].why == "changed"
    assert found["a3"].kept


def test_all_pictures_can_be_ranked_together() -> None:
    rows = [row("a1", "a", 0.9), row("a2", "a", 0.8), row("b1", "b", 0.7)]
    found = became(rows, FilterPlan(top=2, per="all"))
    assert not found["b1"].kept
    assert (found["b1"].rank, found["b1"].of) == (3, 3)


def test_the_last_row_of_a_picture_counts() -> None:
    found = became([row("a1", "a", 0.2), row("a1", "a", 0.8)], FilterPlan(least=0.5))
    assert found["a1"].kept


def test_scores_of_different_ways_are_not_ranked_together() -> None:
    rows = [row("a1", "a", 0.2), row("a2", "a", 0.3, plan="q")]
    with pytest.raises(FilterError, match="pictures of a were scored in different ways"):
        became(rows, FilterPlan(top=1))
    assert became(rows, FilterPlan(top=1, by="s_style"))


def test_a_plan_that_drops_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="nothing would be dropped"):
        FilterPlan()
    with pytest.raises(FilterError, match="no scores"):
        filter_rows([], FilterPlan(top=1), {})


def test_classes_are_counted() -> None:
    rows = [row("a1", "a", 0.9), row("a2", "a", 0.5), row("a3", "a", None)]
    (tally,) = tallies(list(became(rows, FilterPlan(top=1)).values()))
    assert (tally.pictures, dict(tally.counts)) == (3, {"kept": 1, "rank": 1, "unscored": 1})
    assert (tally.lowest_kept, tally.mean_kept, tally.mean_ranked) == (0.9, 0.9, pytest.approx(0.7))


def pictures(folder: Path, n: int = 4) -> list[RealRow]:
    """``n`` pictures of class a, the later the better."""
    (folder / "in").mkdir(parents=True)
    rows = []
    for at in range(n):
        file = folder / "in" / f"{at}.png"
        painted((12, 10), (40 * at, 10, 10)).save(file)
        digest = hash_of_image(load_image(file))
        rows.append(row(str(file), "a/b", (at + 1) / (n + 1), digest=digest, wrong=(f"leg {at}",)))
    return rows


def written(folder: Path, rows: list[RealRow], top: int, **more: object) -> list[Filtered]:
    """The result for the best ``top`` in ``folder/out``."""
    plan = FilterPlan(top=top)
    files = {one.image: Path(one.image) for one in rows}
    contents = {name: hash_of_image(load_image(file)) for name, file in files.items()}
    found = filter_rows(rows, plan, contents)
    return write_filtered(found, files, folder / "out", plan, **more)  # type: ignore[arg-type]


def manifest(folder: Path) -> list[Filtered]:
    lines = (folder / "out" / MANIFEST).read_text(encoding="utf-8").splitlines()
    return [Filtered.model_validate_json(line) for line in lines]


def kept(folder: Path) -> set[str]:
    return {file.name for file in (folder / "out" / KEPT).rglob("*") if file.is_file()}


@pytest.mark.parametrize("how", ["link", "copy"])
def test_kept_pictures_follow_the_last_filter(tmp_path: Path, how: str) -> None:
    rows = pictures(tmp_path)
    written(tmp_path, rows, 3, pictures=how)
    assert kept(tmp_path) == {"1.png", "2.png", "3.png"}
    mine = tmp_path / "out" / KEPT / "a_b" / "mine.png"
    mine.write_bytes(b"mine")
    found = written(tmp_path, rows, 1, pictures=how)
    assert kept(tmp_path) == {"3.png", "mine.png"}
    assert manifest(tmp_path) == found
    assert len(list((tmp_path / "in").iterdir())) == 4


def test_the_same_again_writes_the_same(tmp_path: Path) -> None:
    rows = pictures(tmp_path)
    written(tmp_path, rows, 2, parquet=True)
    files = [tmp_path / "out" / name for name in (MANIFEST, ABOUT, "index.html")]
    before = [file.read_bytes() for file in files]
    written(tmp_path, rows, 2, parquet=True)
    assert [file.read_bytes() for file in files] == before
    table = parquet.read_table(tmp_path / "out" / PARQUET).to_pylist()
    assert [one["kept"] for one in table] == [True, True, False, False]
    assert json.loads((tmp_path / "out" / ABOUT).read_text())["counts"] == {"kept": 2, "rank": 2}


def test_a_stopped_run_leaves_nothing_unaccounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pictures(tmp_path)
    written(tmp_path, rows, 1)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("scenewright.evals.studies.real.filtering._write_parquet", stop)
        with pytest.raises(KeyboardInterrupt):
            written(tmp_path, rows, 3, parquet=True)
    assert sum(one.kept for one in manifest(tmp_path)) == 1
    written(tmp_path, rows, 2)
    assert kept(tmp_path) == {"2.png", "3.png"}


def test_a_copy_whose_original_is_gone_stays(tmp_path: Path) -> None:
    rows = pictures(tmp_path)
    written(tmp_path, rows, 2, pictures="copy")
    Path(rows[3].image).unlink()
    written(tmp_path, rows[:3], 1, pictures="copy")
    assert kept(tmp_path) == {"2.png", "3.png"}


def test_equal_names_of_a_class_do_not_overwrite_each_other(tmp_path: Path) -> None:
    rows = []
    for at in range(2):
        file = tmp_path / str(at) / "x.png"
        file.parent.mkdir()
        painted((8, 8), (at * 90, 0, 0)).save(file)
        rows.append(row(str(file), "../a", 0.5 + at / 10))
    found = written(tmp_path, rows, 2)
    assert len({one.file for one in found}) == 2
    assert all((tmp_path / "out" / one.file).resolve().parent.parent == tmp_path for one in found)


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    rows = pictures(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(FilterError, match="holds something else"):
        written(tmp_path, rows, 1)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_the_page_shows_both_sides_with_reasons_and_escapes_names(tmp_path: Path) -> None:
    rows = pictures(tmp_path)
    spoilt = [
        one.model_copy(update={"label": "<b>cat</b>", "invisible": ("tail",)}) for one in rows
    ]
    written(tmp_path, spoilt, 1, source="scores.jsonl")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<b>cat</b>" not in page
    assert "&lt;b&gt;cat&lt;/b&gt;" in page
    assert page.count('<li class="pic out">') == 3
    assert page.count('<li class="pic">') == 1
    assert "Not visible: tail" in page
    assert "Does not hold: leg 0" in page
    assert "rank 2 of 4: the best 1 are kept" in page
    lead = page.partition('<p class="answer">')[2].partition("</p>")[0]
    assert lead.startswith("1 of 4 pictures is kept, with a mean combined score of 0.800")
    assert page.index(lead) < page.index("<h2")
    assert len(list((tmp_path / "out" / "thumbs").glob("*.webp"))) == 4
