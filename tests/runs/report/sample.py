"""Run folders made of real events, for the tests of the page and of the command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from scenewright.agents.panel.aggregation import disagreement
from scenewright.core.facts import Answer, Fact, ScoreCard, State, Verdict, missing_graph
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import GenerationRequest, Reference, Start
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.graphs.events import (
    Answered,
    Composed,
    Event,
    Finished,
    Generated,
    Judged,
    Missing,
    Planned,
    Role,
    RunStarted,
)

START = 1_790_000_000.0
PROMPT = "a red ball on a purple table, a small black dog to the left"
LOOP, REPORT = ("test:judge-a", "test:judge-b"), ("test:judge-c",)


def kitchen() -> SceneGraph:
    """Five objects, six attributes, four relations, one object that stands alone."""

    def thing(name: str, **attributes: str) -> SceneObject:
        return SceneObject(id=f"{name}.1", name=name, attributes=Attributes(attributes))

    return SceneGraph(
        objects=(
            thing("ball", color="red"),
            thing("table", color="purple"),
            thing("dog", color="black", size="small"),
            thing("person"),
            thing("umbrella", color="yellow"),
            thing("house", color="blue"),
        ),
        relations=(
            Relation(source="ball.1", predicate="on", target="table.1"),
            Relation(source="dog.1", predicate="left of", target="table.1"),
            Relation(source="person.1", predicate="holding", target="umbrella.1"),
            Relation(source="person.1", predicate="right of", target="table.1"),
        ),
    )


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on ``parts`` alone."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


def picture(scene: SceneGraph, round: int, purpose: str) -> Image.Image:
    """A small picture that differs from round to round."""
    image = Image.new("RGB", (128, 128), (214, 232, 244))
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 84, 128, 128), fill=(150, 200, 120))
    for at, item in enumerate(scene.objects):
        x, y = 12 + at * 104 // max(1, len(scene.objects)), 60 + (at * 23 + round * 7) % 40
        color = item.attributes.get("color", "gray")
        if purpose == "reference":
            pen.rectangle((x, y, x + 20, y + 20), fill=color)
        else:
            pen.ellipse((x, y, x + 20, y + 20), fill=color)
    return image


def _answer(fact: Fact, judge: str, round: int, states: dict[str, State], hard: str) -> Answer:
    if any(states.get(parent) != "yes" for parent in fact.parents):
        return Answer(fact_id=fact.id, judge_id=judge, state="void", reason="a parent is absent")
    if fact.id == hard:
        return Answer(
            fact_id=fact.id, judge_id=judge, state="unscored", reason="answered outside the options"
        )
    base = chance(fact.id) * 0.62 + 0.2 * round + 0.16
    p = min(0.985, max(0.02, base + (chance(fact.id, judge, round) - 0.5) * 0.16))
    wrong = next(o for o in fact.options if o != fact.expected)
    return Answer(
        fact_id=fact.id,
        judge_id=judge,
        state="yes" if p >= 0.5 else "no",
        choice=fact.expected if p >= 0.5 else wrong,
        probability=round_(p),
        method="logprob",
        tokens_in=84,
        tokens_out=1,
        seconds=0.012,
    )


def round_(value: float) -> float:
    """Four decimals."""
    return round(value, 4)


def judge(
    facts: Sequence[Fact], judges: Sequence[str], round: int, hard: str = ""
) -> tuple[dict[str, list[Answer]], ScoreCard]:
    """Answers by judge and their card: the panel is the mean, parents decide their children."""
    states: dict[str, State] = {}
    answers: dict[str, list[Answer]] = {name: [] for name in judges}
    verdicts = []
    for fact in facts:
        said = [_answer(fact, name, round, states, hard) for name in judges]
        for answer in said:
            # As in a run: what is void is not asked.
            if answer.state != "void":
                answers[answer.judge_id].append(answer)
        known = [a.probability for a in said if a.probability is not None]
        mean = sum(known) / len(known) if known else None
        state: State = said[0].state if mean is None else "yes" if mean >= 0.5 else "no"
        states[fact.id] = state
        verdicts.append(
            Verdict(
                fact_id=fact.id,
                state=state,
                probability=mean,
                disagreement=float(disagreement([known])[0]) if known else 0.0,
                n_scored=len(known),
                n_unscored=len(said) - len(known),
                reason=said[0].reason,
            )
        )
    return answers, ScoreCard.of(facts, verdicts)


def write_sample(
    folder: Path,
    scene: SceneGraph | None = None,
    rounds: int = 3,
    finished: bool = True,
    hard: str = "",
    draw: Callable[[SceneGraph, int, str], Image.Image] = picture,
) -> list[Event]:
    """A run of ``scene`` in ``folder``: log, manifest and images; returns its events.

    ``hard`` is the id of a fact that no judge can answer.
    """
    scene = kitchen() if scene is None else scene
    facts = facts_of(scene)
    images = ImageStore(folder / "images")
    config = {"profile": "test", "rounds": rounds, "seed": 7}
    clock = START
    events: list[Event] = [
        RunStarted(
            key="started", at=clock, run_id="kitchen", scene=scene, facts=facts, config=config
        )
    ]
    cards: list[ScoreCard] = []
    made: list[str] = []
    missing = SceneGraph()

    def asked(round: int, role: Role, judges: Sequence[str]) -> ScoreCard:
        answers, card = judge(facts, judges, round, hard)
        for name in judges:
            events.append(
                Answered(
                    key=f"r{round}:{role}:{name}",
                    at=clock,
                    round=round,
                    role=role,
                    image=made[round],
                    judge_id=name,
                    answers=tuple(answers[name]),
                    seconds=0.31,
                )
            )
        events.append(
            Judged(
                key=f"r{round}:{role}:judged",
                at=clock,
                round=round,
                role=role,
                image=made[round],
                card=card,
            )
        )
        return card

    def drawn(round: int, purpose: str, graph: SceneGraph, prompt: str, refs: list[str]) -> str:
        digest = images.put(draw(graph, round, purpose))
        request = GenerationRequest(
            prompt=prompt,
            seed=7 + round,
            steps=24,
            guidance=4.0,
            references=tuple(Reference(image=ref, weight=0.5) for ref in refs),
        )
        if refs and round == 2:
            # As a round that is kept to a region is drawn.
            inside, outside = (images.put(Image.new("L", (8, 8), level)) for level in (255, 0))
            request = request.model_copy(
                update={
                    "references": (
                        Reference(image=refs[0], weight=0.0, mask=outside),
                        Reference(image=refs[1], weight=0.6, mask=inside),
                    ),
                    "start": Start(image=refs[0], strength=0.8, mask=inside),
                }
            )
        events.append(
            Generated.model_validate(
                {
                    "key": f"r{round}:{purpose}:generated",
                    "at": clock,
                    "round": round,
                    "purpose": purpose,
                    "image": digest,
                    "request": request,
                    "seconds": 0.82,
                }
            )
        )
        return digest

    for index in range(rounds):
        clock += 1.0
        refs: list[str] = []
        if index:
            events.append(
                Planned(
                    key=f"r{index}:planned",
                    at=clock,
                    round=index,
                    strategy="feedback",
                    chosen_by="router",
                    does="draws the whole picture again with references",
                    why="objects are absent",
                    reference=missing,
                )
            )
            prompt = f"a picture of {len(missing.objects)} things"
            events.append(
                Composed(
                    key=f"r{index}:reference:composed",
                    at=clock,
                    round=index,
                    purpose="reference",
                    prompt=prompt,
                )
            )
            refs = [made[-1], drawn(index, "reference", missing, prompt, [])]
        else:
            events.append(
                Composed(
                    key="r0:candidate:composed",
                    at=clock,
                    round=0,
                    purpose="candidate",
                    prompt=PROMPT,
                )
            )
        made.append(drawn(index, "candidate", scene, PROMPT, refs))
        cards.append(asked(index, "loop", LOOP))
        missing = missing_graph(scene, facts, cards[-1].verdicts)
        if missing:
            events.append(Missing(key=f"r{index}:missing", at=clock, round=index, graph=missing))
    if finished:
        reports = [asked(index, "report", REPORT) for index in range(rounds)]
        best = max(range(rounds), key=lambda i: (cards[i].rank, -i))
        events.append(
            Finished(
                key="finished",
                at=clock + 1,
                reason="satisfied" if cards[best].satisfied else "rounds",
                best_round=best,
                image=made[best],
                loop_card=cards[best],
                report_card=reports[best],
                totals={
                    "images": 2 * rounds - 1.0,
                    "seconds": 8.4,
                    "usd": 0.0,
                    "judge_calls": 9.0,
                    "tokens_in": 2100.0,
                    "tokens_out": 90.0,
                    "cached": 0.0,
                },
            )
        )
    (folder / "events.jsonl").write_text(
        "".join(event.model_dump_json() + "\n" for event in events), encoding="utf-8"
    )
    manifest = {
        "config": config,
        "backend": {"id": "test:painter", "fingerprint": "f00dcafe"},
        "judges": {
            "loop": [{"id": name, "fingerprint": f"fp-{name[-1]}"} for name in LOOP],
            "report": [{"id": name, "fingerprint": f"fp-{name[-1]}"} for name in REPORT],
        },
        "versions": {"scenewright": "0.1.0", "python": "3.11"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return events
