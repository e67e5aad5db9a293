"""Decision judges beside chat judges: tokens, price, accuracy, calibration, faults, rates.

``python -m benchmarks.decisions [--quick]``. Objects and relations (what SGScore counts) of the
loop benchmark's held-out scenes are asked about paintings that lack up to two of the objects, so
that the truth of each fact is known.
The same miniature judge answers behind the mock providers, once as a decision model over each wire
and once as a chat model. Figures, with the name of the wire in front where it is not the first:

- ``tokens.input``, ``tokens.output``, ``usd_per_1000_images``, ``accuracy``: of the decision judge,
  with ``chat.`` in front of the chat judge; ``two_orders.`` asks every choice and yes/no question
  in both orders of one request. Tokens are what the mock provider counts: texts by a quarter of
  their characters (of a decision names, words and options, and four tokens a question: what the
  providers count is not published), the image (128 pixels a side) by Gemini's published rule for
  all wires of decisions and by each provider's rule for chats. Dollars by the table of prices.
- ``accuracy.floor``: the share of the more frequent answer, which needs no judge.
- ``ece``: expected calibration error (10 bins) on the second half of the scenes after
  temperatures, by kind of fact and number of options, were fitted on the first half; ``ece.raw``
  without them.
- ``order_bias``: each choice is asked in two requests, its options the other way round in the
  second ("no visible relationship" stays last); half the summed difference of the two
  distributions, mean over choices. With ``two_orders.`` both requests ask in two orders.
- ``faults.wrong_state``: answers, under every fault of the mock providers that passes and that
  stays, that are not as they must be: equal to those without the fault where it passed or harms
  nothing, else unscored with a reason. ``faults.states`` were looked at.
- ``throughput.*``: as :mod:`benchmarks.throughput` measures the limit of requests.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from benchmarks._harness import Option, benchmark, interval, intervals, prefixed, progress
from benchmarks._mock import MockServer, picture
from benchmarks._scenes import balanced_scenes
from benchmarks.throughput import FULL, QUICK, Plan, limit_figures, ours
from benchmarks.tokens import Case, case_of
from scenewright.agents.judges.decisions.judge import decision_judge
from scenewright.agents.judges.decisions.questions import turned
from scenewright.agents.judges.remote import remote_judge
from scenewright.agents.panel.aggregation import expected_calibration_error
from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.agents.panel.rates import form_of, temper
from scenewright.core.facts import Answer, Fact
from scenewright.core.formats import load_scene
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import facts_of
from scenewright.mock_providers import Fault, MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.providers.usage import PriceTable, Usage

MODEL = "judge-a"
INSTANT = "instant"
SCENES = 120
HANGING = (Fault.TIMEOUT, Fault.SLOW_DRIP)
HARMLESS = (Fault.SHUFFLED, Fault.NO_PROBABILITY)
CONTENT = (
    *(Fault.TRUNCATED_JSON, Fault.INVALID_JSON, Fault.REFUSAL, Fault.EMPTY, Fault.OUTSIDE_OPTIONS),
    *(Fault.WRONG_NUMBER, Fault.PARTIAL_REFUSAL, Fault.SHUFFLED, Fault.NO_PROBABILITY),
)
"""Those of the reply itself, which ``--quick`` looks at alone."""
PARTIAL = (Fault.PARTIAL_REFUSAL, Fault.WRONG_NUMBER)
FACTS = facts_of(load_scene("red ball left of table; dog right of table"))


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire of decisions, and the chats of the same provider, if it has some."""

    name: str
    """In front of its figures."""
    provider: str
    """Whose format both are."""
    model: str
    """The model whose prices count for both."""
    chats: bool = True
    """Whether the provider has chat models."""

    def url(self, url: str) -> str:
        """Return the base URL at a mock server with that address."""
        return f"{url}/v1" if self.provider == "openai" else url


WIRES = (
    Wire("openai", "openai", "gpt-6-luna"),
    Wire("gemini", "gemini", "gemini-decision-1"),
    # System One, with the picture in assets and in images.
    Wire("typesafe", "typesafe", "jev-latest", chats=False),
    Wire("vllm", "vllm", "", chats=False),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What one judge said of one painting."""

    facts: tuple[Fact, ...]
    """Objects and relations of the asked scene."""
    holds: tuple[bool, ...]
    """Whether each is true of the painting."""
    answers: tuple[Answer, ...]
    """One a fact."""

    @property
    def usage(self) -> Usage:
        """Tokens of the painting."""
        return Usage(
            sum(answer.tokens_in for answer in self.answers),
            sum(answer.tokens_out for answer in self.answers),
        )

    @property
    def right(self) -> float:
        """Share of the facts with the right answer."""
        said = [answer.state == "yes" for answer in self.answers]
        return float(np.mean([a == b for a, b in zip(said, self.holds, strict=True)]))


def judges_of(wire: Wire, url: str, model: str = MODEL, key: str = "bench") -> dict[str, Judge]:
    """Return the decision judge, with one order and with two, and the chat judge behind ``url``."""
    caller = Caller("lab", priced=False)
    at = {"api_key": key, "base_url": wire.url(url)}
    found: dict[str, Judge] = {
        name: decision_judge(
            wire.provider, model, caller, overrides={"orders": orders, "image_format": "png"}, **at
        )
        for name, orders in (("", 1), ("two_orders", 2))
    }
    if wire.chats:
        found["chat"] = remote_judge(
            wire.provider, model, caller, overrides={"facts_per_call": 64}, **at
        )
    return found


async def answered(judge: Judge, image: Image.Image, facts: Sequence[Fact]) -> tuple[Answer, ...]:
    """Return the answers, none of them lost."""
    found = await judge.answer(image, facts)
    lost = [answer.reason for answer in found if answer.state == "unscored"]
    if lost:
        raise RuntimeError(f"{judge.id} unscored without a fault: {lost[0]}")
    return tuple(found)


async def compared(wire: Wire, url: str, cases: Sequence[Case]) -> dict[str, Any]:
    """Return figures of the judges of one wire on all paintings."""
    judges = judges_of(wire, url)
    rows: dict[str, list[Row]] = {name: [] for name in judges}
    bias: dict[str, list[float]] = {name: [] for name in judges if name != "chat"}
    for case in progress(cases):
        for name, judge in judges.items():
            said = await answered(judge, case.image, case.facts)
            rows[name].append(Row(case.facts, case.holds, said))
            if name != "chat":
                bias[name] += await moved(judge, case, said)
    for judge in judges.values():
        await judge.aclose()
    figures: dict[str, Any] = {}
    prices = PriceTable.load()
    for name, mine in rows.items():
        front = f"{name}." if name else ""
        figures |= intervals(
            [
                {
                    "tokens.input": row.usage.tokens_in,
                    "tokens.output": row.usage.tokens_out,
                    "accuracy": row.right,
                }
                for row in mine
            ],
            front,
        )
        total = sum((row.usage for row in mine), Usage())
        priced = (
            ("decision", f"{wire.provider}/{wire.model}")
            if name != "chat"
            else (wire.provider, wire.model)
        )
        usd = prices.usd(*priced, total)
        if usd is not None:
            figures[f"{front}usd_per_1000_images"] = 1000.0 * usd / len(mine)
        figures[f"{front}ece.raw"], figures[f"{front}ece"] = calibration_errors(mine)
    for name, found in bias.items():
        figures[f"{name}.order_bias" if name else "order_bias"] = interval(found)
    held = [holds for case in cases for holds in case.holds]
    figures["accuracy.floor"] = max(np.mean(held), 1.0 - np.mean(held))
    figures["facts_per_image"] = len(held) / len(cases)
    return figures


async def moved(judge: Judge, case: Case, said: Sequence[Answer]) -> list[float]:
    """Return how far the answers to choices move when their options are turned round."""
    choices = [(fact, one) for fact, one in zip(case.facts, said, strict=True) if one.distribution]
    asked = [fact.model_copy(update={"options": turned(fact.options)}) for fact, _ in choices]
    if not asked:
        return []
    again = await answered(judge, case.image, asked)
    found = []
    for (_, before), after in zip(choices, again, strict=True):
        one, other = before.distribution or {}, after.distribution or {}
        found.append(sum(abs(share - other[option]) for option, share in one.items()) / 2.0)
    return found


def calibration_errors(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the second half's calibration error: as given, and with the first's temperatures."""
    middle = len(rows) // 2
    labelled = [
        LabelledAnswer.of(str(at), fact, answer, holds)
        for at, row in enumerate(rows[:middle])
        for fact, answer, holds in zip(row.facts, row.answers, row.holds, strict=True)
    ]
    judge = rows[0].answers[0].judge_id
    entry = calibrate(labelled, judges={judge: "bench"}, about="first half").judge(judge)
    said, truth, warm = [], [], []
    for row in rows[middle:]:
        for fact, answer, holds in zip(row.facts, row.answers, row.holds, strict=True):
            assert answer.probability is not None
            assert fact.kind != "realism"
            said.append(answer.probability)
            truth.append(float(holds))
            warm.append(entry.rates(fact.kind, form_of(fact)).temperature)
    given, held = np.array(said), np.array(truth)
    scaled = temper(given, np.array(warm))
    return expected_calibration_error(given, held), expected_calibration_error(scaled, held)


async def faulty(
    wire: Wire, lab: ThreadedMockProviders, faults: Iterable[Fault]
) -> tuple[int, int]:
    """Return answers under ``faults`` that are not as they must be, and all that were looked at."""
    wrong = seen = 0
    image = picture(7)
    for fault in faults:
        for stays in (False, True):
            key = f"{wire.name}-{fault.value}-{stays}"
            caller = Caller(
                key,
                timeout=0.6 if fault in HANGING else 20.0,
                attempts=3,
                max_wait=1.5,
                backoff=Backoff(initial=0.01, maximum=0.05),
                priced=False,
            )
            judge = decision_judge(
                wire.provider, INSTANT, caller, api_key=key, base_url=wire.url(lab.url)
            )
            # The first request of a client takes long enough to be taken for a hanging one.
            await judge.answer(image, FACTS[:1])
            expected = await answered(judge, image, FACTS)
            lab.schedule(fault, 100 if stays else 1, key)
            found = await judge.answer(image, FACTS)
            await judge.aclose()
            await caller.aclose()
            for answer, before in zip(found, expected, strict=True):
                seen += 1
                wrong += not as_it_must_be(answer, before, fault, stays)
    return wrong, seen


def as_it_must_be(answer: Answer, before: Answer, fault: Fault, stays: bool) -> bool:
    """Return whether an answer under ``fault`` has the right state; ``before``: without it."""
    lost = answer.state == "unscored" and bool(answer.reason) and answer.probability is None
    same = (answer.state, answer.probability) == (before.state, before.probability)
    if fault is Fault.REFUSAL:
        return lost
    if fault in PARTIAL:
        return lost or same
    return same if fault in HARMLESS or not stays else lost


def throughput(wire: Wire, plan: Plan) -> dict[str, Any]:
    """Return how far the limit of requests is used, and how often it is broken."""
    facts = facts_of(load_scene("red dog left of blue ball; cat on table; person near house"))
    key = f"decisions-{wire.name}"
    judge = f"decision:{key}/{INSTANT}"
    with TemporaryDirectory(prefix="bench-decisions-") as name, MockServer(plan.limits()) as lab:
        mine = ours(lab.url, plan, key, facts, Path(name), judge, wire.provider)
        return prefixed("throughput.", limit_figures(lab, key, asyncio.run(mine)))


def measure(
    count: int, wires: Sequence[Wire], faults: Sequence[Fault], plan: Plan
) -> dict[str, Any]:
    """Return all figures of ``count`` scenes."""
    cases = [case_of(scene, at) for at, scene in enumerate(balanced_scenes(count))]
    fronts = {wire: "" if wire is wires[0] else f"{wire.name}." for wire in wires}
    figures: dict[str, Any] = {}
    wrong = seen = 0
    with serving_thread(MockSettings(drip_seconds=20.0, longest_hang=30.0)) as lab:
        for wire, front in fronts.items():
            figures |= prefixed(front, asyncio.run(compared(wire, lab.url, cases)))
            missed, looked = asyncio.run(faulty(wire, lab, faults))
            wrong, seen = wrong + missed, seen + looked
    figures |= {"faults.wrong_state": wrong, "faults.states": seen}
    for wire, front in fronts.items():
        figures |= prefixed(front, throughput(wire, plan))
    return figures


@benchmark(
    "few scenes, faults and images, one wire",
    # Two halves with one of each level.
    scenes=Option(SCENES, "scenes", least=6),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all wires."""
    if options.quick:
        return 6, measure(6, WIRES[:1], CONTENT, QUICK)
    return options.scenes, measure(options.scenes, WIRES, tuple(Fault), FULL)


if __name__ == "__main__":
    main()
