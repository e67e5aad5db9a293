"""Processes that share an account's limits and the answers of judges through PostgreSQL.

``python -m benchmarks.shared_limits [--quick] [--server postgresql://USER@HOST:PORT]``. A lab in
another process stands for the provider: answers take 200 ms, requests over the limit get a 429. Two
processes, each of which has made one call before, begin together:

- ``shared``: each asks of its half of the images, with the setting ``shared_limits``;
- ``separate``: the same without it, each as if the account were its own;
- ``answers``: both ask of the same images, with the setting ``answers`` as well.

``reached_over_allowed``: the limit lets request n go when request n − limit is a minute old; the
minute divided by the mean age that it had. ``over_limit``: requests that the provider refused.
``lost``: images without answers. ``paid_twice``: images of ``answers`` that were paid for more than
once, ``requests_over_images`` what the lab saw of them. ``slot_after_kill``: seconds until the one
place of a killed process is another's. With ``--quick`` the provider counts over 4 s instead of a
minute, so that one late request weighs 15 times as much.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from benchmarks._lab_process import LabProcess, lab_process
from benchmarks._report import report
from benchmarks._sharing import Work, database, slot_of_the_dead, together
from scenewright.mock_providers.settings import LabSettings

SERVER = "postgresql://postgres@127.0.0.1:5432"
LATENCY = 0.2
PROCESSES = 2
CONCURRENT = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a measurement."""

    images: int
    """Images of all processes together."""
    same: int
    """Images that all processes ask of."""
    per_minute: int
    """Requests a minute that the account allows."""
    window: float
    """Seconds over which the provider counts them."""


FULL = Plan(images=600, same=200, per_minute=240, window=60.0)
QUICK = Plan(images=100, same=20, per_minute=300, window=4.0)


def works(lab: LabProcess, plan: Plan, key: str, **more: Any) -> list[Work]:
    """One piece of work a process, each of other images."""
    share = plan.images // PROCESSES
    base = {
        "lab": lab.url,
        "key": key,
        "per_minute": plan.per_minute,
        "window": plan.window,
        "concurrent": CONCURRENT,
        "images": share,
    }
    return [Work(**{**base, "first": share * n, **more}) for n in range(PROCESSES)]


def measure(plan: Plan, server: str) -> dict[str, Any]:
    """All figures."""
    figures: dict[str, Any] = {}
    settings = LabSettings(requests_per_minute=plan.per_minute, window=plan.window, latency=LATENCY)
    with database(server) as url, lab_process(settings) as lab:
        for way, limits in (("shared", url), ("separate", None)):
            did = together(works(lab, plan, way, limits=limits))
            seen = lab.account(way)
            print(f"{way}: {did}, {seen}", flush=True)
            figures |= {
                f"{way}.reached_over_allowed": seen["limit_used"],
                f"{way}.over_limit": seen["over_limit"],
                f"{way}.most_at_once": seen["most_at_once"],
                f"{way}.lost": sum(way.images for way in works(lab, plan, way, limits=limits))
                - sum(one.answered for one in did),
                f"{way}.seconds": max(one.seconds for one in did),
            }
            if seen["limit_used"] is None:
                raise RuntimeError(f"{way} sent no more requests than the limit: none was held up")
        same = {"limits": url, "answers": url, "first": 10**6, "images": plan.same}
        did = together(works(lab, plan, "answers", **same))
        seen = lab.account("answers")
        print(f"answers: {did}, {seen}", flush=True)
        figures |= {
            "answers.lost": PROCESSES * plan.same - sum(one.answered for one in did),
            "answers.paid_twice": sum(one.paid for one in did) - plan.same,
            "answers.requests_over_images": (seen["executed"] - PROCESSES) / plan.same,
            "answers.seconds": max(one.seconds for one in did),
        }
        figures["slot_after_kill"] = slot_of_the_dead(url)
    return figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few images, writes nothing")
    parser.add_argument("--server", default=SERVER, help=f"a PostgreSQL server (default: {SERVER})")
    given = parser.parse_args()
    plan = QUICK if given.quick else FULL
    report("shared_limits", plan.images, measure(plan, given.server), given.quick)


if __name__ == "__main__":
    main()
