"""Tables 2, 3 and 4 and Fig. 4 of XTC-Bench: what a model draws against what it understands.

No model of the miniature both draws and answers. Two ways of drawing and three judges that answer
make six pairs, which stand in for unified models: what a pair draws and what it understands come
from different weights. Pictures and answers that pairs share are made once.

A mean is over facts, as in XTC-Bench (Eqs. 4 to 7); a resample draws scenes, each with all of its
facts and of all models alike, so that differences of models are paired by scene. The statements of
XTC-Bench's text about its models are held against the models measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scenewright.config.settings import Settings, find_profile
from scenewright.evals.runner.forecast import CostForecast, CostLine
from scenewright.evals.statistics.estimates import (
    RESAMPLES,
    Array,
    Estimate,
    nothing,
    rank_correlation,
)
from scenewright.evals.statistics.figures import Bootstrap
from scenewright.evals.studies.paper import Claim, Printed, xtc_paper
from scenewright.evals.studies.study import (
    MINIATURE,
    Context,
    Outcome,
    Setup,
    StudyDefinition,
    StudyError,
    Trial,
)
from scenewright.evals.studies.xtc.base import QUESTION_KINDS, FactScore, QuestionKind
from scenewright.evals.studies.xtc.config import ModelSpec, XtcConfig
from scenewright.evals.studies.xtc.report import plot_of, tables_of
from scenewright.evals.studies.xtc.scores import COMPARED, FactArrays, XtcScores
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenewright.evals.runner.progress import OnProgress
    from scenewright.evals.studies.xtc.report import XtcResults

Measure = Literal["u", "v", "ccta", "aw"]
"""Of one fact: generation u, understanding v, agreement 1 − |v − u|, and that times (u + v) / 2."""
Statistic = Callable[[Array], Array]
"""From means (resamples, parts) to one number each, NaN where it is undefined."""


class Sheet:
    """The scores of all facts, by model."""

    def __init__(self, facts: Mapping[str, Sequence[FactScore]]) -> None:
        """Hold the facts of each model."""
        self._facts = {model: FactArrays(of_model) for model, of_model in facts.items()}
        named = dict.fromkeys(scene for some in self._facts.values() for scene in some.scenes)
        self._scenes = {scene: at for at, scene in enumerate(named)}
        self._boot = Bootstrap(max(1, len(named)), resamples=RESAMPLES)

    @property
    def models(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._facts)

    @property
    def scenes(self) -> int:
        """Scenes with facts."""
        return len(self._scenes)

    def part(
        self,
        model: str,
        measure: Measure,
        kind: QuestionKind | None = None,
        matched: bool = False,
    ) -> Array:
        """Return (scenes, 2): sum and count of ``measure`` over facts of ``model`` with it.

        Of one ``kind``; without, of all kinds for ``v``, else of those that
        :data:`~scenewright.evals.studies.xtc.scores.COMPARED` names. ``matched``: only those whose
        objects have partners, and of relations the edge too.
        """
        facts = self._facts[model]
        values: Array = getattr(facts, measure)
        kinds = (kind,) if kind else QUESTION_KINDS if measure == "v" else COMPARED
        chosen = ~np.isnan(values) & np.isin(facts.kinds, kinds)
        if matched:
            chosen &= facts.matched
        at = np.array([self._scenes[scene] for scene in facts.scenes], np.intp)[chosen]
        weights = (values[chosen], None)
        return np.stack([np.bincount(at, w, self.scenes) for w in weights], axis=1).astype(float)

    def of(self, parts: Sequence[Array], statistic: Statistic = lambda m: m[:, 0]) -> Estimate:
        """Return ``statistic`` of the means of ``parts``, by default the first of them."""
        counted = [part[:, 1] > 0 for part in parts]
        n = int(np.logical_or.reduce(counted).sum())
        if not all(some.any() for some in counted):
            return nothing("nothing was scored")

        def figure(sums: Array) -> Array:
            with np.errstate(all="ignore"):
                return statistic(sums[:, 0::2] / np.where(sums[:, 1::2] > 0, sums[:, 1::2], np.nan))

        found = self._boot.figure(
            np.arange(self.scenes), [column for part in parts for column in part.T], figure
        )
        if found.value is None:
            return nothing("it is undefined for these values")
        return Estimate(value=found.value, low=found.low, high=found.high, n=n)


def spread(values: Array) -> Array:
    """Return the largest less smallest of each row."""
    found: Array = values.max(1) - values.min(1)
    return found


ALIKE = 0.05
"""Difference of two spreads that counts as none."""
RELIABLE = 0.9
"""Rank correlation from which one score would reliably predict another."""
_KINDS: tuple[tuple[QuestionKind, str], ...] = (
    ("attribute", "attributes"),
    ("relation", "relations"),
)
_BOTH = "XTC-Bench's nine models"
_OF_MODELS = "The threshold is ours: the text names none."
_claim = partial(Claim, unit="", digits=3)


def claims_of(sheet: Sheet) -> tuple[Claim, ...]:
    """Return a claim for every statement that can be measured."""
    if sheet.scenes == 0 or not sheet.models:
        return ()
    found = [*_parity(sheet), *_relations(sheet)]
    if len(sheet.models) > 1:
        found += [*_matched(sheet), _hallucination(sheet)]
    if len(sheet.models) > 2:
        found += list(_orders(sheet))
    return tuple(found)


def _column(table: str, key: str) -> dict[str, float]:
    """Return by model a column of the paper's table."""
    return xtc_paper().named(table).column(key)


def _where(statement: str) -> str:
    return xtc_paper().statement_of(statement).number


def _ends(more: dict[str, float], less: dict[str, float]) -> tuple[Printed, ...]:
    """Return the smallest and the largest difference of two columns of the paper."""
    gaps = {model: round(more[model] - less[model], 3) for model in less}
    ordered = sorted(gaps, key=lambda model: gaps[model])
    return tuple(_printed(model, gaps[model]) for model in (ordered[0], ordered[-1]))


def _parity(sheet: Sheet) -> Iterator[Claim]:
    printed = _ends(_column("xtc3", "overall"), _column("xtc2", "overall"))
    for model in sheet.models:
        yield _claim(
            where=_where("xtc_parity"),
            says=f"understanding outpaces generation, {model}",
            side="above",
            measured=sheet.of([sheet.part(model, "v"), sheet.part(model, "u")], _first_less),
            paper=printed,
        )


def _relations(sheet: Sheet) -> Iterator[Claim]:
    printed = _ends(_column("xtc2", "relations"), _column("xtc2", "attributes"))
    seen: set[bytes] = set()
    for model in sheet.models:
        parts = [sheet.part(model, "u", kind) for kind in ("relation", "attribute")]
        key = np.stack(parts).tobytes()
        if key in seen:
            continue  # The same pictures under another judge: one statement, not three.
        seen.add(key)
        yield _claim(
            where=xtc_paper().named("xtc2").number,
            says=f"relations are drawn worse than attributes (every row of the table), {model}",
            side="below",
            measured=sheet.of(parts, _first_less),
            paper=printed,
        )


def _matched(sheet: Sheet) -> Iterator[Claim]:
    """Claim about the spread over models: of all facts less that of matched objects."""
    n = len(sheet.models)
    measures: tuple[tuple[Measure, str, str], ...] = (
        ("u", "xtc2", "generation"),
        ("v", "xtc3", "understanding"),
    )
    for measure, table, word in measures:
        for kind, plural in _KINDS:
            ends = (_column(table, f"{how}{plural}").values() for how in ("", "matched_"))
            whole, fit = (max(values) - min(values) for values in ends)
            parts = [
                sheet.part(model, measure, kind, matched)
                for matched in (False, True)
                for model in sheet.models
            ]
            drawn = measure == "u"
            closer = "closer" if drawn else "no closer"
            yield _claim(
                where=_where("xtc_matched"),
                says=f"scores of {plural} on matched objects lie {closer} together over models "
                f"than those of all ({word})",
                side="above" if drawn else "within",
                margin=0.0 if drawn else ALIKE,
                measured=sheet.of(parts, lambda means: spread(means[:, :n]) - spread(means[:, n:])),
                paper=(_printed("all of them", whole - fit),),
                note="" if drawn else "The margin is ours: the text names none.",
            )


def _hallucination(sheet: Sheet) -> Claim:
    """Claim that the weakest model's gap between the two agreements is the larger one."""
    measures: tuple[Measure, ...] = ("u", "v", "ccta", "aw")
    n = len(sheet.models)
    parts = [sheet.part(model, measure) for measure in measures for model in sheet.models]

    def statistic(means: Array) -> Array:
        u, v, ccta, aw = (means[:, at * n : (at + 1) * n] for at in range(4))
        height, gap, rows = (u + v) / 2, ccta - aw, np.arange(len(means))
        found: Array = gap[rows, height.argmin(1)] - gap[rows, height.argmax(1)]
        return np.where(np.isnan(means).any(1), np.nan, found)

    g, u = _column("xtc2", "overall"), _column("xtc3", "overall")
    ccta, aw = _column("xtc4", "ccta"), _column("xtc4", "aw_ccta")
    by = sorted(ccta, key=lambda model: g[model] + u[model])
    gap = (ccta[by[0]] - aw[by[0]]) - (ccta[by[-1]] - aw[by[-1]])
    return _claim(
        where=_where("xtc_gap"),
        says="the gap between CCTA and AW-CCTA is larger for the weakest model than for the "
        "strongest, by the mean of G and U",
        side="above",
        measured=sheet.of(parts, statistic),
        paper=(_printed(f"{by[0]} less {by[-1]}", gap),),
        note="Each resample finds its own weakest and strongest.",
    )


def _orders(sheet: Sheet) -> Iterator[Claim]:
    """Claim what ranks of the models predict: of one side, and of the distance from parity."""
    n = len(sheet.models)
    g, u = _column("xtc2", "overall"), _column("xtc3", "overall")
    sides: tuple[tuple[Measure, str, dict[str, float]], ...] = (("u", "G", g), ("v", "U", u))
    agreements: tuple[tuple[Measure, str, str], ...] = (
        ("ccta", "CCTA", "ccta"),
        ("aw", "AW-CCTA", "aw_ccta"),
    )
    _order = partial(_claim, where=_where("xtc_parity"), side="below")
    for side, letter, column in sides:
        for measure, name, key in agreements:
            parts = [
                sheet.part(model, which) for which in (side, measure) for model in sheet.models
            ]
            yield _order(
                says=f"{letter} alone does not reliably predict {name}: Spearman over models "
                f"less {RELIABLE}",
                measured=sheet.of(
                    parts, lambda means: rank_correlation(means[:, :n], means[:, n:]) - RELIABLE
                ),
                paper=(_printed(_BOTH, _rho(column, _column("xtc4", key)) - RELIABLE),),
                note=_OF_MODELS,
            )
    three: tuple[Measure, ...] = ("u", "v", "aw")
    distance = {model: abs(u[model] - g[model]) for model in g}
    yield _order(
        says="models closer to the parity line of G and U have a higher AW-CCTA: Spearman over "
        "models of |U − G| and AW-CCTA",
        measured=sheet.of(
            [sheet.part(model, which) for which in three for model in sheet.models],
            lambda means: rank_correlation(
                np.abs(means[:, n : 2 * n] - means[:, :n]), means[:, 2 * n :]
            ),
        ),
        paper=(_printed(_BOTH, _rho(distance, _column("xtc4", "aw_ccta"))),),
    )


def _first_less(means: Array) -> Array:
    return means[:, 0] - means[:, 1]


def _rho(a: dict[str, float], b: dict[str, float]) -> float:
    both = [model for model in a if model in b]
    pair = (np.array([[values[model] for model in both]]) for values in (a, b))
    return float(rank_correlation(*pair)[0])


def _printed(model: str, value: float) -> Printed:
    return Printed(model=model, value=round(value, 3), digits=3)


MOST_SCENES = 40
"""Scenes of the miniature's study: each is drawn twice and asked about three times over."""
CONDITIONS: dict[str, str] = {"composition": "composed", "triplets": "bare triplets"}
"""Way of drawing → how models that draw so are called."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an evaluation by XTC-Bench found."""

    facts: Mapping[str, tuple[FactScore, ...]]
    """Model → its facts."""
    scores: Mapping[str, XtcScores]
    """Model → its figures."""


def _lacks(setup: Setup) -> str:
    return setup.missing_extractor or setup.missing_understanders


def config_of(setup: Setup) -> XtcConfig:
    """Return the evaluation.

    Raises ``StudyError`` if the profile lacks an extractor or understanders.
    """
    if why := _lacks(setup):
        raise StudyError(why)
    most = min(setup.scenes, MOST_SCENES) if setup.synthetic else setup.scenes
    scenes = setup.model_copy(update={"n": most}).set_of_scenes()
    return XtcConfig(
        name="study-xtc",
        about=f"XTC-Bench's tables ({setup.profile})",
        dataset=scenes,
        models={
            f"{title} + {short}": ModelSpec(
                profile=setup.profile, condition=condition, understander=understander
            )
            for condition, title in CONDITIONS.items()
            for short, understander in setup.named_understanders().items()
        },
        extractor=setup.graph_extractor(),
        seeds=setup.seeds[:1],
        concurrency=setup.concurrency,
        on_model_change=setup.on_model_change,
    )


def requirements(setup: Setup, settings: Settings) -> tuple[Trial, ...]:
    """Return an evaluation by XTC-Bench in place of one by metrics."""
    config = config_of(setup)
    settings = _with_steps(setup, settings)
    items = config.dataset.options.get("n") or config.dataset.limit or setup.scenes
    here = setup.synthetic and not setup.understanders
    return (
        Trial(
            "xtc",
            "XTC-Bench",
            int(items),
            "scenes",
            partial(_run, config, settings),
            None if here else partial(_costs, config, settings),
        ),
    )


def _with_steps(setup: Setup, settings: Settings) -> Settings:
    """Return the settings with the setup's denoising steps in its profile."""
    if setup.steps is None:
        return settings
    profile = find_profile(setup.profile, settings).model_dump(mode="json", exclude_unset=True)
    own = {**settings.profiles, setup.profile: {**profile, "steps": setup.steps}}
    return settings.model_copy(update={"profiles": own})


async def _costs(config: XtcConfig, settings: Settings) -> CostForecast:
    """Return the forecast by the questions that will be asked.

    Of an extractor by language models the calls depend on what is seen: they are not counted.
    """
    from scenewright.evals.studies.xtc.running import plan_xtc

    with TemporaryDirectory() as folder:
        plan = await plan_xtc(config, settings, Path(), Path(folder))
    name = str(config.extractor)
    if name.startswith(MINIATURE):
        return plan.costs
    reads = CostLine.of(f"the extractor {name}", "reads pictures", ExpectedUsage(usd=None))
    return CostForecast((*plan.costs.lines, reads))


async def _run(
    config: XtcConfig, settings: Settings, folder: Path, on_progress: OnProgress | None, retry: bool
) -> tuple[Found, Context]:
    from scenewright.evals.studies.xtc.running import run_xtc

    results = await run_xtc(
        config, folder, settings=settings, root=folder.parent, retry=retry, on_progress=on_progress
    )
    facts = {model: tuple(some) for model, some in results.fact_scores().items()}
    return Found(facts, results.scores()), context_of(results)


def context_of(results: XtcResults) -> Context:
    """Return the set, models, size and cost of an evaluation by XTC-Bench."""
    manifest = results.manifest
    models = manifest["models"]
    parts: list[dict[str, str]] = list(models["models"].values())
    return Context(
        set_name=manifest["dataset"]["name"],
        fingerprint=manifest["dataset"]["fingerprint"],
        items=results.table("items").num_rows,
        seeds=tuple(manifest["config"]["seeds"]),
        backends=tuple(sorted({part["backend"] for part in parts if "backend" in part})),
        models={
            "understood by": ", ".join(
                sorted({part["understander"] for part in parts if "understander" in part})
            ),
            "graphs read by": models["extractor"]["id"],
            "texts compared by": models["similarity"],
            "graded by": models["grader"]["id"],
        },
        totals=manifest.get("totals", {}),
    )


def outcome(setup: Setup, settings: Settings, found: tuple[Found, ...]) -> Outcome:
    """Return the three tables, the plot of U over G, and the text's statements."""
    (one,) = found
    sheet = Sheet(one.facts)
    return Outcome(
        tables_of(one.scores),
        claims_of(sheet),
        lambda: _plot(setup, one),
        _notes(setup, one, sheet),
        _data(one),
    )


def _plot(setup: Setup, found: Found) -> Figure:
    return plot_of(found.scores, f"Understanding over generation, {setup.profile}")


def _data(found: Found) -> dict[str, Any]:
    """Return the quadrants, covariances, and what was not scored, by model."""
    return {
        model: {
            "quadrants": dict(scores.overall.quadrants),
            "covariance": scores.overall.covariance.model_dump(mode="json"),
            "facts": scores.overall.facts,
            "compared": scores.overall.both,
            "absent": scores.overall.absent,
            "unscored_generation": scores.overall.unscored_generation,
            "unscored_understanding": scores.overall.unscored_understanding,
            "unasked": scores.unasked,
        }
        for model, scores in found.scores.items()
    }


def _notes(setup: Setup, found: Found, sheet: Sheet) -> tuple[str, ...]:
    notes = [
        "Rows that begin with *paper:* hold the paper's figures alone; none of its models was run "
        "here.",
        "Overall generation, CCTA and AW-CCTA are over attributes and relations, as the paper's "
        "printed figures are (docs/xtc.md); overall understanding is over all questions.",
    ]
    if setup.synthetic:
        notes += [
            "No model here both draws and answers: each is a way of drawing and a judge, whose "
            "weights have nothing in common. Models that draw alike have the same pictures, "
            "so G has two values, and rank correlations over models have ties.",
            "The extractor asks judge-a and judge-b, so models that understand by judge-a share "
            "its errors with what reads their pictures; judge-c and judge-weak share none.",
        ]
    for model, scores in found.scores.items():
        whole = scores.overall
        lost = whole.unscored_generation + whole.unscored_understanding
        if lost:
            notes.append(
                f"{model}: {whole.unscored_generation} of {whole.facts} facts unscored in "
                f"generation, {whole.unscored_understanding} in understanding, left out."
            )
    first = next(iter(found.scores.values()), None)
    if first is not None and first.overall.facts:
        notes.append(
            f"{first.overall.facts} questions over {sheet.scenes} scenes; {first.unasked} facts "
            "are in no question: their object cannot be singled out."
        )
    return tuple(notes)


STUDY = StudyDefinition(
    "xtc",
    "xtc",
    "XTC-Bench, Tables 2–4 and Fig. 4",
    "what models draw against what they understand",
    requirements,
    outcome,
    paper=xtc_paper,
    unsupported_reason=_lacks,
)
