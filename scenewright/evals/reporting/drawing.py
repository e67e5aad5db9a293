"""Which plots a report holds."""

from __future__ import annotations

from scenewright.evals.reporting.facets import Facet, in_order
from scenewright.evals.reporting.grids import Grids, column_title
from scenewright.evals.reporting.plots import Plot, Series, dots, lines
from scenewright.evals.reporting.score_matrix import Column

MAIN = "sgscore"
MOST_WAYS = 8
"""Ways of drawing in a plot of several series: as many as there are markers."""


def main_columns(columns: list[Column]) -> list[Column]:
    """The scores that the plots show: SGScore by each panel, else the first score."""
    found = [column for column in columns if column.metric == MAIN and not column.part]
    return found or columns[:1]


def plots_of(grids: Grids) -> tuple[list[Plot], list[str]]:
    """The plots, and what was left out of them."""
    score_matrix = grids.score_matrix
    chosen = main_columns(score_matrix.columns())
    if not chosen or not score_matrix.arms:
        return [], []
    column, ways = chosen[0], list(score_matrix.ways)
    name = "SGScore" if column.metric == MAIN else column.metric
    by = f" by {column.panel}" if len(chosen) > 1 else ""
    notes = []
    found = [
        dots("arms", f"{name}{by}, by arm", ways,
             [Series(column_title(column), tuple(grids.figures(column)))], name)
    ]  # fmt: skip
    if len(chosen) > 1:
        series = [Series(each.panel, tuple(grids.figures(each))) for each in chosen[:MOST_WAYS]]
        found.append(dots("panels", f"{name} by each panel of judges", ways, series, name))
    if len(ways) > MOST_WAYS:
        notes.append(
            f"Plots by class show the first {MOST_WAYS} of {len(ways)} arms; the tables have all."
        )
    complexity = _by(grids, column, "complexity", ways[:MOST_WAYS])
    if complexity is not None:
        places, series = complexity
        title = f"{name}{by}, by complexity"
        found.append(lines("complexity", title, places, series, name, "relations of the scene"))
    facets: tuple[Facet, ...] = ("level", "group", "category")
    for facet in facets:
        classes = _by(grids, column, facet, ways[:MOST_WAYS])
        if classes is not None:
            places, series = classes
            found.append(dots(facet, f"{name}{by}, by {facet}", places, series, name))
    return found, notes


def _by(
    grids: Grids, column: Column, facet: Facet, ways: list[str]
) -> tuple[list[str], list[Series]] | None:
    of = grids.score_matrix.facets[facet]
    places = in_order(facet, of)
    if len(places) < 2:
        return None
    table = [grids.figures(column, of == place) for place in places]
    return places, [Series(way, tuple(row[at] for row in table)) for at, way in enumerate(ways)]
