"""A comparison as one HTML file that needs nothing else."""

from __future__ import annotations

from markupsafe import Markup

from scenewright.evals.reporting.comparison import Comparison
from scenewright.evals.reporting.render import asset, render

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def comparison_page(comparison: Comparison) -> str:
    """The page: differences over all items, then by class, with what was warned of."""
    sides = dict.fromkeys(side for d in comparison.differences for side in (d.before, d.after))
    names = list(sides)
    title = " against ".join(reversed(names)) if len(names) == 2 else f"{len(names)} arms compared"
    return render(
        "compare.html.j2",
        policy=POLICY,
        title=title,
        styles=Markup(asset("style.css") + asset("report.css")),
        comparison=comparison,
        overall=[d for d in comparison.differences if not d.scope],
        classes=[d for d in comparison.differences if d.scope],
    )
