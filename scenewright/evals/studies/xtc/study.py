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
from scenewright.evals.studies.xtc.scores import COMPARED, XtcScores, is_matched
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
        self._facts = {model: list(of_model) for model, of_model in facts.items()}
        named = dict.fromkeys(fact.scene for some in self._facts.values() for fact in some)
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
        wanted = (kind,) if kind else QUESTION_KINDS if measure == "v" else COMPARED
        sums = np.zeros((self.scenes, 2))
        for fact in self._facts[model]:
            value = _value(fact, measure)
            if (
                value is None
                or fact.kind not in wanted
                or (matched and (fact.u is None or not is_matched(fact)))
            ):
                continue
            sums[self._scenes[fact.scene]] += (value, 1.0)
        return sums

    def of(self, parts: Sequence[Array], statistic: Statistic | None = None) -> Estimate:
        """Return ``statistic`` of the means of ``parts``, by default the mean of the only one."""
        counted = [part[:, 1] > 0 for part in parts]
        n = int(np.logical_or.reduce(counted).sum())
        if not all(some.any() for some in counted):
            return nothing("nothing was scored")

        def figure(sums: Array) -> Array:
            with np.errstate(all="ignore"):
                means = sums[:, 0::2] / np.where(sums[:, 1::2] > 0, sums[:, 1::2], np.nan)
            return means[:, 0] if statistic is None else statistic(means)

        found = self._boot.figure(
            np.arange(self.scenes), [column for part in parts for column in part.T], figure
        )
        if found.value is None:
            return nothing("it is undefined for these values")
        return Estimate(value=found.value, low=found.low, high=found.high, n=n)


def _value(fact: FactScore, measure: Measure) -> float | None:
    if measure == "u":
        return fact.u
    if measure == "v":
        return fact.v
    if fact.u is None or fact.v is None:
        return None
    agreement = 1.0 - abs(fact.v - fact.u)
    return agreement if measure == "ccta" else agreement * (fact.u + fact.v) / 2


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


def _parity(sheet: Sheet) -> Iterator[Claim]:
    where = xtc_paper().statement_of("xtc_parity").number
    g, u = (xtc_paper().named(name).column("overall") for name in ("xtc2", "xtc3"))
    gaps = {model: round(u[model] - g[model], 3) for model in g}
    low, high = (min(gaps, key=lambda m: gaps[m]), max(gaps, key=lambda m: gaps[m]))
    printed = tuple(_printed(model, gaps[model]) for model in (low, high))
    for model in sheet.models:
        yield _claim(
            where=where,
            says=f"understanding outpaces generation, {model}",
            side="above",
            measured=sheet.of([sheet.part(model, "v"), sheet.part(model, "u")], _first_less),
            paper=printed,
        )


def _relations(sheet: Sheet) -> Iterator[Claim]:
    table = xtc_paper().named("xtc2")
    rest, attributes = table.column("relations"), table.column("attributes")
    gaps = {model: round(rest[model] - attributes[model], 3) for model in rest}
    ends = sorted(gaps, key=lambda model: gaps[model])
    seen: set[tuple[bytes, ...]] = set()
    for model in sheet.models:
        parts = [sheet.part(model, "u", kind) for kind in ("relation", "attribute")]
        key = tuple(part.tobytes() for part in parts)
        if key in seen:
            continue  # The same pictures under another judge: one statement, not three.
        seen.add(key)
        yield _claim(
            where=table.number,
            says=f"relations are drawn worse than attributes (every row of the table), {model}",
            side="below",
            measured=sheet.of(parts, _first_less),
            paper=(_printed(ends[0], gaps[ends[0]]), _printed(ends[-1], gaps[ends[-1]])),
        )


def _matched(sheet: Sheet) -> Iterator[Claim]:
    """Claim about the spread over models: of all facts less that of matched objects."""
    said = xtc_paper().statement_of("xtc_matched")
    for measure, table, word in (("u", "xtc2", "generation"), ("v", "xtc3", "understanding")):
        for kind, plural in _KINDS:
            printed = xtc_paper().named(table)
            whole, fit = (_range(printed.column(f"{how}{plural}")) for how in ("", "matched_"))
            yield _claim(
                where=said.number,
                says=f"scores of {plural} on matched objects lie closer together over models than "
                f"those of all ({word})"
                if measure == "u"
                else f"scores of {plural} on matched objects lie no closer together over models "
                f"than those of all ({word})",
                side="above" if measure == "u" else "within",
                margin=0.0 if measure == "u" else ALIKE,
                measured=_spreads(sheet, "u" if measure == "u" else "v", kind),
                paper=(_printed("all of them", round(whole - fit, 3)),),
                note="" if measure == "u" else "The margin is ours: the text names none.",
            )


def _spreads(sheet: Sheet, measure: Measure, kind: QuestionKind) -> Estimate:
    n = len(sheet.models)
    parts = [sheet.part(model, measure, kind) for model in sheet.models]
    parts += [sheet.part(model, measure, kind, matched=True) for model in sheet.models]
    return sheet.of(parts, lambda means: spread(means[:, :n]) - spread(means[:, n:]))


def _hallucination(sheet: Sheet) -> Claim:
    """Claim that the weakest model's gap between the two agreements is the larger one."""
    said, table = xtc_paper().statement_of("xtc_gap"), xtc_paper().named("xtc4")
    n = len(sheet.models)
    parts = [sheet.part(m, measure) for measure in ("u", "v", "ccta", "aw") for m in sheet.models]

    def statistic(means: Array) -> Array:
        u, v, ccta, aw = (means[:, at * n : (at + 1) * n] for at in range(4))
        height, gap, rows = (u + v) / 2, ccta - aw, np.arange(len(means))
        found: Array = gap[rows, height.argmin(1)] - gap[rows, height.argmax(1)]
        return np.where(np.isnan(means).any(1), np.nan, found)

    g, u = (xtc_paper().named(name).column("overall") for name in ("xtc2", "xtc3"))
    ccta, aw = table.column("ccta"), table.column("aw_ccta")
    by = sorted(ccta, key=lambda model: g[model] + u[model])
    gap = (ccta[by[0]] - aw[by[0]]) - (ccta[by[-1]] - aw[by[-1]])
    return _claim(
        where=said.number,
        says="the gap between CCTA and AW-CCTA is larger for the weakest model than for the "
        "strongest, by the mean of G and U",
        side="above",
        measured=sheet.of(parts, statistic),
        paper=(_printed(f"{by[0]} less {by[-1]}", round(gap, 3)),),
        note="Each resample finds its own weakest and strongest.",
    )


def _orders(sheet: Sheet) -> Iterator[Claim]:
    said, table = xtc_paper().statement_of("xtc_parity"), xtc_paper().named("xtc4")
    n = len(sheet.models)
    g, u = (xtc_paper().named(name).column("overall") for name in ("xtc2", "xtc3"))
    measures: tuple[tuple[Measure, str, str], ...] = (
        ("ccta", "CCTA", "ccta"),
        ("aw", "AW-CCTA", "aw_ccta"),
    )
    for side, column, letter in (("u", g, "G"), ("v", u, "U")):
        for measure, name, key in measures:
            first: Measure = "u" if side == "u" else "v"
            parts = [sheet.part(m, which) for which in (first, measure) for m in sheet.models]
            yield _claim(
                where=said.number,
                says=f"{letter} alone does not reliably predict {name}: Spearman over models "
                f"less {RELIABLE}",
                side="below",
                measured=sheet.of(
                    parts, lambda means: rank_correlation(means[:, :n], means[:, n:]) - RELIABLE
                ),
                paper=(_printed(_BOTH, _rho(column, table.column(key)) - RELIABLE),),
                note="The threshold is ours: the text names none.",
            )
    parts = [sheet.part(m, which) for which in ("u", "v", "aw") for m in sheet.models]
    distance = {model: abs(u[model] - g[model]) for model in g}
    yield _claim(
        where=said.number,
        says="models closer to the parity line of G and U have a higher AW-CCTA: Spearman over "
        "models of |U − G| and AW-CCTA",
        side="below",
        measured=sheet.of(
            parts,
            lambda means: rank_correlation(
                np.abs(means[:, n : 2 * n] - means[:, :n]), means[:, 2 * n :]
            ),
        ),
        paper=(_printed(_BOTH, _rho(distance, table.column("aw_ccta"))),),
    )


def _first_less(means: Array) -> Array:
    return means[:, 0] - means[:, 1]


def _range(column: dict[str, float]) -> float:
    return max(column.values()) - min(column.values())


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
