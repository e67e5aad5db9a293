"""Do the built-in profiles, the ends and the prices fit the providers as they are?

``python -m benchmarks.model_facts [--quick]``. Every built-in profile whose models are behind APIs
scores a picture and draws, judges and repairs one, against the mock, which refuses what the
providers refuse by rules written from their documents alone:

- ``profiles.broken``: commands (``score`` and ``refine`` of each profile) that fail, or leave a
  fact unscored;
- ``profiles.refused``: requests that the mock refused, whether or not they were mended;
- ``ends.missing``: models with an announced end in the SDKs' own tables, of those that had not
  ended in September 2026, which the table of facts lacks or gives another day;
- ``prices.missing``: models of the built-in profiles, the documentation and the examples without a
  known price.

``n`` is the number of commands. ``ends.known`` and ``prices.known`` are the models that were
looked up.
"""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._harness import benchmark, progress
from scenewright.config.accounts import BUILT_IN_ACCOUNTS
from scenewright.config.profiles import BUILT_IN, Profile, split_judge
from scenewright.config.settings import Settings
from scenewright.core.formats.triplets import read_scene
from scenewright.miniature.painter import paint
from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.model_facts import end_of
from scenewright.providers.usage import PriceTable
from scenewright.runs.api import refine
from scenewright.runs.scoring import score
from scripts.model_facts import GONE, sdk_ends

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/**/*.md", "examples/**/*")
SCENE = "red ball left of blue house"
_NAMED = re.compile(
    rf"(?<![\w/:.])({'|'.join(BUILT_IN_ACCOUNTS)}):([a-z][a-z0-9.-]*[a-z0-9])(?![\w*/.-]*\*)"
)
_LOG = logging.getLogger(__name__)


def api_profiles() -> list[Profile]:
    """Return the built-in profiles whose models are behind APIs."""
    return [profile for profile in BUILT_IN.values() if profile.accounts]


async def broken_of(
    profile: Profile, settings: Settings, folder: Path
) -> tuple[list[str], list[str]]:
    """Return the commands that were done with ``profile``, and why those that broke did."""
    done, broken = [], []
    image = paint(read_scene(SCENE)).image
    for command in ("score", "refine"):
        done.append(f"{command} by {profile.name}")
        try:
            if command == "score":
                given = (await score(image, SCENE, profile, settings=settings)).answers
            else:
                run = await refine(SCENE, profile, out=folder / profile.name, settings=settings)
                given = tuple(answers for each in run.rounds for answers in each.answers)
        except Exception as error:
            broken.append(f"{done[-1]}: {error}")
            continue
        unscored = {
            f"{answers.judge_id}: {answer.reason}"
            for answers in given
            for answer in answers.answers
            if answer.state == "unscored"
        }
        if unscored or not given:
            broken.append(f"{done[-1]}: {'; '.join(sorted(unscored)) or 'no answers'}")
    return done, broken


def settings_at(lab: ThreadedMockProviders) -> Settings:
    """Return settings whose built-in accounts are at the mock, at their providers' prices."""
    urls = {"openai": lab.openai_url, "gemini": lab.url, "anthropic": lab.url}
    accounts = {
        name: account.model_copy(update={"base_url": urls[name], "key_variable": "", "attempts": 2})
        for name, account in BUILT_IN_ACCOUNTS.items()
    }
    return Settings(accounts=accounts)


async def run_profiles() -> tuple[int, dict[str, Any]]:
    """Run every profile against the mock; returns the number of commands and the figures."""
    done: list[str] = []
    broken: list[str] = []
    with serving_thread(MockSettings()) as lab, tempfile.TemporaryDirectory() as folder:
        for profile in progress(api_profiles(), note="profiles"):
            ran, failed = await broken_of(profile, settings_at(lab), Path(folder))
            done += ran
            broken += failed
        refused = sum(account["rejected"] for account in lab.report()["accounts"].values())
    for line in broken:
        _LOG.warning("%s", line)
    return len(done), {"profiles.broken": len(broken), "profiles.refused": refused}


def ends_missing() -> tuple[int, list[str]]:
    """Return how many ends the SDKs announce, and the models for which the table differs."""
    ends = {model: day for model, day in sdk_ends().items() if day >= GONE}
    missing = []
    for model, day in ends.items():
        known = end_of(*model.split(":", 1))
        if known is None or known.ends != day:
            missing.append(model)
    return len(ends), missing


def named_models() -> Iterator[str]:
    """Yield the models of the built-in profiles, the documentation and the examples."""
    for profile in api_profiles():
        yield from (*profile.judges, *profile.report_judges)
        yield from filter(None, (profile.chat,))
        yield f"{profile.backend.kind}:{profile.backend.model}"
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            if page.suffix in (".md", ".toml", ".py", ".ipynb"):
                found = _NAMED.finditer(page.read_text(encoding="utf-8"))
                yield from (f"{one[1]}:{one[2]}" for one in found)


def prices_missing() -> tuple[int, list[str]]:
    """Return how many models are named, and those without a known price."""
    table = PriceTable.load()
    models = sorted(set(named_models()))
    return len(models), [model for model in models if table.price(*split_judge(model)) is None]


@benchmark("the same: it takes seconds")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Run the profiles, and look up ends and prices."""
    count, figures = asyncio.run(run_profiles())
    for name, (known, missing) in {"ends": ends_missing(), "prices": prices_missing()}.items():
        figures |= {f"{name}.missing": len(missing), f"{name}.known": known}
        if missing:
            _LOG.warning("%s missing: %s", name, ", ".join(missing))
    return count, figures


if __name__ == "__main__":
    main()
