"""VQAScore (Lin et al., 2024): P("Yes") to one question about the whole text.

The question is the paper's, ``Does this figure show "{text}"? Please answer yes or no.``; its last
sentence is what every judge is told of yes/no questions, each in the words of its own prompt. A
local judge's probability is read from the next token and normalised over yes and no; the published
code takes P("Yes") of all tokens, which is the same but for what the model leaves to other words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.config.settings import Settings
from scenewright.core.facts import Answer, Fact
from scenewright.evals.metrics.base import MetricError, Sample
from scenewright.evals.metrics.options import text
from scenewright.evals.studies.peers.panel_metric import MetricJudges, PanelMetric, metric_judges_of

TEMPLATE = 'Does this figure show "{text}"?'
_TEXT = "{text}"


class VqaScore(PanelMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`: one fact a picture."""

    name = "vqascore"

    def __init__(self, bench: MetricJudges, template: str = TEMPLATE) -> None:
        """``template``: the question, ``{text}`` where the item's text goes. Raises
        ``MetricError`` for one without that place."""
        super().__init__(bench)
        if _TEXT not in text("template", template):
            raise MetricError(f"template is {template!r}: put {_TEXT} where the text goes")
        self._template = template

    def wording(self) -> str:
        """The template."""
        return self._template

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """The one question about the sample's text."""
        said = " ".join(sample.prompt.split())
        if not said:
            raise MetricError("there is no text to ask about")
        question = self._template.replace(_TEXT, said)
        return (
            Fact(
                id=f"{self.name}:text",
                kind="object",
                subject="picture",
                statement=said,
                question=question,
            ),
        )

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """The probability of yes."""
        return None if np.isnan(likely[0]) else float(likely[0])

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """``bare``: judges that gave a mere yes or no, whose score is 1 or 0 and no VQAScore."""
        usable = [a for given in answers.values() for a in given if a.state in ("yes", "no")]
        return {"bare": float(sum(a.probability is None or a.method == "binary" for a in usable))}


def make(
    settings: Settings | None,
    template: Any = TEMPLATE,
    judges: Any = None,
    profile: Any = None,
    aggregator: Any = "mean",
    folder: Any = None,
) -> VqaScore:
    """The metric of the registry; raises ``MetricError`` for a wrong option."""
    bench = metric_judges_of(VqaScore.name, settings, judges, profile, aggregator, folder)
    return VqaScore(bench, text("template", template))
