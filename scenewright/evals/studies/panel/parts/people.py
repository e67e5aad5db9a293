"""How well judges and panels agree with people, and how well they could."""

from __future__ import annotations

import asyncio

from pydantic import Field

from scenewright.evals.studies.panel.attacks import Learning, combined
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.parts.people_page import Agreement, Voter, page
from scenewright.evals.studies.panel.people import Ceilings, People, scores_of


class PeopleOptions(Options):
    """Options of the study of agreement with people."""

    aggregators: tuple[str, ...] = Field(
        default=("mean", "median", "majority", "dawid_skene"), min_length=1
    )
    """Ways to combine the judges. What learns from truth or ratings does so on other items; those
    that have nothing to learn from are left out."""
    void: bool = True
    """Whether facts under an absent parent count 0."""
    splits: int = Field(default=100, ge=1, le=10_000)
    """Random halves of the raters."""


async def run(context: PanelStudyContext, options: PeopleOptions) -> PanelStudyResult:
    """Measures it all and writes the page."""
    return page(await asyncio.to_thread(_measured, context, options))


def _measured(context: PanelStudyContext, options: PeopleOptions) -> Agreement:
    table = context.table
    people = People(table, context.resamples, options.splits, context.seed)
    likely = {judge: table.said[:, at] for at, judge in enumerate(table.judge_ids)}
    learning, left_out = Learning(table, context.learn, context.seed), []
    for name in options.aggregators:
        try:
            likely[name] = combined(name, table, learning)
        except PanelStudyError as error:
            left_out.append(f"{name} ({error})")
    ceilings: Ceilings | None = None
    why = ""
    try:
        ceilings = people.ceilings()
    except PanelStudyError as error:
        why = str(error)
    models = sorted({image.model for image in table.images} - {""})
    voters = []
    scores = scores_of(table, likely, options.void)
    for done, (name, values) in enumerate(scores.items()):
        context.told(done, len(scores))
        found = people.spearman(values)
        order, gaps = people.order_of_models(values)
        voters.append(
            Voter(
                name=name,
                judge=name in table.judge_ids,
                scores=values,
                spearman=found,
                kendall=people.kendall(values),
                pearson=people.pearson(values),
                within=people.within_items(values),
                share=people.corrected(found, ceilings) if ceilings else None,
                as_rater=people.as_a_rater(values) if ceilings else None,
                by_model={model: people.of_model(values, model) for model in models},
                order=order,
                gaps=gaps,
                means=people.model_means(values),
            )
        )
    context.told(len(scores), len(scores))
    return Agreement(
        n_images=int(people.rated.sum()),
        n_items=table.n_items,
        ratings=table.ratings,
        voters=tuple(voters),
        ceilings=ceilings,
        no_ceiling=why,
        models=tuple(models),
        rating_means=people.model_means(table.ratings),
        left_out=tuple(left_out),
        void=options.void,
    )


PART = PanelStudy(
    name="people",
    title="Agreement with people",
    about="How well do judges and panels agree with people, and how well could they?",
    needs=frozenset({"ratings"}),
    options=PeopleOptions,
    run=run,
)
