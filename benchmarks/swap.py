"""How soon a model that is exchanged under its old name is noticed, and how often one is cried.

``python -m benchmarks.swap [--quick]``. Judges are asked sentinel pictures again and again, and a
sequential test follows their answers (``scenewright/evals/runner/sentinels.py``). Two measurements:

- **simulation** over real answers: for each pair of the miniature's six judges, sentinel pictures
  are chosen by the four others and put to both, every time as another copy. A run draws copies at
  random; at a random moment between the 72nd and the 360th question the second judge answers in
  place of the first. Answers come in five forms: the judge's own ``probabilities``; ``noisy`` ones
  (normal noise of 0.5 log odds); ``stated`` ones (the same, rounded to 0.05, as chat judges state
  them); bare ``votes``; and votes ``sampled`` by the probability, as at temperature 1;
- **mock**: ``run_eval`` asks a judge of the mock providers over HTTP, which exchange its model in
  the middle of the evaluation and go on telling its old name.

``delay_facts.median``: sentinel questions that the second model answered before a change was
raised, over all pairs and forms of answers alike; a run that did not notice within 360 counts as
later than all others, and ``missed`` is their share. ``delay_questions.median``: questions of the
evaluation meanwhile, at the default share. ``since_facts.median``: by how many sentinel questions
the time from which rows are held apart lies after the exchange. ``false_alarms_per_1000``: runs of
600 sentinel questions (12,000 questions of the evaluation) to one and the same judge that raise a
change, of 1,000; ``.worst`` is that of the form of answers with most. ``mock.`` as told above.

``floor.``: a change is raised when an answer first turns from yes to no or back. ``accuracy.``: the
peer, a CUSUM of the share of right answers (the truth is known) in both directions, with the limit
at which it raises as many false alarms as are aimed at, 1 in 1,000 of these very runs.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._harness import benchmark, interval, progress
from benchmarks._mock import MockServer
from benchmarks._sentinels import JUDGES, PAINTINGS, Candidates, candidates, choose
from scenewright.agents.panel.answer_arrays import two_way_probability
from scenewright.config.settings import load_settings
from scenewright.evals.errors import ModelChangedError
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.progress import Progress as Stand
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.runner.sentinels import (
    BOUND,
    PLACES,
    SHARES,
    STEP,
    DriftTest,
    SentinelPicture,
)
from scenewright.evals.store.results import SENTINELS
from scenewright.mock_providers import MockSettings
from scenewright.runs.model_factory.profiles import build_judge

Array = NDArray[np.float64]
FORMS = ("probabilities", "noisy", "stated", "votes", "sampled")
"""Forms of answers."""
QUESTIONS, EACH = 36, 6
"""Sentinel questions, and those of a picture."""
LENGTH, EARLIEST, LATEST, WITHIN = 600, 72, 360, 360
"""Sentinel questions of a run without an exchange, before an exchange, and after it."""
NOISE = 0.5
PER_1000 = 1.0
"""False alarms that are aimed at."""
SHARE = EvalConfig.model_fields["sentinels"].default
SEED = 5161
NEVER = 10**9


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    paintings: int
    """Candidates for sentinel pictures."""
    judges: int
    """How many of the miniature's judges."""
    copies: int
    """Copies of each picture that a judge is asked."""
    still: int
    """Runs without an exchange for each pair, judge and form."""
    exchanged: int
    """Runs with one for each ordered pair and form."""
    mock: int
    """Evaluations with the mock providers."""
    before: int
    """Sentinel pictures before the exchange there."""


FULL = Sizes(PAINTINGS, 6, 24, 100, 20, 12, 18)
QUICK = Sizes(8, 4, 3, 10, 5, 1, 12)


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two judges and what they say of pictures that others chose."""

    said: Array
    """Probability of each answer, (judge, copy, question)."""
    holds: NDArray[np.bool_]
    """The truth of each question."""


def pairs_of(found: Candidates, names: Sequence[str], copies: int) -> list[Pair]:
    """Ask every pair of judges."""
    judges = {name: build_judge(f"local:miniature/judge-{name}") for name in names}
    every = range(len(JUDGES))
    pairs = list(combinations([JUDGES.index(name) for name in names], 2))
    made = []
    for pair in progress(pairs):
        rows = choose(found, [judge for judge in every if judge not in pair])
        pictures = [_picture(found, some) for some in rows]
        said = [
            asyncio.run(_asked(judges[JUDGES[judge]], pictures, copies, judge)) for judge in pair
        ]
        holds = np.array([held for picture in pictures for held in picture.holds])
        made.append(Pair(np.array(said), holds))
    return made


def _picture(found: Candidates, rows: Sequence[int]) -> SentinelPicture:
    return SentinelPicture(
        found.images[found.picture[rows[0]]].convert("RGB"),
        tuple(found.facts[row].fact.model_copy(update={"parents": ()}) for row in rows),
        tuple(found.facts[row].holds for row in rows),
    )


async def _asked(
    judge: Any, pictures: Sequence[SentinelPicture], copies: int, number: int
) -> list[list[float]]:
    table = []
    for copy in range(copies):
        row: list[float] = []
        for picture in pictures:
            # Two judges never see the same copy.
            image = picture.copy(copy * 37 + number * 5003)
            answers = await judge.answer(image, list(picture.facts))
            leads = map(two_way_probability, picture.facts, answers)
            row += [0.5 if lead is None else lead for lead in leads]
        table.append(row)
    return table


def formed(form: str, said: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return places of answers with these probabilities in a form."""
    edge = 1.0 / (1.0 + np.exp(BOUND))
    if form == "votes":
        said = (said > 0.5).astype(float)
    elif form == "sampled":
        said = (rng.random(said.shape) < said).astype(float)
    elif form != "probabilities":
        odds = np.log(np.clip(said, edge, 1 - edge) / np.clip(1 - said, edge, 1 - edge))
        said = 1.0 / (1.0 + np.exp(-(odds + rng.normal(0.0, NOISE, said.shape))))
        if form == "stated":
            said = np.round(20.0 * said) / 20.0
    inside = np.clip(said, edge, 1.0 - edge)
    return np.round((np.log(inside / (1.0 - inside)) + BOUND) / STEP).astype(np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of runs side by side."""

    alarm: NDArray[np.intp]
    """Questions until the test raised a change; ``NEVER``: none."""
    since: NDArray[np.intp]
    """Questions that fitted before it."""
    turned: NDArray[np.intp]
    """Questions until an answer first turned."""
    accuracy: Array
    """Largest sum of the peer until each question, (questions, runs)."""
    swap: NDArray[np.intp]
    """Questions before the exchange; ``NEVER``: none."""
    cell: NDArray[np.intp]
    """Which judges each run is of."""


def simulate(pairs: Sequence[Pair], form: str, runs: int, *, exchange: bool) -> Outcome:
    """Run the test over answers of a form, ``runs`` times for each pair in both orders."""
    rng = np.random.default_rng([SEED, FORMS.index(form), exchange])
    cells = [(pair, order) for pair in pairs for order in ((0, 1), (1, 0))]
    cell = np.repeat(np.arange(len(cells)), runs)
    first = np.array([pair.said[one] for pair, (one, _) in cells])[cell]
    other = np.array([pair.said[two] for pair, (_, two) in cells])[cell]
    holds = np.array([pair.holds for pair, _ in cells])[cell]
    count, copies = first.shape[:2]
    # As sentinels are asked: a picture at a time, each copy once before one comes again.
    order = np.argsort(rng.random((count, QUESTIONS // EACH, copies)), 2)
    swap = np.full(count, NEVER)
    if exchange:
        swap = rng.integers(EARLIEST // EACH, LATEST // EACH + 1, count) * EACH
    length = LATEST + WITHIN if exchange else LENGTH
    runs_of = np.arange(count)
    test = DriftTest(QUESTIONS, runs=count)
    alarm, turned = np.full(count, NEVER), np.full(count, NEVER)
    since, fitted = np.zeros(count, np.intp), np.zeros((count, len(SHARES)), np.intp)
    last = np.full((count, QUESTIONS), -1)
    right, sums, peer = np.zeros(count), np.zeros((2, count)), np.zeros((length, count))
    copy = order[:, 0, 0]
    for at in range(length):
        question = at % QUESTIONS
        if at % EACH == 0:
            copy = order[:, question // EACH, (at // QUESTIONS) % copies]
        said = np.where(at < swap, first[runs_of, copy, question], other[runs_of, copy, question])
        places = formed(form, said, rng)
        test.see(question, places)
        if (at + 1) % EACH == 0:
            # An alarm is raised when a reply was read, as in an evaluation.
            new = (alarm == NEVER) & test.alarms
            alarm[new] = at + 1
            since[new] = fitted[runs_of, test.sums.argmax(1)][new]
            fitted[test.sums == 0.0] = at + 1
        votes = (places > PLACES // 2).astype(int)
        turn = (last[:, question] >= 0) & (last[:, question] != votes)
        turned[turn & (turned == NEVER)] = at + 1
        last[:, question] = votes
        good = votes == holds[:, question]
        if at < EARLIEST:
            right += good
        else:
            usual = np.clip(right / EARLIEST, 0.05, 0.95)
            for side, shift in enumerate((-0.2, 0.2)):
                moved = np.clip(usual + shift, 0.02, 0.98)
                ratio = np.where(good, np.log(moved / usual), np.log((1 - moved) / (1 - usual)))
                sums[side] = np.maximum(0.0, sums[side] + ratio)
            peer[at] = np.maximum(peer[at - 1], sums.max(0))
    return Outcome(alarm, since, turned, peer, swap, cell)


def delays_of(alarm: NDArray[np.intp], found: Outcome) -> Array:
    """Return questions from the exchange to the alarm of runs that raised none before it.

    Infinite where it came too late.
    """
    after = alarm - found.swap
    late = np.where(after > WITHIN, np.inf, after.astype(float))
    return late[alarm > found.swap]


def simulated(pairs: Sequence[Pair], sizes: Sizes) -> dict[str, Any]:
    """Return all figures of the simulation."""
    still = {form: simulate(pairs, form, sizes.still, exchange=False) for form in FORMS}
    moved = {form: simulate(pairs, form, sizes.exchanged, exchange=True) for form in FORMS}
    # The peer's limit is chosen on the very runs that it is measured by, in its favour.
    highest = np.sort(np.concatenate([one.accuracy[-1] for one in still.values()]))
    limit = float(highest[-1 - int(len(highest) * PER_1000 / 1000)])

    def by_peer(one: Outcome) -> NDArray[np.intp]:
        over = one.accuracy > limit
        return np.where(over.any(0), over.argmax(0) + 1, NEVER)

    figures: dict[str, Any] = {}
    for front, alarm in (
        ("", lambda one: one.alarm),
        ("floor.", lambda one: one.turned),
        ("accuracy.", by_peer),
    ):
        raised = {form: 1000.0 * (alarm(one) != NEVER) for form, one in still.items()}
        delays = {form: delays_of(alarm(one), one) for form, one in moved.items()}
        for form in ("", *FORMS):
            found, alarms = (
                rows[form] if form else np.concatenate(list(rows.values()))
                for rows in (delays, raised)
            )
            end = f".{form}" if form else ""
            figures[f"{front}delay_facts.median{end}"] = _median(found)
            figures[f"{front}missed{end}"] = float(np.isinf(found).mean()) if len(found) else 1.0
            figures[f"{front}false_alarms_per_1000{end}"] = float(alarms.mean())
        worst = max(float(alarms.mean()) for alarms in raised.values())
        figures[f"{front}false_alarms_per_1000.worst"] = worst
    every = np.concatenate([delays_of(one.alarm, one) for one in moved.values()])
    for name, share in (("p10", 10), ("p75", 75)):
        value = float(np.percentile(every, share, method="higher"))
        figures[f"delay_facts.{name}"] = value if np.isfinite(value) else f"over {WITHIN}"
    median = figures["delay_facts.median"]
    figures["delay_questions.median"] = median / SHARE if isinstance(median, float) else median
    since = np.concatenate(
        [(one.since - one.swap)[(one.alarm > one.swap) & (one.alarm != NEVER)]
         for one in moved.values()]
    )  # fmt: skip
    figures["since_facts.median"] = float(np.median(since))
    # Runs of the same two judges share their answers: judges are resampled, not runs.
    cells = [
        float(1000.0 * np.mean([(one.alarm[one.cell == at] != NEVER).mean()
                                for one in still.values()]))
        for at in range(2 * len(pairs))
    ]  # fmt: skip
    figures["false_alarms_per_1000.interval"] = interval(cells)
    figures["runs.still"] = sum(len(one.alarm) for one in still.values())
    figures["runs.exchanged"] = sum(len(one.alarm) for one in moved.values())
    return figures


def _median(delays: Array) -> float | str:
    """Median of delays, of which some may be infinite."""
    value = float(np.percentile(delays, 50, method="higher")) if len(delays) else np.inf
    return value if np.isfinite(value) else f"over {WITHIN}"


def mocked(sizes: Sizes) -> dict[str, Any]:
    """Run evaluations whose judge is exchanged in the middle by the mock providers."""
    ordered = list(permutations(JUDGES, 2))
    chosen = [ordered[at * len(ordered) // sizes.mock] for at in range(sizes.mock)]
    delays: list[float] = []
    early = 0
    for first, second in progress(chosen):
        with MockServer(MockSettings()) as lab, tempfile.TemporaryDirectory() as name:
            delay = asyncio.run(_exchanged(lab.url, Path(name), first, second, sizes.before))
        early += delay < 0
        if delay >= 0:
            delays.append(delay)
    found = np.array(delays)
    return {
        "mock.delay_facts.median": _median(found),
        "mock.delay_facts.longest": float(found.max())
        if np.isfinite(found).all()
        else f"over {6 * 2 * sizes.before}",
        "mock.missed": float(np.isinf(found).mean()),
        "mock.early": early,
        "mock.runs": len(chosen),
    }


async def _exchanged(url: str, folder: Path, first: str, second: str, before: int) -> float:
    """Sentinel questions that the second model answered until the evaluation stopped.

    Negative if it stopped before, infinite if it did not stop.
    """
    at: list[int] = []

    def show(now: Stand) -> None:
        if now.sentinels >= before and not at:
            order = {"model": f"judge-{first}", "by": f"judge-{second}"}
            typed = {"Content-Type": "application/json"}
            data = json.dumps(order).encode()
            urlopen(Request(f"{url}/lab/swaps", data, typed, method="POST")).close()
            # What is asked already was kept, or is the one reply on its way to the file.
            at.append(now.sentinels * EACH)

    scenes = {"n": 2 * before, "complexity": "5", "out": str(folder / "paintings")}
    config = EvalConfig.model_validate(
        {
            "name": "exchanged",
            "dataset": {"name": "miniature", "options": scenes},
            "conditions": ["originals"],
            "panels": {"report": {"judges": [f"mock:judge-{first}"]}},
            "protocol": "grounded",
            "side_by_side": False,
            "concurrency": 1,
            "sentinels": 1.0,
        }
    )
    account = {"provider": "openai", "base_url": f"{url}/v1", "key_variable": ""}
    settings = load_settings(accounts={"mock": account})
    try:
        await run_eval(config, folder / "e", settings=settings, on_progress=show)
    except ModelChangedError:
        with closing(sqlite3.connect(folder / "e" / SENTINELS)) as kept:
            (asked,) = kept.execute(
                "SELECT total((SELECT count(*) FROM json_each(places))) FROM asked"
            ).fetchone()
        return float(asked - at[0]) if at else -1.0
    return float("inf")


def measure(sizes: Sizes) -> dict[str, Any]:
    """Return all figures."""
    torch.set_num_threads(1)
    names = JUDGES[: sizes.judges]
    pairs = pairs_of(candidates(sizes.paintings), names, sizes.copies)
    return {**simulated(pairs, sizes), **mocked(sizes)}


@benchmark("few judges and runs", measures=("scenewright.evals.runner.sentinels",), clean=True)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure simulated exchanges and those of the mock providers."""
    figures = measure(QUICK if options.quick else FULL)
    return figures["runs.still"] + figures["runs.exchanged"], figures


if __name__ == "__main__":
    main()
