"""``scenewright object-realism analyse``: what a set of rated objects says by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli.console import clear_errors, console, print_json
from scenewright.cli.refine import JsonOption

if TYPE_CHECKING:
    from rich.table import Table

    from scenewright.evals.human_ratings.objects.analysis import Group, Raters
    from scenewright.evals.human_ratings.objects.data import RatedObject
    from scenewright.evals.statistics.figures import Figure
    from scenewright.evals.studies.olip.salience import Selected

HELP = """What a set of rated objects says: image realism by objects, discrepancy, agreement.

Table 2 (rank correlation of object and image realism), Figure 8 (how many of the largest objects
tell of the image), the discrepancy of shape and texture by source and category, and how far the
raters agree. What the set has no ratings for is left out, with the reason.

Example:

  scenewright object-realism analyse rated/

Exit codes: 0 done; 2 wrong input; 130 interrupted.
"""


def analyse(
    rated: Annotated[
        Path,
        typer.Argument(
            metavar="SET",
            help="Folder of rated objects: objects.jsonl and its pictures (docs/olip.md).",
            show_default=False,
        ),
    ],
    seed: Annotated[
        int, typer.Option("--seed", "-s", min=0, help="Of the resamples and the folds.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Registered with :data:`HELP`."""
    with clear_errors():
        from scenewright.core.ports.realism_scorer import RealismError
        from scenewright.evals.human_ratings.objects.analysis import (
            discrepancy,
            image_correlations,
            raters,
        )
        from scenewright.evals.human_ratings.objects.data import read_objects
        from scenewright.evals.studies.olip.salience import select_ranks

        objects = read_objects(rated)
        if not objects:
            raise RealismError(f"{rated} holds no objects: there is nothing to analyse")

        def apart() -> dict[str, dict[str, Group]]:
            keys: dict[str, Callable[[RatedObject], str] | None] = {
                "all": None,
                "source": lambda o: o.source or "unknown",
                "category": lambda o: o.category,
            }
            return {name: discrepancy(objects, by=by, seed=seed) for name, by in keys.items()}

        parts: dict[str, tuple[Callable[[], Any], Callable[[Any], Table]]] = {
            "correlation": (lambda: image_correlations(objects, seed=seed), _correlation_table),
            "salience": (lambda: select_ranks(objects, seed=seed), _salience_table),
            "discrepancy": (apart, _discrepancy_table),
            "raters": (lambda: raters(objects, seed=seed), _raters_table),
        }
        shown = console()
        told: dict[str, Any] = {"objects": len(objects), "left_out": {}}
        for name, (work, table) in parts.items():
            try:
                found = work()
            except RealismError as error:
                told["left_out"][name] = str(error)
                if not as_json:
                    shown.print(Text(f"{name}: {error}"), soft_wrap=True)
                continue
            told[name] = _plain(found)
            if not as_json:
                shown.print(table(found))
        if as_json:
            print_json(told)


def _plain(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {key: _plain(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    return found.model_dump(mode="json")


def _correlation_table(found: Mapping[str, Mapping[str, Figure]]) -> Table:
    from scenewright.cli.tables import plain_table

    table = plain_table("objects", "shape", "texture", "joint", "n")
    for row, figures in found.items():
        n = str(figures["joint"].n)
        shown = row.replace("_", " ")
        table.add_row(shown, *(figures[a].text(2) for a in ("shape", "texture", "joint")), n)
    return table


def _salience_table(found: Sequence[Selected]) -> Table:
    from scenewright.cli.tables import plain_table

    table = plain_table("objects", "MSE ↓", "R² ↑", "ranks by size")
    for one in found:
        ranks = ", ".join(map(str, one.kept)) or "none: a constant"
        table.add_row(str(len(one.kept)), one.mse.text(2), one.r2.text(2), ranks)
    return table


def _discrepancy_table(found: Mapping[str, Mapping[str, Group]]) -> Table:
    from scenewright.cli.tables import plain_table

    table = plain_table("of", "", "0", "1", "2", "≥ 3", "share ≥ 2", "shape ~ texture")
    for by, groups in found.items():
        for at, (name, one) in enumerate(groups.items()):
            cells = [*map(str, one.counts), one.high.text(2), one.correlation.text(2)]
            table.add_row(by if not at else "", name, *cells)
    return table


def _raters_table(found: Raters) -> Table:
    from scenewright.cli.tables import plain_table

    table = plain_table("two raters", "shape", "texture")
    for title, kappas in (
        ("Cohen's κ", found.kappa),
        ("κ, quadratic", found.weighted),
        ("same score", found.same),
        ("mean difference", found.distance),
    ):
        table.add_row(title, kappas["shape"].text(2), kappas["texture"].text(2))
    table.add_row("3 or more apart", found.reviewed.text(2), "")
    table.add_row("of them seen by a third", str(found.third), "")
    return table
