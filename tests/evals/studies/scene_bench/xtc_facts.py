"""Facts of made-up models, with known means."""

from __future__ import annotations

import numpy as np

from scenewright.evals.studies.xtc.base import QUESTION_KINDS, FactScore

HEIGHTS: dict[str, tuple[float, float]] = {
    "composed + sharp": (0.8, 0.9),
    "composed + dull": (0.8, 0.3),
    "bare + sharp": (0.4, 0.9),
    "bare + dull": (0.4, 0.3),
}
"""Model → chance that a fact is drawn, and that it is understood."""


def made_facts(scenes: int = 60, each: int = 3) -> dict[str, tuple[FactScore, ...]]:
    """Independent facts; those whose object has no partner are drawn wrongly."""
    found: dict[str, tuple[FactScore, ...]] = {}
    for model, (drawn, understood) in HEIGHTS.items():
        # The same pictures for every model that draws alike.
        pictures = np.random.default_rng(int(10 * drawn))
        answers = np.random.default_rng(len(found))
        facts = []
        for scene in range(scenes):
            for kind in QUESTION_KINDS:
                for number in range(each):
                    u = float(pictures.random() < drawn)
                    partner = bool(u) or pictures.random() < 0.1
                    facts.append(
                        FactScore(
                            scene=f"s{scene:03d}",
                            question=f"{kind}:{number}",
                            kind=kind,
                            category="",
                            matched=partner,
                            u=u,
                            v=float(answers.random() < understood),
                        )
                    )
        found[model] = tuple(facts)
    return found
