"""What a person said of a picture, as the page shows it."""

from __future__ import annotations

from scenewright.runs.report import words
from scenewright.runs.report.parts import HumanFeedback
from scenewright.runs.report.record import RoundView, RunView


def feedback_of_round(view: RunView, r: RoundView) -> HumanFeedback | None:
    """What the person said who began the round; none if its candidate was drawn."""
    edit = r.edit
    if edit is None:
        return None
    seen = next((other for other in view.rounds if other.index == edit.base), None)
    before = view.asked(r.index - 1)
    now = {fact.id: fact.statement for fact in edit.facts}
    then = {fact.id: fact.statement for fact in before.facts}
    corrected = []
    for name, said in edit.verdicts.items():
        state = seen.state(name) if seen is not None else "pending"
        if state != said and name in then:
            corrected.append((said, now[name], words.MEANINGS[state]))
    return HumanFeedback(
        base=edit.base,
        note=edit.note,
        corrected=tuple(corrected),
        added=tuple(text for name, text in now.items() if name not in then),
        dropped=tuple(text for name, text in then.items() if name not in now),
        rounds=edit.rounds,
    )
