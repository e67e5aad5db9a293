"""Words, numbers and text widths as the page and the terminal show them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from scenewright.agents.composers.check import PromptChanges
from scenewright.core.facts import (
    SOUNDNESS,
    Answer,
    Fact,
    ProbabilityMethod,
    ScoreCard,
    Verdict,
    is_wish,
    missing_graph,
)
from scenewright.core.intent import Passage
from scenewright.core.questions import wish_id
from scenewright.core.referring import noun_phrase
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import (
    Composed,
    Edited,
    Finished,
    Generated,
    Proposal,
    Proposed,
    Retrying,
    Selected,
    ToolCalled,
)
from scenewright.runs.record import ROLES, Round, RunRecord, Shown, shown_role

_MOST_DROPPED = 8
"""Dropped facts that are named."""
_MOST_MISSING = 160
"""Characters in which missing parts are named."""
Grade = Literal["sure", "likely", "hardly"]
"""Certainty of a panel of its yes or no."""
SURE_FROM = 0.9
"""Probability of its verdict from which a panel is sure."""
LIKELY_FROM = 0.7
"""Probability of its verdict from which it is likely."""
VerdictMark = Literal[Shown, "yes-likely", "yes-hardly", "no-likely", "no-hardly"]
"""A state, with its grade where the panel is not sure of it."""
SYMBOLS: Mapping[VerdictMark, str] = {
    "yes": "✓",
    "yes-likely": "✓?",
    "yes-hardly": "✓??",
    "no": "✗",
    "no-likely": "✗?",
    "no-hardly": "✗??",
    "void": "–",
    "unscored": "?",
    "pending": "·",
    "unasked": " ",
}
MEANINGS: Mapping[VerdictMark, str] = {
    "yes": "holds",
    "yes-likely": "likely holds",
    "yes-hardly": "holds, hardly sure",
    "no": "does not hold",
    "no-likely": "likely does not hold",
    "no-hardly": "does not hold, hardly sure",
    "void": "not asked, an object it needs is absent",
    "unscored": "not judged",
    "pending": "not judged yet",
    "unasked": "not asked of this picture",
}
REASONS: Mapping[str, str] = {
    "satisfied": "every fact holds",
    "rounds": "round limit reached",
    "patience": "no better candidate came",
    "budget": "a limit is reached",
    "unscored": "the judges could not judge",
    "cancelled": "cancelled",
    "accepted": "the director accepted it",
    "gave_up": "the director gave up",
}

_NARROW = frozenset("iljtfrI.,:;'|!()[] ")
_WIDE = frozenset("mwMWQGOD@%&")


def text_width(text: str, size: float) -> float:
    """Upper estimate in pixels of ``text`` in a proportional system font of ``size`` pixels."""
    total = 0.0
    for character in text:
        if unicodedata.east_asian_width(character) in "WF":
            total += 1.05
        elif unicodedata.combining(character):
            continue
        elif character in _NARROW:
            total += 0.36
        elif character in _WIDE or character.isupper():
            total += 0.86
        else:
            total += 0.61
    return total * size


def shorten(text: str, limit: int) -> str:
    """``text`` cut to ``limit`` characters with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


_IDENTIFIER = re.compile(r"\S*([:/_=@.]\S|\d)")
"""A first word such as ``openai:gpt-image-1`` or ``/runs``."""


def begun(text: str) -> str:
    """``text`` with a capital, as a sentence begins; an id or an address stays as it is."""
    return text if _IDENTIFIER.match(text) else text[:1].upper() + text[1:]


def file_stem(title: str) -> str:
    """Return a title as the name of a file without its ending: ``red-ball-on-table``."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-") or "scene"


def scene_phrases(scene: SceneGraph) -> list[str]:
    """Each relation in words, then every object that stands in none."""
    items = {item.id: item for item in scene.objects}
    phrases = [
        f"{noun_phrase(items[r.source])} {r.predicate} {noun_phrase(items[r.target])}"
        for r in scene.relations
    ]
    related = {end for r in scene.relations for end in (r.source, r.target)}
    phrases.extend(noun_phrase(item) for item in scene.objects if item.id not in related)
    return phrases


def complexity_line(scene: SceneGraph) -> str:
    """Return the size and the level of a scene."""
    objects, relations = (
        count(len(scene.objects), "object"),
        count(len(scene.relations), "relation"),
    )
    return f"{objects}, {relations}, {scene.level()}"


def scene_words(scene: SceneGraph, limit: int = 240) -> str:
    """Return the scene on one line: each phrase once, with how often it stands in the scene."""
    return listed(scene_phrases(scene), limit) or "an empty scene"


def listed(phrases: Iterable[str], limit: int) -> str:
    """Return phrases up to ``limit`` characters, then how many more there are.

    A phrase that comes again is named once, with its number: ``red ball on table (3 times)``. The
    first one is always whole.
    """
    tally = Counter(phrases)
    named = [f"{phrase} ({n} times)" if n > 1 else phrase for phrase, n in tally.items()]
    shown = 1
    while shown < len(named) and len("; ".join(named[: shown + 1])) <= limit:
        shown += 1
    rest = sum(list(tally.values())[shown:])
    return "; ".join(named[:shown]) + (f"; and {rest} more" if rest else "")


def grade_of(verdict: Verdict) -> Grade | None:
    """Return how sure the panel is of its verdict; None for void, unscored and no probability.

    A choice is graded by its lead over the strongest rival.
    """
    if verdict.state not in ("yes", "no") or (lead := verdict.lead) is None:
        return None
    likely = lead if verdict.state == "yes" else 1.0 - lead
    return "sure" if likely >= SURE_FROM else "likely" if likely >= LIKELY_FROM else "hardly"


def verdict_mark(verdict: Verdict | None, missing: Shown = "pending") -> VerdictMark:
    """Return the mark of a verdict; ``missing`` is that of none."""
    if verdict is None:
        return missing
    grade = grade_of(verdict)
    if verdict.state == "yes":
        return "yes-likely" if grade == "likely" else "yes-hardly" if grade == "hardly" else "yes"
    if verdict.state == "no":
        return "no-likely" if grade == "likely" else "no-hardly" if grade == "hardly" else "no"
    return verdict.state


def certainty_line() -> str:
    """Return what the three grades of a yes or no mean, for legends."""
    return (
        f"Sure: {percent(SURE_FROM)} or more for what is said; likely: {percent(LIKELY_FROM)} or "
        "more; below that hardly sure. A choice is weighed against its strongest rival."
    )


def percent(value: float | None) -> str:
    """Return a probability as a whole percentage; a dash for none.

    Never rounds to a false 0 or 100.
    """
    if value is None:
        return "–"
    if 0.0 < value < 0.005:
        return "<1%"
    if 0.995 <= value < 1.0:
        return ">99%"
    return f"{value * 100:.0f}%"


def score(value: float | None) -> str:
    """Return a score in [0, 1] with two decimals; a dash for none."""
    return "–" if value is None else f"{value:.2f}"


def card_score(card: ScoreCard | None) -> str:
    """Return the SGScore of a card, with how many facts it leaves out: ``1.00, 2 not judged``."""
    return score(None) if card is None else covered_score(card.sgscore, card.unscored)


def covered_score(value: float | None, unscored: int) -> str:
    """Return a score that leaves out ``unscored`` facts: ``1.00, 2 not judged``."""
    return (
        f"{score(value)}, {unscored} not judged" if unscored and value is not None else score(value)
    )


def interval(bounds: tuple[float, float] | None) -> str:
    """``0.61–0.93``, the 95 % interval of a score; empty for none and where it is a point."""
    if bounds is None or score(bounds[0]) == score(bounds[1]):
        return ""
    return f"{score(bounds[0])}–{score(bounds[1])}"


METHODS: Mapping[ProbabilityMethod, str] = {
    "logprob": "log-probability",
    "decision": "decision",
    "verbalized": "verbalized",
    "binary": "bare vote",
    "regression": "regression",
}
"""Names of the methods by which probabilities are obtained."""


def method_words(method: ProbabilityMethod) -> str:
    """Return how a probability was obtained, as ``decision`` or ``log-probability``."""
    return METHODS[method]


def obtained_line(cards: Iterable[ScoreCard | None]) -> str:
    """Return how the probabilities of ``cards`` were obtained: ``probabilities by decision``.

    Empty for none.
    """
    found = {method for card in cards if card is not None for method in card.methods}
    named = ", ".join(METHODS[method] for method in METHODS if method in found)
    return f"probabilities by {named}" if named else ""


def method_line(card: ScoreCard | None) -> str:
    """Return a note on a card whose probabilities come from several methods; else empty."""
    methods = sorted({m for v in card.stated for m in v.methods}) if card is not None else []
    if len(methods) < 2:
        return ""
    return (
        "Probabilities of different kinds are mixed in these scores: "
        f"{', '.join(METHODS[method] for method in methods)}."
    )


def signed(value: float | None) -> str:
    """Return a change of a score with its sign; empty for none."""
    if value is None:
        return ""
    return "±0.00" if abs(value) < 0.005 else f"{value:+.2f}".replace("-", "−")


def duration(seconds: float) -> str:
    """``0.42 s``, ``12.3 s`` or ``2 min 5 s``."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def moment(when: datetime) -> str:
    """``2026-11-28 02:02:24 UTC``: how pages show a date; a time without a zone is in UTC."""
    utc = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S UTC")


def timestamp(seconds: float) -> str:
    """Return a Unix time as pages show it."""
    return moment(datetime.fromtimestamp(seconds, UTC))


def isoformat(seconds: float) -> str:
    """Return a Unix time for machines."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def money(usd: float) -> str:
    """US dollars; ``free`` for nothing."""
    if usd <= 0:
        return "free"
    return f"${usd:.4f}" if usd < 0.1 else f"${usd:.2f}"


def steps(work: float | None) -> str:
    """``20 steps``: work of the denoiser, with a decimal where it is little; a dash for none."""
    if work is None:
        return "–"
    text = f"{work:.0f}" if work >= 10 or work == round(work) else f"{work:.1f}"
    return f"{text} step" if text == "1" else f"{text} steps"


def count(number: int, noun: str) -> str:
    """``1 round``, ``3 rounds``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def held(card: ScoreCard) -> str:
    """Return ``9 of 11 facts``: how many stated facts hold."""
    stated = card.stated
    return f"{sum(verdict.state == 'yes' for verdict in stated)} of {len(stated)} facts"


def change_words(change: Proposal | Selected, statements: Mapping[str, str]) -> str:
    """Return ``gains red ball; loses dog left of ball``: what proposals change."""
    parts = [
        f"{said} {'; '.join(statements.get(name, name) for name in names)}"
        for said, names in (("gains", change.gained), ("loses", change.lost))
        if names
    ]
    return ", ".join(parts) if parts else "gains nothing"


def heat_line(event: Proposed) -> str:
    """Return how many proposals of a heat win."""
    wins = sum(one.wins for one in event.proposals)
    return f"heat {event.heat}: {count(len(event.proposals), 'proposal')}, {wins} may be pasted"


def selected_line(event: Selected, statements: Mapping[str, str]) -> str:
    """Return what the winners of a round change, and what the proposals took."""
    pasted = count(len(event.winners), "proposal")
    spent = f"{event.calls} judge calls"
    if event.work is not None:
        spent = f"{steps(event.work)} of work, {spent}"
    if not event.winners:
        return f"no proposal wins, the picture stays as it was ({spent})"
    return f"pastes {pasted}: {change_words(event, statements)} ({spent})"


def verdict_line(card: ScoreCard | None, scene: SceneGraph | None = None) -> str:
    """Return ``All 7 facts hold`` or ``5 of 7 facts hold, 1 not judged``.

    Where something of the ``scene`` that was said was not checked: ``7 of 7 checked facts hold``.
    Of realism its mean probability follows where it was asked: ``; realism 0.61``.
    """
    if card is None:
        return "Not judged yet"
    if card.realism.total:
        return f"{_stated_line(card, scene)}; realism {score(card.ocr)}"
    return _stated_line(card, scene)


def _stated_line(card: ScoreCard, scene: SceneGraph | None) -> str:
    stated = card.stated
    total = len(stated)
    if total == 0:
        return "There is nothing to check"
    holding = sum(v.state == "yes" for v in stated)
    unknown = sum(v.state == "unscored" for v in stated)
    partly = checked_in_part(card, scene)
    if holding == total and not partly:
        return "The one fact holds" if total == 1 else f"All {total} facts hold"
    if unknown == total:
        return f"None of the {count(total, 'fact')} could be judged"
    verb = "holds" if holding == 1 else "hold"
    line = f"{holding} of {count(total, 'checked fact' if partly else 'fact')} {verb}"
    return f"{line}, {unknown} not judged" if unknown else line


def checked_in_part(card: ScoreCard, scene: SceneGraph | None) -> bool:
    """Return whether something that was said was not checked; without a ``scene`` of wishes."""
    if scene is not None:
        return bool(unchecked(card, scene))
    return any(v.state == "unscored" and is_wish(v.fact_id) for v in card.verdicts)


def unchecked(card: ScoreCard, scene: SceneGraph) -> list[Passage]:
    """Return the parts of the sentence of ``scene`` that nothing checks, in its order.

    Wishes for the whole picture that no judge answered, and passages that no fact states.
    """
    states = {verdict.fact_id: verdict.state for verdict in card.verdicts}
    open_wishes = [
        one
        for one in scene.intent.globals
        if states.get(wish_id(one.kind, one.text)) not in ("yes", "no")
    ]
    found = list(scene.intent.unread)
    for text in dict.fromkeys(wish.text for wish in open_wishes):
        # After an edit the sentence no longer says the scene, but its wishes stay.
        at = scene.intent.sentence.find(text)
        start, end = (at, at + len(text)) if at >= 0 else (0, 0)
        found.append(Passage(start=start, end=end, text=text, reason="not checked"))
    return sorted(found, key=lambda passage: passage.start)


def outcome_line(
    loop: ScoreCard | None,
    scene: SceneGraph,
    facts: Sequence[Fact],
    report: ScoreCard | None = None,
) -> str:
    """Return ``10 of 11. Missing: green cat under blue car``: how many facts hold, which do not.

    It tells the card of a picture of ``scene`` whose score people read (:func:`shown_role`). What
    is said beside the graph follows (``Not checked: oil painting.``), then the facts that the
    judges of the loop find, where they find others.
    """
    shown = report if shown_role(loop, report) == "report" else loop
    line, missing = verdict_line(shown, scene), _missing_words(shown, scene, facts)
    if shown is not None and missing:
        line = f"{_held_line(shown)}. Missing: {missing}"
        if shown.realism.total:
            line += f"; realism {score(shown.ocr)}"
    said = beside_graph(shown, scene, facts)
    if loop is not None and report is not None and differ(loop, report):
        if shown is loop:
            # A person's word, or an edit of the scene, stands before a report that did score.
            if report.sgscore is None:
                said.append("The judges of the report could not score it.")
        else:
            found = f"The judges that steered the drawing find {_held_line(loop)}"
            unseen = _missing_words(loop, scene, facts)
            said.append(f"{found}. They do not see: {unseen}." if unseen else f"{found}.")
    return " ".join([f"{line}." if said else line, *said])


def beside_graph(card: ScoreCard | None, scene: SceneGraph, facts: Sequence[Fact]) -> list[str]:
    """Return what a picture lacks beside the scene graph, and what nobody checked, as sentences.

    The first are numbers, exclusions, texts and wishes that do not hold, the others those of
    :func:`unchecked`.
    """
    if card is None:
        return []
    states = {verdict.fact_id: verdict.state for verdict in card.verdicts}
    beside = [fact for fact in facts if fact.kind in ("count", "text", "wish")]
    wrong = [fact.statement for fact in beside if states.get(fact.id) == "no"]
    texts = [passage.text for passage in unchecked(card, scene)]
    parts = (("Not as asked", wrong), ("Not checked", list(dict.fromkeys(texts))))
    return [f"{title}: {', '.join(said)}." for title, said in parts if said]


def differ(loop: ScoreCard, report: ScoreCard) -> bool:
    """Return whether the judges of the report find other stated facts than those of the loop."""
    first, second = (
        {verdict.fact_id for verdict in card.stated if verdict.state == "yes"}
        for card in (loop, report)
    )
    return first != second


def doubted(loop: ScoreCard | None, report: ScoreCard | None) -> bool:
    """Return whether all facts hold by the judges of the loop and not by those of the report."""
    return loop is not None and report is not None and loop.satisfied and differ(loop, report)


def _held_line(card: ScoreCard) -> str:
    """Return ``10 of 12, 1 not judged``, or ``all 12``."""
    states = [verdict.state for verdict in card.stated]
    held, unknown = states.count("yes"), states.count("unscored")
    line = f"all {held}" if held == len(states) else f"{held} of {len(states)}"
    return f"{line}, {unknown} not judged" if unknown else line


def _missing_words(card: ScoreCard | None, scene: SceneGraph, facts: Sequence[Fact]) -> str:
    """Return the part of the scene that a picture does not show, in words; empty for none."""
    if card is None or not card.stated or card.satisfied:
        return ""
    missing = missing_graph(scene, facts, card.verdicts)
    return scene_words(missing, _MOST_MISSING) if missing else ""


def commands_in(message: str) -> tuple[str, ...]:
    """Return the commands for a shell that an error message names, each once and in its order."""
    found: dict[str, None] = {}
    for quoted, bare in _COMMAND.findall(message):
        found[(quoted or bare).strip()] = None
    return tuple(found)


_PROGRAMS = r"(?:scenewright|pip|pipx|uv|hf|python|docker|make|export)"
_COMMAND = re.compile(rf"`({_PROGRAMS} [^`\n]+)`|(?<![\w`'\"-])(pip install '[^'\n]+')")
"""Commands in backticks, and an installation as messages write it without."""


def marked(text: str, passages: Sequence[Passage], limit: int) -> tuple[tuple[str, str], ...]:
    """Return ``text`` in parts, each with why it was not read, empty where it was.

    ``passages`` are in order; what lies after ``limit`` characters is cut off with an ellipsis.
    """
    shown = shorten(text, limit)
    parts: list[tuple[str, str]] = []
    at = 0
    for passage in passages:
        start, end = max(at, passage.start), min(passage.end, len(shown))
        if start >= end:
            continue
        parts += [(shown[at:start], ""), (shown[start:end], passage.reason)]
        at = end
    return tuple(part for part in (*parts, (shown[at:], "")) if part[0])


def settled_line(r: Round) -> str:
    """Return the number of facts that the first judges of a cascade settled alone, in words.

    Empty without a cascade.
    """
    asked = r.judged_first
    return f"{len(r.settled)} of {count(len(asked), 'fact')} settled first" if asked else ""


def answer_words(answer: Answer) -> str:
    """One judge's answer on one line, for titles and terminals."""
    parts = [f"{SYMBOLS[answer.state]} {answer.judge_id}: {answer.choice or answer.state}"]
    if answer.probability is not None:
        parts.append(f"p={answer.probability:.3f}")
    if answer.method is not None:
        parts.append(f"by {METHODS[answer.method]}")
    if answer.reason:
        parts.append(answer.reason)
    elif answer.rationale:
        parts.append(answer.rationale)
    if answer.note:
        parts.append(answer.note)
    return ", ".join(parts)


def tool_call(event: ToolCalled) -> str:
    """Return one line with the director's call or text and its result."""
    if not event.tool:
        return shorten(event.said or event.outcome, 400)
    given = ", ".join(f"{key}={value!r}" for key, value in event.arguments.items())
    mark = "" if event.ok else "refused: "
    return f"{event.tool}({shorten(given, 160)}) → {mark}{shorten(event.outcome, 240)}"


def retry_line(event: Retrying) -> str:
    """Return a request that failed and is sent again, on one line."""
    soon = "at once" if event.wait < 1 else f"in {duration(event.wait)}"
    return (
        f"{event.model}: attempt {event.attempt} failed after {duration(event.seconds)} "
        f"({shorten(event.reason, 200)}); the next one {soon}"
    )


def edit_line(event: Edited) -> str:
    """Return one line with a person's edit and how the run continues."""
    statements = {fact.id: fact.statement for fact in event.facts}
    said = [
        f"{statements[name]}: {'it is there' if state == 'yes' else 'it is not there'}"
        for name, state in event.verdicts.items()
    ]
    note = [f"“{shorten(event.note, 200)}”"] if event.note else []
    where = f"goes on from the picture of round {event.base}" if event.corrects else "goes on"
    return "; ".join([*note, *said, f"{where}, {count(event.rounds, 'more round')} at most"])


def dropped_line(made: Generated, statements: Mapping[str, str]) -> str:
    """Return the part of a picture's prompt that was not read, with its facts; empty if none.

    ``statements``: the facts' words by id.
    """
    if made.prompt_tokens is None or not (made.tokens_dropped or made.facts_dropped):
        return ""
    about = "about " if made.estimated else ""
    line = (
        f"the prompt is too long for the image model: {about}{made.tokens_dropped} of "
        f"{count(made.prompt_tokens, 'token')} are not read, and with them "
    )
    if not made.tokens_dropped:
        line = "the image model reads no prompt that holds all: it leaves out "
    if not made.facts_dropped:
        return line.removesuffix(", and with them ")
    shown = "; ".join(statements.get(id_, id_) for id_ in made.facts_dropped[:_MOST_DROPPED])
    more = len(made.facts_dropped) - _MOST_DROPPED
    shown += f"; and {more} more" if more > 0 else ""
    return f"{line}{count(len(made.facts_dropped), 'fact')}: {shown}"


def stop_line(view: RunRecord) -> str:
    """Why the run stopped, or that it has not."""
    if view.finished is None:
        return "waits for a person" if view.paused else "unfinished"
    card = view.finished.loop_card
    if view.finished.reason == "unscored" and card.fact_recall is not None:
        return "nothing that could be judged is missing"
    reason = reason_words(view.finished, view.scene)
    if view.finished.reason == "satisfied" and doubted(card, view.finished.report_card):
        return f"{reason} by the judges that steered"
    return reason


def reason_words(event: Finished, scene: SceneGraph | None = None) -> str:
    """Return why a run ended: ``every fact holds``, or of the checked ones where some are not."""
    if event.reason == "satisfied" and checked_in_part(event.loop_card, scene):
        return "every checked fact holds"
    if event.limit:
        return f"limit reached: {event.limit}"
    return REASONS.get(event.reason, event.reason)


def changes_line(event: Composed | None) -> str:
    """Return what a prompt lost of the sentence and added to it; empty if nothing."""
    return "" if event is None else PromptChanges(event.lost, event.added).text


def author(event: Composed) -> str:
    """Return the author of a prompt: ``llm, gpt-4.1 (second text)``; empty in runs of before."""
    if event.problem:
        return f"{event.author}, because {event.composer or 'the language model'} failed"
    if event.model:
        again = " (second text)" if event.author == "model again" else ""
        return f"{event.composer}, {event.model}{again}"
    return event.author


def drawing_line(made: Generated) -> str:
    """Return how a picture was drawn: seed, size, steps, guidance and references."""
    if made.pasted:
        return "put together from proposals"
    request = made.request
    settings = [f"seed {request.seed}"]
    if request.width and request.height:
        settings.append(f"{request.width}×{request.height}")
    done = made.steps if made.steps is not None else request.steps
    if done is not None:
        settings.append(f"{done} steps")
    if made.prompt_tokens is not None:
        about = "about " if made.estimated else ""
        settings.append(f"{about}{count(made.prompt_tokens, 'prompt token')}")
    if made.work is not None and done is not None and abs(made.work - done) >= 0.05:
        settings.append(f"work of {steps(made.work)}")
    if request.guided_share < 1:
        settings.append(f"guided in the first {percent(request.guided_share)} of the steps")
    if request.guidance is not None:
        settings.append(f"guidance {request.guidance:g}")
    if request.references:
        weights = ", ".join(f"{reference.weight:g}" for reference in request.references)
        settings.append(f"{count(len(request.references), 'reference')} at {weights}")
    if request.start is not None:
        crop = ", redrawn in a crop" if request.start.crop else ""
        if crop and request.start.crop_scale > 1:
            crop += f" at {request.start.crop_scale:g} times its size"
        settings.append(f"starts from a picture, strength {request.start.strength:g}{crop}")
    if request.negative_prompt:
        settings.append(f"without: {request.negative_prompt}")
    return " · ".join(settings)


def fact_title(fact: Fact, r: Round) -> str:
    """Return everything that is known of a fact in a round, as plain text."""
    lines = [f"{fact.statement} (round {r.index})", fact.question]
    for role in ROLES:
        verdict = r.verdict(fact.id, role)
        if verdict is not None:
            bits = f", disagreement {verdict.disagreement:.2f}" if verdict.n_scored > 1 else ""
            likely = percent(verdict.probability)
            if verdict.rival_probability is not None and verdict.rival:
                likely += f" against {percent(verdict.rival_probability)} {verdict.rival}"
            lines.append(f"{role} panel: {MEANINGS[verdict.state]}, {likely}{bits}")
        lines.extend(answer_words(answer) for answer in r.answers_to(fact.id, role))
    if fact.id in r.settled:
        lines.append(
            "the first judges of the cascade were sure: no other judge of the loop was asked"
        )
    if r.edit is not None and fact.id in r.edit.verdicts:
        lines.append("a person said so")
    return "\n".join(lines)


LOOP = "by the judges of the loop"
NOT_JUDGED = "not judged"


def soundness_words(card: ScoreCard | None) -> dict[str, str]:
    """Return statement → ``yes (0.93)`` of each fact of soundness; empty if none were asked."""
    found = {}
    for verdict in () if card is None else card.soundness:
        known = "" if verdict.probability is None else f" ({score(verdict.probability)})"
        said = f"{verdict.state}{known}" if verdict.state in ("yes", "no") else NOT_JUDGED
        found[SOUNDNESS[verdict.fact_id]] = said
    return found


def soundness_lines(card: ScoreCard | None) -> list[tuple[str, str]]:
    """Return label and value of the terminal's line; none where nobody could judge.

    The value is ``well formed: yes (0.93), nothing extra: no (0.12)``.
    """
    said = soundness_words(card)
    line = ", ".join(f"{statement}: {words}" for statement, words in said.items())
    return [] if set(said.values()) <= {NOT_JUDGED} else [("picture", line)]


def realism_lines(view: RunRecord) -> list[tuple[str, str]]:
    """Return label and value of the terminal's lines; none in a run that does not ask."""
    found: list[tuple[str, str]] = []
    for role in ROLES:
        before, after = view.realism(role)
        if before is None and after is None:
            continue
        since = ""
        if before is not None and after is not None:
            since = f" ({signed(after - before)} from round {view.scenes[-1].round})"
        label = "" if found else "realism"
        whose = LOOP if role == "loop" else view.reporting.line
        found.append((label, f"{score(after)} {whose}{since}"))
    return found
