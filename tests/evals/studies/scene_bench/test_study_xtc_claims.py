"""XTC-Bench's statements against models of known heights, and its printed numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.evals.statistics.estimates import rank_agreement, rank_correlation
from scenewright.evals.studies.paper import Claim, psg_paper, xtc_paper
from scenewright.evals.studies.xtc.base import FactScore
from scenewright.evals.studies.xtc.scores import COMPARED, xtc_scores
from scenewright.evals.studies.xtc.study import Sheet, claims_of
from tests.evals.studies.scene_bench.xtc_facts import HEIGHTS, made_facts

TEXT = Path(__file__).parents[5] / "shared" / "seeds" / "xtc-bench.txt"
SUPPLEMENT = TEXT.with_name("psg-bench-supplement.txt")


@pytest.fixture(scope="module")
def claims() -> tuple[Claim, ...]:
    return claims_of(Sheet(made_facts()))


def about(claims: tuple[Claim, ...], words: str) -> list[Claim]:
    found = [claim for claim in claims if words in claim.says]
    assert found, words
    return found


def test_parity_is_found_model_by_model(claims: tuple[Claim, ...]) -> None:
    verdicts = {
        claim.says.rpartition(", ")[2]: claim for claim in about(claims, "understanding outpaces")
    }
    assert set(verdicts) == set(HEIGHTS)
    for model, (drawn, understood) in HEIGHTS.items():
        gap = verdicts[model].measured.value
        assert gap == pytest.approx(understood - drawn, abs=0.07)
    assert verdicts["bare + sharp"].verdict == "agrees"
    assert verdicts["composed + dull"].verdict == "disagrees"


def test_pictures_that_are_alike_are_one_statement(claims: tuple[Claim, ...]) -> None:
    assert len(about(claims, "relations are drawn worse")) == 2


def test_matched_scores_converge_where_missing_objects_make_the_difference(
    claims: tuple[Claim, ...],
) -> None:
    for claim in about(claims, "lie closer together"):
        assert claim.verdict == "agrees"
    for claim in about(claims, "no closer together"):
        # What a model says of the reference picture has nothing to do with partners.
        assert abs(claim.measured.value or 9.0) < 0.1


def test_hallucination_shows_in_the_gap(claims: tuple[Claim, ...]) -> None:
    (claim,) = about(claims, "the gap between CCTA and AW-CCTA")
    assert claim.verdict == "agrees"
    # Table 4: Show-o's 0.509 − 0.054 less Gemini's 0.706 − 0.623.
    assert claim.paper[0].value == pytest.approx(0.372)
    assert claim.paper[0].model == "Show-o less Gemini-2.5 Flash"


def test_the_papers_own_order_is_shown_beside(claims: tuple[Claim, ...]) -> None:
    (claim,) = about(claims, "G alone does not reliably predict AW-CCTA")
    g, aw = xtc_paper().named("xtc2").column("overall"), xtc_paper().named("xtc4")
    names = list(aw.column("aw_ccta"))
    from scipy.stats import spearmanr

    rho = spearmanr([g[n] for n in names], [aw.column("aw_ccta")[n] for n in names]).statistic
    assert claim.paper[0].value == pytest.approx(rho - 0.9, abs=5e-4)
    assert claim.paper[0].value > 0


def test_one_model_alone_has_no_order() -> None:
    facts = made_facts(20)
    few = claims_of(Sheet({"bare + dull": facts["bare + dull"]}))
    assert {claim.where for claim in few} == {"XTC-Bench, Fig. 4", "XTC-Bench, Table 2"}
    assert claims_of(Sheet({})) == ()


def test_the_sheet_has_the_means_of_the_scores() -> None:
    facts = made_facts(12)
    sheet = Sheet(facts)
    for model, some in facts.items():
        scores = xtc_scores(some)
        for measure, figure in (
            ("u", scores.overall.generation),
            ("v", scores.overall.understanding),
            ("ccta", scores.overall.ccta),
            ("aw", scores.overall.aw_ccta),
        ):
            found = sheet.of([sheet.part(model, measure)])  # type: ignore[arg-type]
            assert found.value == pytest.approx(figure.value)
        matched = sheet.of([sheet.part(model, "u", "relation", matched=True)])
        assert matched.value == pytest.approx(scores.matched_kinds["relation"].generation.value)


def test_unscored_sides_are_left_out_and_counted() -> None:
    def fact(number: int, u: float | None, v: float | None) -> FactScore:
        return FactScore(
            scene="s", question=str(number), kind=COMPARED[0], category="", matched=True, u=u, v=v
        )

    sheet = Sheet({"m": [fact(0, 0.4, None), fact(1, None, 0.2), fact(2, 0.0, 1.0)]})
    means = [sheet.of([sheet.part("m", measure)]).value for measure in ("u", "v", "ccta")]  # type: ignore[arg-type]
    assert means == [pytest.approx(0.2), pytest.approx(0.6), 0.0]
    assert sheet.of([sheet.part("m", "u", "relation")]).reason == "nothing was scored"


def test_rank_agreement_has_an_interval_and_leaves_gaps_out() -> None:
    rng = np.random.default_rng(1)
    a = rng.random(40)
    b = a + 0.3 * rng.random(40)
    found = rank_agreement(np.append(a, np.nan), np.append(b, 9.0))
    assert found.n == 40
    assert (found.low or 0) < (found.value or 0) < (found.high or 0) <= 1
    assert rank_agreement(a, np.ones(40)).value is None
    assert rank_agreement(a[:2], b[:2]).reason


@given(st.lists(st.tuples(*2 * [st.integers(0, 5)]), min_size=3, max_size=12))
@settings(max_examples=60, deadline=None)
def test_rank_correlation_is_scipys(pairs: list[tuple[int, int]]) -> None:
    from scipy.stats import spearmanr

    a, b = (np.array([side], float) for side in zip(*pairs, strict=True))
    found = rank_correlation(a, b)[0]
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(a[0], b[0]).statistic)


@pytest.mark.skipif(not TEXT.exists(), reason="the paper's text is not on this machine")
@pytest.mark.parametrize(
    ("table", "head"),
    [
        ("xtc2", "| Model | Overall Gen."),
        ("xtc3", "| Model | Overall Und."),
        ("xtc4", "| Model | CCTA |"),
    ],
)
def test_every_number_stands_in_the_paper(table: str, head: str) -> None:
    lines = TEXT.read_text(encoding="utf-8").splitlines()
    found = xtc_paper().named(table)
    at = next(n for n, line in enumerate(lines) if line.startswith(head))
    for row in found.rows:
        shown = [
            f"{value:.{digits}f}" + ("%" if column == "nodes" else "")
            for value, digits, column in zip(row.values, found.digits, found.columns, strict=True)
        ]
        assert f"| {row.model} | {' | '.join(shown)} |" in lines[at : at + 14]


@pytest.mark.skipif(not SUPPLEMENT.exists(), reason="the supplement is not on this machine")
def test_every_number_stands_in_the_supplement() -> None:
    text = SUPPLEMENT.read_text(encoding="utf-8")
    for table in psg_paper().table:
        scores = [f"{row.values[1]:g}" for row in table.rows]
        line = "\t".join(f"PSG-Score: {score}" for score in scores)
        (after,) = [rest for rest in text.split(line)[1:]]
        people = after.strip().splitlines()[0].replace(" 🏆", "").split("\t")
        assert people == [f"Human: {row.values[2]:g}" for row in table.rows]
